//! What hosts do with zones besides writing them.

use super::striping::Plot;
use super::zone::{Sent, Zone, ZoneId};
use super::{Erasing, Finishing, ORPHAN, ZoneContext, Zones};
use crate::answer::{Answer, CompletedIo, Fault};
use crate::context::SetContext;
use crate::page_mapped::{STALE, has_contents};
use crate::storage::{Io, Record, Storage};
use crate::volume::VolumeId;
use crate::zone::{MAX_ZONE_EXTENSION, ZoneAction, ZoneEvent, ZoneFault, ZoneState, ZoneTarget};
use crate::zoned_set::ZoneCommand;
use media::{Nanos, Slot, Unit};

impl ZoneAction<'_> {
    /// Whether it concerns a zone of this state where it is asked of all.
    pub fn concerns(self, state: ZoneState) -> bool {
        match self {
            ZoneAction::Open | ZoneAction::OpenWithZrwa => state == ZoneState::Closed,
            ZoneAction::Close => state.is_open(),
            ZoneAction::Finish => state.is_active(),
            ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
            ZoneAction::TakeOffline => state == ZoneState::ReadOnly,
            ZoneAction::Extend(_) | ZoneAction::Commit(_) => false,
        }
    }

    fn event(self) -> ZoneEvent {
        match self {
            ZoneAction::Open | ZoneAction::OpenWithZrwa => ZoneEvent::Open,
            ZoneAction::Commit(_) => ZoneEvent::Write,
            ZoneAction::Close => ZoneEvent::Close,
            ZoneAction::Finish => ZoneEvent::Fill,
            ZoneAction::Reset => ZoneEvent::Reset,
            ZoneAction::TakeOffline => ZoneEvent::TakeOffline,
            ZoneAction::Extend(_) => ZoneEvent::Extend,
        }
    }
}

impl Zones {
    /// Does what a host asks of a zone, or of all that it can concern. A reset is done when the blocks are erased. A finish is done when what
    /// the windows hold is on flash, and the record of the zones is written: one for all of them.
    pub fn manage<S: Storage>(
        &mut self,
        command: ZoneCommand<'_>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) -> Answer {
        let ZoneCommand { io, volume, target, action } = command;
        if let ZoneAction::Commit(end) = action {
            return self.commit_to(io, volume, target, end, cx);
        }
        let chosen = match self.chosen(volume, target, action) {
            Ok(chosen) => chosen,
            Err(fault) => return Answer::Failed(fault),
        };
        self.tell_time(cx.now, volume);
        // One that is full is finished already.
        let is_finished = |(id, _): &(ZoneId, ZoneState)| self.zone(*id).state != ZoneState::Full;
        let finishes = action == ZoneAction::Finish && chosen.iter().any(is_finished);
        let ids: Vec<ZoneId> = chosen.iter().map(|(id, _)| *id).collect();
        for (id, state) in chosen {
            self.change(io, id, state, action, cx);
        }
        if action == ZoneAction::TakeOffline {
            self.tell_spared(cx);
        }
        self.await_age(cx);
        let mut later = self.awaits_erase(io);
        if finishes {
            let zones: Vec<ZoneId> = ids.into_iter().filter(|id| self.zone(*id).window.is_some()).collect();
            later = !zones.is_empty();
            if later {
                self.finishing.push(Finishing { io, zones });
            }
        }
        self.pump(cx);
        match later {
            true => Answer::Later,
            false => Answer::At(cx.now + if finishes { self.config.finish } else { Nanos::ZERO }),
        }
    }

    /// Whether the answer to a command waits for the erase of blocks.
    pub fn awaits_erase(&self, io: Io) -> bool {
        self.erasing.iter().any(|erasing| erasing.io == Some(io))
    }

    /// Answers the commands that finish zones of which everything is on flash. One that was given up, or can only be read, is not waited for.
    pub(super) fn end_finishes<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        if self.finishing.is_empty() {
            return;
        }
        let mut finishing = std::mem::take(&mut self.finishing);
        let waits = |id: &ZoneId| {
            let zone = self.table(id.volume).and_then(|table| table.zones.get(id.zone as usize));
            zone.is_some_and(|zone| zone.window.is_some() && zone.state == ZoneState::Full)
        };
        finishing.retain_mut(|command| {
            command.zones.retain(waits);
            if command.zones.is_empty() {
                let at = now + self.config.finish;
                cx.done.push(CompletedIo { io: command.io, at, result: Ok(()) });
            }
            !command.zones.is_empty()
        });
        self.finishing = finishing;
    }

    /// The zones that an action changes, and the states that they get: all, or the first that cannot says why.
    fn chosen(
        &self,
        volume: VolumeId,
        target: ZoneTarget,
        action: ZoneAction<'_>,
    ) -> Result<Vec<(ZoneId, ZoneState)>, Fault> {
        if matches!(action, ZoneAction::Extend(bytes) if bytes.len() > MAX_ZONE_EXTENSION) {
            return Err(Fault::OutOfRange);
        }
        let table = self.table(volume).ok_or(Fault::OutOfRange)?;
        let numbers = match target {
            ZoneTarget::One(zone) if zone < table.layout.zones => zone..zone + 1,
            ZoneTarget::One(_) => return Err(Fault::OutOfRange),
            ZoneTarget::All => 0..table.layout.zones,
            ZoneTarget::Range { first, count } => {
                let end = first.saturating_add(count).min(table.layout.zones);
                first.min(end)..end
            }
        };
        let (mut chosen, mut open, mut active) = (Vec::new(), table.open, table.active);
        for number in numbers {
            let Zone { state, .. } = table.zones[number as usize];
            if !matches!(target, ZoneTarget::One(_)) && !action.concerns(state) {
                continue;
            }
            let next = state.after(action.event()).map_err(Fault::Zone)?;
            if action == ZoneAction::OpenWithZrwa {
                self.check_area(volume, number).map_err(Fault::Zone)?;
            }
            open = open + u32::from(next.is_open()) - u32::from(state.is_open());
            active = active + u32::from(next.is_active()) - u32::from(state.is_active());
            chosen.push((ZoneId { volume, zone: number }, next));
        }
        // Zones that writes opened are closed for those that the host opens.
        let implicit = (0..).zip(&table.zones).filter(|(zone, z)| {
            z.state == ZoneState::ImplicitlyOpened && !chosen.iter().any(|(id, _)| id.zone == *zone)
        });
        if active > table.layout.max_active {
            return Err(Fault::Zone(ZoneFault::TooManyActive));
        }
        if open > table.layout.max_open + implicit.count() as u32 {
            return Err(Fault::Zone(ZoneFault::TooManyOpen));
        }
        Ok(chosen)
    }

    fn change<S: Storage>(
        &mut self,
        io: Io,
        id: ZoneId,
        state: ZoneState,
        action: ZoneAction<'_>,
        cx: &mut ZoneContext<'_, '_, S>,
    ) {
        match action {
            ZoneAction::Open | ZoneAction::OpenWithZrwa => self.make_room_for_open(id),
            ZoneAction::Close | ZoneAction::Commit(_) => {}
            ZoneAction::Finish => {
                self.fail_waiting(cx.now, id, Fault::Zone(ZoneFault::Full), cx.set);
                self.end_area(id, cx.set);
            }
            ZoneAction::Reset | ZoneAction::TakeOffline => self.empty(Some(io), id, cx),
            ZoneAction::Extend(bytes) => self.zone_mut(id).extension = bytes.into(),
        }
        self.enter(id, state);
        if let Some(table) = self.table_mut(id.volume).filter(|_| action == ZoneAction::OpenWithZrwa) {
            table.set_zrwa(id.zone, true);
        }
        if !matches!(action, ZoneAction::Open | ZoneAction::Close) {
            // An area is recorded, because its zone may hold something that no write pointer tells of.
            self.record(id, cx.set);
        }
    }

    /// A zone gets a state. The rest of one that was finished is sent, and an empty window goes.
    fn enter(&mut self, id: ZoneId, state: ZoneState) {
        if let Some(table) = self.table_mut(id.volume) {
            table.set_state(id.zone, state);
        }
        if let Some(window) = self.zone(id).window {
            self.make_ready(window);
            if self.windows[usize::from(window)].pages.is_empty() && !state.is_active() {
                self.free_window(window);
            }
        }
    }

    /// The set finishes a zone by itself.
    pub(super) fn become_full<S: Storage>(&mut self, id: ZoneId, cx: &mut SetContext<'_, S>) {
        self.enter(id, ZoneState::Full);
        self.record(id, cx);
    }

    /// Closes the zone that a write opened longest ago, if another one can be opened only then.
    fn make_room_for_open(&mut self, id: ZoneId) {
        let Some(table) = self.table_mut(id.volume) else { return };
        if !table.zones[id.zone as usize].state.is_open()
            && table.open >= table.layout.max_open
            && let Some(closed) = table.closable()
        {
            table.set_state(closed, ZoneState::Closed);
        }
    }

    /// Gives up what a zone holds: its contents, its window, its plot.
    pub(super) fn empty<S: Storage>(&mut self, io: Option<Io>, id: ZoneId, cx: &mut ZoneContext<'_, '_, S>) {
        self.fail_waiting(cx.now, id, Fault::Zone(ZoneFault::InvalidWrite), cx.set);
        let mut programs = 0;
        // What is in an area was recorded, too.
        let end =
            self.zone(id).admitted + self.zone(id).window.map_or(0, |w| self.windows[usize::from(w)].loose);
        if let Some(index) = self.zone(id).window {
            programs = self.abandon_window(index, cx);
        }
        self.forget_pages(id, end, cx);
        self.drop_area(id);
        let zone = self.zone_mut(id);
        (zone.accepted, zone.admitted, zone.strays) = (0, 0, false);
        zone.extension = Box::default();
        zone.finished_by_set = false;
        let Some(plot) = self.zone_mut(id).plot.take() else { return };
        if self.durable {
            for unit in 0..self.striping.units {
                self.drop_unit(self.striping.unit(plot, unit).0, cx);
            }
        }
        self.erasing.push(Erasing { io, plot, programs });
        if programs == 0 && self.erase(plot, cx) {
            self.erasing.retain(|erasing| erasing.plot != plot);
        }
    }

    /// Empties the window of a zone that is given up. Its programs end without it; returns how many there are.
    fn abandon_window<S: Storage>(&mut self, index: u16, cx: &mut ZoneContext<'_, '_, S>) -> u32 {
        let window = &mut self.windows[usize::from(index)];
        let programs = window.sent.iter().filter(|&&sent| sent == Sent::Programming).count() as u32;
        for page in window.pages.drain(..) {
            cx.set.storage.release(page.slot);
        }
        let waiters = std::mem::take(&mut window.waiters);
        for op in self.ops.iter_mut().filter(|op| op.window == index) {
            op.window = ORPHAN;
        }
        self.free_window(index);
        // What a flush waited for is gone.
        for (io, _) in waiters {
            self.answer(io, cx);
        }
        programs
    }

    /// The first pages of a zone are given up: those that are stored elsewhere, and what the journal knows of the window.
    fn forget_pages<S: Storage>(&mut self, id: ZoneId, pages: u32, cx: &mut ZoneContext<'_, '_, S>) {
        let Some(layout) = self.table(id.volume).map(|table| table.layout) else { return };
        let Some(volume) = cx.set.volumes.get(id.volume) else { return };
        let (set, granules) = (volume.set.0, layout.granules_of_zone());
        let first_granule = (id.zone * granules) as usize;
        let runs: Vec<u32> = volume.granules[first_granule..first_granule + granules as usize].to_vec();
        for (i, granule) in (0..).zip(runs) {
            let begin = i * crate::config::GRANULE_PAGES;
            let count = pages.saturating_sub(begin).min(crate::config::GRANULE_PAGES);
            if count == 0 {
                break;
            }
            let first = granule * crate::config::GRANULE_PAGES;
            if self.zone(id).strays {
                cx.shared.drop_strays(cx.now, first, count, cx.set);
            }
            if self.durable {
                *cx.set.version += 1;
                let version = *cx.set.version;
                cx.shared.note_given_up(first, count);
                cx.set.storage.record(Record::Trim { set, first, count, version, gone: true });
            }
        }
    }

    /// What a unit of flash holds refers to no contents any more.
    pub(super) fn drop_unit<S: Storage>(&self, unit: Unit, cx: &mut ZoneContext<'_, '_, S>) {
        let flash = cx.shared.flash_mut();
        let first = unit.0 * self.striping.unit_pages;
        for page in first..first + flash.programmed(unit) {
            let slot = flash.replace_slot(page, STALE);
            if has_contents(slot) && slot != Slot::NONE {
                cx.set.storage.release(slot);
            }
        }
    }

    /// A program of a plot that was given up has ended.
    pub(super) fn orphan_landed<S: Storage>(&mut self, unit: Unit, cx: &mut ZoneContext<'_, '_, S>) {
        let plot = self.striping.plot_of(unit);
        let Some(erasing) = self.erasing.iter_mut().find(|e| e.plot == plot && e.programs > 0) else {
            return;
        };
        erasing.programs -= 1;
        if erasing.programs == 0 && self.erase(plot, cx) {
            self.plot_is_clean(cx.now, plot, cx.set);
        }
    }

    /// Erases the written blocks of a plot; whether there are none.
    pub(super) fn erase<S: Storage>(&mut self, plot: Plot, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        let Zones { plots, striping, .. } = self;
        let blocks = plots.give_up(plot, cx.shared.flash_mut(), striping, |flash, unit| {
            flash.erase_block(cx.now, unit, cx.set.events);
        });
        blocks == 0
    }

    /// The erase of a block should have ended; whether it has.
    pub fn erased<S: Storage>(&mut self, unit: Unit, cx: &mut ZoneContext<'_, '_, S>) -> bool {
        if !cx.shared.flash_mut().block_erased(cx.now, unit, cx.set.events, cx.set.storage) {
            return false;
        }
        let plot = self.striping.plot_of(unit);
        if self.plots.erased(plot, cx.shared.flash_mut()) {
            self.plot_is_clean(cx.now, plot, cx.set);
        }
        cx.shared.check_spare(cx.now, cx.set);
        true
    }

    /// A plot is erased: who waits for nothing else is answered.
    fn plot_is_clean<S: Storage>(&mut self, now: Nanos, plot: Plot, cx: &mut SetContext<'_, S>) {
        let Some(at) = self.erasing.iter().position(|erasing| erasing.plot == plot) else { return };
        let Some(io) = self.erasing.swap_remove(at).io else { return };
        if !self.erasing.iter().any(|erasing| erasing.io == Some(io)) {
            cx.done.push(CompletedIo { io, at: now, result: Ok(()) });
        }
    }

    /// Gives up what a zone holds. Its blocks are erased for a command or for nobody. One that can only be read stays so.
    pub fn clear<S: Storage>(&mut self, io: Option<Io>, id: ZoneId, cx: &mut ZoneContext<'_, '_, S>) {
        self.empty(io, id, cx);
        if let Ok(state) = self.zone(id).state.after(ZoneEvent::Reset)
            && let Some(table) = self.table_mut(id.volume)
        {
            table.set_state(id.zone, state);
            self.record(id, cx.set);
        }
    }

    /// Gives up what all zones hold, and erases it; `io` is done when it is. Zones that can only be read stay so. Zones that were cleared
    /// before are only looked at.
    pub fn purge<S: Storage>(&mut self, io: Io, cx: &mut ZoneContext<'_, '_, S>) -> Answer {
        let holds_something = |id: &ZoneId| {
            let zone = self.zone(*id);
            zone.plot.is_some()
                || zone.window.is_some()
                || zone.admitted > 0
                || zone.state.is_active()
                || zone.state == ZoneState::Full
        };
        for id in self.ids().filter(holds_something).collect::<Vec<_>>() {
            self.clear(Some(io), id, cx);
        }
        // Those that were being erased before are waited for, too.
        match self.erasing.is_empty() {
            true => Answer::At(cx.now),
            false => {
                for erasing in self.erasing.iter_mut().filter(|erasing| erasing.io.is_none()) {
                    erasing.io = Some(io);
                }
                Answer::Later
            }
        }
    }
}
