//! Writes on their way into a zone: what they may, and when there is room.

use super::zone::{Window, WindowPage, ZoneId};
use super::{Waiting, ZoneContext, Zones, logical};
use crate::answer::{Answer, CompletedIo, Fault};
use crate::config::PAGE;
use crate::context::SetContext;
use crate::storage::{Io, Piece, Record, Storage};
use crate::volume::VolumeId;
use crate::write::Write;
use crate::zone::{ZoneEvent, ZoneFault, ZoneLayout, ZoneState};
use media::{LogicalPage, Nanos, Slot, Spare};

impl Zones {
    /// Where an append of so many bytes to the zone that begins at `byte` of a volume would go.
    ///
    /// # Errors
    /// If no zone begins there, its state allows no write, or too little is left of it.
    pub fn append_at(&self, volume: VolumeId, byte: u64, bytes: u32) -> Result<u64, Fault> {
        let table = self.table(volume).ok_or(Fault::OutOfRange)?;
        let (zone, within) = table.layout.locate(byte);
        let zone = table.zones.get(zone as usize).filter(|_| within == 0).ok_or(Fault::OutOfRange)?;
        // The write pointer of a full zone may be the begin of the next.
        zone.state.after(ZoneEvent::Write).map_err(Fault::Zone)?;
        if zone.zrwa {
            // It says where data go, and an append does not.
            return Err(Fault::Zone(ZoneFault::InvalidOperation));
        }
        let within = u64::from(zone.accepted) * u64::from(PAGE);
        if within + u64::from(bytes) > table.layout.capacity {
            return Err(Fault::Zone(ZoneFault::Boundary));
        }
        Ok(byte + within)
    }

    /// Accepts a write: the zone's write pointer moves at once. The answer is [`Answer::Later`] if there is no room for it now, or it has
    /// to reach the flash.
    pub fn accept<S: Storage>(&mut self, write: Write, cx: &mut ZoneContext<'_, '_, S>) -> Answer {
        if cx.shared.is_read_only() {
            return Answer::Failed(self.why_read_only(write.volume, write.start));
        }
        self.tell_time(cx.now, write.volume);
        let id = match self.check(write.volume, write.start, write.end) {
            Ok(id) => id,
            Err(fault) => return Answer::Failed(fault),
        };
        self.await_age(cx);
        self.begin(id, write, cx)
    }

    /// Admits a write that was accepted, or lets it wait.
    #[inline]
    pub(super) fn begin<S: Storage>(
        &mut self,
        id: ZoneId,
        mut write: Write,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> Answer {
        let pointer = self.zone(id).accepted;
        if self.zone(id).waiting == 0 {
            match self.admit(id, &mut write, pointer, cx.set) {
                Ok(true) => {
                    let waits = write.durable && !self.protected && self.wait(id, write.io);
                    self.pump_if_due(cx);
                    return if waits { Answer::Later } else { Answer::At(write.at.max(cx.now)) };
                }
                Ok(false) => {}
                Err(fault) => {
                    self.take_back(id);
                    return Answer::Failed(fault);
                }
            }
        }
        self.waiting_zones += u32::from(self.zone(id).waiting == 0);
        self.zone_mut(id).waiting += 1;
        self.waiting.push_back(Waiting { zone: id, write, pointer });
        self.pump_if_due(cx);
        Answer::Later
    }

    /// Why a write fails once the set can only be read. Its zones can only be read then, too.
    fn why_read_only(&self, volume: VolumeId, start: u64) -> Fault {
        let zone =
            self.table(volume).and_then(|table| table.zones.get(table.layout.locate(start).0 as usize));
        match zone.map(|zone| zone.state.after(ZoneEvent::Write)) {
            Some(Err(fault)) => Fault::Zone(fault),
            _ => Fault::ReadOnly,
        }
    }

    /// The zone that a write goes to, with the resources that it takes. Moves the write pointer.
    #[inline]
    fn check(&mut self, volume: VolumeId, start: u64, end: u64) -> Result<ZoneId, Fault> {
        let table = self.table_mut(volume).ok_or(Fault::OutOfRange)?;
        let ZoneLayout { size, capacity, .. } = table.layout;
        let (number, within) = table.layout.locate(start);
        let len = end - start;
        if !(start | end).is_multiple_of(u64::from(PAGE)) {
            return Err(Fault::OutOfRange);
        }
        if within + len > size {
            return Err(Fault::Zone(ZoneFault::Boundary));
        }
        let zone = &table.zones[number as usize];
        // A full zone takes nothing, also where the event would leave it full.
        zone.state.after(ZoneEvent::Write).map_err(Fault::Zone)?;
        let (first, last) = ((within / u64::from(PAGE)) as u32, ((within + len) / u64::from(PAGE)) as u32);
        let pointer = match zone.zrwa {
            false => (first == zone.accepted).then_some(last),
            true => table.layout.zrwa.and_then(|area| area.pointer_after(zone.accepted, first, last)),
        };
        let pointer = pointer.ok_or(Fault::Zone(ZoneFault::InvalidWrite))?;
        if within + len > capacity {
            return Err(Fault::Zone(ZoneFault::Boundary));
        }
        let is_filled = u64::from(pointer) * u64::from(PAGE) == capacity;
        let event = if is_filled { ZoneEvent::Fill } else { ZoneEvent::Write };
        let next = zone.state.after(event).map_err(Fault::Zone)?;
        table.write_to(number, next).map_err(Fault::Zone)?;
        table.zones[number as usize].accepted = pointer;
        Ok(ZoneId { volume, zone: number })
    }

    /// Admits what waits, as far as there is room: each zone's writes in their order. Whether anything was admitted.
    pub(super) fn admit_waiting<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        // Nothing has become free since it was tried last.
        if !std::mem::take(&mut self.freed) && !self.lacks_slots {
            return false;
        }
        let mut any = false;
        let mut i = 0;
        // Zones whose writes must wait: those behind wait, too.
        let mut stuck = std::mem::take(&mut self.stuck);
        stuck.clear();
        while i < self.waiting.len() && stuck.len() < self.waiting_zones as usize && !self.is_full() {
            let zone = self.waiting[i].zone;
            if stuck.contains(&zone) {
                i += 1;
                continue;
            }
            let mut write = self.waiting[i].write.clone();
            let before = write.start;
            let result = self.admit(zone, &mut write, self.waiting[i].pointer, cx);
            any |= write.start != before || std::mem::take(&mut self.committed);
            match result {
                Ok(false) => {
                    self.waiting[i].write = write;
                    if self.lacks_slots {
                        break;
                    }
                    stuck.push(zone);
                    i += 1;
                }
                Ok(true) => {
                    self.waiting.remove(i);
                    self.zone_mut(zone).waiting -= 1;
                    self.waiting_zones -= u32::from(self.zone(zone).waiting == 0);
                    if let Some(window) = self.zone(zone).window {
                        // The last unit of a zone may be less than a whole one.
                        self.make_ready(window);
                    }
                    self.admitted(now, zone, &write, cx);
                }
                Err(fault) => {
                    self.fail_waiting(now, zone, fault, cx);
                    any = true;
                }
            }
        }
        self.stuck = stuck;
        any
    }

    /// All of a write is in the window.
    fn admitted<S: Storage>(&mut self, now: Nanos, id: ZoneId, write: &Write, cx: &mut SetContext<'_, S>) {
        if write.durable && !self.protected && self.wait(id, write.io) {
            return;
        }
        cx.done.push(CompletedIo { io: write.io, at: write.at.max(now), result: Ok(()) });
    }

    /// A command waits until all that was admitted to a zone is on flash. Whether it is not there yet.
    pub(super) fn wait(&mut self, id: ZoneId, io: Io) -> bool {
        let pages = self.zone(id).admitted;
        let Some(index) = self.zone(id).window else { return false };
        let window = &mut self.windows[usize::from(index)];
        window.waiters.push_back((io, pages));
        self.unsettled = true;
        true
    }

    /// The first write that waits for a zone fails, and with it all others: the write pointer goes back to what was admitted.
    pub(super) fn fail_waiting<S: Storage>(
        &mut self,
        now: Nanos,
        id: ZoneId,
        fault: Fault,
        cx: &mut SetContext<'_, S>,
    ) {
        let mut fault = fault;
        self.waiting.retain(|waiting| {
            if waiting.zone != id {
                return true;
            }
            cx.done.push(CompletedIo { io: waiting.write.io, at: now, result: Err(fault) });
            if ![Fault::ReadOnly, Fault::Zone(ZoneFault::ReadOnly)].contains(&fault) {
                // Those behind do not begin at the write pointer any more.
                fault = Fault::Zone(ZoneFault::InvalidWrite);
            }
            false
        });
        self.waiting_zones -= u32::from(self.zone(id).waiting > 0);
        self.zone_mut(id).waiting = 0;
        self.take_back(id);
    }

    /// The write pointer goes back to what was admitted. A zone that would have been full is not.
    fn take_back(&mut self, id: ZoneId) {
        let Some(table) = self.table_mut(id.volume) else { return };
        let zone = &mut table.zones[id.zone as usize];
        let taken = zone.admitted < zone.accepted;
        zone.accepted = zone.admitted;
        // One of which nothing waits stays full, and as old as it is.
        if taken && zone.state == ZoneState::Full {
            table.set_state(id.zone, ZoneState::Closed);
        }
    }

    /// Moves as much of a write into the zone's window as fits; whether that was all. The write pointer of a zone with a Zone Random
    /// Write Area moves to `pointer`.
    fn admit<S: Storage>(
        &mut self,
        id: ZoneId,
        write: &mut Write,
        pointer: u32,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        let Some(index) = self.window_of(id) else { return Ok(false) };
        if self.windows[usize::from(index)].claim > self.striping.unit_pages {
            return self.admit_to_area(id, index, write, pointer, cx);
        }
        let layout = self.table(id.volume).ok_or(Fault::OutOfRange)?.layout;
        let unit_pages = self.striping.unit_pages;
        let group = u64::from(self.atomic_pages) * u64::from(PAGE);
        while write.start < write.end {
            let pages = ((write.end_of_group(group) - write.start) / u64::from(PAGE)) as u32;
            // The claim of a window is a unit, so there is always room for the rest of one in the end.
            let pages = pages.min(unit_pages - self.zone(id).admitted % unit_pages);
            if !self.has_room(index, pages) || !self.store_group(write, pages, cx)? {
                return Ok(false);
            }
            for i in 0..self.slots.len() {
                *cx.version += 1;
                let added = WindowPage { slot: self.slots[i], version: *cx.version, is_hole: false };
                self.push(index, added);
                let page = self.zone(id).admitted;
                self.record_page(id, &layout, page, added, cx);
                self.zone_mut(id).admitted += 1;
            }
            write.start += u64::from(pages) * u64::from(PAGE);
            write.host += pages * PAGE;
        }
        // The next page of the window is the next page of the zone. Otherwise data would be programmed in the place of other data.
        let window = &self.windows[usize::from(index)];
        assert_eq!(window.first_page(unit_pages) + window.ordered(), self.zone(id).admitted, "{id:?}");
        self.make_ready(index);
        Ok(true)
    }

    /// Stores the next pages of a write in slots of their own: all of them, or none if there are too few slots.
    pub(super) fn store_group<S: Storage>(
        &mut self,
        write: &Write,
        pages: u32,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        self.slots.clear();
        for i in 0..pages {
            let Some(slot) = cx.storage.allocate() else {
                self.lacks_slots = true;
                self.slots.drain(..).for_each(|slot| cx.storage.release(slot));
                return Ok(false);
            };
            self.slots.push(slot);
            let piece = Piece { host: write.host + i * PAGE, page: 0, len: PAGE };
            if let Err(error) = write.store(cx.storage, piece, slot, None) {
                self.slots.drain(..).for_each(|slot| cx.storage.release(slot));
                return Err(error.into());
            }
        }
        Ok(true)
    }

    /// A page joins a window.
    pub(super) fn push(&mut self, index: u16, page: WindowPage) {
        let unit_pages = self.striping.unit_pages;
        let window = &mut self.windows[usize::from(index)];
        window.pages.push_back(page);
        if !page.is_hole {
            self.charge(index);
        }
        if (self.windows[usize::from(index)].pages.len() as u32).is_multiple_of(unit_pages) {
            self.make_ready(index);
        }
    }

    /// A page of a window counts against the pool.
    #[inline]
    pub(super) fn charge(&mut self, index: u16) {
        let window = &mut self.windows[usize::from(index)];
        window.charged += 1;
        self.used += 1;
        if window.charged <= window.claim {
            self.claims -= 1;
        }
    }

    /// Tells the journal of a page that was accepted.
    pub(super) fn record_page<S: Storage>(
        &self,
        id: ZoneId,
        layout: &ZoneLayout,
        page: u32,
        held: WindowPage,
        cx: &mut SetContext<'_, S>,
    ) {
        if !self.durable {
            return;
        }
        let Some(volume) = cx.volumes.get(id.volume) else { return };
        let page = LogicalPage(logical(volume, layout, id.zone, page));
        let spare = Spare { page, version: held.version, slot: held.slot };
        cx.storage.record(Record::Buffer { set: volume.set.0, spare });
    }

    /// Whether no window takes a page: nothing is left, and nothing is claimed.
    #[inline]
    fn is_full(&self) -> bool {
        self.claims == 0 && self.used >= self.pool
    }

    /// Whether a window takes so many more pages: of its own claim, and of what nobody has claimed. After a recovery there may be more claims than
    /// room: then it waits until some of what there is has gone to flash.
    #[inline]
    pub(super) fn has_room(&self, index: u16, pages: u32) -> bool {
        let window = &self.windows[usize::from(index)];
        let claimed = window.claim.saturating_sub(window.charged);
        claimed + self.pool.saturating_sub(self.used + self.claims) >= pages && self.used + pages <= self.pool
    }

    /// The window of a zone; a new one if it has none and there is room for its claim.
    pub(super) fn window_of(&mut self, id: ZoneId) -> Option<u16> {
        if let Some(window) = self.zone(id).window {
            return Some(window);
        }
        if self.used + self.claims + self.striping.unit_pages > self.pool {
            return None;
        }
        if self.zone(id).zrwa && self.free_areas == 0 {
            // One that was given up is on its way to flash.
            return None;
        }
        Some(self.new_window(id))
    }

    /// Gives a zone without a window one that begins where the next unit does.
    pub(super) fn new_window(&mut self, id: ZoneId) -> u16 {
        let settled = self.zone(id).admitted / self.striping.unit_pages;
        let index = self.free_windows.pop().unwrap_or_else(|| {
            self.windows.push(Window::default());
            self.windows.len() as u16 - 1
        });
        let window = &mut self.windows[usize::from(index)];
        (window.zone, window.settled, window.claim) = (Some(id), settled, self.striping.unit_pages);
        self.claims += self.striping.unit_pages;
        self.zone_mut(id).window = Some(index);
        if self.zone(id).zrwa {
            self.claim_area(index);
        }
        index
    }

    /// Gives a window back: all of it is on flash or given up.
    pub(super) fn free_window(&mut self, index: u16) {
        self.freed = true;
        let window = &mut self.windows[usize::from(index)];
        self.used -= window.charged;
        self.claims -= window.claim.saturating_sub(window.charged);
        let area = window.claim.saturating_sub(self.striping.unit_pages);
        self.pool -= area;
        self.free_areas += u32::from(area > 0);
        let window = &mut self.windows[usize::from(index)];
        if let Some(id) = window.zone {
            window.clear();
            self.zone_mut(id).window = None;
        }
        self.ready.retain(|&ready| ready != index);
        self.blocked.retain(|&(blocked, _)| blocked != index);
        self.free_windows.push(index);
    }

    /// A page of a window does not count against the pool any more.
    pub(super) fn uncharge(&mut self, index: u16) {
        let window = &mut self.windows[usize::from(index)];
        assert!(window.charged > 0, "a page of {:?} counts twice", window.zone);
        window.charged -= 1;
        self.freed = true;
        self.used -= 1;
        if window.charged < window.claim {
            self.claims += 1;
        }
    }

    /// Puts a window among those with something to send, if it has.
    pub(super) fn make_ready(&mut self, index: u16) {
        if self.has_unit(index) && !self.windows[usize::from(index)].ready {
            self.windows[usize::from(index)].ready = true;
            self.ready.push_back(index);
        }
    }

    /// The contents that the windows refer to, and their logical pages where those are asked for.
    pub(super) fn window_slots(&self) -> impl Iterator<Item = Slot> {
        self.windows.iter().flat_map(|window| window.pages.iter().map(|page| page.slot))
    }
}
