//! The logs of the base specification.

use crate::{Status, U16, U32, U64, U128};

wire! {
    /// Supported Log Pages (Base 5.1.12.1.1, LID 00h): one entry per LID.
    pub struct SupportedLogPages[1024] {
        /// LID Supported and Effects, indexed by LID.
        pub lid: [LidSupported; 256],
    }

    /// Error Information Log Entry (Base 5.1.12.1.2, LID 01h).
    pub struct ErrorInformation[64] {
        /// Error Count: a number that only grows; 0 marks an empty entry.
        pub error_count: U64,
        /// Submission Queue ID.
        pub sqid: U16,
        /// Command ID; FFFFh when it belongs to no command.
        pub cmdid: U16,
        /// Status Info: the status in bits 15:1, phase tag in bit 0. See [`ErrorInformation::status`].
        pub status_info: U16,
        /// Parameter Error Location: bits 7:0 the byte, 10:8 the bit; FFFFh for none.
        pub pel: U16,
        /// LBA: the first that experienced the error.
        pub lba: U64,
        /// Namespace.
        pub nsid: U32,
        /// Vendor Specific Information Available: a LID, or 0.
        pub vsia: u8,
        /// Transport Type.
        pub trtype: u8,
        /// Command Set Indicator.
        pub csi: u8,
        /// Opcode.
        pub opc: u8,
        /// Command Specific Information.
        pub cs: U64,
        /// Transport Type Specific Information.
        pub ttsi: U16,
        /// Reserved.
        pub rsvd42: [u8; 21],
        /// Log Page Version: 1.
        pub lpver: u8,
    }

    /// Rotational Media Information (Base 5.1.12.1.22, LID 16h), of an Endurance Group whose medium turns.
    pub struct RotationalMedia[512] {
        /// Endurance Group Identifier.
        pub endgid: U16,
        /// Number of Actuators.
        pub numa: U16,
        /// Nominal Rotational Speed in revolutions per minute; 0 if it is not reported.
        pub nrs: U16,
        /// Reserved.
        pub rsvd6: [u8; 2],
        /// Spinup Count: how often the medium began to turn.
        pub spinc: U32,
        /// Failed Spinup Count.
        pub fspinc: U32,
        /// Load Count: how often the heads were loaded.
        pub ldc: U32,
        /// Failed Load Count.
        pub fldc: U32,
        /// Reserved.
        pub rsvd24: [u8; 488],
    }

    /// SMART / Health Information (Base 5.1.12.1.3, LID 02h).
    pub struct SmartHealth[512] {
        /// Critical Warning.
        pub critical_warning: CriticalWarning,
        /// Composite Temperature in kelvins.
        pub composite_temperature: U16,
        /// Available Spare in percent.
        pub avail_spare: u8,
        /// Available Spare Threshold in percent.
        pub spare_threshold: u8,
        /// Percentage Used: may exceed 100, 255 at most.
        pub percentage_used: u8,
        /// Endurance Group Critical Warning Summary.
        pub endgrp_critical_warning: EnduranceWarning,
        /// Reserved.
        pub rsvd7: [u8; 25],
        /// Data Units Read, in thousands of 512 bytes, rounded up.
        pub data_units_read: U128,
        /// Data Units Written, in thousands of 512 bytes, rounded up.
        pub data_units_written: U128,
        /// Host Read Commands.
        pub host_read_commands: U128,
        /// Host Write Commands.
        pub host_write_commands: U128,
        /// Controller Busy Time in minutes.
        pub controller_busy_time: U128,
        /// Power Cycles.
        pub power_cycles: U128,
        /// Power On Hours.
        pub power_on_hours: U128,
        /// Unexpected Power Losses.
        pub unexpected_power_losses: U128,
        /// Media and Data Integrity Errors.
        pub media_errors: U128,
        /// Number of Error Information Log Entries over the life of the controller.
        pub num_err_log_entries: U128,
        /// Warning Composite Temperature Time in minutes.
        pub warning_temp_time: U32,
        /// Critical Composite Temperature Time in minutes.
        pub critical_temp_time: U32,
        /// Temperature Sensors 1 to 8 in kelvins; 0 not implemented.
        pub temp_sensor: [U16; 8],
        /// Thermal Management Temperature 1 and 2 Transition Counts.
        pub thermal_transitions: [U32; 2],
        /// Total Time For Thermal Management Temperature 1 and 2 in seconds.
        pub thermal_time: [U32; 2],
        /// Reserved.
        pub rsvd232: [u8; 280],
    }

    /// Firmware Slot Information (Base 5.1.12.1.4, LID 03h).
    pub struct FirmwareSlots[512] {
        /// Active Firmware Info: bits 2:0 active slot, 6:4 slot at the next reset.
        pub afi: u8,
        /// Reserved.
        pub rsvd1: [u8; 7],
        /// Firmware Revision of slots 1 to 7, ASCII; zeroes when empty.
        pub frs: [[u8; 8]; 7],
        /// Reserved.
        pub rsvd64: [u8; 448],
    }

    /// Changed Attached Namespace List (Base 5.1.12.1.5, LID 04h).
    pub struct ChangedNamespaces[4096] {
        /// Ascending NSIDs, zero after the last; FFFFFFFFh alone when more than 1,024 changed.
        pub nsid: [U32; 1024],
    }

    /// Commands Supported and Effects (Base 5.1.12.1.6, LID 05h).
    pub struct CommandEffects[4096] {
        /// Admin Command Supported, indexed by opcode.
        pub acs: [Effects; 256],
        /// I/O Command Supported, indexed by opcode.
        pub iocs: [Effects; 256],
        /// Reserved.
        pub rsvd2048: [u8; 2048],
    }

    /// Endurance Group Information (Base 5.1.12.1.10, LID 09h). Amounts are in units of 10^9 bytes.
    pub struct EnduranceGroup[512] {
        /// Critical Warning.
        pub critical_warning: EnduranceWarning,
        /// Endurance Group Features: bit 0 Endurance Group Reserved Media (rotational) Support.
        pub egfeat: u8,
        /// Reserved.
        pub rsvd2: u8,
        /// Available Spare in percent.
        pub avail_spare: u8,
        /// Available Spare Threshold in percent.
        pub spare_threshold: u8,
        /// Percentage Used: may exceed 100, 255 at most.
        pub percentage_used: u8,
        /// Domain Identifier.
        pub did: U16,
        /// Reserved.
        pub rsvd8: [u8; 24],
        /// Endurance Estimate: total 10^9 bytes that may be written at a write amplification of 1.
        pub endurance_estimate: U128,
        /// Data Units Read by hosts.
        pub data_units_read: U128,
        /// Data Units Written by hosts.
        pub data_units_written: U128,
        /// Media Units Written, by hosts and by the controller.
        pub media_units_written: U128,
        /// Host Read Commands.
        pub host_read_commands: U128,
        /// Host Write Commands.
        pub host_write_commands: U128,
        /// Media and Data Integrity Errors.
        pub media_errors: U128,
        /// Number of Error Information Log Entries.
        pub num_err_log_entries: U128,
        /// Total Endurance Group Capacity in bytes.
        pub tegcap: U128,
        /// Unallocated Endurance Group Capacity in bytes.
        pub uegcap: U128,
        /// Reserved.
        pub rsvd192: [u8; 320],
    }

    /// Header of the Asymmetric Namespace Access log (Base 5.1.12.1.13, LID 0Ch).
    pub struct AnaHeader[16] {
        /// Change Count.
        pub chngcnt: U64,
        /// Number of ANA Group Descriptors that follow.
        pub nagd: U16,
        /// Reserved.
        pub rsvd10: [u8; 6],
    }

    /// ANA Group Descriptor (Base 5.1.12.1.13); the NSIDs follow.
    pub struct AnaGroup[32] {
        /// ANA Group Identifier.
        pub agid: U32,
        /// Number of NSID Values that follow.
        pub nnv: U32,
        /// Change Count.
        pub chngcnt: U64,
        /// Asymmetric Namespace Access State (bits 3:0; the others are reserved).
        pub anas: AnaState,
        /// Reserved.
        pub rsvd17: [u8; 15],
    }
}

open_enum! {
    /// Asymmetric Namespace Access State (Base 8.1.1.3, and the figure of the ANA Group Descriptor).
    pub struct AnaState: u8 {
        /// ANA Optimized.
        OPTIMIZED = 0x1 => "optimized",
        /// ANA Non-Optimized: it works, another controller does it better.
        NON_OPTIMIZED = 0x2 => "non-optimized",
        /// ANA Inaccessible, which may end.
        INACCESSIBLE = 0x3 => "inaccessible",
        /// ANA Persistent Loss: inaccessible for good.
        PERSISTENT_LOSS = 0x4 => "persistent-loss",
        /// ANA Change: between two of the others.
        CHANGE = 0xF => "change",
    }
}

layout!(ErrorInformation, 64, lba @ 16, nsid @ 24, cs @ 32, lpver @ 63);
layout!(SmartHealth, 512, data_units_read @ 32, power_cycles @ 112, warning_temp_time @ 192, temp_sensor @ 200);
layout!(EnduranceGroup, 512, endurance_estimate @ 32, media_units_written @ 80, tegcap @ 160, uegcap @ 176);

bits8! {
    /// Critical Warning of the SMART / Health log.
    pub struct CriticalWarning {
        /// Available Spare Capacity Below Threshold.
        pub ascbt: bool,
        /// Temperature Threshold Condition.
        pub ttc: bool,
        /// NVM Subsystem Degraded Reliability.
        pub ndr: bool,
        /// All Media Read-Only.
        pub amro: bool,
        /// Volatile Memory Backup Failed.
        pub vmbf: bool,
        /// Persistent Memory Region Read-Only.
        pub pmrro: bool,
        #[bits(2)]
        _r6: u8,
    }

    /// Critical Warning of an Endurance Group.
    pub struct EnduranceWarning {
        /// Available spare has fallen below the threshold.
        pub spare: bool,
        #[bits(1)]
        _r1: u8,
        /// Reliability is degraded.
        pub degraded: bool,
        /// All namespaces of the group are read only.
        pub read_only: bool,
        #[bits(4)]
        _r4: u8,
    }
}

bits32! {
    /// LID Supported and Effects.
    pub struct LidSupported {
        /// LID Supported.
        pub lsupp: bool,
        /// Index Offset Supported.
        pub ios: bool,
        #[bits(14)]
        _r2: u16,
        /// LID Specific Parameter.
        #[bits(16)]
        pub lidsp: u16,
    }

    /// Commands Supported and Effects data structure.
    pub struct Effects {
        /// Command Supported.
        pub csupp: bool,
        /// Logical Block Content Change.
        pub lbcc: bool,
        /// Namespace Capability Change.
        pub ncc: bool,
        /// Namespace Inventory Change.
        pub nic: bool,
        /// Controller Capability Change.
        pub ccc: bool,
        #[bits(9)]
        _r5: u16,
        /// Command Submission and Execution Relaxations.
        #[bits(2)]
        pub cser: u8,
        /// Command Submission and Execution: 0 no restriction, 1 one per namespace, 2 one per controller.
        #[bits(3)]
        pub cse: u8,
        /// UUID Selection Supported.
        pub uss: bool,
        /// Command Scope: bit 0 namespace, 1 controller, 2 NVM Set, 3 Endurance Group, 4 domain, 5 subsystem.
        #[bits(12)]
        pub csp: u16,
    }
}

impl ErrorInformation {
    /// The status of the failed command.
    #[must_use]
    pub fn status(&self) -> Status {
        Status(self.status_info.get() >> 1)
    }
}

impl ChangedNamespaces {
    /// The log for these ascending NSIDs: all of them, or FFFFFFFFh alone when they are too many.
    pub fn new(nsids: impl IntoIterator<Item = crate::Nsid>) -> Self {
        let mut log = Self::default();
        let mut nsids = nsids.into_iter();
        for (entry, nsid) in log.nsid.iter_mut().zip(nsids.by_ref()) {
            entry.set(nsid);
        }
        if nsids.next().is_some() {
            log = Self::default();
            log.nsid[0].set(crate::NSID_ALL);
        }
        log
    }

    /// The NSIDs up to the first zero.
    pub fn iter(&self) -> impl Iterator<Item = crate::Nsid> + '_ {
        self.nsid.iter().map(|nsid| nsid.get()).take_while(|nsid| *nsid != 0)
    }
}

/// Bytes in SMART data units: thousands of 512 bytes, rounded up (Base 5.1.12.1.3).
#[must_use]
pub const fn data_units(bytes: u128) -> u128 {
    bytes.div_ceil(512_000)
}

/// Bytes in the units of 10^9 of the Endurance Group log, rounded up (Base 5.1.12.1.10).
#[must_use]
pub const fn endurance_units(bytes: u128) -> u128 {
    bytes.div_ceil(1_000_000_000)
}
