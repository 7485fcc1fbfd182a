//! Programs: what is sent to a die, and what becomes of its block when it fails.

use super::Flash;
use super::die_queue::Program;
use super::stream::Target;
use crate::config::PAGE;
use crate::context::Queue;
use crate::storage::{Record, Storage};
use media::{LogicalPage, Medium, Nanos, Outcome, Page, Spare, Unit};

/// How an owner calls a program, and what it says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// A number of the owner's, which comes back when the program has ended.
    pub op: u32,
    /// Whether the data were on flash before.
    pub relocated: bool,
    /// Whether the owner waits for the end.
    pub watched: bool,
}

/// A program has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    /// How its owner calls it.
    pub op: u32,
    pub unit: Unit,
    pub superblock: u32,
    /// Whether its data are not on flash: then its block is bad from now on.
    pub failed: bool,
}

impl Flash {
    /// Programs a unit that [`next_unit`](Flash::next_unit) gave. Whether the owner has to ask its die for what has
    /// ended ([`take_ended`](Flash::take_ended)), as no event will tell.
    #[inline]
    pub fn program(
        &mut self,
        now: Nanos,
        target: Target,
        order: Order,
        spares: &[Spare],
        events: &mut Queue,
    ) -> bool {
        let Target { unit, die, superblock } = target;
        let bytes = u64::from(self.geo.unit_pages * PAGE);
        self.stats.media_written_bytes += bytes;
        if order.relocated {
            self.stats.media_gc_bytes += bytes;
        }
        self.superblocks.all[superblock as usize].programs += 1;
        let end = self.nand.program(now, unit, spares);
        let program = Program { unit, superblock, op: order.op, relocated: order.relocated };
        self.sent(program, die, end, order.watched, events)
    }

    /// A program has left its die. One that failed takes its block with it.
    #[inline]
    pub(super) fn program_ended<S: Storage>(
        &mut self,
        program: Program,
        outcome: Outcome,
        storage: &mut S,
    ) -> Ended {
        let Program { unit, superblock, op, .. } = program;
        self.superblocks.all[superblock as usize].programs -= 1;
        let failed = outcome == Outcome::Failed;
        if failed {
            self.retire(unit, superblock, storage);
        }
        Ended { op, unit, superblock, failed }
    }

    /// The program of a unit failed: its block is used no more once it was erased.
    #[cold]
    fn retire<S: Storage>(&mut self, unit: Unit, superblock: u32, storage: &mut S) {
        self.stats.media_failures += 1;
        storage.record(Record::Spoil { set: self.id.0, unit });
        // The unit is on the medium: it was programmed.
        let _ = self.nand.apply_bad(unit);
        self.count_usable(superblock);
        storage.record(Record::Retire { set: self.id.0, unit });
    }

    /// Tells the journal what is on flash now that a program has ended well. The owner calls this when it has seen to the pages:
    /// those that are out of date name no contents by then.
    pub fn record_program<S: Storage>(&mut self, unit: Unit, storage: &mut S) {
        if !self.durable {
            return;
        }
        self.copy_spares(unit);
        storage.record(Record::Program { set: self.id.0, unit, spares: &self.spares });
    }

    /// Tells the journal what became of units that were being programmed or erased when power was lost, or whose spare areas
    /// were changed. The erase of a block that wears out may have failed without an answer: then the block is bad.
    pub fn record_units<S: Storage>(&mut self, units: &[Unit], storage: &mut S) {
        for &unit in units {
            self.copy_spares(unit);
            let torn = self.spares.iter().all(|s| s.page == LogicalPage::NONE);
            storage.record(match torn {
                true => Record::Spoil { set: self.id.0, unit },
                false => Record::Program { set: self.id.0, unit, spares: &self.spares },
            });
            if self.nand.is_bad(unit) {
                storage.record(Record::Retire { set: self.id.0, unit });
            }
        }
    }

    fn copy_spares(&mut self, unit: Unit) {
        let first = unit.0 * self.geo.unit_pages;
        self.spares.clear();
        self.spares.extend((first..first + self.geo.unit_pages).map(|p| self.nand.inner().spare(Page(p))));
    }
}
