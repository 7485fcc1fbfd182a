//! Keep-alive timers (Base 3.9): a controller whose host is silent for too long goes.

use super::controller::ControllerId;
use super::failure::Failure;
use super::state::{Core, Cx, TimedEvent};
use crate::contents::Contents;
use media::Nanos;
use nvme::Status;

/// Granularity of the keep-alive timer (KAS), in units of 100 ms.
pub(crate) const KEEP_ALIVE_GRANULARITY: u16 = 10;

impl Core {
    /// Starts a controller's keep-alive timer anew with this timeout; 0 turns it off.
    ///
    /// # Errors
    /// If there is no such controller.
    pub(crate) fn set_keep_alive(
        &mut self,
        id: ControllerId,
        kato_ms: u32,
        now: Nanos,
    ) -> Result<(), Failure> {
        let unit = u32::from(KEEP_ALIVE_GRANULARITY) * 100;
        // Rounded up to the granularity (Base 3.9).
        let rounded = u64::from(kato_ms).next_multiple_of(unit.into());
        let timer = self.controllers.fresh();
        let controller = self.controller_mut(id)?;
        controller.kato = Nanos(rounded * 1_000_000);
        controller.last_command = now;
        controller.timer = timer;
        let kato = controller.kato;
        if kato != Nanos::ZERO {
            self.events.push(now + kato, TimedEvent::KeepAlive(id, timer));
        }
        Ok(())
    }

    /// A keep-alive timer may have run out: then its controller goes.
    pub(crate) fn keep_alive_due<S: Contents>(&mut self, id: ControllerId, timer: u32, cx: &mut Cx<'_, S>) {
        let Some(controller) = self.controllers.get_mut(id) else { return };
        if controller.timer != timer {
            return;
        }
        let due = controller.last_command + controller.kato;
        if due <= cx.now {
            self.expel(id, Status::KEEP_ALIVE_EXPIRED, cx);
        } else {
            self.events.push(due, TimedEvent::KeepAlive(id, timer));
        }
    }
}
