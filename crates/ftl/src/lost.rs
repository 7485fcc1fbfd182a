//! Which pages are lost, so that nobody need look through all of them.

use crate::set::NvmSet;
use crate::volume::Volumes;
use crate::{Ftl, SetId, VolumeId};
use media::Slot;
use std::collections::BTreeSet;

/// Handle of contents that were lost to an uncorrectable error: reads of it fail until it is rewritten.
pub(crate) const LOST: Slot = Slot(u32::MAX - 1);
/// Logical pages of a set that were found to be lost. Those that were written or given up since are dropped when somebody asks, so that
/// writes have nothing to do with it.
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

    /// Forgets those that are not lost any more, by what `slot_of` a page says.
    fn look(&mut self, slot_of: impl Fn(u32) -> Option<Slot>) {
        self.0.retain(|&page| slot_of(page) == Some(LOST));
    }
}

impl Ftl {
    /// How many pages of volumes were found to be lost since the drive is in memory: it grows when [`lost_pages`](Ftl::lost_pages) has
    /// more to tell.
    #[inline]
    pub fn losses(&self) -> u64 {
        self.volumes.losses()
    }

    /// The same of one volume.
    pub fn volume_losses(&self, volume: VolumeId) -> u64 {
        self.volumes.get(volume).map_or(0, |v| v.losses)
    }

    /// Pages of volumes whose contents are lost ([`PageState::Lost`](crate::PageState::Lost)), in their order. No medium is asked, and
    /// pages that were never lost are not looked at.
    pub fn lost_pages(&mut self) -> Vec<(VolumeId, u64)> {
        let mut found = Vec::new();
        for (i, set) in self.sets.iter_mut().enumerate() {
            let mut lost = std::mem::take(set.lost());
            lost.look(|page| set.slot_of(page));
            found.extend(lost.0.iter().filter_map(|&page| self.volumes.place_of(SetId(i as u8), page)));
            *set.lost() = lost;
        }
        found.sort_unstable();
        found
    }
}
