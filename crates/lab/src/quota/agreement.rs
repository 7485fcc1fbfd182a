//! How well the live drive and the one in virtual time agree at the same scale.

use crate::{
    report::Table,
    results::{Comparison, Results, compare},
    units::show,
};

/// What variants in virtual time are called beside live ones.
const SUFFIX: &str = "@sim";

/// Figures that should agree within this.
pub(super) const WITHIN: f64 = 0.10;

/// Figures that are compared.
const METRICS: [&str; 6] = ["read_MBps", "ns1_iops", "ns1_p50_ms", "ns1_p99_ms", "ns1_p999_ms", "ns2_MBps"];

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
        let within = ratios.iter().filter(|r| (**r - 1.0).abs() <= WITHIN).count();
        let middle = crate::results::median(&ratios).unwrap_or(f64::NAN);
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

/// In a sentence or two.
fn verdict(results: &Results) -> String {
    let share = |of: &dyn Fn(&Comparison) -> bool| {
        let all: Vec<&Comparison> = rows(results).filter(|row| of(row)).collect();
        let within = all.iter().filter(|row| (row.ratio - 1.0).abs() <= WITHIN).count();
        (within, all.len())
    };
    let (rates, all_rates) = share(&|row| !row.metric.ends_with("_ms"));
    let (times, all_times) = share(&|row| row.metric.ends_with("_ms"));
    let bound = rows(results).filter(|row| row.host_bound).count();
    let mut text = format!(
        "Live and virtual time at the same scale: {rates} of {all_rates} rates and {times} of {all_times} percentiles of latency agree \
         within 10%."
    );
    if let Some(added) = idle_difference(results) {
        text.push_str(&format!(
            " With an idle neighbour the median of NS1 is {} µs longer live: what this machine takes to wake the drive's thread and \
             the load's, which virtual time does not have.",
            show(added * 1e3)
        ));
    }
    if bound > 0 {
        text.push_str(&format!(
            " In {bound} comparisons the host's processors were the bottleneck; those say nothing about the drive."
        ));
    }
    text
}

/// Milliseconds that the median read takes longer live where nothing disturbs it.
fn idle_difference(results: &Results) -> Option<f64> {
    let idle = super::Noise::Idle.point();
    let live = results.variant("none")?.median("ns1_p50_ms", &idle)?;
    let sim = results.variant(&format!("none{SUFFIX}"))?.median("ns1_p50_ms", &idle)?;
    Some(live - sim)
}
