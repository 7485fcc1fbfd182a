//! Power of the drive: cuts, power on, orderly shutdown.

use super::Drive;
use crate::contents::Contents;
use crate::core::{Cx, Output};
use crate::fdp;
use crate::persistent_event_log;
use crate::self_test;
use crate::stats::DeletedNamespaces;
use media::Nanos;
use nvme::Status;

impl Drive {
    /// The drive loses its power now. `energy` says whether the capacitors do their work. Every controller is
    /// gone, every command in flight is forgotten, and nothing is accepted until [`power_on`](Drive::power_on).
    /// `off` is passed on to the owner. `storage` gets at once the records of what is lost.
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
        let lossy = self.core.power_lost(now, energy, storage);
        self.cut = None;
        self.reservations.clear();
        self.shutdowns.clear();
        self.copies.clear();
        self.steps.clear();
        self.done.clear();
        self.sanitize = Default::default();
        self.telemetry.power_lost();
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
        self.windows.power_came(&mut self.core, now, storage);
        self.core.record(storage);
        // There is no controller yet that an event could be for.
        self.check_health(&mut Cx { now, storage, out: &mut Vec::new() });
    }

    /// What happens at every power on, after recovery.
    pub(crate) fn started(&mut self, now: Nanos) {
        self.cut = None;
        self.health.backup_failed = self.core.persistent.backup_failed;
        let unsafe_before = self.core.power_came(now);
        self.note_power_on(now, unsafe_before);
        self.sanitize.start(&mut self.core, now);
        self_test::power_came(&mut self.core, now);
        self.deleted = DeletedNamespaces::default();
        fdp::refresh_notes(&mut self.core);
        self.core.restart_namespaces(now);
    }

    /// Power has come: firmware that waits for that is activated, and the Persistent Event log notes all of it.
    pub(super) fn note_power_on(&mut self, now: Nanos, unsafe_before: bool) {
        self.restart_firmware(now, None);
        if unsafe_before {
            persistent_event_log::unsafe_shutdown(&mut self.core, now);
        }
        let smart = self.health.smart_of_drive(&self.core, self.health.common_warning(&self.core), now);
        persistent_event_log::smart_snapshot(&mut self.core, now, &smart);
    }

    /// Whether the drive has power.
    pub fn is_powered(&self) -> bool {
        self.core.power.on
    }

    /// Carries out a planned power cut whose time has come: at once, or as the media have counted down to it.
    #[cold]
    pub(super) fn cut_if_due<S: Contents>(&mut self, cx: &mut Cx<'_, S>) -> bool {
        let Some(cut) = self.cut.filter(|cut| cut.at_once || self.core.ftl.cut_due()) else { return false };
        self.power_cut(cx.now, cut.energy, cut.off, cx.storage, cx.out);
        true
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
        self.shutdowns.start(&mut self.core, None, &mut cx);
        self.pump(&mut cx);
    }
}
