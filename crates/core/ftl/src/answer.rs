//! What the translation layer answers, and what it says of itself.

use crate::storage::{Io, StorageError};
use crate::volume::VolumeId;
use crate::zone::ZoneFault;
use media::{Nanos, Slot};

/// When a request is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// At this time, now or later.
    At(Nanos),
    /// [`crate::Ftl::poll`] will tell.
    Later,
    /// Not at all.
    Failed(Fault),
}

impl From<Result<Nanos, Fault>> for Answer {
    fn from(end: Result<Nanos, Fault>) -> Answer {
        end.map_or_else(Answer::Failed, Answer::At)
    }
}

impl Answer {
    /// When the request is done; `None` if [`crate::Ftl::poll`] will tell.
    ///
    /// # Errors
    /// Why it failed.
    pub fn end(self) -> Result<Option<Nanos>, Fault> {
        match self {
            Answer::At(at) => Ok(Some(at)),
            Answer::Later => Ok(None),
            Answer::Failed(fault) => Err(fault),
        }
    }
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Beyond the end of the volume, or no such volume.
    #[error("outside the volume")]
    OutOfRange,
    /// The medium could not give the data back.
    #[error("the medium returned uncorrectable data")]
    Unrecovered,
    /// The medium could not store the data (of memory; flash writes elsewhere instead).
    #[error("the medium could not store the data")]
    Write,
    /// Spare superblocks are used up.
    #[error("the NVM Set can only be read: its spare blocks are used up")]
    ReadOnly,
    /// The host's disk or memory failed.
    #[error("the storage of the drive's contents failed")]
    Storage,
    /// No space is left on the host's disk.
    #[error("no space is left for the drive's contents")]
    Full,
    /// Not enough unallocated capacity.
    #[error("the NVM Set has too little unallocated capacity")]
    NoSpace,
    /// Compared data differs.
    #[error("compared data differs")]
    Mismatch,
    /// A zone does not do what is asked.
    #[error(transparent)]
    Zone(#[from] ZoneFault),
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Failed => Fault::Storage,
            StorageError::Full => Fault::Full,
        }
    }
}

/// Pages that hold something which one step of a deallocation gives up, at most.
pub const STEP_MAPPED_PAGES: u64 = 1024;

/// How much more work a page is to a deallocation if it holds something.
pub const STEP_EMPTY_FACTOR: u64 = 8;

/// What one step of a deallocation has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepDone {
    /// Bytes of the range, from its begin.
    pub bytes: u64,
    /// Pages that it looked at, with [`STEP_EMPTY_FACTOR`] for each that it gave up.
    pub work: u64,
}

/// A request that was answered with [`Answer::Later`] is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletedIo {
    /// Which.
    pub io: Io,
    /// When.
    pub at: Nanos,
    /// How.
    pub result: Result<(), Fault>,
}

/// Where the data of a write comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The buffer of the host's command.
    Host,
    /// Zeros.
    Zeros,
}

/// What a set is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// Flash.
    Nand,
    /// DRAM.
    Dram,
    /// Persistent memory.
    Pmem,
    /// A hard disk.
    Disk,
}

impl MediaKind {
    /// Its name in a drive's TOML.
    pub fn name(self) -> &'static str {
        match self {
            MediaKind::Nand => "nand",
            MediaKind::Dram => "dram",
            MediaKind::Pmem => "pmem",
            MediaKind::Disk => "disk",
        }
    }
}

/// State of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct SetInfo {
    /// What it is made of.
    pub media: MediaKind,
    /// Bytes that it offers.
    pub capacity_bytes: u64,
    /// Bytes not given to a volume.
    pub unallocated_bytes: u64,
    /// Raw bytes of the medium.
    pub raw_bytes: u64,
    /// What is left of the spare that it had when new, in percent.
    pub spare_percent: u8,
    /// Mean wear in percent of the rated cycles, at most 255.
    pub used_percent: u8,
    /// Mean program/erase cycles of a block.
    pub mean_cycles: u32,
    /// Fewest.
    pub min_cycles: u32,
    /// Most.
    pub max_cycles: u32,
    /// Rated cycles; `u32::MAX` if the medium does not wear.
    pub rated_cycles: u32,
    /// Blocks that must not be used.
    pub bad_blocks: u32,
    /// Superblocks ready to be written.
    pub free_superblocks: u32,
    /// Nothing can be written any more.
    pub read_only: bool,
}

impl SetInfo {
    /// Of a set on a medium that is written in place and does not wear.
    pub(crate) fn in_place(
        media: MediaKind,
        capacity_bytes: u64,
        unallocated_bytes: u64,
        raw_bytes: u64,
    ) -> SetInfo {
        SetInfo {
            media,
            capacity_bytes,
            unallocated_bytes,
            raw_bytes,
            spare_percent: 100,
            used_percent: 0,
            mean_cycles: 0,
            min_cycles: 0,
            max_cycles: 0,
            rated_cycles: u32::MAX,
            bad_blocks: 0,
            free_superblocks: 0,
            read_only: false,
        }
    }
}

/// What a superblock is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuperblockUse {
    /// It can be opened.
    Free,
    /// It is being written.
    Open,
    /// It is written no further, and holds data.
    Closed,
    /// The same, and garbage collection moves its data away.
    Collecting,
    /// It waits for the erase of its blocks, or they are being erased.
    Erasing,
    /// Zones lie in it, or are erased there.
    Zones,
    /// None of its blocks can be used.
    Bad,
}

/// A superblock at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuperblockInfo {
    /// What it is used for.
    pub usage: SuperblockUse,
    /// Pages that it can hold: those of its blocks that are not bad.
    pub usable: u32,
    /// Pages that were programmed since its last erase.
    pub written: u32,
    /// Of those, pages whose data counts.
    pub valid: u32,
    /// Program/erase cycles.
    pub erases: u32,
    /// Zones that lie in it.
    pub zones: u32,
    /// The first of them, and its volume.
    pub zone: Option<(VolumeId, u32)>,
}

/// What a page of a volume holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageState {
    /// Contents in this slot.
    Held(Slot),
    /// Contents that were lost to an uncorrectable error.
    Lost,
}

/// Exact counts of a set.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct SetStats {
    /// Bytes that hosts read.
    pub host_read_bytes: u64,
    /// Bytes that hosts wrote.
    pub host_written_bytes: u64,
    /// All bytes programmed on the medium.
    pub media_written_bytes: u64,
    /// Of those, moved by garbage collection, with what pads its program units.
    pub media_gc_bytes: u64,
    /// Bytes read from the medium.
    pub media_read_bytes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Programs and erases that failed.
    pub media_failures: u64,
    /// Of those, erases.
    #[serde(default)]
    pub erase_failures: u64,
    /// Reads that could not be corrected.
    pub uncorrectable: u64,
    /// Superblocks that garbage collection emptied, wear levelling among it.
    #[serde(default)]
    pub collections: u64,
    /// Pages that it read to move them.
    #[serde(default)]
    pub collected_pages: u64,
    /// Nanoseconds from the choice of a superblock to its end, summed over the collections that ended.
    #[serde(default)]
    pub collecting_ns: u64,
}

/// Something that happened to the reclaim unit of a placement handle without the host's asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementNote {
    /// When.
    pub at: Nanos,
    /// Placement handle.
    pub handle: u8,
    /// What.
    pub change: PlacementChange,
}

/// See [`PlacementNote`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlacementChange {
    /// Garbage collection moves the data of a reclaim unit that was written with the handle.
    Moved {
        /// Pages that are moved.
        pages: u32,
        /// The first of them: volume and page of it.
        first: Option<(VolumeId, u64)>,
    },
    /// The reclaim unit is full: the handle goes on with another one.
    Filled,
}

/// The writes that preconditioning stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteHistory {
    /// Its volumes were written once, in order.
    Filled,
    /// They were overwritten at random, uniformly, for long; drawn from this seed.
    Overwritten(u64),
}
