//! An NVM Set on NAND: page mapping over superblocks, with a write buffer in front.
//!
//! One rule keeps power cuts and garbage collection simple: *a flash copy stays valid until its
//! successor is on flash*. A write in the buffer remembers the old copy ([`buffer::Entry::old`]), and
//! only the landing of its program invalidates it. So no block that holds the last durable copy of a
//! page is ever erased, and recovery needs nothing but the spare areas: of all readable copies of a
//! page the one with the highest version is current.
//!
//! Contents are referred to by valid copies, by the entries of the buffer and by programs under way, and by nothing else: when
//! its successor is on flash, or the page is deallocated, an out-of-date copy gives them up ([`STALE`]), long before it is erased.

mod age;
mod audit;
mod buffer;
mod collect;
mod die_queue;
mod gc_pause;
mod program;
mod purge;
mod reclaim;
mod recover;
mod report;
mod set;
mod superblock;

use crate::answer::{Answer, Done, Fault, PlacementNote, SetStats};
use crate::compare::{match_before, matches};
use crate::config::{Config, GcConfig, PAGE, PlacementConfig};
use crate::context::SetContext;
use crate::lost::{LOST, LostPages};
use crate::storage::{Io, Piece, Record, Storage};
use crate::volume::{Extent, SetId, VolumeId};
use crate::write::Write;
use buffer::{Buffer, NONE};
use media::tables::Table;
use media::{Faulty, Geometry, Medium, Nand, Nanos, Outcome, Page, Slot, Spare, Unit};
use std::collections::VecDeque;

/// Map entry of a page that holds nothing.
const UNMAPPED: u32 = u32::MAX;
/// Bit of a map entry that names a buffer entry instead of a flash page.
const BUFFERED: u32 = 1 << 31;
/// What the spare area of a copy that is out of date names: its contents were given up.
const STALE: Slot = Slot(u32::MAX - 2);

/// Whether a copy on flash with this handle refers to contents.
#[inline]
fn has_contents(slot: Slot) -> bool {
    slot != LOST && slot != STALE
}

/// A page of a program unit on its way, and where it comes from: a buffer entry or a flash page.
#[derive(Clone, Copy, Debug)]
struct PageMove {
    /// The logical page.
    page: u32,
    /// With [`UNREADABLE`], the flash page could not be read.
    source: u32,
}

const UNREADABLE: u32 = 1 << 31;

impl PageMove {
    fn flash(self) -> u32 {
        self.source & !UNREADABLE
    }
}

/// A program unit on its way to flash.
#[derive(Clone, Copy, Debug)]
struct ProgramOp {
    unit: Unit,
    die: u32,
    superblock: u32,
    /// Pages in use.
    moves: u32,
    /// Whether garbage collection sent it.
    relocated: bool,
    /// Whether its programming is on somebody's account already.
    paid: bool,
    /// Whether it has left for the medium (and was not only gathered).
    programming: bool,
    /// The program gathered before it, in a chain that is ready at the same time.
    next: u32,
}

#[derive(Clone, Debug)]
struct Flush {
    io: Io,
    /// Chunks below this number must land first.
    mark: u64,
    left: u32,
}

#[derive(Clone)]
pub(crate) struct NandSet {
    id: SetId,
    pub nand: Faulty<Nand>,
    geo: Geometry,
    capacity: u32,
    gc_config: GcConfig,
    durable: bool,
    protected: bool,
    /// Logical page to flash page, buffer entry or nothing. Empty while the set is parked.
    map: Table<u32>,
    /// One bit per flash page, which are visited at random.
    valid: Table<u64>,
    /// One bit per logical page: deallocated, and no newer copy on flash (the drive's system area).
    trimmed: Vec<u64>,
    superblocks: superblock::Superblocks,
    /// What is being written: a superblock for each placement handle, then those that collection writes to: one
    /// for all, or one for each handle.
    streams: Vec<superblock::Stream>,
    /// Placement handles.
    handles: usize,
    /// Whose turn it is to be programmed.
    turn: usize,
    /// Placement handles with an open superblock, if there are several.
    open_handles: u32,
    /// By placement handle: chunks with a number below this are the last of its superblock; 0 if none are.
    closing: Vec<u64>,
    /// Whether the owner wants to hear what happens to reclaim units, and what has.
    notes_wanted: bool,
    notes: VecDeque<PlacementNote>,
    gc: collect::Collector,
    /// Collection is held back, as long as there is something else to write to.
    gc_paused: bool,
    /// Superblocks that are kept free beyond those that always are.
    reserve: u32,
    buffer: Buffer,
    ops: Vec<ProgramOp>,
    free_ops: Vec<u32>,
    /// `unit_pages` moves per program.
    moves: Vec<PageMove>,
    /// The contents that each move of a program under way refers to; empty if the set is not durable.
    carried: Vec<Slot>,
    /// Programs under way per die.
    die_queues: Vec<die_queue::DieQueue>,
    waiting: VecDeque<Write>,
    /// What waits first does so for a slot, and no event will tell when there is one.
    lacks_slots: bool,
    flushes: Vec<Flush>,
    lost: LostPages,
    purge: Option<purge::Purge>,
    /// Reused, so that the running drive does not allocate.
    entries: Vec<u32>,
    spares: Vec<Spare>,
    slots: Vec<Slot>,
    /// Spare superblocks are used up: nothing more can be written.
    pub read_only: bool,
    pub stats: SetStats,
}

impl NandSet {
    pub fn new(
        id: SetId,
        nand: Faulty<Nand>,
        capacity: u32,
        gc: GcConfig,
        placement: PlacementConfig,
        config: &Config,
    ) -> NandSet {
        let geo = nand.geometry().clone();
        let collector = collect::Collector::new(&geo, gc.idle_share);
        let ops = geo.dies * die_queue::DIE_QUEUE as u32 + collector.most_gathered();
        let words = |bits: u64| vec![0u64; bits.div_ceil(64) as usize];
        NandSet {
            id,
            capacity,
            gc_config: gc,
            durable: config.durable,
            protected: config.protected,
            map: Table::default(),
            valid: Table::zeros(geo.pages().div_ceil(64) as usize),
            trimmed: words(if config.durable { u64::from(capacity) } else { 0 }),
            superblocks: superblock::Superblocks::new(&geo),
            streams: vec![superblock::Stream::default(); (placement.handles + placement.lanes()) as usize],
            handles: placement.handles as usize,
            turn: 0,
            open_handles: 0,
            closing: vec![0; placement.handles as usize],
            notes_wanted: false,
            notes: VecDeque::new(),
            gc_paused: false,
            reserve: 0,
            gc: collector,
            buffer: Buffer::new(
                (config.buffer_pages / config.nand_sets()).max(geo.unit_pages),
                config.atomic_pages,
                placement.handles,
            ),
            ops: vec![
                ProgramOp {
                    unit: Unit(0),
                    die: 0,
                    superblock: 0,
                    moves: 0,
                    relocated: false,
                    paid: false,
                    programming: false,
                    next: collect::NO_OP
                };
                ops as usize
            ],
            free_ops: (0..ops).rev().collect(),
            moves: vec![PageMove { page: NONE, source: NONE }; (ops * geo.unit_pages) as usize],
            carried: vec![Slot::NONE; if config.durable { (ops * geo.unit_pages) as usize } else { 0 }],
            die_queues: vec![die_queue::DieQueue::default(); geo.dies as usize],
            waiting: VecDeque::with_capacity(1024),
            lacks_slots: false,
            flushes: Vec::new(),
            lost: LostPages::default(),
            purge: None,
            entries: Vec::with_capacity(geo.unit_pages as usize),
            spares: Vec::with_capacity(geo.unit_pages as usize),
            slots: Vec::with_capacity(config.atomic_pages as usize),
            read_only: false,
            stats: SetStats::default(),
            nand,
            geo,
        }
    }

    /// Begins with chips that hold nothing.
    pub fn start_blank(&mut self) {
        self.map = Table::new(UNMAPPED, self.capacity as usize);
        self.sort_blocks();
    }

    pub fn buffer_pages(&self) -> usize {
        self.buffer.pages()
    }

    /// Where a page's contents are: handle and, if on flash, the flash page. `None` if nowhere.
    #[inline]
    fn locate(&self, page: u32) -> Option<(Slot, u32)> {
        match self.map[page as usize] {
            UNMAPPED => None,
            at if at & BUFFERED != 0 => Some((self.buffer.entry(at ^ BUFFERED).slot, NONE)),
            // Also where a fault lets the medium pretend that nothing was written: then the read fails.
            at => Some((if self.durable { self.nand.inner().slot(Page(at)) } else { Slot::NONE }, at)),
        }
    }

    /// Walks the pages of an extent; flash pages of one sense are read together. `visit` gets the
    /// piece and the contents.
    fn read_extent<S: Storage>(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        mut visit: impl FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>,
    ) -> Result<Nanos, Fault> {
        let volume = cx.volumes.get_mut(volume).ok_or(Fault::OutOfRange)?;
        let mut end = now;
        let mut fault = None;
        // The run of flash pages in one sense that is read next.
        let (mut first, mut count) = (NONE, 0);
        let mut host = 0;
        while host < extent.bytes {
            let byte = extent.start + u64::from(host);
            let offset = (byte % u64::from(PAGE)) as u32;
            let piece = Piece { host, page: offset, len: (PAGE - offset).min(extent.bytes - host) };
            host += piece.len;
            let page = volume.page(byte / u64::from(PAGE));
            let slot = match self.locate(page) {
                None => None,
                Some((slot, at)) => {
                    if at != NONE {
                        if count > 0 && at == first + count && !at.is_multiple_of(self.geo.sense_pages) {
                            count += 1;
                        } else {
                            if count > 0 {
                                end = end.max(self.sense(now, first, count, &mut fault));
                            }
                            (first, count) = (at, 1);
                        }
                        volume.stats.media_read_bytes += u64::from(PAGE);
                    }
                    if slot == LOST {
                        fault = Some(Fault::Unrecovered);
                    }
                    Some(slot)
                }
            };
            if fault.is_none() {
                visit(cx.storage, piece, slot)?;
            }
        }
        if count > 0 {
            end = end.max(self.sense(now, first, count, &mut fault));
        }
        fault.map_or(Ok(end), Err)
    }

    #[inline]
    fn sense(&mut self, now: Nanos, first: u32, count: u32, fault: &mut Option<Fault>) -> Nanos {
        let read = self.nand.read(now, Page(first), count);
        self.stats.media_read_bytes += u64::from(count * PAGE);
        if read.outcome == Outcome::Failed {
            self.stats.uncorrectable += 1;
            *fault = Some(Fault::Unrecovered);
        }
        read.done
    }

    /// Accepts a write; the answer is `Later` if the buffer is full or the write must reach the flash.
    fn accept<S: Storage>(&mut self, now: Nanos, mut write: Write, cx: &mut SetContext<'_, S>) -> Answer {
        if self.read_only {
            return Answer::Failed(Fault::ReadOnly);
        }
        if usize::from(write.handle) >= self.handles {
            write.handle = 0;
        }
        if self.waiting.is_empty() {
            match self.admit(now, &mut write, cx) {
                Err(fault) => return Answer::Failed(fault),
                Ok(true) if !write.durable || self.protected => {
                    self.pump(now, cx);
                    return Answer::At(write.at.max(now));
                }
                Ok(true) => return self.drain_buffer(now, write.io, cx),
                Ok(false) => {}
            }
        }
        self.waiting.push_back(write);
        // One that waits behind others changes nothing.
        if self.waiting.len() == 1 {
            self.pump(now, cx);
        }
        Answer::Later
    }

    /// Moves as much of a write into the buffer as fits; whether that was all.
    fn admit<S: Storage>(
        &mut self,
        now: Nanos,
        write: &mut Write,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        let group = u64::from(self.buffer.atomic()) * u64::from(PAGE);
        while write.start < write.end {
            let stop = write.end_of_group(group);
            if !self.admit_group(now, write, stop, cx)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Admits the pages of a write that lie in one chunk: all or none.
    fn admit_group<S: Storage>(
        &mut self,
        now: Nanos,
        write: &mut Write,
        stop: u64,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        let page_bytes = u64::from(PAGE);
        let atomic = self.buffer.atomic();
        let volume = cx.volumes.get(write.volume).ok_or(Fault::OutOfRange)?;
        let first = volume.page(write.start / page_bytes);
        let base = first & !(atomic - 1);
        // An open chunk of this group of pages, if there is one.
        let mut chunk = (base..(base + atomic).min(self.capacity)).find_map(|p| {
            let at = self.map[p as usize];
            (at != UNMAPPED && at & BUFFERED != 0 && self.buffer.is_open(at ^ BUFFERED))
                .then_some(at ^ BUFFERED)
        });
        if chunk.is_none() && !self.buffer.has_room() {
            return Ok(false);
        }
        if write.compare.is_some() {
            let volume = write.volume;
            match_before(write, |io, extent| self.read_extent(now, volume, extent, cx, matches(io)))?;
        }
        self.slots.clear();
        let mut at = write.start;
        let mut host = write.host;
        let mut page = first;
        let mut outcome = Ok(true);
        while at < stop {
            let Some(slot) = cx.storage.allocate() else {
                self.lacks_slots = true;
                outcome = Ok(false);
                break;
            };
            self.slots.push(slot);
            let offset = (at % page_bytes) as u32;
            let len = (stop - at).min(page_bytes - u64::from(offset)) as u32;
            let piece = Piece { host, page: offset, len };
            let mut old = None;
            if len < PAGE
                && let Some((slot, flash)) = self.locate(page)
            {
                let mut fault = (slot == LOST).then_some(Fault::Unrecovered);
                if flash != NONE {
                    write.at = write.at.max(self.sense(now, flash, 1, &mut fault));
                }
                if let Some(fault) = fault {
                    outcome = Err(fault);
                    break;
                }
                old = Some(slot);
            }
            let stored = match write.zeros {
                true => cx.storage.store_zeros(write.io, piece, slot, old),
                false => cx.storage.store(write.io, piece, slot, old),
            };
            if let Err(error) = stored {
                outcome = Err(error.into());
                break;
            }
            at += u64::from(len);
            host += len;
            page += 1;
        }
        if outcome != Ok(true) {
            while let Some(slot) = self.slots.pop() {
                cx.storage.release(slot);
            }
            return outcome;
        }
        if let Some(chunk) = chunk {
            self.buffer.hand_over(chunk, write.handle);
        }
        for i in 0..self.slots.len() as u32 {
            let slot = self.slots[i as usize];
            let entry = self.admit_page(first + i, slot, chunk, write.handle, cx);
            chunk = chunk.or(entry);
        }
        write.start = at;
        write.host = host;
        write.compare = None;
        Ok(true)
    }

    fn admit_page<S: Storage>(
        &mut self,
        page: u32,
        slot: Slot,
        chunk: Option<u32>,
        handle: u8,
        cx: &mut SetContext<'_, S>,
    ) -> Option<u32> {
        *cx.version += 1;
        let version = *cx.version;
        let at = self.map[page as usize];
        let (index, old, prev) = if at == UNMAPPED {
            if let Some(volume) = cx.volumes.owner_mut(self.id, page) {
                volume.mapped += 1;
            }
            (None, NONE, NONE)
        } else if at & BUFFERED == 0 {
            (None, at, NONE)
        } else if self.buffer.is_open(at ^ BUFFERED) {
            let entry = self.buffer.entry_mut(at ^ BUFFERED);
            cx.storage.release(entry.slot);
            (Some(at ^ BUFFERED), entry.old, entry.prev)
        } else {
            // On its way to flash: the new entry takes over what its landing would invalidate.
            let prev = at ^ BUFFERED;
            (None, std::mem::replace(&mut self.buffer.entry_mut(prev).old, NONE), prev)
        };
        let index = match (index, chunk) {
            (Some(index), _) => index,
            (None, Some(neighbour)) => self.buffer.join(neighbour, page),
            (None, None) => self.buffer.open(page, handle)?,
        };
        *self.buffer.entry_mut(index) = buffer::Entry { page, old, slot, prev, version };
        self.map[page as usize] = BUFFERED | index;
        if self.durable {
            let spare = self.buffer.entry(index).spare();
            cx.storage.record(Record::Buffer { set: self.id.0, spare });
        }
        Some(index)
    }

    /// Brings everything accepted so far to flash.
    fn drain_buffer<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        let left = self.buffer.used_chunks();
        if left == 0 {
            return Answer::At(now);
        }
        if self.read_only {
            return Answer::Failed(Fault::ReadOnly);
        }
        self.flushes.push(Flush { io, mark: self.buffer.mark(), left });
        self.pump(now, cx);
        Answer::Later
    }

    /// Deallocates `count` logical pages from `first`.
    fn deallocate<S: Storage>(&mut self, now: Nanos, first: u32, count: u32, cx: &mut SetContext<'_, S>) {
        let range = first..first + count;
        let mut any = false;
        for page in range.clone() {
            let at = self.map[page as usize];
            if at == UNMAPPED {
                continue;
            }
            any = true;
            if let Some(volume) = cx.volumes.owner_mut(self.id, page) {
                volume.mapped -= 1;
            }
            self.map[page as usize] = UNMAPPED;
            if at & BUFFERED == 0 {
                self.invalidate(at, cx);
                continue;
            }
            let entry = *self.buffer.entry(at ^ BUFFERED);
            if entry.old != NONE {
                self.invalidate(entry.old, cx);
            }
            self.supersede_older(now, entry, cx);
            self.supersede(now, at ^ BUFFERED, cx);
        }
        if any && self.durable {
            // All of the range, as whoever replays the record will do.
            for page in range {
                set_bit(&mut self.trimmed, page);
            }
            *cx.version += 1;
            let version = *cx.version;
            cx.storage.record(Record::Trim { set: self.id.0, first, count, version, gone: true });
        }
    }

    /// A page of this superblock is valid from now on.
    #[inline]
    fn validate(&mut self, page: u32, superblock: u32) {
        set_bit(&mut self.valid, page);
        self.superblocks.all[superblock as usize].valid += 1;
    }

    #[inline]
    fn invalidate<S: Storage>(&mut self, page: u32, cx: &mut SetContext<'_, S>) {
        self.invalidate_of(page, self.superblocks.of(page), cx);
    }

    /// A page of this superblock is not valid any more: its contents are given up, and what is left of it names none.
    #[inline]
    fn invalidate_of<S: Storage>(&mut self, page: u32, superblock: u32, cx: &mut SetContext<'_, S>) {
        self.take_validity(page, superblock);
        if self.durable {
            self.drop_contents(page, cx);
        }
    }

    #[inline]
    fn take_validity(&mut self, page: u32, superblock: u32) {
        debug_assert_eq!(superblock, self.superblocks.of(page));
        clear_bit(&mut self.valid, page);
        self.superblocks.all[superblock as usize].valid -= 1;
    }

    /// Nobody needs this copy on flash, nor will.
    #[inline]
    fn drop_contents<S: Storage>(&mut self, page: u32, cx: &mut SetContext<'_, S>) {
        let slot = self.nand.inner_mut().replace_slot(Page(page), STALE);
        if has_contents(slot) {
            cx.storage.release(slot);
        }
    }

    /// Does whatever can be done at `now`: admits waiting writes, collects garbage, programs.
    fn pump<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
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
            let admitted = !self.waiting.is_empty() && self.admit_waiting(now, cx);
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
        let gathered = self.gc.ready.len();
        let idle = self.free_ops.len() + gathered == self.ops.len() && self.superblocks.erasing.is_empty();
        let full = !self.buffer.has_room() && self.host_lacks_superblock() && self.superblocks.free.len() < 2;
        let collector_stuck = gathered > 0
            && self.superblocks.free.is_empty()
            && !self.streams[self.collecting_stream(self.gc.victim())].is_open();
        if idle && (collector_stuck || (full && !self.gc.is_active())) {
            self.end_life(now, cx);
        }
    }

    /// From now on the set can only be read.
    fn end_life<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.read_only = true;
        self.admit_waiting(now, cx);
        for flush in self.flushes.drain(..) {
            cx.done.push(Done { io: flush.io, at: now, result: Err(Fault::ReadOnly) });
        }
    }

    /// Whether what the set holds can be kept: all logical pages must fit, with the superblocks that are
    /// written and one to collect into.
    fn has_spare(&self) -> bool {
        let reserve = (self.streams.len() as u64 + 1) * u64::from(self.geo.pages_per_superblock());
        self.superblocks.usable_pages() >= u64::from(self.capacity) + reserve
    }

    /// Ends the set's life in time.
    fn check_spare<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        if self.reserve > 0 && !self.has_spare_ahead() {
            self.reserve = 0;
        }
        if !self.read_only && !self.has_spare() {
            self.end_life(now, cx);
        }
    }

    /// Admits what waits, as far as there is room; whether anything was admitted.
    fn admit_waiting<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let mut any = false;
        while self.buffer.has_room() || self.read_only {
            let Some(mut write) = self.waiting.pop_front() else { break };
            let before = write.start;
            let result = match self.read_only {
                true => Err(Fault::ReadOnly),
                false => self.admit(now, &mut write, cx),
            };
            any |= write.start != before;
            match result {
                Ok(false) => {
                    self.waiting.push_front(write);
                    break;
                }
                Ok(true) if write.durable && !self.protected => {
                    let left = self.buffer.used_chunks();
                    self.flushes.push(Flush { io: write.io, mark: self.buffer.mark(), left });
                }
                Ok(true) => cx.done.push(Done { io: write.io, at: write.at.max(now), result: Ok(()) }),
                Err(fault) => cx.done.push(Done { io: write.io, at: now, result: Err(fault) }),
            }
        }
        any
    }
}

#[inline]
fn bit(bits: &[u64], i: u32) -> bool {
    bits[(i / 64) as usize] >> (i % 64) & 1 == 1
}

#[inline]
fn set_bit(bits: &mut [u64], i: u32) {
    bits[(i / 64) as usize] |= 1 << (i % 64);
}

#[inline]
fn clear_bit(bits: &mut [u64], i: u32) {
    bits[(i / 64) as usize] &= !(1 << (i % 64));
}
