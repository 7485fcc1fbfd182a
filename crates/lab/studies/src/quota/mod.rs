//! `tranche study quota`: namespaces with quotas, and the noisy neighbour with its cures.
//!
//! The drive is reached through NVMe only; what it refuses is reported as not available.

mod agreement;
mod neighbour;
mod report;
mod scale;
mod tenants;
mod variants;
mod windows;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, value_parser};
use live::Config;
use serde_json::Value;

pub use self::variants::Variant;
use self::{
    neighbour::{Noise, SharedDrive, Unavailable},
    scale::Scale,
    tenants::Tenants,
};
use crate::StudyDrive;
use lab_engines::{
    stage::{SimStage, Stage},
    sweep::{self, Profiles, SetOptions, Study},
};
use lab_report::{
    Findings,
    control::{self, Cancel, Control, Interrupted, Progress, Steps},
    options::{DefaultDirectory, ResultsDirectory, defaults, once},
    parallel,
    results::{self, Comparison, Published, Results, Run, Spread, compare},
};

/// Options of `tranche study quota`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only live: the lab drive in this process, with threads that load it, beside the same in virtual time [default: this and
    /// --sim]
    #[arg(long, conflicts_with = "sim")]
    pub live: bool,
    /// Only in virtual time, at the published drive's speed
    #[arg(long)]
    pub sim: bool,
    /// What is done for NS1
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "none,fair,weights,quota,sets,fdp,windows",
        value_name = "NAME,…"
    )]
    pub variants: Vec<Variant>,
    /// Repetitions, with other random numbers; live ones take turns
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Drive of --sim: a profile or a TOML file
    #[arg(long, alias = "profile", default_value = DEFAULT_PROFILE, value_name = "NAME|FILE")]
    pub drive: String,
    /// Part 2 live: a second of the drive takes N seconds on the wall's clock. So what the machine adds to a command weighs N times
    /// less
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub slow_motion: u32,
    /// Fewer points and shorter runs: to see that it works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Where results go.
    #[command(flatten)]
    pub out: ResultsDirectory<Self>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// What is varied.
    #[command(flatten)]
    pub sweep: SetOptions,
}

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/quota";
    const FILES: &'static str = "report.html, results.json and results.csv; those of the live part are in `live` below it when both parts run";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

/// The published drive with short blocks.
pub const DEFAULT_PROFILE: &str = "pblaze5-910-short";

/// What one engine has found.
struct EngineResult {
    results: Results,
    /// Part 1 of the first repetition; none when it did not come to that.
    tenants: Option<Tenants>,
    /// Variants that the drive refuses, and why.
    unavailable: Vec<(Variant, String)>,
    interrupted: bool,
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist, a drive that cannot be, a directory that cannot be written; an interruption before there was
/// anything to report.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    let options = &Options { out: options.out.free()?, ..options.clone() };
    sweep::study(
        &options.sweep.set,
        |profiles| run_on(options, profiles, control),
        |profiles| sweep_on(options, profiles, control),
    )
}

/// Repeats the simulated study on every drive of `--set`.
///
/// # Errors
/// A setting that makes no sense, and like [`run()`].
pub fn sweep_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Value>> {
    if !options.sim {
        lab_report::misuse!("--set varies the simulated study: add --sim");
    }
    let scale = Scale::full(&options.drive, options.quick);
    let drive = |toml: toml::Table| Ok(Config::from_toml(&toml::to_string(&toml)?)?);
    Study {
        name: "quota",
        profile: &options.drive,
        toml: &profiles(&options.drive)?,
        seed: options.seed,
        out: options.out.path(),
        drives: &|toml| options.variants.iter().map(|variant| drive(variant.drive(toml, &scale)?)).collect(),
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
    once("--variants", &options.variants)?;
    results::directory(options.out.path())?;
    let mut found = Vec::new();
    if !options.live {
        let scale = Scale::full(&options.drive, options.quick);
        let toml = profiles(&scale.profile)?;
        found.push((options.out.path().to_owned(), simulate(options, &scale, &toml, control)?));
    }
    if !options.sim && !control.is_cancelled() {
        let scale = Scale::lab(options.quick);
        let toml = profiles(&scale.profile)?;
        let out = if options.live { options.out.path().to_owned() } else { options.out.path().join("live") };
        found.push((out, live(options, &scale, &toml, control)?));
    }
    finish(found)
}

/// Writes what was found; the first is the study's result.
fn finish(found: Vec<(PathBuf, EngineResult)>) -> Result<Findings<Results>> {
    let mut text = String::new();
    let mut interrupted = false;
    for (out, found) in &found {
        interrupted |= found.interrupted;
        results::directory(out)?;
        found.results.write(out)?;
        let page = out.join("report.html");
        report::write(found, &page)?;
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&report::text(found, &page));
    }
    let failure = interrupted.then(|| control::PARTIAL.to_owned());
    let (place, first) = found.into_iter().next().context("nothing ran")?;
    Ok(Findings { results: first.results, written: Some(place), text, failure })
}

/// A piece of work of the simulated part.
#[derive(Clone, Copy)]
enum Piece {
    Tenants,
    Variant(Variant),
}

/// What came of it.
#[derive(Default)]
struct PieceResult {
    tenants: Vec<Tenants>,
    runs: Vec<Run>,
    unavailable: Option<String>,
    error: Option<anyhow::Error>,
}

/// Everything in virtual time, on as many processors as there are.
fn simulate(options: &Options, scale: &Scale, toml: &toml::Table, control: &Control) -> Result<EngineResult> {
    let pieces: Vec<Piece> =
        std::iter::once(Piece::Tenants).chain(options.variants.iter().map(|v| Piece::Variant(*v))).collect();
    let noises = Noise::all(scale, options.quick);
    let repeat = options.repeat as usize;
    let steps = repeat + options.variants.len() * (noises.len() * repeat + 1);
    let simulation = Simulation {
        options,
        scale,
        toml,
        noises: &noises,
        cancel: control.cancel(),
        progress: Steps::new(control, steps as u64),
    };
    let done = parallel::map(control, &pieces, |piece| {
        let mut result = PieceResult::default();
        let ended = match piece {
            Piece::Tenants => simulation.tenants(&mut result),
            Piece::Variant(variant) => simulation.variant(*variant, &mut result),
        };
        result.error = ended.err();
        result
    });
    drop(simulation);
    let mut tenants = Vec::new();
    let (mut variants, mut unavailable) = (Vec::new(), Vec::new());
    let mut interrupted = false;
    for (piece, done) in pieces.iter().zip(done) {
        if let Some(error) = done.error {
            if !error.is::<Interrupted>() {
                return Err(error);
            }
            interrupted = true;
        }
        match piece {
            Piece::Tenants => tenants = done.tenants,
            Piece::Variant(variant) => {
                unavailable.extend(done.unavailable.map(|why| (*variant, why)));
                variants.push((*variant, done.runs));
            }
        }
    }
    assemble::<SimStage>(options, scale, toml, tenants, variants, unavailable, interrupted)
}

/// What the pieces of the simulated part share.
struct Simulation<'a> {
    options: &'a Options,
    scale: &'a Scale,
    toml: &'a toml::Table,
    noises: &'a [Noise],
    cancel: &'a Cancel,
    progress: Steps,
}

impl Simulation<'_> {
    /// Part 1.
    fn tenants(&self, done: &mut PieceResult) -> Result<()> {
        let Simulation { options, scale, .. } = *self;
        for repetition in 0..options.repeat {
            // Each on a new drive: nothing is written, so that they differ in nothing else.
            let mut stage = tenants::prepare(self.toml, scale, false, self.cancel)?;
            let seed = options.seed.wrapping_add(repetition.into());
            done.tenants.push(tenants::play(&mut stage, scale, repetition, seed)?);
            self.progress.done(&format!("eight namespaces, repetition {}", repetition + 1), "");
        }
        Ok(())
    }

    /// A variant of part 2.
    fn variant(&self, variant: Variant, done: &mut PieceResult) -> Result<()> {
        let Simulation { options, scale, noises, .. } = *self;
        let mut shared = match SharedDrive::new(variant, self.toml, scale, options.seed, false, self.cancel) {
            Err(error) if error.is::<Unavailable>() => {
                done.unavailable = Some(error.to_string());
                return Ok(());
            }
            other => other?,
        };
        self.progress.done(&format!("{variant}: a used drive"), "");
        for repetition in 0..options.repeat {
            let seed = seed(options, repetition);
            if repetition > 0 {
                shared.age(scale, seed)?;
            }
            for &noise in noises {
                let run = neighbour::play(shared.begin()?, &shared, noise, scale, repetition, seed)?;
                self.progress
                    .done(&format!("{variant}, neighbour {}", noise.title()), &report::summary(&run));
                done.runs.push(run);
            }
        }
        Ok(())
    }
}

/// The seed of a repetition.
fn seed(options: &Options, repetition: u32) -> u64 {
    options.seed.wrapping_add(u64::from(repetition).wrapping_mul(7919))
}

/// Everything live, then the same in virtual time.
fn live(options: &Options, scale: &Scale, toml: &toml::Table, control: &Control) -> Result<EngineResult> {
    let noises = Noise::all(scale, options.quick);
    let mut found = LiveRuns::default();
    let interrupted = match found.play(options, scale, toml, &noises, control) {
        Ok(()) => false,
        Err(error) if error.is::<Interrupted>() => true,
        Err(error) => return Err(error),
    };
    let LiveRuns { tenants, variants, unavailable } = found;
    let mut found = assemble::<lab_engines::stage::LiveStage>(
        options,
        scale,
        toml,
        tenants,
        variants,
        unavailable,
        interrupted,
    )?;
    if !interrupted {
        let same = simulate(options, scale, toml, control)?;
        found.interrupted = same.interrupted;
        agreement::add(&mut found.results, same.results);
    }
    Ok(found)
}

/// What has run live so far.
#[derive(Default)]
struct LiveRuns {
    tenants: Vec<Tenants>,
    variants: Vec<(Variant, Vec<Run>)>,
    unavailable: Vec<(Variant, String)>,
}

impl LiveRuns {
    fn play(
        &mut self,
        options: &Options,
        scale: &Scale,
        toml: &toml::Table,
        noises: &[Noise],
        control: &Control,
    ) -> Result<()> {
        let repeat = options.repeat as usize;
        let steps = repeat + options.variants.len() * (noises.len() * repeat + 1);
        let mut progress = Progress::new(control, steps as u64);
        for repetition in 0..options.repeat {
            progress.begin(&format!("eight namespaces, live, repetition {}", repetition + 1));
            let mut stage = tenants::prepare(toml, scale, true, control.cancel())?.go_live(1)?;
            let seed = options.seed.wrapping_add(repetition.into());
            self.tenants.push(tenants::play(&mut stage, scale, repetition, seed)?);
            progress.end("");
        }
        let mut drives = Vec::new();
        for &variant in &options.variants {
            progress.begin(&format!("{variant}: a used drive"));
            self.variants.push((variant, Vec::new()));
            match SharedDrive::new(variant, toml, scale, options.seed, true, control.cancel()) {
                Ok(shared) => drives.push((variant, shared)),
                Err(error) if error.is::<Unavailable>() => {
                    self.unavailable.push((variant, error.to_string()))
                }
                Err(error) => return Err(error),
            }
            progress.end("");
        }
        for repetition in 0..options.repeat {
            let seed = seed(options, repetition);
            for &noise in noises {
                for (variant, shared) in &mut drives {
                    if repetition > 0 && noise == Noise::Idle {
                        shared.age(scale, seed)?;
                    }
                    progress.begin(&format!("{variant}, live, neighbour {}", noise.title()));
                    let stage = shared.begin()?.go_live(options.slow_motion)?;
                    let run = neighbour::play(stage, shared, noise, scale, repetition, seed)?;
                    progress.end(&report::summary(&run));
                    let runs = self.variants.iter_mut().find(|(v, _)| v == variant);
                    runs.context("a variant without a place")?.1.push(run);
                }
            }
        }
        Ok(())
    }
}

/// Puts results together.
fn assemble<S: Stage>(
    options: &Options,
    scale: &Scale,
    toml: &toml::Table,
    tenants: Vec<Tenants>,
    runs: Vec<(Variant, Vec<Run>)>,
    unavailable: Vec<(Variant, String)>,
    interrupted: bool,
) -> Result<EngineResult> {
    let mut variants = Vec::new();
    let mut comparisons = Vec::new();
    for index in 0..tenants::COUNT {
        let name = format!("ns{}", index + 1);
        let set = tenants::rate(scale, index);
        let runs: Vec<Run> = tenants.iter().filter_map(|t| t.runs.get(index).cloned()).collect();
        comparisons.extend(over_set(&name, &runs, set, index));
        let description =
            format!("One of eight namespaces that are read sequentially; quota {} MB/s.", mega(set));
        variants.push(results::Variant { name, description, runs });
    }
    for (variant, runs) in runs {
        if !unavailable.iter().any(|(v, _)| *v == variant) {
            let (name, description) = (variant.name().into(), variant.description().into());
            variants.push(results::Variant { name, description, runs });
        }
    }
    if let Some(none) = variants.iter().find(|v| v.name == Variant::None.name()) {
        for variant in options.variants.iter().filter(|v| **v != Variant::None) {
            let Some(of) = variants.iter().find(|v| v.name == variant.name()) else { continue };
            for metric in METRICS {
                comparisons.extend(compare(metric, of, none, |_| None));
            }
        }
    }
    let drive = serde_json::json!(StudyDrive {
        profile: Some(&scale.profile),
        toml: Some(toml),
        ..StudyDrive::default()
    });
    let mut results = Results {
        drive,
        variants,
        comparisons,
        ..Results::empty("quota", S::ENGINE, options.seed, Vec::new())
    };
    let tenants = tenants.into_iter().next();
    results.note(report::notes(&results, scale, tenants.as_ref(), &unavailable, options), options.quick);
    Ok(EngineResult { results, tenants, unavailable, interrupted })
}

/// Figures of part 2 that are compared with those without help.
const METRICS: [&str; 4] = ["ns1_p50_ms", "ns1_p99_ms", "ns1_p999_ms", "ns2_MBps"];

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// What a namespace read, over what was set.
fn over_set(name: &str, runs: &[Run], set: u64, index: usize) -> Option<Comparison> {
    let ratios: Vec<f64> =
        runs.iter().filter_map(|r| Some(r.metrics.get("read_MBps")? / mega(set))).collect();
    let published = mega(scale::PUBLISHED_RATES[index / (tenants::COUNT / 2)]);
    let Spread { median: ratio, low, high } = Spread::of(&ratios)?;
    Some(Comparison {
        metric: "read_MBps".into(),
        of: name.into(),
        over: "set".into(),
        at: None,
        ratio,
        low,
        high,
        published: Some(Published { value: published, unit: "MB/s".into(), kind: "absolute" }),
        host_bound: false,
    })
}
