//! `docs/cli.md`: the help of every command, kept fresh by a test.

use crate::args::Cli;
use clap::{Command, CommandFactory};
use std::fmt::Write;

fn page(command: &mut Command, path: &str, out: &mut String) {
    let _ =
        writeln!(out, "\n## {path}\n\n```text\n{}\n```", command.render_long_help().to_string().trim_end());
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        page(sub, &path, out);
    }
}

const CONVENTIONS: &str = r#"
## Conventions

| word | meaning everywhere |
|---|---|
| a name or number right after the command | what the command is about: `tranche ns delete 3`, `tranche profile show qlc-7.68t`, `tranche bench JOB.fio` |
| `--drive NAME\|FILE` | the drive that is modelled: a profile, or a TOML file |
| `--on ADDR` | the drive that is talked to. It stands behind the command, or before all commands (`tranche --on unix:///run/d.sock ns list`), or in `TRANCHE_ON` |
| `--nsid NSID` | a namespace, where the command is about something else |
| `--nvm-set N` | an NVM Set, which is a medium of the drive |
| `--set KEY=A,B` | a value, or several to try in turn, of the drive's TOML |
| `--connections N` | clients of the database in a study |
| `--parallel N` | simulations that run at the same time |
| `--out DIR` | the directory of the results. Results of an earlier run stay unless `--force` is given: without `--out` they go to the first free number, as in `out/sim-2` |
| `--file FILE` | the one file that a command writes |
| `--cache-dir DIR` | where prepared drives are kept for the next run |
| `--buffer-pool SIZE` | the cache of a database server |
| `results: PATH` | the last line on standard error of a command that writes files: where they are. In JSON it is the field `results` |
| `--force` | yes, what is there may be lost |
| `--resume` | continue the work whose results are in `--out` |

A quantity is a number and its unit, with or without a space, here as in a drive's TOML and in layouts. `m` and `M` are different letters:

| kind | written as |
|---|---|
| size | `64MiB`, `1.5GB`, or a number of bytes. Units: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024) |
| rate | a size with `/s`: `3.2GB/s`, `400MiB/s` |
| time | `60us`, `1.5ms`, `90s`, `2min`. Units: ns, us (or µs), ms, s, min, h, d. Options whose default is in whole seconds, hours or milliseconds also take a number without a unit |
| percentage | `12.5%` |

Load files of fio have fio's own grammar.

Results go to standard output, everything else to standard error. The exit code tells errors apart:

| code | meaning | `kind` in JSON |
|---|---|---|
| 0 | success | |
| 1 | failure: a file, a program, this machine, work that a signal ended, a namespace of another kind than the command is for, a namespace without a store | `failed` |
| 2 | a command line that makes no sense | `usage` |
| 3 | no drive can be reached, or none that lets this host in | `no_drive` |
| 4 | the drive answers a command with an error, or lacks the namespace that is named | `nvme` |
| 5 | a check fails: damage in an image, I/Os of `bench` that fail or do not verify, a layout that loses data, a drive that misses its data sheet, a failed sanitize operation | `check` |
| 130 | a second signal | |
| 143, 130 or 129 | a SIGTERM, SIGINT or SIGHUP before the work began, as while the command waits for its input | |

With `--output json` a command prints one JSON document, with the keys of nvme-cli where nvme-cli has the same command:
[each field of each command](json.md). An error is one JSON object in the last line of standard error:

```json
{"error":{"exit_code":4,"kind":"nvme","message":"…","status":{"dnr":true,"sc":2,"sct":0,"text":"…"}}}
```

`hint` is there where the program knows what to do, and `status` where a drive answered.
`tranche completions SHELL` prints completions, and `tranche man DIR` writes manual pages.
"#;

fn reference() -> String {
    let mut out =
        "# The command line\n\nGenerated from the program; `UPDATE=1 cargo test -p tranche` writes it anew.\n".to_owned();
    out += CONVENTIONS;
    let mut root = Cli::command().term_width(100);
    root.build();
    page(&mut root, "tranche", &mut out);
    out
}

#[test]
fn docs_cli_md_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/cli.md");
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
    Cli::command().debug_assert();
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
    let mut root = Cli::command();
    root.build();
    let mut found = Vec::new();
    options(&root, "tranche", &mut found);
    let mut first = std::collections::BTreeMap::new();
    for (long, value, path) in &found {
        let (meaning, where_) = first.entry(long).or_insert((value, path));
        assert_eq!(*meaning, value, "--{long} of `{where_}` and of `{path}`");
    }
    let rows = CONVENTIONS.lines().filter_map(|row| row.strip_prefix("| `--")?.split_once('`'));
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
        let parsed = Cli::command().try_get_matches_from(["tranche"].iter().chain(&words));
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
}
