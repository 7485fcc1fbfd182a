//! What the study says: tables for the terminal, the page with its plots.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use clap::ValueEnum;

use super::{
    EngineResult, Options, Variant, agreement, mega,
    neighbour::Noise,
    scale::{LAB_DIVISOR, NoiseKind, PUBLISHED_RATES, Scale},
    tenants::{self, Tenants},
};
use lab_engines::stage::INTERVAL;
use lab_report::{
    figure::{show, show_some},
    report::{
        Headline, MetricRow, MetricTable, Report, Section, Table,
        charts::{Data, Labels, lines},
    },
    results::{Point, Results, Run, points},
};

/// A run in a line.
pub(super) fn summary(run: &Run) -> String {
    let value = |name: &str| run.metrics.get(name).copied();
    let mut text = format!(
        "NS1 p50 {} ms, p99 {} ms, p99.9 {} ms",
        show(value("ns1_p50_ms").unwrap_or(f64::NAN)),
        show(value("ns1_p99_ms").unwrap_or(f64::NAN)),
        show(value("ns1_p999_ms").unwrap_or(f64::NAN))
    );
    if let Some(bandwidth) = value("ns2_MBps") {
        text.push_str(&format!("; NS2 {} MB/s", show(bandwidth)));
    }
    text
}

/// The load of NS2 at a point, for reading.
fn title(at: &Point) -> String {
    let Some((axis, depth)) = at.iter().next() else { return "-".into() };
    let kind = NoiseKind::ALL.into_iter().find(|kind| kind.axis() == axis);
    match (kind, u32::try_from(*depth)) {
        (Some(_), Ok(0)) => Noise::Idle.title(),
        (Some(kind), Ok(depth)) => Noise::Busy(kind, depth).title(),
        _ => axis.clone(),
    }
}

/// The variants of part 2 that have run.
fn variants(results: &Results) -> Vec<(Variant, &lab_report::results::Variant)> {
    Variant::value_variants()
        .iter()
        .filter_map(|v| Some((*v, results.variant(v.name())?)))
        .filter(|(_, v)| !v.runs.is_empty())
        .collect()
}

/// Points of part 2: idle first, then by kind and depth.
fn sorted_points(results: &Results) -> Vec<Point> {
    let order = |at: &Point| {
        let (axis, depth) = at.iter().next().map_or(("", 0), |(axis, depth)| (axis.as_str(), *depth));
        let kind = NoiseKind::ALL.iter().position(|kind| kind.axis() == axis);
        (depth != 0, kind, depth)
    };
    let all: Vec<_> = variants(results).into_iter().map(|(_, v)| v.clone()).collect();
    let mut points = points(&all);
    points.sort_by_key(order);
    points
}

fn part1_table(results: &Results) -> Table {
    let mut table =
        Table::new(["namespace", "published MB/s", "set MB/s", "read MB/s", "read / set", "spread"]);
    for index in 0..tenants::COUNT {
        let name = format!("ns{}", index + 1);
        let row = results.comparisons.iter().find(|c| c.of == name && c.over == "set");
        let (Some(row), Some(variant)) = (row, results.variant(&name)) else { continue };
        let value = |metric: &str| variant.median(metric, &Point::new()).unwrap_or(f64::NAN);
        table.rows.push(vec![
            name,
            show(mega(PUBLISHED_RATES[index / (tenants::COUNT / 2)])),
            show(value("set_MBps")),
            show(value("read_MBps")),
            format!("{:.4}", row.ratio),
            format!("{:.4} .. {:.4}", row.low, row.high),
        ]);
    }
    table
}

fn part2_table(results: &Results) -> Table {
    let of_ns2 = |row: &MetricRow| {
        let runs = results.variant(&row.variant).map_or(&[][..], |variant| &variant.runs);
        let latency = runs.iter().rfind(|run| run.at == row.at).and_then(|run| run.latency_ms.get("ns2"));
        latency.map_or("-".into(), |latency| show(latency.p99))
    };
    let at_point = |at: Point| {
        let row = move |(kind, _): (Variant, _)| MetricRow {
            labels: vec![title(&at), kind.name().into()],
            at: at.clone(),
            ..MetricRow::of(kind.name())
        };
        variants(results).into_iter().map(row)
    };
    MetricTable::new(results, ["neighbour NS2", "help"])
        .metrics([
            ("NS1 p50 ms", "ns1_p50_ms"),
            ("p99 ms", "ns1_p99_ms"),
            ("p99.9 ms", "ns1_p999_ms"),
            ("NS1 IOPS", "ns1_iops"),
            ("NS2 MB/s", "ns2_MBps"),
        ])
        .column("NS2 p99 ms", of_ns2)
        .rows(sorted_points(results).into_iter().flat_map(at_point))
}

/// NS1 inside and outside of deterministic windows; no rows if there were none.
fn windows_table(results: &Results) -> Table {
    let (windows, none) = (Variant::Windows.name(), Variant::None.name());
    let share = |at: &Point| results.median(windows, "ns1_dtwin_share", at);
    let rows = sorted_points(results).into_iter().filter(|at| share(at).is_some());
    MetricTable::new(results, ["neighbour NS2"])
        .column("without help p99 ms", |row| show_some(results.median(none, "ns1_p99_ms", &row.at)))
        .metrics([
            ("in DTWIN p50 ms", "ns1_dtwin_p50_ms"),
            ("p99 ms", "ns1_dtwin_p99_ms"),
            ("p99.9 ms", "ns1_dtwin_p999_ms"),
            ("else p99 ms", "ns1_ndwin_p99_ms"),
            ("all p99 ms", "ns1_p99_ms"),
        ])
        .column("reads in DTWIN", |row| {
            share(&row.at).map_or("-".into(), |share| format!("{:.0}%", share * 100.0))
        })
        .metrics([("ended by the drive", "dtwin_cut_short")])
        .rows(rows.map(|at| MetricRow { labels: vec![title(&at)], at, ..MetricRow::of(windows) }))
}

/// The worst 99th percentile of a variant, and where.
fn worst(variant: &lab_report::results::Variant, results: &Results) -> Option<(f64, Point)> {
    sorted_points(results)
        .into_iter()
        .filter_map(|at| Some((variant.median("ns1_p99_ms", &at)?, at)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The answer, in some sentences.
fn answer(results: &Results) -> String {
    let mut text = String::new();
    let off = results.comparisons.iter().filter(|c| c.over == "set").map(|c| (c.ratio - 1.0).abs());
    if let Some(off) = off.max_by(f64::total_cmp) {
        text.push_str(&format!(
            "Each of the eight namespaces reads what its quota says, within {:.2}%. ",
            off * 100.0
        ));
    }
    let all = variants(results);
    let none = all.iter().find(|(v, _)| *v == Variant::None).map(|(_, v)| *v);
    if let Some((p99, at)) = none.and_then(|none| worst(none, results)) {
        let idle = none.and_then(|v| v.median("ns1_p99_ms", &Noise::Idle.point()));
        text.push_str(&format!("Without help a neighbour ({}) raises NS1's p99 ", title(&at)));
        if let Some(idle) = idle {
            text.push_str(&format!("from {} ", show(idle)));
        }
        text.push_str(&format!("to {} ms", show(p99)));
        let others: Vec<String> = all
            .iter()
            .filter(|(v, _)| *v != Variant::None)
            .filter_map(|(v, variant)| {
                let p99 = variant.median("ns1_p99_ms", &at)?;
                let bandwidth = variant.median("ns2_MBps", &at).unwrap_or(0.0);
                Some(format!("{} {} ms (NS2 {} MB/s)", v.name(), show(p99), show(bandwidth)))
            })
            .collect();
        let own = none.and_then(|v| v.median("ns2_MBps", &at)).unwrap_or(0.0);
        text.push_str(&format!(" while it moves {} MB/s", show(own)));
        if !others.is_empty() {
            text.push_str(&format!("; at the same point: {}", others.join(", ")));
        }
        text.push('.');
    }
    text
}

/// Plain sentences for the reader.
pub(super) fn notes(
    results: &Results,
    scale: &Scale,
    tenants: Option<&Tenants>,
    unavailable: &[(Variant, String)],
    options: &Options,
) -> Vec<String> {
    let mut notes = Vec::new();
    if results.engine == "live" {
        notes.push(format!(
            "The live drive is {} in this process: rates of part 1 are the published ones divided by {LAB_DIVISOR}, those of part 2 by \
             the number of dies. In part 2 a second of the drive took {} on the wall's clock; all figures are in the drive's time.",
            scale.profile, options.slow_motion
        ));
        if results.host_was_bottleneck() {
            notes.push(results.host_verdict());
        }
    } else {
        notes.push(format!(
            "Published: 391 MB/s on NS1-4 and 39 MB/s on NS5-8, without saying whether that was set or measured; here it is what was set \
             on the drive {}.",
            scale.profile
        ));
    }
    match tenants {
        Some(Tenants { settled: Some(settled), .. }) => notes.push(format!(
            "All eight were within 5% of their quotas {settled:.2} s after these were set (in averages of 0.2 s)."
        )),
        Some(_) => notes.push("Not all of the eight came to stay within 5% of their quotas.".into()),
        None => {}
    }
    notes.push(format!(
        "NS1 reads {} times a second whatever happens; its latency counts from when a read was due, so that reads that could not be \
         submitted in time are not left out.",
        show(scale_iops(scale))
    ));
    notes.push("What NS2 did in the published plot is not told, so that no figure of part 2 stands beside a published one.".into());
    for (variant, why) in unavailable {
        notes.push(format!("{variant}: not available on this drive: {why}"));
    }
    notes
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn scale_iops(scale: &Scale) -> f64 {
    scale.iops as f64
}

/// Throughput over time.
#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn part1(found: &EngineResult) -> Section {
    const COLOURS: [&str; tenants::COUNT] =
        ["#1e3a8a", "#2563eb", "#60a5fa", "#93c5fd", "#7c2d12", "#c2410c", "#f97316", "#fdba74"];
    let mut charts = Vec::new();
    if let Some(tenants) = &found.tenants {
        // Two intervals to a point.
        let mean = |pair: &[f64]| pair.iter().sum::<f64>() / pair.len() as f64;
        let points = tenants.over_time.first().map_or(0, |rates| rates.len().div_ceil(2));
        let grid: Vec<String> =
            (0..points).map(|n| format!("{:.1}", (n * 2) as f64 * INTERVAL as f64 / 1e9)).collect();
        let data: Vec<Data<f64>> = tenants
            .over_time
            .iter()
            .zip(COLOURS)
            .enumerate()
            .map(|(index, (rates, colour))| Data {
                name: format!("ns{}", index + 1),
                colour,
                dashed: false,
                values: rates.chunks(2).map(|pair| Some(mean(pair))).collect(),
            })
            .collect();
        let labels = Labels {
            title: format!("Sequential reads of eight namespaces; quotas from second {} on", tenants.lead),
            y: "MB/s".into(),
            x: "seconds".into(),
            log: false,
        };
        charts.push(lines(&labels, &grid, &data, false));
    }
    Section {
        heading: "Eight namespaces with quotas".into(),
        text: "128 KiB sequential reads, queue depth 16, on each of eight namespaces of the same size. They share the drive until \
               the quotas are set while they read; the figures are means over the second half of the time after that."
            .into(),
        charts,
        table: Some(part1_table(&found.results)),
    }
}

/// Latency against the neighbour's load.
fn part2(results: &Results) -> Section {
    let mut charts = Vec::new();
    for (metric, what, log) in [("ns1_p99_ms", "p99 of NS1", true), ("ns2_MBps", "What NS2 moves", false)] {
        for kind in NoiseKind::ALL {
            let mut at: Vec<Point> = sorted_points(results);
            at.retain(|p| p.contains_key(kind.axis()) || p.values().all(|depth| *depth == 0));
            if metric != "ns1_p99_ms" {
                at.retain(|p| p.values().any(|depth| *depth > 0));
            }
            if at.is_empty() {
                continue;
            }
            let grid: Vec<String> =
                at.iter().map(|p| p.values().next().map_or("0".into(), u64::to_string)).collect();
            let data: Vec<Data<f64>> = variants(results)
                .into_iter()
                .map(|(variant, runs)| Data {
                    name: variant.name().into(),
                    colour: variant.colour(),
                    dashed: false,
                    values: at.iter().map(|p| runs.median(metric, p)).collect(),
                })
                .collect();
            let labels = Labels {
                title: format!("{what}: {}", kind.title()),
                y: if log { "ms".into() } else { "MB/s".into() },
                x: "queue depth of NS2".into(),
                log,
            };
            charts.push(lines(&labels, &grid, &data, true));
        }
    }
    Section {
        heading: "The noisy neighbour".into(),
        text: "NS1 reads 4 KiB at random at a fixed rate while the load of NS2 grows. Medians over the repetitions.".into(),
        charts,
        table: Some(part2_table(results)),
    }
}

fn sections(found: &EngineResult) -> Vec<Section> {
    let results = &found.results;
    let mut sections = vec![part1(found), part2(results)];
    let windows = windows_table(results);
    if !windows.rows.is_empty() {
        sections.push(Section {
            heading: "Inside and outside of deterministic windows".into(),
            text: "Reads of NS1 that were due and completed within one deterministic window (DTWIN) of the variant `windows`, the others, and \
                   all of them. NS2 does not care about windows and uses up what was collected ahead for them; the drive then ends \
                   the window."
                .into(),
            table: Some(windows),
            ..Section::default()
        });
    }
    let mut help = Table::new(["help", "what it is"]);
    for (variant, _) in variants(results) {
        help.rows.push(vec![variant.name().into(), variant.description().into()]);
    }
    for (variant, why) in &found.unavailable {
        help.rows.push(vec![variant.name().into(), format!("Not available: {why}")]);
    }
    sections.push(Section { heading: "What helps".into(), table: Some(help), ..Section::default() });
    if agreement::any(results) {
        sections.push(Section {
            heading: "Live and in virtual time".into(),
            text: "The same drive at the same scale with the same jobs, under the wall's clock and under a virtual one: how many points \
                   agree, by figure."
                .into(),
            table: Some(agreement::table(results)),
            ..Section::default()
        });
        sections.push(Section {
            heading: "Live over virtual time, point by point".into(),
            text: "The drive's figures are its own (log D8h, from a command's arrival on), the host's include what threads of this \
                   machine wait for. A point agrees if all are within 10% (of the drive's percentiles: in neighbouring buckets); it says \
                   \"this machine\" if only what the host sees is off, or if the processors were the bottleneck."
                .into(),
            table: Some(agreement::points_table(results, title)),
            ..Section::default()
        });
    }
    sections
}

fn headlines(results: &Results) -> Vec<Headline> {
    let idle = Noise::Idle.point();
    let mut all = Vec::new();
    let mut of = BTreeMap::new();
    for (variant, runs) in variants(results) {
        if let Some((p99, at)) = worst(runs, results) {
            of.insert(variant, (p99, at));
        }
    }
    for (variant, (p99, at)) in of {
        let quiet = results.variant(variant.name()).and_then(|v| v.median("ns1_p99_ms", &idle));
        all.push(Headline {
            label: format!("Worst p99 of NS1: {variant}"),
            value: format!("{} ms", show(p99)),
            detail: format!("{}; {} ms when idle", title(&at), quiet.map_or("-".into(), show)),
        });
    }
    all
}

/// Writes the page.
pub(super) fn write(found: &EngineResult, path: &Path) -> Result<()> {
    Report {
        title: "Quotas, and the noisy neighbour".into(),
        question: "Two applications on one drive: the greedy one gets more service, the other suffers long latency. What do quotas and \
                   other kinds of isolation do for it?"
            .into(),
        answer: answer(&found.results),
        headlines: headlines(&found.results),
        results: &found.results,
        sections: sections(found),
    }
    .write(path)
}

/// The tables and the answer, for a terminal.
pub(super) fn text(found: &EngineResult, page: &Path) -> String {
    let results = &found.results;
    let engine = if results.engine == "sim" { "In virtual time" } else { "Live" };
    let agreement = if agreement::any(results) {
        format!("{}\n", agreement::table(results).text())
    } else {
        String::new()
    };
    let windows = windows_table(results);
    let windows = if windows.rows.is_empty() { String::new() } else { format!("{}\n", windows.text()) };
    let notes: String = results.notes.iter().map(|note| format!("- {note}\n")).collect();
    format!(
        "{engine}:\n\n{}\n{}\n{windows}{agreement}{}\n\n{notes}\nreport: {}",
        part1_table(results).text(),
        part2_table(results).text(),
        answer(results),
        page.display()
    )
}
