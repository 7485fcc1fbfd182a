//! Logs of the specification, and Namespace Statistics (log D8h).

use super::namespaces::ListedNsid;
use nvme::Nsid;
use nvme::log::{
    AnaGroup, EnduranceGroup, ErrorInformation, LatencyHistogram, LatencySum, LidSupported,
    NamespaceStatistics, SmartHealth, SupportedLogPages, latency_bucket_low,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

view! {
    /// The keys of `nvme smart-log` (nvme-cli 2).
    SmartLog(s: SmartHealth) {
        /// Critical Warning.
        critical_warning: u8 = s.critical_warning.into_bits(),
        /// Composite Temperature in kelvins.
        #[schemars(extend("unit" = "K"))]
        temperature: u16 = s.composite_temperature.get(),
        /// Available Spare in percent.
        #[schemars(extend("unit" = "%"))]
        avail_spare: u8 = s.avail_spare,
        /// Available Spare Threshold in percent.
        #[schemars(extend("unit" = "%"))]
        spare_thresh: u8 = s.spare_threshold,
        /// Percentage Used: may exceed 100, 255 at most.
        #[schemars(extend("unit" = "%"))]
        percent_used: u8 = s.percentage_used,
        /// Endurance Group Critical Warning Summary.
        endurance_grp_critical_warning_summary: u8 = s.endgrp_critical_warning.into_bits(),
        /// Data Units Read, in thousands of 512 bytes, rounded up.
        #[schemars(extend("unit" = "512000 bytes"))]
        data_units_read: u128 = s.data_units_read.get(),
        /// Data Units Written, in thousands of 512 bytes, rounded up.
        #[schemars(extend("unit" = "512000 bytes"))]
        data_units_written: u128 = s.data_units_written.get(),
        /// Host Read Commands.
        host_read_commands: u128 = s.host_read_commands.get(),
        /// Host Write Commands.
        host_write_commands: u128 = s.host_write_commands.get(),
        /// Controller Busy Time in minutes.
        #[schemars(extend("unit" = "min"))]
        controller_busy_time: u128 = s.controller_busy_time.get(),
        /// Power Cycles.
        power_cycles: u128 = s.power_cycles.get(),
        /// Power On Hours.
        #[schemars(extend("unit" = "h"))]
        power_on_hours: u128 = s.power_on_hours.get(),
        /// Unexpected Power Losses.
        unsafe_shutdowns: u128 = s.unexpected_power_losses.get(),
        /// Media and Data Integrity Errors.
        media_errors: u128 = s.media_errors.get(),
        /// Number of Error Information Log Entries over the life of the controller.
        num_err_log_entries: u128 = s.num_err_log_entries.get(),
        /// Warning Composite Temperature Time in minutes.
        #[schemars(extend("unit" = "min"))]
        warning_temp_time: u32 = s.warning_temp_time.get(),
        /// Critical Composite Temperature Time in minutes.
        #[schemars(extend("unit" = "min"))]
        critical_comp_time: u32 = s.critical_temp_time.get(),
        /// Temperature Sensor 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_1: Option<u16> = sensor(s, 0),
        /// Temperature Sensor 2.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_2: Option<u16> = sensor(s, 1),
        /// Temperature Sensor 3.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_3: Option<u16> = sensor(s, 2),
        /// Temperature Sensor 4.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_4: Option<u16> = sensor(s, 3),
        /// Temperature Sensor 5.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_5: Option<u16> = sensor(s, 4),
        /// Temperature Sensor 6.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_6: Option<u16> = sensor(s, 5),
        /// Temperature Sensor 7.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_7: Option<u16> = sensor(s, 6),
        /// Temperature Sensor 8.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "K", "absent" = "the drive does not have the sensor"))]
        temperature_sensor_8: Option<u16> = sensor(s, 7),
        /// Thermal Management Temperature 1 Transition Count.
        thm_temp1_trans_count: u32 = s.thermal_transitions[0].get(),
        /// Thermal Management Temperature 2 Transition Count.
        thm_temp2_trans_count: u32 = s.thermal_transitions[1].get(),
        /// Total Time For Thermal Management Temperature 1.
        #[schemars(extend("unit" = "s"))]
        thm_temp1_total_time: u32 = s.thermal_time[0].get(),
        /// Total Time For Thermal Management Temperature 2.
        #[schemars(extend("unit" = "s"))]
        thm_temp2_total_time: u32 = s.thermal_time[1].get(),
    }
}

view! {
    /// The keys of `nvme endurance-log` (nvme-cli 2).
    EnduranceLog(e: EnduranceGroup) {
        /// Critical Warning.
        critical_warning: u8 = e.critical_warning.into_bits(),
        /// Endurance Group Features: bit 0 Endurance Group Reserved Media (rotational) Support.
        endurance_group_features: u8 = e.egfeat,
        /// Available Spare in percent.
        #[schemars(extend("unit" = "%"))]
        avl_spare: u8 = e.avail_spare,
        /// Available Spare Threshold in percent.
        #[schemars(extend("unit" = "%"))]
        avl_spare_threshold: u8 = e.spare_threshold,
        /// Percentage Used: may exceed 100, 255 at most.
        #[schemars(extend("unit" = "%"))]
        percent_used: u8 = e.percentage_used,
        /// Domain Identifier.
        domain_identifier: u16 = e.did.get(),
        /// Endurance Estimate: total 10^9 bytes that may be written at a write amplification of 1.
        #[schemars(extend("unit" = "GB"))]
        endurance_estimate: u128 = e.endurance_estimate.get(),
        /// Data Units Read by hosts.
        #[schemars(extend("unit" = "GB"))]
        data_units_read: u128 = e.data_units_read.get(),
        /// Data Units Written by hosts.
        #[schemars(extend("unit" = "GB"))]
        data_units_written: u128 = e.data_units_written.get(),
        /// Media Units Written, by hosts and by the controller.
        #[schemars(extend("unit" = "GB"))]
        media_units_written: u128 = e.media_units_written.get(),
        /// Host Read Commands.
        host_read_cmds: u128 = e.host_read_commands.get(),
        /// Host Write Commands.
        host_write_cmds: u128 = e.host_write_commands.get(),
        /// Media and Data Integrity Errors.
        media_data_integrity_err: u128 = e.media_errors.get(),
        /// Number of Error Information Log Entries.
        num_err_info_log_entries: u128 = e.num_err_log_entries.get(),
        /// Total Endurance Group Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        total_end_grp_cap: u128 = e.tegcap.get(),
        /// Unallocated Endurance Group Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        unalloc_end_grp_cap: u128 = e.uegcap.get(),
    }
}

view! {
    /// One entry of `nvme error-log`.
    ErrorEntry(e: ErrorInformation) {
        error_count: u64 = e.error_count.get(),
        sqid: u16 = e.sqid.get(),
        cmdid: u16 = e.cmdid.get(),
        status_field: u16 = e.status_info.get() >> 1,
        phase_tag: u16 = e.status_info.get() & 1,
        parm_error_location: u16 = e.pel.get(),
        lba: u64 = e.lba.get(),
        nsid: u32 = e.nsid.get(),
        vs: u8 = e.vsia,
        trtype: u8 = e.trtype,
        cs: u64 = e.cs.get(),
        trtype_spec_info: u16 = e.ttsi.get(),
    }
}

/// `nvme error-log`.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorLog {
    errors: Vec<ErrorEntry>,
}

impl ErrorLog {
    /// The log with these entries.
    #[must_use]
    pub fn new(entries: &[ErrorInformation]) -> Self {
        Self { errors: entries.iter().map(ErrorEntry::from).collect() }
    }
}

/// The keys of `nvme ana-log` (nvme-cli 2).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AnaLog {
    /// Change Count.
    chgcnt: u64,
    /// ANA Groups.
    ngrps: u16,
    /// The groups. The key ends with a blank.
    #[serde(rename = "ANA DESC LIST ")]
    groups: Vec<ListedAnaGroup>,
}

/// A group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ListedAnaGroup {
    /// ANA Group Identifier.
    grpid: u32,
    /// Namespaces in it.
    nnsids: u32,
    /// Change Count.
    chgcnt: u64,
    /// Asymmetric Namespace Access state.
    state: String,
    /// Its namespaces.
    #[serde(rename = "NSIDS")]
    nsids: Vec<ListedNsid>,
}

impl From<&crate::AnaLog> for AnaLog {
    fn from(log: &crate::AnaLog) -> Self {
        let group = |(group, nsids): &(AnaGroup, Vec<Nsid>)| ListedAnaGroup {
            grpid: group.agid.get(),
            nnsids: group.nnv.get(),
            chgcnt: group.chngcnt.get(),
            state: group.anas.to_string(),
            nsids: nsids.iter().map(|nsid| ListedNsid { nsid: *nsid }).collect(),
        };
        Self {
            chgcnt: log.header.chngcnt.get(),
            ngrps: log.header.nagd.get(),
            groups: log.groups.iter().map(group).collect(),
        }
    }
}

/// The keys of `nvme supported-log-pages` (nvme-cli 2).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SupportedLogs {
    /// The log pages.
    supported_logs: Vec<SupportedLog>,
}

/// A log page: one key, which is lid_0x, the log identifier in hexadecimal digits and a blank; its value has the bits of the LID
/// Supported and Effects data structure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(extend("propertyNames" = { "pattern": "^lid_0x[0-9a-f]{1,2} $" }, "minProperties" = 1, "maxProperties" = 1))]
struct SupportedLog(BTreeMap<String, u32>);

impl From<&SupportedLogPages> for SupportedLogs {
    fn from(log: &SupportedLogPages) -> Self {
        let supported = log.lid.iter().enumerate().filter(|(_, lid)| lid.lsupp());
        // The key has this blank in nvme-cli.
        let entry = |(lid, bits): (usize, &LidSupported)| {
            SupportedLog([(format!("lid_0x{lid:x} "), bits.into_bits().get())].into())
        };
        Self { supported_logs: supported.map(entry).collect() }
    }
}

view! {
    /// Namespace Statistics, log D8h ([vendor.md](vendor.md)).
    Statistics(s: NamespaceStatistics) {
        /// Namespace Identifier; FFFFFFFFh for the sum of all.
        nsid: u32 = s.nsid.get(),
        /// NVM Set Identifier.
        nvmsetid: u16 = s.nvmsetid.get(),
        /// Endurance Group Identifier.
        endgid: u16 = s.endgid.get(),
        /// The drive's time, nanoseconds since power on.
        #[schemars(extend("unit" = "ns"))]
        time_ns: u64 = s.time_ns.get(),
        /// Host bytes read.
        #[schemars(extend("unit" = "bytes"))]
        host_bytes_read: u64 = s.host_bytes_read.get(),
        /// Host bytes written.
        #[schemars(extend("unit" = "bytes"))]
        host_bytes_written: u64 = s.host_bytes_written.get(),
        /// Host Read commands.
        host_read_commands: u64 = s.host_read_commands.get(),
        /// Host Write commands.
        host_write_commands: u64 = s.host_write_commands.get(),
        /// Host Flush commands.
        host_flush_commands: u64 = s.host_flush_commands.get(),
        /// Host deallocating commands.
        host_deallocate_commands: u64 = s.host_deallocate_commands.get(),
        /// Other host commands.
        host_other_commands: u64 = s.host_other_commands.get(),
        /// Bytes deallocated by the host.
        #[schemars(extend("unit" = "bytes"))]
        host_bytes_deallocated: u64 = s.host_bytes_deallocated.get(),
        /// Media bytes written for host data.
        #[schemars(extend("unit" = "bytes"))]
        media_bytes_written_host: u64 = s.media_bytes_written_host.get(),
        /// Media bytes written by garbage collection, wear levelling and refresh.
        #[schemars(extend("unit" = "bytes"))]
        media_bytes_written_gc: u64 = s.media_bytes_written_gc.get(),
        /// Media bytes written for metadata charged to this namespace.
        #[schemars(extend("unit" = "bytes"))]
        media_bytes_written_metadata: u64 = s.media_bytes_written_metadata.get(),
        /// Media bytes read for the host.
        #[schemars(extend("unit" = "bytes"))]
        media_bytes_read_host: u64 = s.media_bytes_read_host.get(),
        /// Media bytes read by garbage collection, wear levelling and refresh.
        #[schemars(extend("unit" = "bytes"))]
        media_bytes_read_gc: u64 = s.media_bytes_read_gc.get(),
        /// Host bytes read that the write buffer answered.
        #[schemars(extend("unit" = "bytes"))]
        buffer_bytes_read: u64 = s.buffer_bytes_read.get(),
        /// Host bytes overwritten in the write buffer before they reached the media.
        #[schemars(extend("unit" = "bytes"))]
        buffer_bytes_absorbed: u64 = s.buffer_bytes_absorbed.get(),
        /// Write commands within the atomic unit.
        whole_writes: u64 = s.whole_writes.get(),
        /// Write commands larger than the atomic unit or across its boundary.
        split_writes: u64 = s.split_writes.get(),
        /// Write commands that waited for room in the write buffer.
        stalled_write_commands: u64 = s.stalled_write_commands.get(),
        /// Nanoseconds that those waited.
        stalled_write_ns: u64 = s.stalled_write_ns.get(),
        /// Read commands held back by a quota.
        throttled_read_commands: u64 = s.throttled_read_commands.get(),
        /// Nanoseconds that those were held back.
        throttled_read_ns: u64 = s.throttled_read_ns.get(),
        /// Write commands held back by a quota.
        throttled_write_commands: u64 = s.throttled_write_commands.get(),
        /// Nanoseconds that those were held back.
        throttled_write_ns: u64 = s.throttled_write_ns.get(),
        /// Commands that read and were held back so that other namespaces get their share.
        shared_read_commands: u64 = s.shared_read_commands.get(),
        /// Nanoseconds that those were held back.
        shared_read_ns: u64 = s.shared_read_ns.get(),
        /// Commands that write and were held back so that other namespaces get their share.
        shared_write_commands: u64 = s.shared_write_commands.get(),
        /// Nanoseconds that those were held back.
        shared_write_ns: u64 = s.shared_write_ns.get(),
        /// Commands that failed.
        failed_commands: u64 = s.failed_commands.get(),
        /// Latency of Read.
        read_latency: Latency = Latency::new(&s.read_latency, &s.read_latency_sum),
        /// Latency of Write.
        write_latency: Latency = Latency::new(&s.write_latency, &s.write_latency_sum),
        /// Latency of Flush.
        flush_latency: Latency = Latency::new(&s.flush_latency, &s.flush_latency_sum),
        /// Latency of deallocating commands.
        deallocate_latency: Latency = Latency::new(&s.deallocate_latency, &s.deallocate_latency_sum),
    }
}

/// A latency histogram: percentiles (upper bounds of their buckets), and the buckets that are not empty.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Latency {
    /// Commands.
    count: u64,
    /// The mean.
    #[schemars(extend("unit" = "ns"))]
    mean_ns: u64,
    /// The longest.
    #[schemars(extend("unit" = "ns"))]
    max_ns: u64,
    /// Upper bound of the bucket with the median.
    #[schemars(extend("unit" = "ns"))]
    p50_ns: u64,
    /// Of 95 in 100.
    #[schemars(extend("unit" = "ns"))]
    p95_ns: u64,
    /// Of 99 in 100.
    #[schemars(extend("unit" = "ns"))]
    p99_ns: u64,
    /// Of 999 in 1000.
    #[schemars(extend("unit" = "ns"))]
    p999_ns: u64,
    /// Of 9999 in 10000.
    #[schemars(extend("unit" = "ns"))]
    p9999_ns: u64,
    /// The buckets that are not empty.
    buckets: Vec<LatencyBucket>,
}

/// A bucket.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LatencyBucket {
    /// Its lower bound.
    #[schemars(extend("unit" = "ns"))]
    from_ns: u64,
    /// Commands in it.
    count: u64,
}

impl Latency {
    fn new(histogram: &LatencyHistogram, sum: &LatencySum) -> Self {
        let count = histogram.total();
        let max_ns = sum.max_ns.get();
        let percentile = |parts| histogram.percentile(parts, 10_000).unwrap_or(0).min(max_ns);
        Self {
            count,
            mean_ns: sum.sum_ns.get().checked_div(count).unwrap_or(0),
            max_ns,
            p50_ns: percentile(5_000),
            p95_ns: percentile(9_500),
            p99_ns: percentile(9_900),
            p999_ns: percentile(9_990),
            p9999_ns: percentile(9_999),
            buckets: histogram
                .count
                .iter()
                .enumerate()
                .filter(|(_, count)| count.get() != 0)
                .map(|(bucket, count)| LatencyBucket {
                    from_ns: latency_bucket_low(bucket),
                    count: count.get(),
                })
                .collect(),
        }
    }
}

fn sensor(smart: &SmartHealth, index: usize) -> Option<u16> {
    Some(smart.temp_sensor[index].get()).filter(|kelvins| *kelvins != 0)
}
