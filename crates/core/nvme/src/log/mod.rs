//! Log pages (Base 5.1.12) with the OCP and this drive's own vendor specific ones.

mod capacity;
mod changed_zones;
mod die_times;
mod discovery;
mod events;
mod injected_faults;
mod lba_status;
mod memblaze;
mod ocp;
mod sanitize;
mod set_map;
mod standard;
mod statistics;
mod telemetry;

pub use capacity::*;
pub use changed_zones::*;
pub use die_times::*;
pub use discovery::*;
pub use events::*;
pub use injected_faults::*;
pub use lba_status::*;
pub use memblaze::*;
pub use ocp::*;
pub use sanitize::*;
pub use set_map::*;
pub use standard::*;
pub use statistics::*;
pub use telemetry::*;

open_enum! {
    /// Log Page Identifier (Base 5.1.12.1, "Log Page Identifiers").
    pub struct LogId: u8 {
        /// [`SupportedLogPages`].
        SUPPORTED = 0x00 => "Supported Log Pages",
        /// [`ErrorInformation`] entries, newest first.
        ERROR = 0x01 => "Error Information",
        /// [`SmartHealth`].
        SMART = 0x02 => "SMART / Health Information",
        /// [`FirmwareSlots`].
        FIRMWARE_SLOT = 0x03 => "Firmware Slot Information",
        /// [`ChangedNamespaces`].
        CHANGED_NAMESPACES = 0x04 => "Changed Attached Namespace List",
        /// [`CommandEffects`].
        COMMAND_EFFECTS = 0x05 => "Commands Supported and Effects",
        /// [`SelfTestLog`].
        DEVICE_SELF_TEST = 0x06 => "Device Self-test",
        /// [`TelemetryHeader`], then data blocks.
        TELEMETRY_HOST = 0x07 => "Telemetry Host-Initiated",
        /// [`TelemetryHeader`], then data blocks.
        TELEMETRY_CONTROLLER = 0x08 => "Telemetry Controller-Initiated",
        /// [`EnduranceGroup`], by the Endurance Group Identifier in LSI.
        ENDURANCE_GROUP = 0x09 => "Endurance Group Information",
        /// [`PredictableLatencyLog`](crate::plm::PredictableLatencyLog), by the NVM Set Identifier in LSI.
        PREDICTABLE_LATENCY = 0x0A => "Predictable Latency Per NVM Set",
        /// Predictable Latency Event Aggregate: a count, and the NVM Sets that have events.
        PREDICTABLE_LATENCY_EVENTS = 0x0B => "Predictable Latency Event Aggregate",
        /// [`AnaHeader`] and [`AnaGroup`] descriptors.
        ANA = 0x0C => "Asymmetric Namespace Access",
        /// [`PersistentEventHeader`], then events.
        PERSISTENT_EVENT = 0x0D => "Persistent Event Log",
        /// [`LbaStatusLogHeader`], then [`LbaStatusLogElement`]s with their [`LbaRangeDescriptor`]s.
        LBA_STATUS = 0x0E => "LBA Status Information",
        /// Endurance Group Event Aggregate.
        ENDURANCE_GROUP_EVENTS = 0x0F => "Endurance Group Event Aggregate",
        /// [`CapacityConfigurationList`], then descriptors.
        SUPPORTED_CAPACITY_CONFIGURATIONS = 0x11 => "Supported Capacity Configuration List",
        /// Feature Identifiers Supported and Effects.
        FEATURE_EFFECTS = 0x12 => "Feature Identifiers Supported and Effects",
        /// NVMe-MI Commands Supported and Effects: 256 entries as in [`CommandEffects`], then zeros, 4,096 bytes.
        MI_EFFECTS = 0x13 => "NVMe-MI Commands Supported and Effects",
        /// [`RotationalMedia`], by the Endurance Group Identifier in LSI.
        ROTATIONAL_MEDIA = 0x16 => "Rotational Media Information",
        /// Changed Allocated Namespace List.
        CHANGED_ALLOCATED_NAMESPACES = 0x1C => "Changed Allocated Namespace List",
        /// [`FdpConfigurationsHeader`](crate::fdp::FdpConfigurationsHeader), by the Endurance Group Identifier in LSI.
        FDP_CONFIGURATIONS = 0x20 => "FDP Configurations",
        /// [`ReclaimUnitHandleUsageHeader`](crate::fdp::ReclaimUnitHandleUsageHeader), by the Endurance Group.
        RUH_USAGE = 0x21 => "Reclaim Unit Handle Usage",
        /// [`FdpStatistics`](crate::fdp::FdpStatistics), by the Endurance Group.
        FDP_STATISTICS = 0x22 => "FDP Statistics",
        /// [`FdpEventsHeader`](crate::fdp::FdpEventsHeader), by the Endurance Group; LSP bit 0: the host's events.
        FDP_EVENTS = 0x23 => "FDP Events",
        /// [`DiscoveryHeader`] and [`DiscoveryEntry`] records.
        DISCOVERY = 0x70 => "Discovery",
        /// [`ReservationNotification`](crate::reservation::ReservationNotification).
        RESERVATION_NOTIFICATION = 0x80 => "Reservation Notification",
        /// [`SanitizeStatus`].
        SANITIZE_STATUS = 0x81 => "Sanitize Status",
        /// [`ChangedZones`], by the command's NSID; the command's CSI is the Zoned Namespace Command Set.
        CHANGED_ZONES = 0xBF => "Changed Zone List",
        /// [`OcpSmart`].
        OCP_SMART = 0xC0 => "SMART / Health Information Extended (OCP)",
        /// [`MemblazeSmart`].
        MEMBLAZE_SMART = 0xCA => "Additional SMART (Memblaze)",
        /// [`NamespaceStatistics`], by the command's NSID.
        NAMESPACE_STATISTICS = 0xD8 => "Namespace Statistics (vendor specific)",
        /// Vendor specific: the subsystem's controllers and the hosts behind them. A header of 16 bytes
        /// (version 1; number of entries in bytes 3:2), then one [`ControllerEntry`] each, ascending.
        CONTROLLERS = 0xD9 => "Controllers (vendor specific)",
        /// [`SetMapHeader`], then [`SetMapEntry`] records, by the NVM Set Identifier in LSI.
        SET_MAP = 0xDA => "NVM Set Map (vendor specific)",
        /// [`DieTimesHeader`], then [`DieTimesEntry`] records, by the NVM Set Identifier in LSI.
        DIE_TIMES = 0xDB => "Die Times (vendor specific)",
        /// [`InjectedFaultsHeader`], then [`InjectedFault`] records.
        INJECTED_FAULTS = 0xDC => "Injected Faults (vendor specific)",
    }
}
