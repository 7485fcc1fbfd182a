//! PostgreSQL's configuration files: `postgresql.conf`, what it includes, and `postgresql.auto.conf`.
//!
//! The grammar is that of PostgreSQL's documentation, "Setting Parameters", and of its `guc-file.l`: `name = value` with an optional `=`, values in single
//! quotes with escapes, comments with `#`, and `include`, `include_if_exists` and `include_dir`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{
    listing::{self, MAX_NESTING, at_include, content},
    settings::{Setting, Settings, place},
};

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A name in lower case, and its value.
    Setting(String, String),
    /// `include`, and `include_if_exists`, which may be missing.
    File {
        /// The file.
        path: String,
        /// Whether it must be there.
        must: bool,
    },
    /// `include_dir`.
    Directory(String),
}

/// The lines of a configuration file that say something, with their numbers.
///
/// # Errors
/// The number of a line that makes no sense, and why.
pub fn lines(bytes: &[u8]) -> Result<Vec<(u32, Line)>, (u32, String)> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        if let Some(said) = self::line(line).map_err(|problem| (number, problem))? {
            found.push((number, said));
        }
    }
    Ok(found)
}

const SPACE: [char; 3] = [' ', '\t', '\r'];

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

/// Whether it is a name of a setting, or a part of one.
fn is_word(text: &str) -> bool {
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn line(line: &str) -> Result<Option<Line>, String> {
    let rest = line.trim_start_matches(SPACE);
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(None);
    }
    let wrong = |rest: &str| {
        let word: String = rest.chars().take_while(|c| !SPACE.contains(c)).take(40).collect();
        format!("the server does not understand {word:?} here")
    };
    if rest.starts_with('\u{feff}') {
        return Err("the file begins with a byte-order mark, which the server takes for a letter of a name"
            .to_owned());
    }
    if !rest.starts_with(is_letter) {
        return Err(wrong(rest));
    }
    let end = rest.find(|c: char| !is_letter(c) && !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    if !is_word(name) && !name.split_once('.').is_some_and(|(class, name)| is_word(class) && is_word(name)) {
        return Err(wrong(name));
    }
    let rest = rest.trim_start_matches(SPACE);
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start_matches(SPACE);
    if rest.is_empty() || rest.starts_with('#') {
        return Err(format!("{name} has no value"));
    }
    let (value, rest) = match rest.strip_prefix('\'') {
        Some(inner) => quoted(inner).ok_or_else(|| format!("the value of {name} has no closing quote"))?,
        None => {
            bare(rest).ok_or_else(|| format!("{} (put the value of {name} in single quotes)", wrong(rest)))?
        }
    };
    let rest = rest.trim_start_matches(SPACE);
    if !rest.is_empty() && !rest.starts_with('#') {
        return Err(format!("{} (put the value of {name} in single quotes)", wrong(rest)));
    }
    let name = name.to_ascii_lowercase();
    let named = |value: String| match value.is_empty() {
        true => Err(format!("{name} names nothing")),
        false => Ok(value),
    };
    Ok(Some(match &*name {
        "include" => Line::File { path: named(value)?, must: true },
        "include_if_exists" => Line::File { path: named(value)?, must: false },
        "include_dir" => Line::Directory(named(value)?),
        _ => Line::Setting(name, value),
    }))
}

/// What stands before the closing quote, with escapes carried out, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if chars.peek().is_some_and(|next| next.1 == '\'') => {
                chars.next();
                out.push('\'');
            }
            '\'' => return Some((out, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                't' => out.push('\t'),
                first @ '0'..='7' => {
                    let mut code = u32::from(first) - u32::from('0');
                    for _ in 0..2 {
                        let Some(digit) = chars.peek().and_then(|next| next.1.to_digit(8)) else { break };
                        code = code * 8 + digit;
                        chars.next();
                    }
                    out.push(char::from_u32(code & 0xFF).unwrap_or(' '));
                }
                other => out.push(other),
            },
            c => out.push(c),
        }
    }
    None
}

/// A value without quotes, and what follows it: a word that begins with a letter, or a number, perhaps with letters behind it.
fn bare(text: &str) -> Option<(String, &str)> {
    let split = |end: usize| Some((text[..end].to_owned(), &text[end..]));
    let until = |text: &str, of: &dyn Fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
    if text.starts_with(is_letter) {
        let end = until(text, &|c| is_letter(c) || c.is_ascii_digit() || "-._:/".contains(c));
        // The server takes two words with a dot between for the name of a setting.
        let is_name =
            text[..end].split_once('.').is_some_and(|(class, name)| is_word(class) && is_word(name));
        return (!is_name).then(|| split(end)).flatten();
    }
    let sign = usize::from(text.starts_with(['+', '-']));
    let number = &text[sign..];
    if let Some(hex) = number.strip_prefix("0x") {
        let digits = until(hex, &|c| c.is_ascii_hexdigit());
        let end = digits + until(&hex[digits..], &|c| c.is_ascii_alphabetic());
        return (digits > 0).then(|| split(sign + 2 + end)).flatten();
    }
    let whole = until(number, &|c| c.is_ascii_digit());
    match number[whole..].strip_prefix('.') {
        // A number with a fraction has no unit without quotes.
        Some(fraction) => {
            let mut end = whole + 1 + until(fraction, &|c| c.is_ascii_digit());
            if let Some(exponent) = number[end..].strip_prefix(['e', 'E']) {
                let sign = usize::from(exponent.starts_with(['+', '-']));
                let digits = until(&exponent[sign..], &|c| c.is_ascii_digit());
                end += if digits > 0 { 1 + sign + digits } else { 0 };
            }
            split(sign + end)
        }
        None if whole > 0 => split(sign + whole + until(&number[whole..], &|c| c.is_ascii_alphabetic())),
        None => None,
    }
}

/// The name of the file that `ALTER SYSTEM` writes.
const AUTO: &str = "postgresql.auto.conf";

/// A configuration with all that the server reads.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Files {
    /// The settings, the last of which counts.
    pub settings: Settings,
    /// The data directory: that of the file unless it says another.
    pub data: PathBuf,
    /// Why the file of `ALTER SYSTEM` was not read, if it may be there.
    pub unread: Option<String>,
}

/// Reads a configuration, all that it includes, and then the file of `ALTER SYSTEM` in the data directory.
///
/// # Errors
/// A file or directory cannot be read, with where it is included; a line makes no sense, with its place.
pub fn read(path: &Path) -> Result<Files> {
    let mut settings = Settings::default();
    follow(path, 0, &mut settings)?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let said = settings.get("data_directory").and_then(|setting| setting.value.clone());
    let data = said.filter(|said| !said.is_empty()).map_or(beside.to_owned(), |said| beside.join(said));
    let auto = data.join(AUTO);
    let unread = match listing::is_there(&auto) {
        Ok(true) if auto != path => {
            follow(&auto, 0, &mut settings)?;
            None
        }
        Ok(_) => None,
        Err(error) => Some(format!("what ALTER SYSTEM has set: {} cannot be read ({error})", auto.display())),
    };
    Ok(Files { settings, data, unread })
}

fn follow(path: &Path, depth: u32, settings: &mut Settings) -> Result<()> {
    if depth > MAX_NESTING {
        bail!("{}: files include each other more than {MAX_NESTING} deep", path.display());
    }
    let bytes = content(path)?;
    settings.files.push(path.to_owned());
    let lines =
        lines(&bytes).map_err(|(line, problem)| anyhow::anyhow!("{}: {problem}", place(path, line)))?;
    let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
    for (line, said) in lines {
        match said {
            Line::Setting(name, value) => settings.all.push(Setting {
                group: String::new(),
                name,
                value: Some(value),
                switched: None,
                loose: false,
                file: path.to_owned(),
                line,
            }),
            Line::File { path: name, must } => {
                let file = beside(&name);
                if must || file.exists() {
                    follow(&file, depth + 1, settings).with_context(|| at_include(path, line))?;
                }
            }
            Line::Directory(name) => {
                for file in listing::files(&beside(&name), "conf").with_context(|| at_include(path, line))? {
                    follow(&file, depth + 1, settings).with_context(|| at_include(path, line))?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn value(text: &str) -> String {
        match &lines(text.as_bytes()).unwrap()[..] {
            [(_, Line::Setting(_, value))] => value.clone(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn lines_are_understood_as_the_server_does() {
        for (line, wanted) in [
            ("a = b", "b"),
            ("a b", "b"),
            ("\ta=b\r", "b"),
            ("a = 'it''s # \\'quoted\\'' # so", "it's # 'quoted'"),
            ("a = '\\101\\n\\q'", "A\nq"),
            ("a = ''", ""),
            ("shared_buffers = 128MB# no space", "128MB"),
            ("a = 0x1FkB", "0x1FkB"),
            ("a = -1", "-1"),
            ("a = 0.9", "0.9"),
            ("a = .5e-3", ".5e-3"),
            ("a = 5.", "5."),
            ("a = on", "on"),
            ("a = 'pg_catalog.english'", "pg_catalog.english"),
            ("a = a.b.c", "a.b.c"),
            ("my.own = 'x'", "x"),
        ] {
            assert_eq!(value(line), wanted, "{line}");
        }
        let text = "# comment\n\nFsync = off\ninclude 'a.conf'\ninclude_if_exists = 'b.conf'\ninclude_dir 'conf.d'\n";
        assert_eq!(
            lines(text.as_bytes()).unwrap(),
            [
                (3, Line::Setting("fsync".into(), "off".into())),
                (4, Line::File { path: "a.conf".into(), must: true }),
                (5, Line::File { path: "b.conf".into(), must: false }),
                (6, Line::Directory("conf.d".into())),
            ]
        );
        assert_eq!(lines(b"# caf\xe9\na=1").unwrap().len(), 1, "comments may be Latin-1");
    }

    #[test]
    fn lines_that_make_no_sense_are_named() {
        for (text, line, words) in [
            ("[mysqld]\na=1", 1, "does not understand \"[mysqld]\""),
            ("a=1\n=5", 2, "does not understand"),
            ("a", 1, "a has no value"),
            ("a = # x", 1, "a has no value"),
            ("a = 'b", 1, "no closing quote"),
            ("a = 'b\\", 1, "no closing quote"),
            ("a = 1.5GB", 1, "single quotes"),
            ("a = /var/lib", 1, "single quotes"),
            ("a = pg_catalog.english", 1, "single quotes"),
            ("\u{feff}a = 1", 1, "byte-order mark"),
            ("a = b c", 1, "does not understand \"c\""),
            ("a = 'b''c' d", 1, "does not understand \"d\""),
            ("a.b.c = 1", 1, "does not understand"),
            ("a. = 1", 1, "does not understand"),
            ("a = = b", 1, "does not understand"),
            ("include ''", 1, "names nothing"),
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
        let main = file(
            "etc/postgresql.conf",
            "data_directory = '../data'\na = 1\ninclude_dir 'conf.d'\nb = 1\ninclude last\ninclude_if_exists 'none'\nd = 1\n",
        );
        file("etc/conf.d/20.conf", "a = 3\n");
        file("etc/conf.d/10.conf", "a = 2\nb = 2\n");
        file("etc/conf.d/.hidden.conf", "a = 9\n");
        file("etc/conf.d/30.txt", "= nonsense");
        file("etc/last", "c = 4\n");
        file("data/postgresql.auto.conf", "d = 5\n");
        let read_it = read(&main).unwrap();
        let of = |name| read_it.settings.get(name).unwrap().value.clone().unwrap();
        assert_eq!((of("a"), of("b"), of("c"), of("d")), ("3".into(), "1".into(), "4".into(), "5".into()));
        assert!(read_it.settings.files.len() == 5 && read_it.unread.is_none());
        assert!(read_it.settings.get("a").unwrap().place().ends_with("conf.d/20.conf:1"));
        let failure = |text: &str| format!("{:#}", read(&file("bad.conf", text)).unwrap_err());
        assert!(failure("include 'bad.conf'").contains("more than 10 deep"));
        let missing = failure("a = 1\ninclude 'gone'");
        assert!(missing.contains("bad.conf:2") && missing.contains("cannot read"), "{missing}");
        assert!(failure("include_dir 'gone'").contains("bad.conf:1"));
        assert!(failure("x").contains("bad.conf:1: "));
        // Beside the file, if that says no data directory; read once.
        let auto = file("one/postgresql.auto.conf", "a = 7\n");
        let beside = read(&file("one/postgresql.conf", "a = 1\n")).unwrap();
        assert_eq!(beside.settings.get("a").unwrap().value.as_deref(), Some("7"));
        assert_eq!(read(&auto).unwrap().settings.files.len(), 1);
    }

    #[test]
    fn any_bytes_are_a_configuration_or_an_error() {
        let words: [&[u8]; 16] = [
            b"include ",
            b"include_dir",
            b"a",
            b"=",
            b"'",
            b"''",
            b"\\",
            b"#",
            b"\n",
            b"\xff\xc3",
            b" \t",
            b"1",
            b".",
            b"e-",
            b"0x",
            b"kB",
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
            let lines_there = String::from_utf8_lossy(&bytes).split('\n').count() as u32;
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
