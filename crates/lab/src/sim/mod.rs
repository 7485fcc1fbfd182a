//! A load on a drive in virtual time: `tranche sim`.
//!
//! The drive is the same as the one that is served, with another clock; the load is made of the same actors as those of the load
//! generator. The same drive, load and seed give the same result on every machine.

mod act;
mod agreement;
mod ahead;
mod cache;
mod case;
mod doubt;
mod figures;
mod fit;
mod jobs;
mod keys;
mod load;
mod onlook;
mod pool;
mod replay;
mod report;
mod series;
mod settings;
mod settling;
mod tally;
mod trace_file;
mod watch;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

pub use self::{
    ahead::{Planned, planned, prepare},
    cache::usual_cache,
    load::{Format, LoadFile},
    onlook::{Onlooker, Pace},
    replay::TraceOptions,
    settings::Settings,
    trace_file::TraceForm,
};
pub(crate) use self::{
    cache::Cache,
    jobs::{Moved, moved, play_text},
    trace_file::open as open_trace,
};
use self::{
    case::{Case, RunResult},
    settings::cases,
};
pub use crate::sweep::sheet::{Column, Figure, FigureKind, Sheet};
use crate::{
    Findings, bench,
    control::{self, Control},
    figure, memory,
    results::Host,
    sweep::sheet::Row,
};
pub use run::{
    Precondition,
    sim::{Contents, Inspector, Nanos},
};

/// Nanoseconds of an interval, at least.
const SHORTEST: u64 = 1000;

/// What came of a simulation.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// For programs: the run, or all of them if something is varied (docs/json.md).
    pub document: Value,
    /// A row for each run, with the columns of results.parquet.
    pub runs: Sheet,
    /// A row for each interval of each run, with the columns of series.parquet; without an interval it has none.
    pub series: Sheet,
}

/// Runs the load, for who prints what came of it.
///
/// # Errors
/// As of [`simulate`].
pub fn run(options: &Settings, control: &Control) -> Result<Findings<Value>> {
    run_before(options, control, None)
}

/// As [`run`], while somebody looks on, if there is somebody. What comes of the run is the same.
///
/// # Errors
/// As of [`simulate`]; somebody looks on, and several runs are asked for.
pub fn run_before(
    options: &Settings,
    control: &Control,
    onlooker: Option<&dyn Onlooker>,
) -> Result<Findings<Value>> {
    let Findings { results, written, text, failure } = simulate_before(options, control, onlooker)?;
    Ok(Findings { results: results.document, written, text, failure })
}

/// Runs the load.
///
/// # Errors
/// The drive or the load makes no sense, or they do not fit each other; an interruption before there was anything to report. What goes
/// wrong with requests is the outcome's failure, beside the results.
pub fn simulate(options: &Settings, control: &Control) -> Result<Findings<Simulated>> {
    simulate_before(options, control, None)
}

fn simulate_before(
    options: &Settings,
    control: &Control,
    onlooker: Option<&dyn Onlooker>,
) -> Result<Findings<Simulated>> {
    let out = options.out.as_deref();
    if options.interval.is_some_and(|interval| interval < SHORTEST) {
        bail!("an interval of the time series is a microsecond or more");
    }
    let cases = cases(options)?;
    if onlooker.is_some() && cases.len() != 1 {
        bail!("one run at a time can be looked at, and {} are asked for", cases.len());
    }
    if let Some(out) = out {
        options.overwrite.check(out)?;
    }
    fit::check(&cases, control.cancel())?;
    let threads = threads(&cases, options.parallel);
    if let Some(out) = out {
        crate::results::directory(out)?;
    }
    let began = Instant::now();
    let cache = Cache::new(options.cache.clone().filter(|_| options.policies.is_empty()));
    let ran = pool::run(&cases, &cache, threads, control, onlooker);
    let elapsed = began.elapsed();
    let runs: Vec<(&Case, Result<RunResult>)> =
        cases.iter().zip(ran).filter_map(|(case, ran)| Some((case, ran?))).collect();
    warn(&runs);
    if options.set.is_empty() {
        let (case, ran) = runs.into_iter().next().ok_or_else(|| anyhow!("interrupted"))?;
        let ran = ran?;
        let mut problems = ran.played.problems.clone();
        let mut place = None;
        let runs = [(case, Ok(ran.clone()))];
        if let Some(out) = out {
            match write(out, options, &runs, &document(options, &runs, elapsed, threads)) {
                Ok(()) => place = Some(out.to_owned()),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        return Ok(Findings {
            results: Simulated {
                document: report::document(case, &ran),
                runs: Sheet::new(&rows(&runs)),
                series: Sheet::new(&series(&runs)),
            },
            written: place,
            text: report::text(case, &ran),
            failure: failure(problems, ran.played.interrupted),
        });
    }
    sweep(options, out, &cases, runs, elapsed, threads, control)
}

/// Warns of what makes figures mean less than they seem to; of what several runs have in common once.
fn warn(runs: &[(&Case, Result<RunResult>)]) {
    let mut said: Vec<(String, usize, String)> = Vec::new();
    for (case, ran) in runs {
        for doubt in ran.as_ref().map(|ran| case.doubts(ran)).unwrap_or_default() {
            match said.iter_mut().find(|(same, ..)| *same == doubt) {
                Some((_, count, _)) => *count += 1,
                None => said.push((doubt, 1, case.settings())),
            }
        }
    }
    for (doubt, count, settings) in said {
        match count {
            1 if runs.len() > 1 => tracing::warn!("{settings}: {doubt}"),
            _ if runs.len() == count => tracing::warn!("{doubt}"),
            _ => tracing::warn!("{count} of {} runs: {doubt}", runs.len()),
        }
    }
}

/// Why the program must fail, if it must.
fn failure(mut problems: Vec<String>, interrupted: bool) -> Option<String> {
    if interrupted {
        problems.push(control::PARTIAL.to_owned());
    }
    (!problems.is_empty()).then(|| bench::lines(problems))
}

/// How many runs at the same time: as wanted, or one for each processor as far as memory goes.
fn threads(cases: &[Case], wanted: Option<usize>) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, Into::into);
    let most = wanted.unwrap_or(processors).min(cases.len()).max(1);
    let each = cases.iter().map(Case::memory).max().unwrap_or(0).max(1);
    let Some(available) = memory::available() else { return most };
    let fit = usize::try_from(available / each).unwrap_or(usize::MAX);
    if fit >= most {
        return most;
    }
    let (each, available) = (figure::show_size(each), figure::show_size(available));
    match (wanted, fit) {
        (Some(_), _) => {
            tracing::warn!(
                "{most} drives of about {each} do not fit in the {available} of memory that there are"
            );
            most
        }
        (None, 0) => {
            tracing::warn!("a drive takes about {each}, and {available} of memory are left");
            1
        }
        (None, fit) => {
            tracing::info!(
                "{fit} runs at the same time: each takes about {each} of the {available} of memory that are left"
            );
            fit
        }
    }
}

/// Reports a sweep.
fn sweep(
    options: &Settings,
    out: Option<&Path>,
    cases: &[Case],
    runs: Vec<(&Case, Result<RunResult>)>,
    elapsed: Duration,
    threads: usize,
    control: &Control,
) -> Result<Findings<Simulated>> {
    let mut problems = Vec::new();
    for (case, ran) in &runs {
        let settings = case.settings();
        match ran {
            Err(error) => problems.push(format!("{settings}: {error:#}")),
            Ok(ran) => problems.extend(ran.played.problems.iter().map(|p| format!("{settings}: {p}"))),
        }
    }
    let ended = |ran: &Result<RunResult>| ran.as_ref().is_ok_and(|ran| !ran.played.interrupted);
    let interrupted =
        control.is_cancelled() && runs.iter().filter(|(_, ran)| ended(ran)).count() < cases.len();
    let mut text = report::table(&rows(&runs));
    let mut written = None;
    let results = match out {
        Some(out) => {
            let results = document(options, &runs, elapsed, threads);
            text.push_str(&format!("\n{}", efficiency(&runs, cases.len(), elapsed, threads)));
            // The table is told all the same.
            match write(out, options, &runs, &results) {
                Ok(()) => written = Some(out.to_owned()),
                Err(error) => problems.push(format!("{error:#}")),
            }
            results
        }
        None => document(options, &runs, elapsed, threads),
    };
    let series = Sheet::new(&series(&runs));
    let results = Simulated { document: results, runs: Sheet::new(&rows(&runs)), series };
    Ok(Findings { results, written, text, failure: failure(problems, interrupted) })
}

fn rows<'a>(runs: &[(&'a Case, Result<RunResult>)]) -> Vec<Row<'a>> {
    let row = |(case, ran): &(&'a Case, Result<RunResult>)| {
        let figures = match ran {
            Ok(ran) => figures::columns(case, ran),
            Err(error) => figures::failed(case, &format!("{error:#}")),
        };
        Row { parameters: case.load.in_bytes(&case.parameters).into(), figures }
    };
    runs.iter().map(row).collect()
}

/// The intervals of all runs, one after the other.
fn series<'a>(runs: &[(&'a Case, Result<RunResult>)]) -> Vec<Row<'a>> {
    let rows = |(case, ran): &(&'a Case, Result<RunResult>)| {
        let parameters = case.load.in_bytes(&case.parameters);
        let series = ran.as_ref().map(|ran| ran.series.clone()).unwrap_or_default();
        series.into_iter().map(move |figures| Row { parameters: parameters.clone().into(), figures })
    };
    runs.iter().flat_map(rows).collect()
}

/// How well the processors were used, in a sentence.
fn efficiency(
    runs: &[(&Case, Result<RunResult>)],
    asked: usize,
    elapsed: Duration,
    threads: usize,
) -> String {
    let share = busy(runs) / (elapsed.as_secs_f64() * threads as f64).max(1e-9);
    let count = match runs.len() == asked {
        true => asked.to_string(),
        false => format!("{} of {asked}", runs.len()),
    };
    format!(
        "{count} {}, {threads} at a time, in {} s; {:.1} % of that time was theirs",
        if asked == 1 { "run" } else { "runs" },
        figure::show(elapsed.as_secs_f64()),
        (share * 100.0).clamp(0.0, 100.0)
    )
}

/// Seconds that all runs together took.
fn busy(runs: &[(&Case, Result<RunResult>)]) -> f64 {
    let all = runs.iter().filter_map(|(_, ran)| ran.as_ref().ok());
    // The sum of nothing would be -0.
    all.fold(0.0, |sum, ran| sum + (ran.preparation + ran.wall).as_secs_f64())
}

/// All runs for programs.
fn document(
    options: &Settings,
    runs: &[(&Case, Result<RunResult>)],
    elapsed: Duration,
    threads: usize,
) -> Value {
    let one = |(case, ran): &(&Case, Result<RunResult>)| match ran {
        Ok(ran) => report::document(case, ran),
        Err(error) => report::failed(case, &format!("{error:#}")),
    };
    json!({
        "engine": "sim",
        "load": options.load.source,
        "drive": options.drive,
        "seed": options.seed,
        "set": options.set,
        "host": Host::this(Vec::new()),
        "threads": threads,
        "wall_seconds": elapsed.as_secs_f64(),
        "busy_seconds": busy(runs),
        "peak_memory_bytes": memory::peak(),
        "runs": runs.iter().map(one).collect::<Vec<_>>(),
    })
}

/// Writes the files of the results; `results` is what is in the JSON file.
fn write(out: &Path, options: &Settings, runs: &[(&Case, Result<RunResult>)], results: &Value) -> Result<()> {
    let sheet = Sheet::new(&rows(runs));
    let about = vec![
        ("tranche.load", options.load.source.clone()),
        ("tranche.drive", options.drive.clone()),
        ("tranche.set", options.set.join(" ")),
    ];
    let series = series(runs);
    if !series.is_empty() {
        Sheet::new(&series).write_parquet(&out.join("series.parquet"), about.clone())?;
    }
    sheet.write_parquet(&out.join("results.parquet"), about)?;
    let json = serde_json::to_string_pretty(results).context("making results.json")? + "\n";
    for (name, content) in [("results.json", json), ("results.csv", sheet.csv())] {
        let path = out.join(name);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
