//! Any bytes as what a drive with a hard disk has saved, and as the records of a journal after that.
//!
//! The first byte says how the state begins: with what a drive has saved, or with nothing. Then come changes of it: two bytes that say where, one
//! that says how many, and these; a length of 0 cuts the state there, and 255 begins the records of the journal, of 16 bytes each.
#![no_main]

use ftl::{Config, Ftl, NoContents, Record, SectorState, SetConfig, SetId};
use media::disk::cache::{CacheConfig, Extent, ReadAhead};
use media::disk::drive::Scheduling;
use media::disk::shape::{DiskShape, SeekTimes};
use media::{FaultPlan, LogicalPage, Nanos, Page, Slot, Spare};

/// Pages of the disk.
const PAGES: u32 = 512;

fn config() -> Config {
    let seek = SeekTimes { track: Nanos(500_000), average: Nanos(3_000_000), full: Nanos(6_000_000) };
    let cache = CacheConfig {
        segments: 1,
        read_ahead: ReadAhead::Always,
        extent: Extent::Track,
        ..CacheConfig::default()
    };
    let shape = DiskShape {
        rpm: 15_000,
        heads: 2,
        cylinders: 200,
        zones: 3,
        outer_sectors: 120,
        inner_sectors: 70,
        sector_bytes: 512,
        read_seek: seek,
        write_seek: seek,
        head_switch: [Nanos(300_000); 2],
        overhead: Nanos(50_000),
        link: 300_000_000,
        cache,
        write_cache: true,
        write_buffer: 64,
        scheduling: Scheduling::Fcfs,
    };
    Config {
        sets: vec![SetConfig::Disk { shape, capacity_pages: PAGES, timed: true }],
        buffer_pages: 16,
        protected: true,
        energy_bytes: 1 << 30,
        atomic_pages: 1,
        durable: true,
        faults: FaultPlan::default(),
    }
}

/// What a drive with a volume, a few pages, and bad and slow sectors saves.
fn saved() -> Vec<u8> {
    let mut ftl = Ftl::new(config()).expect("a drive");
    ftl.create(SetId(0), 1 << 20, &mut NoContents).expect("room for a volume");
    let mut state = Vec::new();
    ftl.save(&mut state);
    let mut restorer = Ftl::restore(config(), &state).expect("what was saved just now");
    let spare = |page| Spare { page: LogicalPage(page), slot: Slot(page), version: 1 };
    for page in 0..4 {
        restorer.apply(&Record::Place { set: 0, page: Page(page), spare: spare(page) }).expect("a page");
    }
    for (first, state) in [(9, SectorState::Unreadable), (20, SectorState::Slow(3))] {
        restorer.apply(&Record::Sectors { set: 0, first, count: 2, state }).expect("sectors");
    }
    let mut state = Vec::new();
    restorer.save(&mut state);
    state
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// A record of a journal: what it is, where, and how much.
fn record(bytes: &[u8; 16]) -> Record<'static> {
    let (what, page, count) = (bytes[0], number(&bytes[4..8]), number(&bytes[8..12]));
    let spare = Spare {
        page: LogicalPage(page),
        slot: Slot(count),
        version: u64::from(number(&bytes[12..16])) << 32,
    };
    let set = u8::from(bytes[1] > 250);
    let sectors = |state| Record::Sectors { set, first: u64::from(page) << (bytes[2] % 40), count, state };
    match what % 6 {
        0 => Record::Place { set, page: Page(page), spare },
        1 => Record::Place { set, page: Page(page), spare: Spare::EMPTY },
        2 => Record::Clear { set, first: page, count },
        3 => sectors(SectorState::Unreadable),
        4 => sectors(SectorState::Slow(number(&bytes[12..16]))),
        _ => sectors(SectorState::Good),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, mut bytes)) = bytes.split_first() else { return };
    let mut state = if first & 1 == 0 { saved() } else { Vec::new() };
    let mut journal: &[u8] = &[];
    while let [low, high, count, rest @ ..] = bytes {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % (state.len() + 1);
        match *count {
            0 => state.truncate(at),
            255 => {
                journal = rest;
                break;
            }
            _ => {}
        }
        let count = usize::from(*count).min(rest.len());
        let end = (at + count).min(state.len());
        state.splice(at..end, rest[..count].iter().copied());
        bytes = &rest[count..];
    }
    let Ok(mut restorer) = Ftl::restore(config(), &state) else { return };
    for bytes in journal.as_chunks::<16>().0 {
        if restorer.apply(&record(bytes)).is_err() {
            return;
        }
    }
    // What was taken is saved, and taken again.
    let mut again = Vec::new();
    restorer.save(&mut again);
    let mut same = Vec::new();
    Ftl::restore(config(), &again).expect("what was saved just now").save(&mut same);
    assert!(again == same, "it is saved differently after it was read");
    if let Ok(ftl) = restorer.finish(Nanos::ZERO, &mut NoContents) {
        ftl.save(&mut Vec::new());
    }
});
