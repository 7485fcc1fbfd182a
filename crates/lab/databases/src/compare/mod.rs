//! `tranche compare`: a command of the user's own on several layouts, compared by wall time, the drive's counters and
//! the figures that the command itself reports.
//!
//! The command runs with these variables:
//!
//! | variable | content |
//! |---|---|
//! | `TRANCHE_LAYOUT` | name of the layout |
//! | `TRANCHE_MOUNT_<NAME>` | mount point of a namespace with a file system |
//! | `TRANCHE_DEV_<NAME>` | block device of a namespace |
//! | `TRANCHE_UNIX` | the drive's Unix socket |
//! | `TRANCHE_OUT` | directory for what the command wants to keep, one for each run |
//! | `TRANCHE_METRICS` | file for figures to compare, one `{"metric": "tps", "value": 123.4, "unit": "1/s"}` a line |
//! | `TRANCHE_REPETITION` | number of the repetition, from 0 |
//!
//! Where the layout has a database it also gets `PGHOST`, `PGPORT`, `PGUSER` and `PGDATABASE`, and finds the server's own programs first.

mod database;
mod metrics;
mod tpcc;

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::Serialize;

use database::Running;
use metrics::{Metric, Metrics, Ran, medians};
pub use tpcc::TpccLoad;

use crate::{
    drive::Program,
    layout::Layout,
    mounted_drive::{BaseImage, MountedDrive, discard, require_root},
    postgresql::Server,
    process::{Process, tail},
    scratch::{self, Role, Scratch},
};
use lab_report::{
    Findings,
    control::{Control, Progress},
    cpu,
    figure::show,
    report::{
        Report, Section,
        charts::{Bar, Data, Labels, bars},
        comparison_table,
    },
    results::{self, Overwrite, Point, Results, Run, Variant, compare},
};

/// Options of the command.
#[derive(Clone, Debug)]
pub struct Options {
    /// Layouts; the others are compared with the first
    pub layouts: Vec<PathBuf>,
    /// Command to run on each, after --
    pub command: Vec<OsString>,
    /// TPC-C instead of a command
    pub tpcc: Option<TpccLoad>,
    /// Interleaved repetitions
    pub repeat: u32,
    /// Time after which a run of the command is given up
    pub timeout: u64,
    /// PostgreSQL's program postgres, instead of the one installed
    pub postgres: Option<PathBuf>,
    /// Directory for report.html, results.json, results.csv and the command's output
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Directory for drive images and mount points meanwhile [default: /dev/shm when it has room, else /tmp]
    pub scratch: Option<PathBuf>,
}

/// Compares the layouts and writes the results.
///
/// # Errors
/// When a layout cannot be brought up, or the command fails on one, with the end of its output. Nothing is left mounted or
/// running.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Results>> {
    options.overwrite.check(&options.out)?;
    run_on(options, &Program::find_or_this()?, control)
}

/// The same with a given program.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(options: &Options, program: &Program, control: &Control) -> Result<Findings<Results>> {
    if options.repeat == 0 {
        lab_report::misuse!("--repeat is 0: at least one run is needed");
    }
    let layouts: Vec<Layout> =
        options.layouts.iter().map(|path| Layout::read(path)).collect::<Result<_>>()?;
    for (i, layout) in layouts.iter().enumerate() {
        if layouts[..i].iter().any(|other| other.name == layout.name) {
            bail!("two layouts are named {:?}: give their files different names", layout.name);
        }
    }
    if let Some(tpcc) = options.tpcc {
        tpcc.check(&layouts)?;
    }
    require_root()?;
    let server = layouts.iter().any(|layout| layout.database.is_some());
    let server = server.then(|| Server::find(options.postgres.as_deref())).transpose()?;
    results::directory(&options.out)?;
    let out = options.out.canonicalize().with_context(|| format!("finding {}", options.out.display()))?;
    let parent = options.scratch.clone().map_or_else(|| scratch::default_parent(4 << 30), Ok)?;
    let scratch = Scratch::new(&parent, control.cancel())?;

    let field = Field { options, program, scratch: &scratch, server: server.as_ref(), out: &out };
    let made = field.all(&layouts, control);
    let (bases, variants, metrics) = scratch.keep_logs(made, &out.join("logs"))?;
    let metrics = metrics.of(&variants);
    let results = results(options, server.as_ref(), &bases, variants, &metrics);
    results.write(&out)?;
    let page = out.join("report.html");
    report(&results, options, &metrics)?.write(&page)?;
    let mut text = medians(&metrics, &results.variants).text();
    if !results.comparisons.is_empty() {
        text += &format!("\n{}", comparison_table(&rows(&results)).text());
    }
    text += &format!("\n{}\nreport: {}", answer(&results, &metrics), page.display());
    Ok(Findings { results, written: Some(out), text, failure: None })
}

/// What all runs share.
#[derive(Clone, Copy)]
struct Field<'a> {
    options: &'a Options,
    program: &'a Program,
    scratch: &'a Scratch,
    /// Of the layouts with a database.
    server: Option<&'a Server>,
    out: &'a Path,
}

impl Field<'_> {
    /// Prepares every layout and makes every run.
    fn all(&self, layouts: &[Layout], control: &Control) -> Result<(Vec<BaseImage>, Vec<Variant>, Metrics)> {
        let Self { options, program, scratch, .. } = *self;
        let mut metrics = Metrics::default();
        let repeat = usize::try_from(options.repeat)?;
        let mut progress = Progress::new(control, (layouts.len() * (repeat + 1)) as u64);
        let mut bases = Vec::new();
        for layout in layouts {
            progress.begin(&format!("preparing layout {}", layout.name));
            let start = Instant::now();
            bases.push(BaseImage::make(
                scratch,
                program,
                layout,
                &mut |d| progress.detail(d),
                |mounted, progress| match (&layout.database, self.server) {
                    (Some(database), Some(server)) => {
                        database::prepare(server, database, mounted, scratch, progress)
                    }
                    _ => Ok(()),
                },
            )?);
            progress.end(&format!("{} s", start.elapsed().as_secs()));
        }
        let mut variants: Vec<Variant> = layouts
            .iter()
            .map(|layout| Variant {
                name: layout.name.clone(),
                description: layout.description.clone(),
                runs: Vec::new(),
            })
            .collect();
        for repetition in 0..options.repeat {
            for (base, variant) in bases.iter().zip(&mut variants) {
                let name = &base.layout().name;
                progress.begin(&format!("{name}, repetition {}", repetition + 1));
                let run = self
                    .one(base, repetition, &mut metrics)
                    .with_context(|| format!("on layout {name}, repetition {}", repetition + 1))?;
                progress.end(&format!("{} s", show(run.seconds)));
                variant.runs.push(run);
            }
        }
        Ok((bases, variants, metrics))
    }

    /// One run of the load on a fresh copy of a layout.
    fn one(&self, base: &BaseImage, repetition: u32, all: &mut Metrics) -> Result<Run> {
        const NAME: &str = "run";
        let Self { options, program, scratch, server, out } = *self;
        let layout = base.layout();
        let mut mounted = base.open(scratch, program, NAME, &toml::Table::new())?;
        let directory = out.join(format!("{}-{repetition}", layout.name));
        fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        let mut database = Running::start(server, layout, &mounted, scratch)?;
        let ran = match (options.tpcc, &mut database) {
            (Some(tpcc), Some(database)) => {
                tpcc.run(layout, database, &mut mounted, repetition, scratch.cancel())?
            }
            _ => {
                let file = directory.join("metrics.jsonl");
                File::create(&file).with_context(|| format!("making {}", file.display()))?;
                let mut command = command(options, layout, &mut mounted, &directory, &file, repetition)?;
                if let Some(database) = &database {
                    database.tell(&mut command);
                }
                let mut ran = self.command(command, &directory, &mut mounted, database.as_mut())?;
                ran.reported = metrics::read(&file)?;
                ran
            }
        };
        let namespaces = mounted.counted(&ran.before, &ran.after);
        database.map_or(Ok(()), |database| database.stop(scratch, &directory))?;
        mounted.close()?;
        discard(scratch, NAME)?;
        let mut run = Run { repetition, seconds: ran.seconds, cpu: ran.cpu, ..Run::default() };
        run.metrics = metrics::of_drive(ran.seconds, &namespaces);
        run.metrics.extend(ran.of_server);
        all.note(&ran.reported);
        run.metrics.extend(ran.reported.into_iter().map(|reported| (reported.metric, reported.value)));
        run.namespaces = namespaces;
        Ok(run)
    }

    /// Runs the command to its end.
    fn command(
        &self,
        command: Command,
        directory: &Path,
        mounted: &mut MountedDrive,
        mut database: Option<&mut Running<'_>>,
    ) -> Result<Ran> {
        let Self { options, scratch, .. } = *self;
        let log = directory.join("output.log");
        let _ = fs::remove_file(&log);
        let drive = mounted.drive()?.id();
        let before = mounted.counters()?;
        let start = Instant::now();
        let mut process = Process::start(scratch, Role::Client, "the command", command, &log, None)?;
        let mut processes = vec![("command", process.id())];
        processes.extend(drive.map(|id| ("drive", id)));
        processes.extend(database.as_ref().map(|database| ("database", database.id())));
        let cpu_before = cpu::Sample::take(&processes);
        let mut cpu_after = cpu_before.clone();
        let mut looked = Instant::now();
        let status = loop {
            if let Some(status) = process.exited() {
                break status;
            }
            // Once it has ended its own use of the processor is no longer to be seen.
            if looked.elapsed() >= (start.elapsed() / 10).min(CPU_POLL_INTERVAL) {
                cpu_after = cpu::Sample::take(&processes);
                looked = Instant::now();
            }
            scratch.cancel().sleep(Duration::from_millis(20))?;
            mounted.drive()?.check()?;
            database.as_mut().map_or(Ok(()), |database| database.check())?;
            if start.elapsed() > Duration::from_secs(options.timeout) {
                bail!(
                    "the command took longer than {} s (--timeout); the end of its output, {}:\n{}",
                    options.timeout,
                    log.display(),
                    tail(&log, 15)
                );
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        if !status.success() {
            bail!(
                "the command ended with {status}; the end of its output, {}:\n{}",
                log.display(),
                tail(&log, 15)
            );
        }
        Ok(Ran {
            seconds,
            cpu: cpu_after.since(&cpu_before, 1),
            before,
            after: mounted.counters()?,
            of_server: database.map(|database| database.metrics()).transpose()?.unwrap_or_default(),
            reported: Vec::new(),
        })
    }
}

fn command(
    options: &Options,
    layout: &Layout,
    mounted: &mut MountedDrive,
    directory: &Path,
    metrics: &Path,
    repetition: u32,
) -> Result<Command> {
    let (program, arguments) = options.command.split_first().context("no command given after --")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("TRANCHE_LAYOUT", &layout.name)
        .env("TRANCHE_OUT", directory)
        .env("TRANCHE_METRICS", metrics)
        .env("TRANCHE_REPETITION", repetition.to_string());
    for (volume, namespace) in mounted.volumes().iter().zip(&layout.namespaces) {
        command.env(format!("TRANCHE_DEV_{}", namespace.variable()), &volume.device);
        if let Some(mount) = &volume.mount {
            command.env(format!("TRANCHE_MOUNT_{}", namespace.variable()), mount);
        }
    }
    if let Some(unix) = mounted.drive()?.unix() {
        command.env("TRANCHE_UNIX", unix);
    }
    Ok(command)
}

fn results(
    options: &Options,
    server: Option<&Server>,
    bases: &[BaseImage],
    variants: Vec<Variant>,
    metrics: &[Metric],
) -> Results {
    let mut comparisons = Vec::new();
    if let Some((first, others)) = variants.split_first() {
        for variant in others {
            for metric in metrics {
                comparisons.extend(compare(&metric.name, variant, first, |_| None));
            }
        }
    }
    let layouts = bases.iter().map(|base| ComparedLayout {
        name: &base.layout().name,
        layout: base.layout(),
        toml: base.drive_toml(),
    });
    Results {
        drive: serde_json::json!(ComparedDrives { layouts: layouts.collect() }),
        variants,
        comparisons,
        notes: std::iter::once(load(options))
            .chain(server.map(|server| format!("Database: {}", server.title)))
            .collect(),
        ..Results::empty("compare", "live", 0, Vec::new())
    }
}

/// The drives of a comparison.
#[derive(Serialize, JsonSchema)]
pub struct ComparedDrives<'a> {
    /// The layouts that were compared.
    layouts: Vec<ComparedLayout<'a>>,
}

/// A layout that was compared.
#[derive(Serialize, JsonSchema)]
struct ComparedLayout<'a> {
    /// Its name.
    name: &'a str,
    /// The layout.
    layout: &'a Layout,
    /// The drive's TOML as JSON ([drive-toml.md](drive-toml.md) has its keys).
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    toml: &'a toml::Table,
}

/// What was run, in words.
fn load(options: &Options) -> String {
    match options.tpcc {
        Some(tpcc) => format!(
            "TPC-C with {} connections for {} s after {} s",
            tpcc.connections, tpcc.seconds, tpcc.warmup
        ),
        None => {
            let command: Vec<_> = options.command.iter().map(|word| word.to_string_lossy()).collect();
            format!("Command: {}", command.join(" "))
        }
    }
}

/// One row for each metric: there is only one point.
fn rows(results: &Results) -> Vec<results::Comparison> {
    results.comparisons.iter().filter(|c| c.at.is_none()).cloned().collect()
}

/// Medians of what the command tells first, or of how long it took.
fn answer(results: &Results, metrics: &[Metric]) -> String {
    let Some(first) = metrics.first() else { return String::new() };
    let medians: Vec<String> = results
        .variants
        .iter()
        .map(|v| format!("{} {}", v.name, v.median(&first.name, &Point::new()).map_or("-".into(), show)))
        .collect();
    let medians = format!("{}: {} (medians).", first.label(), medians.join(", "));
    if results.host_was_bottleneck() { format!("{medians} {}", results.host_verdict()) } else { medians }
}

/// How often the use of the processors is looked at, after a first second in which it is more often. A look costs as much as there
/// are processes.
const CPU_POLL_INTERVAL: Duration = Duration::from_millis(100);

const COLOURS: [&str; 8] =
    ["#c2410c", "#2563eb", "#059669", "#7c3aed", "#6b7280", "#db2777", "#ca8a04", "#0891b2"];

fn report<'a>(results: &'a Results, options: &Options, metrics: &[Metric]) -> Result<Report<'a>> {
    let mut charts = Vec::new();
    for metric in metrics {
        let data: Vec<Data<Bar>> = results
            .variants
            .iter()
            .zip(COLOURS.iter().cycle())
            .map(|(variant, colour)| {
                let values: Vec<f64> =
                    variant.runs.iter().filter_map(|run| run.metrics.get(&metric.name).copied()).collect();
                Data { name: variant.name.clone(), colour, dashed: false, values: vec![Bar::of(&values)] }
            })
            .collect();
        let labels = Labels { title: metric.label(), ..Labels::default() };
        charts.push(bars(&labels, &[String::new()], &data));
    }
    let layouts: Vec<String> =
        results
            .variants
            .iter()
            .map(|v| {
                if v.description.is_empty() {
                    v.name.clone()
                } else {
                    format!("{}: {}", v.name, v.description)
                }
            })
            .collect();
    Ok(Report {
        title: format!("Comparison of {} layouts", results.variants.len()),
        question: format!("{} — on {}", load(options), layouts.join("; ")),
        answer: answer(results, metrics),
        headlines: Vec::new(),
        results,
        sections: vec![Section {
            heading: "Medians".into(),
            text: "Whiskers run from the smallest to the largest of the repetitions.".into(),
            charts,
            table: Some(medians(metrics, &results.variants)),
        }],
    })
}
