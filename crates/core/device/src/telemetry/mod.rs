//! Telemetry (Base 5.1.12.1.8, 5.1.12.1.9, 8.1.26): the drive's own state at one moment, for the search of a fault.
//! [docs/telemetry.md](../../../../../docs/telemetry.md) says what is in it.

pub(crate) mod capture;
mod documents;

use crate::contents::Contents;
use crate::core::{AsyncEvent, ControllerId, Core, Cx};
use capture::Capture;
use media::Nanos;
use nvme::U16;
use nvme::log::{LogId, PersistentEventType, TelemetryHeader};
use nvme::zerocopy::IntoBytes;

/// What other components say of themselves in a capture.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct TelemetryInputs {
    /// The firmware that runs.
    pub firmware_revision: [u8; 8],
    /// Power-loss protection has failed.
    pub backup_failed: bool,
    /// Critical warnings that all controllers see alike, as bits.
    pub critical_warning: u8,
}

/// The host-initiated capture. It is lost with power. The controller-initiated one is persistent, so it lies in the core.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    host: Capture,
}

impl Telemetry {
    /// The host asks for a capture (Create Telemetry Host-Initiated Data).
    pub fn create<S: Contents>(
        &mut self,
        core: &mut Core,
        inputs: &TelemetryInputs,
        id: ControllerId,
        cx: &mut Cx<'_, S>,
    ) {
        self.host = capture(core, inputs, cx.now, String::from("host"));
        let saved = &mut core.persistent.telemetry;
        saved.host = saved.host.wrapping_add(1);
        let header = self.header(core, LogId::TELEMETRY_HOST);
        core.remember(cx.now, Some(id), PersistentEventType::TELEMETRY_CREATED, header.as_bytes());
        core.record(cx.storage);
    }

    /// Power is lost: the host-initiated capture was in memory.
    pub fn power_lost(&mut self) {
        self.host = Capture::default();
    }

    /// A Telemetry log as a whole.
    pub fn log(&self, core: &Core, lid: LogId) -> Vec<u8> {
        let mut log = self.header(core, lid).as_bytes().to_vec();
        if let Some(capture) = self.capture_of(core, lid) {
            capture.write(&mut log);
        }
        log
    }

    /// What a log shows.
    fn capture_of<'a>(&'a self, core: &'a Core, lid: LogId) -> Option<&'a Capture> {
        match lid {
            LogId::TELEMETRY_HOST => Some(&self.host),
            _ => core.persistent.telemetry.own.as_ref(),
        }
    }

    fn header(&self, core: &Core, lid: LogId) -> TelemetryHeader {
        let empty = Capture::default();
        let host = lid == LogId::TELEMETRY_HOST;
        let saved = &core.persistent.telemetry;
        let capture = self.capture_of(core, lid).unwrap_or(&empty);
        let [first, second, third] = capture.last_blocks();
        // Scope 2: the NVM subsystem.
        let mut header = TelemetryHeader {
            lid,
            dalb1: U16::new(first),
            dalb2: U16::new(second),
            dalb3: U16::new(third),
            host_scope: u8::from(host) * 2,
            host_generation: if host { saved.host } else { 2 },
            controller_available: saved.own.is_some().into(),
            controller_generation: saved.controller,
            ..TelemetryHeader::default()
        };
        for (byte, c) in header.reason.iter_mut().zip(capture.reason.bytes()) {
            *byte = c;
        }
        header
    }
}

fn capture(core: &Core, inputs: &TelemetryInputs, now: Nanos, reason: String) -> Capture {
    Capture::new(documents::areas(core, inputs, now), reason)
}

/// The drive captures its state on its own account. A capture that no host has read stays, as the first one is wanted.
/// The caller records the state.
pub(crate) fn capture_for_controller<S: Contents>(
    core: &mut Core,
    inputs: &TelemetryInputs,
    reason: String,
    cx: &mut Cx<'_, S>,
) {
    if core.persistent.telemetry.own.is_some() {
        return;
    }
    let capture = capture(core, inputs, cx.now, reason);
    let saved = &mut core.persistent.telemetry;
    saved.own = Some(capture);
    saved.controller = saved.controller.wrapping_add(1);
    core.raise_for_all(AsyncEvent::Telemetry, cx);
}

/// A host has read the controller-initiated log and does not retain it.
pub(crate) fn release<S: Contents>(core: &mut Core, cx: &mut Cx<'_, S>) {
    if core.persistent.telemetry.own.take().is_some() {
        core.record(cx.storage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use ftl::NoContents;
    use nvme::log::TELEMETRY_BLOCK;
    use nvme::zerocopy::FromBytes;

    fn header(log: &[u8]) -> TelemetryHeader {
        TelemetryHeader::read_from_prefix(log).unwrap().0
    }

    #[test]
    fn the_first_capture_of_the_controller_stays_until_it_is_read() {
        let mut core = fixture::core();
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let telemetry = Telemetry::default();
        let lid = LogId::TELEMETRY_CONTROLLER;
        assert_eq!(telemetry.log(&core, lid).len(), TELEMETRY_BLOCK);
        for reason in ["first", "second"] {
            capture_for_controller(&mut core, &TelemetryInputs::default(), reason.into(), &mut cx);
            let header = header(&telemetry.log(&core, lid));
            assert!(header.reason.starts_with(b"first\0"));
            assert_eq!((header.controller_available, header.controller_generation), (1, 1));
        }
        release(&mut core, &mut cx);
        assert_eq!(header(&telemetry.log(&core, lid)).controller_available, 0);
        capture_for_controller(&mut core, &TelemetryInputs::default(), "third".into(), &mut cx);
        assert_eq!(header(&telemetry.log(&core, lid)).controller_generation, 2);
    }

    #[test]
    fn what_the_host_asked_for_is_lost_with_power() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let mut telemetry = Telemetry::default();
        telemetry.create(
            &mut core,
            &TelemetryInputs { critical_warning: 0x55, ..TelemetryInputs::default() },
            id,
            &mut cx,
        );
        let log = telemetry.log(&core, LogId::TELEMETRY_HOST);
        assert_eq!((header(&log).host_generation, header(&log).host_scope), (1, 2));
        assert!(String::from_utf8_lossy(&log).contains("\"critical_warning\":85"));
        telemetry.power_lost();
        let log = telemetry.log(&core, LogId::TELEMETRY_HOST);
        assert_eq!((log.len(), header(&log).host_generation), (TELEMETRY_BLOCK, 1));
    }
}
