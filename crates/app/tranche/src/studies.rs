//! `tranche study` and `tranche compare`: the studies of the library, and the options of comparisons.

use crate::progress;
use anyhow::Result;
use clap::Args;
use lab_databases::compare;
use lab_report::{Findings, results::Overwrite};
use lab_studies::StudyCommand;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of `tranche compare`.
#[derive(Args, Clone, Debug)]
pub struct Compare {
    /// Layouts; the others are compared with the first
    #[arg(required = true, value_name = "LAYOUT.toml")]
    layouts: Vec<PathBuf>,
    /// Command to run on each, after --
    #[arg(last = true, required_unless_present = "tpcc", value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Instead of a command, TPC-C for this time on the layouts' databases, which have tpcc_warehouses
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds::<u64>, conflicts_with = "command")]
    tpcc: Option<u64>,
    /// TPC-C: load before the measurement
    #[arg(long, requires = "tpcc", default_value = "10s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    warmup: u64,
    /// TPC-C: connections that run transactions
    #[arg(long, requires = "tpcc", default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    connections: u32,
    /// Interleaved repetitions
    #[arg(long, default_value_t = 3, value_name = "N")]
    repeat: u32,
    /// Time after which a run of the command is given up
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    timeout: u64,
    /// PostgreSQL's program postgres, instead of the newest one installed: for layouts with a database
    #[arg(long, value_name = "PATH")]
    postgres: Option<PathBuf>,
    /// Directory for report.html, results.json, results.csv and the command's output [default: out/compare, or the first of out/compare-2, out/compare-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Directory for drive images and mount points meanwhile [default: /dev/shm when it has room, else /tmp]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl From<Compare> for compare::Options {
    fn from(options: Compare) -> Self {
        Self {
            layouts: options.layouts,
            command: options.command,
            tpcc: options.tpcc.map(|seconds| compare::TpccLoad {
                connections: options.connections,
                warmup: options.warmup,
                seconds,
            }),
            repeat: options.repeat,
            timeout: options.timeout,
            postgres: options.postgres,
            out: options.overwrite.place(options.out, "out/compare"),
            overwrite: options.overwrite,
            scratch: options.scratch,
        }
    }
}

/// Runs a study; its results are JSON.
pub fn study(study: &StudyCommand) -> Result<Findings<Value>> {
    study.run(&progress::control()?)
}

/// Compares layouts.
pub fn compare(options: Compare) -> Result<Findings<lab_report::results::Results>> {
    compare::run(&options.into(), &progress::control()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parse(line: &str) -> Result<StudyCommand, String> {
        let line = ["tranche", "study"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Study(study) => Ok(study),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "quota --sim --live",
            "quota --variants prayer",
            "namespaces --live --sim",
            "namespaces --of 33",
            "doublewrite --sim --live",
            "zoned --sim --live",
            "zoned --scale 0",
            "cache --parts sieve",
            "filesystem --processors 0",
            "filesystem --scale 16",
            "filesystem --live --full",
            "filesystem --live --slow-motion 0",
            "oltp --mysqld mariadbd",
            "oltp --live --scale 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_study_that_can_be_in_virtual_time_takes_sim() {
        for name in ["doublewrite", "quota", "namespaces", "zoned", "filesystem", "cache", "oltp"] {
            assert!(parse(&format!("{name} --sim")).is_ok(), "{name}");
            assert!(parse(&format!("{name} --sim --live")).is_err(), "{name}");
        }
        // Real servers lose their power there.
        assert!(parse("powercut --sim").is_err());
    }
}
