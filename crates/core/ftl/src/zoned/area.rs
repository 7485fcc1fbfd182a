//! Zone Random Write Areas: the end of a window, behind the write pointer, whose pages a host may write in any order, and again.
//!
//! A page is in the area until the write pointer passes it (a *commit*). Then it is a page of the window like all others. What was never
//! written is a *hole*: it takes no memory and no slot, goes to flash with the others of its unit, and reads as zeros. So a commit always
//! succeeds at once.
//!
//! A zone's record says where its write pointer is, because pages behind it do not tell. The capacitors save the area with the window.

use super::zone::{HOLE, WindowPage, ZoneId};
use super::{ZoneContext, Zones};
use crate::answer::{Answer, Fault, Source};
use crate::config::PAGE;
use crate::context::SetContext;
use crate::storage::{Io, Record, Storage};
use crate::volume::{Extent, VolumeId};
use crate::write::Write;
use crate::zone::{ZoneEvent, ZoneFault, ZoneState, ZoneTarget};
use media::{LogicalPage, Slot, Spare};
use std::collections::BTreeMap;

impl Zones {
    /// A window takes the memory of a Zone Random Write Area.
    pub(super) fn claim_area(&mut self, index: u16) {
        let Some(id) = self.windows[usize::from(index)].zone else { return };
        let Some(area) = self.table(id.volume).and_then(|table| table.layout.zrwa) else { return };
        self.windows[usize::from(index)].claim += area.pages;
        self.claims += area.pages;
        self.pool += area.pages;
        self.free_areas = self.free_areas.saturating_sub(1);
    }

    /// Moves the write pointer of a zone, and as much of a write into its Zone Random Write Area as fits; whether that was all.
    pub(super) fn admit_to_area<S: Storage>(
        &mut self,
        id: ZoneId,
        index: u16,
        write: &mut Write,
        pointer: u32,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        let layout = self.table(id.volume).ok_or(Fault::OutOfRange)?.layout;
        let group = u64::from(self.atomic_pages) * u64::from(PAGE);
        while write.start < write.end {
            let pages = ((write.end_of_group(group) - write.start) / u64::from(PAGE)) as u32;
            let first = (layout.locate(write.start).1 / u64::from(PAGE)) as u32;
            // Pages of this write that wait for room are not passed yet: as holes they would go to flash.
            self.commit(id, index, pointer.min(first), cx);
            // What is written again takes the room of what was there.
            let window = &self.windows[usize::from(index)];
            let held = |page| window.page(page, self.striping.unit_pages).is_some_and(|held| !held.is_hole);
            let new = (first..first + pages).filter(|&page| !held(page)).count() as u32;
            if !self.has_room(index, new) || !self.store_group(write, pages, cx)? {
                return Ok(false);
            }
            for (i, page) in (0..).zip(first..first + pages) {
                *cx.version += 1;
                let added = WindowPage { slot: self.slots[i], version: *cx.version, is_hole: false };
                self.put(index, page, added, cx);
                self.record_page(id, &layout, page, added, cx);
            }
            write.start += u64::from(pages) * u64::from(PAGE);
            write.host += pages * PAGE;
        }
        self.commit(id, index, pointer, cx);
        Ok(true)
    }

    /// Puts a page into the area of a window, in the place of what was there.
    fn put<S: Storage>(&mut self, index: u16, page: u32, added: WindowPage, cx: &mut SetContext<'_, S>) {
        let window = &mut self.windows[usize::from(index)];
        let at = (page - window.first_page(self.striping.unit_pages)) as usize;
        while window.pages.len() <= at {
            window.pages.push_back(HOLE);
            window.loose += 1;
        }
        let old = std::mem::replace(&mut window.pages[at], added);
        match old.is_hole {
            true => self.charge(index),
            false => cx.storage.release(old.slot),
        }
    }

    /// The write pointer of a zone passes pages of its area. A zone that is full has no area any more.
    fn commit<S: Storage>(&mut self, id: ZoneId, index: u16, pointer: u32, cx: &mut SetContext<'_, S>) {
        let Some(layout) = self.table(id.volume).map(|table| table.layout) else { return };
        let from = self.zone(id).admitted;
        if pointer <= from {
            return;
        }
        for page in from..pointer {
            let window = &mut self.windows[usize::from(index)];
            let at = (page - window.first_page(self.striping.unit_pages)) as usize;
            match at == window.pages.len() {
                true => window.pages.push_back(HOLE),
                false => window.loose -= 1,
            }
            let passed = &mut window.pages[at];
            if passed.is_hole {
                *cx.version += 1;
                passed.version = *cx.version;
                let passed = *passed;
                self.record_page(id, &layout, page, passed, cx);
            }
        }
        self.zone_mut(id).admitted = pointer;
        self.committed = true;
        if pointer == layout.pages_of_zone() {
            self.drop_area(id);
        }
        self.record(id, cx);
        self.make_ready(index);
    }

    /// A zone takes nothing more: what is in its area is committed, and it has none any more.
    pub(super) fn end_area<S: Storage>(&mut self, id: ZoneId, cx: &mut SetContext<'_, S>) {
        if !self.zone(id).zrwa {
            return;
        }
        if let Some(index) = self.zone(id).window {
            let window = &self.windows[usize::from(index)];
            let end = window.first_page(self.striping.unit_pages) + window.pages.len() as u32;
            self.commit(id, index, end, cx);
        }
        self.zone_mut(id).accepted = self.zone(id).admitted;
        self.drop_area(id);
    }

    /// A zone has no area any more.
    pub(super) fn drop_area(&mut self, id: ZoneId) {
        if let Some(table) = self.table_mut(id.volume) {
            table.set_zrwa(id.zone, false);
        }
    }

    /// Whether a zone may be opened with a Zone Random Write Area: it has one, or is empty, and there is one left.
    pub(super) fn check_area(&self, volume: VolumeId, zone: u32) -> Result<(), ZoneFault> {
        let table = self.table(volume).filter(|table| table.layout.zrwa.is_some());
        let table = table.ok_or(ZoneFault::InvalidOperation)?;
        let areas = table.layout.zrwa.map_or(0, |area| area.max);
        match &table.zones[zone as usize] {
            zone if zone.zrwa => Ok(()),
            zone if zone.state != ZoneState::Empty => Err(ZoneFault::InvalidOperation),
            _ if table.zrwas >= areas => Err(ZoneFault::NoZrwa),
            _ => Ok(()),
        }
    }

    /// The host moves the write pointer of a zone with a Zone Random Write Area to this byte of the zone.
    pub(super) fn commit_to<S: Storage>(
        &mut self,
        io: Io,
        volume: VolumeId,
        target: ZoneTarget,
        end: u64,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> Answer {
        self.tell_time(cx.now, volume);
        let id = match self.accept_commit(volume, target, end) {
            Ok(id) => id,
            Err(fault) => return Answer::Failed(fault),
        };
        self.await_age(cx);
        // A write of nothing, which waits for those before it.
        let write = Write::new(io, volume, Extent { start: 0, bytes: 0 }, Source::Host);
        self.begin(id, write, cx)
    }

    /// Moves the write pointer, if it may.
    fn accept_commit(&mut self, volume: VolumeId, target: ZoneTarget, end: u64) -> Result<ZoneId, Fault> {
        let table = self.table_mut(volume).ok_or(Fault::OutOfRange)?;
        let ZoneTarget::One(number) = target else { return Err(Fault::OutOfRange) };
        let zone = table.zones.get(number as usize).ok_or(Fault::OutOfRange)?;
        let invalid = Fault::Zone(ZoneFault::InvalidOperation);
        let area = table.layout.zrwa.filter(|_| zone.zrwa).ok_or(invalid)?;
        let most = table.layout.pages_of_zone().min(zone.accepted + area.pages);
        let pointer = u32::try_from(end / u64::from(PAGE)).map_err(|_| invalid)?;
        let possible = end.is_multiple_of(PAGE.into())
            && (zone.accepted + 1..=most).contains(&pointer)
            && (pointer - zone.accepted).is_multiple_of(area.granularity);
        if !possible {
            return Err(invalid);
        }
        let is_filled = pointer == table.layout.pages_of_zone();
        let event = if is_filled { ZoneEvent::Fill } else { ZoneEvent::Write };
        let next = zone.state.after(event).map_err(Fault::Zone)?;
        table.write_to(number, next).map_err(Fault::Zone)?;
        table.zones[number as usize].accepted = pointer;
        Ok(ZoneId { volume, zone: number })
    }

    /// Power is back, and the zone is written up to its write pointer: puts what the capacitors saved of its area into the window.
    pub(super) fn refill_area<S: Storage>(
        &mut self,
        id: ZoneId,
        saved: &BTreeMap<u32, Spare>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) {
        let Some(layout) = self.table(id.volume).map(|table| table.layout) else { return };
        let Some(area) = layout.zrwa else { return };
        let pointer = self.zone(id).admitted;
        for page in pointer..(pointer + area.pages).min(layout.pages_of_zone()) {
            let Some(volume) = cx.set.volumes.get(id.volume) else { return };
            let at = super::logical(volume, &layout, id.zone, page);
            let Some(&spare) = saved.get(&at).filter(|spare| spare.slot != Slot::NONE) else { continue };
            let index = self.zone(id).window.unwrap_or_else(|| self.new_window(id));
            if self.durable {
                cx.set.storage.retain(spare.slot);
                let spare = Spare { page: LogicalPage(at), ..spare };
                cx.set.storage.record(Record::Buffer { set: cx.shared.flash().id().0, spare });
            }
            let added = WindowPage { slot: spare.slot, version: spare.version, is_hole: false };
            self.put(index, page, added, cx.set);
        }
    }

    /// Whether the areas agree with the zones and their windows. For tests.
    ///
    /// # Errors
    /// What does not agree, in words.
    pub(super) fn check_areas(&self) -> Result<(), String> {
        let unit_pages = self.striping.unit_pages;
        let mut areas = 0;
        for window in &self.windows {
            let Some(id) = window.zone else { continue };
            let zone = self.zone(id);
            let area = self.table(id.volume).and_then(|table| table.layout.zrwa).map_or(0, |area| area.pages);
            let charged = window.pages.iter().filter(|page| !page.is_hole).count() as u32;
            let end = window.first_page(unit_pages) + window.ordered();
            let claims_area = window.claim > unit_pages;
            areas += u32::from(claims_area);
            let sound = charged == window.charged
                && end == zone.admitted
                && window.loose <= if zone.zrwa { area } else { 0 }
                && window.claim == unit_pages + if claims_area { area } else { 0 }
                && (claims_area || !zone.zrwa);
            if !sound {
                return Err(format!("{id:?}: {zone:?} has the window {window:?}"));
            }
        }
        let all = self.config.zrwa.map_or(0, |area| area.max);
        let pages = self.config.zrwa.map_or(0, |area| area.pages);
        if areas + self.free_areas != all || self.pool != self.config.buffer_pages + areas * pages {
            return Err(format!("{areas} windows have areas, {} of {all} are free", self.free_areas));
        }
        Ok(())
    }
}
