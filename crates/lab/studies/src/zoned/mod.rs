//! `tranche study zoned`: what do zones buy a log-structured database, against a conventional namespace of the same chips?
//!
//! - [`sim`] is the published experiment in virtual time.
//! - [`live`] runs MyRocks on real file systems over the drive.

mod agreement;
pub mod live;
pub mod published;
mod report;
mod sim;
mod tickers;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum, value_parser};
use serde_json::Value;

use lab_engines::sweep::{self, Profiles, SetOptions, Study};
use lab_models::rocksdb::chips::check_scale;
pub use lab_models::rocksdb::{DEFAULT_COMPACTION_NS, DEFAULT_PROFILE, DEFAULT_SCALE};
use lab_report::{
    Findings,
    control::Control,
    options::{DefaultDirectory, ResultsDirectory, defaults, once},
    results::Results,
};

/// Options of `tranche study zoned`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Run MyRocks and InnoDB with sysbench, and RocksDB with db_bench, on real file systems over the drive. Needs root, FUSE, MariaDB with its
    /// RocksDB plug-in, sysbench, db_bench, and RocksDB's plug-in (`make plugin`), as far as the variants need them
    #[arg(long, conflicts_with_all = ["sim", "set", "parts", "scale", "quick", "compaction_ns"])]
    pub live: bool,
    /// What the live study does.
    #[command(flatten)]
    pub real: live::Live,
    /// In virtual time, at the published drive's speed; so it is, too, if neither is given
    #[arg(long)]
    pub sim: bool,
    /// Instead of the study: the model of RocksDB beside this db_bench, which fills and overwrites a small database in a temporary directory
    #[arg(long, value_name = "PATH", conflicts_with_all = ["live", "sim", "set", "parts"])]
    pub db_bench: Option<PathBuf>,
    /// What is done
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "writes,reads,rocksdb,f2fs,placement,dies,durability",
        value_name = "NAME,…"
    )]
    pub parts: Vec<Part>,
    /// Chips of the drives: a profile or a TOML file with zones
    /// [default: zn540-2t; live: zn540-lab]
    #[arg(long, alias = "profile", value_name = "NAME|FILE")]
    pub drive: Option<String>,
    /// The drives have this fraction of the capacity, and so have files, buffers and zones; channels, dies and their speed stay
    #[arg(long, default_value_t = DEFAULT_SCALE, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    pub scale: u32,
    /// Time of a processor that a compaction takes for each KiB that it reads, and a flush for each that it writes
    #[arg(long = "compaction-time", default_value = "6us", value_name = "TIME", value_parser = units::parse_time)]
    pub compaction_ns: u64,
    /// Repetitions, with other random numbers [default: 1; live: 2]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    pub repeat: Option<u32>,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Where results go.
    #[command(flatten)]
    pub out: ResultsDirectory<Self>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// What is varied.
    #[command(flatten)]
    pub sweep: SetOptions,
}

/// A part of the study of zones.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// Steady writes to the whole drive
    Writes,
    /// Latency of reads during writes
    Reads,
    /// RocksDB: fills, overwrites, and reads during writes
    Rocksdb,
    /// RocksDB on f2fs, on conventional namespaces and on zones
    F2fs,
    /// Files that share a zone: any, of one lifetime, or with overlapping keys
    Placement,
    /// Zones on all dies, and on a few
    Dies,
    /// Log records that a power cut loses, with and without Flush and power-loss protection
    Durability,
}

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/zoned";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        check_scale(self.scale)?;
        once("--parts", &self.parts)
    }

    /// The drive's profile.
    fn drive(&self) -> &str {
        self.drive.as_deref().unwrap_or(if self.live { live::DEFAULT_PROFILE } else { DEFAULT_PROFILE })
    }

    /// Repetitions.
    fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(if self.live { 2 } else { 1 })
    }
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist or has no zones, a directory that cannot be written; an interruption before there was anything to report.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    let options = &Options { out: options.out.free()?, ..options.clone() };
    if options.live {
        return sweep::value(live::run(options, control)?);
    }
    options.check()?;
    if let Some(db_bench) = &options.db_bench {
        return agreement::run(options, db_bench, control);
    }
    sweep::study(
        &options.sweep.set,
        |profiles| run_on(options, profiles, control),
        |profiles| sweep_on(options, profiles, control),
    )
}

/// Runs the simulated study with profiles from elsewhere.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
    sim::run_on(options, profiles, control)
}

/// Repeats the study on every drive of `--set`.
///
/// # Errors
/// A setting that makes no sense, and like [`run()`].
pub fn sweep_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Value>> {
    Study {
        name: "zoned",
        profile: options.drive(),
        toml: &profiles(options.drive())?,
        seed: options.seed,
        out: options.out.path(),
        drives: &|toml| sim::drives(options, toml),
        run: &|toml, seed, out, control| {
            let options = Options { seed, out: ResultsDirectory::at(out), ..options.clone() };
            run_on(&options, &|_| Ok(toml.clone()), control)
        },
    }
    .sweep(&options.sweep.set, control)
}
