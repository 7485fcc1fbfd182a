//! `tranche study doublewrite`: what does it buy a database to have its doublewrite buffer on a DRAM namespace?

mod engine;
mod published;
mod report;
mod servers;
mod sim;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::engine::Engine;
use crate::{
    Findings,
    control::{Control, Progress},
    counters::{lifetime_years, total},
    cpu,
    database::Instance,
    drive::Program,
    figure::{show, show_size},
    layouts::doublewrite::{layout, system_tablespace},
    mariadb::{self, Files, Server, SystemTablespace, Tuning},
    models::innodb::{
        AGING, DEFAULT_PROFILE as PUBLISHED_PROFILE, Family, REDO_MIB, ServerLoad, ServerTuning, WINDOWS,
        figures::{latencies, metrics, whole},
    },
    mounted_drive::{BaseImage, MountedDrive, discard},
    results::{Comparison, Host, Overwrite, Point, Results, Run, compare},
    scratch::{self, Scratch},
    sweep::{self, Profiles, SetOptions},
    tpcc::{self, Phase},
};
pub use crate::{layouts::doublewrite::DEFAULT_PROFILE, models::innodb::Variant};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run real software on a real file system over the drive [default: where root, FUSE, loop devices and a server are there, else --sim]
    pub live: bool,
    /// In virtual time: a model of the published server and database on the published drive
    pub sim: bool,
    /// The model with the live study's parameters, beside what that measured: its results.json
    pub like_live: Option<PathBuf>,
    /// Connections that run transactions; several values make one point each [default: 4; with --sim 4,8,16,32,64]
    pub connections: Vec<u32>,
    /// Layouts to compare
    pub variants: Vec<Variant>,
    /// TPC-C warehouses: live about 85 MB each [default: 8; with --sim 28000]
    pub warehouses: Option<u32>,
    /// Measured time of each run [default: 25s; with --sim 60s]
    pub seconds: Option<u64>,
    /// Load before the measurement [default: 10s; with --sim 60s]
    pub warmup: Option<u64>,
    /// Interleaved repetitions [default: 3; with --sim 1]
    pub repeat: Option<u32>,
    /// InnoDB buffer pool; smaller makes more writes per transaction [default: 96MiB; with --sim 16GiB]
    pub buffer_pool: Option<u64>,
    /// Drive: a profile or a TOML file [default: pblaze5-910-lab; with --sim pblaze5-910-short, onto which the database is folded]
    pub drive: Option<String>,
    /// Database server, instead of the one installed: MariaDB, MySQL or Percona Server; given several times, one after the other and
    /// side by side
    pub mysqld: Vec<PathBuf>,
    /// Directory for report.html, results.json and results.csv
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    pub scratch: Option<PathBuf>,
    /// Only in virtual time: two points, and short ones, to see that it works, not for figures
    pub quick: bool,
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
            like_live: None,
            connections: Vec::new(),
            variants: vec![Variant::Nand, Variant::Dram, Variant::Off],
            warehouses: None,
            seconds: None,
            warmup: None,
            repeat: None,
            buffer_pool: None,
            drive: None,
            mysqld: Vec::new(),
            out: "out/doublewrite".into(),
            overwrite: Overwrite::default(),
            scratch: None,
            quick: false,
            seed: 1,
            sweep: SetOptions::default(),
        }
    }
}

/// The options with what they are by default.
#[derive(Clone)]
struct Settings {
    connections: Vec<u32>,
    variants: Vec<Variant>,
    warehouses: u32,
    seconds: u64,
    warmup: u64,
    repeat: u32,
    buffer_pool: u64,
    drive: String,
    out: PathBuf,
    scratch: Option<PathBuf>,
    quick: bool,
    /// In virtual time: seconds of load before anything is measured.
    aging: u64,
    seed: u64,
    /// What the model is held against instead of the published results.
    like: Option<sim::live::Measured>,
}

impl Settings {
    fn new(options: &Options) -> Result<Self> {
        let o = options.clone();
        let like = o.like_live.as_deref().map(sim::live::Measured::read).transpose()?;
        // With the size of the live study, windows may be as long as the others in virtual time.
        let (sim, published) = (o.sim, o.sim && like.is_none());
        let connections = match (&o.connections[..], &like) {
            ([], Some(measured)) => measured.threads(),
            ([], None) if o.quick => QUICK_CONNECTIONS.to_vec(),
            ([], None) if sim => vec![4, 8, 16, 32, 64],
            ([], None) => vec![4],
            (given, _) => given.to_vec(),
        };
        let (seconds, warmup) = match (o.quick, sim) {
            (true, _) => (QUICK_SECONDS, QUICK_WARMUP),
            (false, true) => (60, 60),
            (false, false) => (25, 10),
        };
        let settings = Self {
            connections,
            variants: like.as_ref().map_or(o.variants, sim::live::Measured::variants),
            warehouses: o.warehouses.unwrap_or(if published { 28_000 } else { 8 }),
            seconds: o.seconds.unwrap_or(seconds),
            warmup: o.warmup.unwrap_or(warmup),
            repeat: o.repeat.unwrap_or(if sim { 1 } else { 3 }),
            buffer_pool: o.buffer_pool.unwrap_or(if published { 16 << 30 } else { 96 << 20 }),
            drive: o
                .drive
                .unwrap_or_else(|| if published { PUBLISHED_PROFILE } else { DEFAULT_PROFILE }.into()),
            out: o.out,
            scratch: o.scratch,
            quick: o.quick,
            aging: if o.quick { sim::QUICK_AGING } else { AGING },
            seed: o.seed,
            like,
        };
        settings.check()?;
        Ok(settings)
    }

    /// A modelled server that does what the study asks for.
    fn load(&self) -> ServerLoad {
        ServerLoad {
            connections: self.connections.clone(),
            warehouses: self.warehouses,
            buffer_pool: self.buffer_pool,
            tuning: ServerTuning::default(),
            drive: self.drive.clone(),
            aging: self.aging,
            warmup: self.warmup,
            seconds: self.seconds,
            windows: if self.quick { 1 } else { WINDOWS },
            seed: self.seed,
            like_live: self.like.is_some(),
        }
    }

    fn check(&self) -> Result<()> {
        self.load().check()?;
        if !(1..=1_000).contains(&self.repeat) {
            crate::misuse!("--repeat is {}: 1 to 1000 are possible", self.repeat);
        }
        let mut seen = self.variants.clone();
        seen.sort();
        seen.dedup();
        if seen.len() != self.variants.len() {
            crate::misuse!("--variants names one twice");
        }
        Ok(())
    }

    fn tuning(&self, variant: Variant) -> Tuning {
        Tuning {
            buffer_pool_mib: self.buffer_pool >> 20,
            redo_mib: REDO_MIB,
            doublewrite: variant.doublewrite(),
            ..Tuning::default()
        }
    }

    /// What each variant is compared in with the first of them, or with `nand` if it is among them.
    fn comparisons(&self, variants: &[crate::results::Variant]) -> Result<Vec<Comparison>> {
        let find = |v: Variant| variants.iter().find(|found| found.name == v.name());
        let mut comparisons = Vec::new();
        let reference = self.variants.iter().copied().find(|v| *v == Variant::Nand);
        let reference = reference.or(self.variants.first().copied()).context("no variant")?;
        if let Some(over) = find(reference) {
            for &of in self.variants.iter().filter(|v| **v != reference) {
                let Some(variant) = find(of) else { continue };
                for metric in METRICS {
                    comparisons.extend(compare(metric, variant, over, |at| {
                        let known = of == Variant::Dram && reference == Variant::Nand;
                        known.then(|| published::dram_over_nand(metric, at)).flatten()
                    }));
                }
            }
        }
        Ok(comparisons)
    }
}

/// Connections of a quick run, and the seconds of a window and before it.
const QUICK_CONNECTIONS: [u32; 2] = [4, 64];
const QUICK_SECONDS: u64 = 3;
const QUICK_WARMUP: u64 = 2;

/// What the runs share.
struct Study<'a> {
    options: &'a Settings,
    server: Server,
    program: Program,
    scratch: Scratch,
    control: &'a Control,
}

/// Runs the study and writes its results.
///
/// # Errors
/// When something that it needs is missing, says what and where to get it; when the database or the drive fails, with the
/// end of their logs. Nothing is left mounted or running.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    options.overwrite.check(&options.out)?;
    if options.quick && !options.sim {
        crate::misuse!("--quick is for the simulated study: add --sim");
    }
    let engine = Engine::choose(options, || engine::obstacle(options))?;
    if let Some(line) = engine.line(options) {
        control.note(&line);
    }
    if engine != Engine::Live {
        let options = &Options { sim: true, ..options.clone() };
        let settings = Settings::new(options)?;
        let set = &options.sweep.set;
        return sweep::study(
            set,
            |profiles| sim::run_on(&settings, profiles, control),
            |profiles| sim::sweep_on(&settings, set, profiles, control),
        );
    }
    if !options.sweep.set.is_empty() {
        crate::misuse!("--set varies the simulated study: add --sim");
    }
    let mut servers = engine::servers(options)?;
    let program = Program::find_or_this()?;
    match servers.pop() {
        Some(server) if servers.is_empty() => sweep::value(run_on(options, server, program, control)?),
        last => servers::run(options, servers.into_iter().chain(last).collect(), &program, control),
    }
}

/// Runs the study in virtual time, with profiles from elsewhere. Nothing else than that is asked for.
///
/// # Errors
/// Options that only make sense live, and like [`run()`].
pub fn simulate(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
    let options = &Options { sim: true, ..options.clone() };
    Engine::choose(options, || None)?;
    if !options.sweep.set.is_empty() {
        bail!("one study is no sweep");
    }
    sim::run_on(&Settings::new(options)?, profiles, control)
}

/// Runs the study on a given server and program.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(
    options: &Options,
    server: Server,
    program: Program,
    control: &Control,
) -> Result<Findings<Results>> {
    let options = &Settings::new(options)?;
    crate::results::directory(&options.out)?;
    let study = Study::new(options, server, program, control)?;
    let results = study.scratch.keep_logs(study.run(), &options.out.join("logs"))?;
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    report::write(&results, &page, report::answer(&results), Vec::new())?;
    let text = report::text(&results, &page);
    Ok(Findings { results, written: Some(options.out.clone()), text, failure: None })
}

impl<'a> Study<'a> {
    fn new(options: &'a Settings, server: Server, program: Program, control: &'a Control) -> Result<Self> {
        // The prepared image, a run's copy, and their flash's spare.
        let wanted = u64::from(options.warehouses) * (200 << 20) * 3 + (3 << 30);
        let parent = options.scratch.clone().map_or_else(|| scratch::default_parent(wanted), Ok)?;
        let scratch = Scratch::new(&parent, control.cancel())?;
        Ok(Self { options, server, program, scratch, control })
    }

    fn run(&self) -> Result<Results> {
        let options = self.options;
        let mut families: Vec<Family> = options.variants.iter().map(|v| v.family()).collect();
        families.sort();
        families.dedup();
        let runs = options.variants.len() * options.connections.len() * usize::try_from(options.repeat)?;
        let mut progress = Progress::new(self.control, (families.len() + runs) as u64);
        let mut bases = BTreeMap::new();
        for family in families {
            progress.begin(&format!("preparing the {} drive", family.name()));
            let start = Instant::now();
            bases.insert(family, self.prepare(family, &mut |detail| progress.detail(detail))?);
            progress.end(&format!("{} s", start.elapsed().as_secs()));
        }

        let mut variants: Vec<_> = options
            .variants
            .iter()
            .map(|v| crate::results::Variant {
                name: v.name().into(),
                description: v.description().into(),
                runs: Vec::new(),
            })
            .collect();
        for repetition in 0..options.repeat {
            for &threads in &options.connections {
                for (&variant, result) in options.variants.iter().zip(&mut variants) {
                    progress.begin(&format!("{variant}, {threads} threads, repetition {}", repetition + 1));
                    let base = bases.get(&variant.family()).context("a family was not prepared")?;
                    let run =
                        self.one(base, variant, threads, repetition, &mut progress).with_context(|| {
                            format!(
                                "in variant {variant} with {threads} threads, repetition {}",
                                repetition + 1
                            )
                        })?;
                    progress.end(&summary(&run));
                    result.runs.push(run);
                }
            }
        }
        drop(progress);
        let base = bases.values().next().context("nothing was prepared")?;
        self.results(base, variants)
    }

    /// Makes the drive of a family with the loaded database on it.
    fn prepare(&self, family: Family, progress: &mut dyn FnMut(&str)) -> Result<BaseImage> {
        let options = self.options;
        let layout = layout(
            family,
            &options.drive,
            &self.program.media(&options.drive)?,
            &options.variants,
            self.server.has_doublewrite_dir(),
        )?;
        BaseImage::make(&self.scratch, &self.program, &layout, progress, |mounted, progress| {
            let files = self.files(mounted, SystemTablespace::BesideData)?;
            self.server.make_dir(&files.data)?;
            let tuning = Tuning {
                buffer_pool_mib: 256,
                binlog: false,
                redo_mib: REDO_MIB,
                doublewrite: self.server.prepares_doublewrite(),
                ..Tuning::default()
            };
            progress("installing the database");
            mariadb::install(&self.server, &files, &tuning, self.scratch.cancel())?;
            let instance = self.start(&files, &tuning)?;
            let rows = Arc::new(AtomicU64::new(0));
            let total = tpcc::rows(options.warehouses);
            let database = tpcc::Database::MariaDb(instance.socket().to_owned());
            thread::scope(|scope| {
                let cancel = self.control.cancel();
                let loader =
                    scope.spawn(|| tpcc::load(&database, options.warehouses, options.seed, &rows, cancel));
                while !loader.is_finished() {
                    let done = rows.load(std::sync::atomic::Ordering::Relaxed);
                    progress(&format!(
                        "loading {} warehouses, {}%",
                        options.warehouses,
                        done * 100 / total.max(1)
                    ));
                    thread::sleep(Duration::from_millis(100));
                }
                loader.join().unwrap_or_else(|_| bail!("the loader panicked"))
            })?;
            progress("shutting the database down");
            instance.stop()
        })
    }

    fn files(&self, mounted: &MountedDrive, system: SystemTablespace) -> Result<Files> {
        let mount = mounted.volume("data")?.mount.clone().context("the data's namespace is not mounted")?;
        Ok(Files { data: mount.join("db"), system })
    }

    fn start(&self, files: &Files, tuning: &Tuning) -> Result<Instance> {
        mariadb::start(&self.scratch, &self.server, files, tuning, "db", Duration::from_secs(120))
    }

    /// One run of one variant, on a fresh copy of the prepared drive.
    fn one(
        &self,
        base: &BaseImage,
        variant: Variant,
        threads: u32,
        repetition: u32,
        progress: &mut Progress,
    ) -> Result<Run> {
        const NAME: &str = "run";
        let options = self.options;
        progress.detail("restoring the drive");
        let mut mounted = base.open(&self.scratch, &self.program, NAME, &toml::Table::new())?;
        let files = self.files(&mounted, system_tablespace(variant, &mounted)?)?;
        files.place_system_tablespace(&self.server)?;
        let tuning = options.tuning(variant);
        let instance = self.start(&files, &tuning)?;
        let load = tpcc::LoadSettings {
            database: tpcc::Database::MariaDb(instance.socket().to_owned()),
            warehouses: options.warehouses,
            threads,
            warmup: Duration::from_secs(options.warmup),
            window: Duration::from_secs(options.seconds),
            // Every variant of a repetition gets the same transactions.
            seed: options.seed.wrapping_add(u64::from(repetition)),
            cancel: self.control.cancel().clone(),
        };
        let mut processes = vec![("database", instance.id()), ("load", std::process::id())];
        processes.extend(mounted.drive()?.id().map(|id| ("drive", id)));
        let mut samples = Vec::new();
        let outcome = tpcc::run(&load, |phase| {
            match phase {
                Phase::Warmup { elapsed, .. } => {
                    progress.detail(&format!("warming up, {} s", elapsed.as_secs()))
                }
                Phase::Measuring { elapsed, new_orders } => {
                    let per_minute = rate(new_orders, elapsed) * 60.0;
                    progress.detail(&format!(
                        "measuring, {} of {} s, {} tpmC",
                        elapsed.as_secs(),
                        options.seconds,
                        show(per_minute)
                    ));
                }
                Phase::Start | Phase::End => {
                    samples.push((mounted.counters()?, cpu::Sample::take(&processes)))
                }
            }
            Ok(())
        })?;
        progress.detail("checking the consistency conditions");
        tpcc::check(&load.database)?;
        // The copy is thrown away: no need for the database to write its buffer pool back.
        instance.kill();
        let [(before, cpu_before), (after, cpu_after)] = &samples[..] else {
            bail!("the measured window was not sampled twice")
        };
        let namespaces = mounted.counted(before, after);
        let endurance = mounted.drive()?.endurance(1)?;
        mounted.close()?;
        discard(&self.scratch, NAME)?;
        let mut run = Run {
            at: Point::from([("threads".into(), threads.into())]),
            repetition,
            seconds: outcome.window.length.as_secs_f64(),
            cpu: cpu_after.since(cpu_before, threads),
            per_second: outcome.per_second,
            warmup_seconds: load.warmup.as_secs_f64(),
            latency_ms: latencies(&outcome.window.latency, &outcome.window.commit),
            ..Run::default()
        };
        let window = &outcome.window;
        run.metrics = metrics(window.new_orders(), window.length.as_secs_f64(), &namespaces);
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        run.metrics.insert("retries".into(), window.retries as f64);
        let written = total(namespaces.iter().filter(|namespace| namespace.set == 1));
        run.metrics.extend(
            lifetime_years(endurance, written.media_bytes_written, run.seconds)
                .map(|years| ("lifetime_years".into(), years)),
        );
        run.namespaces = namespaces;
        Ok(run)
    }

    fn results(&self, base: &BaseImage, variants: Vec<crate::results::Variant>) -> Result<Results> {
        let comparisons = self.options.comparisons(&variants)?;
        let drive = serde_json::json!({
            "profile": self.options.drive,
            "toml": base.drive_toml(),
            "layout": base.layout(),
        });
        let mut results = Results {
            study: "doublewrite".into(),
            engine: "live",
            seed: self.options.seed,
            drive,
            host: Host::this(vec![self.server.title.clone()]),
            variants,
            comparisons,
            notes: Vec::new(),
        };
        results.notes = report::notes(&results, self.options, &self.server);
        Ok(results)
    }
}

/// The figures that are compared.
pub const METRICS: [&str; 4] =
    ["tpmC", "nand_bytes_per_new_order", "write_amplification_all", "write_amplification_nand"];

fn summary(run: &Run) -> String {
    let metric = |name: &str| run.metrics.get(name).copied().unwrap_or(0.0);
    format!(
        "{} tpmC, {} of NAND writes per new order, write amplification {}, processors {}% busy, waited for {}% of the time",
        show(metric("tpmC")),
        show_size(whole(metric("nand_bytes_per_new_order"))),
        show(metric("write_amplification_nand")),
        show(run.cpu.busy),
        show(run.cpu.waiting)
    )
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}
