//! Alerts of lost blocks: a controller hears of those in its namespaces that its host has not read of.

use super::async_events::AsyncEvent;
use super::controller::ControllerId;
use super::state::{Core, Cx, TimedEvent};
use crate::contents::Contents;
use media::Nanos;
use nvme::Nsid;

impl Core {
    /// Whether pages of a namespace were lost.
    pub(crate) fn has_losses(&self, nsid: Nsid) -> bool {
        self.namespaces.get(nsid).is_some_and(|ns| self.ftl.volume_losses(ns.volume) > 0)
    }

    /// A controller has a namespace attached that may have losses.
    pub(crate) fn show_losses<S: Contents>(&mut self, id: ControllerId, nsid: Nsid, cx: &mut Cx<'_, S>) {
        if self.has_losses(nsid)
            && let Some(controller) = self.controllers.get_mut(id)
        {
            controller.lost.unread = true;
            self.alert_of_losses(id, cx);
        }
    }

    /// Alerts a controller of what its host has not read, now or when the report interval has passed.
    pub(crate) fn alert_of_losses<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        let Some(controller) = self.controllers.get_mut(id) else { return };
        if !controller.lost.unread || !controller.values.events().lsin() {
            return;
        }
        let interval = Nanos(u64::from(controller.values.lba_report_interval) * 100_000_000);
        let due = controller.lost.last.map_or(cx.now, |last| last + interval);
        if due > cx.now {
            // If the interval has become longer when this event comes, it comes too soon, and the next one is set then.
            self.events.push(due, TimedEvent::LbaAlert(id));
            return;
        }
        controller.lost.last = Some(cx.now);
        if let Some(answered) = controller.raise(AsyncEvent::LbaStatus) {
            self.answer_event(answered, cx);
        }
    }
}
