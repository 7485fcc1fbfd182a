//! What becomes of the pages of a program that has ended: they are on flash, or have to go elsewhere.

use super::PageMappedSet;
use super::bits::{bit, clear_bit};
use super::buffer::{Entry, NONE, SUPERSEDED};
use super::map::{BUFFERED, UNMAPPED, has_contents};
use super::ops::PageMove;
use crate::answer::CompletedIo;
use crate::context::SetContext;
use crate::flash::Ended;
use crate::flash::ZONE_OP;
use crate::storage::{Record, Storage};
use media::Nanos;

impl PageMappedSet {
    /// The first program of a die should have ended; whether it has, as a read may have postponed it.
    pub fn programmed<S: Storage>(&mut self, now: Nanos, die: u32, cx: &mut SetContext<'_, S>) -> bool {
        self.flash.is_due(die);
        let mut any = false;
        // If a postponed program was awaited, it still is.
        while self.land_first(now, die, !any || self.gc.awaits_ends(), cx) {
            any = true;
        }
        any
    }

    /// Lands the first program of a die if it has ended; whether it has. Otherwise an event comes at its end, if the end is `watched`
    /// or a host's data is on the die.
    pub(super) fn land_first<S: Storage>(
        &mut self,
        now: Nanos,
        die: u32,
        watched: bool,
        cx: &mut SetContext<'_, S>,
    ) -> bool {
        let Some(ended) = self.flash.take_ended(now, die, watched, cx.events, cx.storage) else {
            return false;
        };
        match ended.op & ZONE_OP {
            0 => self.land(now, ended, cx),
            _ => self.flash.ended_of_zones.push(ended),
        }
        true
    }

    /// Lands what has ended on a die and asks for the next end, if there is one; whether anything landed.
    pub fn land_ended<S: Storage>(&mut self, now: Nanos, die: u32, cx: &mut SetContext<'_, S>) -> bool {
        let mut any = false;
        while self.land_first(now, die, true, cx) {
            any = true;
        }
        any
    }

    /// Asks for the next end of every die; whether anything has landed already.
    #[cold]
    pub(super) fn await_all<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let (mut any, mut from) = (false, 0);
        while let Some(die) = self.flash.next_unawaited(from) {
            any |= self.land_ended(now, die, cx);
            from = die + 1;
        }
        any
    }

    /// A program has ended: its pages are on flash, or have to go elsewhere.
    #[inline]
    fn land<S: Storage>(&mut self, now: Nanos, ended: Ended, cx: &mut SetContext<'_, S>) {
        let op = *self.ops.get(ended.op);
        self.ops.get_mut(ended.op).programming = false;
        if ended.failed {
            self.program_failed(now, ended.op, cx);
        } else {
            let first = ended.unit.0 * self.flash.geo().unit_pages;
            for i in 0..op.moves {
                let page_move = self.ops.page(ended.op, i);
                match op.relocated {
                    true => self.land_relocated(page_move, first + i, ended.superblock, cx),
                    false => self.land_host(now, page_move, first + i, ended.superblock, cx),
                }
            }
            // What landed as garbage names no contents by now.
            self.flash.record_program(ended.unit, cx.storage);
        }
        if op.relocated {
            self.gc.landed();
        }
        self.ops.give_back(ended.op);
    }

    /// A buffered page is on flash at `to`.
    fn land_host<S: Storage>(
        &mut self,
        now: Nanos,
        page_move: PageMove,
        to: u32,
        superblock: u32,
        cx: &mut SetContext<'_, S>,
    ) {
        let entry = *self.buffer.entry(page_move.source);
        if entry.old != SUPERSEDED {
            // Nothing newer is on flash, so that the map names this entry or a newer one.
            let at = self.map.at(page_move.page);
            assert!(at != UNMAPPED && at & BUFFERED != 0, "a page that lands is in no buffer");
            let current = at == BUFFERED | page_move.source;
            let holder = self.buffer.entry_mut(at ^ BUFFERED);
            let old = std::mem::replace(&mut holder.old, if current { NONE } else { to });
            if current {
                self.map.set(page_move.page, to);
            }
            self.valid.set(to, superblock);
            if old != NONE {
                self.invalidate(old, cx);
            }
            if self.flash.is_durable() && bit(&self.trimmed, page_move.page) {
                clear_bit(&mut self.trimmed, page_move.page);
                let (set, version) = (self.flash.id().0, entry.version);
                cx.storage.record(Record::Trim {
                    set,
                    first: page_move.page,
                    count: 1,
                    version,
                    gone: false,
                });
            }
            self.supersede_older(now, entry, cx);
        } else if self.flash.is_durable() {
            self.drop_contents(to, cx);
        }
        self.give_up_entry(now, page_move.source, cx);
    }

    /// Versions of a page that are older than this entry are not needed any more.
    #[inline]
    pub(super) fn supersede_older<S: Storage>(
        &mut self,
        now: Nanos,
        mut entry: Entry,
        cx: &mut SetContext<'_, S>,
    ) {
        while let Some(older) = self.buffer.older(&entry) {
            entry = *self.buffer.entry(older);
            self.supersede(now, older, cx);
        }
    }

    /// An entry is not needed any more. If it is on its way to flash it lands as garbage. Otherwise it is dropped.
    pub(super) fn supersede<S: Storage>(&mut self, now: Nanos, index: u32, cx: &mut SetContext<'_, S>) {
        if self.buffer.is_in_flight(index) {
            self.buffer.entry_mut(index).old = SUPERSEDED;
            return;
        }
        cx.storage.release(self.buffer.entry(index).slot);
        if let Some(number) = self.buffer.drop_waiting(index) {
            self.chunk_landed(number, now, cx);
        }
    }

    /// A page that garbage collection moved is on flash at `to`.
    #[inline]
    fn land_relocated<S: Storage>(
        &mut self,
        page_move: PageMove,
        to: u32,
        superblock: u32,
        cx: &mut SetContext<'_, S>,
    ) {
        let source = page_move.flash();
        let at = self.map.at(page_move.page);
        if at == source {
            self.map.set(page_move.page, to);
            if self.flash.is_durable() && !page_move.is_readable() && has_contents(self.flash.slot(source)) {
                self.lost.lose(self.flash.id(), page_move.page, cx.volumes);
            }
        } else if at != UNMAPPED && at & BUFFERED != 0 && self.buffer.entry(at ^ BUFFERED).old == source {
            self.buffer.entry_mut(at ^ BUFFERED).old = to;
        } else {
            if self.flash.is_durable() {
                self.drop_contents(to, cx);
            }
            return;
        }
        self.valid.set(to, superblock);
        // It is the victim's for as long as anything of it is on its way.
        self.invalidate_of(source, self.gc.victim(), cx);
    }

    /// A chunk of the buffer is on flash, or gone.
    pub(super) fn chunk_landed<S: Storage>(&mut self, number: u64, now: Nanos, cx: &mut SetContext<'_, S>) {
        for flush in self.flushes.iter_mut().filter(|f| number < f.mark) {
            flush.left -= 1;
        }
        self.flushes.retain(|f| {
            if f.left == 0 {
                cx.done.push(CompletedIo { io: f.io, at: now, result: Ok(()) });
            }
            f.left > 0
        });
    }

    /// A program failed, and its block is bad from now on: its pages go elsewhere.
    fn program_failed<S: Storage>(&mut self, now: Nanos, index: u32, cx: &mut SetContext<'_, S>) {
        self.check_spare(now, cx);
        let op = *self.ops.get(index);
        for &slot in self.ops.carried_by(index).iter().filter(|slot| has_contents(**slot)) {
            cx.storage.release(slot);
        }
        if op.relocated {
            self.gc.start_over();
            return;
        }
        // First those that nobody needs: what is put back is counted without them.
        for i in 0..op.moves {
            let entry = self.ops.page(index, i).source;
            if self.buffer.entry(entry).old == SUPERSEDED {
                self.give_up_entry(now, entry, cx);
            }
        }
        // The last first, so that they wait in the order in which they did.
        for i in (0..op.moves).rev() {
            self.buffer.put_back(self.ops.page(index, i).source);
        }
    }

    fn give_up_entry<S: Storage>(&mut self, now: Nanos, index: u32, cx: &mut SetContext<'_, S>) {
        if self.flash.is_durable() {
            cx.storage.release(self.buffer.entry(index).slot);
        }
        if let Some(number) = self.buffer.land(index) {
            self.chunk_landed(number, now, cx);
        }
    }
}
