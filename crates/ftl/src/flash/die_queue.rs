//! The programs that wait for each die, and when their ends are noticed.
//!
//! Nearly every program moves data from one place of the flash to another, and nobody needs to know the moment at which it ends: its
//! pages can be read where they come from until then. So an end is asked for only where somebody waits for it: programs of the
//! host's data, whose places in a write buffer they free; a stream whose next die is full; and all programs where their owner asks for
//! them. The other ends are noticed when a stream comes by their die again, several at a time.

use super::Flash;
use super::program::Ended;
use crate::context::{Event, Queue};
use crate::storage::Storage;
use media::{Medium, Nanos, Progress, Unit};

/// Programs that a die takes at once: one runs, and the data of the other is transferred meanwhile.
pub(crate) const DIE_QUEUE: usize = 2;

/// A program that was sent to its die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub unit: Unit,
    pub superblock: u32,
    /// How its owner calls it.
    pub op: u32,
    /// Whether its data were on flash before, so that nobody waits for its end.
    pub relocated: bool,
}

impl Program {
    const NONE: Program = Program { unit: Unit(0), superblock: 0, op: 0, relocated: false };
}

/// The programs of a die, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct DieQueue {
    programs: [Program; DIE_QUEUE],
    count: u8,
    /// Whether there is an event for the end of the first. What postpones one postpones the other, so there is no need
    /// for more.
    awaited: bool,
}

impl DieQueue {
    pub const EMPTY: DieQueue = DieQueue { programs: [Program::NONE; DIE_QUEUE], count: 0, awaited: false };

    /// Whether there is no room, as far as is known.
    #[inline]
    pub fn is_full(&self) -> bool {
        usize::from(self.count) == DIE_QUEUE
    }

    /// Whether there is no room, as far as is known, and will be none before an event.
    #[inline]
    pub fn waits(&self) -> bool {
        self.is_full() && self.awaited
    }

    /// All of them.
    #[inline]
    pub fn programs(&self) -> &[Program] {
        &self.programs[..usize::from(self.count)]
    }

    #[inline]
    fn drop_first(&mut self) {
        self.programs.copy_within(1.., 0);
        self.count -= 1;
    }

    /// # Panics
    /// If there is no room.
    #[inline]
    fn push(&mut self, program: Program) {
        self.programs[usize::from(self.count)] = program;
        self.count += 1;
    }
}

impl Flash {
    /// A program runs until `end`, if nothing postpones it. Whether its owner, who `watches` it, has to ask for what has ended on
    /// its die.
    #[inline]
    pub(super) fn sent(
        &mut self,
        program: Program,
        die: u32,
        end: Nanos,
        watched: bool,
        events: &mut Queue,
    ) -> bool {
        let queue = &mut self.dies[die as usize];
        queue.push(program);
        let (alone, awaited) = (queue.count == 1, queue.awaited);
        if awaited || !watched {
            return false;
        }
        if alone {
            self.await_end(die, end, events);
        }
        !alone
    }

    fn await_end(&mut self, die: u32, end: Nanos, events: &mut Queue) {
        self.dies[die as usize].awaited = true;
        events.push(end, (self.id, Event::Programmed(die)));
    }

    /// Takes the first program of a die, if it has ended. Else an event will tell of its end, provided that somebody waits for
    /// one: the owner (`watched`), or a program of a host's data is among them.
    #[inline]
    pub fn take_ended<S: Storage>(
        &mut self,
        now: Nanos,
        die: u32,
        watched: bool,
        events: &mut Queue,
        storage: &mut S,
    ) -> Option<Ended> {
        let &first = self.dies[die as usize].programs().first()?;
        match self.nand.poll_program(now, first.unit) {
            Progress::Until(end) => {
                if watched || self.dies[die as usize].programs().iter().any(|p| !p.relocated) {
                    self.await_end(die, end, events);
                }
                None
            }
            Progress::Ended(outcome) => {
                self.dies[die as usize].drop_first();
                Some(self.program_ended(first, outcome, storage))
            }
        }
    }

    /// The event for a die has come.
    #[inline]
    pub fn is_due(&mut self, die: u32) {
        self.dies[die as usize].awaited = false;
    }

    /// Dies whose next end no event tells of.
    pub fn next_unawaited(&self, from: u32) -> Option<u32> {
        (from..self.geo.dies).find(|&die| !self.dies[die as usize].awaited)
    }

    /// Units that are being programmed.
    pub fn units_under_way(&self) -> impl Iterator<Item = Unit> {
        self.dies.iter().flat_map(|queue| queue.programs().iter().map(|p| p.unit))
    }
}
