//! Times are exact: all of them follow from the configuration.

use super::*;

const US: u64 = 1_000;

/// 2 channels x 2 dies x 2 planes, TLC one-shot, 4 pages per sense; channel 4.096 GB/s: a page takes 1 µs.
fn config() -> NandConfig {
    NandConfig {
        geometry: Geometry {
            dies: 4,
            channels: 2,
            planes: 2,
            superblocks: 3,
            units_per_block: 4,
            unit_pages: 24,
            sense_pages: 4,
            in_place: false,
            rated_cycles: 1000,
        },
        cell: Cell::Tlc,
        timing: NandTiming {
            sense: Sense::Same(Nanos(50 * US)),
            program: Nanos(1000 * US),
            erase: Nanos(5000 * US),
            channel_bytes_per_second: 4_096_000_000,
            suspend: Nanos(20 * US),
            resume: Nanos(10 * US),
            max_suspends: 2,
        },
        durable: true,
    }
}

fn spares(first: u32, count: usize) -> Vec<Spare> {
    (first..)
        .take(count)
        .map(|i| Spare { page: LogicalPage(i), version: u64::from(i) + 100, slot: Slot(i * 2) })
        .collect()
}

fn nand(change: impl FnOnce(&mut NandConfig)) -> Nand {
    let mut config = config();
    change(&mut config);
    Nand::new(config).unwrap()
}

fn program(nand: &mut Nand, at: u64, unit: u32) -> u64 {
    let pages = nand.geometry().unit_pages;
    let spares = spares(unit * pages, pages as usize);
    nand.program(Nanos(at * US), Unit(unit), &spares).0 / US
}

fn read(nand: &mut Nand, at: u64, page: u32, count: u32) -> u64 {
    let read = nand.read(Nanos(at * US), Page(page), count);
    assert_eq!(read.status, OpStatus::Good);
    read.done.0 / US
}

fn ended(nand: &mut Nand, at: u64, unit: u32) -> Result<OpStatus, u64> {
    match nand.poll_program(Nanos(at * US), Unit(unit)) {
        Progress::Until(until) => Err(until.0 / US),
        Progress::Ended(status) => Ok(status),
    }
}

/// A chip with the first row of units programmed, idle at time 10,000 µs.
fn filled(change: impl FnOnce(&mut NandConfig)) -> Nand {
    let mut nand = nand(change);
    for unit in 0..4 {
        program(&mut nand, 0, unit);
    }
    nand
}

const IDLE_TIME: u64 = 10_000;

#[test]
fn a_program_crosses_the_channel_and_then_takes_its_time() {
    let mut n = nand(|_| ());
    assert_eq!(program(&mut n, 0, 0), 24 + 1000);
    // Die 1 has the other channel; die 2 shares the channel of die 0 and waits for it.
    assert_eq!(program(&mut n, 0, 1), 24 + 1000);
    assert_eq!(program(&mut n, 0, 2), 48 + 1000);
    // The next of die 0 is transferred early and waits for the die.
    assert_eq!(program(&mut n, 0, 4), 2024);
    assert_eq!(ended(&mut n, 1023, 0), Err(1024));
    assert_eq!(ended(&mut n, 1024, 0), Ok(OpStatus::Good));
    assert_eq!(ended(&mut n, 1024, 4), Err(2024));
}

#[test]
fn a_read_senses_and_then_crosses_the_channel() {
    let mut n = filled(|_| ());
    assert_eq!(read(&mut n, IDLE_TIME, 0, 4), IDLE_TIME + 50 + 4);
    // One page of four is transferred alone. The plane is free again when it has sensed.
    assert_eq!(read(&mut n, IDLE_TIME, 0, 1), IDLE_TIME + 100 + 1);
}

#[test]
fn planes_of_a_die_sense_together_and_share_the_channel() {
    let mut n = filled(|_| ());
    // Pages 0..4 are on plane 0, 4..8 on plane 1, 8..12 (the middle page) on plane 0 again.
    assert_eq!(read(&mut n, IDLE_TIME, 0, 4), IDLE_TIME + 54);
    assert_eq!(read(&mut n, IDLE_TIME, 4, 4), IDLE_TIME + 58);
    assert_eq!(read(&mut n, IDLE_TIME, 8, 4), IDLE_TIME + 104);
    // Die 1 (page 24..) has its own channel, die 2 (48..) waits for that of die 0.
    assert_eq!(read(&mut n, IDLE_TIME, 24, 4), IDLE_TIME + 54);
    assert_eq!(read(&mut n, IDLE_TIME, 48, 4), IDLE_TIME + 62);
}

#[test]
fn what_dies_were_asked_for_is_counted() {
    let mut nand = nand(|_| ());
    program(&mut nand, 0, 0);
    let times = |nand: &Nand| {
        let us = |die: DieTimes| (die.reads / US, die.programs / US, die.erases / US);
        nand.die_times().map(us).collect::<Vec<_>>()
    };
    assert_eq!(times(&nand), [(0, 1000, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)]);
    // Planes that sense at the same time count once; a sense that begins later counts from where the other one ended.
    read(&mut nand, 2000, 0, 1);
    read(&mut nand, 2000, 4, 1);
    assert_eq!(times(&nand)[0], (50, 1000, 0));
    read(&mut nand, 2020, 4, 1);
    assert_eq!(times(&nand)[0], (100, 1000, 0));
    nand.erase(Nanos(3000 * US), Unit(0));
    assert_eq!(times(&nand), [(100, 1000, 5000), (0, 0, 0), (0, 0, 0), (0, 0, 0)]);
    nand.power_cut(Nanos(9000 * US));
    assert_eq!(times(&nand), [(0, 0, 0); 4]);
}

#[test]
fn page_types_have_their_own_sense_time() {
    let by_type = |c: &mut NandConfig| {
        c.timing.sense = Sense::ByPageType([40, 60, 90].map(|us| Nanos(us * US)).to_vec());
    };
    let mut one_shot = filled(by_type);
    for (page, sense) in [(0, 40), (4, 40), (8, 60), (16, 90)] {
        let at = IDLE_TIME * u64::from(page + 1);
        assert_eq!(read(&mut one_shot, at, page, 1), at + sense + 1, "page {page}");
    }
    // Page by page, the type changes from unit to unit of a block: 4 dies, so units 0, 4, 8, 12 of die 0.
    let mut by_page = nand(|c| {
        by_type(c);
        c.geometry.unit_pages = 8;
    });
    for (row, sense) in [40, 60, 90, 40].into_iter().enumerate() {
        let (at, unit) = (IDLE_TIME * (row as u64 + 1), row as u32 * 4);
        program(&mut by_page, at, unit);
        assert_eq!(read(&mut by_page, at + 5000, unit * 8 + 7, 1), at + 5000 + sense + 1, "row {row}");
    }
}

#[test]
fn a_read_suspends_a_program() {
    let mut n = filled(|_| ());
    // On the array from 10,024 to 11,024.
    assert_eq!(program(&mut n, IDLE_TIME, 4), IDLE_TIME + 1024);
    // Suspended at 10,500; sense from 10,520 to 10,570; goes on at 10,580 with 524 left.
    assert_eq!(read(&mut n, IDLE_TIME + 500, 0, 1), IDLE_TIME + 571);
    assert_eq!(ended(&mut n, IDLE_TIME + 1024, 4), Err(IDLE_TIME + 1104));
    // On the other plane meanwhile: senses from 10,530 to 10,580, so the program goes on at 10,590.
    assert_eq!(read(&mut n, IDLE_TIME + 530, 4, 1), IDLE_TIME + 581);
    assert_eq!(ended(&mut n, IDLE_TIME + 1104, 4), Err(IDLE_TIME + 1114));
    // It was postponed twice: the next read waits until it ends.
    assert_eq!(read(&mut n, IDLE_TIME + 700, 0, 1), IDLE_TIME + 1114 + 51);
    assert_eq!(ended(&mut n, IDLE_TIME + 1114, 4), Ok(OpStatus::Good));
}

#[test]
fn a_read_that_fits_into_a_suspension_costs_the_program_nothing() {
    let mut n = filled(|_| ());
    program(&mut n, IDLE_TIME, 4);
    assert_eq!(read(&mut n, IDLE_TIME + 500, 0, 1), IDLE_TIME + 571);
    // Asked for before the array is free: both planes sense from 10,520 to 10,570; the channel is next.
    assert_eq!(read(&mut n, IDLE_TIME + 510, 4, 1), IDLE_TIME + 572);
    assert_eq!(ended(&mut n, IDLE_TIME + 1024, 4), Err(IDLE_TIME + 1104));
}

#[test]
fn a_read_before_the_data_of_a_program_have_arrived_suspends_nothing() {
    let mut n = filled(|c| c.timing.channel_bytes_per_second = 409_600_000);
    // 240 µs of transfer; the sense of 50 fits in before. Its transfer of 10 finds the channel busy.
    assert_eq!(program(&mut n, IDLE_TIME, 4), IDLE_TIME + 1240);
    assert_eq!(read(&mut n, IDLE_TIME + 100, 0, 1), IDLE_TIME + 250);
    assert_eq!(ended(&mut n, IDLE_TIME + 1239, 4), Err(IDLE_TIME + 1240));
    // One that does not fit pushes it back, without suspension: sense from 10,220 to 10,270.
    assert_eq!(read(&mut n, IDLE_TIME + 220, 0, 1), IDLE_TIME + 280);
    assert_eq!(ended(&mut n, IDLE_TIME + 1240, 4), Err(IDLE_TIME + 1270));
}

#[test]
fn a_read_that_must_wait_goes_before_the_next_program() {
    let mut n = filled(|c| c.timing.max_suspends = 1);
    program(&mut n, IDLE_TIME, 4);
    assert_eq!(program(&mut n, IDLE_TIME, 8), IDLE_TIME + 2024);
    // Suspends the first: 520..570, resumes at 580 with 524 left: ends at 1,104; the second at 2,104.
    assert_eq!(read(&mut n, IDLE_TIME + 500, 0, 1), IDLE_TIME + 571);
    assert_eq!(ended(&mut n, IDLE_TIME + 2024, 8), Err(IDLE_TIME + 2104));
    let mut n = filled(|c| c.timing.max_suspends = 1);
    program(&mut n, IDLE_TIME, 4);
    program(&mut n, IDLE_TIME, 8);
    read(&mut n, IDLE_TIME + 500, 0, 1);
    // The first can be postponed no more; the read goes between the two: 1,104..1,154.
    assert_eq!(read(&mut n, IDLE_TIME + 600, 0, 1), IDLE_TIME + 1155);
    assert_eq!(ended(&mut n, IDLE_TIME + 1104, 4), Ok(OpStatus::Good));
    assert_eq!(ended(&mut n, IDLE_TIME + 1104, 8), Err(IDLE_TIME + 2154));
    // Neither can be postponed: behind both, in the order of their plane.
    assert_eq!(read(&mut n, IDLE_TIME + 1200, 0, 1), IDLE_TIME + 2154 + 51);
    assert_eq!(read(&mut n, IDLE_TIME + 1200, 0, 1), IDLE_TIME + 2154 + 101);
    // A program that comes now waits for those reads.
    assert_eq!(program(&mut n, IDLE_TIME + 1300, 12), IDLE_TIME + 2154 + 100 + 1000);
}

#[test]
fn a_suspended_program_that_resumes_counts_a_new_suspension() {
    let mut n = filled(|_| ());
    program(&mut n, IDLE_TIME, 4);
    // Suspended at 500, sensed until 570, resuming until 580 with 524 left.
    read(&mut n, IDLE_TIME + 500, 0, 1);
    // At 575 it resumes: 20 to suspend, sense 595..645, on at 655.
    assert_eq!(read(&mut n, IDLE_TIME + 575, 0, 1), IDLE_TIME + 646);
    assert_eq!(ended(&mut n, IDLE_TIME + 1104, 4), Err(IDLE_TIME + 655 + 524));
}

#[test]
fn a_read_suspends_an_erase() {
    let mut n = filled(|_| ());
    let block_of_superblock_1 = Unit(4 * 4);
    assert_eq!(n.erase(Nanos(IDLE_TIME * US), block_of_superblock_1), Nanos((IDLE_TIME + 5000) * US));
    assert_eq!(read(&mut n, IDLE_TIME + 100, 0, 1), IDLE_TIME + 171);
    assert_eq!(
        n.poll_erase(Nanos((IDLE_TIME + 5000) * US), block_of_superblock_1),
        Progress::Until(Nanos((IDLE_TIME + 5080) * US))
    );
    assert_eq!(
        n.poll_erase(Nanos((IDLE_TIME + 5080) * US), block_of_superblock_1),
        Progress::Ended(OpStatus::Good)
    );
    // Another die is not concerned.
    assert_eq!(read(&mut n, IDLE_TIME + 200, 24, 1), IDLE_TIME + 251);
}

#[test]
fn without_suspension_reads_wait_their_turn() {
    let mut n = filled(|c| c.timing.max_suspends = 0);
    program(&mut n, IDLE_TIME, 4);
    program(&mut n, IDLE_TIME, 8);
    assert_eq!(read(&mut n, IDLE_TIME + 10, 0, 1), IDLE_TIME + 2024 + 51);
}

#[test]
fn without_timing_everything_ends_at_once() {
    let mut n = filled(|c| c.timing = NandTiming::default());
    assert_eq!(program(&mut n, 7, 4), 7);
    assert_eq!(ended(&mut n, 7, 4), Ok(OpStatus::Good));
    assert_eq!(read(&mut n, 8, 0, 4), 8);
    assert_eq!(n.erase(Nanos(9), Unit(16)), Nanos(9));
    assert_eq!(n.poll_erase(Nanos(9), Unit(16)), Progress::Ended(OpStatus::Good));
}

#[test]
fn spare_areas_come_back_until_the_block_is_erased() {
    let mut n = filled(|_| ());
    assert_eq!(n.spare(Page(25)), Spare { page: LogicalPage(25), version: 125, slot: Slot(50) });
    assert_eq!(n.logical(Page(25)), LogicalPage(25));
    assert_eq!((n.programmed(Unit(1)), n.programmed(Unit(4))), (24, 0));
    assert_eq!(n.spare(Page(4 * 24)), Spare::EMPTY);
    n.erase(Nanos(IDLE_TIME * US), Unit(1));
    assert_eq!(n.spare(Page(25)), Spare::EMPTY);
    assert_eq!(n.spare(Page(0)).page, LogicalPage(0));
    assert_eq!((n.wear(Unit(1)), n.wear(Unit(5)), n.wear(Unit(0))), (1, 1, 0));
}

#[test]
fn a_power_cut_tears_what_is_in_flight() {
    let mut n = filled(|_| ());
    program(&mut n, IDLE_TIME, 4);
    program(&mut n, IDLE_TIME, 8);
    n.erase(Nanos(IDLE_TIME * US), Unit(17));
    n.power_cut(Nanos((IDLE_TIME + 1024) * US));
    assert_eq!(n.spare(Page(4 * 24)).page, LogicalPage(96));
    assert_eq!(n.spare(Page(8 * 24)), Spare::EMPTY);
    assert_eq!(n.read(Nanos(0), Page(4 * 24), 1).status, OpStatus::Good);
    assert_eq!(n.read(Nanos(0), Page(8 * 24), 1).status, OpStatus::Failed);
    assert_eq!(n.block(Unit(8)), BlockState::Writable { next: 3 });
    assert_eq!(n.block(Unit(17)), BlockState::MustErase);
    assert_eq!(n.read(Nanos(0), Page(17 * 24), 1).status, OpStatus::Failed);
    n.erase(Nanos(0), Unit(17));
    n.erase(Nanos(0), Unit(0));
    assert_eq!(n.block(Unit(17)), BlockState::Writable { next: 0 });
    program(&mut n, 0, 0);
    assert_eq!(n.read(Nanos(0), Page(0), 1).status, OpStatus::Good);
}

#[test]
fn reading_a_program_in_flight_corrupts_nothing() {
    let mut n = filled(|_| ());
    program(&mut n, IDLE_TIME, 4);
    assert_eq!(read(&mut n, IDLE_TIME + 500, 4 * 24, 1), IDLE_TIME + 571);
    assert_eq!(ended(&mut n, IDLE_TIME + 1104, 4), Ok(OpStatus::Good));
    assert_eq!(n.spare(Page(4 * 24)).page, LogicalPage(96));
}

#[test]
fn saved_state_comes_back_without_what_was_in_flight() {
    let mut n = filled(|_| ());
    for unit in 0..4 {
        assert_eq!(ended(&mut n, 5000, unit), Ok(OpStatus::Good));
    }
    program(&mut n, IDLE_TIME, 4);
    n.erase(Nanos(IDLE_TIME * US), Unit(16 + 1));
    n.apply_bad(Unit(16 + 2)).unwrap();
    let mut bytes = Vec::new();
    n.save(&mut bytes);
    let mut back = Nand::restore(config(), &bytes).unwrap();
    n.power_cut(Nanos(IDLE_TIME * US));
    for page in 0..n.pages {
        assert_eq!(back.spare(Page(page)), n.spare(Page(page)));
    }
    for unit in (0..n.units).map(Unit) {
        assert_eq!((back.block(unit), back.wear(unit)), (n.block(unit), n.wear(unit)), "{unit:?}");
    }
    assert_eq!(back.block(Unit(17)), BlockState::MustErase);
    assert_eq!(back.block(Unit(18)), BlockState::Bad);
    assert_eq!(back.read(Nanos(0), Page(4 * 24), 1).status, OpStatus::Failed);
    // The journal knows how it went on.
    back.apply_program(Unit(4), &spares(96, 24)).unwrap();
    assert_eq!(back.read(Nanos(0), Page(4 * 24), 1).status, OpStatus::Good);
    assert_eq!(back.spare(Page(4 * 24)).page, LogicalPage(96));
    back.apply_erase(Unit(17)).unwrap();
    assert_eq!(back.block(Unit(17)), BlockState::Writable { next: 0 });
}

#[test]
fn foreign_and_damaged_state_is_refused_with_a_reason() {
    let n = filled(|_| ());
    let mut good = Vec::new();
    n.save(&mut good);
    let error = |config: NandConfig, bytes: &[u8]| Nand::restore(config, bytes).unwrap_err().to_string();
    for cut in [0, 3, 8, 60, good.len() - 1] {
        assert!(error(config(), &good[..cut]).contains("truncated"), "{cut}");
    }
    assert!(error(config(), &[&good[..], &[0]].concat()).contains("truncated or damaged"));
    assert!(error(config(), &[b"what".as_slice(), &good[4..]].concat()).contains("another kind"));
    let mut other = config();
    other.geometry.superblocks = 5;
    assert!(error(other, &good).contains("geometry.superblocks = 3, the configuration says 5"));
    let mut next = good.clone();
    next[8 + 48] = 5;
    assert!(error(config(), &next).contains("next unit of a block is 5, the medium has 4"));
    let mut back = Nand::restore(config(), &good).unwrap();
    assert!(back.apply_spoil(Unit(48)).unwrap_err().to_string().contains("unit is 48, the medium has 48"));
    assert!(back.apply_program(Unit(0), &[]).is_err());
}

#[test]
#[should_panic(expected = "NAND rule broken: program of unit 8 (die 0, superblock 0, unit 2 of its block)")]
fn programming_out_of_order_is_a_bug() {
    program(&mut filled(|_| ()), IDLE_TIME, 8);
}

#[test]
#[should_panic(expected = "NAND rule broken: program of unit 0")]
fn programming_twice_is_a_bug() {
    program(&mut filled(|_| ()), IDLE_TIME, 0);
}

#[test]
#[should_panic(expected = "where Bad")]
fn programming_a_bad_block_is_a_bug() {
    let mut n = filled(|_| ());
    n.apply_bad(Unit(0)).unwrap();
    assert_eq!(n.read(Nanos(IDLE_TIME * US), Page(0), 1).status, OpStatus::Good);
    n.erase(Nanos(IDLE_TIME * US), Unit(0));
    assert_eq!(n.poll_erase(Nanos(2 * IDLE_TIME * US), Unit(0)), Progress::Ended(OpStatus::Failed));
    program(&mut n, IDLE_TIME, 4);
}

#[test]
#[should_panic(expected = "read of a page that was not programmed")]
fn reading_an_erased_page_is_a_bug() {
    filled(|_| ()).read(Nanos(IDLE_TIME * US), Page(96), 1);
}

#[test]
#[should_panic(expected = "read across the end of a sense")]
fn reading_across_a_sense_is_a_bug() {
    filled(|_| ()).read(Nanos(IDLE_TIME * US), Page(2), 3);
}
