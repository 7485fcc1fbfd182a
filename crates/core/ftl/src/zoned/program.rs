//! From the windows to flash: units that are sent, what becomes of them, and the pages that have to go elsewhere.

use super::striping::Plot;
use super::zone::{Sent, Zone, ZoneId};
use super::{NO_OP, ORPHAN, UNUSED, ZoneContext, ZoneOp, Zones, logical};
use crate::answer::{Answer, CompletedIo};
use crate::config::PAGE;
use crate::context::SetContext;
use crate::flash::{Ended, Offer, Order, Target, ZONE_OP};
use crate::storage::{Io, Storage};
use crate::zone::ZoneState;
use media::{LogicalPage, Medium, Spare};

/// What became of an attempt to send a unit.
enum Attempt {
    Sent,
    /// Something is missing: a superblock, for instance.
    Waits,
    /// The die has no room.
    WaitsFor(u32),
}

impl Zones {
    /// Whether a window has a unit to send: a full one, or the last of a zone that takes no more. A zone that can only be read gets no blocks.
    pub(super) fn has_unit(&self, index: u16) -> bool {
        let window = &self.windows[usize::from(index)];
        let unsent = window.unsent(self.striping.unit_pages);
        let ends = |id| {
            let Zone { state, waiting, plot, .. } = self.zone(id);
            let ends = *state == ZoneState::Full || (*state == ZoneState::ReadOnly && plot.is_some());
            ends && *waiting == 0
        };
        unsent >= self.striping.unit_pages || (unsent > 0 && window.zone.is_some_and(ends))
    }

    /// Sends units of the windows in turn, as their dies have room; whether any was sent.
    pub(super) fn send<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        let mut any = false;
        self.wants_superblock = false;
        let ready = &mut self.ready;
        self.blocked.retain(|&(index, die)| {
            let waits = cx.shared.flash().waits(die);
            if !waits {
                ready.push_back(index);
            }
            waits
        });
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { break };
            self.windows[usize::from(index)].ready = false;
            loop {
                if !self.has_unit(index) {
                    break;
                }
                match self.send_unit(index, cx) {
                    Attempt::Sent => any = true,
                    Attempt::Waits => {
                        self.make_ready(index);
                        break;
                    }
                    Attempt::WaitsFor(die) => {
                        self.windows[usize::from(index)].ready = true;
                        self.blocked.push((index, die));
                        break;
                    }
                }
            }
        }
        any
    }

    /// Sends the next unit of a window.
    fn send_unit<S: Storage>(&mut self, index: u16, cx: &mut ZoneContext<'_, '_, S>) -> Attempt {
        let Some(id) = self.windows[usize::from(index)].zone else { return Attempt::Waits };
        let Some(plot) = self.plot_of(id, cx) else { return Attempt::Waits };
        let number = self.windows[usize::from(index)].next_unit();
        // Behind the last unit lies the plot of another zone.
        assert!(number < self.striping.units, "unit {number} of {id:?}");
        let (unit, die) = self.striping.unit(plot, number);
        loop {
            match cx.shared.flash().offer(unit, die) {
                Offer::Now => break,
                Offer::Busy => return Attempt::WaitsFor(die),
                Offer::Ask => {
                    if !cx.shared.land_ended(cx.now, die, cx.set) {
                        return Attempt::WaitsFor(die);
                    }
                }
                Offer::Never => {
                    self.windows[usize::from(index)].sent.push_back(Sent::Stray);
                    self.windows[usize::from(index)].strays += 1;
                    self.unsettled = true;
                    self.settle(index, cx);
                    return Attempt::Sent;
                }
            }
        }
        let Some(op) = self.free_ops.pop() else { return Attempt::Waits };
        self.ops[op as usize] = ZoneOp { window: index, unit: number };
        self.fill_spares(id, index, number, cx.set);
        self.windows[usize::from(index)].sent.push_back(Sent::Programming);
        let target = Target { unit, die, superblock: plot.superblock };
        let order = Order { op: ZONE_OP | op, relocated: false, watched: true };
        if cx.shared.flash_mut().program(cx.now, target, order, &self.spares, cx.set.events) {
            cx.shared.land_ended(cx.now, die, cx.set);
        }
        Attempt::Sent
    }

    /// Where a zone lies; it is bound now if it was not.
    fn plot_of<S: Storage>(&mut self, id: ZoneId, cx: &mut ZoneContext<'_, '_, S>) -> Option<Plot> {
        if let Some(plot) = self.zone(id).plot {
            return Some(plot);
        }
        let may_open = cx.shared.spares_superblock();
        let Some(plot) = self.plots.bind(cx.shared.flash_mut(), &self.striping, may_open, cx.set.storage)
        else {
            self.wants_superblock = true;
            return None;
        };
        // What is on blocks that cannot be erased is nobody's, and must not be taken for this zone's later.
        for unit in (0..self.striping.units).map(|unit| self.striping.unit(plot, unit).0) {
            if cx.shared.flash().nand.is_bad(unit) {
                cx.shared.flash_mut().spoil(unit, cx.set.storage);
            }
        }
        self.zone_mut(id).plot = Some(plot);
        self.record(id, cx.set);
        Some(plot)
    }

    /// Puts the spare areas of a unit of a window together. What is programmed refers to its contents.
    fn fill_spares<S: Storage>(&mut self, id: ZoneId, index: u16, unit: u32, cx: &mut SetContext<'_, S>) {
        let unit_pages = self.striping.unit_pages;
        let layout = self.table(id.volume).map(|table| table.layout);
        let window = &self.windows[usize::from(index)];
        let first = (unit - window.settled) * unit_pages;
        self.spares.clear();
        let pages = window.pages.iter().skip(first as usize).take(unit_pages as usize);
        let (Some(layout), Some(volume)) = (layout, cx.volumes.get_mut(id.volume)) else { return };
        for (page, held) in (unit * unit_pages..).zip(pages) {
            let page = LogicalPage(logical(volume, &layout, id.zone, page));
            self.spares.push(match self.durable {
                true => Spare { page, version: held.version, slot: held.slot },
                false => Spare { page, ..Spare::EMPTY },
            });
            if self.durable {
                cx.storage.retain(held.slot);
            }
        }
        self.spares.resize(unit_pages as usize, Spare::EMPTY);
        volume.charge(unit_pages, false);
    }

    /// Takes the programs of the zones that have ended; whether there were any.
    pub(super) fn land_ended<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        let mut any = false;
        while let Some(ended) = cx.shared.flash_mut().ended_of_zones.pop() {
            self.land(ended, cx);
            any = true;
        }
        // A host that waits for what is not a whole unit, or for strays that had no room.
        if !std::mem::take(&mut self.unsettled) {
            return any;
        }
        for index in 0..self.windows.len() as u16 {
            let window = &self.windows[usize::from(index)];
            if window.strays > 0 || !window.waiters.is_empty() {
                any |= self.settle(index, cx);
                let window = &self.windows[usize::from(index)];
                self.unsettled |= window.strays > 0 || !window.waiters.is_empty();
            }
        }
        any
    }

    fn land<S: Storage>(&mut self, ended: Ended, cx: &mut ZoneContext<'_, '_, S>) {
        let number = ended.op ^ ZONE_OP;
        let ZoneOp { window: index, unit } = std::mem::replace(&mut self.ops[number as usize], NO_OP);
        assert_ne!(index, UNUSED, "a program ends twice");
        self.free_ops.push(number);
        if !ended.failed {
            cx.shared.flash_mut().record_program(ended.unit, cx.set.storage);
        }
        if index == ORPHAN {
            return self.orphan_landed(ended.unit, cx);
        }
        let window = &mut self.windows[usize::from(index)];
        let at = (unit - window.settled) as usize;
        if ended.failed {
            window.sent[at] = Sent::Stray;
            window.strays += 1;
            self.unsettled = true;
            if self.durable {
                let first = at * self.striping.unit_pages as usize;
                let pages = window.pages.iter().skip(first).take(self.striping.unit_pages as usize);
                pages.for_each(|page| cx.set.storage.release(page.slot));
            }
            if let Some(id) = window.zone {
                self.save_spare(id, cx);
            }
        } else {
            window.sent[at] = Sent::Landed;
            if let Some(id) = window.zone
                && self.zone(id).strays
            {
                self.drop_strays(id, unit, cx);
            }
        }
        self.settle(index, cx);
    }

    /// What was stored elsewhere of a unit that is in its place is out of date.
    pub(super) fn drop_strays<S: Storage>(&self, id: ZoneId, unit: u32, cx: &mut ZoneContext<'_, '_, S>) {
        let Some(layout) = self.table(id.volume).map(|table| table.layout) else { return };
        let (unit_pages, pages) = (self.striping.unit_pages, (layout.capacity / u64::from(PAGE)) as u32);
        for page in unit * unit_pages..((unit + 1) * unit_pages).min(pages) {
            let Some(page) = cx.set.volumes.get(id.volume).map(|v| logical(v, &layout, id.zone, page)) else {
                return;
            };
            cx.shared.drop_stray(cx.now, page, cx.set);
        }
    }

    /// Moves the begin of a window on, past the units that are on flash or elsewhere, and answers who waits for them; whether anything
    /// changed.
    fn settle<S: Storage>(&mut self, index: u16, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        let unit_pages = self.striping.unit_pages;
        let mut any = self.stray_units(index, cx);
        while self.windows[usize::from(index)].sent.front() == Some(&Sent::Landed) {
            let window = &mut self.windows[usize::from(index)];
            window.sent.pop_front();
            window.settled += 1;
            for _ in 0..unit_pages {
                let Some(page) = self.windows[usize::from(index)].pages.pop_front() else { break };
                if !page.is_hole {
                    cx.set.storage.release(page.slot);
                    self.uncharge(index);
                }
            }
            any = true;
        }
        any |= self.answer_waiters(index, cx);
        let window = &self.windows[usize::from(index)];
        if let Some(id) = window.zone
            && window.pages.is_empty()
            && window.waiters.is_empty()
            && !self.zone(id).state.is_active()
            && self.zone(id).waiting == 0
        {
            if matches!(self.zone(id).state, ZoneState::Full | ZoneState::ReadOnly) {
                self.record(id, cx.set);
            }
            self.free_window(index);
        }
        any
    }

    /// Hands the units of a window that cannot be in their places to the page-mapped part, as far as it has room.
    fn stray_units<S: Storage>(&mut self, index: u16, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        let unit_pages = self.striping.unit_pages;
        let mut any = false;
        if self.windows[usize::from(index)].strays == 0 {
            return false;
        }
        for at in 0..self.windows[usize::from(index)].sent.len() {
            if self.windows[usize::from(index)].sent[at] != Sent::Stray {
                continue;
            }
            let first = at as u32 * unit_pages;
            if !self.stray(index, first..first + unit_pages, cx) {
                break;
            }
            let window = &mut self.windows[usize::from(index)];
            window.sent[at] = Sent::Landed;
            window.strays -= 1;
            any = true;
        }
        any
    }

    /// Hands pages of a window, counted from its begin, to the page-mapped part; whether it took all. It knows them twice otherwise, which
    /// does no harm.
    fn stray<S: Storage>(
        &mut self,
        index: u16,
        pages: std::ops::Range<u32>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> bool {
        let window = &self.windows[usize::from(index)];
        let Some(id) = window.zone else { return true };
        let Some(layout) = self.table(id.volume).map(|table| table.layout) else { return true };
        let first = window.first_page(self.striping.unit_pages);
        let mut all = true;
        for i in pages.start..pages.end.min(window.ordered()) {
            let Some(page) = cx.set.volumes.get(id.volume).map(|v| logical(v, &layout, id.zone, first + i))
            else {
                break;
            };
            let slot = window.pages[i as usize].slot;
            all = cx.shared.store_stray(page, slot, cx.set);
            if !all {
                break;
            }
        }
        self.zone_mut(id).strays = true;
        cx.shared.pump(cx.now, cx.set);
        all
    }

    /// Answers the commands whose pages are on flash. Where nothing else of a window is under way, the rest is stored elsewhere for them.
    fn answer_waiters<S: Storage>(&mut self, index: u16, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        let unit_pages = self.striping.unit_pages;
        let mut any = false;
        loop {
            let window = &self.windows[usize::from(index)];
            let Some(&(io, mark)) = window.waiters.front() else { return any };
            if mark > window.first_page(unit_pages) {
                let only_tail = window.sent.is_empty() && window.ordered() < unit_pages;
                if !only_tail || self.has_unit(index) || !self.stray_tail(index, cx) {
                    return any;
                }
            }
            self.windows[usize::from(index)].waiters.pop_front();
            any = true;
            self.answer(io, cx);
        }
    }

    /// Stores the pages of a window that are less than a unit in the page-mapped part; whether it took all.
    fn stray_tail<S: Storage>(&mut self, index: u16, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        let window = &self.windows[usize::from(index)];
        let Some(id) = window.zone else { return true };
        // Pages that are there already stay.
        let from = window.strayed.saturating_sub(window.first_page(self.striping.unit_pages));
        let pages = from..window.ordered();
        if !self.stray(index, pages, cx) {
            return false;
        }
        self.windows[usize::from(index)].strayed = self.zone(id).admitted;
        true
    }

    /// A window has nothing left that a command waits for. What went elsewhere is brought to flash, too.
    pub(super) fn answer<S: Storage>(&mut self, io: Io, cx: &mut ZoneContext<'_, '_, S>) {
        if let Some(i) = self.flushes.iter().position(|flush| flush.0 == io) {
            self.flushes[i].1 -= 1;
            if self.flushes[i].1 > 0 {
                return;
            }
            self.flushes.swap_remove(i);
        }
        match cx.shared.drain(cx.now, io, cx.set) {
            Answer::At(at) => cx.set.done.push(CompletedIo { io, at, result: Ok(()) }),
            Answer::Failed(fault) => cx.set.done.push(CompletedIo { io, at: cx.now, result: Err(fault) }),
            Answer::Later => {}
        }
    }

    /// Brings everything that was accepted before to flash. What waits for room counts as not accepted.
    pub fn flush<S: Storage>(&mut self, io: Io, cx: &mut ZoneContext<'_, '_, S>) -> Answer {
        let windows: Vec<ZoneId> =
            self.windows.iter().filter(|w| !w.pages.is_empty()).filter_map(|w| w.zone).collect();
        if windows.is_empty() {
            return cx.shared.drain(cx.now, io, cx.set);
        }
        self.flushes.push((io, windows.len() as u32));
        for id in windows {
            self.wait(id, io);
        }
        self.pump(cx);
        Answer::Later
    }
}
