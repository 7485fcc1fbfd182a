//! Controllers that end, and what controllers are told of their namespaces.

use super::async_events::AsyncEvent;
use super::controller::ControllerId;
use super::output::Output;
use super::state::{Core, Cx};
use crate::contents::Contents;
use nvme::Status;

impl Core {
    /// Drops a controller: it is removed, and its waiting event requests come back.
    pub(crate) fn drop_controller<S: Contents>(
        &mut self,
        id: ControllerId,
        status: Status,
        cx: &mut Cx<'_, S>,
    ) -> bool {
        let Some(mut controller) = self.controllers.remove(id) else { return false };
        for io in controller.events.reset() {
            self.return_parked(io, status, cx);
        }
        self.return_held(cx.now, |_, _, held| (held.controller == id.0).then_some(status));
        self.fused.forget(id, None);
        self.commands.orphan(id.0);
        true
    }

    /// Drops a controller on the drive's own account; the owner is told.
    pub(crate) fn expel<S: Contents>(&mut self, id: ControllerId, status: Status, cx: &mut Cx<'_, S>) {
        if self.drop_controller(id, status, cx) {
            cx.out.push(Output::Disconnect { controller: id });
        }
    }

    /// Tells controllers that a namespace of theirs was changed.
    pub(crate) fn namespace_changed<S: Contents>(
        &mut self,
        nsid: u32,
        who: &[ControllerId],
        cx: &mut Cx<'_, S>,
    ) {
        for &id in who {
            let Some(controller) = self.controllers.get_mut(id) else { continue };
            controller.changed.insert(nsid);
            let configuration = controller.values.events();
            let answered = controller.events.raise(AsyncEvent::Namespaces, configuration);
            if let Some(answered) = answered {
                self.answer_event(answered, cx);
            }
        }
    }
}
