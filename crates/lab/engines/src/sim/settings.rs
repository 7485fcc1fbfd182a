//! What is asked for, and the runs that it makes.

use std::path::PathBuf;

use anyhow::{Context, Result};
use live::{Config, policies::Policies};
use nvme::Nsid;
use sim::{Contents, Precondition};

use super::{case::Case, keys::Variable, load::LoadFile};
use crate::sweep::{axes, misuse, no_place, settings};
use lab_report::{Misuse, memory, results::Overwrite};

/// A simulation: one run, or one for each combination of what is varied.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is put on the drive.
    pub load: LoadFile,
    /// What the drive is called, in results and messages.
    pub drive: String,
    /// The drive's TOML. The drive is new. Its modelled times count, even if its TOML turns timing off.
    pub toml: String,
    /// Namespace of everything; `None`: those that jobs name, else the first, and of other loads than fio's as many as they need.
    pub nsid: Option<Nsid>,
    /// What the drive goes through first.
    pub precondition: Precondition,
    /// Whether the load is repeated, before it is measured, until write amplification no longer changes; at most 100 times.
    pub until_steady: bool,
    /// Whether the drive keeps what is written to it, so that jobs may verify.
    pub contents: Contents,
    /// Seed of everything random, where `set` names none. Seed 1 does the I/Os that the load generator does.
    pub seed: u64,
    /// What is varied: `KEY=A,B,…`, once for each key (docs/sim.md).
    pub set: Vec<String>,
    /// Directory for results.parquet, results.json and results.csv, and series.parquet with an interval; `None`: none is written.
    pub out: Option<PathBuf>,
    /// Whether results that are in `out` may go.
    pub overwrite: Overwrite,
    /// Whether a sweep in `out` continues: runs that are done stay, and the others are made.
    pub resume: bool,
    /// Where preconditioned drives are kept for the next time, up to 16 GiB of them ([`usual_cache`]); `None`: none is.
    pub cache: Option<PathBuf>,
    /// Nanoseconds of virtual time in each interval of a time series; `None`: there is none.
    pub interval: Option<u64>,
    /// Policies of one's own for each NVM Set on flash. With them no preconditioned drive is kept, or taken from earlier: it is what its
    /// policies made of it.
    pub policies: Policies,
    /// Runs at the same time; `None`: one for each processor, as far as the drives fit in memory.
    pub parallel: Option<usize>,
}

/// The runs that are asked for, each looked at as far as that can be done before it runs.
pub(super) fn cases(options: &Settings) -> Result<Vec<Case>> {
    let axes = axes::parse(&options.set)?;
    let toml = &options.toml;
    let drive = || format!("the drive {}", options.drive);
    Config::from_toml(toml).with_context(drive)?;
    let base = Variable {
        drive: toml::from_str(toml).with_context(drive)?,
        load: options.load.clone(),
        precondition: options.precondition,
        contents: options.contents,
        seed: options.seed,
    };
    let available = memory::available();
    let mut cases = Vec::new();
    for parameters in axes::product(&axes)? {
        let mut variable = base.clone();
        for (key, value) in &parameters {
            variable.set(key, value).with_context(|| misuse(key, value))?;
        }
        let impossible = |error: anyhow::Error| match parameters.is_empty() {
            true => error.context(drive()),
            false => no_place(error).context(Misuse(settings(&parameters))),
        };
        let toml = toml::to_string(&variable.drive)?;
        let mut config = Config::from_toml(&toml).map_err(|error| impossible(error.into()))?;
        config.ftl.set_policies(&options.policies);
        config.check().map_err(|error| impossible(error.into()))?;
        let case = Case {
            config,
            media: media(&variable.drive),
            tiers: variable.drive.contains_key("cache"),
            load: variable.load,
            nsid: options.nsid,
            precondition: variable.precondition,
            contents: variable.contents,
            seed: variable.seed,
            until_steady: options.until_steady,
            interval: options.interval,
            parameters: parameters.clone(),
        };
        match parameters.is_empty() {
            true => case.check(available)?,
            false => case.check(available).with_context(|| settings(&parameters))?,
        }
        cases.push(case);
    }
    Ok(cases)
}

/// The media of a drive's NVM Sets.
fn media(drive: &toml::Table) -> Vec<String> {
    let sets = drive.get("set").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let medium = |set: toml::Value| set.get("media").and_then(toml::Value::as_str).map(str::to_owned);
    sets.into_iter().map(|set| medium(set).unwrap_or_default()).collect()
}
