//! Placement handles: data that dies together lies together.

use crate::support::load::one_set;
use ftl::{
    Answer, Extent, Ftl, GcConfig, Io, NoContents, PAGE, PlacementConfig, SetId, Source, VolumeId, Write,
};
use media::{Cell, Geometry, NandConfig, NandTiming, Nanos, Rng};

const SET: SetId = SetId(0);

fn drive(placement: PlacementConfig) -> (Ftl, VolumeId, u64) {
    drive_with(placement, 0, NandTiming::default())
}

fn drive_with(placement: PlacementConfig, together: u32, timing: NandTiming) -> (Ftl, VolumeId, u64) {
    let geometry = Geometry {
        dies: 4,
        channels: 4,
        planes: 1,
        superblocks: 256,
        units_per_block: 64,
        unit_pages: 1,
        sense_pages: 1,
        in_place: false,
        rated_cycles: 1_000_000,
    };
    let pages = u64::from(geometry.pages() as u32 / 5 * 4 / 256 * 256);
    let nand = NandConfig { geometry, cell: Cell::Slc, timing, durable: false };
    let gc = GcConfig { wear_gap: 1000, together, ..GcConfig::default() };
    let mut ftl = one_set(nand, pages as u32, 16, gc, placement, Default::default());
    let volume = ftl.create(SET, pages * u64::from(PAGE), &mut NoContents).expect("space");
    (ftl, volume, pages)
}

fn write(ftl: &mut Ftl, volume: VolumeId, page: u64, handle: u8) {
    let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
    let (now, io) = (Nanos::ZERO, Io(0));
    let answer =
        ftl.write(now, Write { handle, ..Write::new(io, volume, extent, Source::Host) }, &mut NoContents);
    assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
    if answer == Answer::Later {
        ftl.poll(now, &mut NoContents, &mut Vec::new());
    }
}

/// A small hot part is overwritten at random; a large cold one is written from end to end over and over, slowly.
/// Returns the write amplification once that has gone on for long.
fn hot_and_cold(placement: PlacementConfig, cold_handle: u8) -> f64 {
    let (mut ftl, volume, pages) = drive(placement);
    let hot = pages / 5;
    let mut rng = Rng::new(11);
    let mut next = 0;
    let mut step = |ftl: &mut Ftl| {
        write(ftl, volume, rng.below(hot), 0);
        if rng.below(4) == 0 {
            write(ftl, volume, hot + next, cold_handle);
            next = (next + 1) % (pages - hot);
        }
    };
    for _ in 0..8 * pages {
        step(&mut ftl);
    }
    let before = ftl.set_stats(SET);
    for _ in 0..4 * pages {
        step(&mut ftl);
    }
    let after = ftl.set_stats(SET);
    (after.media_written_bytes - before.media_written_bytes) as f64
        / (after.host_written_bytes - before.host_written_bytes) as f64
}

#[test]
fn handles_lower_the_write_amplification_of_hot_and_cold_data() {
    let mixed = hot_and_cold(PlacementConfig { handles: 2, isolated: false }, 0);
    let apart = hot_and_cold(PlacementConfig { handles: 2, isolated: false }, 1);
    let isolated = hot_and_cold(PlacementConfig { handles: 2, isolated: true }, 1);
    println!("mixed {mixed:.3}, two handles {apart:.3}, persistently isolated {isolated:.3}");
    assert!(apart < 0.8 * mixed, "{apart:.3} with two handles, {mixed:.3} mixed");
    assert!(isolated < 0.8 * mixed, "{isolated:.3} persistently isolated, {mixed:.3} mixed");
}

/// Half of the writes go to a small area in a circle, as to a doublewrite buffer, the other half at random. Pages programmed for each
/// of the other half's beyond the two of the host.
fn collected_beside_a_circle(together: u32) -> f64 {
    const CIRCLE: u64 = 256;
    let (mut ftl, volume, pages) = drive_with(PlacementConfig::default(), together, NandTiming::default());
    let mut rng = Rng::new(7);
    let mut run = |ftl: &mut Ftl, from: u64, to: u64| {
        for n in from..to {
            write(ftl, volume, n % CIRCLE, 0);
            write(ftl, volume, CIRCLE + rng.below(pages - CIRCLE), 0);
        }
    };
    run(&mut ftl, 0, 8 * pages);
    let before = ftl.set_stats(SET).media_gc_bytes;
    run(&mut ftl, 8 * pages, 12 * pages);
    (ftl.set_stats(SET).media_gc_bytes - before) as f64 / (4 * pages * u64::from(PAGE)) as f64
}

#[test]
fn collection_beside_the_hosts_data_pays_for_what_dies_at_once() {
    // Where collected data have superblocks of their own, what is dead at once fills only those that are collected next anyway. Among
    // collected data it takes of their spare.
    let [apart, half, together] = [0, 50, 100].map(collected_beside_a_circle);
    println!("moved for each page: apart {apart:.3}, half of it together {half:.3}, together {together:.3}");
    assert!(together > 1.15 * apart, "{together:.3} together, {apart:.3} apart");
    assert!(half > 1.03 * apart && together > 1.03 * half, "{apart:.3}, {half:.3}, {together:.3}");
}

#[test]
fn a_renewed_handle_begins_an_empty_reclaim_unit() {
    let (mut ftl, volume, _) = drive(PlacementConfig { handles: 3, isolated: false });
    let (size, room) = ftl.reclaim_unit(SET, 2).expect("three handles");
    assert_eq!((size, room), (256 * 4096, 256 * 4096));
    assert_eq!(ftl.reclaim_unit(SET, 3), None);
    for page in 0..100 {
        write(&mut ftl, volume, page, 2);
    }
    assert_eq!(ftl.reclaim_unit(SET, 2), Some((size, size - 100 * 4096)));
    // Another handle's is its own.
    assert_eq!(ftl.reclaim_unit(SET, 1), Some((size, size)));
    let left = ftl.renew_handle(Nanos::ZERO, SET, 2, &mut NoContents);
    assert_eq!(left, size - 100 * 4096);
    assert_eq!(ftl.reclaim_unit(SET, 2), Some((size, size)));
    // An empty one is not exchanged.
    assert_eq!(ftl.renew_handle(Nanos::ZERO, SET, 2, &mut NoContents), 0);
    // Nothing was written twice.
    assert_eq!(ftl.set_stats(SET).media_written_bytes, 100 * 4096);
}

#[test]
fn the_room_of_a_reclaim_unit_is_what_was_not_accepted_for_it() {
    const HANDLES: u8 = 3;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let placement = PlacementConfig { handles: HANDLES.into(), isolated: false };
        let timing = NandTiming { program: Nanos(300_000), erase: Nanos(1_000_000), ..NandTiming::default() };
        let (mut ftl, volume, pages) = drive_with(placement, 0, timing);
        let size = ftl.reclaim_unit(SET, 0).expect("a handle").0;
        let mut rooms = [size; HANDLES as usize];
        let (mut now, mut page) = (Nanos::ZERO, 0);
        // Half of the drive, so that nothing is collected.
        while page < pages / 2 {
            let handle = rng.below(HANDLES.into()) as u8;
            let room = &mut rooms[usize::from(handle)];
            match rng.below(40) {
                0 => {
                    let left = ftl.renew_handle(now, SET, handle, &mut NoContents);
                    assert_eq!(left, if *room == size { 0 } else { *room }, "seed {seed}, page {page}");
                    *room = size;
                }
                1..4 => {
                    now += Nanos(rng.below(1_000_000));
                    ftl.poll(now, &mut NoContents, &mut Vec::new());
                }
                _ => {
                    // The last pages of a unit are where the room may be wrong.
                    for _ in 0..1 + rng.below(16).min(*room / u64::from(PAGE)) {
                        now = write_at(&mut ftl, now, volume, page, handle);
                        *room = if *room == 0 { size } else { *room } - u64::from(PAGE);
                        page += 1;
                    }
                }
            }
            for (handle, room) in (0..).zip(rooms) {
                assert_eq!(
                    ftl.reclaim_unit(SET, handle).expect("a handle").1,
                    room,
                    "seed {seed}, page {page}, handle {handle} of size {size}"
                );
            }
        }
    }
}

/// Writes a page, and waits until it is accepted; returns the time then.
fn write_at(ftl: &mut Ftl, mut now: Nanos, volume: VolumeId, page: u64, handle: u8) -> Nanos {
    let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
    let answer =
        ftl.write(now, Write { handle, ..Write::new(Io(0), volume, extent, Source::Host) }, &mut NoContents);
    assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
    if answer == Answer::Later {
        let mut done = Vec::new();
        while done.is_empty() {
            now = ftl.next_event().expect("something goes on").max(now);
            ftl.poll(now, &mut NoContents, &mut done);
        }
    }
    now
}

#[test]
fn notes_say_when_a_unit_was_filled() {
    let (mut ftl, volume, _) = drive(PlacementConfig { handles: 2, isolated: false });
    ftl.note_placement(SET, true);
    for page in 0..257 {
        write(&mut ftl, volume, page, 1);
    }
    let notes = ftl.placement_notes(SET);
    assert_eq!(notes.len(), 1);
    assert_eq!((notes[0].handle, notes[0].change), (1, ftl::PlacementChange::Filled));
    assert!(ftl.placement_notes(SET).is_empty());
}
