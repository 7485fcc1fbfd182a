//! What requests took, where the load does not count that itself.

use anyhow::Result;
use hdrhistogram::Histogram;
use sim::{Nanos, Step};
use std::fmt::Write as _;
use workload::Verb;

use crate::bench::per_second;

use super::{
    jobs::Moved,
    load_document::{RequestLatency, Requested, Requests},
};
use lab_report::figure;

/// Names of what is counted.
const NAMES: [&str; 3] = ["read", "write", "trim"];

/// Latencies of reads, writes and trims.
pub(super) struct Tally {
    latencies: [Histogram<u64>; 3],
    flushes: Histogram<u64>,
    bytes: [u64; 3],
    /// Bytes of a logical block of each of the load's namespaces.
    blocks: Vec<u64>,
    start: Nanos,
}

impl Tally {
    pub fn new(blocks: Vec<u64>, start: Nanos) -> Result<Self> {
        let one = || Histogram::new_with_bounds(1, 1 << 42, 3);
        Ok(Self { latencies: [one()?, one()?, one()?], flushes: one()?, bytes: [0; 3], blocks, start })
    }

    /// A request has ended. Returns the bytes of a logical block of its namespace.
    #[inline]
    pub fn step(&mut self, step: &Step<'_>) -> u64 {
        let block = self.blocks.get(usize::from(step.request.namespace)).copied().unwrap_or(0);
        let index = match step.request.verb.plain() {
            Verb::Read => 0,
            Verb::Write => 1,
            Verb::Trim => 2,
            Verb::Flush => {
                if step.status.is_success() {
                    self.flushes.saturating_record(step.latency.0);
                }
                return block;
            }
            // A copy moves nothing between host and drive.
            _ => return block,
        };
        if step.status.is_success() {
            self.latencies[index].saturating_record(step.latency.0);
            self.bytes[index] += u64::from(step.request.blocks) * block;
        }
        block
    }

    /// The flushes, for people; nothing if there was none.
    pub fn flushes(&self) -> String {
        let all = &self.flushes;
        if all.is_empty() {
            return String::new();
        }
        format!(
            "  flush: {} I/Os; latency us: mean {}, p50 {}, p99 {}, max {}\n",
            all.len(),
            figure::show(all.mean() / 1e3),
            us(all.value_at_quantile(0.5)),
            us(all.value_at_quantile(0.99)),
            us(all.max()),
        )
    }

    /// All of it, at the end.
    pub fn moved(&self, now: Nanos) -> [Moved; 3] {
        std::array::from_fn(|index| {
            let latencies = &self.latencies[index];
            if latencies.is_empty() {
                return Moved::default();
            }
            Moved {
                ios: latencies.len(),
                bytes: self.bytes[index],
                nanos: now.since(self.start).0,
                mean: latencies.mean(),
                p50: latencies.value_at_quantile(0.5),
                p99: latencies.value_at_quantile(0.99),
                p999: latencies.value_at_quantile(0.999),
                max: latencies.max(),
            }
        })
    }
}

/// For people.
pub(super) fn text(moved: &[Moved; 3]) -> String {
    let mut out = String::new();
    for (name, m) in NAMES.iter().zip(moved).filter(|(_, m)| m.ios > 0) {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "  {name:<5}: {} I/Os, {} IOPS, {} MB/s; latency us: mean {}, p50 {}, p99 {}, p99.9 {}, max {}",
            m.ios,
            figure::show(per_second(m.ios, m.nanos)),
            figure::show(per_second(m.bytes, m.nanos) / 1e6),
            figure::show(m.mean / 1e3),
            us(m.p50),
            us(m.p99),
            us(m.p999),
            us(m.max),
        );
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn us(nanos: u64) -> String {
    figure::show(nanos as f64 / 1e3)
}

/// For programs.
pub(super) fn document(moved: &[Moved; 3]) -> Requests {
    let [read, write, trim] = moved.each_ref().map(|moved| Requested {
        ios: moved.ios,
        bytes: moved.bytes,
        iops: per_second(moved.ios, moved.nanos),
        bw_bytes: per_second(moved.bytes, moved.nanos),
        lat_ns: RequestLatency {
            mean: moved.mean,
            p50: moved.p50,
            p99: moved.p99,
            p999: moved.p999,
            max: moved.max,
        },
    });
    Requests { read, write, trim }
}
