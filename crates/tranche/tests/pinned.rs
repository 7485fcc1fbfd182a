//! The same seed gives the same result on every machine: digests of a few runs, as they were on the machine where they were written
//! down. They change when the drive or a load decides something else, which is then to be said with the change.

mod common;

use common::TRANCHE;
use serde_json::Value;
use std::process::Command;

/// The digest of a load on a drive.
fn digest(file: &str, load: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(file), load).unwrap();
    let mut command = Command::new(TRANCHE);
    command.current_dir(dir.path()).args(["sim", file, "--no-cache", "--output", "json"]).args(args);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["simulation"]["digest"].as_str().unwrap().to_owned()
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
