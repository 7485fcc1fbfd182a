//! What the study says: the published tables beside ours.

use super::{Options, published};
use lab_models::rocksdb::{FILLED_PERCENT, RECORD};
use lab_report::{
    figure::{show, show_size, show_some},
    report::{Headline, Report, Section, Table},
    results::{Point, Results, points},
};

fn percent(ratio: f64) -> String {
    format!("{:+.0}%", (ratio - 1.0) * 100.0)
}

/// `ours`, what was published, and how far ours is from that.
fn beside(ours: Option<f64>, published: Option<f64>) -> [String; 3] {
    let off = ours.zip(published).map_or("-".into(), |(ours, theirs)| percent(ours / theirs));
    [show_some(ours), show_some(published), off]
}

/// Steady writes beside the published.
fn writes(results: &Results) -> Table {
    let mut table = Table::new(["drive", "MiB/s", "published", "off by", "write amplification"]);
    for (name, theirs) in published::STEADY_WRITES {
        let ours = results.median(name, "steady_write_MiBps", &Point::new());
        if ours.is_none() {
            continue;
        }
        let mut row = vec![name.to_owned()];
        row.extend(beside(ours, Some(theirs)));
        row.push(results.median(name, "write_amplification", &Point::new()).map_or("-".into(), show));
        table.rows.push(row);
    }
    table
}

/// Latency of reads beside writes, and the zoned drive's over the others'.
fn reads(results: &Results) -> Table {
    let mut table = Table::new([
        "writes MiB/s",
        "cns-7 us",
        "cns-28 us",
        "zns us",
        "zns / cns-7",
        "published",
        "zns / cns-28",
        "published",
    ]);
    for writes in std::iter::once(0).chain(published::READS.iter().map(|row| row.0)) {
        let at = Point::from([("writes_MiBps".into(), writes)]);
        let mean = |name: &str| results.median(name, "read_mean_us", &at);
        let zns = mean("zns");
        let ratio = |name: &str| zns.zip(mean(name)).map_or("-".into(), |(zns, other)| percent(zns / other));
        let theirs = published::READS.iter().find(|row| row.0 == writes);
        let row = vec![
            writes.to_string(),
            show_some(mean("cns-7")),
            show_some(mean("cns-28")),
            show_some(zns),
            ratio("cns-7"),
            theirs.map_or("-".into(), |row| percent(row.1)),
            ratio("cns-28"),
            theirs.map_or("-".into(), |row| percent(row.2)),
        ];
        if ["cns-7", "cns-28", "zns"].iter().any(|name| mean(name).is_some()) {
            table.rows.push(row);
        }
    }
    table
}

/// Points of a database: overwrites, and reads beside writes without and with a limit.
fn limited(limit: u64) -> Point {
    Point::from([("write_limit_MiBps".into(), limit)])
}

/// Overwrites with RocksDB: one row per figure.
fn overwrites(results: &Results) -> Table {
    const NAMES: [&str; 3] = ["xfs-7", "xfs-28", "zenfs"];
    let mut table = Table::new(["overwrites", "xfs-7", "xfs-28", "zenfs", "zenfs / xfs-28", "published"]);
    for (metric, title) in [
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
    ] {
        let of = |name: &str| results.median(name, metric, &Point::new());
        let [seven, more, zones] = NAMES.map(of);
        if seven.or(more).or(zones).is_none() {
            continue;
        }
        let ratio = zones.zip(more).map_or("-".into(), |(zones, more)| format!("{:.2}x", zones / more));
        let theirs = match metric {
            "engine_write_amplification" => {
                format!("{} to {} each", published::ENGINE_AMPLIFICATION.0, published::ENGINE_AMPLIFICATION.1)
            }
            "drive_write_amplification" => {
                format!("{} and {}", published::DRIVE_AMPLIFICATION[0].1, published::DRIVE_AMPLIFICATION[1].1)
            }
            _ => published::ratio(metric, "zenfs", "xfs-28", None)
                .map_or("-".into(), |published| format!("{:.2}x", published.value)),
        };
        table.rows.push(vec![
            title.into(),
            show_some(seven),
            show_some(more),
            show_some(zones),
            ratio,
            theirs,
        ]);
    }
    table
}

/// Overwrites with RocksDB on f2fs, beside those on XFS and ZenFS: one row per figure.
fn overwrites_f2fs(results: &Results) -> Table {
    const NAMES: [&str; 5] = ["xfs-28", "f2fs-7", "f2fs-28", "f2fs-zns", "zenfs"];
    let at = Point::new();
    let mut table = Table::new([
        "overwrites",
        "xfs-28",
        "f2fs-7",
        "f2fs-28",
        "f2fs-zns",
        "zenfs",
        "f2fs-zns / f2fs-28",
        "published",
    ]);
    for (metric, title) in [
        ("ops_per_second", "writes/s"),
        ("engine_write_amplification", "RocksDB's write amplification"),
        ("file_system_write_amplification", "moved by the file system"),
        ("drive_write_amplification", "the drive's write amplification"),
        ("flash_bytes_per_op", "bytes of flash for a write"),
        ("host_write_MiBps", "written MiB/s"),
        ("slowed_percent", "% of the time slowed down"),
        ("live_percent", "% of the capacity has data"),
    ] {
        let of = |name: &str| results.median(name, metric, &at);
        let (zones, more) = (of("f2fs-zns"), of("f2fs-28"));
        if zones.or(more).is_none() {
            continue;
        }
        let ratio = zones.zip(more).map_or("-".into(), |(zones, more)| format!("{:.2}x", zones / more));
        let theirs = published::ratio(metric, "f2fs-zns", "f2fs-28", Some(&at))
            .map_or("-".into(), |published| format!("{:.2}x", published.value));
        let values = NAMES.iter().map(|name| show_some(of(name)));
        table.rows.push(std::iter::once(title.into()).chain(values).chain([ratio, theirs]).collect());
    }
    table
}

/// Ratios of f2fs that are published, beside ours.
fn ratios_f2fs(results: &Results) -> Table {
    let mut table = Table::new(["ratio", "of", "over", "ours", "published", "off by"]);
    let of_f2fs = |name: &str| name.starts_with("f2fs");
    for row in &results.comparisons {
        if let Some(theirs) = row.published.as_ref().filter(|_| of_f2fs(&row.of) || of_f2fs(&row.over)) {
            let mut cells = vec![row.metric.clone(), row.of.clone(), row.over.clone()];
            cells.extend(beside(Some(row.ratio), Some(theirs.value)));
            table.rows.push(cells);
        }
    }
    table
}

/// Point reads beside writes.
fn beside_writes(results: &Results) -> Table {
    let mut table = Table::new([
        "on",
        "writes limited to",
        "writes MiB/s",
        "reads/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "p99.99 us",
    ]);
    for limit in [0, published::WRITE_LIMIT >> 20] {
        for name in ["xfs-7", "xfs-28", "zenfs", "f2fs-7", "f2fs-28", "f2fs-zns"] {
            let of = |metric: &str| results.median(name, metric, &limited(limit));
            let Some(writes) = of("ops_per_second") else { continue };
            let bytes = f64::from(RECORD.0 + RECORD.1);
            let mut row = vec![name.to_owned()];
            row.push(if limit == 0 { "no limit".into() } else { format!("{limit} MiB/s") });
            row.push(show(writes * bytes / 1_048_576.0));
            for metric in ["reads_per_second", "read_p50_us", "read_p99_us", "read_p999_us", "read_p9999_us"]
            {
                row.push(of(metric).map_or("-".into(), show));
            }
            table.rows.push(row);
        }
    }
    table
}

/// Ways to share zones, and smaller zones.
fn sharing(results: &Results, names: &[&str]) -> Table {
    let mut table = Table::new([
        "zones",
        "keys",
        "writes/s",
        "RocksDB's WA",
        "moved by the file system",
        "the drive's WA",
        "data",
        "data and garbage",
        "write p99.99 us",
    ]);
    let points = [
        Point::new(),
        Point::from([("filled_percent".into(), 70)]),
        Point::from([("filled_percent".into(), 100)]),
    ];
    for at in points {
        for name in names {
            let of = |metric: &str| results.median(name, metric, &at).map_or("-".into(), show);
            if results.median(name, "ops_per_second", &at).is_none() {
                continue;
            }
            let keys = at.get("filled_percent").map(|percent| format!("{percent} %"));
            table.rows.push(vec![
                (*name).to_owned(),
                keys.unwrap_or_else(|| format!("{FILLED_PERCENT} % of the drive")),
                of("ops_per_second"),
                of("engine_write_amplification"),
                of("file_system_write_amplification"),
                of("drive_write_amplification"),
                format!("{} %", of("live_percent")),
                format!("{} %", of("taken_percent")),
                of("write_p9999_us"),
            ]);
        }
    }
    table
}

/// What power cuts take from a log.
fn durability(results: &Results) -> Table {
    let mut table = Table::new([
        "log",
        "cuts",
        "records taken for durable",
        "lost",
        "cuts with a loss",
        "lost KiB a cut",
        "lost KiB at most",
    ]);
    for name in ["no-flush", "flush", "no-flush-protected", "flush-protected"] {
        let Some(variant) = results.variant(name) else { continue };
        for at in points(std::slice::from_ref(variant)) {
            let of = |metric: &str| variant.median(metric, &at).unwrap_or(0.0);
            table.rows.push(vec![
                name.to_owned(),
                at.get("cuts").copied().unwrap_or(0).to_string(),
                show(of("synced_records")),
                show(of("lost_records")),
                format!("{} %", show(of("cuts_with_loss_percent"))),
                show(of("lost_bytes_per_cut") / 1024.0),
                show(of("lost_bytes_at_most") / 1024.0),
            ]);
        }
    }
    table
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
            overwrites(results),
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
