//! Additional SMART log, LID CAh, as drives of Memblaze (and, in its first fifteen items, of Intel) have it and
//! `nvme memblaze smart-log-add` prints it.

use crate::U16;

wire! {
    /// Additional SMART Log: items in fixed places, each telling its identifier.
    pub struct MemblazeSmart[512] {
        /// The items, in the order of [`MemblazeItemId::ORDER`].
        pub item: [MemblazeItem; 22],
        /// Reserved.
        pub rsvd264: [u8; 248],
    }

    /// One item of [`MemblazeSmart`].
    pub struct MemblazeItem[12] {
        /// Identifier: [`MemblazeItemId`] in the first byte.
        pub id: [u8; 3],
        /// Normalized value: 100 at first, 0 at the worst.
        pub normalized: U16,
        /// Raw value, by the item.
        pub raw: [u8; 7],
    }
}

open_enum! {
    /// What an item of [`MemblazeSmart`] tells.
    pub struct MemblazeItemId: u8 {
        /// Programs that failed.
        PROGRAM_FAIL = 0xAB => "program_fail_count",
        /// Erases that failed.
        ERASE_FAIL = 0xAC => "erase_fail_count",
        /// Erase cycles of the blocks: fewest, most, mean, 16 bits each.
        WEAR_LEVELING = 0xAD => "wear_leveling",
        /// Temperature in kelvins since power on: highest, lowest, current, 16 bits each.
        TEMPERATURE_SINCE_BOOT = 0xAF => "tempt_since_bootup",
        /// Errors that end-to-end protection detected.
        END_TO_END_ERRORS = 0xB8 => "end_to_end_error_detection_count",
        /// CRC errors of PCI Express.
        CRC_ERRORS = 0xC7 => "crc_error_count",
        /// Wear of the timed workload in thousandths of a percent.
        TIMED_MEDIA_WEAR = 0xE2 => "timed_workload_media_wear",
        /// Share of reads in the timed workload, in percent.
        TIMED_HOST_READS = 0xE3 => "timed_workload_host_reads",
        /// Minutes of the timed workload.
        TIMED_TIMER = 0xE4 => "timed_workload_timer",
        /// Temperature in kelvins over the drive's life: highest, lowest, current, 16 bits each.
        TEMPERATURE_SINCE_BORN = 0xE7 => "tempt_since_born",
        /// Power in watts: highest, lowest, current, 16 bits each.
        POWER = 0xE8 => "power_consumption",
        /// Throttling in percent in the first byte, then how often.
        THERMAL_THROTTLE = 0xEA => "thermal_throttle_status",
        /// Minutes of thermal throttling.
        THERMAL_THROTTLE_TIME = 0xEB => "thermal_throttle_time",
        /// Health of the power-loss protection: 1 good, 0 not.
        POWER_LOSS_PROTECTION = 0xEC => "power_loss_protection",
        /// Errors of the flash.
        FLASH_MEDIA_ERROR = 0xED => "flash_media_error",
        /// Overflows of the retry buffer.
        RETRY_BUFFER_OVERFLOW = 0xF0 => "retry_buffer_overflow_count",
        /// Reads that failed.
        READ_FAIL = 0xF2 => "read_fail_count",
        /// Losses of a clock's lock.
        PLL_LOCK_LOSS = 0xF3 => "pll_lock_loss_count",
        /// Written to flash, in units of 32 MiB.
        NAND_WRITTEN = 0xF4 => "nand_bytes_written",
        /// Written by hosts, in units of 32 MiB.
        HOST_WRITTEN = 0xF5 => "host_bytes_written",
        /// Life left of the system area, in percent.
        SYSTEM_AREA_LIFE = 0xF6 => "system_area_life_left",
        /// Read by hosts, in units of 32 MiB.
        HOST_READ = 0xFA => "total_read",
    }
}

impl MemblazeItemId {
    /// The items in the order of the log.
    pub const ORDER: [Self; 22] = [
        Self::PROGRAM_FAIL,
        Self::ERASE_FAIL,
        Self::WEAR_LEVELING,
        Self::END_TO_END_ERRORS,
        Self::CRC_ERRORS,
        Self::TIMED_MEDIA_WEAR,
        Self::TIMED_HOST_READS,
        Self::TIMED_TIMER,
        Self::THERMAL_THROTTLE,
        Self::RETRY_BUFFER_OVERFLOW,
        Self::PLL_LOCK_LOSS,
        Self::NAND_WRITTEN,
        Self::HOST_WRITTEN,
        Self::SYSTEM_AREA_LIFE,
        Self::HOST_READ,
        Self::TEMPERATURE_SINCE_BORN,
        Self::POWER,
        Self::TEMPERATURE_SINCE_BOOT,
        Self::POWER_LOSS_PROTECTION,
        Self::READ_FAIL,
        Self::THERMAL_THROTTLE_TIME,
        Self::FLASH_MEDIA_ERROR,
    ];
}

impl MemblazeItem {
    /// An item with a raw count: its lower 48 bits.
    #[must_use]
    pub fn count(id: MemblazeItemId, normalized: u8, raw: u64) -> Self {
        let b = raw.to_le_bytes();
        let raw = [b[0], b[1], b[2], b[3], b[4], b[5], 0];
        Self { id: [id.0, 0, 0], normalized: U16::new(normalized.into()), raw }
    }

    /// An item with three values of 16 bits.
    #[must_use]
    pub fn triple(id: MemblazeItemId, normalized: u8, [a, b, c]: [u16; 3]) -> Self {
        Self::count(id, normalized, u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32)
    }

    /// The lower 48 bits of the raw value.
    #[must_use]
    pub fn raw(&self) -> u64 {
        let b = self.raw;
        u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0])
    }

    /// The three values of 16 bits of the raw value.
    #[must_use]
    pub fn values(&self) -> [u16; 3] {
        let b = self.raw;
        [[b[0], b[1]], [b[2], b[3]], [b[4], b[5]]].map(u16::from_le_bytes)
    }
}

/// Bytes in the units of 32 MiB of [`MemblazeItemId::NAND_WRITTEN`] and its like, rounded down.
#[must_use]
pub const fn memblaze_units(bytes: u64) -> u64 {
    bytes / (32 << 20)
}
