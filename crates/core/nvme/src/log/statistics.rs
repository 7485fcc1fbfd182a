//! Namespace Statistics: this drive's vendor specific log D8h.
//!
//! One page of 8,192 bytes per namespace, chosen by the NSID of Get Log Page; NSID FFFFFFFFh returns the sum
//! over all namespaces since power on, deleted ones included. All numbers are little endian and count since
//! the namespace was created or the drive was powered on, whichever was later. Those that say "now" are of the moment. Bytes are exact.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 2 | version of this layout: 1. Later versions only add fields in reserved places |
//! | 2 | 2 | histogram buckets: 194 |
//! | 4 | 4 | NSID (FFFFFFFFh for the sum) |
//! | 8 | 2 | NVM Set Identifier (0 for the sum) |
//! | 10 | 2 | Endurance Group Identifier (0 for the sum) |
//! | 12 | 4 | offset of the first histogram in this page: 512 |
//! | 16 | 8 | the drive's time at which the page was made, in nanoseconds since power on |
//! | 24 | 8 | reserved |
//! | 32 | 8 | host bytes read |
//! | 40 | 8 | host bytes written (Write; Write Zeroes moves none) |
//! | 48 | 8 | host Read commands |
//! | 56 | 8 | host Write commands |
//! | 64 | 8 | host Flush commands |
//! | 72 | 8 | host deallocating commands (Dataset Management with AD, Write Zeroes with DEAC) |
//! | 80 | 8 | other host commands on the namespace (Compare, Verify, Write Zeroes without DEAC, …) |
//! | 88 | 8 | bytes deallocated by the host |
//! | 96 | 8 | media bytes written for host data |
//! | 104 | 8 | media bytes written by garbage collection, wear levelling and refresh |
//! | 112 | 8 | media bytes written for metadata (mapping, journal, parity) charged to this namespace |
//! | 120 | 8 | media bytes read for the host |
//! | 128 | 8 | media bytes read by garbage collection, wear levelling and refresh |
//! | 136 | 8 | host bytes read that the write buffer answered, without media |
//! | 144 | 8 | host bytes overwritten in the write buffer before they reached the media |
//! | 152 | 8 | whole writes: Write commands that a power cut leaves whole or absent (within the atomic unit) |
//! | 160 | 8 | split writes: Write commands larger than the atomic unit or across its boundary |
//! | 168 | 8 | Write commands that waited for room in the write buffer |
//! | 176 | 8 | nanoseconds that those waited |
//! | 184 | 8 | Read commands held back by a quota |
//! | 192 | 8 | nanoseconds that those were held back |
//! | 200 | 8 | Write commands held back by a quota |
//! | 208 | 8 | nanoseconds that those were held back |
//! | 216 | 8 | commands that failed |
//! | 224 | 8 | aligned writes: Write commands that begin and end on a boundary of the atomic unit |
//! | 232 | 8 | commands that read and were held back so that other namespaces get their share |
//! | 240 | 8 | nanoseconds that those were held back |
//! | 248 | 8 | commands that write, likewise |
//! | 256 | 8 | nanoseconds that those were held back |
//! | 264 | 8 | commands on their way now; those that wait for their turn are not among them |
//! | 272 | 8 | commands that wait for their turn now (quota, others' shares) and read |
//! | 280 | 8 | commands that wait for their turn now and write |
//! | 288 | 32 | reserved |
//! | 320 | 64 | the quota in force: a [`Quota`](crate::quota::Quota); zero for the sum |
//! | 384 | 128 | reserved |
//! | 512 | 1552 | latency of Read: a [`LatencyHistogram`]'s buckets |
//! | 2064 | 1552 | latency of Write |
//! | 3616 | 1552 | latency of Flush |
//! | 5168 | 1552 | latency of deallocating commands |
//! | 6720 | 16 × 4 | for Read, Write, Flush, deallocate: sum and maximum of the latencies, ns (8 + 8 bytes) |
//! | 6784 | 1408 | reserved |
//!
//! Latency runs from the command's arrival at the controller to its completion, in the drive's time, and
//! counts commands that succeeded.

use crate::log::AnaState;
use crate::{U16, U32, U64};

wire! {
    /// Namespace Statistics (LID D8h). The module's documentation has the offsets.
    pub struct NamespaceStatistics[8192] {
        /// Version of this layout: [`NamespaceStatistics::VERSION`].
        pub version: U16,
        /// Number of buckets of each histogram: [`LATENCY_BUCKETS`].
        pub buckets: U16,
        /// Namespace Identifier; FFFFFFFFh for the sum of all.
        pub nsid: U32,
        /// NVM Set Identifier.
        pub nvmsetid: U16,
        /// Endurance Group Identifier.
        pub endgid: U16,
        /// Offset of the first histogram: 512.
        pub histogram_offset: U32,
        /// The drive's time, nanoseconds since power on.
        pub time_ns: U64,
        /// Reserved.
        pub rsvd24: [u8; 8],
        /// Host bytes read.
        pub host_bytes_read: U64,
        /// Host bytes written.
        pub host_bytes_written: U64,
        /// Host Read commands.
        pub host_read_commands: U64,
        /// Host Write commands.
        pub host_write_commands: U64,
        /// Host Flush commands.
        pub host_flush_commands: U64,
        /// Host deallocating commands.
        pub host_deallocate_commands: U64,
        /// Other host commands.
        pub host_other_commands: U64,
        /// Bytes deallocated by the host.
        pub host_bytes_deallocated: U64,
        /// Media bytes written for host data.
        pub media_bytes_written_host: U64,
        /// Media bytes written by garbage collection, wear levelling and refresh.
        pub media_bytes_written_gc: U64,
        /// Media bytes written for metadata charged to this namespace.
        pub media_bytes_written_metadata: U64,
        /// Media bytes read for the host.
        pub media_bytes_read_host: U64,
        /// Media bytes read by garbage collection, wear levelling and refresh.
        pub media_bytes_read_gc: U64,
        /// Host bytes read that the write buffer answered.
        pub buffer_bytes_read: U64,
        /// Host bytes overwritten in the write buffer before they reached the media.
        pub buffer_bytes_absorbed: U64,
        /// Write commands within the atomic unit.
        pub whole_writes: U64,
        /// Write commands larger than the atomic unit or across its boundary.
        pub split_writes: U64,
        /// Write commands that waited for room in the write buffer.
        pub stalled_write_commands: U64,
        /// Nanoseconds that those waited.
        pub stalled_write_ns: U64,
        /// Read commands held back by a quota.
        pub throttled_read_commands: U64,
        /// Nanoseconds that those were held back.
        pub throttled_read_ns: U64,
        /// Write commands held back by a quota.
        pub throttled_write_commands: U64,
        /// Nanoseconds that those were held back.
        pub throttled_write_ns: U64,
        /// Commands that failed.
        pub failed_commands: U64,
        /// Write commands that begin and end on a boundary of the atomic unit.
        pub aligned_writes: U64,
        /// Commands that read and were held back so that other namespaces get their share.
        pub shared_read_commands: U64,
        /// Nanoseconds that those were held back.
        pub shared_read_ns: U64,
        /// Commands that write, likewise.
        pub shared_write_commands: U64,
        /// Nanoseconds that those were held back.
        pub shared_write_ns: U64,
        /// Commands on their way now.
        pub in_flight: U64,
        /// Commands that wait for their turn now and read.
        pub held_reads: U64,
        /// Commands that wait for their turn now and write.
        pub held_writes: U64,
        /// Reserved.
        pub rsvd288: [u8; 32],
        /// The quota in force.
        pub quota: crate::quota::Quota,
        /// Reserved.
        pub rsvd384: [u8; 128],
        /// Latency of Read.
        pub read_latency: LatencyHistogram,
        /// Latency of Write.
        pub write_latency: LatencyHistogram,
        /// Latency of Flush.
        pub flush_latency: LatencyHistogram,
        /// Latency of deallocating commands.
        pub deallocate_latency: LatencyHistogram,
        /// Sum and maximum of the latencies of Read.
        pub read_latency_sum: LatencySum,
        /// Sum and maximum of the latencies of Write.
        pub write_latency_sum: LatencySum,
        /// Sum and maximum of the latencies of Flush.
        pub flush_latency_sum: LatencySum,
        /// Sum and maximum of the latencies of deallocating commands.
        pub deallocate_latency_sum: LatencySum,
        /// Reserved.
        pub rsvd6784: [u8; 1408],
    }

    /// An entry of the Controllers log (LID D9h, vendor specific).
    pub struct ControllerEntry[272] {
        /// Controller ID.
        pub cntlid: U16,
        /// Where the host comes from: 0 this process, 1 a Unix socket, 2 a network.
        pub origin: u8,
        /// Bit 0: ready for commands.
        pub flags: u8,
        /// Identifier of the port that the host comes through; 0 for this process.
        pub portid: U16,
        /// Asymmetric Namespace Access State on this controller.
        pub anas: AnaState,
        /// Reserved.
        pub rsvd7: [u8; 9],
        /// Host NQN.
        pub hostnqn: crate::nqn::NqnField,
    }

    /// Counts of latencies in log-linear buckets: 8 for every doubling from 1,024 ns to 2^34 ns (17.2 s), so
    /// that a bucket's bounds are within 12.5% of each other; one below, one above.
    ///
    /// Bucket 0 counts less than 1,024 ns. Bucket 1 + 8 o + s, for o of 0 to 23 and s of 0 to 7, counts from
    /// 2^(10+o) (1 + s/8) ns up to the next bucket's bound. Bucket 193 counts 2^34 ns and more.
    pub struct LatencyHistogram[1552] {
        /// The counts.
        pub count: [U64; LATENCY_BUCKETS],
    }

    /// Sum and maximum of latencies.
    pub struct LatencySum[16] {
        /// Sum in nanoseconds.
        pub sum_ns: U64,
        /// Maximum in nanoseconds.
        pub max_ns: U64,
    }
}
layout!(
    NamespaceStatistics, 8192,
    time_ns @ 16, host_bytes_read @ 32, host_bytes_deallocated @ 88, media_bytes_written_host @ 96,
    media_bytes_read_gc @ 128, whole_writes @ 152, throttled_read_commands @ 184, failed_commands @ 216, aligned_writes @ 224,
    shared_read_commands @ 232, in_flight @ 264, rsvd288 @ 288, quota @ 320, rsvd384 @ 384,
    read_latency @ 512, write_latency @ 2064, flush_latency @ 3616, deallocate_latency @ 5168,
    read_latency_sum @ 6720, deallocate_latency_sum @ 6768, rsvd6784 @ 6784,
);

/// Buckets of a [`LatencyHistogram`].
pub const LATENCY_BUCKETS: usize = 194;

/// Powers of two, in nanoseconds, between which an octave has eight buckets.
const FIRST_OCTAVE: u32 = 10;
const LAST_OCTAVE: u32 = 34;

/// The bucket that counts a latency of this many nanoseconds: 0 to 193.
#[must_use]
pub const fn latency_bucket(ns: u64) -> usize {
    if ns < 1 << FIRST_OCTAVE {
        0
    } else if ns >= 1 << LAST_OCTAVE {
        LATENCY_BUCKETS - 1
    } else {
        let octave = ns.ilog2();
        let sub = ns >> (octave - 3) & 7;
        // Both parts are small: at most 23 * 8 + 7.
        1 + ((octave - FIRST_OCTAVE) * 8) as usize + sub as usize
    }
}

/// The lowest latency in nanoseconds that a bucket counts; `u64::MAX` for bucket numbers beyond the last.
#[must_use]
pub const fn latency_bucket_low(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        1..LATENCY_BUCKETS => {
            let step = (bucket - 1) as u64;
            (8 + step % 8) << (FIRST_OCTAVE as u64 - 3 + step / 8)
        }
        _ => u64::MAX,
    }
}

impl NamespaceStatistics {
    /// Version of this layout.
    pub const VERSION: u16 = 1;

    /// An empty page with its constant fields filled in.
    #[must_use]
    pub fn new(nsid: crate::Nsid, nvmsetid: u16, endgid: u16) -> Self {
        Self {
            version: U16::new(Self::VERSION),
            buckets: U16::new(194),
            nsid: U32::new(nsid),
            nvmsetid: U16::new(nvmsetid),
            endgid: U16::new(endgid),
            histogram_offset: U32::new(512),
            ..Self::default()
        }
    }

    /// All media bytes written on this namespace's account.
    #[must_use]
    pub fn media_bytes_written(&self) -> u64 {
        self.media_bytes_written_host
            .get()
            .saturating_add(self.media_bytes_written_gc.get())
            .saturating_add(self.media_bytes_written_metadata.get())
    }
}

impl LatencyHistogram {
    /// The number of latencies counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.count.iter().fold(0, |sum, count| sum.saturating_add(count.get()))
    }

    /// What was counted since an earlier state of it.
    #[must_use]
    pub fn since(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let mut counted = *self;
        for (count, before) in counted.count.iter_mut().zip(&earlier.count) {
            count.set(count.get().saturating_sub(before.get()));
        }
        counted
    }

    /// The latency that `parts` of `whole` of the commands did not exceed (say 999 of 1000), as the upper
    /// bound of its bucket in nanoseconds; `None` when nothing was counted. The last bucket has no upper
    /// bound, which is [`u64::MAX`]: no latency is longer than the longest ([`LatencySum::max_ns`]).
    #[must_use]
    pub fn percentile(&self, parts: u32, whole: u32) -> Option<u64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = (u128::from(total) * u128::from(parts)).div_ceil(u128::from(whole.max(1))).max(1);
        let mut seen = 0u128;
        for (bucket, count) in self.count.iter().enumerate() {
            seen += u128::from(count.get());
            if seen >= rank {
                return Some(latency_bucket_low(bucket + 1));
            }
        }
        Some(u64::MAX)
    }
}
