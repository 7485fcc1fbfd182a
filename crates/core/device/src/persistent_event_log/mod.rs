//! The Persistent Event log (Base 5.1.12.1.14, 8.1.24): events of the drive's whole life.
//!
//! The events are persistent, so they lie in the core ([`events`]). [`Core::remember`] adds one. This component makes events
//! from what other components tell of their work, and reports the log.

pub(crate) mod events;

pub(crate) use events::LOG_UNITS;

use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, Failure};
use crate::uuid;
use media::Nanos;
use nvme::admin::{FormatNvm, NamespaceManagementSelect, Sanitize};
use nvme::identify::{Fna, IdentifyNamespace, Sanicap};
use nvme::log::{
    ChangeNamespaceEvent, ControllerResetInformation, CriticalWarning, EnduranceWarning,
    FormatCompletionEvent, FormatStartEvent, HardwareErrorEvent, LogId, PersistentEventAction,
    PersistentEventHeader, PersistentEventType as Type, PowerOnEvent, ReportingContext,
    SanitizeCompletionEvent, SanitizeStartEvent, SanitizeStatus, SmartHealth, VendorCommandEvent,
    hardware_error,
};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, Status, U16, U32, U64, U128};

/// Event types that the drive records.
const RECORDED_EVENTS: [Type; 13] = [
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
    Type::VENDOR_SPECIFIC,
];

/// Notes the SMART log as it is.
pub(crate) fn smart_snapshot(core: &mut Core, now: Nanos, smart: &SmartHealth) {
    core.remember(now, None, Type::SMART_SNAPSHOT, smart.as_bytes());
}

/// Power has come, or a controller (or with `None` the subsystem) was reset. `firmware` is the revision that runs, `activated`
/// says whether it was activated by this.
pub(crate) fn power_on_or_reset(
    core: &mut Core,
    now: Nanos,
    id: Option<ControllerId>,
    firmware: [u8; 8],
    activated: bool,
) {
    let first = PowerOnEvent { firmware };
    let controller = ControllerResetInformation {
        cntlid: U16::new(id.map_or(0xFFFF, |id| id.0)),
        activation: activated.into(),
        power_cycle: U32::new(u32::try_from(core.persistent.power_cycles).unwrap_or(u32::MAX)),
        power_on_ms: U64::new(now.since(core.power.since).0 / 1_000_000),
        timestamp: core.timestamp(now),
        ..ControllerResetInformation::default()
    };
    let data = [first.as_bytes(), controller.as_bytes()].concat();
    core.remember(now, id, Type::POWER_ON_OR_RESET, &data);
}

/// Power had gone without a shutdown in order.
pub(crate) fn unsafe_shutdown(core: &mut Core, now: Nanos) {
    let event = HardwareErrorEvent { code: U16::new(hardware_error::UNSAFE_SHUTDOWN), ..Default::default() };
    // It has no additional information.
    core.remember(now, None, Type::HARDWARE_ERROR, &event.as_bytes()[..4]);
}

/// Critical warnings of the drive that are new, with the SMART log that shows them.
pub(crate) fn critical_warning(core: &mut Core, now: Nanos, new: CriticalWarning, smart: &SmartHealth) {
    let event = HardwareErrorEvent {
        code: U16::new(hardware_error::CRITICAL_WARNING),
        warning: new.into_bits(),
        ..HardwareErrorEvent::default()
    };
    core.remember(now, None, Type::HARDWARE_ERROR, event.as_bytes());
    smart_snapshot(core, now, smart);
}

/// Critical warnings of an Endurance Group that are new.
pub(crate) fn group_warning(core: &mut Core, now: Nanos, endgid: u16, new: EnduranceWarning) {
    let event = HardwareErrorEvent {
        code: U16::new(hardware_error::ENDURANCE_GROUP_WARNING),
        warning: new.into_bits(),
        endgid: U16::new(endgid),
        ..HardwareErrorEvent::default()
    };
    core.remember(now, None, Type::HARDWARE_ERROR, event.as_bytes());
}

/// A Format NVM begins. `fna` is the controller's, as Identify has it.
pub(crate) fn format_start(core: &mut Core, now: Nanos, id: ControllerId, c: &FormatNvm, fna: Fna) {
    let event = FormatStartEvent {
        nsid: U32::new(c.nsid),
        fna: fna.into_bits(),
        cdw10: Command::from(*c).cdw10,
        ..FormatStartEvent::default()
    };
    core.remember(now, Some(id), Type::FORMAT_START, event.as_bytes());
}

/// A Format NVM has ended with this status.
pub(crate) fn format_end(core: &mut Core, now: Nanos, id: ControllerId, c: &FormatNvm, status: Status) {
    let event = FormatCompletionEvent {
        nsid: U32::new(c.nsid),
        status: u8::from(!status.is_success()),
        status_field: U32::new(u32::from(status.0) << 1),
        ..FormatCompletionEvent::default()
    };
    core.remember(now, Some(id), Type::FORMAT_COMPLETION, event.as_bytes());
}

/// A sanitize operation begins. `sanicap` is the controller's, as Identify has it.
pub(crate) fn sanitize_start(core: &mut Core, now: Nanos, id: ControllerId, c: Sanitize, sanicap: Sanicap) {
    let command = Command::from(c);
    let event = SanitizeStartEvent {
        sanicap: U32::new(sanicap.into_bits().get()),
        cdw10: command.cdw10,
        cdw11: command.cdw11,
    };
    core.remember(now, Some(id), Type::SANITIZE_START, event.as_bytes());
}

/// A sanitize operation has ended, with this status.
pub(crate) fn sanitize_end(core: &mut Core, now: Nanos, status: &SanitizeStatus) {
    let event = SanitizeCompletionEvent {
        sprog: status.sprog,
        sstat: U16::new(status.sstat.into_bits().get()),
        ..SanitizeCompletionEvent::default()
    };
    core.remember(now, None, Type::SANITIZE_COMPLETION, event.as_bytes());
}

/// A power cut or a fault was ordered, or faults were cleared, by a vendor specific command.
pub(crate) fn vendor_command<S: Contents>(
    core: &mut Core,
    cx: &mut Cx<'_, S>,
    id: ControllerId,
    command: Command,
) {
    let cdw = [command.cdw10, command.cdw11, command.cdw12, command.cdw13];
    let event = VendorCommandEvent {
        code: U16::new(command.opc.into()),
        data_type: VendorCommandEvent::BINARY,
        uidx: uuid::own_index(),
        bytes: U16::new(size_of_val(&cdw) as u16),
        cdw,
    };
    core.remember(cx.now, Some(id), Type::VENDOR_SPECIFIC, event.as_bytes());
    core.record(cx.storage);
}

/// A namespace was created or is about to be deleted. `namespace` is what Identify says of it.
pub(crate) fn namespace_change(
    core: &mut Core,
    now: Nanos,
    id: ControllerId,
    nsid: u32,
    select: NamespaceManagementSelect,
    namespace: &IdentifyNamespace,
) {
    let event = ChangeNamespaceEvent {
        cdw10: U32::new(select.0.into()),
        nsze: namespace.nsze,
        ncap: namespace.ncap,
        flbas: namespace.flbas.into_bits(),
        dps: namespace.dps.into_bits(),
        nmic: namespace.nmic.into_bits(),
        anagrpid: namespace.anagrpid,
        nvmsetid: namespace.nvmsetid,
        nsid: U32::new(nsid),
        ..ChangeNamespaceEvent::default()
    };
    core.remember(now, Some(id), Type::CHANGE_NAMESPACE, event.as_bytes());
}

/// What Get Log Page reads.
#[derive(Debug)]
pub(crate) enum PersistentLogReport<'a> {
    /// The reporting context was released: zeros.
    Released,
    /// The log when the reporting context was established.
    Log(&'a [u8]),
    /// Its header alone, at any offset that the host asks for.
    Header(Box<PersistentEventHeader>),
}

/// Does what Get Log Page asks of a controller's reporting context.
///
/// # Errors
/// Command Sequence Error if a context is read that does not exist, or established when it exists.
pub(crate) fn report(
    core: &mut Core,
    now: Nanos,
    id: ControllerId,
    action: PersistentEventAction,
) -> Result<PersistentLogReport<'_>, Failure> {
    let existed = core.controller(id)?.persistent_events.is_some();
    match action {
        PersistentEventAction::RELEASE => {
            core.controller_mut(id)?.persistent_events = None;
            return Ok(PersistentLogReport::Released);
        }
        PersistentEventAction::READ if !existed => return Err(Status::COMMAND_SEQUENCE_ERROR.into()),
        PersistentEventAction::ESTABLISH if existed => return Err(Status::COMMAND_SEQUENCE_ERROR.into()),
        _ => {}
    }
    if !existed {
        let log = log(core, now, id);
        core.controller_mut(id)?.persistent_events = Some(log.into());
    }
    let log = core.controller(id)?.persistent_events.as_deref().unwrap_or_default();
    if action != PersistentEventAction::ESTABLISH_HEADER {
        return Ok(PersistentLogReport::Log(log));
    }
    let (mut header, _) = PersistentEventHeader::read_from_prefix(log)
        .map_err(|_| Failure::transient(Status::INTERNAL_ERROR))?;
    // It tells whether the context was there before.
    header.rci.set_rce(existed);
    Ok(PersistentLogReport::Header(Box::new(header)))
}

/// The whole log, for a new reporting context of a controller.
fn log(core: &mut Core, now: Nanos, id: ControllerId) -> Vec<u8> {
    let generation = core.persistent.events.next_generation();
    let events = core.persistent.events.bytes();
    let port = core.controllers.get(id).map_or(0, |c| c.port.0);
    // Whole dwords, and at least a byte beyond the last event: readers stop one event early without it.
    let length = (size_of::<PersistentEventHeader>() + events.len() + 1).next_multiple_of(4);
    let identity = &core.config.identity;
    let mut header = PersistentEventHeader {
        lid: LogId::PERSISTENT_EVENT.0,
        tnev: U32::new(core.persistent.events.count()),
        tll: U64::new(length as u64),
        rv: 3,
        lhl: U16::new(size_of::<PersistentEventHeader>() as u16 - 20),
        ts: core.timestamp(now),
        poh: U128::new((core.powered(now) / 3_600_000_000_000).into()),
        pcc: U64::new(core.persistent.power_cycles),
        sn: nvme::identify::ascii(&identity.serial),
        mn: nvme::identify::ascii(&identity.model),
        subnqn: identity.nqn.to_field(),
        gen_number: U16::new(generation),
        rci: ReportingContext::new().with_rcpit(1).with_rcpid(port),
        ..PersistentEventHeader::default()
    };
    for kind in RECORDED_EVENTS {
        header.seb[usize::from(kind.0 / 8)] |= 1 << (kind.0 % 8);
    }
    let mut log = header.as_bytes().to_vec();
    log.extend_from_slice(&events);
    log.resize(length, 0);
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_reporting_context_shows_the_log_as_it_was() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let now = Nanos::ZERO;
        let before = core.persistent.events.count();
        unsafe_shutdown(&mut core, now);
        assert!(report(&mut core, now, id, PersistentEventAction::READ).is_err());
        let Ok(PersistentLogReport::Header(header)) =
            report(&mut core, now, id, PersistentEventAction::ESTABLISH_HEADER)
        else {
            panic!("a header");
        };
        assert_eq!((header.tnev.get(), header.rci.rce(), header.gen_number.get()), (before + 1, false, 1));
        assert!(report(&mut core, now, id, PersistentEventAction::ESTABLISH).is_err());
        group_warning(&mut core, now, 1, EnduranceWarning::new());
        let Ok(PersistentLogReport::Log(log)) = report(&mut core, now, id, PersistentEventAction::READ)
        else {
            panic!("the log");
        };
        assert_eq!(log.len() as u64, header.tll.get());
        assert!(matches!(
            report(&mut core, now, id, PersistentEventAction::RELEASE),
            Ok(PersistentLogReport::Released)
        ));
        let header = report(&mut core, now, id, PersistentEventAction::ESTABLISH_HEADER);
        let Ok(PersistentLogReport::Header(header)) = header else { panic!("a header") };
        assert_eq!((header.tnev.get(), header.gen_number.get()), (before + 2, 2));
    }
}
