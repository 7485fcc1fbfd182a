//! Who waits for the device, and who does not.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::device::{Append, DeviceError, Run, Shape, Zone, ZoneDevice};
use crate::files::Read;
use crate::open::FormatOptions;
use crate::record::{Attributes, Ino, NewKind};
use crate::simulated::Simulated;
use crate::store::Store;
use crate::{Error, Lifetime, Placement};

const BLOCK: usize = 512;
/// Bytes that go to a zone at once.
const LARGE_WRITE_BYTES: usize = 256 << 10;

/// While it is closed, appends do not end.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it is closed, and how many threads wait for appends.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, closed: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |(closed, _)| *closed).unwrap();
        state.1 -= 1;
    }

    /// Until so many threads wait for appends.
    fn wait_for_waiters(&self, waiters: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(_, waiting)| *waiting < waiters).unwrap());
    }
}

/// Opens the gate when it is dropped, so that a test that fails ends.
struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[derive(Debug)]
struct Gated {
    device: Simulated,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct GatedAppend {
    append: Arc<dyn Append>,
    gate: Arc<Gate>,
}

impl Append for GatedAppend {
    fn wait(&self) -> Result<Vec<Run>, DeviceError> {
        self.gate.pass();
        self.append.wait()
    }

    fn take_back(&self) -> Vec<u8> {
        self.append.take_back()
    }
}

impl ZoneDevice for Gated {
    fn shape(&self) -> Shape {
        self.device.shape()
    }

    fn zones(&self) -> Result<Vec<Zone>, DeviceError> {
        self.device.zones()
    }

    fn zone(&self, zone: u32) -> Result<Zone, DeviceError> {
        self.device.zone(zone)
    }

    fn read(&self, lba: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(lba, buffer)
    }

    fn begin_append(&self, zone: u32, data: &[u8], durable: bool) -> Arc<dyn Append> {
        let append = self.device.begin_append(zone, data, durable);
        Arc::new(GatedAppend { append, gate: Arc::clone(&self.gate) })
    }

    fn reset(&self, zone: u32) -> Result<(), DeviceError> {
        self.device.reset(zone)
    }

    fn finish(&self, zone: u32) -> Result<(), DeviceError> {
        self.device.finish(zone)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }
}

/// A store on zones of 8,000 blocks, of which many may be open.
fn store() -> (Store<Gated>, Arc<Gate>) {
    let shape = Shape { block: BLOCK, zone_blocks: 8192, zones: 48, open: 14, append_blocks: 1024 };
    let gate = Arc::new(Gate::default());
    let device = Gated { device: Simulated::new(shape, 8000, 1), gate: Arc::clone(&gate) };
    Store::format(&device.device, &FormatOptions::default(), [1; 16], 0).unwrap();
    (Store::open(device, Placement::default()).unwrap(), gate)
}

fn file(store: &Store<Gated>, name: &str) -> Ino {
    store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default()).unwrap().ino
}

/// What a thread does with a file that has an append under way.
type Act = fn(&Store<Gated>, Ino) -> Result<(), Error>;

#[test]
fn who_waits_for_an_append_keeps_nobody_else_waiting() {
    let acts: [(&str, Act); 7] = [
        ("truncate", |store, ino| store.truncate(ino, 9, 2)),
        ("punch", |store, ino| store.punch(ino, 0, 4096, 2)),
        ("sync", |store, ino| store.sync(ino)),
        ("sync of everything", |store, _| store.sync_all()),
        ("write of the same blocks", |store, ino| store.write(ino, 100, &[3; 4096], 2)),
        ("read", |store, ino| store.read(ino, 0, &mut [0; 4096]).map(drop)),
        ("append when much is under way", |store, ino| {
            store.append(ino, &vec![4; LARGE_WRITE_BYTES], 2).map(drop)
        }),
    ];
    for (name, act) in acts {
        let (store, gate) = store();
        let (one, other) = (file(&store, "one"), file(&store, "other"));
        store.write(other, 0, &[7; 2 * BLOCK], 1).unwrap();
        store.sync_all().unwrap();
        let _opens = Opens(&gate);
        gate.set(true);
        let most = store.lock().limits.under_way as u64;
        let begun = if name.starts_with("append") { most } else { 1 };
        for piece in 0..begun {
            store.write(one, piece * LARGE_WRITE_BYTES as u64, &vec![1; LARGE_WRITE_BYTES], 1).unwrap();
        }
        thread::scope(|threads| {
            let _opens = Opens(&gate);
            let waits = threads.spawn(|| act(&store, one));
            gate.wait_for_waiters(1);
            // It does not hold the lock, so others go on.
            let free = store.state.try_lock().is_ok();
            assert!(free, "{name}");
            let mut read = [0; 2 * BLOCK];
            assert_eq!(
                store.read_many(other, &mut [Read { offset: 0, buffer: &mut read, length: 0 }]),
                Ok(())
            );
            assert_eq!(read, [7; 2 * BLOCK], "{name}");
            gate.set(false);
            assert_eq!(waits.join().unwrap(), Ok(()), "{name}");
        });
        store.sync_all().unwrap();
    }
}

#[test]
fn a_log_does_not_wait_for_data_of_others() {
    let (store, gate) = store();
    let (table, log) = (file(&store, "table"), file(&store, "log"));
    store.set_xattr(log, Lifetime::XATTR, Some(b"short")).unwrap();
    let limits = store.lock().limits;
    let _opens = Opens(&gate);
    gate.set(true);
    for piece in 0..limits.under_way as u64 {
        store.write(table, piece * LARGE_WRITE_BYTES as u64, &vec![1; LARGE_WRITE_BYTES], 1).unwrap();
    }
    assert!(!store.lock().may_begin(table), "another one would wait");
    // These would not return if they waited.
    for _ in 0..limits.under_way_of_logs {
        store.append(log, &vec![2; LARGE_WRITE_BYTES], 1).unwrap();
    }
    assert!(!store.lock().may_begin(log), "a log has no more than that");
    gate.set(false);
    store.sync_all().unwrap();
    let mut read = [0; 2];
    assert_eq!(store.read(log, LARGE_WRITE_BYTES as u64 - 1, &mut read), Ok(2));
    assert_eq!(read, [2; 2]);
}
