//! Recovery of zones: how far each is written.
//!
//! A walk goes through the units of a zone from the first. It has three states:
//!
//! - [`Walk::Settled`]: every unit so far is whole on flash, or the record of the zone vouches for it.
//! - [`Walk::Refilling`]: a unit is not whole. Its pages, and all pages behind them, come into a window, which sends them again.
//! - [`Walk::Ended`]: a page is missing, or the write pointer is reached. The zone ends here.
//!
//! What lies behind the end is dropped, so that no later write takes it for its own.

use super::striping::Plot;
use super::zone::{Sent, WindowPage, ZoneId};
use super::{ZoneContext, Zones, logical};
use crate::config::PAGE;
use crate::context::SetContext;
use crate::flash::{Flash, Offer};
use crate::page_mapped::has_contents;
use crate::storage::{Record, Storage};
use crate::zone::{ZoneLayout, ZoneState};
use media::{LogicalPage, Medium, Slot, Spare};
use std::collections::BTreeMap;

/// What is found of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// It is in its place, with this many pages. Only the last one of a zone that takes no more may be short.
    InPlace(u32),
    /// All of it is stored as strays.
    Elsewhere,
    /// The chips have lost it. The record of the zone vouches for it, so its pages are there and cannot be read.
    Vouched,
    /// Some of it is in what the capacitors saved, or missing.
    Partly,
}

/// How far the walk through the units of a zone has come: see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Walk {
    Settled,
    /// With the window.
    Refilling(u16),
    Ended,
}

/// A zone whose end is looked for.
struct Rebuild<'s> {
    id: ZoneId,
    layout: ZoneLayout,
    plot: Option<Plot>,
    /// The state that its record names.
    recorded: ZoneState,
    /// What the capacitors saved, by logical page.
    saved: &'s BTreeMap<u32, Spare>,
    /// Pages of the zone at most: a recorded write pointer, or all.
    limit: u32,
    /// Units up to the last that was programmed or torn.
    consumed: u32,
    /// Units from the first on that the record vouches for.
    vouched: u32,
    walk: Walk,
    /// The unit that is next.
    unit: u32,
    /// Pages that were found.
    pages: u32,
    /// The highest version that was found.
    newest: u64,
}

impl Rebuild<'_> {
    /// The pages of the next unit, up to the limit.
    fn unit_bounds(&self, unit_pages: u32) -> (u32, u32) {
        (self.unit * unit_pages, ((self.unit + 1) * unit_pages).min(self.limit))
    }

    /// The set's logical page of a page of the zone; `None` if the volume is gone.
    fn logical<S: Storage>(&self, page: u32, cx: &SetContext<'_, S>) -> Option<u32> {
        cx.volumes.get(self.id.volume).map(|volume| logical(volume, &self.layout, self.id.zone, page))
    }
}

impl Zones {
    /// Finds how far each zone is written, when the page-mapped part has its map. Retains the contents that are referred to. Returns
    /// the highest version seen.
    pub fn rebuild<S: Storage>(&mut self, saved: &[Spare], cx: &mut ZoneContext<'_, '_, S>) -> u64 {
        let saved: BTreeMap<u32, Spare> = saved.iter().map(|spare| (spare.page.0, *spare)).collect();
        let mut newest = saved.values().map(|spare| spare.version).max().unwrap_or(0);
        for id in self.ids().collect::<Vec<_>>() {
            let Some(mut zone) = self.begin_rebuild(id, &saved, cx.shared.flash()) else { continue };
            while zone.walk != Walk::Ended {
                self.rebuild_unit(&mut zone, cx);
            }
            self.drop_rest(&zone, cx);
            self.end_rebuild(&zone, cx);
            newest = newest.max(zone.newest);
        }
        self.finish_surplus(cx.set);
        newest
    }

    /// Begins at the first unit of a zone; `None` if it is offline.
    fn begin_rebuild<'s>(
        &mut self,
        id: ZoneId,
        saved: &'s BTreeMap<u32, Spare>,
        flash: &Flash,
    ) -> Option<Rebuild<'s>> {
        let layout = self.table(id.volume)?.layout;
        let zone = self.zone_mut(id);
        if zone.state == ZoneState::Offline {
            return None;
        }
        zone.strays = false;
        let (recorded, plot, floor) = (zone.state, zone.plot, zone.floor);
        // Pages behind the write pointer do not tell where it is.
        let limit = if zone.zrwa { zone.committed } else { layout.pages_of_zone() };
        let units = limit.div_ceil(self.striping.unit_pages);
        let consumed = plot.map_or(0, |plot| self.consumed_units(plot, units, flash));
        let vouched = floor.min(consumed);
        let walk = if limit == 0 { Walk::Ended } else { Walk::Settled };
        let (unit, pages, newest) = (0, 0, 0);
        Some(Rebuild {
            id,
            layout,
            plot,
            recorded,
            saved,
            limit,
            consumed,
            vouched,
            walk,
            unit,
            pages,
            newest,
        })
    }

    /// Takes the next unit, and a step of the walk.
    fn rebuild_unit<S: Storage>(&mut self, zone: &mut Rebuild<'_>, cx: &mut ZoneContext<'_, '_, S>) {
        let unit_pages = self.striping.unit_pages;
        let (first, end) = zone.unit_bounds(unit_pages);
        let found = self.find_unit(zone, cx);
        let held = match found {
            Found::InPlace(held) => held,
            Found::Elsewhere | Found::Vouched => end - first,
            Found::Partly => 0,
        };
        match found {
            Found::InPlace(held) => self.keep_unit(zone, held, cx),
            Found::Partly => self.spoil_unit(zone, cx),
            Found::Elsewhere | Found::Vouched => {}
        }
        self.zone_mut(zone.id).strays |= found == Found::Elsewhere;
        let window = match zone.walk {
            Walk::Refilling(window) => Some(window),
            _ if found != Found::Partly => None,
            _ => {
                self.zone_mut(zone.id).admitted = first;
                Some(self.new_window(zone.id))
            }
        };
        zone.pages = first + window.map_or(held, |window| self.refill(zone, window, found, cx));
        zone.unit += 1;
        zone.walk = match window {
            _ if zone.pages < zone.unit * unit_pages || zone.pages >= zone.limit => Walk::Ended,
            Some(window) => Walk::Refilling(window),
            None => Walk::Settled,
        };
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

    /// Looks for the next unit.
    fn find_unit<S: Storage>(&self, zone: &Rebuild<'_>, cx: &ZoneContext<'_, '_, S>) -> Found {
        let unit_pages = self.striping.unit_pages;
        let (first, end) = zone.unit_bounds(unit_pages);
        if !end.is_multiple_of(unit_pages) && end != zone.layout.pages_of_zone() {
            // The write pointer is in it: the rest is still to be written.
            return Found::Partly;
        }
        let flash = cx.shared.flash();
        let ends_here = matches!(zone.recorded, ZoneState::Full | ZoneState::ReadOnly);
        match zone.plot.map_or(Some(0), |plot| self.pages_in_place(plot, zone.unit, flash)) {
            Some(0) => {}
            Some(held) if held == end - first || held < end - first && ends_here => {
                return Found::InPlace(held);
            }
            // No drive has written that.
            Some(_) | None => return Found::Partly,
        }
        let is_stray =
            |page| zone.logical(page, cx.set).is_some_and(|at| cx.shared.locate_stray(at).is_some());
        let was_programmed = |plot| flash.was_programmed(self.striping.unit(plot, zone.unit).0);
        match zone.walk {
            _ if (first..end).all(is_stray) => Found::Elsewhere,
            Walk::Settled if zone.unit < zone.vouched && zone.plot.is_some_and(was_programmed) => {
                Found::Vouched
            }
            _ => Found::Partly,
        }
    }

    /// How many pages of a zone's unit are in their places, from the first on. `None`: there is a gap between them, or one has no contents.
    fn pages_in_place(&self, plot: Plot, unit: u32, flash: &Flash) -> Option<u32> {
        let unit = self.striping.unit(plot, unit).0;
        let first = unit.0 * self.striping.unit_pages;
        let end = first + flash.programmed(unit);
        let is_there = |page: &u32| flash.logical(*page) != LogicalPage::NONE.0;
        let gap = (first..end).find(|page| !is_there(page)).unwrap_or(end);
        let is_sound = (first..gap).all(|page| has_contents(flash.slot(page)));
        (is_sound && !(gap..end).any(|page| is_there(&page))).then_some(gap - first)
    }

    /// The first pages of the next unit are in their places: retains their contents, and drops older strays.
    fn keep_unit<S: Storage>(&mut self, zone: &mut Rebuild<'_>, held: u32, cx: &mut ZoneContext<'_, '_, S>) {
        let Some(plot) = zone.plot else { return };
        let first = self.striping.page(plot, zone.unit * self.striping.unit_pages);
        for page in first..first + held {
            let spare = cx.shared.flash().spare(page);
            zone.newest = zone.newest.max(spare.version);
            if self.durable && spare.slot != Slot::NONE {
                cx.set.storage.retain(spare.slot);
            }
        }
        self.drop_strays(zone.id, zone.unit, cx);
    }

    /// The next unit is not in its place. Spoils pages that are there all the same, so that no later recovery takes them for the zone's.
    fn spoil_unit<S: Storage>(&self, zone: &Rebuild<'_>, cx: &mut ZoneContext<'_, '_, S>) {
        let Some(plot) = zone.plot else { return };
        let unit = self.striping.unit(plot, zone.unit).0;
        let (first, flash) = (unit.0 * self.striping.unit_pages, cx.shared.flash_mut());
        let mut pages = first..first + flash.programmed(unit);
        if pages.any(|page| flash.logical(page) != LogicalPage::NONE.0) {
            flash.spoil(unit, cx.set.storage);
        }
    }

    /// Puts the pages of the next unit into a window, up to the first that is missing. Returns how many.
    fn refill<S: Storage>(
        &mut self,
        zone: &Rebuild<'_>,
        index: u16,
        found: Found,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> u32 {
        let (first, end) = zone.unit_bounds(self.striping.unit_pages);
        let place = zone.plot.filter(|_| matches!(found, Found::InPlace(_)));
        let missing = (first..end).find(|&page| !self.refill_page(zone, index, page, place, cx));
        let held = missing.unwrap_or(end) - first;
        self.mark_refilled(zone, index, found, held, cx.shared.flash());
        held
    }

    /// Puts a page into a window. It comes from its place on flash, or is the newer one of stray and saved page. Returns whether it exists.
    fn refill_page<S: Storage>(
        &mut self,
        zone: &Rebuild<'_>,
        index: u16,
        page: u32,
        place: Option<Plot>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> bool {
        let Some(at) = zone.logical(page, cx.set) else { return false };
        let stray = cx.shared.stray(at);
        let saved = zone.saved.get(&at).copied().filter(|_| place.is_none());
        let spare = match place {
            Some(plot) => Some(cx.shared.flash().spare(self.striping.page(plot, page)))
                .filter(|spare| spare.page != LogicalPage::NONE),
            None => [stray, saved].into_iter().flatten().max_by_key(|spare| spare.version),
        };
        // What garbage collection could not read is missing, too.
        let Some(spare) = spare.filter(|spare| has_contents(spare.slot)) else { return false };
        self.zone_mut(zone.id).strays |= stray.is_some();
        if self.durable {
            cx.set.storage.retain(spare.slot);
            if saved.is_some() {
                cx.set.storage.record(Record::Buffer { set: cx.shared.flash().id().0, spare });
            }
        }
        let is_hole = self.durable && spare.slot == Slot::NONE;
        self.push(index, WindowPage { slot: spare.slot, version: spare.version, is_hole });
        true
    }

    /// Says what became of a unit of which `held` pages are in a window.
    fn mark_refilled(&mut self, zone: &Rebuild<'_>, index: u16, found: Found, held: u32, flash: &Flash) {
        let unit_pages = self.striping.unit_pages;
        let (first, end) = zone.unit_bounds(unit_pages);
        let never = zone.plot.is_some_and(|plot| {
            let (unit, die) = self.striping.unit(plot, zone.unit);
            flash.offer(unit, die) == Offer::Never
        });
        // More of a unit may come where a write pointer is in it.
        let is_last = end == zone.layout.pages_of_zone() || end.is_multiple_of(unit_pages);
        let is_full = is_last && held == end - first;
        let window = &mut self.windows[usize::from(index)];
        assert_eq!(window.first_page(unit_pages) + window.pages.len() as u32, first + held, "{:?}", zone.id);
        // Units behind one that waits are sent again.
        if window.next_unit() != zone.unit {
            return;
        }
        if found != Found::Partly {
            window.sent.push_back(Sent::Landed);
        } else if is_full && (never || zone.unit < zone.consumed) {
            window.sent.push_back(Sent::Stray);
            window.strays += 1;
            self.unsettled = true;
        }
    }

    /// Drops what lies behind the end of a zone. No write of later shall find it in its place.
    fn drop_rest<S: Storage>(&self, zone: &Rebuild<'_>, cx: &mut ZoneContext<'_, '_, S>) {
        let pages_of_zone = zone.layout.pages_of_zone();
        // What should be on a bad block goes elsewhere without a place in the buffer, to the end of the zone.
        let is_bad = |plot| self.striping.blocks(plot).any(|block| cx.shared.flash().nand.is_bad(block));
        let end = match zone.plot.is_some_and(is_bad) {
            true => pages_of_zone,
            // Other pages were in the window at most.
            false => {
                let unit_pages = self.striping.unit_pages;
                (zone.pages.max(zone.consumed * unit_pages) + self.pool + unit_pages).min(pages_of_zone)
            }
        };
        for page in zone.pages..end {
            if let Some(page) = zone.logical(page, cx.set) {
                cx.shared.drop_stray(cx.now, page, cx.set);
            }
        }
        let Some(plot) = zone.plot else { return };
        for unit in (zone.unit..self.striping.units).map(|unit| self.striping.unit(plot, unit).0) {
            if cx.shared.flash().was_programmed(unit) {
                cx.shared.flash_mut().spoil(unit, cx.set.storage);
            }
        }
    }

    /// Sets the write pointer and the state of a zone whose end was found.
    fn end_rebuild<S: Storage>(&mut self, zone: &Rebuild<'_>, cx: &mut ZoneContext<'_, '_, S>) {
        let (id, pages) = (zone.id, zone.pages);
        assert!(pages <= zone.limit, "{id:?} has {pages} pages of {}", zone.limit);
        let record = self.zone_mut(id);
        (record.admitted, record.accepted) = (pages, pages);
        let extended = !record.extension.is_empty();
        if record.zrwa {
            self.refill_area(id, zone.saved, cx);
        }
        let window = self.zone(id).window.map(|window| &self.windows[usize::from(window)]);
        let holds_area = window.is_some_and(|window| window.loose > 0);
        let state = match zone.recorded {
            ZoneState::Full | ZoneState::ReadOnly => zone.recorded,
            _ if u64::from(pages) * u64::from(PAGE) == zone.layout.capacity => ZoneState::Full,
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
}
