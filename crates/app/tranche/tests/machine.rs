//! Short runs of `tranche study filesystem --live` and `oltp --live`. Need root, FUSE, loop devices, fio, MariaDB and sysbench; say so where they are missing.

#[path = "common/evidence.rs"]
mod evidence;
#[path = "common/schema.rs"]
mod schema;
use std::process::Command;

use serde_json::Value;

/// A live run of a study with these arguments: its results, and its report. If it succeeds, it leaves nothing behind.
fn study(name: &str, args: &[&str]) -> (Value, String) {
    let out = evidence::Evidence::new();
    let scratch = tempfile::tempdir_in(if cfg!(target_os = "linux") { "/dev/shm" } else { "/tmp" }).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tranche"));
    command.args(["--output", "json", "study", name, "--live", "--quick", "--out"]).arg(out.path());
    let run = command.arg("--scratch").arg(scratch.path()).args(args).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{text}\n{errors}");
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(scratch.path().to_str().unwrap()), "{mounts}");
    let results: Value = serde_json::from_str(&text).unwrap();
    schema::check("study", &results);
    assert_eq!(results["engine"], "live");
    let report = std::fs::read_to_string(out.path().join("report.html")).unwrap();
    (results, report)
}

/// A metric of the only run of a variant that has it.
fn metric(results: &Value, variant: &str, name: &str) -> f64 {
    let variants = results["variants"].as_array().unwrap();
    let variant = variants.iter().find(|of| of["name"] == variant).unwrap_or_else(|| panic!("{variant}"));
    let found = variant["runs"].as_array().unwrap().iter().find_map(|run| run["metrics"][name].as_f64());
    found.unwrap_or_else(|| panic!("{name}: {variant:#}"))
}

#[test]
fn fio_finds_drives_below_ext4_as_fast_as_they_are() {
    let test = "fio_finds_drives_below_ext4_as_fast_as_they_are";
    if !testkit::possible(test, &["losetup", "fio", "mkfs.ext4", "mkfs.xfs"]) {
        return;
    }
    let (results, report) = study("filesystem", &["--filesystems", "ext4", "--slow-motion", "8"]);
    for job in ["randread", "randwrite", "read", "write"] {
        let of = |drive: &str, figure: &str| {
            metric(&results, &format!("{drive}-ext4"), &format!("{job}_{figure}"))
        };
        assert!(of("nvme", "iops") > of("hdd", "iops"), "{job}: {results:#}");
        for drive in ["nvme", "sas-ssd", "hdd"] {
            // A second of the drive takes eight.
            let times = of(drive, "iops") / of(drive, "wall_iops");
            assert!((times - 8.0).abs() < 0.01, "{job}, {drive}: {times}");
            assert!(of(drive, "mean_us") <= of(drive, "job_us"), "{job}, {drive}");
            let cached = metric(&results, &format!("{drive}-ext4"), &format!("page_cache_{job}_iops"));
            assert!(cached > of(drive, "wall_iops"), "{job}, {drive}: memory is faster than a drive");
        }
    }
    // No drive is faster than its profile says, however busy this machine is. fio also counts requests that were under way when it began.
    assert!(metric(&results, "nvme-ext4", "randread_iops") < 1.2 * 740_000.0, "{results:#}");
    assert!(metric(&results, "sas-ssd-ext4", "randread_iops") < 1.2 * 120_000.0, "{results:#}");
    assert!(metric(&results, "hdd-ext4", "verified_KiB") >= 128.0);
    assert!(report.contains("Page cache") && report.contains("1/256 of their capacity"));
}

#[test]
fn mariadb_runs_on_disk_nvme_and_a_tier_and_stays_whole() {
    let test = "mariadb_runs_on_disk_nvme_and_a_tier_and_stays_whole";
    if !testkit::possible(test, &["losetup", "mkfs.xfs", "mariadbd", "mariadb-install-db", "sysbench"]) {
        return;
    }
    let small = ["--rows", "2560000", "--buffer-pool", "2GiB", "--connections", "4", "--slow-motion", "16"];
    let (results, report) = study("oltp", &small);
    let of = |variant: &str, name: &str| metric(&results, variant, name);
    for variant in ["hdd", "nvme", "cache-smq"] {
        assert!(of(variant, "tps") > 0.0, "{variant}: {results:#}");
        assert!((of(variant, "checked_rows") - 10_000.0).abs() < 0.5, "{variant}: {results:#}");
    }
    assert!(of("nvme", "tps") > of("hdd", "tps"), "{results:#}");
    // The tier begins empty, and promotes at the first reads.
    for name in ["misses", "hits", "promoted_MB"] {
        assert!(of("cache-smq", name) > 0.0, "{name}: {results:#}");
    }
    assert!(report.contains("The cache tier") && report.contains("oltp_read_write"));
}
