//! `tranche sim`: a load on a drive in virtual time.
//!
//! The drive is the same as the one that is served, with another clock; the load is made of the same actors as those of the load
//! generator. The same drive, load and seed give the same result on every machine.

mod case;
mod figures;
mod jobs;
mod load;
mod pool;
mod progress;
mod report;
mod watch;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use nvme::Nsid;
use run::Config;
use serde_json::Value;

use self::{case::Case, load::Load};
pub use self::{case::Precondition, load::Format};
use crate::{Outcome, bench, interrupt};

/// Options of `tranche sim`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to do, as a fio job file; - is standard input (docs/bench.md says which options mean what)
    #[arg(value_name = "LOAD")]
    pub load: PathBuf,
    /// Form of the load [default: by the name of the file]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// The drive: a profile or a TOML file. It is new, and its modelled times count whatever it says of timing
    #[arg(long, value_name = "PROFILE|DRIVE.toml", default_value = "default")]
    pub drive: String,
    /// Namespace [default: the first]
    #[arg(long, value_name = "NSID")]
    pub nsid: Option<Nsid>,
    /// What the drive goes through first: nothing, being written once, or random writes until write amplification is
    /// steady
    #[arg(long, value_name = "none|fill|steady", default_value = "none", hide_possible_values = true)]
    pub precondition: Precondition,
    /// Seed of everything random. The first does the I/Os that `tranche bench` does
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Where texts come from.
pub struct Sources<'a> {
    /// The text of a file that describes a load; - is standard input.
    pub text: &'a dyn Fn(&Path) -> Result<String>,
    /// The TOML of a drive: of a profile's name or a file.
    pub drive: &'a dyn Fn(&str) -> Result<String>,
}

/// Runs the load.
///
/// # Errors
/// The drive or the load makes no sense, or they do not fit each other; an interruption before there was anything to report. What goes
/// wrong with requests is the outcome's failure, beside the results.
pub fn run(options: &Options, sources: &Sources<'_>) -> Result<Outcome<Value>> {
    interrupt::install().context("installing signal handlers")?;
    let toml = (sources.drive)(&options.drive)?;
    let config = Config::from_toml(&toml).with_context(|| format!("the drive {}", options.drive))?;
    let table: toml::Table = toml::from_str(&toml).with_context(|| format!("the drive {}", options.drive))?;
    let load = Load::read(&options.load, options.format, sources.text)?;
    let case = Case {
        parameters: Vec::new(),
        config,
        media: media(&table),
        load,
        nsid: options.nsid,
        precondition: options.precondition,
        seed: options.seed,
    };
    case.check()?;
    let cases = [case];
    let ran = pool::run(&cases, 1).pop().flatten().ok_or_else(|| anyhow!("interrupted"))??;
    let mut problems = ran.played.problems.clone();
    if ran.played.interrupted {
        problems.push("interrupted: the results are those of the part that ran".to_owned());
    }
    Ok(Outcome {
        results: report::document(&cases[0], &ran),
        text: report::text(&cases[0], &ran),
        failure: (!problems.is_empty()).then(|| bench::lines(problems)),
    })
}

/// The media of a drive's NVM Sets.
fn media(drive: &toml::Table) -> Vec<String> {
    let sets = drive.get("set").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let medium = |set: toml::Value| set.get("media").and_then(toml::Value::as_str).map(str::to_owned);
    sets.into_iter().map(|set| medium(set).unwrap_or_default()).collect()
}
