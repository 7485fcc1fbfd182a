//! The cache's state. The other files say what happens to it.

use crate::bits::Bits;
use crate::buckets::Buckets;
use crate::config::{Config, Mode};
use crate::error::{ControlError, OpenError};
use crate::format::{Cycle, JournalBlock, Record, Superblock};
use crate::index::Index;
use crate::sequential::Sequential;
use crate::shape::{Device, Shape};
use blockdev::{Nanos, Operation, Status};
use stack::{Done, Slab};
use std::collections::{BTreeMap, VecDeque};

/// What the cache wants of one of its devices.
pub type Sub = stack::Sub<Device>;

/// What a request is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Waits for a commit; a read with FUA reads then.
    Before,
    /// A Copy reads its source.
    Source,
    Reads,
    Writes,
    /// FUA: waits for a commit after it wrote.
    After,
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// To the cache only.
    Cache,
    /// To the origin, and to the cache where there is room.
    Both,
    /// To the origin only.
    Origin,
}

/// Blocks of the origin, and where they lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) block: u32,
    pub(crate) place: u32,
    pub(crate) count: u32,
}

/// A request of the host.
pub(crate) struct Request {
    pub(crate) tag: u32,
    pub(crate) operation: Operation,
    pub(crate) data: Vec<u8>,
    pub(crate) stage: Stage,
    pub(crate) route: Route,
    /// Requests to devices that have not ended, and one while more are to be made.
    pub(crate) left: u32,
    /// Blocks for which places were found.
    pub(crate) placed: u32,
    /// What was written to the cache, and is not in the index yet.
    pub(crate) written: Vec<Extent>,
    /// It goes past the cache.
    pub(crate) bypass: bool,
    /// Whether something was not in the cache.
    pub(crate) missed: bool,
    pub(crate) locked: bool,
    /// The first that was no success.
    pub(crate) status: Status,
}

/// Blocks that a read brings from the origin to the cache.
pub(crate) struct Fill {
    pub(crate) block: u32,
    pub(crate) count: u32,
    /// Something was written there meanwhile.
    pub(crate) cancelled: bool,
    /// Writes to the cache that have not ended.
    pub(crate) left: u32,
}

/// Dirty blocks on their way to the origin.
pub(crate) struct Back {
    pub(crate) block: u32,
    pub(crate) extents: Vec<Extent>,
    pub(crate) data: Vec<u8>,
    pub(crate) left: u32,
    pub(crate) status: Status,
}

/// Whose a request to a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A read of the cache: from where in the request.
    Hit {
        request: u32,
        at: u32,
        extent: Extent,
    },
    /// A read of the origin, which may become a fill.
    Miss {
        request: u32,
        at: u32,
        fill: Option<u32>,
    },
    /// A request's write to the cache.
    Put {
        request: u32,
        at: u32,
        extent: Extent,
    },
    /// A request's write to the origin.
    Past {
        request: u32,
    },
    /// A fill's write to the cache.
    Fill {
        fill: u32,
        extent: Extent,
    },
    /// A write-back's read of the cache: from where in it.
    BackRead {
        back: u32,
        at: u32,
    },
    BackWrite {
        back: u32,
    },
    /// A flush of the running commit, before the journal.
    Data(Device),
    /// A write or flush of the journal or superblock.
    Journal,
    /// What opening reads: the first block of the cache device.
    Open(u32),
}

/// Who waits for a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    Request(u32),
    /// Opening, or a change.
    Control,
}

/// What a commit does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Idle,
    Data,
    Journal,
    JournalFlush,
    Super,
    SuperFlush,
}

/// The journal and its commits.
pub(crate) struct Commit {
    pub(crate) step: Step,
    /// Changes since the running commit began.
    pub(crate) pending: Vec<Record>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) wanted: bool,
    pub(crate) flush_wanted: bool,
    /// A superblock is wanted, that says this of the session.
    pub(crate) clean_wanted: Option<bool>,
    /// Of the running commit: changes, blocks of the journal, who waits, what is free then, what was written back.
    pub(crate) records: Vec<Record>,
    pub(crate) blocks: Vec<JournalBlock>,
    pub(crate) served: Vec<Waiter>,
    pub(crate) freed: Vec<u32>,
    pub(crate) returned: Vec<Extent>,
    pub(crate) cycle_before: Cycle,
    pub(crate) clean: Option<bool>,
    /// Requests that have not ended, and how the first failed.
    pub(crate) left: u32,
    pub(crate) failed: Option<(Device, Status)>,
    /// The next block of the journal.
    pub(crate) head: u64,
    pub(crate) cycle: Cycle,
    /// The superblock that is durable, and its place.
    pub(crate) superblock: Superblock,
    pub(crate) slot: u32,
    /// Whether the devices have writes that were not flushed.
    pub(crate) origin_unflushed: bool,
    pub(crate) cache_unflushed: bool,
    /// The journal may call something dirty; and whether anything became dirty since the running commit began.
    pub(crate) says_dirty: bool,
    pub(crate) dirtied: bool,
    pub(crate) next: Nanos,
}

/// What opening does.
pub(crate) struct Opening {
    pub(crate) create: bool,
    pub(crate) replace: bool,
    pub(crate) seed: u64,
    /// The next block of the journal, and the session of the one before.
    pub(crate) at: u64,
    pub(crate) session: u64,
    /// The superblocks are read.
    pub(crate) known: bool,
    /// Why a superblock does not count.
    pub(crate) refusal: Option<OpenError>,
    /// What was clean is to be dropped durably, when the session has begun.
    pub(crate) drop_clean: bool,
}

/// What a user can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Shut down in order. What is dirty stays so.
    Close,
    /// Change what writes do, from the next one on.
    Mode(Mode),
    /// Write everything dirty back.
    WriteBack,
}

/// What the cache is doing.
pub(crate) enum Phase {
    Opening(Box<Opening>),
    Running,
    /// Waits until nothing is under way.
    Quiescing,
    Closing,
    Closed,
    Failed(OpenError),
}

/// What has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// The cache device is gone. What is dirty cannot be read.
    pub cache_failed: bool,
    /// A write of the journal or a flush of the cache device failed. Nothing is written there any more.
    pub journal_failed: bool,
}

impl Health {
    /// Whether nothing is written to the cache device any more.
    #[must_use]
    pub fn is_bad(self) -> bool {
        self.cache_failed || self.journal_failed
    }
}

/// What the cache has done since it was opened. Blocks are of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads that the cache answered as a whole.
    pub read_hits: u64,
    /// Reads for which the origin was asked.
    pub read_misses: u64,
    /// Writes that went to the cache only.
    pub write_hits: u64,
    /// Writes that went to the origin.
    pub write_misses: u64,
    /// Requests that went past the cache as part of a stream.
    pub sequential: u64,
    /// Blocks of hosts' writes that were written to the cache.
    pub written: u64,
    /// Blocks of reads that were written to the cache.
    pub filled: u64,
    /// Blocks of the journal, and superblocks.
    pub journal: u64,
    /// Blocks that were written back.
    pub written_back: u64,
    /// Clean buckets that were taken to be used again.
    pub reclaimed: u64,
    /// Blocks that were valid in those buckets.
    pub evicted: u64,
    /// Commits that wrote to the journal.
    pub commits: u64,
    /// The most blocks of the journal that were in use at a time.
    pub journal_peak: u64,
}

/// How the cache is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheStatus {
    /// What writes do.
    pub mode: Mode,
    /// All buckets, and those that are free.
    pub buckets: u32,
    /// Buckets that are free.
    pub free: u32,
    /// Blocks of 4 KiB that are cached.
    pub cached: u32,
    /// Those of them that the origin does not have.
    pub dirty: u32,
    /// What has failed.
    pub health: Health,
    /// What it has done.
    pub counters: Counters,
}

/// A log-structured cache: the state machine. Time is an argument. It does no I/O: it says what it wants of its two devices
/// ([`Core::next_sub`]) and is told how that ended ([`Core::complete`]).
pub struct Core {
    pub(crate) config: Config,
    pub(crate) shape: Shape,
    pub(crate) phase: Phase,
    pub(crate) health: Health,
    pub(crate) index: Index,
    pub(crate) buckets: Buckets,
    /// Blocks of the origin that the cache has in a newer version; and those that are being written back.
    pub(crate) dirty: Bits,
    pub(crate) returning: Bits,
    pub(crate) requests: Slab<Request>,
    pub(crate) subs: Slab<Owner>,
    pub(crate) fills: Slab<Fill>,
    pub(crate) backs: Slab<Back>,
    /// Ranges that are being written: their ends by their beginnings.
    pub(crate) locks: BTreeMap<u64, u64>,
    /// Requests that wait for such a range.
    pub(crate) blocked: VecDeque<u32>,
    /// Requests that wait until the cache is open, or the journal is less behind.
    pub(crate) held: VecDeque<u32>,
    /// Writes that wait for places.
    pub(crate) starved: VecDeque<u32>,
    pub(crate) out: VecDeque<Sub>,
    pub(crate) done: VecDeque<Done>,
    pub(crate) sequential: Sequential,
    pub(crate) commit: Commit,
    /// Written back, and not flushed there yet.
    pub(crate) returned: Vec<Extent>,
    /// Where the write-back goes on, blocks that are to be written back at once, and when it may go on.
    pub(crate) cursor: u32,
    pub(crate) urgent: VecDeque<u32>,
    pub(crate) next_back: Nanos,
    /// Something failed: no write-back before.
    pub(crate) pause: Nanos,
    /// Everything is being written back, for a control.
    pub(crate) cleaning: bool,
    pub(crate) last_request: Nanos,
    /// Buckets may be too few.
    pub(crate) look_for_room: bool,
    pub(crate) counters: Counters,
    pub(crate) outcome: Option<Result<(), ControlError>>,
}

impl Core {
    /// The next thing that the cache wants of a device.
    #[inline]
    pub fn next_sub(&mut self) -> Option<Sub> {
        self.out.pop_front()
    }

    /// The next request that has ended.
    #[inline]
    pub fn next_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Whether a request has ended that was not [taken](Core::next_done).
    #[inline]
    #[must_use]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Requests of the host that have not ended.
    #[inline]
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.requests.len()
    }

    /// Its blocks, of 4 KiB, and what it takes in a request.
    #[must_use]
    pub fn geometry(&self) -> blockdev::Geometry {
        self.shape.geometry
    }

    /// How the cache is.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        CacheStatus {
            mode: self.config.mode,
            buckets: self.buckets.count(),
            free: self.buckets.free(),
            cached: self.index.mapped(),
            dirty: self.dirty.count(),
            health: self.health,
            counters: self.counters,
        }
    }

    /// What it has done since it was opened.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Blocks of 4 KiB that are cached.
    #[inline]
    #[must_use]
    pub fn cached(&self) -> u32 {
        self.index.mapped()
    }

    /// Bytes of memory for the index, the buckets and what is dirty: what grows with the devices.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.index.memory() + self.buckets.memory() + self.dirty.memory() + self.returning.memory()
    }

    /// The first block of 4 KiB on the cache device that belongs to a bucket.
    #[must_use]
    pub fn first_block(&self) -> u64 {
        self.shape.first.into()
    }

    /// Whether it was shut down in order.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Asks a device for something, in blocks of 4 KiB of that device.
    pub(crate) fn emit(&mut self, owner: Owner, device: Device, operation: Operation, data: Vec<u8>) {
        let per = self.shape.per(device);
        let id = self.subs.insert(owner);
        let operation = Operation {
            verb: operation.verb,
            lba: operation.lba * per,
            blocks: operation.blocks * per as u32,
        };
        self.out.push_back(Sub { id, device, operation, data });
    }

    /// A buffer for so many blocks, or none where contents are not kept.
    pub(crate) fn buffer(&self, blocks: u32) -> Vec<u8> {
        if self.config.contents {
            vec![0; blocks as usize * crate::config::BLOCK as usize]
        } else {
            Vec::new()
        }
    }

    /// A part of a request's data, by blocks.
    pub(crate) fn slice(data: &[u8], at: u32, blocks: u32) -> Vec<u8> {
        let block = crate::config::BLOCK as usize;
        let range = at as usize * block..(at + blocks) as usize * block;
        data.get(range).map(<[u8]>::to_vec).unwrap_or_default()
    }
}
