//! Power: whether the drive has it, what a loss of it takes, and how namespaces start again.

use super::held_queue::NamespaceArbitration;
use super::namespace::Admission;
use super::state::{Core, Power};
use crate::contents::Contents;
use crate::stats::counts::NamespaceStats;
use media::Nanos;

impl Core {
    /// Power is lost: forgets every controller, command and event. `energy` says whether the capacitors do their work. Returns whether
    /// completed writes may be lost.
    pub fn power_lost<S: Contents>(&mut self, now: Nanos, energy: bool, storage: &mut S) -> bool {
        let lossy = self.ftl.power_cut(now, energy, storage);
        let protected = self.config.ftl.protected;
        self.persistent.powered += now.since(self.power.since).0;
        self.persistent.backups += u64::from(protected && energy && !self.persistent.clean);
        self.persistent.backup_failed = protected && !energy;
        self.power = Power { on: false, since: now };
        self.clear();
        lossy
    }

    /// Power has come. Returns whether it went without a shutdown in order.
    pub fn power_came(&mut self, now: Nanos) -> bool {
        self.power = Power { on: true, since: now };
        self.persistent.backup_failed = false;
        self.persistent.power_cycles += 1;
        let unsafe_before = !self.persistent.clean;
        self.persistent.unsafe_shutdowns += u64::from(unsafe_before);
        self.persistent.clean = false;
        self.clock.reset(now);
        unsafe_before
    }

    /// What of namespaces does not outlive power begins anew.
    pub fn restart_namespaces(&mut self, now: Nanos) {
        for nsid in self.namespaces.ids() {
            let Some(ns) = self.namespaces.get_mut(nsid) else { continue };
            ns.in_flight = 0;
            ns.admission = Admission::Open;
            ns.before = ns.traffic();
            ns.quota.restart();
            ns.arbitration = NamespaceArbitration::default();
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
}
