//! `tranche study namespaces`: what an application gains that scales with the number of devices, when one drive is cut into several
//! namespaces.
//!
//! The application is Aerospike's certification tool ([`load_formats::act`]). Over a thousand threads do small reads. For each device one thread
//! reads large blocks and one writes them, each with one request at a time. The drive is prepared as the tool's act_prep does. Then
//! the study looks for the highest multiple of the standard load that passes, for several numbers of equal namespaces.

mod act_drive;
mod agreement;
mod live;
mod options;
mod published;
mod report;
mod search;
mod trial;

use anyhow::{Result, bail};
use serde_json::Value;
use sim::Contents;

pub use self::options::{COUNT_MAX, DEFAULT_PROFILE, HostTimes, Options};
use self::{
    act_drive::{ActDrive, ParkedDrive},
    agreement::Pair,
    search::HighestLoad,
};
use crate::StudyDrive;
use lab_engines::sweep::{self, Profiles, Study};
use lab_report::{
    Findings,
    control::{self, Control, Interrupted, Progress, Steps},
    options::ResultsDirectory,
    parallel,
    results::{self, Point, Published, Results, Run, compare, seed_of},
};

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist, a drive that cannot be cut so, a directory that cannot be written; an interruption before there was anything to
/// report.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    let options = &Options { out: options.out.free()?, ..options.clone() };
    sweep::study(
        &options.sweep.set,
        |profiles| run_on(options, profiles, control),
        |profiles| sweep_on(options, profiles, control),
    )
}

/// Repeats the study on every drive of `--set`.
///
/// # Errors
/// A setting that makes no sense, and like [`run()`].
pub fn sweep_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Value>> {
    Study {
        name: "namespaces",
        profile: &options.drive,
        toml: &profiles(&options.drive)?,
        seed: options.seed,
        out: options.out.path(),
        drives: &|toml| options.counts().iter().map(|&count| options.drive(toml, count)).collect(),
        run: &|toml, seed, out, control| {
            let options = Options { seed, out: ResultsDirectory::at(out), ..options.clone() };
            run_on(&options, &|_| Ok(toml.clone()), control)
        },
    }
    .sweep(&options.sweep.set, control)
}

/// Runs the study with profiles from elsewhere.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
    let mut seen = options.counts().to_vec();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != options.counts().len() {
        lab_report::misuse!("--counts names a number twice");
    }
    let most = options.most();
    if let Some(count) = seen.iter().find(|count| !(1..=most).contains(*count)) {
        lab_report::misuse!("--counts: {count} namespaces cannot be: from 1 to {most}");
    }
    let toml = profiles(&options.drive)?;
    for &count in &seen {
        options.drive(&toml, count)?;
    }
    results::directory(options.out.path())?;
    let mut done = if options.live { live(options, &toml, control)? } else { all(options, &toml, control)? };
    if done.found.is_empty() && done.pairs.is_empty() {
        bail!("interrupted before there was anything to report");
    }
    let mut results = assemble(options, &toml, &done);
    results.note(report::notes(&results, &done, options), options.quick);
    results.write(options.out.path())?;
    let page = options.out.path().join("report.html");
    done.found.sort_by_key(|found| (found.count, found.repetition));
    report::write(&results, &done, &page)?;
    let text = report::text(&results, &done, &page);
    let failure = done.interrupted.then(|| control::PARTIAL.to_owned());
    Ok(Findings { results, written: Some(options.out.path().to_owned()), text, failure })
}

/// What came of it.
#[derive(Default)]
struct Trials {
    /// In virtual time: the highest loads that pass.
    found: Vec<HighestLoad>,
    /// The same tests live and in virtual time.
    pairs: Vec<Pair>,
    interrupted: bool,
}

/// Everything in virtual time, on as many processors as there are.
fn all(options: &Options, toml: &toml::Table, control: &Control) -> Result<Trials> {
    let repetitions = (0..options.repeat).flat_map(|r| options.counts().iter().map(move |&count| (count, r)));
    let pieces: Vec<(u32, u32)> = repetitions.collect();
    let progress = Steps::new(control, pieces.len() as u64);
    let found = parallel::map(control, &pieces, |&(count, repetition)| {
        let found = one(options, toml, count, repetition, control);
        if let Ok(found) = &found {
            progress.done(&format!("{count} namespaces"), &found.summary());
        }
        found
    });
    drop(progress);
    let mut done = Trials::default();
    for found in found {
        match found {
            Ok(one) => done.found.push(one),
            Err(error) if error.is::<Interrupted>() => done.interrupted = true,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn one(
    options: &Options,
    toml: &toml::Table,
    count: u32,
    repetition: u32,
    control: &Control,
) -> Result<HighestLoad> {
    control.check()?;
    let (drive, seed) = (options.drive(toml, count)?, seed_of(options.seed, repetition));
    let mut drive = ActDrive::prepare(drive, count, Contents::None, seed, control.cancel())?;
    let test = |multiple| drive.test(&options.plan(multiple, repetition));
    let (passed, failed) = search::highest(options.step(), test)?;
    Ok(HighestLoad { count, repetition, passed, failed })
}

/// Live, one after the other. First the highest load that passes is looked for in virtual time. Then that load, half of it, and the lowest load
/// that does not pass run both live and in virtual time.
fn live(options: &Options, toml: &toml::Table, control: &Control) -> Result<Trials> {
    let mut done = Trials::default();
    let mut progress = Progress::new(control, (options.repeat as usize * options.counts().len() * 4) as u64);
    for repetition in 0..options.repeat {
        for &count in options.counts() {
            match live_one(options, toml, (count, repetition), control, &mut progress, &mut done) {
                Ok(()) => {}
                Err(error) if error.is::<Interrupted>() => {
                    done.interrupted = true;
                    return Ok(done);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(done)
}

fn live_one(
    options: &Options,
    toml: &toml::Table,
    (count, repetition): (u32, u32),
    control: &Control,
    progress: &mut Progress,
    done: &mut Trials,
) -> Result<()> {
    control.check()?;
    progress.begin(&format!("{count} namespaces in virtual time"));
    let (config, seed) = (options.drive(toml, count)?, seed_of(options.seed, repetition));
    let drive: ParkedDrive =
        ActDrive::prepare(config, count, Contents::Later, seed, control.cancel())?.park()?;
    let plan = |multiple| options.plan(multiple, repetition);
    let (passed, failed) = search::highest(options.step(), |multiple| drive.test(&plan(multiple)))?;
    let found = HighestLoad { count, repetition, passed, failed };
    progress.end(&found.summary());
    let half = match &found.passed {
        Some(passed) if passed.multiple > 1 => Some(drive.test(&plan(passed.multiple / 2))?),
        _ => None,
    };
    for sim in [half, found.passed.clone(), found.failed.clone()] {
        let Some(sim) = sim else {
            progress.end("");
            continue;
        };
        progress.begin(&format!("{count} namespaces live, {}x", sim.multiple));
        let live = drive.test_live(&plan(sim.multiple), options.slow_motion)?;
        let pair = Pair { count, repetition, live, sim };
        progress.end(&pair.summary());
        done.pairs.push(pair);
    }
    done.found.push(found);
    Ok(())
}

fn assemble(options: &Options, toml: &toml::Table, done: &Trials) -> Results {
    let found = &done.found;
    let mut variants: Vec<results::Variant> = Vec::new();
    for &count in options.counts() {
        let runs: Vec<Run> = found.iter().filter(|f| f.count == count).map(HighestLoad::run).collect();
        if !runs.is_empty() {
            let description = format!("{}.", options.describe(count));
            variants.push(results::Variant { name: count.to_string(), description, runs });
        }
    }
    let mut comparisons = Vec::new();
    let base = variants.iter().find(|v| v.name == published::PAIR.1.to_string());
    for of in variants.iter().filter(|v| base.is_some_and(|base| base.name != v.name)) {
        let Some(base) = base else { continue };
        let pair = of.name == published::PAIR.0.to_string();
        for metric in ["act_multiple", "reads_per_second", "large_block_MBps"] {
            let value = (pair && metric == "act_multiple").then_some(published::EIGHT_OVER_ONE);
            comparisons.extend(compare(metric, of, base, |_| value.map(Published::ratio)));
        }
    }
    let mut results = Results {
        drive: serde_json::json!(StudyDrive {
            profile: Some(&options.drive),
            toml: Some(toml),
            ..StudyDrive::default()
        }),
        variants,
        comparisons,
        ..Results::empty("namespaces", if options.live { "live" } else { "sim" }, options.seed, Vec::new())
    };
    agreement::add(&mut results, &done.pairs, options);
    results
}

impl HighestLoad {
    /// As a run of the results: the test at the highest multiple that passes.
    fn run(&self) -> Run {
        let mut run = match &self.passed {
            Some(trial) => trial.run(Point::new(), self.repetition),
            None => Run { repetition: self.repetition, ..Run::default() },
        };
        let multiple = self.passed.as_ref().map_or(0, |trial| trial.multiple);
        run.metrics.insert("act_multiple".into(), multiple.into());
        run
    }
}
