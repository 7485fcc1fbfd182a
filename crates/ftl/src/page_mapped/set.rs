//! The set on NAND as an NVM Set.

use super::PageMappedSet;
use super::map::{BUFFERED, UNMAPPED};
use crate::answer::{Answer, Fault, PlacementNote, SetInfo, SetStats, WriteHistory};
use crate::context::{Event, SetContext};
use crate::lost::LostPages;
use crate::set::{AfterCut, NvmSet};
use crate::storage::{Io, Piece, Record, Storage};
use crate::volume::{Extent, VolumeId};
use crate::write::Write;
use media::tables::prefetch;
use media::{FaultPlan, Nanos, Page, Slot, Spare};
use std::ops::Range;

impl NvmSet for PageMappedSet {
    fn slot_of(&self, page: u32) -> Option<Slot> {
        self.locate(page).map(|(slot, _)| slot)
    }

    fn mapped_pages(&self, pages: Range<u32>) -> u64 {
        pages.filter(|&p| self.map[p as usize] != UNMAPPED).count() as u64
    }

    fn references(&self) -> Vec<Slot> {
        self.all_references()
    }

    #[inline]
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

    #[inline]
    fn write<S: Storage>(&mut self, now: Nanos, write: Write, cx: &mut SetContext<'_, S>) -> Answer {
        self.accept(now, write, cx)
    }

    fn trim<S: Storage>(&mut self, now: Nanos, first: u32, count: u32, cx: &mut SetContext<'_, S>) {
        self.deallocate(now, first, count, cx);
        self.pump(now, cx);
    }

    fn drain<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        self.drain_buffer(now, io, cx)
    }

    fn purge<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        self.start_purge(now, io, cx);
        Answer::Later
    }

    fn scrub<S: Storage, M: Fn(u32) -> bool>(&mut self, mine: M, cx: &mut SetContext<'_, S>) {
        self.scrub_under_way(mine, cx);
    }

    #[inline]
    fn lacks_slots(&self) -> bool {
        self.lacks_slots
    }

    #[inline]
    fn retry<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        if std::mem::take(&mut self.lacks_slots) {
            self.pump(now, cx);
        }
    }

    #[inline]
    fn handle<S: Storage>(&mut self, now: Nanos, event: Event, cx: &mut SetContext<'_, S>) {
        let ended = match event {
            Event::Programmed(die) => self.programmed(now, die, cx),
            Event::Gathered(chain) => {
                self.gathered(chain);
                true
            }
            #[cfg(any(test, feature = "late-reads"))]
            Event::Read(_) => false,
            Event::Erased(unit) => self.flash.erased(now, unit, cx.events, cx.storage),
        };
        if ended {
            self.pump(now, cx);
        }
    }

    fn power_cut<S: Storage>(&mut self, now: Nanos, saved: bool, cx: &mut SetContext<'_, S>) -> AfterCut {
        if !saved && self.flash.is_durable() {
            cx.storage.record(Record::Lose { set: self.flash.id().0 });
        }
        AfterCut { saved: self.lose_power(now, saved, cx), lossy: !saved }
    }

    fn recover<S: Storage>(&mut self, saved: &[Spare], cx: &mut SetContext<'_, S>) -> u64 {
        self.rebuild(saved, cx)
    }

    fn resume<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.pump(now, cx);
    }

    fn precondition(
        &mut self,
        granules: &[u32],
        history: WriteHistory,
        version: &mut u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        self.precondition_chips(granules, history, version, go_on)
    }

    fn lost(&mut self) -> &mut LostPages {
        &mut self.lost
    }

    fn stats(&self) -> SetStats {
        self.flash.stats
    }

    fn restore_stats(&mut self, stats: SetStats) {
        self.flash.stats = stats;
    }

    fn info(&self, capacity_bytes: u64, unallocated_bytes: u64) -> SetInfo {
        self.state(capacity_bytes, unallocated_bytes)
    }

    fn plan_mut(&mut self) -> &mut FaultPlan {
        self.flash.nand.plan_mut()
    }

    #[inline]
    fn cut_due(&self) -> bool {
        self.flash.nand.cut_due()
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        prefetch(&self.map, page);
    }

    #[inline]
    fn prefetch_place(&self, page: u32) {
        let at = self.map[page as usize];
        if at != UNMAPPED && at & BUFFERED == 0 {
            self.flash.nand.inner().prefetch(Page(at));
        }
    }

    fn handles(&self) -> usize {
        self.streams.handles()
    }

    fn reclaim_unit(&self, handle: usize) -> Option<(u64, u64)> {
        (handle < self.streams.handles()).then(|| (self.superblock_bytes(), self.room_of(handle)))
    }

    fn renew<S: Storage>(&mut self, now: Nanos, handle: usize, cx: &mut SetContext<'_, S>) -> u64 {
        if handle < self.streams.handles() { self.renew_unit(now, handle, cx) } else { 0 }
    }

    fn collect_ahead<S: Storage>(&mut self, now: Nanos, on: bool, cx: &mut SetContext<'_, S>) {
        self.set_reserve(on);
        self.pump(now, cx);
    }

    fn pause_gc<S: Storage>(&mut self, now: Nanos, paused: bool, cx: &mut SetContext<'_, S>) {
        // What collection has begun to program or erase ends.
        self.gc.paused = paused;
        self.pump(now, cx);
    }

    fn is_gc_paused(&self) -> bool {
        self.gc.paused
    }

    fn room_without_collection(&self) -> u64 {
        self.collection_free_room()
    }

    fn take_notes(&mut self, wanted: bool) {
        self.notes.want(wanted);
    }

    fn notes(&mut self) -> Vec<PlacementNote> {
        self.notes.take()
    }

    fn describe(&self) -> String {
        self.in_words()
    }

    fn audit(&self) -> Result<(), String> {
        self.check_consistency()
    }
}
