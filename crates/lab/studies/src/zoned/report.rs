//! What the study says: the published tables beside ours.

use super::{Options, published};
use lab_models::rocksdb::{FILLED_PERCENT, RECORD};
use lab_report::{
    figure::{show, show_size, show_some},
    report::{Headline, MetricRow, MetricTable, Report, Section, Table},
    results::{Point, Results, points},
};

fn percent(ratio: f64) -> String {
    format!("{:+.0}%", (ratio - 1.0) * 100.0)
}

/// How far `ours` is from what was published.
fn off_by(ours: Option<f64>, published: Option<f64>) -> String {
    ours.zip(published).map_or("-".into(), |(ours, theirs)| percent(ours / theirs))
}

/// Steady writes beside the published.
fn writes(results: &Results) -> Table {
    let theirs = |row: &MetricRow| {
        published::STEADY_WRITES.iter().find(|(name, _)| *name == row.variant).map(|(_, rate)| *rate)
    };
    let ours = |row: &MetricRow| results.median(&row.variant, "steady_write_MiBps", &row.at);
    MetricTable::new(results, ["drive"])
        .metrics([("MiB/s", "steady_write_MiBps")])
        .column("published", move |row| show_some(theirs(row)))
        .column("off by", move |row| off_by(ours(row), theirs(row)))
        .metrics([("write amplification", "write_amplification")])
        .rows(published::STEADY_WRITES.map(|(name, _)| MetricRow::of(name)))
}

/// Latency of reads beside writes, and the zoned drive's over the others'.
fn reads(results: &Results) -> Table {
    let row = |writes: u64| MetricRow {
        labels: vec![writes.to_string()],
        metric: "read_mean_us".into(),
        at: Point::from([("writes_MiBps".into(), writes)]),
        ..MetricRow::default()
    };
    let over = |other: &'static str| {
        move |row: &MetricRow| {
            let mean = |name: &str| results.median(name, &row.metric, &row.at);
            off_by(mean("zns"), mean(other))
        }
    };
    let theirs = |pick: fn(&(u64, f64, f64)) -> f64| {
        move |row: &MetricRow| {
            let found = published::READS.iter().find(|theirs| row.at.get("writes_MiBps") == Some(&theirs.0));
            found.map_or("-".into(), |theirs| percent(pick(theirs)))
        }
    };
    MetricTable::new(results, ["writes MiB/s"])
        .variants(["cns-7", "cns-28", "zns"])
        .column("zns / cns-7", over("cns-7"))
        .column("published", theirs(|row| row.1))
        .column("zns / cns-28", over("cns-28"))
        .column("published", theirs(|row| row.2))
        .rows(std::iter::once(0).chain(published::READS.map(|row| row.0)).map(row))
}

/// Points of a database: overwrites, and reads beside writes without and with a limit.
fn limited(limit: u64) -> Point {
    Point::from([("write_limit_MiBps".into(), limit)])
}

/// Overwrites with RocksDB: one row per figure, one column per variant, and the ratio of two of them beside the published one.
fn overwrites<'a>(
    results: &'a Results,
    variants: &[&'a str],
    [of, over]: [&'static str; 2],
    rows: &[(&str, &str)],
    theirs: impl Fn(&str) -> String + 'a,
) -> Table {
    let ratio = move |row: &MetricRow| {
        let value = |name: &str| results.median(name, &row.metric, &row.at);
        value(of).zip(value(over)).map_or("-".into(), |(of, over)| format!("{:.2}x", of / over))
    };
    let row = |&(metric, title): &(&str, &str)| MetricRow {
        labels: vec![title.to_owned()],
        metric: metric.to_owned(),
        ..MetricRow::default()
    };
    MetricTable::new(results, ["overwrites"])
        .variants(variants.iter().copied())
        .column(&format!("{of} / {over}"), ratio)
        .column("published", move |row| theirs(&row.metric))
        .rows(rows.iter().map(row))
}

fn published_ratio(metric: &str, of: &str, over: &str) -> String {
    published::ratio(metric, of, over, None).map_or("-".into(), |theirs| format!("{:.2}x", theirs.value))
}

/// Overwrites on XFS and on ZenFS.
fn overwrites_xfs(results: &Results) -> Table {
    const ROWS: [(&str, &str); 14] = [
        ("ops_per_second", "writes/s"),
        ("engine_write_amplification", "RocksDB's write amplification"),
        ("drive_write_amplification", "the drive's write amplification"),
        ("flash_bytes_per_op", "bytes of flash for a write"),
        ("host_write_MiBps", "written MiB/s"),
        ("write_p50_us", "write p50 us"),
        ("write_p99_us", "write p99 us"),
        ("write_p999_us", "write p99.9 us"),
        ("write_p9999_us", "write p99.99 us"),
        ("stopped_percent", "% of the time stopped"),
        ("slowed_percent", "% of the time slowed down"),
        ("live_percent", "% of the capacity has data"),
        ("taken_percent", "% of it is data or garbage"),
        ("lifetime_years", "years until 2 TiB are worn out"),
    ];
    let theirs = |metric: &str| match metric {
        "engine_write_amplification" => {
            format!("{} to {} each", published::ENGINE_AMPLIFICATION.0, published::ENGINE_AMPLIFICATION.1)
        }
        "drive_write_amplification" => {
            format!("{} and {}", published::DRIVE_AMPLIFICATION[0].1, published::DRIVE_AMPLIFICATION[1].1)
        }
        _ => published_ratio(metric, "zenfs", "xfs-28"),
    };
    overwrites(results, &["xfs-7", "xfs-28", "zenfs"], ["zenfs", "xfs-28"], &ROWS, theirs)
}

/// Overwrites on f2fs, beside those on XFS and ZenFS.
fn overwrites_f2fs(results: &Results) -> Table {
    const ROWS: [(&str, &str); 8] = [
        ("ops_per_second", "writes/s"),
        ("engine_write_amplification", "RocksDB's write amplification"),
        ("file_system_write_amplification", "moved by the file system"),
        ("drive_write_amplification", "the drive's write amplification"),
        ("flash_bytes_per_op", "bytes of flash for a write"),
        ("host_write_MiBps", "written MiB/s"),
        ("slowed_percent", "% of the time slowed down"),
        ("live_percent", "% of the capacity has data"),
    ];
    let variants = ["xfs-28", "f2fs-7", "f2fs-28", "f2fs-zns", "zenfs"];
    let theirs = |metric: &str| published_ratio(metric, "f2fs-zns", "f2fs-28");
    match results.variant("f2fs-zns").or_else(|| results.variant("f2fs-28")) {
        Some(_) => overwrites(results, &variants, ["f2fs-zns", "f2fs-28"], &ROWS, theirs),
        None => Table::new([]),
    }
}

/// Ratios of f2fs that are published, beside ours.
fn ratios_f2fs(results: &Results) -> Table {
    let mut table = Table::new(["ratio", "of", "over", "ours", "published", "off by"]);
    let of_f2fs = |name: &str| name.starts_with("f2fs");
    for row in &results.comparisons {
        if let Some(theirs) = row.published.as_ref().filter(|_| of_f2fs(&row.of) || of_f2fs(&row.over)) {
            let (ours, theirs) = (Some(row.ratio), Some(theirs.value));
            let figures = [show_some(ours), show_some(theirs), off_by(ours, theirs)];
            let names = [row.metric.clone(), row.of.clone(), row.over.clone()];
            table.rows.push(names.into_iter().chain(figures).collect());
        }
    }
    table
}

/// Point reads beside writes.
fn beside_writes(results: &Results) -> Table {
    const NAMES: [&str; 6] = ["xfs-7", "xfs-28", "zenfs", "f2fs-7", "f2fs-28", "f2fs-zns"];
    let written = |row: &MetricRow| {
        let bytes = f64::from(RECORD.0 + RECORD.1);
        let rate = results.median(&row.variant, "ops_per_second", &row.at);
        show_some(rate.map(|writes| writes * bytes / 1_048_576.0))
    };
    let rows = [0, published::WRITE_LIMIT >> 20].into_iter().flat_map(|limit| {
        let title = if limit == 0 { "no limit".into() } else { format!("{limit} MiB/s") };
        NAMES.map(|name| MetricRow {
            labels: vec![name.to_owned(), title.clone()],
            at: limited(limit),
            ..MetricRow::of(name)
        })
    });
    MetricTable::new(results, ["on", "writes limited to"])
        .column("writes MiB/s", written)
        .metrics([
            ("reads/s", "reads_per_second"),
            ("p50 us", "read_p50_us"),
            ("p99 us", "read_p99_us"),
            ("p99.9 us", "read_p999_us"),
            ("p99.99 us", "read_p9999_us"),
        ])
        .rows(rows)
}

/// Ways to share zones, and smaller zones.
fn sharing(results: &Results, names: &[&str]) -> Table {
    let points = [None, Some(70), Some(100)];
    let rows = points.into_iter().flat_map(|filled: Option<u64>| {
        let keys =
            filled.map_or(format!("{FILLED_PERCENT} % of the drive"), |percent| format!("{percent} %"));
        let at: Point = filled.map(|percent| ("filled_percent".to_owned(), percent)).into_iter().collect();
        let row = move |name: &&str| MetricRow {
            labels: vec![(*name).to_owned(), keys.clone()],
            at: at.clone(),
            ..MetricRow::of(*name)
        };
        names.iter().map(row)
    });
    MetricTable::new(results, ["zones", "keys"])
        .metrics([
            ("writes/s", "ops_per_second"),
            ("RocksDB's WA", "engine_write_amplification"),
            ("moved by the file system", "file_system_write_amplification"),
            ("the drive's WA", "drive_write_amplification"),
            ("data %", "live_percent"),
            ("data and garbage %", "taken_percent"),
            ("write p99.99 us", "write_p9999_us"),
        ])
        .rows(rows)
}

/// What power cuts take from a log.
fn durability(results: &Results) -> Table {
    const NAMES: [&str; 4] = ["no-flush", "flush", "no-flush-protected", "flush-protected"];
    let rows = NAMES.into_iter().filter_map(|name| results.variant(name)).flat_map(|variant| {
        points(std::slice::from_ref(variant)).into_iter().map(|at| MetricRow {
            labels: vec![variant.name.clone(), at.get("cuts").copied().unwrap_or(0).to_string()],
            at,
            ..MetricRow::of(variant.name.clone())
        })
    });
    let kib = |metric: &'static str| {
        move |row: &MetricRow| {
            show_some(results.median(&row.variant, metric, &row.at).map(|bytes| bytes / 1024.0))
        }
    };
    MetricTable::new(results, ["log", "cuts"])
        .metrics([
            ("records taken for durable", "synced_records"),
            ("lost", "lost_records"),
            ("cuts with a loss %", "cuts_with_loss_percent"),
        ])
        .column("lost KiB a cut", kib("lost_bytes_per_cut"))
        .column("lost KiB at most", kib("lost_bytes_at_most"))
        .rows(rows)
}

fn sections(results: &Results) -> Vec<Section> {
    let section = |heading: &str, text: &str, table: Table| {
        let table = (!table.rows.is_empty()).then_some(table)?;
        let (heading, text) = (heading.into(), text.into());
        Some(Section { heading, text, charts: Vec::new(), table: Some(table) })
    };
    [
        section(
            "Steady writes",
            "Writes of 64 KiB in order to four zones, or to four ranges of the size of a superblock, each reset or deallocated before it is written again. The drive was \
             overwritten several times before. ATC 2021, figure 1.",
            writes(results),
        ),
        section(
            "Reads beside writes",
            &format!(
                "Mean latency of a read of 4 KiB, one at a time. ATC 2021, figure 5b; an idle conventional drive takes {} us there.",
                published::IDLE_READ_US
            ),
            reads(results),
        ),
        section(
            "RocksDB: overwrites",
            "db_bench's overwrite at random after fillrandom, as many records as there are keys. ATC 2021, figure 6 and table 2. RocksDB's write amplification is what \
             flushes and compactions wrote over what flushes did.",
            overwrites_xfs(results),
        ),
        section(
            "RocksDB on f2fs: overwrites",
            "The same on f2fs. On zones f2fs moves data to empty zones; on conventional namespaces it writes into gaps. ATC 2021, figure 6.",
            overwrites_f2fs(results),
        ),
        section("RocksDB on f2fs: published ratios", "ATC 2021, figures 6 to 9.", ratios_f2fs(results)),
        section(
            "RocksDB: reads beside writes",
            "db_bench's readwhilewriting with 32 threads. ATC 2021, figures 7 and 8, against 28 % of spare: with a limit of 20 MiB/s p99.9 is half as long on ZenFS as on XFS, and a \
             quarter as long on f2fs with zones as on f2fs. Without a limit ZenFS takes twice the writes, and p99.99 is a tenth.",
            beside_writes(results),
        ),
        section(
            "Which files share zones",
            "Overwrites with the published number of keys and with 70 % of it. What the file system moves to empty zones is over what RocksDB writes.",
            sharing(results, &["zones-none", "zones-lifetime", "zones-overlap"]),
        ),
        section(
            "Small zones",
            "The same on zones that lie on a part of the dies, with tables as large as before.",
            match results.variant("zones-8-dies") {
                Some(_) => sharing(results, &["zenfs", "zones-16-dies", "zones-8-dies"]),
                None => Table::new([]),
            },
        ),
        section(
            "Durability",
            "A log of records of 16 KiB, one after the other, each taken for durable when its append has ended, or the Flush behind it. Then the power is cut.",
            durability(results),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn answer(results: &Results) -> String {
    let steady = |name: &str| results.median(name, "steady_write_MiBps", &Point::new());
    let ops = |name: &str| results.median(name, "ops_per_second", &Point::new());
    let database = ops("zenfs").zip(ops("xfs-28")).map_or(String::new(), |(zones, more)| {
        format!(
            " RocksDB overwrites {:.2} times as many records on them as on XFS over 28 % (published {}).",
            zones / more,
            published::OVERWRITE_ZENFS
        )
    });
    let drives = match (steady("zns"), steady("cns-7"), steady("cns-28")) {
        (Some(zns), Some(seven), Some(more)) => format!(
            "Zones take {:.1} times the steady writes of a conventional namespace with 7 % of spare (published: 2.7), and {:.1} times those with 28 % (1.7).",
            zns / seven,
            zns / more
        ),
        _ => String::new(),
    };
    match (drives + &database).trim() {
        "" => "The tables have what was asked for.".into(),
        text => text.to_owned(),
    }
}

/// Sentences for the reader.
pub(super) fn notes(results: &Results, options: &Options, media: u64) -> Vec<String> {
    let mut notes = vec![format!(
        "The drives have the chips of {:?} with 1/{} of their capacity: {} of flash. Channels, dies and their speed are whole; blocks are shorter, and there are fewer of them.",
        options.drive(),
        options.scale,
        show_size(media)
    )];
    notes.push(
        "Nothing is fitted to the paper. Not from it: a processor's time for compaction (measured on another machine); assumed: the page cache, and that the conventional drives have the over-provisioning \
         that the paper's percentages say, not all of 2 TiB. \
         docs/studies/zoned-models.md has each, and why figures differ."
            .into(),
    );
    notes.extend(pace(results));
    if results.variants.iter().any(|v| v.runs.iter().all(|run| run.repetition == 0)) {
        notes.push("One repetition: the same seed gives the same figures on every machine; --repeat shows how much they depend on it.".into());
    }
    notes
}

/// Where RocksDB on zones writes much less than they take: what sets the pace instead.
fn pace(results: &Results) -> Option<String> {
    let at = Point::new();
    let written = results.median("zenfs", "host_write_MiBps", &at)?;
    let most = results.median("zns", "steady_write_MiBps", &at)?;
    let slowed = results.median("zenfs", "slowed_percent", &at)?;
    (written < most * 0.7).then(|| {
        format!(
            "RocksDB on zones writes {} MiB/s, where the drive takes {}, and its writer is slowed down for {} % of the time: compactions set the pace, not the drive. So zones cannot show \
             their speed in overwrites; with faster processors (--compaction-time) they do. On XFS the drive sets it.",
            show(written),
            show(most),
            show(slowed)
        )
    })
}

/// The page.
pub(super) fn report(results: &Results) -> Report<'_> {
    let steady = |name: &str| results.median(name, "steady_write_MiBps", &Point::new());
    let headline = steady("zns").zip(steady("cns-7")).map(|(zns, seven)| Headline {
        label: "Steady writes, zones over 7 % of spare".into(),
        value: format!("{:.2}x", zns / seven),
        detail: "published: 2.73x".into(),
    });
    Report {
        title: "Zones for a log-structured database".into(),
        question: "What do zones buy, against a conventional namespace of the same chips?".into(),
        answer: answer(results),
        headlines: headline.into_iter().collect(),
        results,
        sections: sections(results),
    }
}
