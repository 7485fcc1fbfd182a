//! What keeps a program that lost the store from doing harm, and the log from losing anything: each look, each wait and each rule on its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::device::{Condition, Shape, ZoneDevice};
use crate::error::Error;
use crate::names::Change;
use crate::open::FormatOptions;
use crate::placement::Placement;
use crate::record::{Attributes, Ino, NewKind};
use crate::simulated::Simulated;
use crate::store::Store;
use crate::takeover::{BLOCK, SHAPE, file, fill, is_of, open};

/// A lease that does not end before the test does.
const LEASE: Duration = Duration::from_secs(3600);

/// An act of a program that has lost the store and does not know it.
type Act = fn(&Store<&Simulated>) -> Result<(), Error>;

/// The newest zone of the log that another program has begun.
fn zone_of_log(device: &Simulated) -> u32 {
    (0..3).find(|zone| device.zone(*zone).unwrap().written > 0).unwrap()
}

/// A device with a store whose log has twelve zones.
fn with_a_long_log() -> Simulated {
    let device = Simulated::new(Shape { zones: 40, ..SHAPE }, 48, 1);
    let options = FormatOptions { log_zones: Some(12), ..FormatOptions::default() };
    Store::format(&device, &options, [1; 16], 0).unwrap();
    device
}

#[test]
fn who_lost_the_store_changes_no_zone() {
    let acts: [(&str, Duration, Act); 6] = [
        ("an epoch begins", LEASE, |store| store.lock().begin_epoch(&store.device)),
        ("the log goes on in another zone", LEASE, |store| {
            store.lock().log.append(&store.device, b"some", false)
        }),
        ("a zone of the log is emptied", LEASE, |store| {
            let zone = zone_of_log(store.device);
            store.lock().log.take_back(&store.device, zone)
        }),
        ("a zone of data is emptied", LEASE, |store| store.lock().reset(&store.device, 4)),
        ("a zone of data is finished", LEASE, |store| store.lock().retire(&store.device, 4)),
        ("data is sent", Duration::ZERO, |store| {
            store.lock().limits.direct = 1;
            store.write(file(store, "more"), 0, &[7; BLOCK], 1)
        }),
    ];
    for (name, lease, act) in acts {
        let device = Simulated::formatted();
        device.set_lease(lease);
        let first = open(&device);
        let ino = file(&first, "file");
        for number in 0.. {
            assert!(number < 200, "no zone of the log is full");
            first.write(ino, 0, b"some", 1).unwrap();
            first.sync(ino).unwrap();
            if first.lock().log.has_no_room() {
                break;
            }
        }
        let second = open(&device);
        let zones = device.zones();
        assert_eq!(act(&first), Err(Error::Taken), "{name}");
        assert_eq!(device.zones(), zones, "{name}");
        second.sync_all().unwrap();
    }
}

/// The other program empties the zone and begins its own epoch there.
#[test]
fn an_epoch_in_a_zone_that_was_begun_in_vain_is_seen() {
    let mut tried = 0;
    for (calls, epochs) in (0..12).flat_map(|calls| (0..5).map(move |epochs| (calls, epochs))) {
        let device = Simulated::formatted();
        let first = open(&device);
        device.fail(1_000_000_000, 0);
        let shared = device.share();
        device.interrupt_after(calls, move || shared.fail(0, 0));
        let begun = first.lock().begin_epoch(&first.device);
        device.do_not_interrupt();
        if begun.is_err() || !first.lock().log.has_begun_in_vain() {
            device.fail(0, 0);
            continue;
        }
        tried += 1;
        let second = open(&device);
        for _ in 0..epochs {
            second.lock().begin_epoch(&second.device).unwrap();
        }
        let looked = first.lock().log.look(&first.device);
        assert_eq!(looked, Err(Error::Taken), "{calls} calls, {epochs} epochs");
    }
    assert!(tried > 0);
}

/// The other program has taken all zones of the log.
#[test]
fn who_finds_no_empty_zone_is_told_that_it_lost_the_store() {
    let device = Simulated::formatted();
    let first = open(&device);
    let _second = open(&device);
    for zone in (0..3).filter(|zone| *zone != zone_of_log(&device)) {
        device.finish(zone).unwrap();
    }
    assert_eq!(first.lock().log.claim(&first.device), Err(Error::Taken));
}

/// An owner syncs between any two calls of another program that opens the store, and believes that it still has it.
#[test]
fn an_owner_that_goes_on_while_another_opens_loses_nothing() {
    for lease in [Duration::ZERO, LEASE] {
        let (mut acknowledged, mut refused) = (0, 0);
        for calls in 0..200 {
            let device = Simulated::formatted();
            device.set_lease(lease);
            let first = Arc::new(Store::open(device.share(), Placement::None).unwrap());
            let ino = file(&first, "file");
            fill(&first, ino, 1, 1).unwrap();
            let result = Arc::new(Mutex::new(None));
            let (owner, to) = (Arc::clone(&first), Arc::clone(&result));
            device.interrupt_after(calls, move || *to.lock().unwrap() = Some(fill(&owner, ino, 2, 1)));
            let second = Store::open(device.share(), Placement::None)
                .unwrap_or_else(|error| panic!("{lease:?}, after {calls} calls: {error}"));
            device.do_not_interrupt();
            let Some(synced) = result.lock().unwrap().take() else { break };
            match synced {
                Ok(()) => {
                    acknowledged += 1;
                    assert!(
                        is_of(&second, ino, 2, 1),
                        "{lease:?}, after {calls} calls: acknowledged, and lost"
                    );
                }
                Err(_) => refused += 1,
            }
            assert!(
                fill(&first, ino, 3, 1).is_err(),
                "{lease:?}, after {calls} calls: it has lost the store"
            );
        }
        assert!(acknowledged > 0 && refused > 0, "{lease:?}: {acknowledged} and {refused}");
    }
}

/// A program that begins an epoch is interrupted, and another one takes the store over. That one does not use zones which the first may be about to empty.
#[test]
fn a_zone_that_another_program_may_empty_is_not_used() {
    let mut waited = 0;
    for (epochs, calls) in (1..4).flat_map(|epochs| (0..100).map(move |calls| (epochs, calls))) {
        let device = Simulated::formatted();
        let first = open(&device);
        let ino = file(&first, "file");
        fill(&first, ino, 1, 4).unwrap();
        let (other, begun) = (device.share(), Arc::new(Mutex::new(None)));
        let to = Arc::clone(&begun);
        device.interrupt_after(calls, move || {
            other.do_not_interrupt();
            *to.lock().unwrap() =
                Some(Store::open(other, Placement::None).and_then(|second| {
                    (0..epochs).try_for_each(|_| second.lock().begin_epoch(&second.device))
                }));
        });
        let _ = first.lock().begin_epoch(&first.device);
        device.do_not_interrupt();
        let begun = begun.lock().unwrap().take();
        waited += u32::from(matches!(begun, Some(Err(Error::Device(_)))));
        drop(first);
        let third = open(&device);
        assert!(is_of(&third, ino, 1, 4), "after {epochs} epochs and {calls} calls");
    }
    assert!(waited > 0, "no zone was contested");
}

/// An owner begins an epoch between any two calls of another program that opens the store. Both epochs can have the same number.
#[test]
fn of_two_that_begin_epochs_at_once_one_has_the_store() {
    let (mut opened, mut refused) = (0, 0);
    for (epochs, calls) in (0..3).flat_map(|epochs| (0..150).map(move |calls| (epochs, calls))) {
        let case = format!("after {epochs} epochs and {calls} calls");
        let device = Simulated::formatted();
        device.slow_down();
        let first = Arc::new(Store::open(device.share(), Placement::None).unwrap());
        let ino = file(&first, "file");
        fill(&first, ino, 1, 4).unwrap();
        for _ in 0..epochs {
            first.lock().begin_epoch(&first.device).unwrap();
        }
        let owner = Arc::clone(&first);
        device.interrupt_after(calls, move || drop(owner.lock().begin_epoch(&owner.device)));
        let second = Store::open(device.share(), Placement::None);
        device.do_not_interrupt();
        match &second {
            Ok(second) => {
                opened += 1;
                assert_eq!(first.ask_device(), Err(Error::Taken), "{case}");
                assert_eq!(fill(second, ino, 2, 4), Ok(()), "{case}");
            }
            Err(Error::Taken) => refused += 1,
            Err(error) => panic!("{case}: {error}"),
        }
        let value = if second.is_ok() || fill(&first, ino, 2, 4).is_ok() { 2 } else { 1 };
        drop((first, second));
        assert!(is_of(&open(&device), ino, value, 4), "{case}");
    }
    assert!(opened > 0 && refused > 0, "{opened} and {refused}");
}

/// While another program opens the store, its owner has written a snapshot that is not durable. Then the power fails.
#[test]
fn a_snapshot_that_is_not_durable_replaces_none() {
    for (calls, left) in (0..60).flat_map(|calls| (0..12).map(move |left| (calls, left))) {
        let device = Simulated::formatted();
        let first = Arc::new(Store::open(device.share(), Placement::None).unwrap());
        let ino = file(&first, "file");
        fill(&first, ino, 1, 4).unwrap();
        let (owner, other) = (Arc::clone(&first), device.share());
        device.interrupt_after(calls, move || {
            other.fail(0, 1_000_000_000);
            drop(owner.lock().begin_epoch(&owner.device));
            other.fail(0, 0);
            other.lose_power_after(left);
        });
        let _ = Store::open(device.share(), Placement::None);
        device.do_not_interrupt();
        device.restore_power();
        assert!(is_of(&open(&device), ino, 1, 4), "after {calls} calls, and {left} more");
    }
}

/// An append to the log is so slow that another program uses its zone meanwhile, up to the place where it lands.
#[test]
fn an_append_that_lands_in_a_log_of_others_is_not_acknowledged() {
    let mut met = 0;
    for (syncs, calls) in (1..12).flat_map(|syncs| (0..40).map(move |calls| (syncs, calls))) {
        let case = format!("after {syncs} syncs and {calls} calls");
        let device = Simulated::formatted();
        device.slow_down();
        let first = open(&device);
        let ino = file(&first, "file");
        for _ in 0..syncs {
            fill(&first, ino, 1, 1).unwrap();
        }
        let zone = first.lock().log.chain()[0];
        let (other, has_met) = (device.share(), Arc::new(Mutex::new(false)));
        let to = Arc::clone(&has_met);
        device.interrupt_after(calls, move || {
            other.do_not_interrupt();
            let end = other.zone(zone).unwrap();
            let second = Store::open(other.share(), Placement::None).unwrap();
            let of_second = file(&second, "of the second");
            for value in 0..200 {
                fill(&second, of_second, value, 1).unwrap();
                let is_there = second.lock().log.chain() == [zone];
                *to.lock().unwrap() = is_there && other.zone(zone) == Ok(end);
                if *to.lock().unwrap() {
                    break;
                }
            }
        });
        let synced = fill(&first, ino, 2, 1);
        device.do_not_interrupt();
        met += u32::from(*has_met.lock().unwrap());
        drop(first);
        let third = open(&device);
        assert!(synced.is_err() || is_of(&third, ino, 2, 1), "{case}: acknowledged, and lost");
    }
    assert!(met > 0, "no append landed where the other log had its end");
}

/// A program loses the store, and its last frames land in empty zones of the log. The log can use these zones all the same.
#[test]
fn strays_in_empty_zones_cost_no_zone() {
    let device = Simulated::formatted();
    let store = open(&device);
    let ino = file(&store, "file");
    for value in 0..9 {
        for zone in (0..3).filter(|zone| device.zone(*zone).unwrap().written == 0) {
            device.append(zone, &[9; BLOCK], false).unwrap();
        }
        fill(&store, ino, value, 1).unwrap();
        store.lock().begin_epoch(&store.device).unwrap();
    }
    drop(store);
    assert!(is_of(&open(&device), ino, 8, 1));
}

/// Something that is no frame comes to lie in the log. The log goes on in another zone.
#[test]
fn what_is_no_frame_is_not_passed() {
    let device = Simulated::formatted();
    let store = open(&device);
    let ino = file(&store, "file");
    fill(&store, ino, 1, 1).unwrap();
    let zone = store.lock().log.chain()[0];
    device.append(zone, &[9; 2 * BLOCK], false).unwrap();
    for value in 2..5 {
        fill(&store, ino, value, 1).unwrap();
    }
    drop(store);
    assert!(is_of(&open(&device), ino, 4, 1));
}

/// The first zone of a long log goes offline. When the next one is needed, a new epoch begins, which has everything.
#[test]
fn a_log_that_lost_a_zone_does_not_go_on() {
    let device = with_a_long_log();
    device.set_lease(LEASE);
    let store = open(&device);
    // A snapshot of some zones, so that as much may come behind it.
    for number in 0..180 {
        file(&store, &format!("{number:0200}"));
    }
    store.sync_all().unwrap();
    drop(store);
    let store = open(&device);
    let chain = store.lock().log.chain().to_vec();
    assert!(chain.len() > 1);
    device.wear_out(chain[0], Condition::Offline);
    let ino = file(&store, "file");
    let mut mode = 0;
    while store.lock().log.chain().starts_with(&chain) && store.lock().log.chain().len() == chain.len() {
        mode += 1;
        store.change(ino, &Change { mode: Some(mode), ..Change::default() }, 1).unwrap();
        store.sync_all().unwrap();
    }
    drop(store);
    let store = open(&device);
    assert_eq!(store.stat(ino).unwrap().attributes.mode, mode);
}

/// The newest zone of the log goes offline, and its owner stops while it begins the next epoch. The zone is missed unless that epoch is whole.
#[test]
fn an_epoch_that_is_not_whole_does_not_excuse_a_zone() {
    let (mut opened, mut missed) = (0, 0);
    for calls in 0..12 {
        let device = with_a_long_log();
        let store = open(&device);
        let ino = file(&store, "file");
        let mut value = 0;
        while store.lock().log.chain().len() == 1 {
            value += 1;
            fill(&store, ino, value, 1).unwrap();
        }
        let newest = store.lock().log.chain()[1];
        device.wear_out(newest, Condition::Offline);
        device.lose_power_after(calls);
        let _ = store.lock().begin_epoch(&store.device);
        drop(store);
        device.keep_power();
        match Store::open(&device, Placement::None) {
            Ok(store) => {
                opened += 1;
                assert!(is_of(&store, ino, value, 1), "after {calls} calls: what was synced is lost");
            }
            Err(Error::Damaged(why)) => {
                missed += 1;
                assert!(why.contains(&format!("zone {newest}, which is offline")), "{why}");
            }
            Err(error) => panic!("after {calls} calls: {error}"),
        }
    }
    assert!(opened > 0 && missed > 0, "{opened} and {missed}");
}

/// After a loss of power, more zones have room than may be open, and those that are too many are finished. The next opening still finds the end of the log
/// where the first one found it, which was stopped.
#[test]
fn a_zone_that_lost_data_stays_as_it_is_until_an_epoch_is_durable() {
    const FILES: u8 = 14;
    let mut shorter = 0;
    for (seed, calls) in (0..60).flat_map(|seed| (0..12).map(move |calls| (seed, calls))) {
        let device = Simulated::new(Shape { open: 20, ..SHAPE }, 48, seed);
        Store::format(&device, &FormatOptions::default(), [1; 16], 0).unwrap();
        let store = open(&device);
        let files: Vec<Ino> = (0..FILES).map(|number| file(&store, &number.to_string())).collect();
        store.sync_all().unwrap();
        {
            // Each write goes to the log at once.
            let limits = &mut store.lock().limits;
            (limits.direct, limits.pending) = (1, 0);
        }
        for (ino, value) in files.iter().zip(1..) {
            store.write(*ino, 0, &[value; 48 * BLOCK], 1).unwrap();
        }
        drop(store);
        device.disconnect();
        device.restore_power();
        device.lose_power_after(calls);
        let _ = Store::open(&device, Placement::None);
        device.keep_power();
        let store = open(&device);
        for (ino, value) in files.iter().zip(1..) {
            let size = store.stat(*ino).unwrap().size;
            let blocks = usize::try_from(size).unwrap() / BLOCK;
            assert!(
                is_of(&store, *ino, value, blocks),
                "seed {seed}, {calls} calls: {ino:?} has what was never written"
            );
            shorter += u32::from(blocks < 48);
        }
    }
    assert!(shorter > 0, "nothing was lost");
}

/// Makes files and deletes them, until all zones of data have other contents.
fn churn<D: ZoneDevice>(store: &Store<D>) {
    for number in 0..80 {
        let name = format!("new {number}");
        let ino = store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default()).unwrap().ino;
        fill(store, ino, 3, 48).unwrap();
        store.unlink(Ino::ROOT, name.as_bytes(), 1).unwrap();
        store.sync_all().unwrap();
    }
}

/// While a file is read, it is written anew, and its zone is used for others.
#[test]
fn a_read_of_a_zone_that_is_reset_meanwhile_is_done_again() {
    let device = Simulated::formatted();
    device.slow_down();
    let store = Arc::new(Store::open(device.share(), Placement::None).unwrap());
    let ino = file(&store, "file");
    fill(&store, ino, 1, 48).unwrap();
    let other = Arc::clone(&store);
    device.interrupt_after(0, move || {
        fill(&other, ino, 2, 48).unwrap();
        churn(&other);
    });
    assert!(is_of(&store, ino, 2, 48));
    assert!(store.counters().resets > 26, "its zone was not reset");
}

#[test]
fn who_only_reads_is_told_that_the_owner_went_on() {
    let device = Simulated::formatted();
    let owner = open(&device);
    let ino = file(&owner, "file");
    fill(&owner, ino, 1, 4).unwrap();
    let reader = Store::open_read_only(&device).unwrap();
    assert!(is_of(&reader, ino, 1, 4));
    fill(&owner, ino, 2, 4).unwrap();
    churn(&owner);
    let mut there = vec![0; 4 * BLOCK];
    assert_eq!(reader.read(ino, 0, &mut there), Err(Error::Moved), "it reads {}", there[0]);
}
