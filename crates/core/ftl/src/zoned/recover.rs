//! Power: what it takes from zones, and what they begin with when it comes back. How far each is written is in [`rebuild`](super::rebuild).

use super::zone::Sent;
use super::{NO_OP, ZoneContext, Zones, logical};
use crate::flash::{Flash, ZONES};
use crate::storage::Storage;
use crate::volume::Volumes;
use crate::zone::ZoneState;
use media::{LogicalPage, Spare};

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
            // The record of a zone may vouch for more: after a restart, nothing else is known yet.
            let floor = self.settled(id).max(self.zone(id).floor);
            let unit_pages = self.striping.unit_pages;
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

    /// Recovery begins: says which plots hold zones. A plot that two zones claim holds the first. One of a superblock that zones did not
    /// write holds none.
    pub fn claim_plots(&mut self, flash: &Flash) {
        self.plots.reset();
        for id in self.ids().collect::<Vec<_>>() {
            if let Some(plot) = self.zone(id).plot
                && !(flash.superblocks().get(plot.superblock).writer == ZONES && self.plots.take(plot))
            {
                self.zone_mut(id).plot = None;
            }
        }
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
