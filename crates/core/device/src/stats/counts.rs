//! What the drive counts of hosts' commands: by namespace for log D8h, by NVM Set for SMART.

use ftl::VolumeStats;
use media::Nanos;
use nvme::command_table::LatencyClass;
use nvme::log::{LATENCY_BUCKETS, LatencyHistogram, LatencySum, NamespaceStatistics, latency_bucket};
use serde::{Deserialize, Serialize};

/// Latencies of one kind of command.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    buckets: [u64; LATENCY_BUCKETS],
    sum: u64,
    max: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Latency { buckets: [0; LATENCY_BUCKETS], sum: 0, max: 0 }
    }
}

impl Latency {
    /// A command took so long.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.buckets[latency_bucket(span.0)] += 1;
        self.sum = self.sum.saturating_add(span.0);
        self.max = self.max.max(span.0);
    }

    /// Commands in each bucket of the [histogram](LatencyHistogram), their sum in nanoseconds, and the longest.
    pub fn values(&self) -> (&[u64; LATENCY_BUCKETS], u64, u64) {
        (&self.buckets, self.sum, self.max)
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Latency) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    fn fill(&self, histogram: &mut LatencyHistogram, sum: &mut LatencySum) {
        for (out, count) in histogram.count.iter_mut().zip(&self.buckets) {
            out.set(*count);
        }
        sum.sum_ns.set(self.sum);
        sum.max_ns.set(self.max);
    }
}

/// Commands that were held, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldBack {
    pub commands: u64,
    pub ns: u64,
}

impl HeldBack {
    /// A command was held for this long, if it was.
    pub fn add(&mut self, span: Nanos) {
        self.commands += u64::from(span > Nanos::ZERO);
        self.ns = self.ns.saturating_add(span.0);
    }

    fn sum(&mut self, other: HeldBack) {
        self.commands += other.commands;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// Commands of an opcode other than Read, Write and Flush, as far as they are of one class.
#[derive(Clone, Debug)]
pub(crate) struct OpcodeStats {
    pub opcode: u8,
    /// Where log D8h counts them; none where it counts no latency.
    pub class: Option<LatencyClass>,
    pub latency: Latency,
}

/// Counts of one namespace since it was created or the drive was powered on, whichever was later.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceStats {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub deallocates: u64,
    pub others: u64,
    pub whole_writes: u64,
    pub split_writes: u64,
    pub aligned_writes: u64,
    pub stalled_writes: u64,
    pub stalled_ns: u64,
    /// By the quota: reads, writes.
    pub throttled: [HeldBack; 2],
    /// So that others get their share: reads, writes.
    pub shared: [HeldBack; 2],
    pub failed: u64,
    /// Media and data integrity errors.
    pub media_errors: u64,
    /// Of the opcode Read.
    pub read_latency: Latency,
    /// Of the opcode Write.
    pub write_latency: Latency,
    /// Of the opcode Flush.
    pub flush_latency: Latency,
    /// Of the other opcodes, as they come.
    pub opcodes: Vec<OpcodeStats>,
    /// The translation layer's counts when the drive was powered on.
    pub base: VolumeStats,
}

impl NamespaceStats {
    /// Counts a write by how it lies on the atomic write unit of `unit` bytes, a power of two.
    #[inline]
    pub fn count_atomicity(&mut self, start: u64, bytes: u64, unit: u64) {
        let end = start + bytes;
        if (start ^ (end - 1)) & !(unit - 1) == 0 {
            self.whole_writes += 1;
        } else {
            self.split_writes += 1;
        }
        if (start | end) & (unit - 1) == 0 {
            self.aligned_writes += 1;
        }
    }

    /// A command of an opcode other than Read, Write and Flush took so long.
    pub fn record(&mut self, opcode: u8, class: Option<LatencyClass>, span: Nanos) {
        self.of_opcode(opcode, class).record(span);
    }

    fn of_opcode(&mut self, opcode: u8, class: Option<LatencyClass>) -> &mut Latency {
        let known = self.opcodes.iter().position(|of| of.opcode == opcode && of.class == class);
        let index = known.unwrap_or_else(|| {
            self.opcodes.push(OpcodeStats { opcode, class, latency: Latency::default() });
            self.opcodes.len() - 1
        });
        &mut self.opcodes[index].latency
    }

    /// Latencies of a class of commands, as log D8h has them.
    fn of_class(&self, class: LatencyClass) -> Latency {
        let mut all = match class {
            LatencyClass::Read => self.read_latency.clone(),
            LatencyClass::Write => self.write_latency.clone(),
            LatencyClass::Flush => self.flush_latency.clone(),
            LatencyClass::Deallocate => Latency::default(),
        };
        self.opcodes.iter().filter(|of| of.class == Some(class)).for_each(|of| all.add(&of.latency));
        all
    }

    /// Adds the counts of another namespace.
    pub fn add(&mut self, o: &NamespaceStats) {
        for (mine, theirs) in [
            (&mut self.read_bytes, o.read_bytes),
            (&mut self.written_bytes, o.written_bytes),
            (&mut self.reads, o.reads),
            (&mut self.writes, o.writes),
            (&mut self.flushes, o.flushes),
            (&mut self.deallocates, o.deallocates),
            (&mut self.others, o.others),
            (&mut self.whole_writes, o.whole_writes),
            (&mut self.split_writes, o.split_writes),
            (&mut self.aligned_writes, o.aligned_writes),
            (&mut self.stalled_writes, o.stalled_writes),
            (&mut self.stalled_ns, o.stalled_ns),
            (&mut self.failed, o.failed),
            (&mut self.media_errors, o.media_errors),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        let mine = self.throttled.iter_mut().chain(&mut self.shared);
        for (mine, theirs) in mine.zip(o.throttled.into_iter().chain(o.shared)) {
            mine.sum(theirs);
        }
        self.read_latency.add(&o.read_latency);
        self.write_latency.add(&o.write_latency);
        self.flush_latency.add(&o.flush_latency);
        for of in &o.opcodes {
            self.of_opcode(of.opcode, of.class).add(&of.latency);
        }
    }

    /// Fills in the controller's part of the log page.
    pub fn fill(&self, page: &mut NamespaceStatistics) {
        page.host_bytes_read.set(self.read_bytes);
        page.host_bytes_written.set(self.written_bytes);
        page.host_read_commands.set(self.reads);
        page.host_write_commands.set(self.writes);
        page.host_flush_commands.set(self.flushes);
        page.host_deallocate_commands.set(self.deallocates);
        page.host_other_commands.set(self.others);
        page.whole_writes.set(self.whole_writes);
        page.split_writes.set(self.split_writes);
        page.aligned_writes.set(self.aligned_writes);
        page.stalled_write_commands.set(self.stalled_writes);
        page.stalled_write_ns.set(self.stalled_ns);
        let [reads, writes] = self.throttled;
        page.throttled_read_commands.set(reads.commands);
        page.throttled_read_ns.set(reads.ns);
        page.throttled_write_commands.set(writes.commands);
        page.throttled_write_ns.set(writes.ns);
        let [reads, writes] = self.shared;
        page.shared_read_commands.set(reads.commands);
        page.shared_read_ns.set(reads.ns);
        page.shared_write_commands.set(writes.commands);
        page.shared_write_ns.set(writes.ns);
        page.failed_commands.set(self.failed);
        for (class, histogram, sum) in [
            (LatencyClass::Read, &mut page.read_latency, &mut page.read_latency_sum),
            (LatencyClass::Write, &mut page.write_latency, &mut page.write_latency_sum),
            (LatencyClass::Flush, &mut page.flush_latency, &mut page.flush_latency_sum),
            (LatencyClass::Deallocate, &mut page.deallocate_latency, &mut page.deallocate_latency_sum),
        ] {
            self.of_class(class).fill(histogram, sum);
        }
    }
}

/// Fills in the translation layer's part of the log page.
pub(crate) fn fill_media(stats: &VolumeStats, page: &mut NamespaceStatistics) {
    page.host_bytes_deallocated.set(stats.trimmed_bytes);
    page.media_bytes_written_host.set(stats.media_host_bytes);
    page.media_bytes_written_gc.set(stats.media_gc_bytes);
    page.media_bytes_read_host.set(stats.media_read_bytes);
}

/// The counts of `now` that came after those of `base`.
pub(crate) fn since(now: &VolumeStats, base: &VolumeStats) -> VolumeStats {
    VolumeStats {
        host_read_bytes: now.host_read_bytes.saturating_sub(base.host_read_bytes),
        host_written_bytes: now.host_written_bytes.saturating_sub(base.host_written_bytes),
        media_host_bytes: now.media_host_bytes.saturating_sub(base.media_host_bytes),
        media_gc_bytes: now.media_gc_bytes.saturating_sub(base.media_gc_bytes),
        media_read_bytes: now.media_read_bytes.saturating_sub(base.media_read_bytes),
        trimmed_bytes: now.trimmed_bytes.saturating_sub(base.trimmed_bytes),
    }
}

/// The sum of both.
pub(crate) fn sum(a: &VolumeStats, b: &VolumeStats) -> VolumeStats {
    VolumeStats {
        host_read_bytes: a.host_read_bytes + b.host_read_bytes,
        host_written_bytes: a.host_written_bytes + b.host_written_bytes,
        media_host_bytes: a.media_host_bytes + b.media_host_bytes,
        media_gc_bytes: a.media_gc_bytes + b.media_gc_bytes,
        media_read_bytes: a.media_read_bytes + b.media_read_bytes,
        trimmed_bytes: a.trimmed_bytes + b.trimmed_bytes,
    }
}

/// Host traffic of a namespace, an Endurance Group or the drive over its whole life.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Traffic {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub media_errors: u64,
    pub unaligned: u64,
}

impl Traffic {
    /// The sum of both.
    #[must_use]
    pub fn and(self, o: Traffic) -> Traffic {
        Traffic {
            read_bytes: self.read_bytes + o.read_bytes,
            written_bytes: self.written_bytes + o.written_bytes,
            reads: self.reads + o.reads,
            writes: self.writes + o.writes,
            media_errors: self.media_errors + o.media_errors,
            unaligned: self.unaligned + o.unaligned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_whole_within_an_atomic_unit() {
        let mut s = NamespaceStats::default();
        s.count_atomicity(16384, 16384, 16384);
        s.count_atomicity(16384 + 512, 512, 16384);
        assert_eq!((s.whole_writes, s.split_writes, s.aligned_writes), (2, 0, 1));
        s.count_atomicity(8192, 16384, 16384);
        s.count_atomicity(0, 32768, 16384);
        assert_eq!((s.whole_writes, s.split_writes, s.aligned_writes), (2, 2, 2));
    }

    #[test]
    fn every_opcode_is_counted_once_and_belongs_to_its_class() {
        let (append, dsm, write) = (0x7D, 0x09, Some(LatencyClass::Write));
        let mut s = NamespaceStats::default();
        s.write_latency.record(Nanos(2000));
        s.record(append, write, Nanos(4000));
        s.record(append, write, Nanos(4000));
        s.record(dsm, Some(LatencyClass::Deallocate), Nanos(1));
        s.record(dsm, None, Nanos(1));
        let total = |latency: &Latency| latency.values().0.iter().sum::<u64>();
        let of_class = |s: &NamespaceStats, class| total(&s.of_class(class));
        assert_eq!(of_class(&s, LatencyClass::Write), 3);
        assert_eq!((of_class(&s, LatencyClass::Deallocate), of_class(&s, LatencyClass::Read)), (1, 0));
        assert_eq!(total(&s.write_latency), 1);
        let mut both = s.clone();
        both.add(&s);
        assert_eq!((of_class(&both, LatencyClass::Write), both.opcodes.len()), (6, 3));
    }

    #[test]
    fn latencies_add_up() {
        let mut a = Latency::default();
        a.record(Nanos(5));
        a.record(Nanos(100_000));
        let mut b = Latency::default();
        b.record(Nanos(u64::MAX));
        b.add(&a);
        assert_eq!(b.max, u64::MAX);
        assert_eq!(b.buckets.iter().sum::<u64>(), 3);
    }
}
