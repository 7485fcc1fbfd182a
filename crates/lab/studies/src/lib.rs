//! The studies. Each repeats a published experiment, and compares its results with the published ones.
//!
//! A study is a directory. Its `Options` are the options of the command line. Its function `run` takes a [`Control`] and returns [`Findings`].
//! No study imports another. Studies share [`layouts`] and the crates below. [`StudyCommand`] lists all studies.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of options are help texts: what is in brackets there is no link"
)]

pub mod cache;
pub mod doublewrite;
mod drive;
pub mod filesystem;
mod layouts;
pub mod namespaces;
pub mod oltp;
pub mod powercut;
pub mod quota;
pub mod sim_option;
pub mod zoned;

pub use drive::StudyDrive;

use anyhow::Result;
use clap::Subcommand;
use lab_engines::sweep::Profiles;
use lab_report::{Findings, control::Control, results::Results};
use serde_json::Value;

/// `tranche study`: a study with its options.
#[derive(Subcommand, Clone, Debug)]
pub enum StudyCommand {
    /// What a DRAM namespace for InnoDB's doublewrite buffer buys MariaDB
    Doublewrite(Box<doublewrite::Options>),
    /// What MariaDB and PostgreSQL have left after power cuts: acknowledged transactions, whole pages, sound tables
    Powercut(Box<powercut::Options>),
    /// Eight namespaces with quotas, and what helps against a noisy neighbour
    Quota(Box<quota::Options>),
    /// What an application that scales with devices gains from several namespaces
    Namespaces(Box<namespaces::Options>),
    /// What zones buy a log-structured database, against a conventional namespace of the same chips
    Zoned(Box<zoned::Options>),
    /// How many small requests a host gets from an NVMe drive, a SAS SSD and a hard disk
    Filesystem(Box<filesystem::Options>),
    /// The gain of an SSD as the cache of a hard disk, by mode, policy and chunk size
    Cache(Box<cache::Options>),
    /// The throughput of a database on a hard disk, on an NVMe drive, and on the disk with the drive as its cache
    Oltp(Box<oltp::Options>),
}

impl StudyCommand {
    /// Runs the study and writes its results.
    ///
    /// # Errors
    /// The study cannot run so: something is missing, or a value is not possible; an interruption before there was anything to report.
    pub fn run(&self, control: &Control) -> Result<Findings<Value>> {
        match self {
            Self::Doublewrite(options) => doublewrite::run(options, control),
            Self::Powercut(options) => {
                let Findings { results, written, text, failure } = powercut::run(options, control)?;
                Ok(Findings { results: serde_json::to_value(results)?, written, text, failure })
            }
            Self::Quota(options) => quota::run(options, control),
            Self::Namespaces(options) => namespaces::run(options, control),
            Self::Zoned(options) => zoned::run(options, control),
            Self::Filesystem(options) => filesystem::run(options, control),
            Self::Cache(options) => cache::run(options, control),
            Self::Oltp(options) => oltp::run(options, control),
        }
    }

    /// Runs the study in virtual time, with profiles from elsewhere.
    ///
    /// # Errors
    /// As of [`run`](Self::run), and when the study is not one in virtual time.
    pub fn simulate(&self, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
        match self {
            Self::Doublewrite(options) => doublewrite::simulate(options, profiles, control),
            Self::Powercut(_) => anyhow::bail!("power cuts are live"),
            Self::Quota(options) => quota::run_on(options, profiles, control),
            Self::Namespaces(options) => namespaces::run_on(options, profiles, control),
            Self::Zoned(options) => zoned::run_on(options, profiles, control),
            Self::Filesystem(options) => filesystem::run_on(options, profiles, control),
            Self::Cache(options) => cache::run_on(options, profiles, control),
            Self::Oltp(options) => oltp::run_on(options, profiles, control),
        }
    }
}
