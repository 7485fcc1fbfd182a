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
use serde_json::Value;

use lab_engines::sweep::{self, Profiles, SetOptions, Study};
use lab_models::rocksdb::chips::check_scale;
pub use lab_models::rocksdb::{DEFAULT_COMPACTION_NS, DEFAULT_PROFILE, DEFAULT_SCALE};
use lab_report::{
    Findings,
    control::Control,
    results::{Overwrite, Results, seed_of},
};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run a real database on real file systems over the drive, with these options
    pub live: Option<live::Options>,
    /// In virtual time, at the published drive's speed; so it is, too, if neither is given
    pub sim: bool,
    /// Instead of the study: the model of RocksDB beside this db_bench, which fills and overwrites a small database in a temporary directory
    pub db_bench: Option<PathBuf>,
    /// What is done
    pub parts: Vec<Part>,
    /// Chips of the drives: a profile or a TOML file with zones
    pub drive: String,
    /// The drives have this fraction of the capacity, and so have files, buffers and zones; channels, dies and their speed stay
    pub scale: u32,
    /// Nanoseconds of a processor that a compaction takes for each KiB that it reads, and a flush for each that it writes
    pub compaction_ns: u64,
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
    /// What is varied.
    pub sweep: SetOptions,
}

/// A part of the study.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// Steady writes to the whole drive.
    Writes,
    /// Latency of reads beside writes.
    Reads,
    /// RocksDB's fills and overwrites, and reads beside writes.
    Rocksdb,
    /// The same on f2fs.
    F2fs,
    /// Which files share zones: none, lifetime, overlap of keys, with the database at two sizes.
    Placement,
    /// Zones on all dies, and on a few.
    Dies,
    /// What a power cut takes from a log, with and without Flush and power-loss protection.
    Durability,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Writes, Self::Reads, Self::Rocksdb, Self::F2fs, Self::Placement, Self::Dies, Self::Durability];
}

impl Default for Options {
    fn default() -> Self {
        Self {
            live: None,
            sim: false,
            db_bench: None,
            parts: Part::ALL.to_vec(),
            drive: DEFAULT_PROFILE.into(),
            scale: DEFAULT_SCALE,
            compaction_ns: DEFAULT_COMPACTION_NS,
            repeat: 1,
            quick: false,
            out: "out/zoned".into(),
            overwrite: Overwrite::default(),
            seed: 1,
            sweep: SetOptions::default(),
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        check_scale(self.scale)?;
        let mut parts = self.parts.clone();
        parts.sort_unstable();
        parts.dedup();
        if parts.len() != self.parts.len() {
            lab_report::misuse!("--parts names one twice");
        }
        Ok(())
    }

    /// The seed of a repetition.
    fn seed(&self, repetition: u32) -> u64 {
        seed_of(self.seed, repetition)
    }
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist or has no zones, a directory that cannot be written; an interruption before there was anything to report.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    if let Some(live) = &options.live {
        return sweep::value(live::run(live, control)?);
    }
    options.overwrite.check(&options.out)?;
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
        profile: &options.drive,
        toml: &profiles(&options.drive)?,
        seed: options.seed,
        out: &options.out,
        drives: &|toml| sim::drives(options, toml),
        run: &|toml, seed, out, control| {
            let options = Options { seed, out: out.to_owned(), ..options.clone() };
            run_on(&options, &|_| Ok(toml.clone()), control)
        },
    }
    .sweep(&options.sweep.set, control)
}
