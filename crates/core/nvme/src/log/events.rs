//! Persistent Event log (Base 5.1.12.1.14, LID 0Dh): a header, then events, the newest first.

use crate::log::SmartHealth;
use crate::{U16, U32, U64, U128};

wire! {
    /// Header of the Persistent Event log.
    pub struct PersistentEventHeader[512] {
        /// Log Identifier: 0Dh.
        pub lid: u8,
        /// Reserved.
        pub rsvd1: [u8; 3],
        /// Total Number of Events.
        pub tnev: U32,
        /// Total Log Length in bytes, this header included.
        pub tll: U64,
        /// Log Revision: 3 in Base 2.1.
        pub rv: u8,
        /// Reserved.
        pub rsvd17: u8,
        /// Log Header Length: bytes of this header after this field, 492.
        pub lhl: U16,
        /// Timestamp when the reporting context was established.
        pub ts: U64,
        /// Power on Hours.
        pub poh: U128,
        /// Power Cycle Count.
        pub pcc: U64,
        /// PCI Vendor ID.
        pub vid: U16,
        /// PCI Subsystem Vendor ID.
        pub ssvid: U16,
        /// Serial Number, ASCII.
        pub sn: [u8; 20],
        /// Model Number, ASCII.
        pub mn: [u8; 40],
        /// NVM Subsystem NVMe Qualified Name.
        pub subnqn: crate::nqn::NqnField,
        /// Generation Number: one more whenever the events of a new context differ.
        pub gen_number: U16,
        /// Reporting Context Information.
        pub rci: ReportingContext,
        /// Reserved.
        pub rsvd378: [u8; 102],
        /// Supported Events Bitmap: bit n for event type n.
        pub seb: [u8; 32],
    }

    /// Header of one event; vendor specific information and the event's data follow.
    pub struct PersistentEvent[24] {
        /// Event Type.
        pub etype: PersistentEventType,
        /// Event Type Revision.
        pub etype_rev: u8,
        /// Event Header Length: bytes of this header after this field, 21.
        pub ehl: u8,
        /// Event Header Additional Info: bits 1:0 Port Identifier Type, 1 a port of the subsystem, 3 no port.
        pub ehai: u8,
        /// Controller Identifier; FFFFh where none is meant.
        pub cntlid: U16,
        /// Event Timestamp: milliseconds in bytes 5:0, attributes as in the Timestamp feature in byte 6.
        pub ets: U64,
        /// Port Identifier.
        pub pelpid: U16,
        /// Reserved.
        pub rsvd16: [u8; 4],
        /// Vendor Specific Information Length.
        pub vsil: U16,
        /// Event Length: what follows this header, vendor specific information included.
        pub el: U16,
    }

    /// Data of a Firmware Commit event.
    pub struct FirmwareCommitEvent[22] {
        /// Old Firmware Revision.
        pub old: [u8; 8],
        /// New Firmware Revision.
        pub new: [u8; 8],
        /// Firmware Commit Action.
        pub action: u8,
        /// Firmware Slot.
        pub slot: u8,
        /// Status Code Type of the command's completion.
        pub sct: u8,
        /// Status Code of the command's completion.
        pub sc: u8,
        /// Vendor Assigned Firmware Commit Result Code.
        pub vendor: U16,
    }

    /// Data of a Timestamp Change event.
    pub struct TimestampChangeEvent[16] {
        /// Previous Timestamp.
        pub previous: U64,
        /// Milliseconds Since Reset.
        pub since_reset_ms: U64,
    }

    /// First data of a Power-on or Reset event; a [`ControllerResetInformation`] for each controller follows.
    pub struct PowerOnEvent[8] {
        /// Firmware Revision.
        pub firmware: [u8; 8],
    }

    /// A controller in a Power-on or Reset event.
    pub struct ControllerResetInformation[36] {
        /// Controller Identifier.
        pub cntlid: U16,
        /// Firmware Activation: 1 if this reset activated firmware.
        pub activation: u8,
        /// Operation in Progress: bit 0 a Format NVM, bit 1 a sanitize operation.
        pub in_progress: u8,
        /// Reserved.
        pub rsvd4: [u8; 12],
        /// Controller Power Cycle.
        pub power_cycle: U32,
        /// Power on milliseconds.
        pub power_on_ms: U64,
        /// Controller Timestamp.
        pub timestamp: U64,
    }

    /// Data of an NVM Subsystem Hardware Error event, with the additional information of codes 06h and 07h.
    pub struct HardwareErrorEvent[8] {
        /// NVM Subsystem Hardware Error Event Code.
        pub code: U16,
        /// Reserved.
        pub rsvd2: [u8; 2],
        /// Critical warnings that are new: bits as in SMART or, for code 07h, as in the Endurance Group log.
        pub warning: u8,
        /// Reserved.
        pub rsvd5: u8,
        /// Endurance Group Identifier (code 07h).
        pub endgid: U16,
    }

    /// Data of a Change Namespace event.
    pub struct ChangeNamespaceEvent[48] {
        /// CDW10 of the Namespace Management command.
        pub cdw10: U32,
        /// Reserved.
        pub rsvd4: [u8; 4],
        /// Namespace Size in logical blocks.
        pub nsze: U64,
        /// Reserved.
        pub rsvd16: [u8; 8],
        /// Namespace Capacity in logical blocks.
        pub ncap: U64,
        /// Formatted LBA Size.
        pub flbas: u8,
        /// End-to-end Data Protection Type Settings.
        pub dps: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        pub nmic: u8,
        /// Reserved.
        pub rsvd35: u8,
        /// ANA Group Identifier.
        pub anagrpid: U32,
        /// NVM Set Identifier.
        pub nvmsetid: U16,
        /// Reserved.
        pub rsvd42: [u8; 2],
        /// Namespace Identifier.
        pub nsid: U32,
    }

    /// Data of a Format NVM Start event.
    pub struct FormatStartEvent[12] {
        /// Namespace Identifier of the command.
        pub nsid: U32,
        /// Format NVM Attributes of the controller.
        pub fna: u8,
        /// Reserved.
        pub rsvd5: [u8; 3],
        /// CDW10 of the Format NVM command.
        pub cdw10: U32,
    }

    /// Data of a Format NVM Completion event.
    pub struct FormatCompletionEvent[12] {
        /// Namespace Identifier of the command.
        pub nsid: U32,
        /// Smallest Format Progress Indicator.
        pub smallest_fpi: u8,
        /// Format NVM Status: bit 0 the command failed or was not completed, bit 1 its namespaces may hold old data.
        pub status: u8,
        /// Completion Information.
        pub information: U16,
        /// Status Field of the completion.
        pub status_field: U32,
    }

    /// Data of a Sanitize Start event.
    pub struct SanitizeStartEvent[12] {
        /// Sanitize Capabilities of the controller.
        pub sanicap: U32,
        /// CDW10 of the Sanitize command.
        pub cdw10: U32,
        /// CDW11 of the Sanitize command.
        pub cdw11: U32,
    }

    /// Data of a Sanitize Completion event.
    pub struct SanitizeCompletionEvent[8] {
        /// Sanitize Progress, as in the Sanitize Status log.
        pub sprog: U16,
        /// Sanitize Status, as in the Sanitize Status log.
        pub sstat: U16,
        /// Completion Information.
        pub information: U16,
        /// Reserved.
        pub rsvd6: [u8; 2],
    }

    /// Data of a Set Feature event with six command dwords, no buffer and no completion.
    pub struct SetFeatureEvent[28] {
        /// Set Feature Event Layout: bits 2:0 number of command dwords, 3 completion dword 0 is there, 31:16 bytes of the
        /// command's buffer.
        pub layout: U32,
        /// Command dwords 10 to 15.
        pub cdw: [U32; 6],
    }

    /// Data of a Vendor Specific event of this drive: a power cut or a fault was ordered, or faults were cleared.
    pub struct VendorCommandEvent[22] {
        /// Vendor Specific Event Code: the opcode of the command, D0h or D1h.
        pub code: U16,
        /// Vendor Specific Event Data Type: [`VendorCommandEvent::BINARY`].
        pub data_type: u8,
        /// UUID Index: the drive's own, 2.
        pub uidx: u8,
        /// Vendor Specific Event Data Length: 16.
        pub bytes: U16,
        /// Command dwords 10 to 13.
        pub cdw: [U32; 4],
    }
}
layout!(PersistentEventHeader, 512, poh @ 28, sn @ 56, subnqn @ 116, gen_number @ 372, rci @ 374, seb @ 480);
layout!(ChangeNamespaceEvent, 48, nsze @ 8, ncap @ 24, anagrpid @ 36, nsid @ 44);

bits32! {
    /// Reporting Context Information.
    pub struct ReportingContext {
        /// Reporting Context Port Identifier.
        #[bits(16)]
        pub rcpid: u16,
        /// Reporting Context Port Identifier Type: 0 none existed, 1 a port of the subsystem.
        #[bits(2)]
        pub rcpit: u8,
        /// Reporting Context Exists: one did when the header was read.
        pub rce: bool,
        #[bits(13)]
        _r19: u16,
    }
}

open_enum! {
    /// Event Type of a persistent event.
    pub struct PersistentEventType: u8 {
        /// The whole SMART / Health log.
        SMART_SNAPSHOT = 0x01 => "SMART/Health Log Snapshot Event",
        /// [`FirmwareCommitEvent`].
        FIRMWARE_COMMIT = 0x02 => "Firmware Commit Event",
        /// [`TimestampChangeEvent`].
        TIMESTAMP_CHANGE = 0x03 => "Timestamp Change Event",
        /// [`PowerOnEvent`] and what follows it.
        POWER_ON_OR_RESET = 0x04 => "Power-on or Reset Event",
        /// [`HardwareErrorEvent`].
        HARDWARE_ERROR = 0x05 => "NVM Subsystem Hardware Error Event",
        /// [`ChangeNamespaceEvent`].
        CHANGE_NAMESPACE = 0x06 => "Change Namespace Event",
        /// [`FormatStartEvent`].
        FORMAT_START = 0x07 => "Format NVM Start Event",
        /// [`FormatCompletionEvent`].
        FORMAT_COMPLETION = 0x08 => "Format NVM Completion Event",
        /// [`SanitizeStartEvent`].
        SANITIZE_START = 0x09 => "Sanitize Start Event",
        /// [`SanitizeCompletionEvent`].
        SANITIZE_COMPLETION = 0x0A => "Sanitize Completion Event",
        /// [`SetFeatureEvent`].
        SET_FEATURE = 0x0B => "Set Feature Event",
        /// The header of the Telemetry log that was created.
        TELEMETRY_CREATED = 0x0C => "Set Telemetry CRT Event",
        /// Thermal Excursion.
        THERMAL_EXCURSION = 0x0D => "Thermal Excursion Event",
        /// [`VendorCommandEvent`].
        VENDOR_SPECIFIC = 0xDE => "Vendor Specific Event",
    }
}

open_enum! {
    /// Action of Get Log Page for this log: bits 1:0 of the Log Specific Parameter.
    pub struct PersistentEventAction: u8 {
        /// Read Log Data, of the context that was established.
        READ = 0 => "Read Log Data",
        /// Establish Context and Read Log Data.
        ESTABLISH = 1 => "Establish Context and Read Log Data",
        /// Release Context; no log data.
        RELEASE = 2 => "Release Context",
        /// Establish Context and Read 512 Bytes of Header.
        ESTABLISH_HEADER = 3 => "Establish Context and Read 512 Bytes of Header",
    }
}

/// NVM Subsystem Hardware Error Event Codes that this drive records.
pub mod hardware_error {
    /// Critical Warning Condition.
    pub const CRITICAL_WARNING: u16 = 0x06;
    /// Endurance Group Critical Warning Condition.
    pub const ENDURANCE_GROUP_WARNING: u16 = 0x07;
    /// Unsafe Shutdown.
    pub const UNSAFE_SHUTDOWN: u16 = 0x08;
}

/// Length in bytes of the data that events of a type have at least; `None` for types that the crate does not know.
#[must_use]
pub const fn persistent_event_bytes(kind: PersistentEventType) -> Option<usize> {
    Some(match kind {
        PersistentEventType::SMART_SNAPSHOT => size_of::<SmartHealth>(),
        PersistentEventType::FIRMWARE_COMMIT => size_of::<FirmwareCommitEvent>(),
        PersistentEventType::TIMESTAMP_CHANGE => size_of::<TimestampChangeEvent>(),
        PersistentEventType::POWER_ON_OR_RESET => size_of::<PowerOnEvent>(),
        PersistentEventType::HARDWARE_ERROR => 4,
        PersistentEventType::CHANGE_NAMESPACE => size_of::<ChangeNamespaceEvent>(),
        PersistentEventType::FORMAT_START => size_of::<FormatStartEvent>(),
        PersistentEventType::FORMAT_COMPLETION => size_of::<FormatCompletionEvent>(),
        PersistentEventType::SANITIZE_START => size_of::<SanitizeStartEvent>(),
        PersistentEventType::SANITIZE_COMPLETION => size_of::<SanitizeCompletionEvent>(),
        PersistentEventType::SET_FEATURE => 12,
        PersistentEventType::TELEMETRY_CREATED => 512,
        PersistentEventType::THERMAL_EXCURSION => 2,
        PersistentEventType::VENDOR_SPECIFIC => 6,
        _ => return None,
    })
}

impl VendorCommandEvent {
    /// Vendor Specific Event Data Type: binary.
    pub const BINARY: u8 = 3;
}

impl PersistentEvent {
    /// The header of an event without vendor specific information, whose data has `bytes` bytes.
    #[must_use]
    pub fn new(etype: PersistentEventType, bytes: u16) -> Self {
        let length = size_of::<Self>() as u8 - 3;
        Self { etype, etype_rev: 1, ehl: length, el: U16::new(bytes), ..Self::default() }
    }
}
