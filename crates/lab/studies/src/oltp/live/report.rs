//! What the live study says.

use super::{
    super::{
        options::{Live, Options},
        published,
    },
    setup::{SETUPS, Setup, Sizes},
};
use lab_report::{
    figure::{show_ratio, show_some},
    report::{
        Headline, MetricRow, MetricTable, Report, Section, Table,
        charts::{self, Bar, Data, Labels},
    },
    results::{Point, Results},
};

fn median(results: &Results, variant: &str, metric: &str) -> Option<f64> {
    results.median(variant, metric, &Point::new())
}

/// A variant's transactions over the disk's.
fn over_disk(results: &Results, variant: &str) -> Option<f64> {
    Some(median(results, variant, "tps")? / median(results, "hdd", "tps")?)
}

/// The same in virtual time, over the disk that begins in the same way.
fn over_disk_in_virtual_time(results: &Results, setup: &Setup) -> Option<f64> {
    let disk = if setup.in_virtual_time.ends_with("-cold") { "virtual-hdd-cold" } else { "virtual-hdd" };
    let of = median(results, &format!("virtual-{}", setup.in_virtual_time), "tps")?;
    Some(of / median(results, disk, "tps")?)
}

fn transactions(results: &Results) -> Table {
    let setup = |row: &MetricRow| SETUPS.into_iter().find(|setup| setup.name == row.variant);
    let in_virtual_time = move |row: &MetricRow| setup(row).map_or("", |setup| setup.in_virtual_time);
    MetricTable::new(results, ["on"])
        .metrics([("transactions/s measured", "wall_tps"), ("transactions/s", "tps")])
        .column("over the disk", |row| show_ratio(over_disk(results, &row.variant)))
        .column("published", |row| {
            published::over_disk(&row.variant).map_or("-".into(), |ratio| format!("{ratio}x"))
        })
        .column("virtual time transactions/s", move |row| {
            show_some(median(results, &format!("virtual-{}", in_virtual_time(row)), "tps"))
        })
        .column("virtual time over the disk", move |row| {
            show_ratio(setup(row).and_then(|setup| over_disk_in_virtual_time(results, &setup)))
        })
        .metrics([("mean ms", "mean_ms"), ("p95 ms", "p95_ms"), ("rows checked", "checked_rows")])
        .rows(SETUPS.map(|setup| MetricRow::of(setup.name)))
}

fn caches(results: &Results) -> Table {
    let metrics = [
        ("hits", "hits"),
        ("misses", "misses"),
        ("hits of reads %", "read_hit_percent"),
        ("hits %", "hit_percent"),
        ("promoted MB", "promoted_MB"),
        ("written back MB", "written_back_MB"),
    ];
    let rows = SETUPS.map(|setup| MetricRow::of(setup.name));
    MetricTable::new(results, ["tier"]).metrics(metrics).rows(rows)
}

fn chart(results: &Results) -> String {
    let categories: Vec<String> = SETUPS.iter().map(|setup| setup.name.to_owned()).collect();
    let bar = |ratio: Option<f64>| Bar::of(&[ratio?]);
    let series = [
        Data {
            name: "live".to_owned(),
            colour: "#2f6db5",
            dashed: false,
            values: SETUPS.iter().map(|setup| bar(over_disk(results, setup.name))).collect(),
        },
        Data {
            name: "virtual time".to_owned(),
            colour: "#d08a2e",
            dashed: false,
            values: SETUPS.iter().map(|setup| bar(over_disk_in_virtual_time(results, setup))).collect(),
        },
        Data {
            name: "published".to_owned(),
            colour: "#7a7a7a",
            dashed: false,
            values: SETUPS.iter().map(|setup| bar(published::over_disk(setup.name))).collect(),
        },
    ];
    let labels = Labels {
        title: "Transactions per second over the disk's".into(),
        y: "times".into(),
        x: String::new(),
        log: true,
    };
    charts::bars(&labels, &categories, &series)
}

fn sections(results: &Results, options: &Options, live: &Live, sizes: Sizes) -> Vec<Section> {
    vec![
        Section {
            heading: "Transactions".into(),
            text: format!(
                "MariaDB with {} rows and a buffer pool of {} MiB that is empty at first, {} threads of sysbench's oltp_read_write, {} seconds. Drives run {} times \
                 slower; transactions per second and latencies are in the drive's time, measured are those of the wall's clock. Virtual time is the study without \
                 --live, as published: from an empty buffer pool where it has such a variant. Published: {} and {} times. After each run the server was killed, \
                 recovered, and the table checked.",
                sizes.rows,
                sizes.pool_mib,
                options.threads,
                sizes.seconds,
                live.slow_motion,
                published::NVME,
                published::CACHE
            ),
            charts: vec![chart(results)],
            table: Some(transactions(results)),
        },
        Section {
            heading: "The cache tier".into(),
            text: "What its status says of the measured time. It is made for each run, so it begins empty."
                .into(),
            charts: Vec::new(),
            table: Some(caches(results)),
        },
    ]
}

fn answer(results: &Results) -> String {
    let of = |name: &str| over_disk(results, name);
    match (of("nvme"), of("cache-writeback"), of("cache-smq")) {
        (Some(nvme), Some(cache), Some(smq)) => format!(
            "MariaDB on the NVMe drive does {nvme:.1} times the disk's transactions, and on the cache {cache:.1} times with mq and {smq:.1} times with smq. \
             Published: {} and {} times.",
            published::NVME,
            published::CACHE
        ),
        _ => "Not all variants ran: there is nothing to hold against the published figures.".into(),
    }
}

/// What a reader must know.
pub(super) fn notes(results: &Results, options: &Options, live: &Live, sizes: Sizes) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Scaled: the capacity of drives, rows, buffer pool, redo log, cache and origin by {}; the drives' speed by {}. The measured time is {} s of {} \
             published: a smaller pool and cache are full in less time, drives in slow motion take more. Not scaled: threads, pages of 16 KiB, chunks of 64 KiB, the host. \
             The log is flushed each second of the drive's time; innodb_io_capacity is 100, the least that there is.",
            live.scale, live.slow_motion, sizes.seconds, options.seconds
        ),
        format!(
            "The published host has {} processors for the database alone. This one has {} for database, sysbench and drive: in slow motion they do more in a second \
             of the drive. Where they are the limit, on NVMe, the ratio is theirs.",
            options.path.processors, results.host.processors
        ),
        "Disk and NVMe drive are two NVM Sets of one drive, whose controller and link are the NVMe drive's. The disk has no storage controller before it. The \
         tier runs in the drive's process (`[[cache]]`)."
            .into(),
        "MariaDB and sysbench are those of this machine: newer than the published ones, with a file for the table. The buffer pool is empty at first, and so is the \
         cache. The filled table lies side by side on XFS."
            .into(),
    ];
    if options.quick {
        notes.push("Three variants only, and virtual time is left out.".into());
    }
    if results.host_was_bottleneck() {
        notes.push(results.host_verdict());
    }
    notes
}

/// The page.
pub(super) fn report<'a>(results: &'a Results, options: &Options, live: &Live, sizes: Sizes) -> Report<'a> {
    let headline = |name: &str, label: &str, published: f64| {
        let ratio = over_disk(results, name)?;
        let (value, detail) = (format!("{ratio:.1}x"), format!("published {published}x"));
        Some(Headline { label: label.into(), value, detail })
    };
    Report {
        title: "MariaDB on a disk, on NVMe, and on a cache".into(),
        question: "What does an NVMe drive do for MariaDB on a hard disk: as its store, and as its cache?"
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
        sections: sections(results, options, live, sizes),
    }
}
