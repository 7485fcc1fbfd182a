//! Slices of the studies of a host with its drives: file systems, caches and databases.

use std::path::Path;

use lab_engines::machine::{Controller, HostPath};
use lab_report::control::Control;
use lab_report::options::ResultsDirectory;
use lab_report::profile;
use lab_studies::{cache, filesystem, oltp};
use serde_json::Value;

fn filesystem(directory: &Path, options: filesystem::Options) -> (Value, String) {
    let options = filesystem::Options { quick: true, out: ResultsDirectory::at(directory), ..options };
    crate::common::written(
        directory,
        200,
        filesystem::run_on(&options, &profile::table, &Control::default()).unwrap(),
    )
}

fn cache(directory: &Path, options: cache::Options) -> (Value, String) {
    let options = cache::Options { quick: true, out: ResultsDirectory::at(directory), ..options };
    crate::common::written(
        directory,
        200,
        cache::run_on(&options, &profile::table, &Control::default()).unwrap(),
    )
}

/// Metric of a variant at a point.
fn metric(results: &Value, variant: &str, at: &Value, name: &str) -> f64 {
    let variants = results["variants"].as_array().unwrap();
    let of = variants.iter().find(|of| of["name"] == variant).unwrap_or_else(|| panic!("{variant}"));
    let run = of["runs"].as_array().unwrap().iter().find(|run| run["at"] == *at);
    run.unwrap_or_else(|| panic!("{variant} at {at}"))["metrics"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("{variant} at {at}: {name}"))
}

#[test]
fn policies_differ_in_what_they_write() {
    let dir = tempfile::tempdir().unwrap();
    let options = cache::Options { parts: vec![cache::Part::Designs], file: 64 << 20, ..Default::default() };
    let (results, text) = cache(dir.path(), options);
    let of = |variant: &str, name: &str| metric(&results, variant, &serde_json::json!({}), name);
    // Both hold the file, and a warm read is a hit.
    for variant in ["designs-mq", "designs-smq"] {
        assert!(of(variant, "read_4k_qd32_hit_percent") > 99.0, "{variant}: {text}");
        assert!(of(variant, "read_4k_qd32_iops") > 20.0 * of("designs-hdd", "read_4k_qd32_iops"), "{text}");
    }
    // mq promotes after several misses, smq at once.
    let warming = |variant: &str| of(variant, "warming_seconds");
    assert!(warming("designs-smq") < warming("designs-mq"), "{text}");
}

#[test]
fn each_drive_has_its_rates_and_the_host_its_limits() {
    let dir = tempfile::tempdir().unwrap();
    let (results, text) = filesystem(dir.path(), filesystem::Options::default());
    let of = |variant: &str, name: &str| metric(&results, variant, &serde_json::json!({}), name);
    let near =
        |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 0.05, "{found}, {wanted}: {text}");
    near(of("nvme", "randread_iops"), 740_000.0);
    near(of("sas-ssd", "randread_iops"), 120_000.0);
    // 8,192 requests of the job, one queue of 128.
    near(of("sas-ssd", "randread_job_us"), 8192.0 / 0.12);
    near(of("sas-ssd-h330", "randread_mean_us"), 1200.0);
    assert!(of("hdd", "randread_iops") < 3_000.0, "{text}");
    assert!(
        of("hdd", "randwrite_iops") > 1.3 * of("hdd-h330", "randwrite_iops"),
        "a write cache takes them in: {text}"
    );
    // A lock that is held for 16 us a request lets 62,500 through.
    near(metric(&results, "sas-ssd", &serde_json::json!({"lock_ns": 8000}), "randread_iops"), 62_500.0);
    let rows = results["comparisons"].as_array().unwrap();
    let published = rows.iter().find(|row| !row["published"].is_null()).unwrap();
    assert_eq!((&published["metric"], &published["over"]), (&"randread_iops".into(), &"sas-ssd".into()));
}

#[test]
fn large_chunks_are_never_promoted_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let options = cache::Options { parts: vec![cache::Part::Chunks], ..Default::default() };
    let (results, text) = cache(dir.path(), options);
    let promotions = |variant: &str, kib: u64| {
        metric(&results, variant, &serde_json::json!({ "chunk_KiB": kib }), "promotions")
    };
    for kib in [1 << 10, 4 << 10, 64 << 10, 1 << 20] {
        assert_eq!(promotions("chunks-mq", kib), 0.0, "{text}");
        assert_eq!(promotions("chunks-smq-4.11", kib), 0.0, "{text}");
        assert!(promotions("chunks-mq-8-chunks", kib) > 0.0, "{text}");
    }
    for kib in [32, 64, 256, 512] {
        assert!(promotions("chunks-mq", kib) > 100.0, "{text}");
    }
    assert!(text.contains("chunks of 1 MiB and more were promoted 0 times"), "{text}");
}

#[test]
fn a_warm_cache_is_as_fast_as_its_drive_and_its_mode_decides_on_writes() {
    let dir = tempfile::tempdir().unwrap();
    let options = cache::Options {
        parts: vec![cache::Part::Modes],
        file: 16 << 20,
        controller: Controller::H330,
        ..Default::default()
    };
    let (results, text) = cache(dir.path(), options);
    let of = |variant: &str, name: &str| metric(&results, variant, &serde_json::json!({}), name);
    let over = |variant: &str, load: &str| of(variant, load) / of("hdd", load);
    for name in ["nvme-writeback", "nvme-writethrough", "sas-writeback", "sas-writethrough"] {
        assert_eq!(of(name, "warm_percent"), 100.0, "{text}");
        assert!(of(name, "read_4k_qd1_hit_percent") > 99.9, "{text}");
        assert!(over(name, "read_4k_qd1_iops") > 10.0, "{text}");
    }
    assert!(of("nvme-writeback", "write_4k_qd1_hit_percent") > 99.0, "{text}");
    // Some writes wait for a chunk that is written back to the disk just then.
    assert!(over("nvme-writeback", "write_4k_qd1_iops") > 3.0, "{text}");
    // Each write goes to the disk, too.
    assert!(over("nvme-writethrough", "write_4k_qd1_iops") < 1.1, "{text}");
    for load in ["read_4k_qd1", "write_64k_qd32"] {
        assert!((0.9..1.1).contains(&over("nvme-passthrough", &format!("{load}_iops"))), "{text}");
        assert_eq!(of("nvme-passthrough", &format!("{load}_hit_percent")), 0.0, "{text}");
    }
}

#[test]
fn the_same_seed_warms_the_same_way() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options =
        cache::Options { parts: vec![cache::Part::Warming], file: 16 << 20, seed: 7, ..Default::default() };
    let (results, text) = cache(first.path(), options.clone());
    let (again, _) = cache(second.path(), options);
    assert_eq!(results, again);
    let hits = |variant: &str| metric(&results, variant, &serde_json::json!({"seconds": 20}), "hit_percent");
    for policy in ["mq", "smq-4.11", "smq"] {
        assert!(hits(&format!("warming-{policy}")) > 50.0, "{text}");
    }
}

#[test]
fn a_database_is_as_fast_as_its_drive_lets_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = oltp::Options {
        rows: 2_000_000,
        pool: 64 << 20,
        threads: 8,
        seconds: 4,
        out: ResultsDirectory::at(dir.path()),
        ..Default::default()
    };
    let outcome = oltp::run_on(&options, &profile::table, &Control::default()).unwrap();
    let (results, text) = crate::common::written(dir.path(), 200, outcome);
    let of = |variant: &str, name: &str| metric(&results, variant, &serde_json::json!({}), name);
    // Eight threads with statements of 200 us, 18 of them in a transaction, are 2,222 a second.
    assert!((1_800.0..2_223.0).contains(&of("nvme", "tps")), "{text}");
    assert!(of("nvme", "tps") > 3.0 * of("hdd", "tps"), "{text}");
    assert!(of("hdd", "read_wait_ms") > of("hdd", "processor_ms"), "{text}");
    // A database on a disk hardly feels the doublewrite buffer, though each page is written twice.
    let twice = |drive: &str, name: &str| of(&format!("{drive}-doublewrite"), name) / of(drive, name);
    assert!((0.8..1.02).contains(&twice("hdd", "tps")), "{}: {text}", twice("hdd", "tps"));
    let written = twice("nvme", "page_writes_per_second");
    assert!((0.8..1.25).contains(&written), "pages, each counted once: {written}: {text}");
    // The log is written and pages are, but no cache was asked to promote much in so short a time.
    assert!(of("nvme", "page_writes_per_second") > 100.0, "{text}");
    assert!(of("cache-writeback", "hit_percent") < 50.0, "{text}");
    // What a cache has seen before decides what it gives.
    assert!(of("cache-second", "read_hit_percent") > of("cache-writeback", "read_hit_percent"), "{text}");
    assert!(of("cache-full", "read_hit_percent") > 99.9, "{text}");
    assert!(of("cache-full", "tps") > 0.8 * of("nvme", "tps"), "{text}");
    let fast = metric(&results, "nvme", &serde_json::json!({"statement_us": 50}), "tps");
    assert!((3.0..4.1).contains(&(fast / of("nvme", "tps"))), "{text}");
    let runs = results["variants"][0]["runs"][0]["per_second"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    let sum: u64 = runs.iter().map(|second| second.as_u64().unwrap()).sum();
    assert!((of("hdd", "tps") * 4.0 - sum as f64).abs() < 1.0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let with = |options: cache::Options| {
        let options = cache::Options { out: ResultsDirectory::at(dir.path()), ..options };
        format!("{:#}", cache::run_on(&options, &profile::table, &Control::default()).unwrap_err())
    };
    let error = with(cache::Options { file: 1 << 20, ..Default::default() });
    assert!(error.contains("--file-size is 1048576 bytes"), "{error}");
    let error = with(cache::Options { parts: vec![cache::Part::Modes; 2], ..Default::default() });
    assert!(error.contains("names one twice"), "{error}");
    let small =
        cache::Options { nvme: "bench-16g".into(), parts: vec![cache::Part::Warming], ..Default::default() };
    let error = with(small);
    assert!(error.contains("use a larger drive"), "{error}");
    let options = filesystem::Options {
        disk: "default".into(),
        out: ResultsDirectory::at(dir.path()),
        ..Default::default()
    };
    let error =
        format!("{:#}", filesystem::run_on(&options, &profile::table, &Control::default()).unwrap_err());
    assert!(error.contains("less than 16 files"), "{error}");
    let options = oltp::Options { rows: 10, out: ResultsDirectory::at(dir.path()), ..Default::default() };
    let error = format!("{:#}", oltp::run_on(&options, &profile::table, &Control::default()).unwrap_err());
    assert!(error.contains("--rows is 10"), "{error}");
    // Times of the host that are zero are none.
    assert_eq!(HostPath { submission: 0, ..HostPath::PUBLISHED }.host().submission, 0);
}
