//! `tranche study doublewrite --sim`: the published server and database as a model ([`database_models::innodb`]), on the published drive in virtual
//! time.
//!
//! Each variant has its own drive and its own processor. `lab_models::innodb::run` prepares and measures it.

mod report;
#[cfg(test)]
mod tests;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sim::Sim;

use super::{report as common, settings::Settings};
use crate::StudyDrive;
use lab_engines::{
    sim::{Cache, usual_cache},
    sweep::{Profiles, Study},
};
use lab_models::innodb::{ServerDrive, Variant, drive};
use lab_report::{
    Findings,
    control::{self, Control, Interrupted, Steps},
    figure::show_size,
    memory, parallel,
    results::{Results, Run},
};

/// Memory of a server's model beside its drive: a pool of 16 GiB has a million frames.
const SERVER: u64 = 256 << 20;

/// What became of a variant.
#[derive(Default)]
struct PieceResult {
    runs: Vec<Run>,
    error: Option<anyhow::Error>,
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist or is too small, a directory that cannot be written; an interruption before there was anything to report.
pub(super) fn run_on(
    options: &Settings,
    profiles: &Profiles<'_>,
    control: &Control,
) -> Result<Findings<Results>> {
    let toml = profiles(&options.drive)?;
    lab_report::results::directory(&options.out)?;
    let pieces: Vec<(Variant, u32)> =
        options.variants.iter().flat_map(|&v| (0..options.repeat).map(move |r| (v, r))).collect();
    let steps = pieces.len() * (options.connections.len() + 1);
    let progress = Steps::new(control, steps as u64);
    let cache = Cache::new(usual_cache());
    let load = options.load();
    let begin = Instant::now();
    let alone = alone(options, &toml, pieces.len(), &progress)?;
    let done = parallel::map(control, &pieces, |&(variant, repetition)| {
        let _turn =
            alone.as_ref().map(|turn: &Mutex<()>| turn.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = PieceResult::default();
        let stage = ServerDrive::new(&load, &toml, variant, repetition, &cache, control.cancel());
        let ran = stage.and_then(|stage| stage.run(&progress, &mut result.runs));
        result.error = ran.err();
        result
    });
    drop(progress);
    let mut variants: Vec<lab_report::results::Variant> = Vec::new();
    let mut interrupted = false;
    for (&(variant, _), done) in pieces.iter().zip(done) {
        if let Some(error) = done.error {
            if !error.is::<Interrupted>() {
                return Err(error).with_context(|| format!("in variant {variant}"));
            }
            interrupted = true;
        }
        match variants.iter_mut().find(|v| v.name == variant.name()) {
            Some(found) => found.runs.extend(done.runs),
            None => variants.push(lab_report::results::Variant {
                name: variant.name().into(),
                description: variant.description().into(),
                runs: done.runs,
            }),
        }
    }
    if variants.iter().all(|v| v.runs.is_empty()) {
        return Err(Interrupted.into());
    }
    for variant in &mut variants {
        variant.runs.sort_by_key(|run| (run.repetition, run.at.get("threads").copied()));
    }
    let mut results = Results {
        drive: serde_json::json!(StudyDrive {
            profile: Some(&options.drive),
            toml: Some(&drive::toml(&toml, Variant::Nand, &options.drive)?),
            ..StudyDrive::default()
        }),
        comparisons: options.comparisons(&variants)?,
        variants,
        ..Results::empty("doublewrite", "sim", options.seed, vec![report::modelled(options).into()])
    };
    let mut notes = report::notes(&results, options);
    notes.push(effort(begin.elapsed()));
    results.note(notes, options.quick);
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    common::write(&results, &page, report::answer(&results, options), report::sections(&results, options))?;
    let text = report::text(&results, options, &page);
    let failure = interrupted.then(|| control::PARTIAL.to_owned());
    Ok(Findings { results, written: Some(options.out.clone()), text, failure })
}

/// A lock for drives that run one after the other; none if they fit in memory together.
fn alone(
    options: &Settings,
    toml: &toml::Table,
    pieces: usize,
    progress: &Steps,
) -> Result<Option<Mutex<()>>> {
    let bytes = |&variant: &Variant| {
        let config = drive::config(toml, variant, &options.drive)?;
        anyhow::Ok(Sim::memory(&config, sim::Contents::None))
    };
    let drives: Vec<u64> = options.variants.iter().map(bytes).collect::<Result<_>>()?;
    let each = drives.into_iter().max().unwrap_or(0) + SERVER;
    let together = parallel::width(pieces);
    let Some(room) = memory::available().map(memory::spendable) else { return Ok(None) };
    let (needs, has) = (show_size(each), show_size(room));
    if room < each {
        progress.note(&format!(
            "a drive takes about {needs} of memory, and {has} are free with a margin: it may not fit"
        ));
    }
    if room / together >= each || together == 1 {
        return Ok(None);
    }
    progress.note(&format!(
        "drives of about {needs} of memory run one after the other: {has} are free with a margin"
    ));
    Ok(Some(Mutex::default()))
}

/// What the study took of this machine.
fn effort(time: Duration) -> String {
    let memory = memory::peak().map_or(String::new(), |bytes| format!(" and {} of memory", show_size(bytes)));
    format!("It took {:.1} minutes{memory}.", time.as_secs_f64() / 60.0)
}

/// Repeats the study on every drive of `--set`.
///
/// # Errors
/// A setting that makes no sense, and like [`run_on`].
pub(super) fn sweep_on(
    options: &Settings,
    set: &[String],
    profiles: &Profiles<'_>,
    control: &Control,
) -> Result<Findings<serde_json::Value>> {
    let drive = |toml: &toml::Table, variant| drive::config(toml, variant, &options.drive);
    Study {
        name: "doublewrite",
        profile: &options.drive,
        toml: &profiles(&options.drive)?,
        seed: options.seed,
        out: &options.out,
        drives: &|toml| options.variants.iter().map(|&variant| drive(toml, variant)).collect(),
        run: &|toml, seed, out, control| {
            let options = Settings { seed, out: out.to_owned(), ..options.clone() };
            run_on(&options, &|_| Ok(toml.clone()), control)
        },
    }
    .sweep(set, control)
}
