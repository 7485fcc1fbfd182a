//! What changes all the time: counts of the drive and its namespaces.

use crate::state::{optional, sets};
use host::view::ActiveFault;
use host::{Error, Host, Transport};
use nvme::log::{DieTimesEntry, LatencyHistogram, NamespaceStatistics};
use nvme::{NSID_ALL, Nsid};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Latencies of a namespace, as they were counted when the last sample was taken.
#[derive(Clone, Copy)]
struct Counted {
    read: LatencyHistogram,
    write: LatencyHistogram,
}

/// Latencies: how many commands, and percentiles of those since the sample before.
fn latency(now: &LatencyHistogram, before: Option<&LatencyHistogram>) -> Value {
    let lately = before.map(|before| now.since(before));
    let percentile = |parts| lately.as_ref().and_then(|lately| lately.percentile(parts, 1000));
    json!({ "count": now.total(), "p50": percentile(500), "p99": percentile(990), "p999": percentile(999) })
}

fn namespace(log: &NamespaceStatistics, before: Option<&Counted>) -> Value {
    let sum = |a: nvme::U64, b: nvme::U64| a.get().saturating_add(b.get());
    json!({
        "nsid": log.nsid.get(),
        "reads": log.host_read_commands.get(),
        "writes": log.host_write_commands.get(),
        "read": log.host_bytes_read.get(),
        "written": log.host_bytes_written.get(),
        "media_written": log.media_bytes_written(),
        "read_latency": latency(&log.read_latency, before.map(|before| &before.read)),
        "write_latency": latency(&log.write_latency, before.map(|before| &before.write)),
        "throttled_ns": sum(log.throttled_read_ns, log.throttled_write_ns),
        "shared_ns": sum(log.shared_read_ns, log.shared_write_ns),
        "in_flight": log.in_flight.get(),
        "queued": sum(log.held_reads, log.held_writes),
    })
}

fn die(times: &DieTimesEntry) -> Value {
    json!([times.read_ns.get(), times.program_ns.get(), times.erase_ns.get()])
}

/// Takes samples, one after the other.
#[derive(Default)]
pub(crate) struct Sampler {
    counted: BTreeMap<Nsid, Counted>,
    /// The drive's time since power on when the last sample was taken.
    powered_ns: u64,
}

impl Sampler {
    /// What was counted before is no longer compared with.
    pub fn forget(&mut self) {
        self.counted.clear();
    }

    /// A sample. Percentiles are of the time since the one before. `at_ns` is when it is taken, since the view or the run began.
    pub fn sample<T: Transport>(&mut self, host: &mut Host<T>, at_ns: u64) -> Result<Value, Error> {
        let smart = host.smart()?;
        let (mut erased, mut collections) = (0u64, 0u64);
        let mut dies = serde_json::Map::new();
        for header in sets(host)?.into_iter().filter_map(|(_, header)| header) {
            erased += header.erases.get();
            collections += header.collections.get();
            let set = header.nvmsetid.get();
            let times = optional(host.die_times(set))?.unwrap_or_default();
            if !times.is_empty() {
                dies.insert(set.to_string(), times.iter().map(die).collect());
            }
        }
        let nsids = host.allocated_namespaces()?;
        let mut logs = Vec::new();
        for nsid in nsids {
            // Others may delete it in between.
            logs.extend(optional(host.namespace_statistics(nsid))?);
        }
        let faults = optional(host.injected_faults())?.map(|(_, faults)| faults).unwrap_or_default();
        let faults: Vec<ActiveFault> = faults.iter().map(ActiveFault::from).collect();
        // Last, so that it has all that the others have.
        let all = host.namespace_statistics(NSID_ALL)?;
        let powered_ns = all.time_ns.get();
        if powered_ns < self.powered_ns {
            // Counts began anew.
            self.forget();
        }
        self.powered_ns = powered_ns;
        let namespaces: Vec<Value> =
            logs.iter().map(|log| namespace(log, self.counted.get(&log.nsid.get()))).collect();
        self.counted = logs
            .iter()
            .map(|log| (log.nsid.get(), Counted { read: log.read_latency, write: log.write_latency }))
            .collect();
        Ok(json!({
            "at_ns": at_ns,
            "power_on_ns": powered_ns,
            "drive": {
                "host_read": all.host_bytes_read.get(),
                "host_written": all.host_bytes_written.get(),
                "media_written": all.media_bytes_written(),
                "media_erased_blocks": erased,
                "collections": collections,
                "temperature_k": smart.composite_temperature.get(),
                "spare_percent": smart.avail_spare,
                "used_percent": smart.percentage_used,
            },
            "dies": dies,
            "faults": faults,
            "namespaces": namespaces,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_commands_since_the_sample_before() {
        let mut now = LatencyHistogram::default();
        now.count[1].set(1000);
        let none = latency(&now, None);
        assert_eq!((none["count"].as_u64(), none["p50"].is_null()), (Some(1000), true));
        let before = now;
        assert!(latency(&now, Some(&before))["p99"].is_null(), "nothing has ended since");
        now.count[9].set(100);
        let later = latency(&now, Some(&before));
        assert_eq!(later["count"], 1100);
        // The upper bound of the bucket that begins at 2,048 ns, though most commands were faster.
        assert_eq!(later["p50"], 2304);
    }
}
