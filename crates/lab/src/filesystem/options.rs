//! Options of the study.

use std::path::PathBuf;

use crate::{machine::HostPath, results::Overwrite};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The NVMe drive: a profile or a TOML file
    pub nvme: String,
    /// The SAS SSD, likewise
    pub sas: String,
    /// The hard disk, likewise
    pub disk: String,
    /// Whole SSDs instead of shortened ones: as much memory and time as their size takes
    pub full: bool,
    /// What the host takes for a request
    pub path: HostPath,
    /// Repetitions, with other random numbers
    pub repeat: u32,
    /// Short and rough: to see that it works, not for figures
    pub quick: bool,
    /// Directory for report.html, results.json and results.csv
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Seed of everything random
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nvme: "xs1715-400g".into(),
            sas: "px02sm-400g".into(),
            disk: "savvio-15k3-300g".into(),
            full: false,
            path: HostPath::PUBLISHED,
            repeat: 1,
            quick: false,
            out: "out/filesystem".into(),
            overwrite: Overwrite::default(),
            seed: 1,
        }
    }
}
