//! Asynchronous events: which are pending, which are masked, who waits for them (Base 5.1.2).
//!
//! An event that was reported is masked together with every other event of the same log until the host
//! reads that log without Retain Asynchronous Event. What happens meanwhile is in the log when the host
//! reads it, so nothing is lost.

use nvme::aer::{AsyncEvent, HealthInfo, IoCommandInfo, NoticeInfo};
use nvme::feature::AsyncEventConfiguration;
use nvme::log::LogId;

/// Asynchronous Event Requests that a controller holds (AERL + 1).
pub(crate) const LIMIT: usize = 8;

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
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
}

impl Event {
    const ALL: &[Event] = &[
        Event::Spare,
        Event::Temperature,
        Event::Reliability,
        Event::Namespaces,
        Event::EnduranceGroup,
        Event::FirmwareActivation,
        Event::Telemetry,
        Event::Ana,
        Event::Window,
        Event::Reservation,
        Event::Sanitized,
        Event::LbaStatus,
    ];

    fn bit(self) -> u32 {
        1 << self as u8
    }

    /// What the host is told.
    fn word(self) -> AsyncEvent {
        match self {
            Event::Spare => AsyncEvent::health(HealthInfo::SPARE_BELOW_THRESHOLD),
            Event::Temperature => AsyncEvent::health(HealthInfo::TEMPERATURE_THRESHOLD),
            Event::Reliability => AsyncEvent::health(HealthInfo::RELIABILITY),
            Event::Namespaces => AsyncEvent::notice(NoticeInfo::NAMESPACE_ATTRIBUTE_CHANGED),
            Event::FirmwareActivation => AsyncEvent::notice(NoticeInfo::FIRMWARE_ACTIVATION_STARTING),
            Event::Telemetry => AsyncEvent::notice(NoticeInfo::TELEMETRY_LOG_CHANGED),
            Event::EnduranceGroup => AsyncEvent::notice(NoticeInfo::ENDURANCE_GROUP_EVENT),
            Event::Ana => AsyncEvent::notice(NoticeInfo::ANA_CHANGE),
            Event::Window => AsyncEvent::notice(NoticeInfo::PREDICTABLE_LATENCY),
            Event::LbaStatus => AsyncEvent::notice(NoticeInfo::LBA_STATUS),
            Event::Reservation => AsyncEvent::reservation(),
            Event::Sanitized => AsyncEvent::io_command(IoCommandInfo::SANITIZE_COMPLETED),
        }
    }

    /// The log that tells the details, whose reading clears the event.
    fn log(self) -> LogId {
        self.word().lid()
    }

    /// Notices that a configuration lets through. (Critical warnings are chosen bit by bit, before.)
    fn enabled(self, configuration: AsyncEventConfiguration) -> bool {
        match self {
            Event::Spare | Event::Temperature | Event::Reliability => configuration.smart() != 0,
            Event::Namespaces => configuration.nan(),
            Event::FirmwareActivation => configuration.fan(),
            Event::Telemetry => configuration.tln(),
            Event::EnduranceGroup => configuration.egealcn(),
            Event::Ana => configuration.anacn(),
            Event::Window => configuration.pleln(),
            Event::LbaStatus => configuration.lsin(),
            // Masked by namespace and kind (FID 82h), before.
            Event::Reservation => true,
            // Not one that a host can turn off.
            Event::Sanitized => true,
        }
    }
}

/// A request that is answered: the command, and dword 0 of its completion.
pub(crate) type Answered = (u32, u32);

/// Events of one controller.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: Vec<u32>,
    pending: u32,
    masked: u32,
}

impl Events {
    /// A request came. It is answered at once if something is pending.
    ///
    /// # Errors
    /// If as many requests wait already as the controller holds.
    pub fn request(&mut self, io: u32) -> Result<Option<Answered>, ()> {
        if let Some(event) = Event::ALL.iter().copied().find(|e| self.pending & e.bit() != 0) {
            return Ok(Some(self.report(event, io)));
        }
        if self.waiting.len() >= LIMIT {
            return Err(());
        }
        self.waiting.push(io);
        Ok(None)
    }

    /// Something happened.
    pub fn raise(&mut self, event: Event, configuration: AsyncEventConfiguration) -> Option<Answered> {
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

    fn report(&mut self, event: Event, io: u32) -> Answered {
        for other in Event::ALL.iter().copied() {
            if other.log() == event.log() {
                self.pending &= !other.bit();
                self.masked |= other.bit();
            }
        }
        (io, event.word().to_dw0())
    }

    /// What has happened is of no interest any more, if nobody was told yet.
    pub fn withdraw(&mut self, event: Event) {
        self.pending &= !event.bit();
    }

    /// The host has read a log and did not ask to retain the event.
    pub fn clear(&mut self, log: LogId) {
        for event in Event::ALL.iter().copied() {
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
        let mut e = Events::default();
        assert_eq!(e.request(1), Ok(None));
        assert_eq!(e.request(2), Ok(None));
        let (io, dw0) = e.raise(Event::Namespaces, all()).unwrap();
        assert_eq!((io, dw0), (1, 0x0004_0002));
        assert_eq!(e.raise(Event::Namespaces, all()), None);
        // Another log's event is not masked.
        assert_eq!(e.raise(Event::Spare, all()), Some((2, 0x0002_0201)));
        // One of the same log is.
        assert_eq!(e.raise(Event::Reliability, all()), None);
        assert_eq!(e.request(3), Ok(None));
        e.clear(LogId::CHANGED_NAMESPACES);
        assert!(e.raise(Event::Namespaces, all()).is_some());
    }

    #[test]
    fn pending_events_wait_for_a_request_and_disabled_ones_are_dropped() {
        let mut e = Events::default();
        assert_eq!(e.raise(Event::Namespaces, AsyncEventConfiguration::new()), None);
        assert_eq!(e.request(7), Ok(None));
        assert!(e.abort(7));
        assert_eq!(e.raise(Event::Temperature, all()), None);
        assert_eq!(e.request(8), Ok(Some((8, 0x0002_0101))));
        for io in 0..LIMIT as u32 {
            assert_eq!(e.request(io), Ok(None));
        }
        assert_eq!(e.request(99), Err(()));
        assert_eq!(e.reset().len(), LIMIT);
    }
}
