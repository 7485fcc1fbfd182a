//! Streams: superblocks that are being written, striped over their dies.

use super::Flash;
use media::{BlockState, Medium, Unit};

const NO_SUPERBLOCK: u32 = u32::MAX;

/// A superblock that is being written, unit by unit, one die after the other. Its owner keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    block: u32,
    /// Next unit, from 0, and its die.
    next: u32,
    die: u32,
    /// Opened by recovery: units that were under way may be programmed or torn already.
    resumed: bool,
}

impl Stream {
    /// Without a superblock.
    pub const CLOSED: Stream = Stream { block: NO_SUPERBLOCK, next: 0, die: 0, resumed: false };

    /// At the begin of an open superblock.
    pub fn new(superblock: u32) -> Stream {
        Stream { block: superblock, ..Stream::CLOSED }
    }

    /// Goes on with a superblock that was being written when power was lost.
    pub fn resumed(superblock: u32) -> Stream {
        Stream { block: superblock, resumed: true, ..Stream::CLOSED }
    }

    #[inline]
    fn advance(&mut self, dies: u32) {
        self.next += 1;
        self.die = if self.die + 1 == dies { 0 } else { self.die + 1 };
    }

    /// Whether it has a superblock.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.block != NO_SUPERBLOCK
    }

    /// Whether it has a superblock that it has not written to.
    pub fn is_unwritten(&self) -> bool {
        self.next == 0
    }

    /// The superblock, if it has one.
    pub fn superblock(&self) -> Option<u32> {
        self.is_open().then_some(self.block)
    }
}

/// Where a program goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub unit: Unit,
    pub die: u32,
    pub superblock: u32,
}

/// What comes next on a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// This unit is to be programmed now.
    Unit(Target),
    /// The next die is busy, and there will be an event.
    Busy,
    /// The next die is busy, as far as is known. A program on it may have ended: its owner takes it
    /// ([`take_ended`](Flash::take_ended)) and asks again.
    Ask(u32),
    /// The superblock is full: its owner seals it.
    Full,
}

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
