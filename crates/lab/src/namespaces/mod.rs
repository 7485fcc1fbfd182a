//! `tranche study namespaces`: what an application gains that scales with the number of devices, when one drive is cut into several
//! namespaces.
//!
//! The application is Aerospike's certification tool ([`workload::act`]). Over a thousand threads do small reads. For each device one thread
//! reads large blocks and one writes them, each with one request at a time. The drive is prepared as the tool's act_prep does. Then
//! the study looks for the highest multiple of the standard load that passes, for several numbers of equal namespaces.

mod act_drive;
mod agreement;
mod live;
mod published;
mod report;
mod search;
mod trial;

use std::path::PathBuf;

use anyhow::{Result, bail};
use run::{Config, sim::Contents};
use serde_json::Value;
use workload::act::HostTime;

use self::{
    act_drive::{ActDrive, ParkedDrive},
    agreement::Pair,
    search::HighestLoad,
    trial::{Length, Plan},
};
use crate::{
    Findings,
    control::{self, Control, Interrupted, Progress, Steps},
    parallel,
    results::{self, Host, Overwrite, Point, Published, Results, Run, compare, seed_of},
    sweep::{self, Profiles, SetOptions, Study},
};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The drive in this process under the wall's clock, in slow motion, beside the same in virtual time
    pub live: bool,
    /// In virtual time; so it is, too, if neither is given
    pub sim: bool,
    /// Live: a second of the drive takes so many on the clock on the wall, so that what the machine adds to a command weighs as much less
    pub slow_motion: u32,
    /// Numbers of namespaces [default: 1,2,4,8,16,32, as far as there are so many; live: 1,8]
    pub counts: Vec<u32>,
    /// Cut the drive into so many namespaces, write all of them, and use the first of them: as published with 8. Otherwise the
    /// drive is cut into as many as are used
    pub of: Option<u32>,
    /// The drive: a profile or a TOML file; its first namespace says how much is cut into equal ones
    pub drive: String,
    /// How long a load must pass, after half of that which is not measured; the real test takes 24 hours [default: 10s; live: 1s]
    pub window: Option<u32>,
    /// What the application's machine takes for its threads: `linux` (measured: docs/studies/namespaces.md), or `none`, so that the drive
    /// alone limits them
    pub host_time: HostTimes,
    /// Repetitions, with other random numbers
    pub repeat: u32,
    /// Short windows and rough steps: to see that it works, not for figures
    pub quick: bool,
    /// Directory for report.html, results.json and results.csv
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Seed of everything random
    pub seed: u64,
    /// What is varied.
    pub sweep: SetOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            live: false,
            sim: false,
            slow_motion: 32,
            counts: Vec::new(),
            of: None,
            drive: DEFAULT_PROFILE.into(),
            window: None,
            host_time: HostTimes::Linux,
            repeat: 1,
            quick: false,
            out: "out/namespaces".into(),
            overwrite: Overwrite::default(),
            seed: 1,
            sweep: SetOptions::default(),
        }
    }
}

/// What the application's machine takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostTimes {
    /// As measured on a Linux machine
    Linux,
    /// No time
    None,
}

impl HostTimes {
    fn times(self) -> HostTime {
        match self {
            Self::Linux => HostTime::LINUX,
            Self::None => HostTime::NONE,
        }
    }
}

/// The published drive with short blocks.
pub const DEFAULT_PROFILE: &str = "micron-9300-max-short";

/// Most namespaces of a drive, as published.
pub const COUNT_MAX: u32 = 32;

/// Numbers of namespaces if none are given, in virtual time and live.
const COUNTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const LIVE_COUNTS: [u32; 2] = [published::PAIR.1, published::PAIR.0];

impl Options {
    fn length(&self) -> Length {
        let usual = if self.quick || self.live { 1 } else { 10 };
        let window = self.window.unwrap_or(usual);
        Length { ramp: window.div_ceil(2), window }
    }

    /// Numbers of namespaces.
    fn counts(&self) -> &[u32] {
        let usual: &[u32] = if self.live { &LIVE_COUNTS } else { &COUNTS };
        match &self.counts[..] {
            [] => &usual[..usual.partition_point(|&count| count <= self.most())],
            given => given,
        }
    }

    /// Most namespaces that can be used.
    fn most(&self) -> u32 {
        self.of.unwrap_or(COUNT_MAX)
    }

    /// A drive for tests on so many namespaces.
    fn drive(&self, toml: &toml::Table, count: u32) -> Result<Config> {
        act_drive::cut(toml, self.of.unwrap_or(count))
    }

    /// A number of namespaces, in words.
    fn describe(&self, count: u32) -> String {
        match self.of {
            Some(of) => format!("{count} of {of} equal namespaces of 512-byte blocks"),
            None => format!("{count} equal namespaces of 512-byte blocks"),
        }
    }

    /// A test of a repetition.
    fn plan(&self, multiple: u32, repetition: u32) -> Plan {
        Plan {
            multiple,
            length: self.length(),
            host_time: self.host_time.times(),
            seed: self.seed(repetition),
        }
    }

    /// The seed of a repetition.
    fn seed(&self, repetition: u32) -> u64 {
        seed_of(self.seed, repetition)
    }

    /// How exactly the highest multiple is found: to this share of it, in per cent.
    fn step(&self) -> u32 {
        if self.quick { 20 } else { 4 }
    }
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist, a drive that cannot be cut so, a directory that cannot be written; an interruption before there was anything to
/// report.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    options.overwrite.check(&options.out)?;
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
        out: &options.out,
        drives: &|toml| options.counts().iter().map(|&count| options.drive(toml, count)).collect(),
        run: &|toml, seed, out, control| {
            let options = Options { seed, out: out.to_owned(), ..options.clone() };
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
        crate::misuse!("--counts names a number twice");
    }
    let most = options.most();
    if let Some(count) = seen.iter().find(|count| !(1..=most).contains(*count)) {
        crate::misuse!("--counts: {count} namespaces cannot be: from 1 to {most}");
    }
    let toml = profiles(&options.drive)?;
    for &count in &seen {
        options.drive(&toml, count)?;
    }
    results::directory(&options.out)?;
    let mut done = if options.live { live(options, &toml, control)? } else { all(options, &toml, control)? };
    if done.found.is_empty() && done.pairs.is_empty() {
        bail!("interrupted before there was anything to report");
    }
    let mut results = assemble(options, &toml, &done);
    results.note(report::notes(&results, &done, options), options.quick);
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    done.found.sort_by_key(|found| (found.count, found.repetition));
    report::write(&results, &done, &page)?;
    let text = report::text(&results, &done, &page);
    let failure = done.interrupted.then(|| control::PARTIAL.to_owned());
    Ok(Findings { results, written: Some(options.out.clone()), text, failure })
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
    let (drive, seed) = (options.drive(toml, count)?, options.seed(repetition));
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
    let (config, seed) = (options.drive(toml, count)?, options.seed(repetition));
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
        study: "namespaces".into(),
        engine: if options.live { "live" } else { "sim" },
        seed: options.seed,
        drive: serde_json::json!({ "profile": options.drive, "toml": toml }),
        host: Host::this(Vec::new()),
        variants,
        comparisons,
        notes: Vec::new(),
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
