//! Options of the study.

use std::path::PathBuf;

use anyhow::Result;

use super::published;
use lab_engines::machine::{Controller, HostPath};
use lab_report::results::Overwrite;

/// Options of the live study.
#[derive(Clone, Debug)]
pub struct Live {
    /// Drives, rows, the buffer pool, the log and the cache have their size divided by this
    pub scale: u32,
    /// A second of the drives takes so many on the wall's clock. The measured time is as much longer, and as much shorter as the database is smaller
    pub slow_motion: u32,
    /// The server, in place of the one that is installed
    pub mysqld: Option<PathBuf>,
    /// Where images and mounts are while it runs
    pub scratch: Option<PathBuf>,
}

impl Default for Live {
    fn default() -> Self {
        Self { scale: 256, slow_motion: 24, mysqld: None, scratch: None }
    }
}

impl Live {
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=400).contains(&self.scale) {
            lab_report::misuse!("--scale is {}: 1 to 400 are possible", self.scale);
        }
        if !(1..=200).contains(&self.slow_motion) {
            lab_report::misuse!("--slow-motion is {}: 1 to 200 are possible", self.slow_motion);
        }
        Ok(())
    }
}

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run MariaDB under sysbench on scaled drives, with these options
    pub live: Option<Live>,
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
    /// Short and rough: to see that it works, not for figures
    pub quick: bool,
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
            live: None,
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
            quick: false,
            out: "out/oltp".into(),
            overwrite: Overwrite::default(),
            seed: 1,
        }
    }
}

/// Rows, bytes of the buffer pool and seconds of a quick run in virtual time at most.
const QUICK_LIMITS: (u64, u64, u64) = (1_000_000, 64 << 20, 10);

impl Options {
    /// What is run in virtual time. A quick run is shorter, on a smaller database with as large a part of it in the pool.
    pub(super) fn of_simulation(&self) -> Self {
        let (rows, pool, seconds) = if self.quick { QUICK_LIMITS } else { (u64::MAX, u64::MAX, u64::MAX) };
        Self {
            rows: self.rows.min(rows),
            pool: self.pool.min(pool),
            seconds: self.seconds.min(seconds),
            ..self.clone()
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(10_000..=1_000_000_000).contains(&self.rows) {
            lab_report::misuse!("--rows is {}: from 10,000 to 1,000,000,000 are possible", self.rows);
        }
        if !(64 << 20..=64 << 30).contains(&self.pool) {
            lab_report::misuse!("--buffer-pool is {} bytes: from 64MiB to 64GiB are possible", self.pool);
        }
        Ok(())
    }
}
