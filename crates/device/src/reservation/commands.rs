//! What the drive does with reservations: the commands, access, notifications, features.

use super::{Change, MASK_BITS, Notice, Reservations};
use crate::contents::Contents;
use crate::core::{AsyncEvent, Controller, ControllerId, Cx, Failure, Outcome, Output, Reply, Token};
use crate::drive::Drive;
use media::Nanos;
use nvme::admin::SetFeatures;
use nvme::feature::FeatureId;
use nvme::reservation::{
    AcquireAction, AcquireKeys, ChangePtpl, NotificationType, RegisterKeys, ReservationAcquire,
    ReservationNotification, ReservationRegister, ReservationRelease, ReservationReport,
};
use nvme::zerocopy::FromBytes;
use nvme::{IoCommand, NSID_ALL, Status, U32, U64};
use std::collections::VecDeque;

/// Notifications that a controller keeps until they are read. Those beyond are lost, which their count shows.
const MAX_NOTIFICATIONS: usize = 64;

/// Notifications of one controller.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    /// Ever made since the last reset, lost ones included.
    count: u64,
    unread: VecDeque<ReservationNotification>,
}

impl Notifications {
    fn push(&mut self, kind: NotificationType, nsid: u32) {
        // The count never is that of an empty page.
        self.count = self.count.checked_add(1).unwrap_or(1);
        if self.unread.len() < MAX_NOTIFICATIONS {
            self.unread.push_back(ReservationNotification {
                count: U64::new(self.count),
                kind,
                nsid: U32::new(nsid),
                ..ReservationNotification::default()
            });
        }
    }

    /// The oldest that was not read, or an empty page (Base 5.1.12.1.32).
    pub fn page(&self) -> ReservationNotification {
        let mut page = self.unread.front().copied().unwrap_or_default();
        page.available = u8::try_from(self.unread.len().saturating_sub(1)).unwrap_or(u8::MAX);
        page
    }

    /// The oldest was read; whether there are more.
    pub fn read(&mut self) -> bool {
        self.unread.pop_front();
        !self.unread.is_empty()
    }
}

/// A Preempt and Abort that waits for the commands that it aborted.
pub(crate) struct Preempting {
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

impl Drive {
    /// The host that a command changes a registration or reservation of, which must have an identifier.
    fn reserving_host(&self, id: ControllerId, nsid: u32) -> Result<super::HostId, Failure> {
        self.core.attached(id, nsid)?;
        let host = self.core.controller(id)?.host_id;
        if host == [0; 16] {
            // Base 5.1.25.1.28: hosts with 0h are all different, so nothing of theirs would outlive a controller.
            return Err(Status::HOST_ID_NOT_INITIALIZED.into());
        }
        Ok(host)
    }

    /// Changes the reservations of a namespace.
    fn change_reservations<S: Contents>(
        &mut self,
        id: ControllerId,
        nsid: u32,
        change: impl FnOnce(&mut Reservations, &super::HostId) -> Result<Change, Status>,
        cx: &mut Cx<'_, S>,
    ) -> Result<Change, Failure> {
        let host = self.reserving_host(id, nsid)?;
        let Some(ns) = self.core.namespaces.get_mut(nsid) else { return Err(self.core.no_namespace(nsid)) };
        let mut reservations = ns.reservations.take().unwrap_or_default();
        let result = change(&mut reservations, &host);
        ns.reservations = Some(reservations).filter(|r| !r.is_blank());
        let change = result?;
        self.core.record(cx.storage);
        for notice in &change.notices {
            self.notify(nsid, notice, cx);
        }
        Ok(change)
    }

    /// Executes a command of reservations. They are the controller's own work and take no time of the media.
    pub(crate) fn reserve<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: IoCommand,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let done = match command {
            IoCommand::ReservationRegister(c) => self.reservation_register(id, c, data, cx).map(|()| true),
            IoCommand::ReservationAcquire(c) => self.reservation_acquire(token, id, c, data, cx),
            IoCommand::ReservationRelease(c) => self.reservation_release(id, c, data, cx).map(|()| true),
            IoCommand::ReservationReport(c) => {
                let bytes = self.reservation_report(id, c)?;
                cx.out.push(Output::Data { io: token.io(), bytes });
                Ok(true)
            }
            _ => Err(Status::INVALID_OPCODE.into()),
        }?;
        self.core.enter(token);
        Ok(done.then_some(cx.now))
    }

    /// Reservation Register (Base 7.6).
    fn reservation_register<S: Contents>(
        &mut self,
        id: ControllerId,
        c: ReservationRegister,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Failure> {
        let keys: RegisterKeys = keys(data)?;
        let change = |r: &mut Reservations, host: &super::HostId| {
            let change = r.register(host, c.action, c.iekey, keys.crkey.get(), keys.nrkey.get())?;
            if c.cptpl != ChangePtpl::NO_CHANGE {
                r.persistent = c.cptpl == ChangePtpl::SET;
            }
            Ok(change)
        };
        self.change_reservations(id, c.nsid, change, cx).map(drop)
    }

    /// Reservation Acquire (Base 7.5). Whether it is complete: Preempt and Abort may have to wait for what it aborted.
    fn reservation_acquire<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: ReservationAcquire,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<bool, Failure> {
        refuse_iekey(c.iekey)?;
        let keys: AcquireKeys = keys(data)?;
        let (crkey, prkey) = (keys.crkey.get(), keys.prkey.get());
        let change =
            |r: &mut Reservations, host: &super::HostId| r.acquire(host, c.action, c.rtype, crkey, prkey);
        let change = self.change_reservations(id, c.nsid, change, cx)?;
        if c.action != AcquireAction::PREEMPT_AND_ABORT {
            return Ok(true);
        }
        let of_preempted = |c: &Controller| change.preempted.contains(&c.host_id);
        let controllers =
            self.core.controllers.iter().filter(|(_, c)| of_preempted(c)).map(|(id, _)| id).collect();
        let preempting = Preempting { io: token.io().0, nsid: c.nsid, controllers };
        // What is held ends at once; what is being executed by itself, but not well.
        self.core.return_held(cx.now, |_, _, e| {
            let theirs = e.nsid == c.nsid && preempting.controllers.contains(&ControllerId(e.controller));
            theirs.then_some(Status::ABORTED_PREEMPT)
        });
        for io in self.commands_of(&preempting, Status::SUCCESS) {
            if let Some(token) = self.core.commands.unpark(io) {
                self.core.note_failure(&token, Failure::transient(Status::ABORTED_PREEMPT));
                token.park();
            }
        }
        if self.commands_of(&preempting, Status::ABORTED_PREEMPT).is_empty() {
            return Ok(true);
        }
        self.preempting.push(preempting);
        Ok(false)
    }

    /// I/O commands of preempted hosts that are in flight with this status.
    fn commands_of(&self, p: &Preempting, status: Status) -> Vec<u32> {
        self.core
            .commands
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

    /// Ends each Preempt and Abort whose commands have ended.
    #[cold]
    pub(crate) fn end_preempts<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        for preempting in std::mem::take(&mut self.preempting) {
            if !self.commands_of(&preempting, Status::ABORTED_PREEMPT).is_empty() {
                self.preempting.push(preempting);
            } else if let Some(token) = self.core.commands.unpark(preempting.io) {
                self.core.schedule(token, cx.now, cx);
            }
        }
    }

    /// Reservation Release (Base 7.7).
    fn reservation_release<S: Contents>(
        &mut self,
        id: ControllerId,
        c: ReservationRelease,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Failure> {
        refuse_iekey(c.iekey)?;
        let crkey: U64 = keys(data)?;
        let change =
            |r: &mut Reservations, host: &super::HostId| r.release(host, c.action, c.rtype, crkey.get());
        self.change_reservations(id, c.nsid, change, cx).map(drop)
    }

    /// Reservation Report (Base 7.8): as many bytes as were asked for.
    fn reservation_report(&self, id: ControllerId, c: ReservationReport) -> Result<Vec<u8>, Failure> {
        let ns = self.core.attached(id, c.nsid)?;
        if c.bytes() > u64::from(self.core.config.max_transfer) {
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

    /// Tells hosts, on all their controllers that have the namespace.
    fn notify<S: Contents>(&mut self, nsid: u32, notice: &Notice, cx: &mut Cx<'_, S>) {
        let masked = |r: &Reservations| r.masks(notice.kind);
        let reservations = self.core.namespaces.get(nsid).and_then(|ns| ns.reservations.as_deref());
        if reservations.is_some_and(masked) {
            return;
        }
        let mut answers = Vec::new();
        for (_, controller) in self.core.controllers.iter_mut() {
            if controller.is_attached(nsid) && notice.hosts.contains(&controller.host_id) {
                controller.notifications.push(notice.kind, nsid);
                answers.extend(controller.raise(AsyncEvent::Reservation));
            }
        }
        for answered in answers {
            self.core.answer_event(answered, cx);
        }
    }

    /// The namespaces that Set Features of a feature of reservations is about.
    fn reservable(&self, id: ControllerId, nsid: u32) -> Result<Vec<u32>, Failure> {
        let controller = self.core.controller(id)?;
        if nsid == NSID_ALL {
            return Ok(self
                .core
                .namespaces
                .ids()
                .into_iter()
                .filter(|n| controller.is_attached(*n))
                .collect());
        }
        self.core.attached(id, nsid)?;
        Ok(vec![nsid])
    }

    /// Set Features of the Reservation Notification Mask and of Reservation Persistence (Base 5.1.25.1.29, 5.1.25.1.30).
    pub(crate) fn set_reservation_feature<S: Contents>(
        &mut self,
        id: ControllerId,
        c: SetFeatures,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        for nsid in self.reservable(id, c.nsid)? {
            let Some(ns) = self.core.namespaces.get_mut(nsid) else { continue };
            let mut reservations = ns.reservations.take().unwrap_or_default();
            if c.fid == FeatureId::RESERVATION_PERSISTENCE {
                reservations.persistent = c.cdw11 & 1 != 0;
            } else {
                reservations.mask = (c.cdw11 & MASK_BITS) as u8;
            }
            ns.reservations = Some(reservations).filter(|r| !r.is_blank());
        }
        if c.fid == FeatureId::RESERVATION_PERSISTENCE {
            self.core.record(cx.storage);
        }
        Ok(Reply::Done(0))
    }

    /// Get Features of the same; `current`, or the default, which is 0.
    pub(crate) fn reservation_feature(
        &self,
        id: ControllerId,
        fid: FeatureId,
        nsid: u32,
        current: bool,
    ) -> Outcome {
        if nsid == NSID_ALL {
            return Err(Failure::field(4));
        }
        let ns = self.core.attached(id, nsid)?;
        let value = ns.reservations.as_ref().filter(|_| current).map_or(0, |r| {
            if fid == FeatureId::RESERVATION_PERSISTENCE { u32::from(r.persistent) } else { r.mask.into() }
        });
        Ok(Reply::Done(value))
    }
}
