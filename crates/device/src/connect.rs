//! Associations: connect, queues, properties, keep-alive, disconnect (Base 3.1.4, 3.3, 6).

use crate::contents::Contents;
use crate::core::{
    Controller, ControllerId, Cx, Failure, Host, MAX_IO_QUEUES, MAX_QUEUE_ENTRIES, Origin, Output, Role,
    TimedEvent,
};
use crate::drive::Drive;
use crate::feature::Behavior;
use crate::firmware::Download;
use media::Nanos;
use nvme::property::{Cap, Cc, Csts, NSSR_NVME, PropertyOffset, Shn, Shst};
use nvme::{CNTLID_DYNAMIC, Nqn, Status, Version};

/// Granularity of the keep-alive timer (KAS), in units of 100 ms.
pub(crate) const KEEP_ALIVE_GRANULARITY: u16 = 10;

/// I/O command sets: NVM, and those by CSI (of which there is NVM).
const COMMAND_SETS: u8 = 0x41;

impl Drive {
    /// Makes a controller for a host that connects (dynamic controllers): the admin queue of Connect. It
    /// must be enabled (CC.EN) before it takes commands.
    ///
    /// # Errors
    /// Connect Invalid Parameters for another controller identifier than FFFFh (any), Connect Controller Busy if
    /// there are too many.
    pub fn connect(
        &mut self,
        now: Nanos,
        host: Host,
        cntlid: u16,
        kato_ms: u32,
    ) -> Result<ControllerId, Status> {
        let now = self.core.tick(now);
        if !self.core.power.on {
            return Err(Status::CONNECT_CONTROLLER_BUSY);
        }
        if cntlid != CNTLID_DYNAMIC {
            return Err(Status::CONNECT_INVALID_PARAMETERS.with_dnr());
        }
        let (proven, namespaces) = (host.proven, self.core.config.max_namespaces);
        let id = self
            .core
            .controllers
            .add(Controller::new(host, namespaces))
            .ok_or(Status::CONNECT_CONTROLLER_BUSY)?;
        if let Some(controller) = self.core.controllers.get_mut(id) {
            controller.values = self.core.persistent.saved.clone();
        }
        if proven {
            self.attach_for_host(id);
        }
        self.set_keep_alive(id, kato_ms, now).map_err(|failure| failure.status)?;
        Ok(id)
    }

    /// A host has authenticated itself: what it is to see is attached to its controller. Nothing happens if it had done so
    /// before, or has gone.
    pub fn prove(&mut self, id: ControllerId) {
        if let Some(controller) = self.core.controllers.get_mut(id)
            && !std::mem::replace(&mut controller.proven, true)
        {
            self.attach_for_host(id);
        }
    }

    /// Adds an I/O queue of `entries` entries (the wire's SQSIZE plus one): Connect with a queue identifier.
    ///
    /// # Errors
    /// Command Sequence Error if the controller is not enabled or has the queue already; Connect Invalid
    /// Parameters if identifier or size are out of range.
    pub fn add_queue(&mut self, id: ControllerId, qid: u16, entries: u32) -> Result<(), Status> {
        self.check_queue(id, qid, entries)?;
        if let Some(controller) = self.core.controllers.get_mut(id) {
            controller.add_queue(qid);
        }
        Ok(())
    }

    /// Whether an I/O queue could be added now. Nothing is changed.
    ///
    /// # Errors
    /// As of [`add_queue`](Drive::add_queue).
    pub fn check_queue(&self, id: ControllerId, qid: u16, entries: u32) -> Result<(), Status> {
        let controller =
            self.core.controllers.get(id).ok_or(Status::CONNECT_INVALID_PARAMETERS.with_dnr())?;
        if !controller.is_ready() || controller.has_queue(qid) {
            return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        }
        let granted = controller.granted.min(MAX_IO_QUEUES);
        if qid > granted || !(2..=MAX_QUEUE_ENTRIES).contains(&entries) {
            return Err(Status::CONNECT_INVALID_PARAMETERS.with_dnr());
        }
        Ok(())
    }

    /// Deletes an I/O queue: the fabrics command Disconnect, or the loss of the queue's connection.
    /// Commands in flight on it still complete; those that wait for their turn, as aborted.
    pub fn remove_queue(&mut self, id: ControllerId, qid: u16) {
        if let Some(controller) = self.core.controllers.get_mut(id) {
            controller.remove_queue(qid);
            let status = Status::ABORTED_SQ_DELETION;
            self.core.return_held(self.core.now(), |_, _, held| {
                ((held.controller, held.qid) == (id.0, qid)).then_some(status)
            });
            self.core.fused.forget(id, Some(qid));
        }
    }

    /// The host is gone, or leaves: the controller ends. Commands in flight still come back as
    /// [`Output::Complete`], event requests at once.
    pub fn disconnect<S: Contents>(
        &mut self,
        now: Nanos,
        id: ControllerId,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) {
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        self.core.drop_controller(id, Status::ABORTED_SQ_DELETION, &mut cx);
        self.pump(&mut cx);
    }

    /// Controllers that exist, with their hosts, in order.
    pub fn controllers(&self) -> impl Iterator<Item = (ControllerId, &Nqn, Origin)> {
        self.core.controllers.iter().map(|(id, c)| (id, &c.host, c.origin))
    }

    /// A host has another role from now on. What it may no longer see is detached from its controller, and what it is to see
    /// is attached; its host is told as of any change of namespaces.
    pub fn set_role<S: Contents>(
        &mut self,
        now: Nanos,
        id: ControllerId,
        role: Role,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) {
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        self.change_role(id, role, &mut cx);
        self.pump(&mut cx);
    }

    pub(crate) fn set_keep_alive(
        &mut self,
        id: ControllerId,
        kato_ms: u32,
        now: Nanos,
    ) -> Result<(), Failure> {
        let unit = u32::from(KEEP_ALIVE_GRANULARITY) * 100;
        // Rounded up to the granularity (Base 3.9).
        let rounded = u64::from(kato_ms).next_multiple_of(unit.into());
        let timer = self.core.controllers.fresh();
        let controller = self.core.controller_mut(id)?;
        controller.kato = Nanos(rounded * 1_000_000);
        controller.last_command = now;
        controller.timer = timer;
        let kato = controller.kato;
        if kato != Nanos::ZERO {
            self.core.events.push(now + kato, TimedEvent::KeepAlive(id, timer));
        }
        Ok(())
    }

    pub(crate) fn keep_alive_due<S: Contents>(&mut self, id: ControllerId, timer: u32, cx: &mut Cx<'_, S>) {
        let Some(controller) = self.core.controllers.get_mut(id) else { return };
        if controller.timer != timer {
            return;
        }
        let due = controller.last_command + controller.kato;
        if due <= cx.now {
            self.core.expel(id, Status::KEEP_ALIVE_EXPIRED, cx);
        } else {
            self.core.events.push(due, TimedEvent::KeepAlive(id, timer));
        }
    }

    /// Controller Capabilities.
    fn capabilities_property(&self, controller: &Controller) -> Cap {
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
    pub fn property_get(&self, id: ControllerId, offset: PropertyOffset, wide: bool) -> Result<u64, Status> {
        let controller = self.core.controllers.get(id).ok_or(Status::COMMAND_SEQUENCE_ERROR.with_dnr())?;
        Ok(match (offset, wide) {
            (PropertyOffset::CAP, true) => self.capabilities_property(controller).into_bits().get(),
            (PropertyOffset::VS, false) => Version::V2_1.0.into(),
            (PropertyOffset::CC, false) => controller.cc.into_bits().get().into(),
            (PropertyOffset::CSTS, false) => controller.csts.into_bits().get().into(),
            (PropertyOffset::NSSR, false) => 0,
            // Ready with media within CAP.TO.
            (PropertyOffset::CRTO, false) => 20,
            _ => return Err(Status::INVALID_FIELD.with_dnr()),
        })
    }

    /// Property Set: enables, resets or shuts down a controller, or resets the subsystem.
    ///
    /// # Errors
    /// Invalid Field in Command if there is no such property that can be set, or the value is not allowed.
    #[allow(clippy::too_many_arguments)]
    pub fn property_set<S: Contents>(
        &mut self,
        now: Nanos,
        id: ControllerId,
        offset: PropertyOffset,
        wide: bool,
        value: u64,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) -> Result<(), Status> {
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        let result = self.set_property(id, offset, wide, value, &mut cx);
        self.pump(&mut cx);
        result
    }

    pub(crate) fn set_property<S: Contents>(
        &mut self,
        id: ControllerId,
        offset: PropertyOffset,
        wide: bool,
        value: u64,
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Status> {
        let value = value as u32;
        if self.core.controllers.get(id).is_none() {
            return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        }
        match (offset, wide) {
            (PropertyOffset::CC, false) => self.configure(id, Cc::from_bits(value.into()), cx),
            (PropertyOffset::NSSR, false) => {
                // It ends the associations of all hosts.
                if !self.core.controllers.get(id).is_some_and(|c| c.role.is_administrator()) {
                    return Err(Status::OPERATION_DENIED.with_dnr());
                }
                if value == NSSR_NVME {
                    self.reset_subsystem(cx);
                }
                Ok(())
            }
            // NSSRO is cleared by writing a one; nothing else of CSTS can be written.
            (PropertyOffset::CSTS, false) => {
                if let Some(controller) = self.core.controllers.get_mut(id)
                    && Csts::from_bits(value.into()).nssro()
                {
                    controller.csts.set_nssro(false);
                }
                Ok(())
            }
            _ => Err(Status::INVALID_FIELD.with_dnr()),
        }
    }

    fn configure<S: Contents>(
        &mut self,
        id: ControllerId,
        new: Cc,
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Status> {
        let Some(controller) = self.core.controllers.get_mut(id) else { return Ok(()) };
        let old = controller.cc;
        if new.en() && !old.en() {
            // Entry sizes may still be 0 when a host enables (Base 3.1.4.5: set before I/O queues exist).
            let entries = [(0, 0), (6, 4)].contains(&(new.iosqes(), new.iocqes()));
            if ![0, 6].contains(&new.css()) || new.mps() > 4 || new.ams() != 0 || !entries || new.crime() {
                return Err(Status::INVALID_FIELD.with_dnr());
            }
            controller.csts = Csts::new().with_rdy(true).with_nssro(controller.csts.nssro());
            if self.core.persistent.clean {
                // Whatever was shut down in order is in use again.
                self.core.persistent.clean = false;
                self.core.record(cx.storage);
            }
        }
        let Some(controller) = self.core.controllers.get_mut(id) else { return Ok(()) };
        controller.cc = new;
        if !new.en() && old.en() {
            self.reset_controller(id, cx);
            return Ok(());
        }
        let shutdown = [Shn::NORMAL, Shn::ABRUPT].contains(&new.shn());
        let Some(controller) = self.core.controllers.get_mut(id) else { return Ok(()) };
        if shutdown && controller.csts.shst() == Shst::NORMAL {
            controller.csts.set_shst(Shst::OCCURRING);
            self.start_shutdown(id, cx);
        }
        Ok(())
    }

    /// Controller Level Reset by clearing CC.EN: queues, features and events are as after Connect.
    fn reset_controller<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        let saved = self.core.persistent.saved.clone();
        let Some(controller) = self.core.controllers.get_mut(id) else { return };
        controller.csts = Csts::new();
        controller.cc = controller.cc.with_shn(Shn::NONE);
        controller.values = saved;
        controller.behavior = Behavior::default();
        controller.granted = MAX_IO_QUEUES;
        controller.warned = 0;
        controller.persistent_events = None;
        controller.download = Download::default();
        controller.ana_changes = 0;
        controller.changed.clear();
        controller.changed_groups.clear();
        controller.changed_windows.clear();
        controller.lost.restart();
        controller.streams.clear();
        controller.notifications = Default::default();
        controller.remove_io_queues();
        for io in controller.events.reset() {
            self.core.return_parked(io, Status::ABORTED_SQ_DELETION, cx);
        }
        self.core.return_held(cx.now, |_, _, held| {
            (held.controller == id.0).then_some(Status::ABORTED_SQ_DELETION)
        });
        self.core.fused.forget(id, None);
        self.reset_self_test(id, cx);
        let activated = self.activate_firmware();
        self.remember_start(cx.now, Some(id), activated);
        self.core.record(cx.storage);
    }

    /// NVM Subsystem Reset: every association ends.
    fn reset_subsystem<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let activated = self.activate_firmware();
        self.remember_start(cx.now, None, activated);
        self.core.record(cx.storage);
        for id in self.core.controllers.ids() {
            self.core.expel(id, Status::ABORTED_SQ_DELETION, cx);
        }
    }

    /// Keep-alive of a controller, zero when off.
    pub fn keep_alive(&self, id: ControllerId) -> Nanos {
        self.core.controllers.get(id).map_or(Nanos::ZERO, |c| c.kato)
    }
}
