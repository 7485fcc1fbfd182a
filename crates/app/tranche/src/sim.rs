//! `tranche sim`.

use crate::options::Output;
use crate::sim_view::{self, View};
use crate::trace_form::TraceForm;
use anyhow::Result;
use clap::{Args, ValueEnum};
use lab_engines::sim::{LoadFile, Settings, TraceOptions, usual_cache};
use lab_report::profile;
use lab_report::results::Overwrite;
use load_formats::trace::{Fold, Speed};
use nvme::Nsid;
use std::path::PathBuf;

/// Where results of sweeps and time series go.
const OUTPUT_DIRECTORY: &str = "out/sim";

/// Options of `tranche sim`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to do: a fio job file (docs/bench.md), a configuration of Aerospike's ACT, or a block trace (docs/loads.md); - is
    /// standard input
    #[arg(value_name = "LOAD")]
    load: PathBuf,
    /// Form of the load [default: by the file's name, or else by how it begins]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The drive: a profile or a TOML file. It starts new. Its modelled times count, even if its TOML turns timing off
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    drive: String,
    /// Namespace of all requests [default: those that jobs name (filename=nvme0n2), else the first. Other loads than fio's take as many as
    /// they need]
    #[arg(long, value_name = "NSID")]
    nsid: Option<Nsid>,
    /// What happens to the drive first: nothing, one write of everything, or also random writes until write amplification is
    /// steady
    #[arg(long, value_name = "none|fill|steady", default_value = "none", hide_possible_values = true)]
    precondition: Precondition,
    /// Repeat the load, before it is measured, until write amplification no longer changes: at most 100 times
    #[arg(long)]
    until_steady: bool,
    /// Whether the drive keeps what is written to it, so that jobs may verify: no, or in this machine's memory
    #[arg(long, value_name = "none|memory", default_value = "none", hide_possible_values = true)]
    contents: Contents,
    /// Seed of everything random, unless --set gives seeds. Seed 1 does the I/Os that `tranche bench` does
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Make a run for each value of KEY. With several --set, make a run for each combination. KEY is a key of the drive's TOML
    /// (set.1.spare), job.OPTION, seed, precondition or contents. ftl.spare and gc.policy mean the first NVM Set on flash. Values may
    /// also be ranges: 1..5, 4..64:4 or 1..64:x2 (docs/sim.md)
    #[arg(long, value_name = "KEY=A,B,…")]
    set: Vec<String>,
    /// Directory for results.parquet, results.json and results.csv [default: with --set or --interval out/sim, or the first of out/sim-2, out/sim-3, … without results; else none is written]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write series.parquet: what happened in each interval of so much virtual time (docs/sim.md)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    interval: Option<u64>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Continue the sweep in the directory of --out [default: the last one of out/sim, out/sim-2, … with results]. Runs that are done stay; values may be added to --set
    #[arg(long, conflicts_with = "force", requires = "set")]
    resume: bool,
    /// Keep preconditioned drives in this directory for the next time, up to 16 GiB of them [default:
    /// $XDG_CACHE_HOME/tranche, or ~/.cache/tranche]
    #[arg(long = "cache-dir", alias = "cache", value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Precondition every drive anew, and keep none
    #[arg(long, conflicts_with = "cache")]
    no_cache: bool,
    /// Runs at the same time [default: one for each processor, as far as the drives fit in memory]
    #[arg(long, alias = "threads", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: Option<u16>,
    /// Whether the run is shown while it goes.
    #[command(flatten)]
    view: View,
    /// What is only for traces.
    #[command(flatten)]
    trace: Trace,
}

/// In which form a load is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A job file of fio.
    Fio,
    /// A configuration of Aerospike's act_storage.
    Act,
    /// A configuration of Aerospike's act_index.
    ActIndex,
    /// A trace, of any form that --trace-format has.
    Trace,
}

/// What a new drive goes through before its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Precondition {
    /// Nothing: it is empty.
    None,
    /// Every namespace is written once, in order.
    Fill,
    /// That, and then random writes of 4 KiB until write amplification no longer changes.
    Steady,
}

/// Whether the simulated drive keeps what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Contents {
    /// No: reads give zeros.
    None,
    /// In this machine's memory.
    Memory,
}

/// How traces are replayed.
#[derive(Args, Clone, Debug)]
struct Trace {
    /// Traces: how much faster time passes, as 2 or 0.5 [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = speed, conflicts_with = "depth")]
    speed: Option<Speed>,
    /// Traces: not at their times, but as fast as so many outstanding requests allow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    depth: Option<u32>,
    /// Traces: where addresses beyond the end of the namespace go. At the remainder (wrap), or each MiB of each device
    /// at a place of its own (scatter)
    #[arg(long, value_name = "wrap|scatter", default_value = "wrap", hide_possible_values = true)]
    fold: FoldOption,
    /// Traces: only this device, on this namespace; several times for several devices [default: all devices, on the namespaces in turn]
    #[arg(long, alias = "device", value_name = "NAME=NSID", value_parser = device)]
    only: Vec<(String, Nsid)>,
    /// How their text is understood.
    #[command(flatten)]
    form: TraceForm,
}

/// Where addresses beyond the end lie.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FoldOption {
    /// At the remainder.
    Wrap,
    /// At places of their own.
    Scatter,
}

fn speed(text: &str) -> Result<Speed, String> {
    let wrong = || format!("{text:?} is no factor above 0: write 2, or 0.5");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 6 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
    let millionths = whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part));
    millionths.and_then(Speed::from_millionths).ok_or_else(wrong)
}

fn device(text: &str) -> Result<(String, Nsid), String> {
    let (name, nsid) = text.rsplit_once('=').ok_or_else(|| format!("{text:?} has no =: write NAME=NSID"))?;
    let nsid = nsid.parse().map_err(|_| {
        format!("{nsid:?} is no namespace identifier from 1 to {}: write NAME=NSID", nvme::NSID_ALL - 1)
    })?;
    Ok((name.to_owned(), nsid))
}

impl Trace {
    fn options(&self) -> TraceOptions {
        TraceOptions {
            speed: self.speed,
            depth: self.depth,
            fold: match self.fold {
                FoldOption::Wrap => Fold::Wrap,
                FoldOption::Scatter => Fold::Scatter,
            },
            device: self.only.clone(),
            form: self.form.form(),
        }
    }
}

impl Options {
    /// What is to be simulated: reads the drive and the load.
    fn settings(&self) -> Result<Settings> {
        let toml = profile::read(&self.drive)?;
        let format = self.format.map(|format| match format {
            Format::Fio => lab_engines::sim::Format::Fio,
            Format::Act => lab_engines::sim::Format::Act,
            Format::ActIndex => lab_engines::sim::Format::ActIndex,
            Format::Trace => lab_engines::sim::Format::Trace,
        });
        // A form of traces is one of no other load.
        let format = format.or(self.trace.form.form().format.map(|_| lab_engines::sim::Format::Trace));
        let trace = self.trace.options();
        let load = LoadFile::open(&self.load, format, &trace)?;
        if !load.is_trace() && trace != TraceOptions::default() {
            lab_report::misuse!(
                "{}: --speed, --depth, --fold, --only, --action, --trace-block and --trace-format are for traces, and this is none",
                load.source()
            );
        }
        Ok(Settings {
            load,
            drive: self.drive.clone(),
            toml,
            nsid: self.nsid,
            precondition: match self.precondition {
                Precondition::None => lab_engines::sim::Precondition::None,
                Precondition::Fill => lab_engines::sim::Precondition::Fill,
                Precondition::Steady => lab_engines::sim::Precondition::Steady,
            },
            until_steady: self.until_steady,
            contents: match self.contents {
                Contents::None => lab_engines::sim::Contents::None,
                Contents::Memory => lab_engines::sim::Contents::Memory,
            },
            seed: self.seed,
            set: self.set.clone(),
            out: self.out.clone().or_else(|| {
                let files = self.interval.is_some() || !self.set.is_empty();
                files.then(|| match self.resume {
                    true => self.overwrite.latest(OUTPUT_DIRECTORY),
                    false => self.overwrite.place(None, OUTPUT_DIRECTORY),
                })
            }),
            interval: self.interval,
            policies: Default::default(),
            overwrite: self.overwrite,
            resume: self.resume,
            cache: match self.no_cache {
                true => None,
                false => self.cache.clone().or_else(usual_cache),
            },
            parallel: self.parallel.map(usize::from),
        })
    }
}

/// Runs a load in virtual time.
pub fn sim(options: &Options, output: Output) -> Result<()> {
    // What it reads may be a pipe that nobody writes to: until then the first signal ends the process.
    let settings = options.settings()?;
    sim_view::run(&settings, options.load.display().to_string(), &options.view, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        assert_eq!(speed("1"), Ok(Speed::ONE));
        assert_eq!(speed("0.5").ok(), Speed::from_millionths(500_000));
        assert_eq!(speed("12.000001").ok(), Speed::from_millionths(12_000_001));
        for wrong in ["", "0", "0.0", "-1", "1.0000001", "x", "1.x", "99999999999999999999"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
        assert_eq!(device("8,0=3"), Ok(("8,0".to_owned(), 3)));
        assert_eq!(device("a=b=1"), Ok(("a=b".to_owned(), 1)));
        assert!(device("a").is_err() && device("a=x").is_err());
    }
}
