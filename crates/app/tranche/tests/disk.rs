//! Drives whose medium is a hard disk, as a user meets them.

mod common;

use common::{Served, TRANCHE, at, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// 20 MiB, and fast enough for a test.
const DISK: &str = r#"
[drive]
timing = true
power_loss_protection = false
lba_formats = [512, 4096]

[[set]]
media = "disk"
rpm = 60000
heads = 2
cylinders = 200
zones = 4
outer_sectors = 120
inner_sectors = 90
read_seek = ["20us", "60us", "100us"]
buffer = { write_cache = true, write_size = "256KiB" }

[[namespace]]
size = "16MiB"
lba = "512"
attach = "all"
"#;

fn run(on: &str, args: &[&str]) -> Output {
    Command::new(TRANCHE).env("TRANCHE_ON", on).args(args).output().unwrap()
}

/// Standard output of a command that succeeds.
fn tranche(on: &str, args: &[&str]) -> String {
    let output = run(on, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn job(dir: &Path, name: &str, lines: &str) -> String {
    let path = at(dir, name);
    std::fs::write(&path, format!("[job]\nsize=8m\nbs=4k\niodepth=8\n{lines}\n")).unwrap();
    path
}

#[test]
fn a_disk_keeps_what_was_flushed_over_power_cuts_and_kills() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image, drive) =
        (at(temp.path(), "s"), at(temp.path(), "image"), at(temp.path(), "disk.toml"));
    let on = format!("unix://{socket}");
    std::fs::write(&drive, DISK).unwrap();
    let serve = || Served::start(&["--unix", &socket, "--image", &image, "--drive", &drive]);
    let written =
        job(temp.path(), "write.fio", "rw=randwrite\nverify=crc32c\nend_fsync=1\nrandseed=5\ndo_verify=0");
    let verified = job(temp.path(), "verify.fio", "rw=randwrite\nverify=crc32c\nrandseed=5\nverify_only=1");
    let served = serve();
    let told = tranche(&on, &["smart"]);
    assert!(!told.is_empty());
    tranche(&on, &["bench", &written]);
    tranche(&on, &["bench", &verified]);
    // The process dies, power goes, and both.
    drop(served);
    let served = serve();
    tranche(&on, &["bench", &verified]);
    tranche(&on, &["power-cut"]);
    tranche(&on, &["bench", &verified]);
    drop(served);
    let served = serve();
    tranche(&on, &["bench", &verified]);
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    let checked = Command::new(TRANCHE).args(["image", "check", &image]).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stdout));
}

#[test]
fn a_grown_defect_fails_reads_until_it_is_written() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, drive) = (at(temp.path(), "s"), at(temp.path(), "disk.toml"));
    let on = format!("unix://{socket}");
    std::fs::write(&drive, DISK).unwrap();
    let _served = Served::start(&["--unix", &socket, "--drive", &drive]);
    let write = job(temp.path(), "write.fio", "rw=write");
    let read = job(temp.path(), "read.fio", "rw=read");
    tranche(&on, &["fault", "weak-page", "--one-in", "50"]);
    tranche(&on, &["bench", &write]);
    tranche(&on, &["fault", "clear"]);
    // What is in the disk's buffer is read from there.
    tranche(&on, &["power-cut"]);
    let failed = run(&on, &["bench", &read]);
    assert!(
        !failed.status.success() && text(&failed.stderr).contains("Unrecovered Read Error"),
        "{failed:?}"
    );
    tranche(&on, &["bench", &write]);
    tranche(&on, &["bench", &read]);
}

#[test]
fn a_disk_of_the_data_sheet_does_as_many_requests_as_such_disks_do() {
    let temp = tempfile::tempdir().unwrap();
    let iops = |depth: u32, drive: &str| {
        let path = at(temp.path(), "random.fio");
        let text = format!("[r]\nrw=randread\nbs=4k\nsize=100%\niodepth={depth}\ntime_based=1\nruntime=60\n");
        std::fs::write(&path, text).unwrap();
        let args = ["sim", &path, "--drive", drive, "--output", "json"];
        let output = Command::new(TRANCHE).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["jobs"][0]["read"]["iops"].as_f64().unwrap()
    };
    let alone = iops(1, "cheetah-15k7-300g");
    // A seek of 3.4 ms and half of a revolution of 4 ms are 185 a second.
    assert!((175.0..200.0).contains(&alone), "{alone}");
    let queued = iops(32, "cheetah-15k7-300g");
    assert!((1.6..3.0).contains(&(queued / alone)), "a queue of 32: {queued} over {alone}");
    let nearline = iops(1, "constellation2-1t");
    assert!((75.0..90.0).contains(&nearline), "{nearline}");
}
