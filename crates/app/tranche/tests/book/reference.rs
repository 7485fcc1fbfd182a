//! `cli.md` of the book: the help of every command.

use crate::write_generated;
use clap::Command;
use std::collections::BTreeSet;
use std::fmt::Write;

fn page(command: &mut Command, path: &str, out: &mut String) {
    let _ =
        writeln!(out, "\n## {path}\n\n```text\n{}\n```", command.render_long_help().to_string().trim_end());
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        page(sub, &path, out);
    }
}

/// The page of conventions, which people write.
fn conventions() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/commands.md")).unwrap()
}

fn reference() -> String {
    let mut out =
        "# Options of each command\n\nWhat `--help` prints. [Conventions](commands.md) hold for all commands.\n".to_owned();
    let mut root = tranche::command().term_width(100);
    root.build();
    page(&mut root, "tranche", &mut out);
    out
}

#[test]
fn the_reference_has_every_command() {
    let page = reference();
    let mut found = Vec::new();
    let mut root = tranche::command();
    root.build();
    options(&root, "tranche", &mut found);
    let paths: BTreeSet<&String> = found.iter().map(|(_, _, path)| path).collect();
    assert!(paths.len() > 60, "{}", paths.len());
    for path in paths {
        assert!(page.contains(&format!("\n## {path}\n")), "{path} is not in the reference");
    }
    write_generated("cli.md", &page);
}

/// Each feature that is said to be here has its test.
#[test]
fn docs_features_md_names_tests_that_exist() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");
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
    tranche::command().debug_assert();
}

/// The long options of a command and of those below it, each with what it takes: the name of a value, or nothing.
fn options(command: &Command, path: &str, found: &mut Vec<(String, String, String)>) {
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        let Some(long) = option.get_long() else { continue };
        let takes = option.get_action().takes_values();
        let value =
            option.get_value_names().filter(|_| takes).map(|names| names.join(" ")).unwrap_or_default();
        // One of several, or several of one: the same meaning.
        let value = value.replace("N,…", "N").replace("A,B,…", "A,B");
        found.push((long.to_owned(), value, path.to_owned()));
    }
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        options(sub, &format!("{path} {}", sub.get_name()), found);
    }
}

/// A word means the same in every command, and what the table of conventions says.
#[test]
fn an_option_has_one_meaning() {
    let mut root = tranche::command();
    root.build();
    let mut found = Vec::new();
    options(&root, "tranche", &mut found);
    let mut first = std::collections::BTreeMap::new();
    let mut others = Vec::new();
    for (long, value, path) in &found {
        let (meaning, where_) = first.entry(long).or_insert((value, path));
        if *meaning != value {
            others.push(format!("--{long} {meaning} of `{where_}`, {value} of `{path}`"));
        }
    }
    assert_eq!(others, Vec::<String>::new());
    let conventions = conventions();
    let rows = conventions.lines().filter_map(|row| row.strip_prefix("| `--")?.split_once('`'));
    let mut held = 0;
    for (row, _) in rows {
        let row = row.replace('\\', "");
        let (long, value) = row.split_once(' ').unwrap_or((&row, ""));
        let of: Vec<_> = found.iter().filter(|(name, ..)| name == long).collect();
        assert!(!of.is_empty(), "no command has --{long}, which is in the table");
        for (_, has, path) in of {
            assert_eq!(has, value, "--{long} of `{path}`");
        }
        held += 1;
    }
    assert!(held >= 9, "the table has {held} options");
}

/// Words that have been replaced still work, and no help shows them.
#[test]
fn words_of_before_are_understood() {
    for line in [
        "ns create --set 2 --size 1MiB",
        "ns create --zoned --size 64MiB --zrwa 4",
        "id --namespace 1",
        "smart --namespace 1",
        "smart --set 1",
        "fault program-failure --set 1 --one-in 100",
        "power-cut --off-ms 100",
        "fault port-down 1 --for-ms 100",
        "key tls --out FILE",
        "firmware 2.0 --out FILE --contents FILE",
        "profile fit --out FILE",
        "sim JOB.fio --threads 2 --cache DIR --device 1=1",
        "advise MY.CNF --profile default --full 90 --cache DIR",
        "ui --token FILE",
        "cache serve --origin a --cache b --metadata c --fuse DIR --set migration_threshold=1",
        "study doublewrite --threads 4 --profile default",
        "study powercut --threads 4 --profile default",
        "study quota --profile default",
        "study namespaces --profile default",
        "study zoned --profile default",
        "study zoned --live --cache 32MiB",
        "study cache --file 4GiB",
        "study oltp --pool 8GiB --threads 32",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let parsed = tranche::command().try_get_matches_from(["tranche"].iter().chain(&words));
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
}
