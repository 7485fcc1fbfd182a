//! Logs that vendors define.

use super::{low, text, uuid};
use nvme::log::{InjectedFault, MemblazeItem, MemblazeItemId, MemblazeSmart, OcpSmart};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

view! {
    /// `nvme ocp smart-add-log`: the OCP extended SMART log (C0h).
    OcpSmartLog(o: OcpSmart) {
        #[serde(rename = "Physical media units written")]
        physical_media_units_written: HiLo = o.physical_media_units_written.get().into(),
        #[serde(rename = "Physical media units read")]
        physical_media_units_read: HiLo = o.physical_media_units_read.get().into(),
        #[serde(rename = "Bad user nand blocks - Raw")]
        bad_user_nand_blocks_raw: u64 = o.bad_user_nand_blocks.raw(),
        #[serde(rename = "Bad user nand blocks - Normalized")]
        bad_user_nand_blocks_normalized: u16 = o.bad_user_nand_blocks.normalized.get(),
        #[serde(rename = "Bad system nand blocks - Raw")]
        bad_system_nand_blocks_raw: u64 = o.bad_system_nand_blocks.raw(),
        #[serde(rename = "Bad system nand blocks - Normalized")]
        bad_system_nand_blocks_normalized: u16 = o.bad_system_nand_blocks.normalized.get(),
        #[serde(rename = "XOR recovery count")]
        xor_recovery_count: u64 = o.xor_recovery_count.get(),
        #[serde(rename = "Uncorrectable read error count")]
        uncorrectable_read_error_count: u64 = o.uncorrectable_read_error_count.get(),
        #[serde(rename = "Soft ecc error count")]
        soft_ecc_error_count: u64 = o.soft_ecc_error_count.get(),
        #[serde(rename = "End to end corrected errors")]
        end_to_end_corrected_errors: u32 = o.end_to_end_corrected_errors.get(),
        #[serde(rename = "End to end detected errors")]
        end_to_end_detected_errors: u32 = o.end_to_end_detected_errors.get(),
        #[serde(rename = "System data percent used")]
        system_data_percent_used: u8 = o.system_data_percent_used,
        #[serde(rename = "Refresh counts")]
        refresh_counts: u64 = low(&o.refresh_counts),
        #[serde(rename = "Max User data erase counts")]
        max_user_data_erase_count: u32 = o.max_user_data_erase_count.get(),
        #[serde(rename = "Min User data erase counts")]
        min_user_data_erase_count: u32 = o.min_user_data_erase_count.get(),
        #[serde(rename = "Number of Thermal throttling events")]
        thermal_throttling_events: u8 = o.thermal_throttling_events,
        #[serde(rename = "Current throttling status")]
        thermal_throttling_status: u8 = o.thermal_throttling_status,
        #[serde(rename = "PCIe correctable error count")]
        pcie_correctable_error_count: u64 = o.pcie_correctable_error_count.get(),
        #[serde(rename = "Incomplete shutdowns")]
        incomplete_shutdowns: u32 = o.incomplete_shutdowns.get(),
        #[serde(rename = "Percent free blocks")]
        percent_free_blocks: u8 = o.percent_free_blocks,
        #[serde(rename = "Capacitor health")]
        capacitor_health: u16 = o.capacitor_health.get(),
        #[serde(rename = "Unaligned I/O")]
        unaligned_io: u64 = o.unaligned_io.get(),
        #[serde(rename = "Security Version Number")]
        security_version: u64 = o.security_version.get(),
        #[serde(rename = "NUSE - Namespace utilization")]
        total_nuse: u64 = o.total_nuse.get(),
        #[serde(rename = "PLP start count")]
        plp_start_count: u128 = o.plp_start_count.get(),
        #[serde(rename = "Endurance estimate")]
        endurance_estimate: u128 = o.endurance_estimate.get(),
        #[serde(rename = "Log page version")]
        log_page_version: u16 = o.log_page_version.get(),
        #[serde(rename = "Log page GUID")]
        log_page_guid: String = format!("0x{:x}", u128::from_le_bytes(o.log_page_guid)),
        #[serde(rename = "NVMe Command Set Errata Version")]
        nvme_command_set_errata_version: u8 = o.nvme_errata_versions[1],
        #[serde(rename = "Lowest Permitted Firmware Revision")]
        lowest_permitted_firmware: u64 = low(&o.lowest_permitted_firmware),
        #[serde(rename = "NVMe Over Pcie Errata Version")]
        nvme_over_pcie_errata_version: u8 = o.nvme_errata_versions[2],
        #[serde(rename = "NVMe Mi Errata Version")]
        nvme_mi_errata_version: u8 = o.nvme_errata_versions[3],
        #[serde(rename = "Total media dies")]
        total_media_dies: u16 = o.total_media_dies.get(),
        #[serde(rename = "Total die failure tolerance")]
        total_die_failure_tolerance: u16 = o.total_die_failure_tolerance.get(),
        #[serde(rename = "Media dies offline")]
        media_dies_offline: u16 = o.media_dies_offline.get(),
        #[serde(rename = "Max temperature recorded")]
        max_temperature_recorded: u8 = o.max_temperature_recorded,
        #[serde(rename = "Nand avg erase count")]
        nand_avg_erase_count: u64 = o.nand_avg_erase_count.get(),
        #[serde(rename = "Command timeouts")]
        command_timeouts: u32 = o.command_timeouts.get(),
        // The spelling is nvme-cli's.
        #[serde(rename = "Sys area program fail count raw")]
        system_program_fail_raw: u32 = o.system_program_fail_raw.get(),
        #[serde(rename = "Sys area program fail count noralized")]
        system_program_fail_normalized: u8 = o.system_program_fail_normalized,
        #[serde(rename = "Sys area uncorrectable read count raw")]
        system_uncorrectable_read_raw: u32 = o.system_uncorrectable_read_raw.get(),
        #[serde(rename = "Sys area uncorrectable read count noralized")]
        system_uncorrectable_read_normalized: u8 = o.system_uncorrectable_read_normalized,
        #[serde(rename = "Sys area erase fail count raw")]
        system_erase_fail_raw: u32 = o.system_erase_fail_raw.get(),
        #[serde(rename = "Sys area erase fail count noralized")]
        system_erase_fail_normalized: u8 = o.system_erase_fail_normalized,
        #[serde(rename = "Max peak power capability")]
        max_peak_power_capability: u16 = o.max_peak_power_capability.get(),
        #[serde(rename = "Current max avg power")]
        current_max_avg_power: u16 = o.current_max_avg_power.get(),
        #[serde(rename = "Lifetime power consumed")]
        lifetime_power_consumed: u64 = low(&o.lifetime_power_consumed),
        #[serde(rename = "Dssd firmware revision")]
        dssd_firmware_revision: String = text(&o.dssd_firmware_revision),
        #[serde(rename = "Dssd firmware build UUID")]
        dssd_firmware_build_uuid: String = uuid(&o.dssd_firmware_build_uuid),
        #[serde(rename = "Dssd firmware build label")]
        dssd_firmware_build_label: String = text(&o.dssd_firmware_build_label),
        #[serde(rename = "Errata Version Field")]
        dssd_errata_version: u8 = o.dssd_version[0],
        #[serde(rename = "Point Version Field")]
        dssd_point_version: u64 = low(&o.dssd_version[1..3]),
        #[serde(rename = "Minor Version Field")]
        dssd_minor_version: u64 = low(&o.dssd_version[3..5]),
        #[serde(rename = "Major Version Field")]
        dssd_major_version: u8 = o.dssd_version[5],
        #[serde(rename = "NVMe Errata Version")]
        nvme_errata_version: u8 = o.nvme_errata_versions[0],
        // The same, as later versions of nvme-cli call it.
        #[serde(rename = "NVMe Base Errata Version")]
        nvme_base_errata_version: u8 = o.nvme_errata_versions[0],
        #[serde(rename = "PCIe Link Retraining Count")]
        pcie_link_retraining_count: u64 = o.pcie_link_retraining_count.get(),
    }
}

view! {
    /// A fault that is active (log DCh), by the names and numbers of `tranche fault`.
    ActiveFault(f: InjectedFault) {
        kind: &'static str = f.kind.keyword(),
        id: u16 = f.nvmsetid.get(),
        one_in: u32 = f.one_in(),
        parameter: u32 = f.param.get(),
        remaining: u64 = f.remaining.get(),
    }
}

/// A number of 128 bits in halves, as the OCP plug-in prints some.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HiLo {
    hi: u64,
    lo: u64,
}

impl From<u128> for HiLo {
    fn from(value: u128) -> Self {
        let low = value & u128::from(u64::MAX);
        Self { hi: u64::try_from(value >> 64).unwrap_or(0), lo: u64::try_from(low).unwrap_or(0) }
    }
}

/// `nvme memblaze smart-log-add` (which prints text only): every item by its name there, with its normalized and its raw
/// value. Pairs and triples are one raw number of 48 bits, as in the log, and apart.
#[derive(Clone, Debug)]
pub struct MemblazeSmartLog(Vec<MemblazeItem>);

impl From<&MemblazeSmart> for MemblazeSmartLog {
    fn from(log: &MemblazeSmart) -> Self {
        Self(log.item.to_vec())
    }
}

/// One item.
#[derive(Serialize)]
struct Item {
    normalized: u16,
    raw: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
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
