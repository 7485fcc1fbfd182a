//! Several threads write and sync at once, and the power fails. What they do in which order is not the seed's to decide.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rng::Rng;

use crate::device::Shape;
use crate::open::FormatOptions;
use crate::record::{Attributes, Ino, NewKind};
use crate::simulated::Simulated;
use crate::store::Store;
use crate::{Error, Placement};

const THREADS: u64 = 4;

/// What thread `thread` writes at a place of its file.
fn byte(thread: u64, at: u64) -> u8 {
    (at / 7 + thread * 53 + at * at / 4096) as u8 | 1
}

/// Appends to a file until something fails. Counts how much of it is synced.
fn append(
    store: &Store<&Simulated>,
    ino: Ino,
    thread: u64,
    mut rng: Rng,
    synced: &AtomicU64,
) -> Result<(), Error> {
    let mut end = 0;
    // The store is not full before that.
    while end < 40_000 {
        let length = if rng.below(8) == 0 { rng.below(9_000) } else { rng.below(700) } + 1;
        let data: Vec<u8> = (end..end + length).map(|at| byte(thread, at)).collect();
        store.write(ino, end, &data, 1)?;
        end += length;
        if rng.below(3) > 0 {
            store.sync(ino)?;
            synced.store(end, Ordering::Release);
        }
        if rng.below(6) == 0 {
            let mut there = vec![0; data.len()];
            assert_eq!(store.read(ino, end - length, &mut there)?, there.len());
            assert!(there == data, "thread {thread} reads something else at {}", end - length);
        }
    }
    Ok(())
}

#[test]
fn threads_lose_nothing_that_they_synced() {
    let mut all = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let shape = Shape { block: 256, zone_blocks: 64, zones: 48, open: 6, append_blocks: 12 };
        let device = Simulated::new(shape, 48, seed);
        let options = FormatOptions { log_zones: Some(9), ..FormatOptions::default() };
        Store::format(&device, &options, [1; 16], 0).unwrap();
        let store = Store::open(&device, Placement::default()).unwrap();
        {
            let limits = &mut store.lock().limits;
            (limits.file_patches, limits.total_patches) = (rng.below(700), rng.below(1500));
            limits.durable = rng.below(20) as usize;
            limits.direct = 2 + rng.below(20) as usize;
        }
        let files: Vec<Ino> = (0..THREADS)
            .map(|thread| {
                let name = format!("file {thread}");
                let made = store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default());
                made.unwrap().ino
            })
            .collect();
        store.sync_all().unwrap();
        device.lose_power_after(rng.below(900));
        let synced: Vec<AtomicU64> = files.iter().map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            for (thread, (ino, synced)) in (0..).zip(files.iter().zip(&synced)) {
                let (store, rng) = (&store, Rng::new(seed << 8 | thread));
                scope.spawn(move || match append(store, *ino, thread, rng, synced) {
                    Ok(()) | Err(Error::Device(_) | Error::Stopped(_)) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                });
            }
        });
        store.abandon();
        device.disconnect();
        device.restore_power();
        let store = Store::open(&device, Placement::default()).unwrap();
        for (thread, (ino, synced)) in (0..).zip(files.iter().zip(&synced)) {
            let length = synced.load(Ordering::Acquire);
            let mut there = vec![0; length as usize];
            assert_eq!(store.read(*ino, 0, &mut there), Ok(there.len()), "seed {seed}, thread {thread}");
            let wrong = (0..).zip(&there).find(|(at, found)| **found != byte(thread, *at));
            assert_eq!(wrong, None, "seed {seed}, thread {thread}");
            all += length;
        }
    }
    assert!(all > 100_000, "little was synced before the power failed: {all} bytes");
}
