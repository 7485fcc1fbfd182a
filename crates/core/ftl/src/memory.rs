//! An NVM Set on DRAM or persistent memory: logical page = physical page, written in place.

use crate::answer::{Answer, CompletedIo, Fault, MediaKind, SetInfo, SetStats, WriteHistory};
use crate::compare::{match_before, matches};
use crate::config::{GRANULE_PAGES, PAGE};
use crate::context::SetContext;
use crate::lost::{LOST, LostPages};
use crate::set::{AfterCut, NvmSet};
use crate::storage::{Io, Piece, Record, Storage};
use crate::volume::{Extent, SetId, VolumeId};
use crate::write::Write;
use media::{
    FaultPlan, Faulty, LogicalPage, Medium, Memory, MemoryKind, Nanos, OpStatus, Page, Progress, Slot, Spare,
    Unit,
};
use std::collections::VecDeque;
use std::ops::Range;

/// A page whose contents are stored, and not in their place yet.
#[derive(Clone, Copy)]
struct Stored {
    page: u32,
    slot: Slot,
    /// What is in its place.
    before: Option<Spare>,
}

#[derive(Clone)]
pub(crate) struct MemorySet {
    pub id: SetId,
    pub memory: Faulty<Memory>,
    durable: bool,
    /// Loses its contents with power unless the capacitors save them.
    volatile: bool,
    /// Pages that are written as a whole or not at all.
    atomic: u32,
    /// Pages of the group that is being written.
    group: Vec<Stored>,
    /// Writes that wait for a slot, in order.
    waiting: VecDeque<Write>,
    pub lost: LostPages,
    pub stats: SetStats,
}

impl MemorySet {
    pub fn new(id: SetId, memory: Faulty<Memory>, durable: bool, volatile: bool, atomic: u32) -> MemorySet {
        let (group, waiting, stats) = (Vec::new(), VecDeque::new(), SetStats::default());
        MemorySet { id, memory, durable, volatile, atomic, group, waiting, lost: LostPages::default(), stats }
    }

    fn spare(&self, page: u32) -> Option<Spare> {
        // Also where a fault lets the medium pretend that nothing was written: reads of it fail.
        Some(self.memory.inner().spare(Page(page))).filter(|s| s.page != LogicalPage::NONE)
    }

    /// Writes as many groups of pages as there are slots for; whether that was all.
    fn place<S: Storage>(
        &mut self,
        now: Nanos,
        write: &mut Write,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        let group = u64::from(self.atomic) * u64::from(PAGE);
        while write.start < write.end {
            let stop = write.end_of_group(group);
            if write.compare.is_some() {
                let volume = write.volume;
                match_before(write, |io, extent| self.read_extent(now, volume, extent, cx, matches(io)))?;
            }
            let stored = self.store(write, stop, cx);
            if stored != Ok(true) {
                // All of a group or nothing.
                self.group.drain(..).for_each(|stored| cx.storage.release(stored.slot));
                return stored;
            }
            self.exchange(now, write, cx)?;
            write.compare = None;
            write.host += (stop - write.start) as u32;
            write.start = stop;
        }
        Ok(true)
    }

    /// Stores the pages of a group up to a byte; whether there were slots for all of them.
    fn store<S: Storage>(
        &mut self,
        write: &Write,
        stop: u64,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        self.group.clear();
        let extent = Extent { start: write.start, bytes: (stop - write.start) as u32 };
        for (page, mut piece) in extent.pieces() {
            piece.host += write.host;
            let Some(slot) = cx.storage.allocate() else { return Ok(false) };
            let volume = cx.volumes.get(write.volume).ok_or(Fault::OutOfRange)?;
            let page = volume.page(page);
            let before = self.spare(page);
            self.group.push(Stored { page, slot, before });
            let base = before.map(|s| s.slot).filter(|&s| s != LOST && piece.len < PAGE);
            write.store(cx.storage, piece, slot, base)?;
        }
        Ok(true)
    }

    /// Puts the stored pages in the place of what was there.
    fn exchange<S: Storage>(
        &mut self,
        now: Nanos,
        write: &mut Write,
        cx: &mut SetContext<'_, S>,
    ) -> Result<(), Fault> {
        let mut result = Ok(());
        for i in 0..self.group.len() {
            let Stored { page, slot, before } = self.group[i];
            *cx.version += 1;
            let spare = Spare { page: LogicalPage(page), version: *cx.version, slot };
            if let Some(old) = before.map(|s| s.slot).filter(|&s| s != LOST) {
                cx.storage.release(old);
            }
            if let Some(volume) = cx.volumes.get_mut(write.volume) {
                volume.stats.media_host_bytes += u64::from(PAGE);
                volume.mapped += u64::from(before.is_none());
            }
            result = result.and(self.put(now, page, spare, cx, &mut write.at));
        }
        self.group.clear();
        result
    }

    /// Walks the pages of an extent. `visit` gets the piece and the contents.
    #[inline]
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
        for (page, piece) in extent.pieces() {
            let page = volume.page(page);
            let spare = self.spare(page);
            if spare.is_some_and(|s| s.slot == LOST) {
                return Err(Fault::Unrecovered);
            }
            if spare.is_some() {
                let read = self.memory.read(now, Page(page), 1);
                self.stats.media_read_bytes += u64::from(PAGE);
                volume.stats.media_read_bytes += u64::from(PAGE);
                if read.status == OpStatus::Failed {
                    self.stats.uncorrectable += 1;
                    return Err(Fault::Unrecovered);
                }
                end = end.max(read.done);
            }
            visit(cx.storage, piece, spare.map(|s| s.slot))?;
        }
        Ok(end)
    }

    fn put<S: Storage>(
        &mut self,
        now: Nanos,
        page: u32,
        spare: Spare,
        cx: &mut SetContext<'_, S>,
        at: &mut Nanos,
    ) -> Result<(), Fault> {
        let end = self.memory.program(now, Unit(page), &[spare]);
        *at = (*at).max(end);
        self.stats.media_written_bytes += u64::from(PAGE);
        let mut kept = spare;
        // Nothing can postpone a write in place, so how it ends is known at once.
        let failed = self.memory.poll_program(end, Unit(page)) == Progress::Ended(OpStatus::Failed);
        if failed {
            self.stats.media_failures += 1;
            cx.storage.release(spare.slot);
            kept.slot = LOST;
            let _ = self.memory.apply_program(Unit(page), &[kept]);
            self.lost.lose(self.id, page, cx.volumes);
        }
        if self.durable {
            cx.storage.record(Record::Place { set: self.id.0, page: Page(page), spare: kept });
        }
        if failed { Err(Fault::Write) } else { Ok(()) }
    }

    /// Applies what a journal says was given up; whether there are such pages.
    pub fn apply_clear(&mut self, first: u32, count: u32) -> bool {
        let pages = self.memory.geometry().pages() as u32;
        let Some(end) = first.checked_add(count).filter(|&end| end <= pages) else { return false };
        for page in first..end {
            if self.spare(page).is_some() {
                self.clear(page);
            }
        }
        true
    }

    /// Forgetting a page takes the medium no time.
    fn clear(&mut self, page: u32) {
        // Every page of a volume is on the medium.
        let _ = self.memory.apply_program(Unit(page), &[Spare::EMPTY]);
    }
}

impl NvmSet for MemorySet {
    fn slot_of(&self, page: u32) -> Option<Slot> {
        self.spare(page).map(|spare| spare.slot)
    }

    fn mapped_pages(&self, pages: Range<u32>) -> u64 {
        pages.filter(|&p| self.spare(p).is_some()).count() as u64
    }

    fn references(&self) -> Vec<Slot> {
        let slots = (0..self.memory.geometry().pages() as u32).filter_map(|page| self.slot_of(page));
        slots.filter(|&slot| slot != LOST).collect()
    }

    fn read<S: Storage, V: FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>>(
        &mut self,
        now: Nanos,
        _io: Io,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        visit: V,
    ) -> Answer {
        self.read_extent(now, volume, extent, cx, visit).into()
    }

    fn write<S: Storage>(&mut self, now: Nanos, mut write: Write, cx: &mut SetContext<'_, S>) -> Answer {
        if self.waiting.is_empty() {
            match self.place(now, &mut write, cx) {
                Err(fault) => return Answer::Failed(fault),
                Ok(true) => return Answer::At(write.at.max(now)),
                Ok(false) => {}
            }
        }
        self.waiting.push_back(write);
        Answer::Later
    }

    fn trim<S: Storage>(&mut self, _now: Nanos, first: u32, count: u32, cx: &mut SetContext<'_, S>) {
        let mut any = false;
        for page in first..first + count {
            let Some(spare) = self.spare(page) else { continue };
            any = true;
            self.clear(page);
            if let Some(volume) = cx.volumes.owner_mut(self.id, page) {
                volume.mapped -= 1;
            }
            if self.durable && spare.slot != LOST {
                cx.storage.release(spare.slot);
            }
        }
        if any && self.durable {
            cx.storage.record(Record::Clear { set: self.id.0, first, count });
        }
    }

    fn purge<S: Storage>(&mut self, now: Nanos, _io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        if cx.volumes.hold_anything(self.id) {
            self.trim(now, 0, self.memory.geometry().pages() as u32, cx);
        }
        Answer::At(now)
    }

    #[inline]
    fn lacks_slots(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn retry<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        while let Some(mut write) = self.waiting.pop_front() {
            let result = match self.place(now, &mut write, cx) {
                Ok(false) => {
                    self.waiting.push_front(write);
                    return;
                }
                Ok(true) => Ok(()),
                Err(fault) => Err(fault),
            };
            cx.done.push(CompletedIo { io: write.io, at: write.at.max(now), result });
        }
    }

    fn power_cut<S: Storage>(&mut self, now: Nanos, saved: bool, cx: &mut SetContext<'_, S>) -> AfterCut {
        self.memory.power_cut(now);
        self.waiting.clear();
        let lossy = self.volatile && !saved;
        if lossy {
            self.memory.inner_mut().lose_contents();
            if self.durable {
                let count = self.memory.geometry().pages() as u32;
                cx.storage.record(Record::Clear { set: self.id.0, first: 0, count });
            }
        }
        AfterCut { saved: Vec::new(), lossy }
    }

    fn recover<S: Storage>(&mut self, _saved: &[Spare], cx: &mut SetContext<'_, S>) -> u64 {
        let mut newest = 0;
        let pages = self.memory.geometry().pages() as u32;
        for page in 0..pages {
            let Some(spare) = self.spare(page) else { continue };
            newest = newest.max(spare.version);
            if spare.slot == LOST {
                self.lost.find(self.id, page, cx.volumes);
            } else {
                cx.storage.retain(spare.slot);
            }
        }
        newest
    }

    /// Everything in `granules` was written once: more writes leave no trace on a medium that is written in place.
    fn precondition(
        &mut self,
        granules: &[u32],
        _history: WriteHistory,
        version: &mut u64,
        _go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        granules.iter().flat_map(|g| g * GRANULE_PAGES..(g + 1) * GRANULE_PAGES).all(|page| {
            *version += 1;
            let spare = Spare { page: LogicalPage(page), version: *version, slot: Slot::NONE };
            self.memory.apply_program(Unit(page), &[spare]).is_ok()
        })
    }

    fn lost(&mut self) -> &mut LostPages {
        &mut self.lost
    }

    fn stats(&self) -> SetStats {
        self.stats
    }

    fn restore_stats(&mut self, stats: SetStats) {
        self.stats = stats;
    }

    fn info(&self, capacity_bytes: u64, unallocated_bytes: u64) -> SetInfo {
        let kind = match self.memory.inner().kind() {
            MemoryKind::Dram => MediaKind::Dram,
            MemoryKind::Pmem => MediaKind::Pmem,
        };
        let raw_bytes = self.memory.geometry().pages() * u64::from(PAGE);
        SetInfo {
            rated_cycles: self.memory.geometry().rated_cycles,
            ..SetInfo::in_place(kind, capacity_bytes, unallocated_bytes, raw_bytes)
        }
    }

    fn plan(&self) -> &FaultPlan {
        self.memory.plan()
    }

    fn plan_mut(&mut self) -> &mut FaultPlan {
        self.memory.plan_mut()
    }

    #[inline]
    fn cut_due(&self) -> bool {
        self.memory.cut_due()
    }
}
