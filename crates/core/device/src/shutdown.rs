//! Orderly shutdowns.

use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, MAX_IO, Output, TimedEvent};
use ftl::{Answer, CompletedIo, Io};
use nvme::Status;
use nvme::property::Shst;

/// An orderly shutdown under way: of one controller, or of the drive.
#[derive(Clone, Copy, Debug)]
struct Shutdown {
    io: u32,
    of: Option<(ControllerId, u32)>,
}

/// Shutdowns that the translation layer has not ended yet.
#[derive(Debug, Default)]
pub(crate) struct Shutdowns(Vec<Shutdown>);

impl Shutdowns {
    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A host has announced a shutdown (CC.SHN).
    pub fn start_for<S: Contents>(&mut self, core: &mut Core, id: ControllerId, cx: &mut Cx<'_, S>) {
        if let Some(association) = core.controllers.get(id).map(|c| c.association) {
            // Held writes must not reach the media after the shutdown.
            core.return_held(cx.now, |_, _, held| {
                (held.controller == id.0).then_some(Status::ABORTED_SQ_DELETION)
            });
            self.start(core, Some((id, association)), cx);
        }
    }

    /// Begins a shutdown of a controller's association, or of the drive: everything that was accepted goes to the media.
    pub fn start<S: Contents>(
        &mut self,
        core: &mut Core,
        of: Option<(ControllerId, u32)>,
        cx: &mut Cx<'_, S>,
    ) {
        // Numbers that no runner gives to a command.
        let io = (MAX_IO..).find(|io| self.0.iter().all(|s| s.io != *io)).unwrap_or(MAX_IO);
        match core.ftl.shutdown(cx.now, Io(io), cx.storage) {
            Answer::At(at) => core.events.push(at, TimedEvent::ShutdownComplete(of)),
            Answer::Later => self.0.push(Shutdown { io, of }),
            // What cannot reach the media any more stays where the capacitors save it.
            Answer::Failed(_) => core.events.push(cx.now, TimedEvent::ShutdownComplete(of)),
        }
    }

    /// The translation layer has ended a shutdown.
    pub fn done(&mut self, core: &mut Core, done: CompletedIo) {
        if let Some(i) = self.0.iter().position(|s| s.io == done.io.0) {
            let shutdown = self.0.swap_remove(i);
            core.events.push(done.at, TimedEvent::ShutdownComplete(shutdown.of));
        }
    }
}

/// A shutdown is complete.
pub(crate) fn shutdown_complete<S: Contents>(
    core: &mut Core,
    of: Option<(ControllerId, u32)>,
    cx: &mut Cx<'_, S>,
) {
    if let Some((id, association)) = of
        && let Some(controller) = core.controllers.get_mut(id)
        && controller.association == association
    {
        controller.csts.set_shst(Shst::COMPLETE);
    }
    let idle = core.controllers.iter().all(|(_, c)| !c.is_ready());
    if of.is_none() || idle {
        core.persistent.clean = true;
        core.record(cx.storage);
    }
    if of.is_none() {
        cx.out.push(Output::ShutDown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Drive};
    use ftl::NoContents;
    use media::Nanos;

    #[test]
    fn a_shutdown_of_the_drive_is_told_when_it_is_complete() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let mut out = Vec::new();
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out };
        let mut shutdowns = Shutdowns::default();
        shutdowns.start(&mut core, None, &mut cx);
        assert!(shutdowns.is_empty(), "nothing is to be written");
        let event = core.events.pop_due(Nanos::ZERO);
        assert!(matches!(event, Some((_, TimedEvent::ShutdownComplete(None)))), "{event:?}");
        shutdown_complete(&mut core, None, &mut cx);
        assert!(core.persistent.clean);
        assert_eq!(out, [Output::ShutDown]);
    }

    #[test]
    fn an_association_that_has_gone_is_not_shut_down() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let mut out = Vec::new();
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out };
        let mut shutdowns = Shutdowns::default();
        shutdowns.start_for(&mut core, ControllerId(1), &mut cx);
        assert!(core.events.pop_due(Nanos::MAX).is_none());
    }
}
