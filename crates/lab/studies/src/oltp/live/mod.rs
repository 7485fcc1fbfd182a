//! The study with a real database: MariaDB under sysbench on the disk, on the NVMe drive, and on the disk behind a live cache tier. Drives are scaled, and in
//! slow motion.
//!
//! After each run the server is killed, the drive shut down in order, and both started again, as fast as the machine is. Recovery and `CHECK TABLE` then say
//! whether the database is whole.

mod report;
mod setup;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::setup::{SETUPS, Setup, Sizes};
use super::{
    options::{Live, Options},
    published,
    setup::pieces,
    testbed::{self, DriveTables},
};
use crate::StudyDrive;
use lab_databases::{
    database::Instance,
    drive::Program,
    mariadb::{self, Files, Server, SystemTablespace, Tuning},
    mounted_drive::{self, BaseImage, MountedDrive, discard},
    process::{missing, run_long},
    scratch::{self, Scratch},
    sysbench::{self, Measured, Sysbench},
};
use lab_report::{
    Findings,
    control::{Control, Progress},
    cpu,
    figure::show,
    parallel, profile,
    report::publish,
    results::{self, Comparison, Published, Results, Run, Variant, compare_pairs, seed_of},
};

/// Directory of the database on a file system.
const DIRECTORY: &str = "db";
/// sysbench's script, and how it draws rows: what sysbench 0.4 did without further options.
const SCRIPT: &str = "oltp_read_write";
const ROWS_DRAWN: &str = "special";
/// How long a server may take to start on a disk in slow motion, with its recovery.
const START_TIMEOUT: Duration = Duration::from_secs(600);

/// Why the study cannot run live here; `None` if it can, as far as can be seen without trying.
fn obstacle() -> Option<String> {
    let programs = [("sysbench", sysbench::PACKAGE), ("mkfs.xfs", "xfsprogs")];
    mounted_drive::obstacle()
        .or_else(|| programs.into_iter().find_map(|(program, package)| missing(program, package)))
}

/// Runs the study and writes its results.
///
/// # Errors
/// When something that it needs is missing, says what and where to get it; when the database, the tier or the drive fails, with the end of their logs, or when
/// the database is not whole after a run. Nothing is left mounted or running.
pub(super) fn run(options: &Options, control: &Control) -> Result<Findings<Results>> {
    let live = &options.real;
    options.check()?;
    if let Some(why) = obstacle() {
        bail!("the study cannot run live here: {why}");
    }
    let server = Server::find(live.mysqld.as_deref())?;
    let program = Program::find_or_this()?;
    results::directory(options.out.path())?;
    let parent = live.scratch.clone().map_or_else(|| scratch::default_parent(6 << 30), Ok)?;
    let scratch = Scratch::new(&parent, control.cancel())?;
    let sizes = Sizes::of(options, live);
    let study = Study { options, live, sizes, server, program, scratch, control };
    let results = study.scratch.keep_logs(study.run(), &options.out.path().join("logs"))?;
    publish(results, options.out.path(), false, |results| report::report(results, options, live, sizes))
}

/// What the runs share.
struct Study<'a> {
    options: &'a Options,
    live: &'a Live,
    sizes: Sizes,
    server: Server,
    program: Program,
    scratch: Scratch,
    control: &'a Control,
}

/// What the tier has done.
#[derive(Clone, Copy, Default)]
struct TierCounts {
    read_hits: u64,
    read_misses: u64,
    write_hits: u64,
    write_misses: u64,
    promotions: u64,
    writebacks: u64,
    chunk: u64,
}

impl Study<'_> {
    fn run(&self) -> Result<Results> {
        let (options, live) = (self.options, self.live);
        let drive = setup::drive(options, live)?;
        let setups = setup::chosen(options);
        let steps = 1 + setups.len() as u64 * u64::from(options.repeat);
        let mut progress = Progress::new(self.control, steps);
        progress.begin("preparing the drive");
        let start = Instant::now();
        let base =
            self.prepare(&drive, &mut |detail| progress.detail(detail)).context("preparing the drive")?;
        progress.end(&format!("{} s", start.elapsed().as_secs()));
        let without_runs = |setup: &Setup| Variant {
            name: setup.name.to_owned(),
            description: setup.about.to_owned(),
            runs: Vec::new(),
        };
        let mut variants: Vec<Variant> = setups.iter().map(without_runs).collect();
        for repetition in 0..options.repeat {
            for (setup, variant) in setups.iter().zip(&mut variants) {
                progress.begin(&format!("{}, repetition {}", setup.name, repetition + 1));
                let run = self.repetition(&base, setup, repetition, &mut progress);
                let run = run.with_context(|| format!("{}, repetition {}", setup.name, repetition + 1))?;
                let of = |metric: &str| show(run.metrics.get(metric).copied().unwrap_or_default());
                progress.end(&format!(
                    "{} transactions/s, {} in the drive's time; {} rows checked",
                    of("wall_tps"),
                    of("tps"),
                    of("checked_rows")
                ));
                variant.runs.push(run);
            }
        }
        drop(progress);
        if !options.quick {
            self.control.note("the same as published, in virtual time");
            variants.extend(self.in_virtual_time()?);
        }
        let mut results = Results {
            drive: serde_json::json!(StudyDrive {
                disk: Some(&options.disk),
                nvme: Some(&options.nvme),
                scale: Some(live.scale),
                slow_motion: Some(live.slow_motion),
                rows: Some(self.sizes.rows),
                pool_bytes: Some(self.sizes.pool_mib << 20),
                threads: Some(options.threads),
                toml: Some(&drive),
                ..StudyDrive::default()
            }),
            comparisons: comparisons(&variants),
            variants,
            ..Results::empty("oltp", "live", options.seed, vec![self.server.title.clone(), "sysbench".into()])
        };
        results.note(report::notes(&results, options, live, self.sizes), options.quick);
        Ok(results)
    }

    /// Makes the drive with the filled table, once on the disk and once on the NVMe drive.
    fn prepare(&self, drive: &toml::Table, progress: &mut dyn FnMut(&str)) -> Result<BaseImage> {
        let layout = setup::layout(self.live, drive, &self.scratch)?;
        BaseImage::make(&self.scratch, &self.program, &layout, progress, |mounted, progress| {
            let files = files(mounted, setup::NVME)?;
            self.server.make_dir(&files.data)?;
            let tuning = self.tuning(false, self.sizes.pool_mib.max(128));
            progress("installing the database");
            mariadb::install(&self.server, &files, &tuning, self.scratch.cancel())?;
            let instance = self.start(&files, &tuning)?;
            progress(&format!("filling the table with {} rows", self.sizes.rows));
            self.sysbench(instance.socket(), 0).prepare()?;
            progress("shutting the database down");
            instance.stop()?;
            progress("copying it to the disk");
            let target = mount(mounted, setup::DISK)?;
            let mut copy = Command::new("cp");
            run_long(copy.arg("--archive").arg(&files.data).arg(&target), "coreutils", self.scratch.cancel())
                .context("copying the database to the disk: with a larger --scale it has fewer rows")?;
            Ok(())
        })
    }

    /// The published settings, scaled.
    fn tuning(&self, doublewrite: bool, pool_mib: u64) -> Tuning {
        let slow = self.live.slow_motion;
        let extra = vec![
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
            // Usually a second, of the drive's time here: else the log would take the disk that many times as often.
            format!("--innodb-flush-log-at-timeout={slow}"),
            "--innodb-max-dirty-pages-pct=80".into(),
            "--innodb-log-buffer-size=16M".into(),
            format!("--innodb-lock-wait-timeout={}", 50 * slow),
            "--max-connections=5000".into(),
        ];
        Tuning {
            buffer_pool_mib: pool_mib,
            redo_mib: self.sizes.redo_mib,
            io_capacity: (200 / slow).max(100), // MariaDB takes no less
            doublewrite,
            binlog: false,
            extra,
        }
    }

    fn start(&self, files: &Files, tuning: &Tuning) -> Result<Instance> {
        mariadb::start(&self.scratch, &self.server, files, tuning, "db", START_TIMEOUT)
    }

    fn sysbench<'s>(&'s self, socket: &'s Path, repetition: u32) -> Sysbench<'s> {
        let seed = seed_of(self.options.seed, repetition) & u64::from(u32::MAX >> 1);
        let (rows, cancel) = (self.sizes.rows, self.scratch.cancel());
        Sysbench { socket, engine: "innodb", tables: 1, rows, seed, rows_drawn: ROWS_DRAWN, cancel }
    }

    /// A variant on a fresh copy of the prepared drive.
    fn repetition(
        &self,
        base: &BaseImage,
        setup: &Setup,
        repetition: u32,
        progress: &mut Progress,
    ) -> Result<Run> {
        const NAME: &str = "run";
        let (tier, none) = (setup.tier(), toml::Table::new());
        let directory = base.copy(&self.scratch, NAME)?;
        let serve = |timing| {
            let directory = directory.clone();
            base.serve_behind(&self.scratch, &self.program, directory, &none, timing, tier.as_ref())
        };
        progress.detail("starting");
        let mut mounted = serve(true)?;
        let place = files(&mounted, setup.namespace())?;
        let tuning = self.tuning(setup.doublewrite, self.sizes.pool_mib);
        let instance = self.start(&place, &tuning)?;
        progress.detail("measuring");
        let mut run = self.measure(&mut mounted, &instance, setup, repetition)?;
        // As after a crash of the server: recovery is a part of the check.
        instance.kill();
        mounted.close()?;
        progress.detail("checking");
        let mounted = serve(false)?;
        let place = files(&mounted, setup.namespace())?;
        let rows = self.check(&place, &self.tuning(setup.doublewrite, self.sizes.pool_mib.max(128)))?;
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        run.metrics.insert("checked_rows".into(), rows as f64);
        mounted.close()?;
        discard(&self.scratch, NAME)?;
        Ok(run)
    }

    /// sysbench for the measured time.
    fn measure(
        &self,
        mounted: &mut MountedDrive,
        instance: &Instance,
        setup: &Setup,
        repetition: u32,
    ) -> Result<Run> {
        let tier = setup.tier();
        let status = |mounted: &mut MountedDrive| -> Result<TierCounts> {
            tier.as_ref()
                .map_or(Ok(TierCounts::default()), |tier| counts(&mounted.drive()?.tier_status(&tier.name)?))
        };
        let mut processes = vec![("database", instance.id())];
        processes.extend(mounted.drive()?.id().map(|id| ("drive", id)));
        let (cpu, counted, before) = (cpu::Sample::take(&processes), mounted.counters()?, status(mounted)?);
        let (threads, time) = (self.options.threads, Duration::from_secs(self.sizes.seconds));
        let measured = self.sysbench(instance.socket(), repetition).run(SCRIPT, threads, time)?;
        let cpu = cpu::Sample::take(&processes).since(&cpu, threads);
        let (counted_after, after) = (mounted.counters()?, status(mounted)?);
        let mut metrics = metrics(&measured, self.live.slow_motion);
        if tier.is_some() {
            metrics.extend(after.since(before));
        }
        Ok(Run {
            repetition,
            seconds: measured.seconds,
            metrics: metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            latency_ms: BTreeMap::from([("transaction".to_owned(), measured.latency)]),
            namespaces: mounted.counted(&counted, &counted_after),
            cpu,
            ..Run::default()
        })
    }

    /// Starts the database after its server was killed, and checks the table. Returns its rows.
    ///
    /// # Errors
    /// It is not whole.
    fn check(&self, files: &Files, tuning: &Tuning) -> Result<u64> {
        use mysql::prelude::Queryable;
        let instance = self.start(files, tuning).context("starting the database after the run")?;
        let mut connection = mariadb::connect(instance.socket(), sysbench::DATABASE)?;
        let said: Vec<(String, String, String, String)> = connection.query("CHECK TABLE sbtest1 EXTENDED")?;
        if !said.iter().any(|(_, _, kind, text)| kind == "status" && text == "OK") {
            bail!("CHECK TABLE finds the database damaged: {said:?}");
        }
        let rows: Option<u64> = connection.query_first("SELECT COUNT(*) FROM sbtest1")?;
        let rows = rows.context("the table has no count")?;
        if rows != self.sizes.rows {
            // A transaction deletes a row and inserts it again.
            bail!("the table has {rows} rows after the run, and had {}", self.sizes.rows);
        }
        drop(connection);
        instance.kill();
        Ok(rows)
    }

    /// The variants as published, in virtual time.
    fn in_virtual_time(&self) -> Result<Vec<Variant>> {
        let options = self.options;
        let tables =
            DriveTables { disk: profile::table(&options.disk)?, nvme: profile::table(&options.nvme)? };
        let mut wanted: Vec<&str> = SETUPS.iter().map(|setup| setup.in_virtual_time).collect();
        // What the doublewrite buffer is compared with.
        wanted.push("hdd");
        let is_wanted = |piece: &super::setup::Piece| {
            piece.at.is_empty() && piece.repetition == 0 && wanted.contains(&piece.setup.name)
        };
        let pieces: Vec<_> = pieces(options).into_iter().filter(is_wanted).collect();
        let done =
            parallel::map(self.control, &pieces, |piece| testbed::run(options, &tables, piece, self.control));
        let variants = pieces.iter().zip(done).map(|(piece, run)| {
            Ok(Variant {
                name: format!("virtual-{}", piece.setup.name),
                description: format!("In virtual time: {}", piece.setup.about),
                runs: vec![run.with_context(|| format!("in virtual time, {}", piece.setup.name))?],
            })
        });
        variants.collect()
    }
}

impl TierCounts {
    /// Figures of the time since then.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn since(self, before: Self) -> [(&'static str, f64); 6] {
        let of = |field: fn(&Self) -> u64| field(&self).saturating_sub(field(&before)) as f64;
        let (read_hits, read_misses) = (of(|counts| counts.read_hits), of(|counts| counts.read_misses));
        let (write_hits, write_misses) = (of(|counts| counts.write_hits), of(|counts| counts.write_misses));
        let percent = |hits: f64, misses: f64| hits * 100.0 / (hits + misses).max(1.0);
        let megabytes = |chunks: f64| chunks * self.chunk as f64 / 1e6;
        [
            ("hits", read_hits + write_hits),
            ("misses", read_misses + write_misses),
            ("read_hit_percent", percent(read_hits, read_misses)),
            ("hit_percent", percent(read_hits + write_hits, read_misses + write_misses)),
            ("promoted_MB", megabytes(of(|counts| counts.promotions))),
            ("written_back_MB", megabytes(of(|counts| counts.writebacks))),
        ]
    }
}

/// The counters of a tier's status.
fn counts(status: &Value) -> Result<TierCounts> {
    let of = |name: &str| status[name].as_u64().with_context(|| format!("the tier's status has no {name}"));
    Ok(TierCounts {
        read_hits: of("read_hits")?,
        read_misses: of("read_misses")?,
        write_hits: of("write_hits")?,
        write_misses: of("write_misses")?,
        promotions: of("promotions")?,
        writebacks: of("writebacks")?,
        chunk: of("chunk")?,
    })
}

fn mount(mounted: &MountedDrive, name: &str) -> Result<PathBuf> {
    mounted.volume(name)?.mount.clone().with_context(|| format!("the namespace {name} is not mounted"))
}

fn files(mounted: &MountedDrive, name: &str) -> Result<Files> {
    Ok(Files { data: mount(mounted, name)?.join(DIRECTORY), system: SystemTablespace::BesideData })
}

/// Figures of sysbench. Those without `wall` are in the drive's time.
fn metrics(measured: &Measured, slow_motion: u32) -> BTreeMap<&'static str, f64> {
    let slow = f64::from(slow_motion);
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    let tps = measured.transactions as f64 / measured.seconds.max(1e-9);
    BTreeMap::from([
        ("wall_tps", tps),
        ("tps", tps * slow),
        ("mean_ms", measured.latency.mean / slow),
        ("p95_ms", measured.latency.p95 / slow),
        ("p99_ms", measured.latency.p99 / slow),
    ])
}

fn comparisons(variants: &[Variant]) -> Vec<Comparison> {
    let pairs = [
        ("nvme", "hdd"),
        ("cache-writethrough", "hdd"),
        ("cache-writeback", "hdd"),
        ("cache-smq", "hdd"),
        ("hdd-doublewrite", "hdd"),
        ("virtual-nvme-cold", "virtual-hdd-cold"),
        ("virtual-cache-writethrough", "virtual-hdd"),
        ("virtual-cache-cold", "virtual-hdd-cold"),
        ("virtual-cache-smq-cold", "virtual-hdd-cold"),
        ("virtual-hdd-doublewrite", "virtual-hdd"),
    ];
    let published = |row: &Comparison| published::over_disk(&row.of).map(Published::ratio);
    compare_pairs(variants, &pairs, &["tps"], published)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiers_counts_are_those_of_the_run() {
        let status = |reads: u64| {
            serde_json::json!({
                "read_hits": reads, "read_misses": 10, "write_hits": 2 * reads, "write_misses": 10, "promotions": reads,
                "writebacks": 0, "chunk": 65536,
            })
        };
        let (before, after) = (counts(&status(10)).unwrap(), counts(&status(40)).unwrap());
        let found = BTreeMap::from(after.since(before));
        assert_eq!((found["hits"], found["misses"], found["read_hit_percent"]), (90.0, 0.0, 100.0));
        assert!((found["promoted_MB"] - 1.966_08).abs() < 1e-9, "{found:?}");
        assert!(counts(&serde_json::json!({ "read_hits": 1 })).is_err());
    }

    #[test]
    fn rates_are_in_the_drives_time() {
        let measured = Measured {
            transactions: 500,
            seconds: 10.0,
            latency: lab_report::percentiles::Percentiles::default(),
            p999: 0.0,
            p9999: 0.0,
        };
        let found = metrics(&measured, 24);
        assert_eq!((found["wall_tps"], found["tps"]), (50.0, 1200.0));
    }
}
