//! Reservations (Base 8.1.22): commands, notifications and features.
//!
//! [`registrants`] has the rules of one namespace, and [`notifications`] what one controller has not read. The core stores both.
//! Every command passes [`Core::check_reservation`], which asks the rules.

pub(crate) mod hosts;
pub(crate) mod notifications;
pub(crate) mod registrants;

use crate::contents::Contents;
use crate::core::{
    AdminResult, AsyncEvent, Controller, ControllerId, Core, Cx, Failure, Output, Reply, Token,
};
use hosts::ReservationHost;
use media::Nanos;
use nvme::admin::SetFeatures;
use nvme::feature::FeatureId;
use nvme::reservation::{
    AcquireAction, AcquireKeys, ChangePtpl, RegisterKeys, ReservationAcquire, ReservationRegister,
    ReservationRelease, ReservationReport,
};
use nvme::zerocopy::FromBytes;
use nvme::{IoCommand, NSID_ALL, Status, U64};
use registrants::{MASK_BITS, ReservationChange, ReservationNotice, Reservations};

/// Commands of reservations, and those of them that wait.
#[derive(Default)]
pub(crate) struct ReservationCommands {
    /// Each waits for the commands that it aborted.
    preempting: Vec<Preempting>,
}

/// A Preempt and Abort that waits for the commands that it aborted.
struct Preempting {
    io: u32,
    nsid: u32,
    /// The controllers of the hosts that were preempted.
    controllers: Vec<ControllerId>,
}

/// The data of a command, which a transport may have cut short.
fn keys<T: FromBytes>(data: &[u8]) -> Result<T, Failure> {
    T::read_from_prefix(data).map(|(keys, _)| keys).map_err(|_| Status::DATA_SGL_LENGTH_INVALID.into())
}

/// Invalid Field for IEKEY, which only Reservation Register has.
fn refuse_iekey(iekey: bool) -> Result<(), Failure> {
    if iekey { Err(Failure::field(40)) } else { Ok(()) }
}

impl ReservationCommands {
    /// Power is lost: nothing waits any more.
    pub(crate) fn clear(&mut self) {
        self.preempting.clear();
    }

    /// Whether a Preempt and Abort waits.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        !self.preempting.is_empty()
    }

    /// Executes a command of reservations. It is the controller's own work and takes no time of the media.
    pub(crate) fn execute<S: Contents>(
        &mut self,
        core: &mut Core,
        token: &Token,
        id: ControllerId,
        command: IoCommand,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let done = match command {
            IoCommand::ReservationRegister(c) => register(core, id, c, data, cx).map(|()| true),
            IoCommand::ReservationAcquire(c) => self.acquire(core, token, id, c, data, cx),
            IoCommand::ReservationRelease(c) => release(core, id, c, data, cx).map(|()| true),
            IoCommand::ReservationReport(c) => {
                let bytes = report(core, id, c)?;
                cx.out.push(Output::Data { io: token.io(), bytes });
                Ok(true)
            }
            _ => Err(Status::INVALID_OPCODE.into()),
        }?;
        core.enter(token);
        Ok(done.then_some(cx.now))
    }

    /// Reservation Acquire (Base 7.5). Whether it is complete: Preempt and Abort may have to wait for what it aborted.
    fn acquire<S: Contents>(
        &mut self,
        core: &mut Core,
        token: &Token,
        id: ControllerId,
        c: ReservationAcquire,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<bool, Failure> {
        refuse_iekey(c.iekey)?;
        let keys: AcquireKeys = keys(data)?;
        let (crkey, prkey) = (keys.crkey.get(), keys.prkey.get());
        let apply =
            |r: &mut Reservations, host: &ReservationHost| r.acquire(host, c.action, c.rtype, crkey, prkey);
        let change = change(core, id, c.nsid, apply, cx)?;
        if c.action != AcquireAction::PREEMPT_AND_ABORT {
            return Ok(true);
        }
        let of_preempted =
            |c: &Controller| change.preempted.iter().any(|host| host.is(&c.reservation_host()));
        let controllers =
            core.controllers.iter().filter(|(_, c)| of_preempted(c)).map(|(id, _)| id).collect();
        let preempting = Preempting { io: token.io().0, nsid: c.nsid, controllers };
        // Held commands end at once. Commands that are being executed end by themselves, with an error.
        core.return_held(cx.now, |_, _, e| {
            let theirs = e.nsid == c.nsid && preempting.controllers.contains(&ControllerId(e.controller));
            theirs.then_some(Status::ABORTED_PREEMPT)
        });
        for io in commands_of(core, &preempting, Status::SUCCESS) {
            if let Some(token) = core.commands.unpark(io) {
                core.note_failure(&token, Failure::transient(Status::ABORTED_PREEMPT));
                token.park();
            }
        }
        if commands_of(core, &preempting, Status::ABORTED_PREEMPT).is_empty() {
            return Ok(true);
        }
        self.preempting.push(preempting);
        Ok(false)
    }

    /// Ends each Preempt and Abort whose commands have ended.
    #[cold]
    pub(crate) fn end_preempts<S: Contents>(&mut self, core: &mut Core, cx: &mut Cx<'_, S>) {
        for preempting in std::mem::take(&mut self.preempting) {
            if !commands_of(core, &preempting, Status::ABORTED_PREEMPT).is_empty() {
                self.preempting.push(preempting);
            } else if let Some(token) = core.commands.unpark(preempting.io) {
                core.schedule(token, cx.now, cx);
            }
        }
    }
}

/// The host that a command changes a registration or reservation of, which must have an identifier.
fn reserving_host(core: &Core, id: ControllerId, nsid: u32) -> Result<ReservationHost, Failure> {
    core.attached(id, nsid)?;
    let host = core.controller(id)?.reservation_host();
    if host.id == [0; 16] {
        // Base 5.1.25.1.28: hosts with 0h are all different, so nothing of theirs would outlive a controller.
        return Err(Status::HOST_ID_NOT_INITIALIZED.into());
    }
    Ok(host)
}

/// Changes the reservations of a namespace.
fn change<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    nsid: u32,
    change: impl FnOnce(&mut Reservations, &ReservationHost) -> Result<ReservationChange, Status>,
    cx: &mut Cx<'_, S>,
) -> Result<ReservationChange, Failure> {
    let host = reserving_host(core, id, nsid)?;
    let Some(ns) = core.namespaces.get_mut(nsid) else { return Err(core.no_namespace(nsid)) };
    let mut reservations = ns.reservations.take().unwrap_or_default();
    let result = change(&mut reservations, &host);
    ns.reservations = Some(reservations).filter(|r| !r.is_blank());
    let change = result?;
    core.record(cx.storage);
    for notice in &change.notices {
        notify(core, nsid, notice, cx);
    }
    Ok(change)
}

/// Reservation Register (Base 7.6).
fn register<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: ReservationRegister,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> Result<(), Failure> {
    let keys: RegisterKeys = keys(data)?;
    let apply = |r: &mut Reservations, host: &ReservationHost| {
        let change = r.register(host, c.action, c.iekey, keys.crkey.get(), keys.nrkey.get())?;
        if c.cptpl != ChangePtpl::NO_CHANGE {
            r.persistent = c.cptpl == ChangePtpl::SET;
        }
        Ok(change)
    };
    change(core, id, c.nsid, apply, cx).map(drop)
}

/// Reservation Release (Base 7.7).
fn release<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: ReservationRelease,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> Result<(), Failure> {
    refuse_iekey(c.iekey)?;
    let crkey: U64 = keys(data)?;
    let apply =
        |r: &mut Reservations, host: &ReservationHost| r.release(host, c.action, c.rtype, crkey.get());
    change(core, id, c.nsid, apply, cx).map(drop)
}

/// Reservation Report (Base 7.8): as many bytes as were asked for.
fn report(core: &Core, id: ControllerId, c: ReservationReport) -> Result<Vec<u8>, Failure> {
    let ns = core.attached(id, c.nsid)?;
    if c.bytes() > u64::from(core.config.max_transfer) {
        return Err(Failure::field(40));
    }
    if !c.eds {
        return Err(Failure { location: 44, ..Status::HOST_ID_INCONSISTENT.into() });
    }
    let mut report = match &ns.reservations {
        Some(reservations) => reservations.report(),
        None => Reservations::default().report(),
    };
    report.resize(usize::try_from(c.bytes()).unwrap_or(0), 0);
    Ok(report)
}

/// I/O commands of preempted hosts that are in flight with this status.
fn commands_of(core: &Core, p: &Preempting, status: Status) -> Vec<u32> {
    core.commands
        .iter()
        .filter(|(io, e)| {
            *io != p.io
                && e.qid != 0
                && e.nsid == p.nsid
                && e.status.is(status)
                && p.controllers.contains(&ControllerId(e.controller))
        })
        .map(|(io, _)| io)
        .collect()
}

/// Tells hosts, on all their controllers that have the namespace.
fn notify<S: Contents>(core: &mut Core, nsid: u32, notice: &ReservationNotice, cx: &mut Cx<'_, S>) {
    let masked = |r: &Reservations| r.masks(notice.kind);
    let reservations = core.namespaces.get(nsid).and_then(|ns| ns.reservations.as_deref());
    if reservations.is_some_and(masked) {
        return;
    }
    let note = |controller: &mut Controller| {
        let told = |host: &ReservationHost| host.is(&controller.reservation_host());
        let concerned = controller.is_attached(nsid) && notice.hosts.iter().any(told);
        if concerned {
            controller.notifications.push(notice.kind, nsid);
        }
        concerned
    };
    core.raise_where(AsyncEvent::Reservation, note, cx);
}

/// The namespaces that Set Features of a feature of reservations is about.
fn reservable(core: &Core, id: ControllerId, nsid: u32) -> Result<Vec<u32>, Failure> {
    let controller = core.controller(id)?;
    if nsid == NSID_ALL {
        return Ok(core.namespaces.ids().into_iter().filter(|n| controller.is_attached(*n)).collect());
    }
    core.attached(id, nsid)?;
    Ok(vec![nsid])
}

/// Set Features of the Reservation Notification Mask and of Reservation Persistence (Base 5.1.25.1.29, 5.1.25.1.30).
pub(crate) fn set_feature<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: SetFeatures,
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    for nsid in reservable(core, id, c.nsid)? {
        let Some(ns) = core.namespaces.get_mut(nsid) else { continue };
        let mut reservations = ns.reservations.take().unwrap_or_default();
        if c.fid == FeatureId::RESERVATION_PERSISTENCE {
            reservations.persistent = c.cdw11 & 1 != 0;
        } else {
            reservations.mask = (c.cdw11 & MASK_BITS) as u8;
        }
        ns.reservations = Some(reservations).filter(|r| !r.is_blank());
    }
    if c.fid == FeatureId::RESERVATION_PERSISTENCE {
        core.record(cx.storage);
    }
    Ok(Reply::Done(0))
}

/// Get Features of the same; `current`, or the default, which is 0.
pub(crate) fn get_feature(
    core: &Core,
    id: ControllerId,
    fid: FeatureId,
    nsid: u32,
    current: bool,
) -> AdminResult {
    if nsid == NSID_ALL {
        return Err(Failure::field(4));
    }
    let ns = core.attached(id, nsid)?;
    let value = ns.reservations.as_ref().filter(|_| current).map_or(0, |r| {
        if fid == FeatureId::RESERVATION_PERSISTENCE { u32::from(r.persistent) } else { r.mask.into() }
    });
    Ok(Reply::Done(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use nvme::command_table::ReservationGroup;
    use nvme::reservation::{RegisterAction, ReleaseAction, ReservationType};
    use nvme::zerocopy::IntoBytes;

    /// Both hosts register with their identifiers as keys, and the first reserves namespace 1.
    fn reserved(core: &mut Core, a: ControllerId, b: ControllerId) {
        let ns = core.namespaces.get_mut(1).unwrap();
        let mut r = Reservations::default();
        for id in [a, b] {
            let host = core.controllers.get(id).unwrap().reservation_host();
            r.register(&host, RegisterAction::REGISTER, false, 0, host.id[0].into()).unwrap();
        }
        let first = core.controllers.get(a).unwrap().reservation_host();
        r.acquire(&first, AcquireAction::ACQUIRE, ReservationType::EXCLUSIVE_ACCESS, 1, 0).unwrap();
        ns.reservations = Some(Box::new(r));
    }

    #[test]
    fn a_preempt_and_abort_waits_for_the_commands_that_it_aborts() {
        let mut core = fixture::core();
        let (a, b) = (fixture::connect(&mut core, 1), fixture::connect(&mut core, 2));
        reserved(&mut core, a, b);
        let mut commands = ReservationCommands::default();
        let victim = fixture::begin(&mut core, a, 0, 1);
        victim.park();
        let token = fixture::begin(&mut core, b, 1, 1);
        let preempt = IoCommand::ReservationAcquire(ReservationAcquire {
            nsid: 1,
            action: AcquireAction::PREEMPT_AND_ABORT,
            iekey: false,
            rtype: ReservationType::EXCLUSIVE_ACCESS,
        });
        let keys = AcquireKeys { crkey: U64::new(2), prkey: U64::new(1) };
        let (done, _) =
            fixture::call(|cx| commands.execute(&mut core, &token, b, preempt, keys.as_bytes(), cx));
        assert_eq!((done.unwrap(), commands.waits()), (None, true));
        token.park();
        fixture::call(|cx| commands.end_preempts(&mut core, cx));
        assert!(commands.waits(), "the other host's command is still under way");
        let victim = core.commands.unpark(0).unwrap();
        assert!(core.commands.get_mut(&victim).status.is(Status::ABORTED_PREEMPT));
        fixture::call(|cx| core.complete(victim, cx));
        fixture::call(|cx| commands.end_preempts(&mut core, cx));
        assert!(!commands.waits());
        assert!(core.check_reserved(a, ReservationGroup::Read, 1, |_, _| true).is_err());
        assert_eq!(core.controllers.get(a).unwrap().notifications.page().nsid.get(), 1);
    }

    #[test]
    fn only_a_host_with_an_identifier_reserves() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 0);
        let rtype = ReservationType::WRITE_EXCLUSIVE;
        let c = ReservationRelease { nsid: 1, action: ReleaseAction::RELEASE, iekey: false, rtype };
        let (result, _) = fixture::call(|cx| release(&mut core, id, c, &[0; 8], cx));
        assert!(result.unwrap_err().status.is(Status::HOST_ID_NOT_INITIALIZED));
    }
}
