//! Programs: what is sent to a die, when its end is noticed, and what becomes of its block when it fails.

use super::Flash;
use super::die_queue::{Ended, Order, Program};
use super::stream::Target;
use crate::config::PAGE;
use crate::context::{Event, EventQueue};
use crate::storage::{Record, Storage};
use media::{LogicalPage, Medium, Nanos, OpStatus, Page, Progress, Spare, Unit};

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
        events: &mut EventQueue,
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
    fn program_ended<S: Storage>(&mut self, program: Program, status: OpStatus, storage: &mut S) -> Ended {
        let Program { unit, superblock, op, .. } = program;
        self.superblocks.all[superblock as usize].programs -= 1;
        let failed = status == OpStatus::Failed;
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

    /// What a unit holds, if anything, does not count: nobody can find it any more.
    pub fn spoil<S: Storage>(&mut self, unit: Unit, storage: &mut S) {
        let _ = self.nand.apply_spoil(unit);
        storage.record(Record::Spoil { set: self.id.0, unit });
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

    /// A program runs until `end`, if nothing postpones it. Whether its owner, who `watches` it, has to ask for what has ended on
    /// its die.
    #[inline]
    fn sent(
        &mut self,
        program: Program,
        die: u32,
        end: Nanos,
        watched: bool,
        events: &mut EventQueue,
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

    fn await_end(&mut self, die: u32, end: Nanos, events: &mut EventQueue) {
        self.dies[die as usize].awaited = true;
        events.push(end, (self.id, Event::Programmed(die)));
    }

    /// Takes the first program of a die, if it has ended. If not, an event will come at its end, but only if it is awaited: by
    /// the owner (`watched`), or because a program of a host's data is among them.
    #[inline]
    pub fn take_ended<S: Storage>(
        &mut self,
        now: Nanos,
        die: u32,
        watched: bool,
        events: &mut EventQueue,
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
            Progress::Ended(status) => {
                self.dies[die as usize].drop_first();
                Some(self.program_ended(first, status, storage))
            }
        }
    }

    /// Whether a die takes no program now, and an event will tell when it does.
    #[inline]
    pub fn waits(&self, die: u32) -> bool {
        self.dies[die as usize].waits()
    }

    /// The event for a die has come.
    #[inline]
    pub fn is_due(&mut self, die: u32) {
        self.dies[die as usize].awaited = false;
    }

    /// The next die, from this one on, without an event for its next end.
    pub fn next_unawaited(&self, from: u32) -> Option<u32> {
        (from..self.geo.dies).find(|&die| !self.dies[die as usize].awaited)
    }

    /// Units that are being programmed.
    pub fn units_under_way(&self) -> impl Iterator<Item = Unit> {
        self.dies.iter().flat_map(|queue| queue.programs().iter().map(|p| p.unit))
    }
}
