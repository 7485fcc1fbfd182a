//! Where logical pages are, and what entries of the map and spare areas say.

use crate::lost::LOST;
use media::Slot;
use media::tables::{Table, prefetch};
use std::ops::Range;

/// Map entry of a page that holds nothing.
pub(super) const UNMAPPED: u32 = u32::MAX;
/// Bit of a map entry that names a buffer entry instead of a flash page.
pub(super) const BUFFERED: u32 = 1 << 31;
/// What the spare area of a copy that is out of date names: its contents were given up.
pub(crate) const STALE: Slot = Slot(u32::MAX - 2);

/// Whether a copy on flash with this handle refers to contents.
#[inline]
pub(crate) fn has_contents(slot: Slot) -> bool {
    slot != LOST && slot != STALE
}

/// Logical page to flash page, buffer entry or nothing.
#[derive(Clone, Default)]
pub(super) struct PageMap {
    /// Complements of the entries: [`UNMAPPED`] is zero, so that what was never mapped takes no memory.
    complements: Table<u32>,
}

impl PageMap {
    /// Holds nothing, for so many logical pages.
    pub fn new(pages: u32) -> PageMap {
        PageMap { complements: Table::zeros(pages as usize) }
    }

    /// For how many logical pages it is.
    pub fn len(&self) -> usize {
        self.complements.len()
    }

    /// The entry of a logical page.
    #[inline]
    pub fn at(&self, page: u32) -> u32 {
        !self.complements[page as usize]
    }

    /// The entry of a logical page, if there is such a page.
    #[inline]
    pub fn get(&self, page: u32) -> Option<u32> {
        self.complements.get(page as usize).map(|at| !at)
    }

    /// Changes the entry of a logical page.
    #[inline]
    pub fn set(&mut self, page: u32, at: u32) {
        self.complements[page as usize] = !at;
    }

    /// How many of these pages hold something.
    pub fn mapped_among(&self, pages: Range<u32>) -> u64 {
        // Entries side by side, without a look at the bounds of each: large drives have a thousand million.
        let entries = &self.complements[pages.start as usize..pages.end as usize];
        entries.iter().filter(|complement| **complement != !UNMAPPED).count() as u64
    }

    /// Begins to bring the entry of a page into the host's cache. There need be no such page.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        prefetch(&self.complements, page);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = PageMap::new(self.complements.len() as u32);
    }
}
