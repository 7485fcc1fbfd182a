//! The study with a real server on a real file system over the drive.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    report,
    settings::{Options, Settings},
};
use crate::StudyDrive;
use crate::layouts::doublewrite::{layout, system_tablespace};
use lab_databases::{
    database::Instance,
    drive::Program,
    mariadb::{self, Files, Server, SystemTablespace, Tuning},
    mounted_drive::{BaseImage, MountedDrive, discard},
    scratch::{self, Scratch},
    tpcc::{self, Phase},
};
use lab_models::innodb::{
    Family, REDO_MIB, Variant,
    figures::{latencies, metrics, whole},
};
use lab_report::{
    Findings,
    control::{Control, Progress},
    counters::{lifetime_years, total},
    cpu,
    figure::{show, show_size},
    results::{Point, Results, Run},
};

/// What the runs share.
struct Study<'a> {
    options: &'a Settings,
    server: Server,
    program: Program,
    scratch: Scratch,
    control: &'a Control,
}

/// Runs the study on a given server and program.
///
/// # Errors
/// When something that it needs is missing; when the database or the drive fails, with the end of their logs.
pub fn run_on(
    options: &Options,
    server: Server,
    program: Program,
    control: &Control,
) -> Result<Findings<Results>> {
    let options = &Settings::new(options)?;
    lab_report::results::directory(&options.out)?;
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
            .map(|v| lab_report::results::Variant {
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

    fn results(&self, base: &BaseImage, variants: Vec<lab_report::results::Variant>) -> Result<Results> {
        let comparisons = self.options.comparisons(&variants)?;
        let drive = serde_json::json!(StudyDrive {
            profile: Some(&self.options.drive),
            toml: Some(base.drive_toml()),
            layout: Some(base.layout()),
            ..StudyDrive::default()
        });
        let mut results = Results {
            drive,
            variants,
            comparisons,
            ..Results::empty("doublewrite", "live", self.options.seed, vec![self.server.title.clone()])
        };
        results.notes = report::notes(&results, self.options, &self.server);
        Ok(results)
    }
}

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
