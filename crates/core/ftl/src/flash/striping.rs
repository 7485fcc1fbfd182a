//! Where the next program of a stream goes.

use super::Flash;
use super::stream::{Next, Offer, Stream, Target};
use media::{BlockState, Medium, Unit};

impl Flash {
    /// Whether the next die of a stream is busy and nothing else is in the way: the usual answer, found quickly. Where it says no,
    /// [`next_unit`](Flash::next_unit) knows more.
    #[inline]
    pub fn is_busy(&self, stream: &Stream) -> bool {
        stream.is_open()
            && self.dies[stream.die as usize].waits()
            && !stream.resumed
            && self.is_sound(stream.block)
            && stream.next < self.geo.units_per_superblock()
    }

    /// Whether a unit can be programmed now: for an owner that says itself where its data goes.
    #[inline]
    pub fn offer(&self, unit: Unit, die: u32) -> Offer {
        let row = unit.0 % self.geo.units_per_superblock() / self.geo.dies;
        match self.nand.block(unit) {
            BlockState::Writable { next } if next == row => {}
            _ => return Offer::Never,
        }
        let queue = &self.dies[die as usize];
        match queue.is_full() {
            false => Offer::Now,
            true if queue.awaited => Offer::Busy,
            true => Offer::Ask,
        }
    }

    /// The next unit of an open stream, if its die has room. Bad blocks are skipped.
    #[inline]
    pub fn next_unit(&self, stream: &mut Stream) -> Next {
        let per_superblock = self.geo.units_per_superblock();
        while stream.next < per_superblock {
            let (die, superblock) = (stream.die, stream.block);
            let unit = Unit(superblock * per_superblock + stream.next);
            let skip = self.is_skipped(stream, unit);
            if !skip {
                let queue = &self.dies[die as usize];
                if queue.waits() {
                    return Next::Busy;
                }
                if queue.is_full() {
                    // A program that failed takes its block with it, and then this unit is skipped.
                    return Next::Ask(die);
                }
            }
            stream.advance(self.geo.dies);
            if !skip {
                return Next::Unit(Target { unit, die, superblock });
            }
        }
        Next::Full
    }

    /// Pages that can still be written to a stream's superblock.
    pub fn room_of(&self, stream: &Stream) -> u32 {
        let units = self.geo.units_per_superblock();
        let first = stream.block * units;
        let usable = (stream.next..units)
            .map(|u| Unit(first + u))
            .filter(|&u| !(self.nand.is_bad(u) || (stream.resumed && self.is_programmed(u))));
        usable.count() as u32 * self.geo.unit_pages
    }

    /// Pages of a superblock that were programmed since its last erase. Those of a block that has to be erased, torn as it may be, count as a
    /// whole; those of bad blocks do not.
    pub fn written_pages(&self, superblock: u32) -> u32 {
        let first = superblock * self.geo.units_per_superblock();
        let units = (0..self.geo.dies).map(|die| match self.nand.block(Unit(first + die)) {
            BlockState::Writable { next } => next,
            BlockState::MustErase => self.geo.units_per_block,
            BlockState::Bad => 0,
        });
        units.sum::<u32>() * self.geo.unit_pages
    }

    /// Whether no block of a superblock is bad.
    #[inline]
    fn is_sound(&self, superblock: u32) -> bool {
        self.superblocks.get(superblock).usable == self.superblock_pages.by()
    }

    /// Whether a unit cannot be programmed: its block is bad, or it was before power was lost.
    #[inline]
    fn is_skipped(&self, stream: &Stream, unit: Unit) -> bool {
        (!self.is_sound(stream.block) && self.nand.is_bad(unit))
            || (stream.resumed && self.is_programmed(unit))
    }

    /// Whether a unit of a block that may be written was programmed already.
    fn is_programmed(&self, unit: Unit) -> bool {
        match self.nand.block(unit) {
            BlockState::Writable { next } => unit.0 % self.geo.units_per_superblock() / self.geo.dies < next,
            BlockState::MustErase | BlockState::Bad => true,
        }
    }
}
