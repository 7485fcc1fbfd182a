//! RocksDB on a store through the plug-in of `plugins/rocksdb`, and write hints through FUSE. Needs g++, RocksDB's headers and its tools; says so
//! where they are missing.

mod common;
#[path = "common/evidence.rs"]
mod evidence;
#[path = "common/plugins.rs"]
mod plugins;
use common::{Served, TRANCHE, at, text};
use evidence::Evidence;
use plugins::{can_build, plugins};
use rng::Rng;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use testkit::{possible, wait_for};

/// Crashes in a row, unless told.
const ROUNDS: u64 = 6;

/// Zones of 12 MiB. A power cut takes what was not flushed.
const DRIVE: &str = r#"
[drive]
timing = false
power_loss_protection = false

[[set]]
media = "nand"
cell = "tlc"
capacity = "1GiB"
spare = "25%"
channels = 2
dies = 2
planes = 2
nand_page = "16KiB"
pages_per_block = 192
rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s" }
zone = { active = 14 }
"#;

/// A drive in memory, with a store on a zoned namespace.
struct Drive {
    dir: Evidence,
    _served: Served,
    on: String,
    /// As RocksDB names the store.
    uri: String,
}

impl Drive {
    fn start() -> Self {
        let dir = Evidence::new();
        let socket = at(dir.path(), "s");
        fs::write(dir.path().join("drive.toml"), DRIVE).unwrap();
        let toml = at(dir.path(), "drive.toml");
        let served = Served::start(&["--drive", &toml, "--unix", &socket]);
        let (on, uri) = (format!("unix://{socket}"), format!("tranche://{socket}?nsid=1&wait=30"));
        let drive = Self { dir, _served: served, on, uri };
        drive.good(&["ns", "create", "--zoned", "--size", "640MiB", "--attach"]);
        drive.good(&["store", "format"]);
        drive
    }

    fn good(&self, args: &[&str]) -> String {
        let output = Command::new(TRANCHE).env("TRANCHE_ON", &self.on).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    fn path(&self, name: &str) -> String {
        at(self.dir.path(), name)
    }

    /// One of RocksDB's programs, with the plug-in.
    fn tool(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", plugins().join("libtranche_rocksdb.so")).args(args);
        command.arg(format!("--fs_uri={}", self.uri));
        command
    }

    /// What one of them says that succeeds. Those of RocksDB do not always say by their exit code that they did not.
    fn run(&self, program: &str, args: &[&str]) -> String {
        let said = of(&self.tool(program, args).output().unwrap());
        assert!(said.0, "{program} {args:?}: {}", said.1);
        said.1
    }

    fn bench(&self, benchmarks: &str, args: &[&str]) -> String {
        let benchmarks = format!("--benchmarks={benchmarks}");
        let usual =
            ["--db=/some/where/db", "--compression_type=none", "--write_buffer_size=1000000", "--threads=2"];
        let sizes = ["--target_file_size_base=1000000", "--max_bytes_for_level_base=4000000"];
        let rest = ["--value_size=200", "--stats_interval=1000000", &benchmarks];
        self.run("db_bench", &[&usual[..], &sizes, &rest, args].concat())
    }

    /// A program of the plug-in's tests.
    fn program(&self, name: &str) -> Command {
        Command::new(plugins().join(name))
    }
}

/// Whether a program succeeded, and all that it said.
fn of(output: &Output) -> (bool, String) {
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

#[test]
fn files_are_as_in_a_directory() {
    if !can_build("files_are_as_in_a_directory") {
        return;
    }
    let drive = Drive::start();
    for seed in 1..=4 {
        let directory = tempfile::tempdir().unwrap();
        let mut files = drive.program("files");
        files.arg(&drive.uri).arg(directory.path()).args([&seed.to_string(), "700"]);
        let (good, said) = of(&files.output().unwrap());
        assert!(good && said.contains("700 steps agree"), "{said}");
    }
    drive.good(&["store", "check", "--data"]);
}

#[test]
fn db_bench_and_ldb_run_on_a_store() {
    if !can_build("db_bench_and_ldb_run_on_a_store") {
        return;
    }
    let drive = Drive::start();
    let said = drive.bench("fillseq,overwrite,deleterandom,compact,verifychecksum", &["--num=20000"]);
    assert!(said.contains("deleterandom") && !said.contains("rror"), "{said}");
    let more = ["--num=20000", "--use_existing_db=1", "--reads=300", "--use_direct_reads=1"];
    let direct = "--use_direct_io_for_flush_and_compaction=1";
    let said = drive.bench("readwhilewriting,readrandom,multireadrandom", &[&more[..], &[direct]].concat());
    assert!(said.contains("multireadrandom :") && !said.contains("rror"), "{said}");

    let db = "--db=/some/where/db";
    assert!(drive.run("ldb", &[db, "checkconsistency"]).contains("OK"));
    let scanned = drive.run("ldb", &[db, "dump", "--count_only"]);
    let count = |said: &str| {
        let keys = said.lines().find_map(|line| line.strip_prefix("Keys in range: "));
        keys.unwrap_or_else(|| panic!("{said}")).parse::<u64>().unwrap()
    };
    assert!((1_000..20_000).contains(&count(&scanned)), "{scanned}");
    // Tables are read one by one.
    let verified = drive.run("sst_dump", &["--file=/some/where/db", "--command=verify"]);
    assert!(verified.contains("The file is ok") && !verified.contains("orrupt"), "{verified}");

    // A backup within the store, by way of the same place twice; and back under another name.
    let backups = format!("--backup_fs_uri={}", drive.uri);
    let place = [db, &backups, "--backup_dir=/backups"];
    assert!(drive.run("ldb", &[&["backup"][..], &place].concat()).contains("OK"));
    let place = ["--db=/restored", &backups, "--backup_dir=/backups"];
    assert!(drive.run("ldb", &[&["restore"][..], &place].concat()).contains("OK"));
    let restored = drive.run("ldb", &["--db=/restored", "dump", "--count_only"]);
    assert_eq!(count(&restored), count(&scanned));
    // Checkpoints are links.
    assert!(drive.run("ldb", &[db, "checkpoint", "--checkpoint_dir=/some/point"]).contains("OK"));
    let checked = drive.run("ldb", &["--db=/some/point", "dump", "--count_only"]);
    assert_eq!(count(&checked), count(&scanned));
    drive.good(&["store", "check", "--data"]);
}

#[test]
fn what_cannot_be_opened_is_told() {
    if !can_build("what_cannot_be_opened_is_told") {
        return;
    }
    let mut drive = Drive::start();
    let uri = drive.uri.clone();
    let mut refused = |uri: &str, says: &str| {
        drive.uri = uri.to_owned();
        let (good, said) = of(&drive.tool("ldb", &["--db=/db", "checkconsistency"]).output().unwrap());
        assert!(!good && said.contains(says), "{uri}: {said}");
    };
    refused("tranche:///no/socket", "No such file or directory");
    refused("tranche://drive/one", "'one' is no number of a namespace");
    refused(&format!("{uri}&placement=best"), "none of 'none'");
    refused(&uri.replace("nsid=1", "nsid=19"), "namespace 19");
    drive.uri = uri.clone();

    // One program at a time.
    let acks = drive.path("acks");
    let writer =
        Writer::start(drive.program("crash").args(["write", &uri, "/crash", &acks, "0"]), &drive.path("log"));
    let (good, said) = of(&drive.tool("ldb", &["--db=/crash", "checkconsistency"]).output().unwrap());
    assert!(!good && said.contains("another program of this machine has the store open"), "{said}");
    drop(writer);
    drive.good(&["zone", "reset", "--all"]);
    let (good, said) = of(&drive.tool("ldb", &["--db=/crash", "checkconsistency"]).output().unwrap());
    assert!(!good && said.contains("there is no store on this namespace"), "{said}");
}

/// A program that writes until it is killed.
struct Writer {
    child: Child,
    /// It may say more.
    _output: BufReader<ChildStdout>,
}

impl Writer {
    /// What it says to standard error goes into a file.
    fn start(command: &mut Command, log: &str) -> Self {
        let errors = File::create(log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{}", fs::read_to_string(log).unwrap());
        Self { child, _output: output }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many batches were acknowledged, of all sessions together.
fn acknowledged(acks: &str) -> u64 {
    let bytes = fs::read(acks).unwrap_or_default();
    bytes.chunks_exact(8).map(|number| u64::from_le_bytes(number.try_into().unwrap())).sum()
}

#[test]
fn what_rocksdb_synced_survives_crashes() {
    if !can_build("what_rocksdb_synced_survives_crashes") {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let rounds = number("TRANCHE_ROCKSDB_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("TRANCHE_ROCKSDB_SEED").unwrap_or(1);
    println!("TRANCHE_ROCKSDB_SEED={seed}");
    let mut rng = Rng::new(seed);
    let drive = Drive::start();
    let acks = drive.path("acks");
    for round in 1..=rounds {
        let options = rng.below(64);
        let context = format!("seed {seed}, round {round}, options {options}");
        let command = |verb: &str| {
            let mut command = drive.program("crash");
            command.args([verb, drive.uri.as_str(), "/crash", &acks, &options.to_string()]);
            command
        };
        let before = acknowledged(&acks);
        let more = 200 + rng.below(3_000);
        let mut writer = Writer::start(&mut command("write"), &drive.path("log"));
        wait_for("batches", || {
            acknowledged(&acks) >= before + more || writer.child.try_wait().unwrap().is_some()
        });
        if rng.below(3) > 0 {
            let seed = rng.below(1 << 30).to_string();
            let after = rng.below(400).to_string();
            drive.good(&["power-cut", "--no-plp", "--off", "10ms", "--after", &after, "--seed", &seed]);
            // The files failed.
            wait_for("the end of the writer", || writer.child.try_wait().unwrap().is_some());
            let status = writer.child.wait().unwrap();
            let said = fs::read_to_string(drive.path("log")).unwrap();
            // RocksDB asserts that nobody writes to its log after an error of another thread, and its threads do.
            let is_its_own = said.contains("AssertFalseAndGetStatusForPrevError");
            assert!(status.code() == Some(3) || is_its_own, "{context}: {status}: {said}");
        }
        drop(writer);
        let (good, said) = of(&command("check").output().unwrap());
        assert!(good, "{context}: {said}");
        assert!(acknowledged(&acks) >= before, "{context}");
    }
    drive.good(&["store", "check", "--data"]);
}

/// The expected lifetime of a file on a mount.
fn lifetime(path: &Path) -> Option<String> {
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(path, "user.tranche.lifetime", &mut value).ok()?;
    Some(text(&value[..length]))
}

/// The lifetimes of the files in a directory whose names end so.
fn lifetimes(dir: &Path, ending: &str) -> Vec<Option<String>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|e| e == ending)).map(|file| lifetime(&file)).collect()
}

#[test]
fn hints_reach_the_store() {
    let test = "hints_reach_the_store";
    if !possible(test, &["fio"]) || !can_build(test) {
        return;
    }
    let drive = Drive::start();
    let is_hinted = |dir: &Path| {
        let (tables, logs) = (lifetimes(dir, "sst"), lifetimes(dir, "log"));
        assert!(!tables.is_empty() && !logs.is_empty());
        assert!(tables.iter().all(|of| of.as_deref() == Some("medium")), "{tables:?}");
        assert!(logs.iter().all(|of| of.as_deref() == Some("short")), "{logs:?}");
    };
    drive.bench("fillrandom", &["--num=10000"]);
    let top = drive.dir.path().join("files");
    fs::create_dir(&top).unwrap();
    let mut mount = Command::new(TRANCHE);
    mount.env("TRANCHE_ON", &drive.on).args(["--quiet", "store", "mount"]).arg(&top);
    let mounted = Served::run(&mut mount);
    is_hinted(&top.join("some/where/db"));

    // The same database without the plug-in, through FUSE.
    let db = top.join("mounted");
    let hints = plugins().join("libtranche_hints.so");
    let bench = |preload: bool| {
        let mut bench = Command::new("db_bench");
        if preload {
            bench.env("LD_PRELOAD", &hints);
        }
        bench.arg(format!("--db={}", db.display())).args(["--benchmarks=fillrandom", "--num=3000"]);
        let (good, said) =
            of(&bench.args(["--write_buffer_size=100000", "--compression_type=none"]).output().unwrap());
        assert!(good && !said.contains("rror"), "{said}");
    };
    bench(false);
    assert!(lifetimes(&db, "sst").iter().all(Option::is_none), "the kernel keeps hints for itself");
    bench(true);
    is_hinted(&db);

    let fio = |path: &Path| {
        let mut fio = Command::new("fio");
        fio.env("LD_PRELOAD", &hints).arg(format!("--filename={}", path.display()));
        fio.args(["--name=job", "--size=64k", "--rw=write", "--bs=4k", "--write_hint=long"]);
        let (good, said) = of(&fio.output().unwrap());
        assert!(good, "{said}");
    };
    fio(&top.join("fio"));
    assert_eq!(lifetime(&top.join("fio")).as_deref(), Some("long"));
    // Files elsewhere are left alone.
    let elsewhere = drive.dir.path().join("elsewhere");
    fio(&elsewhere);
    assert_eq!(lifetime(&elsewhere), None);
    File::open(&elsewhere).unwrap();
    mounted.signal("TERM");
    assert_eq!(mounted.end(), Some(0));
}
