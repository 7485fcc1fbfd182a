//! The export as programs and the kernel see it. Needs root, `/dev/fuse` and loop devices.

use super::memory::{Limits, Memory, namespace};
use crate::drive::{DriveCommand, Namespace};
use crate::export::{Export, FuseTransport, Options};
use crate::{ExportError, clean_stale};
use blockdev::{Operation, Verb};
use fuser::Errno;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use testkit::{self, each_way, is_mounted, run, wait_for};

const LIMITS: Limits = Limits { transfer: 1 << 20, zero: u32::MAX, commands: 64 };
const MIB: u64 = 1 << 20;

/// Whether the machine allows what these tests need.
fn possible(test: &str, loops: bool) -> bool {
    let programs: &[&str] = if loops { &["losetup", "mkfs.ext4", "mkfs.xfs", "mount"] } else { &[] };
    testkit::possible(test, programs)
}

struct Bench {
    dir: tempfile::TempDir,
    drive: Arc<Memory>,
    export: Export,
}

impl Bench {
    fn new(options: Options, namespaces: &[Namespace]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut drive = None;
        let connect = |reports| {
            let memory = Memory::reporting(reports, LIMITS, namespaces);
            drive = Some(memory.clone());
            Ok(memory as _)
        };
        let export = Export::over(connect, dir.path(), options).unwrap();
        Bench { drive: drive.unwrap(), export, dir }
    }

    fn file(&self, nsid: u32) -> PathBuf {
        self.dir.path().join(format!("nvme0n{nsid}"))
    }

    fn open(&self, nsid: u32) -> File {
        OpenOptions::new().read(true).write(true).open(self.file(nsid)).unwrap()
    }

    fn node(&self, nsid: u32) -> PathBuf {
        let devices = self.export.devices();
        devices.into_iter().find(|device| device.nsid == nsid).unwrap().node.unwrap()
    }

    fn stop(mut self) {
        assert_eq!(self.export.stop(), Vec::<String>::new());
        assert!(!is_mounted(self.dir.path()));
    }
}

fn plain(rings: bool) -> Options {
    let transport = if rings { FuseTransport::Uring } else { FuseTransport::Device };
    Options { transport, ..Options::default() }
}

fn with_loops(rings: bool) -> Options {
    Options { loops: true, ..plain(rings) }
}

fn errno(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap()
}

fn code(errno: Errno) -> i32 {
    errno.into()
}

fn writes(seen: &[DriveCommand]) -> Vec<(u64, u32)> {
    let write = |seen: &DriveCommand| match *seen {
        DriveCommand::Blocks(Operation { verb, lba, blocks }) if verb.writes() => Some((lba, blocks)),
        _ => None,
    };
    seen.iter().filter_map(write).collect()
}

each_way! {
    a_file_has_the_namespace_s_size_and_block_size,
    reads_and_writes_of_any_alignment,
    promises_become_flush_and_fua,
    holes_are_deallocated_and_read_as_zeroes,
    the_directory_cannot_be_changed,
    errors_of_the_drive_reach_the_program,
    requests_of_several_threads_are_in_flight_together,
    namespaces_appear_and_vanish,
    loop_devices_have_the_sector_size_and_keep_writes_whole,
    file_systems_survive_a_remount_and_are_unmounted_at_the_end,
    stopping_does_not_wait_for_those_who_keep_files_open,
    a_mount_that_is_taken_away_is_noticed,
    loop_devices_are_released_after_their_directory_was_unmounted,
    a_killed_process_is_cleared_away,
}

fn a_file_has_the_namespace_s_size_and_block_size(rings: bool) {
    if !possible("a_file_has_the_namespace_s_size_and_block_size", false) {
        return;
    }
    let protected = Namespace { read_only: true, ..namespace(9, 512, MIB) };
    let bench = Bench::new(plain(rings), &[namespace(1, 4096, 8 * MIB), protected]);
    let meta = std::fs::metadata(bench.file(1)).unwrap();
    assert_eq!((meta.len(), meta.blksize(), meta.mode() & 0o7777), (8 * MIB, 4096, 0o600));
    let meta = std::fs::metadata(bench.file(9)).unwrap();
    assert_eq!((meta.len(), meta.blksize(), meta.mode() & 0o7777), (MIB, 512, 0o400));
    let stat = rustix::fs::statfs(bench.file(9)).unwrap();
    assert_eq!((stat.f_bsize as u64, stat.f_blocks as u64), (512, MIB / 512));
    let mut names: Vec<_> =
        std::fs::read_dir(bench.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["nvme0n1", "nvme0n9"]);

    let error = OpenOptions::new().write(true).open(bench.file(9)).unwrap_err();
    assert_eq!(errno(error), code(Errno::EROFS));
    assert!(File::create(bench.dir.path().join("new")).is_err());
    assert!(std::fs::remove_file(bench.file(1)).is_err());
    run("chown", &["65534:65534", bench.file(1).to_str().unwrap()]);
    run("chmod", &["640", bench.file(1).to_str().unwrap()]);
    let meta = std::fs::metadata(bench.file(1)).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777, meta.len()), (65534, 65534, 0o640, 8 * MIB));
    bench.stop();
}

fn reads_and_writes_of_any_alignment(rings: bool) {
    if !possible("reads_and_writes_of_any_alignment", false) {
        return;
    }
    let bench = Bench::new(plain(rings), &[namespace(1, 4096, 8 * MIB)]);
    let file = bench.open(1);
    let data: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
    file.write_all_at(&data, 12_345).unwrap();
    let mut back = vec![0; data.len()];
    file.read_exact_at(&mut back, 12_345).unwrap();
    assert!(back == data);
    // Like a block device: short at the end, no space beyond it.
    assert_eq!(file.write_at(&[1; 8192], 8 * MIB - 4096).unwrap(), 4096);
    assert_eq!(errno(file.write_at(&[1; 4096], 8 * MIB).unwrap_err()), code(Errno::ENOSPC));
    assert_eq!(file.read_at(&mut back, 8 * MIB).unwrap(), 0);

    let name = format!("of={}", bench.file(1).display());
    run("dd", &["if=/dev/urandom", &name, "bs=100", "count=77", "status=none"]);
    assert_eq!(std::fs::metadata(bench.file(1)).unwrap().len(), 8 * MIB, "O_TRUNC does nothing");
    assert_eq!(file.metadata().unwrap().len(), 8 * MIB);
    assert_eq!(errno(file.set_len(4096).unwrap_err()), code(Errno::EINVAL));
    file.set_len(8 * MIB).unwrap();
    drop(file);
    bench.stop();
}

fn promises_become_flush_and_fua(rings: bool) {
    if !possible("promises_become_flush_and_fua", false) {
        return;
    }
    let bench = Bench::new(plain(rings), &[namespace(1, 512, MIB)]);
    let file = bench.open(1);
    file.write_all_at(&[1; 16384], 0).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    let flush = DriveCommand::blocks(Verb::Flush, 0, 0);
    assert_eq!(bench.drive.seen(), [DriveCommand::blocks(Verb::Write, 0, 32), flush, flush]);
    for flags in [crate::zonefs::O_DSYNC, rustix::fs::OFlags::SYNC.bits()] {
        let flags = flags.cast_signed();
        let durable = OpenOptions::new().write(true).custom_flags(flags).open(bench.file(1)).unwrap();
        durable.write_all_at(&[1; 16384], 0).unwrap();
        let seen = bench.drive.seen();
        assert!(seen.starts_with(&[DriveCommand::blocks(Verb::WriteFua, 0, 32)]), "{seen:?}");
    }
    drop(file);
    bench.stop();
}

fn holes_are_deallocated_and_read_as_zeroes(rings: bool) {
    if !possible("holes_are_deallocated_and_read_as_zeroes", false) {
        return;
    }
    let bench = Bench::new(plain(rings), &[namespace(1, 4096, 8 * MIB)]);
    bench.drive.fill(1, 0xAA);
    let file = bench.open(1);
    let keep = FallocateFlags::KEEP_SIZE;
    fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, 4096, 4 * MIB).unwrap();
    fallocate(&file, FallocateFlags::ZERO_RANGE, 6 * MIB, 10_000).unwrap();
    let expected = [
        DriveCommand::blocks(Verb::WriteZeroes { deallocate: true }, 1, 1024),
        DriveCommand::blocks(Verb::WriteZeroes { deallocate: false }, 1536, 2),
        DriveCommand::blocks(Verb::Read, 1538, 1),
        DriveCommand::blocks(Verb::Write, 1538, 1),
    ];
    assert_eq!(bench.drive.seen(), expected);
    let content = bench.drive.content(1);
    let zeroes: Vec<usize> = (0..content.len()).filter(|at| content[*at] == 0).collect();
    assert_eq!(zeroes.len() as u64, 4 * MIB + 10_000);

    fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, 0, 1 << 40).unwrap();
    assert!(bench.drive.content(1).iter().all(|byte| *byte == 0));
    let refused = [
        (FallocateFlags::empty(), 4096, Errno::EOPNOTSUPP),
        (FallocateFlags::ZERO_RANGE, 16 * MIB, Errno::EINVAL),
        (FallocateFlags::COLLAPSE_RANGE, 4096, Errno::EOPNOTSUPP),
    ];
    for (mode, len, expected) in refused {
        let error = fallocate(&file, mode, 0, len).unwrap_err();
        assert_eq!(error.raw_os_error(), code(expected), "{mode:?}");
    }
    drop(file);
    bench.stop();
}

/// Which files there are is the drive's to say.
fn the_directory_cannot_be_changed(rings: bool) {
    if !possible("the_directory_cannot_be_changed", false) {
        return;
    }
    let bench = Bench::new(plain(rings), &[namespace(1, 4096, MIB)]);
    let (file, other) = (bench.file(1), bench.dir.path().join("other"));
    let refused = |result: std::io::Result<()>| assert_eq!(errno(result.unwrap_err()), code(Errno::EPERM));
    refused(File::create_new(&other).map(drop));
    refused(std::fs::create_dir(&other));
    refused(std::fs::remove_file(&file));
    refused(std::fs::rename(&file, &other));
    refused(std::fs::hard_link(&file, &other));
    refused(std::os::unix::fs::symlink(&file, &other));
    drop(bench.open(1));
    bench.stop();
}

fn errors_of_the_drive_reach_the_program(rings: bool) {
    if !possible("errors_of_the_drive_reach_the_program", false) {
        return;
    }
    let bench = Bench::new(plain(rings), &[namespace(1, 4096, MIB)]);
    let file = bench.open(1);
    for expected in [Errno::EIO, Errno::ENOSPC, Errno::EROFS, Errno::ENODEV] {
        bench.drive.fail(Some(expected));
        let mut data = vec![0; 8192];
        let errors = [
            file.read_at(&mut data, 0).unwrap_err(),
            file.write_at(&data, 0).unwrap_err(),
            file.sync_all().unwrap_err(),
        ];
        for error in errors {
            assert_eq!(errno(error), code(expected));
        }
    }
    drop(file);
    bench.stop();
}

fn requests_of_several_threads_are_in_flight_together(rings: bool) {
    if !possible("requests_of_several_threads_are_in_flight_together", false) {
        return;
    }
    let bench = Bench::new(plain(rings), &[namespace(1, 4096, MIB)]);
    let file = Arc::new(bench.open(1));
    bench.drive.hold();
    let threads: Vec<_> = (0..8u8)
        .map(|i| {
            let file = file.clone();
            std::thread::spawn(move || file.write_all_at(&[i; 4096], u64::from(i) * 4096).unwrap())
        })
        .collect();
    wait_for("eight writes to one file in flight", || bench.drive.most_in_flight() == 8);
    while bench.drive.release(3) {}
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let content = bench.drive.content(1);
    assert!((0..8u8).all(|i| content[usize::from(i) * 4096..][..4096] == [i; 4096]));
    drop(file);
    bench.stop();
}

fn namespaces_appear_and_vanish(rings: bool) {
    if !possible("namespaces_appear_and_vanish", true) {
        return;
    }
    let bench = Bench::new(with_loops(rings), &[namespace(1, 4096, MIB)]);
    assert!(!bench.file(2).exists());
    bench.drive.attach(namespace(2, 512, 2 * MIB));
    wait_for("namespace 2", || bench.export.devices().iter().any(|d| d.nsid == 2 && d.node.is_some()));
    assert_eq!(std::fs::metadata(bench.file(2)).unwrap().len(), 2 * MIB);
    let node = bench.node(2);

    let open = bench.open(2);
    open.write_all_at(&[1; 512], 0).unwrap();
    bench.drive.detach(2);
    wait_for("the end of namespace 2", || !bench.file(2).exists());
    assert_eq!(errno(open.write_at(&[1; 512], 0).unwrap_err()), code(Errno::ENODEV));
    assert_eq!(errno(open.read_at(&mut [0; 512], 0).unwrap_err()), code(Errno::ENODEV));
    wait_for("the end of its loop device", || {
        let attached = run("losetup", &["--noheadings", "--output", "NAME,BACK-FILE"]);
        let file = bench.file(2).display().to_string();
        !attached.lines().any(|line| line.contains(&file))
    });
    assert!(bench.file(1).exists(), "{node:?}");

    // The same NSID again is another file.
    bench.drive.attach(namespace(2, 4096, 4 * MIB));
    wait_for("namespace 2 again", || bench.file(2).exists());
    let meta = std::fs::metadata(bench.file(2)).unwrap();
    assert_eq!((meta.len(), meta.blksize()), (4 * MIB, 4096));
    assert_eq!(errno(open.write_at(&[1; 512], 0).unwrap_err()), code(Errno::ENODEV));
    drop(open);
    bench.stop();
}

fn loop_devices_have_the_sector_size_and_keep_writes_whole(rings: bool) {
    if !possible("loop_devices_have_the_sector_size_and_keep_writes_whole", true) {
        return;
    }
    let bench = Bench::new(with_loops(rings), &[namespace(1, 512, 64 * MIB), namespace(2, 4096, 64 * MIB)]);
    for (nsid, sector) in [(1, 512u32), (2, 4096)] {
        let node = bench.node(nsid);
        let node = node.to_str().unwrap();
        let size = run("blockdev", &["--getss", "--getsize64", node]);
        assert_eq!(size.split_whitespace().collect::<Vec<_>>(), [sector.to_string(), (64 * MIB).to_string()]);
        assert_eq!(run("losetup", &["--noheadings", "--output", "DIO", node]).trim(), "1");
        bench.drive.seen();
        let name = format!("of={node}");
        // At an odd multiple of 4 KiB, too.
        run("dd", &["if=/dev/urandom", &name, "bs=16k", "count=64", "oflag=direct", "status=none"]);
        run(
            "dd",
            &[
                "if=/dev/urandom",
                &name,
                "bs=16k",
                "seek=77824",
                "count=1",
                "oflag=direct,seek_bytes",
                "status=none",
            ],
        );
        let seen = bench.drive.seen();
        let expected: Vec<_> = (0..64).map(|i| i * 16384).chain([77824]).collect();
        let blocks = 16384 / sector;
        let expected: Vec<_> = expected.into_iter().map(|at| (at / u64::from(sector), blocks)).collect();
        assert_eq!(writes(&seen), expected);

        bench.drive.fill(nsid, 7);
        run("blkdiscard", &["--offset", "1MiB", "--length", "2MiB", node]);
        let verb = Verb::WriteZeroes { deallocate: true };
        let deallocates =
            |seen: &DriveCommand| matches!(seen, DriveCommand::Blocks(part) if part.verb == verb);
        assert!(bench.drive.seen().iter().any(deallocates));
        let content = bench.drive.content(nsid);
        let hole = (MIB as usize)..(3 * MIB as usize);
        assert!(content[hole.clone()].iter().all(|byte| *byte == 0));
        assert_eq!(content.iter().filter(|byte| **byte == 0).count(), hole.len());
    }
    bench.stop();
}

fn file_systems_survive_a_remount_and_are_unmounted_at_the_end(rings: bool) {
    if !possible("file_systems_survive_a_remount_and_are_unmounted_at_the_end", true) {
        return;
    }
    let mut bench =
        Bench::new(with_loops(rings), &[namespace(1, 4096, 512 * MIB), namespace(2, 512, 32 * MIB)]);
    let point = tempfile::tempdir().unwrap();
    let at = point.path().to_str().unwrap();
    for (nsid, mkfs) in [(1, &["mkfs.xfs", "-q", "-f"][..]), (2, &["mkfs.ext4", "-q", "-F"])] {
        let node = bench.node(nsid);
        let node = node.to_str().unwrap();
        run(mkfs[0], &[&mkfs[1..], &[node]].concat());
        run("mount", &[node, at]);
        let data: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(point.path().join("data"), &data).unwrap();
        run("umount", &[at]);
        run("mount", &[node, at]);
        assert!(std::fs::read(point.path().join("data")).unwrap() == data);
        if nsid == 1 {
            run("umount", &[at]);
        }
    }
    // The last one is still mounted, with data that has not been written back.
    std::fs::write(point.path().join("late"), vec![0x5A; 100_000]).unwrap();
    assert_eq!(bench.export.stop(), Vec::<String>::new());
    assert!(!is_mounted(point.path()) && !is_mounted(bench.dir.path()));
    let content = bench.drive.content(2);
    let runs = content.chunks(512).filter(|block| block.iter().all(|byte| *byte == 0x5A)).count();
    assert!(runs >= 195, "{runs} blocks of the late file are on the drive");
}

fn stopping_does_not_wait_for_those_who_keep_files_open(rings: bool) {
    if !possible("stopping_does_not_wait_for_those_who_keep_files_open", true) {
        return;
    }
    let mut bench = Bench::new(with_loops(rings), &[namespace(1, 4096, 64 * MIB), namespace(2, 4096, MIB)]);
    let point = tempfile::tempdir().unwrap();
    let at = point.path().to_str().unwrap();
    let node = bench.node(1);
    run("mkfs.ext4", &["-q", "-F", node.to_str().unwrap()]);
    run("mount", &[node.to_str().unwrap(), at]);
    let mut busy = File::create(point.path().join("busy")).unwrap();
    busy.write_all(b"written before the end").unwrap();
    let open = bench.open(2);
    let in_the_way = bench.export.stop();
    assert!(in_the_way.iter().any(|sentence| sentence.contains(at)), "{in_the_way:?}");
    assert!(in_the_way.iter().any(|sentence| sentence.contains("block file open")), "{in_the_way:?}");
    assert!(!is_mounted(point.path()) && !is_mounted(bench.dir.path()));
    assert!(open.read_at(&mut [0; 4096], 0).is_err());
    let content = bench.drive.content(1);
    assert!(content.windows(22).step_by(4096).any(|window| window == b"written before the end"));
    drop((busy, open));
    wait_for("the device's end", || !crate::loops::LoopDevice::named(&node, &bench.file(1)).is_attached());
}

fn a_mount_that_is_taken_away_is_noticed(rings: bool) {
    if !possible("a_mount_that_is_taken_away_is_noticed", false) {
        return;
    }
    for lazily in [false, true] {
        let mut bench = Bench::new(plain(rings), &[namespace(1, 4096, MIB)]);
        assert_eq!(bench.export.lost(), None);
        let open = lazily.then(|| bench.open(1));
        let option: &[&str] = if lazily { &["-l"] } else { &[] };
        run("umount", &[option, &[bench.dir.path().to_str().unwrap()]].concat());
        wait_for("noticing", || bench.export.lost().is_some());
        assert!(bench.export.lost().unwrap().contains(bench.dir.path().to_str().unwrap()));
        drop(open);
        assert_eq!(bench.export.stop(), Vec::<String>::new());
        assert_eq!(bench.export.lost(), None);
    }
}

/// Not a test: the process that the next one kills.
#[test]
#[ignore = "started by a_killed_process_is_cleared_away"]
fn process_to_be_killed() {
    let Some(dir) = std::env::var_os("BLOCK_TEST_DIR") else { return };
    let connect = |reports| {
        let namespaces = [namespace(1, 4096, 64 * MIB), namespace(2, 512, MIB)];
        Ok(Memory::reporting(reports, LIMITS, &namespaces) as _)
    };
    let rings = std::env::var_os("BLOCK_TEST_RINGS").is_some();
    let export = Export::over(connect, Path::new(&dir), with_loops(rings)).unwrap();
    let nodes: Vec<String> =
        export.devices().iter().map(|d| d.node.clone().unwrap().display().to_string()).collect();
    let _ = writeln!(std::io::stderr(), "ready {}", nodes.join(" "));
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Starts it; returns it with the nodes of its loop devices.
fn drive_to_be_killed(dir: &Path, rings: bool) -> (Child, Vec<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if rings {
        command.env("BLOCK_TEST_RINGS", "1");
    }
    let mut child = command
        .args(["--exact", "--ignored", "tests::mounted::process_to_be_killed"])
        .env("BLOCK_TEST_DIR", dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stderr.take().unwrap());
    while !line.starts_with("ready") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0, "no start");
    }
    (child, line.split_whitespace().skip(1).map(str::to_owned).collect())
}

/// What the kernel shows as a loop device's file; empty when it is not attached.
fn backing(node: &str) -> String {
    let path = Path::new("/sys/block").join(Path::new(node).file_name().unwrap()).join("loop/backing_file");
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// A loop device of somebody else, whose path reads like one of ours.
struct Foreign(String);

impl Foreign {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_str().unwrap();
        run("mount", &["-t", "tmpfs", "foreign", at]);
        let file = dir.path().join("nvme0n1");
        File::create(&file).unwrap().set_len(MIB).unwrap();
        let node = run("losetup", &["--find", "--show", file.to_str().unwrap()]).trim().to_owned();
        run("umount", &["-l", at]);
        assert_eq!(backing(&node), "/nvme0n1");
        Foreign(node)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.0]);
    }
}

fn loop_devices_are_released_after_their_directory_was_unmounted(rings: bool) {
    if !possible("loop_devices_are_released_after_their_directory_was_unmounted", true) {
        return;
    }
    let foreign = Foreign::new();
    // At the stop of the drive.
    let mut bench = Bench::new(with_loops(rings), &[namespace(1, 4096, 64 * MIB)]);
    let node = bench.node(1).display().to_string();
    run("umount", &["-l", bench.dir.path().to_str().unwrap()]);
    wait_for("the path within the directory", || backing(&node) == "/nvme0n1");
    assert_eq!(bench.export.stop(), Vec::<String>::new());
    // Another test may have taken the device by now.
    assert_ne!(backing(&node), "/nvme0n1");

    // At the next start, unmounted before or after the drive was killed.
    let dir = tempfile::tempdir().unwrap();
    let point = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    for before in [true, false] {
        let (mut child, nodes) = drive_to_be_killed(dir.path(), rings);
        run("mkfs.ext4", &["-q", "-F", &nodes[0]]);
        run("mount", &[&nodes[0], point.path().to_str().unwrap()]);
        if before {
            run("umount", &["-l", at]);
            assert!(clean_stale(dir.path()).unwrap().is_empty(), "a drive that is alive is left alone");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if !before {
            run("umount", &["-l", at]);
        }
        assert_eq!(backing(&nodes[0]), "/nvme0n1");
        // One is detached by hand, and another's by now.
        run("losetup", &["--detach", &nodes[1]]);
        wait_for("the end of the second", || backing(&nodes[1]).is_empty());
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(MIB).unwrap();
        // Unless another test was faster, which is as good.
        let path = image.path();
        let ours = Command::new("losetup").arg(&nodes[1]).arg(path).status().unwrap().success();

        let other = tempfile::tempdir().unwrap();
        assert!(clean_stale(other.path()).unwrap().is_empty(), "it was not there");
        let cleaned = clean_stale(dir.path()).unwrap();
        assert_eq!(cleaned.loops, [PathBuf::from(&nodes[0])]);
        assert_eq!(cleaned.unmounted, [point.path().canonicalize().unwrap()]);
        assert!(cleaned.lingering.is_empty() && !cleaned.directory, "{cleaned:?}");
        assert_eq!(backing(&nodes[0]), "");
        if ours {
            assert_eq!(backing(&nodes[1]), path.to_str().unwrap());
            run("losetup", &["--detach", &nodes[1]]);
        }
        assert!(clean_stale(dir.path()).unwrap().is_empty());
    }
    assert_eq!(backing(&foreign.0), "/nvme0n1");
}

fn a_killed_process_is_cleared_away(rings: bool) {
    if !possible("a_killed_process_is_cleared_away", true) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let point = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let (mut child, nodes) = drive_to_be_killed(dir.path(), rings);
        let node = nodes[0].as_str();
        run("mkfs.ext4", &["-q", "-F", node]);
        run("mount", &[node, point.path().to_str().unwrap()]);
        std::fs::write(point.path().join("lost"), "with the process").unwrap();
        assert!(matches!(crate::mount::prepare(dir.path()), Err(ExportError::InUse(_))));
        assert!(clean_stale(dir.path()).unwrap().is_empty(), "a drive that is alive is left alone");

        child.kill().unwrap();
        child.wait().unwrap();
        // Every other time the next start, or the cleaning, is the first to ask the kernel.
        if round % 2 == 0 {
            let error = errno(File::open(dir.path().join("nvme0n1")).unwrap_err());
            // Whether the kernel has taken the queues down by now.
            let gone = [Errno::ENOTCONN, Errno::ECONNABORTED, Errno::ECANCELED].map(code);
            assert!(gone.contains(&error), "{error}");
        }
        // Later by the next start, as it normally happens.
        if round < 2 {
            let cleaned = clean_stale(dir.path()).unwrap();
            assert!(cleaned.directory && cleaned.loops.len() == 2, "{cleaned:?}");
            assert_eq!(cleaned.unmounted, [point.path().canonicalize().unwrap()]);
            assert!(cleaned.lingering.is_empty());
        }
    }
    let connect = |reports| Ok(Memory::reporting(reports, LIMITS, &[namespace(1, 4096, MIB)]) as _);
    let mut export = Export::over(connect, dir.path(), with_loops(rings)).unwrap();
    let node = export.devices()[0].node.clone().unwrap();
    let mut byte = [1];
    File::open(node).unwrap().read_exact(&mut byte).unwrap();
    assert_eq!(export.stop(), Vec::<String>::new());
    assert!(!is_mounted(dir.path()) && !is_mounted(point.path()));
    assert!(crate::loops::attached_in(&dir.path().canonicalize().unwrap()).is_empty());
}
