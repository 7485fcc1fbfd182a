//! The programs that wait for each die, and when their ends are noticed.
//!
//! Nearly every program moves data from one place of the flash to another. No command waits for its end, because its pages can be read
//! where they come from until then. So an event asks only for an end that something waits for:
//! - a program of the host's data, which frees its entries of a write buffer,
//! - a stream whose next die is full,
//! - all programs, when their owner asks for them.
//!
//! The other ends are noticed when a stream comes to their die again, several at a time.

use media::Unit;

/// Programs that a die takes at once: one runs, and the data of the other is transferred meanwhile.
pub(crate) const DIE_QUEUE: usize = 2;

/// A program that was sent to its die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub unit: Unit,
    pub superblock: u32,
    /// How its owner calls it.
    pub op: u32,
    /// Whether its data were on flash before, so that no command waits for its end.
    pub relocated: bool,
}

impl Program {
    const NONE: Program = Program { unit: Unit(0), superblock: 0, op: 0, relocated: false };
}

/// The programs of a die, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct DieQueue {
    programs: [Program; DIE_QUEUE],
    pub count: u8,
    /// Whether there is an event for the end of the first. What postpones one postpones the other, so there is no need
    /// for more.
    pub awaited: bool,
}

impl DieQueue {
    pub const EMPTY: DieQueue = DieQueue { programs: [Program::NONE; DIE_QUEUE], count: 0, awaited: false };

    /// Whether no program fits. One of its programs may have ended, and nobody noticed.
    #[inline]
    pub fn is_full(&self) -> bool {
        usize::from(self.count) == DIE_QUEUE
    }

    /// Whether no program fits and an event will tell when one does.
    #[inline]
    pub fn waits(&self) -> bool {
        self.is_full() && self.awaited
    }

    /// All of them.
    #[inline]
    pub fn programs(&self) -> &[Program] {
        &self.programs[..usize::from(self.count)]
    }

    /// The first is on the die no longer.
    #[inline]
    pub fn drop_first(&mut self) {
        self.programs.copy_within(1.., 0);
        self.count -= 1;
    }

    /// # Panics
    /// If there is no room.
    #[inline]
    pub fn push(&mut self, program: Program) {
        self.programs[usize::from(self.count)] = program;
        self.count += 1;
    }
}

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
