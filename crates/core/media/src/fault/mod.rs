//! Faults as a wrapper: a medium around a medium.
//!
//! # The fault model
//! What can go wrong, and what it leaves behind. [`FaultPlan`] says how often; every choice comes from its
//! seed and the order of operations.
//! - **Bit errors within ECC**: the read is [`OpStatus::Corrected`].
//! - **Bit errors beyond ECC**: the read is [`OpStatus::Failed`]; either this once (`uncorrectable_reads`), or
//!   for as long as the page holds these data (`weak_pages`).
//! - **Failed program**: [`poll_program`](Medium::poll_program) says `Failed`; no page of the unit can be read. Earlier units of the
//!   block keep their data. What to do with the block is the translation layer's decision.
//! - **Failed erase**: [`poll_erase`](Medium::poll_erase) says `Failed`; the block is bad and empty.
//! - **Bad blocks**: initial (when the medium is made) and grown (failed erases, or retired by the
//!   translation layer). They can be read; every erase fails; a program is a bug and panics.
//! - **Stuck die**: all its reads, programs and erases fail.
//! - **Wear-out**: beyond the rated cycles erases fail with rising probability.
//! - **Slow operation**: a read or program takes a multiple of its time. It does not occupy the chip for longer, and
//!   is no error recovery that a host could limit.
//! - **Lost write**: the program is reported good but the pages hold nothing. **Misdirected write**: the same, and
//!   the data have overwritten another unit of the die. Neither can be noticed before a read; then the
//!   spare area is not the one expected (or does not check), and the read is `Failed`. The reverse map, which is
//!   memory of the controller, still says what was to be written.
//! - **Power cut at any operation**: a countdown. At its end [`Faulty::cut_due`] tells the owner, which
//!   cuts the power. What is in flight then is torn as on the medium itself.
//!
//! Not modelled: read disturb and retention (errors that grow with reads or time), a part of a
//! unit that fails, errors in what the controller keeps in its own memory.

mod plan;
#[cfg(test)]
mod tests;

pub use plan::FaultPlan;

use crate::Medium;
use crate::state::{self, Reader, StateError};
use crate::time::Nanos;
use crate::types::{BlockState, Geometry, OpStatus, Page, Progress, Read, Slot, Spare, Unit};
use rng::{Rng, mix};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// "TFLT", the first word of saved state.
const MAGIC: u32 = u32::from_le_bytes(*b"TFLT");

/// What will become of a program under way.
#[derive(Clone, Copy, Debug)]
struct Fate {
    /// Units from the first (more than one only where the medium is written in place).
    units: u32,
    /// Ends no earlier than this.
    until: Nanos,
    failed: bool,
}

/// A medium with faults. Without any in its plan, each operation costs one comparison more.
#[derive(Clone, Debug)]
pub struct Faulty<M> {
    inner: M,
    plan: FaultPlan,
    rng: Rng,
    /// The seed that `rng` was made from.
    seed: u64,
    /// Whether anything here must be looked at in a read or program.
    armed: bool,
    cut_due: bool,
    /// Programs under way with a fate of their own, by first unit.
    fates: BTreeMap<u32, Fate>,
    /// Units lost by lost and misdirected writes.
    lost: BTreeSet<u32>,
    /// Blocks (by their first unit) whose erase under way will fail.
    failing_erases: BTreeSet<u32>,
}

impl<M: Medium> Faulty<M> {
    /// Wraps a new medium; marks its initial bad blocks.
    pub fn new(inner: M, plan: FaultPlan) -> Self {
        let mut faulty = Self::around(inner, plan);
        let g = faulty.inner.geometry().clone();
        if faulty.plan.initial_bad_blocks > 0 && !g.in_place {
            for superblock in 0..g.superblocks {
                for die in 0..g.dies {
                    if faulty.rng.chance(faulty.plan.initial_bad_blocks) {
                        let unit = Unit(superblock * g.units_per_superblock() + die);
                        // The unit is on the medium by construction.
                        let _ = faulty.inner.apply_bad(unit);
                    }
                }
            }
        }
        faulty
    }

    /// Wraps a medium that is not new.
    fn around(inner: M, plan: FaultPlan) -> Self {
        Faulty {
            inner,
            rng: Rng::new(plan.seed),
            seed: plan.seed,
            armed: plan.is_active(),
            plan,
            cut_due: false,
            fates: BTreeMap::new(),
            lost: BTreeSet::new(),
            failing_erases: BTreeSet::new(),
        }
    }

    /// A medium with the state that [`Medium::save`] wrote; `restore` restores the medium within.
    ///
    /// # Errors
    /// If `bytes` are not such a state, or those of `restore`.
    pub fn restore(
        plan: FaultPlan,
        bytes: &[u8],
        restore: impl FnOnce(&[u8]) -> Result<M, StateError>,
    ) -> Result<Self, StateError> {
        let mut from = Reader::new(bytes, MAGIC, "a medium", &[])?;
        let lost = Self::list(&mut from)?;
        let spoiled = Self::list(&mut from)?;
        let bad = Self::list(&mut from)?;
        let mut faulty = Self::around(restore(from.rest())?, plan);
        faulty.lost.extend(lost);
        for unit in spoiled {
            faulty.inner.apply_spoil(Unit(unit))?;
        }
        for unit in bad {
            faulty.inner.apply_bad(Unit(unit))?;
        }
        faulty.rearm();
        Ok(faulty)
    }

    fn list(from: &mut Reader<'_>) -> Result<Vec<u32>, StateError> {
        let count: u32 = from.one()?;
        (0..count).map(|_| from.one()).collect()
    }

    /// The medium within.
    #[inline]
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The medium within, past the faults.
    #[inline]
    pub fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }

    /// The faults planned.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// The faults planned, to be changed; a new seed starts a new sequence of choices.
    pub fn plan_mut(&mut self) -> &mut FaultPlan {
        // Whether the new plan needs it is seen at the next operation.
        self.armed = true;
        &mut self.plan
    }

    /// Begins anew with a plan, as after [`restore`](Faulty::restore).
    pub fn reset(&mut self, plan: FaultPlan) {
        self.rng = Rng::new(plan.seed);
        self.seed = plan.seed;
        self.plan = plan;
        self.cut_due = false;
        self.rearm();
    }

    /// Whether [`FaultPlan::cut_after`] has run down: the owner is to cut the power now.
    #[inline]
    pub fn cut_due(&self) -> bool {
        self.cut_due
    }

    /// Whether a program of this unit was lost, though it seemed to succeed: reads of its spare areas find nothing.
    #[inline]
    pub fn is_lost(&self, unit: Unit) -> bool {
        !self.lost.is_empty() && self.lost.contains(&unit.0)
    }

    /// All units whose program was lost.
    pub fn lost_units(&self) -> impl Iterator<Item = Unit> {
        self.lost.iter().map(|&unit| Unit(unit))
    }

    #[inline]
    fn is_lost_page(&self, page: Page) -> bool {
        !self.lost.is_empty() && self.is_lost(Unit(page.0 / self.inner.geometry().unit_pages))
    }

    /// Looks at the plan again.
    fn rearm(&mut self) {
        if self.seed != self.plan.seed {
            self.seed = self.plan.seed;
            self.rng = Rng::new(self.seed);
        }
        self.armed = self.plan.is_active() || !self.fates.is_empty() || !self.lost.is_empty();
    }

    /// One more operation: begins each of them.
    fn tick(&mut self) {
        self.rearm();
        self.cut_due |= self.plan.count_down();
    }

    fn is_stuck(&self, unit: u32) -> bool {
        !self.plan.stuck_dies.is_empty()
            && self.plan.stuck_dies.contains(&(unit % self.inner.geometry().dies))
    }

    /// First unit of the block of `unit`.
    fn block_of(&self, unit: u32) -> u32 {
        let g = self.inner.geometry();
        let per_superblock = g.units_per_superblock();
        unit / per_superblock * per_superblock + unit % g.dies
    }

    fn slowed(&mut self, now: Nanos, end: Nanos) -> Nanos {
        if self.plan.slow_factor > 1 && self.rng.chance(self.plan.slow_operations) {
            let span = end.since(now).0.saturating_mul(self.plan.slow_factor.into());
            return now + Nanos(span);
        }
        end
    }

    /// Whether one of the pages cannot be corrected for as long as it holds these data.
    fn is_weak(&self, first: Page, count: u32) -> bool {
        let unit_pages = self.inner.geometry().unit_pages;
        (first.0..first.0 + count).any(|page| {
            let cycle = u64::from(self.inner.wear(Unit(page / unit_pages)));
            let die = mix(mix(self.plan.seed ^ u64::from(page)) ^ cycle);
            die % 1_000_000_000 < u64::from(self.plan.weak_pages)
        })
    }

    #[cold]
    fn read_with_faults(&mut self, now: Nanos, first: Page, count: u32, read: Read) -> Read {
        self.tick();
        let Read { mut done, mut status } = read;
        let unit_pages = self.inner.geometry().unit_pages;
        let units = first.0 / unit_pages..(first.0 + count).div_ceil(unit_pages);
        let planned = self.plan.fail_reads > 0;
        self.plan.fail_reads -= u32::from(planned);
        if planned
            || units.clone().any(|u| self.is_stuck(u))
            || self.lost.range(units.clone()).next().is_some()
            || self.has_failed(now, units)
            || self.plan.weak_pages > 0 && self.is_weak(first, count)
            || self.rng.chance(self.plan.uncorrectable_reads)
        {
            status = OpStatus::Failed;
        } else if status == OpStatus::Good && self.rng.chance(self.plan.corrected_reads) {
            status = OpStatus::Corrected;
        }
        done = self.slowed(now, done);
        Read { done, status }
    }

    /// Whether the program of one of the units has failed, though the owner has not asked yet.
    fn has_failed(&self, now: Nanos, units: Range<u32>) -> bool {
        self.fates.iter().any(|(&first, fate)| {
            fate.failed && now >= fate.until && first < units.end && units.start < first + fate.units
        })
    }

    #[cold]
    fn program_with_faults(&mut self, now: Nanos, unit: Unit, units: u32, end: Nanos) -> Nanos {
        self.tick();
        for written in unit.0..unit.0 + units {
            self.lost.remove(&written);
        }
        self.fates.remove(&unit.0);
        let planned = self.plan.fail_programs > 0;
        self.plan.fail_programs -= u32::from(planned);
        let failed = planned
            || (unit.0..unit.0 + units).any(|u| self.is_stuck(u))
            || self.rng.chance(self.plan.program_failures);
        let until = self.slowed(now, end);
        if failed || until > end {
            self.fates.insert(unit.0, Fate { units, until, failed });
        } else if self.rng.chance(self.plan.lost_writes) {
            self.lost.extend(unit.0..unit.0 + units);
        } else if self.rng.chance(self.plan.misdirected_writes) {
            self.lost.extend(unit.0..unit.0 + units);
            let victim = self.victim(unit.0);
            self.lost.extend(victim);
        }
        self.armed = true;
        until
    }

    /// A programmed unit of the same die, if a random one is.
    fn victim(&mut self, unit: u32) -> Option<u32> {
        let g = self.inner.geometry();
        let (dies, per_block) = (g.dies, g.units_per_block);
        let rows = u64::from(g.superblocks) * u64::from(per_block);
        let row = self.rng.below(rows) as u32;
        let victim = row * dies + unit % dies;
        let programmed = match self.inner.block(Unit(victim)) {
            BlockState::Writable { next } => row % per_block < next || self.inner.geometry().in_place,
            _ => false,
        };
        (programmed && victim != unit).then_some(victim)
    }

    #[cold]
    fn end_with_faults(&mut self, now: Nanos, unit: Unit) -> Progress {
        let Some(&fate) = self.fates.get(&unit.0) else { return Progress::Ended(OpStatus::Good) };
        if now < fate.until {
            return Progress::Until(fate.until);
        }
        self.fates.remove(&unit.0);
        if !fate.failed {
            return Progress::Ended(OpStatus::Good);
        }
        self.spoil(unit.0, fate.units);
        Progress::Ended(OpStatus::Failed)
    }

    fn spoil(&mut self, first: u32, units: u32) {
        for unit in first..first + units {
            // A unit that was programmed is on the medium.
            let _ = self.inner.apply_spoil(Unit(unit));
        }
    }

    /// The block of `unit` holds nothing any more.
    fn forget_lost(&mut self, unit: u32) {
        if !self.lost.is_empty() {
            let block = self.block_of(unit);
            let lost: Vec<u32> = self.lost.iter().copied().filter(|&u| self.block_of(u) == block).collect();
            for unit in lost {
                self.lost.remove(&unit);
            }
        }
    }

    fn erase_fails(&mut self, unit: Unit) -> bool {
        let planned = self.plan.fail_erases > 0;
        self.plan.fail_erases -= u32::from(planned);
        let rated = u64::from(self.inner.geometry().rated_cycles);
        let beyond = u64::from(self.inner.wear(unit)).saturating_sub(rated);
        let worn = (u64::from(self.plan.wear_out) * beyond / rated.max(1)).min(1_000_000_000) as u32;
        planned || self.is_stuck(unit.0) || self.rng.chance(self.plan.erase_failures) || self.rng.chance(worn)
    }
}

impl<M: Medium> Medium for Faulty<M> {
    #[inline]
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&mut self, now: Nanos, first: Page, count: u32) -> Read {
        let read = self.inner.read(now, first, count);
        if self.armed { self.read_with_faults(now, first, count, read) } else { read }
    }

    #[inline]
    fn program(&mut self, now: Nanos, unit: Unit, spares: &[Spare]) -> Nanos {
        let end = self.inner.program(now, unit, spares);
        if self.armed {
            let units = if self.inner.geometry().in_place { spares.len() as u32 } else { 1 };
            return self.program_with_faults(now, unit, units, end);
        }
        end
    }

    #[inline]
    fn poll_program(&mut self, now: Nanos, unit: Unit) -> Progress {
        match self.inner.poll_program(now, unit) {
            Progress::Ended(OpStatus::Good) if self.armed => self.end_with_faults(now, unit),
            progress => progress,
        }
    }

    fn erase(&mut self, now: Nanos, unit: Unit) -> Nanos {
        self.tick();
        let end = self.inner.erase(now, unit);
        if self.inner.is_bad(unit) {
            // Fails anyway, and leaves what the block holds.
            return end;
        }
        self.forget_lost(unit.0);
        if self.erase_fails(unit) {
            self.failing_erases.insert(self.block_of(unit.0));
        }
        end
    }

    fn poll_erase(&mut self, now: Nanos, unit: Unit) -> Progress {
        let progress = self.inner.poll_erase(now, unit);
        if matches!(progress, Progress::Ended(_)) && self.failing_erases.remove(&self.block_of(unit.0)) {
            // The block was erased: it is on the medium.
            let _ = self.inner.apply_bad(unit);
            return Progress::Ended(OpStatus::Failed);
        }
        progress
    }

    #[inline]
    fn spare(&self, page: Page) -> Spare {
        if self.is_lost_page(page) {
            return Spare::EMPTY;
        }
        self.inner.spare(page)
    }

    #[inline]
    fn slot(&self, page: Page) -> Slot {
        if self.is_lost_page(page) {
            return Spare::EMPTY.slot;
        }
        self.inner.slot(page)
    }

    #[inline]
    fn wear(&self, unit: Unit) -> u32 {
        self.inner.wear(unit)
    }

    #[inline]
    fn is_bad(&self, unit: Unit) -> bool {
        self.inner.is_bad(unit)
    }

    #[inline]
    fn block(&self, unit: Unit) -> BlockState {
        self.inner.block(unit)
    }

    fn power_cut(&mut self, now: Nanos) {
        self.inner.power_cut(now);
        // Slow programs that the chip thinks have ended, and those that failed and were not asked about.
        for (unit, fate) in std::mem::take(&mut self.fates) {
            if fate.failed || fate.until > now {
                self.spoil(unit, fate.units);
            }
        }
        for block in std::mem::take(&mut self.failing_erases) {
            let _ = self.inner.apply_bad(Unit(block));
        }
        // Each medium counts down by itself: a cut that comes from elsewhere ends all of them.
        (self.cut_due, self.plan.cut_after) = (false, None);
        self.rearm();
    }

    fn apply_program(&mut self, unit: Unit, spares: &[Spare]) -> Result<(), StateError> {
        self.lost.remove(&unit.0);
        self.inner.apply_program(unit, spares)
    }

    fn apply_spoil(&mut self, unit: Unit) -> Result<(), StateError> {
        self.inner.apply_spoil(unit)
    }

    fn apply_erase(&mut self, unit: Unit) -> Result<(), StateError> {
        self.inner.apply_erase(unit)?;
        self.forget_lost(unit.0);
        Ok(())
    }

    fn apply_bad(&mut self, unit: Unit) -> Result<(), StateError> {
        self.inner.apply_bad(unit)
    }

    fn save(&self, out: &mut Vec<u8>) {
        state::header(out, MAGIC, &[]);
        let lost: Vec<u32> = self.lost.iter().copied().collect();
        // The chip within may think that these have ended well.
        let spoiled: Vec<u32> =
            self.fates.iter().flat_map(|(&first, fate)| first..first + fate.units).collect();
        let bad: Vec<u32> = self.failing_erases.iter().copied().collect();
        for list in [lost, spoiled, bad] {
            state::put(out, &[list.len() as u32]);
            state::put(out, &list);
        }
        self.inner.save(out);
    }
}
