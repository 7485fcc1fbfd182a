//! The header says what the library has: the same functions with as many arguments, and the same numbers. It is plain C.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use tranche_store::Code;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Functions with the numbers of their arguments: what follows a name that begins with `tranche_`, up to the parenthesis that closes it.
fn functions(text: &str, before: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices(before) {
        let rest = &text[at + before.len()..];
        let Some((name, rest)) = rest.split_once('(') else { continue };
        let is_name = name.starts_with("tranche_") && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if is_name {
            let arguments = rest.split(')').next().unwrap().split(',').map(str::trim);
            found.insert(name.to_owned(), arguments.filter(|one| !one.is_empty() && *one != "void").count());
        }
    }
    found
}

/// The header without comments.
fn header() -> String {
    let text = read("include/tranche_store.h");
    let mut parts = text.split("/*");
    let first = parts.next().unwrap().to_owned();
    first + &parts.map(|part| part.split_once("*/").unwrap().1).collect::<String>()
}

#[test]
fn header_and_library_have_the_same_functions() {
    let header = header().replace('*', " ");
    let declared = functions(&header, " ");
    let library = functions(&read("src/ffi.rs"), "extern \"C\" fn ");
    assert!(library.len() > 20, "{library:?}");
    assert_eq!(declared, library);
}

#[test]
fn codes_have_the_numbers_of_the_header() {
    let header = header();
    let number = |name: &str| {
        let rest = header.split(&format!("{name} = ")).nth(1).unwrap_or_else(|| panic!("{name}"));
        rest.split([',', '\n', ' ']).next().unwrap().parse::<i32>().unwrap()
    };
    for (code, name) in [
        (Code::NotFound, "TRANCHE_NOT_FOUND"),
        (Code::Exists, "TRANCHE_EXISTS"),
        (Code::NotDirectory, "TRANCHE_NOT_DIRECTORY"),
        (Code::IsDirectory, "TRANCHE_IS_DIRECTORY"),
        (Code::NotEmpty, "TRANCHE_NOT_EMPTY"),
        (Code::Invalid, "TRANCHE_INVALID"),
        (Code::NoSpace, "TRANCHE_NO_SPACE"),
        (Code::Busy, "TRANCHE_BUSY"),
        (Code::Failed, "TRANCHE_FAILED"),
    ] {
        assert_eq!(code as i32, number(name), "{name}");
    }
    assert_eq!(number("TRANCHE_BUG"), 10);
}

#[test]
fn the_header_is_plain_c() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/tranche_store.h");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"]);
    let output = compiler.arg(header).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
