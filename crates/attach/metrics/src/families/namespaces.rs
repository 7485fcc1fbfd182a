//! Metrics of namespaces. Counts are since the namespace was created or the drive was powered on, whichever was later.

use super::BaseUnit::{Bytes, BytesPerSecond, None, Ratio, Seconds};
use super::Kind::{Counter, Gauge, Histogram, Info};
use super::{Family, Samples, Value, seconds};
use live::{CommandLatency, Held, NamespaceSnapshot, Snapshot};
use nvme::IoOpcode;
use nvme::log::{LATENCY_BUCKETS, latency_bucket_low};

const NSID: &[&str] = &["nsid"];
const DIRECTION: &[&str] = &["nsid", "direction"];
const REASON: &[&str] = &["nsid", "direction", "reason"];
const OPCODE: &[&str] = &["nsid", "opcode"];
const DIRECTIONS: [&str; 2] = ["read", "write"];

/// Buckets of the drive that end where one of a metric does. The drive has 8 for every doubling from 1,024 ns to 2^34 ns. Here there are 2 for
/// every doubling up to 2^24 ns (16.8 ms), then 1.
fn ends() -> impl Iterator<Item = usize> {
    let is_end = |bucket: &usize| {
        let (octave, step) = ((bucket - 1) / 8, (bucket - 1) % 8);
        step == 0 || (step == 4 && octave < 14)
    };
    (1..LATENCY_BUCKETS).filter(is_end)
}

/// The buckets of a metric, with their upper bounds in seconds.
fn histogram(of: &CommandLatency) -> Value {
    let mut buckets = Vec::new();
    let mut first = 0;
    for end in ends() {
        let count = of.buckets.get(first..end).unwrap_or_default().iter().sum();
        buckets.push((seconds(latency_bucket_low(end)), count));
        first = end;
    }
    buckets.push((f64::INFINITY, of.buckets.get(first..).unwrap_or_default().iter().sum()));
    Value::Histogram(seconds(of.sum_ns), buckets)
}

/// Name of an I/O command as a label: `write_zeroes`.
fn opcode(of: &CommandLatency) -> String {
    let name = IoOpcode(of.opcode).to_string();
    name.to_lowercase().replace("i/o", "io").replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn each(s: &Snapshot, mut with: impl FnMut(&NamespaceSnapshot)) {
    s.drive.namespaces.iter().for_each(&mut with);
}

fn counts(s: &Snapshot, out: &mut Samples, count: fn(&NamespaceSnapshot) -> u64) {
    each(s, |ns| out.count(&[&ns.nsid], count(ns)));
}

/// What was held, by direction and reason.
fn held(s: &Snapshot, mut with: impl FnMut(&[&dyn ToString], Held)) {
    each(s, |ns| {
        for (index, direction) in DIRECTIONS.iter().enumerate() {
            with(&[&ns.nsid, direction, &"quota"], ns.throttled[index]);
            with(&[&ns.nsid, direction, &"share"], ns.shared[index]);
        }
    });
}

pub(super) const FAMILIES: &[Family] = &[
    Family::new(
        "namespace",
        Info,
        None,
        &["nsid", "set", "block_bytes", "zoned"],
        "Namespaces, each with its NVM Set and the bytes of its logical blocks",
        |s, out| {
            each(s, |ns| {
                let zoned = ns.zones.is_some();
                out.add(&[&ns.nsid, &ns.set, &ns.block_bytes, &zoned], Value::Info);
            });
        },
    ),
    Family::new("namespace_size", Gauge, Bytes, NSID, "Size of the namespace", |s, out| {
        each(s, |ns| out.gauge(&[&ns.nsid], ns.bytes));
    }),
    Family::new("namespace_read", Counter, Bytes, NSID, "Bytes that hosts read", |s, out| {
        counts(s, out, |ns| ns.read_bytes);
    }),
    Family::new("namespace_written", Counter, Bytes, NSID, "Bytes that hosts wrote", |s, out| {
        counts(s, out, |ns| ns.written_bytes);
    }),
    Family::new("namespace_deallocated", Counter, Bytes, NSID, "Bytes that hosts deallocated", |s, out| {
        counts(s, out, |ns| ns.media.trimmed_bytes);
    }),
    Family::new("namespace_commands", Counter, None, OPCODE, "Commands that succeeded", |s, out| {
        each(s, |ns| {
            ns.commands.iter().for_each(|of| out.count(&[&ns.nsid, &opcode(of)], of.commands()));
        });
    }),
    Family::new(
        "namespace_command_latency",
        Histogram,
        Seconds,
        OPCODE,
        "Latency of commands that succeeded, in the drive's time: from arrival at the controller to completion",
        |s, out| {
            each(s, |ns| {
                ns.commands.iter().for_each(|of| out.add(&[&ns.nsid, &opcode(of)], histogram(of)));
            });
        },
    ),
    Family::new(
        "namespace_command_latency_max",
        Gauge,
        Seconds,
        OPCODE,
        "The longest of these latencies",
        |s, out| {
            each(s, |ns| {
                ns.commands.iter().for_each(|of| out.seconds(&[&ns.nsid, &opcode(of)], of.max_ns));
            });
        },
    ),
    Family::new("namespace_failed_commands", Counter, None, NSID, "Commands that failed", |s, out| {
        counts(s, out, |ns| ns.failed);
    }),
    Family::new(
        "namespace_media_errors",
        Counter,
        None,
        NSID,
        "Media and data integrity errors",
        |s, out| {
            counts(s, out, |ns| ns.media_errors);
        },
    ),
    Family::new(
        "namespace_media_written",
        Counter,
        Bytes,
        &["nsid", "cause"],
        "Bytes written to the medium: for the host's data, and by garbage collection for which the namespace is charged",
        |s, out| {
            each(s, |ns| {
                out.count(&[&ns.nsid, &"host"], ns.media.media_host_bytes);
                out.count(&[&ns.nsid, &"collection"], ns.media.media_gc_bytes);
            });
        },
    ),
    Family::new(
        "namespace_media_read",
        Counter,
        Bytes,
        NSID,
        "Bytes read from the medium for hosts",
        |s, out| {
            counts(s, out, |ns| ns.media.media_read_bytes);
        },
    ),
    Family::new(
        "namespace_write_amplification",
        Gauge,
        Ratio,
        NSID,
        "Bytes written to the medium for each that hosts wrote; rates of the counters tell it for a span",
        |s, out| {
            each(s, |ns| {
                let media = ns.media.media_host_bytes + ns.media.media_gc_bytes;
                out.quotient(&[&ns.nsid], media, ns.written_bytes);
            });
        },
    ),
    Family::new(
        "namespace_commands_in_flight",
        Gauge,
        None,
        NSID,
        "Commands on their way; those that are held are not among them",
        |s, out| each(s, |ns| out.gauge(&[&ns.nsid], ns.in_flight.into())),
    ),
    Family::new(
        "namespace_commands_held",
        Gauge,
        None,
        DIRECTION,
        "Commands that wait for their quota or their share",
        |s, out| {
            each(s, |ns| {
                for (direction, held) in DIRECTIONS.iter().zip(ns.held) {
                    out.gauge(&[&ns.nsid, direction], held);
                }
            });
        },
    ),
    Family::new(
        "namespace_throttled_commands",
        Counter,
        None,
        REASON,
        "Commands that were held back: by the quota, or so that other namespaces get their share",
        |s, out| held(s, |labels, held| out.count(labels, held.commands)),
    ),
    Family::new(
        "namespace_throttled",
        Counter,
        Seconds,
        REASON,
        "Time that these commands were held",
        |s, out| {
            held(s, |labels, held| out.seconds(labels, held.ns));
        },
    ),
    Family::new(
        "namespace_stalled_writes",
        Counter,
        None,
        NSID,
        "Writes that waited for room in the write buffer",
        |s, out| counts(s, out, |ns| ns.stalled.commands),
    ),
    Family::new("namespace_stalled", Counter, Seconds, NSID, "Latency of these writes, summed", |s, out| {
        each(s, |ns| out.seconds(&[&ns.nsid], ns.stalled.ns));
    }),
    Family::new(
        "namespace_quota_bandwidth",
        Gauge,
        BytesPerSecond,
        DIRECTION,
        "Limit of bandwidth by the quota in force; absent without",
        |s, out| {
            each(s, |ns| {
                let limits = [ns.quota.read_bandwidth, ns.quota.write_bandwidth];
                for (direction, limit) in DIRECTIONS.iter().zip(limits) {
                    limit.into_iter().for_each(|limit| out.gauge(&[&ns.nsid, direction], limit));
                }
            });
        },
    ),
    Family::new(
        "namespace_quota_commands_per_second",
        Gauge,
        None,
        DIRECTION,
        "Limit of commands by the quota in force; absent without",
        |s, out| {
            each(s, |ns| {
                let limits = [ns.quota.read_commands, ns.quota.write_commands];
                for (direction, limit) in DIRECTIONS.iter().zip(limits) {
                    limit.into_iter().for_each(|limit| out.gauge(&[&ns.nsid, direction], limit));
                }
            });
        },
    ),
    Family::new(
        "namespace_zones",
        Gauge,
        None,
        &["nsid", "state"],
        "Zones in this state, of a zoned namespace",
        |s, out| {
            each(s, |ns| {
                let Some(zones) = &ns.zones else { return };
                for (state, count) in [
                    ("empty", zones.empty),
                    ("implicitly_opened", zones.implicitly_opened),
                    ("explicitly_opened", zones.explicitly_opened),
                    ("closed", zones.closed),
                    ("full", zones.full),
                    ("read_only", zones.read_only),
                    ("offline", zones.offline),
                ] {
                    out.gauge(&[&ns.nsid, &state], count.into());
                }
            });
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_metrics_are_whole_buckets_of_the_drive() {
        let counted = CommandLatency {
            opcode: 2,
            buckets: (0..LATENCY_BUCKETS as u64).collect(),
            sum_ns: 1_500_000_000,
            max_ns: 1,
        };
        let Value::Histogram(sum, buckets) = histogram(&counted) else { panic!() };
        assert_eq!(sum, 1.5);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), counted.commands());
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0), "{buckets:?}");
        assert_eq!(buckets[0], (1.024e-6, 0));
        // From 1,024 ns to 1,536 ns: the drive's buckets 1 to 4.
        assert_eq!(buckets[1], (1.536e-6, 1 + 2 + 3 + 4));
        let last = buckets.len() - 1;
        assert_eq!(buckets[last], (f64::INFINITY, LATENCY_BUCKETS as u64 - 1));
        assert_eq!((buckets[last - 1].0, buckets.len()), (17.179869184, 40));
    }

    #[test]
    fn labels_of_opcodes_are_words() {
        let label = |opcode_of: u8| {
            opcode(&CommandLatency { opcode: opcode_of, buckets: Vec::new(), sum_ns: 0, max_ns: 0 })
        };
        assert_eq!(label(0x02), "read");
        assert_eq!(label(0x08), "write_zeroes");
        assert_eq!(label(0x12), "io_management_receive");
        assert_eq!(label(0x7D), "zone_append");
    }
}
