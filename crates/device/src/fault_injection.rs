//! Fault injection (vendor specific command D1h), and power cuts that a host plans (D0h).

use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, Failure, Origin, Output};
use ftl::SetId;
use media::{FaultPlan, Nanos};
use nvme::admin::{FaultInjection, FaultKind, PowerCut};
use nvme::{NSID_ALL, Status};

/// Probabilities of [`FaultPlan`] are in billionths.
const ALWAYS: u32 = 1_000_000_000;

/// Hosts on the network may not harm the drive unless its configuration lets them.
pub(crate) fn check_origin(core: &Core, id: ControllerId) -> Result<(), Failure> {
    let origin = core.controller(id)?.origin;
    if origin == Origin::Network && !core.config.allow_fault_commands_from_network {
        return Err(Status::OPERATION_DENIED.into());
    }
    Ok(())
}

/// A planned power cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedPowerCut {
    /// As soon as its command is complete; else when the media have counted down.
    pub at_once: bool,
    /// Whether the capacitors work.
    pub energy: bool,
    pub off: Nanos,
}

/// Faults planned for each NVM Set.
pub(crate) struct FaultPlans(Vec<FaultPlan>);

impl FaultPlans {
    /// None, for so many sets.
    pub fn new(sets: usize) -> FaultPlans {
        FaultPlans(vec![FaultPlan::default(); sets])
    }

    /// Power was lost: no cut is planned any more.
    pub fn power_lost(&mut self) {
        for plan in &mut self.0 {
            plan.cut_after = None;
        }
    }

    /// Plans a power cut, for which the media may have to count down.
    ///
    /// # Errors
    /// If the host may not harm the drive.
    pub fn plan_cut(
        &mut self,
        core: &mut Core,
        id: ControllerId,
        c: &PowerCut,
    ) -> Result<PlannedPowerCut, Failure> {
        check_origin(core, id)?;
        let at_once = c.after_media_ops == 0;
        if !at_once {
            self.count_down(core, c);
        }
        Ok(PlannedPowerCut { at_once, energy: !c.no_plp, off: Nanos(u64::from(c.off_ms) * 1_000_000) })
    }

    /// The media are to count down to a power cut.
    fn count_down(&mut self, core: &mut Core, c: &PowerCut) {
        for (set, plan) in (0..).zip(&mut self.0) {
            plan.cut_after = Some(c.after_media_ops.into());
            if c.seed != 0 {
                plan.seed = c.seed.into();
            }
            core.ftl.set_faults(SetId(set), plan.clone());
        }
    }

    /// Plans a fault of the media or of the host's disk, or ends them all. Faults of ports are not for here.
    pub fn inject<S: Contents>(
        &mut self,
        core: &mut Core,
        c: &FaultInjection,
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Failure> {
        let sets = self.0.len();
        let chosen = match usize::from(c.nvmsetid) {
            0 => 0..sets,
            set if set <= sets => set - 1..set,
            _ => return Err(Failure::field(42)),
        };
        if c.kind == FaultKind::CLEAR {
            for set in chosen {
                // What is weak or lost already stays so: the medium was damaged.
                self.0[set] = FaultPlan { seed: self.0[set].seed, ..FaultPlan::default() };
                core.ftl.set_faults(SetId(set as u8), self.0[set].clone());
            }
            return Ok(());
        }
        if [FaultKind::HOST_DISK_FULL, FaultKind::HOST_DISK_ERROR].contains(&c.kind) {
            let full = c.kind == FaultKind::HOST_DISK_FULL;
            cx.out.push(Output::HostDiskFault { full, count: c.count });
            return Ok(());
        }
        if c.nsid != 0 && c.nsid != NSID_ALL {
            // Faults belong to media, not to logical blocks.
            return Err(Failure::field(4));
        }
        if c.lba.is_some() {
            return Err(Failure::field(56));
        }
        let mut plans = Vec::new();
        for set in chosen {
            let mut plan = self.0[set].clone();
            plan_fault(core, set, c, &mut plan)?;
            plans.push((set, plan));
        }
        for (set, plan) in plans {
            self.0[set] = plan.clone();
            core.ftl.set_faults(SetId(set as u8), plan);
        }
        Ok(())
    }
}

/// Adds a fault to the plan of a set.
fn plan_fault(core: &Core, set: usize, c: &FaultInjection, plan: &mut FaultPlan) -> Result<(), Failure> {
    let counted = [FaultKind::UNCORRECTABLE, FaultKind::PROGRAM_FAILURE, FaultKind::ERASE_FAILURE];
    if c.count != 0 && (c.one_in > 1 || !counted.contains(&c.kind)) {
        // A number of faults is had from the next operations in a row, and only of these kinds.
        return Err(Failure::field(44));
    }
    let chance = ALWAYS / c.one_in.max(1);
    // Counts that have run down are not to be started again by another fault.
    (plan.fail_reads, plan.fail_programs, plan.fail_erases) = (0, 0, 0);
    match (c.kind, c.count) {
        (FaultKind::BIT_ERRORS, _) => plan.corrected_reads = chance,
        (FaultKind::UNCORRECTABLE, 0) => plan.uncorrectable_reads = chance,
        (FaultKind::UNCORRECTABLE, count) => plan.fail_reads = count,
        (FaultKind::PROGRAM_FAILURE, 0) => plan.program_failures = chance,
        (FaultKind::PROGRAM_FAILURE, count) => plan.fail_programs = count,
        (FaultKind::ERASE_FAILURE, 0) => plan.erase_failures = chance,
        (FaultKind::ERASE_FAILURE, count) => plan.fail_erases = count,
        (FaultKind::STUCK_DIE, _) => {
            let units = core.set_properties(SetId(set as u8)).units;
            if c.param >= units {
                return Err(Failure::field(52));
            }
            if !plan.stuck_dies.contains(&c.param) {
                plan.stuck_dies.push(c.param);
            }
        }
        (FaultKind::LOST_WRITE, _) => plan.lost_writes = chance,
        (FaultKind::MISDIRECTED_WRITE, _) => plan.misdirected_writes = chance,
        (FaultKind::WEAK_PAGE, _) => plan.weak_pages = chance,
        (FaultKind::SLOW, _) => {
            if c.param < 2 {
                return Err(Failure::field(52));
            }
            plan.slow_operations = chance;
            plan.slow_factor = c.param;
        }
        _ => return Err(Failure::field(40)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Drive};
    use ftl::NoContents;

    fn fault(kind: FaultKind) -> FaultInjection {
        FaultInjection { nsid: 0, kind, nvmsetid: 0, count: 0, one_in: 2, param: 0, lba: None }
    }

    fn inject(plans: &mut FaultPlans, core: &mut Core, c: FaultInjection) -> Result<(), Failure> {
        let mut out = Vec::new();
        plans.inject(core, &c, &mut Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out })
    }

    #[test]
    fn faults_belong_to_sets() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let sets = core.ftl.set_count();
        let mut plans = FaultPlans::new(sets);
        let lost = fault(FaultKind::LOST_WRITE);
        for (field, wrong) in [
            (42, FaultInjection { nvmsetid: sets as u16 + 1, ..lost }),
            (4, FaultInjection { nsid: 1, ..lost }),
            (56, FaultInjection { lba: Some(0), ..lost }),
            (44, FaultInjection { count: 1, ..lost }),
            (52, FaultInjection { param: u32::MAX, ..fault(FaultKind::STUCK_DIE) }),
        ] {
            assert_eq!(inject(&mut plans, &mut core, wrong), Err(Failure::field(field)));
        }
        let second = FaultInjection { nvmsetid: 2, ..lost };
        assert_eq!(inject(&mut plans, &mut core, second), Ok(()));
        assert_eq!((plans.0[0].lost_writes, plans.0[1].lost_writes), (0, ALWAYS / 2));
        assert_eq!(inject(&mut plans, &mut core, fault(FaultKind::CLEAR)), Ok(()));
        assert_eq!(plans.0[1].lost_writes, 0);
    }

    #[test]
    fn a_loss_of_power_ends_the_count_down_to_another() {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        let mut plans = FaultPlans::new(core.ftl.set_count());
        let cut = PowerCut { after_media_ops: 7, off_ms: 0, seed: 0, no_plp: false };
        plans.count_down(&mut core, &cut);
        assert!(plans.0.iter().all(|plan| plan.cut_after == Some(7)));
        plans.power_lost();
        assert!(plans.0.iter().all(|plan| plan.cut_after.is_none()));
    }
}
