//! Times without collection: a set collects ahead, and is then left alone by collection, wear levelling and erases until
//! what was freed is written.

use super::PageMappedSet;
use crate::config::PAGE;

impl PageMappedSet {
    /// Whether collection frees [`GcConfig::ahead`](crate::config::GcConfig::ahead) superblocks more than it needs.
    pub fn set_reserve(&mut self, on: bool) {
        self.gc.reserve = if on { self.gc.config.ahead } else { 0 };
        if !self.has_spare_ahead() {
            self.gc.reserve = 0;
        }
    }

    /// Pages that can be written before collection is needed.
    pub fn collection_free_room(&self) -> u64 {
        let free = self.flash.superblocks().free().saturating_sub(2) as u64;
        let open: u64 = (0..self.streams.hosts())
            .filter(|&h| self.streams.get(h).is_open())
            .map(|h| self.room_of(h))
            .sum();
        free * u64::from(self.flash.geo().pages_per_superblock()) + open / u64::from(PAGE)
    }

    /// Whether collection, which is held back, is to stay so; if there is no other way to go on writing, or everything
    /// is to be erased, it is not.
    #[cold]
    pub(super) fn stays_paused(&mut self) -> bool {
        self.gc.paused = self.purge.is_none() && self.flash.superblocks().free() >= 2;
        self.gc.paused
    }

    /// Whether there is spare for what is collected ahead; else collection would never end.
    pub(super) fn has_spare_ahead(&self) -> bool {
        let additional = self.streams.count() as u64 - 2 + self.streams.hosts() as u64 - 1;
        let kept = u64::from(self.gc.config.low) + u64::from(self.gc.reserve) + 2 + additional;
        let needed = kept * u64::from(self.flash.geo().pages_per_superblock());
        self.flash.superblocks().usable_pages() >= u64::from(self.capacity) + needed
    }
}
