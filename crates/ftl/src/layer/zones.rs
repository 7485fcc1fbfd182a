//! Volumes with zones.

use super::Ftl;
use crate::answer::{Answer, Fault};
use crate::set::NvmSet;
use crate::storage::{Io, Storage};
use crate::volume::{SetId, VolumeId};
use crate::zone::{ZoneAction, ZoneInfo, ZoneLayout, ZoneSupport, ZoneTarget};
use media::Nanos;

impl Ftl {
    /// What zones a set can have; `None` if none, or if there is no such set.
    pub fn zone_support(&self, set: SetId) -> Option<ZoneSupport> {
        self.set(set)?.zone_support()
    }

    /// Makes a volume with zones, all of them empty. Each takes as much of the set's capacity as can be written to it, in granules of 1 MiB.
    ///
    /// # Errors
    /// [`Fault::OutOfRange`] if the set has no such zones; [`Fault::NoSpace`] if too little is unallocated.
    pub fn create_zoned(
        &mut self,
        set: SetId,
        layout: ZoneLayout,
        storage: &mut impl Storage,
    ) -> Result<VolumeId, Fault> {
        let support = self.zone_support(set).ok_or(Fault::OutOfRange)?;
        if !layout.fits(&support) || layout.max_active > support.active {
            return Err(Fault::OutOfRange);
        }
        let volume = self.volumes.create(set, layout.bytes(), Some(layout)).ok_or(Fault::NoSpace)?;
        self.sets[usize::from(set.0)].create_zones(volume, layout);
        self.record_volumes(storage);
        Ok(volume)
    }

    /// The zones of a volume; `None` if it has none.
    pub fn zone_layout(&self, volume: VolumeId) -> Option<ZoneLayout> {
        self.volumes.get(volume)?.zones
    }

    /// A zone; `None` if there is none.
    pub fn zone(&self, volume: VolumeId, zone: u32) -> Option<ZoneInfo> {
        let set = self.volumes.get(volume)?.set;
        self.set(set)?.zone(volume, zone)
    }

    /// The zones that a set changed by itself since this was asked last: what it recommends of them, those that it finished as time passed,
    /// and those that are worn out.
    pub fn changed_zones(&mut self, set: SetId) -> Vec<(VolumeId, u32)> {
        self.sets.get_mut(usize::from(set.0)).map_or_else(Vec::new, NvmSet::changed_zones)
    }

    /// The byte of a volume where an append of so many bytes to the zone that begins at byte `zone` goes: its write pointer, where the
    /// write is to begin.
    ///
    /// # Errors
    /// If no zone begins there, its state allows no write, or too little is left of it.
    pub fn append_at(&self, volume: VolumeId, zone: u64, bytes: u32) -> Result<u64, Fault> {
        let set = self.volumes.get(volume).ok_or(Fault::OutOfRange)?.set;
        self.set(set).ok_or(Fault::OutOfRange)?.append_at(volume, zone, bytes)
    }

    /// Gives up everything in a volume of so many bytes: all pages are deallocated, or all zones reset. Blocks are erased later.
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn clear(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        bytes: u64,
        storage: &mut impl Storage,
    ) -> Result<Nanos, Fault> {
        if !self.is_zoned(volume) {
            return self.trim(now, volume, 0, bytes, storage);
        }
        self.advance(now, storage);
        let set = self.volumes.get(volume).ok_or(Fault::OutOfRange)?.set;
        self.sets[usize::from(set.0)].clear_zones(now, volume, context!(self, storage));
        Ok(now)
    }

    /// Does what a host asks of a volume's zones. A reset is done when the blocks are erased.
    pub fn manage_zones(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        target: ZoneTarget,
        action: ZoneAction<'_>,
        storage: &mut impl Storage,
    ) -> Answer {
        self.advance(now, storage);
        let Some(set) = self.volumes.get(volume).map(|volume| volume.set) else {
            return Answer::Failed(Fault::OutOfRange);
        };
        self.sets[usize::from(set.0)].manage_zones(now, io, volume, target, action, context!(self, storage))
    }
}
