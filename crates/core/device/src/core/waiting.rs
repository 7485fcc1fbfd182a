//! Admin commands that wait until the namespaces that they change are idle.

use super::controller::ControllerId;
use super::failure::{AdminResult, Failure, Reply};
use super::in_flight::{Token, WaitingAdminCommand};
use super::namespace::Admission;
use super::state::{Core, Cx};
use crate::contents::Contents;
use media::Nanos;
use nvme::Status;
use nvme::admin::AdminCommand;

impl Core {
    /// Leaves a command until the namespaces that it is about are idle.
    pub(crate) fn wait_for_idle(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: AdminCommand,
    ) -> AdminResult {
        self.waiting.push(WaitingAdminCommand { io: token.io().0, controller: id, command });
        Ok(Reply::Parked)
    }

    /// Opens all namespaces again that only waited: their commands are to be tried again, which closes what is still in use.
    pub(crate) fn reopen(&mut self) {
        let draining = self.namespaces.iter_mut().filter(|(_, ns)| ns.admission == Admission::Draining);
        draining.for_each(|(_, ns)| ns.admission = Admission::Open);
        self.drained = true;
    }

    /// Whether these namespaces, which a command wants to change, are idle. A namespace that is not takes no more commands until
    /// it is. Commands that are held for any of them come back, because their turn may be far away.
    pub(crate) fn claim(&mut self, nsids: &[u32], now: Nanos) -> bool {
        self.return_held_of(now, nsids);
        let mut idle = true;
        for &nsid in nsids {
            let Some(ns) = self.namespaces.get_mut(nsid) else { continue };
            idle &= ns.in_flight == 0 && !ns.admission.is_changing();
            if ns.in_flight > 0 && ns.admission == Admission::Open {
                ns.admission = Admission::Draining;
            }
        }
        idle
    }

    /// Idle namespaces are about to be changed: they take no commands until [`end_change`](Core::end_change).
    pub(crate) fn begin_change(&mut self, nsids: &[u32], admission: Admission) {
        for &nsid in nsids {
            if let Some(ns) = self.namespaces.get_mut(nsid) {
                ns.admission = admission;
            }
        }
    }

    /// These namespaces are as they are to be. What waits for them is tried again.
    pub(crate) fn end_change(&mut self, nsids: &[u32]) {
        self.begin_change(nsids, Admission::Open);
        self.drained = true;
    }

    /// Fails the commands that wait for idle namespaces, or for their turn: a sanitize operation begins.
    pub(crate) fn return_waiting<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        self.return_held(cx.now, |_, _, _| Some(Status::SANITIZE_IN_PROGRESS));
        self.reopen();
        for waiting in std::mem::take(&mut self.waiting) {
            if let Some(token) = self.commands.unpark(waiting.io) {
                self.fail(token, Failure::transient(Status::SANITIZE_IN_PROGRESS), cx);
            }
        }
    }
}
