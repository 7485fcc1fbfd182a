//! Option files of MySQL and MariaDB: `my.cnf`, and what it includes.
//!
//! The grammar is that of the MySQL 8.4 manual, "Using Option Files", and of mysys' `my_default.c`: groups in brackets, `name`, `name=value` with quotes
//! and escapes, comments with `#` or `;`, `!include FILE`, `!includedir DIRECTORY`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::advise::{
    listing::{self, DEEPEST, at_include, content},
    settings::{Setting, Settings, place},
};

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// From here on settings are of this group.
    Group(String),
    /// A name with underscores, and its value.
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
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut found = Vec::new();
    let mut in_group = false;
    for (number, line) in (1..).zip(text.lines()) {
        let at = |problem: String| (number, problem);
        let line = line.trim();
        let said = match line.chars().next() {
            None | Some('#' | ';') => continue,
            Some('!') => directive(line).map_err(at)?,
            Some('[') => {
                let name = line[1..].split_once(']').ok_or_else(|| at("the group has no ]".into()))?.0;
                in_group = true;
                Line::Group(name.trim().to_owned())
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
    Ok(Line::Setting(name.replace('-', "_"), value))
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
    Ok(settings)
}

fn follow(path: &Path, depth: u32, settings: &mut Settings) -> Result<()> {
    if depth > DEEPEST {
        bail!("{}: files include each other more than {DEEPEST} deep", path.display());
    }
    let bytes = content(path)?;
    settings.files.push(path.to_owned());
    let mut group = String::new();
    let lines =
        lines(&bytes).map_err(|(line, problem)| anyhow::anyhow!("{}: {problem}", place(path, line)))?;
    let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
    for (line, said) in lines {
        match said {
            Line::Group(name) => group = name,
            Line::Setting(name, value) => {
                settings.all.push(Setting { group: group.clone(), name, value, file: path.to_owned(), line });
            }
            Line::File(name) => {
                follow(&beside(&name), depth + 1, settings).with_context(|| at_include(path, line))?;
            }
            Line::Directory(name) => {
                for file in directory(&beside(&name)).with_context(|| at_include(path, line))? {
                    follow(&file, depth + 1, settings).with_context(|| at_include(path, line))?;
                }
            }
        }
    }
    Ok(())
}

/// The files of a directory that `!includedir` reads: those that end with `.cnf`, by name, as MariaDB does. MySQL promises no order.
fn directory(path: &Path) -> Result<Vec<PathBuf>> {
    listing::files(path, "cnf")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
        let text = "# a comment\n; another\n\n[mysqld]\n  innodb-page-size = 16k # usual\nskip-name-resolve\n!include a.cnf\n!includedir /etc/x/\n[ client ]\n";
        assert_eq!(
            said(text),
            [
                Line::Group("mysqld".into()),
                Line::Setting("innodb_page_size".into(), Some("16k".into())),
                Line::Setting("skip_name_resolve".into(), None),
                Line::File("a.cnf".into()),
                Line::Directory("/etc/x/".into()),
                Line::Group("client".into()),
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
        assert_eq!(said("\u{feff}[mysqld]\r\nä=ü\r\n").len(), 2);
        assert_eq!(lines(b"[mysqld]\n# caf\xe9\na=1").unwrap().len(), 2, "comments may be Latin-1");
    }

    #[test]
    fn lines_that_make_no_sense_are_named() {
        for (text, line, words) in [
            ("[mysqld\na=1", 1, "no ]"),
            ("# x\na=1", 2, "before any group"),
            ("[m]\n=5", 2, "no name"),
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
        let main = file("my.cnf", "[mysqld]\na=1\n!includedir conf.d\n[mysqld]\nb=1\n!include last\n");
        file("conf.d/20.cnf", "[mysqld]\na=3\n");
        file("conf.d/10.cnf", "[mysqld]\na=2\nb=2\n");
        file("conf.d/30.txt", "nonsense");
        file("last", "[mysqld]\nc=4\n");
        let settings = read(&main).unwrap();
        let of = |name| settings.get(name).unwrap().value.clone().unwrap();
        assert_eq!((of("a"), of("b"), of("c")), ("3".into(), "1".into(), "4".into()));
        assert_eq!(settings.files.len(), 4);
        assert!(settings.get("a").unwrap().place().ends_with("conf.d/20.cnf:2"));
        let failure = |text: &str| format!("{:#}", read(&file("bad.cnf", text)).unwrap_err());
        assert!(failure("[m]\n!include bad.cnf").contains("more than 10 deep"));
        let missing = failure("[m]\n!include gone");
        assert!(missing.contains("bad.cnf:2") && missing.contains("cannot read"), "{missing}");
        assert!(failure("[m]\n!includedir gone").contains("bad.cnf:2"));
        assert!(failure("x").contains("bad.cnf:1: "));
        assert!(read(&dir.path().join("none")).unwrap_err().to_string().contains("cannot read"));
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
