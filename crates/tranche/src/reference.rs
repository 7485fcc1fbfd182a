//! `docs/cli.md`: the help of every command, kept fresh by a test.

use crate::args::Cli;
use clap::{Command, CommandFactory};
use std::fmt::Write;

fn page(command: &mut Command, path: &str, out: &mut String) {
    let _ =
        writeln!(out, "\n## {path}\n\n```text\n{}\n```", command.render_long_help().to_string().trim_end());
    for sub in command.get_subcommands_mut() {
        let path = format!("{path} {}", sub.get_name());
        page(sub, &path, out);
    }
}

fn reference() -> String {
    let mut out =
        "# The command line\n\nGenerated from the program; `UPDATE=1 cargo test -p tranche` writes it \
                   anew.\n"
            .to_owned();
    let mut root = Cli::command().term_width(100);
    root.build();
    page(&mut root, "tranche", &mut out);
    out
}

#[test]
fn docs_cli_md_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let fresh = reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    if kept != fresh {
        let line = kept.lines().zip(fresh.lines()).find(|(a, b)| a != b);
        panic!("docs/cli.md is not fresh (UPDATE=1 cargo test -p tranche writes it): {line:?}");
    }
}

/// Each feature that is said to be here has its test.
#[test]
fn docs_features_md_names_tests_that_exist() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let text = std::fs::read_to_string(format!("{docs}/features.md")).unwrap();
    let mut found = 0;
    for line in text.lines().filter(|line| line.starts_with('[') && line.contains("]: ")) {
        let (label, target) = line.split_once("]: ").unwrap();
        let (file, function) = target.split_once(" \"").unwrap_or_else(|| panic!("no test: {line}"));
        let test = format!("fn {}()", function.trim_end_matches('"'));
        let source = std::fs::read_to_string(format!("{docs}/{file}")).unwrap_or_default();
        assert!(source.contains(&test), "there is no such test: {line}");
        assert!(text.contains(&format!("]{label}]")), "nothing refers to {line}");
        found += 1;
    }
    let used = text.matches("][").count();
    assert_eq!(used, found, "links without a test");
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}
