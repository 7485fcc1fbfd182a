//! The study with real databases on real file systems: MyRocks on a store on zones, beside MyRocks and InnoDB on XFS on conventional namespaces of the
//! same chips, under sysbench; and RocksDB alone, under db_bench, with its plug-in on zones beside XFS.

mod db_bench;
mod loads;
mod report;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;

pub use self::loads::Load;
use super::{Options, published};
use crate::StudyDrive;
pub use crate::layouts::zoned::{DEFAULT_PROFILE, Variant};
use lab_databases::{
    database::Instance,
    drive::Program,
    mariadb::{self, Files, Server, SystemTablespace, Tuning},
    mounted_drive::{self, BaseImage, MountedDrive, discard},
    process,
    scratch::{self, Scratch},
    sysbench::{self, Measured, Sysbench},
};
use lab_report::{
    Findings,
    control::{Control, Progress},
    counters::{NamespaceCounts, lifetime_years, total_on_flash},
    cpu,
    figure::{show, show_size},
    profile,
    report::publish,
    results::{self, Comparison, Point, Published, Results, Run, compare},
};

/// Options of the live study.
#[derive(Args, Clone, Debug)]
pub struct Live {
    /// Live: what is compared
    #[arg(
        long,
        requires = "live",
        value_delimiter = ',',
        default_value = "myrocks-7,myrocks-28,myrocks-zones,innodb-7,rocksdb-7,rocksdb-28,rocksdb-zones",
        value_name = "NAME,…"
    )]
    pub variants: Vec<Variant>,
    /// Live: what sysbench and db_bench run, one after the other
    #[arg(
        long,
        requires = "live",
        value_delimiter = ',',
        default_value = "write-only,read-write,read-only,fill,overwrite,read-while-writing,read-while-limited",
        value_name = "NAME,…"
    )]
    pub loads: Vec<Load>,
    /// Live: connections, and threads of db_bench that read; several values make one point each
    #[arg(
        long = "connections",
        requires = "live",
        value_delimiter = ',',
        default_value = "16",
        value_name = "N,…"
    )]
    pub threads: Vec<u32>,
    /// Live: tables
    #[arg(long, requires = "live", default_value_t = 4, value_name = "N")]
    pub tables: u32,
    /// Live: rows of each table, which take about 200 bytes
    #[arg(long, requires = "live", default_value_t = 600_000, value_name = "N")]
    pub rows: u64,
    /// Live: keys of db_bench, which take about 450 bytes
    #[arg(long, requires = "live", default_value_t = 1_500_000, value_name = "N")]
    pub keys: u64,
    /// Live: measured time of each run; a fill takes as long as it takes
    #[arg(long, requires = "live", default_value = "20s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    pub seconds: u64,
    /// Live: load before the first measurement of a drive
    #[arg(long, requires = "live", default_value = "20s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    pub warmup: u64,
    /// Live: RocksDB's block cache and InnoDB's buffer pool
    #[arg(long = "buffer-pool", alias = "cache", requires = "live", default_value = "32MiB", value_name = "SIZE", value_parser = units::parse_size)]
    pub cache: u64,
    /// Live: database server, instead of the one installed
    #[arg(long, requires = "live", value_name = "PATH")]
    pub mysqld: Option<PathBuf>,
    /// Live: RocksDB's plug-in [default: target/plugins/libtranche_rocksdb.so, which `make plugin` makes]
    #[arg(long, requires = "live", value_name = "FILE")]
    pub plugin: Option<PathBuf>,
    /// Live: directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, requires = "live", value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

impl Default for Live {
    fn default() -> Self {
        Options::default().real
    }
}

impl Live {
    fn check(&self) -> Result<()> {
        let range = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                lab_report::misuse!("--{name} is {value}: {low} to {high} are possible")
            }
        };
        for threads in &self.threads {
            range("threads", (*threads).into(), 1, 1_000)?;
        }
        range("tables", self.tables.into(), 1, 1_000)?;
        range("rows", self.rows, 1_000, 1_000_000_000)?;
        range("keys", self.keys, 1_000, 1_000_000_000)?;
        range("seconds", self.seconds, 1, 86_400)?;
        range("warmup", self.warmup, 0, 86_400)?;
        range("cache", self.cache >> 20, 8, 1 << 20)?;
        if self.variants.is_empty() || self.loads.is_empty() || self.threads.is_empty() {
            bail!("there is nothing to run");
        }
        if self.runs().is_empty() {
            bail!(
                "there is nothing to run: db_bench's loads are for rocksdb-zones, rocksdb-7 and rocksdb-28, sysbench's for the others"
            );
        }
        Ok(())
    }

    /// The variants that one of the loads is for.
    fn runs(&self) -> Vec<Variant> {
        let has_load =
            |variant: &Variant| self.loads.iter().any(|load| load.is_db_bench() == variant.is_db_bench());
        self.variants.iter().copied().filter(has_load).collect()
    }

    /// Whether sysbench runs on a database server; whether db_bench runs.
    fn needs(&self) -> (bool, bool) {
        let runs = self.runs();
        let is_db_bench = |variant: &Variant| variant.is_db_bench();
        (!runs.iter().all(is_db_bench), runs.iter().any(is_db_bench))
    }
}

/// Why the study cannot run live here; `None` if it can, as far as can be seen without trying.
pub fn obstacle(live: &Live) -> Option<String> {
    let (sysbench, db_bench) = live.needs();
    let needs_plugin = live.runs().contains(&Variant::RocksZones);
    let missing = |error: anyhow::Error| format!("{error:#}");
    mounted_drive::obstacle()
        .or_else(|| Server::find(live.mysqld.as_deref()).err().filter(|_| sysbench).map(missing))
        .or_else(|| process::missing("sysbench", sysbench::PACKAGE).filter(|_| sysbench))
        .or_else(|| process::missing("db_bench", db_bench::PACKAGE).filter(|_| db_bench))
        .or_else(|| db_bench::plugin(live).err().filter(|_| needs_plugin).map(missing))
}

/// Runs the study and writes its results.
///
/// # Errors
/// When something that it needs is missing, says what and where to get it; when the database or the drive fails, with the end of their logs.
/// Nothing is left mounted or running.
pub(super) fn run(options: &Options, control: &Control) -> Result<Findings<Results>> {
    let live = &options.real;
    live.check()?;
    if let Some(why) = obstacle(live) {
        bail!("the study cannot run live here: {why}");
    }
    let (sysbench, _) = live.needs();
    let server = if sysbench { Some(Server::find(live.mysqld.as_deref())?) } else { None };
    let plugin = db_bench::plugin(live).ok();
    let program = Program::find_or_this()?;
    results::directory(options.out.path())?;
    let bytes = (u64::from(live.tables) * live.rows * 250).max(live.keys * 420);
    let parent = live.scratch.clone().map_or_else(|| scratch::default_parent(bytes * 8 + (2 << 30)), Ok)?;
    let scratch = Scratch::new(&parent, control.cancel())?;
    let study = Study { options, live, server, plugin, program, scratch, control };
    let results = study.scratch.keep_logs(study.run(), &options.out.path().join("logs"))?;
    publish(results, options.out.path(), false, report::report)
}

/// What the runs share.
struct Study<'a> {
    options: &'a Options,
    live: &'a Live,
    /// The database server, where one is needed.
    server: Option<Server>,
    plugin: Option<PathBuf>,
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
        let (options, chosen) = (self.options, self.live.runs());
        let drive = profile::table(options.drive())?;
        let repeat = usize::try_from(options.repeat())?;
        let steps: usize = chosen.iter().map(|variant| 1 + repeat * self.cells(*variant)).sum();
        let mut progress = Progress::new(self.control, steps as u64);
        let mut bases = BTreeMap::new();
        for &variant in &chosen {
            progress.begin(&format!("preparing {variant}"));
            let start = Instant::now();
            let mut detail = |detail: &str| progress.detail(detail);
            let base = match variant.is_db_bench() {
                true => self.prepare_empty(variant, &drive, &mut detail),
                false => self.prepare(variant, &drive, &mut detail),
            };
            bases.insert(variant, base.with_context(|| format!("preparing {variant}"))?);
            progress.end(&format!("{} s", start.elapsed().as_secs()));
        }
        let mut variants: Vec<results::Variant> = Vec::new();
        for &variant in &chosen {
            let (name, description) = (variant.name().into(), variant.description().into());
            variants.push(results::Variant { name, description, runs: Vec::new() });
        }
        for repetition in 0..options.repeat() {
            for (&variant, result) in chosen.iter().zip(&mut variants) {
                let base = bases.get(&variant).context("a variant was not prepared")?;
                let runs = match variant.is_db_bench() {
                    true => self.db_bench(base, variant, repetition, &mut progress),
                    false => self.repetition(base, variant, repetition, &mut progress),
                };
                result
                    .runs
                    .extend(runs.with_context(|| format!("{variant}, repetition {}", repetition + 1))?);
            }
        }
        drop(progress);
        self.results(drive, variants)
    }

    fn server(&self) -> Result<&Server> {
        self.server.as_ref().context("there is no database server")
    }

    /// Threads of a load, a run for each number: what only writes has one.
    fn threads(&self, load: Load) -> Vec<u32> {
        let has_one = load.is_db_bench() && !load.reads_beside_writes();
        if has_one { vec![1] } else { self.live.threads.clone() }
    }

    /// Runs of a variant in each repetition.
    fn cells(&self, variant: Variant) -> usize {
        let loads = self.live.loads.iter().filter(|load| load.is_db_bench() == variant.is_db_bench());
        loads.map(|load| self.threads(*load).len()).sum()
    }

    fn files(&self, mounted: &MountedDrive) -> Result<Files> {
        let mount = mounted.volume("data")?.mount.clone().context("the data's namespace is not mounted")?;
        Ok(Files { data: mount.join("db"), system: SystemTablespace::BesideData })
    }

    /// Options of the server that a variant needs.
    fn tuning(&self, variant: Variant) -> Tuning {
        let cache = self.live.cache >> 20;
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

    fn sysbench<'s>(
        &'s self,
        socket: &'s std::path::Path,
        variant: Variant,
        repetition: u32,
    ) -> Sysbench<'s> {
        let seed = self.options.seed.wrapping_add(u64::from(repetition));
        let (tables, rows) = (self.live.tables, self.live.rows);
        let (engine, cancel) = (variant.engine(), self.scratch.cancel());
        Sysbench { socket, engine, tables, rows, seed, rows_drawn: "uniform", cancel }
    }

    /// Makes the drive of a variant with the filled tables on it.
    fn prepare(
        &self,
        variant: Variant,
        drive: &toml::Table,
        progress: &mut dyn FnMut(&str),
    ) -> Result<BaseImage> {
        let layout = variant.layout(self.options.drive(), drive)?;
        BaseImage::make(&self.scratch, &self.program, &layout, progress, |mounted, progress| {
            let files = self.files(mounted)?;
            self.server()?.make_dir(&files.data)?;
            let tuning = Tuning { buffer_pool_mib: 64, ..self.tuning(variant) };
            progress("installing the database");
            mariadb::install(self.server()?, &files, &tuning, self.scratch.cancel())?;
            let instance = self.start(&files, &tuning)?;
            progress("filling the tables");
            self.sysbench(instance.socket(), variant, 0).prepare()?;
            progress("shutting the database down");
            instance.stop()
        })
    }

    fn start(&self, files: &Files, tuning: &Tuning) -> Result<Instance> {
        mariadb::start(&self.scratch, self.server()?, files, tuning, "db", Duration::from_secs(120))
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
        let live = self.live;
        let mut mounted = base.open(&self.scratch, &self.program, NAME, &toml::Table::new())?;
        let usable = usable(&mounted)?;
        let instance = self.start(&self.files(&mounted)?, &self.tuning(variant))?;
        let database = Database { instance: &instance, variant };
        let mut runs = Vec::new();
        let mut warm = live.warmup == 0;
        for &load in live.loads.iter().filter(|load| !load.is_db_bench()) {
            for &threads in &live.threads {
                progress.begin(&format!(
                    "{variant}, {}, {threads} threads, repetition {}",
                    load.script(),
                    repetition + 1
                ));
                if !warm {
                    progress.detail("warming up");
                    let time = Duration::from_secs(live.warmup);
                    self.sysbench(instance.socket(), variant, repetition).run(
                        load.script(),
                        threads,
                        time,
                    )?;
                    warm = true;
                }
                progress.detail("measuring");
                let mut run = self.one(&mut mounted, &database, load, (threads, repetition))?;
                run.metrics.insert(format!("{}_usable_MiB", load.prefix()), usable);
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
            Duration::from_secs(self.live.seconds),
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
            drive: serde_json::json!(StudyDrive {
                profile: Some(self.options.drive()),
                toml: Some(&drive),
                ..StudyDrive::default()
            }),
            comparisons: self.comparisons(&variants),
            variants,
            ..Results::empty("zoned", "live", self.options.seed, self.software())
        };
        results.notes = report::notes(&results, self.options);
        Ok(results)
    }

    /// What the databases and loads are.
    fn software(&self) -> Vec<String> {
        let (sysbench, db_bench) = self.live.needs();
        let server = self.server.iter().map(|server| server.title.clone());
        let loads = [("sysbench", sysbench), ("db_bench", db_bench)];
        server.chain(loads.into_iter().filter(|(_, runs)| *runs).map(|(name, _)| name.to_owned())).collect()
    }

    /// Zones over each conventional variant, and more spare over less.
    fn comparisons(&self, variants: &[results::Variant]) -> Vec<Comparison> {
        let find = |variant: Variant| variants.iter().find(|found| found.name == variant.name());
        let pairs = [
            (Variant::Zones, Variant::Spare7),
            (Variant::Zones, Variant::Spare28),
            (Variant::Zones, Variant::InnoDb),
            (Variant::Spare28, Variant::Spare7),
            (Variant::RocksZones, Variant::Rocks7),
            (Variant::RocksZones, Variant::Rocks28),
            (Variant::Rocks28, Variant::Rocks7),
        ];
        let mut rows = Vec::new();
        for (of, over) in pairs {
            let (Some(found), Some(base)) = (find(of), find(over)) else { continue };
            let loads = self.live.loads.iter().filter(|load| load.is_db_bench() == of.is_db_bench());
            for load in loads {
                for metric in load.compared() {
                    let name = format!("{}_{metric}", load.prefix());
                    let known = published::live(&name, of.name(), over.name());
                    rows.extend(compare(&name, found, base, |_| known.map(Published::ratio)));
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
        let mut connection = mariadb::connect(self.instance.socket(), "")?;
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// MiB that the file system of a mounted drive has for files.
fn usable(mounted: &MountedDrive) -> Result<f64> {
    let mount = mounted.volume("data")?.mount.clone().context("the data's namespace is not mounted")?;
    let space =
        rustix::fs::statvfs(&mount).with_context(|| format!("asking {} for its space", mount.display()))?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = (space.f_blocks * space.f_frsize) as f64;
    Ok(bytes / 1_048_576.0)
}

/// What the flash had to do: bytes, amplification of the drive and the engine, and years at this rate.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn flash_metrics(
    namespaces: &[NamespaceCounts],
    engine: Option<Engine>,
    seconds: f64,
    endurance: u128,
) -> BTreeMap<&'static str, f64> {
    let flash = total_on_flash(namespaces);
    let (media, host) = (flash.media_bytes_written as f64, flash.host_bytes_written as f64);
    let mut metrics = BTreeMap::from([
        ("flash_bytes", media),
        ("host_write_MiBps", host / seconds.max(1e-9) / 1_048_576.0),
    ]);
    if host > 0.0 {
        metrics.insert("drive_write_amplification", media / host);
        let years = lifetime_years(endurance, flash.media_bytes_written, seconds);
        metrics.extend(years.map(|years| ("lifetime_years", years)));
        if let Some(engine) = engine.filter(|engine| engine.given > 0) {
            metrics.insert("engine_write_amplification", engine.written as f64 / engine.given as f64);
        }
    }
    metrics
}

fn metrics(
    load: Load,
    measured: &Measured,
    namespaces: &[NamespaceCounts],
    engine: Option<Engine>,
    endurance: u128,
) -> BTreeMap<String, f64> {
    let mut metrics = flash_metrics(namespaces, engine, measured.seconds, endurance);
    if load == Load::ReadOnly {
        // It writes next to nothing: ratios of that say nothing.
        metrics.retain(|name, _| name.contains("bytes") || name.starts_with("host"));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    let transactions = measured.transactions as f64;
    let flash = metrics.remove("flash_bytes").unwrap_or(0.0);
    metrics.extend([
        ("tps", transactions / measured.seconds.max(1e-9)),
        ("p50_ms", measured.latency.p50),
        ("p99_ms", measured.latency.p99),
        ("p999_ms", measured.p999),
        ("p9999_ms", measured.p9999),
        ("flash_bytes_per_transaction", flash / transactions.max(1.0)),
    ]);
    metrics.into_iter().map(|(name, value)| (format!("{}_{name}", load.prefix()), value)).collect()
}

fn summary(run: &Run, load: Load) -> String {
    let metric = |name: &str| run.metrics.get(&format!("{}_{name}", load.prefix())).copied().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number, for reading"
    )]
    let flash = metric(load.flash()).max(0.0) as u64;
    let (done, written) =
        if load.is_db_bench() { ("operations", "write") } else { ("transactions", "transaction") };
    format!(
        "{} {done}/s, 99 % within {} ms, {} of flash writes per {written}, processors {}% busy",
        show(metric(load.rate())),
        show(metric("p99_ms")),
        show_size(flash),
        show(run.cpu.busy)
    )
}
