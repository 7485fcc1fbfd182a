//! Streams: superblocks that are being written, striped over their dies.

use media::Unit;

/// No superblock is open.
const NO_SUPERBLOCK: u32 = u32::MAX;

/// A superblock that is being written, unit by unit, one die after the other. Its owner keeps it; [`Flash`](super::Flash) says where it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(super) block: u32,
    /// Next unit, from 0, and its die.
    pub(super) next: u32,
    pub(super) die: u32,
    /// Opened by recovery: units that were under way may be programmed or torn already.
    pub(super) resumed: bool,
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

    /// Goes on to the next unit.
    #[inline]
    pub(super) fn advance(&mut self, dies: u32) {
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
    /// The next die has two programs. The first may have ended: the owner takes it
    /// (`Flash::take_ended`) and asks again.
    Ask(u32),
    /// The superblock is full: its owner seals it.
    Full,
}

/// Whether a unit that its owner has chosen can be programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// It is to be programmed now.
    Now,
    /// Its die is busy, and there will be an event.
    Busy,
    /// Its die has two programs. The first may have ended: the owner takes it and asks again.
    Ask,
    /// It cannot be programmed before the next erase: its block is bad, or the unit was programmed or torn.
    Never,
}
