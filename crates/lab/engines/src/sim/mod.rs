//! A load on a drive in virtual time: `tranche sim`.
//!
//! The drive is the same as the one that is served, with another clock; the load is made of the same actors as those of the load
//! generator. The same drive, load and seed give the same result on every machine.

mod act;
mod agreement;
mod cache;
mod case;
mod document;
mod ended_run;
mod figures;
mod fit;
mod jobs;
mod journal;
mod keys;
mod load;
mod load_document;
mod onlooker;
mod planned_runs;
mod pool;
mod replay;
mod report;
mod series;
mod settings;
mod settling;
mod tally;
mod trace_file;
mod warnings;
mod watch;

use std::{
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, to_value};

pub(crate) use self::jobs::moved;
pub use self::{
    cache::{Cache, usual_cache},
    document::{Run, SweepDocument},
    jobs::{Moved, play_text},
    load::{Format, LoadFile},
    load_document::{ActDocument, TraceDocument},
    onlooker::{Onlooker, Pace},
    planned_runs::{Planned, planned, prepare},
    replay::TraceOptions,
    settings::Settings,
    trace_file::{TraceForm, open as open_trace},
};
use self::{
    case::{Case, State},
    ended_run::EndedRun,
    journal::{Journal, Kept},
    settings::cases,
};
use crate::bench;
pub use lab_report::sheet::{Column, Figure, FigureKind, Sheet, parameter};
use lab_report::{
    Findings,
    control::{self, Control},
    figure, memory,
    results::{Host, JOURNAL},
    sheet::Row,
};
pub use sim::{Contents, Inspector, Nanos, Precondition};

/// Nanoseconds of an interval, at least.
const MIN_INTERVAL_NANOS: u64 = 1000;

/// What came of a simulation.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// For programs: the run, or all of them if something is varied.
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
    if options.interval.is_some_and(|interval| interval < MIN_INTERVAL_NANOS) {
        bail!("an interval of the time series is a microsecond or more");
    }
    if options.resume && (options.set.is_empty() || out.is_none()) {
        lab_report::misuse!("--resume continues a sweep: it needs --set, and the directory of the results");
    }
    let cases = cases(options)?;
    if onlooker.is_some() && cases.len() != 1 {
        bail!("one run at a time can be looked at, and {} are asked for", cases.len());
    }
    if let Some(out) = out.filter(|out| !(options.resume && out.join(JOURNAL).exists())) {
        options.overwrite.check(out)?;
    }
    fit::check(&cases, control.cancel())?;
    if let Some(out) = out {
        lab_report::results::directory(out)?;
    }
    let cache = Cache::new(options.cache.clone().filter(|_| options.policies.is_empty()));
    if !options.set.is_empty() {
        return Sweep::begin(options, &cases)?.run(&cache, control, onlooker);
    }
    let began = Instant::now();
    let case = cases.first().context("there is no run")?;
    let ran = pool::run(&[case], &cache, 1, control, onlooker, &|_, ran| ran);
    let ran = ran.into_iter().next().flatten().ok_or_else(|| anyhow!("interrupted"))??;
    let (text, interrupted) = (report::text(case, &ran), ran.played.interrupted);
    let ended = EndedRun::new(case, &Ok(ran));
    for warning in &ended.warnings {
        tracing::warn!("{warning}");
    }
    let mut problems = ended.problems.clone();
    let mut place = None;
    let runs = [(case, ended)];
    if let Some(out) = out {
        match write(out, options, &runs, &to_value(document(options, &runs, began.elapsed(), 1))?) {
            Ok(()) => place = Some(out.to_owned()),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    let results = Simulated {
        document: to_value(&runs[0].1.document)?,
        runs: Sheet::new(&rows(&runs)),
        series: Sheet::new(&series(&runs)),
    };
    Ok(Findings { results, written: place, text, failure: failure(problems, interrupted) })
}

/// Why the program must fail, if it must.
fn failure(mut problems: Vec<String>, interrupted: bool) -> Option<String> {
    if interrupted {
        problems.push(control::PARTIAL.to_owned());
    }
    (!problems.is_empty()).then(|| bench::lines(problems))
}

/// How many runs at the same time: as wanted, or one for each processor as far as memory goes.
fn threads(cases: &[&Case], wanted: Option<usize>) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, Into::into);
    let most = wanted.unwrap_or(processors).min(cases.len()).max(1);
    let each = cases.iter().map(|case| case.memory()).max().unwrap_or(0).max(1);
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

/// A run for each combination of what is varied.
struct Sweep<'a> {
    options: &'a Settings,
    cases: &'a [Case],
    /// Runs that an earlier sweep in the same directory has made, and those that are left.
    kept: Vec<Option<EndedRun>>,
    left: Vec<&'a Case>,
    journal: Option<Journal>,
    threads: usize,
}

impl<'a> Sweep<'a> {
    fn begin(options: &'a Settings, cases: &'a [Case]) -> Result<Self> {
        let (journal, known) = match &options.out {
            Some(out) => Journal::open(out, options).map(|(journal, kept)| (Some(journal), kept))?,
            None => (None, Kept::default()),
        };
        let kept = cases.iter().map(|case| known.of(case)).collect::<Result<Vec<_>>>()?;
        let left: Vec<&Case> =
            cases.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(case, _)| case).collect();
        if left.len() < cases.len() {
            tracing::info!("{} of {} runs are done already", cases.len() - left.len(), cases.len());
        }
        let threads = threads(&left, options.parallel);
        Ok(Self { options, cases, kept, left, journal, threads })
    }

    fn run(
        self,
        cache: &Cache,
        control: &Control,
        onlooker: Option<&dyn Onlooker>,
    ) -> Result<Findings<Simulated>> {
        let Self { options, cases, kept, left, journal, threads } = self;
        let began = Instant::now();
        // What cannot be written down here is lost with this program alone.
        let unwritten = Mutex::new(None);
        let write_down = |case: &Case, ran: Result<case::RunResult>| {
            let ended = EndedRun::new(case, &ran);
            if let Some(journal) = &journal
                && let Err(error) = journal.add(case, &ended)
                && let Ok(mut first) = unwritten.lock()
            {
                first.get_or_insert(error);
            }
            ended
        };
        let mut new = pool::run(&left, cache, threads, control, onlooker, &write_down).into_iter();
        let elapsed = began.elapsed();
        let all = kept.into_iter().map(|kept| kept.or_else(|| new.next().flatten()));
        let runs: Vec<(&Case, EndedRun)> =
            cases.iter().zip(all).filter_map(|(case, ended)| Some((case, ended?))).collect();
        let mut problems: Vec<String> = runs
            .iter()
            .flat_map(|(case, ended)| ended.problems.iter().map(|p| format!("{}: {p}", case.settings())))
            .collect();
        problems.extend(unwritten.into_inner().ok().flatten().map(|error| format!("{error:#}")));
        let warned = runs.iter().filter(|(_, ended)| !ended.warnings.is_empty()).count();
        if warned > 0 {
            tracing::warn!(
                "{warned} of {} runs have warnings: they are below the table, and in the results",
                runs.len()
            );
        }
        let ended = runs.iter().filter(|(_, ended)| ended.state != State::Interrupted).count();
        let interrupted = control.is_cancelled() && ended < cases.len();
        let mut text = report::table(&runs);
        let mut written = None;
        let results = to_value(document(options, &runs, elapsed, threads))?;
        if let Some(out) = &options.out {
            text.push_str(&format!("\n{}", efficiency(&runs, cases.len(), elapsed, threads)));
            // The table is told all the same.
            match write(out, options, &runs, &results) {
                Ok(()) => written = Some(out.clone()),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        if interrupted && written.is_some() {
            problems.push("the same command with --resume makes the runs that are left".to_owned());
        }
        let series = Sheet::new(&series(&runs));
        let results = Simulated { document: results, runs: Sheet::new(&rows(&runs)), series };
        Ok(Findings { results, written, text, failure: failure(problems, interrupted) })
    }
}

fn rows<'a>(runs: &'a [(&Case, EndedRun)]) -> Vec<Row<'a>> {
    let row = |(case, ended): &'a (&Case, EndedRun)| Row {
        parameters: case.load.in_bytes(&case.parameters).into(),
        figures: ended.figures.clone(),
    };
    runs.iter().map(row).collect()
}

/// The intervals of all runs, one after the other.
fn series<'a>(runs: &'a [(&Case, EndedRun)]) -> Vec<Row<'a>> {
    let rows = |(case, ended): &'a (&Case, EndedRun)| {
        let parameters = case.load.in_bytes(&case.parameters);
        let row =
            move |figures: &Vec<_>| Row { parameters: parameters.clone().into(), figures: figures.clone() };
        ended.series.iter().map(row)
    };
    runs.iter().flat_map(rows).collect()
}

/// How well the processors were used, in a sentence.
fn efficiency(runs: &[(&Case, EndedRun)], asked: usize, elapsed: Duration, threads: usize) -> String {
    let share = busy(runs) / (elapsed.as_secs_f64() * threads as f64).max(1e-9);
    let count = match runs.len() == asked {
        true => asked.to_string(),
        false => format!("{} of {asked}", runs.len()),
    };
    let kept = match kept(runs) {
        0 => String::new(),
        kept => format!(" ({kept} of them made earlier)"),
    };
    format!(
        "{count} {}{kept}, {threads} at a time, in {} s; {:.1} % of that time was theirs",
        if asked == 1 { "run" } else { "runs" },
        figure::show(elapsed.as_secs_f64()),
        (share * 100.0).clamp(0.0, 100.0)
    )
}

/// Runs that an earlier sweep has made.
fn kept(runs: &[(&Case, EndedRun)]) -> usize {
    runs.iter().filter(|(_, ended)| ended.took.is_none()).count()
}

/// Seconds that all runs together took.
fn busy(runs: &[(&Case, EndedRun)]) -> f64 {
    runs.iter().filter_map(|(_, ended)| ended.took).sum::<Duration>().as_secs_f64()
}

/// All runs for programs.
fn document<'a>(
    options: &'a Settings,
    runs: &'a [(&Case, EndedRun)],
    elapsed: Duration,
    threads: usize,
) -> SweepDocument<'a> {
    SweepDocument {
        engine: "sim",
        load: &options.load.source,
        drive: &options.drive,
        seed: options.seed,
        set: &options.set,
        host: Host::this(Vec::new()),
        threads,
        wall_seconds: elapsed.as_secs_f64(),
        busy_seconds: busy(runs),
        peak_memory_bytes: memory::peak(),
        kept_runs: kept(runs),
        runs: runs.iter().map(|(_, ended)| &ended.document).collect(),
    }
}

/// Writes the files of the results; `results` is what is in the JSON file.
fn write(out: &Path, options: &Settings, runs: &[(&Case, EndedRun)], results: &Value) -> Result<()> {
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
