//! Slices of the study of quotas: on a small drive, and as short as it goes.

mod common;

use std::path::Path;

use clap::Parser;
use lab::control::Control;
use lab::quota::{Options, run_on, sweep_on};
use serde_json::Value;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// The small drive.
fn drive() -> toml::Table {
    toml::from_str(&common::drive("3.3GB/s")).unwrap()
}

fn study(directory: &Path, arguments: &[&str]) -> (Value, String) {
    let out = directory.to_str().unwrap();
    let line =
        ["quota", "--quick", "--repeat", "1", "--out", out].into_iter().chain(arguments.iter().copied());
    let options = Line::try_parse_from(line).unwrap().options;
    common::written(directory, 500, run_on(&options, &|_| Ok(drive()), &Control::default()).unwrap())
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
    let (results, text) = study(first.path(), &["--sim", "--seed", "7"]);
    let (again, _) = study(second.path(), &["--sim", "--seed", "7"]);
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
    let (results, text) = study(out.path(), &["--live", "--variants", "none,quota", "--slow-motion", "2"]);
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
    let line = Line::try_parse_from(["quota", "--sim", "--variants", "none,none"]).unwrap();
    let error = run_on(&line.options, &|_| Ok(toml::Table::new()), &Control::default()).unwrap_err();
    assert!(error.to_string().contains("names one twice"), "{error}");
    let line = Line::try_parse_from(["quota", "--sim", "--out", "/nonexistent/quota"]).unwrap();
    let error =
        run_on(&line.options, &|_| Ok(toml::from_str("[[set]]\nmedia = \"tape\"")?), &Control::default())
            .unwrap_err();
    assert!(format!("{error:#}").contains("tape"), "{error:#}");
    assert!(Line::try_parse_from(["quota", "--sim", "--live"]).is_err());
    assert!(Line::try_parse_from(["quota", "--variants", "prayer"]).is_err());
}

#[test]
fn a_sweep_repeats_the_study() {
    let out = tempfile::tempdir().unwrap();
    let sweep = |arguments: &[&str]| {
        let out = out.path().to_str().unwrap();
        let line = ["quota", "--quick", "--repeat", "1", "--variants", "none,quota", "--out", out];
        let options = Line::try_parse_from(line.iter().chain(arguments)).unwrap().options;
        sweep_on(&options, &|_| Ok(drive()), &Control::default())
    };
    let outcome = sweep(&["--sim", "--set", "timing.read=75us,150us", "--set", "seed=1,2"]).unwrap();
    assert_eq!(outcome.failure, None);
    let runs = outcome.results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[2]["parameters"], serde_json::json!({ "timing.read": "150us", "seed": "1" }));
    // Each is the study as it is without a sweep.
    let alone = tempfile::tempdir().unwrap();
    let (same, _) = study(alone.path(), &["--sim", "--variants", "none,quota", "--seed", "2"]);
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

    for (arguments, problem) in [
        (&["--set", "gc.policy=greedy"][..], "add --sim"),
        (
            &["--sim", "--set", "job.bs=4k"],
            "there is no key \"job.bs\": the load is the study's; there are seed",
        ),
        (&["--sim", "--set", "namespace.1.size=1MiB"], "changes nothing: the study quota sets it itself"),
        (&["--sim", "--set", "drive.fair_sharing=false"], "changes nothing"),
        (&["--sim", "--set", "set.1.media=tape"], "tape"),
        (&["--sim", "--set", "seed=x"], "is no seed"),
    ] {
        let error = format!("{:#}", sweep(arguments).unwrap_err());
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
}
