//! `tranche study oltp`: what a database does on a hard disk, on an NVMe drive, and on the disk with the drive as its cache.
//!
//! In virtual time: the model of InnoDB (`workload::innodb`) runs sysbench's OLTP test on 100 million rows, on the drives of the published set-up.

mod bed;
mod published;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tier::{Mode, PolicyKind};

use self::bed::{DriveTables, Setup, Store};
use crate::{
    Findings,
    control::{self, Control, Interrupted, Steps},
    figure::show,
    machine::{Controller, HostPath},
    parallel, profile,
    results::{self, Host, Overwrite, Point, Published, Results, Variant, compare},
    sweep::{self, Profiles},
};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The hard disk: a profile or a TOML file
    pub disk: String,
    /// The NVMe drive, likewise
    pub nvme: String,
    /// The storage controller of the disk
    pub controller: Controller,
    /// What the host takes for a request
    pub path: HostPath,
    /// Nanoseconds of a processor for a statement, with its client
    pub statement_ns: u64,
    /// Measured seconds
    pub seconds: u64,
    /// Rows of the table
    pub rows: u64,
    /// Bytes of the buffer pool
    pub pool: u64,
    /// Threads of sysbench
    pub threads: u32,
    /// Repetitions, with other random numbers
    pub repeat: u32,
    /// Directory for report.html, results.json and results.csv
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Seed of everything random
    pub seed: u64,
}

/// Nanoseconds of a processor for a statement: an assumption, swept by the study. 24 processors do 6,667 transactions of 18 statements a second
/// where nothing else limits them.
pub const DEFAULT_STATEMENT_NS: u64 = 200_000;

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: "savvio-15k3-300g".into(),
            nvme: "xs1715-400g".into(),
            controller: Controller::H330,
            path: HostPath::PUBLISHED,
            statement_ns: DEFAULT_STATEMENT_NS,
            seconds: published::SECONDS,
            rows: published::ROWS,
            pool: published::POOL,
            threads: published::THREADS,
            repeat: 1,
            out: "out/oltp".into(),
            overwrite: Overwrite::default(),
            seed: 1,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        if !(10_000..=1_000_000_000).contains(&self.rows) {
            bail!("--rows is {}: from 10,000 to 1,000,000,000 are possible", self.rows);
        }
        if !(64 << 20..=64 << 30).contains(&self.pool) {
            bail!("--pool is {} bytes: from 64MiB to 64GiB are possible", self.pool);
        }
        Ok(())
    }
}

const fn setup(name: &'static str, about: &'static str, store: Store) -> Setup {
    Setup { name, about, store, doublewrite: false, cold: false }
}

const fn cold(name: &'static str, about: &'static str, store: Store) -> Setup {
    Setup { cold: true, ..setup(name, about, store) }
}

const fn cache(mode: Mode, policy: PolicyKind) -> Store {
    Store::Cache { mode, policy }
}

/// What is compared. The published run had no doublewrite buffer.
const SETUPS: [Setup; 11] = [
    setup("hdd", "The hard disk.", Store::Disk),
    Setup {
        doublewrite: true,
        ..setup("hdd-doublewrite", "The same with the doublewrite buffer.", Store::Disk)
    },
    setup("nvme", "The NVMe drive.", Store::Nvme),
    Setup {
        doublewrite: true,
        ..setup("nvme-doublewrite", "The same with the doublewrite buffer.", Store::Nvme)
    },
    setup(
        "cache-writethrough",
        "The disk with a cache on the NVMe drive: policy mq, lvm2's default mode.",
        cache(Mode::Writethrough, PolicyKind::Mq),
    ),
    setup("cache-writeback", "The same in writeback mode.", cache(Mode::Writeback, PolicyKind::Mq)),
    setup(
        "cache-smq",
        "The same in writeback mode with today's policy smq.",
        cache(Mode::Writeback, PolicyKind::Smq),
    ),
    cold("hdd-cold", "The hard disk, with an empty buffer pool at first.", Store::Disk),
    cold("nvme-cold", "The NVMe drive, with an empty buffer pool at first.", Store::Nvme),
    cold(
        "cache-cold",
        "The disk with a cache in writeback mode, policy mq, with an empty buffer pool at first.",
        cache(Mode::Writeback, PolicyKind::Mq),
    ),
    cold("cache-smq-cold", "The same with today's policy smq.", cache(Mode::Writeback, PolicyKind::Smq)),
];

/// Nanoseconds of a statement that are tried.
const STATEMENTS: [u64; 4] = [50_000, 100_000, 200_000, 400_000];

/// A run.
#[derive(Clone, Debug)]
struct Piece {
    setup: Setup,
    at: Point,
    statement_ns: u64,
    seconds: u64,
    repetition: u32,
}

/// Seconds of a run of the sweep at most.
const SWEEP_SECONDS: u64 = 100;

fn pieces(options: &Options) -> Vec<Piece> {
    let mut all = Vec::new();
    for repetition in 0..options.repeat {
        for setup in SETUPS {
            all.push(Piece {
                setup,
                at: Point::new(),
                statement_ns: options.statement_ns,
                seconds: options.seconds,
                repetition,
            });
        }
        for setup in
            SETUPS.into_iter().filter(|setup| ["hdd", "nvme", "cache-writeback"].contains(&setup.name))
        {
            for statement_ns in STATEMENTS.into_iter().filter(|tried| *tried != options.statement_ns) {
                let at = Point::from([("statement_us".to_owned(), statement_ns / 1000)]);
                let seconds = options.seconds.min(SWEEP_SECONDS);
                all.push(Piece { setup, at, statement_ns, seconds, repetition });
            }
        }
    }
    all
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist or is too small, a directory that cannot be written; an interruption before there was anything to report.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    options.overwrite.check(&options.out)?;
    sweep::value(run_on(options, &profile::table, control)?)
}

/// Runs the study with profiles from elsewhere.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
    options.check()?;
    let tables = DriveTables { disk: profiles(&options.disk)?, nvme: profiles(&options.nvme)? };
    tables.check()?;
    results::directory(&options.out)?;
    let pieces = pieces(options);
    let progress = Steps::new(control, pieces.len() as u64);
    let done = parallel::map(control, &pieces, |piece| {
        let run = bed::run(options, &tables, piece, control);
        if let Ok(run) = &run {
            let of = |name: &str| show(run.metrics.get(name).copied().unwrap_or_default());
            progress.done(piece.setup.name, &format!("{} transactions/s", of("tps")));
        }
        run
    });
    drop(progress);
    let mut variants: Vec<Variant> = Vec::new();
    let mut interrupted = false;
    for (piece, run) in pieces.iter().zip(done) {
        let run = match run {
            Ok(run) => run,
            Err(error) if error.is::<Interrupted>() => {
                interrupted = true;
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("in variant {}", piece.setup.name)),
        };
        match variants.iter_mut().find(|variant| variant.name == piece.setup.name) {
            Some(variant) => variant.runs.push(run),
            None => variants.push(Variant {
                name: piece.setup.name.into(),
                description: piece.setup.about.into(),
                runs: vec![run],
            }),
        }
    }
    if variants.is_empty() {
        return Err(Interrupted.into());
    }
    let mut results = Results {
        study: "oltp".into(),
        engine: "sim",
        seed: options.seed,
        drive: serde_json::json!({
            "disk": options.disk, "nvme": options.nvme, "controller": options.controller.name(), "rows": options.rows,
            "pool_bytes": options.pool, "threads": options.threads,
        }),
        host: Host::this(Vec::new()),
        comparisons: comparisons(&variants),
        variants,
        notes: Vec::new(),
    };
    results.notes = report::notes(options);
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    report::write(&results, options, &page)?;
    let text = report::text(&results, options, &page);
    let failure = interrupted.then(|| control::PARTIAL.to_owned());
    Ok(Findings { results, written: Some(options.out.clone()), text, failure })
}

fn comparisons(variants: &[Variant]) -> Vec<results::Comparison> {
    let find = |name: &str| variants.iter().find(|variant| variant.name == name);
    let mut rows = Vec::new();
    for (of, over) in [
        ("nvme", "hdd"),
        ("cache-writethrough", "hdd"),
        ("cache-writeback", "hdd"),
        ("cache-smq", "hdd"),
        ("hdd-doublewrite", "hdd"),
        ("nvme-doublewrite", "nvme"),
        ("nvme-cold", "hdd-cold"),
        ("cache-cold", "hdd-cold"),
        ("cache-smq-cold", "hdd-cold"),
    ] {
        let (Some(of), Some(over)) = (find(of), find(over)) else { continue };
        let published = |at: Option<&Point>| {
            let there = at.is_some_and(Point::is_empty);
            match of.name.as_str() {
                "nvme" | "nvme-cold" if there => Some(Published::ratio(published::NVME)),
                "cache-writethrough" | "cache-writeback" | "cache-cold" if there => {
                    Some(Published::ratio(published::CACHE))
                }
                _ => None,
            }
        };
        rows.extend(compare("tps", of, over, published).into_iter().filter(|row| row.at.is_some()));
    }
    rows
}
