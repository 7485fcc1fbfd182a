//! A set that answers reads later: a disk.

use super::*;
use crate::answer::Source;
use crate::layer::persist::Restorer;
use crate::storage::{NoContents, StorageError};
use media::MemoryKind;
use media::disk::cache::CacheConfig;
use media::disk::drive::Scheduling;
use media::disk::shape::{DiskShape, SeekTimes};

const SET: SetId = SetId(0);
const DISK_LATENCY: u64 = 5000;

/// A small disk, of which a request takes [`DISK_LATENCY`] at least; or as much persistent memory.
fn drive(late: bool, faults: FaultPlan) -> (Ftl, VolumeId) {
    let memory = MemoryConfig {
        kind: MemoryKind::Pmem,
        pages: 512,
        banks: 4,
        read_latency: Nanos(100),
        write_latency: Nanos(100),
        bytes_per_second: Default::default(),
        rated_cycles: u32::MAX,
        durable: true,
    };
    let seek = SeekTimes { track: Nanos(1_000), average: Nanos(10_000), full: Nanos(20_000) };
    let shape = DiskShape {
        rpm: 100_000,
        heads: 1,
        cylinders: 100,
        zones: 1,
        outer_sectors: 60,
        inner_sectors: 60,
        sector_bytes: 512,
        read_seek: seek,
        write_seek: seek,
        head_switch: [Nanos(1_000); 2],
        overhead: Nanos(DISK_LATENCY),
        link: 0,
        cache: CacheConfig { segments: 0, ..CacheConfig::default() },
        write_cache: false,
        write_buffer: 0,
        scheduling: Scheduling::Fcfs,
    };
    let set = match late {
        true => SetConfig::Disk { shape, capacity_pages: 512, timed: true },
        false => SetConfig::Memory { memory, volatile: false },
    };
    let config = Config {
        sets: vec![set],
        buffer_pages: 0,
        protected: true,
        energy_bytes: 0,
        atomic_pages: 1,
        durable: true,
        faults,
    };
    let mut ftl = Ftl::new(config).expect("a good configuration");
    let volume = ftl.create(SET, 1 << 20, &mut NoContents).expect("space");
    (ftl, volume)
}

fn page(number: u64) -> Extent {
    Extent { start: number * u64::from(PAGE), bytes: PAGE }
}

/// Writes the first page.
fn write(ftl: &mut Ftl, volume: VolumeId, now: Nanos) -> Nanos {
    match ftl.write(now, Write::new(Io(0), volume, page(0), Source::Host), &mut NoContents) {
        Answer::At(at) => at,
        Answer::Later => all_done(ftl)[0].at,
        answer => panic!("{answer:?}"),
    }
}

/// What is done when everything has ended.
fn all_done(ftl: &mut Ftl) -> Vec<CompletedIo> {
    let mut done = Vec::new();
    while let Some(at) = ftl.next_event() {
        ftl.poll(at, &mut NoContents, &mut done);
        assert!(done.iter().all(|d| d.at <= at), "answered before its time: {done:?}");
    }
    done
}

#[test]
fn a_read_that_is_answered_later_ends_as_a_write_does() {
    let (mut ftl, volume) = drive(true, FaultPlan::default());
    let now = write(&mut ftl, volume, Nanos::ZERO);
    let reads = [
        ftl.read(now, Io(1), volume, page(0), &mut NoContents),
        ftl.compare(now, Io(2), volume, page(0), &mut NoContents),
        ftl.verify(now, Io(3), volume, page(0), &mut NoContents),
        ftl.read_medium(now, Io(4), volume, page(0), &mut NoContents),
    ];
    assert_eq!(reads, [Answer::Later; 4]);
    let done = all_done(&mut ftl);
    assert_eq!(
        done.iter().map(|d| (d.io.0, d.result)).collect::<Vec<_>>(),
        [1, 2, 3, 4].map(|io| (io, Ok(())))
    );
    assert!(done.iter().all(|d| d.at >= now + Nanos(DISK_LATENCY + 100)), "{done:?}");
    // They count as any others.
    assert_eq!(ftl.set_stats(SET).host_read_bytes, 4 * u64::from(PAGE));
    assert_eq!(ftl.volume_stats(volume).host_read_bytes, 4 * u64::from(PAGE));
}

#[test]
fn what_the_medium_cannot_give_is_said_later_and_what_is_wrong_at_once() {
    let faults = FaultPlan { seed: 1, uncorrectable_reads: 1_000_000_000, ..FaultPlan::default() };
    let (mut ftl, volume) = drive(true, faults);
    let now = write(&mut ftl, volume, Nanos::ZERO);
    assert_eq!(ftl.read(now, Io(1), volume, page(0), &mut NoContents), Answer::Later);
    assert_eq!(
        ftl.read(now, Io(2), volume, page(256), &mut NoContents),
        Answer::Failed(Fault::OutOfRange),
        "beyond the volume"
    );
    let done: Vec<_> = all_done(&mut ftl).iter().map(|d| (d.io.0, d.result)).collect();
    assert_eq!(done, [(1, Err(Fault::Unrecovered))]);
}

#[test]
fn power_takes_reads_that_wait_for_their_answers() {
    let (mut ftl, volume) = drive(true, FaultPlan::default());
    let now = write(&mut ftl, volume, Nanos::ZERO);
    assert_eq!(ftl.read(now, Io(1), volume, page(0), &mut NoContents), Answer::Later);
    ftl.power_cut(now, true, &mut NoContents);
    ftl.recover(now, &mut NoContents);
    assert_eq!(all_done(&mut ftl), []);
}

/// Contents that only count what is loaded.
#[derive(Default)]
struct Counting(u32);

impl Storage for Counting {
    fn allocate(&mut self) -> Option<Slot> {
        NoContents.allocate()
    }
    fn retain(&mut self, _: Slot) {}
    fn release(&mut self, _: Slot) {}
    fn forget_slots(&mut self) {}
    fn store(&mut self, _: Io, _: Piece, _: Slot, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn store_zeros(&mut self, _: Io, _: Piece, _: Slot, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn splice(&mut self, _: Slot, _: Slot, _: Range<u32>, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn load(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<(), StorageError> {
        self.0 += 1;
        Ok(())
    }
    fn compare(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<bool, StorageError> {
        Ok(true)
    }
    fn record(&mut self, _: Record<'_>) {}
}

/// The owner of contents sees the same calls in both cases.
#[test]
fn contents_are_loaded_before_the_call_returns() {
    for late in [false, true] {
        let (mut ftl, volume) = drive(late, FaultPlan::default());
        let mut storage = Counting::default();
        let extent = Extent { start: 512, bytes: 3 * PAGE };
        let answer = ftl.read(Nanos::ZERO, Io(1), volume, extent, &mut storage);
        assert_eq!((answer == Answer::Later, storage.0), (late, 4));
    }
}

/// A thread owns a drive, and another may have made it.
#[test]
fn a_drive_may_go_to_another_thread() {
    fn goes<T: Send + 'static>() {}
    goes::<Ftl>();
    goes::<Restorer>();
}
