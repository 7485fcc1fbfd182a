//! Asynchronous events (Base 5.1.2).

use crate::log::LogId;

bits32! {
    /// Dword 0 of a completed Asynchronous Event Request (Base 5.1.2.1).
    pub struct AsyncEvent {
        /// Asynchronous Event Type.
        #[bits(3)]
        pub kind: EventType,
        #[bits(5)]
        _r3: u8,
        /// Asynchronous Event Information, by the type: [`ErrorInfo`], [`HealthInfo`], [`NoticeInfo`].
        #[bits(8)]
        pub info: u8,
        /// Log Page Identifier to read; reading it clears the event.
        #[bits(8)]
        pub lid: LogId,
        #[bits(8)]
        _r24: u8,
    }
}

impl AsyncEvent {
    /// Error status event.
    #[must_use]
    pub const fn error(info: ErrorInfo) -> Self {
        Self::new().with_kind(EventType::ERROR).with_info(info.0).with_lid(LogId::ERROR)
    }

    /// SMART / health status event.
    #[must_use]
    pub const fn health(info: HealthInfo) -> Self {
        Self::new().with_kind(EventType::HEALTH).with_info(info.0).with_lid(LogId::SMART)
    }

    /// Notice with the log that belongs to it; 0 where there is none.
    #[must_use]
    pub const fn notice(info: NoticeInfo) -> Self {
        let lid = match info {
            NoticeInfo::NAMESPACE_ATTRIBUTE_CHANGED => LogId::CHANGED_NAMESPACES,
            NoticeInfo::FIRMWARE_ACTIVATION_STARTING => LogId::FIRMWARE_SLOT,
            NoticeInfo::TELEMETRY_LOG_CHANGED => LogId::TELEMETRY_CONTROLLER,
            NoticeInfo::ANA_CHANGE => LogId::ANA,
            NoticeInfo::PREDICTABLE_LATENCY => LogId::PREDICTABLE_LATENCY_EVENTS,
            NoticeInfo::LBA_STATUS => LogId::LBA_STATUS,
            NoticeInfo::ENDURANCE_GROUP_EVENT => LogId::ENDURANCE_GROUP_EVENTS,
            NoticeInfo::ALLOCATED_NAMESPACE_ATTRIBUTE_CHANGED => LogId::CHANGED_ALLOCATED_NAMESPACES,
            NoticeInfo::ZONE_DESCRIPTOR_CHANGED => LogId::CHANGED_ZONES,
            NoticeInfo::DISCOVERY_LOG_CHANGE => LogId::DISCOVERY,
            _ => LogId(0),
        };
        Self::new().with_kind(EventType::NOTICE).with_info(info.0).with_lid(lid)
    }

    /// I/O Command specific status event: a Reservation Notification log page is available (Base 5.1.2.1).
    #[must_use]
    pub const fn reservation() -> Self {
        Self::new().with_kind(EventType::IO_COMMAND).with_lid(LogId::RESERVATION_NOTIFICATION)
    }

    /// An event of an I/O command set.
    #[must_use]
    pub const fn io_command(info: IoCommandInfo) -> Self {
        let lid = match info {
            IoCommandInfo::SANITIZE_COMPLETED | IoCommandInfo::SANITIZE_UNEXPECTED_DEALLOCATION => {
                LogId::SANITIZE_STATUS
            }
            _ => LogId(0),
        };
        Self::new().with_kind(EventType::IO_COMMAND).with_info(info.0).with_lid(lid)
    }

    /// As the dword of a completion.
    #[must_use]
    pub const fn to_dw0(self) -> u32 {
        self.0.get()
    }

    /// From the dword of a completion.
    #[must_use]
    pub const fn from_dw0(dw0: u32) -> Self {
        Self(crate::U32::new(dw0))
    }
}

open_enum! {
    /// Asynchronous Event Type (Base 5.1.2.1).
    pub struct EventType: u8 {
        /// Error status.
        ERROR = 0 => "Error status",
        /// SMART / Health status.
        HEALTH = 1 => "SMART / Health status",
        /// Notice.
        NOTICE = 2 => "Notice",
        /// Immediate.
        IMMEDIATE = 3 => "Immediate",
        /// One-Shot.
        ONE_SHOT = 4 => "One-Shot",
        /// I/O Command specific status.
        IO_COMMAND = 6 => "I/O Command specific status",
        /// Vendor specific.
        VENDOR = 7 => "Vendor specific",
    }
}

open_enum! {
    /// Asynchronous Event Information – Error Status.
    pub struct ErrorInfo: u8 {
        /// Write to Invalid Doorbell Register.
        INVALID_DOORBELL = 0 => "Write to Invalid Doorbell Register",
        /// Invalid Doorbell Write Value.
        INVALID_DOORBELL_VALUE = 1 => "Invalid Doorbell Write Value",
        /// Diagnostic Failure.
        DIAGNOSTIC_FAILURE = 2 => "Diagnostic Failure",
        /// Persistent Internal Error.
        PERSISTENT_INTERNAL_ERROR = 3 => "Persistent Internal Error",
        /// Transient Internal Error.
        TRANSIENT_INTERNAL_ERROR = 4 => "Transient Internal Error",
        /// Firmware Image Load Error.
        FIRMWARE_IMAGE_LOAD_ERROR = 5 => "Firmware Image Load Error",
    }
}

open_enum! {
    /// Asynchronous Event Information – SMART / Health Status.
    pub struct HealthInfo: u8 {
        /// NVM subsystem Reliability.
        RELIABILITY = 0 => "NVM subsystem Reliability",
        /// Temperature Threshold.
        TEMPERATURE_THRESHOLD = 1 => "Temperature Threshold",
        /// Spare Below Threshold.
        SPARE_BELOW_THRESHOLD = 2 => "Spare Below Threshold",
    }
}

open_enum! {
    /// Asynchronous Event Information – Notice.
    pub struct NoticeInfo: u8 {
        /// Attached Namespace Attribute Changed.
        NAMESPACE_ATTRIBUTE_CHANGED = 0x00 => "Attached Namespace Attribute Changed",
        /// Firmware Activation Starting.
        FIRMWARE_ACTIVATION_STARTING = 0x01 => "Firmware Activation Starting",
        /// Telemetry Log Changed.
        TELEMETRY_LOG_CHANGED = 0x02 => "Telemetry Log Changed",
        /// Asymmetric Namespace Access Change.
        ANA_CHANGE = 0x03 => "Asymmetric Namespace Access Change",
        /// Predictable Latency Event Aggregate Log Change.
        PREDICTABLE_LATENCY = 0x04 => "Predictable Latency Event Aggregate Log Change",
        /// LBA Status Information Alert.
        LBA_STATUS = 0x05 => "LBA Status Information Alert",
        /// Endurance Group Event Aggregate Log Page Change.
        ENDURANCE_GROUP_EVENT = 0x06 => "Endurance Group Event Aggregate Log Page Change",
        /// Normal NVM Subsystem Shutdown.
        SUBSYSTEM_SHUTDOWN = 0x08 => "Normal NVM Subsystem Shutdown",
        /// Temperature Threshold Hysteresis Recovery.
        TEMPERATURE_RECOVERY = 0x09 => "Temperature Threshold Hysteresis Recovery",
        /// Allocated Namespace Attribute Changed.
        ALLOCATED_NAMESPACE_ATTRIBUTE_CHANGED = 0x0B => "Allocated Namespace Attribute Changed",
        /// Zone Descriptor Changed. Dword 1 of the completion is the NSID.
        ZONE_DESCRIPTOR_CHANGED = 0xEF => "Zone Descriptor Changed",
        /// Discovery Log Page Change.
        DISCOVERY_LOG_CHANGE = 0xF0 => "Discovery Log Page Change",
    }
}

open_enum! {
    /// Information of [`EventType::IO_COMMAND`] (Base 5.1.2, "Asynchronous Event Information - I/O Command Specific
    /// Status").
    pub struct IoCommandInfo: u8 {
        /// A sanitize operation has ended, well or not; the log tells.
        SANITIZE_COMPLETED = 0x01 => "Sanitize Operation Completed",
        /// The same, and all blocks were deallocated though the host had asked for no deallocation.
        SANITIZE_UNEXPECTED_DEALLOCATION = 0x02 => "Sanitize Operation Completed With Unexpected Deallocation",
    }
}
