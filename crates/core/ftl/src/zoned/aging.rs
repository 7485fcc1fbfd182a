//! What time does to zones: recommendations to finish or reset them, and excursions, which finish them.

use super::zone::{Zone, ZoneId};
use super::{ZoneContext, Zones};
use crate::answer::Fault;
use crate::config::ZoneAging;
use crate::context::{Event, SetContext};
use crate::storage::Storage;
use crate::volume::VolumeId;
use crate::zone::{ZoneFault, ZoneState};
use media::Nanos;

/// What time does next to a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Age {
    RecommendFinish,
    Finish,
    RecommendReset,
}

impl Zone {
    /// What time does next to a zone, and when.
    fn next_step(&self, aging: &ZoneAging) -> Option<(Age, Nanos)> {
        let at =
            |after: Nanos, age| (after.0 > 0).then(|| (age, Nanos(self.since.0.saturating_add(after.0))));
        match self.state {
            ZoneState::Full if self.reset_recommended => None,
            ZoneState::Full => at(aging.reset_after, Age::RecommendReset),
            state if !state.is_active() => None,
            _ if !self.finish_recommended && aging.finish_after.0 > 0 => {
                at(aging.finish_after, Age::RecommendFinish)
            }
            _ => at(aging.excursion_after, Age::Finish),
        }
    }

    /// When time changes the zone; never if [`Nanos::MAX`].
    pub(super) fn next_age(&self, aging: &ZoneAging) -> Nanos {
        self.next_step(aging).map_or(Nanos::MAX, |(_, at)| at)
    }
}

impl Zones {
    /// Sets the time at which states of a volume's zones change.
    #[inline]
    pub(super) fn tell_time(&mut self, now: Nanos, volume: VolumeId) {
        if self.ages
            && let Some(table) = self.table_mut(volume)
        {
            table.now = now;
        }
    }

    /// Makes sure that zones are looked at when the next one comes of age.
    #[inline]
    pub(super) fn await_age<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) {
        if self.ages {
            let next = self.tables.iter().flatten().map(|table| table.next_age).min().unwrap_or(Nanos::MAX);
            if next < self.look_at {
                self.look_at = next;
                cx.set.events.push(next, (cx.shared.flash().id(), Event::ZonesAged));
            }
        }
    }

    /// Power is back: all zones begin their ages, and nothing is recommended. A program that ends and starts again forgets both, too.
    pub(super) fn begin_ages<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) {
        for zone in self.tables.iter_mut().flatten().flat_map(|table| &mut table.zones) {
            zone.finished_by_set &= zone.state == ZoneState::Full;
        }
        if !self.ages {
            return;
        }
        self.look_at = Nanos::MAX;
        for table in self.tables.iter_mut().flatten() {
            table.now = cx.now;
            for zone in &mut table.zones {
                (zone.since, zone.finish_recommended, zone.reset_recommended) = (cx.now, false, false);
            }
            let aging = table.aging;
            table.next_age = table.zones.iter().map(|zone| zone.next_age(&aging)).min().unwrap_or(Nanos::MAX);
        }
        self.await_age(cx);
    }

    /// Does what time asks for.
    pub fn aged<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) {
        // An earlier look may have been asked for meanwhile, and have had this one's work.
        if cx.now < self.look_at {
            return;
        }
        let aging = self.config.aging;
        self.look_at = Nanos::MAX;
        for id in self.ids().collect::<Vec<_>>() {
            self.tell_time(cx.now, id.volume);
            while let Some((age, at)) = self.zone(id).next_step(&aging)
                && at <= cx.now
            {
                self.age(cx.now, id, age, cx.set);
                self.changed.push((id.volume, id.zone));
            }
        }
        for table in self.tables.iter_mut().flatten() {
            table.next_age = table.zones.iter().map(|zone| zone.next_age(&aging)).min().unwrap_or(Nanos::MAX);
        }
        self.await_age(cx);
        self.pump(cx);
    }

    fn age<S: Storage>(&mut self, now: Nanos, id: ZoneId, age: Age, cx: &mut SetContext<'_, S>) {
        match age {
            Age::RecommendFinish => self.zone_mut(id).finish_recommended = true,
            Age::RecommendReset => self.zone_mut(id).reset_recommended = true,
            Age::Finish => {
                self.fail_waiting(now, id, Fault::Zone(ZoneFault::Full), cx);
                self.end_area(id, cx);
                self.zone_mut(id).finished_by_set = true;
                self.become_full(id, cx);
            }
        }
    }

    /// Whether time or wear has changed zones, and nobody has asked which.
    #[inline]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The zones that time or wear changed since this was asked last.
    pub fn changed(&mut self) -> Vec<(VolumeId, u32)> {
        std::mem::take(&mut self.changed)
    }
}
