//! What zones may ask of the page-mapped part of a set, with which they share the flash. This is the whole contract of the two.
//!
//! - Both open superblocks of one [`Flash`] and program its dies. The page-mapped part takes the ends of all programs of a die, and
//!   collects while the zones want a superblock.
//! - A page of a zone that cannot be in its place is a *stray*: it is stored here, under its logical page. All strays of a zone are dropped
//!   when they are in their places, or when the zone is given up.
//! - The set's spare blocks are for the pages of both. The zones say for how many of theirs they need none.

use super::PageMappedSet;
use super::bits::set_bit;
use super::map::{BUFFERED, UNMAPPED};
use crate::answer::{Answer, Fault};
use crate::context::SetContext;
use crate::flash::Flash;
use crate::storage::{Io, Storage};
use media::{Nanos, Slot, Spare};

/// The page-mapped part of a set, as its zones know it. Pages are logical pages of the set.
pub(crate) struct SharedFlash<'a>(&'a mut PageMappedSet);

impl<'a> SharedFlash<'a> {
    #[inline]
    pub fn new(mapped: &'a mut PageMappedSet) -> SharedFlash<'a> {
        SharedFlash(mapped)
    }

    /// The flash below.
    #[inline]
    pub fn flash(&self) -> &Flash {
        &self.0.flash
    }

    /// The flash below.
    #[inline]
    pub fn flash_mut(&mut self) -> &mut Flash {
        &mut self.0.flash
    }

    /// Takes what has ended on a die; whether anything has. Programs of zones are in [`Flash::ended_of_zones`] then.
    #[inline]
    pub fn land_ended<S: Storage>(&mut self, now: Nanos, die: u32, cx: &mut SetContext<'_, S>) -> bool {
        self.0.land_ended(now, die, cx)
    }

    /// Reads flash pages of one sense. Returns the end; sets a fault if they cannot be read.
    #[inline]
    pub fn sense(&mut self, now: Nanos, first: u32, count: u32, fault: &mut Option<Fault>) -> Nanos {
        self.0.sense(now, first, count, fault)
    }

    /// Programs strays, and collects for a superblock that is wanted.
    pub fn pump<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.0.pump(now, cx);
    }

    /// The zones want so many superblocks: collection frees as many more.
    #[inline]
    pub fn want_superblocks(&mut self, superblocks: u32) {
        self.0.wanted = superblocks;
    }

    /// Whether zones may open a superblock: enough stay for collection and for host writes of pages.
    pub fn spares_superblock(&self) -> bool {
        let kept = self.0.gc.config.low.max(2) + self.0.streams.kept_for_hosts();
        self.0.flash.superblocks().free() >= kept as usize
    }

    /// Whether spare superblocks are used up, so that nothing more can be written.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.0.read_only
    }

    /// Whether there is spare for what the set holds.
    pub fn has_spare(&self) -> bool {
        self.0.has_spare()
    }

    /// Whether there would be if zones needed none for so many pages.
    pub fn would_have_spare(&self, spared: u32) -> bool {
        self.0.would_have_spare(spared)
    }

    /// The zones need no spare for so many pages.
    pub fn set_spared(&mut self, pages: u32) {
        assert!(pages <= self.0.capacity, "zones of {pages} pages need no spare");
        self.0.spared = pages;
    }

    /// Ends the set's life in time.
    pub fn check_spare<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.0.check_spare(now, cx);
    }

    /// Stores a stray: its contents, which stay the zone's, too. Whether there is room.
    pub fn store_stray<S: Storage>(&mut self, page: u32, slot: Slot, cx: &mut SetContext<'_, S>) -> bool {
        let set = &mut *self.0;
        let chunk = set.open_chunk(page);
        set.stray_waits = chunk.is_none() && !set.buffer.has_room();
        if set.stray_waits {
            return false;
        }
        if set.flash.is_durable() {
            cx.storage.retain(slot);
        }
        set.admit_page(page, slot, chunk, 0, cx);
        assert_ne!(set.map.at(page), UNMAPPED, "stray {page} is lost");
        true
    }

    /// The contents of a stray, and its flash page if it is on flash; `None` if the page is none.
    #[inline]
    pub fn locate_stray(&self, page: u32) -> Option<(Slot, u32)> {
        self.0.locate(page)
    }

    /// A stray as it is on flash, or will be; `None` if the page is none.
    pub fn stray(&self, page: u32) -> Option<Spare> {
        match self.0.map.at(page) {
            UNMAPPED => None,
            at if at & BUFFERED != 0 => Some(self.0.buffer.entry(at ^ BUFFERED).spare()),
            at => Some(self.0.flash.spare(at)),
        }
    }

    /// Drops a page, if it is a stray.
    pub fn drop_stray<S: Storage>(&mut self, now: Nanos, page: u32, cx: &mut SetContext<'_, S>) {
        if self.0.map.at(page) != UNMAPPED {
            self.0.deallocate(now, page, 1, cx);
        }
    }

    /// Drops the strays among `count` pages from `first`.
    pub fn drop_strays<S: Storage>(
        &mut self,
        now: Nanos,
        first: u32,
        count: u32,
        cx: &mut SetContext<'_, S>,
    ) {
        self.0.deallocate(now, first, count, cx);
    }

    /// Pages of a zone were given up, as the journal knows: no copy of them on flash counts.
    pub fn note_given_up(&mut self, first: u32, count: u32) {
        for page in first..first + count {
            set_bit(&mut self.0.trimmed, page);
        }
    }

    /// Brings all strays to flash, with everything else that was accepted here.
    pub fn drain<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        self.0.drain_buffer(now, io, cx)
    }
}
