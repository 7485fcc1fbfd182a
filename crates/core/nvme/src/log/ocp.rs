//! SMART / Health Information Extended, LID C0h (OCP Datacenter NVMe SSD 2.x, 4.8.6): exact bytes.

use crate::{U16, U32, U64, U128};

wire! {
    /// SMART / Health Information Extended.
    pub struct OcpSmart[512] {
        /// Physical Media Units Written in bytes.
        pub physical_media_units_written: U128,
        /// Physical Media Units Read in bytes.
        pub physical_media_units_read: U128,
        /// Bad User NAND Blocks: raw count (6 bytes) and normalized value (2 bytes, 100 down to 0).
        pub bad_user_nand_blocks: RawNormalized,
        /// Bad System NAND Blocks.
        pub bad_system_nand_blocks: RawNormalized,
        /// XOR Recovery Count.
        pub xor_recovery_count: U64,
        /// Uncorrectable Read Error Count.
        pub uncorrectable_read_error_count: U64,
        /// Soft ECC Error Count.
        pub soft_ecc_error_count: U64,
        /// End to End Correction Counts: detected errors.
        pub end_to_end_detected_errors: U32,
        /// End to End Correction Counts: corrected errors.
        pub end_to_end_corrected_errors: U32,
        /// System Data % Used.
        pub system_data_percent_used: u8,
        /// Refresh Counts, 7 bytes.
        pub refresh_counts: [u8; 7],
        /// Maximum User Data Erase Count.
        pub max_user_data_erase_count: U32,
        /// Minimum User Data Erase Count.
        pub min_user_data_erase_count: U32,
        /// Number of thermal throttling events.
        pub thermal_throttling_events: u8,
        /// Thermal throttling current status: 0 unthrottled to 3.
        pub thermal_throttling_status: u8,
        /// DSSD Specification Version: errata, point (2), minor (2), major.
        pub dssd_version: [u8; 6],
        /// PCIe Correctable Error Count.
        pub pcie_correctable_error_count: U64,
        /// Incomplete Shutdowns.
        pub incomplete_shutdowns: U32,
        /// Reserved.
        pub rsvd116: [u8; 4],
        /// % Free Blocks.
        pub percent_free_blocks: u8,
        /// Reserved.
        pub rsvd121: [u8; 7],
        /// Capacitor Health in percent; FFFFh without capacitors.
        pub capacitor_health: U16,
        /// Errata versions of NVMe base, command set, PCIe transport and management interface.
        pub nvme_errata_versions: [u8; 4],
        /// Reserved.
        pub rsvd134: [u8; 2],
        /// Unaligned I/O.
        pub unaligned_io: U64,
        /// Security Version Number.
        pub security_version: U64,
        /// Total NUSE.
        pub total_nuse: U64,
        /// PLP Start Count.
        pub plp_start_count: U128,
        /// Endurance Estimate in bytes.
        pub endurance_estimate: U128,
        /// PCIe Link Retraining Count.
        pub pcie_link_retraining_count: U64,
        /// Power State Change Count.
        pub power_state_change_count: U64,
        /// Lowest Permitted Firmware Revision.
        pub lowest_permitted_firmware: [u8; 8],
        /// Total Media Dies.
        pub total_media_dies: U16,
        /// Total Die Failure Tolerance.
        pub total_die_failure_tolerance: U16,
        /// Media Dies Offline.
        pub media_dies_offline: U16,
        /// Max Temperature Recorded in degrees Celsius.
        pub max_temperature_recorded: u8,
        /// Form Factor.
        pub form_factor: u8,
        /// NAND Average Erase Count.
        pub nand_avg_erase_count: U64,
        /// Command Timeouts.
        pub command_timeouts: U32,
        /// System Area Program Fail Count: raw.
        pub system_program_fail_raw: U32,
        /// System Area Program Fail Count: normalized.
        pub system_program_fail_normalized: u8,
        /// Reserved.
        pub rsvd241: [u8; 3],
        /// System Area Uncorrectable Read Count: raw.
        pub system_uncorrectable_read_raw: U32,
        /// System Area Uncorrectable Read Count: normalized.
        pub system_uncorrectable_read_normalized: u8,
        /// Reserved.
        pub rsvd249: [u8; 3],
        /// System Area Erase Fail Count: raw.
        pub system_erase_fail_raw: U32,
        /// System Area Erase Fail Count: normalized.
        pub system_erase_fail_normalized: u8,
        /// Reserved.
        pub rsvd257: [u8; 3],
        /// Max Peak Power Capability.
        pub max_peak_power_capability: U16,
        /// Current Max Average Power.
        pub current_max_avg_power: U16,
        /// Lifetime Power Consumed.
        pub lifetime_power_consumed: [u8; 6],
        /// DSSD Firmware Revision.
        pub dssd_firmware_revision: [u8; 8],
        /// DSSD Firmware Build UUID.
        pub dssd_firmware_build_uuid: [u8; 16],
        /// DSSD Firmware Build Label.
        pub dssd_firmware_build_label: [u8; 64],
        /// Reserved.
        pub rsvd358: [u8; 136],
        /// Log Page Version.
        pub log_page_version: U16,
        /// Log Page GUID: [`OCP_SMART_GUID`].
        pub log_page_guid: [u8; 16],
    }

    /// A raw count of 48 bits beside its normalized value.
    pub struct RawNormalized[8] {
        /// Raw count, 48 bits.
        pub raw: [u8; 6],
        /// Normalized value: 100 at first, 0 at the worst.
        pub normalized: U16,
    }
}
layout!(
    OcpSmart, 512,
    bad_user_nand_blocks @ 32, max_user_data_erase_count @ 88, percent_free_blocks @ 120,
    capacitor_health @ 128, unaligned_io @ 136, plp_start_count @ 160, total_media_dies @ 216,
    nand_avg_erase_count @ 224, max_peak_power_capability @ 260, log_page_version @ 494, log_page_guid @ 496,
);

/// GUID of the log page, AFD514C9-7C6F-4F9C-A4F2-BFEA2810AFC5, in the order in which the page has it.
pub const OCP_SMART_GUID: [u8; 16] = 0xAFD5_14C9_7C6F_4F9C_A4F2_BFEA_2810_AFC5_u128.to_le_bytes();

impl RawNormalized {
    /// The lower 48 bits of a count beside its normalized value.
    #[must_use]
    pub fn new(raw: u64, normalized: u16) -> Self {
        let b = raw.to_le_bytes();
        Self { raw: [b[0], b[1], b[2], b[3], b[4], b[5]], normalized: U16::new(normalized) }
    }

    /// The raw count.
    #[must_use]
    pub fn raw(&self) -> u64 {
        let b = self.raw;
        u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0])
    }
}
