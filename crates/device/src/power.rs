//! Power: cuts, orderly shutdowns, power on.

use crate::arbiter::Lanes;
use crate::contents::Contents;
use crate::controller::ControllerId;
use crate::drive::{Cx, Drive, Event};
use crate::fair::Fair;
use crate::flight::MAX_IO;
use crate::output::Output;
use crate::stats::NamespaceStats;
use ftl::{Answer, Done, Io};
use media::Nanos;
use nvme::Status;
use nvme::property::Shst;

/// Whether there is power, and what is planned for it.
#[derive(Clone, Debug)]
pub(crate) struct Power {
    pub on: bool,
    /// When it came.
    pub since: Nanos,
    /// A cut that is to come.
    pub cut: Option<Cut>,
}

impl Default for Power {
    fn default() -> Self {
        Power { on: true, since: Nanos::ZERO, cut: None }
    }
}

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
        let now = self.tick(now);
        if !self.power.on {
            return;
        }
        let lossy = self.ftl.power_cut(now, energy, storage);
        let protected = self.config.ftl.protected;
        self.life.powered += now.since(self.power.since).0;
        self.life.backups += u64::from(protected && energy && !self.life.clean);
        self.life.backup_failed = protected && !energy;
        self.power = Power { on: false, since: now, cut: None };
        self.controllers.clear();
        self.flight.clear();
        self.held.clear();
        self.fused.clear();
        self.fair = Fair::new(&self.config);
        self.events.clear();
        self.waiting.clear();
        self.preempting.clear();
        self.shutdowns.clear();
        self.sanitize = Default::default();
        self.clear_links();
        self.forget_telemetry();
        for plan in &mut self.faults {
            plan.cut_after = None;
        }
        self.record(storage);
        out.push(Output::PowerCut { off, lossy });
    }

    /// Power is back: recovers everything that outlives it. Hosts connect anew.
    pub fn power_on<S: Contents>(&mut self, now: Nanos, storage: &mut S) {
        let now = self.tick(now);
        if self.power.on {
            return;
        }
        self.ftl.recover(now, storage);
        self.started(now);
        self.restart_windows(now, storage);
        self.record(storage);
        // There is no controller yet that an event could be for.
        self.check_health(&mut Cx { now, storage, out: &mut Vec::new() });
    }

    /// What happens at every power on, after recovery.
    pub(crate) fn started(&mut self, now: Nanos) {
        self.power = Power { on: true, since: now, ..Power::default() };
        self.health.backup_failed = std::mem::take(&mut self.life.backup_failed);
        self.life.power_cycles += 1;
        let unsafe_before = !self.life.clean;
        self.life.unsafe_shutdowns += u64::from(unsafe_before);
        self.life.clean = false;
        self.clock.reset(now);
        self.remember_power_on(now, unsafe_before);
        self.sanitize_start(now);
        self.resume_self_test(now);
        *self.departed = Default::default();
        self.refresh_placement_notes();
        self.windows.clear();
        for nsid in self.namespaces.ids() {
            let Some(ns) = self.namespaces.get_mut(nsid) else { continue };
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
                NamespaceStats { base: self.ftl.volume_stats(ns.volume), ..NamespaceStats::default() };
            self.apply_quota(nsid, now);
        }
        self.count_sharers();
    }

    /// Whether the drive has power.
    pub fn is_powered(&self) -> bool {
        self.power.on
    }

    /// A command has planned a cut: carries it out if it is to come at once.
    pub(crate) fn start_cut<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        if let Some(cut) = self.power.cut
            && cut.at_once
        {
            self.power_cut(cx.now, cut.energy, cut.off, cx.storage, cx.out);
        }
    }

    /// Carries out a planned cut if the media have counted down to it.
    pub(crate) fn cut_is_due<S: Contents>(&mut self, cx: &mut Cx<'_, S>) -> bool {
        match self.power.cut {
            Some(cut) if !cut.at_once && self.ftl.cut_due() => {
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
        let now = self.tick(now);
        let mut cx = Cx { now, storage, out };
        if !self.power.on {
            cx.out.push(Output::ShutDown);
            return;
        }
        self.return_held(now, |_, _, _| Some(Status::POWER_LOSS));
        self.drain(None, &mut cx);
        self.pump(&mut cx);
    }

    /// A host has announced a shutdown (CC.SHN).
    pub(crate) fn start_shutdown<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        if let Some(association) = self.controllers.get(id).map(|c| c.association) {
            // What waits for its turn is not to be written behind the host's back.
            self.return_held(cx.now, |_, _, held| {
                (held.controller == id.0).then_some(Status::ABORTED_SQ_DELETION)
            });
            self.drain(Some((id, association)), cx);
        }
    }

    fn drain<S: Contents>(&mut self, of: Option<(ControllerId, u32)>, cx: &mut Cx<'_, S>) {
        // Numbers that no runner gives to a command.
        let io = (MAX_IO..).find(|io| self.shutdowns.iter().all(|s| s.io != *io)).unwrap_or(MAX_IO);
        match self.ftl.shutdown(cx.now, Io(io), cx.storage) {
            Answer::At(at) => self.events.push(at, Event::ShutdownComplete(of)),
            Answer::Later => self.shutdowns.push(Shutdown { io, of }),
            // What cannot reach the media any more stays where the capacitors save it.
            Answer::Failed(_) => self.events.push(cx.now, Event::ShutdownComplete(of)),
        }
    }

    pub(crate) fn shutdown_done(&mut self, done: Done) {
        if let Some(i) = self.shutdowns.iter().position(|s| s.io == done.io.0) {
            let shutdown = self.shutdowns.swap_remove(i);
            self.events.push(done.at, Event::ShutdownComplete(shutdown.of));
        }
    }

    pub(crate) fn shutdown_complete<S: Contents>(
        &mut self,
        of: Option<(ControllerId, u32)>,
        cx: &mut Cx<'_, S>,
    ) {
        if let Some((id, association)) = of
            && let Some(controller) = self.controllers.get_mut(id)
            && controller.association == association
        {
            controller.csts.set_shst(Shst::COMPLETE);
        }
        let idle = self.controllers.iter().all(|(_, c)| !c.is_ready());
        if of.is_none() || idle {
            self.life.clean = true;
            self.record(cx.storage);
        }
        if of.is_none() {
            cx.out.push(Output::ShutDown);
        }
    }
}
