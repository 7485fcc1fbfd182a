//! A disk as an NVM Set.

use super::{DiskSet, SectorState};
use crate::answer::{Answer, CompletedIo, Fault, MediaKind, SetInfo, SetStats, WriteHistory};
use crate::config::{GRANULE_PAGES, PAGE};
use crate::context::{Event, SetContext};
use crate::disk::requests::Request;
use crate::lost::{LOST, LostPages};
use crate::set::{AfterCut, NvmSet};
use crate::storage::{Io, Piece, Record, Storage};
use crate::volume::{Extent, VolumeId};
use crate::write::Write;
use media::disk::drive::PowerCut;
use media::disk::{Op, ReadsFirst};
use media::{FaultPlan, Nanos, Slot, Spare};
use std::ops::Range;

/// Sectors that a request can spoil, at most: no transfer is longer than 128 MiB. A journal that names more is damaged.
const MOST_SECTORS: u32 = 1 << 20;

impl NvmSet for DiskSet {
    fn slot_of(&self, page: u32) -> Option<Slot> {
        let (first, count) = self.sectors_of_page(page);
        self.table.get(page).map(|slot| if self.disk.is_unreadable(first, count) { LOST } else { slot })
    }

    fn mapped_pages(&self, pages: Range<u32>) -> u64 {
        self.table.count(pages)
    }

    fn references(&self) -> Vec<Slot> {
        let held = self.table.iter().map(|(_, slot)| slot).filter(|&slot| slot != LOST && slot != Slot::NONE);
        held.chain(self.unlanded.references()).collect()
    }

    fn read<S: Storage, V: FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>>(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        visit: V,
    ) -> Answer {
        if let Err(fault) = self.visit(volume, extent, cx, visit) {
            self.stats.uncorrectable += u64::from(fault == Fault::Unrecovered);
            return Answer::Failed(fault);
        }
        let Some(volume) = cx.volumes.get_mut(volume) else { return Answer::Failed(Fault::OutOfRange) };
        let bytes = u64::from(extent.bytes).next_multiple_of(u64::from(PAGE));
        self.stats.media_read_bytes += bytes;
        volume.stats.media_read_bytes += bytes;
        let runs = DiskSet::runs(volume, extent);
        let command = self.requests.open(io, runs.len() as u32);
        for run in runs {
            let sectors = self.sectors(run);
            let fate = self.faults.of_read();
            let id = self.requests.add(Request::read(command, sectors, fate));
            self.slow_down(fate.revolutions, sectors, cx);
            let (block, count) = sectors;
            let request = media::disk::Request {
                id,
                op: Op::Read,
                block,
                count,
                force: false,
                reads_first: ReadsFirst::Nothing,
            };
            self.submit(now, request, cx);
        }
        self.go_on(now, cx);
        Answer::Later
    }

    fn write<S: Storage>(&mut self, now: Nanos, mut write: Write, cx: &mut SetContext<'_, S>) -> Answer {
        if self.waiting.is_empty() {
            match self.place(now, &mut write, cx) {
                Err(fault) => return Answer::Failed(fault),
                Ok(Some(answer)) => return answer,
                Ok(None) => {}
            }
        }
        self.waiting.push_back(write);
        Answer::Later
    }

    fn trim<S: Storage>(&mut self, _now: Nanos, first: u32, count: u32, cx: &mut SetContext<'_, S>) {
        let mut any = false;
        for page in first..first + count {
            self.unlanded.forget(page, cx.storage);
            let Some(slot) = self.table.take(page) else { continue };
            any = true;
            if slot != LOST {
                cx.storage.release(slot);
            }
            // Nothing there is to be read, so sectors that cannot be are reassigned.
            self.heal(self.sectors_of_page(page), cx);
            if let Some(volume) = cx.volumes.owner_mut(self.id, page) {
                volume.count_mapped(-1);
            }
        }
        if any && self.durable {
            cx.storage.record(Record::Clear { set: self.id.0, first, count });
        }
    }

    fn drain<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        if !self.timed || !self.disk.has_write_cache() {
            return Answer::At(now);
        }
        let command = self.requests.open(io, 1);
        // Nothing of it is read or landed.
        let id = self.requests.add(Request::read(command, (0, 0), Default::default()));
        self.disk.flush(now, id);
        self.go_on(now, cx);
        Answer::Later
    }

    fn purge<S: Storage>(&mut self, now: Nanos, _io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        if cx.volumes.hold_anything(self.id) {
            self.trim(now, 0, self.table.pages(), cx);
        }
        Answer::At(now)
    }

    #[inline]
    fn lacks_slots(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn retry<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        while let Some(mut write) = self.waiting.pop_front() {
            match self.place(now, &mut write, cx) {
                Ok(None) => {
                    self.waiting.push_front(write);
                    return;
                }
                Ok(Some(_)) => {}
                Err(fault) => cx.done.push(CompletedIo { io: write.io, at: now, result: Err(fault) }),
            }
        }
    }

    fn handle<S: Storage>(&mut self, now: Nanos, event: Event, cx: &mut SetContext<'_, S>) {
        if let Event::Disk = event {
            if now >= self.armed {
                self.armed = Nanos::MAX;
            }
            self.go_on(now, cx);
        }
    }

    fn power_cut<S: Storage>(&mut self, now: Nanos, saved: bool, cx: &mut SetContext<'_, S>) -> AfterCut {
        self.go_on(now, cx);
        let cut = self.disk.power_cut(now);
        self.land_under_way(&cut, cx);
        if saved {
            let saved: Vec<(u64, Request)> = self.requests.saved(cut.under_way).collect();
            for (id, request) in saved {
                request.pages.for_each(|page| self.unlanded.land_part(page, id, 0..PAGE, cx.storage));
                self.heal(request.sectors, cx);
            }
        }
        for page in self.unlanded.pages() {
            self.settle(page, cx);
        }
        match cut.torn {
            // The capacitors saved the write.
            Some(_) if saved => {}
            // Its page was deallocated meanwhile.
            Some(sector) if self.table.get(self.page_of(sector)).is_none() => {
                self.disk.make_readable(sector, 1);
            }
            Some(sector) => self.spoil((sector, 1), cx),
            None => {}
        }
        for sector in self.rewritten_later() {
            self.record_sectors((sector, 1), SectorState::Unreadable, cx);
        }
        self.requests.clear();
        self.waiting.clear();
        self.armed = Nanos::MAX;
        self.faults.power_lost();
        AfterCut { saved: Vec::new(), lossy: !saved && self.timed && self.disk.has_write_cache() }
    }

    fn recover<S: Storage>(&mut self, _saved: &[Spare], cx: &mut SetContext<'_, S>) -> u64 {
        for slot in self.references() {
            cx.storage.retain(slot);
        }
        let unreadable = self.disk.unreadable().iter().map(|&sector| self.page_of(sector));
        let lost = self.table.iter().filter(|&(_, slot)| slot == LOST).map(|(page, _)| page);
        let pages: Vec<u32> = unreadable.chain(lost).filter(|&page| page < self.table.pages()).collect();
        for page in pages {
            self.lost.find(self.id, page, cx.volumes);
        }
        0
    }

    /// Everything in `granules` was written once: more writes leave no trace on a medium that is written in place.
    fn precondition(
        &mut self,
        granules: &[u32],
        _history: WriteHistory,
        version: &mut u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        for granule in granules {
            for page in granule * GRANULE_PAGES..(granule + 1) * GRANULE_PAGES {
                *version += 1;
                self.table.set(page, Slot::NONE);
            }
            if !go_on() {
                return false;
            }
        }
        true
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
        let raw_bytes = self.disk.blocks() * u64::from(self.disk.block_bytes());
        SetInfo {
            bad_blocks: u32::try_from(self.disk.unreadable().len()).unwrap_or(u32::MAX),
            ..SetInfo::in_place(MediaKind::Disk, capacity_bytes, unallocated_bytes, raw_bytes)
        }
    }

    fn plan(&self) -> &FaultPlan {
        self.faults.plan()
    }

    fn plan_mut(&mut self) -> &mut FaultPlan {
        self.faults.plan_mut()
    }

    #[inline]
    fn cut_due(&self) -> bool {
        self.faults.cut_due
    }

    fn describe(&self) -> String {
        let (requests, commands) = self.requests.counts();
        let outstanding = self.disk.outstanding();
        format!("a disk: {commands} commands, {requests} requests, {outstanding} of them at the disk")
    }

    fn audit(&self) -> Result<(), String> {
        if self.timed && self.requests.counts() == (0, 0) && !self.unlanded.pages().is_empty() {
            return Err(format!("pages {:?} wait for no request", self.unlanded.pages()));
        }
        Ok(())
    }
}

impl DiskSet {
    pub(super) fn page_of(&self, sector: u64) -> u32 {
        let page = sector * u64::from(self.disk.block_bytes()) / u64::from(PAGE);
        u32::try_from(page).unwrap_or(u32::MAX)
    }

    /// What the heads had written of a request when power went.
    fn land_under_way<S: Storage>(&mut self, cut: &PowerCut, cx: &mut SetContext<'_, S>) {
        let Some(id) = cut.under_way else { return };
        let Some(pages) = self.requests.get_mut(id).map(|request| request.pages.clone()) else { return };
        let size = u64::from(self.disk.block_bytes());
        let (first, count) = cut.written.unwrap_or((0, 0));
        let (start, end) = (first * size, (first + u64::from(count)) * size);
        for page in pages {
            let begin = u64::from(page) * u64::from(PAGE);
            let of_page = |byte: u64| byte.saturating_sub(begin).min(PAGE.into()) as u32;
            self.unlanded.land_part(page, id, of_page(start)..of_page(end), cx.storage);
        }
    }

    /// Applies what a journal says of sectors.
    pub fn apply_sectors(&mut self, (first, count): (u64, u32), state: SectorState) -> bool {
        let end = first.checked_add(count.into()).filter(|&end| end <= self.disk.blocks());
        if end.is_none() || count == 0 || (state == SectorState::Unreadable && count > MOST_SECTORS) {
            return false;
        }
        match state {
            SectorState::Good => self.disk.make_readable(first, count),
            SectorState::Unreadable => {
                (first..first + u64::from(count)).for_each(|s| self.disk.grow_defect(s))
            }
            SectorState::Slow(revolutions) => {
                let count = count.into();
                self.disk.slow_down(media::disk::mechanism::SlowSectors { first, count, revolutions });
            }
        }
        true
    }
}
