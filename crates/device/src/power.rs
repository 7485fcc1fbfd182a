//! Power: cuts, orderly shutdowns, power on.

use crate::contents::Contents;
use crate::core::{ControllerId, Cx, Lanes, MAX_IO, Output, Power, TimedEvent};
use crate::drive::Drive;
use crate::fdp;
use crate::stats::DeletedNamespaces;
use crate::stats::counts::NamespaceStats;
use ftl::{Answer, Done, Io};
use media::Nanos;
use nvme::Status;
use nvme::property::Shst;

/// A planned power cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// As soon as its command is complete; else when the media have counted down.
    pub at_once: bool,
    /// Whether the capacitors work.
    pub energy: bool,
    pub off: Nanos,
}

/// An orderly shutdown under way: of one controller, or of the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shutdown {
    io: u32,
    of: Option<(ControllerId, u32)>,
}

impl Drive {
    /// The drive loses its power now. `energy` says whether the capacitors do their work. Every controller is
    /// gone, every command in flight is forgotten, and nothing is accepted until [`power_on`](Drive::power_on).
    /// `off` is passed on to the owner. `storage` hears at once of what is lost.
    pub fn power_cut<S: Contents>(
        &mut self,
        now: Nanos,
        energy: bool,
        off: Nanos,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) {
        let now = self.core.tick(now);
        if !self.core.power.on {
            return;
        }
        let lossy = self.core.ftl.power_cut(now, energy, storage);
        let protected = self.core.config.ftl.protected;
        self.core.persistent.powered += now.since(self.core.power.since).0;
        self.core.persistent.backups += u64::from(protected && energy && !self.core.persistent.clean);
        self.core.persistent.backup_failed = protected && !energy;
        self.core.power = Power { on: false, since: now };
        self.cut = None;
        self.core.clear();
        self.reservations.clear();
        self.shutdowns.clear();
        self.done.clear();
        self.sanitize = Default::default();
        self.forget_telemetry();
        for plan in &mut self.faults {
            plan.cut_after = None;
        }
        self.core.record(storage);
        out.push(Output::PowerCut { off, lossy });
    }

    /// Power is back: recovers everything that outlives it. Hosts connect anew.
    pub fn power_on<S: Contents>(&mut self, now: Nanos, storage: &mut S) {
        let now = self.core.tick(now);
        if self.core.power.on {
            return;
        }
        self.core.ftl.recover(now, storage);
        self.started(now);
        self.restart_windows(now, storage);
        self.core.record(storage);
        // There is no controller yet that an event could be for.
        self.check_health(&mut Cx { now, storage, out: &mut Vec::new() });
    }

    /// What happens at every power on, after recovery.
    pub(crate) fn started(&mut self, now: Nanos) {
        self.core.power = Power { on: true, since: now };
        self.cut = None;
        self.health.backup_failed = std::mem::take(&mut self.core.persistent.backup_failed);
        self.core.persistent.power_cycles += 1;
        let unsafe_before = !self.core.persistent.clean;
        self.core.persistent.unsafe_shutdowns += u64::from(unsafe_before);
        self.core.persistent.clean = false;
        self.core.clock.reset(now);
        self.remember_power_on(now, unsafe_before);
        self.sanitize_start(now);
        self.resume_self_test(now);
        self.deleted = DeletedNamespaces::default();
        fdp::refresh_notes(&mut self.core);
        self.windows.clear();
        for nsid in self.core.namespaces.ids() {
            let Some(ns) = self.core.namespaces.get_mut(nsid) else { continue };
            ns.in_flight = 0;
            ns.closing = false;
            ns.before = ns.traffic();
            ns.quota.restart();
            ns.lanes = Lanes::default();
            if let Some(reservations) = &mut ns.reservations {
                reservations.power_lost();
            }
            ns.reservations.take_if(|r| r.is_blank());
            *ns.stats =
                NamespaceStats { base: self.core.ftl.volume_stats(ns.volume), ..NamespaceStats::default() };
            self.core.apply_quota(nsid, now);
        }
        self.core.count_sharers();
    }

    /// Whether the drive has power.
    pub fn is_powered(&self) -> bool {
        self.core.power.on
    }

    /// A command has planned a cut: carries it out if it is to come at once.
    pub(crate) fn start_cut<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        if let Some(cut) = self.cut
            && cut.at_once
        {
            self.power_cut(cx.now, cut.energy, cut.off, cx.storage, cx.out);
        }
    }

    /// Carries out a planned cut if the media have counted down to it.
    pub(crate) fn cut_is_due<S: Contents>(&mut self, cx: &mut Cx<'_, S>) -> bool {
        match self.cut {
            Some(cut) if !cut.at_once && self.core.ftl.cut_due() => {
                self.power_cut(cx.now, cut.energy, cut.off, cx.storage, cx.out);
                true
            }
            _ => false,
        }
    }

    /// Shuts the drive down in order: everything that was accepted goes to the media, whether capacitors
    /// would save it or not. [`Output::ShutDown`] tells when that is done; what is written later is not part
    /// of it.
    pub fn shut_down<S: Contents>(&mut self, now: Nanos, storage: &mut S, out: &mut Vec<Output>) {
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        if !self.core.power.on {
            cx.out.push(Output::ShutDown);
            return;
        }
        self.core.return_held(now, |_, _, _| Some(Status::POWER_LOSS));
        self.drain(None, &mut cx);
        self.pump(&mut cx);
    }

    /// A host has announced a shutdown (CC.SHN).
    pub(crate) fn start_shutdown<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        if let Some(association) = self.core.controllers.get(id).map(|c| c.association) {
            // What waits for its turn is not to be written behind the host's back.
            self.core.return_held(cx.now, |_, _, held| {
                (held.controller == id.0).then_some(Status::ABORTED_SQ_DELETION)
            });
            self.drain(Some((id, association)), cx);
        }
    }

    fn drain<S: Contents>(&mut self, of: Option<(ControllerId, u32)>, cx: &mut Cx<'_, S>) {
        // Numbers that no runner gives to a command.
        let io = (MAX_IO..).find(|io| self.shutdowns.iter().all(|s| s.io != *io)).unwrap_or(MAX_IO);
        match self.core.ftl.shutdown(cx.now, Io(io), cx.storage) {
            Answer::At(at) => self.core.events.push(at, TimedEvent::ShutdownComplete(of)),
            Answer::Later => self.shutdowns.push(Shutdown { io, of }),
            // What cannot reach the media any more stays where the capacitors save it.
            Answer::Failed(_) => self.core.events.push(cx.now, TimedEvent::ShutdownComplete(of)),
        }
    }

    pub(crate) fn shutdown_done(&mut self, done: Done) {
        if let Some(i) = self.shutdowns.iter().position(|s| s.io == done.io.0) {
            let shutdown = self.shutdowns.swap_remove(i);
            self.core.events.push(done.at, TimedEvent::ShutdownComplete(shutdown.of));
        }
    }

    pub(crate) fn shutdown_complete<S: Contents>(
        &mut self,
        of: Option<(ControllerId, u32)>,
        cx: &mut Cx<'_, S>,
    ) {
        if let Some((id, association)) = of
            && let Some(controller) = self.core.controllers.get_mut(id)
            && controller.association == association
        {
            controller.csts.set_shst(Shst::COMPLETE);
        }
        let idle = self.core.controllers.iter().all(|(_, c)| !c.is_ready());
        if of.is_none() || idle {
            self.core.persistent.clean = true;
            self.core.record(cx.storage);
        }
        if of.is_none() {
            cx.out.push(Output::ShutDown);
        }
    }
}
