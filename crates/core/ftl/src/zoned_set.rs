//! The contract of a set that can have zones, beside [`NvmSet`](crate::set::NvmSet). [`Set::zoned`](crate::sets::Set::zoned) says which
//! sets do.

use crate::answer::{Answer, Fault};
use crate::context::SetContext;
use crate::storage::{Io, Piece, Storage};
use crate::volume::{Extent, Volume, VolumeId};
use crate::write::Write;
use crate::zone::{ZoneAction, ZoneInfo, ZoneLayout, ZoneSupport, ZoneTarget};
use media::{Nanos, Slot};

/// What a host asks of zones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZoneCommand<'a> {
    pub io: Io,
    pub volume: VolumeId,
    pub target: ZoneTarget,
    pub action: ZoneAction<'a>,
}

/// The zones of a set. All volumes here are volumes with zones of this set.
pub(crate) trait ZonedSet {
    /// What zones it can have; `None` if none.
    fn support(&self) -> Option<ZoneSupport>;

    /// Makes the zones of a new volume, all empty.
    fn create(&mut self, volume: VolumeId, layout: ZoneLayout);

    /// Gives up all zones of a volume that goes.
    fn remove<S: Storage>(&mut self, now: Nanos, volume: VolumeId, cx: &mut SetContext<'_, S>);

    /// A zone; `None` if there is none.
    fn zone(&self, volume: VolumeId, zone: u32) -> Option<ZoneInfo>;

    /// Whether it has changed zones by itself since [`changed`](ZonedSet::changed) was asked last.
    fn has_changed(&self) -> bool;

    /// The zones that it changed by itself since this was asked last: recommendations, and zones that it finished.
    fn changed(&mut self) -> Vec<(VolumeId, u32)>;

    /// Bytes of a volume that hold data.
    fn written_bytes(&self, volume: VolumeId) -> u64;

    /// Handle of the contents of a page of a volume; `None` if it holds nothing.
    fn slot_of_zone(&self, id: VolumeId, volume: &Volume, page: u64) -> Option<Slot>;

    /// Reads, as [`NvmSet::read`](crate::set::NvmSet::read) does.
    fn read_zones<S: Storage, V: FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>>(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        visit: V,
    ) -> Answer;

    /// Accepts a write, as [`NvmSet::write`](crate::set::NvmSet::write) does. It starts at the write pointer of a zone, and moves it.
    fn write_zone<S: Storage>(&mut self, now: Nanos, write: Write, cx: &mut SetContext<'_, S>) -> Answer;

    /// The byte of the volume where an append of so many bytes to the zone that begins at `byte` goes.
    ///
    /// # Errors
    /// If no zone begins there, its state allows no write, or too little is left of it.
    fn append_at(&self, volume: VolumeId, byte: u64, bytes: u32) -> Result<u64, Fault>;

    /// Does what a host asks of zones.
    fn manage<S: Storage>(
        &mut self,
        now: Nanos,
        command: ZoneCommand<'_>,
        cx: &mut SetContext<'_, S>,
    ) -> Answer;

    /// Whether the answer to a command on zones waits for the erase of blocks.
    fn awaits_erase(&self, io: Io) -> bool;

    /// Gives up the contents of a zone. Its blocks are erased later.
    fn clear<S: Storage>(&mut self, now: Nanos, volume: VolumeId, zone: u32, cx: &mut SetContext<'_, S>);

    /// Gives up the contents of all zones, and erases their blocks.
    fn purge_zones<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer;
}
