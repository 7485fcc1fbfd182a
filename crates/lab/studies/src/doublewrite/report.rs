//! The study's report: what its charts show and what its sentences say.

use std::path::Path;

use anyhow::Result;

use super::settings::Settings;
use crate::layouts::doublewrite::DEFAULT_PROFILE;
use lab_databases::mariadb::{Server, Vendor};
use lab_models::innodb::{THROUGHPUT, Variant, figures::whole};
use lab_report::{
    counters::{NamespaceCounts, total_on_flash},
    figure::{show, show_size},
    report::{
        Headline, Report, Section, Table,
        charts::{Bar, Data, Labels, bars, lines},
        comparison_table, cpu_table, essential, show_point,
    },
    results::{CPU_SATURATED, CPU_WAITED, Comparison, Point, Results, Run, median, points},
};

fn colour(name: &str) -> &'static str {
    Variant::ALL.iter().find(|v| v.name() == name).map_or("#374151", |v| v.colour())
}

/// The comparison over all points; if there is only one, its own, where it has a published figure of its own.
fn overall<'a>(results: &'a Results, metric: &str, of: &str) -> Option<&'a Comparison> {
    let rows = || results.comparisons.iter().filter(|c| c.metric == metric && c.of == of);
    let one = rows().filter(|c| c.at.is_some()).count() == 1;
    rows()
        .find(|c| one && c.at.is_some() && c.published.is_some())
        .or_else(|| rows().find(|c| c.at.is_none()))
}

/// "12.3% more", "4.5% fewer".
fn more_or_fewer(ratio: f64) -> String {
    let word = if ratio < 1.0 { "fewer" } else { "more" };
    format!("{:.1}% {word}", (ratio - 1.0).abs() * 100.0)
}

fn percent(ratio: f64) -> String {
    format!("{:+.1}%", (ratio - 1.0) * 100.0)
}

/// The answer in a sentence.
pub(super) fn answer(results: &Results) -> String {
    if results.host_was_bottleneck() {
        let bytes = overall(results, "nand_bytes_per_new_order", "dram").map(|bytes| {
            format!(
                " What does not depend on the pace: with the doublewrite buffer on the DRAM namespace each new order cost {} \
                 NAND bytes (published figures make about -44%).",
                more_or_fewer(bytes.ratio)
            )
        });
        return results.host_verdict() + &bytes.unwrap_or_default();
    }
    match (overall(results, "tpmC", "dram"), overall(results, "nand_bytes_per_new_order", "dram")) {
        (Some(throughput), Some(bytes)) => format!(
            "With the doublewrite buffer on the DRAM namespace the database ran {} new orders per minute ({} to {} over \
             interleaved pairs) and wrote {} NAND bytes for each. Published: +13.8% to +35.5%, and about -44%.",
            more_or_fewer(throughput.ratio),
            percent(throughput.low),
            percent(throughput.high),
            more_or_fewer(bytes.ratio),
        ),
        _ => match results.comparisons.iter().find(|c| c.metric == "tpmC" && c.at.is_none()) {
            Some(c) => format!(
                "{} reached {} new orders per minute than {} ({} to {} over interleaved pairs).",
                c.of,
                more_or_fewer(c.ratio),
                c.over,
                percent(c.low),
                percent(c.high)
            ),
            None => "One variant ran; there is nothing to compare it with.".into(),
        },
    }
}

/// Median of a figure over the runs of a variant at a point.
fn typical(results: &Results, variant: &str, at: Option<&Point>, f: impl Fn(&Run) -> f64) -> Option<f64> {
    let runs = &results.variant(variant)?.runs;
    let values: Vec<f64> = runs.iter().filter(|run| at.is_none_or(|at| run.at == *at)).map(f).collect();
    median(&values)
}

/// Percent of a figure on namespaces that are not flash.
pub(super) fn doublewrite_share(run: &Run, f: impl Fn(&NamespaceCounts) -> u64) -> f64 {
    let total: u64 = run.namespaces.iter().map(&f).sum();
    let apart: u64 = run.namespaces.iter().filter(|n| !n.is_on_flash()).map(&f).sum();
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let share = apart as f64 * 100.0 / total.max(1) as f64;
    share
}

/// Sentences for the reader.
pub(super) fn notes(results: &Results, options: &Settings, server: &Server) -> Vec<String> {
    let mut notes = Vec::new();
    if results.host_was_bottleneck() {
        notes.push(format!(
            "The processors were more than {CPU_SATURATED}% busy and waited for more than {CPU_WAITED}% of the time in most runs \
             of a variant: ratios of speeds are left out."
        ));
    }
    notes.push(match server.vendor {
        Vendor::MariaDb => format!(
            "Server: {}, which keeps its doublewrite buffer in the system tablespace; so ibdata1 as a whole is on the DRAM or \
             persistent memory namespace, as a raw device. It writes the buffer in one piece of up to 2 MiB and one \
             fdatasync for every 128 pages; the published server wrote 124 KiB at a time.",
            server.title
        ),
        Vendor::MySql => format!(
            "Server: {}, whose doublewrite files are on an ext4 file system on the DRAM or persistent memory namespace \
             (innodb_doublewrite_dir), as in the published test.",
            server.title
        ),
    });
    if options.drive == DEFAULT_PROFILE && results.variant("dram").is_some() {
        notes.push(
            "The DRAM of this drive takes 361 MB/s, a figure derived from the published variant dram, which is the one that is tested here, and not scaled \
             down like the flash, which has a 64th of the published bandwidth. docs/studies/doublewrite.md shows what other figures give."
                .into(),
        );
    }
    if let Some(sentence) = difference(results, &options.drive) {
        notes.push(sentence);
    }
    notes.push(format!(
        "TPC-C with {} warehouses, all five transactions, keying and think times off, each connection over all warehouses: \
         good for comparing layouts on one machine, no TPC-C result. Consistency conditions 1 to 4 held after every run.",
        options.warehouses
    ));
    notes.push(
        "NAND bytes are host data, garbage collection and metadata programmed on behalf of the namespaces of the NAND set. \
         \"write_amplification_all\" divides them by host bytes to all namespaces, as published; \
         \"write_amplification_nand\" by host bytes to the NAND namespace alone, which shows what garbage collection does."
            .into(),
    );
    notes.push(
        "Published ratios of NAND bytes per new order and of write_amplification_nand are derived from published figures."
            .into(),
    );
    if let Some(run) = results.variant("atomic").and_then(|v| v.runs.last()) {
        let data = total_on_flash(&run.namespaces);
        let (whole, split) = (data.whole_writes, data.split_writes);
        notes.push(format!(
            "In the last run of `atomic` {whole} write commands lay within the drive's 16 KiB atomic unit and {split} did \
             not. Pages are always among the former; redo, binary log and XFS's own journal, which protect themselves with \
             checksums, may be among the latter."
        ));
    }
    notes
}

/// Why ours differs from the published result.
fn difference(results: &Results, profile: &str) -> Option<String> {
    let row = overall(results, "tpmC", "dram").filter(|row| row.is_meaningful())?;
    let dram = results.variant("dram")?.runs.last()?;
    let reads =
        typical(results, "nand", None, |run| run.metrics.get("host_read_MiBps").copied().unwrap_or(0.0))?;
    let writes =
        typical(results, "nand", None, |run| run.metrics.get("host_write_MiBps").copied().unwrap_or(0.0))?;
    let (low, high) = (THROUGHPUT[0], THROUGHPUT[4]);
    let (low, high) = (low.2 / low.1, high.2 / high.1);
    let verdict = if row.ratio > high {
        "above"
    } else if row.ratio < low {
        "below"
    } else {
        "within"
    };
    let share = doublewrite_share(dram, |n| n.counted.host_bytes_written);
    let scaled = if profile == DEFAULT_PROFILE {
        " The published gain grew from +13.8% with 4 connections to +35.5% with 64, over 64 dies; the scaled drive has the \
         bandwidth of one die, so that a few connections load it as dozens load the published one."
    } else {
        ""
    };
    Some(format!(
        "Ours is {verdict} the published range. The gain is the relief of the drive's bottleneck, so it grows with the load on \
         the flash.{scaled} Nothing can exceed {}, which is every byte of the doublewrite buffer ({}% of the written bytes here, \
         46.5% published) taken off flash that does nothing but write. Reads hold that down: the published drive served 733 \
         MiB/s of reads beside 540 MiB/s of writes, this one {} beside {}. And a restored, freshly loaded database is smaller \
         and hotter than 3 TB behind a buffer pool of 0.5%.",
        percent(1.0 / (1.0 - share / 100.0).max(0.01)),
        show(share),
        show(reads),
        show(writes),
    ))
}

fn headlines(results: &Results) -> Vec<Headline> {
    let of = if results.variant("dram").is_some() { "dram" } else { "off" };
    let labels = [
        ("tpmC", "New orders per minute"),
        ("nand_bytes_per_new_order", "NAND bytes per new order"),
        ("write_amplification_all", "Write amplification, all namespaces"),
        ("write_amplification_nand", "Write amplification, NAND alone"),
    ];
    labels
        .into_iter()
        .filter_map(|(metric, label)| {
            let row = overall(results, metric, of).filter(|row| row.is_meaningful())?;
            let published = row.published.as_ref().map(|p| format!(", published {}", percent(p.value)));
            Some(Headline {
                label: format!("{label}, {of} over {}", row.over),
                value: percent(row.ratio),
                detail: format!(
                    "{} to {}{}",
                    percent(row.low),
                    percent(row.high),
                    published.unwrap_or_default()
                ),
            })
        })
        .collect()
}

/// Bars of a figure by point, a colour for each variant.
fn by_variant(results: &Results, points: &[Point], f: impl Fn(&Run) -> Option<f64>) -> Vec<Data<Bar>> {
    let bar = |runs: &[Run], point: &Point| {
        let values: Vec<f64> = runs.iter().filter(|run| run.at == *point).filter_map(&f).collect();
        Bar::of(&values)
    };
    results
        .variants
        .iter()
        .map(|variant| Data {
            name: variant.name.clone(),
            colour: colour(&variant.name),
            dashed: false,
            values: points.iter().map(|point| bar(&variant.runs, point)).collect(),
        })
        .collect()
}

fn metric(name: &'static str, scale: f64) -> impl Fn(&Run) -> Option<f64> {
    move |run| Some(run.metrics.get(name)? * scale)
}

fn labels(title: &str, y: &str, x: &str) -> Labels {
    Labels { title: title.into(), y: y.into(), x: x.into(), log: false }
}

/// tpmC, its gain beside the published one, and bytes.
fn throughput(results: &Results) -> Section {
    let points = points(&results.variants);
    let names: Vec<String> = points.iter().map(|p| show_point(Some(p))).collect();
    let mut charts = vec![
        bars(
            &labels("Throughput", "new orders per minute", ""),
            &names,
            &by_variant(results, &points, metric("tpmC", 1.0)),
        ),
        bars(
            &labels("NAND bytes per new order", "KiB", ""),
            &names,
            &by_variant(results, &points, metric("nand_bytes_per_new_order", 1.0 / 1024.0)),
        ),
    ];
    charts.push(gain(results));
    charts.push(bars(
        &labels("Write amplification", "NAND bytes / host bytes", ""),
        &["all namespaces".to_owned(), "NAND namespace alone".to_owned()],
        &amplification(results),
    ));
    Section {
        heading: "Throughput and flash writes".into(),
        text: "Medians over the repetitions, with whiskers from the smallest to the largest.".into(),
        charts,
        table: Some(comparison_table(&essential_and_published(results))),
    }
}

fn amplification(results: &Results) -> Vec<Data<Bar>> {
    let spread = |runs: &[Run], name: &str| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.metrics.get(name).copied()).collect();
        Bar::of(&values)
    };
    let mut data: Vec<Data<Bar>> = results
        .variants
        .iter()
        .map(|variant| Data {
            name: variant.name.clone(),
            colour: colour(&variant.name),
            dashed: false,
            values: ["write_amplification_all", "write_amplification_nand"]
                .map(|name| spread(&variant.runs, name))
                .to_vec(),
        })
        .collect();
    let published = |name: &str, colour: &'static str, all: f64, nand: f64| Data {
        name: name.to_owned(),
        colour,
        dashed: false,
        values: vec![Some(Bar { value: all, spread: None }), Some(Bar { value: nand, spread: None })],
    };
    data.push(published("nand, published", "#fdba74", 2.478, 2.478));
    data.push(published("dram, published", "#93c5fd", 1.335, 2.50));
    data
}

/// Gain of each variant over the reference against the number of threads, with the published curve.
fn gain(results: &Results) -> String {
    let mut threads: Vec<u64> = THROUGHPUT.iter().map(|row| row.0).collect();
    threads.extend(points(&results.variants).iter().filter_map(|p| p.get("threads").copied()));
    threads.sort_unstable();
    threads.dedup();
    let mut data: Vec<Data<f64>> = Vec::new();
    for variant in &results.variants {
        let at = |threads: u64| {
            let rows = results.comparisons.iter().filter(|c| c.metric == "tpmC" && c.of == variant.name);
            let mut here =
                rows.filter(|c| c.at.as_ref().is_some_and(|at| at.get("threads") == Some(&threads)));
            here.next().filter(|c| c.is_meaningful()).map(|c| (c.ratio - 1.0) * 100.0)
        };
        let values: Vec<Option<f64>> = threads.iter().map(|&t| at(t)).collect();
        if values.iter().any(Option::is_some) {
            data.push(Data {
                name: variant.name.clone(),
                colour: colour(&variant.name),
                dashed: false,
                values,
            });
        }
    }
    data.push(Data {
        name: "dram, published".into(),
        colour: "#93c5fd",
        dashed: true,
        values: threads
            .iter()
            .map(|t| THROUGHPUT.iter().find(|row| row.0 == *t).map(|row| (row.2 / row.1 - 1.0) * 100.0))
            .collect(),
    });
    let names: Vec<String> = threads.iter().map(u64::to_string).collect();
    let over = results.comparisons.first().map_or("nand", |c| &c.over);
    lines(&labels(&format!("Gain in throughput over {over}"), "percent", "connections"), &names, &data, true)
}

/// Throughput over time of the first repetition at the last point.
fn timeline(results: &Results) -> Section {
    let point = points(&results.variants).pop().unwrap_or_default();
    let runs: Vec<(&str, &Run)> = results
        .variants
        .iter()
        .filter_map(|v| Some((v.name.as_str(), v.runs.iter().find(|run| run.at == point)?)))
        .collect();
    // The last second is a part of one.
    let longest = runs.iter().map(|(_, run)| run.per_second.len().saturating_sub(1)).max().unwrap_or(0);
    let step = (longest / 60).max(1);
    // A label for each second would be one black line.
    let label = |s: usize| if (s / step).is_multiple_of(5) { s.to_string() } else { String::new() };
    let seconds: Vec<String> = (0..longest).step_by(step).map(|s| label(s + step)).collect();
    let data: Vec<Data<f64>> = runs
        .iter()
        .map(|(name, run)| Data {
            name: (*name).to_owned(),
            colour: colour(name),
            dashed: false,
            #[expect(clippy::cast_precision_loss, reason = "for drawing")]
            values: run
                .per_second
                .split_last()
                .map_or(&[][..], |(_, whole)| whole)
                .chunks(step)
                .map(|chunk| Some(chunk.iter().sum::<u64>() as f64 * 60.0 / chunk.len() as f64))
                .collect(),
        })
        .collect();
    let warmup = runs.first().map_or(0.0, |(_, run)| run.warmup_seconds);
    Section {
        heading: "Over time".into(),
        text: format!(
            "New orders per minute in each second of the first repetition, {}. The first {} s are warm-up and not counted.",
            show_point(Some(&point)),
            show(warmup)
        ),
        charts: vec![lines(
            &labels("Throughput over time", "new orders per minute", "seconds"),
            &seconds,
            &data,
            false,
        )],
        table: None,
    }
}

const TRANSACTIONS: [&str; 6] = ["new_order", "payment", "order_status", "delivery", "stock_level", "commit"];

/// Latencies of transactions and of commit.
fn latency(results: &Results) -> Section {
    let all = points(&results.variants);
    let point = all.last().cloned().unwrap_or_default();
    let names: Vec<String> = TRANSACTIONS.iter().map(|name| name.replace('_', " ")).collect();
    let chart = |title: &str, pick: fn(&lab_report::results::Percentiles) -> f64| {
        let data: Vec<Data<Bar>> = results
            .variants
            .iter()
            .map(|variant| Data {
                name: variant.name.clone(),
                colour: colour(&variant.name),
                dashed: false,
                values: TRANSACTIONS
                    .iter()
                    .map(|name| {
                        typical(results, &variant.name, Some(&point), |run| {
                            run.latency_ms.get(*name).map_or(0.0, pick)
                        })
                        .map(|value| Bar { value, spread: None })
                    })
                    .collect(),
            })
            .collect();
        bars(&labels(title, "ms", ""), &names, &data)
    };
    let mut table = Table::new(["variant", "at", "transaction", "p50 ms", "p95 ms", "p99 ms"]);
    for variant in &results.variants {
        for at in points(std::slice::from_ref(variant)) {
            for name in TRANSACTIONS {
                let value = |pick: fn(&lab_report::results::Percentiles) -> f64| {
                    let found = typical(results, &variant.name, Some(&at), |run| {
                        run.latency_ms.get(name).map_or(0.0, pick)
                    });
                    show(found.unwrap_or(0.0))
                };
                table.rows.push(vec![
                    variant.name.clone(),
                    show_point(Some(&at)),
                    name.replace('_', " "),
                    value(|p| p.p50),
                    value(|p| p.p95),
                    value(|p| p.p99),
                ]);
            }
        }
    }
    Section {
        heading: "Latency of transactions".into(),
        text: format!("Medians over the repetitions; charts at {}.", show_point(Some(&point))),
        charts: vec![chart("Median latency", |p| p.p50), chart("99th percentile of latency", |p| p.p99)],
        table: Some(table),
    }
}

/// What the drive counted by namespace.
fn drive(results: &Results) -> Section {
    let point = points(&results.variants).pop().unwrap_or_default();
    let mut table = Table::new([
        "namespace",
        "medium",
        "read MiB/s",
        "read IOPS",
        "read KiB",
        "read mean ms",
        "p99 ms",
        "write MiB/s",
        "write IOPS",
        "write KiB",
        "write mean ms",
        "p99 ms",
        "flushes/s",
        "NAND MiB/s",
        "of it GC",
    ]);
    let mut writes = Vec::new();
    let mut reads = Vec::new();
    for variant in &results.variants {
        let Some(run) = variant.runs.iter().rfind(|run| run.at == point) else { continue };
        for n in &run.namespaces {
            table.rows.push(namespace_row(&variant.name, run, n));
            let name = format!("{} {}", variant.name, n.medium);
            let dashed = n.medium != "nand";
            let unused = n.counted.writes == 0 && n.counted.reads == 0;
            if !unused {
                let curve = |cdf: &[(f64, f64)]| Data {
                    name: name.clone(),
                    colour: colour(&variant.name),
                    dashed,
                    values: GRID.iter().map(|&ms| share_at(cdf, ms)).collect(),
                };
                writes.push(curve(&n.counted.write_latency.cumulative()));
                if n.medium == "nand" {
                    reads.push(curve(&n.counted.read_latency.cumulative()));
                }
            }
        }
    }
    let grid: Vec<String> = GRID.iter().map(|ms| show(*ms).trim_end_matches(".00").to_owned()).collect();
    let charts = if writes.is_empty() {
        Vec::new()
    } else {
        vec![
            lines(
                &labels("Latency of writes at the drive", "percent of commands", "ms or less"),
                &grid,
                &writes,
                false,
            ),
            lines(
                &labels("Latency of reads at the drive", "percent of commands", "ms or less"),
                &grid,
                &reads,
                false,
            ),
        ]
    };
    Section {
        heading: "What the drive saw".into(),
        text: format!(
            "Counters and histograms of the drive (log D8h) in the last run of each variant, {}. Latency is the drive's own, \
             from a command's arrival to its completion.",
            show_point(Some(&point))
        ),
        charts,
        table: Some(table),
    }
}

/// Milliseconds at which distributions are drawn, evenly spaced on a logarithmic scale.
const GRID: [f64; 22] = [
    0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0,
    200.0, 500.0, 1000.0,
];

fn share_at(cdf: &[(f64, f64)], ms: f64) -> Option<f64> {
    if cdf.is_empty() {
        return None;
    }
    Some(
        cdf.iter()
            .take_while(|(bound, _)| *bound <= ms * 1.0001)
            .last()
            .map_or(0.0, |(_, share)| share * 100.0),
    )
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn namespace_row(variant: &str, run: &Run, n: &NamespaceCounts) -> Vec<String> {
    let seconds = run.seconds.max(1e-9);
    let mib = |bytes: u64| show(bytes as f64 / 1_048_576.0 / seconds);
    let per_second = |count: u64| show(count as f64 / seconds);
    let mean = |bytes: u64, count: u64| {
        if count == 0 { "-".into() } else { show(bytes as f64 / count as f64 / 1024.0) }
    };
    let ms = |value: f64, count: u64| if count == 0 { "-".into() } else { show(value) };
    vec![
        format!("{variant}: {}", n.name),
        n.medium.clone(),
        mib(n.counted.host_bytes_read),
        per_second(n.counted.reads),
        mean(n.counted.host_bytes_read, n.counted.reads),
        ms(n.counted.read_latency.percentiles().mean, n.counted.reads),
        ms(n.counted.read_latency.percentiles().p99, n.counted.reads),
        mib(n.counted.host_bytes_written),
        per_second(n.counted.writes),
        mean(n.counted.host_bytes_written, n.counted.writes),
        ms(n.counted.write_latency.percentiles().mean, n.counted.writes),
        ms(n.counted.write_latency.percentiles().p99, n.counted.writes),
        per_second(n.counted.flushes),
        if n.medium == "nand" { mib(n.counted.media_bytes_written) } else { "-".into() },
        if n.counted.media_bytes_written == 0 {
            "-".into()
        } else {
            format!(
                "{}%",
                show(n.counted.media_bytes_written_gc as f64 * 100.0 / n.counted.media_bytes_written as f64)
            )
        },
    ]
}

/// How long the flash lasts.
fn lifetime(results: &Results) -> Option<Section> {
    let mut table =
        Table::new(["variant", "at", "NAND MiB/s", "years at this rate", "years at nand's throughput"]);
    let point = points(&results.variants).pop()?;
    let reference =
        typical(results, "nand", Some(&point), |run| run.metrics.get("tpmC").copied().unwrap_or(0.0));
    let mut any = false;
    for variant in &results.variants {
        let years = typical(results, &variant.name, Some(&point), |run| {
            run.metrics.get("lifetime_years").copied().unwrap_or(0.0)
        });
        let rate = typical(results, &variant.name, Some(&point), |run| {
            run.metrics.get("nand_write_MiBps").copied().unwrap_or(0.0)
        });
        let throughput = typical(results, &variant.name, Some(&point), |run| {
            run.metrics.get("tpmC").copied().unwrap_or(0.0)
        });
        let (Some(years), Some(rate), Some(throughput)) = (years, rate, throughput) else { continue };
        if years > 0.0 {
            any = true;
            let same_work = reference.map_or("-".into(), |r| show(years * throughput / r.max(1e-9)));
            table.rows.push(vec![
                variant.name.clone(),
                show_point(Some(&point)),
                show(rate),
                show(years),
                same_work,
            ]);
        }
    }
    any.then(|| Section {
        heading: "Life of the flash".into(),
        text: "Rated program/erase cycles of all blocks, over NAND bytes written per second, without pause. A scaled drive has \
               few bytes for its speed, so the years are short; their ratios hold for the full drive."
            .into(),
        charts: Vec::new(),
        table: Some(table),
    })
}

fn sections(results: &Results, first: Vec<Section>) -> Vec<Section> {
    let mut sections = first;
    sections.extend([throughput(results), timeline(results), latency(results), drive(results)]);
    sections.extend(lifetime(results));
    sections
}

/// Writes the page, with sections of the engine's own before the common ones.
pub(super) fn write(results: &Results, path: &Path, answer: String, first: Vec<Section>) -> Result<()> {
    Report {
        title: "The doublewrite buffer on a DRAM namespace".into(),
        question: "InnoDB writes every page twice, so that a power cut cannot tear it. What does it buy a database to have the \
                   first copy on a namespace of the same drive that is not flash?"
            .into(),
        answer,
        headlines: headlines(results),
        results,
        sections: sections(results, first),
    }
    .write(path)
}

/// The tables and the answer, for a terminal.
pub(super) fn text(results: &Results, page: &Path) -> String {
    let mut medians =
        Table::new(["variant", "at", "tpmC", "NAND per new order", "WA all", "WA nand", "CPU busy"]);
    for variant in &results.variants {
        for at in points(std::slice::from_ref(variant)) {
            let value = |name: &str| variant.median(name, &at).unwrap_or(f64::NAN);
            let busy = typical(results, &variant.name, Some(&at), |run| run.cpu.busy).unwrap_or(f64::NAN);
            medians.rows.push(vec![
                variant.name.clone(),
                show_point(Some(&at)),
                show(value("tpmC")),
                show_size(whole(value("nand_bytes_per_new_order"))),
                show(value("write_amplification_all")),
                show(value("write_amplification_nand")),
                format!("{}%", show(busy)),
            ]);
        }
    }
    let comparisons = comparison_table(&essential_and_published(results));
    let notes: String = results.notes.iter().map(|note| format!("- {note}\n")).collect();
    format!(
        "{}\n{}\n{}\n\n{}\n{notes}\nreport: {}",
        medians.text(),
        comparisons.text(),
        answer(results),
        cpu_table(results).text(),
        page.display()
    )
}

/// The rows that the terminal shows: points, and rows over all points that have a published figure of their own.
pub(super) fn essential_and_published(results: &Results) -> Vec<Comparison> {
    let mut rows = essential(&results.comparisons);
    for row in &mut rows {
        if row.published.is_none() {
            let overall = results
                .comparisons
                .iter()
                .find(|c| c.at.is_none() && c.metric == row.metric && c.of == row.of && c.over == row.over);
            row.published = overall.and_then(|c| c.published.clone()).filter(|_| row.metric != "tpmC");
        }
    }
    rows
}
