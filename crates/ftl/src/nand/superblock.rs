//! Placement: which superblock is written next, and what each one holds.

use super::NandSet;
use crate::answer::PlacementChange;
use crate::context::SetContext;
use crate::storage::{Record, Storage};
use media::{Divisor, Geometry, Medium, Nanos, Unit};
use std::collections::VecDeque;

const NO_BLOCK: u32 = u32::MAX;

/// What a superblock is for. The legal changes: Free -> Open -> Sealed -> Erasing -> Free, and from
/// Erasing to Dead when no usable block is left in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Free,
    Open,
    Sealed,
    Erasing,
    Dead,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Superblock {
    pub state: State,
    /// Valid pages.
    pub valid: u32,
    /// Pages that it can hold: those of its blocks that are not bad.
    pub usable: u32,
    /// Programs under way.
    pub ops: u32,
    pub erases: u32,
    /// When it was sealed, in superblocks sealed before it.
    pub sealed: u64,
    /// The stream that writes or wrote it, by its place in [`NandSet::streams`]. Known again after a loss of power:
    /// the drive keeps it in its system area.
    pub writer: u8,
}

/// The superblocks of a set.
#[derive(Clone, Debug)]
pub(super) struct Superblocks {
    pub all: Vec<Superblock>,
    pub free: Vec<u32>,
    /// Superblocks that wait for the erase of their blocks, oldest first.
    pub erasing: VecDeque<u32>,
    /// Next die of the first of `erasing`, and erases under way.
    pub erase_die: u32,
    pub erases_under_way: u32,
    pub sealed_count: u64,
    pages: Divisor,
}

/// A superblock that is being written, unit by unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub block: u32,
    /// Next unit, from 0, and its die.
    pub next: u32,
    pub die: u32,
    /// Opened by recovery: units that were under way may be programmed or torn already.
    pub resumed: bool,
}

/// Where the next program goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub unit: Unit,
    pub die: u32,
    pub superblock: u32,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream { block: NO_BLOCK, next: 0, die: 0, resumed: false }
    }
}

impl Stream {
    pub fn is_open(&self) -> bool {
        self.block != NO_BLOCK
    }
}

impl Superblocks {
    pub fn new(geo: &Geometry) -> Superblocks {
        let pages = geo.pages_per_superblock();
        let (state, usable) = (State::Free, pages);
        let block = Superblock { state, valid: 0, usable, ops: 0, erases: 0, sealed: 0, writer: 0 };
        Superblocks {
            all: vec![block; geo.superblocks as usize],
            free: Vec::with_capacity(geo.superblocks as usize),
            erasing: VecDeque::with_capacity(geo.superblocks as usize),
            erase_die: 0,
            erases_under_way: 0,
            sealed_count: 0,
            pages: Divisor::new(pages),
        }
    }

    /// Forgets what the superblocks are for; how worn they are is set by the caller.
    pub fn reset(&mut self) {
        for block in &mut self.all {
            *block = Superblock { state: State::Free, valid: 0, ops: 0, sealed: 0, ..*block };
        }
        self.free.clear();
        self.erasing.clear();
        (self.erase_die, self.erases_under_way, self.sealed_count) = (0, 0, 0);
    }

    /// The superblock of a page.
    #[inline]
    pub fn of(&self, page: u32) -> u32 {
        self.pages.quotient(page)
    }

    /// Takes a free superblock: the least worn for the host's data, the most worn for data that
    /// garbage collection moved, which is colder (dynamic wear levelling).
    pub fn take_free(&mut self, relocated: bool, writer: u8) -> Option<u32> {
        let wear = |&b: &u32| (self.all[b as usize].erases, b);
        let block = *match relocated {
            true => self.free.iter().max_by_key(|b| wear(b))?,
            false => self.free.iter().min_by_key(|b| wear(b))?,
        };
        self.free.retain(|&b| b != block);
        self.all[block as usize].state = State::Open;
        self.all[block as usize].writer = writer;
        Some(block)
    }

    pub fn seal(&mut self, block: u32) {
        let b = &mut self.all[block as usize];
        debug_assert_eq!(b.state, State::Open);
        b.state = State::Sealed;
        b.sealed = self.sealed_count;
        self.sealed_count += 1;
    }

    pub fn usable_pages(&self) -> u64 {
        self.all.iter().filter(|b| b.state != State::Dead).map(|b| u64::from(b.usable)).sum()
    }
}

impl NandSet {
    /// The next unit of a stream's superblock, for the host or for what was `collected`, if its die has room; opens another superblock when
    /// one is full. The host leaves the last free one to garbage collection.
    #[inline]
    pub(super) fn next_unit<S: Storage>(
        &mut self,
        now: Nanos,
        index: usize,
        collected: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Option<Target> {
        let mut stream = self.streams[index];
        // Mostly its die is busy, and nothing is in the way of that: then this is all.
        if stream.is_open() && self.die_queues[stream.die as usize].waits() && !stream.resumed {
            let sound = self.superblocks.all[stream.block as usize].usable == self.superblocks.pages.by();
            if sound && stream.next < self.geo.units_per_superblock() {
                return None;
            }
        }
        let unit = self.advance(now, index, collected, &mut stream, cx);
        self.streams[index] = stream;
        unit
    }

    #[inline]
    fn advance<S: Storage>(
        &mut self,
        now: Nanos,
        index: usize,
        collected: bool,
        stream: &mut Stream,
        cx: &mut SetContext<'_, S>,
    ) -> Option<Target> {
        let per_superblock = self.geo.units_per_superblock();
        loop {
            if !stream.is_open() {
                *stream = self.open_superblock(index, collected, cx)?;
            }
            let block = stream.block;
            while stream.next < per_superblock {
                let unit = Unit(block * per_superblock + stream.next);
                let die = stream.die;
                let mut skip = self.is_skipped(stream, unit);
                if !skip {
                    if !self.has_room(now, die, cx) {
                        return None;
                    }
                    // A program whose end was only noticed now may have failed.
                    skip = self.is_skipped(stream, unit);
                }
                stream.next += 1;
                stream.die = if die + 1 == self.geo.dies { 0 } else { die + 1 };
                if !skip {
                    return Some(Target { unit, die, superblock: block });
                }
            }
            self.superblocks.seal(block);
            if self.notes_wanted && index < self.handles {
                self.note(now, index, PlacementChange::Filled);
            }
            *stream = Stream::default();
        }
    }

    /// Whether a unit cannot be programmed: its block is bad, or it was before power was lost.
    #[inline]
    fn is_skipped(&self, stream: &Stream, unit: Unit) -> bool {
        let has_bad = self.superblocks.all[stream.block as usize].usable != self.superblocks.pages.by();
        (has_bad && self.nand.is_bad(unit)) || (stream.resumed && self.is_programmed(unit))
    }

    fn open_superblock<S: Storage>(
        &mut self,
        index: usize,
        collected: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Option<Stream> {
        let relocated = index >= self.handles;
        if !collected && self.superblocks.free.len() < 2 {
            return None;
        }
        let block = self.superblocks.take_free(relocated, index as u8)?;
        if self.handles > 1 {
            let others = (0..self.handles).filter(|&h| h != index && self.streams[h].is_open()).count();
            self.open_handles = others as u32 + u32::from(!relocated);
            if self.durable {
                let (set, writer) = (self.id.0, index as u8);
                cx.storage.record(Record::Open { set, superblock: block, writer });
            }
        }
        Some(Stream { block, next: 0, die: 0, resumed: false })
    }

    /// The lane of garbage collection that a superblock's data belongs to, from 0.
    pub(super) fn lane_of(&self, superblock: u32) -> usize {
        let writer = usize::from(self.superblocks.all[superblock as usize].writer);
        match writer.checked_sub(self.handles) {
            Some(lane) => lane,
            None if self.streams.len() > self.handles + 1 => writer,
            None => 0,
        }
    }

    /// The stream that takes what is collected from a superblock: that of its lane. If there is no superblock for
    /// that one, another's rather than none: isolation is worth less than going on.
    pub(super) fn collecting_stream(&self, superblock: u32) -> usize {
        if self.gc_config.together {
            return 0;
        }
        let own = self.handles + self.lane_of(superblock);
        if self.streams[own].is_open() || !self.superblocks.free.is_empty() {
            return own;
        }
        (self.handles..self.streams.len()).find(|&s| self.streams[s].is_open()).unwrap_or(own)
    }

    /// Counts the pages that a superblock can hold, now that some of its blocks may be bad.
    pub(super) fn count_usable(&mut self, superblock: u32) {
        let first = superblock * self.geo.units_per_superblock();
        let good = (0..self.geo.dies).filter(|&d| !self.nand.is_bad(Unit(first + d))).count() as u32;
        self.superblocks.all[superblock as usize].usable =
            good * self.geo.units_per_block * self.geo.unit_pages;
    }
}
