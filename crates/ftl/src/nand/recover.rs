//! Power: what is lost with it, and how the map is found again from the spare areas.

use super::superblock::{State, Stream};
use super::{NandSet, STALE, UNMAPPED, bit, buffer, clear_bit, collect, die_queue};
use crate::context::SetContext;
use crate::lost::LOST;
use crate::storage::{Record, Storage};
use media::tables::{Table, prefetch};
use media::{BlockState, LogicalPage, Medium, Nanos, Page, Slot, Spare, Unit};

/// How many pages before it is wanted an entry of the map is prefetched.
const AHEAD: u32 = 32;

/// Which of two copies of one version is newer. Collection moves contents as long as it can read them, and what it moved
/// them from is given up.
fn age_of(slot: Slot) -> u8 {
    match slot {
        STALE => 0,
        LOST => 2,
        _ => 1,
    }
}

impl NandSet {
    /// Power is lost: the chips tear what is in flight, RAM forgets. Returns what the capacitors saved
    /// of the write buffer (nothing if they failed). The journal hears what became of units that were being programmed or erased.
    pub(super) fn lose_power<S: Storage>(
        &mut self,
        now: Nanos,
        saved: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Vec<Spare> {
        let kept = match saved {
            true => self.saved(),
            false => Vec::new(),
        };
        let programs = self.ops.iter().filter(|f| f.programming).map(|f| f.unit);
        let under_way: Vec<Unit> = programs.chain(self.erasing_units()).collect();
        if !self.durable {
            // The newest copy on flash of each page is valid, and recovery shall find it without versions.
            self.nand.inner_mut().forget_stale(&self.valid);
        }
        self.nand.power_cut(now);
        self.forget();
        self.record_ends(&under_way, cx);
        // The journal has just heard of programs whose end nobody noticed. A copy on flash does not count as long as the page is
        // deallocated officially: there what the capacitors saved is still needed.
        for &spare in kept.iter().filter(|spare| self.durable && bit(&self.trimmed, spare.page.0)) {
            cx.storage.record(Record::Buffer { set: self.id.0, spare });
        }
        kept
    }

    /// The units of the blocks that are being erased: they hold nothing, and the journal does not know yet.
    fn erasing_units(&self) -> impl Iterator<Item = Unit> + use<> {
        let blocks = &self.superblocks;
        let dies = if blocks.erases_under_way > 0 { 0..blocks.erase_die } else { 0..0 };
        let first = blocks.erasing.front().map_or(0, |block| block * self.geo.units_per_superblock());
        let (rows, step) = (self.geo.units_per_block, self.geo.dies);
        dies.flat_map(move |die| (0..rows).map(move |row| Unit(first + row * step + die)))
    }

    /// Tells the journal what became of units that were being programmed or erased when power was lost. The erase of a block
    /// that wears out may have failed without an answer: then the block is bad.
    fn record_ends<S: Storage>(&mut self, units: &[Unit], cx: &mut SetContext<'_, S>) {
        for &unit in units {
            let first = unit.0 * self.geo.unit_pages;
            self.spares.clear();
            self.spares
                .extend((first..first + self.geo.unit_pages).map(|p| self.nand.inner().spare(Page(p))));
            let torn = self.spares.iter().all(|s| s.page == LogicalPage::NONE);
            cx.storage.record(match torn {
                true => Record::Spoil { set: self.id.0, unit },
                false => Record::Program { set: self.id.0, unit, spares: &self.spares },
            });
            if self.nand.is_bad(unit) {
                cx.storage.record(Record::Retire { set: self.id.0, unit });
            }
        }
    }

    /// Empties everything that lives in RAM.
    fn forget(&mut self) {
        self.map.fill(UNMAPPED);
        self.valid.fill(0);
        self.buffer.clear();
        self.free_ops = (0..self.ops.len() as u32).rev().collect();
        self.ops.iter_mut().for_each(|f| f.programming = false);
        self.die_queues.fill(die_queue::DieQueue::default());
        self.waiting.clear();
        self.lacks_slots = false;
        self.flushes.clear();
        self.purge = None;
        self.gc = collect::Collector::new(&self.geo, self.gc_config.idle_share);
        self.streams.fill(Stream::default());
        self.closing.fill(0);
        self.gc_paused = false;
        self.notes.clear();
        (self.turn, self.open_handles) = (0, 0);
    }

    /// Sorts the superblocks by what their blocks and the map say, and resumes those that were being
    /// written: the one with most room for collection, which must be able to go on.
    pub(super) fn sort_blocks(&mut self) {
        let units = self.geo.units_per_superblock();
        let mut partial = Vec::new();
        for superblock in 0..self.geo.superblocks {
            self.count_usable(superblock);
            let first = superblock * units;
            let (mut begun, mut room) = (false, 0);
            for die in 0..self.geo.dies {
                match self.nand.block(Unit(first + die)) {
                    BlockState::Writable { next } => {
                        begun |= next > 0;
                        room += self.geo.units_per_block - next;
                    }
                    BlockState::MustErase => begun = true,
                    BlockState::Bad => {}
                }
            }
            let erases = (0..self.geo.dies).map(|d| self.nand.wear(Unit(first + d))).max().unwrap_or(0);
            let block = &mut self.superblocks.all[superblock as usize];
            block.erases = erases;
            if block.usable == 0 && block.valid == 0 {
                block.state = State::Dead;
            } else if !begun && block.valid == 0 {
                block.state = State::Free;
                self.superblocks.free.push(superblock);
            } else if block.valid == 0 {
                // Nothing of it counts: also where an erase was cut short, by the rule of validity.
                block.state = State::Erasing;
                self.superblocks.erasing.push_back(superblock);
            } else {
                block.state = State::Open;
                partial.push((room, superblock));
            }
        }
        partial.sort_unstable_by(|a, b| b.cmp(a));
        for (i, (room, superblock)) in partial.into_iter().enumerate() {
            let stream = self.resuming_stream(i, superblock);
            match stream.filter(|_| room > 0) {
                Some(stream) => {
                    self.superblocks.all[superblock as usize].writer = stream as u8;
                    self.streams[stream] = Stream { block: superblock, next: 0, die: 0, resumed: true };
                }
                None => self.superblocks.seal(superblock),
            }
        }
        if self.handles > 1 {
            self.open_handles = (0..self.handles).filter(|&h| self.streams[h].is_open()).count() as u32;
        }
    }

    /// Which stream goes on with a superblock that was being written, the `i`th by its room; `None`: it is sealed.
    fn resuming_stream(&self, i: usize, superblock: u32) -> Option<usize> {
        let free = |stream: usize| (!self.streams[stream].is_open()).then_some(stream);
        if self.handles == 1 {
            return free(self.handles).or(free(0));
        }
        // Each goes on with its own, but the one with most room must be there for collection if nothing else is: it
        // may have been using the last superblock.
        let writer =
            usize::from(self.superblocks.all[superblock as usize].writer).min(self.streams.len() - 1);
        if i == 0 && self.superblocks.free.is_empty() && writer < self.handles {
            return free(self.handles + self.lane_of(superblock));
        }
        free(writer)
    }

    /// Whether a unit of a block that may be written was programmed already.
    pub(super) fn is_programmed(&self, unit: Unit) -> bool {
        match self.nand.block(unit) {
            BlockState::Writable { next } => unit.0 % self.geo.units_per_superblock() / self.geo.dies < next,
            BlockState::MustErase | BlockState::Bad => true,
        }
    }

    /// Rebuilds the map from the spare areas, the system area's deallocations and what the
    /// capacitors saved; retains the slots that are referred to. Returns the highest version seen.
    pub(super) fn rebuild<S: Storage>(&mut self, saved: &[Spare], cx: &mut SetContext<'_, S>) -> u64 {
        self.forget();
        self.superblocks.reset();
        if self.map.len() != self.capacity as usize {
            self.map = Table::new(UNMAPPED, self.capacity as usize);
        }
        let mut newest = match self.durable {
            true => self.find_newest(cx),
            false => {
                self.find_only();
                0
            }
        };
        self.sort_blocks();
        self.read_only = !self.has_spare();
        for spare in saved {
            newest = newest.max(spare.version);
            let page = spare.page.0;
            if page >= self.capacity {
                continue;
            }
            let old = self.map[page as usize];
            if old != UNMAPPED && self.nand.spare(Page(old)).version >= spare.version {
                continue;
            }
            self.restore_entry(page, old, spare, cx);
        }
        newest
    }

    /// Finds the newest copy on flash of each page, and retains its contents; returns the highest version seen. All other
    /// copies refer to none from now on.
    fn find_newest<S: Storage>(&mut self, cx: &mut SetContext<'_, S>) -> u64 {
        // That these hold nothing may have been found just now. Whoever replays the journal must know it.
        for unit in self.nand.lost_units() {
            cx.storage.record(Record::Spoil { set: self.id.0, unit });
        }
        let mut newest = 0;
        let pages = self.geo.pages() as u32;
        for page in 0..pages {
            self.prefetch_for(page + AHEAD);
            let spare = self.nand.spare(Page(page));
            if spare.page == LogicalPage::NONE || spare.page.0 >= self.capacity {
                continue;
            }
            newest = newest.max(spare.version);
            let order = |spare: Spare| (spare.version, age_of(spare.slot));
            let at = &mut self.map[spare.page.0 as usize];
            if *at == UNMAPPED || order(self.nand.spare(Page(*at))) <= order(spare) {
                *at = page;
            }
        }
        let mut given_up = Vec::new();
        // Once more in the order of the chips: then nothing but the map is visited at random.
        for page in 0..pages {
            self.prefetch_for(page + AHEAD);
            let logical = self.nand.inner().logical(Page(page)).0;
            if logical >= self.capacity {
                continue;
            }
            let trimmed = bit(&self.trimmed, logical);
            if self.map[logical as usize] != page || trimmed {
                if self.map[logical as usize] == page {
                    self.map[logical as usize] = UNMAPPED;
                }
                self.nand.inner_mut().replace_slot(Page(page), STALE);
                continue;
            }
            self.validate(page, self.superblocks.of(page));
            match self.nand.slot(Page(page)) {
                LOST => self.lost.find(self.id, logical, cx.volumes),
                // Its successor was lost though it seemed to be written, and the contents are somebody else's by now.
                STALE => given_up.push(page),
                slot => cx.storage.retain(slot),
            }
        }
        self.mark_lost(&given_up, cx);
        newest
    }

    /// These pages cannot be read any more. Whoever replays the journal must know it.
    #[inline]
    fn mark_lost<S: Storage>(&mut self, pages: &[u32], cx: &mut SetContext<'_, S>) {
        for &page in pages {
            self.nand.inner_mut().replace_slot(Page(page), LOST);
            self.lost.find(self.id, self.nand.inner().logical(Page(page)).0, cx.volumes);
        }
        let mut units: Vec<Unit> = pages.iter().map(|page| Unit(page / self.geo.unit_pages)).collect();
        units.dedup();
        self.record_ends(&units, cx);
    }

    /// Finds the copy on flash of each page where there are no versions: whoever cut the power saw to it that there is one.
    fn find_only(&mut self) {
        let units = self.geo.units_per_superblock();
        for unit in 0..self.geo.superblocks * units {
            let first = unit * self.geo.unit_pages;
            let count = match self.nand.is_lost(Unit(unit)) {
                true => 0,
                false => self.nand.inner().programmed(Unit(unit)).len() as u32,
            };
            for page in first..first + count {
                self.prefetch_for(page + AHEAD);
                let logical = self.nand.inner().logical(Page(page)).0;
                let Some(at) = self.map.get_mut(logical as usize) else { continue };
                let other = std::mem::replace(at, page);
                self.validate(page, unit / units);
                // Not of a drive that was saved as a whole; of two, one counts.
                if other != UNMAPPED {
                    self.take_validity(other, self.superblocks.of(other));
                }
            }
        }
    }

    /// Begins to bring the map's entry for what a flash page holds into the host's cache.
    #[inline]
    fn prefetch_for(&self, page: u32) {
        if u64::from(page) < self.geo.pages() {
            prefetch(&self.map, self.nand.inner().logical(Page(page)).0);
        }
    }

    fn restore_entry<S: Storage>(&mut self, page: u32, old: u32, spare: &Spare, cx: &mut SetContext<'_, S>) {
        let atomic = self.buffer.atomic();
        let base = page - page % atomic;
        let neighbour = (base..(base + atomic).min(self.capacity)).find_map(|p| {
            let at = self.map[p as usize];
            (at != UNMAPPED && at & super::BUFFERED != 0).then_some(at ^ super::BUFFERED)
        });
        let index = match neighbour {
            Some(neighbour) => Some(self.buffer.join(neighbour, page)),
            // The capacitors saved no placement handles.
            None => self.buffer.open(page, 0),
        };
        // What was saved came out of this buffer, so it fits.
        let Some(index) = index else { return };
        let Spare { slot, version, .. } = *spare;
        *self.buffer.entry_mut(index) = buffer::Entry { page, old, slot, prev: buffer::NONE, version };
        self.map[page as usize] = super::BUFFERED | index;
        cx.storage.retain(spare.slot);
        // Again, because the journal may have been told that this very version landed: if power was lost
        // between the end of a program and its being noticed, the page is still deallocated officially.
        cx.storage.record(Record::Buffer { set: self.id.0, spare: *spare });
    }

    /// Applies a deallocation that a journal tells of.
    pub fn apply_trim(&mut self, first: u32, count: u32, gone: bool) {
        if let Some(end) = first.checked_add(count).filter(|&e| e <= self.capacity && self.durable) {
            for page in first..end {
                if gone {
                    super::set_bit(&mut self.trimmed, page);
                } else {
                    clear_bit(&mut self.trimmed, page);
                }
            }
        }
    }

    /// Gives back the memory that recovery fills again.
    pub fn drop_map(&mut self) {
        self.map = Table::default();
    }

    /// What the capacitors would save now.
    pub fn saved(&self) -> Vec<Spare> {
        self.buffer
            .entries()
            .filter(|(i, e)| self.map[e.page as usize] == super::BUFFERED | i)
            .map(|(_, e)| e.spare())
            .collect()
    }

    pub fn trimmed(&self) -> &[u64] {
        &self.trimmed
    }

    pub fn set_trimmed(&mut self, words: &[u64]) {
        self.trimmed.copy_from_slice(words);
    }
}
