//! Which pages are lost, so that no caller has to look through all of them.

use crate::volume::{SetId, Volumes};
use media::Slot;
use std::collections::BTreeSet;

/// Handle of contents that were lost to an uncorrectable error: reads of it fail until it is rewritten.
pub(crate) const LOST: Slot = Slot(u32::MAX - 1);

/// Logical pages of a set that were found to be lost. Pages that were written or deallocated since leave the list at the next question,
/// so that a write need not look here.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostPages(BTreeSet<u32>);

impl LostPages {
    /// A page that could be read until now is lost.
    pub fn lose(&mut self, set: SetId, page: u32, volumes: &mut Volumes) {
        self.0.insert(page);
        volumes.lose(set, page);
    }

    /// A page is found to be lost when power comes back: nothing new if it was before.
    pub fn find(&mut self, set: SetId, page: u32, volumes: &mut Volumes) {
        if self.0.insert(page) {
            volumes.lose(set, page);
        }
    }

    /// Forgets the pages that are not lost any more: `slot_of` gives a page's handle.
    pub fn forget_rewritten(&mut self, slot_of: impl Fn(u32) -> Option<Slot>) {
        self.0.retain(|&page| slot_of(page) == Some(LOST));
    }

    /// The pages, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}
