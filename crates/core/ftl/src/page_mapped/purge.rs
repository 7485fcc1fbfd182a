//! Erasing everything: all pages are deallocated, and every superblock that was written is erased, in the time that
//! its dies take.

use super::map::{UNMAPPED, has_contents};
use super::{PageMappedSet, Purge};
use crate::answer::CompletedIo;
use crate::context::SetContext;
use crate::flash::{Superblock, SuperblockState, ZONES};
use crate::storage::{Io, Storage};
use media::Nanos;

impl PageMappedSet {
    /// Begins to erase everything; `io` is done when it is. What is on its way to flash is let land first.
    pub fn start_purge<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) {
        self.purge = Some(Purge { io, queued: false });
        if self.holds_anything() {
            self.deallocate(now, 0, self.capacity, cx);
        }
        self.pump(now, cx);
    }

    /// Whether any page is mapped, without a look at each.
    fn holds_anything(&self) -> bool {
        self.valid.is_any() || self.buffer.entries().any(|(_, entry)| self.map.at(entry.page) != UNMAPPED)
    }

    /// Asks for the contents of all logical pages that `mine` names, which have been deallocated, to be erased: what is on its way
    /// to flash still refers to them.
    pub fn scrub_under_way<S: Storage>(&self, mine: impl Fn(u32) -> bool, cx: &mut SetContext<'_, S>) {
        for (_, entry) in self.buffer.entries().filter(|(_, e)| mine(e.page)) {
            cx.storage.scrub(entry.slot);
        }
        for (_, slot) in self.ops.carried().filter(|&(page, _)| mine(page)) {
            if has_contents(slot) {
                cx.storage.scrub(slot);
            }
        }
    }

    /// Takes a purge one step on; whether anything was done.
    pub(super) fn purge_step<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let Some(Purge { io, queued }) = self.purge else { return false };
        if queued {
            let ended = self.flash.superblocks().erasing() == 0;
            if ended {
                self.purge = None;
                cx.done.push(CompletedIo { io, at: now, result: Ok(()) });
            }
            return ended;
        }
        // A victim of the collector has nothing left to be moved, and is let go by the collector itself.
        if self.gc.is_active() || self.ops.taken() > 0 {
            return false;
        }
        self.streams.close_all();
        for superblock in 0..self.flash.geo().superblocks {
            let Superblock { state, writer, .. } = *self.flash.superblocks().get(superblock);
            if writer != ZONES && matches!(state, SuperblockState::Open | SuperblockState::Sealed) {
                self.flash.give_up(superblock);
            }
        }
        self.purge = Some(Purge { io, queued: true });
        true
    }
}
