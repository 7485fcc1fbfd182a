//! Programs: from the write buffer or the collector to a die, and what becomes of the pages when they land or fail.

use super::buffer::{Entry, NONE, SUPERSEDED};
use super::collect::NO_OP;
use super::{BUFFERED, NandSet, PageMove, ProgramOp, UNMAPPED, bit, clear_bit, has_contents};
use crate::answer::Done;
use crate::config::PAGE;
use crate::context::SetContext;
use crate::lost::LOST;
use crate::storage::{Record, Storage};
use media::tables::prefetch;
use media::{LogicalPage, Medium, Nanos, Outcome, Page, Slot, Spare};

impl NandSet {
    /// Whether the buffer has a unit to program.
    #[inline]
    pub(super) fn host_is_ready(&self) -> bool {
        self.buffer.waiting_pages() > 0 && (0..self.handles).any(|handle| self.handle_is_ready(handle))
    }

    /// Whether there is a unit to program for a placement handle: a full one, or what there is if somebody waits for it.
    #[inline]
    pub(super) fn handle_is_ready(&self, handle: usize) -> bool {
        let waiting = self.buffer.waiting_of(handle);
        waiting >= self.geo.unit_pages
            || (waiting > 0 && !self.flushes.is_empty())
            || (waiting > 0 && !self.waiting.is_empty() && self.must_make_room(handle))
            || (waiting > 0 && self.closing[handle] != 0)
    }

    /// Whether the buffer is stuck and this is the handle that it is drained for.
    #[cold]
    fn must_make_room(&self, handle: usize) -> bool {
        self.buffer.is_stuck() && self.buffer.fullest() == handle
    }

    /// Sends one unit of waiting pages to flash, if there is one and its die has room; the placement handles take turns. Whether something
    /// changed by it.
    pub(super) fn program_host<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        // While collection is held back, it is not waited for.
        let may = self.gc.lets_host() || self.gc_paused;
        if self.buffer.waiting_pages() == 0 || !may || self.free_ops.is_empty() {
            return false;
        }
        for _ in 0..self.handles {
            let handle = self.turn;
            self.turn = if handle + 1 == self.handles { 0 } else { handle + 1 };
            if self.handle_is_ready(handle) && self.program_handle(now, handle, cx) {
                return true;
            }
        }
        false
    }

    #[inline]
    fn program_handle<S: Storage>(&mut self, now: Nanos, handle: usize, cx: &mut SetContext<'_, S>) -> bool {
        let was_open = self.streams[handle].is_open();
        let Some(unit) = self.next_unit(now, handle, false, cx) else {
            // That it lacks a superblock is news for collection.
            return was_open && !self.streams[handle].is_open();
        };
        let Some(op) = self.free_ops.pop() else { return false };
        self.entries.clear();
        self.buffer.take(handle, self.geo.unit_pages, &mut self.entries);
        let start = (op * self.geo.unit_pages) as usize;
        for (i, &index) in self.entries.iter().enumerate() {
            self.moves[start + i] = PageMove { page: self.buffer.entry(index).page, source: index };
        }
        let moves = self.entries.len() as u32;
        if !self.gc_paused {
            self.gc.host_wrote(moves);
        }
        self.ops[op as usize] = ProgramOp {
            unit: unit.unit,
            die: unit.die,
            superblock: unit.superblock,
            moves,
            relocated: false,
            paid: false,
            programming: false,
            next: NO_OP,
        };
        self.program(now, op, cx);
        if self.closing[handle] != 0 {
            self.close_handle(handle);
        }
        true
    }

    /// Sends one gathered unit to flash, if there is one and its die has room.
    pub(super) fn program_collected<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        if self.gc.ready.is_empty() {
            return false;
        }
        let stream = self.collecting_stream(self.gc.victim());
        let Some(unit) = self.next_unit(now, stream, true, cx) else {
            if !self.streams[stream].is_open() {
                // Without a superblock to write to, what is on its way may be all that there is to wait for.
                self.await_all(now, cx);
            }
            // The lane's last superblock may have ended just now, and another lane's is there.
            return self.collecting_stream(self.gc.victim()) != stream;
        };
        let Some(op) = self.gc.ready.pop_front() else { return false };
        self.gc.gathered -= 1;
        let f = &mut self.ops[op as usize];
        (f.unit, f.die, f.superblock) = (unit.unit, unit.die, unit.superblock);
        self.program(now, op, cx);
        true
    }

    fn program<S: Storage>(&mut self, now: Nanos, index: u32, cx: &mut SetContext<'_, S>) {
        let op = self.ops[index as usize];
        let start = (index * self.geo.unit_pages) as usize;
        self.spares.clear();
        let bytes = u64::from(self.geo.unit_pages * PAGE);
        let mut charge = |page: u32, pages: u32| {
            if !op.paid
                && let Some(volume) = cx.volumes.owner_mut(self.id, page)
            {
                volume.charge(pages, op.relocated);
            }
        };
        for at in start..start + op.moves as usize {
            let page_move = self.moves[at];
            // What was deallocated meanwhile is programmed all the same: the deallocation is known elsewhere, and newer.
            let mut spare = Spare { page: LogicalPage(page_move.page), version: 0, slot: Slot::NONE };
            if self.durable {
                (spare.version, spare.slot) = match op.relocated {
                    true => {
                        let source = self.nand.inner().spare(Page(page_move.flash()));
                        (
                            source.version,
                            if page_move.source == page_move.flash() { source.slot } else { LOST },
                        )
                    }
                    false => {
                        let source = self.buffer.entry(page_move.source);
                        (source.version, source.slot)
                    }
                };
                self.carried[at] = spare.slot;
                if has_contents(spare.slot) {
                    cx.storage.retain(spare.slot);
                }
            }
            self.spares.push(spare);
            charge(page_move.page, 1);
            if !op.relocated {
                // What its landing will want.
                prefetch(&self.map, page_move.page);
                let old = self.buffer.entry(page_move.source).old;
                prefetch(&self.valid, old / 64);
                if self.durable {
                    self.nand.inner().prefetch_slot(Page(old));
                }
            }
        }
        let padding = self.geo.unit_pages - op.moves;
        if padding > 0 {
            self.spares.resize(self.geo.unit_pages as usize, Spare::EMPTY);
            charge(self.moves[start].page, padding);
        }
        self.stats.media_written_bytes += bytes;
        if op.relocated {
            self.stats.media_gc_bytes += bytes;
        }
        self.ops[index as usize].programming = true;
        self.superblocks.all[op.superblock as usize].ops += 1;
        let end = self.nand.program(now, op.unit, &self.spares);
        self.sent(now, index, op.die, end, cx);
    }

    /// A program has ended: its pages are on flash, or have to go elsewhere.
    pub(super) fn land<S: Storage>(
        &mut self,
        now: Nanos,
        index: u32,
        outcome: Outcome,
        cx: &mut SetContext<'_, S>,
    ) {
        let op = self.ops[index as usize];
        self.ops[index as usize].programming = false;
        self.superblocks.all[op.superblock as usize].ops -= 1;
        let start = (index * self.geo.unit_pages) as usize;
        if outcome == Outcome::Failed {
            self.program_failed(now, op, start, cx);
        } else {
            let first = op.unit.0 * self.geo.unit_pages;
            for i in 0..op.moves {
                let page_move = self.moves[start + i as usize];
                match op.relocated {
                    true => self.land_cold(page_move, first + i, op.superblock, cx),
                    false => self.land_host(now, page_move, first + i, op.superblock, cx),
                }
            }
            // What landed as garbage names no contents by now.
            if self.durable {
                self.spares.clear();
                self.spares
                    .extend((first..first + self.geo.unit_pages).map(|p| self.nand.inner().spare(Page(p))));
                cx.storage.record(Record::Program { set: self.id.0, unit: op.unit, spares: &self.spares });
            }
        }
        if op.relocated {
            self.gc.ops -= 1;
        }
        self.free_ops.push(index);
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
            let at = self.map[page_move.page as usize];
            debug_assert!(at != UNMAPPED && at & BUFFERED != 0);
            let current = at == BUFFERED | page_move.source;
            let holder = self.buffer.entry_mut(at ^ BUFFERED);
            let old = std::mem::replace(&mut holder.old, if current { NONE } else { to });
            if current {
                self.map[page_move.page as usize] = to;
            }
            self.validate(to, superblock);
            if old != NONE {
                self.invalidate(old, cx);
            }
            if self.durable && bit(&self.trimmed, page_move.page) {
                clear_bit(&mut self.trimmed, page_move.page);
                let (set, version) = (self.id.0, entry.version);
                cx.storage.record(Record::Trim {
                    set,
                    first: page_move.page,
                    count: 1,
                    version,
                    gone: false,
                });
            }
            self.supersede_older(now, entry, cx);
        } else if self.durable {
            self.drop_contents(to, cx);
        }
        self.give_up_entry(now, page_move.source, cx);
    }

    /// Nobody needs the versions of a page any more that are older than this entry.
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

    /// Nobody needs an entry any more: if it is on its way to flash it lands as garbage, otherwise it goes.
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
    fn land_cold<S: Storage>(
        &mut self,
        page_move: PageMove,
        to: u32,
        superblock: u32,
        cx: &mut SetContext<'_, S>,
    ) {
        let source = page_move.flash();
        let at = self.map[page_move.page as usize];
        if at == source {
            self.map[page_move.page as usize] = to;
            if self.durable
                && page_move.source != source
                && has_contents(self.nand.inner().slot(Page(source)))
            {
                self.lost.lose(self.id, page_move.page, cx.volumes);
            }
        } else if at != UNMAPPED && at & BUFFERED != 0 && self.buffer.entry(at ^ BUFFERED).old == source {
            self.buffer.entry_mut(at ^ BUFFERED).old = to;
        } else {
            if self.durable {
                self.drop_contents(to, cx);
            }
            return;
        }
        self.validate(to, superblock);
        // It is the victim's for as long as anything of it is on its way.
        self.invalidate_of(source, self.gc.victim(), cx);
    }

    pub(super) fn chunk_landed<S: Storage>(&mut self, number: u64, now: Nanos, cx: &mut SetContext<'_, S>) {
        for flush in self.flushes.iter_mut().filter(|f| number < f.mark) {
            flush.left -= 1;
        }
        self.flushes.retain(|f| {
            if f.left == 0 {
                cx.done.push(Done { io: f.io, at: now, result: Ok(()) });
            }
            f.left > 0
        });
    }

    /// A program failed: its pages go elsewhere, its block is used no more once it is collected.
    fn program_failed<S: Storage>(
        &mut self,
        now: Nanos,
        op: ProgramOp,
        start: usize,
        cx: &mut SetContext<'_, S>,
    ) {
        self.stats.media_failures += 1;
        cx.storage.record(Record::Spoil { set: self.id.0, unit: op.unit });
        // The unit is on the medium: it was programmed.
        let _ = self.nand.apply_bad(op.unit);
        self.count_usable(op.superblock);
        cx.storage.record(Record::Retire { set: self.id.0, unit: op.unit });
        self.check_spare(now, cx);
        if self.durable {
            for i in start..start + op.moves as usize {
                let slot = self.carried[i];
                if has_contents(slot) {
                    cx.storage.release(slot);
                }
            }
        }
        if op.relocated {
            self.gc.start_over();
            return;
        }
        // First those that nobody needs: what is put back is counted without them.
        for i in 0..op.moves as usize {
            let entry = self.moves[start + i].source;
            if self.buffer.entry(entry).old == SUPERSEDED {
                self.give_up_entry(now, entry, cx);
            }
        }
        // The last first, so that they wait in the order in which they did.
        for i in (0..op.moves as usize).rev() {
            self.buffer.put_back(self.moves[start + i].source);
        }
    }

    fn give_up_entry<S: Storage>(&mut self, now: Nanos, index: u32, cx: &mut SetContext<'_, S>) {
        if self.durable {
            cx.storage.release(self.buffer.entry(index).slot);
        }
        if let Some(number) = self.buffer.land(index) {
            self.chunk_landed(number, now, cx);
        }
    }
}
