//! What becomes of a mounted store whose zones or drive are taken away from it.

use crate::{Drive, pattern};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use testkit::{possible, wait_for};

/// A command that takes the zones from under a mounted store needs --force, and the mount says what became of them.
#[test]
fn zones_are_not_taken_from_under_a_mounted_store() {
    if !possible("zones_are_not_taken_from_under_a_mounted_store", &[]) {
        return;
    }
    let drive = Drive::start();
    let (mounted, log, path) = drive.mount_with_a_file();
    let listed = drive.json(&["ns", "list"]);
    let zoned = listed["Devices"].as_array().unwrap().iter().find(|ns| !ns["Zones"].is_null()).unwrap();
    let nsid = zoned["NameSpace"].to_string();
    drive.bad(1, &["zone", "reset", "--all"], "has the store on namespace");
    drive.bad(1, &["ns", "detach", &nsid], "Unmount the store first, or give --force");
    assert_eq!(fs::read(&path).unwrap(), b"synced");
    // Requests that FUSE's library would log. The copy is whole all the same.
    fs::copy(&path, drive.point().join("copy")).unwrap();
    assert!(rustix::fs::seek(File::open(&path).unwrap(), rustix::fs::SeekFrom::Data(0)).is_ok());
    drive.good(&["zone", "reset", "--all", "--force"]);
    wait_for("an error", || {
        fs::write(drive.point().join("other"), "more").is_err()
            || File::open(drive.point().join("other")).and_then(|file| file.sync_all()).is_err()
    });
    mounted.signal("TERM");
    assert_eq!(mounted.end(), Some(1));
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("its zones no longer hold what it wrote: somebody has reset them"), "{said}");
    assert!(!said.contains("another program") && !said.contains("Not Implemented"), "{said}");
    // When nobody has it open, nobody is asked.
    drive.good(&["zone", "reset", "--all"]);
}

/// A drive loses its power. The mount says so by itself, without a write.
#[test]
fn a_mount_whose_drive_lost_its_power_says_what_to_do() {
    if !possible("a_mount_whose_drive_lost_its_power_says_what_to_do", &[]) {
        return;
    }
    let drive = Drive::start();
    let (mounted, log, path) = drive.mount_with_a_file();
    drive.good(&["power-cut"]);
    wait_for("a message", || {
        fs::read_to_string(&log).unwrap().contains("unmount the store and mount it again")
    });
    mounted.signal("TERM");
    mounted.end();
    let mounted = drive.mount();
    assert_eq!(fs::read(&path).unwrap(), b"synced");
    mounted.signal("TERM");
    assert_eq!(mounted.end(), Some(0));
}

/// One store is mounted twice, over two transports. The second mount has it. The first one writes, creates and deletes on, and does no harm.
#[test]
fn a_second_mount_takes_the_store_over() {
    if !possible("a_second_mount_takes_the_store_over", &[]) {
        return;
    }
    let mut drive = Drive::start_as(&["--tcp", "127.0.0.1:0"]);
    let (first, log, path) = drive.mount_with_a_file();
    let old = drive.point();
    // Zones that the first mount may reset, and blocks that it has not written yet.
    for name in ["gone", "kept"] {
        fs::write(old.join(name), pattern(3, 12 << 20)).unwrap();
        File::open(old.join(name)).unwrap().sync_all().unwrap();
    }
    fs::remove_file(old.join("gone")).unwrap();
    File::open(&old).unwrap().sync_all().unwrap();
    let late = File::create(old.join("late")).unwrap();
    late.write_all_at(&pattern(4, 100_000), 0).unwrap();
    drive.on = drive.served.as_ref().unwrap().tcp().swap_remove(0);
    let new = drive.dir.path().join("new");
    let second = drive.mount_at(&new);
    let synced = |number: u32| {
        let path = new.join(format!("new-{number}"));
        fs::write(&path, pattern(number, 3 << 20)).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
    };
    synced(0);
    // Whatever the first does has no effect that lasts, and it hears so.
    assert!(late.sync_all().is_err(), "the first mount syncs");
    for number in 1..12 {
        let other = old.join(format!("old-{number}"));
        let wrote = fs::write(&other, pattern(9, 2 << 20)).and_then(|()| File::open(&other)?.sync_all());
        assert!(wrote.is_err(), "the first mount synced file {number}");
        let _ = fs::remove_file(old.join("kept"));
        synced(number);
    }
    drop(late);
    first.signal("TERM");
    assert_eq!(first.end(), Some(1));
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("another program"), "{said}");
    let intact = |top: &Path| {
        assert_eq!(fs::read(top.join(path.file_name().unwrap())).unwrap(), b"synced");
        assert_eq!(fs::read(top.join("kept")).unwrap(), pattern(3, 12 << 20));
        for number in 0..12 {
            assert_eq!(fs::read(top.join(format!("new-{number}"))).unwrap(), pattern(number, 3 << 20));
        }
        assert!(!top.join("gone").exists());
        assert!(
            fs::read_dir(top).unwrap().all(|e| !e.unwrap().file_name().to_string_lossy().starts_with("old"))
        );
    };
    intact(&new);
    second.signal("TERM");
    assert_eq!(second.end(), Some(0));
    drive.good(&["store", "check", "--data"]);
    let third = drive.mount();
    intact(&drive.point());
    third.signal("TERM");
    assert_eq!(third.end(), Some(0));
}
