//! Flexible Data Placement: the data of its logs, features and I/O Management commands. Introduced by TP4146; Base 5.1.12.1.28 to
//! 5.1.12.1.31, 5.1.25.1.20, 5.1.25.1.21, 7.3, 7.4, 8.1.10.

use crate::feature::Timestamp;
use crate::{U16, U32, U64, U128};

open_enum! {
    /// Reclaim Unit Handle Type (Base 5.1.12.1.28).
    pub struct ReclaimUnitHandleType: u8 {
        /// Garbage collection may move the handle's data together with that of others.
        INITIALLY_ISOLATED = 1 => "Initially Isolated",
        /// Garbage collection keeps the handle's data by itself.
        PERSISTENTLY_ISOLATED = 2 => "Persistently Isolated",
    }
}

open_enum! {
    /// FDP Event Type (Base 5.1.12.1.31); 80h and above are the controller's.
    pub struct FdpEventType: u8 {
        /// Reclaim Unit Not Fully Written To Capacity.
        NOT_FULLY_WRITTEN = 0x00 => "Reclaim Unit Not Fully Written To Capacity",
        /// Reclaim Unit Time Limit Exceeded.
        TIME_LIMIT = 0x01 => "Reclaim Unit Time Limit Exceeded",
        /// Controller Level Reset Modified Reclaim Unit Handles.
        RESET = 0x02 => "Controller Level Reset Modified Reclaim Unit Handles",
        /// Invalid Placement Identifier.
        INVALID_PLACEMENT_IDENTIFIER = 0x03 => "Invalid Placement Identifier",
        /// Media Reallocated.
        MEDIA_REALLOCATED = 0x80 => "Media Reallocated",
        /// Implicitly Modified Reclaim Unit Handle.
        IMPLICITLY_MODIFIED = 0x81 => "Implicitly Modified Reclaim Unit Handle",
    }
}

open_enum! {
    /// Reclaim Unit Handle Attributes (Base 5.1.12.1.29).
    pub struct ReclaimUnitHandleUse: u8 {
        /// No namespace uses it.
        UNUSED = 0 => "Not used by a namespace",
        /// A host named it when it created a namespace.
        HOST = 1 => "Host Specified",
        /// The controller chose it for a namespace.
        CONTROLLER = 2 => "Controller Specified",
    }
}

wire! {
    /// Head of the FDP Configurations log (LID 20h, Base 5.1.12.1.28); descriptors follow.
    pub struct FdpConfigurationsHeader[16] {
        /// Number of FDP Configurations, zero-based.
        pub n_z: U16,
        /// Version: 0.
        pub ver: u8,
        /// Reserved.
        pub rsvd3: u8,
        /// Bytes of the log.
        pub sze: U32,
        /// Reserved.
        pub rsvd8: [u8; 8],
    }

    /// FDP Configuration Descriptor; a [`ReclaimUnitHandleDescriptor`] for each handle follows.
    pub struct FdpConfiguration[64] {
        /// Descriptor Size: with the handles' descriptors and the vendor specific part.
        pub dsze: U16,
        /// FDP Attributes: bits 3:0 Reclaim Group Identifier Format, bit 4 volatile write cache, bit 7 valid.
        pub fdpa: u8,
        /// Vendor Specific Size.
        pub vss: u8,
        /// Number of Reclaim Groups.
        pub nrg: U32,
        /// Number of Reclaim Unit Handles.
        pub nruh: U16,
        /// Maximum Placement Identifiers, zero-based.
        pub maxpids_z: U16,
        /// Number of Namespaces Supported.
        pub nns: U32,
        /// Reclaim Unit Nominal Size in bytes.
        pub runs: U64,
        /// Estimated Reclaim Unit Time Limit in seconds; 0: none.
        pub erutl: U32,
        /// Reserved.
        pub rsvd28: [u8; 36],
    }

    /// Reclaim Unit Handle Descriptor.
    pub struct ReclaimUnitHandleDescriptor[4] {
        /// Reclaim Unit Handle Type.
        pub ruht: ReclaimUnitHandleType,
        /// Reserved.
        pub rsvd1: [u8; 3],
    }

    /// Head of the Reclaim Unit Handle Usage log (LID 21h, Base 5.1.12.1.29); a [`ReclaimUnitHandleUsage`] for each
    /// handle follows.
    pub struct ReclaimUnitHandleUsageHeader[8] {
        /// Number of Reclaim Unit Handles.
        pub nruh: U16,
        /// Reserved.
        pub rsvd2: [u8; 6],
    }

    /// Reclaim Unit Handle Usage Descriptor.
    pub struct ReclaimUnitHandleUsage[8] {
        /// Reclaim Unit Handle Attributes.
        pub ruha: ReclaimUnitHandleUse,
        /// Reserved.
        pub rsvd1: [u8; 7],
    }

    /// FDP Statistics log (LID 22h, Base 5.1.12.1.30).
    pub struct FdpStatistics[64] {
        /// Host Bytes with Metadata Written.
        pub hbmw: U128,
        /// Media Bytes with Metadata Written.
        pub mbmw: U128,
        /// Media Bytes Erased.
        pub mbe: U128,
        /// Reserved.
        pub rsvd48: [u8; 16],
    }

    /// Head of the FDP Events log (LID 23h, Base 5.1.12.1.31); events follow, oldest first.
    pub struct FdpEventsHeader[64] {
        /// Number of FDP Events.
        pub n: U32,
        /// Reserved.
        pub rsvd4: [u8; 60],
    }

    /// FDP Event.
    pub struct FdpEvent[64] {
        /// FDP Event Type.
        pub fdpet: FdpEventType,
        /// FDP Event Flags: bit 0 placement identifier valid, bit 1 NSID valid, bit 2 location valid.
        pub fdpef: u8,
        /// Placement Identifier.
        pub pid: U16,
        /// When.
        pub etime: Timestamp,
        /// Namespace Identifier.
        pub nsid: U32,
        /// By the type: [`MediaReallocated`], or reserved.
        pub specific: [u8; 16],
        /// Reclaim Group Identifier.
        pub rgid: U16,
        /// Reclaim Unit Handle Identifier.
        pub ruhid: U16,
        /// Reserved.
        pub rsvd36: [u8; 4],
        /// Vendor specific.
        pub vs: [u8; 24],
    }

    /// What is specific to a Media Reallocated event.
    pub struct MediaReallocated[16] {
        /// Bit 0: LBA valid.
        pub sef: u8,
        /// Reserved.
        pub rsvd1: u8,
        /// Number of logical blocks moved; FFFFh also if there were more.
        pub nlbam: U16,
        /// One of them.
        pub lba: U64,
        /// Reserved.
        pub rsvd12: [u8; 4],
    }

    /// Supported FDP Event Descriptor: what Get Features of FDP Events returns for each type (Base 5.1.25.1.21).
    pub struct FdpEventDescriptor[2] {
        /// FDP Event Type.
        pub fdpet: FdpEventType,
        /// FDP Event Type Attributes: bit 0 enabled.
        pub fdpeta: u8,
    }

    /// Head of Reclaim Unit Handle Status (Base 7.3.1); descriptors follow.
    pub struct ReclaimUnitHandleStatusHeader[16] {
        /// Reserved.
        pub rsvd0: [u8; 14],
        /// Number of Reclaim Unit Handle Status Descriptors.
        pub nruhsd: U16,
    }

    /// Reclaim Unit Handle Status Descriptor.
    pub struct ReclaimUnitHandleStatus[32] {
        /// Placement Identifier.
        pub pid: U16,
        /// Reclaim Unit Handle Identifier.
        pub ruhid: U16,
        /// Estimated Active Reclaim Unit Time Remaining in seconds; 0: not reported.
        pub earutr: U32,
        /// Reclaim Unit Available Media Writes in logical blocks.
        pub ruamw: U64,
        /// Reserved.
        pub rsvd16: [u8; 16],
    }
}
layout!(FdpConfiguration, 64, nrg @ 4, nruh @ 8, maxpids_z @ 10, nns @ 12, runs @ 16, erutl @ 24);
layout!(FdpEvent, 64, pid @ 2, etime @ 4, nsid @ 12, specific @ 16, rgid @ 32, ruhid @ 34, vs @ 40);
layout!(MediaReallocated, 16, nlbam @ 2, lba @ 4);
layout!(ReclaimUnitHandleStatus, 32, ruhid @ 2, earutr @ 4, ruamw @ 8);

/// Bits of [`FdpEvent::fdpef`].
pub mod event_flags {
    /// The placement identifier is valid.
    pub const PID: u8 = 1;
    /// The namespace identifier is valid.
    pub const NSID: u8 = 2;
    /// Reclaim group and handle are valid.
    pub const LOCATION: u8 = 4;
}

/// Directive Type of Write commands that name a placement identifier.
pub const DATA_PLACEMENT: u8 = 2;

/// Management Operation of I/O Management Receive: Reclaim Unit Handle Status.
pub const RUH_STATUS: u8 = 1;

/// Management Operation of I/O Management Send: Reclaim Unit Handle Update.
pub const RUH_UPDATE: u8 = 1;
