//! Volumes with zones.

use super::Ftl;
use crate::answer::{Answer, Fault, STEP_EMPTY_FACTOR, StepDone};
use crate::config::PAGE;
use crate::sets::Set;
use crate::storage::{Io, Storage};
use crate::volume::{SetId, VolumeId};
use crate::zone::{ZoneAction, ZoneInfo, ZoneLayout, ZoneSupport, ZoneTarget};
use crate::zoned_set::{ZoneCommand, ZonedSet};
use media::Nanos;

impl Ftl {
    /// What zones a set can have; `None` if none, or if there is no such set.
    pub fn zone_support(&self, set: SetId) -> Option<ZoneSupport> {
        self.set(set)?.zoned()?.support()
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
        let zones =
            self.sets.get_mut(usize::from(set.0)).and_then(Set::zoned_mut).ok_or(Fault::OutOfRange)?;
        let support = zones.support().ok_or(Fault::OutOfRange)?;
        if !layout.fits(&support) || layout.max_active > support.active {
            return Err(Fault::OutOfRange);
        }
        let volume = self.volumes.create(set, layout.bytes(), Some(layout)).ok_or(Fault::NoSpace)?;
        zones.create(volume, layout);
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
        self.set(set)?.zoned()?.zone(volume, zone)
    }

    /// Whether sets have changed zones by themselves, and nobody has asked [which](Ftl::changed_zones).
    #[inline]
    pub fn has_changed_zones(&self) -> bool {
        self.sets.iter().filter_map(Set::zoned).any(ZonedSet::has_changed)
    }

    /// The zones that a set changed by itself since this was asked last: what it recommends of them, those that it finished as time passed,
    /// and those that are worn out.
    pub fn changed_zones(&mut self, set: SetId) -> Vec<(VolumeId, u32)> {
        let zones = self.sets.get_mut(usize::from(set.0)).and_then(Set::zoned_mut);
        zones.map_or_else(Vec::new, ZonedSet::changed)
    }

    /// The byte of a volume where an append of so many bytes to the zone that begins at byte `zone` goes: its write pointer, where the
    /// write is to begin.
    ///
    /// # Errors
    /// If no zone begins there, its state allows no write, or too little is left of it.
    pub fn append_at(&self, volume: VolumeId, zone: u64, bytes: u32) -> Result<u64, Fault> {
        let set = self.volumes.get(volume).ok_or(Fault::OutOfRange)?.set;
        self.set(set).and_then(Set::zoned).ok_or(Fault::OutOfRange)?.append_at(volume, zone, bytes)
    }

    /// Gives up what is in a volume of so many bytes, from byte `start` on, as far as one step of the drive may go: pages are
    /// deallocated as [`trim_step`](Ftl::trim_step) does it, or one zone is reset. Blocks are erased later.
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn clear_step(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        start: u64,
        bytes: u64,
        storage: &mut impl Storage,
    ) -> Result<StepDone, Fault> {
        let Some(layout) = self.volumes.get(volume).and_then(|v| v.zones) else {
            return self.trim_step(now, volume, start, bytes.saturating_sub(start), storage);
        };
        self.advance(now, storage);
        let set = self.volumes.get(volume).ok_or(Fault::OutOfRange)?.set;
        let Ok(zone) = u32::try_from(start / layout.size) else { return Err(Fault::OutOfRange) };
        if zone < layout.zones {
            let zones = self.sets[usize::from(set.0)].zoned_mut().ok_or(Fault::OutOfRange)?;
            zones.clear(now, volume, zone, context!(self, storage));
        }
        Ok(StepDone { bytes: layout.size, work: layout.capacity / u64::from(PAGE) * STEP_EMPTY_FACTOR })
    }

    /// Whether the answer to a command on a volume's zones waits for the erase of blocks. Several calls of
    /// [`manage_zones`](Ftl::manage_zones) for one command have one answer while it does.
    pub fn awaits_erase(&self, volume: VolumeId, io: Io) -> bool {
        let set = self.volumes.get(volume).and_then(|volume| self.set(volume.set));
        set.and_then(Set::zoned).is_some_and(|zones| zones.awaits_erase(io))
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
        let set = self.volumes.get(volume).map(|volume| volume.set);
        match set.and_then(|set| self.sets[usize::from(set.0)].zoned_mut()) {
            Some(zones) => {
                let command = ZoneCommand { io, volume, target, action };
                zones.manage(now, command, context!(self, storage))
            }
            None => Answer::Failed(Fault::OutOfRange),
        }
    }
}
