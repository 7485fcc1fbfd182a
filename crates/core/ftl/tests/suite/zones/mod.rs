//! Zones against a model, with a page-mapped volume beside them on the same flash. Hosts write, append, read, flush and manage zones at random. Idle
//! time ages zones. Power is cut, the process is killed and its journal replayed, and programs and erases fail.
//!
//!     TRANCHE_MODEL_ROUNDS=10000 cargo test -p ftl --release --test suite zones::      (a campaign)
//!     TRANCHE_MODEL_FIRST=10000 …                                                       (its first seed)
//!     TRANCHE_MODEL_SEED=42 cargo test -p ftl --test suite zones::                     (repeats one seed)

mod aging;
mod areas;
mod config;
mod forged;
mod model;

use crate::support::{SECTOR, Store, for_seeds, pick};
use aging::{Age, Aged};
use config::random_config;
use ftl::{
    Answer, CompletedIo, Config, Extent, Fault, Ftl, Io, PAGE, SetConfig, SetId, Source, VolumeId, Write,
    ZoneAction, ZoneAging, ZoneEvent, ZoneFault, ZoneInfo, ZoneLayout, ZoneState, ZoneTarget,
};
use media::{Nanos, Rng};
use model::Model;
use std::collections::BTreeMap;

const SET: SetId = SetId(0);

#[derive(Clone, Debug)]
enum InFlight {
    Write {
        zone: usize,
        end: usize,
        ended: u32,
        resets: u32,
        durable: bool,
    },
    /// A write to an area, or a commit (of no pages).
    Area {
        zone: usize,
        first: usize,
        count: usize,
        pointer: u32,
        ended: u32,
        resets: u32,
    },
    Flush {
        promises: Vec<(usize, usize, u32)>,
    },
    Manage,
    Mapped {
        page: u64,
        value: u32,
    },
}

struct Run {
    seed: u64,
    rng: Rng,
    config: Config,
    ftl: Ftl,
    store: Store,
    now: Nanos,
    layout: ZoneLayout,
    volume: VolumeId,
    zones: Vec<Model>,
    aging: ZoneAging,
    ages: Vec<Age>,
    aged: Aged,
    /// The page-mapped volume, a value for each page.
    mapped: Option<VolumeId>,
    pages: Vec<u32>,
    in_flight: BTreeMap<u32, InFlight>,
    done: Vec<CompletedIo>,
    next: u32,
    saved: Vec<u8>,
    cuts: u32,
    /// Pages of areas that were written, that were written again, and commits of the host.
    area_pages: [u64; 3],
    worn_out: bool,
    /// Zones that can only be read, each because a program failed.
    worn_zones: u32,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let config = random_config(&mut rng);
        let mut ftl = Ftl::new(config.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut store = Store::new(60_000);
        let support = ftl.zone_support(SET).unwrap();
        let capacity = match rng.below(2) {
            0 => support.capacity,
            // Not whole units.
            _ => (support.capacity / u64::from(PAGE) * 3 / 4).max(1) * u64::from(PAGE),
        };
        let granule = support.zrwa.map_or(1, |zrwa| u64::from(zrwa.granularity)) * u64::from(PAGE);
        let capacity = (capacity / granule).max(1) * granule;
        let zrwa = support.zrwa.filter(|zrwa| u64::from(zrwa.pages) <= capacity / u64::from(PAGE));
        let granules = ftl.set_info(SET).unwrap().unallocated_bytes >> 20;
        let layout = ZoneLayout {
            zones: (2 + rng.below(6) as u32).min(granules as u32 - 1).max(1),
            size: pick(&mut rng, &[capacity, capacity.next_power_of_two(), capacity + u64::from(PAGE) * 3]),
            capacity,
            max_active: support.active,
            max_open: 1 + rng.below(support.active.into()) as u32,
            zrwa,
        };
        let volume = ftl
            .create_zoned(SET, layout, &mut store)
            .unwrap_or_else(|e| panic!("seed {seed}: {layout:?} {e}"));
        let left = ftl.set_info(SET).unwrap().unallocated_bytes;
        let mapped = (left > 0).then(|| ftl.create(SET, left, &mut store).unwrap());
        let mut saved = Vec::new();
        ftl.save(&mut saved);
        store.journal.clear();
        let aging = match &config.sets[..] {
            [SetConfig::Nand { zones, .. }] => zones.aging,
            sets => panic!("seed {seed}: {sets:?}"),
        };
        Run {
            seed,
            rng,
            config,
            ftl,
            store,
            now: Nanos::ZERO,
            layout,
            volume,
            zones: vec![Model::default(); layout.zones as usize],
            aging,
            ages: vec![Age::default(); layout.zones as usize],
            aged: Aged::default(),
            mapped,
            pages: vec![0; (left / u64::from(PAGE)) as usize],
            in_flight: BTreeMap::new(),
            done: Vec::new(),
            next: 1,
            saved,
            cuts: 0,
            area_pages: [0; 3],
            worn_out: false,
            worn_zones: 0,
        }
    }

    fn io(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn info(&self, zone: usize) -> ZoneInfo {
        self.ftl.zone(self.volume, zone as u32).unwrap()
    }

    fn is_read_only(&self) -> bool {
        self.ftl.set_info(SET).unwrap().read_only
    }

    fn states(&self) -> Vec<ZoneState> {
        (0..self.zones.len()).map(|zone| self.info(zone).state).collect()
    }

    /// What the specification says of a write, given the states before it.
    fn expected(&self, zone: usize, at: u64, bytes: u64) -> Result<ZoneState, ZoneFault> {
        let ZoneLayout { size, capacity, .. } = self.layout;
        let states = self.states();
        if at + bytes > size {
            return Err(ZoneFault::Boundary);
        }
        states[zone].after(ZoneEvent::Write)?;
        let pointer = self.pointer_after(zone, at, bytes).ok_or(ZoneFault::InvalidWrite)?;
        if at + bytes > capacity {
            return Err(ZoneFault::Boundary);
        }
        self.expected_state(zone, pointer)
    }

    fn write(&mut self) {
        // A zone that wears out at this moment leaves its place among the open and active ones to the zone of the write.
        let count =
            |is: fn(ZoneState) -> bool| self.states().into_iter().filter(|state| is(*state)).count() as u32;
        let is_full = count(ZoneState::is_active) == self.layout.max_active
            || count(ZoneState::is_open) == self.layout.max_open;
        if is_full && self.ftl.next_event().is_some_and(|at| at <= self.now) {
            self.poll();
        }
        let zone = self.rng.below(self.zones.len() as u64) as usize;
        let append = self.rng.below(3) == 0;
        let mut sectors = 8 * (1 + self.rng.below(16));
        let has_area = self.info(zone).zrwa;
        let wp = match &self.zones[zone].area {
            Some(area) if has_area => {
                let reach = 2 * self.layout.zrwa.unwrap().pages;
                8 * (u64::from(area.pointer) + self.rng.below(reach.into()))
            }
            _ => self.zones[zone].pointer() / u64::from(SECTOR),
        };
        let left = (self.layout.capacity / u64::from(SECTOR)).saturating_sub(wp);
        if self.rng.below(12) > 0 && left > 0 {
            sectors = sectors.min(left);
        }
        let at = match self.rng.below(20) {
            0 if !append => self.rng.below(self.layout.size / u64::from(PAGE)) * 8,
            _ => wp,
        } * u64::from(SECTOR);
        let bytes = sectors * u64::from(SECTOR);
        let expected = match (append, self.states()[zone].after(ZoneEvent::Write)) {
            (true, Err(fault)) => Err(fault),
            (true, _) if has_area => Err(ZoneFault::InvalidOperation),
            (true, _) if at + bytes > self.layout.capacity => Err(ZoneFault::Boundary),
            _ => self.expected(zone, at, bytes),
        };
        let (io, durable, ended) = (self.io(), self.rng.below(8) == 0, self.zones[zone].ended);
        let resets = self.zones[zone].resets;
        self.store.host_writes(Io(io), io);
        let base = zone as u64 * self.layout.size;
        let pointer = self.pointer_after(zone, at, bytes).unwrap_or(0);
        let start = match append {
            true => self.ftl.append_at(self.volume, base, bytes as u32),
            false if at >= self.layout.size || base + at + bytes > self.layout.bytes() => return,
            false => Ok(base + at),
        };
        let answer = match start {
            Ok(start) => {
                assert_eq!(start, base + at, "seed {}: {:?}", self.seed, self.info(zone));
                let extent = Extent { start, bytes: bytes as u32 };
                let write = Write::new(Io(io), self.volume, extent, Source::Host);
                self.ftl.write(self.now, Write { durable, ..write }, &mut self.store)
            }
            Err(fault) => Answer::Failed(fault),
        };
        match (expected, answer) {
            // It may have worn out just now.
            (_, Answer::Failed(_)) if self.is_read_only() => self.worn_out = true,
            // The zone may have worn out just now.
            (_, Answer::Failed(Fault::Zone(_))) if self.info(zone).state == ZoneState::ReadOnly => {}
            (Err(expected), Answer::Failed(Fault::Zone(fault))) => {
                assert_eq!(expected, fault, "seed {}", self.seed)
            }
            (_, Answer::Failed(Fault::ReadOnly)) => self.worn_out = true,
            (Ok(state), Answer::At(_) | Answer::Later) => {
                // A program may have failed meanwhile.
                let is = self.info(zone).state;
                assert!(
                    is == state || is == ZoneState::ReadOnly,
                    "seed {}: {is:?}, not {state:?}",
                    self.seed
                );
                let (first, count) = ((at / u64::from(PAGE)) as usize, (bytes / u64::from(PAGE)) as usize);
                if let Some(area) = &mut self.zones[zone].area {
                    area.pointer = (pointer / u64::from(PAGE)) as u32;
                    let again = area.pages.iter().skip(first).take(count).filter(|p| p.as_slice() != [0]);
                    self.area_pages[1] += again.count() as u64;
                    self.area_pages[0] += count as u64;
                    area.write(first, count, io);
                    let pointer = area.pointer;
                    self.in_flight.insert(io, InFlight::Area { zone, first, count, pointer, ended, resets });
                    if matches!(answer, Answer::At(_)) {
                        self.ended(io);
                    }
                    return;
                }
                self.zones[zone].sectors.extend(std::iter::repeat_n(io, sectors as usize));
                let end = self.zones[zone].sectors.len();
                self.in_flight.insert(io, InFlight::Write { zone, end, ended, resets, durable });
                if matches!(answer, Answer::At(_)) {
                    self.ended(io);
                }
            }
            (expected, answer) => panic!("seed {}: {expected:?} expected, {answer:?}", self.seed),
        }
    }

    fn ended(&mut self, io: u32) {
        match self.in_flight.remove(&io) {
            Some(InFlight::Write { zone, end, resets, durable, .. }) => {
                let model = &mut self.zones[zone];
                if model.resets == resets {
                    model.acknowledged = model.acknowledged.max(end);
                    if self.config.protected || durable {
                        model.promised = model.promised.max(end);
                    }
                }
            }
            Some(InFlight::Area { zone, first, count, pointer, resets, .. }) => {
                let model = &mut self.zones[zone];
                if let Some(area) = model.area.as_mut().filter(|_| model.resets == resets) {
                    area.acknowledge(first, count, io, pointer);
                }
            }
            Some(InFlight::Flush { promises }) => {
                for (zone, end, resets) in promises {
                    let model = &mut self.zones[zone];
                    if model.resets == resets {
                        model.promised = model.promised.max(end);
                    }
                }
            }
            Some(InFlight::Mapped { page, value }) => self.pages[page as usize] = value,
            Some(InFlight::Manage) => {}
            None => panic!("seed {}: command {io} ended twice", self.seed),
        }
    }

    fn failed(&mut self, io: u32, fault: Fault) {
        match (self.in_flight.remove(&io), fault) {
            (_, Fault::ReadOnly) => self.worn_out = true,
            (
                Some(InFlight::Write { zone, ended, .. } | InFlight::Area { zone, ended, .. }),
                Fault::Zone(_),
            ) if self.zones[zone].ended != ended => {}
            (command, fault) => panic!("seed {}: {command:?} fails: {fault}", self.seed),
        }
    }

    fn write_mapped(&mut self) {
        let Some(volume) = self.mapped else { return };
        let page = self.rng.below(self.pages.len() as u64);
        if self.in_flight.values().any(|k| matches!(k, InFlight::Mapped { page: p, .. } if *p == page)) {
            return;
        }
        let io = self.io();
        self.store.host_writes(Io(io), io);
        let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
        self.in_flight.insert(io, InFlight::Mapped { page, value: io });
        match self.ftl.write(self.now, Write::new(Io(io), volume, extent, Source::Host), &mut self.store) {
            Answer::At(_) => self.ended(io),
            Answer::Later => {}
            Answer::Failed(fault) => self.failed(io, fault),
        }
    }

    fn manage(&mut self) {
        let zone = self.rng.below(self.zones.len() as u64) as usize;
        let all = self.rng.below(6) == 0;
        let extension = [self.rng.next_u64() as u8; 8];
        let areas = self.layout.zrwa.is_some();
        let action = match self.rng.below(12) {
            0..2 if areas => ZoneAction::OpenWithZrwa,
            0..3 => ZoneAction::Open,
            3..6 => ZoneAction::Close,
            6 | 7 => ZoneAction::Finish,
            8..11 => ZoneAction::Reset,
            _ if all => ZoneAction::TakeOffline,
            _ => ZoneAction::Extend(&extension),
        };
        self.manage_as(zone, all, action);
    }

    fn manage_as(&mut self, zone: usize, all: bool, action: ZoneAction<'_>) {
        let event = match action {
            ZoneAction::Open | ZoneAction::OpenWithZrwa => ZoneEvent::Open,
            ZoneAction::Commit(_) => ZoneEvent::Write,
            ZoneAction::Close => ZoneEvent::Close,
            ZoneAction::Finish => ZoneEvent::Fill,
            ZoneAction::Reset => ZoneEvent::Reset,
            ZoneAction::TakeOffline => ZoneEvent::TakeOffline,
            ZoneAction::Extend(_) => ZoneEvent::Extend,
        };
        let (before, io) = (self.states(), self.io());
        let target = if all { ZoneTarget::All } else { ZoneTarget::One(zone as u32) };
        self.in_flight.insert(io, InFlight::Manage);
        let answer = self.ftl.manage_zones(self.now, Io(io), self.volume, target, action, &mut self.store);
        self.worn_out |= self.is_read_only();
        if self.worn_out {
            if answer != Answer::Later {
                self.in_flight.remove(&io);
            }
            for (zone, was) in before.into_iter().enumerate() {
                let state = self.info(zone).state;
                if state != was && matches!(state, ZoneState::Empty | ZoneState::Offline) {
                    self.managed(zone, ZoneAction::Reset);
                }
            }
            return;
        }
        if let Answer::Failed(fault) = answer {
            self.in_flight.remove(&io);
            let worn = |zone: usize| self.info(zone).state == ZoneState::ReadOnly;
            let unchanged = (0..before.len()).all(|zone| worn(zone) || self.info(zone).state == before[zone]);
            assert!(unchanged, "seed {}: {before:?}, {:?}", self.seed, self.states());
            if worn(zone) && before[zone] != ZoneState::ReadOnly {
                return;
            }
            let expected = before[zone].after(event).and_then(|state| match action {
                ZoneAction::OpenWithZrwa => self.may_have_area(zone).map(|()| state),
                _ => Ok(state),
            });
            let of_areas = matches!(fault, Fault::Zone(ZoneFault::NoZrwa | ZoneFault::InvalidOperation));
            let too_many = matches!(fault, Fault::Zone(ZoneFault::TooManyOpen | ZoneFault::TooManyActive));
            assert!(
                too_many
                    || (all && of_areas && action == ZoneAction::OpenWithZrwa)
                    || (!all && expected.map_err(Fault::Zone) == Err(fault)),
                "seed {}: {action:?} of {:?}: {fault}",
                self.seed,
                before[zone]
            );
            return;
        }
        let after = self.states();
        for (i, (&was, &is)) in before.iter().zip(&after).enumerate() {
            let meant = if all { was != is } else { i == zone };
            if meant {
                let closed = was == ZoneState::ImplicitlyOpened && is == ZoneState::Closed;
                assert!(
                    was.after(event) == Ok(is) || (all && closed) || is == ZoneState::ReadOnly,
                    "seed {}: {was:?} {event:?} {is:?}",
                    self.seed
                );
                self.managed(i, action);
            } else {
                let closed = was == ZoneState::ImplicitlyOpened && is == ZoneState::Closed;
                let worn = is == ZoneState::ReadOnly;
                assert!(was == is || closed || worn, "seed {}: {was:?} became {is:?}", self.seed);
            }
        }
        if matches!(answer, Answer::At(_)) {
            self.ended(io);
        }
    }

    fn managed(&mut self, zone: usize, action: ZoneAction<'_>) {
        let written = (self.info(zone).written / u64::from(SECTOR)) as usize;
        let model = &mut self.zones[zone];
        match action {
            ZoneAction::Reset | ZoneAction::TakeOffline => {
                *model = Model { ended: model.ended + 1, resets: model.resets + 1, ..Model::default() };
            }
            ZoneAction::OpenWithZrwa => {
                // One that was closed for others is none of those that were meant.
                let info = self.ftl.zone(self.volume, zone as u32).unwrap();
                assert!(info.zrwa || info.state == ZoneState::Closed, "seed {}", self.seed);
                if info.zrwa {
                    model.area.get_or_insert_default();
                }
            }
            ZoneAction::Finish if model.area.is_some() => {
                let waits = |under_way: &InFlight| matches!(under_way, InFlight::Area { zone: z, ended, .. } if *z == zone && *ended == model.ended);
                let any_waits = self.in_flight.values().any(waits);
                model.ended += 1;
                // The write pointer has passed all that is in the area, and goes back to what was admitted.
                if let Some(area) = &mut model.area {
                    area.pointer = (written / 8) as u32;
                }
                if any_waits {
                    self.full_anew(zone);
                }
            }
            ZoneAction::Finish => {
                model.ended += 1;
                assert!(written >= model.acknowledged, "seed {}", self.seed);
                if written < model.sectors.len() {
                    model.sectors.truncate(written);
                    self.full_anew(zone);
                }
            }
            _ => {}
        }
    }

    fn flush(&mut self) {
        let promises = self.zones.iter().enumerate().map(|(i, z)| (i, z.acknowledged, z.resets)).collect();
        let io = self.io();
        self.in_flight.insert(io, InFlight::Flush { promises });
        let answer = match self.rng.below(8) {
            0 => self.ftl.shutdown(self.now, Io(io), &mut self.store),
            _ => self.ftl.flush(self.now, Io(io), &mut self.store),
        };
        match answer {
            Answer::At(_) => self.ended(io),
            Answer::Later => {}
            Answer::Failed(fault) => self.failed(io, fault),
        }
    }

    fn read_sectors(&mut self, volume: VolumeId, start: u64, sectors: usize) -> Vec<u32> {
        self.store.host_reads(sectors);
        let extent = Extent { start, bytes: sectors as u32 * SECTOR };
        let answer = self.ftl.read(self.now, Io(u32::MAX), volume, extent, &mut self.store);
        assert!(matches!(answer, Answer::At(_)), "seed {}: {answer:?}", self.seed);
        self.store.host.clone()
    }

    /// All of a zone: what was acknowledged is there, and nothing behind the write pointer.
    fn check_zone(&mut self, zone: usize) {
        // What is due now may take it offline.
        self.poll();
        let sectors = (self.layout.size / u64::from(SECTOR)) as usize;
        if self.info(zone).state == ZoneState::Offline {
            return;
        }
        let found = self.read_sectors(self.volume, zone as u64 * self.layout.size, sectors);
        let model = &self.zones[zone];
        if let Some(area) = &model.area {
            for (i, values) in found.chunks(8).enumerate() {
                assert!(
                    values == [values[0]; 8] && area.may_hold(i, values[0]),
                    "seed {}: page {i} of zone {zone} ({:?}) holds {values:?}, not {:?}",
                    self.seed,
                    self.info(zone),
                    area.pages.get(i)
                );
            }
            let (pointer, info) = (u64::from(area.pointer) * u64::from(PAGE), self.info(zone));
            assert!(!info.state.is_active() || info.written == pointer, "seed {}: {info:?}", self.seed);
            return;
        }
        for (i, &value) in found.iter().enumerate() {
            let written = model.sectors.get(i).copied();
            let right = match written {
                Some(written) if i < model.acknowledged => value == written,
                Some(written) => value == written || value == 0,
                None => value == 0,
            };
            assert!(
                right,
                "seed {}: zone {zone} ({:?}) sector {i} holds {value}, not {written:?} ({} acknowledged)",
                self.seed,
                self.info(zone),
                model.acknowledged
            );
        }
    }

    fn check_mapped(&mut self) {
        let Some(volume) = self.mapped else { return };
        let page = self.rng.below(self.pages.len() as u64);
        let under_way =
            self.in_flight.values().any(|k| matches!(k, InFlight::Mapped { page: p, .. } if *p == page));
        if !under_way {
            let found = self.read_sectors(volume, page * u64::from(PAGE), 8);
            assert_eq!(found, [self.pages[page as usize]; 8], "seed {}: page {page}", self.seed);
        }
    }

    fn audit(&self) {
        let sound = self.ftl.audit(SET).and_then(|()| self.store.audit(self.ftl.references()));
        sound.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
    }

    fn pass_time(&mut self, all: bool) {
        for _ in 0..if all { 1_000_000 } else { 1 + self.rng.below(20) } {
            if all && self.in_flight.is_empty() {
                return;
            }
            match self.ftl.next_event() {
                // Most zones are to be filled before they are old.
                Some(at) if !all && at >= self.next_age() && self.rng.below(4) > 0 => return,
                Some(at) => self.now = self.now.max(at),
                None if all => {
                    panic!("seed {}: {:?} never end; {}", self.seed, self.in_flight, self.ftl.describe(SET))
                }
                None => return,
            }
            self.poll();
        }
        assert!(!all, "seed {}: the drive never comes to rest", self.seed);
    }

    fn poll(&mut self) {
        let due = self.age();
        let mut done = std::mem::take(&mut self.done);
        self.ftl.poll(self.now, &mut self.store, &mut done);
        self.check_due(&due);
        for done in done.drain(..) {
            match done.result {
                Ok(()) => self.ended(done.io.0),
                Err(fault) => self.failed(done.io.0, fault),
            }
        }
        self.done = done;
    }

    fn save(&mut self) {
        self.saved.clear();
        self.ftl.save(&mut self.saved);
        self.store.journal.clear();
    }

    fn restore(&mut self) {
        let restorer = Ftl::restore(self.config.clone(), &self.saved);
        let mut restorer = restorer.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        for record in &self.store.journal {
            restorer.apply(&record.borrowed()).unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        }
        let ftl = restorer.finish(self.now, &mut self.store);
        self.ftl = ftl.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        self.save();
    }

    /// Cuts power, kills the process, or both, and checks what is there afterwards.
    fn cut(&mut self) {
        self.cuts += 1;
        let (off, energy) = (self.rng.below(2) == 0, self.rng.below(4) > 0);
        let before: Vec<ZoneInfo> = (0..self.zones.len()).map(|zone| self.info(zone)).collect();
        if off {
            self.ftl.power_cut(self.now, energy, &mut self.store);
        }
        if !off || self.rng.below(3) == 0 {
            if off && self.rng.below(2) == 0 {
                self.save();
            }
            self.restore();
        } else {
            self.ftl.recover(self.now, &mut self.store);
        }
        self.audit();
        self.begin_ages(&before);
        self.poll();
        let kept = !off || (self.config.protected && energy);
        let nothing = off && self.config.protected && !energy;
        self.in_flight.clear();
        for (zone, before) in before.into_iter().enumerate() {
            self.check_after_cut(zone, &before, kept, nothing);
        }
        self.check_mapped_after_cut(kept);
    }

    /// Whether a zone may have become Read Only when power was cut: a program failed just before, or since, if it takes no time.
    fn may_be_worn(&self, zone: usize) -> bool {
        self.config.faults.program_failures > 0 && self.info(zone).state == ZoneState::ReadOnly
    }

    fn check_after_cut(&mut self, zone: usize, before: &ZoneInfo, kept: bool, nothing: bool) {
        let info = self.info(zone);
        let seed = self.seed;
        if before.state == ZoneState::Offline {
            assert_eq!(info.state, ZoneState::Offline, "seed {seed}");
            return;
        }
        if info.state == ZoneState::Offline {
            // The set is worn out, and the zone must not have held what has to be there.
            self.worn_out |= self.is_read_only();
            let model = &self.zones[zone];
            let owed = match (kept, nothing) {
                (true, _) => model.acknowledged,
                (_, true) => 0,
                _ => model.promised,
            };
            assert!(self.worn_out && owed == 0, "seed {seed}: zone {zone} was {before:?}; {model:?}");
            return;
        }
        let sectors = (self.layout.size / u64::from(SECTOR)) as usize;
        let found = self.read_sectors(self.volume, zone as u64 * self.layout.size, sectors);
        if self.zones[zone].area.is_some() {
            return self.check_area_after_cut(zone, before, kept, &found);
        }
        let model = &self.zones[zone];
        // Zeros are nobody's value.
        let len = found.iter().position(|&value| value == 0).unwrap_or(sectors);
        assert!(found[len..].iter().all(|&value| value == 0), "seed {seed}: zone {zone} has a hole at {len}");
        let least = match (kept, nothing) {
            (true, _) => model.acknowledged,
            (_, true) => 0,
            _ => model.promised,
        };
        assert!(
            len >= least && model.sectors[..].get(..len) == Some(&found[..len]),
            "seed {seed}: zone {zone} holds {len} sectors of {}, {least} are promised; {before:?} became {info:?}; differ at {:?}",
            model.sectors.len(),
            (0..len).find(|&i| model.sectors.get(i) != Some(&found[i])).map(|i| (
                i,
                found[i],
                model.sectors.get(i)
            ))
        );
        let written = len as u64 * u64::from(SECTOR);
        let active = self.states().into_iter().filter(|state| state.is_active()).count() as u32;
        let expected = match before.state {
            ZoneState::Offline | ZoneState::ReadOnly => before.state,
            // Where too many zones would be active, others are finished, too.
            _ if info.state == ZoneState::Full && active == self.layout.max_active => ZoneState::Full,
            // A host has finished it. One that was written to its end is full only if that is there.
            ZoneState::Full if before.written < self.layout.capacity => ZoneState::Full,
            _ if written == self.layout.capacity => ZoneState::Full,
            _ if written > 0 || !before.extension.is_empty() => ZoneState::Closed,
            _ => ZoneState::Empty,
        };
        let worn_out = self.ftl.set_info(SET).unwrap().read_only;
        self.worn_out |= worn_out;
        let worn = worn_out || self.may_be_worn(zone);
        let expected = if worn { expected.after(ZoneEvent::WearOut).unwrap_or(expected) } else { expected };
        assert_eq!(info.state, expected, "seed {seed}: zone {zone} was {before:?}");
        assert_eq!((info.written, &info.extension), (written, &before.extension), "seed {seed}: zone {zone}");
        let model = &mut self.zones[zone];
        model.sectors.truncate(len);
        (model.acknowledged, model.promised) =
            (len, if kept && !self.config.protected { model.promised } else { len });
        model.ended += 1;
    }

    fn check_mapped_after_cut(&mut self, kept: bool) {
        let Some(volume) = self.mapped else { return };
        for page in 0..self.pages.len() {
            let found = self.read_sectors(volume, page as u64 * u64::from(PAGE), 8)[0];
            assert!(!kept || found >= self.pages[page], "seed {}: page {page} holds {found}", self.seed);
            self.pages[page] = found;
        }
    }

    fn go(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.worn_out {
                break;
            }
            match self.rng.below(100) {
                0..6 if self.layout.zrwa.is_some() => self.open_with_area(),
                0..45 => self.write(),
                45..55 => self.write_mapped(),
                55..62 => {
                    let zone = self.rng.below(self.zones.len() as u64) as usize;
                    self.check_zone(zone);
                    self.check_mapped();
                }
                62..65 if self.layout.zrwa.is_some() => self.commit(),
                62..72 => self.manage(),
                72..76 => self.flush(),
                76..94 => self.pass_time(false),
                94 => self.pass_time(true),
                95 => self.audit(),
                96 => self.rest(),
                97 => self.save(),
                _ => self.cut(),
            }
            self.check_ages();
        }
        self.pass_time(true);
        self.audit();
        self.cut();
        self.audit();
    }
}

#[test]
fn random_operations_and_power_cuts() {
    let (mut cuts, mut worn_out, mut worn_zones) = (0, 0, 0);
    let (mut area_pages, mut aged) = ([0; 3], Aged::default());
    let rounds = for_seeds(60, |seed| {
        let mut run = Run::new(seed);
        run.go(3000);
        cuts += run.cuts;
        worn_out += u32::from(run.worn_out);
        worn_zones += run.worn_zones;
        area_pages.iter_mut().zip(run.area_pages).for_each(|(all, one)| *all += one);
        aged.finish_recommended += run.aged.finish_recommended;
        aged.excursions += run.aged.excursions;
        aged.reset_recommended += run.aged.reset_recommended;
    });
    let [written, again, commits] = area_pages;
    assert!(rounds < 60 || written > 0 && again > 0 && commits > 0, "{area_pages:?}");
    let Aged { finish_recommended, excursions, reset_recommended } = aged;
    let have_aged = finish_recommended > 0 && excursions > 0 && reset_recommended > 0;
    assert!(rounds < 60 || have_aged, "{aged:?}");
    println!(
        "{rounds} drives with zones, {cuts} power cuts and kills, {worn_out} drives and {worn_zones} zones worn out"
    );
    println!("{written} pages written to areas, {again} of them again, {commits} commits");
    println!(
        "{finish_recommended} zones should be finished, {excursions} were by the set, {reset_recommended} should be reset"
    );
}
