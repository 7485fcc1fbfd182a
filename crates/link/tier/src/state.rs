//! The tier's state. The other files say what happens to it.

use crate::chunk::{Bits, Oblock};
use crate::config::{Config, Mode, PolicyKind};
use crate::error::{ControlError, OpenError};
use crate::metadata::superblock::{Counts, State, Superblock};
use crate::metadata::table::{Entry, Record};
use crate::policy::{Policy, Work};
use crate::shape::{Device, Shape};
use blockdev::stack::{Done, Slab};
use blockdev::{Nanos, Operation, Status};
use std::collections::{BTreeMap, VecDeque};

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// What the tier wants of one of its devices.
pub type Sub = blockdev::stack::Sub<Device>;

/// What a request is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Flush: waits for a commit, and that is all. Reads with FUA: waits before it reads.
    Before,
    /// Copy: reads its source.
    Source,
    /// Its pieces are under way.
    Body,
    /// FUA: waits for a commit after it wrote.
    After,
}

/// A request of the host.
pub(crate) struct Request {
    pub(crate) tag: u32,
    pub(crate) operation: Operation,
    pub(crate) data: Vec<u8>,
    /// Pieces that have not ended.
    pub(crate) left: u32,
    pub(crate) whole: bool,
    pub(crate) stage: Stage,
    /// The first that was no success.
    pub(crate) status: Status,
}

/// What a piece does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Read,
    Write,
    Zero { deallocate: bool },
}

impl Act {
    pub(crate) fn writes(self) -> bool {
        matches!(self, Act::Write | Act::Zero { .. })
    }
}

/// The part of a request that lies in one chunk.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) request: u32,
    pub(crate) act: Act,
    /// `None` where nothing is cached.
    pub(crate) oblock: Option<Oblock>,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
    /// Blocks from the beginning of the request.
    pub(crate) at: u32,
    /// Requests of devices that have not ended.
    pub(crate) outstanding: u8,
    pub(crate) on_origin: bool,
    pub(crate) on_cache: bool,
    pub(crate) origin_failed: bool,
    pub(crate) cache_failed: bool,
    pub(crate) status: Status,
    /// It writes with Force Unit Access.
    pub(crate) fua: bool,
    /// The origin is not idle while it is under way.
    pub(crate) loads_origin: bool,
    /// Its end is a tick of the policy.
    pub(crate) tick: bool,
    /// It is counted as a hit or a miss.
    pub(crate) counted: bool,
    /// A promotion for it failed: it is not tried again.
    pub(crate) unpromoted: bool,
    /// The promotion that it is all of the data of.
    pub(crate) overwrites: u32,
    /// It uses its chunk: a migration of the chunk waits for it.
    pub(crate) uses_chunk: bool,
}

/// Who may use a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Lock {
    #[default]
    Free,
    /// Readers may.
    Writes,
    /// Nobody may.
    All,
}

/// A chunk of the origin with a migration, or with pieces that wait for one. Other chunks have none, so that a hit touches none.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) lock: Lock,
    /// Pieces that use it, and those that write among them.
    pub(crate) pieces: u32,
    pub(crate) writing: u32,
    /// Whose lock it is.
    pub(crate) migration: Option<u32>,
    /// Pieces that wait for the lock.
    pub(crate) waiting: VecDeque<u32>,
}

/// Where a migration stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Migrating {
    /// Waits until its chunks are quiet.
    Quiesce,
    /// The victim's removal is committed.
    Evict,
    Copy,
    /// Waits until the last readers of the old place have gone.
    Upgrade,
    /// Its change is committed.
    Commit,
}

/// A migration under way.
pub(crate) struct Migration {
    pub(crate) work: Work,
    pub(crate) stage: Migrating,
    /// What leaves the place first.
    pub(crate) victim: Option<Oblock>,
    /// The piece that writes all of the chunk, so that nothing is copied.
    pub(crate) overwrite: u32,
    /// Nothing is written back: the chunk is dropped.
    pub(crate) invalidate: bool,
    /// The chunk is discarded, and the piece that waits makes it dirty: it is filled with zeroes.
    pub(crate) zeroes: bool,
    /// The piece that waits for it first.
    pub(crate) holder: u32,
    /// Blocks that are being copied or have been.
    pub(crate) copied: u64,
    pub(crate) copying: u32,
    pub(crate) status: Status,
}

/// Whose a request to a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Piece(u32),
    /// The deallocation of a request.
    Discard(u32),
    /// Blocks of a migration: from where in the chunk, how many, and whether they are being written.
    Copy {
        migration: u32,
        at: u64,
        blocks: u32,
        writes: bool,
    },
    /// A flush of the running commit.
    DataFlush(Device),
    /// Metadata of the running commit.
    Metadata,
    /// The mark that an operation of metadata failed.
    NeedsCheck,
    /// Blocks that opening reads, from where on.
    Open(u64),
}

/// Who waits for a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    Request(u32),
    Migration(u32),
    Control,
}

/// What a commit does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Idle,
    /// Flushes the origin and the cache.
    Data,
    Log,
    LogFlush,
    Table,
    TableFlush,
    Super,
    SuperFlush,
}

/// What a checkpoint says of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Goal {
    pub(crate) state: State,
    pub(crate) mode: Mode,
    pub(crate) policy: PolicyKind,
}

/// The commits.
pub(crate) struct Commit {
    pub(crate) step: Step,
    /// Changes since the snapshot of the running commit.
    pub(crate) pending: Vec<Record>,
    /// Changes that are being written.
    pub(crate) writing: Vec<Record>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) served: Vec<Waiter>,
    pub(crate) wanted: bool,
    pub(crate) flush_wanted: bool,
    pub(crate) goal_wanted: Option<Goal>,
    /// Of the running commit, if it writes the whole table.
    pub(crate) goal: Option<Goal>,
    /// Requests that have not ended, and how the first failed.
    pub(crate) left: u32,
    pub(crate) failed: Option<(Device, Status)>,
    /// The next block of the table that is to be written.
    pub(crate) table_at: u64,
    /// The next block of the log.
    pub(crate) log_at: u64,
    /// Migrations that wait while the table is written.
    pub(crate) parked: Vec<u32>,
    /// The superblock that is durable, and its place.
    pub(crate) superblock: Superblock,
    pub(crate) slot: u8,
    /// Whether the origin and the cache have writes that were not flushed, and whether write-backs are among the origin's.
    pub(crate) origin_unflushed: bool,
    pub(crate) cache_unflushed: bool,
    /// Whether the metadata may have writes that are not durable: a session before this one may have been killed after it wrote them.
    pub(crate) metadata_unflushed: bool,
    pub(crate) written_back: bool,
}

/// What opening has read.
pub(crate) struct Opening {
    pub(crate) create: bool,
    pub(crate) replace: bool,
    pub(crate) entries: Vec<Option<Entry>>,
    pub(crate) discards: Vec<u32>,
    pub(crate) read: OpenStep,
    /// One of two superblocks is damaged or gone, and the one that is there may be older.
    pub(crate) older: bool,
    /// The first block that is not of the log. What is behind it is only looked at.
    pub(crate) log_end: Option<u64>,
}

/// What opening reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenStep {
    Superblocks,
    Table,
    Discards,
    Log,
    /// Everything is read, and the session's first table is being written.
    Checkpoint,
}

/// What a user can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Shut down in order.
    Close,
    /// Change the mode. Passthrough needs a clean cache.
    Mode(Mode),
    /// Change the policy. Its hints are dropped.
    Policy(PolicyKind),
    /// Write everything dirty back.
    WriteBack,
    /// Take the chunks at these places out of the cache, without writing them back. The tier is in passthrough mode.
    Invalidate {
        /// The first place.
        begin: u32,
        /// One past the last.
        end: u32,
    },
}

/// What the tier is doing.
pub(crate) enum Phase {
    Opening(Box<Opening>),
    Running,
    /// Waits until nothing is under way, for a control.
    Quiescing(Control),
    /// The control's change is being committed.
    Changing(Control),
    Closed,
    Failed(OpenError),
}

/// What has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// The origin is gone, or a flush of it failed. Only what is cached can be read, and nothing is written.
    pub origin_failed: bool,
    /// The cache device is gone, or a flush of it failed. What is dirty cannot be read.
    pub cache_failed: bool,
    /// An operation of metadata failed. Nothing is promoted or demoted, and nothing is written in writeback mode.
    pub metadata_failed: bool,
}

impl Health {
    pub(crate) fn is_bad(self) -> bool {
        self.failed().is_some()
    }

    /// A device that failed.
    pub(crate) fn failed(self) -> Option<Device> {
        match self {
            Health { origin_failed: true, .. } => Some(Device::Origin),
            Health { cache_failed: true, .. } => Some(Device::Cache),
            Health { metadata_failed: true, .. } => Some(Device::Metadata),
            Health { origin_failed: false, cache_failed: false, metadata_failed: false } => None,
        }
    }
}

/// What the tier has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads of a chunk that the cache answered.
    pub read_hits: u64,
    /// Reads that the origin answered.
    pub read_misses: u64,
    /// Writes that went to the cache.
    pub write_hits: u64,
    /// Writes that went to the origin only.
    pub write_misses: u64,
    /// Chunks that left the cache, since the tier was opened.
    pub demotions: u64,
    /// Chunks that came to the cache, since the tier was opened.
    pub promotions: u64,
    /// Chunks that were written back, since the tier was opened.
    pub writebacks: u64,
    /// Migrations for which nothing was copied.
    pub copies_avoided: u64,
    /// Commits of metadata.
    pub commits: u64,
    /// Commits that wrote the whole table.
    pub checkpoints: u64,
    /// Migrations that failed.
    pub failed_migrations: u64,
}

impl Counters {
    pub(crate) fn lasting(&self) -> Counts {
        Counts {
            read_hits: self.read_hits,
            read_misses: self.read_misses,
            write_hits: self.write_hits,
            write_misses: self.write_misses,
        }
    }
}

/// A cache tier: the state machine. Time is an argument. It does no I/O: it says what it wants of its three devices ([`Core::next_sub`])
/// and is told how that ended ([`Core::complete`]).
pub struct Core {
    pub(crate) config: Config,
    pub(crate) shape: Shape,
    pub(crate) policy: Policy,
    pub(crate) phase: Phase,
    pub(crate) health: Health,
    pub(crate) requests: Slab<Request>,
    pub(crate) pieces: Slab<Piece>,
    pub(crate) subs: Slab<Owner>,
    pub(crate) migrations: Slab<Migration>,
    pub(crate) cells: BTreeMap<Oblock, Cell>,
    pub(crate) out: VecDeque<Sub>,
    pub(crate) done: VecDeque<Done>,
    /// Requests that wait until the tier is open, or a control has ended.
    pub(crate) held: VecDeque<u32>,
    pub(crate) commit: Commit,
    pub(crate) counters: Counters,
    pub(crate) discards: Bits,
    /// Migrations that count against the threshold.
    pub(crate) migrating: u64,
    /// Pieces under way that keep the origin from being idle, and since when there is none.
    pub(crate) origin_pieces: u32,
    pub(crate) origin_idle: Nanos,
    /// The next piece that begins is to be a tick.
    pub(crate) tick_wanted: bool,
    pub(crate) next_tick: Nanos,
    /// Something happened that background work may have waited for.
    pub(crate) wake: bool,
    /// A migration failed: no more work in the background before the next tick.
    pub(crate) paused: bool,
    /// Everything is being written back, for a control; and whether one of its migrations failed.
    pub(crate) cleaning: bool,
    pub(crate) cleaning_failed: bool,
    pub(crate) outcome: Option<Result<(), ControlError>>,
}
