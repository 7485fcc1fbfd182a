//! What all commands have in common: where they look for a drive, how they end, what they say of errors.

mod common;

use common::{SMALL_DRIVE, SMALL_STUDY, Served, TRANCHE, at, text};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

fn tranche(args: &[&str]) -> Output {
    Command::new(TRANCHE).env_remove("TRANCHE_ON").args(args).output().unwrap()
}

/// A drive on a Unix socket, and its address. Both directory and drive go with it.
struct Drive {
    _served: Served,
    on: String,
    dir: tempfile::TempDir,
}

fn drive() -> Drive {
    let dir = tempfile::tempdir().unwrap();
    let socket = at(dir.path(), "s");
    Drive { _served: Served::start(&["--unix", &socket]), on: format!("unix://{socket}"), dir }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// The error that a command with `--output json` says.
fn error_of(output: &Output) -> Value {
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    let last = said.lines().last().unwrap();
    serde_json::from_str::<Value>(last).unwrap_or_else(|e| panic!("{e}: {said}"))["error"].take()
}

#[test]
fn a_drive_is_found_by_the_command_what_stands_before_it_or_the_environment() {
    let drive = drive();
    let (here, nowhere) = (drive.on.clone(), format!("unix://{}", at(drive.dir.path(), "nothing")));
    let with = |variable: &str, args: &[&str]| {
        Command::new(TRANCHE).env("TRANCHE_ON", variable).args(args).output().unwrap()
    };
    for (output, found) in [
        (tranche(&["ns", "list", "--on", &here]), true),
        (tranche(&["--on", &here, "ns", "list"]), true),
        (with(&here, &["ns", "list"]), true),
        (with(&nowhere, &["--on", &here, "ns", "list"]), true),
        (with(&nowhere, &["--on", &nowhere, "ns", "list", "--on", &here]), true),
        (with(&here, &["--on", &nowhere, "ns", "list"]), false),
        (with(&here, &["ns", "list", "--on", &nowhere]), false),
    ] {
        assert_eq!(code(&output), if found { 0 } else { 3 }, "{}", text(&output.stderr));
    }
    assert_eq!(code(&with("ftp://somewhere", &["ns", "list"])), 2);
}

#[test]
fn exit_codes_and_json_errors_tell_what_went_wrong() {
    let drive = drive();
    let (dir, on) = (drive.dir.path(), drive.on.clone());
    let job = at(dir, "never.fio");
    let missing = at(dir, "no-image");
    let nowhere = format!("unix://{}", at(dir, "nothing"));
    let cases: [(&[&str], i32, &str); 5] = [
        (&["bench", &job, "--on", &on], 1, "failed"),
        (&["ns", "delete", "one", "--on", &on], 2, "usage"),
        (&["ns", "list", "--on", &nowhere], 3, "no_drive"),
        (&["ns", "delete", "9", "--on", &on], 4, "nvme"),
        (&["image", "check", &missing], 1, "failed"),
    ];
    for (args, expected, kind) in cases {
        let output = tranche(args);
        assert_eq!(code(&output), expected, "{args:?}: {}", text(&output.stderr));
        for json in [&["--output", "json"][..], &["--output=json"]] {
            let output = tranche(&[args, json].concat());
            assert_eq!(code(&output), expected, "{args:?}");
            let error = error_of(&output);
            assert_eq!(
                (error["kind"].as_str(), error["exit_code"].as_i64()),
                (Some(kind), Some(expected.into()))
            );
            assert!(!error["message"].as_str().unwrap().is_empty());
            assert_eq!(error["status"].is_object(), kind == "nvme", "{error}");
        }
    }
    let error = error_of(&tranche(&["ns", "delete", "9", "--on", &on, "--output", "json"]));
    assert_eq!((&error["status"]["sct"], &error["status"]["sc"]), (&Value::from(0), &Value::from(0x02)));
}

#[test]
fn a_namespace_that_another_host_has_is_deleted_only_by_force() {
    let drive = drive();
    let on = drive.on.clone();
    let identity = host::Identity::new("nqn.2026-11.test:other".parse().unwrap());
    let transport = host::SocketTransport::new(on.parse().unwrap(), Duration::from_secs(30));
    let other = host::Host::connect(transport, &identity).unwrap();
    let refused = tranche(&["ns", "delete", "1", "--on", &on]);
    assert_eq!(code(&refused), 1);
    assert!(text(&refused.stderr).contains("give --force"), "{}", text(&refused.stderr));
    assert!(tranche(&["ns", "delete", "1", "--force", "--on", &on]).status.success());
    drop(other);
}

#[test]
fn results_of_an_earlier_run_stay_unless_told_otherwise() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("job.fio"), "[a]\nrw=randwrite\nsize=1m\n").unwrap();
    let sim = |more: &[&str]| {
        let mut command = Command::new(TRANCHE);
        command
            .current_dir(temp.path())
            .args(["sim", "job.fio", "--no-cache", "--out", "here"])
            .args(more)
            .output()
            .unwrap()
    };
    assert!(sim(&[]).status.success());
    let results = temp.path().join("here/results.json");
    let first = std::fs::read(&results).unwrap();
    let refused = sim(&["--seed", "2"]);
    assert_eq!(code(&refused), 1);
    assert!(
        text(&refused.stderr).contains("here holds the results of an earlier run"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(std::fs::read(&results).unwrap(), first);
    assert!(sim(&["--seed", "2", "--force"]).status.success());
    assert_ne!(std::fs::read(&results).unwrap(), first);
}

/// The words themselves are tried where the command line is parsed: `words_of_before_are_understood`.
#[test]
fn a_drive_may_still_be_named_by_position() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, drive) = (at(temp.path(), "s"), at(temp.path(), "drive.toml"));
    let shown = tranche(&["profile", "show", "default"]);
    std::fs::write(&drive, &shown.stdout).unwrap();
    let _served = Served::start(&[&drive, "--unix", &socket]);
    let twice = tranche(&["serve", &drive, "--drive", "default", "--unix", &socket]);
    assert_eq!(code(&twice), 2);
}

#[test]
fn quiet_says_errors_only_and_colors_are_for_terminals() {
    let temp = tempfile::tempdir().unwrap();
    let socket = at(temp.path(), "s");
    let said = |args: &[&str], no_color: &str| {
        let file = temp.path().join("said");
        let mut command = Command::new(TRANCHE);
        command.args(["serve", "--unix", &socket, "--image", &at(temp.path(), "image")]).args(args);
        command.env("NO_COLOR", no_color).stderr(std::fs::File::create(&file).unwrap());
        let served = Served::run(&mut command);
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
        std::fs::read_to_string(file).unwrap()
    };
    let timing = "timing is off";
    let plain = said(&[], "");
    assert!(plain.contains(timing) && !plain.contains('\u{1b}'), "{plain}");
    assert!(!said(&["--timing", "on"], "").contains(timing));
    assert_eq!(said(&["--quiet"], ""), "");
    assert!(said(&["--color", "always"], "1").contains('\u{1b}'));
    assert_eq!(code(&tranche(&["serve", "--quiet", "-v"])), 2);
    // A simulation says neither its progress nor what may mislead.
    std::fs::write(temp.path().join("job.fio"), "[a]\nrw=randwrite\nsize=1m\n").unwrap();
    let said = |more: &[&str]| {
        let mut command = Command::new(TRANCHE);
        command.current_dir(temp.path()).args([
            "sim",
            "job.fio",
            "--no-cache",
            "--force",
            "--set",
            "seed=1,2",
        ]);
        text(&command.args(more).output().unwrap().stderr)
    };
    assert!(said(&[]).contains("[2/2]"));
    assert_eq!(said(&["--quiet"]), "");
}

/// The last line that a command which succeeds says on standard error.
fn last_line(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn commands_end_with_where_their_results_are() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("job.fio"), "[a]\nrw=randwrite\nsize=1m\n").unwrap();
    std::fs::write(temp.path().join("t.csv"), "0,W,0,4096,1000000\n0,R,0,4096,1500000\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(TRANCHE);
        command.current_dir(temp.path()).env("XDG_CACHE_HOME", temp.path().join("cache"));
        command.args(args).output().unwrap()
    };
    std::fs::write(temp.path().join("small.toml"), SMALL_DRIVE).unwrap();
    let socket = at(temp.path(), "s");
    let said = temp.path().join("said");
    let mut serve = Command::new(TRANCHE);
    serve
        .current_dir(temp.path())
        .args(["serve", "--unix", &socket, "--image", "image", "--record", "load.rec"]);
    let served = Served::run(serve.stderr(std::fs::File::create(&said).unwrap()));
    let bench = run(&["bench", "job.fio", "--on", &format!("unix://{socket}")]);
    assert!(bench.status.success());
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    assert_eq!(std::fs::read_to_string(&said).unwrap().lines().last(), Some("results: load.rec"));

    let studies = [&SMALL_STUDY[..], &["--set", "seed=1,2", "--out", "studies"]].concat();
    let study = [&SMALL_STUDY[..], &["--out", "study"]].concat();
    for (args, place, file) in [
        (&["sim", "job.fio", "--no-cache", "--out", "one"][..], "one", "results.parquet"),
        (&["sim", "job.fio", "--no-cache", "--set", "seed=1,2"], "out/sim", "results.csv"),
        (&["sim", "t.csv", "--no-cache", "--out", "trace"], "trace", "results.json"),
        (&["sim", "load.rec", "--no-cache", "--out", "replayed"], "replayed", "results.json"),
        (&study, "study", "report.html"),
        (&studies, "studies", "1/report.html"),
        (&["image", "salvage", "image", "saved"], "saved", "report.json"),
        (&["key", "drive", "--file", "drive.key"], "drive.key", ""),
        (&["firmware", "TR2", "--file", "tr2.bin"], "tr2.bin", ""),
        (&["man", "man1"], "man1", "tranche.1"),
    ] {
        let output = run(args);
        assert_eq!(last_line(&output), format!("results: {place}"), "{args:?}");
        let path = temp.path().join(place);
        assert!(if file.is_empty() { path.is_file() } else { path.join(file).is_file() }, "{args:?}");
    }
    // What only prints has its results on standard output, and --quiet says nothing.
    for args in [
        &["sim", "job.fio", "--no-cache"][..],
        &["profile", "check", "default"],
        &["sim", "job.fio", "--no-cache", "--out", "one", "--force", "--quiet"],
        &["key", "drive", "--file", "quiet.key", "--quiet"],
    ] {
        assert!(!last_line(&run(args)).starts_with("results:"), "{args:?}");
    }
    assert!(!text(&bench.stderr).contains("results:") && !bench.stdout.is_empty());
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = tranche(&["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("power-cut"), "{shell}");
    }
    let temp = tempfile::tempdir().unwrap();
    let pages = at(temp.path(), "man/man1");
    assert!(tranche(&["man", &pages]).status.success());
    let again = tranche(&["man", &pages]);
    assert_eq!(code(&again), 1);
    assert!(text(&again.stderr).contains("overwrite them with --force"), "{}", text(&again.stderr));
    assert!(tranche(&["man", &pages, "--force"]).status.success());
    let page = |name: &str| std::fs::read_to_string(temp.path().join("man/man1").join(name)).unwrap();
    assert!(page("tranche.1").contains(".TH tranche"));
    assert!(page("tranche-ns-create.1").contains("nvm\\-set"));
    let version = tranche(&["--version"]);
    assert!(text(&version.stdout).starts_with(concat!("tranche ", env!("CARGO_PKG_VERSION"))));
    assert!(text(&tranche(&["help", "ns", "create"]).stdout).contains("--size"));
}
