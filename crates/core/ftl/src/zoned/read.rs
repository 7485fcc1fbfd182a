//! Reads of zones: from the window, from their place, or from the page-mapped part.

use super::zone::ZoneId;
use super::{ZoneContext, Zones, logical};
use crate::answer::Fault;
use crate::config::PAGE;
use crate::flash::Flash;
use crate::lost::LOST;
use crate::storage::{Piece, Storage};
use crate::volume::{Extent, Volume, VolumeId};
use crate::zone::{ZoneFault, ZoneState};
use media::{LogicalPage, Nanos, Slot};

/// No flash page.
const NO_PAGE: u32 = u32::MAX;

impl Zones {
    /// The contents of a page of a volume with zones, and its flash page; `None` if it holds nothing. `stray` locates a stray.
    pub fn locate(
        &self,
        id: VolumeId,
        volume: &Volume,
        page: u64,
        flash: &Flash,
        stray: impl Fn(u32) -> Option<(Slot, u32)>,
    ) -> Option<(Slot, u32)> {
        let table = self.table(id)?;
        let (number, within) = table.layout.locate(page * u64::from(PAGE));
        let zone = table.zones.get(number as usize)?;
        let at = (within / u64::from(PAGE)) as u32;
        if at >= zone.admitted && !zone.zrwa {
            return None;
        }
        if let Some(window) = zone.window
            && let Some(held) = self.windows[usize::from(window)].page(at, self.striping.unit_pages)
        {
            return (!held.is_hole).then_some((held.slot, NO_PAGE));
        }
        if at >= zone.admitted {
            return None;
        }
        if zone.strays
            && let Some(found) = stray(logical(volume, &table.layout, number, at))
        {
            let is_hole = self.durable && found.0 == Slot::NONE;
            return (!is_hole).then_some(found);
        }
        let place = self.striping.page(zone.plot?, at);
        if self.durable && flash.spare(place).page == LogicalPage::NONE {
            // Its record vouches for it, and the chips have lost it. Recovery has kept no contents of it.
            return Some((LOST, place));
        }
        match flash.slot(place) {
            // It was never written.
            Slot::NONE if self.durable => None,
            slot => Some((slot, place)),
        }
    }

    /// Zones that are offline hold nothing that can be read.
    fn refuse_offline(&self, id: VolumeId, extent: Extent) -> Result<(), Fault> {
        let table = self.table(id).ok_or(Fault::OutOfRange)?;
        let last = extent.start + u64::from(extent.bytes.max(1)) - 1;
        for zone in table.layout.locate(extent.start).0..=table.layout.locate(last).0 {
            if table.zones[zone as usize].state == ZoneState::Offline {
                return Err(Fault::Zone(ZoneFault::Offline));
            }
        }
        Ok(())
    }

    /// Walks the pages of an extent; flash pages of one sense are read together. `visit` gets the piece and the contents.
    pub fn read<S: Storage>(
        &mut self,
        id: VolumeId,
        extent: Extent,
        cx: &mut ZoneContext<'_, '_, S>,
        mut visit: impl FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>,
    ) -> Result<Nanos, Fault> {
        self.refuse_offline(id, extent)?;
        let volume = cx.set.volumes.get_mut(id).ok_or(Fault::OutOfRange)?;
        let sense_pages = cx.shared.flash().geo().sense_pages;
        let (mut end, mut fault) = (cx.now, None);
        let (mut first, mut count) = (NO_PAGE, 0);
        let mut host = 0;
        while host < extent.bytes {
            let byte = extent.start + u64::from(host);
            let offset = (byte % u64::from(PAGE)) as u32;
            let piece = Piece { host, page: offset, len: (PAGE - offset).min(extent.bytes - host) };
            host += piece.len;
            let (flash, stray) = (cx.shared.flash(), |page| cx.shared.locate_stray(page));
            let found = self.locate(id, volume, byte / u64::from(PAGE), flash, stray);
            if let Some((slot, at)) = found {
                if slot == LOST {
                    fault = Some(Fault::Unrecovered);
                }
                if at != NO_PAGE {
                    volume.stats.media_read_bytes += u64::from(PAGE);
                    if count > 0 && at == first + count && !at.is_multiple_of(sense_pages) {
                        count += 1;
                    } else {
                        if count > 0 {
                            end = end.max(cx.shared.sense(cx.now, first, count, &mut fault));
                        }
                        (first, count) = (at, 1);
                    }
                }
            }
            if fault.is_none() {
                visit(cx.set.storage, piece, found.map(|(slot, _)| slot))?;
            }
        }
        if count > 0 {
            end = end.max(cx.shared.sense(cx.now, first, count, &mut fault));
        }
        fault.map_or(Ok(end), Err)
    }

    /// The contents that zones refer to, each as often as it is. Looks at every page: for tests.
    pub fn references(&self, flash: &Flash) -> Vec<Slot> {
        let mut all: Vec<Slot> = self.window_slots().filter(|&slot| slot != Slot::NONE).collect();
        for id in self.ids().collect::<Vec<ZoneId>>() {
            let zone = self.zone(id);
            let Some(plot) = zone.plot else { continue };
            for unit in 0..self.striping.units {
                let (unit, _) = self.striping.unit(plot, unit);
                let first = unit.0 * self.striping.unit_pages;
                let programmed = flash.programmed(unit);
                let slots = (first..first + programmed).map(|page| flash.slot(page));
                all.extend(
                    slots.filter(|&slot| crate::page_mapped::has_contents(slot) && slot != Slot::NONE),
                );
            }
        }
        all
    }
}
