//! Pages of volumes whose contents are lost.

use super::Ftl;
use crate::set::NvmSet;
use crate::volume::{SetId, VolumeId};

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
            lost.forget_rewritten(|page| set.slot_of(page));
            found.extend(lost.iter().filter_map(|page| self.volumes.place_of(SetId(i as u8), page)));
            *set.lost() = lost;
        }
        found.sort_unstable();
        found
    }
}
