//! What the slices of simulated studies have in common.

use std::path::Path;

use lab::{Outcome, results::Results};
use serde_json::Value;

/// A drive of 256 MiB with the chips of the scaled profile, behind a link of so many bytes per second in each direction.
pub fn drive(link: &str) -> String {
    format!(
        r#"
[drive]
timing = true
max_transfer = "128KiB"
write_buffer = "4MiB"

[link]
read = "{link}"
write = "{link}"
command_overhead = "5us"

[[set]]
media = "nand"
cell = "tlc"
capacity = "256MiB"
spare = "40%"
channels = 4
dies = 8
planes = 2
nand_page = "16KiB"
pages_per_block = 24
rated_cycles = 3000
timing = {{ read = "75us", program = "2.2ms", erase = "10ms", channel = "533MB/s", suspend = "10us", resume = "10us", max_suspends = 8 }}

[[namespace]]
size = "256MiB"
"#
    )
}

/// A study has succeeded, and its files are in this directory, each larger than `least` bytes: its results, and what it told.
pub fn written(directory: &Path, least: u64, outcome: Outcome<Results>) -> (Value, String) {
    assert_eq!(outcome.failure, None);
    for file in ["results.csv", "report.html"] {
        assert!(directory.join(file).metadata().unwrap().len() > least, "{file}");
    }
    let json = std::fs::read_to_string(directory.join("results.json")).unwrap();
    (serde_json::from_str(&json).unwrap(), outcome.text)
}
