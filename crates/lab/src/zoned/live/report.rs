//! What the live study says.

use std::path::Path;

use anyhow::Result;

use super::{Load, Options, Variant, published};
use crate::{
    figure::show,
    report::{Headline, Report, Section, Table, terminal_text},
    results::{Point, Results, points},
};

fn value(results: &Results, variant: &str, load: Load, metric: &str, at: &Point) -> Option<f64> {
    results.variant(variant)?.median(&format!("{}_{metric}", load.prefix()), at)
}

/// A load at one number of connections: every variant's figures.
fn table(results: &Results, load: Load, at: &Point) -> Table {
    const METRICS: [&str; 9] = [
        "tps",
        "p50_ms",
        "p99_ms",
        "p999_ms",
        "p9999_ms",
        "flash_bytes_per_transaction",
        "engine_write_amplification",
        "drive_write_amplification",
        "lifetime_years",
    ];
    let mut table = Table::new([
        "",
        "transactions/s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "p99.99 ms",
        "flash bytes/transaction",
        "engine WA",
        "drive WA",
        "years of life",
    ]);
    for variant in &results.variants {
        let figures: Vec<Option<f64>> =
            METRICS.iter().map(|metric| value(results, &variant.name, load, metric, at)).collect();
        if figures[0].is_some() {
            let cells = figures.into_iter().map(|figure| figure.map_or("-".into(), show));
            table.rows.push(std::iter::once(variant.name.clone()).chain(cells).collect());
        }
    }
    table
}

fn sections(results: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    for load in Load::ALL {
        for at in points(&results.variants) {
            let table = table(results, load, &at);
            if table.rows.is_empty() {
                continue;
            }
            let threads = at.get("threads").copied().unwrap_or(0);
            sections.push(Section {
                heading: format!("{}, {threads} threads", load.script()),
                text: "Medians of the repetitions. WA is write amplification: of the engine, bytes that RocksDB wrote (log, flushes, compactions) over those that it was given; of the drive, bytes of flash over those of the host.".into(),
                charts: Vec::new(),
                table: Some(table),
            });
        }
    }
    sections
}

/// Zones over 7 % of spare, in transactions per second: the least and the most of all cells.
fn gains(results: &Results) -> Option<(f64, f64)> {
    let (zones, spare) = (Variant::Zones.name(), Variant::Spare7.name());
    let ratios = Load::ALL.into_iter().flat_map(|load| {
        points(&results.variants).into_iter().filter_map(move |at| {
            Some(value(results, zones, load, "tps", &at)? / value(results, spare, load, "tps", &at)?)
        })
    });
    ratios.fold(None, |found: Option<(f64, f64)>, ratio| {
        Some(found.map_or((ratio, ratio), |(low, high)| (low.min(ratio), high.max(ratio))))
    })
}

fn answer(results: &Results) -> String {
    let (low, high) = published::MYROCKS;
    match gains(results) {
        Some((least, most)) => format!(
            "MyRocks on zones makes {least:.2} to {most:.2} times the transactions per second of MyRocks on XFS with 7 % of spare (published, nine cells: {low:.2} to {high:.2})."
        ),
        None => "The tables have what was asked for.".into(),
    }
}

/// Sentences for the reader.
pub(super) fn notes(results: &Results, options: &Options) -> Vec<String> {
    let rows = u64::from(options.tables) * options.rows;
    let mut notes = vec![
        format!(
            "The published database has 24 tables of 500 million rows on 3.7 TB, a cache that is not told, and 112 processors. This one has {} tables and {rows} rows on the drive {:?}, {} MiB of cache and {} processors.",
            options.tables,
            options.drive,
            options.cache >> 20,
            results.host.processors
        ),
        "Published are only the least and the most of nine cells, and latencies as plots. The comparison shows the least beside each of ours.".into(),
        "Conventional namespaces were written once and then overwritten at random before the database came. XFS is mounted without discards, as it is by default. RocksDB compresses nothing; rows are chosen uniformly.".into(),
        "The store is a file system in a process of its own (FUSE); XFS is in the kernel. Where the processors are the limit, that is what is compared.".into(),
    ];
    if results.host_was_bottleneck() {
        notes.push(results.host_verdict());
    }
    notes
}

/// Writes the page.
pub(super) fn write(results: &Results, path: &Path) -> Result<()> {
    let headline = gains(results).map(|(least, most)| Headline {
        label: "Transactions per second, zones over 7 % of spare".into(),
        value: format!("{least:.2}x to {most:.2}x"),
        detail: format!("published: {:.2}x to {:.2}x", published::MYROCKS.0, published::MYROCKS.1),
    });
    Report {
        title: "Zones for MyRocks".into(),
        question: "What do zones buy MyRocks, against a conventional namespace of the same chips?".into(),
        answer: answer(results),
        headlines: headline.into_iter().collect(),
        results,
        sections: sections(results),
    }
    .write(path)
}

/// The tables and the answer, for a terminal.
pub(super) fn text(results: &Results, page: &Path) -> String {
    terminal_text(&sections(results), &answer(results), &results.notes, page)
}
