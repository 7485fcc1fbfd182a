//! `--set KEY=A,B,…`: what is varied, and whole studies for each combination of values.
//!
//! `tranche sim` makes a run for each combination (`sim`); a simulated study is repeated as a whole, on a drive whose TOML has
//! the values, and what all of them have found is put into one table.

pub(crate) mod axes;
pub(crate) mod keys;
mod table;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use live::Config;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, to_value};
use toml::Table;

use crate::bench;
use lab_report::{
    Findings, Misuse,
    control::{self, Control, Interrupted},
    figure, parallel, profile,
    results::{self, Host, Results},
};

/// `--set` of a simulated study.
#[derive(Args, Clone, Debug, Default)]
pub struct SetOptions {
    /// With --sim, repeat the study for each value of KEY. With several --set, repeat it for each combination. KEY is seed, or a key of the
    /// drive's TOML (set.1.spare). ftl.spare and gc.policy mean the first NVM Set on flash. Values may also be ranges: 1..5, 4..64:4 or
    /// 1..64:x2 (docs/sim.md)
    #[arg(long, value_name = "KEY=A,B,…")]
    pub set: Vec<String>,
}

/// A study that is repeated.
pub struct Study<'a> {
    /// Its name in results.
    pub name: &'static str,
    /// The name of the drive's profile.
    pub profile: &'a str,
    /// The TOML of this profile.
    pub toml: &'a Table,
    /// Seed of everything random.
    pub seed: u64,
    /// Receives a directory for each repetition, and the table of all.
    pub out: &'a Path,
    /// What the study makes of a drive's TOML: the drives that it runs on.
    pub drives: &'a (dyn Fn(&Table) -> Result<Vec<Config>> + Sync),
    /// Runs it on this TOML with this seed, and leaves its results in a directory.
    pub run: &'a Repetition<'a>,
}

type Repetition<'a> = dyn Fn(&Table, u64, &Path, &Control) -> Result<Findings<Results>> + Sync + 'a;

/// What is different in a repetition.
struct Combination {
    /// Counted from 1: also the name of its directory.
    number: usize,
    parameters: Vec<(String, String)>,
    toml: Table,
    seed: u64,
}

/// What became of one.
struct RepetitionResult<'a> {
    combination: &'a Combination,
    /// None if it failed.
    results: Option<Results>,
    /// What went wrong; there may be results beside it.
    problem: Option<String>,
}

/// The study with --set: one for each combination. `D` is the type of what the study's drive was.
#[derive(Serialize, JsonSchema)]
#[schemars(description = "The study with --set: one for each combination.")]
pub struct Repetitions<'a, D = Value> {
    /// Name of the study.
    study: &'a str,
    /// Always sim.
    #[schemars(extend("enum" = ["sim"]))]
    engine: &'static str,
    /// Profile of the drive.
    profile: &'a str,
    /// The seed that was given.
    seed: u64,
    /// The settings.
    set: &'a [String],
    /// The machine.
    host: Host,
    /// Time of this machine.
    #[schemars(extend("unit" = "s"))]
    wall_seconds: f64,
    /// The studies.
    runs: Vec<Repeated<'a, D>>,
}

/// A study of several.
#[derive(Serialize, JsonSchema)]
struct Repeated<'a, D> {
    /// Its settings: keys of --set, with their values.
    parameters: BTreeMap<String, String>,
    /// Directory of its results.
    directory: PathBuf,
    /// What went wrong.
    #[schemars(extend("null" = "nothing went wrong"))]
    problem: Option<&'a str>,
    /// What it found.
    #[schemars(extend("null" = "it failed"))]
    results: Option<&'a Results<D>>,
}

/// A seed, as `--set` has it.
///
/// # Errors
/// It is none.
pub(crate) fn seed(text: &str) -> Result<u64> {
    text.parse().map_err(|_| anyhow!("{text:?} is no seed: a whole number from 0 to {}", u64::MAX))
}

/// Settings as they are given.
pub(crate) fn settings(parameters: &[(String, String)]) -> String {
    parameters.iter().map(|(key, value)| format!("--set {key}={value}")).collect::<Vec<_>>().join(" ")
}

/// That a setting makes no sense.
pub(crate) fn misuse(key: &str, value: &str) -> Misuse {
    Misuse(format!("--set {key}={value}"))
}

/// What is wrong with a drive's TOML, without line and column: the settings were put into it, and the user has not seen it like that.
pub(crate) fn no_place(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let words = format!("{:#}", error.into());
    anyhow!("{}", words.lines().last().unwrap_or_default().to_owned())
}

impl Study<'_> {
    /// Runs the study for each combination of these settings. One that fails does not end the others.
    ///
    /// # Errors
    /// A setting makes no sense, or changes nothing for this study; the results cannot be written; an interruption before there was
    /// anything to report.
    pub fn sweep(&self, set: &[String], control: &Control) -> Result<Findings<Value>> {
        let combinations = self.combinations(set)?;
        results::directory(self.out)?;
        let began = Instant::now();
        let done = parallel::together(&combinations, |combination| self.one(combination, control));
        let done: Vec<RepetitionResult<'_>> = done.into_iter().flatten().collect();
        if done.is_empty() {
            return Err(Interrupted.into());
        }
        self.report(set, combinations.len(), &done, began.elapsed())
    }

    /// The repetitions that are asked for, each looked at as far as that can be done before it runs.
    fn combinations(&self, set: &[String]) -> Result<Vec<Combination>> {
        let axes = axes::parse(set)?;
        for axis in &axes {
            for value in &axis.values {
                self.matters(&axis.key, value).with_context(|| misuse(&axis.key, value))?;
            }
        }
        let mut combinations = Vec::new();
        for (number, parameters) in (1..).zip(axes::product(&axes)?) {
            let (mut toml, mut seed) = (self.toml.clone(), self.seed);
            for (key, value) in &parameters {
                self.set(&mut toml, &mut seed, key, value).with_context(|| misuse(key, value))?;
            }
            (self.drives)(&toml).map_err(no_place).with_context(|| Misuse(settings(&parameters)))?;
            combinations.push(Combination { number, parameters, toml, seed });
        }
        Ok(combinations)
    }

    fn set(&self, toml: &mut Table, seed: &mut u64, key: &str, value: &str) -> Result<()> {
        if key == "seed" {
            *seed = self::seed(value)?;
        } else if !keys::set(toml, key, value)? {
            let near = keys::meant(key, &["seed"]);
            bail!(
                "there is no key {key:?}: the load is the study's; there are seed, and {}{near}",
                keys::words()
            );
        }
        Ok(())
    }

    /// Refuses a value that makes another drive of the profile, but not of what the study makes of it.
    fn matters(&self, key: &str, value: &str) -> Result<()> {
        let (mut toml, mut seed) = (self.toml.clone(), self.seed);
        self.set(&mut toml, &mut seed, key, value)?;
        let plain =
            |toml: &Table| Some(format!("{:?}", Config::from_toml(&toml::to_string(toml).ok()?).ok()?));
        let drives = |toml: &Table| Some(format!("{:?}", (self.drives)(toml).ok()?));
        // What cannot be by itself may be beside other values.
        let (Some(before), Some(after)) = (plain(self.toml), plain(&toml)) else { return Ok(()) };
        let (Some(without), Some(with)) = (drives(self.toml), drives(&toml)) else { return Ok(()) };
        if before != after && without == with {
            bail!("that changes nothing: the study {} sets it itself, or does not use it", self.name);
        }
        Ok(())
    }

    /// Makes a repetition; none after it was cancelled.
    fn one<'c>(&self, combination: &'c Combination, control: &Control) -> Option<RepetitionResult<'c>> {
        if control.is_cancelled() {
            return None;
        }
        let parameters = &combination.parameters;
        let label: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let control = control.labelled(&label.join(" "));
        let directory = self.directory(combination);
        let ran = (self.run)(&combination.toml, combination.seed, &directory, &control);
        match ran {
            Ok(outcome) => Some(RepetitionResult {
                combination,
                results: Some(outcome.results),
                problem: outcome.failure,
            }),
            Err(error) if error.is::<Interrupted>() => None,
            Err(error) => {
                Some(RepetitionResult { combination, results: None, problem: Some(format!("{error:#}")) })
            }
        }
    }

    fn directory(&self, combination: &Combination) -> PathBuf {
        self.out.join(combination.number.to_string())
    }

    /// Writes the files of all repetitions.
    fn report<'a>(
        &'a self,
        set: &'a [String],
        count: usize,
        done: &'a [RepetitionResult<'_>],
        took: Duration,
    ) -> Result<Findings<Value>> {
        let sheet = table::sheet(done);
        let parquet = self.out.join("results.parquet");
        let about = vec![
            ("tranche.study", self.name.to_owned()),
            ("tranche.drive", self.profile.to_owned()),
            ("tranche.set", set.join(" ")),
        ];
        sheet.write_parquet(&parquet, about)?;
        let run = |done: &'a RepetitionResult<'_>| Repeated {
            parameters: done.combination.parameters.iter().cloned().collect(),
            directory: self.directory(done.combination),
            problem: done.problem.as_deref(),
            results: done.results.as_ref(),
        };
        let results = to_value(Repetitions {
            study: self.name,
            engine: "sim",
            profile: self.profile,
            seed: self.seed,
            set,
            host: Host::this(Vec::new()),
            wall_seconds: took.as_secs_f64(),
            runs: done.iter().map(run).collect(),
        })
        .context("making results.json")?;
        let json = serde_json::to_string_pretty(&results).context("making results.json")? + "\n";
        for (name, content) in [("results.json", json), ("results.csv", sheet.csv())] {
            let path = self.out.join(name);
            std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        let mut problems: Vec<String> = Vec::new();
        for done in done {
            let problem = done.problem.as_ref().filter(|problem| *problem != control::PARTIAL);
            problems.extend(
                problem.map(|problem| format!("{}: {problem}", settings(&done.combination.parameters))),
            );
        }
        if done.len() < count || done.iter().any(|done| done.problem.as_deref() == Some(control::PARTIAL)) {
            problems.push(control::PARTIAL.to_owned());
        }
        let text = format!(
            "{}\n{} of {count} studies in {} s; reports in {}, all figures in {}",
            table::text(done),
            done.len(),
            figure::show(took.as_secs_f64()),
            self.out.join("N").join("report.html").display(),
            parquet.display()
        );
        let failure = (!problems.is_empty()).then(|| bench::lines(problems));
        Ok(Findings { results, written: Some(self.out.to_owned()), text, failure })
    }
}

/// Where the TOML of a profile comes from.
pub type Profiles<'a> = dyn Fn(&str) -> Result<Table> + 'a;

/// Runs a study on the profiles that are built in: once, or for each drive of `--set`.
///
/// # Errors
/// Those of the study.
pub fn study(
    set: &[String],
    once: impl FnOnce(&Profiles<'_>) -> Result<Findings<Results>>,
    repeated: impl FnOnce(&Profiles<'_>) -> Result<Findings<Value>>,
) -> Result<Findings<Value>> {
    if set.is_empty() { value(once(&profile::table)?) } else { repeated(&profile::table) }
}

/// Results for the command line, whether of one study or of many.
pub fn value(outcome: Findings<Results>) -> Result<Findings<Value>> {
    let results = to_value(outcome.results).context("making JSON of the results")?;
    Ok(Findings { results, written: outcome.written, text: outcome.text, failure: outcome.failure })
}
