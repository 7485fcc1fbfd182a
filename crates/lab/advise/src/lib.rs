//! `tranche advise`: what other layouts of the same drive would buy a database, from its configuration.
//!
//! The configuration says how the server uses its drive. What differs between servers is a [`database_model::Database`]: [`innodb`] and [`postgresql`]. The [`layouts`] that
//! apply are simulated with several seeds ([`simulate`], on the models of [`workload`]). The load is a generic one, or one as heavy as a sample or a
//! recording ([`rates`]). Nothing is written to any device.

mod advice;
mod choose;
mod database_model;
mod detect;
mod disk;
mod disk_testbed;
mod drive;
mod figures;
mod innodb;
mod installed_server;
mod layouts;
mod listing;
mod load;
mod measurement;
mod neighbour;
mod postgresql;
mod rates;
mod report;
mod server;
mod settings;
mod simulate;
mod simulated_drive;
mod testbed;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail, ensure};

pub use self::{
    advice::{Advice, Loaded, Modelled, Recommendation},
    database_model::Row,
    figures::Figure,
    layouts::{Excluded, Layout},
    rates::Rates,
    server::Server,
    simulate::{Found, More},
};
use self::{
    choose::{Chosen, choose},
    database_model::Database,
    disk::Disk,
    drive::Drive,
    layouts::{Arrangement, Place},
    load::Load,
    neighbour::Neighbour,
    rates::Kernel,
    simulate::Setting,
    simulated_drive::Extras,
    testbed::Testbed,
};
use lab_engines::{
    machine::Controller,
    sim::{Cache, TraceForm},
};
use lab_models::innodb::drive as study_drive;
use lab_report::{
    Findings,
    control::{Control, Progress},
    figure::show,
    profile,
};

/// What a load is as heavy as.
#[derive(Clone, Debug)]
pub enum Measure {
    /// Nothing: as many connections as said.
    None,
    /// What a block device of this machine does for so long.
    Sample(PathBuf, Duration),
    /// A trace or a recording, and how it is understood.
    Recording(PathBuf, TraceForm),
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration.
    pub configuration: PathBuf,
    /// Its server; without one the configuration tells.
    pub server: Option<Server>,
    /// Whether a server that is installed on this machine is asked for its values.
    pub ask: bool,
    /// The drive: a profile or a TOML file.
    pub drive: String,
    /// Percent of the drive that hold data: 1 to 100.
    pub full: u32,
    /// Bytes of the database; without them ten times the buffer pool.
    pub dataset: Option<u64>,
    /// Connections; without them 32, or as many as write what was measured.
    pub connections: Option<u32>,
    /// Processors of the server.
    pub processors: u32,
    /// The layouts that are simulated beside what is configured; without any, those that are no extras ([`Layout::is_extra`]).
    pub layouts: Vec<Layout>,
    /// Jobs of fio that a neighbour does; without them it loads in bulk.
    pub neighbour: Option<PathBuf>,
    /// Bytes that a neighbour with a quota may write in a second, and read; without it a tenth of what the drive's chips can program.
    pub neighbour_quota: Option<u64>,
    /// What the database may lie on in place of the drive: a profile or a TOML file.
    pub disk: String,
    /// What that is attached to.
    pub controller: Controller,
    /// Bytes of the drive that are a cache before the disk; without them a quarter of the database.
    pub cache_size: Option<u64>,
    /// Measured seconds of each simulation.
    pub seconds: u64,
    /// Seconds before them.
    pub warmup: u64,
    /// Simulations of each layout.
    pub seeds: u32,
    /// The first seed.
    pub seed: u64,
    /// What the load is as heavy as.
    pub measure: Measure,
    /// Where prepared drives are kept.
    pub cache: Option<PathBuf>,
}

/// Connections of the generic load.
const CONNECTIONS: u32 = 32;
/// The generic database is so many times as large as the buffer pool.
const POOLS: u64 = 10;
/// Numbers of connections among which that is searched which writes as much as was measured.
const LEVELS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

impl Options {
    fn check(&self) -> Result<()> {
        ensure!(
            (1..=100).contains(&self.full),
            lab_report::Misuse(format!("--used is {}: 1 to 100 percent are possible", self.full))
        );
        ensure!(
            self.seconds >= 2,
            lab_report::Misuse(format!("--seconds is {}: 2 or more are possible", self.seconds))
        );
        ensure!(
            (1..=64).contains(&self.seeds),
            lab_report::Misuse(format!("--seeds is {}: 1 to 64 are possible", self.seeds))
        );
        ensure!(
            self.dataset.is_none_or(|bytes| bytes >= 16 << 20),
            "--dataset is too small: 16MiB or more are possible"
        );
        for (name, value) in [("connections", self.connections), ("processors", Some(self.processors))] {
            if let Some(value) = value.filter(|value| !(1..=1000).contains(value)) {
                lab_report::misuse!("--{name} is {value}: 1 to 1000 are possible");
            }
        }
        Ok(())
    }
}

/// Advises.
///
/// # Errors
/// A configuration, drive, device or recording that cannot be read, with its place; a drive that is too small; an interruption.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Advice>> {
    options.check()?;
    let ask = options.ask.then(|| control.cancel());
    let read = detect::read(&options.configuration, options.server, ask)?;
    let database = &*read.database;
    let words = database.words();
    let drive =
        Drive { name: options.drive.clone(), profile: profile::table(&options.drive)?, full: options.full };
    let (full_bytes, endurance) = drive.sizes()?;
    let cache = Cache::new(options.cache.clone());
    let dataset = options.dataset.unwrap_or_else(|| database.pool().saturating_mul(POOLS).min(full_bytes));
    ensure!(
        dataset <= full_bytes,
        "the database of {} does not fit on {} % of the drive {:?}: name a smaller --dataset, a larger --drive or more of --used",
        lab_report::figure::show_size(dataset),
        options.full,
        options.drive
    );
    let measured = match &options.measure {
        Measure::None => None,
        Measure::Sample(device, time) => Some(Kernel::default().sample(device, *time, control)?),
        Measure::Recording(path, form) => Some(rates::of_recording(path, *form, control)?),
    };
    let mut load = Load {
        connections: options.connections.unwrap_or(CONNECTIONS),
        dataset,
        processors: options.processors,
        warmup: options.warmup,
        seconds: options.seconds,
    };
    let extras = Extras {
        neighbour: Neighbour::new(options.neighbour.as_deref())?,
        quota: options.neighbour_quota,
        disk: Disk::new(&options.disk, options.controller, options.cache_size)?,
    };
    let Chosen { plans, excluded } = choose(database, read.server, &drive, &load, &options.layouts, &extras)?;
    let Some((first, ground)) = plans.first() else { bail!("there is no layout") };
    if let (Some(rates), None) = (&measured, options.connections) {
        let mut bed = Testbed::new(ground.clone(), &cache, control.cancel())?;
        let arrangement = first.arrangement;
        load.connections = calibrate(&mut bed, database, &load, arrangement, rates, options.seed, control)?;
    }
    let setting = Setting { database, load, seed: options.seed, seeds: options.seeds, cache: &cache };
    let runs = simulate::all(&setting, &plans, control)?;
    let Some(configured) = runs.first() else { bail!("there is no layout") };
    let of = |figure: &dyn Fn(&testbed::Measured) -> f64| {
        lab_report::results::median(&configured.iter().map(figure).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let (tps, written) = (of(&|run| run.tps), of(&|run| run.written));
    // A measured load says how much work there is; the generic one runs without pause.
    let work = measured.as_ref().map_or(tps, |rates| tps * rates.written_bytes_per_second / written.max(1.0));
    let found = plans
        .iter()
        .zip(&runs)
        .map(|((plan, _), runs)| simulate::found(plan, runs, configured, endurance, work));
    let found = found.collect::<Result<Vec<_>>>()?;
    let loaded = Loaded {
        description: description(words.model, &load, measured.as_ref()),
        connections: load.connections,
        dataset_bytes: dataset,
        scale: database.divisor(),
        processors: load.processors,
        seconds: load.seconds,
        seeds: options.seeds,
        written_over_measured: measured
            .as_ref()
            .map(|rates| written / rates.written_bytes_per_second.max(1.0)),
        measured,
    };
    let modelled = Modelled {
        name: options.drive.clone(),
        full_bytes,
        full_percent: options.full,
        fitted: words.fitted.is_some() && study_drive::is_published(&options.drive),
    };
    let is_cut = |runs: &[testbed::Measured]| runs.iter().any(|run| run.cycles == Some(0));
    let cut: Vec<_> =
        plans.iter().zip(&runs).filter(|(_, runs)| is_cut(runs)).map(|((plan, _), _)| plan.name).collect();
    let mut uncertainty = report::uncertainty(database, &loaded, &modelled, &found, &cut);
    if plans.iter().any(|(plan, _)| matches!(plan.place, Place::Disk { .. })) {
        uncertainty.push(extras.disk.limits());
    }
    let advice = Advice {
        server: read.server.to_string(),
        server_told_by: read.told_by,
        values_told_by: read.values_by,
        files: read.files.iter().map(|file| file.display().to_string()).collect(),
        settings: database.rows().to_vec(),
        defaults_source: read.server.kind.source(),
        recommended: report::recommended(&found, report::is_light(&loaded)),
        load: loaded,
        drive: modelled,
        excluded,
        layouts: found,
        uncertainty,
    };
    let text = report::text(&advice, words.confirm);
    Ok(Findings { results: advice, written: None, text, failure: None })
}

fn description(model: &str, load: &Load, measured: Option<&Rates>) -> String {
    let generic = format!(
        "TPC-C-like transactions of the model of {model}, without pause; connections: {}",
        load.connections
    );
    match measured {
        None => format!("generic: {generic}"),
        Some(rates) => format!("{generic}: as many as write about as much as measured ({})", rates.source),
    }
}

/// The number of connections that writes about as much as was measured. Each is tried for some seconds, the fewest first.
fn calibrate(
    bed: &mut Testbed,
    database: &dyn Database,
    load: &Load,
    arrangement: Arrangement,
    rates: &Rates,
    seed: u64,
    control: &Control,
) -> Result<u32> {
    const TRIAL: (u64, u64) = (1, 3);
    let mut progress = Progress::new(control, LEVELS.len() as u64);
    let mut best = (f64::INFINITY, LEVELS[0]);
    for connections in LEVELS {
        progress.begin(&format!("{connections} connections"));
        let trial = Load { connections, warmup: TRIAL.0, seconds: TRIAL.1, ..*load };
        let written = bed.run(database, &trial, arrangement, seed, control.cancel())?.written;
        progress.end(&format!(
            "{} MB/s written, {} measured",
            show(written / 1e6),
            show(rates.written_bytes_per_second / 1e6)
        ));
        let off = (written.max(1.0) / rates.written_bytes_per_second.max(1.0)).ln().abs();
        if off < best.0 {
            best = (off, connections);
        }
        if written >= rates.written_bytes_per_second {
            break;
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests;
