//! The model of RocksDB beside RocksDB: db_bench fills and overwrites a small database in a plain directory, and the model does the same in virtual time. What both wrote
//! and read is compared; how fast they were is the machine's matter.

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use ::sim::{Contents, Nanos, Sim};
use anyhow::{Context, Result, bail};
use database_models::lsm::{Config, Conventional, ConventionalConfig, Engine};
use serde_json::Value;

use super::{Options, sim, tickers};
use crate::StudyDrive;
use lab_engines::sweep;
use lab_report::{
    Findings,
    control::{Control, Progress},
    figure::show,
    profile,
    report::{Report, Section, Table},
    results::{self, Point, Results, Run, Variant, compare},
};

/// Records of the fill, and of the overwrites.
const KEYS: u64 = 500_000;
/// As many, for a look.
const FEW_KEYS: u64 = 150_000;
const KEY: u32 = 20;
const VALUE: u32 = 800;
const WRITE_BUFFER: u64 = 4 << 20;
const LEVEL_BASE: u64 = 8 << 20;
const TABLE: u64 = 1 << 20;
const JOBS: u32 = 8;

/// Model over live, at most so far from 1, agree.
const TOLERANCE: f64 = 0.15;

/// What is compared: its name in the results, and for people.
const METRICS: [(&str, &str); 6] = [
    ("flush_bytes", "bytes flushed"),
    ("compaction_read_bytes", "bytes that compactions read"),
    ("compaction_written_bytes", "bytes that compactions wrote"),
    ("engine_write_amplification", "write amplification of RocksDB"),
    ("log_bytes", "bytes of the log"),
    ("tables", "tables at the end"),
];

/// What db_bench did.
struct Live {
    run: Run,
    /// Microseconds of a write, nanoseconds for each KiB that a compaction reads, its I/O among them, and bytes of a record in a table.
    write_us: f64,
    kilobyte_ns: f64,
    table_record: f64,
}

fn keys(options: &Options) -> u64 {
    if options.quick { FEW_KEYS } else { KEYS }
}

/// Runs both and writes the results.
pub(super) fn run(options: &Options, db_bench: &Path, control: &Control) -> Result<Findings<Value>> {
    results::directory(options.out.path())?;
    let mut progress = Progress::new(control, 2);
    progress.begin("db_bench");
    let live = live(options, db_bench, control)?;
    progress.end(&summary(&live.run));
    progress.begin("the model");
    let model = model(options, &live, control)?;
    progress.end(&summary(&model));
    drop(progress);
    let variant = |name: &str, description: &str, run| Variant {
        name: name.into(),
        description: description.into(),
        runs: vec![run],
    };
    let variants = vec![
        variant("db_bench", "RocksDB in a directory of this machine.", live.run),
        variant("model", "The model in virtual time.", model),
    ];
    let of = |metric: &str| compare(metric, &variants[1], &variants[0], |_| None);
    let comparisons =
        METRICS.iter().flat_map(|(metric, _)| of(metric)).filter(|row| row.at.is_some()).collect();
    let mut results = Results {
        drive: serde_json::json!(StudyDrive { profile: Some(options.drive()), ..StudyDrive::default() }),
        comparisons,
        variants,
        notes: vec![
            format!(
                "{} records of {KEY} and {VALUE} bytes are written at random, and then as many again. The model takes from db_bench how long a write takes, how long \
                 a compaction takes for a KiB, and the bytes of a record in a table.",
                keys(options)
            ),
            format!("Figures within {:.0} % of each other agree.", TOLERANCE * 100.0),
        ],
        ..Results::empty("zoned", "live", options.seed, vec![db_bench.display().to_string()])
    };
    let (table, apart) = table(&results);
    let answer = match &apart[..] {
        [] => "The model does what RocksDB does.".to_owned(),
        apart => format!("The model differs from RocksDB in {}.", apart.join(", ")),
    };
    results.notes.push(answer.clone());
    results.write(options.out.path())?;
    let page = options.out.path().join("report.html");
    Report {
        title: "The model of RocksDB beside RocksDB".into(),
        question: "Does the model flush and compact what RocksDB does?".into(),
        answer: answer.clone(),
        headlines: Vec::new(),
        results: &results,
        sections: vec![Section {
            heading: "Model beside db_bench".into(),
            table: Some(table.clone()),
            ..Section::default()
        }],
    }
    .write(&page)?;
    let notes: String = results.notes.iter().map(|note| format!("- {note}\n")).collect();
    let text = format!("{}\n{notes}\nreport: {}", table.text(), page.display());
    sweep::value(Findings { results, written: Some(options.out.path().to_owned()), text, failure: None })
}

fn table(results: &Results) -> (Table, Vec<String>) {
    let mut table = Table::new(["", "db_bench", "model", "model over db_bench"]);
    let mut apart = Vec::new();
    for (metric, title) in METRICS {
        let of = |name: &str| results.variant(name).and_then(|v| v.median(metric, &Point::new()));
        let Some((live, model)) = of("db_bench").zip(of("model")) else { continue };
        let ratio = model / live.max(1e-9);
        if (ratio - 1.0).abs() > TOLERANCE {
            apart.push(format!("{title} ({ratio:.2})"));
        }
        table.rows.push(vec![title.into(), show(live), show(model), format!("{ratio:.3}")]);
    }
    (table, apart)
}

fn summary(run: &Run) -> String {
    let metric = |name: &str| run.metrics.get(name).copied().unwrap_or(0.0);
    format!(
        "write amplification {}, {} tables",
        show(metric("engine_write_amplification")),
        show(metric("tables"))
    )
}

/// The common figures.
fn run_of(flush: f64, read: f64, written: f64, log: f64, tables: f64) -> Run {
    let mut run = Run::default();
    run.metrics.extend(
        [
            ("flush_bytes", flush),
            ("compaction_read_bytes", read),
            ("compaction_written_bytes", written),
            ("engine_write_amplification", (flush + written) / flush.max(1.0)),
            ("log_bytes", log),
            ("tables", tables),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    run
}

/// db_bench in a directory that goes afterwards.
fn live(options: &Options, db_bench: &Path, control: &Control) -> Result<Live> {
    let directory = tempfile::tempdir().context("making a directory for the database")?;
    let log = options.out.path().join("db_bench.txt");
    let file = File::create(&log).with_context(|| format!("making {}", log.display()))?;
    let mut child = Command::new(db_bench)
        .arg("--benchmarks=fillrandom,overwrite,waitforcompaction,stats")
        .arg(format!("--num={}", keys(options)))
        .arg(format!("--key_size={KEY}"))
        .arg(format!("--value_size={VALUE}"))
        .args(["--compression_type=snappy", "--compression_ratio=0.5", "--statistics"])
        .arg(format!("--write_buffer_size={WRITE_BUFFER}"))
        .arg(format!("--max_bytes_for_level_base={LEVEL_BASE}"))
        .arg("--max_bytes_for_level_multiplier=4")
        .arg(format!("--target_file_size_base={TABLE}"))
        .arg(format!("--max_background_compactions={JOBS}"))
        .arg("--use_direct_io_for_flush_and_compaction")
        .arg(format!("--seed={}", options.seed))
        .arg(format!("--db={}", directory.path().display()))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("starting {}", db_bench.display()))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Err(interrupted) = control.cancel().sleep(Duration::from_millis(100)) {
            child.kill()?;
            child.wait()?;
            return Err(interrupted.into());
        }
    };
    let text = std::fs::read_to_string(&log)?;
    if !status.success() {
        bail!("{} failed, see {}", db_bench.display(), log.display());
    }
    parse(&text, keys(options)).with_context(|| format!("in the output of db_bench, {}", log.display()))
}

/// Figures of db_bench's output, which wrote so many records twice.
fn parse(text: &str, keys: u64) -> Result<Live> {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    let ticker = |name: &str| -> Result<f64> {
        let number = tickers::ticker(text, name).with_context(|| format!("there is no {name}"))?;
        Ok(number as f64)
    };
    let after = |start: &str, word: usize| {
        let line = text.lines().rev().find(|line| line.trim_start().starts_with(start))?;
        line.split_whitespace().nth(word).map(str::to_owned)
    };
    let micros = |name: &str| after(name, 2).and_then(|word| word.parse::<f64>().ok());
    let write_us = micros("fillrandom").zip(micros("overwrite")).map(|(a, b)| f64::midpoint(a, b));
    let tables = after("Sum", 1).and_then(|word| word.split('/').next()?.parse().ok());
    // The column Comp(sec).
    let seconds = after("Sum", 14).and_then(|word| word.parse::<f64>().ok());
    let flush = ticker("rocksdb.flush.write.bytes")?;
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let records = 2.0 * keys as f64;
    let (read, written) = (ticker("rocksdb.compact.read.bytes")?, ticker("rocksdb.compact.write.bytes")?);
    let run =
        run_of(flush, read, written, ticker("rocksdb.wal.bytes")?, tables.context("there is no line Sum")?);
    Ok(Live {
        run,
        kilobyte_ns: seconds.context("there is no Comp(sec) in the line Sum")? * 1e9
            / (read / 1024.0).max(1.0),
        write_us: write_us.context("there is no line of fillrandom or overwrite")?,
        table_record: flush / records,
    })
}

/// The model on a drive in virtual time, until its compactions are done.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures of a small benchmark"
)]
fn model(options: &Options, live: &Live, control: &Control) -> Result<Run> {
    let toml = profile::table(options.drive())?;
    let sim = Sim::new(sim::small(&toml, options.drive())?, Contents::None)?;
    let mut host = sim.host("nqn.2026-11.io.tranche:model")?;
    let namespace = host.namespace(1)?;
    let config = Config {
        write_buffer: WRITE_BUFFER,
        level_base: LEVEL_BASE,
        multiplier: 4,
        table: TABLE,
        compactions: JOBS,
        table_record: live.table_record.round() as u32,
        write: (live.write_us * 1e3) as u64,
        kilobyte: live.kilobyte_ns as u64,
        ..Config::db_bench(keys(options), KEY, VALUE, VALUE / 2, options.seed)
    };
    let space = Conventional::new(ConventionalConfig {
        blocks: namespace.blocks,
        block_bytes: namespace.block_size,
        discard: true,
    });
    let mut actors = sim.actors();
    let at = actors.add(&mut host, 1, Engine::new(config, space, namespace.block_size))?;
    while actors.actor(at).counts().writes < 2 * keys(options) {
        actors.run(Nanos(sim.now().0 + 20_000_000), |_| false);
        control.check()?;
    }
    let now = sim.now().0;
    actors.actor_mut(at).change_load(now, |config| config.writer = false);
    // As db_bench waits for compactions.
    actors.run(Nanos(now + 60_000_000_000), |_| false);
    let engine = actors.actor(at);
    let counts = engine.counts();
    if counts.failed > 0 {
        bail!("{} commands failed", counts.failed);
    }
    let tables: usize = (0..).map_while(|level| engine.level(level)).map(|(count, _)| count).sum();
    Ok(run_of(
        counts.flush_bytes as f64,
        counts.compaction_read as f64,
        counts.compaction_written as f64,
        counts.log_bytes as f64,
        tables as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_db_bench_are_found() {
        let text = "fillrandom   :      37.321 micros/op 26788 ops/sec 37.329 seconds 1000000 operations;   20.9 MB/s\n\
                    overwrite    :      48.5 micros/op 20599 ops/sec 48.545 seconds 1000000 operations;   16.1 MB/s\n\
                    \x20 L0      3/0   40.70 MB   2.5\n\x20Sum    297/30  566.34 MB   0.0      3.4     1.6      1.8       4.0      2.1       0.4   4.7     17.6     20.5    198.83             21.56       612\n\
                    rocksdb.wal.bytes COUNT : 1672000000\nrocksdb.compact.read.bytes COUNT : 3753062840\n\
                    rocksdb.compact.write.bytes COUNT : 3431225344\nrocksdb.flush.write.bytes COUNT : 456000000\n";
        let live = parse(text, 500_000).unwrap();
        assert_eq!((live.run.metrics["tables"], live.run.metrics["log_bytes"]), (297.0, 1_672_000_000.0));
        assert!((live.write_us - 42.91).abs() < 0.01 && (live.table_record - 456.0).abs() < 0.01);
        assert!((live.kilobyte_ns - 54_248.0).abs() < 10.0, "{}", live.kilobyte_ns);
        assert!((live.run.metrics["engine_write_amplification"] - 8.52).abs() < 0.01);
        assert!(parse("nothing", 1).is_err());
    }
}
