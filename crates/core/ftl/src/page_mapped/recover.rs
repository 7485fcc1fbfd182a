//! Loss of power, and recovery of the map from the spare areas.

use super::PageMappedSet;
use super::bits::{bit, clear_bit, set_bit};
use super::buffer::{Entry, NONE};
use super::map::{BUFFERED, PageMap, STALE, UNMAPPED};
use super::streams::Streams;
use crate::context::SetContext;
use crate::flash::{Stream, Superblock, ZONES};
use crate::lost::LOST;
use crate::policy_input::Candidate;
use crate::storage::{Record, Storage};
use media::{Faulty, LogicalPage, Medium, Nand, Nanos, Page, Slot, Spare, Unit};

/// How many pages before it is wanted an entry of the map is prefetched.
const PREFETCH_PAGES: u32 = 32;

/// Which of two copies of one version is newer. Collection moves contents while it can read them, and the copy that it moved
/// from is given up.
fn age_of(slot: Slot) -> u8 {
    match slot {
        STALE => 0,
        LOST => 2,
        _ => 1,
    }
}

impl PageMappedSet {
    /// Power is lost: the chips tear what is in flight, RAM forgets. Returns what the capacitors saved
    /// of the write buffer (nothing if they failed). The journal hears what became of units that were being programmed or erased.
    pub fn lose_power<S: Storage>(
        &mut self,
        now: Nanos,
        saved: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Vec<Spare> {
        let kept = match saved {
            true => self.saved(),
            false => Vec::new(),
        };
        if !self.flash.is_durable() {
            // The newest copy on flash of each page is valid, and recovery shall find it without versions.
            self.flash.nand.inner_mut().forget_stale(self.valid.bits());
        }
        self.flash.power_cut(now, cx.storage);
        self.forget();
        // The journal has just got programs whose end was not noticed before. While the system area says that a page is deallocated,
        // its copy on flash does not count. Then what the capacitors saved is still needed.
        for &spare in kept.iter().filter(|spare| self.flash.is_durable() && bit(&self.trimmed, spare.page.0))
        {
            cx.storage.record(Record::Buffer { set: self.flash.id().0, spare });
        }
        kept
    }

    /// Empties everything that lives in RAM.
    fn forget(&mut self) {
        self.map.clear();
        self.valid.reset();
        self.buffer.clear();
        self.ops.reset();
        self.waiting.clear();
        self.lacks_slots = false;
        self.flushes.clear();
        self.purge = None;
        self.gc.reset(self.flash.geo());
        self.victims = self.policies.victim(self.gc.config.policy);
        self.streams.reset();
        self.notes.clear();
    }

    /// Sorts the superblocks by what their blocks and the map say, and resumes those that were being
    /// written: the one with most room for collection, which must be able to go on.
    pub(super) fn sort_superblocks(&mut self, of_zones: impl Fn(u32) -> bool) {
        let found = self.flash.sort(|superblock| self.valid.of(superblock) > 0, of_zones);
        for (i, found) in found.into_iter().enumerate() {
            let superblock = found.superblock;
            match self.resuming_stream(i, superblock).filter(|_| found.room > 0) {
                Some(stream) => {
                    self.flash.set_writer(superblock, stream as u8);
                    *self.streams.get_mut(stream) = Stream::resumed(superblock);
                }
                None => self.flash.seal(superblock),
            }
        }
        self.streams.recount_open();
    }

    /// Which stream goes on with a superblock that was being written, the `i`th by its room; `None`: it is sealed.
    fn resuming_stream(&mut self, i: usize, superblock: u32) -> Option<usize> {
        let hosts = self.streams.hosts();
        let free = |streams: &Streams, stream: usize| (!streams.get(stream).is_open()).then_some(stream);
        if hosts == 1 {
            return free(&self.streams, hosts).or(free(&self.streams, 0));
        }
        // Each goes on with its own, but the one with most room must be there for collection if nothing else is: it
        // may have been using the last superblock.
        let superblocks = self.flash.superblocks();
        let Superblock { writer, usable, erases, .. } = *superblocks.get(superblock);
        let stream = usize::from(writer).min(self.streams.count() - 1);
        if i == 0 && superblocks.free() == 0 && stream < hosts {
            let (valid, writer) = (self.valid.of(superblock), self.streams.writer(stream));
            let victim = Candidate { superblock, valid, usable, age: 1, erases, writer };
            let stream = self.streams.of_relocated(&victim);
            return free(&self.streams, stream);
        }
        free(&self.streams, stream)
    }

    /// Rebuilds the map from the spare areas, the system area's deallocations and what the
    /// capacitors saved; retains the slots that are referred to. Returns the highest version seen.
    pub fn rebuild<S: Storage>(
        &mut self,
        saved: &[Spare],
        of_zones: impl Fn(u32) -> bool,
        cx: &mut SetContext<'_, S>,
    ) -> u64 {
        self.forget();
        self.flash.reset();
        if self.map.len() != self.capacity as usize {
            self.map = PageMap::new(self.capacity);
        }
        let mut newest = match self.flash.is_durable() {
            true => self.find_newest(cx),
            false => {
                self.find_only();
                0
            }
        };
        self.sort_superblocks(of_zones);
        self.read_only = !self.has_spare();
        for spare in saved {
            newest = newest.max(spare.version);
            let page = spare.page.0;
            if page >= self.capacity {
                continue;
            }
            let old = self.map.at(page);
            if old != UNMAPPED && self.flash.nand.spare(Page(old)).version >= spare.version {
                continue;
            }
            self.restore_entry(page, old, spare, cx);
        }
        newest
    }

    /// Finds the newest copy on flash of each page, and retains its contents; returns the highest version seen. All other
    /// copies refer to none from now on.
    fn find_newest<S: Storage>(&mut self, cx: &mut SetContext<'_, S>) -> u64 {
        // A replay of the journal must know it.
        self.flash.record_lost_units(cx.storage);
        let mut newest = 0;
        for page in self.mapped_pages() {
            self.prefetch_for(page + PREFETCH_PAGES);
            let spare = self.flash.nand.spare(Page(page));
            if spare.page == LogicalPage::NONE || spare.page.0 >= self.capacity {
                continue;
            }
            newest = newest.max(spare.version);
            let order = |spare: Spare| (spare.version, age_of(spare.slot));
            let at = self.map.at(spare.page.0);
            if at == UNMAPPED || order(self.flash.nand.spare(Page(at))) <= order(spare) {
                self.map.set(spare.page.0, page);
            }
        }
        let mut given_up = Vec::new();
        // Once more in the order of the chips: then nothing but the map is visited at random.
        for page in self.mapped_pages() {
            self.prefetch_for(page + PREFETCH_PAGES);
            let logical = self.flash.logical(page);
            if logical >= self.capacity {
                continue;
            }
            let trimmed = bit(&self.trimmed, logical);
            if self.map.at(logical) != page || trimmed {
                if self.map.at(logical) == page {
                    self.map.set(logical, UNMAPPED);
                }
                self.flash.replace_slot(page, STALE);
                continue;
            }
            self.valid.set(page, self.flash.superblock_of(page));
            match self.flash.nand.slot(Page(page)) {
                LOST => self.lost.find(self.flash.id(), logical, cx.volumes),
                // Its successor was lost though it seemed to be written, and the contents are somebody else's by now.
                STALE => given_up.push(page),
                slot => cx.storage.retain(slot),
            }
        }
        self.mark_lost(&given_up, cx);
        newest
    }

    /// The flash pages of superblocks that zones did not write.
    pub(super) fn mapped_pages(&self) -> impl Iterator<Item = u32> + use<> {
        let pages = self.flash.geo().pages_per_superblock();
        let blocks = self.flash.superblocks().iter().filter(|(_, block)| block.writer != ZONES);
        let blocks: Vec<u32> = blocks.map(|(superblock, _)| superblock).collect();
        blocks.into_iter().flat_map(move |block| block * pages..(block + 1) * pages)
    }

    /// These pages cannot be read any more. A replay of the journal must know it.
    #[inline]
    fn mark_lost<S: Storage>(&mut self, pages: &[u32], cx: &mut SetContext<'_, S>) {
        for &page in pages {
            self.flash.replace_slot(page, LOST);
            self.lost.find(self.flash.id(), self.flash.logical(page), cx.volumes);
        }
        let unit_pages = self.flash.geo().unit_pages;
        let mut units: Vec<Unit> = pages.iter().map(|page| Unit(page / unit_pages)).collect();
        units.dedup();
        self.flash.record_units(&units, cx.storage);
    }

    /// Finds the copy on flash of each page where there are no versions: the power cut saw to it that there is one.
    fn find_only(&mut self) {
        let (units, unit_pages) = (self.flash.geo().units_per_superblock(), self.flash.geo().unit_pages);
        for unit in 0..self.flash.geo().superblocks * units {
            if self.flash.superblocks().get(unit / units).writer == ZONES {
                continue;
            }
            let first = unit * unit_pages;
            for page in first..first + self.flash.programmed(Unit(unit)) {
                self.prefetch_for(page + PREFETCH_PAGES);
                let logical = self.flash.logical(page);
                let Some(other) = self.map.get(logical) else { continue };
                self.map.set(logical, page);
                self.valid.set(page, unit / units);
                // Not of a drive that was saved as a whole; of two, one counts.
                if other != UNMAPPED {
                    self.valid.clear(other, self.flash.superblock_of(other));
                }
            }
        }
    }

    /// Begins to bring the map's entry for what a flash page holds into the host's cache.
    #[inline]
    fn prefetch_for(&self, page: u32) {
        if u64::from(page) < self.flash.geo().pages() {
            self.map.prefetch(self.flash.logical(page));
        }
    }

    fn restore_entry<S: Storage>(&mut self, page: u32, old: u32, spare: &Spare, cx: &mut SetContext<'_, S>) {
        let atomic = self.buffer.atomic();
        let base = page - page % atomic;
        let neighbour = (base..(base + atomic).min(self.capacity)).find_map(|p| {
            let at = self.map.at(p);
            (at != UNMAPPED && at & BUFFERED != 0).then_some(at ^ BUFFERED)
        });
        let index = match neighbour {
            Some(neighbour) => Some(self.buffer.join(neighbour, page)),
            // The capacitors saved no placement handles.
            None => self.buffer.open(page, 0),
        };
        // What was saved came out of this buffer, so it fits.
        let Some(index) = index else { return };
        let Spare { slot, version, .. } = *spare;
        *self.buffer.entry_mut(index) = Entry { page, old, slot, prev: NONE, version };
        self.map.set(page, BUFFERED | index);
        cx.storage.retain(spare.slot);
        // Again, because the journal may have been told that this very version landed: if power was lost
        // between the end of a program and its being noticed, the page is still deallocated officially.
        cx.storage.record(Record::Buffer { set: self.flash.id().0, spare: *spare });
    }

    /// Applies a deallocation of a journal.
    pub fn apply_trim(&mut self, first: u32, count: u32, gone: bool) {
        if let Some(end) = first.checked_add(count).filter(|&e| e <= self.capacity && self.flash.is_durable())
        {
            for page in first..end {
                if gone {
                    set_bit(&mut self.trimmed, page);
                } else {
                    clear_bit(&mut self.trimmed, page);
                }
            }
        }
    }

    /// Gives back the memory that recovery fills again.
    pub fn drop_map(&mut self) {
        self.map = PageMap::default();
    }

    /// What the capacitors would save now.
    pub fn saved(&self) -> Vec<Spare> {
        self.buffer
            .entries()
            .filter(|(i, e)| self.map.at(e.page) == BUFFERED | i)
            .map(|(_, e)| e.spare())
            .collect()
    }

    pub fn trimmed(&self) -> &[u64] {
        &self.trimmed
    }

    pub fn set_trimmed(&mut self, words: &[u64]) {
        self.trimmed.copy_from_slice(words);
    }

    /// Who wrote each superblock, if there are several placement handles, or zones wrote any.
    pub fn writers(&self) -> Vec<u8> {
        self.flash.writers()
    }

    /// Sets what stream wrote a superblock; whether both exist.
    pub fn apply_open(&mut self, superblock: u32, writer: u8) -> bool {
        (usize::from(writer) < self.streams.count() || writer == ZONES)
            && self.flash.set_writer(superblock, writer)
    }

    /// The chips, for what is saved of them and replayed.
    pub fn nand(&self) -> &Faulty<Nand> {
        &self.flash.nand
    }

    /// The chips, to replay what a journal tells.
    pub fn nand_mut(&mut self) -> &mut Faulty<Nand> {
        &mut self.flash.nand
    }

    /// Pages of the write buffer.
    pub fn buffer_pages(&self) -> usize {
        self.buffer.pages()
    }
}
