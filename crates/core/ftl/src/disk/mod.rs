//! An NVM Set on a hard disk: logical page = place on the disk, written in place, and answered when the arm has been there.
//!
//! `media::disk` says when requests end and what a power cut leaves of one. This is the owner of its contents: the [`table`] of what each page
//! holds now, the writes that are [`unlanded`], the commands under way ([`requests`]), and [`faults`].

mod faults;
mod requests;
mod set;
mod state;
mod table;
mod unlanded;

use crate::answer::{Answer, CompletedIo, Fault, SetStats};
use crate::compare::{match_before, matches};
use crate::config::PAGE;
use crate::context::{Event, SetContext};
use crate::lost::{LOST, LostPages};
use crate::storage::{Piece, Record, SectorState, Storage};
use crate::volume::{Extent, SetId, Volume, VolumeId};
use crate::write::Write;
use faults::Faults;
use media::disk::drive::{Disk, REASSIGNED_REVOLUTIONS};
use media::disk::shape::DiskShape;
use media::disk::{Completion, DiskError, Op, ReadsFirst};
use media::{FaultPlan, LogicalPage, Nanos, Page, Slot, Spare};
use requests::{Request, Requests};
use std::collections::VecDeque;
use std::ops::Range;
use table::PageTable;
use unlanded::{Left, Unlanded};

/// A page whose contents are stored, and that is not in the table yet.
#[derive(Clone, Debug)]
struct Stored {
    page: u32,
    bytes: Range<u32>,
    slot: Slot,
}

/// An NVM Set on a disk.
#[derive(Clone)]
pub(crate) struct DiskSet {
    pub id: SetId,
    disk: Disk,
    /// Sectors take time. Otherwise everything ends at once.
    timed: bool,
    durable: bool,
    table: PageTable,
    unlanded: Unlanded,
    requests: Requests,
    /// Writes that wait for slots, in order.
    waiting: VecDeque<Write>,
    stored: Vec<Stored>,
    /// When the disk's next event is due that the queue of events knows.
    armed: Nanos,
    faults: Faults,
    lost: LostPages,
    stats: SetStats,
    completions: Vec<Completion>,
    landed: Vec<u64>,
    reassigned: Vec<u64>,
}

/// Consecutive bytes of a command on the disk: first byte of the disk, and how many.
type Run = (u64, u32);

impl DiskSet {
    pub fn new(
        id: SetId,
        shape: &DiskShape,
        capacity_pages: u32,
        timed: bool,
        durable: bool,
        plan: FaultPlan,
    ) -> Result<DiskSet, DiskError> {
        Ok(DiskSet {
            id,
            disk: Disk::new(shape.config()?)?,
            timed,
            durable,
            table: PageTable::new(capacity_pages),
            unlanded: Unlanded::default(),
            requests: Requests::default(),
            waiting: VecDeque::new(),
            stored: Vec::new(),
            armed: Nanos::MAX,
            faults: Faults::new(plan),
            lost: LostPages::default(),
            stats: SetStats::default(),
            completions: Vec::new(),
            landed: Vec::new(),
            reassigned: Vec::new(),
        })
    }

    /// Sectors that a run of bytes touches: first and number.
    #[inline]
    fn sectors(&self, (byte, bytes): Run) -> (u64, u32) {
        let size = u64::from(self.disk.block_bytes());
        let first = byte / size;
        let end = (byte + u64::from(bytes)).div_ceil(size);
        (first, (end - first) as u32)
    }

    /// What the disk must read before it writes a run.
    fn reads_first(&self, (byte, bytes): Run, compares: bool) -> ReadsFirst {
        let size = u64::from(self.disk.block_bytes());
        let first = !byte.is_multiple_of(size);
        let last = !(byte + u64::from(bytes)).is_multiple_of(size);
        match (compares, first || last) {
            (true, _) => ReadsFirst::All,
            (false, true) => ReadsFirst::Ends { first, last },
            (false, false) => ReadsFirst::Nothing,
        }
    }

    /// Sectors of a page: first and number.
    fn sectors_of_page(&self, page: u32) -> (u64, u32) {
        self.sectors((u64::from(page) * u64::from(PAGE), PAGE))
    }

    /// The runs of an extent: a volume's granules need not lie behind each other.
    fn runs(volume: &Volume, extent: Extent) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::with_capacity(1);
        for (page, piece) in extent.pieces() {
            let byte = u64::from(volume.page(page)) * u64::from(PAGE) + u64::from(piece.page);
            match runs.last_mut() {
                Some((first, bytes)) if *first + u64::from(*bytes) == byte => *bytes += piece.len,
                _ => runs.push((byte, piece.len)),
            }
        }
        runs
    }

    /// Shows the contents of an extent.
    fn visit<S: Storage>(
        &self,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        mut visit: impl FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let volume = cx.volumes.get(volume).ok_or(Fault::OutOfRange)?;
        for (page, piece) in extent.pieces() {
            let slot = self.table.get(volume.page(page));
            if slot == Some(LOST) {
                return Err(Fault::Unrecovered);
            }
            visit(cx.storage, piece, slot)?;
        }
        Ok(())
    }

    /// Stores the pages of a write; whether there were slots for all of them.
    fn store<S: Storage>(&mut self, write: &Write, cx: &mut SetContext<'_, S>) -> Result<bool, Fault> {
        self.stored.clear();
        for (page, mut piece) in write.extent().pieces() {
            piece.host += write.host;
            let Some(slot) = cx.storage.allocate() else { return Ok(false) };
            let page = cx.volumes.get(write.volume).ok_or(Fault::OutOfRange)?.page(page);
            self.stored.push(Stored { page, bytes: piece.page..piece.page + piece.len, slot });
            let base = self.table.get(page).filter(|&slot| slot != LOST && piece.len < PAGE);
            write.store(cx.storage, piece, slot, base)?;
        }
        Ok(true)
    }

    /// Accepts a write if there are slots for it; `None` if not.
    fn place<S: Storage>(
        &mut self,
        now: Nanos,
        write: &mut Write,
        cx: &mut SetContext<'_, S>,
    ) -> Result<Option<Answer>, Fault> {
        if write.compare.is_some() {
            let volume = write.volume;
            match_before(write, |io, extent| self.visit(volume, extent, cx, matches(io)).map(|()| now))?;
        }
        let stored = self.store(write, cx);
        if stored != Ok(true) {
            // All of it or nothing.
            self.stored.drain(..).for_each(|stored| cx.storage.release(stored.slot));
            return stored.map(|_| None);
        }
        Ok(Some(self.submit_write(now, write, cx)))
    }

    /// Puts stored pages into the table, and the write to the disk.
    fn submit_write<S: Storage>(&mut self, now: Nanos, write: &Write, cx: &mut SetContext<'_, S>) -> Answer {
        let Some(volume) = cx.volumes.get(write.volume) else { return Answer::Failed(Fault::OutOfRange) };
        let runs = DiskSet::runs(volume, write.extent());
        let command = self.requests.open(write.io, runs.len() as u32);
        let mut next_page = 0;
        for run in runs {
            let (first, count) = self.sectors(run);
            let pages = (run.0 / u64::from(PAGE)) as u32
                ..((run.0 + u64::from(run.1)).div_ceil(u64::from(PAGE))) as u32;
            let fate = self.faults.of_write();
            let stored = next_page..next_page + (pages.end - pages.start);
            next_page = stored.end;
            let reads_first = self.reads_first(run, write.compare.is_some());
            let rewrites = rewritten((first, count), reads_first);
            let id = self.requests.add(Request {
                command,
                op: Op::Write,
                sectors: (first, count),
                rewrites: rewrites.clone(),
                pages,
                fate,
                complete: false,
            });
            self.accept(id, stored, write.volume, cx);
            // A drive that is restored from its journal has what was accepted, and must be able to read it.
            self.unreadable_in(rewrites)
                .for_each(|sector| self.record_sectors((sector, 1), SectorState::Good, cx));
            self.slow_down(fate.revolutions, (first, count), cx);
            let request = media::disk::Request {
                id,
                op: Op::Write,
                block: first,
                count,
                force: write.durable,
                reads_first,
            };
            self.submit(now, request, cx);
        }
        self.stored.clear();
        self.go_on(now, cx);
        Answer::Later
    }

    /// Puts some of the stored pages into the table, as a request of the disk.
    fn accept<S: Storage>(
        &mut self,
        request: u64,
        pages: Range<u32>,
        volume: VolumeId,
        cx: &mut SetContext<'_, S>,
    ) {
        let mut new = 0;
        for stored in &self.stored[pages.start as usize..pages.end as usize] {
            let Stored { page, slot, ref bytes } = *stored;
            *cx.version += 1;
            let before = self.table.set(page, slot);
            new += i64::from(before.is_none());
            cx.storage.retain(slot);
            let before = before.filter(|&slot| slot != LOST);
            self.unlanded.accept(page, request, bytes.clone(), slot, before, cx.storage);
            self.record_page(page, cx);
        }
        let bytes = u64::from(pages.end - pages.start) * u64::from(PAGE);
        self.stats.media_written_bytes += bytes;
        if let Some(volume) = cx.volumes.get_mut(volume) {
            volume.stats.media_host_bytes += bytes;
            volume.count_mapped(new);
        }
    }

    /// The journal hears what a page holds.
    fn record_page<S: Storage>(&self, page: u32, cx: &mut SetContext<'_, S>) {
        if !self.durable {
            return;
        }
        let spare = match self.table.get(page) {
            Some(slot) => Spare { page: LogicalPage(page), version: *cx.version, slot },
            None => Spare::EMPTY,
        };
        cx.storage.record(Record::Place { set: self.id.0, page: Page(page), spare });
    }

    fn record_sectors<S: Storage>(
        &self,
        (first, count): (u64, u32),
        state: SectorState,
        cx: &mut SetContext<'_, S>,
    ) {
        if self.durable {
            cx.storage.record(Record::Sectors { set: self.id.0, first, count, state });
        }
    }

    /// Sectors of these that cannot be read.
    fn unreadable_in(&self, sectors: Range<u64>) -> impl Iterator<Item = u64> {
        let unreadable = self.disk.unreadable();
        let from = unreadable.partition_point(|&sector| sector < sectors.start);
        unreadable[from..].iter().copied().take_while(move |&sector| sector < sectors.end)
    }

    /// Sectors that cannot be read, and that writes under way give new contents.
    fn rewritten_later(&self) -> impl Iterator<Item = u64> {
        self.disk.unreadable().iter().copied().filter(|&sector| self.requests.rewrite(sector))
    }

    /// Sectors take more revolutions from now on.
    fn slow_down<S: Storage>(
        &mut self,
        revolutions: u32,
        (first, count): (u64, u32),
        cx: &mut SetContext<'_, S>,
    ) {
        if revolutions > 0 {
            self.apply_sectors((first, count), SectorState::Slow(revolutions));
            self.record_sectors((first, count), SectorState::Slow(revolutions), cx);
        }
    }

    /// Sectors cannot be read from now on.
    fn spoil<S: Storage>(&mut self, sectors: (u64, u32), cx: &mut SetContext<'_, S>) {
        self.apply_sectors(sectors, SectorState::Unreadable);
        self.record_sectors(sectors, SectorState::Unreadable, cx);
        let last = sectors.0 + u64::from(sectors.1) - 1;
        for page in self.page_of(sectors.0)..=self.page_of(last) {
            if page < self.table.pages() {
                self.lost.lose(self.id, page, cx.volumes);
            }
        }
    }

    /// Sectors can be read again.
    fn heal<S: Storage>(&mut self, (first, count): (u64, u32), cx: &mut SetContext<'_, S>) {
        if self.disk.is_unreadable(first, count) {
            self.disk.make_readable(first, count);
            self.record_sectors((first, count), SectorState::Good, cx);
        }
    }

    /// Puts a request to the disk; without timing it ends at once.
    fn submit<S: Storage>(&mut self, now: Nanos, request: media::disk::Request, cx: &mut SetContext<'_, S>) {
        if self.timed {
            return self.disk.submit(now, request);
        }
        let media::disk::Request { id, op, block, count, .. } = request;
        if op == Op::Write {
            self.heal((block, count), cx);
        }
        let failed = self.disk.is_unreadable(block, count).then_some(block);
        self.completions.push(Completion { id, at: now, hit: false, failed });
    }

    /// Sees to what the disk has done by `now`, and asks to be told of its next event.
    fn go_on<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.disk.poll(now, &mut self.completions);
        self.disk.take_landed(&mut self.landed);
        self.disk.take_reassigned(&mut self.reassigned);
        for i in 0..self.reassigned.len() {
            let sectors = (self.reassigned[i], 1);
            self.record_sectors(sectors, SectorState::Good, cx);
            self.record_sectors(sectors, SectorState::Slow(REASSIGNED_REVOLUTIONS), cx);
        }
        self.reassigned.clear();
        // What landed was complete before, or is complete now.
        let mut completions = std::mem::take(&mut self.completions);
        completions.drain(..).for_each(|completion| self.complete(completion, cx));
        let mut landed = std::mem::take(&mut self.landed);
        landed.drain(..).for_each(|id| self.land(id, cx));
        (self.completions, self.landed) = (completions, landed);
        if let Some(at) = self.disk.next_event().filter(|&at| at < self.armed) {
            self.armed = at;
            cx.events.push(at, (self.id, Event::Disk));
        }
    }

    /// A request of the disk is complete.
    fn complete<S: Storage>(&mut self, completion: Completion, cx: &mut SetContext<'_, S>) {
        let Completion { id, at, hit, failed } = completion;
        let Some(request) = self.requests.get_mut(id) else { return };
        request.complete = true;
        let (command, op, fate, sectors) = (request.command, request.op, request.fate, request.sectors);
        let mut result = match op {
            Op::Read if fate.fails => Err(Fault::Unrecovered),
            Op::Read if failed.is_some() && self.lacks_data(sectors) => Err(Fault::Unrecovered),
            Op::Write if failed.is_some() => Err(Fault::Unrecovered),
            _ => Ok(()),
        };
        match op {
            Op::Read => {
                self.requests.remove(id);
            }
            // It is in the disk's buffer.
            Op::Write if hit => {}
            Op::Write => {
                if fate.fails {
                    result = Err(Fault::Write);
                    self.stats.media_failures += 1;
                }
                self.land_as(id, result.is_ok() && !fate.is_lost, cx);
            }
        }
        if result == Err(Fault::Unrecovered) {
            self.stats.uncorrectable += 1;
        }
        cx.done.extend(self.requests.close(command, at, result).map(|(io, at, result)| CompletedIo {
            io,
            at,
            result,
        }));
    }

    /// Whether one of these sectors holds data and cannot be read. What was deallocated reads as zeros, also where the platters have other data.
    fn lacks_data(&self, (first, count): (u64, u32)) -> bool {
        let end = first + u64::from(count);
        let unreadable = self.disk.unreadable();
        let from = unreadable.partition_point(|&sector| sector < first);
        let lost = unreadable[from..].iter().take_while(|&&sector| sector < end);
        lost.map(|&sector| self.page_of(sector)).any(|page| self.table.get(page).is_some())
    }

    /// A write that was complete when it was in the disk's buffer has reached the platters. What fails now nobody hears of before he reads.
    fn land<S: Storage>(&mut self, id: u64, cx: &mut SetContext<'_, S>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let (fate, pages) = (request.fate, request.pages.clone());
        self.land_as(id, !fate.is_lost, cx);
        if fate.fails {
            self.stats.media_failures += 1;
            let (first, _) = self.sectors_of_page(pages.start);
            let (last, count) = self.sectors_of_page(pages.end - 1);
            self.spoil((first, (last - first) as u32 + count), cx);
        }
    }

    /// A write has reached the platters, or was lost on its way there.
    fn land_as<S: Storage>(&mut self, id: u64, well: bool, cx: &mut SetContext<'_, S>) {
        let Some(request) = self.requests.remove(id) else { return };
        for page in request.pages.clone() {
            let settle = match well {
                true => self.unlanded.land(page, id, cx.storage),
                false => self.unlanded.lose(page, id, cx.storage),
            };
            if settle {
                self.settle(page, cx);
            }
        }
        if !well {
            let kept = self.unreadable_in(request.rewrites).filter(|&sector| !self.requests.rewrite(sector));
            kept.for_each(|sector| self.record_sectors((sector, 1), SectorState::Unreadable, cx));
        }
        if let Some(place) = request.fate.misdirected {
            // The sectors there say that they are others, so that none of them can be read.
            let page = (place % u64::from(self.table.pages())) as u32;
            self.spoil(self.sectors_of_page(page), cx);
        }
        if well && request.fate.is_weak {
            let (first, _) = self.sectors_of_page(request.pages.start);
            self.spoil((first, 1), cx);
        }
    }

    /// The table says what the platters hold of a page.
    fn settle<S: Storage>(&mut self, page: u32, cx: &mut SetContext<'_, S>) {
        let current = self.table.get(page);
        let older = match self.unlanded.settle(page, current.filter(|&slot| slot != LOST), cx.storage) {
            Left::Current => return,
            Left::Older(slot) => slot,
        };
        if let Some(slot) = current.filter(|&slot| slot != LOST) {
            cx.storage.release(slot);
        }
        match older {
            Some(slot) => {
                self.table.set(page, slot);
            }
            None => {
                self.table.take(page);
                if let Some(volume) = cx.volumes.owner_mut(self.id, page) {
                    volume.count_mapped(-1);
                }
            }
        }
        self.record_page(page, cx);
    }
}

/// Sectors of a write that it gives new contents as a whole.
fn rewritten((first, count): (u64, u32), reads_first: ReadsFirst) -> Range<u64> {
    let end = first + u64::from(count);
    match reads_first {
        ReadsFirst::Nothing => first..end,
        ReadsFirst::Ends { first: at_first, last } => first + u64::from(at_first)..end - u64::from(last),
        // It fails if one of them cannot be read.
        ReadsFirst::All => 0..0,
    }
}
