//! Results as fio prints them.

use std::fmt::Write as _;
use std::time::SystemTime;

use jiff::Timestamp;

use load_formats::fio::{CLASSES, Latency, Series, Sizes, Stats, Traffic};

use super::{
    figures::Figures,
    reported::{Reported, per_second},
};

/// A number with at most four characters and a unit prefix, as fio writes it: "9538", "10.2k", "182M".
pub(crate) fn scaled(value: f64, base: f64) -> String {
    let prefixes: [&str; 6] =
        if base == 1024.0 { ["", "Ki", "Mi", "Gi", "Ti", "Pi"] } else { ["", "k", "M", "G", "T", "P"] };
    let (mut value, mut index) = (value, 0);
    while value >= 9999.5 && index + 1 < prefixes.len() {
        value /= base;
        index += 1;
    }
    let decimals = match value {
        _ if index == 0 || (value - value.round()).abs() < 1e-9 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{}", prefixes[index])
}

fn both(bytes: f64) -> (String, String) {
    // fio says kB for the decimal unit.
    (format!("{}B", scaled(bytes, 1024.0)), format!("{}B", scaled(bytes, 1000.0)))
}

pub(super) fn percent(count: u64, total: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    match total {
        0 => 0.0,
        total => count as f64 * 100.0 / total as f64,
    }
}

/// The latency that so many millionths of a percent do not exceed.
pub(super) fn quantile(of: &Latency, millionths: u64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "at most 10^8")]
    of.histogram.value_at_quantile(millionths as f64 / 1e8).min(of.series.max)
}

type Buckets = [Vec<(String, f64)>; 3];

/// Upper bounds of the classes of latencies: of nanoseconds and microseconds, and of milliseconds.
const BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Percent of all I/Os by completion latency: below 1 µs, below 1 ms, the others.
pub(super) fn buckets(stats: &Stats) -> Buckets {
    let mut counts = [[0u64; 12]; 3];
    let mut total = 0;
    for traffic in &stats.traffic {
        for step in traffic.completion.histogram.iter_recorded() {
            let count = step.count_at_value();
            total += count;
            let nanoseconds = step.value_iterated_to();
            let (unit, value) = match nanoseconds {
                0..1_000 => (0, nanoseconds),
                1_000..1_000_000 => (1, nanoseconds / 1_000),
                _ => (2, nanoseconds / 1_000_000),
            };
            let class =
                BOUNDS.iter().position(|bound| value < *bound).unwrap_or(if value < 2000 { 10 } else { 11 });
            counts[unit][class] += count;
        }
    }
    let name = |class: usize| match class {
        0..10 => BOUNDS[class].to_string(),
        10 => "2000".to_owned(),
        _ => ">=2000".to_owned(),
    };
    let mut unit = 0;
    counts.map(|counts| {
        let classes = if unit == 2 { 12 } else { 10 };
        unit += 1;
        (0..classes).map(|class| (name(class), percent(counts[class], total))).collect()
    })
}

/// Everything.
pub(crate) fn summary(reported: &[Reported<'_>], began: SystemTime) -> String {
    let mut out = String::new();
    for one in reported {
        // Writing to a string does not fail.
        let _ = job(&mut out, one, began);
    }
    let last = reported.iter().map(|one| one.spec.group).max();
    for group in 0..=last.unwrap_or(0) {
        let members: Vec<_> = reported.iter().filter(|one| one.spec.group == group).collect();
        if !members.is_empty() {
            let _ = status(&mut out, group, &members);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn job(out: &mut String, one: &Reported<'_>, began: SystemTime) -> std::fmt::Result {
    let Reported { spec, stats, error, usage, elapsed, clones } = one;
    let options = &spec.options;
    let sizes = options.sizes.iter().zip(["R", "W", "T"]).map(|(sizes, name)| {
        let show = |bytes: u64| format!("{}B", scaled(bytes as f64, 1024.0));
        match sizes {
            Sizes::Range(least, most) => format!("({name}) {}-{}", show(*least), show(*most)),
            Sizes::Split(_) => format!("({name}) {}-{} split", show(sizes.least()), show(sizes.most())),
        }
    });
    let sizes: Vec<String> = sizes.collect();
    writeln!(
        out,
        "{}: (g={}): rw={}, bs={}, iodepth={}",
        spec.name,
        spec.group,
        options.rw.name(),
        sizes.join(", "),
        options.iodepth
    )?;
    writeln!(out, "{}: (groupid={}, jobs={clones}): err={error:2}: {}", spec.name, spec.group, date(began))?;
    for (traffic, name) in stats.traffic.iter().zip(["read", "write", "trim"]) {
        if traffic.ios > 0 {
            let resets = (name == "write" && options.zones.zoned).then_some(stats.zone_resets);
            direction(out, name, traffic, &options.percentiles, resets)?;
        }
    }
    for (unit, buckets) in ["nsec", "usec", "msec"].iter().zip(buckets(stats)) {
        let shown: Vec<String> = buckets
            .iter()
            .filter(|(_, percent)| *percent >= 0.005)
            .map(|(name, percent)| format!("{name}={percent:.2}%"))
            .collect();
        for line in shown.chunks(6) {
            writeln!(out, "  lat ({unit})   : {}", line.join(", "))?;
        }
    }
    if stats.sync.series.count > 0 {
        writeln!(out, "  fsync/fdatasync:")?;
        latency_line(out, "sync", &stats.sync.series)?;
        percentiles(out, "sync", &stats.sync, &options.percentiles)?;
    }
    if let Some(usage) = usage {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        writeln!(
            out,
            "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, majf={}, minf={}",
            usage.user * 100.0 / seconds,
            usage.system * 100.0 / seconds,
            usage.context_switches,
            usage.major_faults,
            usage.minor_faults
        )?;
    }
    let line = |counts: &[u64; CLASSES], names: [&str; CLASSES]| {
        let total = counts.iter().sum();
        let parts =
            names.iter().zip(counts).map(|(name, count)| format!("{name}={:.1}%", percent(*count, total)));
        parts.collect::<Vec<_>>().join(", ")
    };
    let batches = ["0", "4", "8", "16", "32", "64", ">=64"];
    writeln!(out, "  IO depths    : {}", line(&stats.depth, ["1", "2", "4", "8", "16", "32", ">=64"]))?;
    writeln!(out, "     submit    : {}", line(&stats.submit, batches))?;
    writeln!(out, "     complete  : {}", line(&stats.complete, batches))?;
    let issued = stats.issued.map(|count| count.to_string()).join(",");
    writeln!(out, "     issued rwts: total={issued} failed={}", stats.failed)?;
    writeln!(out)
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn direction(
    out: &mut String,
    name: &str,
    traffic: &Traffic,
    points: &[u64],
    resets: Option<u64>,
) -> std::fmt::Result {
    let resets = resets.map_or(String::new(), |resets| format!("; {resets} zone resets"));
    let rate_of = |count: u64| per_second(count, traffic.runtime);
    let (binary, decimal) = both(rate_of(traffic.bytes));
    writeln!(
        out,
        "  {name}: IOPS={}, BW={binary}/s ({decimal}/s)({}B/{}msec){resets}",
        scaled(rate_of(traffic.ios), 1000.0),
        scaled(traffic.bytes as f64, 1024.0),
        traffic.runtime / 1_000_000
    )?;
    latency_line(out, "slat", &traffic.submission)?;
    latency_line(out, "clat", &traffic.completion.series)?;
    latency_line(out, " lat", &traffic.total)?;
    percentiles(out, "clat", &traffic.completion, points)?;
    let bandwidth = Figures::of(&traffic.bandwidth);
    if bandwidth.count > 0 {
        let rate = Figures::of(&traffic.rate);
        for (name, unit, figures) in [("bw", "KiB/s", bandwidth), ("iops", "", rate)] {
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit:>5})") };
            writeln!(
                out,
                "   {name:<4}{unit:<8}: min={:5}, max={:5}, avg={:.2}, stdev={:.2}, samples={}",
                figures.min, figures.max, figures.mean, figures.deviation, figures.count
            )?;
        }
    }
    Ok(())
}

/// The unit in which fio shows a series: its name, and how many nanoseconds it has.
fn unit(of: &Figures) -> (&'static str, u32) {
    let over = |scale: u64, deviation: f64| {
        of.min > 2 * scale && of.max > 100 * scale - 1 && of.deviation > deviation
    };
    match of {
        _ if over(1_000_000, 1_000_000.0) => ("msec", 1_000_000),
        _ if over(1_000, 1_000.0) => ("usec", 1_000),
        _ => ("nsec", 1),
    }
}

fn latency_line(out: &mut String, name: &str, of: &Series) -> std::fmt::Result {
    let figures = Figures::of(of);
    let (unit, scale) = unit(&figures);
    let whole = |value: u64| scaled((value / u64::from(scale)) as f64, 1000.0);
    writeln!(
        out,
        "    {name} ({unit}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        whole(figures.min),
        whole(figures.max),
        figures.mean / f64::from(scale),
        figures.deviation / f64::from(scale)
    )
}

fn percentiles(out: &mut String, name: &str, of: &Latency, points: &[u64]) -> std::fmt::Result {
    if of.series.count == 0 || points.is_empty() {
        return Ok(());
    }
    let (unit, scale) = unit(&Figures::of(&of.series));
    writeln!(out, "    {name} percentiles ({unit}):")?;
    let values: Vec<u64> = points.iter().map(|point| quantile(of, *point) / u64::from(scale)).collect();
    let width = values.iter().map(|value| value.to_string().len()).max().unwrap_or(1).max(5);
    let cells: Vec<String> = points
        .iter()
        .zip(values)
        .map(|(point, value)| {
            let name = format!("{}.{:02}", point / 1_000_000, point % 1_000_000 / 10_000);
            format!("{name:>5}th=[{value:width$}]")
        })
        .collect();
    let lines: Vec<String> = cells.chunks(4).map(|line| format!("     | {}", line.join(", "))).collect();
    writeln!(out, "{}", lines.join(",\n"))
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn status(out: &mut String, group: u32, members: &[&Reported<'_>]) -> std::fmt::Result {
    writeln!(out, "Run status group {group} (all jobs):")?;
    for (direction, name) in ["READ", "WRITE", "TRIM"].iter().enumerate() {
        let traffic: Vec<&Traffic> = members
            .iter()
            .map(|one| &one.stats.traffic[direction])
            .filter(|traffic| traffic.ios > 0)
            .collect();
        let Some(longest) = traffic.iter().map(|traffic| traffic.runtime).max() else { continue };
        let shortest = traffic.iter().map(|traffic| traffic.runtime).min().unwrap_or(longest);
        let bytes: u64 = traffic.iter().map(|traffic| traffic.bytes).sum();
        let rates = traffic.iter().map(|traffic| per_second(traffic.bytes, traffic.runtime));
        let (low, high) = rates.fold((f64::MAX, 0.0f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        let (all, all_decimal) = both(per_second(bytes, longest));
        let ((low, low_decimal), (high, high_decimal)) = (both(low), both(high));
        let (moved, moved_decimal) = both(bytes as f64);
        writeln!(
            out,
            "{name:>7}: bw={all}/s ({all_decimal}/s), {low}/s-{high}/s ({low_decimal}/s-{high_decimal}/s), io={moved} \
             ({moved_decimal}), run={}-{}msec",
            shortest / 1_000_000,
            longest / 1_000_000
        )?;
    }
    writeln!(out)
}

/// As `ctime` writes it, in UTC: "Sat Nov 21 16:17:53 2026".
pub(super) fn date(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%a %b %e %H:%M:%S %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// What fio 3.33 writes for the same numbers.
    #[test]
    fn numbers_as_fio() {
        for (value, base, shown) in [
            (9538.0, 1000.0, "9538"),
            (10_240.0, 1000.0, "10.2k"),
            (42_666.7, 1000.0, "42.7k"),
            (2_097_152.0, 1024.0, "2048Ki"),
            (540_672.0, 1024.0, "528Ki"),
            (190_466_000.0, 1024.0, "182Mi"),
            (41_600_000.0, 1000.0, "41.6M"),
            (4096.0, 1024.0, "4096"),
        ] {
            assert_eq!(scaled(value, base), shown);
        }
    }

    #[test]
    fn dates() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(1_795_277_873), "Sat Nov 21 16:17:53 2026");
        assert_eq!(at(1_709_208_000), "Thu Feb 29 12:00:00 2024");
    }
}
