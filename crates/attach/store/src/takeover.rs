//! Two programs have one store open, and zones of the log go offline.

use std::sync::{Arc, Mutex};

use crate::device::{Condition, Shape, ZoneDevice};
use crate::error::Error;
use crate::open::FormatOptions;
use crate::placement::Placement;
use crate::record::{Attributes, Ino, NewKind};
use crate::simulated::Simulated;
use crate::store::Store;

pub(crate) const BLOCK: usize = 512;
pub(crate) const SHAPE: Shape =
    Shape { block: BLOCK, zone_blocks: 64, zones: 32, open: 6, append_blocks: 16 };

pub(crate) fn file<D: ZoneDevice>(store: &Store<D>, name: &str) -> Ino {
    store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default()).unwrap().ino
}

pub(crate) fn open(device: &Simulated) -> Store<&Simulated> {
    Store::open(device, Placement::None).unwrap()
}

/// Writes whole blocks of a value, and makes them durable.
pub(crate) fn fill<D: ZoneDevice>(store: &Store<D>, ino: Ino, value: u8, blocks: usize) -> Result<(), Error> {
    store.write(ino, 0, &vec![value; blocks * BLOCK], 1)?;
    store.sync(ino)
}

pub(crate) fn is_of<D: ZoneDevice>(store: &Store<D>, ino: Ino, value: u8, blocks: usize) -> bool {
    let mut there = vec![0; blocks * BLOCK];
    store.read(ino, 0, &mut there) == Ok(there.len()) && there.iter().all(|byte| *byte == value)
}

/// A store with freed zones and full ones. Returns the file that is left in it, too.
fn nearly_full(device: &Simulated) -> (Store<&Simulated>, Ino) {
    let store = open(device);
    let mut files: Vec<Ino> = Vec::new();
    while store.usage().free_blocks >= 48 {
        let ino = file(&store, &files.len().to_string());
        fill(&store, ino, 1, 48).unwrap();
        files.push(ino);
    }
    let kept = files.len() - 1;
    for number in 0..kept {
        store.unlink(Ino::ROOT, number.to_string().as_bytes(), 1).unwrap();
    }
    store.sync_all().unwrap();
    (store, files[kept])
}

#[test]
fn an_opener_that_lost_the_store_resets_no_zone() {
    let device = Simulated::formatted();
    let (first, _) = nearly_full(&device);
    let second = open(&device);
    let mut made = Vec::new();
    for number in 0..12 {
        let ino = file(&second, &format!("new {number}"));
        fill(&second, ino, 2, 48).unwrap();
        made.push(ino);
    }
    // Without a sync: the log would tell.
    first.lock().limits.direct = 1;
    let lost = file(&first, "lost");
    let mut failed = None;
    for number in 0..100 {
        let data = vec![3; 40 * BLOCK];
        failed = failed.or(first.write(lost, number * data.len() as u64 % 100_000, &data, 1).err());
    }
    for ino in &made {
        assert!(is_of(&second, *ino, 2, 48), "{ino:?} of the second is gone");
    }
    assert_eq!(failed, Some(Error::Taken));
    assert!(matches!(first.sync_all(), Err(Error::Stopped(_))));
    drop((first, second));
    let third = open(&device);
    assert!(made.iter().all(|ino| is_of(&third, *ino, 2, 48)));
}

#[test]
fn an_opener_that_lost_the_store_reads_nothing_of_others() {
    let device = Simulated::formatted();
    let (first, kept) = nearly_full(&device);
    assert!(is_of(&first, kept, 1, 48));
    let second = open(&device);
    // All of its zones are used anew.
    second.unlink(Ino::ROOT, b"26", 1).ok();
    let names = second.list(Ino::ROOT, None, 99).unwrap();
    for (name, _) in names {
        second.unlink(Ino::ROOT, &name, 1).unwrap();
    }
    second.sync_all().unwrap();
    for number in 0..60 {
        let ino = file(&second, &format!("new {number}"));
        fill(&second, ino, 2, 48).unwrap();
        second.unlink(Ino::ROOT, format!("new {number}").as_bytes(), 1).unwrap();
        second.sync_all().unwrap();
    }
    let mut there = vec![0; BLOCK];
    assert_eq!(first.read(kept, 0, &mut there), Err(Error::Taken), "it reads {}", there[0]);
    assert!(matches!(first.sync(kept), Err(Error::Stopped(_))));
}

#[test]
fn an_opener_whose_log_zone_is_full_acknowledges_nothing_that_is_lost() {
    let mut full = 0;
    for syncs in 0..80 {
        let device = Simulated::formatted();
        let first = open(&device);
        let ino = file(&first, "file");
        for number in 0..syncs {
            first.write(ino, 0, format!("{number:03}").as_bytes(), 1).unwrap();
            first.sync(ino).unwrap();
        }
        full += u32::from(first.lock().log.has_no_room());
        let second = open(&device);
        first.write(ino, 0, b"new", 1).unwrap();
        if first.sync(ino).is_ok() {
            drop((first, second));
            let third = open(&device);
            let mut there = [0; 3];
            third.read(ino, 0, &mut there).unwrap();
            assert_eq!(&there, b"new", "after {syncs}: acknowledged, and lost");
        }
    }
    assert!(full > 0, "no log zone was full");
}

/// The log goes on in a second zone, which goes offline.
#[test]
fn an_opening_misses_the_newest_zone_of_the_log() {
    let device = Simulated::new(Shape { zones: 40, ..SHAPE }, 48, 1);
    let options = FormatOptions { log_zones: Some(12), ..FormatOptions::default() };
    Store::format(&device, &options, [1; 16], 0).unwrap();
    let store = open(&device);
    let ino = file(&store, "file");
    for syncs in 0.. {
        assert!(syncs < 200, "the log does not go on in a second zone");
        store.write(ino, 0, b"some", 1).unwrap();
        store.sync(ino).unwrap();
        if store.lock().log.chain().len() > 1 {
            break;
        }
    }
    let newest = store.lock().log.chain()[1];
    drop(store);
    device.wear_out(newest, Condition::Offline);
    for opened in [Store::open_read_only(&device), Store::open(&device, Placement::None)] {
        match opened {
            Err(Error::Damaged(why)) => {
                assert!(why.contains(&format!("zone {newest}, which is offline")), "{why}");
            }
            other => panic!("{:?}", other.map(|_| "it opens")),
        }
    }
}

/// The log is in one zone, and it goes offline.
#[test]
fn an_opening_misses_the_only_zone_of_the_log() {
    let device = Simulated::formatted();
    let store = open(&device);
    let only = store.lock().log.chain().to_vec();
    drop(store);
    device.wear_out(only[0], Condition::Offline);
    match Store::open_read_only(&device) {
        Err(Error::Damaged(why)) => assert!(why.contains("is offline"), "{why}"),
        other => panic!("{:?}", other.map(|_| "it opens")),
    }
    // Zones that held nothing are not missed.
    let device = Simulated::formatted();
    let store = open(&device);
    let only = store.lock().log.chain().to_vec();
    drop(store);
    for zone in (0..3).filter(|zone| !only.contains(zone)) {
        device.wear_out(zone, Condition::Offline);
    }
    Store::open_read_only(&device).unwrap();
}

/// Another program opens the store between any two calls of a program that begins an epoch. Both of them can take the same zone for it.
#[test]
fn an_owner_that_begins_an_epoch_finds_out_that_it_lost_the_store() {
    let mut taken = 0;
    // After each epoch, the next one takes another zone.
    for (epochs, calls) in (0..3).flat_map(|epochs| (0..80).map(move |calls| (epochs, calls))) {
        let device = Simulated::formatted();
        let first = open(&device);
        let ino = file(&first, "file");
        fill(&first, ino, 1, 4).unwrap();
        for _ in 0..epochs {
            first.lock().begin_epoch(&first.device).unwrap();
        }
        let (other, opened) = (device.share(), Arc::new(Mutex::new(None)));
        let to = Arc::clone(&opened);
        device.interrupt_after(calls, move || {
            other.do_not_interrupt();
            *to.lock().unwrap() = Some(Store::open(other, Placement::None));
        });
        let begun = first.lock().begin_epoch(&first.device);
        device.do_not_interrupt();
        let Some(Ok(second)) = opened.lock().unwrap().take() else { continue };
        if begun == Ok(()) {
            assert_eq!(
                first.lock().log.look(&device),
                Err(Error::Taken),
                "after {epochs} epochs and {calls} calls"
            );
        } else {
            assert_eq!(begun, Err(Error::Taken), "after {epochs} epochs and {calls} calls");
            taken += 1;
        }
        assert_eq!(
            first.lock().log.look(&device),
            Err(Error::Taken),
            "after {epochs} epochs and {calls} calls: it stays lost"
        );
        file(&second, "of the second");
        assert_eq!(
            second.sync_all(),
            Ok(()),
            "after {epochs} epochs and {calls} calls, the first: {begun:?}"
        );
        drop((first, second));
        let third = open(&device);
        assert!(is_of(&third, ino, 1, 4), "after {epochs} epochs and {calls} calls");
        let found = third.list(Ino::ROOT, None, 9).unwrap();
        assert_eq!(found.len(), 2, "after {epochs} epochs and {calls} calls: acknowledged, and lost");
    }
    assert!(taken > 0, "no owner lost the store while it began an epoch");
}

/// Another program opens the store between any two calls of a sync, wherever in the zones of the log that lies.
#[test]
fn a_takeover_within_a_sync_loses_nothing() {
    let mut refused = 0;
    for (syncs, calls) in (1..70).step_by(3).flat_map(|syncs| (0..24).map(move |calls| (syncs, calls))) {
        let case = format!("after {syncs} syncs and {calls} calls");
        let device = Simulated::formatted();
        let first = open(&device);
        let ino = file(&first, "file");
        for _ in 0..syncs {
            fill(&first, ino, 1, 1).unwrap();
        }
        let (other, opened) = (device.share(), Arc::new(Mutex::new(None)));
        let to = Arc::clone(&opened);
        device.interrupt_after(calls, move || {
            other.do_not_interrupt();
            *to.lock().unwrap() = Some(Store::open(other, Placement::None));
        });
        let synced = fill(&first, ino, 2, 1);
        device.do_not_interrupt();
        let Some(second) = opened.lock().unwrap().take() else {
            assert_eq!(synced, Ok(()), "{case}");
            continue;
        };
        let second = second.unwrap_or_else(|error| panic!("{case}: {error}"));
        let of_second = file(&second, "of the second");
        for value in 3..9 {
            second.write(of_second, 0, &[value; 2 * BLOCK], 1).unwrap();
            assert_eq!(second.sync(of_second), Ok(()), "{case}, the first: {synced:?}");
            assert!(fill(&first, ino, 9, 1).is_err(), "{case}: acknowledged without the store");
        }
        drop((first, second));
        let third = open(&device);
        assert!(third.list(Ino::ROOT, None, 9).unwrap().len() == 2, "{case}");
        assert!(is_of(&third, of_second, 8, 2), "{case}: the second lost what it synced");
        match synced {
            Ok(()) => assert!(is_of(&third, ino, 2, 1), "{case}: acknowledged, and lost"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "no owner lost the store within a sync");
}
