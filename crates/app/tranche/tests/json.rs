//! What commands print with `--output json` matches the schemas of its types.

mod common;
#[path = "common/schema.rs"]
mod schema;

use common::{SMALL_DRIVE, SMALL_STUDY, Served, TRANCHE, at, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// Commands in a directory of their own, and the schemas that their documents were held against.
struct Checked {
    dir: tempfile::TempDir,
    seen: BTreeSet<String>,
}

impl Checked {
    fn at(&self, name: &str) -> String {
        at(self.dir.path(), name)
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(TRANCHE);
        command.current_dir(self.dir.path()).env("XDG_CACHE_HOME", self.at("cache")).env_remove("TRANCHE_ON");
        command.args(["--output", "json"]).args(args).output().unwrap()
    }

    fn hold(&mut self, name: &str, printed: &[u8], args: &[&str]) -> Value {
        let document =
            serde_json::from_slice(printed).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", text(printed)));
        schema::check(name, &document);
        self.seen.insert(name.to_owned());
        document
    }

    /// The document of a command that succeeds.
    fn good(&mut self, name: &str, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        self.hold(name, &output.stdout, args)
    }

    /// The error of a command that fails with this exit code, in the last line of standard error.
    fn error(&mut self, code: i32, output: &Output, args: &[&str]) -> Value {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        let error = self.hold("error", said.lines().last().unwrap_or_default().as_bytes(), args);
        assert_eq!(error["error"]["exit_code"], code, "{args:?}: {error}");
        error
    }

    /// A command that fails, and prints no document.
    fn bad(&mut self, code: i32, args: &[&str]) {
        let output = self.run(args);
        assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
        self.error(code, &output, args);
    }

    /// A document whose files are where it says.
    fn written(&mut self, name: &str, args: &[&str], place: &str, file: &str) -> Value {
        let document = self.good(name, args);
        assert_eq!(document["results"], place, "{args:?}");
        let path = self.dir.path().join(place);
        assert!(if file.is_empty() { path.is_file() } else { path.join(file).is_file() }, "{args:?}");
        document
    }
}

/// A cache tier of files, which nobody serves.
fn of_a_tier(c: &mut Checked) {
    let devices = [("origin", 4 << 20), ("cache", 1 << 20), ("metadata", 1 << 20)].map(|(name, bytes)| {
        std::fs::File::create(c.at(name)).unwrap().set_len(bytes).unwrap();
        c.at(name)
    });
    let three = |command| {
        let [origin, cache, metadata] = &devices;
        ["cache", command, "--origin", origin, "--cache", cache, "--metadata", metadata]
    };
    c.good("cache-create", &three("create"));
    c.bad(1, &three("create"));
    c.good("cache-status-metadata", &["cache", "status", "--metadata", &devices[2]]);
    c.good("cache-remove", &three("remove"));
}

/// Commands that talk to a drive.
fn of_a_drive(c: &mut Checked) {
    let (socket, recording) = (c.at("s"), c.at("recording"));
    let mut command = Command::new(TRANCHE);
    command.args(["serve", "--unix", &socket, "--record", &recording, "--timing", "off", "--output", "json"]);
    command.args(["--metrics", "127.0.0.1:0", "--ui", "127.0.0.1:0"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut ready).unwrap();
    let served = Served { child, ready };
    let line = c.hold("serve", served.ready.as_bytes(), &["serve"]);
    assert_eq!((&line["results"], &line["tcp"]), (&recording.as_str().into(), &Value::Null));

    let on = format!("unix://{socket}");
    let with = |args: &[&'static str]| -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).chain(["--on".to_owned(), on.clone()]).collect()
    };
    let good: [(&str, &[&'static str]); 56] = [
        ("ns-create", &["ns", "create", "--nvm-set", "2", "--size", "1MiB", "--attach"]),
        ("ns-create", &["ns", "create", "--size", "1MiB", "--lba", "512+8", "--pi", "1"]),
        ("ns-list", &["ns", "list"]),
        ("profile-fit", &["profile", "fit", "--seconds", "1s", "--nsid", "1", "--force"]),
        ("ns-list", &["ns", "list", "--attached"]),
        ("top", &["top", "--count", "1", "--interval", "100ms"]),
        ("ns-attach", &["ns", "detach", "2"]),
        ("ns-attach", &["ns", "attach", "2"]),
        ("ns-attach", &["ns", "attach", "2"]),
        (
            "ns-create",
            &[
                "ns",
                "create",
                "--zoned",
                "--size",
                "64MiB",
                "--max-active",
                "4",
                "--zrwa-resources",
                "2",
                "--attach",
            ],
        ),
        ("ns-list", &["ns", "list"]),
        ("id-zns", &["id", "--zns", "4"]),
        ("zone", &["zone", "open", "0", "2"]),
        ("zone-append", &["zone", "append", "1", "block"]),
        ("zone", &["zone", "open", "3", "--zrwa"]),
        ("zone-write", &["zone", "write", "3", "block", "--at", "2"]),
        ("zone-write", &["zone", "flush", "3"]),
        ("zone-read", &["zone", "read", "1", "--file", "read", "--force"]),
        ("zone-changed", &["zone", "changed", "--for", "0s"]),
        ("zone-report", &["zone", "report", "--count", "3"]),
        ("zone", &["zone", "reset", "--all"]),
        ("store-format", &["store", "format", "--log-zones", "3", "--reserved-zones", "2"]),
        ("store-stat", &["store", "stat"]),
        ("store-stat-path", &["store", "stat", "/"]),
        ("store-zones", &["store", "stat", "--zones"]),
        ("store-ls", &["store", "ls", "/"]),
        ("store-check", &["store", "check"]),
        ("ns-delete", &["ns", "delete", "4"]),
        ("ns-delete", &["ns", "format", "2"]),
        ("ns-delete", &["ns", "delete", "3"]),
        ("id", &["id"]),
        ("id-nsid", &["id", "--nsid", "1"]),
        ("id-nsid", &["id", "--nsid", "2"]),
        ("id-sets", &["id", "--sets"]),
        ("id-groups", &["id", "--groups"]),
        ("id-ana", &["id", "--ana"]),
        ("id-logs", &["id", "--logs"]),
        ("quota", &["quota", "get", "1"]),
        ("quota", &["quota", "set", "1", "--read", "391MB/s", "--write-iops", "5000", "--save"]),
        ("quota", &["quota", "clear", "1"]),
        ("bench", &["bench", "job.fio"]),
        ("smart", &["smart"]),
        ("smart-nsid", &["smart", "--nsid", "1"]),
        ("smart-nvm-set", &["smart", "--nvm-set", "1"]),
        ("smart-ocp", &["smart", "--ocp"]),
        ("smart-memblaze", &["smart", "--memblaze"]),
        ("fault", &["fault", "bit-errors", "--one-in", "100"]),
        ("fault", &["fault", "stuck-die", "0", "--nvm-set", "1"]),
        ("fault", &["fault", "slow", "2"]),
        ("fault", &["fault", "host-disk-full", "--count", "1"]),
        ("fault-list", &["fault", "list"]),
        ("fault", &["fault", "clear"]),
        ("sanitize", &["sanitize", "status"]),
        ("power-cut", &["power-cut", "--off-ms", "1"]),
        ("sanitize", &["sanitize", "block", "--force"]),
        ("sanitize", &["sanitize", "status"]),
    ];
    c.file("block", &"b".repeat(4096));
    c.file("job.fio", "[a]\nrw=randrw\nsize=1m\niodepth=4\nfsync=16\n[b]\nrw=trim\nsize=1m\nnumjobs=2\n");
    for (name, args) in good {
        let args = with(args);
        c.good(name, &args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    for (code, args) in [
        (4, &["ns", "delete", "9"][..]),
        (4, &["quota", "get", "9"]),
        (4, &["id", "--nsid", "9"]),
        (1, &["bench", "missing.fio"]),
        (1, &["sanitize", "block"]),
        (2, &["ns", "delete", "one"]),
        (2, &["quota", "set", "1"]),
    ] {
        let args = with(args);
        c.bad(code, &args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    c.bad(3, &["smart", "--on", &format!("unix://{}", c.at("nobody"))]);
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    // What was recorded, with latencies to hold it against.
    c.written("sim", &["sim", &recording, "--out", "replayed"], "replayed", "results.json");
}

/// Commands on an image, whole and damaged.
fn of_an_image(c: &mut Checked) {
    let (image, socket) = (c.at("image"), c.at("i"));
    let serve = || {
        let served = Served::start(&["--image", &image, "--unix", &socket]);
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
    };
    serve();
    let found = c.good("image-check", &["image", "check", &image]);
    assert_eq!((&found["damaged"], &found["left"]), (&false.into(), &"clean".into()));
    c.good("image-renew", &["image", "renew", &image, "--serial", "COPY0001"]);
    c.bad(1, &["image", "renew", &image, "--nqn", "no NQN"]);
    c.bad(1, &["image", "renew", "missing"]);
    c.written("image-salvage", &["image", "salvage", &image, "saved"], "saved", "report.json");
    let saved: Value = serde_json::from_slice(&std::fs::read(c.at("saved/report.json")).unwrap()).unwrap();
    assert!(saved["results"].is_null(), "a directory may move");
    c.bad(1, &["image", "check", "missing"]);
    c.bad(1, &["image", "salvage", &image, "saved"]);
    // What says how the drive was made is no longer readable.
    for file in std::fs::read_dir(&image).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().unwrap().to_string_lossy().starts_with("checkpoint") {
            std::fs::write(file, "damaged").unwrap();
        }
    }
    let args = ["image", "check", &image];
    let output = c.run(&args);
    let found = c.hold("image-check", &output.stdout, &args);
    assert_eq!(found["damaged"], true);
    c.error(5, &output, &args);
}

/// Commands that make files, and those about drives that nobody serves.
fn of_files(c: &mut Checked) {
    c.good("key", &["key", "drive"]);
    c.written("key", &["key", "tls", "--file", "tls.key"], "tls.key", "");
    c.bad(1, &["key", "tls", "--file", "tls.key"]);
    c.written("firmware", &["firmware", "TR2", "--file", "tr2.bin"], "tr2.bin", "");
    c.written("man", &["man", "man1"], "man1", "tranche.1");
    c.good("profile-list", &["profile", "list"]);
    c.good("doctor", &["doctor"]);
    c.good("profile-show", &["profile", "show", "default"]);
    c.good("profile-check", &["profile", "check", "tlc-3.84t", "--dry-run"]);
    c.good("profile-check", &["profile", "check", "default"]);
    let tiered = at(c.dir.path(), "tiered.toml");
    let toml = "[[set]]\nmedia = \"dram\"\ncapacity = \"64MiB\"\n[[namespace]]\nsize = \"32MiB\"\n[[namespace]]\nsize = \"16MiB\"\n\
                [[cache]]\nname = \"fast\"\norigin = 1\ncache = 2\nmetadata = \"/srv/meta.img\"\n";
    std::fs::write(&tiered, toml).unwrap();
    let checked = c.good("profile-check", &["profile", "check", &tiered]);
    assert_eq!(
        (checked["tiers"][0]["origin"].as_str(), checked["tiers"][0]["chunk"].as_u64()),
        (Some("namespace 1"), Some(256 << 10))
    );
    std::fs::write(&tiered, toml.replace("cache = 2", "cache = 3")).unwrap();
    c.bad(1, &["profile", "check", &tiered]);
    let disk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/engines/tests/disksim/small.diskspecs");
    let trace = c.file("trace", "R Hit 0 4 9000 20000\nR Hit 4 4 800 15000\nW Hit 5000 8 1300 30000\n");
    let of_disk = ["profile", "check", "--disksim", disk, "--trace", &trace];
    assert_eq!(c.good("profile-check-disksim", &of_disk)["requests"], 3);
    c.bad(2, &of_disk[..4]);
    c.bad(1, &["profile", "check", "--disksim", "none", "--trace", &trace]);
    let sheet = c.good("profile-check", &["profile", "check", "zn540-1t"]);
    assert!(sheet["data_sheet"]["figures"].is_array());
    c.bad(2, &["profile", "show", "defualt"]);
}

/// Loads in virtual time.
fn of_simulations(c: &mut Checked) {
    const ACT: &str = "device-names: /dev/nvme0n1\ntest-duration-sec: 2\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
    c.file("small.fio", "[a]\nrw=randrw\nsize=1m\n");
    c.file("storage.act", ACT);
    c.file("t.csv", "0,W,0,4096,1000000\n1,W,8192,8192,1000100\n0,R,0,4096,1500000\n");
    let lab = ["--drive", "pblaze5-910-lab"];
    c.good("sim", &["sim", "small.fio", "--no-cache"]);
    c.good("sim", &["sim", "small.fio", "--no-cache", "--contents", "memory", "--nsid", "1"]);
    c.written("sim", &["sim", "small.fio", "--no-cache", "--out", "one"], "one", "results.parquet");
    c.good("sim", &[&["sim", "storage.act"], &lab[..]].concat());
    c.good("sim", &[&["sim", "t.csv"], &lab[..]].concat());
    let sweep = c.written(
        "sim-set",
        &["sim", "small.fio", "--no-cache", "--set", "seed=1,2", "--out", "sweep"],
        "sweep",
        "results.csv",
    );
    assert_eq!(sweep["runs"].as_array().unwrap().len(), 2);
    let written: Value = serde_json::from_slice(&std::fs::read(c.at("sweep/results.json")).unwrap()).unwrap();
    assert!(written["results"].is_null(), "a directory may move");
    c.bad(1, &["sim", "small.fio", "--no-cache", "--set", "seed=1,2", "--out", "sweep"]);
    // Verification fails where the drive keeps nothing: results, and an error.
    c.file("verify.fio", "[a]\nrw=write\nsize=1m\nverify=crc32c\n");
    c.bad(1, &["sim", "verify.fio", "--no-cache"]);
}

/// Studies, in virtual time.
fn of_studies(c: &mut Checked) {
    c.file("small.toml", SMALL_DRIVE);
    c.written("study", &[&SMALL_STUDY[..], &["--out", "quota"]].concat(), "quota", "report.html");
    let namespaces = [
        "study",
        "namespaces",
        "--sim",
        "--quick",
        "--counts",
        "1,2",
        "--drive",
        "small.toml",
        "--out",
        "several",
    ];
    c.written("study", &namespaces, "several", "report.html");
    let sweep = [&SMALL_STUDY[..], &["--out", "quotas", "--set", "seed=1,2"]].concat();
    c.written("study", &sweep, "quotas", "2/report.html");
}

/// Advice for a database, in virtual time.
fn of_advice(c: &mut Checked) {
    c.file("larger.toml", &SMALL_DRIVE.replace("256MiB", "1GiB"));
    c.file("my.cnf", "[mysqld]\ninnodb_buffer_pool_size = 32M\n");
    c.file("t.csv", "0,W,0,16384,1000000\n0,W,16384,16384,2000000\n");
    let of = |more: &[&'static str]| {
        let drive = ["advise", "my.cnf", "--drive", "larger.toml", "--no-cache", "--no-ask"];
        [&drive[..], &["--seconds", "2s", "--warmup", "0s", "--seeds", "1"], more].concat()
    };
    assert!(c.good("advise", &of(&[]))["load"]["measured"].is_null());
    assert!(c.good("advise", &of(&["--recording", "t.csv"]))["load"]["measured"].is_object());
    let extras = c.good("advise", &of(&["--layouts", "zones,quota", "--dataset", "256MiB"]));
    assert_eq!(extras["layouts"][1]["name"], "zones");
    assert_eq!(extras["layouts"][3]["more"][0]["figure"], "neighbour");
    c.file("postgresql.conf", "shared_buffers = 32MB\nmax_wal_size = 64MB\nfull_page_writes = off\n");
    let mut postgresql = of(&[]);
    postgresql[1] = "postgresql.conf";
    assert_eq!(c.good("advise", &postgresql)["server"], "PostgreSQL 18");
    c.bad(2, &of(&["--sample", "1s"]));
    c.bad(2, &of(&["--server", "oracle"]));
    c.bad(1, &["advise", "none.cnf"]);
}

/// Commands on several layouts of a live drive.
fn of_comparisons(c: &mut Checked) {
    let layout = "[[namespace]]\nname = \"data\"\nsize = \"64MiB\"\n";
    let (a, b) = (c.file("a.toml", layout), c.file("b.toml", layout));
    let args =
        ["compare", &a, &b, "--repeat", "1", "--out", "compared", "--", "sh", "-c", "echo > /dev/null"];
    let needed = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !needed {
        testkit::skipped("documents_are_as_they_are_described", "tranche compare needs root and FUSE");
        c.seen.insert("compare".to_owned());
        return;
    }
    let document = c.good("compare", &args);
    assert!(document["results"].as_str().unwrap().ends_with("/compared"), "{}", document["results"]);
}

#[test]
fn documents_are_as_they_are_described() {
    let mut c = Checked { dir: tempfile::tempdir().unwrap(), seen: BTreeSet::new() };
    let parts =
        [of_a_drive, of_a_tier, of_an_image, of_files, of_simulations, of_studies, of_advice, of_comparisons];
    for part in parts {
        part(&mut c);
    }
    // `tests/powercut.rs` runs that campaign, which takes a database.
    c.seen.insert("study-powercut".to_owned());
    // It needs FUSE: `tests/store.rs` holds it against its schema.
    c.seen.insert("store-mount".to_owned());
    // So do these: `tests/cache.rs`.
    c.seen.extend(["cache-serve", "cache-status"].map(str::to_owned));
    // Two lines: `tests/demo.rs`.
    c.seen.extend(["demo", "demo-done"].map(str::to_owned));
    // It goes on: `tests/ui.rs`.
    c.seen.insert("ui".to_owned());
    assert_eq!(c.seen, tranche::schemas::names().map(str::to_owned).collect());
}

#[test]
fn what_is_not_described_is_found() {
    let error = serde_json::json!({ "error": { "kind": "nvme", "exit_code": 4, "message": "no", "status":
        { "sct": 0, "sc": 2, "dnr": true, "text": "Invalid Field" } } });
    schema::check("error", &error);
    for (place, value) in [
        ("/error/kind", "another".into()),
        ("/error/exit_code", 0.into()),
        ("/error/message", Value::Null),
        ("/error/status/sc", "two".into()),
        ("/error/status", serde_json::json!({ "sct": 0, "sc": 2, "dnr": true, "text": "", "more": 1 })),
        ("/error/status", serde_json::json!({ "sct": 0 })),
    ] {
        let mut wrong = error.clone();
        *wrong.pointer_mut(place).unwrap() = value;
        assert!(!schema::problems("error", &wrong).is_empty(), "{wrong}");
    }
}
