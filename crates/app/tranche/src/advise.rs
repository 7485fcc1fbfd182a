//! `tranche advise`.

use crate::progress;
use crate::trace_form::TraceForm;
use anyhow::{Context, Result};
use clap::Args;
use lab_advise::{Advice, Layout, Measure, Server};
use lab_engines::machine::Controller;
use lab_engines::sim::usual_cache;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `tranche advise`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The configuration of the server (my.cnf or postgresql.conf, with all that it includes), and with --sample the block device that its data is on
    #[arg(value_name = "CONFIGURATION|DEVICE", required = true, num_args = 1..=2)]
    paths: Vec<PathBuf>,
    /// The server, with the release series whose defaults hold: mysql, percona, mariadb or postgresql, as in mariadb-10.11 or postgresql-15
    /// [default: told by the files and their names; mysql-8.4, mariadb-11.8 or postgresql-18]
    #[arg(long, value_name = "NAME[-SERIES]")]
    server: Option<Server>,
    /// Ask no server that is installed on this machine: values, defaults and the release series are those of the files
    #[arg(long)]
    no_ask: bool,
    /// Make the load as heavy as what the device does for so long. Only counters of the kernel are read
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds::<u32>, conflicts_with = "recording")]
    sample: Option<u32>,
    /// Make the load as heavy as this trace or recording, of any format that tranche sim reads
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// How the trace is understood.
    #[command(flatten)]
    form: TraceForm,
    /// The drive: a profile or a TOML file
    #[arg(long, alias = "profile", value_name = "NAME|FILE", default_value = "pblaze5-910-3.84t")]
    drive: String,
    /// How many percent of the drive hold data
    #[arg(long, alias = "full", value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=100))]
    used: u32,
    /// Size of the database [default: ten times the buffer pool]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    dataset: Option<u64>,
    /// Connections that run transactions without pause [default: 32; with --sample or --recording as many as write what was measured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: Option<u32>,
    /// Processors of the server
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    processors: u32,
    /// Layouts that are simulated beside what is configured [default: those of the server alone on the drive].
    /// zones: the logs on a zoned namespace. cache: on a disk, without and with a part of the drive as a cache before it. quota: beside a neighbour on the same drive, without a quota and with one
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    layouts: Vec<Layout>,
    /// With the layout quota: jobs of fio that the neighbour does, again and again [default: it writes in order, as fast as it can]
    #[arg(long, value_name = "JOB.FIO")]
    neighbour: Option<PathBuf>,
    /// With the layout quota: what the neighbour may write in a second, and read [default: a tenth of what the drive's chips can program]
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    neighbour_quota: Option<u64>,
    /// With the layout cache: the hard disk or SAS SSD, a profile or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "savvio-15k3-300g")]
    disk: String,
    /// With the layout cache: the storage controller of the disk
    #[arg(long, value_enum, value_name = "NAME", default_value = "h330")]
    controller: Controller,
    /// With the layout cache: how much of the drive is the cache [default: a quarter of the database]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    cache_size: Option<u64>,
    /// Measured time of each simulation, in virtual time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::parse_seconds::<u64>)]
    seconds: u64,
    /// Load before the measurement
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = units::parse_seconds::<u64>)]
    warmup: u64,
    /// Simulations of each layout, with other random numbers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    seeds: u32,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep prepared drives in this directory for the next time [default: $XDG_CACHE_HOME/tranche, or ~/.cache/tranche]
    #[arg(long = "cache-dir", alias = "cache", value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Prepare every drive anew, and keep none
    #[arg(long, conflicts_with = "cache")]
    no_cache: bool,
}

/// Whether it is a block device.
///
/// # Errors
/// It is not there.
fn is_device(path: &Path) -> Result<bool> {
    let about = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(about.file_type().is_block_device())
}

impl Options {
    /// The configuration, and the device if one is named.
    fn places(&self) -> Result<(PathBuf, Option<PathBuf>)> {
        let mut devices = Vec::new();
        let mut files = Vec::new();
        for path in &self.paths {
            if is_device(path)? { devices.push(path) } else { files.push(path) }
        }
        match (&files[..], &devices[..]) {
            ([file], devices) => Ok(((*file).clone(), devices.first().map(|device| (*device).clone()))),
            ([_, other, ..], _) => {
                lab_report::misuse!("{} is no block device: one configuration is read", other.display())
            }
            ([], _) => lab_report::misuse!(
                "name the server's configuration as well: what a device does tells no copies of pages from pages"
            ),
        }
    }

    fn measure(&self, device: Option<PathBuf>) -> Result<Measure> {
        let form = self.form.form();
        if self.recording.is_none() && form != lab_engines::sim::TraceForm::default() {
            lab_report::misuse!(
                "--action, --trace-block and --trace-format are for traces: name one with --recording"
            );
        }
        match (self.sample, device, &self.recording) {
            (Some(seconds), Some(device), _) => {
                Ok(Measure::Sample(device, Duration::from_secs(seconds.max(1).into())))
            }
            (Some(_), None, _) => lab_report::misuse!(
                "--sample needs the block device that the data is on: tranche advise MY.CNF /dev/nvme0n1 --sample 30s"
            ),
            (None, Some(device), _) => {
                lab_report::misuse!("{}: say for how long it is sampled, with --sample 30s", device.display())
            }
            (None, None, Some(file)) => Ok(Measure::Recording(file.clone(), form)),
            (None, None, None) => Ok(Measure::None),
        }
    }
}

/// Advises.
pub fn advise(options: &Options) -> Result<lab_report::Findings<Advice>> {
    let (configuration, device) = options.places()?;
    let settings = lab_advise::Options {
        configuration,
        server: options.server,
        ask: !options.no_ask,
        drive: options.drive.clone(),
        full: options.used,
        dataset: options.dataset,
        connections: options.connections,
        processors: options.processors,
        layouts: options.layouts.clone(),
        neighbour: options.neighbour.clone(),
        neighbour_quota: options.neighbour_quota,
        disk: options.disk.clone(),
        controller: options.controller,
        cache_size: options.cache_size,
        seconds: options.seconds,
        warmup: options.warmup,
        seeds: options.seeds,
        seed: options.seed,
        measure: options.measure(device)?,
        cache: match options.no_cache {
            true => None,
            false => options.cache.clone().or_else(usual_cache),
        },
    };
    lab_advise::run(&settings, &progress::control()?)
}
