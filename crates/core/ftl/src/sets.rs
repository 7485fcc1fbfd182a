//! The kinds of NVM Sets. Which kind a set is matters where sets are made, saved and restored ([`crate::layer`]), and nowhere else.

use crate::answer::{Answer, Fault, PlacementNote, SetInfo, SetStats, SuperblockInfo, WriteHistory};
use crate::context::{Event, SetContext};
use crate::disk::DiskSet;
use crate::lost::LostPages;
use crate::memory::MemorySet;
use crate::nand_set::NandSet;
use crate::set::{AfterCut, NvmSet};
use crate::storage::{Io, Piece, Storage};
use crate::volume::{Extent, VolumeId};
use crate::write::Write;
use crate::zoned_set::ZonedSet;
use enum_dispatch::enum_dispatch;
use media::{DieTimes, FaultPlan, Nanos, Slot, Spare};
use std::ops::Range;

/// An NVM Set.
#[derive(Clone)]
#[enum_dispatch(NvmSet)]
#[allow(
    clippy::large_enum_variant,
    reason = "a drive has a handful of sets, and every command goes through one"
)]
pub(crate) enum Set {
    Nand(NandSet),
    Memory(MemorySet),
    Disk(DiskSet),
}

impl Set {
    /// Its zones; `None` of a kind of set that cannot have any: only flash can.
    #[inline]
    pub fn zoned(&self) -> Option<&impl ZonedSet> {
        match self {
            Set::Nand(set) => Some(set),
            Set::Memory(_) | Set::Disk(_) => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn zoned_mut(&mut self) -> Option<&mut impl ZonedSet> {
        match self {
            Set::Nand(set) => Some(set),
            Set::Memory(_) | Set::Disk(_) => None,
        }
    }
}
