//! `compare` over plain files instead of a drive.

use std::{ffi::OsString, fs, path::Path};

use lab_databases::{compare::Options, drive::Program};
use lab_report::control::Control;
use testkit::skipped;

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
        overwrite: lab_report::results::Overwrite::default(),
        layouts: ["a.toml", "b.toml"].map(|name| directory.join(name)).to_vec(),
        command: ["sh", "-ec", script].map(OsString::from).to_vec(),
        repeat: 2,
        timeout: 60,
        postgres: None,
        tpcc: None,
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
    let results =
        lab_databases::compare::run_on(&options, &Program::plain(), &Control::default()).unwrap().results;
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
    let error = format!(
        "{:#}",
        lab_databases::compare::run_on(&options, &Program::plain(), &Control::default()).unwrap_err()
    );
    assert!(error.contains("something went wrong") && error.contains("exit status: 7"), "{error}");
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}

#[test]
fn layouts_must_be_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), "true");
    options.layouts[1] = options.layouts[0].clone();
    let error = format!(
        "{:#}",
        lab_databases::compare::run_on(&options, &Program::plain(), &Control::default()).unwrap_err()
    );
    assert!(error.contains("two layouts"), "{error}");
}

const DATABASE: &str = r#"
[[namespace]]
name = "data"
size = "400MiB"
filesystem = "xfs"

[[namespace]]
name = "wal"
size = "200MiB"
filesystem = "ext4"

[database]
engine = "postgresql"
wal = "wal"
max_wal_size = "32MiB"
shared_buffers = "8MiB"
pgbench_scale = 1
full_page_writes = FPW
"#;

#[test]
fn a_command_finds_the_database_of_its_layout() {
    if !root("a_command_finds_the_database_of_its_layout") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // The log is on its own namespace, the tables are full, and the server is set as the layout says.
    let script = r#"
        test -d $TRANCHE_MOUNT_WAL/pg_wal/archive_status
        test "$(psql -AtXc "SELECT count(*) FROM pgbench_accounts")" = 100000
        psql -AtXc "SHOW full_page_writes" > $TRANCHE_OUT/setting
        psql -AtXc CHECKPOINT
        pgbench --no-vacuum --client 2 --transactions 400 > $TRANCHE_OUT/pgbench
        psql -AtXc "SELECT pg_stat_force_next_flush()" || sleep 2
    "#;
    let mut options = options(directory.path(), script);
    for (name, writes) in [("a", "true"), ("b", "false")] {
        let path = directory.path().join(format!("{name}.toml"));
        fs::write(path, DATABASE.replace("FPW", writes)).unwrap();
    }
    options.repeat = 1;
    let results =
        lab_databases::compare::run_on(&options, &Program::plain(), &Control::default()).unwrap().results;
    let setting = |name: &str| fs::read_to_string(options.out.join(name).join("setting")).unwrap();
    assert_eq!((setting("a-0"), setting("b-0")), ("on\n".into(), "off\n".into()));
    assert!(fs::read_to_string(options.out.join("a-0/database.log")).unwrap().contains("shut down"));
    let metric = |variant: usize, name: &str| results.variants[variant].runs[0].metrics[name];
    // Transactions change pages at random, each for the first time after the checkpoint.
    assert!(metric(0, "wal_bytes") > 2.0 * metric(1, "wal_bytes"), "{:?}", results.variants);
    assert!(metric(0, "checkpoints") >= 1.0);
    assert!(results.notes.iter().any(|note| note.contains("PostgreSQL")), "{:?}", results.notes);
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}

#[test]
fn tpcc_runs_on_the_database_of_a_layout() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut options = options(directory.path(), "");
    options.repeat = 1;
    options.tpcc = Some(lab_databases::compare::TpccLoad { connections: 2, warmup: 0, seconds: 3 });
    let run =
        |options: &Options| lab_databases::compare::run_on(options, &Program::plain(), &Control::default());
    let error = format!("{:#}", run(&options).unwrap_err());
    assert!(error.contains("layout a has no warehouses"), "{error}");
    if !root("tpcc_runs_on_the_database_of_a_layout") {
        return;
    }
    for name in ["a", "b"] {
        let text = DATABASE.replace("FPW", "true").replace("pgbench_scale", "tpcc_warehouses");
        fs::write(directory.path().join(format!("{name}.toml")), text).unwrap();
    }
    options.layouts.truncate(1);
    let results = run(&options).unwrap().results;
    let metrics = &results.variants[0].runs[0].metrics;
    assert!(metrics["new_orders"] > 0.0 && metrics["tpm_c"] > 0.0, "{metrics:?}");
    assert!(metrics["wal_bytes_per_new_order"] > 1_000.0, "{metrics:?}");
    assert_eq!(left_behind(directory.path()), Vec::<String>::new());
}
