//! Features (Base 5.1.25, NVM 4.1.3): identifiers, and the bit fields and structures of their values.

use crate::{U16, U64};

open_enum! {
    /// Feature Identifier (Base 5.1.25.1, "Feature Identifiers").
    pub struct FeatureId: u8 {
        /// Arbitration.
        ARBITRATION = 0x01 => "Arbitration",
        /// Power Management.
        POWER_MANAGEMENT = 0x02 => "Power Management",
        /// LBA Range Type.
        LBA_RANGE_TYPE = 0x03 => "LBA Range Type",
        /// Temperature Threshold.
        TEMPERATURE_THRESHOLD = 0x04 => "Temperature Threshold",
        /// Error Recovery.
        ERROR_RECOVERY = 0x05 => "Error Recovery",
        /// Volatile Write Cache.
        VOLATILE_WRITE_CACHE = 0x06 => "Volatile Write Cache",
        /// Number of Queues.
        NUMBER_OF_QUEUES = 0x07 => "Number of Queues",
        /// Interrupt Coalescing; not over fabrics.
        INTERRUPT_COALESCING = 0x08 => "Interrupt Coalescing",
        /// Interrupt Vector Configuration; not over fabrics.
        INTERRUPT_VECTOR_CONFIGURATION = 0x09 => "Interrupt Vector Configuration",
        /// Write Atomicity Normal.
        WRITE_ATOMICITY = 0x0A => "Write Atomicity Normal",
        /// Asynchronous Event Configuration.
        ASYNC_EVENT_CONFIGURATION = 0x0B => "Asynchronous Event Configuration",
        /// Autonomous Power State Transition.
        AUTONOMOUS_POWER_STATE_TRANSITION = 0x0C => "Autonomous Power State Transition",
        /// Host Memory Buffer.
        HOST_MEMORY_BUFFER = 0x0D => "Host Memory Buffer",
        /// Timestamp.
        TIMESTAMP = 0x0E => "Timestamp",
        /// Keep Alive Timer.
        KEEP_ALIVE_TIMER = 0x0F => "Keep Alive Timer",
        /// Host Controlled Thermal Management.
        HOST_CONTROLLED_THERMAL_MANAGEMENT = 0x10 => "Host Controlled Thermal Management",
        /// Non-Operational Power State Config.
        NON_OPERATIONAL_POWER_STATE = 0x11 => "Non-Operational Power State Config",
        /// Read Recovery Level Config.
        READ_RECOVERY_LEVEL = 0x12 => "Read Recovery Level Config",
        /// Predictable Latency Mode Config.
        PREDICTABLE_LATENCY_CONFIG = 0x13 => "Predictable Latency Mode Config",
        /// Predictable Latency Mode Window.
        PREDICTABLE_LATENCY_WINDOW = 0x14 => "Predictable Latency Mode Window",
        /// LBA Status Information Attributes.
        LBA_STATUS_ATTRIBUTES = 0x15 => "LBA Status Information Attributes",
        /// Host Behavior Support.
        HOST_BEHAVIOR_SUPPORT = 0x16 => "Host Behavior Support",
        /// Sanitize Config.
        SANITIZE_CONFIG = 0x17 => "Sanitize Config",
        /// Endurance Group Event Configuration.
        ENDURANCE_GROUP_EVENT_CONFIGURATION = 0x18 => "Endurance Group Event Configuration",
        /// I/O Command Set Profile.
        IO_COMMAND_SET_PROFILE = 0x19 => "I/O Command Set Profile",
        /// Spinup Control.
        SPINUP_CONTROL = 0x1A => "Spinup Control",
        /// Flexible Data Placement.
        FDP = 0x1D => "Flexible Data Placement",
        /// Flexible Data Placement Events.
        FDP_EVENTS = 0x1E => "Flexible Data Placement Events",
        /// Software Progress Marker.
        SOFTWARE_PROGRESS_MARKER = 0x80 => "Software Progress Marker",
        /// Host Identifier.
        HOST_IDENTIFIER = 0x81 => "Host Identifier",
        /// Reservation Notification Mask.
        RESERVATION_NOTIFICATION_MASK = 0x82 => "Reservation Notification Mask",
        /// Reservation Persistence.
        RESERVATION_PERSISTENCE = 0x83 => "Reservation Persistence",
        /// Namespace Write Protection Config.
        NAMESPACE_WRITE_PROTECTION = 0x84 => "Namespace Write Protection Config",
        /// Vendor specific: what one namespace may use, a [`Quota`](crate::quota::Quota).
        QUOTA = 0xD8 => "Quota (vendor specific)",
    }
}

open_enum! {
    /// Select field of Get Features (Base 5.1.11).
    pub struct Select: u8 {
        /// Current.
        CURRENT = 0 => "Current",
        /// Default.
        DEFAULT = 1 => "Default",
        /// Saved.
        SAVED = 2 => "Saved",
        /// Supported Capabilities: the result is [`FeatureCapabilities`], without data.
        SUPPORTED_CAPABILITIES = 3 => "Supported Capabilities",
    }
}

/// Bytes of data that go with a feature's value; 0 when the value is in the command alone.
#[must_use]
pub const fn data_bytes(fid: FeatureId, cdw11: u32) -> u64 {
    match fid {
        FeatureId::LBA_RANGE_TYPE => 4096,
        FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION => 256,
        FeatureId::TIMESTAMP => size_of::<Timestamp>() as u64,
        FeatureId::PREDICTABLE_LATENCY_CONFIG | FeatureId::HOST_BEHAVIOR_SUPPORT => 512,
        // EXHID (bit 0) selects the extended identifier of 128 bits.
        FeatureId::HOST_IDENTIFIER => {
            if cdw11 & 1 != 0 {
                16
            } else {
                8
            }
        }
        FeatureId::QUOTA => size_of::<crate::quota::Quota>() as u64,
        // As many descriptors as event types are asked for (NOET).
        FeatureId::FDP_EVENTS => 2 * (cdw11 >> 16 & 0xFF) as u64,
        _ => 0,
    }
}

/// Bytes of data that come with a new value of a feature: [`data_bytes`] but for features that are written in another
/// form than they are read.
#[must_use]
pub const fn set_data_bytes(fid: FeatureId, cdw11: u32) -> u64 {
    match fid {
        // Types without attributes.
        FeatureId::FDP_EVENTS => data_bytes(fid, cdw11) / 2,
        _ => data_bytes(fid, cdw11),
    }
}

bits32! {
    /// Result of Get Features with [`Select::SUPPORTED_CAPABILITIES`] (Base 5.1.11).
    pub struct FeatureCapabilities {
        /// Saveable.
        pub saveable: bool,
        /// Namespace specific.
        pub namespace_specific: bool,
        /// Changeable.
        pub changeable: bool,
        #[bits(29)]
        _r3: u32,
    }

    /// Arbitration (FID 01h).
    pub struct Arbitration {
        /// Arbitration Burst as a power of two; 7 is no limit.
        #[bits(3)]
        pub ab: u8,
        #[bits(5)]
        _r3: u8,
        /// Low Priority Weight, zero-based.
        #[bits(8)]
        pub lpw_z: u8,
        /// Medium Priority Weight, zero-based.
        #[bits(8)]
        pub mpw_z: u8,
        /// High Priority Weight, zero-based.
        #[bits(8)]
        pub hpw_z: u8,
    }

    /// Power Management (FID 02h).
    pub struct PowerManagement {
        /// Power State.
        #[bits(5)]
        pub ps: u8,
        /// Workload Hint.
        #[bits(3)]
        pub wh: u8,
        #[bits(24)]
        _r8: u32,
    }

    /// Temperature Threshold (FID 04h).
    pub struct TemperatureThreshold {
        /// Temperature Threshold in kelvins.
        #[bits(16)]
        pub tmpth: u16,
        /// Threshold Temperature Select: 0 composite, 1 to 8 a sensor, Fh all (set only).
        #[bits(4)]
        pub tmpsel: u8,
        /// Threshold Type Select: 0 over, 1 under.
        #[bits(2)]
        pub thsel: u8,
        /// Temperature Threshold Hysteresis.
        #[bits(3)]
        pub tmpthh: u8,
        #[bits(7)]
        _r25: u8,
    }

    /// Error Recovery (FID 05h, NVM 4.1.3.2).
    pub struct ErrorRecovery {
        /// Time Limited Error Recovery in units of 100 ms; 0 no limit.
        #[bits(16)]
        pub tler: u16,
        /// Deallocated or Unwritten Logical Block Error Enable.
        pub dulbe: bool,
        #[bits(15)]
        _r17: u16,
    }

    /// Volatile Write Cache (FID 06h).
    pub struct VolatileWriteCache {
        /// Volatile Write Cache Enable.
        pub wce: bool,
        #[bits(31)]
        _r1: u32,
    }

    /// Number of Queues (FID 07h): requested in CDW11, allocated in the completion's dword 0.
    pub struct NumberOfQueues {
        /// Number of I/O Submission Queues, zero-based; FFFFh is invalid in a request.
        #[bits(16)]
        pub nsq_z: u16,
        /// Number of I/O Completion Queues, zero-based; FFFFh is invalid in a request.
        #[bits(16)]
        pub ncq_z: u16,
    }

    /// Interrupt Coalescing (FID 08h, Base 5.1.25.2.1).
    pub struct InterruptCoalescing {
        /// Aggregation Threshold: completion queue entries for each interrupt, zero-based.
        #[bits(8)]
        pub thr_z: u8,
        /// Aggregation Time in units of 100 us; 0 is no delay.
        #[bits(8)]
        pub time: u8,
        #[bits(16)]
        _r16: u16,
    }

    /// Interrupt Vector Configuration (FID 09h, Base 5.1.25.2.2).
    pub struct InterruptVectorConfiguration {
        /// Interrupt Vector.
        #[bits(16)]
        pub iv: u16,
        /// Coalescing Disable.
        pub cd: bool,
        #[bits(15)]
        _r17: u16,
    }

    /// Write Atomicity Normal (FID 0Ah, NVM 4.1.3.3).
    pub struct WriteAtomicity {
        /// Disable Normal: AWUN and NAWUN need not be honoured, only AWUPF and NAWUPF.
        pub dn: bool,
        #[bits(31)]
        _r1: u32,
    }

    /// Asynchronous Event Configuration (FID 0Bh); the notices' bits are those of OAES.
    pub struct AsyncEventConfiguration {
        /// SMART / Health Critical Warnings that raise an event, bit by bit as in the log.
        #[bits(8)]
        pub smart: u8,
        /// Namespace Attribute Notices.
        pub nan: bool,
        /// Firmware Activation Notices.
        pub fan: bool,
        /// Telemetry Log Notices.
        pub tln: bool,
        /// Asymmetric Namespace Access Change Notices.
        pub anacn: bool,
        /// Predictable Latency Event Aggregate Log Change Notices.
        pub pleln: bool,
        /// LBA Status Information Notices.
        pub lsin: bool,
        /// Endurance Group Event Aggregate Log Change Notices.
        pub egealcn: bool,
        /// Normal NVM Subsystem Shutdown.
        pub nnsshdn: bool,
        /// Temperature Threshold Hysteresis Recovery.
        pub tthry: bool,
        /// Reachability Groups Change Notices.
        pub rgcns: bool,
        #[bits(1)]
        _r18: u8,
        /// Allocated Namespace Attribute Notices.
        pub ansan: bool,
        #[bits(7)]
        _r20: u8,
        /// Zone Descriptor Changed Notices.
        pub zdcn: bool,
        #[bits(3)]
        _r28: u8,
        /// Discovery Log Page Change Notification.
        pub dlpcn: bool,
    }

    /// LBA Status Information Attributes (FID 15h, NVM 4.1.3.5).
    pub struct LbaStatusAttributes {
        /// LBA Status Information Report Interval in units of 100 ms: the least time that the controller lets pass before it
        /// sends an LBA Status Information Alert.
        #[bits(16)]
        pub lsiri: u16,
        /// LBA Status Information Poll Interval in units of 100 ms: the least time that the host should let pass between two
        /// readings of the log that do not retain the event. The controller's to say; ignored in Set Features.
        #[bits(16)]
        pub lsipi: u16,
    }

    /// I/O Command Set Profile (FID 19h): the combination of I/O command sets that is enabled.
    pub struct IoCommandSetProfile {
        /// I/O Command Set Combination Index, into [`IoCommandSets`](crate::identify::IoCommandSets).
        #[bits(9)]
        pub iocsci: u16,
        #[bits(23)]
        _r9: u32,
    }

    /// CDW11 of Host Identifier (FID 81h).
    pub struct HostIdentifierCdw11 {
        /// Enable Extended Host Identifier: 128 bits. Required over fabrics.
        pub exhid: bool,
        #[bits(31)]
        _r1: u32,
    }

    /// Value of Flexible Data Placement (FID 1Dh): CDW12 of Set Features, dword 0 of Get Features.
    pub struct FdpMode {
        /// Flexible Data Placement Enable.
        pub fdpe: bool,
        #[bits(7)]
        _r1: u8,
        /// Flexible Data Placement Configuration Index.
        #[bits(8)]
        pub fdpcidx: u8,
        #[bits(16)]
        _r16: u16,
    }

    /// CDW11 of Flexible Data Placement Events (FID 1Eh).
    pub struct FdpEventsCdw11 {
        /// Placement Handle.
        #[bits(16)]
        pub phndl: u16,
        /// Number of FDP Event Types.
        #[bits(8)]
        pub noet: u8,
        #[bits(8)]
        _r24: u8,
    }

    /// CDW11 of Endurance Group Event Configuration (FID 18h).
    pub struct EnduranceGroupEvents {
        /// Endurance Group Identifier.
        #[bits(16)]
        pub endgid: u16,
        /// Endurance Group Critical Warnings that raise an event, bit by bit as in the log.
        #[bits(8)]
        pub egcw: u8,
        #[bits(8)]
        _r24: u8,
    }

    /// Namespace Write Protection Config (FID 84h).
    pub struct NamespaceWriteProtection {
        /// Write Protection State.
        #[bits(3)]
        pub wps: WriteProtectionState,
        #[bits(29)]
        _r3: u32,
    }
}

open_enum! {
    /// Write Protection State (Base 5.1.25.1.29).
    pub struct WriteProtectionState: u8 {
        /// No Write Protect.
        NONE = 0 => "No Write Protect",
        /// Write Protect.
        PROTECT = 1 => "Write Protect",
        /// Write Protect Until Power Cycle.
        UNTIL_POWER_CYCLE = 2 => "Write Protect Until Power Cycle",
        /// Permanent Write Protect.
        PERMANENT = 3 => "Permanent Write Protect",
    }
}

wire! {
    /// Timestamp (FID 0Eh, Base 5.1.25.1.7).
    pub struct Timestamp[8] {
        /// Milliseconds since 1970-01-01 00:00 UTC, 48 bits.
        pub timestamp: [u8; 6],
        /// Bit 0 Synch (the counter stopped at times), bits 3:1 Timestamp Origin (0 reset, 1 set by host).
        pub attr: u8,
        /// Reserved.
        pub rsvd7: u8,
    }

    /// Host Behavior Support (FID 16h, Base 5.1.25.1.14).
    pub struct HostBehaviorSupport[512] {
        /// Advanced Command Retry Enable.
        pub acre: u8,
        /// Extended Telemetry Data Area 4 Supported.
        pub etdas: u8,
        /// LBA Format Extension Enable: LBA formats 16 to 63 may be used.
        pub lbafee: u8,
        /// Host Dispersed Namespace Support.
        pub hdisns: u8,
        /// Copy Descriptor Formats Enable.
        pub cdfe: U16,
        /// Reserved.
        pub rsvd6: [u8; 506],
    }
}

impl Timestamp {
    /// Milliseconds since the epoch.
    #[must_use]
    pub fn millis(&self) -> u64 {
        let t = self.timestamp;
        U64::from_bytes([t[0], t[1], t[2], t[3], t[4], t[5], 0, 0]).get()
    }

    /// A timestamp of these milliseconds (the lower 48 bits) with the origin "set by the host" or "reset".
    #[must_use]
    pub fn new(millis: u64, set_by_host: bool) -> Self {
        let b = millis.to_le_bytes();
        Self { timestamp: [b[0], b[1], b[2], b[3], b[4], b[5]], attr: u8::from(set_by_host) << 1, rsvd7: 0 }
    }
}
