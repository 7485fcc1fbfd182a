//! Status of a completed command (Base 4.2.3, "Status Field Definition").

use core::fmt;

/// Status Code Type and Status Code with the flags beside them, as in bits 15:1 of the last completion word.
///
/// Bits 7:0 SC, 10:8 SCT, 12:11 CRD, 13 M, 14 DNR. The constants have no flag set; compare with
/// [`Status::is`], which ignores the flags of both sides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u16);

open_enum! {
    /// Status Code Type, SCT (Base 4.2.3, "Status Code Type Values").
    pub struct Sct: u8 {
        /// Generic Command Status.
        GENERIC = 0 => "Generic Command Status",
        /// Command Specific Status.
        COMMAND_SPECIFIC = 1 => "Command Specific Status",
        /// Media and Data Integrity Errors.
        MEDIA = 2 => "Media and Data Integrity Errors",
        /// Path Related Status.
        PATH = 3 => "Path Related Status",
        /// Vendor Specific.
        VENDOR = 7 => "Vendor Specific",
    }
}

impl Status {
    /// A status of this type and code, no flag set. Bits of the type beyond three are dropped.
    #[must_use]
    pub const fn new(sct: Sct, sc: u8) -> Self {
        Self(((sct.0 & 7) as u16) << 8 | sc as u16)
    }

    /// Status Code (SC).
    #[must_use]
    pub const fn sc(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// Status Code Type (SCT).
    #[must_use]
    pub const fn sct(self) -> Sct {
        Sct(self.0.to_le_bytes()[1] & 7)
    }

    /// Command Retry Delay (CRD): 0 none, else which of CRDT1 to CRDT3 applies.
    #[must_use]
    pub const fn crd(self) -> u8 {
        self.0.to_le_bytes()[1] >> 3 & 3
    }

    /// More (M): the Error Information log has more on this command.
    #[must_use]
    pub const fn more(self) -> bool {
        self.0 & 0x2000 != 0
    }

    /// Do Not Retry (DNR): the same command is expected to fail again.
    #[must_use]
    pub const fn dnr(self) -> bool {
        self.0 & 0x4000 != 0
    }

    /// The same status with Do Not Retry set.
    #[must_use]
    pub const fn with_dnr(self) -> Self {
        Self(self.0 | 0x4000)
    }

    /// The same status with More set.
    #[must_use]
    pub const fn with_more(self) -> Self {
        Self(self.0 | 0x2000)
    }

    /// Type and code without CRD, M and DNR.
    #[must_use]
    pub const fn code(self) -> Self {
        Self(self.0 & 0x7FF)
    }

    /// Whether both have the same type and code.
    #[must_use]
    pub const fn is(self, other: Self) -> bool {
        self.code().0 == other.code().0
    }

    /// Whether the command completed without error.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.code().0 == 0
    }

    /// `Ok` for a successful completion, the status itself otherwise.
    ///
    /// # Errors
    /// Any other status.
    pub const fn ok(self) -> Result<(), Self> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }

    /// Connect Incompatible Format (Base 6.3, fabrics command specific).
    pub const CONNECT_INCOMPATIBLE_FORMAT: Self = Self::new(Sct::COMMAND_SPECIFIC, 0x80);

    /// Connect Controller Busy (Base 6.3, fabrics command specific).
    pub const CONNECT_CONTROLLER_BUSY: Self = Self::new(Sct::COMMAND_SPECIFIC, 0x81);

    /// Connect Invalid Parameters (Base 6.3, fabrics command specific).
    pub const CONNECT_INVALID_PARAMETERS: Self = Self::new(Sct::COMMAND_SPECIFIC, 0x82);

    /// Connect Restart Discovery (Base 6.3, fabrics command specific).
    pub const CONNECT_RESTART_DISCOVERY: Self = Self::new(Sct::COMMAND_SPECIFIC, 0x83);

    /// Invalid Queue Type (Base 6.3, fabrics command specific).
    pub const INVALID_QUEUE_TYPE: Self = Self::new(Sct::COMMAND_SPECIFIC, 0x85);
}

macro_rules! status_codes {
    ($($sct:ident { $($name:ident = $sc:literal => $words:literal,)* })*) => {
        impl Status {
            $($(#[doc = concat!($words, " (", stringify!($sct), ", ", stringify!($sc), ").")]
            pub const $name: Self = Self::new(Sct::$sct, $sc);)*)*

            /// The specification's words for type and code, if it is one that the crate knows. Codes that
            /// the NVM Command Set and Connect define differently have both.
            #[must_use]
            pub const fn words(self) -> Option<&'static str> {
                match (self.sct(), self.sc()) {
                    $($((Sct::$sct, $sc) => Some($words),)*)*
                    _ => None,
                }
            }
        }
    };
}

// Base 4.2.3.1 (generic), 4.2.3.2 (command specific), 4.2.3.3 (media), 4.2.3.4 (path); NVM 3.2; Base 6; ZNS, "Status Values".
status_codes! {
    GENERIC {
        SUCCESS = 0x00 => "Successful Completion",
        INVALID_OPCODE = 0x01 => "Invalid Command Opcode",
        INVALID_FIELD = 0x02 => "Invalid Field in Command",
        CID_CONFLICT = 0x03 => "Command ID Conflict",
        DATA_TRANSFER_ERROR = 0x04 => "Data Transfer Error",
        POWER_LOSS = 0x05 => "Commands Aborted due to Power Loss Notification",
        INTERNAL_ERROR = 0x06 => "Internal Error",
        ABORT_REQUESTED = 0x07 => "Command Abort Requested",
        ABORTED_SQ_DELETION = 0x08 => "Command Aborted due to SQ Deletion",
        ABORTED_FAILED_FUSED = 0x09 => "Command Aborted due to Failed Fused Command",
        ABORTED_MISSING_FUSED = 0x0A => "Command Aborted due to Missing Fused Command",
        INVALID_NAMESPACE = 0x0B => "Invalid Namespace or Format",
        COMMAND_SEQUENCE_ERROR = 0x0C => "Command Sequence Error",
        INVALID_SGL_SEGMENT = 0x0D => "Invalid SGL Segment Descriptor",
        INVALID_SGL_COUNT = 0x0E => "Invalid Number of SGL Descriptors",
        DATA_SGL_LENGTH_INVALID = 0x0F => "Data SGL Length Invalid",
        METADATA_SGL_LENGTH_INVALID = 0x10 => "Metadata SGL Length Invalid",
        SGL_TYPE_INVALID = 0x11 => "SGL Descriptor Type Invalid",
        INVALID_USE_OF_CMB = 0x12 => "Invalid Use of Controller Memory Buffer",
        PRP_OFFSET_INVALID = 0x13 => "PRP Offset Invalid",
        ATOMIC_WRITE_UNIT_EXCEEDED = 0x14 => "Atomic Write Unit Exceeded",
        OPERATION_DENIED = 0x15 => "Operation Denied",
        SGL_OFFSET_INVALID = 0x16 => "SGL Offset Invalid",
        HOST_ID_INCONSISTENT = 0x18 => "Host Identifier Inconsistent Format",
        KEEP_ALIVE_EXPIRED = 0x19 => "Keep Alive Timer Expired",
        KEEP_ALIVE_INVALID = 0x1A => "Keep Alive Timeout Invalid",
        ABORTED_PREEMPT = 0x1B => "Command Aborted due to Preempt and Abort",
        SANITIZE_FAILED = 0x1C => "Sanitize Failed",
        SANITIZE_IN_PROGRESS = 0x1D => "Sanitize In Progress",
        SGL_GRANULARITY_INVALID = 0x1E => "SGL Data Block Granularity Invalid",
        CMB_QUEUE_NOT_SUPPORTED = 0x1F => "Command Not Supported for Queue in CMB",
        NAMESPACE_WRITE_PROTECTED = 0x20 => "Namespace is Write Protected",
        COMMAND_INTERRUPTED = 0x21 => "Command Interrupted",
        TRANSIENT_TRANSPORT_ERROR = 0x22 => "Transient Transport Error",
        PROHIBITED_BY_LOCKDOWN = 0x23 => "Command Prohibited by Command and Feature Lockdown",
        ADMIN_MEDIA_NOT_READY = 0x24 => "Admin Command Media Not Ready",
        INVALID_KEY_TAG = 0x25 => "Invalid Key Tag",
        HOST_DISPERSED_NS_NOT_ENABLED = 0x26 => "Host Dispersed Namespace Support Not Enabled",
        HOST_ID_NOT_INITIALIZED = 0x27 => "Host Identifier Not Initialized",
        INCORRECT_KEY = 0x28 => "Incorrect Key",
        FDP_DISABLED = 0x29 => "FDP Disabled",
        INVALID_PLACEMENT_HANDLE_LIST = 0x2A => "Invalid Placement Handle List",
        LBA_OUT_OF_RANGE = 0x80 => "LBA Out of Range",
        CAPACITY_EXCEEDED = 0x81 => "Capacity Exceeded",
        NAMESPACE_NOT_READY = 0x82 => "Namespace Not Ready",
        RESERVATION_CONFLICT = 0x83 => "Reservation Conflict",
        FORMAT_IN_PROGRESS = 0x84 => "Format In Progress",
    }
    COMMAND_SPECIFIC {
        CQ_INVALID = 0x00 => "Completion Queue Invalid",
        INVALID_QID = 0x01 => "Invalid Queue Identifier",
        INVALID_QUEUE_SIZE = 0x02 => "Invalid Queue Size",
        ABORT_LIMIT_EXCEEDED = 0x03 => "Abort Command Limit Exceeded",
        AER_LIMIT_EXCEEDED = 0x05 => "Asynchronous Event Request Limit Exceeded",
        INVALID_FIRMWARE_SLOT = 0x06 => "Invalid Firmware Slot",
        INVALID_FIRMWARE_IMAGE = 0x07 => "Invalid Firmware Image",
        INVALID_INTERRUPT_VECTOR = 0x08 => "Invalid Interrupt Vector",
        INVALID_LOG_PAGE = 0x09 => "Invalid Log Page",
        INVALID_FORMAT = 0x0A => "Invalid Format",
        FIRMWARE_NEEDS_CONVENTIONAL_RESET = 0x0B => "Firmware Activation Requires Conventional Reset",
        INVALID_QUEUE_DELETION = 0x0C => "Invalid Queue Deletion",
        FEATURE_NOT_SAVEABLE = 0x0D => "Feature Identifier Not Saveable",
        FEATURE_NOT_CHANGEABLE = 0x0E => "Feature Not Changeable",
        FEATURE_NOT_NAMESPACE_SPECIFIC = 0x0F => "Feature Not Namespace Specific",
        FIRMWARE_NEEDS_SUBSYSTEM_RESET = 0x10 => "Firmware Activation Requires NVM Subsystem Reset",
        FIRMWARE_NEEDS_CONTROLLER_RESET = 0x11 => "Firmware Activation Requires Controller Level Reset",
        FIRMWARE_NEEDS_MAX_TIME = 0x12 => "Firmware Activation Requires Maximum Time Violation",
        FIRMWARE_ACTIVATION_PROHIBITED = 0x13 => "Firmware Activation Prohibited",
        OVERLAPPING_RANGE = 0x14 => "Overlapping Range",
        NAMESPACE_INSUFFICIENT_CAPACITY = 0x15 => "Namespace Insufficient Capacity",
        NAMESPACE_ID_UNAVAILABLE = 0x16 => "Namespace Identifier Unavailable",
        NAMESPACE_ALREADY_ATTACHED = 0x18 => "Namespace Already Attached",
        NAMESPACE_IS_PRIVATE = 0x19 => "Namespace Is Private",
        NAMESPACE_NOT_ATTACHED = 0x1A => "Namespace Not Attached",
        THIN_PROVISIONING_NOT_SUPPORTED = 0x1B => "Thin Provisioning Not Supported",
        CONTROLLER_LIST_INVALID = 0x1C => "Controller List Invalid",
        SELF_TEST_IN_PROGRESS = 0x1D => "Device Self-test In Progress",
        BOOT_PARTITION_WRITE_PROHIBITED = 0x1E => "Boot Partition Write Prohibited",
        INVALID_CONTROLLER_ID = 0x1F => "Invalid Controller Identifier",
        INVALID_SECONDARY_CONTROLLER_STATE = 0x20 => "Invalid Secondary Controller State",
        INVALID_CONTROLLER_RESOURCES = 0x21 => "Invalid Number of Controller Resources",
        INVALID_RESOURCE_ID = 0x22 => "Invalid Resource Identifier",
        SANITIZE_PROHIBITED_PMR = 0x23 => "Sanitize Prohibited While Persistent Memory Region is Enabled",
        ANA_GROUP_ID_INVALID = 0x24 => "ANA Group Identifier Invalid",
        ANA_ATTACH_FAILED = 0x25 => "ANA Attach Failed",
        INSUFFICIENT_CAPACITY = 0x26 => "Insufficient Capacity",
        NAMESPACE_ATTACHMENT_LIMIT = 0x27 => "Namespace Attachment Limit Exceeded",
        LOCKDOWN_NOT_SUPPORTED = 0x28 => "Prohibition of Command Execution Not Supported",
        IOCS_NOT_SUPPORTED = 0x29 => "I/O Command Set Not Supported",
        IOCS_NOT_ENABLED = 0x2A => "I/O Command Set Not Enabled",
        IOCS_COMBINATION_REJECTED = 0x2B => "I/O Command Set Combination Rejected",
        INVALID_IOCS = 0x2C => "Invalid I/O Command Set",
        IDENTIFIER_UNAVAILABLE = 0x2D => "Identifier Unavailable",
        NAMESPACE_IS_DISPERSED = 0x2E => "Namespace Is Dispersed",
        INVALID_DISCOVERY_INFORMATION = 0x2F => "Invalid Discovery Information",
        STREAM_ALLOCATION_FAILED = 0x7F => "Stream Resource Allocation Failed",
        CONFLICTING_ATTRIBUTES = 0x80 => "Conflicting Attributes, or Connect Incompatible Format",
        INVALID_PROTECTION_INFORMATION = 0x81 => "Invalid Protection Information, or Connect Controller Busy",
        WRITE_TO_READ_ONLY_RANGE = 0x82 => "Attempted Write to Read Only Range, or Connect Invalid Parameters",
        COMMAND_SIZE_LIMIT_EXCEEDED = 0x83 => "Command Size Limit Exceeded, or Connect Restart Discovery",
        CONNECT_INVALID_HOST = 0x84 => "Connect Invalid Host",
        INCOMPATIBLE_NAMESPACE = 0x85 => "Incompatible Namespace or Format, or Invalid Queue Type",
        FAST_COPY_NOT_POSSIBLE = 0x86 => "Fast Copy Not Possible",
        OVERLAPPING_IO_RANGE = 0x87 => "Overlapping I/O Range",
        INSUFFICIENT_RESOURCES = 0x89 => "Insufficient Resources",
        DISCOVERY_RESTART = 0x90 => "Discover Restart",
        AUTHENTICATION_REQUIRED = 0x91 => "Authentication Required",
        INVALID_ZONE_OPERATION_REQUEST = 0xB6 => "Invalid Zone Operation Request",
        ZRWA_RESOURCES_UNAVAILABLE = 0xB7 => "ZRWA Resources Unavailable",
        ZONE_BOUNDARY_ERROR = 0xB8 => "Zone Boundary Error",
        ZONE_IS_FULL = 0xB9 => "Zone Is Full",
        ZONE_IS_READ_ONLY = 0xBA => "Zone Is Read Only",
        ZONE_IS_OFFLINE = 0xBB => "Zone Is Offline",
        ZONE_INVALID_WRITE = 0xBC => "Zone Invalid Write",
        TOO_MANY_ACTIVE_ZONES = 0xBD => "Too Many Active Zones",
        TOO_MANY_OPEN_ZONES = 0xBE => "Too Many Open Zones",
        INVALID_ZONE_STATE_TRANSITION = 0xBF => "Invalid Zone State Transition",
    }
    MEDIA {
        WRITE_FAULT = 0x80 => "Write Fault",
        UNRECOVERED_READ_ERROR = 0x81 => "Unrecovered Read Error",
        GUARD_CHECK_ERROR = 0x82 => "End-to-end Guard Check Error",
        APPLICATION_TAG_CHECK_ERROR = 0x83 => "End-to-end Application Tag Check Error",
        REFERENCE_TAG_CHECK_ERROR = 0x84 => "End-to-end Reference Tag Check Error",
        COMPARE_FAILURE = 0x85 => "Compare Failure",
        ACCESS_DENIED = 0x86 => "Access Denied",
        DEALLOCATED_OR_UNWRITTEN = 0x87 => "Deallocated or Unwritten Logical Block",
        STORAGE_TAG_CHECK_ERROR = 0x88 => "End-to-End Storage Tag Check Error",
    }
    PATH {
        INTERNAL_PATH_ERROR = 0x00 => "Internal Path Error",
        ANA_PERSISTENT_LOSS = 0x01 => "Asymmetric Access Persistent Loss",
        ANA_INACCESSIBLE = 0x02 => "Asymmetric Access Inaccessible",
        ANA_TRANSITION = 0x03 => "Asymmetric Access Transition",
        CONTROLLER_PATHING_ERROR = 0x60 => "Controller Pathing Error",
        HOST_PATHING_ERROR = 0x70 => "Host Pathing Error",
        ABORTED_BY_HOST = 0x71 => "Command Aborted By Host",
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            Some(words) => f.write_str(words)?,
            None => f.write_str("Unknown status")?,
        }
        write!(f, " (SCT {:X}h, SC {:02X}h", self.sct().0, self.sc())?;
        if self.more() {
            f.write_str(", M")?;
        }
        if self.dnr() {
            f.write_str(", DNR")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({:#06x}: {self})", self.0)
    }
}

impl core::error::Error for Status {}
