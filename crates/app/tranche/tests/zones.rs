//! `tranche zone`, and zoned namespaces in `tranche ns` and `tranche id`.

mod common;

use common::{Served, TRANCHE, at, text};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A drive whose zones have 2 MiB, 1.5 MiB of which can be written, and 1 MiB of random data.
struct Drive {
    dir: tempfile::TempDir,
    served: Option<Served>,
    on: String,
    data: Vec<u8>,
}

fn drive() -> String {
    let zone = r#"zone = { active = 14, zrwa = 4, zrwa_size = "64KiB", zrwa_granularity = "8KiB" }"#;
    let flash = testkit::drives::flash("256MiB", zone);
    format!(
        r#"
[drive]
timing = false
write_buffer = "1MiB"
{flash}
[[namespace]]
size = "64MiB"
"#
    )
}
const ZONE_BLOCKS: u64 = 512;
const CAPACITY: u64 = 384;

impl Drive {
    fn start() -> Self {
        Self::serve(false)
    }

    /// Whether its image and its files are in its directory, too.
    fn serve(files: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("drive.toml"), drive()).unwrap();
        std::fs::create_dir(dir.path().join("files")).unwrap();
        let data: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(dir.path().join("data"), &data).unwrap();
        let on = format!("unix://{}", at(dir.path(), "s"));
        let mut drive = Self { dir, served: None, on, data };
        drive.start_again(files);
        drive
    }

    fn start_again(&mut self, files: bool) {
        let here = |name: &str| at(self.dir.path(), name);
        let (toml, socket, image, dir) = (here("drive.toml"), here("s"), here("image"), here("files"));
        let mut args = vec!["--timing", "off", "--drive", &toml, "--unix", &socket];
        if files {
            args.extend(["--image", &image, "--fuse", &dir]);
        }
        self.served = Some(Served::start(&args));
    }

    /// Stops the drive in order.
    fn stop(&mut self) {
        let served = self.served.take().unwrap();
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
    }

    /// The file of a zone of namespace 2.
    fn zone(&self, zone: u64) -> PathBuf {
        self.dir.path().join("files/nvme0n2/seq").join(zone.to_string())
    }

    /// Erases fail until the set has too few blocks: all zones are read only.
    fn wear_out(&self) {
        self.good(&["fault", "erase-failure"]);
        for round in 0.. {
            assert!(round < 500, "the set does not wear out: {:?}", self.zones("4"));
            let written = self.run(&["zone", "append", "1", "data"], &[]);
            let reset = self.run(&["zone", "reset", "1"], &[]);
            if self.zones("1")[0].0 == "READONLY" {
                break;
            }
            assert!(written.status.success() || reset.status.success() || round < 2, "{:?}", self.zones("4"));
        }
        self.good(&["fault", "clear"]);
    }

    fn run(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new(TRANCHE);
        command.current_dir(self.dir.path()).env("TRANCHE_ON", &self.on).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails does not read all.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// What a command says that succeeds.
    fn good(&self, args: &[&str]) -> String {
        let output = self.run(args, &[]);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).trim_end().to_owned()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[args, &["--output", "json"]].concat())).unwrap()
    }

    /// A command fails with this exit code, and says this.
    fn bad(&self, code: i32, args: &[&str], says: &str) {
        let output = self.run(args, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }

    /// States and write pointers of the first zones, as nvme-cli has them.
    fn zones(&self, count: &str) -> Vec<(String, u64)> {
        let report = self.json(&["zone", "report", "--count", count]);
        let zone = |zone: &Value| (zone["state"].as_str().unwrap().to_owned(), zone["wp"].as_u64().unwrap());
        report["zone_list"].as_array().unwrap().iter().map(zone).collect()
    }
}

/// A state of a zone, and blocks that are written; none where it has no write pointer.
fn is(zone: u64, state: &str, written: Option<u64>) -> (String, u64) {
    (state.to_owned(), written.map_or(u64::MAX, |written| zone * ZONE_BLOCKS + written))
}

#[test]
fn a_zoned_namespace_is_made_and_shown() {
    let drive = Drive::start();
    let create = ["ns", "create", "--attach", "--size"];
    let zoned = |more: &[&'static str]| [&create[..], more].concat();
    drive.bad(1, &["zone", "report"], "no zoned namespace is attached");
    drive.bad(2, &zoned(&["3MiB", "--zoned"]), "zones, which have 2MiB each; 2MiB or 4MiB is");
    drive.bad(2, &zoned(&["1MiB", "--zoned"]), "each; 2MiB is");
    drive.bad(1, &zoned(&["8MiB", "--zoned", "--lba", "512"]), "the LBA format 512 has no zones");
    drive.bad(
        2,
        &zoned(&["8MiB", "--zoned", "--max-active", "2", "--max-open", "3"]),
        "--max-open 3 is more",
    );
    drive.bad(2, &zoned(&["8MiB", "--max-open", "3"]), "--zoned");
    drive.bad(
        4,
        &zoned(&["8MiB", "--zoned", "--max-active", "1000"]),
        "fewer than 1000 zones (--max-active)",
    );
    let made = drive.run(&zoned(&["16MiB", "--zoned", "--max-active", "3", "--max-open", "2"]), &[]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let nsid = text(&made.stdout).trim_end().to_owned();
    // Standard output has the number alone, for scripts.
    let usable = format!("namespace {nsid}: 8 of 2MiB, 1536KiB of each writable: 12MiB of 16MiB");
    assert_eq!(text(&made.stderr).trim_end(), usable);
    let listed = drive.good(&["ns", "list"]);
    assert!(listed.contains("Zones") && listed.contains("8 of 2MiB"), "{listed}");
    let listed = drive.json(&["ns", "list"]);
    let devices = listed["Devices"].as_array().unwrap();
    let zones: Vec<&Value> = devices.iter().map(|device| &device["Zones"]).collect();
    let expected = serde_json::json!(
        { "Count": 8, "Size": 2 << 20, "Capacity": 3 << 19, "MaxActive": 3, "MaxOpen": 2 }
    );
    assert_eq!(*zones.last().unwrap(), &expected);
    assert!(zones[0].is_null());
    let told = drive.good(&["id", "--nsid", &nsid]);
    assert!(told.contains("8 of 2MiB, 1536KiB of each writable; 3 may be active, 2 open"), "{told}");
    let told = drive.json(&["id", "--zns", &nsid]);
    assert_eq!((&told["mar"], &told["mor"], &told["lbafe"][0]["zsze"]), (&2.into(), &1.into(), &512.into()));
    drive.bad(1, &["id", "--zns", "1"], "namespace 1 has no zones");
    drive.bad(4, &["id", "--zns", "9"], "there is no namespace 9");
    drive.bad(1, &["zone", "report", "--nsid", "1"], "namespace 1 has no zones");
    drive.bad(4, &["zone", "report", "--nsid", "9"], "namespace 9 is not attached");
    drive.good(&zoned(&["4MiB", "--zoned", "--max-active", "1"]));
    drive.bad(2, &["zone", "report"], "--nsid must say which namespace");
}

#[test]
fn zones_are_opened_written_and_reset() {
    let drive = Drive::start();
    drive.good(&[
        "ns",
        "create",
        "--size",
        "16MiB",
        "--zoned",
        "--max-active",
        "3",
        "--max-open",
        "2",
        "--attach",
    ]);
    assert_eq!(drive.good(&["zone", "open", "1"]), "zone 1: Explicitly Opened");
    assert_eq!(drive.good(&["zone", "append", "1", "data"]), ZONE_BLOCKS.to_string());
    let place = drive.json(&["zone", "append", "2", "data"]);
    assert_eq!(place["appended"], serde_json::json!([{ "lba": 2 * ZONE_BLOCKS, "blocks": 256 }]));
    // What is no whole block is refused, or filled.
    let output = drive.run(&["zone", "append", "1"], b"a few bytes");
    assert!(!output.status.success() && text(&output.stderr).contains("--pad fills it"));
    let output = drive.run(&["zone", "append", "1", "--pad"], b"a few bytes");
    assert_eq!(text(&output.stdout).trim(), (ZONE_BLOCKS + 256).to_string());
    let expected = [is(0, "EMPTY", Some(0)), is(1, "EXP_OPENED", Some(257)), is(2, "IMP_OPENED", Some(256))];
    assert_eq!(drive.zones("3"), expected);
    drive.bad(
        4,
        &["zone", "append", "2", "data"],
        "zone 2 is Implicitly Opened, with 128 logical blocks left",
    );
    drive.bad(1, &["zone", "append", "3", "/dev/null"], "no data");
    drive.bad(1, &["zone", "append", "99", "data"], "there is no zone 99: namespace");
    assert_eq!(drive.good(&["zone", "close", "1"]), "zone 1: Closed");
    let output = drive.run(&["zone", "set-extension", "3"], b"a log");
    assert_eq!(text(&output.stdout).trim(), "zone 3: Closed", "{}", text(&output.stderr));
    drive.bad(4, &["zone", "open", "4"], "3 zones are active");
    assert_eq!(drive.good(&["zone", "finish", "2"]), "zone 2: Full");
    drive.bad(4, &["zone", "append", "2", "data"], "zone 2 is Full: `tranche zone reset 2` makes it empty");
    drive.bad(4, &["zone", "close", "0"], "zone 0 is Empty");
    drive.bad(4, &["zone", "offline", "1"], "zone 1 is Closed, from where");
    let report = drive.good(&["zone", "report", "--state", "closed"]);
    let rows: Vec<Vec<&str>> = report.lines().map(|row| row.split_whitespace().collect()).collect();
    let found = rows.iter().any(|row| row[..] == ["3", "1536", "1536", "384", "Closed", "\"a", "log\""]);
    assert!(found, "{report}");
    assert!(rows.iter().any(|row| row[..] == ["1", "512", "769", "384", "Closed", "-"]), "{report}");
    let report = drive.json(&["zone", "report", "--from", "6"]);
    assert_eq!((&report["nr_zones"], &report["zone_list"][0]["cap"]), (&2.into(), &CAPACITY.into()));
    drive.bad(1, &["zone", "report", "--from", "8"], "there is no zone 8");
    drive.bad(2, &["zone", "reset"], "--all");
    drive.bad(2, &["zone", "reset", "1", "--all"], "--all");
    // What was done before something failed is told.
    drive.bad(
        4,
        &["zone", "close", "3", "0"],
        "zone 3 is Closed now, but zone 0 did not change: zone 0 is Empty",
    );
    // Empty zones are not among those that --all opens.
    assert_eq!(drive.good(&["zone", "open", "--all"]), "namespace 2: 2 zones were opened");
    assert_eq!(drive.good(&["zone", "open", "--all"]), "namespace 2: no zone is closed, so none was opened");
    assert_eq!(drive.json(&["zone", "close", "--all"])["count"], 2);
    let reset = drive.json(&["zone", "reset", "1", "2"]);
    assert_eq!(reset["zones"][1], serde_json::json!({ "zone": 2, "state": "EMPTY" }));
    drive.good(&["zone", "reset", "--all"]);
    let empty: Vec<_> = (0..8).map(|zone| is(zone, "EMPTY", Some(0))).collect();
    assert_eq!(drive.zones("100"), empty);
}

#[test]
fn a_zone_is_read() {
    let drive = Drive::start();
    drive.good(&["ns", "create", "--size", "16MiB", "--zoned", "--attach"]);
    drive.good(&["zone", "append", "1", "data"]);
    let read = |args: &[&str]| {
        let output = drive.run(&[&["zone", "read"], args].concat(), &[]);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        output.stdout
    };
    assert!(read(&["1"]) == drive.data, "up to the write pointer");
    assert!(read(&["1", "--at", "255", "--blocks", "2"]) == [&drive.data[255 * 4096..], &[0; 4096]].concat());
    assert!(read(&["0"]).is_empty() && read(&["1", "--at", "300"]).is_empty());
    drive.good(&["zone", "finish", "1"]);
    assert_eq!(read(&["1"]).len(), 384 * 4096, "a full zone");
    drive.bad(1, &["zone", "read", "1", "--at", "383", "--blocks", "2"], "there is no block 384 in zone 1");
    drive.bad(1, &["zone", "read", "9"], "there is no zone 9");
    drive.bad(2, &["zone", "read", "1", "--output", "json"], "needs --file FILE");
    let read = drive.json(&["zone", "read", "1", "--file", "read"]);
    assert_eq!((&read["bytes"], &read["results"]), (&(384 * 4096).into(), &"read".into()));
    drive.bad(1, &["zone", "read", "1", "--file", "read"], "overwrite it with --force");
    drive.json(&["zone", "read", "1", "--file", "read", "--force"]);
    assert_eq!(std::fs::read(drive.dir.path().join("read")).unwrap()[..1 << 20], drive.data);
}

/// A namespace takes no more active zones than it has, and what it cannot have is told with the numbers.
#[test]
fn what_a_zoned_namespace_takes_and_cannot_have() {
    let drive = Drive::start();
    let first = drive.json(&["ns", "create", "--size", "8MiB", "--zoned"]);
    assert_eq!((&first["bytes"], &first["usable_bytes"]), (&(8 << 20).into(), &(6 << 20).into()));
    let plain = drive.json(&["ns", "create", "--size", "1MiB"]);
    assert_eq!(plain["usable_bytes"], 1 << 20);
    let second = drive.json(&["ns", "create", "--size", "16MiB", "--zoned", "--zrwa-resources", "2"])["nsid"]
        .to_string();
    let zns = |nsid: &str| drive.json(&["id", "--zns", nsid]);
    assert_eq!((&zns("2")["mar"], &zns(&second)["mar"]), (&3.into(), &7.into()), "zero-based");
    let create = |more: &[&str], says: &str| {
        drive.bad(4, &[&["ns", "create", "--zoned", "--size", "8MiB"], more].concat(), says);
    };
    create(
        &["--max-active", "3"],
        "fewer than 3 zones (--max-active) may still be active: 12 are promised to the zoned namespaces 2, 4",
    );
    create(
        &["--zrwa-resources", "3"],
        "--zrwa-resources asks for 3 Zone Random Write Areas, and the default NVM Set has 2 left",
    );
    create(&["--nvm-set", "9"], "there is no NVM Set 9");
    drive.good(&["ns", "create", "--size", "16MiB", "--zoned"]);
    create(&[], "no more zones may be active: 14 are promised to the zoned namespaces 2, 4, 5");
    drive.good(&["ns", "delete", "5"]);
    drive.bad(4, &["ns", "create", "--zoned", "--size", "1GiB"], "the zones need 1GiB, and NVM Set 1 has");
}

#[test]
fn a_zone_has_a_random_write_area() {
    let drive = Drive::start();
    let create = ["ns", "create", "--size", "16MiB", "--zoned", "--max-active", "3", "--attach"];
    drive.bad(
        2,
        &[&create[..], &["--zrwa-resources", "4"]].concat(),
        "--zrwa-resources 4 is more than --max-active 3",
    );
    let nsid = drive.good(&[&create[..], &["--zrwa-resources", "2"]].concat());
    let told = drive.good(&["id", "--nsid", &nsid]);
    assert!(told.contains("2 may have a random write area of 64KiB"), "{told}");
    let told = drive.json(&["id", "--zns", &nsid]);
    assert_eq!((&told["numzrwa"], &told["zrwasz"], &told["zrwafg"]), (&1.into(), &16.into(), &2.into()));
    assert_eq!(
        drive.good(&["zone", "open", "1", "3", "--zrwa"]),
        "zone 1: Explicitly Opened\nzone 3: Explicitly Opened"
    );
    drive.bad(4, &["zone", "open", "4", "--zrwa"], "2 zones have a Zone Random Write Area");
    let put = |at: &str, byte: u8| {
        let output = drive.run(&["zone", "write", "1", "--at", at], &[byte; 4096]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(put("5", 1), "zone 1: Explicitly Opened, write pointer at block 0");
    assert_eq!(put("5", 2), "zone 1: Explicitly Opened, write pointer at block 0");
    let flushed = drive.good(&["zone", "flush", "1", "--to", "6"]);
    assert_eq!(flushed, "zone 1: Explicitly Opened, write pointer at block 6");
    drive.bad(4, &["zone", "write", "1", "data", "--at", "5"], "blocks 6 to 37 can be written");
    drive.bad(4, &["zone", "flush", "1", "--to", "7"], "in steps of 2");
    drive.bad(4, &["zone", "append", "1", "data"], "It takes no appends");
    drive.bad(1, &["zone", "flush", "2"], "has no Zone Random Write Area");
    // A write behind the area commits what is before it.
    assert_eq!(put("22", 3), "zone 1: Explicitly Opened, write pointer at block 8");
    let report = drive.good(&["zone", "report"]);
    assert!(report.contains("Explicitly Opened, ZRWA"), "{report}");
    drive.good(&["power-cut", "--off", "1ms"]);
    drive.good(&["ns", "list", "--wait", "30"]);
    assert_eq!(drive.zones("4")[1], is(1, "CLOSED", Some(8)));
    // Nothing was written to the other.
    assert_eq!(drive.zones("4")[3], is(3, "EMPTY", Some(0)));
    assert_eq!(put("22", 4), "zone 1: Implicitly Opened, write pointer at block 8");
    let flushed = drive.json(&["zone", "flush", "1"]);
    assert_eq!((&flushed["written"], &flushed["state"]), (&24.into(), &"IMP_OPENED".into()));
    let identity = host::Identity::new("nqn.2026-11.test:reader".parse().unwrap());
    let transport = host::SocketTransport::new(drive.on.parse().unwrap(), std::time::Duration::from_secs(30));
    let mut host = host::Host::connect(transport, &identity).unwrap();
    let (nsid, own) = (nsid.parse().unwrap(), host.cntlid());
    host.attach_namespace(nsid, &[own]).unwrap();
    let (ns, mut queue) = (host.namespace(nsid).unwrap(), host.io_queue(4).unwrap());
    let mut read = vec![9; 24 * 4096];
    queue.read(&ns, ZONE_BLOCKS, &mut read).unwrap();
    let expected: Vec<u8> = (0..24)
        .map(|block| [(5, 2), (22, 4)].iter().find(|(at, _)| *at == block).map_or(0, |(_, byte)| *byte))
        .collect();
    assert!(read.chunks(4096).zip(expected).all(|(block, byte)| block == [byte; 4096]));
    assert_eq!(drive.good(&["zone", "changed", "--for", "0s"]), "no zone has changed");
}

#[test]
fn a_power_cut_leaves_what_was_appended() {
    let drive = Drive::start();
    drive.good(&["ns", "create", "--size", "16MiB", "--zoned", "--attach"]);
    drive.good(&["zone", "append", "1", "data"]);
    drive.good(&["zone", "finish", "5"]);
    drive.good(&["power-cut", "--off", "1ms"]);
    drive.good(&["ns", "list", "--wait", "30"]);
    let zones = drive.zones("6");
    assert_eq!((&zones[1], &zones[5]), (&is(1, "CLOSED", Some(256)), &is(5, "FULL", None)));
    let identity = host::Identity::new("nqn.2026-11.test:reader".parse().unwrap());
    let transport = host::SocketTransport::new(drive.on.parse().unwrap(), std::time::Duration::from_secs(30));
    let mut host = host::Host::connect(transport, &identity).unwrap();
    let (nsid, own) = (*host.allocated_namespaces().unwrap().last().unwrap(), host.cntlid());
    host.attach_namespace(nsid, &[own]).unwrap();
    let (ns, mut queue) = (host.namespace(nsid).unwrap(), host.io_queue(4).unwrap());
    let mut read = vec![0; drive.data.len()];
    queue.read(&ns, ZONE_BLOCKS, &mut read).unwrap();
    assert!(read == drive.data, "what was appended");
    // It goes on where it was.
    let output = drive.run(&["zone", "append", "1"], &drive.data[..8192]);
    assert_eq!(text(&output.stdout).trim(), (ZONE_BLOCKS + 256).to_string());
}

#[test]
fn jobs_on_zones_write_in_order_and_verify() {
    let drive = Drive::start();
    drive.good(&[
        "ns",
        "create",
        "--size",
        "16MiB",
        "--zoned",
        "--max-open",
        "4",
        "--max-active",
        "6",
        "--attach",
    ]);
    let bench = |nsid: &str, job: &str| {
        let file = drive.dir.path().join("job.fio");
        std::fs::write(file, format!("[global]\nzonemode=zbd\niodepth=8\n{job}")).unwrap();
        drive.run(&["bench", "job.fio", "--nsid", nsid, "--output", "json"], &[])
    };
    let jobs = |job: &str| -> Vec<Value> {
        let output = bench("2", job);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["jobs"].as_array().unwrap().clone()
    };
    let number = |job: &Value, direction: &str, key: &str| job[direction][key].as_u64().unwrap();
    let holds = 3 << 19;
    let ran = jobs(
        "[order]\nrw=write\nbs=64k\nsize=3z\n[appends]\nstonewall\nrw=write\nbs=32k\nzone_append=1\noffset=3z\nsize=2z\n\
         [random]\nstonewall\nrw=randwrite\nbsrange=4k-32k\nverify=crc32c\n\
         [mixed]\nstonewall\nrw=randrw\nbs=16k\nio_size=8m\nmax_open_zones=2\n\
         [clones]\nstonewall\nrw=randwrite\nbs=4k\nverify=md5\nzone_append=1\nsize=2z\noffset_increment=2z\nnumjobs=4\n\
         [trim]\nstonewall\nrw=randtrim\nsize=4z\n",
    );
    let names: Vec<&str> = ran.iter().map(|job| job["jobname"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["order", "appends", "random", "mixed", "clones", "clones", "clones", "clones", "trim"]
    );
    assert_eq!(number(&ran[0], "write", "io_bytes"), 3 * holds);
    assert_eq!(number(&ran[1], "write", "io_bytes"), 2 * holds);
    // What was there goes first; all that fits is verified.
    assert_eq!((&ran[2]["zone_resets"], number(&ran[2], "read", "io_bytes")), (&5.into(), 8 * holds));
    assert!(ran[3]["zone_resets"].as_u64().unwrap() > 0);
    assert!(ran[4..8].iter().all(|job| number(job, "read", "io_bytes") == 2 * holds));
    assert_eq!((number(&ran[8], "trim", "total_ios"), number(&ran[8], "trim", "io_bytes")), (4, 8 << 20));
    let states: Vec<_> = drive.zones("5").into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["EMPTY", "EMPTY", "EMPTY", "EMPTY", "FULL"]);
    // Without resets and threshold, nothing but a power cut tells what was verified.
    let only = "[again]\nrw=randwrite\nbs=4k\nsize=2z\nverify=sha1\n";
    jobs(only);
    drive.good(&["power-cut", "--off", "1ms"]);
    drive.good(&["ns", "list", "--wait", "30"]);
    drive.good(&["ns", "attach", "2"]);
    assert_eq!(number(&jobs(&format!("{only}verify_only\n"))[0], "read", "io_bytes"), 2 * holds);

    let refused = |nsid: &str, job: &str, says: &str| {
        let output = bench(nsid, job);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{job}: {said}");
    };
    refused("1", "[a]\nrw=write\n", "job.fio:4: job a: zonemode=zbd, but the namespace has no zones");
    refused(
        "2",
        "[a]\nrw=write\nzonemode=none\n",
        "job a: the namespace has zones, which are written in order",
    );
    refused("2", "[a]\nrw=write\nbs=2m\n", "more than the drive writes in one command");
    refused("2", "[a]\nrw=write\nnumjobs=2\n", "another job writes in the same zones");
    refused(
        "2",
        "[a]\nrw=read\nsize=1z\noffset=3z\n",
        "job a: nothing is written in the zones of its region",
    );
    refused("2", "[a]\nrw=write\nmax_open_zones=9\n", "the namespace allows 4 open zones");
}

/// The script that the page about zones shows.
#[test]
fn the_script_of_the_page_about_zones_runs() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/howto/zones.md");
    let page = std::fs::read_to_string(page).unwrap();
    let script = page.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```\n")).unwrap().0;
    let programs = std::path::Path::new(TRANCHE).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh").args(["-c", script]).env("PATH", path).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    // The job file is the one of the repository, without its remark.
    let job = page.split_once("```ini\n").and_then(|(_, rest)| rest.split_once("```\n")).unwrap().0;
    assert!(include_str!("../../../../jobs/zones.fio").ends_with(job), "{job}");
    let toml = page.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```\n")).unwrap().0;
    let drive = live::Config::from_toml(toml).unwrap();
    assert!(drive.namespaces[0].zones.is_some());
    // The table that the page shows is what the script printed.
    let shown = page.split_once("```text\n").and_then(|(_, rest)| rest.split_once("```\n")).unwrap().0;
    assert!(said.contains(shown), "{said}");
}

/// The drive has lost so many blocks that its set keeps no zone writable: a host sees it in reports and in the Changed Zone List, reads what is
/// there, and can take zones offline. The directory of zones shows the same.
#[test]
fn zones_of_a_worn_drive_are_read_only_and_can_be_taken_offline() {
    let drive = Drive::start();
    drive.good(&["ns", "create", "--attach", "--size", "8MiB", "--zoned"]);
    let first = drive.good(&["zone", "append", "0", "data"]);
    assert_eq!(first, "0");
    let told = Command::new(TRANCHE)
        .args(["zone", "changed", "--for", "300s", "--output", "json"])
        .env("TRANCHE_ON", &drive.on)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It has asked once before the zones wear out.
    std::thread::sleep(std::time::Duration::from_millis(300));
    drive.wear_out();
    let told = told.wait_with_output().unwrap();
    let changed: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(!changed["changed"].as_array().unwrap().is_empty(), "{changed}");
    drive.bad(4, &["zone", "append", "0", "data"], "Zone Is Read Only");
    drive.bad(4, &["zone", "reset", "0"], "Invalid Zone State Transition");
    drive.good(&["zone", "offline", "0"]);
    assert_eq!(drive.zones("1")[0].0, "OFFLINE");
    drive.bad(4, &["zone", "append", "0", "data"], "Zone Is Offline");
}

fn refused<T: std::fmt::Debug>(what: &str, result: std::io::Result<T>) {
    let error = result.map(|_| ()).expect_err(what);
    assert_eq!(error.raw_os_error(), Some(Errno::PERM.raw_os_error()), "{what}: {error}");
}

/// The directory of zones says of such zones what Linux's zonefs says: their files lose permissions, and `EPERM` is the answer to what they no
/// longer take. As with `errors=repair`, what is Read Only keeps its size.
#[test]
fn files_of_worn_zones_lose_their_permissions() {
    let name = "files_of_worn_zones_lose_their_permissions";
    if !testkit::possible(name, &[]) {
        return;
    }
    let mut drive = Drive::serve(true);
    assert_eq!(drive.good(&["ns", "create", "--attach", "--size", "8MiB", "--zoned"]), "2");
    testkit::wait_for("the files", || drive.zone(0).exists());
    let direct = OFlags::DIRECT.bits().cast_signed();
    let writable =
        |zone: u64| OpenOptions::new().read(true).write(true).custom_flags(direct).open(drive.zone(zone));
    let written = writable(0).unwrap();
    for (at, part) in (0..).step_by(1 << 16).zip(drive.data.chunks(1 << 16)) {
        written.write_all_at(part, at).unwrap();
    }
    let part = &drive.data[..1 << 16];
    writable(3).unwrap().write_all_at(part, 0).unwrap();
    let cached = OpenOptions::new().write(true).open(drive.zone(0)).unwrap();
    let read = File::open(drive.zone(0)).unwrap();
    let shown = |zone: u64| {
        let shown = std::fs::metadata(drive.zone(zone)).unwrap();
        (shown.mode() & 0o7777, shown.len(), shown.blocks() * 512)
    };
    let (len, capacity) = (drive.data.len() as u64, CAPACITY * 4096);
    assert_eq!((shown(0), shown(2)), ((0o600, len, capacity), (0o600, 0, capacity)));

    drive.wear_out();
    // What was empty is offline.
    assert_eq!((shown(0), shown(2)), ((0o400, len, capacity), (0, 0, capacity)));
    assert!(std::fs::read(drive.zone(0)).unwrap() == drive.data);
    let block = [1; 4096];
    for (what, at) in [("at its end", len), ("before it", 0), ("behind the zone", capacity)] {
        refused(what, written.write_at(&block, at));
        refused(what, cached.write_at(&block, at));
    }
    // What was written stays.
    written.sync_all().unwrap();
    let refuses_changes = |zone: u64| {
        refused("open for writing", writable(zone));
        refused("truncation by open", OpenOptions::new().write(true).truncate(true).open(drive.zone(zone)));
        for len in [0, capacity] {
            refused("truncation", written.set_len(len));
        }
        refused("chmod", std::fs::set_permissions(drive.zone(zone), PermissionsExt::from_mode(0o600)));
    };
    refuses_changes(0);
    let room = rustix::fs::statvfs(drive.zone(0)).unwrap();
    assert_eq!((room.f_blocks, room.f_bfree, room.f_files), (4 * CAPACITY, 0, 4));

    drive.good(&["zone", "offline", "0"]);
    assert_eq!((shown(0), shown(2)), ((0, 0, capacity), (0, 0, capacity)));
    let mut bytes = vec![0; 4096];
    for file in [&written, &read, &File::open(drive.zone(0)).unwrap()] {
        refused("a read", file.read_at(&mut bytes, 0));
    }
    refused("a write", written.write_at(&block, 0));
    refuses_changes(0);
    drop((written, cached, read));

    // The drive does not know how much of a zone was written that became read only before: all of it can be read.
    drive.stop();
    drive.start_again(true);
    testkit::wait_for("the files", || drive.zone(0).exists());
    let shown = |zone: u64| {
        std::fs::metadata(drive.zone(zone)).map(|shown| (shown.mode() & 0o7777, shown.len())).unwrap()
    };
    assert_eq!((shown(0), shown(2), shown(3)), ((0, 0), (0, 0), (0o400, capacity)));
    let read = std::fs::read(drive.zone(3)).unwrap();
    assert!(read[..1 << 16] == drive.data[..1 << 16] && read[1 << 16..].iter().all(|byte| *byte == 0));
    drive.stop();
}
