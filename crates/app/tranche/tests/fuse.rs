//! `tranche serve --fuse`: what a user sees of starting, stopping and crashing. Needs root, FUSE and loop
//! devices; says so where they are missing.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testkit::{each_way, is_mounted, possible, run, wait_for};

struct Served {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Served {
    /// Starts a drive in memory and waits until it is ready.
    fn start(dir: &Path, extra: &[&str]) -> Self {
        let mut child = command(dir, extra).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut served = Served { child, errors };
        if !line.starts_with("ready") {
            panic!("not ready: {}", served.rest());
        }
        served
    }

    /// The node on the first line about a file.
    fn node(&mut self) -> PathBuf {
        let mut line = String::new();
        while !line.contains("/dev/loop") {
            line.clear();
            assert!(self.errors.read_line(&mut line).unwrap() > 0, "no loop device is named");
        }
        let at = line.find("/dev/loop").unwrap();
        let end = line[at..].find(|c: char| !c.is_alphanumeric() && c != '/').unwrap();
        PathBuf::from(&line[at..at + end])
    }

    fn rest(&mut self) -> String {
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        text
    }

    fn signal(&self, name: &str) {
        run("kill", &["-s", name, &self.child.id().to_string()]);
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn command(dir: &Path, extra: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tranche"));
    let (socket, files) = (dir.join("socket"), dir.join("files"));
    command.arg("serve").arg("--unix").arg(socket).arg("--fuse").arg(files).args(extra);
    command
}

fn attached_in(dir: &Path) -> bool {
    let dir = dir.canonicalize().unwrap();
    run("losetup", &["--noheadings", "--output", "BACK-FILE"]).contains(dir.to_str().unwrap())
}

fn mount_ext4(node: &Path, point: &Path) {
    run("mkfs.ext4", &["-q", "-F", node.to_str().unwrap()]);
    run("mount", &[node.to_str().unwrap(), point.to_str().unwrap()]);
}

fn way(rings: bool) -> &'static str {
    if rings { "uring" } else { "device" }
}

each_way! {
    signals_leave_nothing_mounted_or_attached,
    the_start_after_a_crash_clears_up,
    a_drive_whose_mount_is_taken_away_ends_with_an_error,
    a_zoned_namespace_is_a_directory_and_no_loop_device,
}

fn signals_leave_nothing_mounted_or_attached(rings: bool) {
    if !possible("signals_leave_nothing_mounted_or_attached", &["losetup", "mkfs.ext4", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    let point = tempfile::tempdir().unwrap();
    std::fs::create_dir(&files).unwrap();
    for (signal, busy) in [("INT", false), ("TERM", true), ("HUP", false)] {
        let mut served = Served::start(dir.path(), &["--loop", "--fuse-io", way(rings)]);
        mount_ext4(&served.node(), point.path());
        std::fs::write(point.path().join("file"), signal).unwrap();
        let open = busy.then(|| std::fs::File::open(point.path().join("file")).unwrap());
        served.signal(signal);
        let said = served.rest();
        assert!(served.child.wait().unwrap().success(), "{signal}: {said}");
        let named = said.contains(point.path().to_str().unwrap());
        assert!(named, "{signal}: what was in the way, or unmounted, is named: {said}");
        assert!(!is_mounted(&files) && !is_mounted(point.path()), "{signal}");
        drop(open);
        wait_for("detaching", || !attached_in(dir.path()));
    }
}

fn the_start_after_a_crash_clears_up(rings: bool) {
    if !possible("the_start_after_a_crash_clears_up", &["losetup", "mkfs.ext4", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    let point = tempfile::tempdir().unwrap();
    std::fs::create_dir(&files).unwrap();
    let mut served = Served::start(dir.path(), &["--loop", "--fuse-io", way(rings)]);
    mount_ext4(&served.node(), point.path());
    served.kill();
    assert!(is_mounted(&files) && attached_in(dir.path()));

    let mut served = Served::start(dir.path(), &["--loop", "--fuse-io", way(rings)]);
    assert!(!is_mounted(point.path()));
    mount_ext4(&served.node(), point.path());
    run("umount", &[point.path().to_str().unwrap()]);
    served.signal("TERM");
    assert!(served.child.wait().unwrap().success());
    assert!(!is_mounted(&files) && !attached_in(dir.path()));
}

#[test]
fn the_way_of_requests_is_chosen_and_said() {
    if !possible("the_way_of_requests_is_chosen_and_said", &[]) {
        return;
    }
    let has_rings = testkit::has_rings("the_way_of_requests_is_chosen_and_said");
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    let (rings, device) = ("requests come through io_uring", "requests come through /dev/fuse");
    let faster = if has_rings { rings } else { "io_uring is faster, but the kernel does not have it" };
    for (options, expected) in [(&[][..], faster), (&["--fuse-io", "device"], device)] {
        let mut served = Served::start(dir.path(), options);
        assert!(dir.path().join("files/nvme0n1").exists());
        served.signal("TERM");
        let said = served.rest();
        assert!(said.contains(expected), "{said}");
        assert!(served.child.wait().unwrap().success());
    }
    if !has_rings {
        let output = command(dir.path(), &["--fuse-io", "uring"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("no FUSE over io_uring") && said.contains("Linux 6.14"), "{said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!is_mounted(&dir.path().join("files")));
    }
}

#[test]
fn directories_that_cannot_be_used_are_refused_with_advice() {
    if !possible("directories_that_cannot_be_used_are_refused_with_advice", &[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    let refused = |advice: &str| {
        let image = dir.path().join("image");
        let output = command(dir.path(), &["--image", image.to_str().unwrap()]).output().unwrap();
        assert!(!image.exists(), "an image for nobody");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty());
        assert!(said.contains(files.to_str().unwrap()) && said.contains(advice), "{said}");
        assert!(!is_mounted(&files));
    };
    refused("mkdir -p");
    std::fs::write(&files, "").unwrap();
    refused("not a directory");
    std::fs::remove_file(&files).unwrap();
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("something"), "").unwrap();
    refused("not empty");
    std::fs::remove_file(files.join("something")).unwrap();

    let mut served = Served::start(dir.path(), &[]);
    let socket = dir.path().join("other");
    let mut second = Command::new(env!("CARGO_BIN_EXE_tranche"));
    second.args(["serve", "--unix"]).arg(socket).arg("--fuse").arg(&files);
    let output = second.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("stop it first"), "{said}");
    assert!(files.join("nvme0n1").exists(), "the first one is left alone");
    served.signal("TERM");
    assert!(served.child.wait().unwrap().success());
}

fn a_drive_whose_mount_is_taken_away_ends_with_an_error(rings: bool) {
    if !possible("a_drive_whose_mount_is_taken_away_ends_with_an_error", &["losetup", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let mut served = Served::start(dir.path(), &["--loop", "--fuse-io", way(rings)]);
    let node = run("losetup", &["-j", files.join("nvme0n1").to_str().unwrap(), "-O", "NAME", "-n"]);
    assert!(node.starts_with("/dev/loop"), "{node}");
    run("umount", &["-l", files.to_str().unwrap()]);
    let said = served.rest();
    assert_eq!(served.child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains(files.to_str().unwrap()) && said.contains("start the drive again"), "{said}");
    // Others may have loop devices of drives, too.
    let attached = run("losetup", &["-n", "-O", "NAME,BACK-FILE"]);
    let left = attached.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert!(!left.into_iter().any(|words| words == [node.trim(), "/nvme0n1"]), "{attached}");
}

fn a_zoned_namespace_is_a_directory_and_no_loop_device(rings: bool) {
    if !possible("a_zoned_namespace_is_a_directory_and_no_loop_device", &["losetup", "dd"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (files, image) = (dir.path().join("files"), dir.path().join("image"));
    std::fs::create_dir(&files).unwrap();
    let options = ["--loop", "--image", image.to_str().unwrap(), "--fuse-io", way(rings)];
    let mut served = Served::start(dir.path(), &options);
    let create = ["ns", "create", "--zoned", "--size", "64MiB", "--max-active", "6", "--attach"];
    let on = format!("unix://{}", dir.path().join("socket").display());
    let created =
        Command::new(env!("CARGO_BIN_EXE_tranche")).args(create).args(["--on", &on]).output().unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let zone = files.join("nvme0n2/seq/3");
    wait_for("the zones", || zone.exists());
    let of = format!("of={}", zone.display());
    run("dd", &["if=/dev/zero", &of, "bs=64k", "count=5", "oflag=direct", "conv=notrunc", "status=none"]);
    served.signal("TERM");
    let said = served.rest();
    assert!(served.child.wait().unwrap().success(), "{said}");
    assert!(said.contains("nvme0n2: no loop device, because the namespace is zoned"), "{said}");

    // At the next start the namespace is there from the beginning.
    let mut served = Served::start(dir.path(), &options);
    assert_eq!(std::fs::metadata(&zone).unwrap().len(), 5 << 16);
    served.signal("TERM");
    let said = served.rest();
    assert!(said.contains("nvme0n2: 48MiB usable of 64MiB in 8 zones, blocks of 4096"), "{said}");
    assert!(said.contains("no loop device") && !attached_in(&files), "{said}");
    assert!(served.child.wait().unwrap().success());
}
