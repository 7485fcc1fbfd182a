//! Results in the layout of fio's `--output-format=json`.

use std::time::{SystemTime, UNIX_EPOCH};

use load_formats::fio::{CLASSES, Jobs, Latency, NamedOption, Options, Series, Traffic};
use serde_json::{Map, Value, json};

use super::{
    figures::Figures,
    reported::{Reported, per_second},
    text,
};

/// The whole document.
pub(crate) fn document(jobs: &Jobs, reported: &[Reported<'_>], began: SystemTime) -> Value {
    let since = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "fio version": concat!("tranche-", env!("CARGO_PKG_VERSION")),
        "timestamp": since.as_secs(),
        "timestamp_ms": u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        "time": text::date(began),
        "global options": options(&jobs.global),
        "jobs": reported.iter().map(job).collect::<Vec<_>>(),
        "disk_util": [],
    })
}

fn options(given: &[NamedOption]) -> Value {
    given.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>().into()
}

fn job(reported: &Reported<'_>) -> Value {
    let Reported { spec, stats, error, elapsed, .. } = reported;
    let usage = reported.usage.unwrap_or_default();
    let seconds = elapsed.as_secs_f64();
    let percent = |used: f64| round(if seconds > 0.0 { (used * 100.0 / seconds).min(100.0) } else { 0.0 });
    let total = stats.issued.iter().sum::<u64>();
    let whole = stats.runtime.div_ceil(1_000_000_000);
    let mut job = json!({
        "jobname": spec.name,
        "groupid": spec.group,
        "error": error,
        "eta": 0,
        "elapsed": whole,
        "job options": options(&spec.own),
        "read": traffic(&stats.traffic[0], &spec.options),
        "write": traffic(&stats.traffic[1], &spec.options),
        "trim": traffic(&stats.traffic[2], &spec.options),
        "sync": { "total_ios": stats.sync.series.count, "lat_ns": latency(&stats.sync, &spec.options) },
        "job_runtime": stats.runtime / 1_000_000,
        "usr_cpu": percent(usage.user),
        "sys_cpu": percent(usage.system),
        "ctx": usage.context_switches,
        "majf": usage.major_faults,
        "minf": usage.minor_faults,
        "iodepth_level": classes(&stats.depth, &["1", "2", "4", "8", "16", "32", ">=64"], total),
        "iodepth_submit": classes(&stats.submit, &BATCHES, stats.submit.iter().sum()),
        "iodepth_complete": classes(&stats.complete, &BATCHES, stats.complete.iter().sum()),
        "latency_depth": spec.options.iodepth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    let buckets = text::buckets(stats);
    if let Some(job) = job.as_object_mut() {
        if spec.options.zones.zoned {
            job.insert("zone_resets".to_owned(), json!(stats.zone_resets));
        }
        for (unit, buckets) in ["latency_ns", "latency_us", "latency_ms"].into_iter().zip(buckets) {
            let map: Map<_, _> =
                buckets.into_iter().map(|(name, percent)| (name, json!(round(percent)))).collect();
            job.insert(unit.to_owned(), map.into());
        }
    }
    job
}

const BATCHES: [&str; CLASSES] = ["0", "4", "8", "16", "32", "64", ">=64"];

fn classes(counts: &[u64; CLASSES], names: &[&str; CLASSES], total: u64) -> Value {
    let share = |count: u64| json!(round(text::percent(count, total)));
    names
        .iter()
        .zip(counts)
        .map(|(name, count)| ((*name).to_owned(), share(*count)))
        .collect::<Map<_, _>>()
        .into()
}

fn traffic(traffic: &Traffic, options: &Options) -> Value {
    let rate_of = |count: u64| per_second(count, traffic.runtime);
    let bandwidth = Figures::of(&traffic.bandwidth);
    let rate = Figures::of(&traffic.rate);
    json!({
        "io_bytes": traffic.bytes,
        "io_kbytes": traffic.bytes / 1024,
        "bw_bytes": rate_of(traffic.bytes) as u64,
        "bw": rate_of(traffic.bytes / 1024) as u64,
        "iops": round(rate_of(traffic.ios)),
        "runtime": traffic.runtime / 1_000_000,
        "total_ios": traffic.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": series(&traffic.submission),
        "clat_ns": latency(&traffic.completion, options),
        "lat_ns": series(&traffic.total),
        "bw_min": bandwidth.min,
        "bw_max": bandwidth.max,
        "bw_agg": if bandwidth.count > 0 { 100.0 } else { 0.0 },
        "bw_mean": round(bandwidth.mean),
        "bw_dev": round(bandwidth.deviation),
        "bw_samples": bandwidth.count,
        "iops_min": rate.min,
        "iops_max": rate.max,
        "iops_mean": round(rate.mean),
        "iops_stddev": round(rate.deviation),
        "iops_samples": rate.count,
    })
}

fn series(of: &Series) -> Value {
    let figures = Figures::of(of);
    json!({
        "min": figures.min,
        "max": figures.max,
        "mean": round(figures.mean),
        "stddev": round(figures.deviation),
        "N": figures.count,
    })
}

fn latency(of: &Latency, options: &Options) -> Value {
    let mut value = series(&of.series);
    if of.series.count > 0
        && let Some(object) = value.as_object_mut()
    {
        let points = options.percentiles.iter().map(|millionths| {
            let name = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
            (name, json!(text::quantile(of, *millionths)))
        });
        object.insert("percentile".to_owned(), points.collect::<Map<_, _>>().into());
    }
    value
}

/// Six digits, as fio prints them.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let series = Series { count: 4, sum: 20, squares: 120, min: 2, max: 8 };
        let figures = Figures::of(&series);
        assert_eq!(figures.mean, 5.0);
        assert!((figures.deviation - 2.581_988).abs() < 1e-6);
    }
}
