//! The mechanism alone: no map, no buffer, no policy stands above it.

use super::*;
use crate::context::{Event, EventQueue};
use crate::storage::NoContents;
use media::{Cell, FaultPlan, LogicalPage, NandConfig, NandTiming, Unit};

const PROGRAM: u64 = 100;
const ERASE: u64 = 1000;

/// Flash with its events and the time.
struct Bench {
    flash: Flash,
    events: EventQueue,
    now: Nanos,
}

impl Bench {
    /// 2 dies, 4 superblocks of 3 rows, units of one page.
    fn new(plan: FaultPlan) -> Bench {
        let geometry = Geometry {
            dies: 2,
            channels: 1,
            planes: 1,
            superblocks: 4,
            units_per_block: 3,
            unit_pages: 1,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 1000,
        };
        let timing = NandTiming { program: Nanos(PROGRAM), erase: Nanos(ERASE), ..NandTiming::default() };
        let nand = Nand::new(NandConfig { geometry, cell: Cell::Slc, timing, durable: true }).unwrap();
        let mut flash = Flash::new(SetId(0), Faulty::new(nand, plan), true, true);
        assert!(flash.sort(|_| false, |_| false).is_empty());
        Bench { flash, events: EventQueue::default(), now: Nanos::ZERO }
    }

    fn open(&mut self, wear: Wear, writer: u8) -> Stream {
        Stream::new(self.flash.open(wear, writer, &mut NoContents).expect("one is free"))
    }

    fn next(&self, stream: &mut Stream) -> Next {
        self.flash.next_unit(stream)
    }

    /// Programs the next unit of a stream, which has room, as `op`.
    fn program(&mut self, stream: &mut Stream, op: u32, relocated: bool) -> Target {
        let Next::Unit(target) = self.next(stream) else { panic!("there is room") };
        let spare = Spare { page: LogicalPage(op), version: op.into(), slot: Slot(op) };
        let order = Order { op, relocated, watched: !relocated };
        if self.flash.program(self.now, target, order, &[spare], &mut self.events) {
            assert_eq!(self.ended(target.die), []);
        }
        target
    }

    /// What has ended on a die.
    fn ended(&mut self, die: u32) -> Vec<Ended> {
        let flash = &mut self.flash;
        let take = || flash.take_ended(self.now, die, true, &mut self.events, &mut NoContents);
        std::iter::from_fn(take).collect()
    }

    /// Lets time pass until the next event, and says what has ended with it.
    fn pass(&mut self) -> Vec<Ended> {
        self.now = self.events.next_at().expect("something is under way");
        let mut all = Vec::new();
        while let Some((_, (_, event))) = self.events.pop_due(self.now) {
            match event {
                Event::Programmed(die) => {
                    self.flash.is_due(die);
                    all.extend(self.ended(die));
                }
                Event::Erased(unit) => {
                    assert!(self.flash.erased(self.now, unit, &mut self.events, &mut NoContents));
                }
                Event::Gathered(_) | Event::ZonesAged | Event::Disk => {
                    panic!("no set stands above this")
                }
            }
        }
        all
    }

    /// Fills a stream's superblock and seals it.
    fn fill(&mut self, stream: &mut Stream) -> u32 {
        let superblock = stream.superblock().expect("it is open");
        loop {
            match self.next(stream) {
                Next::Full => break,
                Next::Busy => _ = self.pass(),
                Next::Ask(die) => _ = self.ended(die),
                Next::Unit(target) => {
                    let order = Order { op: 0, relocated: false, watched: true };
                    if self.flash.program(self.now, target, order, &[Spare::EMPTY], &mut self.events) {
                        self.ended(target.die);
                    }
                }
            }
        }
        while self.flash.superblocks().get(superblock).programs > 0 {
            self.pass();
        }
        self.flash.seal(superblock);
        superblock
    }

    fn state(&self, superblock: u32) -> SuperblockState {
        self.flash.superblocks().get(superblock).state
    }
}

#[test]
fn a_stream_is_striped_over_the_dies_and_waits_for_them() {
    let mut bench = Bench::new(FaultPlan::default());
    let mut stream = bench.open(Wear::Least, 0);
    let first = stream.superblock().unwrap() * 6;
    // Each die takes two.
    let targets = [0, 1, 2, 3].map(|op| bench.program(&mut stream, op, false));
    assert_eq!(
        targets.map(|t| (t.die, t.unit.0)),
        [(0, first), (1, first + 1), (0, first + 2), (1, first + 3)]
    );
    assert_eq!(bench.next(&mut stream), Next::Busy);
    assert!(bench.flash.is_busy(&stream));
    assert_eq!(bench.pass().iter().map(|e| (e.op, e.failed)).collect::<Vec<_>>(), [(0, false), (1, false)]);
    assert!(!bench.flash.is_busy(&stream));
    bench.program(&mut stream, 4, false);
    assert_eq!(bench.flash.room_of(&stream), 1);
    bench.program(&mut stream, 5, false);
    // The superblock is full whatever its dies do.
    assert_eq!(bench.next(&mut stream), Next::Full);
    assert_eq!(bench.flash.stats.media_written_bytes, 6 * u64::from(PAGE));
}

#[test]
fn nobody_is_told_of_the_ends_of_moved_data_until_their_die_is_needed() {
    let mut bench = Bench::new(FaultPlan::default());
    let mut stream = bench.open(Wear::Most, 1);
    for op in 0..4 {
        bench.program(&mut stream, op, true);
    }
    assert_eq!(bench.events.next_at(), None);
    assert_eq!(bench.flash.stats.media_gc_bytes, 4 * u64::from(PAGE));
    // Too early: now there is an event.
    assert_eq!(bench.next(&mut stream), Next::Ask(0));
    assert_eq!(bench.ended(0), []);
    assert_eq!(bench.events.next_at(), Some(Nanos(PROGRAM)));
    assert_eq!(bench.next(&mut stream), Next::Busy);
    // Later calls find the ends.
    bench.now = Nanos(2 * PROGRAM);
    bench.flash.is_due(0);
    assert_eq!(bench.next(&mut stream), Next::Ask(0));
    assert_eq!(bench.ended(0).iter().map(|e| (e.op, e.failed)).collect::<Vec<_>>(), [(0, false), (2, false)]);
    assert!(matches!(bench.next(&mut stream), Next::Unit(Target { die: 0, .. })));
}

#[test]
fn a_failed_program_takes_its_block() {
    let plan = FaultPlan { seed: 1, program_failures: 1_000_000_000, ..FaultPlan::default() };
    let mut bench = Bench::new(plan);
    let mut stream = bench.open(Wear::Least, 0);
    let target = bench.program(&mut stream, 9, false);
    bench.now = Nanos(PROGRAM);
    bench.flash.is_due(target.die);
    let ended = bench.ended(target.die);
    assert_eq!(ended.iter().map(|e| (e.op, e.unit, e.failed)).collect::<Vec<_>>(), [(9, target.unit, true)]);
    assert_eq!(bench.flash.superblocks().get(target.superblock).usable, 3);
    assert_eq!((bench.flash.cycles().bad, bench.flash.stats.media_failures), (1, 1));
    // What is left of the superblock is on the other die.
    assert_eq!(bench.flash.room_of(&stream), 3);
    assert_eq!([(); 2].map(|()| bench.program(&mut stream, 10, false).die), [1, 1]);
}

#[test]
fn a_superblock_is_erased_with_a_few_dies_at_a_time() {
    let mut bench = Bench::new(FaultPlan::default());
    let mut stream = bench.open(Wear::Least, 0);
    let superblock = bench.fill(&mut stream);
    assert_eq!(bench.state(superblock), SuperblockState::Sealed);
    assert_eq!((bench.flash.superblocks().sealed_count(), bench.flash.superblocks().free()), (1, 3));
    bench.flash.give_up(superblock);
    let begun = bench.now;
    let step = |bench: &mut Bench| bench.flash.erase_step(bench.now, 1, &mut bench.events);
    for _ in 0..2 {
        assert_eq!([step(&mut bench), step(&mut bench)], [EraseStep::Begun, EraseStep::Nothing]);
        bench.pass();
    }
    assert_eq!(step(&mut bench), EraseStep::Ended(superblock));
    assert_eq!(step(&mut bench), EraseStep::Nothing);
    // One after the other.
    assert_eq!(bench.now, begun + Nanos(2 * ERASE));
    let superblocks = bench.flash.superblocks();
    assert_eq!((superblocks.get(superblock).erases, superblocks.free(), superblocks.erasing()), (1, 4, 0));
    assert_eq!(bench.flash.stats.erases, 2);
    // It is the most worn now.
    assert_eq!(bench.open(Wear::Most, 0).superblock(), Some(superblock));
    assert_ne!(bench.open(Wear::Least, 0).superblock(), Some(superblock));
}

#[test]
fn a_superblock_without_good_blocks_is_dead() {
    let mut bench = Bench::new(FaultPlan { seed: 1, erase_failures: 1_000_000_000, ..FaultPlan::default() });
    let mut stream = bench.open(Wear::Least, 0);
    let superblock = bench.fill(&mut stream);
    bench.flash.give_up(superblock);
    loop {
        match bench.flash.erase_step(bench.now, 2, &mut bench.events) {
            EraseStep::Nothing => _ = bench.pass(),
            EraseStep::Begun => {}
            EraseStep::Ended(ended) => break assert_eq!(ended, superblock),
        }
    }
    assert_eq!(bench.state(superblock), SuperblockState::Dead);
    assert_eq!(bench.flash.superblocks().usable_pages(), 3 * 6);
    assert_eq!((bench.flash.stats.erase_failures, bench.flash.cycles().bad), (2, 2));
}

/// What a page-mapped set and a zoned set would do on the same chips: neither has a list of the superblocks, and each knows its own
/// by the writer and its programs by their numbers.
#[test]
fn two_owners_share_superblocks_and_dies() {
    const ZONE: u8 = 200;
    const ZONE_OPS: u32 = 1000;
    let mut bench = Bench::new(FaultPlan::default());
    let (mut mapped, mut zone) = (bench.open(Wear::Least, 0), bench.open(Wear::Least, ZONE));
    assert_ne!(mapped.superblock(), zone.superblock());
    bench.program(&mut mapped, 1, false);
    bench.program(&mut zone, ZONE_OPS, false);
    // Both are on die 0.
    assert_eq!(bench.next(&mut { Stream::new(mapped.superblock().unwrap()) }), Next::Busy);
    let mut ended: Vec<u32> = Vec::new();
    while ended.len() < 2 {
        ended.extend(bench.pass().iter().map(|e| e.op));
    }
    assert_eq!(ended, [1, ZONE_OPS]);
    let mine = bench.flash.superblocks().iter().filter(|(_, b)| b.state == SuperblockState::Open);
    let mine: Vec<u8> = mine.map(|(_, b)| b.writer).collect();
    assert!(mine.contains(&0) && mine.contains(&ZONE) && mine.len() == 2, "{mine:?}");
    // A zone that is reset is erased and free for the other.
    let zone = bench.fill(&mut zone);
    bench.flash.give_up(zone);
    assert_eq!((bench.flash.superblocks().free(), bench.flash.superblocks().erasing()), (2, 1));
}

/// Where the set has no need of writers, the drive keeps in mind only which superblocks are zones'.
#[test]
fn only_zones_are_always_told_apart() {
    let mut bench = Bench::new(FaultPlan::default());
    bench.flash.records_writers = false;
    let mut mapped = bench.open(Wear::Least, 1);
    assert!(bench.flash.writers().is_empty());
    let mut zone = bench.open(Wear::Least, ZONES);
    assert_eq!(bench.flash.writers(), [1, ZONES, 0, 0]);
    for (stream, op) in [(&mut mapped, 1), (&mut zone, 2)] {
        bench.program(stream, op, false);
    }
}

#[test]
fn power_tears_what_is_under_way_and_the_chips_tell_the_rest() {
    let mut bench = Bench::new(FaultPlan::default());
    let mut stream = bench.open(Wear::Least, 3);
    let superblock = stream.superblock().unwrap();
    bench.program(&mut stream, 1, false);
    bench.program(&mut stream, 2, false);
    assert_eq!(bench.pass().len(), 2);
    let torn = bench.program(&mut stream, 3, false);
    let mut gone = bench.open(Wear::Least, 4);
    let gone_superblock = gone.superblock().unwrap();
    bench.program(&mut gone, 4, false);
    bench.flash.power_cut(bench.now, &mut NoContents);
    bench.events.clear();
    bench.flash.reset();
    assert_eq!(bench.flash.units_under_way().count(), 0);
    // What counts is on one superblock, and that is resumed; the other is to be erased.
    let found = bench.flash.sort(|s| s == superblock, |_| false);
    assert_eq!(found.iter().map(|f| (f.superblock, f.room)).collect::<Vec<_>>(), [(superblock, 3)]);
    assert_eq!(bench.state(gone_superblock), SuperblockState::Erasing);
    assert_eq!(bench.flash.superblocks().free(), 2);
    // Who wrote them is known from the system area.
    assert_eq!(bench.flash.writers()[superblock as usize], 3);
    assert_eq!((bench.flash.logical(superblock * 6), bench.flash.logical(torn.unit.0)), (1, u32::MAX));
    let mut resumed = Stream::resumed(superblock);
    assert_eq!(bench.flash.room_of(&resumed), 3);
    let Next::Unit(target) = bench.next(&mut resumed) else { panic!("there is room") };
    assert_eq!(target.unit, Unit(torn.unit.0 + 1));
}

#[test]
fn reads_are_counted() {
    let mut bench = Bench::new(FaultPlan::default());
    let mut stream = bench.open(Wear::Least, 0);
    let target = bench.program(&mut stream, 1, false);
    bench.pass();
    bench.flash.read(bench.now, target.unit.0, 1);
    assert_eq!((bench.flash.stats.media_read_bytes, bench.flash.stats.uncorrectable), (u64::from(PAGE), 0));
    assert_eq!(bench.flash.superblock_of(target.unit.0), target.superblock);
    assert_eq!(bench.flash.slot(target.unit.0), Slot(1));
}
