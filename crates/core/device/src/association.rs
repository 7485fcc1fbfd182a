//! Associations: connect, queues, properties (Base 3.1.4, 3.3, 6).
//!
//! What an association is lies in the core's [`Controller`]; here is what hosts do with it. Where other components must follow, the
//! function returns that.

use crate::contents::Contents;
use crate::core::{Controller, ControllerId, Core, Cx, Host, MAX_IO_QUEUES, MAX_QUEUE_ENTRIES};
use media::Nanos;
use nvme::property::{Cap, Cc, Csts, NSSR_NVME, PropertyOffset, Shn, Shst};
use nvme::{CNTLID_DYNAMIC, Status, Version};

/// I/O command sets: NVM, and those by CSI (of which there is NVM).
const COMMAND_SETS: u8 = 0x41;

/// What follows from a property that was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PropertyEffect {
    Nothing,
    /// The host has cleared CC.EN: Controller Level Reset.
    ControllerReset,
    /// NVM Subsystem Reset: every association ends.
    SubsystemReset,
    /// The host has announced a shutdown.
    Shutdown,
}

/// Makes a controller for a host that connects. Nothing is attached to it yet.
pub(crate) fn connect(
    core: &mut Core,
    now: Nanos,
    host: Host,
    cntlid: u16,
    kato_ms: u32,
) -> Result<ControllerId, Status> {
    if !core.power.on {
        return Err(Status::CONNECT_CONTROLLER_BUSY);
    }
    if cntlid != CNTLID_DYNAMIC {
        return Err(Status::CONNECT_INVALID_PARAMETERS.with_dnr());
    }
    let mut controller = Controller::new(host, core.config.max_namespaces);
    controller.values = core.persistent.saved.clone();
    let id = core.controllers.add(controller).ok_or(Status::CONNECT_CONTROLLER_BUSY)?;
    core.set_keep_alive(id, kato_ms, now).map_err(|failure| failure.status)?;
    Ok(id)
}

/// Whether an I/O queue could be added now.
pub(crate) fn check_queue(core: &Core, id: ControllerId, qid: u16, entries: u32) -> Result<(), Status> {
    let controller = core.controllers.get(id).ok_or(Status::CONNECT_INVALID_PARAMETERS.with_dnr())?;
    if !controller.is_ready() || controller.has_queue(qid) {
        return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    }
    let granted = controller.granted.min(MAX_IO_QUEUES);
    if qid > granted || !(2..=MAX_QUEUE_ENTRIES).contains(&entries) {
        return Err(Status::CONNECT_INVALID_PARAMETERS.with_dnr());
    }
    Ok(())
}

/// Deletes an I/O queue.
pub(crate) fn remove_queue(core: &mut Core, id: ControllerId, qid: u16) {
    if let Some(controller) = core.controllers.get_mut(id) {
        controller.remove_queue(qid);
        let status = Status::ABORTED_SQ_DELETION;
        core.return_held(core.now(), |_, _, held| {
            ((held.controller, held.qid) == (id.0, qid)).then_some(status)
        });
        core.fused.forget(id, Some(qid));
    }
}

/// Controller Capabilities.
fn capabilities(controller: &Controller) -> Cap {
    Cap::new()
        .with_mqes_z((MAX_QUEUE_ENTRIES - 1) as u16)
        .with_cqr(true)
        // 10 s: recovery of a large drive, shutdown with a full buffer.
        .with_to(20)
        .with_nssrs(controller.role.is_administrator())
        .with_css(COMMAND_SETS)
        .with_mpsmax(4)
        .with_crms(1)
}

/// Property Get.
///
/// # Errors
/// Invalid Field in Command if there is no such property or it has another width.
pub(crate) fn property_get(
    core: &Core,
    id: ControllerId,
    offset: PropertyOffset,
    wide: bool,
) -> Result<u64, Status> {
    let controller = core.controllers.get(id).ok_or(Status::COMMAND_SEQUENCE_ERROR.with_dnr())?;
    Ok(match (offset, wide) {
        (PropertyOffset::CAP, true) => capabilities(controller).into_bits().get(),
        (PropertyOffset::VS, false) => Version::V2_1.0.into(),
        (PropertyOffset::CC, false) => controller.cc.into_bits().get().into(),
        (PropertyOffset::CSTS, false) => controller.csts.into_bits().get().into(),
        (PropertyOffset::NSSR, false) => 0,
        // Ready with media within CAP.TO.
        (PropertyOffset::CRTO, false) => 20,
        _ => return Err(Status::INVALID_FIELD.with_dnr()),
    })
}

/// Property Set. Resets and shutdowns are the caller's to carry out.
///
/// # Errors
/// Invalid Field in Command if there is no such property that can be set, or the value is not allowed.
pub(crate) fn set_property<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    offset: PropertyOffset,
    wide: bool,
    value: u64,
    cx: &mut Cx<'_, S>,
) -> Result<PropertyEffect, Status> {
    let value = value as u32;
    let Some(controller) = core.controllers.get_mut(id) else {
        return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    };
    match (offset, wide) {
        (PropertyOffset::CC, false) => configure(core, id, Cc::from_bits(value.into()), cx),
        (PropertyOffset::NSSR, false) => {
            // It ends the associations of all hosts.
            if !controller.role.is_administrator() {
                return Err(Status::OPERATION_DENIED.with_dnr());
            }
            Ok(if value == NSSR_NVME { PropertyEffect::SubsystemReset } else { PropertyEffect::Nothing })
        }
        // NSSRO is cleared by writing a one; nothing else of CSTS can be written.
        (PropertyOffset::CSTS, false) => {
            if Csts::from_bits(value.into()).nssro() {
                controller.csts.set_nssro(false);
            }
            Ok(PropertyEffect::Nothing)
        }
        _ => Err(Status::INVALID_FIELD.with_dnr()),
    }
}

fn configure<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    new: Cc,
    cx: &mut Cx<'_, S>,
) -> Result<PropertyEffect, Status> {
    let Some(controller) = core.controllers.get_mut(id) else { return Ok(PropertyEffect::Nothing) };
    let old = controller.cc;
    let enabled = new.en() && !old.en();
    if enabled {
        // Entry sizes may still be 0 when a host enables (Base 3.1.4.5: set before I/O queues exist).
        let entries = [(0, 0), (6, 4)].contains(&(new.iosqes(), new.iocqes()));
        if ![0, 6].contains(&new.css()) || new.mps() > 4 || new.ams() != 0 || !entries || new.crime() {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        controller.csts = Csts::new().with_rdy(true).with_nssro(controller.csts.nssro());
    }
    controller.cc = new;
    let shutdown = [Shn::NORMAL, Shn::ABRUPT].contains(&new.shn());
    let consequence = match () {
        () if !new.en() && old.en() => PropertyEffect::ControllerReset,
        () if shutdown && controller.csts.shst() == Shst::NORMAL => {
            controller.csts.set_shst(Shst::OCCURRING);
            PropertyEffect::Shutdown
        }
        () => PropertyEffect::Nothing,
    };
    if enabled && core.persistent.clean {
        // The drive was shut down in order, and is in use again.
        core.persistent.clean = false;
        core.record(cx.storage);
    }
    Ok(consequence)
}

/// Controller Level Reset: queues, features and events are as after Connect.
pub(crate) fn reset<S: Contents>(core: &mut Core, id: ControllerId, cx: &mut Cx<'_, S>) {
    let saved = core.persistent.saved.clone();
    let Some(controller) = core.controllers.get_mut(id) else { return };
    for io in controller.reset(saved) {
        core.return_parked(io, Status::ABORTED_SQ_DELETION, cx);
    }
    core.return_held(cx.now, |_, _, held| (held.controller == id.0).then_some(Status::ABORTED_SQ_DELETION));
    core.fused.forget(id, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Origin, Role};
    use crate::{Config, Drive};
    use ftl::NoContents;
    use nvme::Nqn;

    fn host(role: Role) -> Host {
        Host {
            role,
            ..Host::administrator(Nqn::new("nqn.2026-11.test:a").unwrap(), [1; 16], Origin::InProcess)
        }
    }

    fn set(
        core: &mut Core,
        id: ControllerId,
        offset: PropertyOffset,
        value: u64,
    ) -> Result<PropertyEffect, Status> {
        let mut out = Vec::new();
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out };
        set_property(core, id, offset, false, value, &mut cx)
    }

    fn cc(cc: Cc) -> u64 {
        cc.into_bits().get().into()
    }

    #[test]
    fn a_controller_has_queues_only_while_it_is_enabled() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let id = connect(&mut core, Nanos::ZERO, host(Role::Administrator), 0xFFFF, 0).unwrap();
        let early = check_queue(&core, id, 1, 32);
        assert_eq!(early, Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr()));
        assert_eq!(
            set(&mut core, id, PropertyOffset::CC, cc(Cc::new().with_en(true))),
            Ok(PropertyEffect::Nothing)
        );
        assert_eq!(check_queue(&core, id, 1, 32), Ok(()));
        let invalid = Err(Status::CONNECT_INVALID_PARAMETERS.with_dnr());
        for (qid, entries) in [(MAX_IO_QUEUES + 1, 32), (1, 1), (1, MAX_QUEUE_ENTRIES + 1)] {
            assert_eq!(check_queue(&core, id, qid, entries), invalid, "{qid} {entries}");
        }
        assert_eq!(set(&mut core, id, PropertyOffset::CC, 0), Ok(PropertyEffect::ControllerReset));
    }

    #[test]
    fn properties_have_consequences_for_others() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let mut add = |role| connect(&mut core, Nanos::ZERO, host(role), 0xFFFF, 0).unwrap();
        let (administrator, guest) = (add(Role::Administrator), add(Role::Guest));
        let reset = u64::from(NSSR_NVME);
        let denied = Err(Status::OPERATION_DENIED.with_dnr());
        assert_eq!(set(&mut core, guest, PropertyOffset::NSSR, reset), denied);
        assert_eq!(
            set(&mut core, administrator, PropertyOffset::NSSR, reset),
            Ok(PropertyEffect::SubsystemReset)
        );
        assert_eq!(set(&mut core, administrator, PropertyOffset::NSSR, 1), Ok(PropertyEffect::Nothing));
        let shutdown = cc(Cc::new().with_en(true).with_shn(Shn::NORMAL));
        assert_eq!(set(&mut core, guest, PropertyOffset::CC, shutdown), Ok(PropertyEffect::Shutdown));
        assert_eq!(set(&mut core, guest, PropertyOffset::CC, shutdown), Ok(PropertyEffect::Nothing), "once");
    }
}
