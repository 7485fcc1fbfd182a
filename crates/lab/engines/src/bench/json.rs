//! Results in the layout of fio's `--output-format=json`.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use load_formats::fio::{CLASSES, Jobs, Latency, NamedOption, Options, Series, Traffic};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    figures::Figures,
    reported::{Reported, per_second},
    text,
};

/// Numbers by name: of classes, percentiles or options.
type Named<T> = BTreeMap<String, T>;

/// A fio job file: fio's document (`fio --output-format=json`).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FioDocument {
    /// tranche- and the version of this program.
    #[serde(rename = "fio version")]
    version: &'static str,
    /// When it began, since 1970.
    #[schemars(extend("unit" = "s"))]
    timestamp: u64,
    /// The same.
    #[schemars(extend("unit" = "ms"))]
    timestamp_ms: u64,
    /// The same, for people.
    time: String,
    /// Options of the section [global].
    #[serde(rename = "global options")]
    global_options: Named<String>,
    /// The jobs.
    jobs: Vec<FioJob>,
    /// Always empty.
    disk_util: [u8; 0],
}

/// A job, or a group of jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FioJob {
    /// Its name.
    jobname: String,
    /// Number of its group, from 0.
    groupid: u32,
    /// 0, or the error number of the first failure.
    #[schemars(range(min = 0))]
    error: i32,
    /// Always 0.
    eta: u64,
    /// How long it ran, rounded up.
    #[schemars(extend("unit" = "s"))]
    elapsed: u64,
    /// Its own options.
    #[serde(rename = "job options")]
    options: Named<String>,
    /// Reads.
    read: FioTraffic,
    /// Writes.
    write: FioTraffic,
    /// Trims.
    trim: FioTraffic,
    /// Flushes.
    sync: FioFlushes,
    /// How long its threads ran.
    #[schemars(extend("unit" = "ms"))]
    job_runtime: u64,
    /// Processor time in user mode.
    #[schemars(extend("unit" = "%"))]
    usr_cpu: f64,
    /// Processor time in the kernel.
    #[schemars(extend("unit" = "%"))]
    sys_cpu: f64,
    /// Context switches.
    ctx: u64,
    /// Major page faults.
    majf: u64,
    /// Minor page faults.
    minf: u64,
    /// Share of I/Os by the number in flight.
    #[schemars(extend("unit" = "%"))]
    iodepth_level: Named<f64>,
    /// Share of submissions by their size.
    #[schemars(extend("unit" = "%"))]
    iodepth_submit: Named<f64>,
    /// Share of completions by their number at a time.
    #[schemars(extend("unit" = "%"))]
    iodepth_complete: Named<f64>,
    /// Queue depth.
    latency_depth: u32,
    /// Always 0.
    latency_target: u64,
    /// Always 100.
    #[schemars(extend("unit" = "%"))]
    latency_percentile: f64,
    /// Always 0.
    latency_window: u64,
    /// Zones that were reset so that they could be written again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "without `zonemode=zbd`"))]
    zone_resets: Option<u64>,
    /// Share of I/Os below this many nanoseconds.
    #[schemars(extend("unit" = "%"))]
    latency_ns: Named<f64>,
    /// Share of I/Os below this many microseconds.
    #[schemars(extend("unit" = "%"))]
    latency_us: Named<f64>,
    /// Share of I/Os below this many milliseconds.
    #[schemars(extend("unit" = "%"))]
    latency_ms: Named<f64>,
}

/// Flushes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FioFlushes {
    /// How many.
    total_ios: u64,
    /// Their latency.
    lat_ns: FioLatency,
}

/// I/Os of one direction, with the keys of fio.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FioTraffic {
    /// What was moved.
    #[schemars(extend("unit" = "bytes"))]
    io_bytes: u64,
    /// The same.
    #[schemars(extend("unit" = "KiB"))]
    io_kbytes: u64,
    /// Bandwidth.
    #[schemars(extend("unit" = "bytes/s"))]
    bw_bytes: u64,
    /// The same.
    #[schemars(extend("unit" = "KiB/s"))]
    bw: u64,
    /// I/Os that ended.
    #[schemars(extend("unit" = "1/s"))]
    iops: f64,
    /// How long the I/Os took.
    #[schemars(extend("unit" = "ms"))]
    runtime: u64,
    /// I/Os.
    total_ios: u64,
    /// Always 0.
    short_ios: u64,
    /// Always 0.
    drop_ios: u64,
    /// Time to submit an I/O.
    slat_ns: FioSeries,
    /// Time from submission to completion.
    clat_ns: FioLatency,
    /// Both together.
    lat_ns: FioSeries,
    /// Smallest sample of the bandwidth.
    #[schemars(extend("unit" = "KiB/s"))]
    bw_min: u64,
    /// Largest sample.
    #[schemars(extend("unit" = "KiB/s"))]
    bw_max: u64,
    /// Share of the group's bandwidth: 100, or 0 without samples.
    #[schemars(extend("unit" = "%"))]
    bw_agg: f64,
    /// Mean of the samples.
    #[schemars(extend("unit" = "KiB/s"))]
    bw_mean: f64,
    /// Standard deviation of the samples.
    #[schemars(extend("unit" = "KiB/s"))]
    bw_dev: f64,
    /// Samples.
    bw_samples: u64,
    /// Smallest sample of the I/Os per second.
    #[schemars(extend("unit" = "1/s"))]
    iops_min: u64,
    /// Largest sample.
    #[schemars(extend("unit" = "1/s"))]
    iops_max: u64,
    /// Mean of the samples.
    #[schemars(extend("unit" = "1/s"))]
    iops_mean: f64,
    /// Standard deviation of the samples.
    #[schemars(extend("unit" = "1/s"))]
    iops_stddev: f64,
    /// Samples.
    iops_samples: u64,
}

/// Times of I/Os.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FioSeries {
    /// The shortest.
    #[schemars(extend("unit" = "ns"))]
    min: u64,
    /// The longest.
    #[schemars(extend("unit" = "ns"))]
    max: u64,
    /// The mean.
    #[schemars(extend("unit" = "ns"))]
    mean: f64,
    /// Standard deviation.
    #[schemars(extend("unit" = "ns"))]
    stddev: f64,
    /// How many were measured.
    #[serde(rename = "N")]
    count: u64,
}

/// Times of I/Os with percentiles.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FioLatency {
    #[serde(flatten)]
    series: FioSeries,
    /// Percentiles as the job asks for them: by percent, with six decimals.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("unit" = "ns", "absent" = "nothing was measured"))]
    percentile: Option<Named<u64>>,
}

impl FioDocument {
    /// The results of jobs that began at this time.
    pub(crate) fn new(jobs: &Jobs, reported: &[Reported<'_>], began: SystemTime) -> Self {
        let since = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            version: concat!("tranche-", env!("CARGO_PKG_VERSION")),
            timestamp: since.as_secs(),
            timestamp_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            time: text::date(began),
            global_options: options(&jobs.global),
            jobs: reported.iter().map(FioJob::new).collect(),
            disk_util: [],
        }
    }
}

fn options(given: &[NamedOption]) -> Named<String> {
    given.iter().cloned().collect()
}

impl FioJob {
    fn new(reported: &Reported<'_>) -> Self {
        let Reported { spec, stats, error, elapsed, .. } = reported;
        let usage = reported.usage.unwrap_or_default();
        let seconds = elapsed.as_secs_f64();
        let percent =
            |used: f64| round(if seconds > 0.0 { (used * 100.0 / seconds).min(100.0) } else { 0.0 });
        let total = stats.issued.iter().sum::<u64>();
        let [read, write, trim] = stats.traffic.each_ref().map(|of| FioTraffic::new(of, &spec.options));
        let [latency_ns, latency_us, latency_ms] = text::buckets(stats)
            .map(|buckets| buckets.into_iter().map(|(name, percent)| (name, round(percent))).collect());
        Self {
            jobname: spec.name.clone(),
            groupid: spec.group,
            error: *error,
            eta: 0,
            elapsed: stats.runtime.div_ceil(1_000_000_000),
            options: options(&spec.own),
            read,
            write,
            trim,
            sync: FioFlushes {
                total_ios: stats.sync.series.count,
                lat_ns: FioLatency::new(&stats.sync, &spec.options),
            },
            job_runtime: stats.runtime / 1_000_000,
            usr_cpu: percent(usage.user),
            sys_cpu: percent(usage.system),
            ctx: usage.context_switches,
            majf: usage.major_faults,
            minf: usage.minor_faults,
            iodepth_level: classes(&stats.depth, &["1", "2", "4", "8", "16", "32", ">=64"], total),
            iodepth_submit: classes(&stats.submit, &BATCHES, stats.submit.iter().sum()),
            iodepth_complete: classes(&stats.complete, &BATCHES, stats.complete.iter().sum()),
            latency_depth: spec.options.iodepth,
            latency_target: 0,
            latency_percentile: 100.0,
            latency_window: 0,
            zone_resets: spec.options.zones.zoned.then_some(stats.zone_resets),
            latency_ns,
            latency_us,
            latency_ms,
        }
    }
}

const BATCHES: [&str; CLASSES] = ["0", "4", "8", "16", "32", "64", ">=64"];

fn classes(counts: &[u64; CLASSES], names: &[&str; CLASSES], total: u64) -> Named<f64> {
    let share = |count: u64| round(text::percent(count, total));
    names.iter().zip(counts).map(|(name, count)| ((*name).to_owned(), share(*count))).collect()
}

impl FioTraffic {
    fn new(traffic: &Traffic, options: &Options) -> Self {
        let rate_of = |count: u64| per_second(count, traffic.runtime);
        let bandwidth = Figures::of(&traffic.bandwidth);
        let rate = Figures::of(&traffic.rate);
        Self {
            io_bytes: traffic.bytes,
            io_kbytes: traffic.bytes / 1024,
            bw_bytes: rate_of(traffic.bytes) as u64,
            bw: rate_of(traffic.bytes / 1024) as u64,
            iops: round(rate_of(traffic.ios)),
            runtime: traffic.runtime / 1_000_000,
            total_ios: traffic.ios,
            short_ios: 0,
            drop_ios: 0,
            slat_ns: FioSeries::new(&traffic.submission),
            clat_ns: FioLatency::new(&traffic.completion, options),
            lat_ns: FioSeries::new(&traffic.total),
            bw_min: bandwidth.min,
            bw_max: bandwidth.max,
            bw_agg: if bandwidth.count > 0 { 100.0 } else { 0.0 },
            bw_mean: round(bandwidth.mean),
            bw_dev: round(bandwidth.deviation),
            bw_samples: bandwidth.count,
            iops_min: rate.min,
            iops_max: rate.max,
            iops_mean: round(rate.mean),
            iops_stddev: round(rate.deviation),
            iops_samples: rate.count,
        }
    }
}

impl FioSeries {
    fn new(of: &Series) -> Self {
        let Figures { min, max, mean, deviation, count } = Figures::of(of);
        Self { min, max, mean: round(mean), stddev: round(deviation), count }
    }
}

impl FioLatency {
    fn new(of: &Latency, options: &Options) -> Self {
        let points = options.percentiles.iter().map(|millionths| {
            let name = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
            (name, text::quantile(of, *millionths))
        });
        let percentile = (of.series.count > 0).then(|| points.collect());
        Self { series: FioSeries::new(&of.series), percentile }
    }
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
