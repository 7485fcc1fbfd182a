//! `tranche serve --nbd` with clients that others wrote: libnbd's nbdinfo, nbdcopy and Python module, QEMU's qemu-img and qemu-io, and fio. Says
//! so where they are missing.

mod common;

use common::{Served, TRANCHE, at};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Namespaces 1 of 64 MiB in blocks of 4,096 bytes, 2 in blocks of 512, and 3 with zones.
fn serve(dir: &Path, more: &[&str]) -> Served {
    let shown = Command::new(TRANCHE).args(["profile", "show", "default"]).output().unwrap();
    let toml = String::from_utf8(shown.stdout).unwrap();
    let (drive, _) = toml.split_once("[[namespace]]").unwrap();
    let drive = drive.to_owned()
        + "[[namespace]]\nset = 1\nsize = \"64MiB\"\nlba = 4096\nattach = \"all\"\n\
           [[namespace]]\nset = 2\nsize = \"8MiB\"\nlba = 512\nattach = \"all\"\n";
    let file = at(dir, "drive.toml");
    std::fs::write(&file, drive).unwrap();
    let nbd = at(dir, "nbd");
    let args =
        ["--drive", &file, "--timing", "off", "--tcp", "127.0.0.1:0", "--nbd", "127.0.0.1:0", "--nbd", &nbd];
    Served::start(&[&args, more].concat())
}

fn tcp(served: &Served) -> String {
    format!("nbd://{}", served.nbd()[0])
}

fn unix(dir: &Path, export: &str) -> String {
    format!("nbd+unix:///{export}?socket={}", at(dir, "nbd"))
}

fn there(test: &str, programs: &[&str]) -> bool {
    let found = |program: &&&str| {
        let probe =
            Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
        probe.is_ok_and(|status| status.success())
    };
    let missing = programs.iter().find(|program| !found(program));
    if let Some(program) = missing {
        testkit::skipped(test, &format!("needs the program {program} (scripts/setup-debian.sh installs it)"));
    }
    missing.is_none()
}

fn tranche(served: &Served, args: &[&str]) {
    let on = &served.tcp()[0];
    testkit::run(TRANCHE, &[args, &["--on", on]].concat());
}

#[test]
fn a_deletion_is_refused_with_the_name_of_who_has_the_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path(), &[]);
    let on = &served.tcp()[0];
    let delete = |more: &[&str]| {
        Command::new(TRANCHE).args(["ns", "delete", "2", "--on", on]).args(more).output().unwrap()
    };
    let refused = delete(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(
        said.contains(" (the drive's own, for block files, NBD and ublk). Detach it first, or give --force"),
        "{said}"
    );
    tranche(&served, &["ns", "detach", "2"]);
    assert!(delete(&[]).status.success());
}

#[test]
fn libnbd_sees_the_exports_and_copies_them() {
    if !there("libnbd_sees_the_exports_and_copies_them", &["nbdinfo", "nbdcopy"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path(), &[]);
    assert_eq!(served.nbd()[1], at(dir.path(), "nbd"));
    tranche(&served, &["ns", "create", "--zoned", "--size", "64MiB", "--attach"]);
    let list = testkit::run("nbdinfo", &["--list", "--json", &tcp(&served)]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let exports = list["exports"].as_array().unwrap();
    let names: Vec<&str> = exports.iter().map(|export| export["export-name"].as_str().unwrap()).collect();
    assert_eq!(names, ["nvme0n1", "nvme0n2"], "the zoned one is none");
    let first = &exports[0];
    for (key, value) in [
        ("export-size", Value::from(64 << 20)),
        ("block_size_minimum", 4096.into()),
        ("block_size_preferred", 4096.into()),
        ("block_size_maximum", (32 << 20).into()),
        ("is_read_only", false.into()),
        ("can_flush", true.into()),
        ("can_fua", true.into()),
        ("can_multi_conn", true.into()),
        ("can_trim", true.into()),
        ("can_zero", true.into()),
        ("can_fast_zero", true.into()),
        ("can_df", true.into()),
        ("can_cache", false.into()),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
    assert_eq!(first["contexts"], serde_json::json!(["base:allocation"]));
    assert_eq!(exports[1]["block_size_minimum"], 512);

    // A sparse file, there and back.
    let (source, back) = (at(dir.path(), "source"), at(dir.path(), "back"));
    let mut contents = vec![0u8; 64 << 20];
    for (place, byte) in contents.iter_mut().enumerate().skip(8 << 20).take(4 << 20) {
        *byte = (place / 4096 * 7 + place) as u8;
    }
    std::fs::write(&source, &contents).unwrap();
    let uri = unix(dir.path(), "nvme0n1");
    testkit::run("nbdcopy", &["--connections=4", &source, &uri]);
    testkit::run("nbdcopy", &[&uri, &back]);
    assert!(std::fs::read(&back).unwrap() == contents, "what nbdcopy brings back");
    let map = testkit::run("nbdinfo", &["--map", "--json", &uri]);
    let map: Value = serde_json::from_str(&map).unwrap();
    let ranges: Vec<(u64, u64, u64)> = map
        .as_array()
        .unwrap()
        .iter()
        .map(|range| {
            let number = |key: &str| range[key].as_u64().unwrap();
            (number("offset"), number("length"), number("type"))
        })
        .collect();
    assert_eq!(ranges, [(0, 8 << 20, 3), (8 << 20, 4 << 20, 0), (12 << 20, 52 << 20, 3)], "holes and data");
}

/// What a client of libnbd in Python says of itself, in one line of JSON.
const CLIENT: &str = r#"
import errno, json, nbd, sys
uri, small = sys.argv[1], sys.argv[2]
def fails(action):
    try:
        action()
    except nbd.Error as error:
        return errno.errorcode[error.errnum]
    return "nothing"
def open(uri, strict=True):
    h = nbd.NBD()
    h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    if not strict:
        h.set_strict_mode(0)
    h.connect_uri(uri)
    return h
one, two, loose = open(uri), open(uri), open(uri, False)
said = {"structured": one.get_structured_replies_negotiated()}
# A flush on one connection covers what was answered on another.
data = bytes(range(256)) * 64
one.pwrite(data, 16384)
two.flush()
said["read"] = two.pread(16384, 16384) == data
one.pwrite(data, 65536, nbd.CMD_FLAG_FUA)
one.zero(8192, 65536, nbd.CMD_FLAG_FAST_ZERO)
said["zeroes"] = two.pread(16384, 65536) == bytes(8192) + data[8192:]
one.zero(4096, 65536 + 8192, nbd.CMD_FLAG_NO_HOLE)
said["slow"] = fails(lambda: one.zero(4096, 0, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FAST_ZERO))
one.trim(16384, 16384, nbd.CMD_FLAG_FUA)
said["trimmed"] = two.pread(16384, 16384) == bytes(16384)
extents = []
one.block_status(131072, 0, lambda context, offset, entries, error: extents.extend(entries))
said["extents"] = extents
extents2 = []
one.block_status(131072, 0, lambda context, offset, entries, error: extents2.extend(entries), nbd.CMD_FLAG_REQ_ONE)
said["one"] = extents2
said["misaligned"] = [fails(lambda: loose.pread(512, 0)), fails(lambda: loose.pwrite(b"x" * 4096, 100))]
said["beyond"] = [fails(lambda: loose.pread(4096, 64 << 20)), fails(lambda: loose.pwrite(bytes(4096), 64 << 20))]
said["cache"] = fails(lambda: loose.cache(4096, 0))
said["huge"] = fails(lambda: loose.pwrite(bytes(33 << 20), 0))
said["after"] = loose.pread(4096, 20480) == bytes(4096)
print(json.dumps(said), flush=True)
# Namespace 2 goes and comes again as another one.
h = open(small)
h.pwrite(b"a" * 512, 512)
print("ready", flush=True)
sys.stdin.readline()
old = [fails(lambda: h.pread(512, 512)), fails(lambda: h.pwrite(bytes(512), 0)), fails(lambda: h.flush())]
new = open(small)
print(json.dumps({"old": old, "size": new.get_size(), "new": new.pread(512, 512) == bytes(512)}), flush=True)
"#;

#[test]
fn a_client_in_python_uses_all_of_the_protocol() {
    let name = "a_client_in_python_uses_all_of_the_protocol";
    // Debian's package is for Debian's Python.
    let has_module = |python: &&str| {
        let tried = Command::new(python).args(["-c", "import nbd"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_module) else {
        return testkit::skipped(name, "needs Python's module nbd (scripts/setup-debian.sh installs it)");
    };
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path(), &[]);
    let script = at(dir.path(), "client.py");
    std::fs::write(&script, CLIENT).unwrap();
    let mut client = Command::new(python)
        .args([&script, &unix(dir.path(), "nvme0n1"), &unix(dir.path(), "nvme0n2")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut say, out) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out)).map(Result::unwrap);
    let said: Value = serde_json::from_str(&lines.next().expect("the first line")).unwrap();
    let expected = serde_json::json!({
        "structured": true, "read": true, "zeroes": true, "slow": "ENOTSUP", "trimmed": true,
        // Zeroes that were written are allocated; what was zeroed otherwise is not.
        "extents": [73728, 3, 8192, 0, 49152, 3], "one": [73728, 3],
        "misaligned": ["EINVAL", "EINVAL"], "beyond": ["EINVAL", "ENOSPC"], "cache": "EINVAL", "huge": "EINVAL",
        "after": true,
    });
    assert_eq!(said, expected);
    assert_eq!(lines.next().unwrap(), "ready");
    tranche(&served, &["ns", "delete", "2", "--force"]);
    // The same identifier, another namespace.
    tranche(&served, &["ns", "create", "--nvm-set", "2", "--size", "4MiB", "--lba", "512", "--attach"]);
    testkit::wait_for("the new size", || {
        testkit::run("nbdinfo", &["--size", &unix(dir.path(), "nvme0n2")]).trim() == "4194304"
    });
    std::io::Write::write_all(&mut say, b"\n").unwrap();
    let said: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let gone = serde_json::json!(["ESHUTDOWN", "ESHUTDOWN", "ESHUTDOWN"]);
    assert_eq!(said, serde_json::json!({ "old": gone, "size": 4 << 20, "new": true }));
    assert!(client.wait().unwrap().success());
}

#[test]
fn qemu_converts_images_onto_the_drive_and_back() {
    if !there("qemu_converts_images_onto_the_drive_and_back", &["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path(), &[]);
    let uri = format!("{}/nvme0n1", tcp(&served));
    let (raw, qcow) = (at(dir.path(), "raw"), at(dir.path(), "qcow2"));
    let contents: Vec<u8> =
        (0..64u32 << 20).map(|at| if at >> 20 & 3 == 1 { (at >> 12) as u8 | 1 } else { 0 }).collect();
    std::fs::write(&raw, &contents).unwrap();
    testkit::run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &raw, &uri]);
    testkit::run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &raw, &uri]);
    testkit::run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &qcow]);
    testkit::run("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &qcow, &uri]);
    let commands = ["write -P 7 4096 65536", "write -z -u 8192 4096", "discard 16384 8192", "flush"];
    let checks =
        ["read -P 7 4096 4096", "read -P 0 8192 4096", "read -P 7 12288 4096", "read -P 0 16384 8192"];
    for command in commands.iter().chain(&checks) {
        let said = testkit::run("qemu-io", &["-f", "raw", "-t", "none", "-c", command, &uri]);
        assert!(!said.contains("failed") && !said.contains("error"), "{command}: {said}");
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    let name = "fio_verifies_what_it_wrote";
    if !there(name, &["fio"]) {
        return;
    }
    let engines = testkit::run("fio", &["--enghelp"]);
    if !engines.lines().any(|line| line.trim() == "nbd") {
        return testkit::skipped(name, "this fio has no engine nbd");
    }
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path(), &[]);
    let uri = format!("--uri={}/nvme0n1", tcp(&served));
    let job =
        ["--name=v", "--ioengine=nbd", &uri, "--rw=randwrite", "--bssplit=4k/60:16k/30:64k/10", "--size=64m"];
    let rest = ["--iodepth=32", "--io_size=32m", "--verify=crc32c", "--verify_fatal=1", "--randseed=3"];
    testkit::run("fio", &[&job[..], &rest, &["--minimal", "--verify_state_save=0"]].concat());
}

/// A cache tier is an export, and the namespaces that it uses are none. What was flushed outlives the process.
#[test]
fn a_cache_tier_is_an_export() {
    if !there("a_cache_tier_is_an_export", &["nbdinfo", "nbdcopy", "qemu-io"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let name = format!("nbd-{}", std::process::id());
    let shown = Command::new(TRANCHE).args(["profile", "show", "default"]).output().unwrap();
    let toml = String::from_utf8(shown.stdout).unwrap();
    let (drive, _) = toml.split_once("[[namespace]]").unwrap();
    let namespace =
        |size: &str| format!("[[namespace]]\nset = 1\nsize = \"{size}\"\nlba = 4096\nattach = \"all\"\n");
    let namespaces: String = ["32MiB", "8MiB", "2MiB", "4MiB"].map(namespace).concat();
    let tier =
        format!("[[cache]]\nname = \"{name}\"\norigin = 1\ncache = 2\nmetadata = 3\nchunk = \"32KiB\"\n");
    let (file, image, socket) =
        (at(dir.path(), "drive.toml"), at(dir.path(), "image"), at(dir.path(), "nbd"));
    std::fs::write(&file, format!("{drive}{namespaces}{tier}")).unwrap();
    let start = || Served::start(&["--drive", &file, "--timing", "off", "--image", &image, "--nbd", &socket]);
    let export = format!("cache-{name}");
    let uri = unix(dir.path(), &export);

    let mut served = start();
    let list = testkit::run("nbdinfo", &["--list", "--json", &unix(dir.path(), "")]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let exports = list["exports"].as_array().unwrap();
    let mut names: Vec<&str> = exports.iter().map(|export| export["export-name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, [export.as_str(), "nvme0n4"]);
    let of_tier = exports.iter().find(|other| other["export-name"] == export.as_str()).unwrap();
    for (key, value) in
        [("export-size", Value::from(32 << 20)), ("can_flush", true.into()), ("can_fast_zero", false.into())]
    {
        assert_eq!(of_tier[key], value, "{key}");
    }

    let (source, back) = (at(dir.path(), "source"), at(dir.path(), "back"));
    let contents: Vec<u8> = (0..32u32 << 20).map(|place| (place / 4096 * 7 + place) as u8).collect();
    std::fs::write(&source, &contents).unwrap();
    testkit::run("nbdcopy", &["--connections=4", "--flush", &source, &uri]);
    // Some of it twice, so that the cache has it dirty.
    for _ in 0..3 {
        testkit::run("qemu-io", &["-f", "raw", "-t", "none", "-c", "write -P 7 1M 2M", "-c", "flush", &uri]);
    }
    let status = testkit::run(TRANCHE, &["cache", "status", "--name", &name, "--output", "json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert!(status["promotions"].as_u64().unwrap() > 0, "{status}");
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    drop(served);

    let served = start();
    testkit::run("nbdcopy", &[&uri, &back]);
    let mut expected = contents;
    expected[1 << 20..3 << 20].fill(7);
    assert!(std::fs::read(&back).unwrap() == expected, "what was flushed before the drive was killed");
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
}

#[test]
fn places_and_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = at(dir.path(), "hosts.toml");
    std::fs::write(&hosts, "[[host]]\nnqn = \"nqn.2026-11.test:host\"\n").unwrap();
    let refused = |args: &[&str]| {
        let output =
            Command::new(TRANCHE).args(["serve", "--tcp", "127.0.0.1:0"]).args(args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--nbd", "10809"]).contains("expected ADDRESS:PORT"));
    let said = refused(&["--nbd", "0.0.0.0:0", "--hosts", &hosts]);
    assert!(said.contains("NBD asks nobody who he is"), "{said}");
    let said = refused(&["--nbd", "/nowhere/at/all"]);
    assert!(said.contains("cannot serve NBD on /nowhere/at/all"), "{said}");
    // Two at one place.
    let served = serve(dir.path(), &[]);
    let taken = served.nbd()[0].clone();
    assert!(refused(&["--nbd", &taken]).contains(&format!("cannot serve NBD on {taken}")));
    drop(served);

    let warned = |args: &[&str]| {
        let errors = at(dir.path(), "errors");
        let mut command = Command::new(TRANCHE);
        command.args(["serve", "--tcp", "127.0.0.1:0"]).args(args);
        let served = Served::run(command.stderr(std::fs::File::create(&errors).unwrap()));
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
        std::fs::read_to_string(&errors).unwrap()
    };
    let said = warned(&["--nbd", "0.0.0.0:0"]);
    assert!(said.contains("WARNING: 0.0.0.0:") && said.contains("NBD has no authentication"), "{said}");
    let said = warned(&["--nbd", "127.0.0.1:0", "--hosts", &hosts]);
    assert!(said.contains("--hosts does not count for NBD"), "{said}");
    let socket = at(dir.path(), "private");
    let said = warned(&["--nbd", &socket, "--hosts", &hosts]);
    assert!(!said.contains("NBD") && !Path::new(&socket).exists(), "{said}");
}
