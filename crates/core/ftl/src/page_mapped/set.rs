//! What the set on NAND asks of its page-mapped part, beside reads and writes.

use super::PageMappedSet;
use super::buffer::NONE;
use super::map::{BUFFERED, UNMAPPED};
use crate::answer::PlacementNote;
use crate::context::{Event, SetContext};
use crate::flash::Flash;
use crate::lost::LostPages;
use crate::storage::{Record, Storage};
use media::{Nanos, Page, Spare};
use std::ops::Range;

impl PageMappedSet {
    /// The flash below.
    #[inline]
    pub fn flash(&self) -> &Flash {
        &self.flash
    }

    /// The flash below.
    #[inline]
    pub fn flash_mut(&mut self) -> &mut Flash {
        &mut self.flash
    }

    /// How many of these pages hold something.
    pub fn mapped_among(&self, pages: Range<u32>) -> u64 {
        self.map.mapped_among(pages)
    }

    /// Logical pages that hold something, of all.
    pub fn all_mapped(&self) -> u64 {
        let buffered = self.buffer.entries().filter(|(_, entry)| entry.old == NONE);
        self.valid.all() + buffered.count() as u64
    }

    /// Whether something waits for slots, and no event will tell when there is one.
    #[inline]
    pub fn lacks_slots(&self) -> bool {
        self.lacks_slots
    }

    /// Tries again what waits for slots; whether anything did.
    #[inline]
    pub fn retry<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        if std::mem::take(&mut self.lacks_slots) {
            self.pump(now, cx);
        }
    }

    /// An event of its own is due at `now`. Whether it goes on by it: then [`pump`](PageMappedSet::pump) follows.
    #[inline]
    pub fn handle<S: Storage>(&mut self, now: Nanos, event: Event, cx: &mut SetContext<'_, S>) -> bool {
        match event {
            Event::Programmed(die) => self.programmed(now, die, cx),
            Event::Gathered(chain) => {
                self.gathered(chain);
                true
            }
            Event::ZonesAged | Event::Disk => false,
            Event::Erased(unit) => self.flash.erased(now, unit, cx.events, cx.storage),
        }
    }

    /// Pages that were found to be lost.
    pub fn lost(&mut self) -> &mut LostPages {
        &mut self.lost
    }

    /// Begins to bring a page's map entry into the host's cache.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        self.map.prefetch(page);
    }

    /// Begins to bring the spare area of a page's copy into the host's cache.
    #[inline]
    pub fn prefetch_place(&self, page: u32) {
        let at = self.map.at(page);
        if at != UNMAPPED && at & BUFFERED == 0 {
            self.flash.nand.inner().prefetch(Page(at));
        }
    }

    /// Placement handles.
    pub fn handles(&self) -> usize {
        self.streams.handles()
    }

    /// Holds collection back, or lets it go on. What it has begun to program or erase ends.
    pub fn set_gc_paused(&mut self, paused: bool) {
        self.gc.paused = paused;
    }

    /// Whether collection is held back.
    pub fn is_gc_paused(&self) -> bool {
        self.gc.paused
    }

    /// Whether notes of reclaim units are taken.
    pub fn take_notes(&mut self, wanted: bool) {
        self.notes.want(wanted);
    }

    /// What was noted since the last time, oldest first.
    pub fn notes(&mut self) -> Vec<PlacementNote> {
        self.notes.take()
    }

    /// Power is lost, and maybe with it what was not saved; the journal hears of it. Returns what the capacitors saved.
    pub fn power_cut<S: Storage>(
        &mut self,
        now: Nanos,
        saved: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Vec<Spare> {
        if !saved && self.flash.is_durable() {
            cx.storage.record(Record::Lose { set: self.flash.id().0 });
        }
        self.lose_power(now, saved, cx)
    }
}
