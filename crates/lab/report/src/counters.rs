//! What a drive counts for namespaces: one type for a moment and for a span, and the figures that follow from it.

use host::{Host, Transport};
use nvme::{
    Nsid,
    log::{LatencyHistogram, LatencySum, NamespaceStatistics, latency_bucket_low},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::percentiles::Percentiles;

/// Latencies of the commands of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    histogram: LatencyHistogram,
    sum_ns: u64,
    /// No command took longer; beside the histogram, whose buckets are coarse.
    max_ns: u64,
}

impl Latencies {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            histogram: self.histogram.since(&earlier.histogram),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            // If the longest was earlier, the bound of a bucket below it says more.
            max_ns: self.max_ns,
        }
    }

    fn merge(&mut self, other: &Self) {
        for (count, more) in self.histogram.count.iter_mut().zip(&other.histogram.count) {
            count.set(count.get().saturating_add(more.get()));
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The latency that so many percent of the commands did not exceed, in nanoseconds, as the bound of its bucket; none without commands.
    pub fn percentile_ns(&self, percent: u32) -> Option<u64> {
        // No bound of a bucket is longer than the longest.
        self.histogram.percentile(percent, 100).map(|bound| bound.min(self.max_ns))
    }

    /// Percentiles in milliseconds, to a bucket of the drive's histogram. The maximum is exact, unless a longer one came earlier.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    pub fn percentiles(&self) -> Percentiles {
        let count = self.histogram.total();
        if count == 0 {
            return Percentiles::default();
        }
        let at = |percent| milliseconds(self.percentile_ns(percent).unwrap_or(0));
        Percentiles {
            count,
            mean: milliseconds(self.sum_ns) / count as f64,
            p50: at(50),
            p95: at(95),
            p99: at(99),
            max: at(100),
        }
    }

    /// The share of commands that took no longer than so many milliseconds, at the bounds of the buckets in use.
    #[expect(clippy::cast_precision_loss, reason = "for drawing")]
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let total = self.histogram.total();
        let mut seen = 0;
        let buckets = self.histogram.count.iter().map(|count| count.get()).enumerate();
        let used = buckets.filter(|(_, count)| *count > 0).map(|(bucket, count)| {
            seen += count;
            let bound = latency_bucket_low(bucket + 1).min(self.max_ns);
            (milliseconds(bound), seen as f64 / total.max(1) as f64)
        });
        used.collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// What a drive has counted for a namespace, or for several together: since they began ([`Counters::new`]), or between two moments
/// ([`Counters::since`]). Nothing is all zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Nanoseconds since the drive was powered on; of a difference, at its end.
    pub time_ns: u64,
    /// Bytes that hosts read.
    pub host_bytes_read: u64,
    /// Bytes that hosts wrote.
    pub host_bytes_written: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Bytes written to the medium: host data, garbage collection and metadata.
    pub media_bytes_written: u64,
    /// Of these, by garbage collection and wear levelling.
    pub media_bytes_written_gc: u64,
    /// Write commands within the drive's atomic unit: whole or absent after a power cut.
    pub whole_writes: u64,
    /// Write commands that a power cut may tear.
    pub split_writes: u64,
    /// Nanoseconds that writes waited for room in the drive's write buffer, summed over commands.
    pub write_stall_ns: u64,
    /// Nanoseconds that commands were held back by a quota, or so that other namespaces get their share, summed over commands.
    pub held_back_ns: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Latencies of reads as the drive saw them.
    pub read_latency: Latencies,
    /// Latencies of writes as the drive saw them.
    pub write_latency: Latencies,
}

impl Counters {
    /// From the log page D8h.
    pub fn new(page: &NamespaceStatistics) -> Self {
        let latencies = |histogram: &LatencyHistogram, sum: &LatencySum| Latencies {
            histogram: *histogram,
            sum_ns: sum.sum_ns.get(),
            max_ns: sum.max_ns.get(),
        };
        Self {
            time_ns: page.time_ns.get(),
            host_bytes_read: page.host_bytes_read.get(),
            host_bytes_written: page.host_bytes_written.get(),
            reads: page.host_read_commands.get(),
            writes: page.host_write_commands.get(),
            flushes: page.host_flush_commands.get(),
            media_bytes_written: page.media_bytes_written(),
            media_bytes_written_gc: page.media_bytes_written_gc.get(),
            whole_writes: page.whole_writes.get(),
            split_writes: page.split_writes.get(),
            write_stall_ns: page.stalled_write_ns.get(),
            held_back_ns: [
                page.throttled_read_ns,
                page.throttled_write_ns,
                page.shared_read_ns,
                page.shared_write_ns,
            ]
            .into_iter()
            .fold(0, |sum, ns| sum.saturating_add(ns.get())),
            failed: page.failed_commands.get(),
            read_latency: latencies(&page.read_latency, &page.read_latency_sum),
            write_latency: latencies(&page.write_latency, &page.write_latency_sum),
        }
    }

    /// Of a namespace now; of [all together](nvme::NSID_ALL), those that were deleted included. Any drive answers: a served one, and one in virtual time, of whose
    /// time the command takes some.
    ///
    /// # Errors
    /// The drive does not answer.
    pub fn read<T: Transport>(host: &mut Host<T>, nsid: Nsid) -> Result<Self, host::Error> {
        Ok(Self::new(&host.namespace_statistics(nsid)?))
    }

    /// What happened since an earlier moment. After a power cycle counters start again: then what they say now is what happened.
    pub fn since(&self, earlier: &Self) -> Self {
        if self.time_ns < earlier.time_ns {
            return self.clone();
        }
        let mut difference = self.zip(earlier, u64::saturating_sub);
        difference.read_latency = self.read_latency.since(&earlier.read_latency);
        difference.write_latency = self.write_latency.since(&earlier.write_latency);
        difference
    }

    /// Adds what was counted for another namespace, in the same time.
    pub fn merge(&mut self, other: &Self) {
        let mut sum = self.zip(other, u64::saturating_add);
        std::mem::swap(&mut sum.read_latency, &mut self.read_latency);
        std::mem::swap(&mut sum.write_latency, &mut self.write_latency);
        *self = sum;
        self.read_latency.merge(&other.read_latency);
        self.write_latency.merge(&other.write_latency);
    }

    /// All numbers of two, number by number; latencies are left out. The time is the later one.
    fn zip(&self, other: &Self, op: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            time_ns: self.time_ns.max(other.time_ns),
            host_bytes_read: op(self.host_bytes_read, other.host_bytes_read),
            host_bytes_written: op(self.host_bytes_written, other.host_bytes_written),
            reads: op(self.reads, other.reads),
            writes: op(self.writes, other.writes),
            flushes: op(self.flushes, other.flushes),
            media_bytes_written: op(self.media_bytes_written, other.media_bytes_written),
            media_bytes_written_gc: op(self.media_bytes_written_gc, other.media_bytes_written_gc),
            whole_writes: op(self.whole_writes, other.whole_writes),
            split_writes: op(self.split_writes, other.split_writes),
            write_stall_ns: op(self.write_stall_ns, other.write_stall_ns),
            held_back_ns: op(self.held_back_ns, other.held_back_ns),
            failed: op(self.failed, other.failed),
            ..Self::default()
        }
    }

    /// Bytes written to the medium for each that hosts wrote, if they did.
    pub fn write_amplification(&self) -> Option<f64> {
        write_amplification(self.media_bytes_written, self.host_bytes_written)
    }
}

/// Bytes written to media for each that hosts wrote, if they did.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
pub fn write_amplification(media_bytes: u64, host_bytes: u64) -> Option<f64> {
    (host_bytes > 0).then(|| media_bytes as f64 / host_bytes as f64)
}

/// Bytes programmed on all of a drive's flash so far (OCP extended SMART log).
///
/// # Errors
/// The drive does not answer.
pub fn flash_bytes_written<T: Transport>(host: &mut Host<T>) -> Result<u64, host::Error> {
    let written = host.ocp_smart()?.physical_media_units_written.get();
    Ok(u64::try_from(written).unwrap_or(u64::MAX))
}

/// Counts of a namespace during a run (log D8h, end minus start), with its name in results.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(into = "CountsDocument")]
#[schemars(with = "CountsDocument")]
pub struct NamespaceCounts {
    /// Its name in the layout.
    pub name: String,
    /// Namespace identifier.
    pub nsid: Nsid,
    /// The medium's NVM Set.
    pub set: u16,
    /// `"nand"`, `"dram"`, `"pmem"`, …
    pub medium: String,
    /// The end of the run minus its start.
    pub counted: Counters,
}

impl NamespaceCounts {
    /// Whether it is on flash.
    pub fn is_on_flash(&self) -> bool {
        self.medium == "nand"
    }
}

/// All of these namespaces together.
pub fn total<'a>(namespaces: impl IntoIterator<Item = &'a NamespaceCounts>) -> Counters {
    let mut total = Counters::default();
    namespaces.into_iter().for_each(|namespace| total.merge(&namespace.counted));
    total
}

/// Those on flash together.
pub fn total_on_flash(namespaces: &[NamespaceCounts]) -> Counters {
    total(namespaces.iter().filter(|namespace| namespace.is_on_flash()))
}

/// [`NamespaceCounts`] as `results.json` has them.
#[derive(Serialize, JsonSchema)]
struct CountsDocument {
    /// Its name in the layout.
    name: String,
    /// Namespace identifier.
    nsid: Nsid,
    /// NVM Set of its medium.
    set: u16,
    /// Its medium: nand, dram, pmem.
    medium: String,
    /// What the host read.
    #[schemars(extend("unit" = "bytes"))]
    host_bytes_read: u64,
    /// What the host wrote.
    #[schemars(extend("unit" = "bytes"))]
    host_bytes_written: u64,
    /// Read commands.
    reads: u64,
    /// Write commands.
    writes: u64,
    /// Flush commands.
    flushes: u64,
    /// What was written to the medium for this namespace: host data, garbage collection and metadata.
    #[schemars(extend("unit" = "bytes"))]
    media_bytes_written: u64,
    /// Of these, by garbage collection and wear levelling.
    #[schemars(extend("unit" = "bytes"))]
    media_bytes_written_gc: u64,
    /// Write commands within the drive's atomic unit.
    whole_writes: u64,
    /// Write commands that a power cut may tear.
    split_writes: u64,
    /// How long writes waited for room in the write buffer, summed over commands.
    #[schemars(extend("unit" = "s"))]
    write_stall_seconds: f64,
    /// Latency of reads as the drive saw them.
    read_latency_ms: Percentiles,
    /// Latency of writes as the drive saw them.
    write_latency_ms: Percentiles,
    /// Points of the cumulative distribution of write latency: milliseconds, and the share of commands (0 to 1) that took no longer.
    write_latency_cdf: Vec<(f64, f64)>,
    /// Points of the cumulative distribution of read latency, likewise.
    read_latency_cdf: Vec<(f64, f64)>,
}

impl From<NamespaceCounts> for CountsDocument {
    fn from(of: NamespaceCounts) -> Self {
        let NamespaceCounts { name, nsid, set, medium, counted } = of;
        Self {
            name,
            nsid,
            set,
            medium,
            host_bytes_read: counted.host_bytes_read,
            host_bytes_written: counted.host_bytes_written,
            reads: counted.reads,
            writes: counted.writes,
            flushes: counted.flushes,
            media_bytes_written: counted.media_bytes_written,
            media_bytes_written_gc: counted.media_bytes_written_gc,
            whole_writes: counted.whole_writes,
            split_writes: counted.split_writes,
            write_stall_seconds: seconds(counted.write_stall_ns),
            read_latency_ms: counted.read_latency.percentiles(),
            write_latency_ms: counted.write_latency.percentiles(),
            write_latency_cdf: counted.write_latency.cumulative(),
            read_latency_cdf: counted.read_latency.cumulative(),
        }
    }
}

/// Years until a medium's rated cycles are used up (`endurance` in bytes), writing at this rate without pause; `None` if that is not known.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub fn lifetime_years(endurance: u128, written: u64, seconds: f64) -> Option<f64> {
    const YEAR: f64 = 365.25 * 86_400.0;
    let rate = written as f64 / seconds.max(1e-9);
    (endurance > 0 && rate > 0.0).then(|| endurance as f64 / rate / YEAR)
}

#[cfg(test)]
mod tests {
    use nvme::log::latency_bucket;

    use super::*;

    fn pages() -> [NamespaceStatistics; 2] {
        let before = NamespaceStatistics {
            time_ns: 1.into(),
            host_bytes_written: 100.into(),
            ..NamespaceStatistics::default()
        };
        let mut after = before;
        after.time_ns = 2.into();
        after.host_bytes_written = 16_484.into();
        after.media_bytes_written_gc = 32_768.into();
        for (ns, count) in [(1_000_000, 98), (50_000_000, 2)] {
            after.write_latency.count[latency_bucket(ns)] = count.into();
        }
        after.write_latency_sum.sum_ns = (98 * 1_000_000 + 2 * 50_000_000).into();
        after.write_latency_sum.max_ns = 50_000_000.into();
        [before, after]
    }

    #[test]
    fn differences_and_percentiles() {
        let [before, mut after] = pages();
        let counts = Counters::new(&after).since(&Counters::new(&before));
        assert_eq!((counts.host_bytes_written, counts.write_amplification()), (16_384, Some(2.0)));
        let latency = counts.write_latency.percentiles();
        assert!((latency.mean - 1.98).abs() < 1e-9, "{latency:?}");
        assert!((0.9..1.2).contains(&latency.p50) && (45.0..57.0).contains(&latency.p99), "{latency:?}");
        // The bound of the bucket is longer than the longest.
        assert_eq!(counts.write_latency.percentile_ns(100), Some(50_000_000));
        assert_eq!(latency.max, 50.0);
        // A longer one came earlier: the bound of the bucket is all that is known.
        let mut earlier = after;
        (earlier.time_ns, earlier.write_latency_sum.max_ns) = (3.into(), 400_000_000.into());
        earlier.write_latency.count[latency_bucket(400_000_000)] = 1.into();
        let mut later = earlier;
        later.time_ns = 4.into();
        later.write_latency.count[latency_bucket(50_000_000)] = 3.into();
        let since = Counters::new(&later).since(&Counters::new(&earlier)).write_latency.percentiles();
        assert!(since.count == 1 && (50.0..57.0).contains(&since.max), "{since:?}");
        let cumulative = counts.write_latency.cumulative();
        assert!(cumulative.len() == 2 && (cumulative[0].1 - 0.98).abs() < 1e-9);

        // The last bucket has no bound but the longest.
        let mut slow = before;
        slow.write_latency.count[latency_bucket(40_000_000_000)] = 5.into();
        (slow.write_latency_sum.sum_ns, slow.write_latency_sum.max_ns) =
            (150_000_000_000.into(), 40_000_000_000.into());
        let slow = Counters::new(&slow).write_latency;
        assert_eq!((slow.percentiles().p50, slow.percentiles().max), (40_000.0, 40_000.0));
        assert_eq!(slow.cumulative(), [(40_000.0, 1.0)]);

        // The drive was powered anew in between.
        after.time_ns = 0.into();
        assert_eq!(Counters::new(&after).since(&Counters::new(&before)).host_bytes_written, 16_484);
    }

    #[test]
    fn namespaces_together_are_their_sum() {
        let [before, after] = pages().map(|page| Counters::new(&page));
        let one = |medium: &str, counted: &Counters| NamespaceCounts {
            medium: medium.into(),
            counted: counted.clone(),
            ..NamespaceCounts::default()
        };
        let all = [one("nand", &after), one("dram", &before), one("nand", &after)];
        assert_eq!(total(&all).host_bytes_written, 2 * 16_484 + 100);
        let flash = total_on_flash(&all);
        assert_eq!((flash.host_bytes_written, flash.media_bytes_written), (2 * 16_484, 65_536));
        assert_eq!(flash.write_latency.percentiles().count, 200);
        assert_eq!(flash.write_latency.percentiles().mean, after.write_latency.percentiles().mean);
        assert_eq!(total(&all[..1]), after);
    }

    #[test]
    fn nothing_counted_is_all_zero() {
        let nothing = Counters::default().since(&Counters::default());
        assert_eq!((nothing.writes, nothing.write_amplification()), (0, None));
        assert_eq!(nothing.read_latency.percentiles(), Percentiles::default());
        let json = serde_json::to_value(NamespaceCounts::default()).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 18);
    }
}
