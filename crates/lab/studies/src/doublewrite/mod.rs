//! `tranche study doublewrite`: what does it buy a database to have its doublewrite buffer on a DRAM namespace?

mod engine;
mod live;
mod measured;
mod published;
mod report;
mod servers;
mod settings;
mod sim;

use anyhow::{Result, bail};
use serde_json::Value;

use self::{engine::Engine, settings::Settings};
pub use self::{
    live::run_on,
    servers::Servers,
    settings::{METRICS, Options},
};
pub use crate::layouts::doublewrite::DEFAULT_PROFILE;
use lab_databases::drive::Program;
use lab_engines::sweep::{self, Profiles};
pub use lab_models::innodb::Variant;
use lab_report::{Findings, control::Control, results::Results};

/// Runs the study and writes its results.
///
/// # Errors
/// When something that it needs is missing, says what and where to get it; when the database or the drive fails, with the
/// end of their logs. Nothing is left mounted or running.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    let options = &Options { out: options.out.free()?, ..options.clone() };
    if options.quick && !options.sim {
        lab_report::misuse!("--quick is for the simulated study: add --sim");
    }
    let engine = Engine::choose(options, || engine::obstacle(options))?;
    if let Some(line) = engine.line(options) {
        control.note(&line);
    }
    if engine != Engine::Live {
        let options = &Options { sim: true, ..options.clone() };
        let settings = Settings::new(options)?;
        let set = &options.sweep.set;
        return sweep::study(
            set,
            |profiles| sim::run_on(&settings, profiles, control),
            |profiles| sim::sweep_on(&settings, set, profiles, control),
        );
    }
    if !options.sweep.set.is_empty() {
        lab_report::misuse!("--set varies the simulated study: add --sim");
    }
    let mut servers = engine::servers(options)?;
    let program = Program::find_or_this()?;
    match servers.pop() {
        Some(server) if servers.is_empty() => sweep::value(run_on(options, server, program, control)?),
        last => servers::run(options, servers.into_iter().chain(last).collect(), &program, control),
    }
}

/// Runs the study in virtual time, with profiles from elsewhere. Nothing else than that is asked for.
///
/// # Errors
/// Options that only make sense live, and like [`run()`].
pub fn simulate(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
    let options = &Options { sim: true, ..options.clone() };
    Engine::choose(options, || None)?;
    if !options.sweep.set.is_empty() {
        bail!("one study is no sweep");
    }
    sim::run_on(&Settings::new(options)?, profiles, control)
}
