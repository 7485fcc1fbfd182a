use super::*;
use crate::types::{LogicalPage, Slot};
use crate::{Cell, Memory, MemoryConfig, MemoryKind, Nand, NandConfig, NandTiming};

fn config() -> NandConfig {
    NandConfig {
        geometry: Geometry {
            dies: 4,
            channels: 2,
            planes: 1,
            superblocks: 8,
            units_per_block: 8,
            unit_pages: 2,
            sense_pages: 2,
            in_place: false,
            rated_cycles: 10,
        },
        cell: Cell::Slc,
        timing: NandTiming {
            sense: Nanos(100).into(),
            program: Nanos(1_000),
            erase: Nanos(10_000),
            ..NandTiming::default()
        },
        durable: true,
    }
}

fn faulty(plan: FaultPlan) -> Faulty<Nand> {
    Faulty::new(Nand::new(config()).unwrap(), plan)
}

fn spares(unit: u32) -> [Spare; 2] {
    [0, 1].map(|i| Spare { page: LogicalPage(unit * 2 + i), version: 1, slot: Slot(unit) })
}

/// Programs and waits for the end.
fn program(m: &mut Faulty<Nand>, now: &mut Nanos, unit: u32) -> OpStatus {
    *now = m.program(*now, Unit(unit), &spares(unit));
    loop {
        match m.poll_program(*now, Unit(unit)) {
            Progress::Until(until) => *now = until,
            Progress::Ended(status) => return status,
        }
    }
}

fn erase(m: &mut Faulty<Nand>, now: &mut Nanos, unit: u32) -> OpStatus {
    *now = m.erase(*now, Unit(unit));
    match m.poll_erase(*now, Unit(unit)) {
        Progress::Until(_) => panic!("nothing postpones it"),
        Progress::Ended(status) => status,
    }
}

/// All units of the first superblock, programmed before any fault.
fn filled() -> (Faulty<Nand>, Nanos) {
    let (mut m, mut now) = (faulty(FaultPlan::default()), Nanos::ZERO);
    for unit in 0..32 {
        assert_eq!(program(&mut m, &mut now, unit), OpStatus::Good);
    }
    (m, now)
}

#[test]
fn without_a_plan_nothing_fails_and_nothing_is_looked_at() {
    let (mut m, now) = filled();
    assert!(!m.armed);
    for page in 0..64 {
        assert_eq!(m.read(now, Page(page), 1).status, OpStatus::Good);
    }
    // A plan may be set and taken back.
    m.plan_mut().fail_reads = 1;
    assert_eq!(m.read(now, Page(0), 1).status, OpStatus::Failed);
    assert_eq!(m.read(now, Page(0), 1).status, OpStatus::Good);
    assert!(!m.armed);
}

#[test]
fn bit_errors_are_corrected_or_not_as_often_as_planned() {
    let (mut m, now) = filled();
    m.plan_mut().corrected_reads = 200_000_000;
    m.plan_mut().uncorrectable_reads = 100_000_000;
    let mut counts = [0; 3];
    for i in 0..10_000 {
        counts[m.read(now, Page(i % 64), 1).status as usize] += 1;
    }
    let [good, corrected, failed] = counts;
    // Of 10,000: 10% failed, 20% of the rest corrected.
    assert!((900..1100).contains(&failed), "{counts:?}");
    assert!((1650..1950).contains(&corrected), "{counts:?}");
    assert_eq!(good, 10_000 - corrected - failed);
}

#[test]
fn a_weak_page_stays_weak_until_its_block_is_erased() {
    let (mut m, mut now) = filled();
    m.plan_mut().weak_pages = 300_000_000;
    let weak = |m: &mut Faulty<Nand>, now| -> Vec<u32> {
        (0..64).filter(|&page| m.read(now, Page(page), 1).status == OpStatus::Failed).collect()
    };
    let first = weak(&mut m, now);
    assert!((5..40).contains(&first.len()), "{first:?}");
    assert_eq!(weak(&mut m, now), first);
    for die in 0..4 {
        assert_eq!(erase(&mut m, &mut now, die), OpStatus::Good);
    }
    for unit in 0..32 {
        assert_eq!(program(&mut m, &mut now, unit), OpStatus::Good);
    }
    assert_ne!(weak(&mut m, now), first);
}

#[test]
fn a_failed_program_cannot_be_read_and_the_rest_of_its_block_can() {
    let (mut m, mut now) = filled();
    m.plan_mut().fail_programs = 1;
    assert_eq!(program(&mut m, &mut now, 32), OpStatus::Failed);
    assert_eq!(program(&mut m, &mut now, 36), OpStatus::Good);
    assert_eq!(m.spare(Page(64)), Spare::EMPTY);
    assert_eq!(m.read(now, Page(64), 1).status, OpStatus::Failed);
    assert_eq!(m.read(now, Page(72), 1).status, OpStatus::Good);
    assert!(!m.is_bad(Unit(32)));
}

#[test]
fn a_failed_program_is_unreadable_even_if_nobody_asks_how_it_ended() {
    let (mut m, now) = filled();
    m.plan_mut().fail_programs = 1;
    let end = m.program(now, Unit(32), &spares(32));
    assert_eq!(m.read(end, Page(64), 1).status, OpStatus::Failed);
    m.power_cut(end);
    assert_eq!(m.spare(Page(64)), Spare::EMPTY);
}

#[test]
fn a_failed_erase_makes_a_bad_block() {
    let (mut m, mut now) = filled();
    m.plan_mut().fail_erases = 1;
    assert_eq!(erase(&mut m, &mut now, 1), OpStatus::Failed);
    assert!(m.is_bad(Unit(5)));
    assert_eq!(m.block(Unit(1)), BlockState::Bad);
    assert_eq!(erase(&mut m, &mut now, 1), OpStatus::Failed);
    assert_eq!(erase(&mut m, &mut now, 2), OpStatus::Good);
}

#[test]
fn initial_bad_blocks_follow_the_seed() {
    let bad = |seed| -> Vec<u32> {
        let m = faulty(FaultPlan { seed, initial_bad_blocks: 250_000_000, ..FaultPlan::default() });
        (0..8 * 32).filter(|&unit| unit % 32 < 4 && m.is_bad(Unit(unit))).collect()
    };
    assert_eq!(bad(1), bad(1));
    assert_ne!(bad(1), bad(2));
    assert!((2..20).contains(&bad(1).len()), "{:?}", bad(1));
}

#[test]
fn a_stuck_die_fails_in_everything_and_others_do_not() {
    let (mut m, mut now) = filled();
    m.plan_mut().stuck_dies = vec![2];
    assert_eq!(m.read(now, Page(4), 2).status, OpStatus::Failed);
    assert_eq!(m.read(now, Page(6), 2).status, OpStatus::Good);
    assert_eq!(program(&mut m, &mut now, 34), OpStatus::Failed);
    assert_eq!(program(&mut m, &mut now, 35), OpStatus::Good);
    assert_eq!(erase(&mut m, &mut now, 66), OpStatus::Failed);
    assert_eq!(erase(&mut m, &mut now, 67), OpStatus::Good);
}

#[test]
fn erases_fail_more_and_more_beyond_the_rated_cycles() {
    let plan = FaultPlan { wear_out: 100_000_000, ..FaultPlan::default() };
    let (mut m, mut now) = (faulty(plan), Nanos::ZERO);
    let mut lives = Vec::new();
    for block in 0..32 {
        let unit = block / 4 * 32 + block % 4;
        while erase(&mut m, &mut now, unit) == OpStatus::Good {}
        lives.push(m.wear(Unit(unit)));
    }
    // Rated for 10; at 20 cycles one in ten fails, at 110 every one.
    assert!(lives.iter().all(|&l| l > 10 && l <= 110), "{lives:?}");
    let mean = lives.iter().sum::<u32>() / 32;
    assert!((15..45).contains(&mean), "{lives:?}");
}

#[test]
fn slow_operations_take_a_multiple_of_their_time() {
    let (mut m, now) = filled();
    m.plan_mut().slow_operations = 1_000_000_000;
    m.plan_mut().slow_factor = 7;
    assert_eq!(m.read(now, Page(0), 1).done, now + Nanos(700));
    let idle = now + Nanos(1_000_000);
    assert_eq!(m.program(idle, Unit(32), &spares(32)), idle + Nanos(7_000));
    assert_eq!(m.poll_program(idle + Nanos(1_000), Unit(32)), Progress::Until(idle + Nanos(7_000)));
    m.power_cut(idle + Nanos(6_999));
    assert_eq!(m.read(idle, Page(64), 1).status, OpStatus::Failed);
}

#[test]
fn a_lost_write_is_reported_good_and_noticed_when_read() {
    let (mut m, mut now) = filled();
    m.plan_mut().lost_writes = 1_000_000_000;
    assert_eq!(program(&mut m, &mut now, 32), OpStatus::Good);
    *m.plan_mut() = FaultPlan::default();
    assert_eq!(m.read(now, Page(64), 1).status, OpStatus::Failed);
    assert_eq!(m.spare(Page(64)), Spare::EMPTY);
    // The controller's reverse map does not know.
    assert_eq!(m.inner().logical(Page(64)), LogicalPage(64));
    let mut bytes = Vec::new();
    m.save(&mut bytes);
    let open = |bytes: &[u8]| Nand::restore(config(), bytes);
    let mut back = Faulty::restore(FaultPlan::default(), &bytes, open).unwrap();
    assert_eq!(back.read(now, Page(64), 1).status, OpStatus::Failed);
    assert_eq!(back.read(now, Page(0), 1).status, OpStatus::Good);
    erase(&mut back, &mut now, 32);
    assert_eq!(program(&mut back, &mut now, 32), OpStatus::Good);
    assert_eq!(back.read(now, Page(64), 1).status, OpStatus::Good);
    assert!(Faulty::restore(FaultPlan::default(), &bytes[..20], open).is_err());
    // The same from a journal.
    let mut back = Faulty::restore(FaultPlan::default(), &bytes, open).unwrap();
    back.apply_erase(Unit(32)).unwrap();
    assert_eq!(program(&mut back, &mut now, 32), OpStatus::Good);
    assert!(back.lost.is_empty());
    let mut back = Faulty::restore(FaultPlan::default(), &bytes, open).unwrap();
    back.apply_program(Unit(32), &spares(32)).unwrap();
    assert_eq!(back.spare(Page(64)), spares(32)[0]);
}

#[test]
fn a_misdirected_write_takes_another_unit_of_the_die_with_it() {
    let (mut m, mut now) = filled();
    m.plan_mut().misdirected_writes = 1_000_000_000;
    for unit in 32..64 {
        assert_eq!(program(&mut m, &mut now, unit), OpStatus::Good);
    }
    *m.plan_mut() = FaultPlan::default();
    let failed = |m: &mut Faulty<Nand>, units: Range<u32>| {
        units.filter(|unit| m.read(now, Page(unit * 2), 1).status == OpStatus::Failed).count()
    };
    assert_eq!(failed(&mut m, 32..64), 32);
    let victims = failed(&mut m, 0..32);
    assert!((1..32).contains(&victims), "{victims}");
}

#[test]
fn the_countdown_to_a_power_cut_counts_operations() {
    let (mut m, mut now) = filled();
    m.plan_mut().cut_after = Some(3);
    m.read(now, Page(0), 1);
    program(&mut m, &mut now, 32);
    assert!(!m.cut_due());
    m.erase(now, Unit(64));
    assert!(m.cut_due());
    m.power_cut(now);
    assert!(!m.cut_due());
    assert_eq!(m.block(Unit(64)), BlockState::MustErase);
    assert_eq!(m.plan().cut_after, None);
}

#[test]
fn memory_has_faults_too() {
    let config = MemoryConfig {
        kind: MemoryKind::Pmem,
        pages: 64,
        banks: 4,
        read_latency: Nanos(300),
        write_latency: Nanos(500),
        bytes_per_second: crate::memory::Bandwidth::Shared(0),
        rated_cycles: u32::MAX,
        durable: true,
    };
    let mut m = Faulty::new(Memory::new(config).unwrap(), FaultPlan::default());
    m.plan_mut().fail_programs = 1;
    let three = [spares(0)[0], spares(1)[0], spares(2)[0]];
    let end = m.program(Nanos(0), Unit(8), &three);
    assert_eq!(m.poll_program(end, Unit(8)), Progress::Ended(OpStatus::Failed));
    assert_eq!(m.read(end, Page(10), 1).status, OpStatus::Failed);
    m.program(end, Unit(10), &three[..1]);
    assert_eq!(m.read(end, Page(10), 1).status, OpStatus::Good);
    assert_eq!(m.read(end, Page(8), 3).status, OpStatus::Failed);
    // Written again before anyone asked how the first write ended.
    m.plan_mut().fail_programs = 1;
    m.program(end, Unit(20), &three[..1]);
    let end = m.program(end, Unit(20), &three[..1]);
    assert_eq!(m.poll_program(end, Unit(20)), Progress::Ended(OpStatus::Good));
    assert_eq!(m.read(end, Page(20), 1).status, OpStatus::Good);
}

#[test]
fn a_plan_is_written_as_only_what_it_changes() {
    let plan: FaultPlan = serde_json::from_str(r#"{"seed": 4, "stuck_dies": [1]}"#).unwrap();
    assert_eq!(plan, FaultPlan { seed: 4, stuck_dies: vec![1], ..FaultPlan::default() });
    let wrong = serde_json::from_str::<FaultPlan>(r#"{"stuck_die": [1]}"#).unwrap_err().to_string();
    assert!(wrong.contains("unknown field `stuck_die`"), "{wrong}");
}
