//! `tranche study namespaces`: what an application gains that scales with the number of devices, when one drive is cut into several
//! namespaces.
//!
//! The application is Aerospike's certification tool ([`workload::act`]): small reads from over a thousand threads, but large blocks from one
//! thread per device that reads them and one that writes them, each with one request at a time. The drive is prepared as the tool's
//! act_prep does; then the highest multiple of the standard load that passes is looked for, for several numbers of equal namespaces.

mod published;
mod report;
mod rig;
mod search;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use self::{
    rig::{Length, Rig},
    search::Found,
};
use crate::{
    Outcome,
    drive::Program,
    interrupt::{self, Interrupted},
    layout::Layout,
    parallel,
    progress::Steps,
    results::{self, Host, Point, Published, Results, Run, compare},
    sweep::{self, SetOptions, Study},
};

/// Options of the study. It runs in virtual time.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Numbers of namespaces
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32", value_name = "N,…")]
    pub counts: Vec<u32>,
    /// The drive: a profile or a TOML file; its first namespace says how much is cut into equal ones
    #[arg(long, default_value = DEFAULT_PROFILE, value_name = "NAME|FILE")]
    pub profile: String,
    /// Seconds for which a load must pass, after half of that which is not measured; the real test takes 24 hours
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub window: u32,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Short windows and rough steps: to see that it works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Directory for report.html, results.json and results.csv
    #[arg(long, default_value = "out/namespaces", value_name = "DIR")]
    pub out: PathBuf,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// What is varied.
    #[command(flatten)]
    pub sweep: SetOptions,
}

/// The published drive with short blocks.
pub const DEFAULT_PROFILE: &str = "micron-9300-max-short";

/// Where a drive's TOML comes from.
pub type Profiles<'a> = dyn Fn(&str) -> Result<toml::Table> + 'a;

/// Most namespaces of a drive, as published.
const COUNT_MAX: u32 = 32;

impl Options {
    fn length(&self) -> Length {
        if self.quick {
            Length { ramp: 1, window: 1 }
        } else {
            Length { ramp: self.window.div_ceil(2), window: self.window }
        }
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
pub fn run(options: &Options) -> Result<Outcome<Value>> {
    interrupt::install().context("installing signal handlers")?;
    let program = Program::find()?;
    let profiles =
        |profile: &str| program.drive_toml(&Layout::new("namespaces", Some(profile.to_owned()), Vec::new()));
    match options.sweep.set.is_empty() {
        true => sweep::value(run_on(options, &profiles)?),
        false => sweep_on(options, &profiles),
    }
}

/// Repeats the study on every drive of `--set`.
///
/// # Errors
/// A setting that makes no sense, and like [`run`].
pub fn sweep_on(options: &Options, profiles: &Profiles<'_>) -> Result<Outcome<Value>> {
    Study {
        name: "namespaces",
        profile: &options.profile,
        toml: &profiles(&options.profile)?,
        seed: options.seed,
        out: &options.out,
        drives: &|toml| options.counts.iter().map(|&count| rig::cut(toml, count)).collect(),
        run: &|toml, seed, out| {
            let options = Options { seed, out: out.to_owned(), ..options.clone() };
            run_on(&options, &|_| Ok(toml.clone()))
        },
    }
    .sweep(&options.sweep.set)
}

/// Runs the study with profiles from elsewhere.
///
/// # Errors
/// Like [`run`].
pub fn run_on(options: &Options, profiles: &Profiles<'_>) -> Result<Outcome<Results>> {
    let mut seen = options.counts.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != options.counts.len() || seen.is_empty() {
        bail!("--counts names a number twice, or none");
    }
    if let Some(count) = seen.iter().find(|count| !(1..=COUNT_MAX).contains(*count)) {
        bail!("--counts: {count} namespaces cannot be: from 1 to {COUNT_MAX}");
    }
    let toml = profiles(&options.profile)?;
    for &count in &seen {
        rig::cut(&toml, count)?;
    }
    let (found, interrupted) = all(options, &toml)?;
    if found.is_empty() {
        bail!("interrupted before there was anything to report");
    }
    let results = assemble(options, &toml, &found);
    std::fs::create_dir_all(&options.out).with_context(|| format!("making {}", options.out.display()))?;
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    report::write(&results, &found, &page)?;
    let text = report::text(&results, &found, &page);
    let failure = interrupted.then(|| interrupt::PARTIAL.to_owned());
    Ok(Outcome { results, text, failure })
}

/// Everything, on as many processors as there are; whether it was interrupted.
fn all(options: &Options, toml: &toml::Table) -> Result<(Vec<Found>, bool)> {
    let repetitions = (0..options.repeat).flat_map(|r| options.counts.iter().map(move |&count| (count, r)));
    let pieces: Vec<(u32, u32)> = repetitions.collect();
    let progress = Steps::new(pieces.len() as u64);
    let done = parallel::map(&pieces, |&(count, repetition)| {
        let found = one(options, toml, count, repetition);
        if let Ok(found) = &found {
            progress.done(&format!("{count} namespaces"), &found.summary());
        }
        found
    });
    drop(progress);
    let (mut found, mut interrupted) = (Vec::new(), false);
    for done in done {
        match done {
            Ok(one) => found.push(one),
            Err(error) if error.is::<Interrupted>() => interrupted = true,
            Err(error) => return Err(error),
        }
    }
    Ok((found, interrupted))
}

fn one(options: &Options, toml: &toml::Table, count: u32, repetition: u32) -> Result<Found> {
    interrupt::check()?;
    let seed = options.seed.wrapping_add(u64::from(repetition) << 32);
    let mut rig = Rig::prepare(rig::cut(toml, count)?, seed)?;
    let length = options.length();
    let (passed, failed) = search::highest(options.step(), |multiple| rig.test(multiple, length, seed))?;
    Ok(Found { count, repetition, passed, failed })
}

fn assemble(options: &Options, toml: &toml::Table, found: &[Found]) -> Results {
    let mut variants: Vec<results::Variant> = Vec::new();
    for &count in &options.counts {
        let runs: Vec<Run> = found.iter().filter(|f| f.count == count).map(|f| f.run(options)).collect();
        if !runs.is_empty() {
            let description = format!("{count} equal namespaces of 512-byte blocks.");
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
        engine: "sim",
        seed: options.seed,
        drive: serde_json::json!({ "profile": options.profile, "toml": toml }),
        host: Host::this(Vec::new()),
        variants,
        comparisons,
        notes: Vec::new(),
    };
    results.notes = report::notes(&results, found, options);
    results
}

impl Found {
    /// As a run of the results: the test at the highest multiple that passes.
    fn run(&self, options: &Options) -> Run {
        let mut run = Run {
            at: Point::new(),
            repetition: self.repetition,
            seconds: f64::from(options.length().window),
            warmup_seconds: f64::from(options.length().ramp),
            ..Run::default()
        };
        let multiple = self.passed.as_ref().map_or(0, |trial| trial.multiple);
        run.metrics.insert("act_multiple".into(), multiple.into());
        if let Some(trial) = &self.passed {
            let over =
                |index: usize| 100.0 * trial.window.over[index] as f64 / trial.window.reads.max(1) as f64;
            let large = (trial.large[0] + trial.large[1]) * 131_072.0 / 1e6;
            for (name, value) in [
                ("reads_per_second", trial.window.reads as f64 / trial.seconds),
                ("large_block_MBps", large),
                ("reads_over_1ms_percent", over(0)),
                ("reads_over_8ms_percent", over(1)),
                ("reads_over_64ms_percent", over(2)),
                ("large_block_read_mean_ms", trial.large_mean_ms[0]),
                ("large_block_write_mean_ms", trial.large_mean_ms[1]),
                ("large_block_read_p99_ms", trial.large_p99_ms[0]),
                ("large_block_write_p99_ms", trial.large_p99_ms[1]),
                ("write_amplification", trial.write_amplification),
            ] {
                run.metrics.insert(name.into(), value);
            }
            run.latency_ms.insert("small_reads".into(), trial.latency);
        }
        run
    }
}
