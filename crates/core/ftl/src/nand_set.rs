//! An NVM Set on NAND: a page-mapped part and zones on one flash. Each volume belongs to one of the two.

use crate::answer::{Answer, Fault, PlacementNote, SetInfo, SetStats, SuperblockInfo, WriteHistory};
use crate::config::{Config, ZonesConfig};
use crate::context::{Event, SetContext};
use crate::lost::LostPages;
use crate::page_mapped::{PageMappedSet, SharedFlash};
use crate::set::{AfterCut, NvmSet};
use crate::storage::{Io, Piece, Storage};
use crate::volume::{Extent, Volume, VolumeId, Volumes};
use crate::write::Write;
use crate::zone::{ZoneInfo, ZoneLayout, ZoneSupport};
use crate::zoned::{ZoneContext, ZoneId, Zones};
use crate::zoned_set::{ZoneCommand, ZonedSet};
use media::{DieTimes, FaultPlan, Nanos, Slot, Spare};
use std::ops::Range;

/// See the module.
#[derive(Clone)]
pub(crate) struct NandSet {
    pub mapped: PageMappedSet,
    pub zones: Zones,
}

impl NandSet {
    /// Around chips. There is no map yet, and the superblocks are not sorted.
    pub fn new(mapped: PageMappedSet, zones: &ZonesConfig, config: &Config) -> NandSet {
        let zones = Zones::new(mapped.flash().geo(), zones, config);
        NandSet { mapped, zones }
    }

    /// Both parts go on.
    #[inline]
    fn pump<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.mapped.pump(now, cx);
        self.pump_zones(now, cx);
    }

    /// The zones go on, if there are any. What they want may be there only when the page-mapped part has collected.
    #[inline]
    fn pump_zones<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        if self.zones.are_there() {
            let (zones, mut cx) = self.zones_at(now, cx);
            zones.pump(&mut cx);
        }
    }

    /// The zones, and what a step of them works with.
    #[inline]
    fn zones_at<'a, 'c, S: Storage>(
        &'a mut self,
        now: Nanos,
        set: &'a mut SetContext<'c, S>,
    ) -> (&'a mut Zones, ZoneContext<'a, 'c, S>) {
        (&mut self.zones, ZoneContext { now, shared: SharedFlash::new(&mut self.mapped), set })
    }

    /// What the capacitors would save now.
    pub fn saved(&self, volumes: &Volumes) -> Vec<Spare> {
        let mut saved = self.mapped.saved();
        saved.extend(self.zones.saved(volumes));
        saved
    }

    /// Pages of the write buffer and of the zones' windows.
    pub fn buffer_pages(&self) -> usize {
        self.mapped.buffer_pages() + self.zones.buffer_pages()
    }
}

impl NvmSet for NandSet {
    fn slot_of(&self, page: u32) -> Option<Slot> {
        self.mapped.locate(page).map(|(slot, _)| slot)
    }

    fn mapped_pages(&self, pages: Range<u32>) -> u64 {
        self.mapped.mapped_among(pages)
    }

    fn references(&self) -> Vec<Slot> {
        let mut all = self.mapped.all_references();
        all.extend(self.zones.references(self.mapped.flash()));
        all
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
        self.mapped.read_extent(now, volume, extent, cx, visit).into()
    }

    #[inline]
    fn write<S: Storage>(&mut self, now: Nanos, write: Write, cx: &mut SetContext<'_, S>) -> Answer {
        let answer = self.mapped.accept(now, write, cx);
        self.pump_zones(now, cx);
        answer
    }

    fn trim<S: Storage>(&mut self, now: Nanos, first: u32, count: u32, cx: &mut SetContext<'_, S>) {
        self.mapped.deallocate(now, first, count, cx);
        self.pump(now, cx);
    }

    fn drain<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        let (zones, mut cx) = self.zones_at(now, cx);
        zones.flush(io, &mut cx)
    }

    fn purge<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        self.mapped.start_purge(now, io, cx);
        Answer::Later
    }

    fn scrub<S: Storage, M: Fn(u32) -> bool>(&mut self, mine: M, cx: &mut SetContext<'_, S>) {
        self.mapped.scrub_under_way(mine, cx);
    }

    #[inline]
    fn lacks_slots(&self) -> bool {
        self.mapped.lacks_slots() || self.zones.lacks_slots()
    }

    #[inline]
    fn retry<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.mapped.retry(now, cx);
        let (zones, mut cx) = self.zones_at(now, cx);
        zones.retry(&mut cx);
    }

    #[inline]
    fn handle<S: Storage>(&mut self, now: Nanos, event: Event, cx: &mut SetContext<'_, S>) {
        if let Event::Erased(unit) = event
            && self.zones.are_there()
            && self.zones.holds(unit)
        {
            let (zones, mut zone_cx) = self.zones_at(now, cx);
            if zones.erased(unit, &mut zone_cx) {
                self.pump(now, cx);
            }
            return;
        }
        if matches!(event, Event::ZonesAged) {
            let (zones, mut cx) = self.zones_at(now, cx);
            return zones.aged(&mut cx);
        }
        if self.mapped.handle(now, event, cx) {
            self.pump(now, cx);
        }
    }

    fn power_cut<S: Storage>(&mut self, now: Nanos, saved: bool, cx: &mut SetContext<'_, S>) -> AfterCut {
        let mut kept = if saved { self.zones.saved(cx.volumes) } else { Vec::new() };
        self.zones.forget();
        kept.extend(self.mapped.power_cut(now, saved, cx));
        AfterCut { saved: kept, lossy: !saved }
    }

    fn recover<S: Storage>(&mut self, saved: &[Spare], cx: &mut SetContext<'_, S>) -> u64 {
        self.zones.forget();
        self.zones.claim_plots(self.mapped.flash());
        let set = self.mapped.flash().id();
        let of_zones = |spare: &&Spare| cx.volumes.is_zoned(set, spare.page.0);
        let (zoned, mapped): (Vec<Spare>, Vec<Spare>) = saved.iter().partition(of_zones);
        let zones = &self.zones;
        let newest = self.mapped.rebuild(&mapped, |superblock| zones.holds_superblock(superblock), cx);
        let (zones, mut cx) = self.zones_at(Nanos::ZERO, cx);
        let newest = newest.max(zones.rebuild(&zoned, &mut cx));
        self.mapped.recover_spared(self.zones.spared(self.mapped.flash()));
        newest
    }

    fn resume<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        self.mapped.pump(now, cx);
        if self.zones.are_there() {
            let (zones, mut cx) = self.zones_at(now, cx);
            zones.resume(&mut cx);
        }
    }

    fn precondition(
        &mut self,
        granules: &[u32],
        history: WriteHistory,
        version: &mut u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        self.mapped.precondition_chips(granules, history, version, go_on)
    }

    fn lost(&mut self) -> &mut LostPages {
        self.mapped.lost()
    }

    fn stats(&self) -> SetStats {
        self.mapped.flash().stats
    }

    fn restore_stats(&mut self, stats: SetStats) {
        self.mapped.flash_mut().stats = stats;
    }

    fn info(&self, capacity_bytes: u64, unallocated_bytes: u64) -> SetInfo {
        self.mapped.state(capacity_bytes, unallocated_bytes)
    }

    fn busy_units(&self, now: Nanos) -> Option<u32> {
        Some(self.mapped.flash().busy_dies(now))
    }

    fn unit_times(&self) -> Option<Vec<DieTimes>> {
        Some(self.mapped.flash().die_times())
    }

    fn superblocks(&self, range: Range<u32>) -> Vec<SuperblockInfo> {
        let first = range.start;
        let mut found = self.mapped.superblocks(range);
        // That goes through all zones.
        if !found.is_empty() {
            self.zones.describe_superblocks(first, &mut found, self.mapped.flash().geo().unit_pages);
        }
        found
    }

    fn plan(&self) -> &FaultPlan {
        self.mapped.flash().nand.plan()
    }

    fn plan_mut(&mut self) -> &mut FaultPlan {
        self.mapped.flash_mut().nand.plan_mut()
    }

    #[inline]
    fn cut_due(&self) -> bool {
        self.mapped.flash().nand.cut_due()
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.mapped.prefetch(page);
    }

    #[inline]
    fn prefetch_place(&self, page: u32) {
        self.mapped.prefetch_place(page);
    }

    fn handles(&self) -> usize {
        self.mapped.handles()
    }

    fn reclaim_unit(&self, handle: usize) -> Option<(u64, u64)> {
        let exists = handle < self.mapped.handles();
        exists.then(|| (self.mapped.superblock_bytes(), self.mapped.room_of(handle)))
    }

    fn renew<S: Storage>(&mut self, now: Nanos, handle: usize, cx: &mut SetContext<'_, S>) -> u64 {
        if handle < self.mapped.handles() { self.mapped.renew_unit(now, handle, cx) } else { 0 }
    }

    fn collect_ahead<S: Storage>(&mut self, now: Nanos, on: bool, cx: &mut SetContext<'_, S>) {
        self.mapped.set_reserve(on);
        self.pump(now, cx);
    }

    fn pause_gc<S: Storage>(&mut self, now: Nanos, paused: bool, cx: &mut SetContext<'_, S>) {
        self.mapped.set_gc_paused(paused);
        self.pump(now, cx);
    }

    fn is_gc_paused(&self) -> bool {
        self.mapped.is_gc_paused()
    }

    fn room_without_collection(&self) -> u64 {
        self.mapped.collection_free_room()
    }

    fn take_notes(&mut self, wanted: bool) {
        self.mapped.take_notes(wanted);
    }

    fn notes(&mut self) -> Vec<PlacementNote> {
        self.mapped.notes()
    }

    fn describe(&self) -> String {
        format!("{}; {}", self.mapped.in_words(), self.zones.describe())
    }

    fn audit(&self) -> Result<(), String> {
        self.mapped.check_consistency()?;
        self.zones.check_consistency(self.mapped.flash())
    }
}

impl ZonedSet for NandSet {
    fn support(&self) -> Option<ZoneSupport> {
        self.zones.support()
    }

    fn create(&mut self, volume: VolumeId, layout: ZoneLayout) {
        self.zones.create(volume, layout);
    }

    fn remove<S: Storage>(&mut self, now: Nanos, volume: VolumeId, cx: &mut SetContext<'_, S>) {
        let (zones, mut zone_cx) = self.zones_at(now, cx);
        zones.remove(volume, &mut zone_cx);
        self.pump(now, cx);
    }

    fn zone(&self, volume: VolumeId, zone: u32) -> Option<ZoneInfo> {
        self.zones.info(volume, zone)
    }

    #[inline]
    fn has_changed(&self) -> bool {
        self.zones.has_changed()
    }

    fn changed(&mut self) -> Vec<(VolumeId, u32)> {
        self.zones.changed()
    }

    fn written_bytes(&self, volume: VolumeId) -> u64 {
        self.zones.written_bytes(volume)
    }

    fn slot_of_zone(&self, id: VolumeId, volume: &Volume, page: u64) -> Option<Slot> {
        let stray = |page| self.mapped.locate(page);
        self.zones.locate(id, volume, page, self.mapped.flash(), stray).map(|(slot, _)| slot)
    }

    fn read_zones<S: Storage, V: FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>>(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        visit: V,
    ) -> Answer {
        let (zones, mut cx) = self.zones_at(now, cx);
        zones.read(volume, extent, &mut cx, visit).into()
    }

    fn write_zone<S: Storage>(&mut self, now: Nanos, write: Write, cx: &mut SetContext<'_, S>) -> Answer {
        let (zones, mut cx) = self.zones_at(now, cx);
        zones.accept(write, &mut cx)
    }

    fn append_at(&self, volume: VolumeId, byte: u64, bytes: u32) -> Result<u64, Fault> {
        self.zones.append_at(volume, byte, bytes)
    }

    fn manage<S: Storage>(
        &mut self,
        now: Nanos,
        command: ZoneCommand<'_>,
        cx: &mut SetContext<'_, S>,
    ) -> Answer {
        let (zones, mut zone_cx) = self.zones_at(now, cx);
        let answer = zones.manage(command, &mut zone_cx);
        self.pump(now, cx);
        answer
    }

    fn awaits_erase(&self, io: Io) -> bool {
        self.zones.awaits_erase(io)
    }

    fn clear<S: Storage>(&mut self, now: Nanos, volume: VolumeId, zone: u32, cx: &mut SetContext<'_, S>) {
        let (zones, mut zone_cx) = self.zones_at(now, cx);
        zones.clear(None, ZoneId { volume, zone }, &mut zone_cx);
        self.pump(now, cx);
    }

    fn purge_zones<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        let (zones, mut cx) = self.zones_at(now, cx);
        zones.purge(io, &mut cx)
    }
}
