//! Faults of a disk, from the plan that all media have.
//!
//! | plan | on a disk |
//! |---|---|
//! | `uncorrectable_reads`, `fail_reads` | a read fails |
//! | `program_failures`, `fail_programs` | a write fails and changes nothing. One from the disk's buffer leaves sectors that cannot be read |
//! | `weak_pages` | a grown defect: a sector that was written cannot be read until it is written again, and takes longer from then on |
//! | `slow_operations`, `slow_factor` | the sectors of a request take `slow_factor` - 1 revolutions more from then on |
//! | `lost_writes` | a write is reported good and changes nothing. Reads give what was there |
//! | `misdirected_writes` | the same, and another page cannot be read: its sectors say that they are others |
//! | `stuck_dies` | with any die, the whole disk fails |
//! | `cut_after` | power goes after so many requests |
//!
//! The others concern flash.

use media::FaultPlan;
use rng::Rng;

/// What becomes of a request.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Fate {
    pub fails: bool,
    pub is_lost: bool,
    /// A number that says which page is spoiled.
    pub misdirected: Option<u64>,
    /// A sector of it becomes unreadable.
    pub is_weak: bool,
    /// Revolutions that its sectors take more.
    pub revolutions: u32,
}

/// The plan, and the choices that follow from it.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    plan: FaultPlan,
    rng: Rng,
    /// The seed that `rng` was made from.
    seed: u64,
    pub cut_due: bool,
}

impl Faults {
    pub fn new(plan: FaultPlan) -> Faults {
        Faults { rng: Rng::new(plan.seed), seed: plan.seed, plan, cut_due: false }
    }

    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    pub fn plan_mut(&mut self) -> &mut FaultPlan {
        &mut self.plan
    }

    /// Before a request: the countdown to a power cut, and choices from the seed that the plan has now.
    fn begin(&mut self) {
        if self.seed != self.plan.seed {
            (self.rng, self.seed) = (Rng::new(self.plan.seed), self.plan.seed);
        }
        self.cut_due |= self.plan.count_down();
    }

    /// Power is lost: no cut is planned any more.
    pub fn power_lost(&mut self) {
        (self.cut_due, self.plan.cut_after) = (false, None);
    }

    fn slowness(&mut self) -> u32 {
        match self.plan.slow_factor > 1 && self.rng.chance(self.plan.slow_operations) {
            true => self.plan.slow_factor - 1,
            false => 0,
        }
    }

    /// Counts one of a number of failures that are to come.
    fn counted(left: &mut u32) -> bool {
        let fails = *left > 0;
        *left = left.saturating_sub(1);
        fails
    }

    pub fn of_read(&mut self) -> Fate {
        if !self.plan.is_active() {
            return Fate::default();
        }
        self.begin();
        let fails = Faults::counted(&mut self.plan.fail_reads)
            || self.rng.chance(self.plan.uncorrectable_reads)
            || !self.plan.stuck_dies.is_empty();
        Fate { fails, revolutions: self.slowness(), ..Fate::default() }
    }

    pub fn of_write(&mut self) -> Fate {
        if !self.plan.is_active() {
            return Fate::default();
        }
        self.begin();
        let fails = Faults::counted(&mut self.plan.fail_programs)
            || self.rng.chance(self.plan.program_failures)
            || !self.plan.stuck_dies.is_empty();
        let misdirected = self.rng.chance(self.plan.misdirected_writes).then(|| self.rng.next_u64());
        Fate {
            fails,
            is_lost: misdirected.is_some() || self.rng.chance(self.plan.lost_writes),
            misdirected,
            is_weak: self.rng.chance(self.plan.weak_pages),
            revolutions: self.slowness(),
        }
    }
}
