//! Zones on flash: what it takes to write, finish and reset them, where they lie, and what becomes of them where spare blocks run out.

use crate::support::{SECTOR, Store};
use ftl::{
    Answer, CompletedIo, Config, Extent, Fault, Ftl, GcConfig, Io, PAGE, SetConfig, SetId, Source, VolumeId,
    Write, ZoneAction, ZoneFault, ZoneLayout, ZoneState, ZoneTarget, ZonesConfig,
};
use media::{Cell, FaultPlan, Geometry, NandConfig, NandTiming, Nanos};
use std::collections::BTreeSet;

const SET: SetId = SetId(0);
const DIES: u32 = 4;
const UNIT_PAGES: u32 = 4;
const UNITS_PER_BLOCK: u32 = 12;
const BLOCK_PAGES: u32 = UNIT_PAGES * UNITS_PER_BLOCK;
const ZONE_PAGES: u32 = BLOCK_PAGES * DIES;
const PROGRAM: Nanos = Nanos(300_000);
const ERASE: Nanos = Nanos(2_000_000);
/// How long a finish takes after the last program.
const RECORD: Nanos = Nanos(700_000);
const CAPACITY_PAGES: u32 = 8 * 256;

struct Drive {
    config: Config,
    /// What was saved when the drive was new. The journal has the rest.
    saved: Vec<u8>,
    ftl: Ftl,
    store: Store,
    now: Nanos,
    volume: VolumeId,
    next: u32,
    done: Vec<CompletedIo>,
}

impl Drive {
    /// Zones of so many dies (0: all), with a program unit for each active zone, and this many units more.
    fn new(zone_dies: u32, zones: u32, more: u32) -> Drive {
        let active = 4;
        let geometry = Geometry {
            dies: DIES,
            channels: 1,
            planes: 1,
            superblocks: 18,
            units_per_block: UNITS_PER_BLOCK,
            unit_pages: UNIT_PAGES,
            sense_pages: UNIT_PAGES,
            in_place: false,
            rated_cycles: 100_000,
        };
        let timing = NandTiming { program: PROGRAM, erase: ERASE, ..NandTiming::default() };
        let config = Config {
            sets: vec![SetConfig::Nand {
                nand: NandConfig { geometry, cell: Cell::Slc, timing, durable: true },
                capacity_pages: CAPACITY_PAGES,
                gc: GcConfig::default(),
                placement: Default::default(),
                policies: Default::default(),
                zones: ZonesConfig {
                    dies: zone_dies,
                    active,
                    buffer_pages: (active + more) * UNIT_PAGES,
                    finish: RECORD,
                    ..ZonesConfig::default()
                },
            }],
            buffer_pages: 64,
            protected: true,
            energy_bytes: 1 << 30,
            atomic_pages: 1,
            durable: true,
            faults: FaultPlan::default(),
        };
        let mut ftl = Ftl::new(config.clone()).unwrap();
        let mut store = Store::new(8 * CAPACITY_PAGES);
        let support = ftl.zone_support(SET).unwrap();
        let layout = ZoneLayout {
            zones,
            size: support.capacity,
            capacity: support.capacity,
            max_active: active,
            max_open: active,
            zrwa: None,
        };
        let volume = ftl.create_zoned(SET, layout, &mut store).unwrap();
        let mut saved = Vec::new();
        ftl.save(&mut saved);
        store.journal.clear();
        Drive { config, saved, ftl, store, now: Nanos::ZERO, volume, next: 1, done: Vec::new() }
    }

    fn io(&mut self) -> Io {
        self.next += 1;
        Io(self.next)
    }

    /// Appends pages to a zone; the command, and what was answered.
    fn append(&mut self, zone: u32, pages: u32) -> (Io, Answer) {
        let (io, layout) = (self.io(), self.ftl.zone_layout(self.volume).unwrap());
        self.store.host_writes(io, io.0);
        let bytes = pages * PAGE;
        let at = self.ftl.append_at(self.volume, u64::from(zone) * layout.size, bytes);
        let answer = match at {
            Ok(start) => {
                let extent = Extent { start, bytes };
                self.ftl.write(self.now, Write::new(io, self.volume, extent, Source::Host), &mut self.store)
            }
            Err(fault) => Answer::Failed(fault),
        };
        (io, answer)
    }

    /// Appends pages, and lets all come to rest.
    fn write(&mut self, zone: u32, pages: u32) -> Io {
        let (io, answer) = self.append(zone, pages);
        assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
        self.rest();
        io
    }

    /// The next event happens; whether there was one.
    fn step(&mut self) -> bool {
        let Some(at) = self.ftl.next_event() else { return false };
        self.now = self.now.max(at);
        self.ftl.poll(self.now, &mut self.store, &mut self.done);
        true
    }

    fn rest(&mut self) {
        while self.step() {}
    }

    fn send(&mut self, target: ZoneTarget, action: ZoneAction<'_>) -> (Io, Answer) {
        let io = self.io();
        (io, self.ftl.manage_zones(self.now, io, self.volume, target, action, &mut self.store))
    }

    /// When a command was done that was answered so.
    fn end(&mut self, io: Io, answer: Answer) -> Nanos {
        if let Some(at) = answer.end().unwrap() {
            return at;
        }
        loop {
            if let Some(done) = self.done.iter().find(|done| done.io == io) {
                assert_eq!(done.result, Ok(()));
                return done.at;
            }
            assert!(self.step(), "{io:?} never ends: {}", self.ftl.describe(SET));
        }
    }

    /// How long a command takes. All is at rest before it and after it.
    fn time(&mut self, target: ZoneTarget, action: ZoneAction<'_>) -> Nanos {
        self.rest();
        let begin = self.now;
        let (io, answer) = self.send(target, action);
        let end = self.end(io, answer);
        self.now = self.now.max(end);
        self.rest();
        end.since(begin)
    }

    fn one(&mut self, zone: u32, action: ZoneAction<'_>) -> Nanos {
        self.time(ZoneTarget::One(zone), action)
    }

    fn state(&self, zone: u32) -> ZoneState {
        self.ftl.zone(self.volume, zone).unwrap().state
    }

    fn erases(&self) -> u64 {
        self.ftl.set_stats(SET).erases
    }

    fn programmed_units(&self) -> u64 {
        self.ftl.set_stats(SET).media_written_bytes / u64::from(UNIT_PAGES * PAGE)
    }

    /// The values of the first pages of a zone.
    fn read(&mut self, zone: u32, pages: u32) -> Vec<u32> {
        let layout = self.ftl.zone_layout(self.volume).unwrap();
        self.store.host_reads((pages * PAGE / SECTOR) as usize);
        let extent = Extent { start: u64::from(zone) * layout.size, bytes: pages * PAGE };
        let io = self.io();
        let answer = self.ftl.read(self.now, io, self.volume, extent, &mut self.store);
        assert!(matches!(answer, Answer::At(_)), "{answer:?}");
        self.store.host.chunks((PAGE / SECTOR) as usize).map(|page| page[0]).collect()
    }

    /// The values of the first pages of a zone; `None` of a page that cannot be read.
    fn pages(&mut self, zone: u32, pages: u32) -> Vec<Option<u32>> {
        let start = u64::from(zone) * self.ftl.zone_layout(self.volume).unwrap().size;
        let read = |page| {
            self.store.host_reads((PAGE / SECTOR) as usize);
            let extent = Extent { start: start + u64::from(page * PAGE), bytes: PAGE };
            match self.ftl.read(self.now, Io(u32::MAX), self.volume, extent, &mut self.store) {
                Answer::At(_) => Some(self.store.host[0]),
                answer => {
                    assert_eq!(answer, Answer::Failed(Fault::Unrecovered));
                    None
                }
            }
        };
        (0..pages).map(read).collect()
    }

    /// So many of the next programs and erases fail.
    fn fail(&mut self, programs: u32, erases: u32) {
        let plan = FaultPlan { fail_programs: programs, fail_erases: erases, ..FaultPlan::default() };
        assert!(self.ftl.set_faults(SET, plan));
    }

    /// Power is lost and comes back.
    fn cut(&mut self) {
        self.ftl.power_cut(self.now, true, &mut self.store);
        self.ftl.recover(self.now, &mut self.store);
        self.rest();
    }

    /// Saves the drive as it is.
    fn save(&mut self) {
        self.saved.clear();
        self.ftl.save(&mut self.saved);
        self.store.journal.clear();
    }

    /// The program ends and begins again with what the journal tells.
    fn restart(&mut self) {
        let mut restorer = Ftl::restore(self.config.clone(), &self.saved).unwrap();
        for record in &self.store.journal {
            restorer.apply(&record.borrowed()).unwrap();
        }
        self.ftl = restorer.finish(self.now, &mut self.store).unwrap();
        self.rest();
    }

    fn is_read_only(&self) -> bool {
        self.ftl.set_info(SET).unwrap().read_only
    }

    fn audit(&self) {
        self.ftl.audit(SET).and_then(|()| self.store.audit(self.ftl.references())).unwrap();
    }
}

#[test]
fn a_reset_takes_an_erase_and_erases_what_was_programmed_only() {
    let mut drive = Drive::new(0, 4, 2 * DIES);
    // Units go from die to die, so there is a programmed block for each, up to the dies.
    for units in [1, 2, DIES, 2 * DIES, ZONE_PAGES / UNIT_PAGES] {
        drive.write(0, units * UNIT_PAGES);
        let before = drive.erases();
        assert_eq!(drive.one(0, ZoneAction::Reset), ERASE, "{units} units");
        assert_eq!(drive.erases() - before, u64::from(units.min(DIES)), "{units} units");
        assert_eq!(drive.state(0), ZoneState::Empty);
    }
    // What is in the buffer is on no block, and an empty zone has none.
    drive.write(0, UNIT_PAGES - 1);
    let before = drive.erases();
    for _ in 0..2 {
        assert_eq!(drive.one(0, ZoneAction::Reset), Nanos::ZERO);
    }
    drive.one(0, ZoneAction::Finish);
    drive.one(0, ZoneAction::Reset);
    assert_eq!(drive.erases(), before, "a finished zone without data has no block");
    drive.audit();
}

#[test]
fn a_finish_programs_what_the_buffer_holds_and_writes_a_record() {
    let mut drive = Drive::new(0, 8, 2 * DIES);
    let two = Nanos(PROGRAM.0 + RECORD.0);
    for (pages, time, units) in [
        (0, RECORD, 0),
        (1, two, 1),
        (UNIT_PAGES - 1, two, 1),
        (UNIT_PAGES, RECORD, 0),
        (UNIT_PAGES + 1, two, 1),
        (ZONE_PAGES - 1, two, 1),
    ] {
        if pages > 0 {
            drive.write(0, pages);
        }
        let before = drive.programmed_units();
        assert_eq!(drive.one(0, ZoneAction::Finish), time, "{pages} pages");
        assert_eq!(drive.programmed_units() - before, units, "{pages} pages: nothing else is written");
        assert_eq!(drive.state(0), ZoneState::Full);
        assert_eq!(drive.one(0, ZoneAction::Finish), Nanos::ZERO, "it is full already");
        drive.one(0, ZoneAction::Reset);
    }
    // Programs that are under way are waited for, too: the second unit of each die waits for the first.
    let (_, answer) = drive.append(0, 2 * DIES * UNIT_PAGES);
    assert!(matches!(answer, Answer::At(_)), "{answer:?}");
    let (io, answer) = drive.send(ZoneTarget::One(0), ZoneAction::Finish);
    let begin = drive.now;
    assert_eq!(drive.end(io, answer).since(begin), Nanos(2 * PROGRAM.0 + RECORD.0));
    drive.one(0, ZoneAction::Reset);
    // All zones: their last units lie on the same die, one behind the other, and there is one record.
    for zone in 0..3 {
        drive.write(zone, 1);
    }
    assert_eq!(drive.time(ZoneTarget::All, ZoneAction::Finish), Nanos(3 * PROGRAM.0 + RECORD.0));
    drive.audit();
}

#[test]
fn a_finish_waits_for_no_zone_that_is_given_up_and_ends_with_the_power() {
    let mut drive = Drive::new(0, 4, 2 * DIES);
    drive.write(0, 1);
    let (finish, answer) = drive.send(ZoneTarget::One(0), ZoneAction::Finish);
    assert_eq!(answer, Answer::Later);
    let (reset, answer) = drive.send(ZoneTarget::One(0), ZoneAction::Reset);
    drive.end(reset, answer);
    let finished = drive.end(finish, Answer::Later);
    assert!(finished.0 >= RECORD.0, "{finished:?}");
    drive.rest();
    drive.write(1, 1);
    let (finish, answer) = drive.send(ZoneTarget::One(1), ZoneAction::Finish);
    assert_eq!(answer, Answer::Later);
    drive.cut();
    assert!(drive.done.iter().all(|done| done.io != finish), "a command that power took is not answered");
    assert_eq!((drive.state(1), drive.read(1, 2)[1]), (ZoneState::Full, 0));
    drive.audit();
}

/// A program that the medium reports good and has not done leaves its own pages unreadable, and no others.
#[test]
fn a_lost_write_takes_no_other_page_of_a_zone_with_it() {
    let mut unreadable = 0;
    for seed in 0..40 {
        let mut after = |restart: bool| {
            let mut drive = Drive::new(0, 4, 2 * DIES);
            let plan = FaultPlan { seed, lost_writes: 50_000_000, ..FaultPlan::default() };
            assert!(drive.ftl.set_faults(SET, plan));
            let written = drive.write(0, ZONE_PAGES - 1);
            drive.one(0, ZoneAction::Finish);
            match restart {
                true => {
                    // What the medium has lost is in no journal.
                    drive.save();
                    drive.restart();
                }
                false => drive.cut(),
            }
            drive.audit();
            let pages = drive.pages(0, ZONE_PAGES - 1);
            let lost = pages.iter().filter(|page| **page != Some(written.0)).count();
            assert!(pages.iter().flatten().all(|value| *value == written.0), "seed {seed}: {pages:?}");
            unreadable += lost;
            (drive.state(0), pages)
        };
        assert_eq!(after(true), after(false), "seed {seed}");
    }
    assert!(unreadable > 0);
}

/// The superblock that holds a zone.
fn place(drive: &Drive, zone: u32) -> u32 {
    let all = drive.ftl.superblocks(SET, 0..18);
    let at = all.iter().position(|superblock| superblock.zone == Some((drive.volume, zone)));
    at.unwrap_or_else(|| panic!("zone {zone} lies nowhere")) as u32
}

#[test]
fn a_zone_gets_its_blocks_at_its_first_program_and_the_least_worn() {
    let mut drive = Drive::new(0, 4, 2 * DIES);
    drive.one(0, ZoneAction::Open);
    drive.write(0, UNIT_PAGES - 1);
    let bound = |drive: &Drive| drive.ftl.superblocks(SET, 0..18).iter().filter(|s| s.zones > 0).count();
    assert_eq!(bound(&drive), 0, "no block before a unit is full");
    drive.write(0, 1);
    assert_eq!(bound(&drive), 1);
    drive.one(0, ZoneAction::Reset);
    assert_eq!(bound(&drive), 0);
    // All superblocks take their turns.
    let mut places = BTreeSet::new();
    for round in 0..3 * 18 {
        let before = drive.ftl.superblocks(SET, 0..18);
        let least = before.iter().filter(|s| s.usage == ftl::SuperblockUse::Free).map(|s| s.erases).min();
        drive.write(1, UNIT_PAGES);
        let at = place(&drive, 1);
        places.insert(at);
        assert_eq!(Some(before[at as usize].erases), least, "round {round}");
        drive.one(1, ZoneAction::Reset);
    }
    assert!(places.len() >= 16, "{places:?}");
}

#[test]
fn zones_of_some_dies_get_the_least_worn_blocks_too() {
    let mut drive = Drive::new(1, 8, 2);
    // Four zones share a superblock. The first stays, and so does the superblock.
    for zone in 0..4 {
        drive.write(zone, UNIT_PAGES);
    }
    let cycles = |drive: &Drive| drive.ftl.set_info(SET).unwrap().max_cycles;
    // One block is worn by itself, because it is the only one that is free.
    for _ in 0..5 {
        drive.one(1, ZoneAction::Reset);
        drive.write(1, UNIT_PAGES);
    }
    drive.one(1, ZoneAction::Reset);
    drive.one(2, ZoneAction::Reset);
    let most = cycles(&drive);
    assert_eq!(most, 6);
    // Another one is less worn now: it is taken until it is as worn, though it became free later.
    for _ in 0..4 {
        drive.write(4, UNIT_PAGES);
        drive.one(4, ZoneAction::Reset);
        assert_eq!(cycles(&drive), most);
    }
    drive.audit();
}

#[test]
fn appends_at_a_time_fill_a_zone_at_the_bandwidth_of_its_dies() {
    for (zone_dies, dies) in [(0, DIES), (1, 1)] {
        let mut drive = Drive::new(zone_dies, 4, 2 * DIES);
        let (pages, mut sent, mut under_way) = (BLOCK_PAGES * dies, 0, BTreeSet::new());
        // Sixteen commands of a page at a time.
        while sent < pages || !under_way.is_empty() {
            while sent < pages && under_way.len() < 16 {
                let (io, answer) = drive.append(0, 1);
                sent += 1;
                if answer.end().unwrap().is_none() {
                    under_way.insert(io);
                }
            }
            if !under_way.is_empty() {
                assert!(drive.step());
                drive.done.drain(..).for_each(|done| assert!(under_way.remove(&done.io)));
            }
        }
        drive.rest();
        // All dies program all the time: as long as a block of one takes.
        assert_eq!(drive.now, Nanos(u64::from(UNITS_PER_BLOCK) * PROGRAM.0), "zones of {dies} dies");
        assert_eq!(drive.state(0), ZoneState::Full);
    }
}

/// Blocks fail until one more would leave the set too little spare: of few superblocks, so that zones get good ones.
fn use_up_spare(drive: &mut Drive) {
    // What is written and what is collected, and one superblock more.
    let needed = CAPACITY_PAGES + 3 * ZONE_PAGES;
    for _ in 0..100 {
        let usable = drive.ftl.superblocks(SET, 0..18).iter().map(|s| s.usable).sum::<u32>();
        let blocks = (usable - needed) / BLOCK_PAGES;
        assert!(!drive.is_read_only());
        if blocks == 0 {
            return;
        }
        drive.write(0, ZONE_PAGES);
        drive.fail(0, blocks.min(DIES));
        drive.one(0, ZoneAction::Reset);
    }
    panic!("there is still spare: {:?}", drive.ftl.set_info(SET));
}

#[test]
fn a_failed_program_without_spare_blocks_costs_one_zone_and_the_others_go_on() {
    let mut drive = Drive::new(0, 4, 2 * DIES);
    drive.fail(1, 0);
    let io = drive.write(1, DIES * UNIT_PAGES);
    // There is spare: the pages go elsewhere, and nothing is told.
    assert_eq!((drive.state(1), drive.read(1, 1)), (ZoneState::ImplicitlyOpened, vec![io.0]));
    drive.one(1, ZoneAction::Reset);
    use_up_spare(&mut drive);
    assert!(drive.ftl.changed_zones(SET).is_empty());
    for zone in 1..4 {
        drive.fail(1, 0);
        let io = drive.write(zone, DIES * UNIT_PAGES);
        assert_eq!(drive.ftl.changed_zones(SET), [(drive.volume, zone)]);
        assert_eq!(drive.state(zone), ZoneState::ReadOnly);
        assert_eq!(drive.append(zone, 1).1, Answer::Failed(Fault::Zone(ZoneFault::ReadOnly)));
        assert_eq!(drive.read(zone, DIES * UNIT_PAGES), vec![io.0; (DIES * UNIT_PAGES) as usize]);
        assert!(!drive.is_read_only());
        // The others can be filled, reset and filled again, also after a loss of power and in another process.
        for again in [Drive::cut, Drive::restart] {
            drive.write(0, ZONE_PAGES);
            drive.one(0, ZoneAction::Reset);
            again(&mut drive);
            assert!(!drive.is_read_only());
            assert_eq!(drive.state(zone), ZoneState::ReadOnly);
            assert_eq!(drive.read(zone, DIES * UNIT_PAGES), vec![io.0; (DIES * UNIT_PAGES) as usize]);
        }
        drive.audit();
    }
    // The last one has no other to go on for. It is empty when the set ends.
    drive.fail(1, 0);
    drive.write(0, DIES * UNIT_PAGES);
    assert_eq!(drive.state(0), ZoneState::ImplicitlyOpened);
    drive.one(0, ZoneAction::Reset);
    assert!(drive.is_read_only());
    assert_eq!((drive.state(0), drive.ftl.changed_zones(SET)), (ZoneState::Offline, vec![(drive.volume, 0)]));
    assert_eq!(drive.append(0, 1).1, Answer::Failed(Fault::Zone(ZoneFault::Offline)));
    for again in [Drive::cut, Drive::restart] {
        again(&mut drive);
        let states: Vec<ZoneState> = (0..4).map(|zone| drive.state(zone)).collect();
        assert!(drive.is_read_only(), "it does not come back by itself");
        assert_eq!(states[0], ZoneState::Offline);
        assert_eq!(states[1..], [ZoneState::ReadOnly; 3]);
        drive.audit();
    }
}
