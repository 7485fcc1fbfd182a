//! Asynchronous events: which are pending, which are masked, who waits for them (Base 5.1.2).
//!
//! An event that was reported is masked together with every other event of the same log until the host
//! reads that log without Retain Asynchronous AsyncEvent. What happens meanwhile is in the log when the host
//! reads it, so nothing is lost.

use nvme::aer::{AsyncEvent as Code, HealthInfo, IoCommandInfo, NoticeInfo};
use nvme::feature::AsyncEventConfiguration;
use nvme::log::{ChangedZones, LogId};
use std::collections::{BTreeMap, BTreeSet};

/// Asynchronous Event Requests that a controller holds (AERL + 1).
pub(crate) const ASYNC_EVENT_LIMIT: usize = 8;

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AsyncEvent {
    /// The spare fell below its threshold.
    Spare,
    /// The temperature crossed a threshold.
    Temperature,
    /// The medium wears out or became read-only, or its backup power failed.
    Reliability,
    /// Attached namespaces were changed, came or went.
    Namespaces,
    /// An Endurance Group has a new critical warning.
    EnduranceGroup,
    /// Other firmware begins to run without a reset.
    FirmwareActivation,
    /// The drive has captured telemetry.
    Telemetry,
    /// The Asymmetric Namespace Access state changed.
    Ana,
    /// A window of Predictable Latency Mode ended, or will soon.
    Window,
    /// A Reservation Notification log page is available.
    Reservation,
    /// A sanitize operation has ended.
    Sanitized,
    /// Blocks are potentially unrecoverable that were not before.
    LbaStatus,
    /// The drive itself changed zones of a namespace.
    Zones,
}

impl AsyncEvent {
    const ALL: &[AsyncEvent] = &[
        AsyncEvent::Spare,
        AsyncEvent::Temperature,
        AsyncEvent::Reliability,
        AsyncEvent::Namespaces,
        AsyncEvent::EnduranceGroup,
        AsyncEvent::FirmwareActivation,
        AsyncEvent::Telemetry,
        AsyncEvent::Ana,
        AsyncEvent::Window,
        AsyncEvent::Reservation,
        AsyncEvent::Sanitized,
        AsyncEvent::LbaStatus,
        AsyncEvent::Zones,
    ];

    fn bit(self) -> u32 {
        1 << self as u8
    }

    /// What the host is told.
    fn word(self) -> Code {
        match self {
            AsyncEvent::Spare => Code::health(HealthInfo::SPARE_BELOW_THRESHOLD),
            AsyncEvent::Temperature => Code::health(HealthInfo::TEMPERATURE_THRESHOLD),
            AsyncEvent::Reliability => Code::health(HealthInfo::RELIABILITY),
            AsyncEvent::Namespaces => Code::notice(NoticeInfo::NAMESPACE_ATTRIBUTE_CHANGED),
            AsyncEvent::FirmwareActivation => Code::notice(NoticeInfo::FIRMWARE_ACTIVATION_STARTING),
            AsyncEvent::Telemetry => Code::notice(NoticeInfo::TELEMETRY_LOG_CHANGED),
            AsyncEvent::EnduranceGroup => Code::notice(NoticeInfo::ENDURANCE_GROUP_EVENT),
            AsyncEvent::Ana => Code::notice(NoticeInfo::ANA_CHANGE),
            AsyncEvent::Window => Code::notice(NoticeInfo::PREDICTABLE_LATENCY),
            AsyncEvent::LbaStatus => Code::notice(NoticeInfo::LBA_STATUS),
            AsyncEvent::Zones => Code::notice(NoticeInfo::ZONE_DESCRIPTOR_CHANGED),
            AsyncEvent::Reservation => Code::reservation(),
            AsyncEvent::Sanitized => Code::io_command(IoCommandInfo::SANITIZE_COMPLETED),
        }
    }

    /// The log that tells the details, whose reading clears the event.
    fn log(self) -> LogId {
        self.word().lid()
    }

    /// Notices that a configuration lets through. (Critical warnings are chosen bit by bit, before.)
    fn enabled(self, configuration: AsyncEventConfiguration) -> bool {
        match self {
            AsyncEvent::Spare | AsyncEvent::Temperature | AsyncEvent::Reliability => {
                configuration.smart() != 0
            }
            AsyncEvent::Namespaces => configuration.nan(),
            AsyncEvent::FirmwareActivation => configuration.fan(),
            AsyncEvent::Telemetry => configuration.tln(),
            AsyncEvent::EnduranceGroup => configuration.egealcn(),
            AsyncEvent::Ana => configuration.anacn(),
            AsyncEvent::Window => configuration.pleln(),
            AsyncEvent::LbaStatus => configuration.lsin(),
            AsyncEvent::Zones => configuration.zdcn(),
            // Masked by namespace and kind (FID 82h), before.
            AsyncEvent::Reservation => true,
            // Not one that a host can turn off.
            AsyncEvent::Sanitized => true,
        }
    }
}

/// A request that is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AnsweredEventRequest {
    /// The command.
    pub io: u32,
    /// Dword 0 of its completion.
    pub dw0: u32,
    /// Dword 1 of its completion: the namespace whose zones changed, otherwise 0.
    pub dw1: u32,
}

/// AsyncEvents of one controller.
#[derive(Debug, Default)]
pub(crate) struct AsyncEvents {
    waiting: Vec<u32>,
    pending: u32,
    masked: u32,
    /// Namespaces whose zones the drive changed since the host read their Changed Zone List.
    /// With each, zones of it; those that can only be read are not named.
    zones: BTreeMap<u32, BTreeSet<u32>>,
}

impl AsyncEvents {
    /// A request came. It is answered at once if something is pending.
    ///
    /// # Errors
    /// If as many requests wait already as the controller holds.
    pub fn request(&mut self, io: u32) -> Result<Option<AnsweredEventRequest>, ()> {
        if let Some(event) = AsyncEvent::ALL.iter().copied().find(|e| self.pending & e.bit() != 0) {
            return Ok(Some(self.report(event, io)));
        }
        if self.waiting.len() >= ASYNC_EVENT_LIMIT {
            return Err(());
        }
        self.waiting.push(io);
        Ok(None)
    }

    /// Something happened.
    pub fn raise(
        &mut self,
        event: AsyncEvent,
        configuration: AsyncEventConfiguration,
    ) -> Option<AnsweredEventRequest> {
        if !event.enabled(configuration) || self.masked & event.bit() != 0 {
            return None;
        }
        if self.waiting.is_empty() {
            self.pending |= event.bit();
            return None;
        }
        let io = self.waiting.remove(0);
        Some(self.report(event, io))
    }

    fn report(&mut self, event: AsyncEvent, io: u32) -> AnsweredEventRequest {
        for other in AsyncEvent::ALL.iter().copied() {
            if other.log() == event.log() {
                self.pending &= !other.bit();
                self.masked |= other.bit();
            }
        }
        let nsid = self.zones.keys().next().filter(|_| event == AsyncEvent::Zones);
        AnsweredEventRequest { io, dw0: event.word().to_dw0(), dw1: nsid.copied().unwrap_or(0) }
    }

    /// The drive changed zones of a namespace, and will raise [`AsyncEvent::Zones`].
    pub fn zones_changed(&mut self, nsid: u32, zones: impl IntoIterator<Item = u32>) {
        let changed = self.zones.entry(nsid).or_default();
        for zone in zones {
            // One more than the list has room for is as good as all.
            if changed.len() <= ChangedZones::default().zid.len() {
                changed.insert(zone);
            }
        }
    }

    /// The zones of a namespace that the drive changed since the host read its Changed Zone List; `None` if it changed none.
    pub fn changed_zones(&self, nsid: u32) -> Option<&BTreeSet<u32>> {
        self.zones.get(&nsid)
    }

    /// The host has read the Changed Zone List of a namespace, or the namespace is gone. Whether other namespaces have one to be read.
    pub fn zones_read(&mut self, nsid: u32) -> bool {
        self.zones.remove(&nsid);
        !self.zones.is_empty()
    }

    /// Forgets an event that has not been reported yet.
    pub fn withdraw(&mut self, event: AsyncEvent) {
        self.pending &= !event.bit();
    }

    /// The host has read a log and did not ask to retain the event.
    pub fn clear(&mut self, log: LogId) {
        for event in AsyncEvent::ALL.iter().copied() {
            if event.log() == log {
                self.pending &= !event.bit();
                self.masked &= !event.bit();
            }
        }
    }

    /// A request was aborted; whether it was waiting.
    pub fn abort(&mut self, io: u32) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|w| *w != io);
        self.waiting.len() != before
    }

    /// The controller is reset: the requests that waited.
    pub fn reset(&mut self) -> Vec<u32> {
        self.pending = 0;
        self.masked = 0;
        self.zones.clear();
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> AsyncEventConfiguration {
        AsyncEventConfiguration::new().with_smart(0xFF).with_nan(true).with_egealcn(true)
    }

    #[test]
    fn an_event_is_masked_until_its_log_is_read() {
        let mut e = AsyncEvents::default();
        assert_eq!(e.request(1), Ok(None));
        assert_eq!(e.request(2), Ok(None));
        let answered = |io, dw0| AnsweredEventRequest { io, dw0, dw1: 0 };
        assert_eq!(e.raise(AsyncEvent::Namespaces, all()), Some(answered(1, 0x0004_0002)));
        assert_eq!(e.raise(AsyncEvent::Namespaces, all()), None);
        // Another log's event is not masked.
        assert_eq!(e.raise(AsyncEvent::Spare, all()), Some(answered(2, 0x0002_0201)));
        // One of the same log is.
        assert_eq!(e.raise(AsyncEvent::Reliability, all()), None);
        assert_eq!(e.request(3), Ok(None));
        e.clear(LogId::CHANGED_NAMESPACES);
        assert!(e.raise(AsyncEvent::Namespaces, all()).is_some());
    }

    #[test]
    fn pending_events_wait_for_a_request_and_disabled_ones_are_dropped() {
        let mut e = AsyncEvents::default();
        assert_eq!(e.raise(AsyncEvent::Namespaces, AsyncEventConfiguration::new()), None);
        assert_eq!(e.request(7), Ok(None));
        assert!(e.abort(7));
        assert_eq!(e.raise(AsyncEvent::Temperature, all()), None);
        assert_eq!(e.request(8), Ok(Some(AnsweredEventRequest { io: 8, dw0: 0x0002_0101, dw1: 0 })));
        for io in 0..ASYNC_EVENT_LIMIT as u32 {
            assert_eq!(e.request(io), Ok(None));
        }
        assert_eq!(e.request(99), Err(()));
        assert_eq!(e.reset().len(), ASYNC_EVENT_LIMIT);
    }
}
