//! `compare` over plain files instead of a drive.

#[path = "../../../tests/skipped.rs"]
mod skip;

use std::{ffi::OsString, fs, path::Path};

use lab::{compare::Options, control::Control, drive::Program};
use skip::skipped;

/// Loop devices and mounts need root; without it a test says so and passes.
fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped(test, "needs root");
    }
    root
}

const LAYOUT: &str = r#"
[[namespace]]
name = "data"
size = "400MiB"
filesystem = "xfs"
mount = ["noatime"]

[[namespace]]
name = "log"
size = "32MiB"
filesystem = "KIND"
"#;

fn options(directory: &Path, script: &str) -> Options {
    for (name, kind) in [("a", "ext4"), ("b", "raw")] {
        fs::write(directory.join(format!("{name}.toml")), LAYOUT.replace("KIND", kind)).unwrap();
    }
    Options {
        overwrite: lab::results::Overwrite::default(),
        layouts: ["a.toml", "b.toml"].map(|name| directory.join(name)).to_vec(),
        command: ["sh", "-ec", script].map(OsString::from).to_vec(),
        repeat: 2,
        timeout: 60,
        out: directory.join("out"),
        scratch: Some(directory.to_owned()),
    }
}

fn left_behind(directory: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let name = directory.to_str().unwrap();
    let mut left: Vec<String> =
        mounts.lines().filter(|line| line.contains(name)).map(str::to_owned).collect();
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        left.extend(backing.contains(name).then_some(backing));
    }
    let scratch =
        fs::read_dir(directory).unwrap().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    left.extend(scratch.filter(|name| name.starts_with("tranche-lab")));
    left
}

#[test]
fn layouts_are_brought_up_compared_and_taken_down() {
    if !root("layouts_are_brought_up_compared_and_taken_down") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Every run must find its layout fresh, whatever the one before wrote.
    let script = r#"
        test ! -e $TRANCHE_MOUNT_DATA/old
        touch $TRANCHE_MOUNT_DATA/old
        test -b $TRANCHE_DEV_DATA
        case $TRANCHE_LAYOUT in
            a) test -d $TRANCHE_MOUNT_LOG; value=10;;
            b) test -z "$TRANCHE_MOUNT_LOG"; test -b $TRANCHE_DEV_LOG; value=25;;
        esac
        echo "$TRANCHE_LAYOUT $TRANCHE_REPETITION" > $TRANCHE_OUT/kept
        echo "{\"metric\": \"things\", \"value\": $value}" > $TRANCHE_METRICS
    "#;
    let options = options(directory.path(), script);
    let results = lab::compare::run_on(&options, &Program::plain(), &Control::default()).unwrap().results;
    let things = results.comparisons.iter().find(|c| c.metric == "things" && c.at.is_none()).unwrap();
    assert_eq!((things.of.as_str(), things.over.as_str(), things.ratio), ("b", "a", 2.5));
    assert_eq!(fs::read_to_string(options.out.join("b-1/kept")).unwrap(), "b 1\n");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(options.out.join("results.json")).unwrap()).unwrap();
    assert_eq!(json["variants"][1]["runs"][1]["repetition"], 1);
    assert!(fs::read_to_string(options.out.join("report.html")).unwrap().contains("<svg"));
    assert!(options.out.join("results.csv").exists());
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}

#[test]
fn a_failing_command_is_quoted_and_leaves_nothing() {
    if !root("a_failing_command_is_quoted_and_leaves_nothing") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), "cd $TRANCHE_MOUNT_DATA; echo something went wrong; exit 7");
    let error =
        format!("{:#}", lab::compare::run_on(&options, &Program::plain(), &Control::default()).unwrap_err());
    assert!(error.contains("something went wrong") && error.contains("exit status: 7"), "{error}");
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}

#[test]
fn layouts_must_be_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), "true");
    options.layouts[1] = options.layouts[0].clone();
    let error =
        format!("{:#}", lab::compare::run_on(&options, &Program::plain(), &Control::default()).unwrap_err());
    assert!(error.contains("two layouts"), "{error}");
}
