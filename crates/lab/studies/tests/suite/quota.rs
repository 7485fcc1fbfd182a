//! Slices of the study of quotas: on a small drive, and as short as it goes.

use std::path::Path;

use lab_engines::sweep::SetOptions;
use lab_report::control::Control;
use lab_report::options::ResultsDirectory;
use lab_studies::quota::{Options, Variant, run_on, sweep_on};
use serde_json::Value;

/// The small drive.
fn drive() -> toml::Table {
    toml::from_str(&crate::common::drive("3.3GB/s")).unwrap()
}

/// As short as it goes.
fn quick(directory: &Path) -> Options {
    Options { quick: true, repeat: 1, out: ResultsDirectory::at(directory), ..Options::default() }
}

const VARIANTS: [Variant; 2] = [Variant::None, Variant::Quota];

fn study(directory: &Path, options: Options) -> (Value, String) {
    crate::common::written(directory, 500, run_on(&options, &|_| Ok(drive()), &Control::default()).unwrap())
}

/// The comparison of a metric of one variant with another.
fn ratio(results: &Value, metric: &str, of: &str, over: &str) -> Vec<f64> {
    let rows = results["comparisons"].as_array().unwrap().iter();
    rows.filter(|row| row["metric"] == metric && row["of"] == of && row["over"] == over)
        .map(|row| row["ratio"].as_f64().unwrap())
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_results() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (results, text) = study(first.path(), Options { sim: true, seed: 7, ..quick(first.path()) });
    let (again, _) = study(second.path(), Options { sim: true, seed: 7, ..quick(second.path()) });
    assert_eq!(results, again);
    assert_eq!((results["study"].as_str(), results["engine"].as_str()), (Some("quota"), Some("sim")));
    // Together the quotas are more than this drive reads; the small ones are kept whatever the others get.
    for ns in 5..=8 {
        let ratio = ratio(&results, "read_MBps", &format!("ns{ns}"), "set")[0];
        assert!((0.95..1.05).contains(&ratio), "ns{ns}: {ratio}");
    }
    let rows = results["comparisons"].as_array().unwrap();
    let published = rows.iter().find(|row| row["of"] == "ns1" && row["over"] == "set").unwrap();
    assert_eq!(published["published"]["value"], 391.0);
    // Sets of their own help NS1 as soon as the neighbour does something; half as many dies are its own then.
    let busy = |row: &&Value| row["at"].as_object().is_some_and(|at| at.values().all(|depth| *depth != 0));
    let helped: Vec<f64> = rows
        .iter()
        .filter(|row| row["metric"] == "ns1_p99_ms" && row["of"] == "sets" && row["over"] == "none")
        .filter(busy)
        .filter_map(|row| row["ratio"].as_f64())
        .collect();
    assert!(helped.len() == 3 && helped.iter().all(|ratio| *ratio < 1.0), "{helped:?}");
    assert!(!ratio(&results, "ns1_p99_ms", "quota", "none").is_empty());
    // Nobody writes beside an idle neighbour: reads are in a deterministic window but for the pauses between two.
    let variants = results["variants"].as_array().unwrap();
    let windows = variants.iter().find(|variant| variant["name"] == "windows").unwrap();
    let idle = &windows["runs"][0]["metrics"];
    assert!(idle["ns1_dtwin_share"].as_f64().unwrap() > 0.5, "{idle}");
    assert!(idle["ns1_dtwin_p99_ms"].as_f64().unwrap() > 0.0, "{idle}");
    assert!(text.contains("128 KiB random writes, QD 16") && text.contains("report.html"), "{text}");
}

#[test]
fn live_beside_virtual_time() {
    let out = tempfile::tempdir().unwrap();
    let options = Options { live: true, variants: VARIANTS.to_vec(), slow_motion: 2, ..quick(out.path()) };
    let (results, text) = study(out.path(), options);
    assert_eq!(results["engine"], "live");
    for ns in 1..=8 {
        let name = format!("ns{ns}");
        let ratio = ratio(&results, "read_MBps", &name, "set")[0];
        // However slow the machine is: never more than the quota.
        assert!(ratio > 0.0 && ratio < 1.1, "{name}: {ratio}");
    }
    assert!(!ratio(&results, "ns1_p50_ms", "none", "none@sim").is_empty());
    assert!(text.contains("live over virtual time"), "{text}");
    // What they say depends on the machine; that each says something does not.
    assert!(text.contains("Of 8 points of part 2, "), "{text}");
}

#[test]
fn options_that_make_no_sense_are_told() {
    let twice = Options { sim: true, variants: vec![Variant::None; 2], ..Options::default() };
    let error = run_on(&twice, &|_| Ok(toml::Table::new()), &Control::default()).unwrap_err();
    assert!(error.to_string().contains("names one twice"), "{error}");
    let nowhere =
        Options { sim: true, out: ResultsDirectory::at("/nonexistent/quota"), ..Options::default() };
    let error = run_on(&nowhere, &|_| Ok(toml::from_str("[[set]]\nmedia = \"tape\"")?), &Control::default())
        .unwrap_err();
    assert!(format!("{error:#}").contains("tape"), "{error:#}");
}

#[test]
fn a_sweep_repeats_the_study() {
    let out = tempfile::tempdir().unwrap();
    let sweep = |sim: bool, set: &[&str]| {
        let sweep = SetOptions { set: set.iter().map(|set| (*set).to_owned()).collect() };
        let options = Options { sim, variants: VARIANTS.to_vec(), sweep, ..quick(out.path()) };
        sweep_on(&options, &|_| Ok(drive()), &Control::default())
    };
    let outcome = sweep(true, &["timing.read=75us,150us", "seed=1,2"]).unwrap();
    assert_eq!(outcome.failure, None);
    let runs = outcome.results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[2]["parameters"], serde_json::json!({ "timing.read": "150us", "seed": "1" }));
    // Each is the study as it is without a sweep.
    let alone = tempfile::tempdir().unwrap();
    let options = Options { sim: true, variants: VARIANTS.to_vec(), seed: 2, ..quick(alone.path()) };
    let (same, _) = study(alone.path(), options);
    let repeated = std::fs::read_to_string(out.path().join("2/results.json")).unwrap();
    assert!(serde_json::from_str::<Value>(&repeated).unwrap() == same);
    let p50 = |run: usize| {
        let variants = runs[run]["results"]["variants"].as_array().unwrap();
        let none = variants.iter().find(|variant| variant["name"] == "none").unwrap();
        none["runs"][0]["metrics"]["ns1_p50_ms"].as_f64().unwrap()
    };
    assert!(p50(2) > p50(0) + 0.06, "{} {}", p50(2), p50(0));
    for number in 1..=4 {
        assert!(out.path().join(format!("{number}/report.html")).exists());
    }
    let csv = std::fs::read_to_string(out.path().join("results.csv")).unwrap();
    let head = csv.lines().next().unwrap();
    assert!(
        head.starts_with("timing.read,study,seed,variant,over,repetition,metric,value,low,high"),
        "{head}"
    );
    assert!(head.contains(",at_ns2_read_4k_qd,") && head.ends_with(",problem"), "{head}");
    assert!(csv.lines().any(|line| line.starts_with("150,3,1,quota,none,,ns1_p50_ms,")), "{csv}");
    assert!(std::fs::metadata(out.path().join("results.parquet")).unwrap().len() > 1000);
    assert!(outcome.text.contains("4 of 4 studies"), "{}", outcome.text);

    for (sim, set, problem) in [
        (false, "gc.policy=greedy", "add --sim"),
        (true, "job.bs=4k", "there is no key \"job.bs\": the load is the study's; there are seed"),
        (true, "namespace.1.size=1MiB", "changes nothing: the study quota sets it itself"),
        (true, "drive.fair_sharing=false", "changes nothing"),
        (true, "set.1.media=tape", "tape"),
        (true, "seed=x", "is no seed: a whole number from 0 to 18446744073709551615"),
    ] {
        let error = format!("{:#}", sweep(sim, &[set]).unwrap_err());
        assert!(error.contains(problem), "{set}: {error}");
    }
}
