//! What a drive's logs say at a moment, and what happened between two.

use anyhow::Result;
use host::{Host, Transport};
use lab_report::counters::{Counters, Latencies};
use nvme::log::LogId;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// SMART counts data in thousands of 512 bytes.
const UNIT: u128 = 512_000;

/// What a drive's logs say.
pub struct Sample {
    at: Instant,
    read_units: u128,
    written_units: u128,
    reads: u128,
    writes: u128,
    media_units: Option<u128>,
    kelvins: u16,
    spare: u8,
    used: u8,
    warning: u8,
    /// By NSID with the NVM Set, where the drive has log D8h.
    namespaces: Option<BTreeMap<u32, (u16, Counters)>>,
}

/// Which logs a drive has.
#[derive(Clone, Debug)]
pub struct Logs {
    statistics: bool,
    groups: Vec<u16>,
}

impl Logs {
    /// Asks the drive.
    pub fn of<T: Transport>(host: &mut Host<T>) -> Self {
        let has = |logs: &nvme::log::SupportedLogPages, id: LogId| logs.lid[usize::from(id.0)].lsupp();
        // A drive before NVMe 2.0 does not have the log that lists the others.
        let logs = host.supported_logs().ok();
        let statistics = logs.as_ref().is_some_and(|logs| has(logs, LogId::NAMESPACE_STATISTICS));
        let groups = match logs.is_some_and(|logs| has(&logs, LogId::ENDURANCE_GROUP)) {
            true => host.endurance_groups().unwrap_or_default(),
            false => Vec::new(),
        };
        Self { statistics, groups }
    }
}

impl Sample {
    /// Asks for the logs.
    ///
    /// # Errors
    /// The drive does not answer, or has no SMART log.
    pub fn take<T: Transport>(host: &mut Host<T>, logs: &Logs) -> Result<Self> {
        let smart = host.smart()?;
        let mut media_units = None;
        for group in &logs.groups {
            if let Ok(log) = host.endurance_group(*group) {
                media_units = Some(media_units.unwrap_or(0) + log.media_units_written.get());
            }
        }
        let namespaces = match logs.statistics {
            false => None,
            true => {
                let mut all = BTreeMap::new();
                for nsid in host.active_namespaces()? {
                    // It may go in between.
                    if let Ok(page) = host.namespace_statistics(nsid) {
                        all.insert(nsid, (page.nvmsetid.get(), Counters::new(&page)));
                    }
                }
                Some(all)
            }
        };
        Ok(Self {
            at: Instant::now(),
            read_units: smart.data_units_read.get(),
            written_units: smart.data_units_written.get(),
            reads: smart.host_read_commands.get(),
            writes: smart.host_write_commands.get(),
            media_units,
            kelvins: smart.composite_temperature.get(),
            spare: smart.avail_spare,
            used: smart.percentage_used,
            warning: smart.critical_warning.into_bits(),
            namespaces,
        })
    }
}

/// What one direction did in an interval.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, JsonSchema)]
pub struct Traffic {
    /// Bytes per second.
    #[schemars(extend("unit" = "bytes/s"))]
    pub bytes_per_second: f64,
    /// Commands per second.
    #[schemars(extend("unit" = "1/s"))]
    pub iops: f64,
    /// Latency that half of the commands did not exceed, as the bound of its bucket.
    #[schemars(extend("unit" = "ns", "null" = "none was carried out, or the logs of the whole drive do not say"))]
    pub p50_ns: Option<u64>,
    /// The same of 99 percent.
    #[schemars(extend("unit" = "ns", "null" = "none was carried out, or the logs of the whole drive do not say"))]
    pub p99_ns: Option<u64>,
}

/// An attached namespace that was there at the last look, too.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Namespace {
    /// Namespace Identifier.
    pub nsid: u32,
    /// NVM Set.
    pub nvm_set: u16,
    /// Reads.
    pub read: Traffic,
    /// Writes.
    pub write: Traffic,
    /// Media bytes written over host bytes written.
    #[schemars(extend("null" = "nothing was written"))]
    pub write_amplification: Option<f64>,
    /// How long commands were held back by quotas and for others' shares, in seconds for each second.
    pub held_back: f64,
    /// Commands that failed.
    #[schemars(extend("unit" = "1/s"))]
    pub failed: f64,
}

/// What a drive did in an interval. Each interval is a line.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Rates {
    /// Length of the interval.
    #[schemars(extend("unit" = "s"))]
    pub seconds: f64,
    /// Reads of the drive. Bytes are those of its namespaces; without log D8h they are multiples of 512,000.
    pub read: Traffic,
    /// Writes, likewise.
    pub write: Traffic,
    /// Media bytes written over host bytes written.
    #[schemars(extend("null" = "nothing was written, or the drive does not say"))]
    pub write_amplification: Option<f64>,
    /// Composite Temperature.
    #[schemars(extend("unit" = "K"))]
    pub temperature_k: u16,
    /// Available Spare.
    #[schemars(extend("unit" = "%"))]
    pub spare_percent: u8,
    /// Percentage Used.
    #[schemars(extend("unit" = "%"))]
    pub used_percent: u8,
    /// Critical Warning, bit by bit.
    pub critical_warning: u8,
    /// Namespaces that are attached to this host.
    #[schemars(extend("null" = "the drive has no log D8h"))]
    pub namespaces: Option<Vec<Namespace>>,
}

/// So many in a second.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn per_second(count: impl Into<u128>, seconds: f64) -> f64 {
    count.into() as f64 / seconds
}

impl Traffic {
    fn of(bytes: u64, commands: u64, latency: &Latencies, seconds: f64) -> Self {
        Self {
            bytes_per_second: per_second(bytes, seconds),
            iops: per_second(commands, seconds),
            p50_ns: latency.percentile_ns(50),
            p99_ns: latency.percentile_ns(99),
        }
    }
}

impl Namespace {
    /// From what was counted in so many seconds.
    fn of(nsid: u32, nvm_set: u16, counted: &Counters, seconds: f64) -> Self {
        let Counters { host_bytes_read, host_bytes_written, reads, writes, held_back_ns, failed, .. } =
            *counted;
        Self {
            nsid,
            nvm_set,
            read: Traffic::of(host_bytes_read, reads, &counted.read_latency, seconds),
            write: Traffic::of(host_bytes_written, writes, &counted.write_latency, seconds),
            write_amplification: counted.write_amplification(),
            held_back: per_second(held_back_ns, seconds) / 1e9,
            failed: per_second(failed, seconds),
        }
    }
}

impl Rates {
    /// What happened between two samples.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        let least = Duration::from_millis(1);
        let seconds = after.at.duration_since(before.at).max(least).as_secs_f64();
        // A count that began anew says nothing of the interval.
        let since = |of: fn(&Sample) -> u128| of(after).saturating_sub(of(before));
        let traffic = |units: u128, commands: u128| Traffic {
            bytes_per_second: per_second(units * UNIT, seconds),
            iops: per_second(commands, seconds),
            ..Traffic::default()
        };
        let mut read = traffic(since(|it| it.read_units), since(|it| it.reads));
        let mut write = traffic(since(|it| it.written_units), since(|it| it.writes));
        let media = before.media_units.and(after.media_units);
        let media = media.map(|_| per_second(since(|it| it.media_units.unwrap_or(0)) * UNIT, seconds));
        let mut write_amplification =
            media.filter(|_| write.bytes_per_second > 0.0).map(|media| media / write.bytes_per_second);
        let mut namespaces = None;
        // Exact bytes, where there are any.
        if let (Some(before), Some(after)) = (&before.namespaces, &after.namespaces) {
            let mut total = Counters::default();
            let mut all = Vec::new();
            for (nsid, (set, now)) in after {
                let Some((_, earlier)) = before.get(nsid) else { continue };
                let counted = now.since(earlier);
                all.push(Namespace::of(*nsid, *set, &counted, seconds));
                total.merge(&counted);
            }
            read.bytes_per_second = per_second(total.host_bytes_read, seconds);
            write.bytes_per_second = per_second(total.host_bytes_written, seconds);
            write_amplification = total.write_amplification();
            namespaces = Some(all);
        }
        Self {
            seconds,
            read,
            write,
            write_amplification,
            temperature_k: after.kelvins,
            spare_percent: after.spare,
            used_percent: after.used,
            critical_warning: after.warning,
            namespaces,
        }
    }
}
