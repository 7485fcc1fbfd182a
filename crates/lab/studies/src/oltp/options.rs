//! Options of the study.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, value_parser};

use super::published;
use lab_engines::machine::{Controller, HostPath};
use lab_report::options::{DefaultDirectory, ResultsDirectory, defaults};

/// Options of the live study.
#[derive(Args, Clone, Debug)]
pub struct Live {
    /// Live: drives, rows, buffer pool, log and cache have their size divided by this
    #[arg(long, requires = "live", default_value_t = 256, value_name = "N", value_parser = value_parser!(u32).range(1..=400))]
    pub scale: u32,
    /// Live: a second of the drives takes N seconds on the wall's clock, so that they and not this machine are the limit. A run takes --seconds times
    /// this, divided by --scale
    #[arg(long, requires = "live", default_value_t = 24, value_name = "N", value_parser = value_parser!(u32).range(1..=200))]
    pub slow_motion: u32,
    /// Live: database server, instead of the one installed
    #[arg(long, requires = "live", value_name = "PATH")]
    pub mysqld: Option<PathBuf>,
    /// Live: directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, requires = "live", value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

impl Default for Live {
    fn default() -> Self {
        Options::default().real
    }
}

/// Options of `tranche study oltp`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// In virtual time, as this study is by itself: every study that can be so takes it
    #[arg(long)]
    pub sim: bool,
    /// Run MariaDB under sysbench on scaled drives in slow motion, and on a live cache tier. Needs root, FUSE, loop devices, MariaDB and sysbench. Without
    /// it the study is in virtual time
    #[arg(long, conflicts_with_all = ["sim"])]
    pub live: bool,
    /// What the live study does.
    #[command(flatten)]
    pub real: Live,
    /// The hard disk: a profile or a TOML file
    #[arg(long, default_value = "savvio-15k3-300g", value_name = "NAME|FILE")]
    pub disk: String,
    /// The NVMe drive, likewise
    #[arg(long, default_value = "xs1715-400g", value_name = "NAME|FILE")]
    pub nvme: String,
    /// The storage controller of the disk
    #[arg(long, value_enum, default_value = "h330", value_name = "NAME")]
    pub controller: Controller,
    /// What the host takes for a request.
    #[command(flatten)]
    pub path: HostPath,
    // The default is an assumption, swept by the study. 24 processors do 6,667 transactions of 18 statements a second where nothing else limits them.
    /// Time of a processor for a statement, with its client
    #[arg(long = "statement-time", default_value = "200us", value_name = "TIME", value_parser = units::parse_time)]
    pub statement_ns: u64,
    /// Measured time
    #[arg(long, default_value = "900s", value_name = "TIME", value_parser = seconds)]
    pub seconds: u64,
    /// Rows of the table, of about 260 bytes with its index
    #[arg(long, default_value_t = published::ROWS, value_name = "N")]
    pub rows: u64,
    /// Buffer pool
    #[arg(long = "buffer-pool", alias = "pool", default_value = "8GiB", value_name = "SIZE", value_parser = units::parse_size)]
    pub pool: u64,
    /// Connections, which sysbench calls threads
    #[arg(long = "connections", alias = "threads", default_value_t = published::THREADS, value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    pub threads: u32,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Where results go.
    #[command(flatten)]
    pub out: ResultsDirectory<Self>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/oltp";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
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

/// A second to a day: without any there are no rates.
fn seconds(text: &str) -> Result<u64, String> {
    match units::parse_seconds(text) {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        Ok(_) => Err("it is 1s to 24h".to_owned()),
        Err(wrong) => Err(wrong.to_string()),
    }
}
