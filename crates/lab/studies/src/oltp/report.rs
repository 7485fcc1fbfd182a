//! What the study says: transactions per second on each store, beside what was published.

use super::{
    options::Options,
    published,
    setup::{SETUPS, STATEMENTS},
};
use lab_report::{
    figure::{show, show_ratio, show_size},
    report::{
        Headline, MetricRow, MetricTable, Report, Section, Table,
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
    MetricTable::new(results, ["on"])
        .metrics([("transactions/s", "tps")])
        .column("over the disk", |row| show_ratio(over_disk(results, &row.variant, &row.at)))
        .column("published", |row| theirs(&row.variant))
        .metrics([
            ("mean ms", "mean_ms"),
            ("p95 ms", "p95_ms"),
            ("of it reading ms", "read_wait_ms"),
            ("pages read/s", "page_reads_per_second"),
            ("written/s", "page_writes_per_second"),
            ("dirty %", "dirty_percent"),
        ])
        .rows(SETUPS.map(|setup| MetricRow::of(setup.name)))
}

fn caches(results: &Results) -> Table {
    let metrics = [
        ("hits of reads %", "read_hit_percent"),
        ("of all %", "hit_percent"),
        ("promoted GB", "promoted_GB"),
        ("written back GB", "written_back_GB"),
    ];
    let rows = SETUPS.map(|setup| MetricRow::of(setup.name));
    MetricTable::new(results, ["cache"]).metrics(metrics).rows(rows)
}

fn statements(results: &Results, options: &Options) -> Table {
    let row = |nanos: u64| MetricRow {
        labels: vec![(nanos / 1000).to_string()],
        metric: "tps".into(),
        at: match nanos == options.statement_ns {
            true => Point::new(),
            false => Point::from([("statement_us".to_owned(), nanos / 1000)]),
        },
        ..MetricRow::default()
    };
    MetricTable::new(results, ["us of a statement"])
        .variants(["hdd", "nvme", "cache-writeback"])
        .column("nvme over hdd", |row| show_ratio(over_disk(results, "nvme", &row.at)))
        .column("cache over hdd", |row| show_ratio(over_disk(results, "cache-writeback", &row.at)))
        .rows(STATEMENTS.map(row))
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
