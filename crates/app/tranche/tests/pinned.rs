//! The same seed gives the same result on every machine: digests of a few runs, as they were on the machine where they were written
//! down. They change when the drive or a load decides something else, which is then to be said with the change.

mod common;

use common::TRANCHE;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// What the program says of a run in a directory of its own.
fn report(dir: &Path, args: &[&str]) -> Value {
    let output =
        Command::new(TRANCHE).current_dir(dir).args(args).args(["--output", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a load on a drive came to.
fn simulation(file: &str, load: &str, args: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(file), load).unwrap();
    report(dir.path(), &[&["sim", file, "--no-cache"], args].concat())["simulation"].take()
}

/// The digest of a load on a drive.
fn digest(file: &str, load: &str, args: &[&str]) -> String {
    simulation(file, load, args)["digest"].as_str().unwrap().to_owned()
}

const LAB: &str = "pblaze5-910-lab";

#[test]
fn jobs() {
    let job = "[global]\nbs=4k\nsize=64m\n[w]\nrw=randwrite\niodepth=32\nrandom_distribution=zipf:0.99\nrate_iops=20000\nrate_process=poisson\n\
               [r]\nrw=randrw\nbssplit=4k/60:16k/40\nrwmixread=70\niodepth=4\nfsync=16\n[s]\nstonewall\nrw=read\nbs=128k\niodepth=8\n";
    let drive = ["--drive", LAB, "--precondition", "steady", "--seed", "7"];
    assert_eq!(digest("job.fio", job, &drive), "c61cdf235becdbee");
}

#[test]
fn act() {
    let act = "device-names: /dev/nvme0n1\ntest-duration-sec: 3\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
    assert_eq!(
        digest("storage.act", act, &["--drive", LAB, "--precondition", "fill", "--seed", "3"]),
        "6d90559186d5dcb4"
    );
}

#[test]
fn traces() {
    let line = |n: u64| {
        let (verb, at) = (if n.is_multiple_of(3) { 'R' } else { 'W' }, n * 7919 % 4096 * 4096);
        format!("0,{verb},{at},{},{}\n", 4096 << (n % 4), 1_000_000 + n * 37)
    };
    let trace: String = (0..5000).map(line).collect();
    assert_eq!(digest("t.csv", &trace, &["--drive", LAB, "--precondition", "steady"]), "5ab39bad66f22f42");
}

/// The drive with the published drive's speed, in steady state.
#[test]
fn the_published_drive() {
    let job = "[load]\nrw=randrw\nrwmixread=70\nbssplit=4k/60:16k/40\niodepth=64\nio_size=2g\n";
    let drive = ["--drive", "pblaze5-910-short", "--precondition", "steady", "--seed", "1"];
    let got = simulation("job.fio", job, &drive);
    assert_eq!(got["digest"], "9043eff9f50a0a67");
    assert_eq!(
        (&got["host_bytes_written"], &got["nand_bytes_written"]),
        (&json!(645_259_264), &json!(1_883_111_424))
    );
    assert_eq!((&got["read_p50_us"], &got["read_p99_us"]), (&json!(190.463), &json!(2359.295)));
}

/// A point of the doublewrite study on that drive, too short to be in its steady state: 64 connections, everything on NAND.
#[test]
fn a_point_of_the_published_system() {
    let dir = tempfile::tempdir().unwrap();
    let point = [
        "--sim",
        "--connections",
        "64",
        "--variants",
        "nand",
        "--seconds",
        "1",
        "--warmup",
        "1",
        "--seed",
        "1",
    ];
    let results = report(dir.path(), &[&["study", "doublewrite", "--out", "out"], &point[..]].concat());
    let run = &results["variants"][0]["runs"][0];
    assert_eq!(run["metrics"]["tpmC"], 45_300.0);
    let counts = ["reads", "writes", "flushes", "host_bytes_written", "media_bytes_written"];
    let counted = counts.map(|count| run["namespaces"][0][count].as_u64().unwrap());
    assert_eq!(counted, [61_349, 28_694, 2_390, 800_796_672, 1_273_626_624]);
}
