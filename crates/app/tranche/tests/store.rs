//! `tranche store`: files on zones, mounted. Needs root and FUSE; says so where they are missing.

mod common;
#[path = "common/schema.rs"]
mod schema;
#[path = "store/takeover.rs"]
mod takeover;

use common::{Served, TRANCHE, at, repository, store_library, text};
use export::MountedFileSystem;
use nvme::Status;
use nvme::reservation::{
    AcquireAction, ChangePtpl, RegisterAction, ReservationAcquire, ReservationRegister, ReservationType,
};
use rustix::fs::{FallocateFlags, RenameFlags, XattrFlags};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use store::device::{Condition, Shape};
use store::simulated::Simulated;
use store::{
    Attributes, FileSystem, FormatOptions, Ino, NamespaceZones, NewKind, Placement, Store, ZoneDevice,
    ZoneUse,
};
use testkit::{is_mounted, possible, skipped, wait_for};

/// Zones of 2 MiB, 1.5 MiB of which can be written.
fn drive() -> String {
    let flash = testkit::drives::flash("128MiB", "zone = { active = 14 }");
    format!(
        r#"
[drive]
timing = false
write_buffer = "4MiB"
{flash}
"#
    )
}

struct Drive {
    dir: tempfile::TempDir,
    served: Option<Served>,
    on: String,
}

impl Drive {
    /// A drive with an image, with a zoned namespace of 96 MiB and a small conventional one.
    fn start() -> Self {
        Self::start_as(&[])
    }

    /// The same with these options.
    fn start_as(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let on = format!("unix://{}", at(dir.path(), "s"));
        fs::write(dir.path().join("drive.toml"), drive()).unwrap();
        let mut drive = Self { dir, served: None, on };
        drive.serve_as(more);
        drive.good(&["ns", "create", "--zoned", "--size", "96MiB", "--attach"]);
        drive
    }

    fn serve(&mut self) {
        self.serve_as(&[]);
    }

    fn serve_as(&mut self, more: &[&str]) {
        let path = |name| at(self.dir.path(), name);
        let (toml, socket, image) = (path("drive.toml"), path("s"), path("image"));
        let mut command = Command::new(TRANCHE);
        command.args(["serve", "--drive", &toml, "--unix", &socket, "--image", &image]).args(more);
        self.served = Some(Served::run(command.env_remove("TRANCHE_DRIVE_KEY")));
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(TRANCHE).env("TRANCHE_ON", &self.on).args(args).output().unwrap()
    }

    /// What a command says that succeeds.
    fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[args, &["--output", "json"]].concat())).unwrap()
    }

    /// A command fails with this exit code, and says this.
    fn bad(&self, code: i32, args: &[&str], says: &str) {
        let output = self.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }

    fn point(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    fn mount(&self) -> Served {
        self.mount_at(&self.point())
    }

    fn mount_at(&self, point: &Path) -> Served {
        let _ = fs::create_dir(point);
        let mut command = Command::new(TRANCHE);
        command.env("TRANCHE_ON", &self.on).args(["--quiet", "store", "mount"]).arg(point);
        Served::run(&mut command)
    }

    /// A new store, mounted, with a file that is synced. The second path is the file's, the first that of what the mount says.
    fn mount_with_a_file(&self) -> (Served, PathBuf, PathBuf) {
        self.good(&["store", "format"]);
        let _ = fs::create_dir(self.point());
        let log = self.dir.path().join("log");
        let mut command = Command::new(TRANCHE);
        command.env("TRANCHE_ON", &self.on).args(["store", "mount"]).arg(self.point());
        command.stderr(File::create(&log).unwrap());
        let mounted = Served::run(&mut command);
        let path = self.point().join("file");
        fs::write(&path, "synced").unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        (mounted, log, path)
    }

    /// The same, with the line that JSON has in place of words.
    fn mount_with_json(&self) -> Served {
        let _ = fs::create_dir(self.point());
        let mut command = Command::new(TRANCHE);
        command.env("TRANCHE_ON", &self.on).args(["--quiet", "--output", "json", "store", "mount"]);
        let mut child = command.arg(self.point()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        Served { child, ready }
    }
}

/// Bytes that tell where they belong.
fn pattern(seed: u32, length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Does what programs do with files, and leaves some.
fn use_files(top: &Path) {
    fs::create_dir_all(top.join("a/b")).unwrap();
    let path = top.join("a/b/file");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(&pattern(1, 10_000)).unwrap();
    file.write_all_at(b"changed", 5_000).unwrap();
    file.set_len(20_000).unwrap();
    file.set_len(9_000).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 100, 4_500).unwrap();
    let mut expected = pattern(1, 9_000);
    expected[5_000..5_007].copy_from_slice(b"changed");
    expected[100..4_600].fill(0);
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut read).unwrap();
    assert_eq!(read, expected);
    file.sync_all().unwrap();

    // Appends of two openings go to the end.
    let log = top.join("log");
    for part in ["one ", "two "] {
        let mut file = File::options().append(true).create(true).open(&log).unwrap();
        file.write_all(part.as_bytes()).unwrap();
        file.sync_data().unwrap();
    }
    assert_eq!(fs::read(&log).unwrap(), b"one two ");

    // A file replaces another, a name is exchanged, a file has two names, a link leads to it.
    fs::write(top.join("new"), "new").unwrap();
    fs::write(top.join("old"), "old").unwrap();
    fs::rename(top.join("new"), top.join("old")).unwrap();
    assert_eq!(fs::read(top.join("old")).unwrap(), b"new");
    let at = File::open(top).unwrap();
    rustix::fs::renameat_with(&at, "old", &at, "log", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(top.join("old")).unwrap(), b"one two ");
    let taken = rustix::fs::renameat_with(&at, "old", &at, "log", RenameFlags::NOREPLACE);
    assert_eq!(taken, Err(rustix::io::Errno::EXIST));
    fs::hard_link(top.join("old"), top.join("a/other")).unwrap();
    assert_eq!(fs::metadata(top.join("old")).unwrap().nlink(), 2);
    symlink("a/b", top.join("link")).unwrap();
    assert_eq!(fs::read(top.join("link/file")).unwrap(), expected);
    assert!(fs::rename(top.join("a"), top.join("a/b/c")).is_err(), "a directory within itself");
    assert!(fs::remove_dir(top.join("a")).is_err(), "not empty");

    // A file without a name lives as long as it is open.
    let mut gone = File::options().read(true).write(true).create_new(true).open(top.join("gone")).unwrap();
    fs::remove_file(top.join("gone")).unwrap();
    gone.write_all(b"still here").unwrap();
    let mut read = [0; 10];
    gone.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"still here");

    // Permissions, times, extended attributes.
    fs::set_permissions(top.join("old"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(top.join("old")).unwrap().mode() & 0o7777, 0o640);
    let lifetime = "user.tranche.lifetime";
    rustix::fs::setxattr(top.join("old"), lifetime, b"short", XattrFlags::empty()).unwrap();
    let wrong = rustix::fs::setxattr(top.join("old"), lifetime, b"soon", XattrFlags::empty());
    assert_eq!(wrong, Err(rustix::io::Errno::INVAL));
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(top.join("old"), lifetime, &mut value).unwrap();
    assert_eq!(&value[..length], b"short");

    // What decides where data goes.
    let table = File::create(top.join("table")).unwrap();
    let keys = "user.tranche.keys";
    rustix::fs::fsetxattr(&table, keys, b"3:61-7a", XattrFlags::empty()).unwrap();
    for (path, name, value) in [("table", keys, "3:7a-61"), ("", "user.tranche.placement", "best")] {
        let wrong = rustix::fs::setxattr(top.join(path), name, value.as_bytes(), XattrFlags::empty());
        assert_eq!(wrong, Err(rustix::io::Errno::INVAL), "{name}");
    }
    table.write_all_at(&[7; 1 << 20], 0).unwrap();
    table.sync_all().unwrap();
    assert_eq!(rustix::fs::listxattr(top, &mut [0u8; 64][..]), Ok(0), "the store's own are not shown");

    // More names than the kernel takes in one answer.
    fs::create_dir(top.join("many")).unwrap();
    for number in 0..3_000 {
        File::create(top.join(format!("many/{number}"))).unwrap();
    }
    assert_eq!(fs::read_dir(top.join("many")).unwrap().count(), 3_000);
    at.sync_all().unwrap();
}

#[test]
fn programs_find_a_file_system_and_what_was_synced_survives_a_kill() {
    if !possible("programs_find_a_file_system_and_what_was_synced_survives_a_kill", &[]) {
        return;
    }
    let drive = Drive::start();
    drive.bad(1, &["store", "ls"], "there is no store on this namespace");
    drive.good(&["store", "format"]);
    drive.bad(1, &["store", "format"], "`--force` empties them");
    let mounted = drive.mount();
    // Nobody else of this machine takes it over, or empties it.
    let other = tempfile::tempdir().unwrap();
    drive.bad(1, &["store", "mount", other.path().to_str().unwrap()], "another program of this machine has");
    drive.bad(1, &["store", "format", "--force"], "another program of this machine has the store open");
    let top = drive.point();
    use_files(&top);
    // One that was not synced may be there or not.
    fs::write(top.join("unsynced"), "perhaps").unwrap();
    drop(mounted);
    assert!(File::open(&top).is_err(), "nobody answers");

    let report = drive.json(&["store", "check", "--data"]);
    assert_eq!(report["problems"], Value::Array(Vec::new()));
    assert_eq!(drive.json(&["store", "stat", "/old"])["size"], 8);
    let stat = drive.json(&["store", "stat"]);
    assert_eq!(stat["placement"], "overlap");
    assert!(stat["written_bytes"].as_u64() >= Some(1 << 20), "{stat}");
    let zones = drive.json(&["store", "stat", "--zones"]);
    let has_table = |zone: &Value| zone["levels"] == serde_json::json!([3]) && zone["files"] == 1;
    assert!(zones["zones"].as_array().unwrap().iter().any(has_table), "{zones}");
    assert!(drive.good(&["store", "stat", "--zones"]).contains("Lifetimes"));
    let listed = drive.good(&["store", "ls", "-R"]);
    assert!(listed.contains("/a/b/file") && listed.contains("/many/2999"), "{listed}");
    drive.bad(1, &["store", "stat", "/none"], "there is no such file or directory");

    let mounted = drive.mount();
    let file = fs::read(top.join("a/b/file")).unwrap();
    assert_eq!(
        (file.len(), &file[5_000..5_007], &file[100..200]),
        (9_000, b"changed".as_slice(), [0; 100].as_slice())
    );
    assert_eq!(fs::read(top.join("log")).unwrap(), b"new");
    assert_eq!(fs::read(top.join("a/other")).unwrap(), b"one two ");
    assert_eq!(fs::read_dir(top.join("many")).unwrap().count(), 3_000);
    assert!(!top.join("gone").exists());
    mounted.signal("TERM");
    assert_eq!(mounted.end(), Some(0));
    assert!(!is_mounted(&top));
}

/// Two programs with locks on ranges of a file: what one has, the other does not get, and gets when the first ends. Its argument is a file.
const LOCKS: &str = r#"
import fcntl, os, struct, subprocess, sys

path = sys.argv[1]
EXCLUSIVE, SHARED = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_SH | fcntl.LOCK_NB
file = open(path, "r+b")

def other(how, start, length):
    """Whether another program gets a lock."""
    code = "import fcntl, sys; how, start, length = map(int, sys.argv[2:]); f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, how, length, start)"
    asked = subprocess.run([sys.executable, "-c", code, path, str(how), str(start), str(length)], stderr=subprocess.PIPE, text=True)
    assert asked.returncode == 0 or "BlockingIOError" in asked.stderr, asked.stderr
    return asked.returncode == 0

fcntl.lockf(file, EXCLUSIVE, 100, 1000)
assert not other(EXCLUSIVE, 1050, 1) and not other(SHARED, 900, 101) and not other(EXCLUSIVE, 0, 0)
assert other(EXCLUSIVE, 900, 100) and other(EXCLUSIVE, 1100, 5000)
fcntl.lockf(file, SHARED, 100, 1000)
assert other(SHARED, 1050, 1) and not other(EXCLUSIVE, 1050, 1)
# Half of it, and the rest when the program closes the file.
fcntl.lockf(file, fcntl.LOCK_UN, 50, 1000)
assert other(EXCLUSIVE, 1000, 50) and not other(EXCLUSIVE, 1000, 51)
held = subprocess.Popen(
    [sys.executable, "-c", "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 10, 0); print(flush=True); sys.stdin.read()", path],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
held.stdout.readline()
try:
    fcntl.lockf(file, EXCLUSIVE, 1, 9)
    sys.exit("a range that another program has")
except BlockingIOError:
    pass
kind, _, start, length, pid = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 5, 1, 0)))
assert (kind, start, length, pid) == (fcntl.F_WRLCK, 0, 10, held.pid), (kind, start, length, pid, held.pid)
held.kill()
held.wait()
fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
file.close()
assert other(EXCLUSIVE, 0, 0)
"#;

#[test]
fn programs_lock_ranges_of_files() {
    if !possible("programs_lock_ranges_of_files", &["python3"]) {
        return;
    }
    let drive = Drive::start();
    drive.good(&["store", "format"]);
    let mounted = drive.mount();
    let file = drive.point().join("file");
    fs::write(&file, pattern(1, 8_000)).unwrap();
    let output = Command::new("python3").args(["-c", LOCKS]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    mounted.signal("TERM");
    assert_eq!(mounted.end(), Some(0));
}

#[test]
fn a_full_store_says_so_and_takes_data_again() {
    if !possible("a_full_store_says_so_and_takes_data_again", &[]) {
        return;
    }
    let drive = Drive::start();
    drive.good(&["store", "format"]);
    let mounted = drive.mount_with_json();
    schema::check("store-mount", &serde_json::from_str(&mounted.ready).unwrap());
    let top = drive.point();
    // Files of odd lengths, so that zones are cut in all ways.
    let mut count = 0;
    let full = loop {
        let data = pattern(count, 300_000 + count as usize * 17);
        if let Err(error) = fs::write(top.join(count.to_string()), &data) {
            break error;
        }
        count += 1;
    };
    assert_eq!(full.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
    assert!(count > 100, "{count} files");
    fs::remove_file(top.join(count.to_string())).unwrap();
    // Half of them go, here and there. Others take their place, several times.
    for round in 1..4 {
        for number in (round % 2..count).step_by(2) {
            fs::remove_file(top.join(number.to_string())).unwrap();
        }
        for number in (round % 2..count).step_by(2) {
            fs::write(top.join(number.to_string()), pattern(number, 300_000 + number as usize * 17)).unwrap();
        }
    }
    for number in 0..count {
        let data = fs::read(top.join(number.to_string())).unwrap();
        assert!(data == pattern(number, 300_000 + number as usize * 17), "file {number}");
    }
    mounted.signal("INT");
    assert_eq!(mounted.end(), Some(0));
    assert_eq!(drive.json(&["store", "check", "--data"])["files"], count);
}

#[test]
fn what_was_synced_survives_the_end_of_the_drive() {
    if !possible("what_was_synced_survives_the_end_of_the_drive", &[]) {
        return;
    }
    let mut drive = Drive::start();
    drive.good(&["store", "format"]);
    let mounted = drive.mount();
    let path = drive.point().join("file");
    let mut file = OpenOptions::new().create(true).append(true).custom_flags(o_dsync()).open(&path).unwrap();
    for part in 0..50 {
        file.write_all(&pattern(part, 777)).unwrap();
    }
    // The drive is killed under the mount.
    drive.served = None;
    wait_for("an error", || file.write_all(b"more").is_err());
    assert!(file.sync_all().is_err());
    drop(file);
    mounted.signal("TERM");
    assert_eq!(mounted.end(), Some(3), "what was not synced is lost");
    drive.serve();
    assert_eq!(drive.json(&["store", "check"])["problems"], Value::Array(Vec::new()));
    let mounted = drive.mount();
    let there = fs::read(&path).unwrap();
    let expected: Vec<u8> = (0..50).flat_map(|part| pattern(part, 777)).collect();
    assert!(there.starts_with(&expected), "{} bytes", there.len());
    mounted.signal("TERM");
    assert_eq!(mounted.end(), Some(0));
}

/// `O_DSYNC` of Linux.
fn o_dsync() -> i32 {
    0o10_000
}

#[test]
fn what_cannot_be_a_store_is_told() {
    let drive = Drive::start();
    drive.good(&["ns", "create", "--size", "8MiB", "--attach"]);
    drive.bad(1, &["store", "format", "--nsid", "2"], "has no zones");
    drive.bad(1, &["store", "format", "--log-zones", "2"], "at least 3");
    drive.bad(1, &["store", "format", "--reserved-zones", "60"], "do not suffice");
    drive.bad(1, &["store", "mount", "/none"], "there is no store");
    drive.good(&["store", "format"]);
    drive.bad(1, &["store", "mount", "/none"], "/none");
    // Files that are no store are not lost by accident.
    drive.good(&["zone", "reset", "--all"]);
    drive.good(&["zone", "append", "3", "--pad", &at(drive.dir.path(), "drive.toml")]);
    drive.bad(1, &["store", "format"], "1 of the");
    drive.bad(1, &["store", "check"], "there is no store on this namespace");
    drive.good(&["store", "format", "--force"]);
    assert_eq!(drive.json(&["store", "check"])["directories"], 1);
}

/// The commands that open a store, and those of them that write to it.
const OPEN: [&[&str]; 3] = [&["store", "ls"], &["store", "stat"], &["store", "check", "--data"]];
const WRITE: [&[&str]; 2] = [&["store", "format", "--force"], &["store", "mount", "/none"]];

fn connect(on: &str, nqn: &str) -> host::Host<host::SocketTransport> {
    let identity = host::Identity::new(nqn.parse().unwrap());
    let transport = host::SocketTransport::new(on.parse().unwrap(), Duration::from_secs(30));
    host::Host::connect(transport, &identity).unwrap()
}

/// Another host that alone may write to the first namespace.
fn reserve(drive: &Drive) -> host::Host<host::SocketTransport> {
    let nqn = "nqn.2026-11.test:other";
    let mut host = connect(&drive.on, nqn);
    drive.good(&["ns", "attach", "1", "--host", nqn]);
    let mut queue = host.io_queue(2).unwrap();
    let (none, key) = ([0; 8], 7_u64.to_le_bytes());
    let action = RegisterAction::REGISTER;
    let register = ReservationRegister { nsid: 1, action, iekey: false, cptpl: ChangePtpl::NO_CHANGE };
    let (action, rtype) = (AcquireAction::ACQUIRE, ReservationType::WRITE_EXCLUSIVE);
    let acquire = ReservationAcquire { nsid: 1, action, iekey: false, rtype };
    for (command, keys) in [(register.into(), [none, key]), (acquire.into(), [key, none])] {
        let done = queue.call(command, host::Data::Out(keys.concat())).unwrap();
        assert_eq!(done.completion.status(), Status::SUCCESS);
    }
    host
}

/// A drive that refuses to write ends commands of the store as it ends all others: with the exit code and the status.
#[test]
fn what_the_drive_refuses_has_the_exit_code_of_a_refusal() {
    let drive = Drive::start();
    drive.good(&["store", "format"]);
    let _other = reserve(&drive);
    for command in WRITE {
        drive.bad(4, command, "the drive answered: Reservation Conflict");
        let output = drive.run(&[command, &["--output", "json"]].concat());
        let said: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
        let error = &said["error"];
        assert_eq!((error["kind"].as_str(), &error["exit_code"]), (Some("nvme"), &4.into()), "{said}");
        assert_eq!((&error["status"]["sct"], &error["status"]["sc"]), (&0.into(), &0x83.into()), "{said}");
    }
    for command in OPEN {
        drive.good(command);
    }
}

/// A store on a drive without its key: each command says so, and none says that there is no store.
#[test]
fn a_store_on_a_locked_drive_says_that_it_is_locked() {
    let keys = tempfile::tempdir().unwrap();
    let key = at(keys.path(), "key");
    assert!(Command::new(TRANCHE).args(["key", "drive", "--file", &key]).status().unwrap().success());
    let with_key = ["--drive-key", key.as_str()];
    let mut drive = Drive::start_as(&with_key);
    drive.good(&["store", "format"]);
    let end = |drive: &mut Drive| {
        let served = drive.served.take().unwrap();
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
    };
    end(&mut drive);
    drive.serve();
    for command in OPEN.iter().chain(&WRITE) {
        drive.bad(4, command, "Access Denied");
        drive.bad(4, command, "the drive is LOCKED");
    }
    end(&mut drive);
    drive.serve_as(&with_key);
    for command in OPEN {
        drive.good(command);
    }
}

/// A port of a drive that goes away: when the drive has sent so many bytes to an I/O queue, all connections end, and none is taken any more.
fn port_that_goes_away(drive: PathBuf, port: &str, bytes: u64) -> JoinHandle<()> {
    let listener = UnixListener::bind(port).unwrap();
    std::thread::spawn(move || {
        let mut connections = Vec::new();
        loop {
            let (mut host, _) = listener.accept().unwrap();
            let mut drive = UnixStream::connect(&drive).unwrap();
            // ICReq and ICResp, then the command Connect: it names the queue.
            let (mut pdu, mut connect) = ([0; 128], [0; 72]);
            host.read_exact(&mut pdu).unwrap();
            drive.write_all(&pdu).unwrap();
            drive.read_exact(&mut pdu).unwrap();
            host.write_all(&pdu).unwrap();
            host.read_exact(&mut connect).unwrap();
            drive.write_all(&connect).unwrap();
            connections.push((host.try_clone().unwrap(), drive.try_clone().unwrap()));
            let (mut from, mut to) = (host.try_clone().unwrap(), drive.try_clone().unwrap());
            std::thread::spawn(move || io::copy(&mut from, &mut to));
            let qid = u16::from_le_bytes([connect[8 + 42], connect[8 + 43]]);
            if qid > 0 {
                io::copy(&mut drive.take(bytes), &mut host).unwrap();
                for (host, drive) in connections {
                    let _ = host.shutdown(Shutdown::Both);
                    let _ = drive.shutdown(Shutdown::Both);
                }
                return;
            }
            std::thread::spawn(move || io::copy(&mut drive, &mut host));
        }
    })
}

/// A drive that goes away while a command of the store talks to it: the exit code is that of a drive that cannot be reached.
#[test]
fn a_drive_that_goes_away_has_the_exit_code_of_no_drive() {
    let drive = Drive::start();
    drive.good(&["store", "format"]);
    // Those that have one I/O queue.
    for (number, command) in OPEN.iter().chain(&WRITE[..1]).enumerate() {
        // The answer to Connect comes through, and the first report of zones in part.
        let port = at(drive.dir.path(), &format!("port{number}"));
        let passed_on = port_that_goes_away(drive.dir.path().join("s"), &port, 1_000);
        let on = format!("unix://{port}");
        let more = ["--on", on.as_str(), "--output", "json"];
        let output = drive.run(&[command, more.as_slice()].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {said}");
        let said: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(said["error"]["kind"], "no_drive", "{said}");
        passed_on.join().unwrap();
        drive.bad(3, &[command, &["--on", on.as_str()][..]].concat(), "no drive at unix://");
    }
    for command in OPEN {
        drive.good(command);
    }
}

/// A program in C says which keys its files hold. Files of near keys share zones, others do not.
#[test]
fn a_program_in_c_says_which_keys_its_files_hold() {
    let test = "a_program_in_c_says_which_keys_its_files_hold";
    let drive = Drive::start();
    let store_c = repository().join("crates/attach/store-c");
    let program = drive.dir.path().join("keys");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(store_c.join("include"));
    compiler.arg(store_c.join("tests/keys.c")).arg(store_library()).arg("-o").arg(&program);
    let output = match compiler.args(["-lssl", "-lcrypto", "-lpthread", "-ldl", "-lm"]).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return skipped(test, "needs cc (scripts/setup-debian.sh installs it)");
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drive.good(&["store", "format"]);
    let place = format!("tranche://{}?nsid=1", at(drive.dir.path(), "s"));
    let output = Command::new(&program).arg(place).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The lengths of the files tell which are in a zone.
    let zones = drive.json(&["store", "stat", "--zones"]);
    let has = |zone: &Value| {
        let number = |key: &str| zone[key].as_u64().unwrap();
        (number("live_bytes") >> 10, number("files"), zone["levels"].to_string())
    };
    let mut found: Vec<_> = zones["zones"].as_array().unwrap().iter().map(has).collect();
    found.sort();
    let expected = [(96, 1, "[]"), (64 + 128, 2, "[1]"), (256 + 512, 2, "[1]"), (1024, 1, "[2]")];
    assert_eq!(found, expected.map(|(kib, files, levels)| (kib, files, levels.to_owned())), "{zones}");
    assert_eq!(drive.json(&["store", "check", "--data"])["files"], 6);
}

/// Makes files in a store.
fn put<D: ZoneDevice>(store: &Store<D>, files: &[(&str, &[u8])]) {
    for (name, data) in files {
        let made = store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default());
        store.write(made.unwrap().ino, 0, data, 1).unwrap();
    }
    store.sync_all().unwrap();
}

/// A worn drive, of which a zone goes offline that has a part of a file: the store opens, and a check names the file.
#[test]
fn a_file_of_a_zone_that_went_offline_is_named() {
    let drive = Drive::start();
    drive.good(&["store", "format"]);
    let mut host = connect(&drive.on, host::local_nqn().unwrap().as_ref());
    let zoned = host.zoned_namespace(1).unwrap();
    let queues = (0..store::APPEND_QUEUES).map(|_| host.io_queue(32).unwrap()).collect();
    let store = Store::open(NamespaceZones::new(zoned, queues), Placement::default()).unwrap();
    put(&store, &[("lost", &pattern(1, 2 << 20)[..]), ("whole", &pattern(2, 1 << 18)[..])]);
    let is_full = |zone: &ZoneUse| zone.live == zone.capacity;
    let zone = store.zones().iter().find(|zone| is_full(zone)).unwrap().zone;
    drop((store.close().unwrap(), host));

    drive.good(&["fault", "erase-failure"]);
    // More than the write buffer holds, so that there is something to erase.
    fs::write(drive.dir.path().join("data"), pattern(3, 3 << 19)).unwrap();
    let data = at(drive.dir.path(), "data");
    let is_worn = || drive.json(&["zone", "report"])["zone_list"][zone as usize]["state"] == "READONLY";
    for round in 0.. {
        assert!(round < 100, "the drive does not wear out");
        let others = ["42", "43", "44", "45", "46", "47"];
        others.iter().for_each(|zone| drop(drive.run(&["zone", "append", zone, &data])));
        others.iter().for_each(|zone| drop(drive.run(&["zone", "reset", zone])));
        if is_worn() {
            break;
        }
    }
    drive.good(&["fault", "clear"]);
    drive.good(&["zone", "offline", &zone.to_string()]);
    let listed = drive.good(&["store", "ls"]);
    assert!(listed.contains("/lost") && listed.contains("/whole"), "{listed}");
    for more in [&[][..], &["--data"]] {
        let output = drive.run(&[&["store", "check"], more].concat());
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(5), "{said}{}", text(&output.stderr));
        assert!(said.starts_with("/lost (inode ") && said.contains("is offline"), "{said}");
        assert!(said.trim_end().ends_with("; 1 problems"), "{said}");
    }
    let zones = drive.json(&["store", "stat", "--zones"]);
    let mut zones = zones["zones"].as_array().unwrap().iter();
    let shown = zones.find(|shown| shown["zone"] == zone).unwrap();
    assert_eq!((&shown["state"], &shown["live_bytes"]), (&"broken".into(), &(3 << 19).into()), "{shown}");
}

/// Programs get `EIO` for what a file had in a zone that went offline, and all else.
#[test]
fn reads_of_a_zone_that_went_offline_fail() {
    if !possible("reads_of_a_zone_that_went_offline_fail", &[]) {
        return;
    }
    let shape = Shape { block: 4096, zone_blocks: 512, zones: 32, open: 8, append_blocks: 64 };
    let device = Simulated::new(shape, 384, 1);
    Store::format(&device, &FormatOptions::default(), [1; 16], 0).unwrap();
    let store = Store::open(device, Placement::default()).unwrap();
    let data = pattern(1, 2 << 20);
    put(&store, &[("lost", &data[..])]);
    let zone = store.zones().iter().find(|zone| zone.live == zone.capacity).unwrap().zone;
    let device = store.close().unwrap();
    device.wear_out(zone, Condition::Offline);
    let store = Arc::new(Store::open(device, Placement::default()).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mounted = MountedFileSystem::start(FileSystem::new(store), dir.path(), 2).unwrap();
    let file = File::options().read(true).write(true).open(dir.path().join("lost")).unwrap();
    let mut block = [0; 4096];
    for lost in [0, 383] {
        let error = file.read_at(&mut block, lost * 4096).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "block {lost}");
    }
    for there in [384, 511] {
        file.read_exact_at(&mut block, there * 4096).unwrap();
        let from = there as usize * 4096;
        assert!(block == data[from..from + 4096], "block {there}");
    }
    // Blocks that are written anew can be read.
    file.write_all_at(&data[..8192], 0).unwrap();
    file.sync_all().unwrap();
    file.read_exact_at(&mut block, 4096).unwrap();
    assert!(block == data[4096..8192]);
    drop(file);
    mounted.stop().unwrap();
}
