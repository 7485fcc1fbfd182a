//! An NVM Set on NAND: page mapping over superblocks, with a write buffer in front. The flash below is [`crate::flash`]; what is
//! here is policy: what is written where, what counts, and what is collected.
//!
//! One rule keeps power cuts and garbage collection simple: *a flash copy stays valid until its
//! successor is on flash*. A write in the buffer remembers the old copy ([`buffer::Entry::old`]), and
//! only the landing of its program invalidates it. So no block that holds the last durable copy of a
//! page is ever erased, and recovery needs nothing but the spare areas: of all readable copies of a
//! page the one with the highest version is current.
//!
//! Contents are referred to by valid copies, by the entries of the buffer and by programs under way, and by nothing else: when
//! its successor is on flash, or the page is deallocated, an out-of-date copy gives them up ([`map::STALE`]), long before it is erased.

mod admit;
mod audit;
mod bits;
mod buffer;
mod collect;
mod collector;
mod gc_pause;
mod land;
mod map;
mod next_unit;
mod notes;
mod ops;
mod precondition;
mod program;
mod purge;
mod read;
mod reclaim;
mod recover;
mod report;
mod set;
mod shared_flash;
mod streams;
mod trim;
mod validity;

use crate::answer::{CompletedIo, Fault};
use crate::config::{Config, GcConfig, PlacementConfig};
use crate::context::SetContext;
use crate::flash::{DIE_QUEUE, Flash};
use crate::lost::LostPages;
use crate::policies::Policies;
use crate::storage::{Io, Storage};
use crate::victim::VictimPolicy;
use crate::volume::SetId;
use crate::write::Write;
use buffer::Buffer;
use collector::Collector;
use map::PageMap;
pub(crate) use map::{STALE, has_contents};
use media::{Faulty, Nand, Nanos, Slot, Spare};
use notes::Notes;
use ops::ProgramOps;
pub(crate) use shared_flash::SharedFlash;
use std::collections::VecDeque;
use streams::Streams;
use validity::Validity;

/// A command that waits until everything that was accepted before it is on flash.
#[derive(Clone, Debug)]
struct Flush {
    io: Io,
    /// Chunks below this number must land first.
    mark: u64,
    left: u32,
}

/// A purge under way.
#[derive(Clone, Copy, Debug)]
struct Purge {
    io: Io,
    /// Whether every superblock that has to be erased waits for it.
    queued: bool,
}

/// Lists that are reused, so that the running drive does not allocate.
#[derive(Clone, Debug)]
struct Scratch {
    entries: Vec<u32>,
    spares: Vec<Spare>,
    slots: Vec<Slot>,
    /// Ages of superblocks that can be collected, where only the oldest may be.
    ages: Vec<u64>,
}

/// A page-mapped set on flash.
#[derive(Clone)]
pub(crate) struct PageMappedSet {
    flash: Flash,
    capacity: u32,
    /// Whether capacitors save the write buffer.
    protected: bool,
    /// Logical page to flash page, buffer entry or nothing. Empty while the set is parked.
    map: PageMap,
    valid: Validity,
    /// One bit per logical page: deallocated, and no newer copy on flash (the drive's system area).
    trimmed: Vec<u64>,
    streams: Streams,
    notes: Notes,
    gc: Collector,
    policies: Policies,
    /// The policy that chooses what is collected.
    victims: Box<dyn VictimPolicy>,
    buffer: Buffer,
    ops: ProgramOps,
    waiting: VecDeque<Write>,
    /// What waits first does so for a slot, and no event will tell when there is one.
    lacks_slots: bool,
    flushes: Vec<Flush>,
    lost: LostPages,
    purge: Option<Purge>,
    scratch: Scratch,
    /// Spare superblocks are used up: nothing more can be written.
    read_only: bool,
    /// Superblocks that somebody else on the same flash wants.
    wanted: u32,
    /// Pages of the capacity for which somebody else on the same flash needs no spare.
    spared: u32,
    /// There was no room in the buffer for the last page of a zone.
    stray_waits: bool,
}

impl PageMappedSet {
    /// Around chips. There is no map yet, and the superblocks are not sorted.
    pub fn new(
        id: SetId,
        nand: Faulty<Nand>,
        capacity: u32,
        gc: GcConfig,
        placement: PlacementConfig,
        policies: Policies,
        config: &Config,
    ) -> PageMappedSet {
        let streams =
            Streams::new(placement.handles as usize, policies.placement(placement.placement(gc.together)));
        let flash = Flash::new(id, nand, config.durable, streams.hosts() > 1);
        let geo = flash.geo();
        let victims = policies.victim(gc.policy);
        let gc = Collector::new(geo, gc);
        let ops = geo.dies * DIE_QUEUE as u32 + gc.most_gathered();
        let deallocated = if config.durable { u64::from(capacity).div_ceil(64) } else { 0 };
        PageMappedSet {
            capacity,
            protected: config.protected,
            map: PageMap::default(),
            valid: Validity::new(geo),
            trimmed: vec![0; deallocated as usize],
            notes: Notes::default(),
            gc,
            policies,
            victims,
            buffer: Buffer::new(
                (config.buffer_pages / config.nand_sets()).max(geo.unit_pages),
                config.atomic_pages,
                streams.hosts() as u32,
            ),
            streams,
            ops: ProgramOps::new(ops, geo.unit_pages, config.durable),
            waiting: VecDeque::with_capacity(1024),
            lacks_slots: false,
            flushes: Vec::new(),
            lost: LostPages::default(),
            purge: None,
            scratch: Scratch {
                entries: Vec::with_capacity(geo.unit_pages as usize),
                spares: Vec::with_capacity(geo.unit_pages as usize),
                slots: Vec::with_capacity(config.atomic_pages as usize),
                ages: Vec::new(),
            },
            read_only: false,
            wanted: 0,
            spared: 0,
            stray_waits: false,
            flash,
        }
    }

    /// Begins with chips that hold nothing.
    pub fn start_blank(&mut self) {
        self.map = PageMap::new(self.capacity);
        self.sort_superblocks(|_| false);
    }

    /// Does what can be done at `now`: admits waiting writes, collects garbage, programs.
    pub fn pump<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        loop {
            let collected = self.collect(now, cx);
            // In turns, as both want the dies.
            let (mut programmed, mut moved) = (false, false);
            loop {
                let relocated = self.program_collected(now, cx);
                let host = self.program_host(now, cx);
                programmed |= host;
                moved |= relocated;
                if !(relocated | host) {
                    break;
                }
            }
            let admitted = self.may_admit() && self.admit_waiting(now, cx);
            // What was collected and is programmed now makes room for more of it, and nothing else possible.
            if !(collected | programmed | admitted | (moved && self.gc.has_room())) {
                break;
            }
        }
        if !(self.waiting.is_empty() && self.flushes.is_empty()) {
            self.notice_end_of_life(now, cx);
        }
    }

    /// If nothing is under way that could free a superblock, none will ever be: no more writes.
    fn notice_end_of_life<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        let superblocks = self.flash.superblocks();
        let gathered = self.gc.ready.len();
        let idle = self.ops.taken() == gathered && superblocks.erasing() == 0;
        let full = !self.buffer.has_room() && self.host_lacks_superblock() && superblocks.free() < 2;
        let collector_stuck =
            gathered > 0 && superblocks.free() == 0 && !self.streams.get(self.collecting_stream()).is_open();
        if idle && (collector_stuck || (full && !self.gc.is_active())) {
            self.end_life(now, cx);
        }
    }

    /// From now on the set can only be read.
    fn end_life<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.read_only = true;
        self.admit_waiting(now, cx);
        for flush in self.flushes.drain(..) {
            cx.done.push(CompletedIo { io: flush.io, at: now, result: Err(Fault::ReadOnly) });
        }
    }

    /// Whether what the set holds can be kept: all logical pages must fit, with the superblocks that are
    /// written and one to collect into.
    pub fn has_spare(&self) -> bool {
        self.would_have_spare(self.spared)
    }

    /// The same if somebody else on the same flash needed no spare for so many pages.
    pub fn would_have_spare(&self, spared: u32) -> bool {
        let reserve = (self.streams.count() as u64 + 1) * u64::from(self.flash.geo().pages_per_superblock());
        let usable = self.flash.superblocks().usable_pages() + u64::from(spared);
        usable >= u64::from(self.capacity) + reserve
    }

    /// Recovery knows for how many pages somebody else needs no spare.
    pub fn recover_spared(&mut self, pages: u32) {
        self.spared = pages;
        self.read_only = !self.has_spare();
    }

    /// Ends the set's life in time.
    pub fn check_spare<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        if self.gc.reserve > 0 && !self.has_spare_ahead() {
            self.gc.reserve = 0;
        }
        if !self.read_only && !self.has_spare() {
            self.end_life(now, cx);
        }
    }
}
