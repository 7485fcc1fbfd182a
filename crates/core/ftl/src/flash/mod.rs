//! The flash of an NVM Set: superblocks and their states, streams that write them, programs, erases, bad blocks, wear, and what
//! recovery finds. It is mechanism: it knows of no logical-to-physical map, write buffer or policy of collection. A set stands
//! above it and decides what is written where, what counts, and what is given up.
//!
//! # How a set uses it
//!
//! - It opens a superblock ([`Flash::open`]) and keeps a [`Stream`] on it. A set has as many streams as it likes.
//! - [`Flash::next_unit`] says where the stream's next program goes. [`Flash::program`] sends it, under a number of the set's.
//! - The number comes back when the program has ended ([`Flash::take_ended`]). No callback tells: the set asks, where an event or
//!   [`Next::Ask`] says so, and sees to its pages at once. Nothing here knows what they are.
//! - A full superblock is sealed ([`Flash::seal`]). One of which nothing counts is given up ([`Flash::give_up`]), and erased by
//!   [`Flash::erase_step`].
//! - After a loss of power the set goes through the spare areas, and [`Flash::sort`] sorts the superblocks by what it says counts.
//!
//! A zoned set needs nothing else: its zones are superblocks that it opens at their first write ([`Wear::Least`]), each with a stream
//! and without a map. A page-mapped set and a zoned set may stand on one `Flash` together, as neither keeps a list of superblocks: what one
//! has opened or sealed is not free for the other, [`Superblock::writer`] tells whose it is, and the numbers of their programs come from
//! two ranges.

mod die_queue;
mod erase;
mod owner;
mod program;
mod scan;
mod stream;
mod striping;
mod superblock;
#[cfg(test)]
mod tests;
mod wear;

pub(crate) use die_queue::{DIE_QUEUE, Ended, Order};
pub(crate) use owner::{ZONE_OP, ZONES};
pub(crate) use stream::{Next, Offer, Stream, Target};
pub(crate) use superblock::{Cycles, EraseStep, Superblock, SuperblockState, Superblocks, Wear};

use crate::answer::SetStats;
use crate::config::PAGE;
use crate::storage::{Record, Storage};
use crate::volume::SetId;
use die_queue::DieQueue;
use media::{
    DieTimes, Divisor, Faulty, Geometry, Medium, Nand, Nanos, OpStatus, Page, Read, Slot, Spare, Unit,
};

/// The flash of an NVM Set.
#[derive(Clone)]
pub(crate) struct Flash {
    id: SetId,
    /// The chips. Sets read spare areas here; only recovery, replays and preconditioning change chips without this module.
    pub nand: Faulty<Nand>,
    geo: Geometry,
    /// Whether spare areas keep versions and slots, and a journal is kept.
    durable: bool,
    /// Whether the journal hears who writes a superblock. It always hears which superblocks zones open, and which others open after them.
    records_writers: bool,
    superblocks: Superblocks,
    /// Programs under way per die.
    dies: Vec<DieQueue>,
    /// Pages of a superblock.
    superblock_pages: Divisor,
    /// Blocks that their owner erases, by any unit of each: see [`erase_block`](Flash::erase_block).
    erasing_blocks: Vec<Unit>,
    /// Programs of the zones that ended where nobody of theirs asked. Their owner takes them.
    pub ended_of_zones: Vec<Ended>,
    /// Counts of the medium.
    pub stats: SetStats,
    /// Reused, so that the running drive does not allocate.
    spares: Vec<Spare>,
}

impl Flash {
    /// Around chips. The superblocks are not sorted yet ([`sort`](Flash::sort)). With `records_writers` the journal hears who writes a
    /// superblock; without, only of those that zones write, and that come from zones.
    pub fn new(id: SetId, nand: Faulty<Nand>, durable: bool, records_writers: bool) -> Flash {
        let geo = nand.geometry().clone();
        Flash {
            id,
            durable,
            records_writers,
            superblocks: Superblocks::new(&geo),
            dies: vec![DieQueue::EMPTY; geo.dies as usize],
            superblock_pages: Divisor::new(geo.pages_per_superblock()),
            erasing_blocks: Vec::new(),
            ended_of_zones: Vec::with_capacity(geo.dies as usize * DIE_QUEUE),
            stats: SetStats::default(),
            spares: Vec::with_capacity(geo.unit_pages as usize),
            nand,
            geo,
        }
    }

    /// The set.
    #[inline]
    pub fn id(&self) -> SetId {
        self.id
    }

    /// Shape of the chips.
    #[inline]
    pub fn geo(&self) -> &Geometry {
        &self.geo
    }

    /// How many dies work at `now`.
    pub fn busy_dies(&self, now: Nanos) -> u32 {
        self.nand.inner().busy_dies(now)
    }

    /// What each die was asked for.
    pub fn die_times(&self) -> Vec<DieTimes> {
        self.nand.inner().die_times().collect()
    }

    /// Whether spare areas keep versions and slots, and a journal is kept.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// The superblocks.
    #[inline]
    pub fn superblocks(&self) -> &Superblocks {
        &self.superblocks
    }

    /// The superblock of a page.
    #[inline]
    pub fn superblock_of(&self, page: u32) -> u32 {
        self.superblock_pages.quotient(page)
    }

    /// The handle that a page's spare area names; none where spare areas keep none.
    #[inline]
    pub fn slot(&self, page: u32) -> Slot {
        // Also where a fault lets the medium pretend that nothing was written: then the read fails.
        if self.durable { self.nand.inner().slot(Page(page)) } else { Slot::NONE }
    }

    /// The logical page that a page's spare area names.
    #[inline]
    pub fn logical(&self, page: u32) -> u32 {
        self.nand.inner().logical(Page(page)).0
    }

    /// Makes a page's spare area name other contents. Returns what it named.
    #[inline]
    pub fn replace_slot(&mut self, page: u32, slot: Slot) -> Slot {
        self.nand.inner_mut().replace_slot(Page(page), slot)
    }

    /// Reads pages of one sense.
    #[inline]
    pub fn read(&mut self, now: Nanos, first: u32, count: u32) -> Read {
        let read = self.nand.read(now, Page(first), count);
        self.stats.media_read_bytes += u64::from(count * PAGE);
        self.stats.uncorrectable += u64::from(read.status == OpStatus::Failed);
        read
    }

    /// Opens a free superblock for a writer, a number of the set's; `None` if there is none.
    pub fn open<S: Storage>(&mut self, wear: Wear, writer: u8, storage: &mut S) -> Option<u32> {
        let (superblock, before) = self.superblocks.open(wear, writer)?;
        let recorded = self.records_writers || [before, writer].contains(&ZONES);
        if recorded && self.durable {
            storage.record(Record::Open { set: self.id.0, superblock, writer });
        }
        Some(superblock)
    }

    /// Nothing more is written to an open superblock.
    pub fn seal(&mut self, superblock: u32) {
        self.superblocks.seal(superblock);
    }

    /// Who wrote each superblock, if that is recorded, or zones wrote any; else nothing.
    pub fn writers(&self) -> Vec<u8> {
        let writers = self.superblocks.all.iter().map(|b| b.writer);
        match self.records_writers || writers.clone().any(|writer| writer == ZONES) {
            true => writers.collect(),
            false => Vec::new(),
        }
    }

    /// Sets who wrote a superblock; whether it exists.
    pub fn set_writer(&mut self, superblock: u32, writer: u8) -> bool {
        match self.superblocks.all.get_mut(superblock as usize) {
            Some(b) => b.writer = writer,
            None => return false,
        }
        true
    }

    /// What its dies do, for a developer.
    pub fn dies(&self) -> &impl std::fmt::Debug {
        &self.dies
    }
}
