//! What the Persistent Event log remembers (Base 5.1.12.1.14, 8.1.24): events of the drive's life, over power cycles.

use crate::core::{ControllerId, Outcome};
use crate::drive::Drive;
use media::Nanos;
use nvme::admin::{FormatNvm, NamespaceManagementSelect, Sanitize};
use nvme::log::{
    ChangeNamespaceEvent, ControllerResetInformation, CriticalWarning, EnduranceWarning,
    FormatCompletionEvent, FormatStartEvent, HardwareErrorEvent, LogId, PersistentEvent,
    PersistentEventHeader, PersistentEventType as Type, PowerOnEvent, ReportingContext,
    SanitizeCompletionEvent, SanitizeStartEvent, hardware_error,
};
use nvme::zerocopy::IntoBytes;
use nvme::{Command, Status, U16, U32, U64, U128};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes of events that are kept; the oldest go.
const MAX_BYTES: usize = 24 << 10;

/// Largest size of the log in units of 64 KiB (PELS).
pub(crate) const LOG_UNITS: u32 = 1;
const _: () = assert!(MAX_BYTES + size_of::<PersistentEventHeader>() < (LOG_UNITS as usize) << 16);

/// Event types that the drive records.
const RECORDED: [Type; 12] = [
    Type::SMART_SNAPSHOT,
    Type::FIRMWARE_COMMIT,
    Type::TIMESTAMP_CHANGE,
    Type::POWER_ON_OR_RESET,
    Type::HARDWARE_ERROR,
    Type::CHANGE_NAMESPACE,
    Type::FORMAT_START,
    Type::FORMAT_COMPLETION,
    Type::SANITIZE_START,
    Type::SANITIZE_COMPLETION,
    Type::SET_FEATURE,
    Type::TELEMETRY_CREATED,
];

/// The events, encoded as in the log, newest first.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct History {
    #[serde(with = "hexadecimal")]
    events: VecDeque<Vec<u8>>,
    /// Generation of the last report.
    generation: u16,
    /// Whether there were events since.
    changed: bool,
}

impl History {
    pub fn push(&mut self, event: Vec<u8>) {
        self.events.push_front(event);
        let mut bytes: usize = self.events.iter().map(Vec::len).sum();
        while bytes > MAX_BYTES {
            bytes -= self.events.pop_back().map_or(bytes, |e| e.len());
        }
        self.changed = true;
    }
}

/// Events as text in the saved state.
mod hexadecimal {
    use super::{PersistentEvent, VecDeque};
    use nvme::zerocopy::FromBytes;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(events: &VecDeque<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |event: &Vec<u8>| event.iter().map(|b| format!("{b:02x}")).collect::<String>();
        serializer.collect_seq(events.iter().map(text))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VecDeque<Vec<u8>>, D::Error> {
        let texts: Vec<String> = Vec::deserialize(deserializer)?;
        texts.iter().map(|text| event(text).ok_or_else(|| D::Error::custom("a persistent event"))).collect()
    }

    /// An event whose header tells its length.
    fn event(text: &str) -> Option<Vec<u8>> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let bytes: Option<Vec<u8>> = pairs.iter().map(|[a, b]| Some(digit(*a)? << 4 | digit(*b)?)).collect();
        let bytes = bytes.filter(|_| rest.is_empty())?;
        let (header, data) = PersistentEvent::ref_from_prefix(&bytes).ok()?;
        (data.len() == usize::from(header.el.get())).then_some(())?;
        Some(bytes)
    }
}

impl Drive {
    /// Remembers the SMART log as it is.
    fn remember_smart(&mut self, now: Nanos) {
        let smart = self.health.smart_of_drive(&self.core, self.health.common_warning(&self.core), now);
        self.core.remember(now, None, Type::SMART_SNAPSHOT, smart.as_bytes());
    }

    /// Power has come, or a controller (or with `None` the subsystem) was reset.
    pub(crate) fn remember_start(&mut self, now: Nanos, id: Option<ControllerId>, activated: bool) {
        let first = PowerOnEvent { firmware: crate::firmware::revision(&self.core) };
        let controller = ControllerResetInformation {
            cntlid: U16::new(id.map_or(0xFFFF, |id| id.0)),
            activation: activated.into(),
            power_cycle: U32::new(u32::try_from(self.core.persistent.power_cycles).unwrap_or(u32::MAX)),
            power_on_ms: U64::new(now.since(self.core.power.since).0 / 1_000_000),
            timestamp: self.core.timestamp(now),
            ..ControllerResetInformation::default()
        };
        let data = [first.as_bytes(), controller.as_bytes()].concat();
        self.core.remember(now, id, Type::POWER_ON_OR_RESET, &data);
    }

    /// What happens at every power on.
    pub(crate) fn remember_power_on(&mut self, now: Nanos, unsafe_before: bool) {
        let activated = crate::firmware::activate_pending(&mut self.core);
        self.remember_start(now, None, activated);
        if unsafe_before {
            let event =
                HardwareErrorEvent { code: U16::new(hardware_error::UNSAFE_SHUTDOWN), ..Default::default() };
            // It has no additional information.
            self.core.remember(now, None, Type::HARDWARE_ERROR, &event.as_bytes()[..4]);
        }
        self.remember_smart(now);
    }

    /// Critical warnings of the drive that are new.
    pub(crate) fn remember_warning(&mut self, now: Nanos, new: CriticalWarning) {
        let event = HardwareErrorEvent {
            code: U16::new(hardware_error::CRITICAL_WARNING),
            warning: new.into_bits(),
            ..HardwareErrorEvent::default()
        };
        self.core.remember(now, None, Type::HARDWARE_ERROR, event.as_bytes());
        self.remember_smart(now);
    }

    /// Critical warnings of an Endurance Group that are new.
    pub(crate) fn remember_group_warning(&mut self, now: Nanos, endgid: u16, new: EnduranceWarning) {
        let event = HardwareErrorEvent {
            code: U16::new(hardware_error::ENDURANCE_GROUP_WARNING),
            warning: new.into_bits(),
            endgid: U16::new(endgid),
            ..HardwareErrorEvent::default()
        };
        self.core.remember(now, None, Type::HARDWARE_ERROR, event.as_bytes());
    }

    /// A Format NVM begins.
    pub(crate) fn remember_format_start(&mut self, id: ControllerId, c: &FormatNvm, now: Nanos) {
        let event = FormatStartEvent {
            nsid: U32::new(c.nsid),
            fna: self.identify_controller(id).fna.into_bits(),
            cdw10: Command::from(*c).cdw10,
            ..FormatStartEvent::default()
        };
        self.core.remember(now, Some(id), Type::FORMAT_START, event.as_bytes());
    }

    /// A Format NVM has ended.
    pub(crate) fn remember_format_end(
        &mut self,
        id: ControllerId,
        c: &FormatNvm,
        outcome: &Outcome,
        now: Nanos,
    ) {
        let status = outcome.as_ref().err().map_or(Status::SUCCESS, |failure| failure.status);
        let event = FormatCompletionEvent {
            nsid: U32::new(c.nsid),
            status: u8::from(!status.is_success()),
            status_field: U32::new(u32::from(status.0) << 1),
            ..FormatCompletionEvent::default()
        };
        self.core.remember(now, Some(id), Type::FORMAT_COMPLETION, event.as_bytes());
    }

    /// A sanitize operation begins.
    pub(crate) fn remember_sanitize_start(&mut self, id: ControllerId, c: Sanitize, now: Nanos) {
        let command = Command::from(c);
        let event = SanitizeStartEvent {
            sanicap: U32::new(self.identify_controller(id).sanicap.into_bits().get()),
            cdw10: command.cdw10,
            cdw11: command.cdw11,
        };
        self.core.remember(now, Some(id), Type::SANITIZE_START, event.as_bytes());
    }

    /// A sanitize operation has ended.
    pub(crate) fn remember_sanitize_end(&mut self, now: Nanos) {
        let log = self.sanitize_status(now);
        let event = SanitizeCompletionEvent {
            sprog: log.sprog,
            sstat: U16::new(log.sstat.into_bits().get()),
            ..SanitizeCompletionEvent::default()
        };
        self.core.remember(now, None, Type::SANITIZE_COMPLETION, event.as_bytes());
    }

    /// A namespace was created or is about to be deleted.
    pub(crate) fn remember_namespace(
        &mut self,
        id: ControllerId,
        nsid: u32,
        select: NamespaceManagementSelect,
        now: Nanos,
    ) {
        let Some(ns) = self.core.namespaces.get(nsid) else { return };
        let n = self.identify_namespace(ns);
        let event = ChangeNamespaceEvent {
            cdw10: U32::new(select.0.into()),
            nsze: n.nsze,
            ncap: n.ncap,
            flbas: n.flbas.into_bits(),
            dps: n.dps.into_bits(),
            nmic: n.nmic.into_bits(),
            anagrpid: n.anagrpid,
            nvmsetid: n.nvmsetid,
            nsid: U32::new(nsid),
            ..ChangeNamespaceEvent::default()
        };
        self.core.remember(now, Some(id), Type::CHANGE_NAMESPACE, event.as_bytes());
    }

    /// The whole log, for a new reporting context of a controller.
    pub(crate) fn persistent_event_log(&mut self, now: Nanos, id: ControllerId) -> Vec<u8> {
        let history = &mut self.core.persistent.history;
        if std::mem::take(&mut history.changed) {
            history.generation = history.generation.wrapping_add(1);
        }
        let events: Vec<u8> = self.core.persistent.history.events.iter().flatten().copied().collect();
        let port = self.core.controllers.get(id).map_or(0, |c| c.port.0);
        // Whole dwords, and at least a byte beyond the last event: readers stop one event early without it.
        let length = (size_of::<PersistentEventHeader>() + events.len() + 1).next_multiple_of(4);
        let mut header = PersistentEventHeader {
            lid: LogId::PERSISTENT_EVENT.0,
            tnev: U32::new(u32::try_from(self.core.persistent.history.events.len()).unwrap_or(u32::MAX)),
            tll: U64::new(length as u64),
            rv: 3,
            lhl: U16::new(size_of::<PersistentEventHeader>() as u16 - 20),
            ts: self.core.timestamp(now),
            poh: U128::new((self.core.powered(now) / 3_600_000_000_000).into()),
            pcc: U64::new(self.core.persistent.power_cycles),
            sn: nvme::identify::ascii(&self.core.config.identity.serial),
            mn: nvme::identify::ascii(&self.core.config.identity.model),
            subnqn: self.core.config.identity.nqn.to_field(),
            gen_number: U16::new(self.core.persistent.history.generation),
            rci: ReportingContext::new().with_rcpit(1).with_rcpid(port),
            ..PersistentEventHeader::default()
        };
        for kind in RECORDED {
            header.seb[usize::from(kind.0 / 8)] |= 1 << (kind.0 % 8);
        }
        let mut log = header.as_bytes().to_vec();
        log.extend_from_slice(&events);
        log.resize(length, 0);
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bytes: u16) -> Vec<u8> {
        let mut event = PersistentEvent::new(Type::SET_FEATURE, bytes).as_bytes().to_vec();
        event.resize(event.len() + usize::from(bytes), 7);
        event
    }

    #[test]
    fn the_oldest_events_go() {
        let mut history = History::default();
        for i in 0..1000 {
            history.push(event(i));
        }
        assert_eq!(history.events[0], event(999));
        let bytes: usize = history.events.iter().map(Vec::len).sum();
        assert!(bytes <= MAX_BYTES && bytes + 1024 > MAX_BYTES, "{bytes}");
    }

    #[test]
    fn saved_events_are_read_back_or_refused() {
        let mut history = History::default();
        history.push(event(3));
        history.push(event(0));
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
        let short = text.replacen("07\"", "\"", 1);
        assert_ne!(short, text);
        for bad in [short, text.replacen("07", "0x", 1), text.replacen("070707", "07070", 1)] {
            assert!(serde_json::from_str::<History>(&bad).is_err(), "{bad}");
        }
    }
}
