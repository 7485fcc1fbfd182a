//! Power: what it takes from zones, and how far each is written when it comes back.

use super::striping::Plot;
use super::zone::{Sent, WindowPage, ZoneId};
use super::{NO_OP, ZoneContext, Zones, logical};
use crate::config::PAGE;
use crate::context::SetContext;
use crate::flash::{Flash, Offer};
use crate::page_mapped::has_contents;
use crate::storage::{Record, Storage};
use crate::volume::Volumes;
use crate::zone::{ZoneLayout, ZoneState};
use media::{LogicalPage, Medium, Slot, Spare};
use std::collections::BTreeMap;

/// What is found of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// It is in its place.
    InPlace,
    /// The page-mapped part has all of it.
    Elsewhere,
    /// Some of it is in what the capacitors saved, or missing.
    Partly,
}

impl Zones {
    /// What capacitors save: the pages that are not on flash.
    pub fn saved(&self, volumes: &Volumes) -> Vec<Spare> {
        let unit_pages = self.striping.unit_pages;
        let mut saved = Vec::new();
        for window in &self.windows {
            let Some(id) = window.zone else { continue };
            let (Some(table), Some(volume)) = (self.table(id.volume), volumes.get(id.volume)) else {
                continue;
            };
            let first = window.first_page(unit_pages);
            for (i, held) in (0..).zip(&window.pages) {
                let is_on_flash = window.sent.get((i / unit_pages) as usize) == Some(&Sent::Landed);
                if is_on_flash || held.version == 0 && held.is_hole {
                    continue;
                }
                let page = LogicalPage(logical(volume, &table.layout, id.zone, first + i));
                saved.push(Spare { page, version: held.version, slot: held.slot });
            }
        }
        saved
    }

    /// Power is lost: everything that is not in a record is forgotten.
    pub fn forget(&mut self) {
        for id in self.ids().collect::<Vec<_>>() {
            let (floor, unit_pages) = (self.settled(id), self.striping.unit_pages);
            let zone = self.zone_mut(id);
            (zone.floor, zone.admitted) = (floor, zone.admitted.min(floor * unit_pages));
        }
        self.windows.clear();
        self.free_windows.clear();
        (self.used, self.claims, self.pool) = (0, 0, self.config.buffer_pages);
        self.free_areas = self.config.zrwa.map_or(0, |area| area.max);
        self.waiting.clear();
        (self.waiting_zones, self.freed, self.unsettled) = (0, true, true);
        self.flushes.clear();
        self.lacks_slots = false;
        self.ready.clear();
        self.blocked.clear();
        self.ops.fill(NO_OP);
        self.free_ops = (0..self.ops.len() as u32).rev().collect();
        self.erasing.clear();
        self.finishing.clear();
        self.wants_superblock = false;
        self.plots.reset();
        for table in self.tables.iter_mut().flatten() {
            for zone in 0..table.layout.zones {
                let finished_by_set = table.zones[zone as usize].finished_by_set;
                table.set_state(zone, table.lasting_state(zone));
                table.zones[zone as usize].finished_by_set = finished_by_set;
            }
            for zone in &mut table.zones {
                (zone.window, zone.waiting, zone.accepted) = (None, 0, zone.admitted);
            }
        }
    }

    /// Recovery begins: says which plots hold zones. A plot that two zones claim holds the first.
    pub fn claim_plots(&mut self) {
        self.plots.reset();
        for id in self.ids().collect::<Vec<_>>() {
            if let Some(plot) = self.zone(id).plot
                && !self.plots.take(plot)
            {
                self.zone_mut(id).plot = None;
            }
        }
    }

    /// Finds how far each zone is written, now that the page-mapped part has its map; retains the contents that are referred to. Returns
    /// the highest version seen.
    pub fn rebuild<S: Storage>(&mut self, saved: &[Spare], cx: &mut ZoneContext<'_, '_, S>) -> u64 {
        let saved: BTreeMap<u32, Spare> = saved.iter().map(|spare| (spare.page.0, *spare)).collect();
        let mut newest = saved.values().map(|spare| spare.version).max().unwrap_or(0);
        for id in self.ids().collect::<Vec<_>>() {
            newest = newest.max(self.rebuild_zone(id, &saved, cx));
        }
        self.finish_surplus(cx.set);
        newest
    }

    /// Full zones that lost their end are active again. Where that makes too many, those with most in them are full as they are.
    fn finish_surplus<S: Storage>(&mut self, cx: &mut SetContext<'_, S>) {
        for (volume, layout) in self.volumes().collect::<Vec<_>>() {
            while let Some(table) = self.table_mut(volume).filter(|table| table.active > layout.max_active) {
                let closed = (0..).zip(&table.zones).filter(|(_, zone)| zone.state == ZoneState::Closed);
                let Some((zone, _)) = closed.max_by_key(|(_, zone)| zone.admitted) else { break };
                table.set_state(zone, ZoneState::Full);
                let id = ZoneId { volume, zone };
                self.end_area(id, cx);
                self.record(id, cx);
                if let Some(window) = self.zone(id).window {
                    self.make_ready(window);
                }
            }
        }
    }

    fn rebuild_zone<S: Storage>(
        &mut self,
        id: ZoneId,
        saved: &BTreeMap<u32, Spare>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> u64 {
        let Some(layout) = self.table(id.volume).map(|table| table.layout) else { return 0 };
        let recorded = self.zone(id).state;
        if recorded == ZoneState::Offline {
            return 0;
        }
        let pages_of_zone = layout.pages_of_zone();
        // Pages behind the write pointer do not tell where it is.
        let pointer = if self.zone(id).zrwa { self.zone(id).committed } else { pages_of_zone };
        let unit_pages = self.striping.unit_pages;
        self.zone_mut(id).strays = false;
        let (plot, floor) = (self.zone(id).plot, self.zone(id).floor);
        let mut pages = 0;
        let mut newest = 0;
        let mut settled = true;
        let mut window = None;
        let units = pointer.div_ceil(unit_pages);
        let consumed = plot.map_or(0, |plot| self.consumed_units(plot, units, cx.shared.flash()));
        let mut unit = 0;
        while unit < units && pages == unit * unit_pages {
            let end = ((unit + 1) * unit_pages).min(pointer);
            let found = self.find_unit(id, &layout, plot, unit, end, cx);
            let vouched = unit < floor && unit < consumed && found == Found::Partly;
            if found == Found::InPlace {
                let (count, version) = self.keep_unit(plot, unit, cx);
                newest = newest.max(version);
                self.drop_strays(id, unit, cx);
                pages += count.min(end - unit * unit_pages);
            } else if found == Found::Elsewhere || vouched {
                self.zone_mut(id).strays |= found == Found::Elsewhere;
                pages = end;
            }
            settled &= found != Found::Partly || vouched;
            if !settled {
                let index = *window.get_or_insert_with(|| {
                    self.zone_mut(id).admitted = unit * unit_pages;
                    self.new_window(id)
                });
                let before = self.windows[usize::from(index)].pages.len();
                let held = self.refill(id, &layout, index, unit, end, found, saved, cx);
                pages = unit * unit_pages + held;
                let place = plot.map(|plot| self.striping.unit(plot, unit));
                let never =
                    place.is_some_and(|(unit, die)| cx.shared.flash().offer(unit, die) == Offer::Never);
                // More of a unit may come where a write pointer is in it.
                let ends = end == pages_of_zone || end.is_multiple_of(unit_pages);
                let full = ends && held == end - unit * unit_pages;
                let window = &mut self.windows[usize::from(index)];
                debug_assert_eq!(window.pages.len() - before, held as usize);
                // Those behind one that waits are sent again.
                let behind = window.sent.len() as u32 == unit - window.settled;
                if found != Found::Partly && behind {
                    window.sent.push_back(Sent::Landed);
                } else if full && behind && (never || unit < consumed) {
                    window.sent.push_back(Sent::Stray);
                    window.strays += 1;
                    self.unsettled = true;
                }
            }
            unit += 1;
        }
        // Pages behind the end were in the window at most. Nobody shall take what is stored elsewhere for them for what is written later.
        let most = pages.max(consumed * unit_pages) + self.pool + unit_pages;
        // What should be on a bad block goes elsewhere without a place in the buffer, to the end of the zone.
        let is_bad = |plot| self.striping.blocks(plot).any(|block| cx.shared.flash().nand.is_bad(block));
        let most = if plot.is_some_and(is_bad) { pages_of_zone } else { most };
        for page in pages..most.min(pages_of_zone) {
            if let Some(page) = cx.set.volumes.get(id.volume).map(|v| logical(v, &layout, id.zone, page)) {
                cx.shared.drop_stray(cx.now, page, cx.set);
            }
        }
        if let Some(plot) = plot {
            // Units behind the end: nobody can read them, and nobody shall take them for what is written there later.
            for unit in (unit..self.striping.units).map(|unit| self.striping.unit(plot, unit).0) {
                if cx.shared.flash().was_programmed(unit) {
                    cx.shared.flash_mut().spoil(unit, cx.set.storage);
                }
            }
        }
        self.end_rebuild(id, &layout, recorded, pages, saved, cx);
        newest
    }

    /// Sets the write pointer and the state of a zone that was found to hold so many pages.
    #[allow(clippy::too_many_arguments)]
    fn end_rebuild<S: Storage>(
        &mut self,
        id: ZoneId,
        layout: &ZoneLayout,
        recorded: ZoneState,
        pages: u32,
        saved: &BTreeMap<u32, Spare>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) {
        let zone = self.zone_mut(id);
        (zone.admitted, zone.accepted) = (pages, pages);
        let extended = !zone.extension.is_empty();
        if zone.zrwa {
            self.refill_area(id, saved, cx);
        }
        let zone = self.zone(id);
        let holds_area = zone.window.is_some_and(|window| self.windows[usize::from(window)].loose > 0);
        let state = match recorded {
            ZoneState::Full | ZoneState::ReadOnly => recorded,
            _ if u64::from(pages) * u64::from(PAGE) == layout.capacity => ZoneState::Full,
            _ if pages > 0 || extended || holds_area => ZoneState::Closed,
            _ => ZoneState::Empty,
        };
        if let Some(table) = self.table_mut(id.volume) {
            table.set_state(id.zone, state);
        }
        if self.zone(id).zrwa {
            if !state.is_active() {
                self.end_area(id, cx.set);
            }
            // Its write pointer may be another one than the record says.
            self.record(id, cx.set);
        }
        if let Some(window) = self.zone(id).window {
            if self.windows[usize::from(window)].pages.is_empty() {
                self.free_window(window);
            } else {
                self.make_ready(window);
            }
        }
    }

    /// Units of a plot up to the last that was programmed or torn.
    fn consumed_units(&self, plot: Plot, units: u32, flash: &Flash) -> u32 {
        let programmed = |unit: &u32| {
            let unit = self.striping.unit(plot, *unit).0;
            // What is on a bad block says nothing of the others.
            flash.was_programmed(unit) && !flash.nand.is_bad(unit)
        };
        (0..units).rev().find(programmed).map_or(0, |unit| unit + 1)
    }

    #[allow(clippy::too_many_arguments)]
    fn find_unit<S: Storage>(
        &self,
        id: ZoneId,
        layout: &ZoneLayout,
        plot: Option<Plot>,
        unit: u32,
        end: u32,
        cx: &ZoneContext<'_, '_, S>,
    ) -> Found {
        if let Some(plot) = plot
            && cx.shared.flash().spare(self.striping.page(plot, unit * self.striping.unit_pages)).page
                != LogicalPage::NONE
        {
            return Found::InPlace;
        }
        if !end.is_multiple_of(self.striping.unit_pages) && end != layout.pages_of_zone() {
            // The rest of the unit is still to be written.
            return Found::Partly;
        }
        let Some(volume) = cx.set.volumes.get(id.volume) else { return Found::Partly };
        let mut pages = unit * self.striping.unit_pages..end;
        match pages.all(|page| cx.shared.locate_stray(logical(volume, layout, id.zone, page)).is_some()) {
            true => Found::Elsewhere,
            false => Found::Partly,
        }
    }

    /// A unit is in its place: retains its contents. Returns how many pages it holds, and the highest version.
    fn keep_unit<S: Storage>(
        &self,
        plot: Option<Plot>,
        unit: u32,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> (u32, u64) {
        let Some(plot) = plot else { return (0, 0) };
        let first = self.striping.unit(plot, unit).0.0 * self.striping.unit_pages;
        let (mut count, mut newest) = (0, 0);
        for page in first..first + self.striping.unit_pages {
            let spare = cx.shared.flash().spare(page);
            if spare.page == LogicalPage::NONE {
                break;
            }
            count += 1;
            newest = newest.max(spare.version);
            if self.durable && has_contents(spare.slot) && spare.slot != Slot::NONE {
                cx.set.storage.retain(spare.slot);
            }
        }
        (count, newest)
    }

    /// Puts what there is of a unit into a window: as many pages as follow each other. Returns how many.
    #[allow(clippy::too_many_arguments)]
    fn refill<S: Storage>(
        &mut self,
        id: ZoneId,
        layout: &ZoneLayout,
        index: u16,
        unit: u32,
        end: u32,
        found: Found,
        saved: &BTreeMap<u32, Spare>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> u32 {
        let first = unit * self.striping.unit_pages;
        let mut held = 0;
        for page in first..end {
            let Some(at) = cx.set.volumes.get(id.volume).map(|v| logical(v, layout, id.zone, page)) else {
                break;
            };
            let in_place = self.zone(id).plot.filter(|_| found == Found::InPlace);
            let spare = match in_place {
                Some(plot) => Some(cx.shared.flash().spare(self.striping.page(plot, page)))
                    .filter(|spare| spare.page != LogicalPage::NONE),
                None => {
                    let elsewhere = cx.shared.stray(at);
                    let saved = saved.get(&at).copied();
                    // The newer one counts.
                    [elsewhere, saved].into_iter().flatten().max_by_key(|spare| spare.version)
                }
            };
            // What garbage collection could not read any more is missing, too.
            let Some(spare) = spare.filter(|spare| has_contents(spare.slot)) else { break };
            self.zone_mut(id).strays |= cx.shared.stray(at).is_some();
            if self.durable {
                cx.set.storage.retain(spare.slot);
                if in_place.is_none() && saved.contains_key(&at) {
                    cx.set.storage.record(Record::Buffer { set: cx.shared.flash().id().0, spare });
                }
            }
            let is_hole = self.durable && spare.slot == Slot::NONE;
            self.push(index, WindowPage { slot: spare.slot, version: spare.version, is_hole });
            held += 1;
        }
        held
    }

    /// Goes on when all sets have recovered: plots that hold nothing are erased.
    pub fn resume<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) {
        self.begin_ages(cx);
        let dirty = self.plots.sort(cx.shared.flash(), &self.striping);
        for plot in dirty {
            if !self.erase(plot, cx) {
                self.erasing.push(super::Erasing { io: None, plot, programs: 0 });
            }
        }
        for id in self.ids().collect::<Vec<_>>() {
            if self.zone(id).state == ZoneState::Empty && self.zone(id).plot.is_some() {
                self.empty(None, id, cx);
                self.record(id, cx.set);
            }
        }
        self.pump(cx);
    }
}
