//! How well the live drive and the one in virtual time agree at the same scale.

use lab_report::{
    agree::{Figures, TOLERANCE, Verdict},
    figure::show,
    report::Table,
    results::{Comparison, Point, Results, compare},
};

/// What variants in virtual time are called beside live ones.
const SUFFIX: &str = "@sim";

/// What the drive itself says about the reads of NS1 (log D8h), in its own time, from a command's arrival on; percentiles to a
/// bucket of 12.5 %.
const DRIVE_METRICS: [&str; 3] = ["ns1_drive_mean_ms", "ns1_drive_p50_ms", "ns1_drive_p99_ms"];

/// Of the latencies that the host sees, those of one read in a thousand are a handful.
const FIGURES: Figures<'_> = Figures {
    own: &DRIVE_METRICS,
    in_buckets: &[DRIVE_METRICS[1], DRIVE_METRICS[2]],
    rare: &["ns1_p999_ms"],
};

/// Figures that are compared.
const METRICS: [&str; 9] = [
    "read_MBps",
    "ns1_iops",
    "ns1_p50_ms",
    "ns1_p99_ms",
    "ns1_p999_ms",
    "ns2_MBps",
    DRIVE_METRICS[0],
    DRIVE_METRICS[1],
    DRIVE_METRICS[2],
];

/// Adds the variants in virtual time to the live results, and compares.
pub(super) fn add(live: &mut Results, sim: Results) {
    let mut rows = Vec::new();
    for mut variant in sim.variants {
        let Some(of) = live.variant(&variant.name) else { continue };
        variant.name.push_str(SUFFIX);
        variant.description.push_str(" In virtual time.");
        for metric in METRICS {
            rows.extend(compare(metric, of, &variant, |_| None));
        }
        live.variants.push(variant);
    }
    live.comparisons.extend(rows);
    live.notes.push(verdict(live));
}

/// The rows that compare a live point with the same in virtual time.
fn rows(results: &Results) -> impl Iterator<Item = &Comparison> {
    results.comparisons.iter().filter(|row| row.over.ends_with(SUFFIX) && row.at.is_some())
}

/// Whether there is anything to tell.
pub(super) fn any(results: &Results) -> bool {
    rows(results).next().is_some()
}

/// How often a metric agrees, and how far off it is.
pub(super) fn table(results: &Results) -> Table {
    let mut table =
        Table::new(["live over virtual time", "points", "within 10%", "median", "lowest", "highest"]);
    for metric in METRICS {
        let mut ratios: Vec<f64> = rows(results).filter(|r| r.metric == metric).map(|r| r.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (ratios.first(), ratios.last()) else { continue };
        let within = ratios.iter().filter(|r| (**r - 1.0).abs() <= TOLERANCE).count();
        let middle = lab_report::results::median(&ratios).unwrap_or(f64::NAN);
        table.rows.push(vec![
            metric.to_owned(),
            ratios.len().to_string(),
            within.to_string(),
            format!("{middle:.3}"),
            format!("{low:.3}"),
            format!("{high:.3}"),
        ]);
    }
    table
}

/// The points of part 2, live: variant, point, what it says, and its rows.
fn by_point(results: &Results) -> Vec<(&str, &Point, Verdict, Vec<&Comparison>)> {
    let mut points: Vec<(&str, &Point)> = Vec::new();
    for row in rows(results).filter(|row| row.metric == "ns1_iops") {
        points.extend(row.at.as_ref().map(|at| (row.of.as_str(), at)));
    }
    let of = |(name, at)| {
        let all: Vec<&Comparison> =
            rows(results).filter(|row| row.of == name && row.at.as_ref() == Some(at)).collect();
        (name, at, Verdict::of(&all, &FIGURES), all)
    };
    points.into_iter().map(of).collect()
}

/// Point by point: ratios and what they say.
pub(super) fn points_table(results: &Results, title: impl Fn(&Point) -> String) -> Table {
    const SHOWN_METRICS: [&str; 6] =
        ["ns2_MBps", DRIVE_METRICS[0], DRIVE_METRICS[1], DRIVE_METRICS[2], "ns1_p50_ms", "ns1_p99_ms"];
    let mut table = Table::new([
        "help",
        "neighbour NS2",
        "NS2 MB/s",
        "drive's mean",
        "drive's p50",
        "drive's p99",
        "host's p50",
        "host's p99",
        "verdict",
    ]);
    for (name, at, verdict, rows) in by_point(results) {
        let ratio = |metric: &&str| {
            let row = rows.iter().find(|row| row.metric == **metric);
            row.map_or("-".to_owned(), |row| format!("{:.3}", row.ratio))
        };
        let mut cells = vec![name.to_owned(), title(at)];
        cells.extend(SHOWN_METRICS.iter().map(ratio));
        cells.push(verdict.name().to_owned());
        table.rows.push(cells);
    }
    table
}

/// In a sentence or two.
fn verdict(results: &Results) -> String {
    let share = |of: &dyn Fn(&Comparison) -> bool| {
        let all: Vec<&Comparison> = rows(results).filter(|row| of(row)).collect();
        let within = all.iter().filter(|row| (row.ratio - 1.0).abs() <= TOLERANCE).count();
        (within, all.len())
    };
    let (rates, all_rates) = share(&|row| !row.metric.ends_with("_ms"));
    let (own, all_own) = share(&|row| DRIVE_METRICS.contains(&row.metric.as_str()));
    let (times, all_times) =
        share(&|row| row.metric.ends_with("_ms") && !DRIVE_METRICS.contains(&row.metric.as_str()));
    let bound = rows(results).filter(|row| row.host_bound).count();
    let mut text = format!(
        "Live and virtual time at the same scale: {rates} of {all_rates} rates, {own} of {all_own} latencies in the drive's own time \
         (log D8h) and {times} of {all_times} percentiles as the host sees them agree within 10%."
    );
    let points = by_point(results);
    let of = |verdict| points.iter().filter(|(_, _, v, _)| *v == verdict).count();
    if !points.is_empty() {
        text.push_str(&format!(
            " Of {} points of part 2, {} agree altogether, {} in all but what this machine added, {} do not.",
            points.len(),
            of(Verdict::Agrees),
            of(Verdict::Machine),
            of(Verdict::Differs)
        ));
    }
    let idle = |metric| idle_difference(results, metric).map(|added| show(added * 1e3));
    if let (Some(seen), Some(own)) = (idle("ns1_p50_ms"), idle(DRIVE_METRICS[0])) {
        text.push_str(&format!(
            " With an idle neighbour the host sees a median of NS1 that is {seen} µs longer live; in the drive's own time the mean is \
             {own} µs longer. What lies between is outside of the drive's time: commands and completions that wait for threads of \
             this machine."
        ));
    }
    if bound > 0 {
        text.push_str(&format!(
            " In {bound} comparisons the host's processors were the bottleneck; those say nothing about the drive."
        ));
    }
    text
}

/// Milliseconds that reads take longer live where nothing disturbs them.
fn idle_difference(results: &Results, metric: &str) -> Option<f64> {
    let idle = super::Noise::Idle.point();
    let live = results.variant("none")?.median(metric, &idle)?;
    let sim = results.variant(&format!("none{SUFFIX}"))?.median(metric, &idle)?;
    Some(live - sim)
}
