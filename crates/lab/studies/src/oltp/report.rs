//! What the study says: transactions per second on each store, beside what was published.

use super::{
    options::Options,
    published,
    setup::{SETUPS, STATEMENTS},
};
use lab_report::{
    figure::{show, show_size, show_some},
    report::{
        Headline, Report, Section, Table,
        charts::{self, Bar, Data, Labels},
    },
    results::{Point, Results},
};

/// A variant's transactions over the disk's, which begins in the same way.
fn over_disk(results: &Results, variant: &str, at: &Point) -> Option<f64> {
    let disk = if variant.ends_with("-cold") { "hdd-cold" } else { "hdd" };
    Some(results.median(variant, "tps", at)? / results.median(disk, "tps", at)?)
}

fn theirs(variant: &str) -> String {
    let mode = if variant.starts_with("cache") { " (mode not said)" } else { "" };
    published::over_disk(variant).map_or("-".into(), |ratio| format!("{ratio}x{mode}"))
}

fn variants(results: &Results) -> Table {
    let mut table = Table::new([
        "on",
        "transactions/s",
        "over the disk",
        "published",
        "mean ms",
        "p95 ms",
        "of it reading ms",
        "pages read/s",
        "written/s",
        "dirty %",
    ]);
    for setup in SETUPS {
        let of = |metric: &str| results.median(setup.name, metric, &Point::new());
        if of("tps").is_none() {
            continue;
        }
        let over =
            over_disk(results, setup.name, &Point::new()).map_or("-".into(), |ratio| format!("{ratio:.2}x"));
        let mut row = vec![setup.name.to_owned(), show_some(of("tps")), over, theirs(setup.name)];
        let rest = [
            "mean_ms",
            "p95_ms",
            "read_wait_ms",
            "page_reads_per_second",
            "page_writes_per_second",
            "dirty_percent",
        ];
        row.extend(rest.map(|metric| show_some(of(metric))));
        table.rows.push(row);
    }
    table
}

fn caches(results: &Results) -> Table {
    let mut table = Table::new(["cache", "hits of reads %", "of all %", "promoted GB", "written back GB"]);
    for setup in SETUPS {
        let of = |metric: &str| results.median(setup.name, metric, &Point::new());
        if of("hit_percent").is_none() {
            continue;
        }
        let figures = ["read_hit_percent", "hit_percent", "promoted_GB", "written_back_GB"]
            .map(|metric| show_some(of(metric)));
        table.rows.push(std::iter::once(setup.name.to_owned()).chain(figures).collect());
    }
    table
}

fn statements(results: &Results, options: &Options) -> Table {
    let mut table = Table::new([
        "us of a statement",
        "hdd",
        "nvme",
        "cache-writeback",
        "nvme over hdd",
        "cache over hdd",
    ]);
    for nanos in STATEMENTS {
        let at = match nanos == options.statement_ns {
            true => Point::new(),
            false => Point::from([("statement_us".to_owned(), nanos / 1000)]),
        };
        let mut row = vec![(nanos / 1000).to_string()];
        if results.median("hdd", "tps", &at).is_none() {
            continue;
        }
        row.extend(
            ["hdd", "nvme", "cache-writeback"].map(|name| show_some(results.median(name, "tps", &at))),
        );
        row.extend(
            ["nvme", "cache-writeback"]
                .map(|name| over_disk(results, name, &at).map_or("-".into(), |ratio| format!("{ratio:.2}x"))),
        );
        table.rows.push(row);
    }
    table
}

/// Transactions of each minute, as categories of a line.
fn course(results: &Results) -> String {
    const MINUTE: usize = 60;
    let names = ["hdd-cold", "nvme-cold", "cache-cold", "cache-smq-cold"];
    let colours = ["#7a7a7a", "#2f6db5", "#4f9a5f", "#d08a2e"];
    let runs: Vec<&[u64]> = names
        .iter()
        .map(|name| {
            let run =
                results.variant(name).and_then(|variant| variant.runs.iter().find(|run| run.at.is_empty()));
            run.map_or(&[][..], |run| &run.per_second)
        })
        .collect();
    let length = runs.iter().map(|run| run.len()).max().unwrap_or(0);
    let step = MINUTE.min(length.div_ceil(10)).max(1);
    let categories: Vec<String> = (1..=length / step).map(|end| (end * step).to_string()).collect();
    #[expect(clippy::cast_precision_loss, reason = "for a chart")]
    let mean = |seconds: &[u64]| Some(seconds.iter().sum::<u64>() as f64 / seconds.len() as f64);
    let data: Vec<Data<f64>> = names
        .iter()
        .zip(colours)
        .zip(&runs)
        .map(|((name, colour), run)| Data {
            name: (*name).to_owned(),
            colour,
            dashed: false,
            values: run.chunks_exact(step).map(mean).collect(),
        })
        .collect();
    let labels = Labels {
        title: "From an empty buffer pool".into(),
        y: "transactions per second".into(),
        x: "second".into(),
        log: true,
    };
    charts::lines(&labels, &categories, &data, false)
}

fn bars(results: &Results) -> String {
    let present: Vec<_> =
        SETUPS.iter().filter(|setup| results.median(setup.name, "tps", &Point::new()).is_some()).collect();
    let categories: Vec<String> = present.iter().map(|setup| setup.name.to_owned()).collect();
    let values =
        present.iter().map(|setup| Bar::of(&[results.median(setup.name, "tps", &Point::new())?])).collect();
    let labels = Labels {
        title: "sysbench OLTP".into(),
        y: "transactions per second".into(),
        x: String::new(),
        log: true,
    };
    charts::bars(
        &labels,
        &categories,
        &[Data { name: "tps".into(), colour: "#2f6db5", dashed: false, values }],
    )
}

fn sections(results: &Results, options: &Options) -> Vec<Section> {
    vec![
        Section {
            heading: "sysbench OLTP".into(),
            text: format!(
                "{} rows, a buffer pool of {}, {} threads, {} seconds, no sync at commits, doublewrite off unless the name says otherwise. Published: \
                 18x and 4x.",
                show(rows(options)),
                show_size(options.pool),
                options.threads,
                options.seconds
            ),
            charts: vec![bars(results), course(results)],
            table: Some(variants(results)),
        },
        Section {
            heading: "The caches".into(),
            text: "The database fits into the cache. A page is read from the disk once, then it is in the buffer pool; it comes back only when the pool \
                   has lost it. Promotion needs several reads of a chunk from the disk. A new cache is empty; -second begins after a whole run, and -full \
                   holds the whole database."
                .into(),
            charts: Vec::new(),
            table: Some(caches(results)),
        },
        Section {
            heading: "What the assumed time of a statement does".into(),
            text: "Transactions per second. No source states it for the published host.".into(),
            charts: Vec::new(),
            table: Some(statements(results, options)),
        },
    ]
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn rows(options: &Options) -> f64 {
    options.rows as f64
}

fn answer(results: &Results) -> String {
    let of = |name: &str| over_disk(results, name, &Point::new());
    match (of("nvme"), of("nvme-cold"), of("cache-writeback"), of("cache-second"), of("cache-full")) {
        (Some(nvme), Some(cold), Some(empty), Some(second), Some(full)) => format!(
            "The NVMe drive does {nvme:.1} times the disk's transactions with a warm buffer pool and {cold:.1} times from an empty one. A cache that begins \
             empty does {empty:.1} times, in a second run {second:.1}, and {full:.1} when it holds the whole database. So a cache that the database fits into \
             gives less than its drive for one reason: reads of what was not promoted yet still wait for the disk. Published: {} for the drive and {} for the \
             cache, whose state is not said.",
            published::NVME,
            published::CACHE
        ),
        _ => "Not all variants ran: there is nothing to hold against the published figures.".into(),
    }
}

/// What a reader must know.
pub(super) fn notes(options: &Options) -> Vec<String> {
    vec![
        format!(
            "The model of InnoDB has no locks of rows, no read-ahead, no change buffer and no purge. A statement takes {} us of one of {} processors: an \
             assumption, which is swept. Nothing was fitted to the published figures.",
            options.statement_ns / 1000,
            options.path.processors
        ),
        "MariaDB 5.5 has no separate settings of adaptive flushing's upper limit; the model's is ten times innodb_io_capacity (200).".into(),
        "The buffer pool is warm at first, or empty (-cold). The published run came after filling the table: its pool held the last rows, which the load hardly \
         uses.".into(),
        "The published disk, its controller's settings, and the cache's mode, chunks and state are not said. The database lies at the beginning of the \
         disk, side by side; XFS spreads files."
            .into(),
    ]
}

/// The page.
pub(super) fn report<'a>(results: &'a Results, options: &Options) -> Report<'a> {
    let headline = |name: &str, label: &str, published: f64| {
        let ratio = over_disk(results, name, &Point::new())?;
        Some(Headline {
            label: label.into(),
            value: format!("{ratio:.1}x"),
            detail: format!("published {published}x"),
        })
    };
    Report {
        title: "A database on a disk, on NVMe, and on a cache".into(),
        question: "What does an NVMe drive do for a database on a hard disk: as its store, and as its cache?"
            .into(),
        answer: answer(results),
        headlines: [
            headline("nvme", "the NVMe drive over the disk", published::NVME),
            headline("cache-writeback", "the cache over the disk", published::CACHE),
        ]
        .into_iter()
        .flatten()
        .collect(),
        results,
        sections: sections(results, options),
    }
}
