//! What the live study says.

use clap::ValueEnum;

use super::{Load, Options, Variant, published};
use lab_report::{
    figure::show,
    report::{Headline, MetricRow, MetricTable, Report, Section, Table},
    results::{self, Point, Results, points},
};

fn value(results: &Results, variant: &str, load: Load, metric: &str, at: &Point) -> Option<f64> {
    results.variant(variant)?.median(&format!("{}_{metric}", load.prefix()), at)
}

/// The columns of a load: titles and metrics.
fn columns(load: Load) -> Vec<(&'static str, &'static str)> {
    let of = |sysbench, db_bench| if load.is_db_bench() { db_bench } else { sysbench };
    let rate = if load.reads_beside_writes() { "reads/s" } else { of("transactions/s", "writes/s") };
    let mut columns = vec![(rate, load.rate())];
    if load.reads_beside_writes() {
        columns.push(("writes/s", "writes_per_second"));
    }
    columns.extend([
        ("p50 ms", "p50_ms"),
        ("p99 ms", "p99_ms"),
        ("p99.9 ms", "p999_ms"),
        ("p99.99 ms", "p9999_ms"),
        (of("flash bytes/transaction", "flash bytes/write"), load.flash()),
        ("engine WA", "engine_write_amplification"),
        ("drive WA", "drive_write_amplification"),
        ("years of life", "lifetime_years"),
    ]);
    columns
}

/// A load at one number of connections: every variant's figures.
fn table(results: &Results, load: Load, at: &Point) -> Table {
    let row = |variant: &results::Variant| MetricRow {
        metric: format!("{}_", load.prefix()),
        at: at.clone(),
        ..MetricRow::of(&variant.name)
    };
    MetricTable::new(results, [""]).metrics(columns(load)).rows(results.variants.iter().map(row))
}

/// What each file system has for files.
fn capacity(results: &Results) -> Table {
    let mut table = Table::new(["", "MiB for files", "over 7 % of spare"]);
    let of = |name: &str| {
        let metrics = results.variant(name)?.runs.first()?.metrics.iter();
        metrics.into_iter().find(|(metric, _)| metric.ends_with("usable_MiB")).map(|(_, value)| *value)
    };
    let spare = [Variant::Spare7, Variant::Rocks7].iter().find_map(|variant| of(variant.name()));
    for variant in &results.variants {
        let Some(usable) = of(&variant.name) else { continue };
        let over = spare.map_or("-".into(), |spare| format!("{:+.1} %", (usable / spare - 1.0) * 100.0));
        table.rows.push(vec![variant.name.clone(), show(usable), over]);
    }
    table
}

fn sections(results: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    for &load in Load::value_variants() {
        for at in points(&results.variants) {
            let table = table(results, load, &at);
            if table.rows.is_empty() {
                continue;
            }
            let threads = at.get("threads").copied().unwrap_or(0);
            let beside = match load {
                Load::ReadWhileWriting | Load::ReadWhileLimited => {
                    " Latencies are those of reads; one more thread writes."
                }
                _ => "",
            };
            sections.push(Section {
                heading: format!("{}, {threads} threads", load.title()),
                text: format!(
                    "Medians of the repetitions.{beside} WA is write amplification: of the engine, bytes that RocksDB wrote (log, flushes, compactions) over those that it was given; of the drive, bytes of flash over those of the host."
                ),
                charts: Vec::new(),
                table: Some(table),
            });
        }
    }
    let capacity = capacity(results);
    if !capacity.rows.is_empty() {
        sections.push(Section {
            heading: "Usable capacity".into(),
            text: "What the file system says that it has for files, of the same chips.".into(),
            charts: Vec::new(),
            table: Some(capacity),
        });
    }
    sections
}

/// Zones over 28 % of spare, in overwrites per second of RocksDB.
fn overwrites(results: &Results) -> Option<f64> {
    let all = points(&results.variants);
    let of =
        |variant: Variant, at| value(results, variant.name(), Load::Overwrite, Load::Overwrite.rate(), at);
    all.iter().find_map(|at| Some(of(Variant::RocksZones, at)? / of(Variant::Rocks28, at)?))
}

/// Zones over 7 % of spare, in transactions per second of MyRocks: the least and the most of all cells.
fn gains(results: &Results) -> Option<(f64, f64)> {
    let (zones, spare) = (Variant::Zones.name(), Variant::Spare7.name());
    let ratios = Load::value_variants().iter().flat_map(|&load| {
        points(&results.variants).into_iter().filter_map(move |at| {
            Some(value(results, zones, load, "tps", &at)? / value(results, spare, load, "tps", &at)?)
        })
    });
    ratios.fold(None, |found: Option<(f64, f64)>, ratio| {
        Some(found.map_or((ratio, ratio), |(low, high)| (low.min(ratio), high.max(ratio))))
    })
}

fn answer(results: &Results) -> String {
    let mut sentences = Vec::new();
    if let Some((least, most)) = gains(results) {
        let (low, high) = published::MYROCKS;
        sentences.push(format!(
            "MyRocks on zones makes {least:.2} to {most:.2} times the transactions per second of MyRocks on XFS with 7 % of spare (published, nine cells: {low:.2} to {high:.2})."
        ));
    }
    if let Some(gain) = overwrites(results) {
        sentences.push(format!(
            "RocksDB on zones makes {gain:.2} times the overwrites per second of RocksDB on XFS with 28 % of spare (published: {:.2}).",
            published::OVERWRITE_ZENFS
        ));
    }
    if sentences.is_empty() {
        sentences.push("The tables have what was asked for.".into());
    }
    sentences.join(" ")
}

/// Sentences for the reader.
pub(super) fn notes(results: &Results, options: &Options) -> Vec<String> {
    let live = &options.real;
    let (sysbench, db_bench) = live.needs();
    let (drive, cache, processors) = (options.drive(), live.cache >> 20, results.host.processors);
    let mut notes = Vec::new();
    if sysbench {
        let rows = u64::from(live.tables) * live.rows;
        notes.push(format!(
            "The published MySQL has 24 tables of 500 million rows on 3.7 TB, a cache that is not told, and 112 processors. This one has {} tables and {rows} rows on the drive {drive:?}, {cache} MiB of cache and {processors} processors.",
            live.tables
        ));
        notes.push("Published of MyRocks are only the least and the most of nine cells, and latencies as plots. The comparison shows the least beside each of ours.".into());
    }
    if db_bench {
        let (key, value) = super::db_bench::RECORD;
        notes.push(format!(
            "The published db_bench writes 3.8 billion keys of 20 and 800 bytes (400 compressed) to 2 TB. This one writes {} keys of {key} and {value} bytes to the drive {drive:?}, with {cache} MiB of cache and {processors} processors. Limited writes are {} KiB/s, 20 MiB/s scaled as the bandwidth of zn540-lab. It syncs nothing.",
            live.keys,
            super::db_bench::WRITE_LIMIT >> 10
        ));
        notes.push("The plug-in speaks to the drive from RocksDB's own process; nothing of the kernel is between them but a socket.".into());
    }
    notes.push("Conventional namespaces were written once and then overwritten at random before the database came. XFS is mounted without discards, as it is by default. RocksDB compresses nothing; rows and keys are chosen uniformly.".into());
    if sysbench {
        notes.push("The store of MyRocks is a file system in a process of its own (FUSE); XFS is in the kernel. Where the processors are the limit, that is what is compared.".into());
    }
    if results.host_was_bottleneck() {
        notes.push(results.host_verdict());
    }
    notes
}

/// The page.
pub(super) fn report(results: &Results) -> Report<'_> {
    let transactions = gains(results).map(|(least, most)| Headline {
        label: "Transactions per second of MyRocks, zones over 7 % of spare".into(),
        value: format!("{least:.2}x to {most:.2}x"),
        detail: format!("published: {:.2}x to {:.2}x", published::MYROCKS.0, published::MYROCKS.1),
    });
    let overwrites = overwrites(results).map(|gain| Headline {
        label: "Overwrites per second of RocksDB, zones over 28 % of spare".into(),
        value: format!("{gain:.2}x"),
        detail: format!("published: {:.2}x", published::OVERWRITE_ZENFS),
    });
    Report {
        title: "Zones for RocksDB and MyRocks".into(),
        question:
            "What do zones buy RocksDB and MyRocks, against a conventional namespace of the same chips?"
                .into(),
        answer: answer(results),
        headlines: transactions.into_iter().chain(overwrites).collect(),
        results,
        sections: sections(results),
    }
}
