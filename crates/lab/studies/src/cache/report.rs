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
    figure::{show, show_size, show_some},
    report::{
        Headline, Report, Section, Table,
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
    results.variant("hdd")?;
    let mut table = Table::new(["load", "on", "IOPS", "mean us", "hits %", "over the disk"]);
    for load in Load::all() {
        let name = format!("{} {}k, depth {}", load.kind.name(), load.block >> 10, load.depth);
        for on in std::iter::once("hdd".to_owned()).chain(caches()) {
            let of = |figure: &str| results.median(&on, &load.metric(figure), &Point::new());
            if of("iops").is_none() {
                continue;
            }
            let over = match over_disk(results, &on, &load) {
                Some(ratio) if on != "hdd" => format!("{ratio:.2}x"),
                _ => "-".into(),
            };
            table.rows.push(vec![
                name.clone(),
                on.clone(),
                show_some(of("iops")),
                show_some(of("mean_us")),
                show_some(of("hit_percent")),
                over,
            ]);
        }
    }
    Some(table)
}

/// How cold caches begin, and how long they take to be warm.
fn cold(results: &Results) -> Option<Table> {
    results.variant("hdd")?;
    let mut table =
        Table::new(["on", "cold: reads/s", "seconds until warm", "of the file in the cache then"]);
    for on in std::iter::once("hdd".to_owned()).chain(caches()) {
        let of = |metric: &str| results.median(&on, metric, &Point::new());
        if of("cold_read_4k_qd1_iops").is_none() {
            continue;
        }
        let percent = of("warm_percent").map_or("-".into(), |percent| format!("{percent:.1} %"));
        table.rows.push(vec![
            on.clone(),
            show_some(of("cold_read_4k_qd1_iops")),
            show_some(of("warming_seconds")),
            percent,
        ]);
    }
    Some(table)
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
    let mut table = Table::new([
        "chunk",
        "policy",
        "reads/s",
        "hits %",
        "promotions",
        "promoted MB",
        "of the cache in use %",
    ]);
    for chunk in CHUNKS {
        for variant in chunk_variants() {
            let of = |metric: &str| results.median(&variant, metric, &chunk_point(chunk));
            if of("iops").is_none() {
                continue;
            }
            let row = ["iops", "hit_percent", "promotions", "promoted_MB", "cache_percent"]
                .map(|m| show_some(of(m)));
            let name = variant.trim_start_matches("chunks-").to_owned();
            table.rows.push([show_size(chunk), name].into_iter().chain(row).collect());
        }
    }
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

/// The name of a load's metric, by that of the figure.
type MetricName = Box<dyn Fn(&str) -> String>;

/// What each design does under each load, and what it writes to its SSD.
fn designs(results: &Results) -> Option<Table> {
    let names: Vec<String> = Design::ALL.iter().map(|design| design.variant()).collect();
    let mut table =
        Table::new(["load", "design", "IOPS", "mean us", "hits %", "bytes written to the SSD for each byte"]);
    let of = |variant: &str, metric: &str| results.median(variant, metric, &Point::new());
    let mut loads: Vec<(String, MetricName)> = Vec::new();
    let cold = Load::all()[0];
    loads
        .push(("cold, in the cache".into(), Box::new(move |figure| format!("cold_{}", cold.metric(figure)))));
    for load in Load::all() {
        let name = format!("{} {}k, depth {}, in the cache", load.kind.name(), load.block >> 10, load.depth);
        loads.push((name, Box::new(move |figure| load.metric(figure))));
    }
    loads.push((
        "cold, Zipf on 150 GB".into(),
        Box::new(|figure| format!("cold_{}", designs::skewed_metric(&SKEWED_LOAD, figure))),
    ));
    for load in designs::skewed() {
        let name = format!("{} {}k, Zipf on 150 GB", load.kind.name(), load.block >> 10);
        loads.push((name, Box::new(move |figure| designs::skewed_metric(&load, figure))));
    }
    loads.push((
        "write 4k, Zipf, the cache fills its SSD".into(),
        Box::new(|figure| format!("full_{}", designs::FULL_CACHE_WRITES.metric(figure))),
    ));
    for (load, metric) in &loads {
        for variant in names.iter().filter(|variant| of(variant, &metric("iops")).is_some()) {
            let figures = ["iops", "mean_us", "hit_percent", "ssd_bytes_per_byte"]
                .map(|f| show_some(of(variant, &metric(f))));
            let name = variant.trim_start_matches("designs-").to_owned();
            table.rows.push([load.clone(), name].into_iter().chain(figures).collect());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What each design wrote in all, and what it takes.
fn wear(results: &Results) -> Table {
    let mut table = Table::new([
        "design",
        "loads",
        "GB written to the SSD",
        "write amplification of the SSD",
        "of the cache in use %",
        "dirty %",
        "bytes of memory for each MiB",
    ]);
    for design in Design::ALL.iter().filter(|design| **design != Design::Disk) {
        for (part, name) in
            [("fits", "in the cache"), ("zipf", "Zipf on 150 GB"), ("full", "the cache fills its SSD")]
        {
            let of = |metric: &str| {
                show_some(results.median(&design.variant(), &format!("{part}_{metric}"), &Point::new()))
            };
            let figures = [
                "ssd_written_GB",
                "ssd_write_amplification",
                "cached_percent",
                "dirty_percent",
                "memory_bytes_per_MiB",
            ];
            let design = design.variant().trim_start_matches("designs-").to_owned();
            table.rows.push([design, name.into()].into_iter().chain(figures.map(of)).collect());
        }
    }
    table
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
