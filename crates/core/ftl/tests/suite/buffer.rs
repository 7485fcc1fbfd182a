//! The write buffer at its limits.

use ftl::{
    Answer, CompletedIo, Config, Extent, Ftl, GcConfig, Io, NoContents, SetConfig, SetId, Source, VolumeId,
    Write, ZonesConfig,
};
use media::{Cell, FaultPlan, Geometry, NandConfig, NandTiming, Nanos};

/// Chunks of four pages that hold one each: they fill the buffer and make no whole program unit. It is drained all the same
/// when a write waits for room.
#[test]
fn single_pages_of_large_atomic_units_do_not_jam_the_buffer() {
    let geometry = Geometry {
        dies: 2,
        channels: 1,
        planes: 2,
        superblocks: 16,
        units_per_block: 16,
        unit_pages: 24,
        sense_pages: 4,
        in_place: false,
        rated_cycles: 1000,
    };
    let mut ftl = Ftl::new(Config {
        sets: vec![SetConfig::Nand {
            nand: NandConfig { geometry, cell: Cell::Tlc, timing: NandTiming::default(), durable: false },
            capacity_pages: 6144,
            gc: GcConfig::default(),
            placement: Default::default(),
            policies: Default::default(),
            zones: ZonesConfig::default(),
        }],
        buffer_pages: 24,
        protected: true,
        energy_bytes: 1 << 30,
        atomic_pages: 4,
        durable: false,
        faults: Default::default(),
    })
    .unwrap();
    let volume = ftl.create(SetId(0), 6144 * 4096, &mut NoContents).unwrap();
    let mut done = Vec::new();
    for number in 0..1000u32 {
        let extent = Extent { start: u64::from(number) * 4 * 4096, bytes: 4096 };
        let now = Nanos(u64::from(number));
        match ftl.write(now, Write::new(Io(number), volume, extent, Source::Host), &mut NoContents) {
            Answer::At(_) => {}
            Answer::Later => {
                ftl.poll(now, &mut NoContents, &mut done);
                assert_eq!(done.len(), 1, "write {number} never ends; {}", ftl.describe(SetId(0)));
                done.clear();
            }
            Answer::Failed(fault) => panic!("{fault}"),
        }
    }
}

/// A drive without capacitors, on two dies that take their time.
struct Bench {
    ftl: Ftl,
    volume: VolumeId,
    now: Nanos,
    done: Vec<CompletedIo>,
}

impl Bench {
    fn new(atomic_pages: u32) -> Bench {
        let mut ftl = Ftl::new(Config {
            sets: vec![crate::sets::nand([2, 16, 16, 8], 1000, 1024)],
            buffer_pages: 64,
            protected: false,
            energy_bytes: 1 << 30,
            atomic_pages,
            durable: true,
            faults: Default::default(),
        })
        .unwrap();
        let volume = ftl.create(SetId(0), 1024 * 4096, &mut NoContents).unwrap();
        Bench { ftl, volume, now: Nanos::ZERO, done: Vec::new() }
    }

    fn write(&mut self, page: u64, pages: u32) {
        let extent = Extent { start: page * 4096, bytes: pages * 4096 };
        let answer =
            self.ftl.write(self.now, Write::new(Io(0), self.volume, extent, Source::Host), &mut NoContents);
        assert!(matches!(answer, Answer::At(_)));
        self.audit();
    }

    /// What is in the buffer is on its way to flash from now on, with this fault.
    fn flush(&mut self, io: u32, faults: FaultPlan) {
        self.ftl.set_faults(SetId(0), faults);
        assert_eq!(self.ftl.flush(self.now, Io(io), &mut NoContents), Answer::Later);
        self.ftl.set_faults(SetId(0), FaultPlan::default());
    }

    fn trim(&mut self, page: u64) {
        self.ftl.trim(self.now, self.volume, page * 4096, 4096, &mut NoContents).unwrap();
        self.audit();
    }

    /// Until so many commands are done.
    fn wait(&mut self, done: usize) {
        while self.done.len() < done {
            self.now = self.now.max(self.ftl.next_event().expect("they end"));
            self.ftl.poll(self.now, &mut NoContents, &mut self.done);
            self.audit();
        }
        assert!(self.done.iter().all(|d| d.result.is_ok()));
    }

    fn wait_for_failures(&mut self, failures: u64) {
        while self.ftl.set_stats(SetId(0)).media_failures < failures {
            self.now = self.now.max(self.ftl.next_event().expect("it fails"));
            self.ftl.poll(self.now, &mut NoContents, &mut self.done);
            self.audit();
        }
    }

    fn audit(&self) {
        self.ftl.audit(SetId(0)).unwrap();
    }
}

fn slow() -> FaultPlan {
    FaultPlan { slow_operations: 1_000_000_000, slow_factor: 10, ..FaultPlan::default() }
}

fn failing() -> FaultPlan {
    FaultPlan { fail_programs: 1, ..FaultPlan::default() }
}

#[test]
fn a_version_that_lands_late_does_not_replace_a_newer_one() {
    let mut b = Bench::new(1);
    b.write(7, 1);
    b.flush(1, slow());
    // Is programmed at once, as a Flush waits.
    b.write(7, 1);
    // The third lands last, and takes over what the others find on flash.
    b.ftl.set_faults(SetId(0), FaultPlan { slow_factor: 100, ..slow() });
    b.write(7, 1);
    b.wait(1);
    assert_eq!(b.ftl.allocated_bytes(b.volume), 4096);
}

#[test]
fn what_was_deallocated_is_not_put_back() {
    for gone in [&[1][..], &[0], &[3], &[0, 1, 2], &[0, 1, 2, 3]] {
        let mut b = Bench::new(4);
        b.write(0, 4);
        b.flush(1, failing());
        gone.iter().for_each(|&page| b.trim(page));
        b.wait(1);
        // Once more, while it waits after the failure.
        b.write(4, 4);
        b.flush(2, failing());
        b.wait_for_failures(2);
        gone.iter().for_each(|&page| b.trim(4 + page));
        b.wait(2);
        let left = 2 * (4 - gone.len() as u64);
        assert_eq!(b.ftl.allocated_bytes(b.volume), left * 4096);
    }
}

#[test]
fn nothing_joins_what_was_put_back() {
    let mut b = Bench::new(4);
    b.write(0, 2);
    b.flush(1, failing());
    // What is written now is programmed at once, as a Flush waits. Page 0 goes on in another chunk, page 1 is still that
    // of the first.
    b.ftl.set_faults(SetId(0), slow());
    b.write(0, 1);
    // No die has room for the first when it failed.
    b.write(100, 1);
    b.write(200, 1);
    b.wait_for_failures(1);
    b.write(0, 2);
    b.write(0, 4);
    b.wait(1);
    assert_eq!(b.ftl.allocated_bytes(b.volume), 6 * 4096);
}
