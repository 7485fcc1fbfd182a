//! The study with a real database on real file systems: MyRocks on a store on zones, beside MyRocks and InnoDB on XFS on conventional namespaces of the
//! same chips, under sysbench.

mod report;
mod sysbench;
mod variants;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use self::sysbench::{Measured, Sysbench};
pub use self::variants::Variant;
use super::published;
use crate::{
    Findings,
    control::{Control, Progress},
    counters::{NamespaceCounts, lifetime_years, total_on_flash},
    cpu,
    drive::Program,
    figure::{show, show_size},
    mariadb::{self, Files, Instance, Server, SystemTablespace, Tuning},
    mounted_drive::{self, BaseImage, MountedDrive, discard},
    profile,
    results::{self, Comparison, Host, Overwrite, Point, Published, Results, Run, compare},
    scratch::{self, Scratch},
    tpcc,
};

/// Options of the live study.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is compared.
    pub variants: Vec<Variant>,
    /// What is run.
    pub loads: Vec<Load>,
    /// Connections.
    pub threads: Vec<u32>,
    /// Tables.
    pub tables: u32,
    /// Rows of a table.
    pub rows: u64,
    /// Seconds that are measured.
    pub seconds: u64,
    /// Seconds of load before the first measurement of a drive.
    pub warmup: u64,
    /// Repetitions.
    pub repeat: u32,
    /// Memory for cached blocks or pages, in bytes.
    pub cache: u64,
    /// The drive: a profile or a TOML file with zones.
    pub drive: String,
    /// The server, in place of the one that is installed.
    pub mysqld: Option<PathBuf>,
    /// Where results go.
    pub out: PathBuf,
    /// Whether results that are in `out` may go.
    pub overwrite: Overwrite,
    /// Where images and mounts are while it runs.
    pub scratch: Option<PathBuf>,
    /// Seed of what is random.
    pub seed: u64,
}

/// The scaled ZN540.
pub const DEFAULT_PROFILE: &str = "zn540-lab";

impl Default for Options {
    fn default() -> Self {
        Self {
            variants: Variant::ALL.to_vec(),
            loads: Load::ALL.to_vec(),
            threads: vec![16],
            tables: 4,
            rows: 600_000,
            seconds: 20,
            warmup: 20,
            repeat: 2,
            cache: 32 << 20,
            drive: DEFAULT_PROFILE.into(),
            mysqld: None,
            out: "out/zoned".into(),
            overwrite: Overwrite::default(),
            scratch: None,
            seed: 1,
        }
    }
}

/// What sysbench runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Load {
    /// `oltp_read_only`: 14 queries.
    ReadOnly,
    /// `oltp_write_only`: 4 changes.
    WriteOnly,
    /// `oltp_read_write`: both.
    ReadWrite,
}

impl Load {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::WriteOnly, Self::ReadWrite, Self::ReadOnly];

    fn script(self) -> &'static str {
        match self {
            Self::ReadOnly => "oltp_read_only",
            Self::WriteOnly => "oltp_write_only",
            Self::ReadWrite => "oltp_read_write",
        }
    }

    /// What metrics of this load begin with.
    fn prefix(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::WriteOnly => "write_only",
            Self::ReadWrite => "read_write",
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let range = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                bail!("--{name} is {value}: {low} to {high} are possible")
            }
        };
        for threads in &self.threads {
            range("threads", (*threads).into(), 1, 1_000)?;
        }
        range("tables", self.tables.into(), 1, 1_000)?;
        range("rows", self.rows, 1_000, 1_000_000_000)?;
        range("seconds", self.seconds, 1, 86_400)?;
        range("warmup", self.warmup, 0, 86_400)?;
        range("repeat", self.repeat.into(), 1, 1_000)?;
        range("cache", self.cache >> 20, 8, 1 << 20)?;
        if self.variants.is_empty() || self.loads.is_empty() || self.threads.is_empty() {
            bail!("there is nothing to run");
        }
        Ok(())
    }
}

/// Why the study cannot run live here; `None` if it can, as far as can be seen without trying.
pub fn obstacle(options: &Options) -> Option<String> {
    let installed = |program: &str, package: &str| {
        let found = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
        (!found).then(|| format!("no {program}: on Debian: apt-get install {package}"))
    };
    mounted_drive::obstacle()
        .or_else(|| Server::find(options.mysqld.as_deref()).err().map(|error| format!("{error:#}")))
        .or_else(|| installed("sysbench", "sysbench"))
}

/// Runs the study and writes its results.
///
/// # Errors
/// When something that it needs is missing, says what and where to get it; when the database or the drive fails, with the end of their logs.
/// Nothing is left mounted or running.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Results>> {
    options.check()?;
    options.overwrite.check(&options.out)?;
    if let Some(why) = obstacle(options) {
        bail!("the study cannot run live here: {why}");
    }
    let server = Server::find(options.mysqld.as_deref())?;
    let program = Program::find_or_this()?;
    results::directory(&options.out)?;
    let bytes = u64::from(options.tables) * options.rows * 250;
    let parent =
        options.scratch.clone().map_or_else(|| scratch::default_parent(bytes * 8 + (2 << 30)), Ok)?;
    let scratch = Scratch::new(&parent, control.cancel())?;
    let study = Study { options, server, program, scratch, control };
    let results = study.scratch.keep_logs(study.run(), &options.out.join("logs"))?;
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    report::write(&results, &page)?;
    let text = report::text(&results, &page);
    Ok(Findings { results, written: Some(options.out.clone()), text, failure: None })
}

/// What the runs share.
struct Study<'a> {
    options: &'a Options,
    server: Server,
    program: Program,
    scratch: Scratch,
    control: &'a Control,
}

/// A database that is up.
struct Database<'a> {
    instance: &'a Instance,
    variant: Variant,
}

impl Study<'_> {
    fn run(&self) -> Result<Results> {
        let options = self.options;
        let drive = profile::table(&options.drive)?;
        let cells = options.loads.len() * options.threads.len() * usize::try_from(options.repeat)?;
        let steps = options.variants.len() * (1 + cells);
        let mut progress = Progress::new(self.control, steps as u64);
        let mut bases = BTreeMap::new();
        for &variant in &options.variants {
            progress.begin(&format!("preparing {variant}"));
            let start = Instant::now();
            let base = self.prepare(variant, &drive, &mut |detail| progress.detail(detail));
            bases.insert(variant, base.with_context(|| format!("preparing {variant}"))?);
            progress.end(&format!("{} s", start.elapsed().as_secs()));
        }
        let mut variants: Vec<results::Variant> = Vec::new();
        for &variant in &options.variants {
            let (name, description) = (variant.name().into(), variant.description().into());
            variants.push(results::Variant { name, description, runs: Vec::new() });
        }
        for repetition in 0..options.repeat {
            for (&variant, result) in options.variants.iter().zip(&mut variants) {
                let base = bases.get(&variant).context("a variant was not prepared")?;
                let runs = self.repetition(base, variant, repetition, &mut progress);
                result
                    .runs
                    .extend(runs.with_context(|| format!("{variant}, repetition {}", repetition + 1))?);
            }
        }
        drop(progress);
        self.results(drive, variants)
    }

    fn files(&self, mounted: &MountedDrive) -> Result<Files> {
        let mount = mounted.volume("data")?.mount.clone().context("the data's namespace is not mounted")?;
        Ok(Files { data: mount.join("db"), system: SystemTablespace::BesideData })
    }

    /// Options of the server that a variant needs.
    fn tuning(&self, variant: Variant) -> Tuning {
        let cache = self.options.cache >> 20;
        let rocks = variant != Variant::InnoDb;
        let extra = if rocks { mariadb::rocksdb_options(cache) } else { Vec::new() };
        Tuning {
            buffer_pool_mib: if rocks { 16 } else { cache },
            redo_mib: if rocks { 16 } else { 96 },
            binlog: false,
            extra,
            ..Tuning::default()
        }
    }

    fn sysbench<'s>(&self, socket: &'s std::path::Path, variant: Variant, repetition: u32) -> Sysbench<'s> {
        let options = self.options;
        let seed = options.seed.wrapping_add(u64::from(repetition));
        Sysbench { socket, engine: variant.engine(), tables: options.tables, rows: options.rows, seed }
    }

    /// Makes the drive of a variant with the filled tables on it.
    fn prepare(
        &self,
        variant: Variant,
        drive: &toml::Table,
        progress: &mut dyn FnMut(&str),
    ) -> Result<BaseImage> {
        let layout = variant.layout(&self.options.drive, drive)?;
        BaseImage::make(&self.scratch, &self.program, &layout, progress, |mounted, progress| {
            let files = self.files(mounted)?;
            self.server.make_dir(&files.data)?;
            let tuning = Tuning { buffer_pool_mib: 64, ..self.tuning(variant) };
            progress("installing the database");
            mariadb::install(&self.server, &files, &tuning)?;
            let instance = self.start(&files, &tuning)?;
            progress("filling the tables");
            self.sysbench(instance.socket(), variant, 0).prepare()?;
            progress("shutting the database down");
            instance.stop()
        })
    }

    fn start(&self, files: &Files, tuning: &Tuning) -> Result<Instance> {
        Instance::start(&self.scratch, &self.server, files, tuning, "db", Duration::from_secs(120))
    }

    /// All loads on a fresh copy of the prepared drive.
    fn repetition(
        &self,
        base: &BaseImage,
        variant: Variant,
        repetition: u32,
        progress: &mut Progress,
    ) -> Result<Vec<Run>> {
        const NAME: &str = "run";
        let options = self.options;
        let mut mounted = base.open(&self.scratch, &self.program, NAME, &toml::Table::new())?;
        let instance = self.start(&self.files(&mounted)?, &self.tuning(variant))?;
        let database = Database { instance: &instance, variant };
        let mut runs = Vec::new();
        let mut warm = options.warmup == 0;
        for &load in &options.loads {
            for &threads in &options.threads {
                progress.begin(&format!(
                    "{variant}, {}, {threads} threads, repetition {}",
                    load.script(),
                    repetition + 1
                ));
                if !warm {
                    progress.detail("warming up");
                    let time = Duration::from_secs(options.warmup);
                    self.sysbench(instance.socket(), variant, repetition).run(
                        load.script(),
                        threads,
                        time,
                    )?;
                    warm = true;
                }
                progress.detail("measuring");
                let run = self.one(&mut mounted, &database, load, (threads, repetition))?;
                progress.end(&summary(&run, load));
                runs.push(run);
            }
        }
        // The copy is thrown away: no need for the database to write back what it has in memory.
        instance.kill();
        mounted.close()?;
        discard(&self.scratch, NAME)?;
        Ok(runs)
    }

    /// One load.
    fn one(
        &self,
        mounted: &mut MountedDrive,
        database: &Database<'_>,
        load: Load,
        (threads, repetition): (u32, u32),
    ) -> Result<Run> {
        let mut processes = vec![("database", database.instance.id())];
        processes.extend(mounted.drive()?.id().map(|id| ("drive", id)));
        let (cpu, counted, engine) =
            (cpu::Sample::take(&processes), mounted.counters()?, database.written()?);
        let measured = self.sysbench(database.instance.socket(), database.variant, repetition).run(
            load.script(),
            threads,
            Duration::from_secs(self.options.seconds),
        )?;
        let (cpu_after, counted_after) = (cpu::Sample::take(&processes), mounted.counters()?);
        let written = database.written()?.zip(engine).map(|(after, before)| after.saturating_sub(before));
        let namespaces = mounted.counted(&counted, &counted_after);
        let endurance = mounted.drive()?.endurance(1)?;
        let metrics = metrics(load, &measured, &namespaces, written, endurance);
        Ok(Run {
            at: Point::from([("threads".into(), threads.into())]),
            repetition,
            seconds: measured.seconds,
            cpu: cpu_after.since(&cpu, threads),
            latency_ms: BTreeMap::from([(load.prefix().to_owned(), measured.latency)]),
            metrics,
            namespaces,
            ..Run::default()
        })
    }

    fn results(&self, drive: toml::Table, variants: Vec<results::Variant>) -> Result<Results> {
        let mut results = Results {
            study: "zoned".into(),
            engine: "live",
            seed: self.options.seed,
            drive: serde_json::json!({ "profile": self.options.drive, "toml": drive }),
            host: Host::this(vec![self.server.title.clone(), "sysbench".into()]),
            comparisons: self.comparisons(&variants),
            variants,
            notes: Vec::new(),
        };
        results.notes = report::notes(&results, self.options);
        Ok(results)
    }

    /// Zones over each conventional variant, and more spare over less.
    fn comparisons(&self, variants: &[results::Variant]) -> Vec<Comparison> {
        let find = |variant: Variant| variants.iter().find(|found| found.name == variant.name());
        let pairs = [
            (Variant::Zones, Variant::Spare7),
            (Variant::Zones, Variant::Spare28),
            (Variant::Zones, Variant::InnoDb),
            (Variant::Spare28, Variant::Spare7),
        ];
        let mut rows = Vec::new();
        for (of, over) in pairs {
            let (Some(found), Some(base)) = (find(of), find(over)) else { continue };
            for load in &self.options.loads {
                for metric in METRICS {
                    let name = format!("{}_{metric}", load.prefix());
                    let known = (of, over, metric) == (Variant::Zones, Variant::Spare7, "tps");
                    // The least of nine published cells: which cell it is, is not told.
                    let published = |_: Option<&Point>| known.then(|| Published::ratio(published::MYROCKS.0));
                    rows.extend(compare(&name, found, base, published));
                }
            }
        }
        rows
    }
}

impl Database<'_> {
    /// Bytes that programs gave the engine to write, and bytes that it wrote in flushes, compactions and its log; `None` of InnoDB.
    fn written(&self) -> Result<Option<Engine>> {
        use mysql::prelude::Queryable;
        if self.variant == Variant::InnoDb {
            return Ok(None);
        }
        let mut connection = tpcc::connect(self.instance.socket(), "")?;
        let rows: Vec<(String, String)> = connection.query("SHOW GLOBAL STATUS LIKE 'Rocksdb%'")?;
        let value = |name: &str| -> Result<u64> {
            let row = rows.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
            let (_, text) = row.with_context(|| format!("the server has no status {name}"))?;
            text.parse().with_context(|| format!("{name} is {text:?}"))
        };
        Ok(Some(Engine {
            given: value("rocksdb_bytes_written")?,
            written: value("rocksdb_flush_write_bytes")?
                + value("rocksdb_compact_write_bytes")?
                + value("rocksdb_wal_bytes")?,
        }))
    }
}

/// Bytes that an engine was given, and that it wrote.
#[derive(Clone, Copy, Debug)]
struct Engine {
    given: u64,
    written: u64,
}

impl Engine {
    fn saturating_sub(self, before: Self) -> Self {
        Self {
            given: self.given.saturating_sub(before.given),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// The figures that are compared, for each load.
const METRICS: [&str; 5] = ["tps", "p99_ms", "p999_ms", "flash_bytes_per_transaction", "lifetime_years"];

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn metrics(
    load: Load,
    measured: &Measured,
    namespaces: &[NamespaceCounts],
    engine: Option<Engine>,
    endurance: u128,
) -> BTreeMap<String, f64> {
    let flash = total_on_flash(namespaces);
    let (media, host) = (flash.media_bytes_written as f64, flash.host_bytes_written as f64);
    let (transactions, seconds) = (measured.transactions.max(1) as f64, measured.seconds.max(1e-9));
    let mut metrics = BTreeMap::from([
        ("tps", measured.transactions as f64 / seconds),
        ("p50_ms", measured.latency.p50),
        ("p99_ms", measured.latency.p99),
        ("p999_ms", measured.p999),
        ("p9999_ms", measured.p9999),
        ("flash_bytes_per_transaction", media / transactions),
        ("host_write_MiBps", host / seconds / 1_048_576.0),
    ]);
    // A load that only reads writes next to nothing: ratios of that say nothing.
    if load != Load::ReadOnly && host > 0.0 {
        metrics.insert("drive_write_amplification", media / host);
        let years = lifetime_years(endurance, flash.media_bytes_written, measured.seconds);
        metrics.extend(years.map(|years| ("lifetime_years", years)));
        if let Some(engine) = engine.filter(|engine| engine.given > 0) {
            metrics.insert("engine_write_amplification", engine.written as f64 / engine.given as f64);
        }
    }
    metrics.into_iter().map(|(name, value)| (format!("{}_{name}", load.prefix()), value)).collect()
}

fn summary(run: &Run, load: Load) -> String {
    let metric = |name: &str| run.metrics.get(&format!("{}_{name}", load.prefix())).copied().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number, for reading"
    )]
    let flash = metric("flash_bytes_per_transaction").max(0.0) as u64;
    format!(
        "{} transactions/s, 99 % within {} ms, {} of flash writes per transaction, processors {}% busy",
        show(metric("tps")),
        show(metric("p99_ms")),
        show_size(flash),
        show(run.cpu.busy)
    )
}
