//! Vendor specific commands: power cut (D0h) and fault injection (D1h).

use crate::contents::Contents;
use crate::core::{ControllerId, Cx, Failure, Origin, Outcome, Output, Reply};
use crate::drive::Drive;
use crate::power::Cut;
use ftl::SetId;
use media::{FaultPlan, Nanos};
use nvme::admin::{FaultInjection, FaultKind, PowerCut};
use nvme::{NSID_ALL, Status};

/// Probabilities of [`FaultPlan`] are in billionths.
const ALWAYS: u32 = 1_000_000_000;

impl Drive {
    /// Hosts on the network may not harm the drive unless its configuration lets them.
    fn may_harm(&self, id: ControllerId) -> Result<(), Failure> {
        let origin = self.core.controller(id)?.origin;
        if origin == Origin::Network && !self.core.config.allow_fault_commands_from_network {
            return Err(Status::OPERATION_DENIED.into());
        }
        Ok(())
    }

    pub(super) fn power_cut_command(&mut self, id: ControllerId, c: PowerCut) -> Outcome {
        self.may_harm(id)?;
        let off = Nanos(u64::from(c.off_ms) * 1_000_000);
        let at_once = c.after_media_ops == 0;
        self.cut = Some(Cut { at_once, energy: !c.no_plp, off });
        if !at_once {
            for set in 0..self.faults.len() {
                let plan = &mut self.faults[set];
                plan.cut_after = Some(c.after_media_ops.into());
                if c.seed != 0 {
                    plan.seed = c.seed.into();
                }
                let plan = plan.clone();
                self.core.ftl.set_faults(SetId(set as u8), plan);
            }
        }
        Ok(Reply::Done(0))
    }

    pub(super) fn fault_injection<S: Contents>(
        &mut self,
        id: ControllerId,
        c: FaultInjection,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        self.may_harm(id)?;
        if [FaultKind::PORT_ANA, FaultKind::PORT_DOWN].contains(&c.kind) {
            return self.ports.fault(&mut self.core, c, cx);
        }
        let sets = self.faults.len();
        let chosen = match usize::from(c.nvmsetid) {
            0 => 0..sets,
            set if set <= sets => set - 1..set,
            _ => return Err(Failure::field(42)),
        };
        if c.kind == FaultKind::CLEAR {
            for set in chosen {
                // What is weak or lost already stays so: the medium was damaged.
                self.faults[set] = FaultPlan { seed: self.faults[set].seed, ..FaultPlan::default() };
                self.core.ftl.set_faults(SetId(set as u8), self.faults[set].clone());
            }
            self.cut = None;
            self.ports.restore(&mut self.core, cx);
            cx.out.push(Output::ClearHostDiskFaults);
            return Ok(Reply::Done(0));
        }
        if [FaultKind::HOST_DISK_FULL, FaultKind::HOST_DISK_ERROR].contains(&c.kind) {
            let full = c.kind == FaultKind::HOST_DISK_FULL;
            cx.out.push(Output::HostDiskFault { full, count: c.count });
            return Ok(Reply::Done(0));
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
            let mut plan = self.faults[set].clone();
            self.plan_fault(set, &c, &mut plan)?;
            plans.push((set, plan));
        }
        for (set, plan) in plans {
            self.faults[set] = plan.clone();
            self.core.ftl.set_faults(SetId(set as u8), plan);
        }
        Ok(Reply::Done(0))
    }

    /// Adds a fault to the plan of a set.
    fn plan_fault(&self, set: usize, c: &FaultInjection, plan: &mut FaultPlan) -> Result<(), Failure> {
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
                let units = self.core.set_properties(SetId(set as u8)).units;
                if c.param >= units {
                    return Err(Failure::field(52));
                }
                if !plan.stuck_dies.contains(&c.param) {
                    plan.stuck_dies.push(c.param);
                }
            }
            (FaultKind::LOST_WRITE, _) => plan.lost_writes = chance,
            (FaultKind::MISDIRECTED_WRITE, _) => plan.misdirected_writes = chance,
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
}
