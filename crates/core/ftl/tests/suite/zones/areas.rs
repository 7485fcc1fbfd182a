//! What hosts do with Zone Random Write Areas, and what must be in them then.

use super::{InFlight, Run, SET, pick};
use ftl::{
    Answer, Fault, Io, PAGE, ZoneAction, ZoneEvent, ZoneFault, ZoneInfo, ZoneLayout, ZoneState, ZoneTarget,
};

impl Run {
    /// Where the write pointer of a zone goes if it is written, in bytes of the zone; `None` if it cannot be written there.
    pub(super) fn pointer_after(&self, zone: usize, at: u64, bytes: u64) -> Option<u64> {
        let info = self.info(zone);
        let page = u64::from(PAGE);
        let pointer = self.zones[zone].pointer();
        let Some(area) = self.zones[zone].area.as_ref().filter(|_| info.zrwa) else {
            return (at == pointer).then_some(pointer + bytes);
        };
        let zrwa = self.layout.zrwa.unwrap();
        let (pointer, size) = (u64::from(area.pointer) * page, u64::from(zrwa.pages) * page);
        if at < pointer || at + bytes > pointer + 2 * size {
            return None;
        }
        let mut next = pointer;
        while at + bytes > next + size {
            next += u64::from(zrwa.granularity) * page;
        }
        Some(next)
    }

    /// The state of a zone whose write pointer moves there.
    pub(super) fn expected_state(&self, zone: usize, pointer: u64) -> Result<ZoneState, ZoneFault> {
        let states = self.states();
        let ZoneLayout { capacity, max_active, max_open, .. } = self.layout;
        let active = states.iter().filter(|s| s.is_active()).count() as u32;
        let open = states.iter().filter(|s| s.is_open()).count() as u32;
        if !states[zone].is_active() && active == max_active {
            return Err(ZoneFault::TooManyActive);
        }
        if !states[zone].is_open() && open == max_open && !states.contains(&ZoneState::ImplicitlyOpened) {
            return Err(ZoneFault::TooManyOpen);
        }
        states[zone].after(if pointer == capacity { ZoneEvent::Fill } else { ZoneEvent::Write })
    }

    /// Gives an empty zone an area.
    pub(super) fn open_with_area(&mut self) {
        let empty: Vec<usize> =
            (0..self.zones.len()).filter(|&zone| self.info(zone).state == ZoneState::Empty).collect();
        if self.layout.zrwa.is_some() && !empty.is_empty() {
            let zone = pick(&mut self.rng, &empty);
            self.manage_as(zone, false, ZoneAction::OpenWithZrwa);
        }
    }

    /// Whether a zone may be opened with a Zone Random Write Area.
    pub(super) fn may_have_area(&self, zone: usize) -> Result<(), ZoneFault> {
        let infos: Vec<ZoneInfo> = (0..self.zones.len()).map(|zone| self.info(zone)).collect();
        let areas = infos.iter().filter(|info| info.zrwa).count() as u32;
        match &infos[zone] {
            info if info.zrwa => Ok(()),
            info if info.state != ZoneState::Empty => Err(ZoneFault::InvalidOperation),
            _ if areas >= self.layout.zrwa.unwrap().max => Err(ZoneFault::NoZrwa),
            _ => Ok(()),
        }
    }

    /// Moves the write pointer of a zone with an area.
    pub(super) fn commit(&mut self) {
        let zone = self.rng.below(self.zones.len() as u64) as usize;
        let (Some(zrwa), info) = (self.layout.zrwa, self.info(zone)) else { return };
        let (capacity, pages) = (self.layout.capacity / u64::from(PAGE), u64::from(zrwa.pages));
        let granularity = u64::from(zrwa.granularity);
        let pointer = self.zones[zone].area.as_ref().map_or(0, |area| u64::from(area.pointer));
        let to = match self.rng.below(10) {
            0 => self.rng.below(capacity + 2),
            _ => pointer + granularity * (1 + self.rng.below(pages / granularity)),
        };
        let possible = info.zrwa
            && to > pointer
            && to <= capacity.min(pointer + pages)
            && (to - pointer).is_multiple_of(granularity);
        let expected = match possible {
            true => self.expected_state(zone, to * u64::from(PAGE)),
            false => Err(ZoneFault::InvalidOperation),
        };
        let (io, target) = (self.io(), ZoneTarget::One(zone as u32));
        let action = ZoneAction::Commit(to * u64::from(PAGE));
        let answer = self.ftl.manage_zones(self.now, Io(io), self.volume, target, action, &mut self.store);
        match (expected, answer) {
            (_, Answer::Failed(_)) if self.is_read_only() => self.worn_out = true,
            // The zone may have worn out just now.
            (_, Answer::Failed(Fault::Zone(_))) if self.info(zone).state == ZoneState::ReadOnly => {}
            (Err(expected), Answer::Failed(Fault::Zone(fault))) => {
                assert_eq!(expected, fault, "seed {}: {info:?}", self.seed)
            }
            (Ok(state), Answer::At(_) | Answer::Later) => {
                let is = self.info(zone).state;
                assert!(
                    is == state || is == ZoneState::ReadOnly,
                    "seed {}: {is:?}, not {state:?}",
                    self.seed
                );
                let (ended, resets) = (self.zones[zone].ended, self.zones[zone].resets);
                let pointer = to as u32;
                self.area_pages[2] += 1;
                self.zones[zone].area.as_mut().unwrap().pointer = pointer;
                let what = InFlight::Area { zone, first: 0, count: 0, pointer, ended, resets };
                self.in_flight.insert(io, what);
                if matches!(answer, Answer::At(_)) {
                    self.ended(io);
                }
            }
            (expected, answer) => panic!("seed {}: {expected:?} expected, {answer:?}", self.seed),
        }
    }

    /// What was acknowledged is in the area if the capacitors did their work. Else there is the begin of what the write pointer had passed.
    pub(super) fn check_area_after_cut(&mut self, zone: usize, before: &ZoneInfo, kept: bool, found: &[u32]) {
        let (info, seed, may_be_worn) = (self.info(zone), self.seed, self.may_be_worn(zone));
        let page = u64::from(PAGE);
        let model = &mut self.zones[zone];
        let area = model.area.as_mut().unwrap();
        let values: Vec<u32> = found.chunks(8).map(|page| page[0]).collect();
        for (i, page) in found.chunks(8).enumerate() {
            let value = page[0];
            let lost = !kept
                && value == 0
                && (i as u64 * u64::from(PAGE) >= info.written || !info.state.is_active());
            assert!(
                page == [value; 8] && (area.may_hold(i, value) || lost),
                "seed {seed}: page {i} of zone {zone} holds {page:?}, not {:?}; {before:?} became {info:?}",
                area.pages.get(i)
            );
        }
        let holds = info.written > 0 || values.iter().any(|&value| value != 0);
        let filled = info.written == self.layout.capacity;
        let expected = match before.state {
            ZoneState::Offline | ZoneState::ReadOnly => before.state,
            ZoneState::Full if before.written < self.layout.capacity => ZoneState::Full,
            _ if info.state == ZoneState::Full && !kept => ZoneState::Full,
            _ if filled => ZoneState::Full,
            _ if holds => ZoneState::Closed,
            _ => ZoneState::Empty,
        };
        let worn_out = self.ftl.set_info(SET).unwrap().read_only;
        self.worn_out |= worn_out;
        let worn = worn_out || may_be_worn;
        let expected = if worn { expected.after(ZoneEvent::WearOut).unwrap_or(expected) } else { expected };
        assert_eq!(info.state, expected, "seed {seed}: zone {zone} was {before:?}, is {info:?}");
        // One that was filled and lost its end has none any more.
        let may_have_area = before.zrwa && info.state == ZoneState::Closed;
        assert_eq!(info.zrwa, may_have_area, "seed {seed}: zone {zone} was {before:?}, is {info:?}");
        if info.state == ZoneState::Closed {
            let least = if kept { area.acknowledged } else { 0 };
            let possible = u64::from(least) * page..=u64::from(area.pointer) * page;
            assert!(possible.contains(&info.written), "seed {seed}: zone {zone}: {possible:?}, {info:?}");
            area.pointer = (info.written / page) as u32;
            area.acknowledged = area.pointer;
        }
        area.pages = values.into_iter().map(|value| vec![value]).collect();
        model.ended += 1;
        if info.state == ZoneState::Empty {
            model.area = None;
        }
    }
}
