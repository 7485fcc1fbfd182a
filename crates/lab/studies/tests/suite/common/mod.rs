//! What the slices of simulated studies have in common.

use std::path::Path;

use lab_report::{Findings, results::Results};
use serde_json::Value;

/// A drive of 256 MiB with the chips of the scaled profile, behind a link of so many bytes per second in each direction.
pub fn drive(link: &str) -> String {
    testkit::drives::SMALL_DRIVE.replace("\"3.3GB/s\"", &format!("{link:?}"))
}

/// A study has succeeded, and its files are in this directory, each larger than `least` bytes: its results, and what it told.
pub fn written(directory: &Path, least: u64, outcome: Findings<Results>) -> (Value, String) {
    assert_eq!(outcome.failure, None);
    for file in ["results.csv", "report.html"] {
        assert!(directory.join(file).metadata().unwrap().len() > least, "{file}");
    }
    let json = std::fs::read_to_string(directory.join("results.json")).unwrap();
    (serde_json::from_str(&json).unwrap(), outcome.text)
}
