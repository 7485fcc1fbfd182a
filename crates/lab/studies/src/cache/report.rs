//! What the study says: each cache beside the disk alone, and which cells give the published figures.

use tier::{Mode, PolicyKind};

use super::{
    designs,
    options::Options,
    piece::{CHUNKS, MODES, POLICIES, chunk_variant, mode_variant, warming_variant},
    published,
    setup::{Design, Load, LoadKind, SKEWED_LOAD, Ssd},
};
use lab_report::{
    figure::{show, show_ratio, show_size, show_some},
    report::{
        Headline, MetricRow, MetricTable, Report, Section, Table,
        charts::{self, Data, Labels},
    },
    results::{Point, Results, points},
};

/// How near a figure of ours must be to a published one to be named: within a tenth.
const NEAR_TOLERANCE: f64 = 0.1;

/// Names of the caches in the part of modes.
fn caches() -> Vec<String> {
    [Ssd::Nvme, Ssd::Sas].into_iter().flat_map(|ssd| MODES.map(|mode| mode_variant(ssd, mode))).collect()
}

/// A load over the disk alone.
fn over_disk(results: &Results, variant: &str, load: &Load) -> Option<f64> {
    let of = |name: &str| results.median(name, &load.metric("iops"), &Point::new());
    Some(of(variant)? / of("hdd")?)
}

/// Each load on the disk and on each cache, warm.
fn modes(results: &Results) -> Option<Table> {
    let of_load = |load: &Load| {
        let name = format!("{} {}k, depth {}", load.kind.name(), load.block >> 10, load.depth);
        let metric = load.metric("");
        std::iter::once("hdd".to_owned()).chain(caches()).map(move |on| MetricRow {
            labels: vec![name.clone(), on.clone()],
            metric: metric.clone(),
            ..MetricRow::of(on)
        })
    };
    let over = |row: &MetricRow| {
        let of = |name: &str| results.median(name, &format!("{}iops", row.metric), &row.at);
        show_ratio(
            of(&row.variant).zip(of("hdd")).filter(|_| row.variant != "hdd").map(|(of, disk)| of / disk),
        )
    };
    let table = MetricTable::new(results, ["load", "on"])
        .metrics([("IOPS", "iops"), ("mean us", "mean_us"), ("hits %", "hit_percent")])
        .column("over the disk", over);
    results.variant("hdd").map(|_| table.rows(Load::all().iter().flat_map(of_load)))
}

/// How cold caches begin, and how long they take to be warm.
fn cold(results: &Results) -> Option<Table> {
    let warm = |row: &MetricRow| results.median(&row.variant, "warm_percent", &row.at);
    let table = MetricTable::new(results, ["on"])
        .metrics([("cold: reads/s", "cold_read_4k_qd1_iops"), ("seconds until warm", "warming_seconds")])
        .column("of the file in the cache then", |row| {
            warm(row).map_or("-".into(), |percent| format!("{percent:.1} %"))
        });
    let all = std::iter::once("hdd".to_owned()).chain(caches());
    results.variant("hdd").map(|_| table.rows(all.map(MetricRow::of)))
}

/// Cells whose gain over the disk is near a published one.
fn candidates(results: &Results) -> Table {
    let mut table = Table::new(["published", "cells within a tenth of it"]);
    let figures = [
        ("450 % (read/write)", published::READ_WRITE, &[LoadKind::Mixed, LoadKind::Write][..]),
        ("4702 % (read)", published::READ, &[LoadKind::Read]),
    ];
    for (name, (low, high), kinds) in figures {
        let mut cells = Vec::new();
        for cache in caches() {
            for load in Load::all().iter().filter(|load| kinds.contains(&load.kind)) {
                let Some(ratio) = over_disk(results, &cache, load) else { continue };
                if ratio > low * (1.0 - NEAR_TOLERANCE) && ratio < high * (1.0 + NEAR_TOLERANCE) {
                    let (kind, block, depth) = (load.kind.name(), load.block >> 10, load.depth);
                    cells.push(format!("{cache}, {kind} {block}k at depth {depth}: {ratio:.1}x"));
                }
            }
        }
        let cells = if cells.is_empty() { "none".into() } else { cells.join("; ") };
        table.rows.push(vec![name.into(), cells]);
    }
    table
}

fn chunk_point(chunk: u64) -> Point {
    Point::from([("chunk_KiB".into(), chunk >> 10)])
}

/// Variants of the part of chunks.
fn chunk_variants() -> Vec<String> {
    let mut all: Vec<String> = POLICIES.iter().map(|policy| chunk_variant(*policy, false)).collect();
    all.push(chunk_variant(PolicyKind::Mq, true));
    all
}

/// Chunks of each size with each policy.
fn chunks(results: &Results) -> Option<Table> {
    let row = |chunk: u64, variant: String| MetricRow {
        labels: vec![show_size(chunk), variant.trim_start_matches("chunks-").to_owned()],
        at: chunk_point(chunk),
        ..MetricRow::of(variant)
    };
    let rows = CHUNKS
        .into_iter()
        .flat_map(|chunk| chunk_variants().into_iter().map(move |variant| row(chunk, variant)));
    let table = MetricTable::new(results, ["chunk", "policy"])
        .metrics([
            ("reads/s", "iops"),
            ("hits %", "hit_percent"),
            ("promotions", "promotions"),
            ("promoted MB", "promoted_MB"),
            ("of the cache in use %", "cache_percent"),
        ])
        .rows(rows);
    (!table.rows.is_empty()).then_some(table)
}

const COLOURS: [&str; 4] = ["#2f6db5", "#d08a2e", "#4f9a5f", "#8a4fa0"];

fn chunk_chart(results: &Results) -> String {
    let categories: Vec<String> = CHUNKS.iter().map(|chunk| show_size(*chunk)).collect();
    let data: Vec<Data<f64>> = chunk_variants()
        .into_iter()
        .zip(COLOURS)
        .map(|(name, colour)| Data {
            values: CHUNKS.iter().map(|chunk| results.median(&name, "iops", &chunk_point(*chunk))).collect(),
            name: name.trim_start_matches("chunks-").to_owned(),
            colour,
            dashed: false,
        })
        .collect();
    let labels = Labels {
        title: "Skewed reads of 4 KiB on 150 GB".into(),
        y: "reads per second".into(),
        x: "chunk".into(),
        log: true,
    };
    charts::lines(&labels, &categories, &data, true)
}

/// Ends of the steps that were watched.
fn steps(results: &Results) -> Vec<u64> {
    let variant = results.variant(&warming_variant(PolicyKind::Mq));
    let points = variant.map(|variant| points(std::slice::from_ref(variant))).unwrap_or_default();
    points.iter().filter_map(|point| point.get("seconds").copied()).collect()
}

fn warming_chart(results: &Results) -> String {
    let steps = steps(results);
    let at = |second: u64| Point::from([("seconds".into(), second)]);
    let categories: Vec<String> = steps.iter().map(u64::to_string).collect();
    let data: Vec<Data<f64>> = POLICIES
        .iter()
        .zip(COLOURS)
        .map(|(policy, colour)| Data {
            name: policy.to_string(),
            colour,
            dashed: false,
            values: steps
                .iter()
                .map(|second| results.median(&warming_variant(*policy), "hit_percent", &at(*second)))
                .collect(),
        })
        .collect();
    let labels = Labels {
        title: "Reads of 4 KiB on a file that fits".into(),
        y: "hits in percent".into(),
        x: "second".into(),
        log: false,
    };
    charts::lines(&labels, &categories, &data, false)
}

fn warming(results: &Results) -> Option<Table> {
    let steps = steps(results);
    let mut table = Table::new([
        "second",
        "mq: hits %",
        "reads/s",
        "smq-4.11: hits %",
        "reads/s",
        "smq: hits %",
        "reads/s",
    ]);
    // The first ones, and then one in five.
    for (_, second) in (1..).zip(&steps).filter(|(step, _)| *step <= 4 || step % 5 == 0) {
        let at = Point::from([("seconds".into(), *second)]);
        let mut row = vec![second.to_string()];
        for policy in POLICIES {
            let of = |metric: &str| results.median(&warming_variant(policy), metric, &at);
            row.extend([show_some(of("hit_percent")), show_some(of("iops"))]);
        }
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What each design does under each load, and what it writes to its SSD.
fn designs(results: &Results) -> Option<Table> {
    // What stands before the names of a load's metrics.
    let cold = |load: &str| format!("cold_{load}");
    let mut loads = vec![("cold, in the cache".to_owned(), cold(&Load::all()[0].metric("")))];
    for load in Load::all() {
        let name = format!("{} {}k, depth {}, in the cache", load.kind.name(), load.block >> 10, load.depth);
        loads.push((name, load.metric("")));
    }
    loads.push(("cold, Zipf on 150 GB".into(), cold(&designs::skewed_metric(&SKEWED_LOAD, ""))));
    for load in designs::skewed() {
        let name = format!("{} {}k, Zipf on 150 GB", load.kind.name(), load.block >> 10);
        loads.push((name, designs::skewed_metric(&load, "")));
    }
    let full = format!("full_{}", designs::FULL_CACHE_WRITES.metric(""));
    loads.push(("write 4k, Zipf, the cache fills its SSD".into(), full));
    let of_load = |(load, metric): (String, String)| {
        Design::ALL.map(|design| MetricRow {
            labels: vec![load.clone(), design.short_name()],
            metric: metric.clone(),
            ..MetricRow::of(design.variant())
        })
    };
    let table = MetricTable::new(results, ["load", "design"])
        .metrics([
            ("IOPS", "iops"),
            ("mean us", "mean_us"),
            ("hits %", "hit_percent"),
            ("bytes written to the SSD for each byte", "ssd_bytes_per_byte"),
        ])
        .rows(loads.into_iter().flat_map(of_load));
    (!table.rows.is_empty()).then_some(table)
}

/// What each design wrote in all, and what it takes.
fn wear(results: &Results) -> Table {
    let loads =
        [("fits_", "in the cache"), ("zipf_", "Zipf on 150 GB"), ("full_", "the cache fills its SSD")];
    let of_design = |design: Design| {
        loads.map(|(part, name)| MetricRow {
            labels: vec![design.short_name(), name.into()],
            metric: part.into(),
            ..MetricRow::of(design.variant())
        })
    };
    MetricTable::new(results, ["design", "loads"])
        .metrics([
            ("GB written to the SSD", "ssd_written_GB"),
            ("write amplification of the SSD", "ssd_write_amplification"),
            ("of the cache in use %", "cached_percent"),
            ("dirty %", "dirty_percent"),
            ("bytes of memory for each MiB", "memory_bytes_per_MiB"),
        ])
        .rows(Design::ALL.into_iter().filter(|design| *design != Design::Disk).flat_map(of_design))
}

fn sections(results: &Results, options: &Options) -> Vec<Section> {
    let mut sections = Vec::new();
    let file = show_size(options.file);
    if let Some(table) = modes(results) {
        sections.push(Section {
            heading: "Which cells give the published figures".into(),
            text: "The published plots have no values, and their loads are not named.".into(),
            table: Some(candidates(results)),
            ..Section::default()
        });
        sections.push(Section {
            heading: "A warm cache over the disk alone".into(),
            text: format!(
                "Uniform requests on a file of {file}; mixed is seven reads and three writes. Chunks of 64 KiB, policy mq. Published: 450 % \
                 for reads and writes, 4702 % for reads."
            ),
            table: Some(table),
            ..Section::default()
        });
        sections.push(Section {
            heading: "Cold".into(),
            text: format!("The first reads of 4 KiB, one at a time, and reads of 64 KiB, 32 at a time, until {file} are in the cache."),
            table: cold(results),
            ..Section::default()
        });
    }
    if let Some(table) = chunks(results) {
        sections.push(Section {
            heading: "Chunks".into(),
            text: "Reads of 4 KiB on 150 GB, 32 at a time, by Zipf's law (theta 1.2), after as long a time of the same. The threshold of that \
                   time lets no chunk of 1 MiB or more be promoted; mq-8-chunks has room for eight chunks, as lvm2 sets it since 2019."
                .into(),
            charts: vec![chunk_chart(results)],
            table: Some(table),
        });
    }
    if let Some(table) = warming(results) {
        sections.push(Section {
            heading: "Warming".into(),
            text: format!(
                "Uniform reads of 4 KiB, one at a time, on a file of {file}, from an empty cache on."
            ),
            charts: vec![warming_chart(results)],
            table: Some(table),
        });
    }
    if let Some(table) = designs(results) {
        sections.push(Section {
            heading: "Policies and their SSD".into(),
            text: format!(
                "Chunks of 64 KiB in writeback mode on the NVMe drive. In the cache: a file of {file}. The cache that fills its SSD is on one of 16 GiB."
            ),
            table: Some(table),
            ..Section::default()
        });
        sections.push(Section {
            heading: "What the designs write and take".into(),
            text: "All bytes that the SSD got, metadata included.".into(),
            table: Some(wear(results)),
            ..Section::default()
        });
    }
    sections
}

/// The gains of the NVMe cache that docs/studies/cache.md holds against the published figures: requests of 64 KiB, as the title of a published plot says,
/// with 32 at a time. Which mode the published mix had is not said. Writethrough is lvm2's default.
fn gains(results: &Results) -> Option<(f64, f64)> {
    let of = |kind: LoadKind, mode: Mode| {
        let is_it = |load: &Load| load.kind == kind && load.block == 64 << 10 && load.depth > 1;
        over_disk(results, &mode_variant(Ssd::Nvme, mode), &Load::all().into_iter().find(is_it)?)
    };
    Some((of(LoadKind::Read, Mode::Writeback)?, of(LoadKind::Mixed, Mode::Writethrough)?))
}

fn answer(results: &Results) -> String {
    match gains(results) {
        Some((read, mixed)) => format!(
            "With 32 requests of 64 KiB at a time, a warm NVMe cache does {read:.1} times the disk's random reads, and in writethrough mode {mixed:.1} times \
             its mix of reads and writes. Published: 4702 % and 450 %, of loads that are not said."
        ),
        None => {
            "The part of modes did not run: there is nothing to hold against the published figures.".into()
        }
    }
}

/// What a reader must know.
pub(super) fn notes(results: &Results, options: &Options) -> Vec<String> {
    let mut notes = vec![
        "The published text names no load, no depth, no chunk and no warm-up. The table of cells says where the figures may come from; it proves \
         nothing."
            .into(),
        match options.controller {
            lab_engines::machine::Controller::H730p => "Disk and SAS SSD are on a PERC H730P, whose write cache takes random writes in: so a cache gains little for writes that fit there.".into(),
            lab_engines::machine::Controller::H330 => "Disk and SAS SSD are on a PERC H330, which has no write cache: the published host had one.".into(),
        },
        "The published disk is a 300 GB SAS disk without a name. The SAS SSD is not named, either.".into(),
        "Nothing was found of the NVMe drive's writes: they are those of a drive of its class. What the host takes is assumed (docs/machine.md)."
            .into(),
    ];
    let promoted =
        |chunk: u64| results.median(&chunk_variant(PolicyKind::Mq, false), "promotions", &chunk_point(chunk));
    let large: Vec<f64> =
        CHUNKS.iter().filter(|chunk| **chunk >= 1 << 20).filter_map(|chunk| promoted(*chunk)).collect();
    if !large.is_empty() {
        let sum: f64 = large.iter().sum();
        notes.push(format!(
            "With mq and the threshold of its time, chunks of 1 MiB and more were promoted {} times.",
            show(sum)
        ));
    }
    notes
}

/// The page.
pub(super) fn report<'a>(results: &'a Results, options: &Options) -> Report<'a> {
    let headlines = gains(results).map_or(Vec::new(), |(read, mixed)| {
        vec![
            Headline {
                label: "random reads of 64 KiB, 32 at a time, warm NVMe cache over the disk".into(),
                value: format!("{read:.1}x"),
                detail: "published 4702 %: 47 or 48 times".into(),
            },
            Headline {
                label: "reads and writes likewise, in writethrough mode".into(),
                value: format!("{mixed:.1}x"),
                detail: "published 450 %: 4.5 or 5.5 times".into(),
            },
        ]
    });
    Report {
        title: "An SSD as a cache of a hard disk".into(),
        question: "What does an SSD as a cache in front of a hard disk give, by chunk size, mode and policy?"
            .into(),
        answer: answer(results),
        headlines,
        results,
        sections: sections(results, options),
    }
}
