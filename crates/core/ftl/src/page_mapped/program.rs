//! Programs: from the write buffer or the collector to a die.

use super::PageMappedSet;
use super::map::has_contents;
use super::ops::{NO_OP, PageMove, ProgramOp};
use crate::context::SetContext;
use crate::flash::{Order, Target};
use crate::lost::LOST;
use crate::storage::Storage;
use media::{LogicalPage, Medium, Nanos, Page, Slot, Spare};

impl PageMappedSet {
    /// Whether the buffer has a unit to program.
    #[inline]
    pub(super) fn host_is_ready(&self) -> bool {
        self.buffer.waiting_pages() > 0
            && (0..self.streams.hosts()).any(|stream| self.stream_is_ready(stream))
    }

    /// Whether there is a unit to program for a host stream: a full one, or what there is if somebody waits for it.
    #[inline]
    pub(super) fn stream_is_ready(&self, stream: usize) -> bool {
        let waiting = self.buffer.waiting_of(stream);
        waiting >= self.flash.geo().unit_pages
            || (waiting > 0 && !self.flushes.is_empty())
            || (waiting > 0 && self.is_room_wanted() && self.must_make_room(stream))
            || (waiting > 0 && self.streams.closes_at(stream) != 0)
    }

    /// Whether a write waits for room in the buffer, or a page of a zone.
    #[inline]
    fn is_room_wanted(&self) -> bool {
        self.stray_waits || !self.waiting.is_empty()
    }

    /// Whether the buffer is stuck and this is the stream that it is drained for.
    #[cold]
    fn must_make_room(&self, stream: usize) -> bool {
        self.buffer.is_stuck() && self.buffer.fullest() == stream
    }

    /// Sends one unit of waiting pages to flash, if there is one and its die has room; the host streams take turns. Whether something
    /// changed by it.
    pub(super) fn program_host<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        // While collection is held back, it is not waited for.
        let may = self.gc.lets_host() || self.gc.paused;
        if self.buffer.waiting_pages() == 0
            || !may
            || self.ops.are_all_taken()
            || self.room_is_for_collection()
        {
            return false;
        }
        for _ in 0..self.streams.hosts() {
            let stream = self.streams.next_turn();
            if self.stream_is_ready(stream) && self.program_stream(now, stream, cx) {
                return true;
            }
        }
        false
    }

    #[inline]
    fn program_stream<S: Storage>(&mut self, now: Nanos, stream: usize, cx: &mut SetContext<'_, S>) -> bool {
        let was_open = self.streams.get(stream).is_open();
        let Some(target) = self.next_unit(now, stream, false, cx) else {
            // If the stream lacks a superblock now, collection must look again.
            return was_open && !self.streams.get(stream).is_open();
        };
        let Some(op) = self.ops.take() else { return false };
        let entries = &mut self.scratch.entries;
        entries.clear();
        self.buffer.take(stream, self.flash.geo().unit_pages, entries);
        for (page_move, &index) in self.ops.pages_mut(op, 0).iter_mut().zip(entries.iter()) {
            *page_move = PageMove { page: self.buffer.entry(index).page, source: index };
        }
        let moves = entries.len() as u32;
        if !self.gc.paused {
            self.gc.host_wrote(moves);
        }
        *self.ops.get_mut(op) =
            ProgramOp { moves, relocated: false, paid: false, programming: false, next: NO_OP };
        self.program(now, op, target, cx);
        if self.streams.closes_at(stream) != 0 {
            self.close_handle(stream);
        }
        true
    }

    /// Sends one gathered unit to flash, if there is one and its die has room.
    pub(super) fn program_collected<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        if self.gc.ready.is_empty() {
            return false;
        }
        let stream = self.collecting_stream();
        let Some(target) = self.next_unit(now, stream, true, cx) else {
            if !self.streams.get(stream).is_open() {
                // Without a superblock to write to, what is on its way may be all that there is to wait for.
                self.await_all(now, cx);
            }
            // The stream's last superblock may have ended just now, and another relocation stream has one.
            return self.collecting_stream() != stream;
        };
        let Some(op) = self.gc.send() else { return false };
        self.program(now, op, target, cx);
        true
    }

    fn program<S: Storage>(&mut self, now: Nanos, index: u32, target: Target, cx: &mut SetContext<'_, S>) {
        let op = *self.ops.get(index);
        let (set, durable, unit_pages) =
            (self.flash.id(), self.flash.is_durable(), self.flash.geo().unit_pages);
        let spares = &mut self.scratch.spares;
        spares.clear();
        let mut charge = |page: u32, pages: u32| {
            if !op.paid
                && let Some(volume) = cx.volumes.owner_mut(set, page)
            {
                volume.charge(pages, op.relocated);
            }
        };
        let (moves, carried) = self.ops.pages_with_contents(index);
        for (i, page_move) in moves.iter().enumerate() {
            // What was deallocated meanwhile is programmed all the same: the deallocation is known elsewhere, and newer.
            let mut spare = Spare { page: LogicalPage(page_move.page), version: 0, slot: Slot::NONE };
            if durable {
                (spare.version, spare.slot) = match op.relocated {
                    true => {
                        let source = self.flash.nand.inner().spare(Page(page_move.flash()));
                        (source.version, if page_move.is_readable() { source.slot } else { LOST })
                    }
                    false => {
                        let source = self.buffer.entry(page_move.source);
                        (source.version, source.slot)
                    }
                };
                carried[i] = spare.slot;
                if has_contents(spare.slot) {
                    cx.storage.retain(spare.slot);
                }
            }
            spares.push(spare);
            charge(page_move.page, 1);
            if !op.relocated {
                // What its landing will want.
                self.map.prefetch(page_move.page);
                let old = self.buffer.entry(page_move.source).old;
                self.valid.prefetch(old);
                if durable {
                    self.flash.nand.inner().prefetch_slot(Page(old));
                }
            }
        }
        let padding = unit_pages - op.moves;
        if padding > 0 {
            spares.resize(unit_pages as usize, Spare::EMPTY);
            charge(moves[0].page, padding);
        }
        self.ops.get_mut(index).programming = true;
        let watched = !op.relocated || self.gc.awaits_ends();
        let order = Order { op: index, relocated: op.relocated, watched };
        if self.flash.program(now, target, order, &self.scratch.spares, cx.events) {
            self.land_ended(now, target.die, cx);
        }
    }
}
