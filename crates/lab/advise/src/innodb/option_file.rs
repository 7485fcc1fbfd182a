//! Option files of MySQL and MariaDB: `my.cnf`, and what it includes.
//!
//! The grammar is that of the MySQL 8.4 manual, "Using Option Files", and of mysys' `my_default.c`: groups in brackets, `name`, `name=value` with quotes
//! and escapes, comments with `#` or `;`, `!include FILE`, `!includedir DIRECTORY`. `my_print_defaults`, which comes with the servers, is the oracle of
//! a test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{
    listing::{self, MAX_NESTING, at_include, content},
    settings::{Setting, Settings, place},
};

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// From here on settings are of this group, in lower case.
    Group(String),
    /// A name with underscores in lower case, and its value.
    Setting(String, Option<String>),
    /// `!include`.
    File(String),
    /// `!includedir`.
    Directory(String),
}

/// The lines of an option file that say something, with their numbers.
///
/// # Errors
/// The number of a line that makes no sense, and why.
pub fn lines(bytes: &[u8]) -> Result<Vec<(u32, Line)>, (u32, String)> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    let mut in_group = false;
    if text.starts_with('\u{feff}') {
        return Err((
            1,
            "the file begins with a byte-order mark, which the server takes for a setting before any group"
                .into(),
        ));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let at = |problem: String| (number, problem);
        let line = line.trim();
        let said = match line.chars().next() {
            None | Some('#' | ';') => continue,
            Some('!') => directive(line).map_err(at)?,
            Some('[') => {
                let name = line[1..].split_once(']').ok_or_else(|| at("the group has no ]".into()))?.0;
                in_group = true;
                // A blank before the name is a part of it.
                Line::Group(name.trim_end().to_ascii_lowercase())
            }
            Some(_) if !in_group => {
                return Err(at(format!(
                    "{:?} stands before any group: the server refuses it",
                    first_word(line)
                )));
            }
            Some(_) => setting(line).map_err(at)?,
        };
        found.push((number, said));
    }
    Ok(found)
}

/// A word for messages.
fn first_word(line: &str) -> &str {
    line.split(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or(line)
}

fn directive(line: &str) -> Result<Line, String> {
    let (word, path) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let path = path.trim().to_owned();
    match word {
        _ if path.is_empty() => Err(format!("{word} names nothing")),
        "!include" => Ok(Line::File(path)),
        "!includedir" => Ok(Line::Directory(path)),
        _ => Err(format!("there is no {word}: only !include and !includedir")),
    }
}

fn setting(line: &str) -> Result<Line, String> {
    let line = without_comment(line).trim_end();
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name.trim_end(), Some(unquoted(value.trim()))),
        None => (line, None),
    };
    if name.is_empty() {
        return Err("the setting has no name".into());
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)) {
        return Err(format!("{name:?} is no name of a setting: the server does not start"));
    }
    Ok(Line::Setting(name.replace('-', "_").to_ascii_lowercase(), value))
}

/// What stands before a `#` that is not in quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('#', None) => return &line[..at],
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open && !escaped => quote = None,
            _ => {}
        }
        escaped = quote.is_some() && c == '\\' && !escaped;
    }
    line
}

/// A value without the quotes around it, and with its escapes carried out.
fn unquoted(value: &str) -> String {
    let inner = ['\'', '"'].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let mut out = String::new();
    let mut chars = inner.unwrap_or(value).chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('s') => out.push(' '),
            Some(c @ ('"' | '\'' | '\\')) => out.push(c),
            Some(c) => out.extend(['\\', c]),
            None => out.push('\\'),
        }
    }
    out
}

/// Reads an option file and all that it includes.
///
/// # Errors
/// A file or directory cannot be read, with where it is included; a line makes no sense, with its place.
pub fn read(path: &Path) -> Result<Settings> {
    let mut settings = Settings::default();
    follow(path, 0, &mut settings)?;
    match settings.ignored.first() {
        Some(why) if settings.files.is_empty() => bail!("{why}"),
        _ => Ok(settings),
    }
}

fn follow(path: &Path, depth: u32, settings: &mut Settings) -> Result<()> {
    if depth > MAX_NESTING {
        bail!("{}: files include each other more than {MAX_NESTING} deep", path.display());
    }
    if is_writable_by_all(path)? {
        settings
            .ignored
            .push(format!("{}: the server ignores it, because everybody can write to it", path.display()));
        return Ok(());
    }
    let bytes = content(path)?;
    settings.files.push(path.to_owned());
    let mut group = String::new();
    let lines =
        lines(&bytes).map_err(|(line, problem)| anyhow::anyhow!("{}: {problem}", place(path, line)))?;
    for (line, said) in lines {
        match said {
            Line::Group(name) => group = name,
            Line::Setting(name, value) => {
                let (group, file) = (group.clone(), path.to_owned());
                settings.all.push(Setting { group, name, value, switched: None, loose: false, file, line });
            }
            Line::File(name) => {
                let file = named_at(&name, (path, line), settings);
                follow(&file, depth + 1, settings).with_context(|| at_include(path, line))?;
            }
            Line::Directory(name) => {
                let named = named_at(&name, (path, line), settings);
                for file in directory(&named).with_context(|| at_include(path, line))? {
                    follow(&file, depth + 1, settings).with_context(|| at_include(path, line))?;
                }
            }
        }
    }
    Ok(())
}

/// The file or directory that a line names. The server looks for a relative name in the directory where it starts. This program looks in its own
/// directory first, and then beside the file.
fn named_at(name: &str, (path, line): (&Path, u32), settings: &mut Settings) -> PathBuf {
    let named = Path::new(name);
    if named.is_absolute() {
        return named.to_owned();
    }
    let beside = path.parent().unwrap_or(Path::new("")).join(named);
    let taken = if named.exists() || !beside.exists() { named.to_owned() } else { beside };
    settings.ignored.push(format!(
        "{}: the server looks for {name} in the directory that it is started in: {} was taken",
        place(path, line),
        taken.display()
    ));
    taken
}

/// Whether the servers ignore a file: they do so if everybody can write to it.
fn is_writable_by_all(path: &Path) -> Result<bool> {
    let meta = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(meta.is_file() && meta.permissions().mode() & 0o002 != 0)
}

/// The files of a directory that `!includedir` reads: those that end with `.cnf`, by name, as MariaDB does. MySQL promises no order.
fn directory(path: &Path) -> Result<Vec<PathBuf>> {
    listing::files(path, "cnf")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use testkit::skipped;

    fn said(text: &str) -> Vec<Line> {
        lines(text.as_bytes()).unwrap().into_iter().map(|line| line.1).collect()
    }

    fn value(line: &str) -> Option<String> {
        match &said(&format!("[mysqld]\n{line}"))[..] {
            [_, Line::Setting(_, value)] => value.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_understood_as_the_servers_do() {
        let text = "# a comment\n; another\n\n[mysqld]\n  innodb-page-size = 16k # usual\nskip-name-resolve\n!include a.cnf\n!includedir /etc/x/\n[CLIENT ] x\n[ mysqld]\nA-b=C\n";
        assert_eq!(
            said(text),
            [
                Line::Group("mysqld".into()),
                Line::Setting("innodb_page_size".into(), Some("16k".into())),
                Line::Setting("skip_name_resolve".into(), None),
                Line::File("a.cnf".into()),
                Line::Directory("/etc/x/".into()),
                Line::Group("client".into()),
                Line::Group(" mysqld".into()),
                Line::Setting("a_b".into(), Some("C".into())),
            ]
        );
        for (line, wanted) in [
            ("a=b", "b"),
            ("a = 'b # c' # d", "b # c"),
            ("a=\"b\\\" # c\"", "b\" # c"),
            ("a=x\\sy\\\\z\\q", "x y\\z\\q"),
            ("a=", ""),
            ("a='", "'"),
            ("a==b", "=b"),
            ("a=\\", "\\"),
        ] {
            assert_eq!(value(line).as_deref(), Some(wanted), "{line}");
        }
        assert_eq!(said("[mysqld]\r\na=ü\r\n").len(), 2);
        assert_eq!(lines(b"[mysqld]\n# caf\xe9\na=1").unwrap().len(), 2, "comments may be Latin-1");
    }

    #[test]
    fn lines_that_make_no_sense_are_named() {
        for (text, line, words) in [
            ("[mysqld\na=1", 1, "no ]"),
            ("\u{feff}[mysqld]\na=1", 1, "byte-order mark"),
            ("# x\na=1", 2, "before any group"),
            ("[m]\n=5", 2, "no name"),
            ("[m]\na b=5", 2, "\"a b\" is no name of a setting"),
            ("[m]\n?includedir /etc/x", 2, "is no name"),
            ("[m]\n!include", 2, "names nothing"),
            ("[m]\n!includes x", 2, "there is no !includes"),
        ] {
            let (at, problem) = lines(text.as_bytes()).unwrap_err();
            assert!(at == line && problem.contains(words), "{text:?}: {at}: {problem}");
        }
    }

    #[test]
    fn files_are_followed_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let at = dir.path().display();
        let main = file(
            "my.cnf",
            &format!(
                "[mysqld]\na=1\n!includedir {at}/conf.d\n[mysqld]\nb=1\n!include {at}/last\n!include {at}/open\n"
            ),
        );
        let open = file("open", "[mysqld]\na=7\n");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        file("conf.d/20.cnf", "[mysqld]\na=3\n");
        file("conf.d/10.cnf", "[mysqld]\na=2\nb=2\n");
        file("conf.d/30.txt", "nonsense");
        file("last", "[mysqld]\nc=4\n");
        let settings = read(&main).unwrap();
        let of = |name| settings.get(name).unwrap().value.clone().unwrap();
        assert_eq!((of("a"), of("b"), of("c")), ("3".into(), "1".into(), "4".into()));
        assert_eq!(settings.files.len(), 4);
        assert!(settings.ignored.len() == 1 && settings.ignored[0].contains("everybody can write"));
        assert!(settings.get("a").unwrap().place().ends_with("conf.d/20.cnf:2"));
        assert!(format!("{:#}", read(&open).unwrap_err()).contains("everybody can write"));
        let failure = |text: &str| format!("{:#}", read(&file("bad.cnf", text)).unwrap_err());
        assert!(failure(&format!("[m]\n!include {at}/bad.cnf")).contains("more than 10 deep"));
        let missing = failure("[m]\n!include gone");
        assert!(missing.contains("bad.cnf:2") && missing.contains("cannot read"), "{missing}");
        assert!(failure("[m]\n!includedir gone").contains("bad.cnf:2"));
        assert!(failure("x").contains("bad.cnf:1: "));
        assert!(read(&dir.path().join("none")).unwrap_err().to_string().contains("cannot read"));
    }

    /// What `my_print_defaults` of the installed server says of a file and the group mysqld; none if it refuses the file.
    fn said_by_the_server(file: &Path) -> Option<String> {
        let mut command = std::process::Command::new("my_print_defaults");
        let output =
            command.arg(format!("--defaults-file={}", file.display())).arg("mysqld").output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A line of it: a name and a value.
    fn option(line: &str) -> (String, Option<String>) {
        let option = line.strip_prefix("--").unwrap_or_else(|| panic!("{line:?}"));
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        (name.replace('-', "_").to_ascii_lowercase(), value.map(str::to_owned))
    }

    /// Files of what people write in them, through `my_print_defaults` and here.
    #[test]
    fn the_installed_server_takes_the_same() {
        if std::process::Command::new("my_print_defaults").arg("--version").output().is_err() {
            skipped("option files", "there is no my_print_defaults (Debian: mariadb-client-core)");
            return;
        }
        let words = [
            "[mysqld]",
            "[MYSQLD]",
            "[ mysqld]",
            "[mysqld ]",
            "[client]",
            "[mysqld] x",
            "\n",
            "\n",
            "\n",
            "\n",
            "\n",
            "a",
            "b-C",
            "_d",
            "=",
            "=",
            " = ",
            " ",
            "\t",
            "'",
            "\"",
            "#",
            ";",
            "x",
            "16M",
            "\\s",
            "\\\\",
            "\\t",
            "\\q",
            "\\",
            "\r\n",
            "OFF",
            "ü",
        ];
        let rounds = crate::installed_server::rounds(300);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.cnf");
        let mut both = 0;
        for seed in 0..rounds {
            let mut rng = rng::Rng::new(seed);
            let mut text = if rng.below(8) == 0 { String::new() } else { "[mysqld]\n".to_owned() };
            for _ in 0..rng.below(20) {
                text += words[rng.below(words.len() as u64) as usize];
            }
            fs::write(&path, &text).unwrap();
            let theirs = said_by_the_server(&path);
            match (read(&path), theirs) {
                (Ok(settings), Some(theirs)) => {
                    let ours = settings.all.into_iter().filter(|setting| setting.group == "mysqld");
                    let ours: Vec<_> = ours.map(|setting| (setting.name, setting.value)).collect();
                    let theirs: Vec<_> = theirs.lines().map(option).collect();
                    assert_eq!(ours, theirs, "seed {seed}: {text:?}");
                    both += 1;
                }
                (Ok(_), None) => panic!("seed {seed}: the server refuses {text:?}"),
                // Names that no setting has are passed on there, and end the server when it looks for them.
                (Err(error), Some(_)) => {
                    let error = format!("{error:#}");
                    assert!(error.contains("name"), "seed {seed}: {text:?}: {error}");
                }
                (Err(_), None) => {}
            }
        }
        assert!(both > rounds / 4, "{both} of {rounds} were read by both");
    }

    #[test]
    fn any_bytes_are_a_configuration_or_an_error() {
        let words: [&[u8]; 14] = [
            b"[mysqld]\n",
            b"[",
            b"]",
            b"!include ",
            b"!includedir",
            b"a",
            b"=",
            b"'",
            b"\"",
            b"\\",
            b"#",
            b"\n",
            b"\xff\xc3",
            b" \t",
        ];
        for seed in 0..20_000u64 {
            let mut rng = rng::Rng::new(seed);
            let mut bytes = Vec::new();
            for _ in 0..rng.below(24) {
                match rng.below(4) {
                    0 => bytes.push(rng.below(256) as u8),
                    _ => bytes.extend_from_slice(words[rng.below(words.len() as u64) as usize]),
                }
            }
            let lines_there = String::from_utf8_lossy(&bytes).lines().count() as u32;
            match lines(&bytes) {
                Ok(found) => {
                    assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "seed {seed}");
                    let named = |line: &Line| !matches!(line, Line::Setting(name, _) if name.is_empty());
                    assert!(found.iter().all(|(at, line)| *at <= lines_there && named(line)), "seed {seed}");
                }
                Err((at, problem)) => {
                    assert!((1..=lines_there).contains(&at) && !problem.is_empty(), "seed {seed}");
                }
            }
        }
    }
}
