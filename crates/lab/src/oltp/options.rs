//! Options of the study.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::published;
use crate::{
    machine::{Controller, HostPath},
    results::Overwrite,
};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The hard disk: a profile or a TOML file
    pub disk: String,
    /// The NVMe drive, likewise
    pub nvme: String,
    /// The storage controller of the disk
    pub controller: Controller,
    /// What the host takes for a request
    pub path: HostPath,
    /// Nanoseconds of a processor for a statement, with its client
    pub statement_ns: u64,
    /// Measured seconds
    pub seconds: u64,
    /// Rows of the table
    pub rows: u64,
    /// Bytes of the buffer pool
    pub pool: u64,
    /// Threads of sysbench
    pub threads: u32,
    /// Repetitions, with other random numbers
    pub repeat: u32,
    /// Directory for report.html, results.json and results.csv
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Seed of everything random
    pub seed: u64,
}

/// Nanoseconds of a processor for a statement: an assumption, swept by the study. 24 processors do 6,667 transactions of 18 statements a second
/// where nothing else limits them.
pub const DEFAULT_STATEMENT_NS: u64 = 200_000;

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: "savvio-15k3-300g".into(),
            nvme: "xs1715-400g".into(),
            controller: Controller::H330,
            path: HostPath::PUBLISHED,
            statement_ns: DEFAULT_STATEMENT_NS,
            seconds: published::SECONDS,
            rows: published::ROWS,
            pool: published::POOL,
            threads: published::THREADS,
            repeat: 1,
            out: "out/oltp".into(),
            overwrite: Overwrite::default(),
            seed: 1,
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        if !(10_000..=1_000_000_000).contains(&self.rows) {
            bail!("--rows is {}: from 10,000 to 1,000,000,000 are possible", self.rows);
        }
        if !(64 << 20..=64 << 30).contains(&self.pool) {
            bail!("--pool is {} bytes: from 64MiB to 64GiB are possible", self.pool);
        }
        Ok(())
    }
}
