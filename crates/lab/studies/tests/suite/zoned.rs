//! Slices of the study of zones: the published chips with a small fraction of their capacity.

use std::path::Path;

use lab_report::control::Control;
use lab_report::options::ResultsDirectory;
use lab_report::profile;
use lab_studies::zoned::{Options, Part, live, run, run_on};
use serde_json::Value;

fn study(directory: &Path, options: Options) -> (Value, String) {
    let options = Options { quick: true, out: ResultsDirectory::at(directory), ..options };
    let drive = |name: &str| profile::table(name);
    crate::common::written(directory, 200, run_on(&options, &drive, &Control::default()).unwrap())
}

/// Metric of a variant's first run.
fn metric(results: &Value, variant: &str, name: &str) -> f64 {
    let variants = results["variants"].as_array().unwrap();
    let of = variants.iter().find(|of| of["name"] == variant).unwrap_or_else(|| panic!("{variant}"));
    of["runs"][0]["metrics"][name].as_f64().unwrap_or_else(|| panic!("{variant}: {name}"))
}

#[test]
fn a_conventional_namespace_moves_data_and_zones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { parts: vec![Part::Writes, Part::Reads], scale: 512, ..Options::default() };
    let (results, text) = study(dir.path(), options);
    let wa = |variant| metric(&results, variant, "write_amplification");
    assert!((2.7..3.7).contains(&wa("cns-7")) && (1.5..1.9).contains(&wa("cns-28")), "{text}");
    assert!((0.9..1.01).contains(&wa("zns")), "{text}");
    let rows = results["comparisons"].as_array().unwrap();
    let published = |metric: &str| {
        let row =
            rows.iter().find(|row| row["metric"] == metric && row["of"] == "zns" && row["over"] == "cns-7");
        row.unwrap()["published"]["value"].clone()
    };
    assert!((published("steady_write_MiBps").as_f64().unwrap() - 2.73).abs() < 0.01);
}

#[test]
fn the_same_seed_gives_the_same_database() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = Options { parts: vec![Part::Dies], scale: 1024, seed: 5, ..Options::default() };
    let (results, text) = study(first.path(), options.clone());
    let (again, _) = study(second.path(), options);
    assert_eq!(results, again);
    for variant in ["zones-16-dies", "zones-8-dies"] {
        assert!(metric(&results, variant, "engine_write_amplification") > 2.0, "{text}");
        assert!((0.9..1.01).contains(&metric(&results, variant, "drive_write_amplification")), "{text}");
        assert!(metric(&results, variant, "ops_per_second") > 1000.0, "{text}");
    }
}

#[test]
fn f2fs_moves_data_on_zones_only() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { parts: vec![Part::F2fs], scale: 1024, ..Options::default() };
    let (results, text) = study(dir.path(), options);
    let moved = |variant| metric(&results, variant, "file_system_write_amplification");
    assert_eq!((moved("f2fs-7"), moved("f2fs-28")), (1.0, 1.0), "{text}");
    assert!(moved("f2fs-zns") > 1.0, "{text}");
    let drive = |variant| metric(&results, variant, "drive_write_amplification");
    assert!((0.9..1.01).contains(&drive("f2fs-zns")) && drive("f2fs-7") > 1.0, "{text}");
    let rows = results["comparisons"].as_array().unwrap();
    let published = |of: &str, over: &str| {
        let row = rows.iter().find(|row| {
            row["metric"] == "ops_per_second"
                && row["of"] == of
                && row["over"] == over
                && row["at"] == serde_json::json!({})
        });
        row.unwrap()["published"]["value"].as_f64()
    };
    assert_eq!(published("f2fs-zns", "f2fs-28"), Some(1.33));
    assert_eq!(published("f2fs-28", "f2fs-7"), Some(1.25));
    assert!(text.contains("f2fs-zns / f2fs-28"), "{text}");
}

#[test]
fn only_a_log_without_flush_and_without_protection_loses_records() {
    let dir = tempfile::tempdir().unwrap();
    let (results, text) = study(dir.path(), Options { parts: vec![Part::Durability], ..Options::default() });
    let lost = |variant| metric(&results, variant, "lost_records");
    assert!(lost("no-flush") > 0.0, "{text}");
    for variant in ["flush", "no-flush-protected", "flush-protected"] {
        assert_eq!(lost(variant), 0.0, "{variant}: {text}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let real = live::Live { rows: 1, ..live::Live::default() };
    let out = ResultsDirectory::at("/nonexistent/zoned");
    let error =
        run(&Options { live: true, real, out, ..Options::default() }, &Control::default()).unwrap_err();
    assert!(error.to_string().contains("--rows is 1"), "{error}");
    let none = run(&Options { drive: Some("tlc-3.84t".into()), ..Options::default() }, &Control::default());
    assert!(none.unwrap_err().to_string().contains("has no table zone"));
    let missing = Some("/nonexistent/db_bench".into());
    let dir = tempfile::tempdir().unwrap();
    let options = Options { db_bench: missing, out: ResultsDirectory::at(dir.path()), ..Options::default() };
    assert!(run(&options, &Control::default()).unwrap_err().to_string().contains("starting /nonexistent"));
}
