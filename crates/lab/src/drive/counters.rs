//! What the drive counts for a namespace (log D8h), and differences of it.

use nvme::log::{LATENCY_BUCKETS, LatencyHistogram, LatencySum, NamespaceStatistics, latency_bucket_low};

use crate::results::{NamespaceCounts, Percentiles};

/// A namespace's counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters(Option<Box<NamespaceStatistics>>);

impl Counters {
    /// From the log page.
    pub fn new(page: NamespaceStatistics) -> Self {
        Self(Some(Box::new(page)))
    }

    /// What happened since an earlier sample; all zero where nothing is counted.
    pub fn since(&self, earlier: &Self) -> NamespaceCounts {
        let (Some(now), Some(before)) = (&self.0, &earlier.0) else { return NamespaceCounts::default() };
        // After a power cycle the counters start again: then what they say now is what happened.
        let restarted = now.time_ns.get() < before.time_ns.get();
        let difference = |f: &dyn Fn(&NamespaceStatistics) -> u64| {
            f(now).saturating_sub(if restarted { 0 } else { f(before) })
        };
        let latency = |f: &dyn Fn(&NamespaceStatistics) -> (&LatencyHistogram, &LatencySum)| {
            let (histogram, sum) = f(now);
            let (old, old_sum) = f(before);
            let counts: Vec<u64> = histogram
                .count
                .iter()
                .zip(&old.count)
                .map(|(now, before)| now.get().saturating_sub(if restarted { 0 } else { before.get() }))
                .collect();
            let total = sum.sum_ns.get().saturating_sub(if restarted { 0 } else { old_sum.sum_ns.get() });
            (counts, total)
        };
        let (reads, read_sum) = latency(&|p| (&p.read_latency, &p.read_latency_sum));
        let (writes, write_sum) = latency(&|p| (&p.write_latency, &p.write_latency_sum));
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let stall = difference(&|p| p.stalled_write_ns.get()) as f64 / 1e9;
        NamespaceCounts {
            host_bytes_read: difference(&|p| p.host_bytes_read.get()),
            host_bytes_written: difference(&|p| p.host_bytes_written.get()),
            reads: difference(&|p| p.host_read_commands.get()),
            writes: difference(&|p| p.host_write_commands.get()),
            flushes: difference(&|p| p.host_flush_commands.get()),
            media_bytes_written: difference(&NamespaceStatistics::media_bytes_written),
            media_bytes_written_gc: difference(&|p| p.media_bytes_written_gc.get()),
            whole_writes: difference(&|p| p.whole_writes.get()),
            split_writes: difference(&|p| p.split_writes.get()),
            write_stall_seconds: stall,
            read_latency_ms: percentiles(&reads, read_sum),
            write_latency_ms: percentiles(&writes, write_sum),
            read_latency_cdf: cumulative(&reads),
            write_latency_cdf: cumulative(&writes),
            ..NamespaceCounts::default()
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Upper bound of a bucket in milliseconds.
fn upper(bucket: usize) -> f64 {
    milliseconds(latency_bucket_low((bucket + 1).min(LATENCY_BUCKETS - 1)))
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn percentiles(counts: &[u64], sum_ns: u64) -> Percentiles {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return Percentiles::default();
    }
    let at = |percent: u64| {
        let rank = (u128::from(total) * u128::from(percent)).div_ceil(100);
        let mut seen = 0u128;
        let bucket = counts.iter().position(|&count| {
            seen += u128::from(count);
            seen >= rank
        });
        upper(bucket.unwrap_or(LATENCY_BUCKETS))
    };
    Percentiles {
        count: total,
        mean: milliseconds(sum_ns) / total as f64,
        p50: at(50),
        p95: at(95),
        p99: at(99),
        max: upper(counts.iter().rposition(|&count| count > 0).unwrap_or(0)),
    }
}

/// The share of commands that took no longer, at the bounds of the buckets in use.
#[expect(clippy::cast_precision_loss, reason = "for drawing")]
fn cumulative(counts: &[u64]) -> Vec<(f64, f64)> {
    let total: u64 = counts.iter().sum();
    let mut seen = 0;
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    used.map(|(bucket, &count)| {
        seen += count;
        (upper(bucket), seen as f64 / total.max(1) as f64)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use nvme::log::latency_bucket;

    use super::*;

    #[test]
    fn differences_and_percentiles() {
        let before = NamespaceStatistics {
            time_ns: 1.into(),
            host_bytes_written: 100.into(),
            ..NamespaceStatistics::default()
        };
        let mut after = before;
        after.time_ns = 2.into();
        after.host_bytes_written = 16_484.into();
        for (ns, count) in [(1_000_000, 98), (50_000_000, 2)] {
            after.write_latency.count[latency_bucket(ns)] = count.into();
        }
        after.write_latency_sum.sum_ns = (98 * 1_000_000 + 2 * 50_000_000).into();
        let counts = Counters::new(after).since(&Counters::new(before));
        assert_eq!(counts.host_bytes_written, 16_384);
        let latency = counts.write_latency_ms;
        assert!((latency.mean - 1.98).abs() < 1e-9, "{latency:?}");
        assert!((0.9..1.2).contains(&latency.p50) && (45.0..57.0).contains(&latency.p99), "{latency:?}");
        assert_eq!(counts.write_latency_cdf.len(), 2);
        assert!((counts.write_latency_cdf[0].1 - 0.98).abs() < 1e-9);

        // The drive was powered anew in between.
        after.time_ns = 0.into();
        assert_eq!(Counters::new(after).since(&Counters::new(before)).host_bytes_written, 16_484);
    }

    #[test]
    fn nothing_counted_is_all_zero() {
        assert_eq!(Counters::default().since(&Counters::default()).writes, 0);
        assert_eq!(percentiles(&[0; LATENCY_BUCKETS], 0), Percentiles::default());
    }
}
