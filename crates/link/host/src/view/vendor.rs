//! Logs that vendors define.

use super::{low, text, uuid};
use nvme::log::{InjectedFault, MemblazeItem, MemblazeItemId, MemblazeSmart, OcpSmart};
use schemars::JsonSchema;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::collections::BTreeMap;

view! {
    /// The keys of `nvme ocp smart-add-log` (nvme-cli 2).
    OcpSmartLog(o: OcpSmart) {
        /// Physical Media Units Written in bytes.
        #[serde(rename = "Physical media units written")]
        #[schemars(extend("unit" = "bytes"))]
        physical_media_units_written: HiLo = o.physical_media_units_written.get().into(),
        /// Physical Media Units Read in bytes.
        #[serde(rename = "Physical media units read")]
        #[schemars(extend("unit" = "bytes"))]
        physical_media_units_read: HiLo = o.physical_media_units_read.get().into(),
        /// Bad User NAND Blocks: the count.
        #[serde(rename = "Bad user nand blocks - Raw")]
        bad_user_nand_blocks_raw: u64 = o.bad_user_nand_blocks.raw(),
        /// Bad User NAND Blocks: 100 down to 0.
        #[serde(rename = "Bad user nand blocks - Normalized")]
        #[schemars(extend("unit" = "%"))]
        bad_user_nand_blocks_normalized: u16 = o.bad_user_nand_blocks.normalized.get(),
        /// Bad System NAND Blocks: the count.
        #[serde(rename = "Bad system nand blocks - Raw")]
        bad_system_nand_blocks_raw: u64 = o.bad_system_nand_blocks.raw(),
        /// Bad System NAND Blocks: 100 down to 0.
        #[serde(rename = "Bad system nand blocks - Normalized")]
        #[schemars(extend("unit" = "%"))]
        bad_system_nand_blocks_normalized: u16 = o.bad_system_nand_blocks.normalized.get(),
        /// XOR Recovery Count.
        #[serde(rename = "XOR recovery count")]
        xor_recovery_count: u64 = o.xor_recovery_count.get(),
        /// Uncorrectable Read Error Count.
        #[serde(rename = "Uncorrectable read error count")]
        uncorrectable_read_error_count: u64 = o.uncorrectable_read_error_count.get(),
        /// Soft ECC Error Count.
        #[serde(rename = "Soft ecc error count")]
        soft_ecc_error_count: u64 = o.soft_ecc_error_count.get(),
        /// End to End Correction Counts: corrected errors.
        #[serde(rename = "End to end corrected errors")]
        end_to_end_corrected_errors: u32 = o.end_to_end_corrected_errors.get(),
        /// End to End Correction Counts: detected errors.
        #[serde(rename = "End to end detected errors")]
        end_to_end_detected_errors: u32 = o.end_to_end_detected_errors.get(),
        /// System Data % Used.
        #[serde(rename = "System data percent used")]
        #[schemars(extend("unit" = "%"))]
        system_data_percent_used: u8 = o.system_data_percent_used,
        /// Refresh Counts.
        #[serde(rename = "Refresh counts")]
        refresh_counts: u64 = low(&o.refresh_counts),
        /// Maximum User Data Erase Count.
        #[serde(rename = "Max User data erase counts")]
        max_user_data_erase_count: u32 = o.max_user_data_erase_count.get(),
        /// Minimum User Data Erase Count.
        #[serde(rename = "Min User data erase counts")]
        min_user_data_erase_count: u32 = o.min_user_data_erase_count.get(),
        /// Number of thermal throttling events.
        #[serde(rename = "Number of Thermal throttling events")]
        thermal_throttling_events: u8 = o.thermal_throttling_events,
        /// Thermal throttling current status: 0 unthrottled to 3.
        #[serde(rename = "Current throttling status")]
        thermal_throttling_status: u8 = o.thermal_throttling_status,
        /// PCIe Correctable Error Count.
        #[serde(rename = "PCIe correctable error count")]
        pcie_correctable_error_count: u64 = o.pcie_correctable_error_count.get(),
        /// Incomplete Shutdowns.
        #[serde(rename = "Incomplete shutdowns")]
        incomplete_shutdowns: u32 = o.incomplete_shutdowns.get(),
        /// % Free Blocks.
        #[serde(rename = "Percent free blocks")]
        #[schemars(extend("unit" = "%"))]
        percent_free_blocks: u8 = o.percent_free_blocks,
        /// Capacitor Health; 65535 without capacitors.
        #[serde(rename = "Capacitor health")]
        #[schemars(extend("unit" = "%"))]
        capacitor_health: u16 = o.capacitor_health.get(),
        /// Unaligned I/O.
        #[serde(rename = "Unaligned I/O")]
        unaligned_io: u64 = o.unaligned_io.get(),
        /// Security Version Number.
        #[serde(rename = "Security Version Number")]
        security_version: u64 = o.security_version.get(),
        /// Total NUSE.
        #[serde(rename = "NUSE - Namespace utilization")]
        total_nuse: u64 = o.total_nuse.get(),
        /// PLP Start Count.
        #[serde(rename = "PLP start count")]
        plp_start_count: u128 = o.plp_start_count.get(),
        /// Endurance Estimate in bytes.
        #[serde(rename = "Endurance estimate")]
        #[schemars(extend("unit" = "bytes"))]
        endurance_estimate: u128 = o.endurance_estimate.get(),
        /// Log Page Version.
        #[serde(rename = "Log page version")]
        log_page_version: u16 = o.log_page_version.get(),
        /// Log Page GUID, in hexadecimal digits.
        #[serde(rename = "Log page GUID")]
        log_page_guid: String = format!("0x{:x}", u128::from_le_bytes(o.log_page_guid)),
        /// Errata version of the NVMe command set.
        #[serde(rename = "NVMe Command Set Errata Version")]
        nvme_command_set_errata_version: u8 = o.nvme_errata_versions[1],
        /// Lowest Permitted Firmware Revision.
        #[serde(rename = "Lowest Permitted Firmware Revision")]
        lowest_permitted_firmware: u64 = low(&o.lowest_permitted_firmware),
        /// Errata version of the PCIe transport.
        #[serde(rename = "NVMe Over Pcie Errata Version")]
        nvme_over_pcie_errata_version: u8 = o.nvme_errata_versions[2],
        /// Errata version of the management interface.
        #[serde(rename = "NVMe Mi Errata Version")]
        nvme_mi_errata_version: u8 = o.nvme_errata_versions[3],
        /// Total Media Dies.
        #[serde(rename = "Total media dies")]
        total_media_dies: u16 = o.total_media_dies.get(),
        /// Total Die Failure Tolerance.
        #[serde(rename = "Total die failure tolerance")]
        total_die_failure_tolerance: u16 = o.total_die_failure_tolerance.get(),
        /// Media Dies Offline.
        #[serde(rename = "Media dies offline")]
        media_dies_offline: u16 = o.media_dies_offline.get(),
        /// Max Temperature Recorded.
        #[serde(rename = "Max temperature recorded")]
        #[schemars(extend("unit" = "°C"))]
        max_temperature_recorded: u8 = o.max_temperature_recorded,
        /// NAND Average Erase Count.
        #[serde(rename = "Nand avg erase count")]
        nand_avg_erase_count: u64 = o.nand_avg_erase_count.get(),
        /// Command Timeouts.
        #[serde(rename = "Command timeouts")]
        command_timeouts: u32 = o.command_timeouts.get(),
        /// System Area Program Fail Count: raw.
        // The spelling is nvme-cli's.
        #[serde(rename = "Sys area program fail count raw")]
        system_program_fail_raw: u32 = o.system_program_fail_raw.get(),
        /// System Area Program Fail Count: normalized.
        #[serde(rename = "Sys area program fail count noralized")]
        system_program_fail_normalized: u8 = o.system_program_fail_normalized,
        /// System Area Uncorrectable Read Count: raw.
        #[serde(rename = "Sys area uncorrectable read count raw")]
        system_uncorrectable_read_raw: u32 = o.system_uncorrectable_read_raw.get(),
        /// System Area Uncorrectable Read Count: normalized.
        #[serde(rename = "Sys area uncorrectable read count noralized")]
        system_uncorrectable_read_normalized: u8 = o.system_uncorrectable_read_normalized,
        /// System Area Erase Fail Count: raw.
        #[serde(rename = "Sys area erase fail count raw")]
        system_erase_fail_raw: u32 = o.system_erase_fail_raw.get(),
        /// System Area Erase Fail Count: normalized.
        #[serde(rename = "Sys area erase fail count noralized")]
        system_erase_fail_normalized: u8 = o.system_erase_fail_normalized,
        /// Max Peak Power Capability.
        #[serde(rename = "Max peak power capability")]
        max_peak_power_capability: u16 = o.max_peak_power_capability.get(),
        /// Current Max Average Power.
        #[serde(rename = "Current max avg power")]
        current_max_avg_power: u16 = o.current_max_avg_power.get(),
        /// Lifetime Power Consumed.
        #[serde(rename = "Lifetime power consumed")]
        lifetime_power_consumed: u64 = low(&o.lifetime_power_consumed),
        /// DSSD Firmware Revision.
        #[serde(rename = "Dssd firmware revision")]
        dssd_firmware_revision: String = text(&o.dssd_firmware_revision),
        /// DSSD Firmware Build UUID.
        #[serde(rename = "Dssd firmware build UUID")]
        dssd_firmware_build_uuid: String = uuid(&o.dssd_firmware_build_uuid),
        /// DSSD Firmware Build Label.
        #[serde(rename = "Dssd firmware build label")]
        dssd_firmware_build_label: String = text(&o.dssd_firmware_build_label),
        /// DSSD Specification Version: errata.
        #[serde(rename = "Errata Version Field")]
        dssd_errata_version: u8 = o.dssd_version[0],
        /// DSSD Specification Version: point.
        #[serde(rename = "Point Version Field")]
        dssd_point_version: u64 = low(&o.dssd_version[1..3]),
        /// DSSD Specification Version: minor.
        #[serde(rename = "Minor Version Field")]
        dssd_minor_version: u64 = low(&o.dssd_version[3..5]),
        /// DSSD Specification Version: major.
        #[serde(rename = "Major Version Field")]
        dssd_major_version: u8 = o.dssd_version[5],
        /// Errata version of NVMe base.
        #[serde(rename = "NVMe Errata Version")]
        nvme_errata_version: u8 = o.nvme_errata_versions[0],
        /// The same, under the name of later versions of nvme-cli.
        // The same, as later versions of nvme-cli call it.
        #[serde(rename = "NVMe Base Errata Version")]
        nvme_base_errata_version: u8 = o.nvme_errata_versions[0],
        /// PCIe Link Retraining Count.
        #[serde(rename = "PCIe Link Retraining Count")]
        pcie_link_retraining_count: u64 = o.pcie_link_retraining_count.get(),
    }
}

view! {
    /// A fault that is active (log DCh), by the names and numbers of `tranche fault`.
    ActiveFault(f: InjectedFault) {
        /// Its name: that of the command, or power-cut.
        kind: &'static str = f.kind.keyword(),
        /// NVM Set, or port; 0 for the drive, the host's disk and the protocol.
        id: u16 = if f.kind.is_of_protocol() { 0 } else { f.nvmsetid.get() },
        /// One in so many operations; 1: each.
        one_in: u32 = f.one_in(),
        /// The commands that a fault of the protocol strikes.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("absent" = "it is no fault of the protocol"))]
        commands: Option<StruckCommands> = f.kind.is_of_protocol().then(|| f.into()),
        /// A die, a factor, a state, a status, microseconds; else 0.
        parameter: u32 = f.param.get(),
        /// Operations until it ends; 0: until cleared. Milliseconds for a port that is down, operations until a power
        /// cut.
        remaining: u64 = f.remaining.get(),
    }
}

view! {
    /// Commands that a fault of the protocol strikes.
    StruckCommands(f: InjectedFault) {
        /// Matching commands that pass first.
        after: u32 = f.selector.after.get(),
        /// Logical blocks of the range; 0: any command.
        blocks: u64 = f.selector.blocks.get(),
        /// Its name, or queue and opcode; empty: any command of I/O queues.
        command: String = f.selector.command().map(|command| command.to_string()).unwrap_or_default(),
        /// Controller that they come to.
        #[schemars(extend("null" = "any"))]
        controller: Option<u16> = f.selector.flags.controller().then_some(f.selector.cntlid.get()),
        /// One in this number has its turn; 0 and 1: each.
        every: u32 = f.selector.every.get(),
        /// Whether a struck command is executed.
        executed: bool = !f.selector.flags.unexecuted(),
        /// First logical block of the range.
        first_block: u64 = f.selector.slba.get(),
        /// Their namespace; 0: any.
        nsid: u32 = f.nsid.get(),
        /// The port that they come through; 0: any.
        port: u16 = f.nvmsetid.get(),
        /// How many were struck.
        strikes: u64 = f.strikes.get(),
    }
}

/// A number of 128 bits in halves, as the OCP plug-in prints some.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct HiLo {
    /// High 64 bits.
    hi: u64,
    /// Low 64 bits.
    lo: u64,
}

impl From<u128> for HiLo {
    fn from(value: u128) -> Self {
        let low = value & u128::from(u64::MAX);
        Self { hi: u64::try_from(value >> 64).unwrap_or(0), lo: u64::try_from(low).unwrap_or(0) }
    }
}

/// Memblaze's additional SMART log: each item by its name in nvme-cli.
// `nvme memblaze smart-log-add` prints text only. Pairs and triples are one raw number of 48 bits, as in the log, and apart.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(extend("propertyNames" = { "enum": item_names() }, "minProperties" = 1))]
pub struct MemblazeSmartLog(#[schemars(with = "BTreeMap<String, Item>")] Vec<MemblazeItem>);

fn item_names() -> Vec<&'static str> {
    MemblazeItemId::ORDER.iter().filter_map(|id| id.name()).collect()
}

impl From<&MemblazeSmart> for MemblazeSmartLog {
    fn from(log: &MemblazeSmart) -> Self {
        Self(log.item.to_vec())
    }
}

/// An item.
#[derive(Serialize, JsonSchema)]
struct Item {
    /// Normalized value.
    normalized: u16,
    /// Raw value of 48 bits.
    raw: u64,
    /// The raw value as three numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "the raw value is one number"))]
    values: Option<[u16; 3]>,
}

impl Serialize for MemblazeSmartLog {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let triples = [
            MemblazeItemId::WEAR_LEVELING,
            MemblazeItemId::TEMPERATURE_SINCE_BORN,
            MemblazeItemId::TEMPERATURE_SINCE_BOOT,
            MemblazeItemId::POWER,
        ];
        let mut map = serializer.serialize_map(None)?;
        for item in &self.0 {
            let id = MemblazeItemId(item.id[0]);
            let Some(name) = id.name() else { continue };
            let values = triples.contains(&id).then(|| item.values());
            map.serialize_entry(name, &Item { normalized: item.normalized.get(), raw: item.raw(), values })?;
        }
        map.end()
    }
}
