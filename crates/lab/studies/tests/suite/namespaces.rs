//! Slices of the study of namespaces: on a small drive, and as short as it goes.

use std::path::Path;

use lab_report::control::Control;
use lab_report::options::ResultsDirectory;
use lab_studies::namespaces::{HostTimes, Options, run_on};
use serde_json::Value;

/// A drive in which one thread per device is not what limits.
fn drive() -> toml::Table {
    toml::from_str(&crate::common::drive("400MB/s")).unwrap()
}

fn study(directory: &Path, options: Options) -> (Value, String) {
    let options = Options { quick: true, out: ResultsDirectory::at(directory), ..options };
    crate::common::written(directory, 100, run_on(&options, &|_| Ok(drive()), &Control::default()).unwrap())
}

fn variant<'a>(results: &'a Value, name: &str) -> &'a Value {
    let variants = results["variants"].as_array().unwrap();
    variants.iter().find(|variant| variant["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn in_virtual_time_the_host_takes_part_of_what_passes() {
    let dir = tempfile::tempdir().unwrap();
    let multiple = |host_time| {
        let options = Options { counts: vec![1], host_time, ..Options::default() };
        let (results, text) = study(dir.path(), options);
        assert_eq!(
            (results["engine"].as_str(), results["drive"]["profile"].as_str()),
            (Some("sim"), Some("micron-9300-max-short"))
        );
        assert!(text.contains("What gives way first"), "{text}");
        variant(&results, "1")["runs"][0]["metrics"]["act_multiple"].as_f64().unwrap()
    };
    let (none, linux) = (multiple(HostTimes::None), multiple(HostTimes::Linux));
    assert!(linux >= 1.0 && linux <= none, "{linux}x of {none}x");
}

#[test]
fn namespaces_that_are_not_used_hold_still() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { of: Some(2), host_time: HostTimes::None, ..Options::default() };
    let (results, text) = study(dir.path(), options);
    // Of the usual numbers those that there are.
    assert_eq!(results["variants"].as_array().unwrap().len(), 2, "{text}");
    for name in ["1", "2"] {
        let variant = variant(&results, name);
        assert_eq!(variant["description"], format!("{name} of 2 equal namespaces of 512-byte blocks."));
        assert!(variant["runs"][0]["metrics"]["act_multiple"].as_f64().unwrap() >= 1.0, "{text}");
    }
    assert!(text.contains("cut into 2 namespaces") && text.contains("leave the others alone"), "{text}");
}

#[test]
fn live_it_does_the_tests_in_both() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { live: true, counts: vec![2], slow_motion: 2, ..Options::default() };
    let (results, text) = study(dir.path(), options);
    assert_eq!(results["engine"], "live");
    for name in ["2", "2@live", "2@sim"] {
        assert!(variant(&results, name).is_object(), "{name}\n{text}");
    }
    let runs = |name: &str| variant(&results, name)["runs"].as_array().unwrap().clone();
    let (live, sim) = (runs("2@live"), runs("2@sim"));
    assert!(live.len() >= 2 && live.len() == sim.len(), "{text}");
    for (live, sim) in live.iter().zip(&sim) {
        assert_eq!(live["at"], sim["at"]);
        let metric = |run: &Value, name: &str| run["metrics"][name].as_f64().unwrap();
        // However slow this machine is: requests that are due are made, and the drive takes its time.
        assert!(metric(live, "small_read_p50_ms") >= 0.9 * metric(sim, "small_read_p50_ms"), "{text}");
        assert!(metric(live, "reads_per_second") > 0.0 && metric(live, "large_block_MBps") > 0.0, "{text}");
    }
    assert!(
        text.contains("live over virtual time") && text.contains("of the drive's time too late"),
        "{text}"
    );
}

/// A drive that takes a quarter of a large block in one command.
#[test]
fn live_large_blocks_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = drive();
    small["drive"]["max_transfer"] = toml::Value::from("32KiB");
    let options = Options {
        quick: true,
        live: true,
        counts: vec![1],
        slow_motion: 2,
        out: ResultsDirectory::at(dir.path()),
        ..Options::default()
    };
    let outcome = run_on(&options, &|_| Ok(small.clone()), &Control::default()).unwrap();
    let (results, text) = crate::common::written(dir.path(), 100, outcome);
    let runs = variant(&results, "1@live")["runs"].as_array().unwrap().clone();
    assert!(!runs.is_empty(), "{text}");
    assert!(runs.iter().all(|run| run["metrics"]["large_block_MBps"].as_f64().unwrap() > 0.0), "{text}");
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |of, counts: &[u32]| {
        let options = Options { of, counts: counts.to_vec(), ..Options::default() };
        run_on(&options, &|_| Ok(drive()), &Control::default()).unwrap_err().to_string()
    };
    assert!(refused(None, &[33]).contains("33 namespaces cannot be"));
    assert!(refused(Some(4), &[8]).contains("8 namespaces cannot be: from 1 to 4"));
    assert!(refused(None, &[2, 2]).contains("names a number twice"));
}
