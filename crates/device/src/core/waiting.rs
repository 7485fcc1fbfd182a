//! Admin commands that wait until the namespaces that they change are idle.

use super::controller::ControllerId;
use super::failure::{AdminResult, Failure, Reply};
use super::in_flight::{Token, WaitingAdminCommand};
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

    /// Opens all namespaces again: no command waits until they are idle.
    pub(crate) fn reopen(&mut self) {
        self.namespaces.iter_mut().for_each(|(_, ns)| ns.closing = false);
    }

    /// Whether these namespaces, which a command wants to change, are idle. A namespace that is not takes no more commands until
    /// it is. Commands that are held for any of them come back, because their turn may be far away.
    pub(crate) fn claim(&mut self, nsids: &[u32], now: Nanos) -> bool {
        self.return_held_of(now, nsids);
        let mut idle = true;
        for &nsid in nsids {
            if let Some(ns) = self.namespaces.get_mut(nsid)
                && ns.in_flight > 0
            {
                ns.closing = true;
                idle = false;
            }
        }
        idle
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
