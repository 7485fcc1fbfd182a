//! The study on a drive that is made in a moment.

use std::path::Path;

use toml::Table;

use super::*;
use crate::doublewrite::Options;
use lab_models::innodb::{DEFAULT_PROFILE, WINDOWS, fitted};
use lab_report::options::ResultsDirectory;

fn settings(options: Options) -> Result<Settings> {
    Settings::new(&Options { sim: true, ..options })
}

/// Small, and short.
fn short(out: &Path) -> Options {
    Options { drive: Some("small".into()), out: ResultsDirectory::at(out), ..Options::default() }
}

fn profile() -> Table {
    let text = r#"
        [drive]
        max_transfer = "128KiB"
        [[set]]
        media = "nand"
        cell = "tlc"
        capacity = "1GiB"
        spare = "28%"
        channels = 4
        dies = 16
        planes = 2
        nand_page = "16KiB"
        pages_per_block = 24
        rated_cycles = 3000
        timing = { read = ["58us", "75us", "92us"], program = "2.2ms", erase = "10ms", channel = "533MB/s" }
        [[namespace]]
        set = 1
        size = "1GiB"
    "#;
    toml::from_str(text).unwrap()
}

#[test]
fn both_tables_are_printed_beside_the_published_ones() {
    let out = std::env::temp_dir().join(format!("tranche-doublewrite-sim-{}", std::process::id()));
    let run = || {
        let settings = settings(Options {
            connections: vec![4, 64],
            warehouses: Some(200),
            buffer_pool: Some(64 << 20),
            seconds: Some(3),
            warmup: Some(1),
            ..short(&out)
        })
        .unwrap();
        run_on(&settings, &|_| Ok(profile()), &Control::default()).unwrap()
    };
    let first = run();
    let runs = |name: &str| first.results.variant(name).unwrap().runs.clone();
    for name in ["nand", "dram", "off"] {
        for run in runs(name) {
            assert!(run.metrics["tpmC"] > 100.0, "{name}: {:?}", run.metrics);
            assert!(run.metrics.contains_key("drift_tpmC_percent"), "{:?}", run.metrics);
            let windows = (run.per_second.len() - 1) / 3;
            assert_eq!(
                (run.per_second.len(), run.warmup_seconds),
                (1 + windows * 3, (windows * 3 - 2) as f64)
            );
            // It was measured again if it had not settled, but not for ever.
            assert!(
                run.metrics["settled"] == 1.0 || windows as u64 == WINDOWS,
                "{windows}: {:?}",
                run.metrics
            );
            let (data, copies) = (&run.namespaces[0], run.namespaces.get(1));
            assert!(data.counted.reads > 0 && data.counted.writes > 0);
            assert_eq!(copies.is_some(), name == "dram");
            assert!(
                copies.is_none_or(|n| n.counted.reads == 0 && n.counted.writes > 0 && n.medium == "dram")
            );
        }
    }
    // Half of what InnoDB writes are copies, but for the logs.
    let per_order = |name: &str, metric: &str| runs(name)[1].metrics[metric];
    let ratio = per_order("dram", "host_bytes_per_new_order") / per_order("nand", "host_bytes_per_new_order");
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
    let fewer = per_order("dram", "nand_bytes_per_new_order") / per_order("nand", "nand_bytes_per_new_order");
    assert!(fewer < 0.95, "{fewer}");
    for heading in ["connections  ", "31,138", "42,189", "0.375", "2.48", "1.33", "ettled: "] {
        assert!(first.text.contains(heading), "{heading:?} is not in {}", first.text);
    }
    // This drive is no one's but the user's.
    assert!(
        !first.text.contains("Fitted to") && first.text.contains("with its own figures"),
        "{}",
        first.text
    );
    let published = Settings { drive: DEFAULT_PROFILE.into(), ..settings(Options::default()).unwrap() };
    assert!(report::notes(&first.results, &published).iter().any(|note| note.starts_with("Fitted to")));
    // What dram had to do with the values is said where they were fitted, and only there.
    let roles = |settings: &Settings| {
        report::notes(&first.results, settings)
            .iter()
            .any(|note| note.contains("31.3") && note.contains("blind"))
    };
    assert!(
        roles(&published)
            && !roles(&settings(Options { drive: Some("tiny".into()), ..Options::default() }).unwrap())
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Traffic beside the published"));
    // The same seed: the same figures.
    let again = run();
    let metrics = |results: &Results| -> Vec<_> {
        results.variants.iter().flat_map(|v| v.runs.iter().map(|r| r.metrics.clone())).collect()
    };
    assert_eq!(metrics(&first.results), metrics(&again.results));
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn the_published_drive_gets_the_fitted_figures_and_others_do_not() {
    let mut full = profile();
    let nand = |table: &Table| table["set"][0].clone();
    let fitted = drive::toml(&full, Variant::Dram, DEFAULT_PROFILE).unwrap();
    assert_eq!(nand(&fitted)["timing"]["program"].as_str(), Some(&*format!("{}us", fitted::PROGRAM_US)));
    assert_eq!(fitted["drive"]["write_buffer"].as_str(), Some(fitted::WRITE_BUFFER));
    assert_eq!(
        (fitted["set"][1]["media"].as_str(), fitted["namespace"][1]["set"].as_integer()),
        (Some("dram"), Some(2))
    );
    let own = drive::toml(&full, Variant::Nand, "own.toml").unwrap();
    assert_eq!(own["drive"].get("write_buffer"), None);
    assert_eq!((&nand(&own), own["namespace"].as_array().unwrap().len()), (&nand(&full), 1));
    let atomic = drive::toml(&full, Variant::Atomic, "own.toml").unwrap();
    assert_eq!(atomic["drive"]["atomic_write"].as_str(), Some("16KiB"));
    full["set"][0]["media"] = "dram".into();
    let refused = drive::toml(&full, Variant::Nand, "own.toml").unwrap_err().to_string();
    assert!(refused.contains("no NAND"), "{refused}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let usual = Options::default;
    assert!(settings(Options { connections: vec![0], ..usual() }).is_err());
    assert!(settings(Options { variants: vec![Variant::Nand; 2], ..usual() }).is_err());
    assert!(settings(Options { seconds: Some(0), ..usual() }).is_err());
    let tiny = Options { drive: Some("tiny".into()), connections: vec![4], ..usual() };
    let tiny = settings(tiny).unwrap();
    let mut small = profile();
    small["set"][0]["capacity"] = "128MiB".into();
    small["set"][0]["spare"] = "100%".into();
    small["namespace"][0]["size"] = "128MiB".into();
    let refused = run_on(&tiny, &|_| Ok(small.clone()), &Control::default()).unwrap_err();
    assert!(format!("{refused:#}").contains("no room"), "{refused:#}");
}

#[test]
fn every_variant_runs_and_one_without_copies_writes_half() {
    let out = tempfile::tempdir().unwrap();
    let settings = settings(Options {
        variants: vec![Variant::Nand, Variant::Pmem, Variant::Atomic],
        connections: vec![8],
        warehouses: Some(100),
        buffer_pool: Some(32 << 20),
        seconds: Some(2),
        warmup: Some(0),
        ..short(out.path())
    })
    .unwrap();
    let results = run_on(&settings, &|_| Ok(profile()), &Control::default()).unwrap().results;
    let run = |name: &str| results.variant(name).unwrap().runs[0].clone();
    let pmem = run("pmem");
    assert_eq!((pmem.namespaces.len(), &*pmem.namespaces[1].medium), (2, "pmem"));
    assert!(pmem.namespaces[1].counted.writes > 0);
    let bytes = |name: &str| run(name).metrics["host_bytes_per_new_order"];
    let share = bytes("atomic") / bytes("nand");
    assert!((0.4..0.75).contains(&share), "{share}");
}

/// What a live study writes, of it what is read.
const LIVE_RESULTS: &str = r#"{"study": "doublewrite", "engine": "live", "variants": [
    {"name": "nand", "runs": [
        {"at": {"threads": 4}, "metrics": {"tpmC": 3000, "nand_bytes_per_new_order": 1000000}},
        {"at": {"threads": 4}, "metrics": {"tpmC": 3400, "nand_bytes_per_new_order": 900000}}]},
    {"name": "dram", "runs": [{"at": {"threads": 4}, "metrics": {"tpmC": 4800}}]}]}"#;

#[test]
fn the_model_with_the_live_parameters_is_held_against_live() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("live.json");
    let like = |text: &str, more: Options| {
        std::fs::write(&file, text).unwrap();
        settings(Options { like_live: Some(file.clone()), seconds: Some(3), ..more })
    };
    let small =
        Options { warmup: Some(1), warehouses: Some(2), buffer_pool: Some(16 << 20), ..short(out.path()) };
    let settings = like(LIVE_RESULTS, small).unwrap();
    assert_eq!(
        (&settings.connections[..], &settings.variants[..]),
        (&[4][..], &[Variant::Nand, Variant::Dram][..])
    );
    let outcome = run_on(&settings, &|_| Ok(profile()), &Control::default()).unwrap();
    assert!(outcome.results.variant("dram").unwrap().runs[0].metrics["tpmC"] > 100.0);
    // Medians of live, and the ratio.
    for text in ["3,200", "4,800", "+50.0%", "dram over nand", "928"] {
        assert!(outcome.text.contains(text), "{text:?} is not in {}", outcome.text);
    }
    assert!(!outcome.text.contains("31,138"), "what is published is of another server");
    for (text, problem) in [
        (LIVE_RESULTS.replace("live", "sim"), "--live is wanted"),
        (LIVE_RESULTS.replace("nand", "x").replace("dram", "y"), "no runs"),
        ("{}".into(), "no results.json"),
    ] {
        let refused = format!("{:#}", like(&text, short(out.path())).err().unwrap());
        assert!(refused.contains(problem), "{refused}");
    }
}
