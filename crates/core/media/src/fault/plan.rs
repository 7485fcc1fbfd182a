//! Which faults are to happen.

use serde::{Deserialize, Serialize};

/// Faults to inject; the default is none. Probabilities are per billion operations, so that they are integers. May be
/// changed at any time.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultPlan {
    /// Of every random choice here.
    pub seed: u64,
    /// Reads with bit errors that the error correction repairs.
    pub corrected_reads: u32,
    /// Reads with more bit errors than that; another try may succeed.
    pub uncorrectable_reads: u32,
    /// Pages that cannot be corrected from their program until their erase, however often they are read.
    pub weak_pages: u32,
    /// Programs that fail: their unit cannot be read.
    pub program_failures: u32,
    /// Erases that fail: the block is bad from then on.
    pub erase_failures: u32,
    /// Blocks that are bad when the medium is new. Only looked at when it is made; NAND only.
    pub initial_bad_blocks: u32,
    /// Dies on which every operation fails.
    pub stuck_dies: Vec<u32>,
    /// Reads and programs that take [`slow_factor`](FaultPlan::slow_factor) times as long.
    pub slow_operations: u32,
    /// See above; below 2 nothing is slow.
    pub slow_factor: u32,
    /// Erases that fail at twice the rated cycles. The probability rises from 0 at the rated
    /// cycles in a straight line.
    pub wear_out: u32,
    /// Programs that are reported good and write nothing.
    pub lost_writes: u32,
    /// Programs that are reported good and land on another unit of the die, whose pages are lost as well.
    pub misdirected_writes: u32,
    /// So many of the next reads fail; counts down.
    pub fail_reads: u32,
    /// So many of the next programs fail; counts down.
    pub fail_programs: u32,
    /// So many of the next erases fail; counts down.
    pub fail_erases: u32,
    /// Power is to be cut after so many more operations (0 counts as 1); see
    /// [`cut_due`](super::Faulty::cut_due). Counts down, and is gone when it has come.
    pub cut_after: Option<u64>,
}

impl FaultPlan {
    /// Whether a read, a program or a power cut may be affected (the other faults concern only erases
    /// and new media).
    pub fn is_active(&self) -> bool {
        let chances = self.corrected_reads
            | self.uncorrectable_reads
            | self.weak_pages
            | self.program_failures
            | self.slow_operations
            | self.lost_writes
            | self.misdirected_writes
            | self.fail_reads
            | self.fail_programs;
        chances != 0 || !self.stuck_dies.is_empty() || self.cut_after.is_some()
    }

    /// The plan without the faults that were injected. What the medium was made with stays, and so does the seed.
    #[must_use]
    pub fn cleared(&self) -> FaultPlan {
        let FaultPlan { seed, initial_bad_blocks, wear_out, .. } = *self;
        FaultPlan { seed, initial_bad_blocks, wear_out, ..FaultPlan::default() }
    }

    /// One more operation: counts down to the planned power cut. Whether it has come.
    pub fn count_down(&mut self) -> bool {
        let has_come = matches!(self.cut_after, Some(0 | 1));
        self.cut_after = self.cut_after.filter(|_| !has_come).map(|left| left - 1);
        has_come
    }
}
