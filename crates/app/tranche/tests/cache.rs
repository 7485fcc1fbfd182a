//! `tranche cache`, and `[[cache]]` of a drive's TOML: what a user sees of tiers that are made, served, changed, removed, and crash. Most of it
//! needs root and FUSE; says so where they are missing.

#[path = "common/mod.rs"]
mod common;
#[path = "common/schema.rs"]
mod schema;
use common::{TRANCHE, text};
use rng::Rng;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{is_mounted, possible, run, wait_for};

const MIB: u64 = 1 << 20;
const SECTOR: usize = 512;

/// Three devices, and a directory for the block file.
struct Setup {
    dir: tempfile::TempDir,
    devices: [String; 3],
}

impl Setup {
    /// Files of these sizes.
    fn files(origin: u64, cache: u64, metadata: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("m")).unwrap();
        let file = |name: &str, bytes| {
            let path = dir.path().join(name);
            File::create(&path).unwrap().set_len(bytes).unwrap();
            path.display().to_string()
        };
        let devices = [file("origin", origin), file("cache", cache), file("metadata", metadata)];
        Setup { dir, devices }
    }

    fn at(&self, name: &str) -> String {
        common::at(self.dir.path(), name)
    }

    /// `tranche cache COMMAND` with the three devices.
    fn three(&self, command: &str, more: &[&str]) -> Output {
        let [origin, cache, metadata] = &self.devices;
        let mut all = vec![command, "--origin", origin, "--cache", cache, "--metadata", metadata];
        all.extend(more);
        tranche(&all)
    }

    fn create(&self, more: &[&str]) {
        good(&self.three("create", more));
    }

    fn serve(&self, more: &[&str]) -> Tier {
        Tier::start(self, more)
    }
}

/// `tranche cache` with these arguments.
fn tranche(arguments: &[&str]) -> Output {
    Command::new(TRANCHE).arg("cache").args(arguments).output().unwrap()
}

#[track_caller]
fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The command fails and says this.
#[track_caller]
fn bad(output: &Output, words: &str) {
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{words:?} is not said: {said}");
}

/// A tier that is served. It is killed when it goes out of scope.
struct Tier {
    child: Child,
    file: PathBuf,
    control: String,
    errors: BufReader<std::process::ChildStderr>,
}

impl Tier {
    fn start(setup: &Setup, more: &[&str]) -> Self {
        let [origin, cache, metadata] = &setup.devices;
        let (mount, control) = (setup.at("m"), setup.at("control"));
        let mut command = Command::new(TRANCHE);
        command.args(["cache", "serve", "--origin", origin, "--cache", cache, "--metadata", metadata]);
        command.args(["--fuse", &mount, "--control", &control]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let file = match serde_json::from_str::<Value>(&ready) {
            Ok(json) => {
                schema::check("cache-serve", &json);
                json["file"].as_str().map(str::to_owned)
            }
            Err(_) => ready.split_whitespace().find_map(|word| word.strip_prefix("file=")).map(str::to_owned),
        };
        let Some(file) = file else {
            let mut said = String::new();
            errors.read_to_string(&mut said).unwrap();
            panic!("not ready: {ready:?} {said}");
        };
        Tier { child, file: file.into(), control, errors }
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.file).unwrap()
    }

    /// `tranche cache COMMAND` for this tier: its status afterwards.
    #[track_caller]
    fn ask(&self, command: &[&str]) -> Value {
        let status = serde_json::from_str(&good(&self.try_ask(command))).unwrap();
        schema::check("cache-status", &status);
        status
    }

    fn try_ask(&self, command: &[&str]) -> Output {
        let mut all = command.to_vec();
        all.extend(["--control", &self.control, "--output", "json"]);
        tranche(&all)
    }

    fn signal(&self, name: &str) {
        run("kill", &["-s", name, &self.child.id().to_string()]);
    }

    /// Ends it, and returns its exit code and what it said.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        self.ended()
    }

    fn ended(&mut self) -> (Option<i32>, String) {
        let mut code = None;
        wait_for("the end", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        let mut said = String::new();
        self.errors.read_to_string(&mut said).unwrap();
        (code.unwrap().code(), said)
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(mount) = self.file.parent().filter(|mount| is_mounted(mount)) {
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
    }
}

/// What may stand in each sector: what was flushed, and what was written since.
struct Oracle {
    sectors: Vec<Vec<u64>>,
    next: u64,
    rng: Rng,
}

impl Oracle {
    fn new(bytes: u64, seed: u64) -> Self {
        let sectors = vec![vec![0]; (bytes / SECTOR as u64) as usize];
        Oracle { sectors, next: 1, rng: Rng::new(seed) }
    }

    /// Writes up to 32 KiB somewhere, more often in the first quarter.
    fn write(&mut self, file: &File) -> std::io::Result<()> {
        let all = self.sectors.len() as u64;
        let span = if self.rng.below(4) > 0 { all / 4 } else { all };
        let count = (8 * (1 + self.rng.below(8))).min(span);
        let first = self.rng.below((span - count) / 8 + 1) * 8;
        let stamp = self.next;
        self.next += 1;
        let range = first as usize..(first + count) as usize;
        let mut data = Vec::new();
        for at in range.clone() {
            data.extend(contents(at, stamp));
            self.sectors[at].push(stamp);
        }
        file.write_all_at(&data, first * SECTOR as u64)
    }

    /// Flushes. What was written is what stands there from then on.
    fn flush(&mut self, file: &File) -> std::io::Result<()> {
        file.sync_data()?;
        for sector in &mut self.sectors {
            sector.drain(..sector.len() - 1);
        }
        Ok(())
    }

    /// Compares everything. What is found stays.
    #[track_caller]
    fn check(&mut self, file: &File) {
        let mut data = vec![0; MIB as usize];
        for (part, sectors) in self.sectors.chunks_mut(data.len() / SECTOR).enumerate() {
            let begin = part * data.len() / SECTOR;
            let bytes = sectors.len() * SECTOR;
            file.read_exact_at(&mut data[..bytes], (begin * SECTOR) as u64).unwrap();
            for (at, sector) in sectors.iter_mut().enumerate() {
                let found = &data[at * SECTOR..][..SECTOR];
                let stamp = u64::from_le_bytes(found[..8].try_into().unwrap());
                assert!(sector.contains(&stamp), "sector {}: {stamp} is none of {sector:?}", begin + at);
                assert!(found == contents(begin + at, stamp), "sector {} is torn", begin + at);
                *sector = vec![stamp];
            }
        }
    }
}

/// A sector that was never written is zero.
fn contents(sector: usize, stamp: u64) -> Vec<u8> {
    if stamp == 0 {
        return vec![0; SECTOR];
    }
    let mut rng = Rng::stream(stamp, sector as u64);
    let mut data = stamp.to_le_bytes().to_vec();
    while data.len() < SECTOR {
        data.extend(rng.next_u64().to_le_bytes());
    }
    data
}

fn seed() -> u64 {
    let seed = std::env::var("TRANCHE_CACHE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("TRANCHE_CACHE_SEED={seed}");
    seed
}

#[test]
fn a_tier_is_made_served_changed_and_removed() {
    if !possible("a_tier_is_made_served_changed_and_removed", &[]) {
        return;
    }
    let setup = Setup::files(32 * MIB, 8 * MIB, MIB);
    setup.create(&["--chunk", "64KiB", "--policy", "mq"]);
    let recorded = good(&tranche(&["status", "--metadata", &setup.devices[2]]));
    assert!(recorded.contains("64KiB") && recorded.contains("writeback"), "{recorded}");

    let tier = setup.serve(&[]);
    let file = tier.open();
    assert_eq!(file.metadata().unwrap().len(), 32 * MIB);
    let mut oracle = Oracle::new(32 * MIB, seed());
    for _ in 0..400 {
        oracle.write(&file).unwrap();
    }
    // Bytes that are no whole blocks, and a hole.
    file.write_all_at(b"tranche", 31 * MIB + 5).unwrap();
    let mut found = [0; 7];
    file.read_exact_at(&mut found, 31 * MIB + 5).unwrap();
    assert_eq!(&found, b"tranche");
    oracle.sectors[(31 * MIB) as usize / SECTOR] = vec![0];
    let hole = ["-p", "-o", &(31 * MIB).to_string(), "-l", "4096", tier.file.to_str().unwrap()];
    run("fallocate", &hole);
    for at in 0..8 {
        oracle.sectors[(31 * MIB) as usize / SECTOR + at] = vec![0];
    }
    oracle.flush(&file).unwrap();
    oracle.check(&file);

    let status = tier.ask(&["status"]);
    assert_eq!((&status["mode"], &status["chunk"]), (&"writeback".into(), &65536.into()), "{status}");
    let count = |status: &Value, key: &str| status[key].as_u64().unwrap();
    let accesses = ["read_hits", "read_misses", "write_hits", "write_misses"].map(|key| count(&status, key));
    assert!(accesses.iter().sum::<u64>() >= 400, "{status}");
    assert!(count(&status, "promotions") > 0 && count(&status, "cached") > 0, "{status}");

    // Changes while writes go on.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The limit ends a test that fails.
            let begin = Instant::now();
            while !stop.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(120) {
                oracle.write(&file).unwrap();
            }
        });
        for policy in ["smq", "cleaner", "smq-4.11", "mq"] {
            assert_eq!(tier.ask(&["policy", policy])["policy"], policy);
        }
        assert_eq!(tier.ask(&["mode", "writethrough"])["mode"], "writethrough");
        // People are told what has changed, and no more.
        for (change, line) in [
            (&["mode", "writethrough"][..], "mode: writethrough\n"),
            (&["policy", "mq"], "policy: mq\n"),
            (&["set", "migration_threshold", "4096"], "migration_threshold: 4096\n"),
            (&["flush"], "flushed: 0 chunks are dirty\n"),
        ] {
            assert_eq!(good(&tranche(&[change, &["--control", &tier.control]].concat())), line);
        }
        assert_eq!(tier.ask(&["flush"])["dirty"], 0);
        bad(&tier.try_ask(&["invalidate"]), "in passthrough mode only");
        assert_eq!(tier.ask(&["mode", "passthrough"])["mode"], "passthrough");
        bad(&tier.try_ask(&["invalidate", "7-1000000"]), "the cache has chunks 0 to");
        bad(&tier.try_ask(&["invalidate", "7"]), "BEGIN-END");
        tier.ask(&["invalidate", "0-4"]);
        assert_eq!(tier.ask(&["invalidate"])["cached"], 0);
        assert_eq!(tier.ask(&["mode", "writeback"])["mode"], "writeback");
        let set = tier.ask(&["set", "migration_threshold", "8192"]);
        assert_eq!(set["tunables"]["migration_threshold"], 8192);
        stop.store(true, Ordering::Relaxed);
    });
    bad(&tier.try_ask(&["set", "no_such", "1"]), "no such tunable");
    bad(&tier.try_ask(&["set", "random_threshold", "many"]), "a number");
    oracle.check(&file);
    drop(file);
    let (code, said) = tier.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(!is_mounted(&setup.dir.path().join("m")) && !Path::new(&setup.at("control")).exists());

    let removed = good(&setup.three("remove", &["--output", "json"]));
    assert!(serde_json::from_str::<Value>(&removed).unwrap()["written_back"].is_u64(), "{removed}");
    oracle.check(&File::open(&setup.devices[0]).unwrap());
    bad(&setup.three("remove", &[]), "holds no cache tier");
    bad(&tranche(&["status", "--metadata", &setup.devices[2]]), "holds no cache tier");
    setup.create(&[]);
}

#[test]
fn what_was_flushed_outlives_a_killed_tier() {
    if !possible("what_was_flushed_outlives_a_killed_tier", &[]) {
        return;
    }
    let setup = Setup::files(16 * MIB, 4 * MIB, MIB);
    let seed = seed();
    let mut oracle = Oracle::new(16 * MIB, seed);
    let (modes, policies) = (["writeback", "writethrough"], ["smq", "mq", "smq-4.11"]);
    setup.create(&["--chunk", "32KiB"]);
    for round in 0..6 {
        let tier = setup.serve(&["--mode", modes[round % 2], "--policy", policies[round % 3]]);
        let file = tier.open();
        oracle.check(&file);
        for _ in 0..1 + oracle.rng.below(4) {
            for _ in 0..oracle.rng.below(100) {
                oracle.write(&file).unwrap();
            }
            oracle.flush(&file).unwrap();
        }
        for _ in 0..oracle.rng.below(100) {
            oracle.write(&file).unwrap();
        }
        tier.signal("KILL");
        drop(file);
    }
    let tier = setup.serve(&[]);
    oracle.check(&tier.open());
    assert_eq!(tier.end("INT").0, Some(0));
    good(&setup.three("remove", &[]));
    oracle.check(&File::open(&setup.devices[0]).unwrap());
}

/// A drive with an image on a Unix socket, with three namespaces for a tier.
struct Drive {
    served: common::Served,
}

const DRIVE: &str = r#"
[drive]
timing = false
[[set]]
media = "nand"
cell = "tlc"
capacity = "64MiB"
spare = "40%"
channels = 2
dies = 2
planes = 2
rated_cycles = 3000
nand_page = "16KiB"
pages_per_block = 24
timing = { read = "75us", program = "2.2ms", erase = "10ms", channel = "533MB/s" }
[[namespace]]
size = "16MiB"
[[namespace]]
size = "4MiB"
[[namespace]]
size = "1MiB"
[[namespace]]
size = "1MiB"
"#;

impl Drive {
    fn start(dir: &Path, more: &[&str]) -> Self {
        let toml = common::at(dir, "drive.toml");
        if !Path::new(&toml).exists() {
            std::fs::write(&toml, DRIVE).unwrap();
        }
        let (image, socket) = (common::at(dir, "image"), common::at(dir, "socket"));
        let mut all = vec!["--drive", &toml, "--image", &image, "--unix", &socket];
        all.extend(more);
        Drive { served: common::Served::start(&all) }
    }
}

/// A tier on namespaces of a drive, and the drive.
fn on_namespaces(origin_is_file: bool) -> (Setup, Drive) {
    let mut setup = Setup::files(16 * MIB, 4 * MIB, MIB);
    let drive = Drive::start(setup.dir.path(), &[]);
    for (nsid, device) in (1..=3).zip(&mut setup.devices).skip(usize::from(origin_is_file)) {
        *device = format!("unix://{}/{nsid}", common::at(setup.dir.path(), "socket"));
    }
    (setup, drive)
}

#[test]
fn a_drive_that_dies_under_a_tier_ends_it_and_nothing_flushed_is_lost() {
    if !possible("a_drive_that_dies_under_a_tier_ends_it_and_nothing_flushed_is_lost", &[]) {
        return;
    }
    let (setup, mut drive) = on_namespaces(false);
    let mut oracle = Oracle::new(16 * MIB, seed());
    setup.create(&["--chunk", "64KiB"]);
    for _ in 0..3 {
        let mut tier = setup.serve(&["--policy", "mq"]);
        let file = tier.open();
        oracle.check(&file);
        for _ in 0..200 {
            oracle.write(&file).unwrap();
        }
        oracle.flush(&file).unwrap();
        let pid = drive.served.child.id().to_string();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                run("kill", &["-s", "KILL", &pid]);
            });
            let begin = Instant::now();
            while oracle.write(&file).is_ok() {
                assert!(begin.elapsed() < Duration::from_secs(60), "writes do not fail");
            }
            // What may be lost is not said to be flushed.
            assert!(oracle.flush(&file).is_err());
        });
        drop(file);
        let (code, said) = tier.ended();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("takes no more writes") && said.contains("unix://"), "{said}");
        assert!(!is_mounted(&setup.dir.path().join("m")));
        drop(std::mem::replace(&mut drive, Drive { served: start_again(&setup) }));
    }
    let mut tier = setup.serve(&[]);
    oracle.check(&tier.open());
    // Now while nobody asks anything.
    drop(drive);
    let (code, said) = tier.ended();
    assert_eq!(code, Some(1), "{said}");
}

/// What was in memory is gone when its drive ends, and so is an image that is made anew. Namespaces of a drive that is configured alike are other ones: else
/// what they do not hold would be written over the origin.
#[test]
fn namespaces_of_a_drive_that_was_made_anew_are_other_ones() {
    if !possible("namespaces_of_a_drive_that_was_made_anew_are_other_ones", &[]) {
        return;
    }
    for in_memory in [true, false] {
        let mut setup = Setup::files(16 * MIB, 4 * MIB, MIB);
        let (toml, image, socket) = (setup.at("drive.toml"), setup.at("image"), setup.at("socket"));
        std::fs::write(&toml, DRIVE).unwrap();
        let start = || {
            let mut all = vec!["--drive", &toml, "--unix", &socket];
            all.extend(["--image", &image].iter().filter(|_| !in_memory));
            common::Served::start(&all)
        };
        let origin = setup.devices[0].clone();
        setup.devices[1] = format!("unix://{socket}/2");
        let drive = start();
        setup.create(&["--chunk", "64KiB"]);
        let tier = setup.serve(&["--policy", "mq"]);
        let mut oracle = Oracle::new(16 * MIB, seed());
        let file = tier.open();
        for _ in 0..100 {
            oracle.write(&file).unwrap();
        }
        oracle.flush(&file).unwrap();
        drop(file);
        assert_eq!(tier.end("TERM").0, Some(0));
        let before = std::fs::read(&origin).unwrap();
        drop(drive);
        if !in_memory {
            std::fs::remove_dir_all(&image).unwrap();
        }
        let _drive = start();
        bad(&setup.three("serve", &["--fuse", &setup.at("m")]), "not the cache device of the last session");
        bad(&setup.three("remove", &[]), "not the cache device of the last session");
        assert!(std::fs::read(&origin).unwrap() == before, "in memory {in_memory}: the origin was changed");
    }
}

fn start_again(setup: &Setup) -> common::Served {
    Drive::start(setup.dir.path(), &[]).served
}

#[test]
fn a_writethrough_tier_goes_on_without_its_cache() {
    if !possible("a_writethrough_tier_goes_on_without_its_cache", &[]) {
        return;
    }
    let (setup, drive) = on_namespaces(true);
    let mut oracle = Oracle::new(16 * MIB, seed());
    setup.create(&["--chunk", "64KiB", "--mode", "writethrough", "--policy", "mq"]);
    let tier = setup.serve(&[]);
    let file = tier.open();
    for _ in 0..200 {
        oracle.write(&file).unwrap();
    }
    oracle.check(&file);
    drop(drive);
    for _ in 0..200 {
        oracle.write(&file).unwrap();
    }
    oracle.flush(&file).unwrap();
    oracle.check(&file);
    let status = tier.ask(&["status"]);
    assert!(!status["failures"].as_array().unwrap().is_empty(), "{status}");
    bad(&tier.try_ask(&["policy", "smq"]), "failed before");
    drop(file);
    let (code, said) = tier.end("TERM");
    // Its warning comes within a second, which it may not have had.
    assert!(said.contains("the connection was closed by the drive"), "{code:?} {said}");
    oracle.check(&File::open(&setup.devices[0]).unwrap());
}

#[test]
fn a_tier_of_a_drives_toml_is_a_block_file_beside_its_other_namespaces() {
    if !possible("a_tier_of_a_drives_toml_is_a_block_file_beside_its_other_namespaces", &[]) {
        return;
    }
    let setup = Setup::files(512, 512, 512);
    let (dir, mount) = (setup.dir.path(), setup.at("m"));
    let name = format!("test-{}", std::process::id());
    let table = format!(
        "{DRIVE}\n[[cache]]\nname = \"{name}\"\norigin = 1\ncache = 2\nmetadata = 3\nchunk = \"32KiB\"\npolicy = \"mq\"\n"
    );
    std::fs::write(dir.join("drive.toml"), table).unwrap();
    let mut oracle = Oracle::new(16 * MIB, seed());
    let path = dir.join("m").join(format!("cache-{name}"));
    for round in 0..3 {
        let drive = Drive::start(dir, &["--fuse", &mount]);
        let mut names: Vec<_> = std::fs::read_dir(&mount)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [format!("cache-{name}"), "nvme0n4".to_owned()]);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        oracle.check(&file);
        for _ in 0..200 {
            oracle.write(&file).unwrap();
        }
        oracle.flush(&file).unwrap();
        let status = good(&tranche(&["status", "--name", &name, "--output", "json"]));
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!((&status["policy"], &status["bytes"]), (&"mq".into(), &(16 * MIB).into()), "{status}");
        // A tier elsewhere cannot take the same devices.
        let at = |nsid: u32| format!("unix://{}/{nsid}", setup.at("socket"));
        let of = ["status", "--metadata", &at(3)];
        bad(&tranche(&of), "in use");
        for _ in 0..50 {
            oracle.write(&file).unwrap();
        }
        drop(file);
        match round {
            0 => drive.served.signal("KILL"),
            _ => {
                oracle.flush(&File::open(&path).unwrap()).unwrap();
                drive.served.signal("TERM");
                assert_eq!(drive.served.end(), Some(0));
                assert!(!is_mounted(&dir.join("m")));
                continue;
            }
        }
        drop(drive);
    }
    // A power cut that takes completed writes along takes the tier's file, too.
    let drive = Drive::start(dir, &["--fuse", &mount]);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    oracle.check(&file);
    for _ in 0..50 {
        oracle.write(&file).unwrap();
    }
    run(TRANCHE, &["power-cut", "--no-plp", "--on", &format!("unix://{}", setup.at("socket"))]);
    assert!(oracle.flush(&file).is_err());
    drop(file);
    wait_for("the file's end", || !path.exists() && dir.join("m/nvme0n4").exists());
    drive.served.signal("TERM");
    assert_eq!(drive.served.end(), Some(0));
    let drive = Drive::start(dir, &["--fuse", &mount]);
    oracle.check(&File::open(&path).unwrap());
    drive.served.signal("TERM");
    assert_eq!(drive.served.end(), Some(0));
    // Without block files there is no tier, and the namespaces are there for others.
    let _drive = Drive::start(dir, &[]);
    let mut removed = setup;
    let socket = removed.at("socket");
    removed.devices = [1, 2, 3].map(|nsid| format!("unix://{socket}/{nsid}"));
    good(&removed.three("remove", &[]));
}

/// To the drive, a namespace that is detached is an invalid field of a command. To a tier above it, its device is gone.
#[test]
fn a_namespace_that_is_detached_under_a_tier_is_gone() {
    if !possible("a_namespace_that_is_detached_under_a_tier_is_gone", &[]) {
        return;
    }
    let setup = Setup::files(512, 512, 512);
    let (dir, mount, on) = (setup.dir.path(), setup.at("m"), format!("unix://{}", setup.at("socket")));
    let name = format!("gone-{}", std::process::id());
    let table = format!(
        "{DRIVE}\n[[cache]]\nname = \"{name}\"\norigin = 1\ncache = 2\nmetadata = 3\nchunk = \"32KiB\"\n"
    );
    std::fs::write(dir.join("drive.toml"), table).unwrap();
    let mut oracle = Oracle::new(16 * MIB, seed());
    let path = dir.join("m").join(format!("cache-{name}"));
    let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let drive = Drive::start(dir, &["--fuse", &mount]);
    let file = open();
    for _ in 0..200 {
        oracle.write(&file).unwrap();
    }
    oracle.flush(&file).unwrap();
    good(&Command::new(TRANCHE).args(["ns", "detach", "2", "--on", &on]).output().unwrap());
    let failed = (0..1000).find_map(|_| oracle.write(&file).err()).expect("a write fails");
    assert_eq!(failed.raw_os_error(), Some(5), "{failed}");
    assert!(oracle.flush(&file).is_err());
    drop(file);
    wait_for("the end of the file of a tier that failed", || !path.exists());
    good(&Command::new(TRANCHE).args(["ns", "attach", "2", "--on", &on]).output().unwrap());
    drop(drive);
    let drive = Drive::start(dir, &["--fuse", &mount]);
    oracle.check(&open());
    // It leaves nothing mounted.
    drive.served.signal("TERM");
    assert_eq!(drive.served.end(), Some(0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let setup = Setup::files(16 * MIB, 4 * MIB, MIB);
    for (more, words) in [
        (&["--chunk", "48KiB"][..], "a multiple of 32 KiB"),
        (&["--chunk", "2GiB"], "32 KiB to 1 GiB"),
        (&["--chunk", "8MiB"], "less than one chunk"),
        (&["--mode", "writearound"], "not one of writeback"),
        (&["--policy", "lru"], "not one of mq"),
    ] {
        bad(&setup.three("create", more), words);
    }
    let [origin, cache, metadata] = &setup.devices;
    let create = |origin: &str, cache: &str, metadata: &str| {
        tranche(&["create", "--origin", origin, "--cache", cache, "--metadata", metadata])
    };
    bad(&create(origin, origin, metadata), "it is the origin, too");
    bad(&create(origin, "/no/such/file", metadata), "No such file");
    bad(&create(origin, "3", metadata), "of which drive");
    bad(&create(origin, "unix:///no/such/socket/1", metadata), "no drive at unix:///no/such/socket");
    bad(&create(origin, "tcp://127.0.0.1:4420", metadata), "names no namespace");
    let tiny = setup.at("tiny");
    File::create(&tiny).unwrap().set_len(4096).unwrap();
    bad(&create(origin, cache, &tiny), "needs");

    // Foreign data, another tier, a copy of the origin.
    File::options().write(true).open(metadata).unwrap().write_all_at(b"ext4", 1080).unwrap();
    bad(&setup.three("create", &[]), "something that is no cache tier");
    bad(&tranche(&["status", "--metadata", metadata]), "holds no cache tier");
    setup.create(&["--replace"]);
    bad(&setup.three("create", &[]), "holds a cache tier already");
    setup.create(&["--replace", "--chunk", "64KiB"]);
    let copy = setup.at("copy");
    std::fs::copy(origin, &copy).unwrap();
    let remove =
        |origin: &str| tranche(&["remove", "--origin", origin, "--cache", cache, "--metadata", metadata]);
    bad(&remove(&copy), "another origin");
    // Another file as the cache: what is dirty is not there.
    let other = setup.at("other-cache");
    std::fs::copy(cache, &other).unwrap();
    let with_other = tranche(&["remove", "--origin", origin, "--cache", &other, "--metadata", metadata]);
    bad(&with_other, "not the cache device of the last session");
    // Damage of both superblocks.
    let bytes = std::fs::read(metadata).unwrap();
    let damaged = File::options().write(true).open(metadata).unwrap();
    for at in [100, 4196] {
        damaged.write_all_at(&[bytes[at as usize] ^ 1], at).unwrap();
    }
    bad(&remove(origin), "damaged");
    damaged.write_all_at(&bytes, 0).unwrap();
    good(&remove(origin));

    bad(&tranche(&["status", "--control", &setup.at("nobody")]), "no cache tier runs");
    bad(&tranche(&["status", "--name", "a/b"]), "1 to 32 letters");
}

#[test]
fn a_running_tier_has_its_devices_and_its_socket_alone() {
    if !possible("a_running_tier_has_its_devices_and_its_socket_alone", &["losetup"]) {
        return;
    }
    let setup = Setup::files(16 * MIB, 4 * MIB, MIB);
    setup.create(&[]);
    let tier = setup.serve(&["--loop", "--output", "json"]);
    let other = setup.at("m2");
    std::fs::create_dir(&other).unwrap();
    bad(&setup.three("serve", &["--fuse", &other, "--control", &setup.at("c2")]), "in use");
    bad(&setup.three("remove", &[]), "in use");
    bad(&tranche(&["status", "--metadata", &setup.devices[2]]), "in use");
    let devices = run("losetup", &["--noheadings", "--output", "BACK-FILE"]);
    assert!(devices.contains("cache-0"), "{devices}");

    let mut socket = UnixStream::connect(&tier.control).unwrap();
    let mut answers = BufReader::new(socket.try_clone().unwrap());
    for (line, words) in [
        ("nonsense\n", "not a request"),
        ("{\"request\":\"mode\",\"mode\":\"fast\"}\n", "not one of writeback"),
        ("{\"request\":\"status\"}\n", "\"running\":true"),
    ] {
        socket.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains(words), "{line}: {answer}");
    }
    let second = Setup::files(16 * MIB, 4 * MIB, MIB);
    second.create(&[]);
    bad(&second.three("serve", &["--fuse", &other, "--control", &tier.control]), "has its socket there");
    drop((socket, answers));
    let (code, said) = tier.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    let devices = run("losetup", &["--noheadings", "--output", "BACK-FILE"]);
    assert!(!devices.contains(setup.dir.path().to_str().unwrap()), "{devices}");
}
