//! The programs that wait for each die, and when the set notices their ends.
//!
//! Nearly every program is collection's, and nobody needs to know the moment at which it ends: its pages can be read where they
//! come from until then. So an end is asked for only where somebody waits for it: the host's pages, whose places in
//! the write buffer it frees; a stream whose next die is full; the last programs of a victim; all of collection while
//! the host has nothing to write. The other ends are noticed when a stream comes by their die again, several at a time.

use super::NandSet;
use crate::context::{Event, SetContext};
use crate::storage::Storage;
use media::{Medium, Nanos, Progress};

/// Programs that a die takes at once: one runs, and the data of the other is transferred meanwhile.
pub(super) const DIE_QUEUE: usize = 2;

/// The programs of a die, in their order.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct DieQueue {
    ops: [u32; DIE_QUEUE],
    count: u8,
    /// Whether there is an event for the end of the first. What postpones one postpones the other, so there is no need
    /// for more.
    awaited: bool,
}

impl DieQueue {
    #[inline]
    fn is_full(&self) -> bool {
        usize::from(self.count) == DIE_QUEUE
    }

    /// Whether there is no room, as far as is known, and will be none before an event.
    #[inline]
    pub fn waits(&self) -> bool {
        self.is_full() && self.awaited
    }

    #[inline]
    fn first(&self) -> Option<u32> {
        (self.count > 0).then_some(self.ops[0])
    }

    #[inline]
    fn drop_first(&mut self) {
        self.ops.rotate_left(1);
        self.count -= 1;
    }

    /// # Panics
    /// If there is no room.
    #[inline]
    fn push(&mut self, op: u32) {
        self.ops[usize::from(self.count)] = op;
        self.count += 1;
    }
}

impl NandSet {
    /// Whether a die can take another program; if not, there will be an event as soon as it can.
    #[inline]
    pub(super) fn has_room<S: Storage>(&mut self, now: Nanos, die: u32, cx: &mut SetContext<'_, S>) -> bool {
        let queue = &self.die_queues[die as usize];
        if !queue.is_full() {
            return true;
        }
        if queue.awaited {
            return false;
        }
        match self.land_first(now, die, cx) {
            Some(end) => self.await_end(die, end, cx),
            None => return true,
        }
        false
    }

    /// A program runs until `end`, if nothing postpones it.
    #[inline]
    pub(super) fn sent<S: Storage>(
        &mut self,
        now: Nanos,
        op: u32,
        die: u32,
        end: Nanos,
        cx: &mut SetContext<'_, S>,
    ) {
        let queue = &mut self.die_queues[die as usize];
        queue.push(op);
        let (alone, awaited) = (queue.count == 1, queue.awaited);
        if !awaited && self.matters(op) {
            match alone {
                true => self.await_end(die, end, cx),
                false => _ = self.await_first(now, die, cx),
            }
        }
    }

    /// Whether somebody always waits for the end of this program.
    #[inline]
    fn matters(&self, op: u32) -> bool {
        !self.ops[op as usize].relocated || self.gc.awaits_ends()
    }

    fn await_end<S: Storage>(&mut self, die: u32, end: Nanos, cx: &mut SetContext<'_, S>) {
        self.die_queues[die as usize].awaited = true;
        cx.events.push(end, (self.id, Event::Programmed(die)));
    }

    /// Lands the first program of a die if it has ended. Else says when it will, unless a read postpones it.
    #[inline]
    fn land_first<S: Storage>(&mut self, now: Nanos, die: u32, cx: &mut SetContext<'_, S>) -> Option<Nanos> {
        let op = self.die_queues[die as usize].first()?;
        match self.nand.poll_program(now, self.ops[op as usize].unit) {
            Progress::Until(end) => Some(end),
            Progress::Ended(outcome) => {
                self.die_queues[die as usize].drop_first();
                self.land(now, op, outcome, cx);
                None
            }
        }
    }

    /// Lands what has ended on a die and asks for the next end, if there is one; whether anything landed.
    fn await_first<S: Storage>(&mut self, now: Nanos, die: u32, cx: &mut SetContext<'_, S>) -> bool {
        let mut any = false;
        while self.die_queues[die as usize].count > 0 {
            if let Some(end) = self.land_first(now, die, cx) {
                self.await_end(die, end, cx);
                break;
            }
            any = true;
        }
        any
    }

    /// Asks for the next end of every die; whether anything has landed already.
    #[cold]
    pub(super) fn await_all<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let mut any = false;
        for die in 0..self.geo.dies {
            if !self.die_queues[die as usize].awaited {
                any |= self.await_first(now, die, cx);
            }
        }
        any
    }

    /// The first program of a die should have ended; whether it has, as a read may have postponed it.
    pub(super) fn programmed<S: Storage>(
        &mut self,
        now: Nanos,
        die: u32,
        cx: &mut SetContext<'_, S>,
    ) -> bool {
        self.die_queues[die as usize].awaited = false;
        let mut any = false;
        while self.die_queues[die as usize].count > 0 {
            if let Some(end) = self.land_first(now, die, cx) {
                let DieQueue { ops, count, .. } = self.die_queues[die as usize];
                // Who waited for one that was postponed still does.
                if !any || ops[..usize::from(count)].iter().any(|&op| self.matters(op)) {
                    self.await_end(die, end, cx);
                }
                break;
            }
            any = true;
        }
        any
    }
}
