//! Erases: a few dies at a time, so that the others can work.

use super::Flash;
use super::superblock::{EraseStep, SuperblockState};
use crate::context::{Event, EventQueue};
use crate::storage::{Record, Storage};
use media::{BlockState, Medium, Nanos, OpStatus, Progress, Unit};

impl Flash {
    /// Gives up a superblock that holds no valid page, and to which no program is under way. It is erased when its turn comes.
    pub fn give_up(&mut self, superblock: u32) {
        debug_assert_eq!(self.superblocks.get(superblock).programs, 0);
        self.superblocks.give_up(superblock);
    }

    /// Takes the superblocks that wait for an erase one step on, with at most so many dies at a time.
    #[inline]
    pub fn erase_step(&mut self, now: Nanos, most_dies: u32, events: &mut EventQueue) -> EraseStep {
        match self.superblocks.erasing.front() {
            Some(&superblock) => self.erase_next(now, superblock, most_dies, events),
            None => EraseStep::Nothing,
        }
    }

    fn erase_next(
        &mut self,
        now: Nanos,
        superblock: u32,
        most_dies: u32,
        events: &mut EventQueue,
    ) -> EraseStep {
        while self.superblocks.erase_die < self.geo.dies {
            if self.superblocks.erases_under_way >= most_dies {
                return EraseStep::Nothing;
            }
            let unit = Unit(superblock * self.geo.units_per_superblock() + self.superblocks.erase_die);
            self.superblocks.erase_die += 1;
            if self.nand.is_bad(unit) {
                // What it holds is out of date and stays there.
                continue;
            }
            self.superblocks.erases_under_way += 1;
            let end = self.nand.erase(now, unit);
            events.push(end, (self.id, Event::Erased(unit)));
            return EraseStep::Begun;
        }
        if self.superblocks.erases_under_way > 0 {
            return EraseStep::Nothing;
        }
        self.erase_ended(superblock);
        EraseStep::Ended(superblock)
    }

    /// The erase of a block of a superblock that was given up should have ended; whether it has.
    pub fn erased<S: Storage>(
        &mut self,
        now: Nanos,
        unit: Unit,
        events: &mut EventQueue,
        storage: &mut S,
    ) -> bool {
        let ended = self.block_erased(now, unit, events, storage);
        self.superblocks.erases_under_way -= u32::from(ended);
        ended
    }

    /// Begins to erase one block of an open superblock, for an owner that erases its blocks by itself. An event tells of the end.
    pub fn erase_block(&mut self, now: Nanos, unit: Unit, events: &mut EventQueue) {
        let end = self.nand.erase(now, unit);
        self.erasing_blocks.push(unit);
        events.push(end, (self.id, Event::Erased(unit)));
    }

    /// Power was lost: tells the journal of the blocks that their owner was erasing. One whose erase had ended, which nobody noticed, is
    /// empty, or bad.
    pub(super) fn record_erasing_blocks<S: Storage>(&mut self, storage: &mut S) {
        let set = self.id.0;
        for unit in std::mem::take(&mut self.erasing_blocks) {
            match self.nand.block(unit) {
                BlockState::Writable { next: 0 } => storage.record(Record::Erase { set, unit }),
                BlockState::Bad => {
                    storage.record(Record::Erase { set, unit });
                    storage.record(Record::Retire { set, unit });
                }
                BlockState::Writable { .. } | BlockState::MustErase => {}
            }
        }
    }

    /// The erase of a block should have ended; whether it has. A block that cannot be erased is bad from now on.
    pub fn block_erased<S: Storage>(
        &mut self,
        now: Nanos,
        unit: Unit,
        events: &mut EventQueue,
        storage: &mut S,
    ) -> bool {
        let status = match self.nand.poll_erase(now, unit) {
            Progress::Until(later) => {
                events.push(later, (self.id, Event::Erased(unit)));
                return false;
            }
            Progress::Ended(status) => status,
        };
        self.erasing_blocks.retain(|&block| block != unit);
        self.stats.erases += 1;
        storage.record(Record::Erase { set: self.id.0, unit });
        if status == OpStatus::Failed {
            self.stats.media_failures += 1;
            self.stats.erase_failures += 1;
            storage.record(Record::Retire { set: self.id.0, unit });
        }
        true
    }

    /// An open superblock whose blocks its owner has erased is free again, or dead.
    pub fn release(&mut self, superblock: u32) {
        debug_assert_eq!(self.superblocks.get(superblock).state, SuperblockState::Open);
        self.blocks_are_erased(superblock);
        let first = superblock * self.geo.units_per_superblock();
        let wear = (0..self.geo.dies).map(|die| self.nand.wear(Unit(first + die))).max();
        self.superblocks.all[superblock as usize].erases = wear.unwrap_or(0);
    }

    fn erase_ended(&mut self, superblock: u32) {
        self.superblocks.erasing.pop_front();
        self.superblocks.erase_die = 0;
        self.blocks_are_erased(superblock);
    }

    /// All blocks of a superblock are erased: it can be opened, unless all of them are bad.
    fn blocks_are_erased(&mut self, superblock: u32) {
        self.count_usable(superblock);
        let b = &mut self.superblocks.all[superblock as usize];
        b.erases += 1;
        if b.usable == 0 {
            b.state = SuperblockState::Dead;
        } else {
            b.state = SuperblockState::Free;
            self.superblocks.free.push(superblock);
        }
    }

    /// The units of the blocks that are being erased: they hold nothing, and the journal does not know yet.
    pub(super) fn erasing_units(&self) -> impl Iterator<Item = Unit> + use<> {
        let blocks = &self.superblocks;
        let dies = if blocks.erases_under_way > 0 { 0..blocks.erase_die } else { 0..0 };
        let first = blocks.erasing.front().map_or(0, |block| block * self.geo.units_per_superblock());
        let (rows, step) = (self.geo.units_per_block, self.geo.dies);
        dies.flat_map(move |die| (0..rows).map(move |row| Unit(first + row * step + die)))
    }
}
