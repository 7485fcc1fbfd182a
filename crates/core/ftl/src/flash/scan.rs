//! Power: what is lost with it, and what the chips tell afterwards.

use super::Flash;
use super::die_queue::DieQueue;
use super::superblock::{PartlyWritten, SuperblockState};
use crate::storage::{Record, Storage};
use media::{BlockState, Medium, Nanos, Page, Spare, Unit};

impl Flash {
    /// Power is lost: the chips tear what is in flight. The journal hears what became of it.
    pub fn power_cut<S: Storage>(&mut self, now: Nanos, storage: &mut S) {
        let under_way: Vec<Unit> = self.units_under_way().chain(self.erasing_units()).collect();
        self.nand.power_cut(now);
        self.dies.fill(DieQueue::EMPTY);
        self.record_units(&under_way, storage);
        self.record_erasing_blocks(storage);
    }

    /// Forgets what is in memory; how worn superblocks are, and who wrote them, stays.
    pub fn reset(&mut self) {
        self.dies.fill(DieQueue::EMPTY);
        self.erasing_blocks.clear();
        self.ended_of_zones.clear();
        self.superblocks.reset();
    }

    /// Records units that are found to hold nothing in the journal. Some may have been found just now.
    pub fn record_lost_units<S: Storage>(&mut self, storage: &mut S) {
        for unit in self.nand.lost_units() {
            storage.record(Record::Spoil { set: self.id.0, unit });
        }
    }

    /// Pages of a unit that were programmed and can be found.
    pub fn programmed(&self, unit: Unit) -> u32 {
        match self.nand.is_lost(unit) {
            true => 0,
            false => self.nand.inner().programmed(unit),
        }
    }

    /// Whether a unit was programmed or torn since the last erase of its block.
    pub fn was_programmed(&self, unit: Unit) -> bool {
        self.nand.inner().programmed(unit) != 0
    }

    /// The spare area of a page; of one that cannot be found, an empty one.
    pub fn spare(&self, page: u32) -> Spare {
        self.nand.spare(Page(page))
    }

    /// Sorts the superblocks by what the chips say, and by whether anything on one `counts`. Those that were being written are open
    /// afterwards, and are returned: the ones with most room first. The set resumes or seals them.
    /// Those that are `kept` are open for somebody else, who knows what they hold.
    pub fn sort(&mut self, counts: impl Fn(u32) -> bool, kept: impl Fn(u32) -> bool) -> Vec<PartlyWritten> {
        let units = self.geo.units_per_superblock();
        let mut open = Vec::new();
        for superblock in 0..self.geo.superblocks {
            self.count_usable(superblock);
            let first = superblock * units;
            let (mut begun, mut room) = (false, 0);
            for die in 0..self.geo.dies {
                match self.nand.block(Unit(first + die)) {
                    BlockState::Writable { next } => {
                        begun |= next > 0;
                        room += self.geo.units_per_block - next;
                    }
                    BlockState::MustErase => begun = true,
                    BlockState::Bad => {}
                }
            }
            let erases = (0..self.geo.dies).map(|d| self.nand.wear(Unit(first + d))).max().unwrap_or(0);
            let b = &mut self.superblocks.all[superblock as usize];
            b.erases = erases;
            if kept(superblock) {
                b.state = SuperblockState::Open;
            } else if counts(superblock) {
                b.state = SuperblockState::Open;
                open.push(PartlyWritten { room, superblock });
            } else if b.usable == 0 {
                b.state = SuperblockState::Dead;
            } else if begun {
                // It holds no valid page. That is so, too, where an erase was cut short.
                self.superblocks.give_up(superblock);
            } else {
                b.state = SuperblockState::Free;
                self.superblocks.free.push(superblock);
            }
        }
        open.sort_unstable_by(|a, b| b.cmp(a));
        open
    }
}
