//! Associations of hosts with the drive.

use super::Drive;
use crate::association::{self, PropertyEffect};
use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, Host, Origin, Output, Role};
use crate::firmware;
use crate::namespaces::attachment;
use crate::persistent_event_log;
use crate::self_test;
use media::Nanos;
use nvme::property::PropertyOffset;
use nvme::{Nqn, Status};

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
        let proven = host.proven;
        let id = association::connect(&mut self.core, now, host, cntlid, kato_ms)?;
        if proven {
            attachment::attach_for_host(&mut self.core, id);
        }
        Ok(id)
    }

    /// A host has authenticated itself: what it is to see is attached to its controller. Nothing happens if it had done so
    /// before, or has gone.
    pub fn prove(&mut self, id: ControllerId) {
        if let Some(controller) = self.core.controllers.get_mut(id)
            && !std::mem::replace(&mut controller.proven, true)
        {
            attachment::attach_for_host(&mut self.core, id);
        }
    }

    /// Adds an I/O queue of `entries` entries (the wire's SQSIZE plus one): Connect with a queue identifier.
    ///
    /// # Errors
    /// Command Sequence Error if the controller is not enabled or has the queue already; Connect Invalid
    /// Parameters if identifier or size are out of range.
    pub fn add_queue(&mut self, id: ControllerId, qid: u16, entries: u32) -> Result<(), Status> {
        association::check_queue(&self.core, id, qid, entries)?;
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
        association::check_queue(&self.core, id, qid, entries)
    }

    /// Deletes an I/O queue: the fabrics command Disconnect, or the loss of the queue's connection.
    /// Commands in flight on it still complete; those that wait for their turn, as aborted.
    pub fn remove_queue(&mut self, id: ControllerId, qid: u16) {
        association::remove_queue(&mut self.core, id, qid);
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
        attachment::change_role(&mut self.core, id, role, &mut cx);
        self.pump(&mut cx);
    }

    /// Property Get.
    ///
    /// # Errors
    /// Invalid Field in Command if there is no such property or it has another width.
    pub fn property_get(&self, id: ControllerId, offset: PropertyOffset, wide: bool) -> Result<u64, Status> {
        association::property_get(&self.core, id, offset, wide)
    }

    /// Property Set of 4 bytes: enables, resets or shuts down a controller, or resets the subsystem.
    ///
    /// # Errors
    /// Invalid Field in Command if there is no such property that can be set, or the value is not allowed.
    pub fn property_set<S: Contents>(
        &mut self,
        now: Nanos,
        id: ControllerId,
        offset: PropertyOffset,
        value: u32,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) -> Result<(), Status> {
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        let result = self.set_property(id, offset, false, value.into(), &mut cx);
        self.pump(&mut cx);
        result
    }

    pub(super) fn set_property<S: Contents>(
        &mut self,
        id: ControllerId,
        offset: PropertyOffset,
        wide: bool,
        value: u64,
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Status> {
        let is_enabled = |core: &Core| core.controllers.get(id).is_some_and(|controller| controller.cc.en());
        let before = is_enabled(&self.core);
        let effect = association::set_property(&mut self.core, id, offset, wide, value, cx)?;
        if is_enabled(&self.core) && !before {
            attachment::select_command_sets(&mut self.core, id);
        }
        match effect {
            PropertyEffect::Nothing => {}
            PropertyEffect::ControllerReset => {
                association::reset(&mut self.core, id, cx);
                self_test::controller_reset(&mut self.core, id, cx);
                self.restart_firmware(cx.now, Some(id));
                // A host may do it without end.
                self.steps.record(&mut self.core);
            }
            PropertyEffect::SubsystemReset => {
                self.restart_firmware(cx.now, None);
                self.core.record(cx.storage);
                for id in self.core.controllers.ids() {
                    self.core.expel(id, Status::ABORTED_SQ_DELETION, cx);
                }
            }
            PropertyEffect::Shutdown => self.shutdowns.start_for(&mut self.core, id, cx),
        }
        Ok(())
    }

    /// A controller, or with `None` the subsystem, is reset or gets power: firmware that waits for that is activated, unless the
    /// controller's host does not administer the drive. The caller sees to it that the state is recorded.
    pub(super) fn restart_firmware(&mut self, now: Nanos, id: Option<ControllerId>) {
        let administers = |id| self.core.controllers.get(id).is_some_and(|c| c.role.is_administrator());
        let activates = id.is_none_or(administers);
        let activated = activates && firmware::activate_pending(&mut self.core);
        let running = firmware::revision(&self.core);
        persistent_event_log::power_on_or_reset(&mut self.core, now, id, running, activated);
    }

    /// Keep-alive of a controller, zero when off.
    pub fn keep_alive(&self, id: ControllerId) -> Nanos {
        self.core.controllers.get(id).map_or(Nanos::ZERO, |c| c.kato)
    }
}
