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

/// Bytes of SMART's unit for host traffic.
const DATA_UNIT_BYTES: u64 = 512_000;

/// Bytes over the drive's life. The exact count restarts at power-on; SMART's data units survive it, rounded up.
#[derive(Default)]
struct LifetimeBytes {
    total: u64,
    since_power_on: u64,
}

impl LifetimeBytes {
    /// The bytes so far. `restarted`: the drive has lost its power since the last update.
    fn update(&mut self, since_power_on: u64, data_units: u128, restarted: bool) -> u64 {
        let bytes = |units: u128| u64::try_from(units).unwrap_or(u64::MAX).saturating_mul(DATA_UNIT_BYTES);
        if bytes(data_units) < self.total {
            // SMART never decreases: this is another drive at the same address.
            *self = LifetimeBytes::default();
        }
        let base = if restarted { 0 } else { self.since_power_on };
        self.total = self.total.saturating_add(since_power_on.saturating_sub(base));
        // Traffic that no sample has seen is known from SMART alone.
        self.total = self.total.max(bytes(data_units.saturating_sub(1)));
        self.since_power_on = since_power_on;
        self.total
    }
}

/// Takes samples, one after the other.
#[derive(Default)]
pub(crate) struct Sampler {
    counted: BTreeMap<Nsid, Counted>,
    /// The drive's time since power on when the last sample was taken.
    powered_ns: u64,
    read: LifetimeBytes,
    written: LifetimeBytes,
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
        let restarted = powered_ns < self.powered_ns;
        if restarted {
            self.forget();
        }
        self.powered_ns = powered_ns;
        let (host_read, host_written) = (all.host_bytes_read.get(), all.host_bytes_written.get());
        let lifetime_read = self.read.update(host_read, smart.data_units_read.get(), restarted);
        let lifetime_written = self.written.update(host_written, smart.data_units_written.get(), restarted);
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
                "host_read": host_read,
                "host_written": host_written,
                "lifetime_read": lifetime_read,
                "lifetime_written": lifetime_written,
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
    fn lifetime_bytes_survive_a_power_cut_and_are_exact_while_samples_see_all() {
        let mut bytes = LifetimeBytes::default();
        assert_eq!(bytes.update(700_000, 2, false), 700_000);
        assert_eq!(bytes.update(900_000, 2, false), 900_000);
        assert_eq!(bytes.update(0, 2, true), 900_000);
        assert_eq!(bytes.update(300_000, 3, false), 1_200_000);
        // Two power cycles without a sample: SMART has more.
        assert_eq!(bytes.update(100, 9, true), 8 * DATA_UNIT_BYTES);
        assert_eq!(bytes.update(200, 9, false), 8 * DATA_UNIT_BYTES + 100);
        // A new drive in the place of the old one.
        assert_eq!(bytes.update(50, 1, true), 50);
    }

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
