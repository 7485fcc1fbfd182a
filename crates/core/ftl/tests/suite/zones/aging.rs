//! What time does to zones: the set recommends to finish or reset them, and finishes them by itself.

use super::Run;
use ftl::{ZoneAction, ZoneAging, ZoneInfo, ZoneState};
use media::{Nanos, Rng};

/// What ages differently.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Kind {
    /// Empty, or of no use: it does not age.
    #[default]
    Ageless,
    Active,
    Full,
}

/// How old a zone is, and what a report must say of that.
#[derive(Clone, Copy, Default, Debug)]
pub struct Age {
    kind: Kind,
    since: Nanos,
    finish_recommended: bool,
    reset_recommended: bool,
    finished_by_set: bool,
}

/// How often each happened.
#[derive(Clone, Copy, Default, Debug)]
pub struct Aged {
    pub finish_recommended: u32,
    pub excursions: u32,
    pub reset_recommended: u32,
}

/// What a poll must change: zones, and those of them that the set finishes.
pub struct Due {
    changed: Vec<usize>,
    finished: Vec<usize>,
}

fn kind(state: ZoneState) -> Kind {
    match state {
        ZoneState::Full => Kind::Full,
        state if state.is_active() => Kind::Active,
        _ => Kind::Ageless,
    }
}

/// Times that are short beside a day, and long beside an erase.
pub fn random_aging(rng: &mut Rng) -> ZoneAging {
    if rng.below(3) == 0 {
        return ZoneAging::default();
    }
    let mut some = |of: &[u64]| super::pick(rng, of);
    let finish_after = some(&[0, 3_000_000, 40_000_000]);
    let grace = some(&[0, 1_000_000, 30_000_000]);
    ZoneAging {
        finish_after: Nanos(finish_after),
        excursion_after: Nanos(some(&[0, finish_after + grace, finish_after + grace])),
        reset_after: Nanos(some(&[0, 5_000_000, 60_000_000])),
        reset_limit: Nanos(0),
    }
}

impl Age {
    /// Whether so much time has passed.
    fn is(&self, after: Nanos, now: Nanos) -> bool {
        after.0 > 0 && now.0 - self.since.0 >= after.0
    }

    /// A zone is of another kind.
    fn begin(&mut self, kind: Kind, now: Nanos) {
        let finished_by_set = self.finished_by_set && kind == Kind::Full;
        *self = Age { kind, since: now, finished_by_set, ..Age::default() };
    }
}

impl Run {
    /// When time changes a zone next.
    pub(super) fn next_age(&self) -> Nanos {
        let aging = &self.aging;
        let next = |age: &Age| match age.kind {
            Kind::Ageless => None,
            Kind::Full => Some(aging.reset_after).filter(|_| !age.reset_recommended),
            Kind::Active if aging.finish_after.0 > 0 && !age.finish_recommended => Some(aging.finish_after),
            Kind::Active => Some(aging.excursion_after),
        };
        let at = |age: &Age| Some(age.since.0 + next(age).filter(|after| after.0 > 0)?.0);
        self.ages.iter().filter_map(at).min().map_or(Nanos::MAX, Nanos)
    }

    /// Lets the model's zones age until now.
    pub(super) fn age(&mut self) -> Due {
        let (aging, now) = (self.aging, self.now);
        let (mut changed, mut finished) = (Vec::new(), Vec::new());
        for (zone, age) in self.ages.iter_mut().enumerate() {
            let before = (age.finish_recommended, age.reset_recommended);
            match age.kind {
                Kind::Ageless => {}
                Kind::Active => {
                    age.finish_recommended = age.is(aging.finish_after, now);
                    self.aged.finish_recommended += u32::from(age.finish_recommended && !before.0);
                    if age.is(aging.excursion_after, now) {
                        age.begin(Kind::Full, now);
                        age.finished_by_set = true;
                        finished.push(zone);
                        self.aged.excursions += 1;
                    }
                }
                Kind::Full => {
                    age.reset_recommended = age.is(aging.reset_after, now);
                    self.aged.reset_recommended += u32::from(age.reset_recommended && !before.1);
                }
            }
            if before != (age.finish_recommended, age.reset_recommended) || finished.last() == Some(&zone) {
                changed.push(zone);
            }
        }
        Due { changed, finished }
    }

    /// The set was polled: what was due has happened, and nothing else.
    pub(super) fn check_due(&mut self, due: &Due) {
        let mut changed = self.ftl.changed_zones(super::SET);
        let worn_out = self.is_read_only();
        self.worn_out |= worn_out;
        for &zone in &due.finished {
            assert!(
                worn_out || matches!(self.info(zone).state, ZoneState::Full | ZoneState::ReadOnly),
                "seed {}: zone {zone} should be full: {:?}",
                self.seed,
                self.info(zone)
            );
            let age = self.ages[zone];
            self.managed(zone, ZoneAction::Finish);
            self.ages[zone] = age;
        }
        changed.sort_unstable();
        changed.dedup();
        let changed: Vec<usize> = changed.iter().map(|&(_, zone)| zone as usize).collect();
        let is_worn =
            |zone: &usize| matches!(self.info(*zone).state, ZoneState::ReadOnly | ZoneState::Offline);
        let (worn, changed): (Vec<usize>, Vec<usize>) = changed.into_iter().partition(is_worn);
        let aged: Vec<usize> = due.changed.iter().copied().filter(|zone| !is_worn(zone)).collect();
        assert!(worn_out || changed == aged, "seed {}: {changed:?}, not {aged:?}", self.seed);
        for zone in worn {
            self.worn(zone);
        }
    }

    /// A command may have made zones active, full, or neither. Their ages begin then, and never else.
    pub(super) fn check_ages(&mut self) {
        if self.worn_out {
            return;
        }
        for zone in 0..self.zones.len() {
            let info = self.info(zone);
            let age = &mut self.ages[zone];
            if kind(info.state) != age.kind {
                age.begin(kind(info.state), self.now);
            }
            let told = (info.finish_recommended, info.reset_recommended, info.finished_by_set);
            let right = (age.finish_recommended, age.reset_recommended, age.finished_by_set);
            assert_eq!(told, right, "seed {}: zone {zone} at {:?}: {age:?}, {info:?}", self.seed, self.now);
        }
    }

    /// A full zone is finished once more, because writes that would have filled it were given up: it is full from now on.
    pub(super) fn full_anew(&mut self, zone: usize) {
        if self.ages[zone].kind == Kind::Full {
            self.ages[zone].begin(Kind::Full, self.now);
            self.ages[zone].finished_by_set = false;
        }
    }

    /// A zone can only be read from now on, because a program failed: writes that waited for it fail.
    fn worn(&mut self, zone: usize) {
        self.worn_zones += 1;
        if self.info(zone).state == ZoneState::Offline {
            // The host has taken it offline meanwhile.
            return;
        }
        let written = (self.info(zone).written / u64::from(super::SECTOR)) as usize;
        let model = &mut self.zones[zone];
        model.ended += 1;
        model.sectors.truncate(written);
        assert!(
            model.area.is_some() || written >= model.acknowledged,
            "seed {}: {written}, {model:?}",
            self.seed
        );
        if let Some(area) = &mut model.area {
            area.pointer = (written / 8) as u32;
        }
    }

    /// Power is back, or the program: all ages begin anew. That the set finished a zone is told of as long as it is full.
    pub(super) fn begin_ages(&mut self, before: &[ZoneInfo]) {
        for (zone, before) in before.iter().enumerate() {
            let info = self.info(zone);
            let finished_by_set = before.finished_by_set && info.state == ZoneState::Full;
            self.ages[zone] =
                Age { kind: kind(info.state), since: self.now, finished_by_set, ..Age::default() };
        }
        self.ftl.changed_zones(super::SET);
    }

    /// Nobody asks for anything for some time.
    pub(super) fn rest(&mut self) {
        let ZoneAging { finish_after, excursion_after, reset_after, .. } = self.aging;
        let longest = finish_after.max(excursion_after).max(reset_after);
        let until = Nanos(self.now.0 + self.rng.below(longest.0 + 1));
        while let Some(at) = self.ftl.next_event().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.poll();
        }
        self.now = until;
        self.poll();
    }
}
