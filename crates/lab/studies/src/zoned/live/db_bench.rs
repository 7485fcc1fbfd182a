//! db_bench, RocksDB's own benchmark: on a store on zones through the plug-in, and on a mounted file system.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{Engine, Live, Load, Options, Study, Variant, flash_metrics, published, summary, usable};
use crate::zoned::tickers::ticker;
use lab_databases::{
    drive::HOST_NQN,
    mounted_drive::{BaseImage, MountedDrive, discard},
    process::{Process, tail},
    scratch::{Role, Scratch},
};
use lab_models::rocksdb;
use lab_report::{
    control::Progress,
    cpu,
    percentiles::Percentiles,
    results::{Point, Run},
};

/// Package that has it.
pub(super) const PACKAGE: &str = "rocksdb-tools";
/// The plug-in, as `make plugin` names it.
const PLUGIN: &str = "libtranche_rocksdb.so";
/// Bytes of a key, and of a value: the published 800 are compressed to 400, and compression would take the processors from the drive.
pub(super) const RECORD: (u32, u32) = (rocksdb::RECORD.0, rocksdb::RECORD.2);
/// Bytes of a memtable and of a table: two thirds of a zone of `zn540-lab`.
const TABLE: u64 = 8 << 20;
/// The published limit of the writes beside reads in bytes per second, scaled as `zn540-lab` is: 2 of 32 dies and one of two planes.
pub(super) const WRITE_LIMIT: u64 = published::WRITE_LIMIT / 32;

/// Where the database is.
#[derive(Debug)]
enum Place {
    /// In a directory.
    Directory(PathBuf),
    /// On the store of this URI, by way of the plug-in.
    Store { uri: String, plugin: PathBuf },
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq)]
struct Measured {
    /// Reads of `readwhilewriting`, writes of the others.
    operations: u64,
    seconds: f64,
    /// Latency of the operations in milliseconds.
    latency: Percentiles,
    /// What fewer than one in 1,000 and one in 10,000 take longer than.
    p999: f64,
    p9999: f64,
    /// Keys that were written.
    writes: u64,
    engine: Engine,
}

/// The plug-in: the one that the options name, or the one that `make plugin` has built in the tree of this program or in this directory.
///
/// # Errors
/// There is none; says how to get it.
pub(super) fn plugin(live: &Live) -> Result<PathBuf> {
    let mut candidates: Vec<PathBuf> = live.plugin.iter().cloned().collect();
    if candidates.is_empty() {
        let here = std::env::current_exe().ok();
        let built = here.as_deref().and_then(Path::parent).and_then(Path::parent);
        candidates.extend(built.map(|target| target.join("plugins").join(PLUGIN)));
        candidates.push(Path::new("target/plugins").join(PLUGIN));
    }
    let found = candidates.iter().find(|path| path.is_file()).cloned();
    found.with_context(|| {
        let names: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        format!(
            "RocksDB's plug-in is missing, there is no {}: `make plugin` builds it, --plugin names it (docs/howto/rocksdb.md); or leave rocksdb-zones out of --variants",
            names.join(" and no ")
        )
    })
}

impl Study<'_> {
    /// The drive of a variant with nothing on it but a file system.
    pub(super) fn prepare_empty(
        &self,
        variant: Variant,
        drive: &toml::Table,
        progress: &mut dyn FnMut(&str),
    ) -> Result<BaseImage> {
        let layout = variant.layout(self.options.drive(), drive)?;
        BaseImage::make(&self.scratch, &self.program, &layout, progress, |_, _| Ok(()))
    }

    /// All loads on a fresh copy of the prepared drive. The database is filled in any case.
    pub(super) fn db_bench(
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
        let place = self.place(variant, &mut mounted)?;
        let mut runs = Vec::new();
        if !live.loads.contains(&Load::Fill) {
            progress.detail("filling");
            self.call(&place, &mounted_drive_id(&mut mounted)?, (Load::Fill, 1, repetition), None)?;
        }
        let mut warm = live.warmup == 0;
        for &load in live.loads.iter().filter(|load| load.is_db_bench()) {
            for threads in self.threads(load) {
                let what = load.title();
                progress
                    .begin(&format!("{variant}, {what}, {threads} threads, repetition {}", repetition + 1));
                if !warm && load != Load::Fill {
                    progress.detail("warming up");
                    let drive = mounted_drive_id(&mut mounted)?;
                    self.call(&place, &drive, (Load::Overwrite, 1, repetition), Some(live.warmup))?;
                    warm = true;
                }
                progress.detail("measuring");
                let mut run = self.one_of_db_bench(&mut mounted, &place, (load, threads, repetition))?;
                run.metrics.insert(format!("{}_usable_MiB", load.prefix()), usable);
                progress.end(&summary(&run, load));
                runs.push(run);
            }
        }
        mounted.close()?;
        discard(&self.scratch, NAME)?;
        Ok(runs)
    }

    /// Where the database of a variant is. The plug-in wants the store for itself.
    fn place(&self, variant: Variant, mounted: &mut MountedDrive) -> Result<Place> {
        let volume = mounted.volume("data")?;
        let (nsid, mount) = (volume.nsid, volume.mount.clone());
        if variant != Variant::RocksZones {
            return Ok(Place::Directory(mount.context("the data's namespace is not mounted")?.join("db")));
        }
        mounted.unmount()?;
        let socket = mounted.drive()?.unix().context("the drive has no socket")?.display().to_string();
        let plugin = self.plugin.clone().context("there is no plug-in")?;
        Ok(Place::Store { uri: format!("tranche://{socket}?nsid={nsid}&hostnqn={HOST_NQN}"), plugin })
    }

    /// One load with its counters.
    fn one_of_db_bench(
        &self,
        mounted: &mut MountedDrive,
        place: &Place,
        (load, threads, repetition): (Load, u32, u32),
    ) -> Result<Run> {
        let drive = mounted_drive_id(mounted)?;
        let counted = mounted.counters()?;
        let begin = Instant::now();
        let seconds = (load != Load::Fill).then_some(self.live.seconds);
        let (measured, cpu) = self.call(place, &drive, (load, threads, repetition), seconds)?;
        // What the kernel holds back is written for this load.
        mounted.sync()?;
        let took = begin.elapsed().as_secs_f64();
        let counted_after = mounted.counters()?;
        let namespaces = mounted.counted(&counted, &counted_after);
        let endurance = mounted.drive()?.endurance(1)?;
        let mut metrics = flash_metrics(&namespaces, Some(measured.engine), took, endurance);
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        let (operations, writes) = (measured.operations as f64, measured.writes.max(1) as f64);
        let flash = metrics.remove("flash_bytes").unwrap_or(0.0);
        metrics.extend([
            ("ops_per_second", operations / measured.seconds.max(1e-9)),
            ("writes_per_second", writes / measured.seconds.max(1e-9)),
            ("p50_ms", measured.latency.p50),
            ("p99_ms", measured.latency.p99),
            ("p999_ms", measured.p999),
            ("p9999_ms", measured.p9999),
            ("flash_bytes_per_write", flash / writes),
        ]);
        let named = |(name, value)| (format!("{}_{name}", load.prefix()), value);
        Ok(Run {
            at: Point::from([("threads".into(), threads.into())]),
            repetition,
            seconds: measured.seconds,
            cpu,
            latency_ms: BTreeMap::from([(load.prefix().to_owned(), measured.latency)]),
            metrics: metrics.into_iter().map(named).collect(),
            namespaces,
            ..Run::default()
        })
    }

    /// Runs db_bench to its end, for so many seconds or until all keys were written.
    fn call(
        &self,
        place: &Place,
        drive: &[(&'static str, u32)],
        (load, threads, repetition): (Load, u32, u32),
        seconds: Option<u64>,
    ) -> Result<(Measured, lab_report::results::Cpu)> {
        let log = self.scratch.dir("db_bench")?.join("db_bench.log");
        // Each run has its own.
        let _ = std::fs::remove_file(&log);
        let command = command(self.options, place, (load, threads, repetition), seconds);
        let (cpu, text) = finish(&self.scratch, command, &log, (drive, threads))?;
        let measured = parse(&text, load);
        let measured = measured.with_context(|| {
            format!("db_bench said something else than expected; its end:\n{}", tail(&log, 15))
        })?;
        Ok((measured, cpu))
    }
}

/// The drive's process, if it is one.
fn mounted_drive_id(mounted: &mut MountedDrive) -> Result<Vec<(&'static str, u32)>> {
    Ok(mounted.drive()?.id().map(|id| ("drive", id)).into_iter().collect())
}

/// What is run.
fn command(
    options: &Options,
    place: &Place,
    (load, threads, repetition): (Load, u32, u32),
    seconds: Option<u64>,
) -> Command {
    let live = &options.real;
    let mut command = Command::new("db_bench");
    match place {
        Place::Directory(directory) => {
            command.arg(format!("--db={}", directory.display()));
        }
        Place::Store { uri, plugin } => {
            command.env("LD_PRELOAD", plugin).args(["--db=/db".into(), format!("--fs_uri={uri}")]);
        }
    }
    command.args([
        format!("--benchmarks={}", load.script()),
        format!("--num={}", live.keys),
        format!("--key_size={}", RECORD.0),
        format!("--value_size={}", RECORD.1),
        format!("--threads={threads}"),
        format!("--cache_size={}", live.cache),
        format!("--seed={}", options.seed.wrapping_add(u64::from(repetition)).max(1)),
        format!("--write_buffer_size={TABLE}"),
        format!("--target_file_size_base={TABLE}"),
        // The published scripts: twice a memtable, and four times as much on each level below.
        format!("--max_bytes_for_level_base={}", 2 * TABLE),
    ]);
    command.args([
        "--max_bytes_for_level_multiplier=4",
        "--max_background_jobs=2",
        "--compression_type=none",
        "--bloom_bits=10",
        "--use_direct_reads=true",
        "--use_direct_io_for_flush_and_compaction=true",
        "--histogram=true",
        "--statistics=true",
    ]);
    command.arg(format!("--use_existing_db={}", load != Load::Fill));
    command.args(seconds.map(|seconds| format!("--duration={}", seconds.max(1))));
    if load == Load::ReadWhileLimited {
        command.arg(format!("--benchmark_write_rate_limit={WRITE_LIMIT}"));
    }
    command
}

/// Runs a command to its end; returns what the processors did, and what it said.
fn finish(
    scratch: &Scratch,
    command: Command,
    log: &Path,
    (drive, threads): (&[(&'static str, u32)], u32),
) -> Result<(lab_report::results::Cpu, String)> {
    let mut process = Process::start(scratch, Role::Client, "db_bench", command, log, None)?;
    let mut processes = vec![("database", process.id())];
    processes.extend(drive);
    let before = cpu::Sample::take(&processes);
    let mut last = before.clone();
    let status = loop {
        if let Some(status) = process.exited() {
            break status;
        }
        // A process that has ended has no counters.
        last = cpu::Sample::take(&processes);
        scratch.cancel().sleep(Duration::from_millis(200))?;
    };
    if !status.success() {
        return Err(process.died(status));
    }
    let text = std::fs::read_to_string(log).with_context(|| format!("reading {}", log.display()))?;
    Ok((last.since(&before, threads), text))
}

/// Reads what db_bench prints: the line of the benchmark, the histogram of its operations, and RocksDB's counters.
fn parse(text: &str, load: Load) -> Option<Measured> {
    let ticker = |name: &str| ticker(text, name);
    // `overwrite    :      48.5 micros/op 20599 ops/sec 48.545 seconds 1000000 operations; …`
    let is_result = |line: &&str| line.starts_with(load.script()) && line.contains("micros/op");
    let words: Vec<&str> = text.lines().rev().find(is_result)?.split_whitespace().collect();
    let before = |unit: &str| {
        let at = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
        words.get(at.checked_sub(1)?)?.parse::<f64>().ok()
    };
    let kind = if load.reads_beside_writes() { "read" } else { "write" };
    let heading = format!("Microseconds per {kind}:");
    let histogram: Vec<&str> = text.lines().skip_while(|line| line.trim() != heading).skip(1).collect();
    let after = |label: &str| -> Option<f64> {
        let mut words = histogram.iter().take(3).flat_map(|line| line.split_whitespace());
        words.find(|word| *word == label)?;
        words.next()?.parse().ok()
    };
    let milliseconds = |label: &str| Some(after(label)? / 1_000.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
    let count = |value: f64| value as u64;
    Some(Measured {
        operations: count(before("operations")?),
        seconds: before("seconds")?,
        latency: Percentiles {
            count: count(after("Count:")?),
            mean: milliseconds("Average:")?,
            p50: milliseconds("P50:")?,
            p95: bucket_of(&histogram, 95.0)? / 1_000.0,
            p99: milliseconds("P99:")?,
            max: milliseconds("Max:")?,
        },
        p999: milliseconds("P99.9:")?,
        p9999: milliseconds("P99.99:")?,
        writes: ticker("rocksdb.number.keys.written")?,
        engine: Engine {
            given: ticker("rocksdb.bytes.written")?,
            written: ticker("rocksdb.wal.bytes")?
                + ticker("rocksdb.flush.write.bytes")?
                + ticker("rocksdb.compact.write.bytes")?,
        },
    })
}

/// The upper end of the first bucket up to which there are so many of a hundred.
fn bucket_of(histogram: &[&str], percent: f64) -> Option<f64> {
    // `(      15,      22 ]     1234  12.340%  95.120% ##`
    let bucket = |line: &&str| {
        let (range, rest) = line.trim_start_matches(['[', '(']).split_once(']')?;
        let mut shares = rest.split_whitespace().filter_map(|word| word.strip_suffix('%'));
        let upto: f64 = shares.nth(1)?.parse().ok()?;
        Some((range.split_once(',')?.1.trim().parse::<f64>().ok()?, upto))
    };
    histogram.iter().skip(3).filter_map(bucket).find(|(_, upto)| *upto >= percent).map(|(end, _)| end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What db_bench 7.8 prints.
    const DB_BENCH_OUTPUT: &str = "\
DB path: [/db]
overwrite    :       4.599 micros/op 217313 ops/sec 0.092 seconds 20000 operations;   24.0 MB/s
Microseconds per write:
Count: 20000 Average: 4.5942  StdDev: 36.76
Min: 2  Median: 3.4467  Max: 3679
Percentiles: P50: 3.45 P75: 3.90 P99: 9.55 P99.9: 51.00 P99.99: 380.00
------------------------------------------------------
(       2,       3 ]     5106  25.530%  25.530% #####
(       3,       4 ]    10956  54.780%  80.310% ###########
(       4,       6 ]     3003  15.015%  95.325% ###
(       6,      10 ]      829   4.145%  99.470% #
(    2900,    4400 ]        2   0.010% 100.000%

STATISTICS:
rocksdb.number.keys.written COUNT : 20000
rocksdb.bytes.written COUNT : 2620000
rocksdb.wal.bytes COUNT : 2620000
rocksdb.flush.write.bytes COUNT : 1300000
rocksdb.compact.write.bytes COUNT : 80000
";

    #[test]
    fn what_db_bench_says_is_read() {
        let measured = parse(DB_BENCH_OUTPUT, Load::Overwrite).expect("it is complete");
        assert_eq!((measured.operations, measured.seconds, measured.writes), (20_000, 0.092, 20_000));
        let Percentiles { count, p50, p95, p99, max, .. } = measured.latency;
        let nanoseconds = |milliseconds: f64| (milliseconds * 1e6).round();
        assert_eq!((count, [p50, p95, p99].map(nanoseconds)), (20_000, [3_450.0, 6_000.0, 9_550.0]));
        let slow = [measured.p999, measured.p9999, max];
        assert_eq!(slow.map(nanoseconds), [51_000.0, 380_000.0, 3_679_000.0]);
        assert_eq!((measured.engine.given, measured.engine.written), (2_620_000, 4_000_000));
    }

    #[test]
    fn what_lacks_a_figure_is_no_result() {
        assert!(parse(DB_BENCH_OUTPUT, Load::Fill).is_none(), "it is another load's");
        for line in
            DB_BENCH_OUTPUT.lines().filter(|line| !line.starts_with(['D', '-', '(', 'S']) && !line.is_empty())
        {
            let without = DB_BENCH_OUTPUT.replace(line, "");
            assert!(parse(&without, Load::Overwrite).is_none(), "without {line}");
        }
    }
}
