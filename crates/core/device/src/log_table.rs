//! The log table: one row for each log page that a drive may have.
//!
//! A row says what does not depend on the command that reads the log. The bytes come from `Drive::log`.

use nvme::log::LogId;

/// What a drive must have so that it has a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogRequirement {
    /// Nothing.
    None,
    /// Deterministic windows (Predictable Latency Mode).
    Windows,
    /// Flexible Data Placement.
    Placement,
    /// Zoned namespaces.
    Zones,
    /// A hard disk.
    Disk,
}

/// What a row says of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogInfo {
    /// Its identifier.
    pub lid: LogId,
    /// Drives without this do not have it.
    pub requires: LogRequirement,
    /// Whether it tells or counts what other hosts do, so that only administrators read it.
    pub private: bool,
    /// Whether a host reads it while a sanitize operation runs (Base 5.1, the figure of admin commands that are allowed during one).
    /// No log of a vendor is among them.
    pub during_sanitize: bool,
    /// Whether a namespace has one of its own. Other logs reject a namespace identifier.
    pub by_namespace: bool,
    /// LID Specific Parameter of Supported Log Pages.
    pub parameter: u16,
}

/// A log that every host reads from every drive, and not during a sanitize operation.
const fn log(lid: LogId) -> LogInfo {
    let (requires, parameter) = (LogRequirement::None, 0);
    LogInfo { lid, requires, private: false, during_sanitize: false, by_namespace: false, parameter }
}

/// One that a host also reads during a sanitize operation.
const fn always(lid: LogId) -> LogInfo {
    LogInfo { during_sanitize: true, ..log(lid) }
}

/// One that only administrators read.
const fn private(lid: LogId) -> LogInfo {
    LogInfo { private: true, ..log(lid) }
}

/// One that only some drives have.
const fn with(requires: LogRequirement, lid: LogId) -> LogInfo {
    LogInfo { requires, ..log(lid) }
}

/// All of them, by identifier.
pub(crate) const LOGS: &[LogInfo] = &[
    log(LogId::SUPPORTED),
    always(LogId::ERROR),
    LogInfo { by_namespace: true, ..always(LogId::SMART) },
    log(LogId::FIRMWARE_SLOT),
    always(LogId::CHANGED_NAMESPACES),
    log(LogId::COMMAND_EFFECTS),
    private(LogId::DEVICE_SELF_TEST),
    private(LogId::TELEMETRY_HOST),
    private(LogId::TELEMETRY_CONTROLLER),
    log(LogId::ENDURANCE_GROUP),
    // They tell how much of a set's window is left, and so how much all of its namespaces use.
    LogInfo { private: true, ..with(LogRequirement::Windows, LogId::PREDICTABLE_LATENCY) },
    LogInfo { private: true, ..with(LogRequirement::Windows, LogId::PREDICTABLE_LATENCY_EVENTS) },
    always(LogId::ANA),
    // Establish Context and Read 512 Bytes of Header.
    LogInfo { parameter: 1, ..private(LogId::PERSISTENT_EVENT) },
    log(LogId::LBA_STATUS),
    log(LogId::ENDURANCE_GROUP_EVENTS),
    log(LogId::SUPPORTED_CAPACITY_CONFIGURATIONS),
    log(LogId::FEATURE_EFFECTS),
    log(LogId::MI_EFFECTS),
    with(LogRequirement::Disk, LogId::ROTATIONAL_MEDIA),
    with(LogRequirement::Placement, LogId::FDP_CONFIGURATIONS),
    with(LogRequirement::Placement, LogId::RUH_USAGE),
    LogInfo { private: true, ..with(LogRequirement::Placement, LogId::FDP_STATISTICS) },
    LogInfo { private: true, ..with(LogRequirement::Placement, LogId::FDP_EVENTS) },
    always(LogId::RESERVATION_NOTIFICATION),
    always(LogId::SANITIZE_STATUS),
    LogInfo { by_namespace: true, ..with(LogRequirement::Zones, LogId::CHANGED_ZONES) },
    private(LogId::OCP_SMART),
    private(LogId::MEMBLAZE_SMART),
    LogInfo { by_namespace: true, ..log(LogId::NAMESPACE_STATISTICS) },
    private(LogId::CONTROLLERS),
    private(LogId::SET_MAP),
    private(LogId::DIE_TIMES),
    private(LogId::INJECTED_FAULTS),
];

/// The row of a log; `None` for one that no drive has.
pub(crate) fn of(lid: LogId) -> Option<&'static LogInfo> {
    LOGS.iter().find(|info| info.lid == lid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uuid::VENDOR_SPECIFIC;

    #[test]
    fn rows_are_in_order_and_no_vendors_log_is_read_during_sanitize() {
        assert!(LOGS.is_sorted_by(|a, b| a.lid.0 < b.lid.0));
        assert!(LOGS.iter().all(|info| !(info.during_sanitize && info.lid.0 >= VENDOR_SPECIFIC)));
    }
}
