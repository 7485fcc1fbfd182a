//! Erasing everything: all pages are deallocated, and every superblock that was written is erased, in the time that
//! its dies take.

use super::superblock::{State, Stream};
use super::{NandSet, has_contents};
use crate::answer::Done;
use crate::context::SetContext;
use crate::storage::{Io, Storage};
use media::{Nanos, Slot};

/// A purge under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purge {
    io: Io,
    /// Whether every superblock that has to be erased waits for it.
    queued: bool,
}

impl NandSet {
    /// Begins to erase everything; `io` is done when it is. What is on its way to flash is let land first.
    pub(super) fn start_purge<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) {
        self.purge = Some(Purge { io, queued: false });
        self.deallocate(now, 0, self.capacity, cx);
        self.pump(now, cx);
    }

    /// Asks for the contents of all logical pages that `mine` names, which have been deallocated, to be erased: what is on its way
    /// to flash still refers to them.
    pub(super) fn scrub_under_way<S: Storage>(&self, mine: impl Fn(u32) -> bool, cx: &mut SetContext<'_, S>) {
        for (_, entry) in self.buffer.entries().filter(|(_, e)| mine(e.page)) {
            cx.storage.scrub(entry.slot);
        }
        for (_, slot) in self.carried().filter(|&(page, _)| mine(page)) {
            if has_contents(slot) {
                cx.storage.scrub(slot);
            }
        }
    }

    /// Logical pages of the programs under way, and the contents that each refers to.
    pub(super) fn carried(&self) -> impl Iterator<Item = (u32, Slot)> {
        let pages = self.geo.unit_pages as usize;
        let moves =
            move |(index, op): (usize, &super::ProgramOp)| index * pages..index * pages + op.moves as usize;
        let under_way = self.ops.iter().enumerate().filter(|(_, f)| f.programming && self.durable);
        under_way.flat_map(moves).map(|i| (self.moves[i].page, self.carried[i]))
    }

    /// Takes a purge one step on; whether anything was done.
    pub(super) fn purge_step<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let Some(Purge { io, queued }) = self.purge else { return false };
        if queued {
            let ended = self.superblocks.erasing.is_empty();
            if ended {
                self.purge = None;
                cx.done.push(Done { io, at: now, result: Ok(()) });
            }
            return ended;
        }
        // A victim of the collector has nothing left to be moved, and is let go by the collector itself.
        if self.gc.is_active() || self.free_ops.len() < self.ops.len() {
            return false;
        }
        self.streams.fill(Stream::default());
        self.open_handles = 0;
        for (index, block) in (0..).zip(&mut self.superblocks.all) {
            if matches!(block.state, State::Open | State::Sealed) {
                block.state = State::Erasing;
                self.superblocks.erasing.push_back(index);
            }
        }
        self.purge = Some(Purge { io, queued: true });
        true
    }
}
