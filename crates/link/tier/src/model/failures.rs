//! What a tier does when a device fails, mode by mode.

use crate::{Config, Control, ControlError, Health, Mode, OpenError, Start, TierDevice};
use blockdev::stack::model::{Disk, Power};
use blockdev::{BlockDevice, Limits, Nanos, Operation, Status, Verb, conformance};

const CHUNK: u64 = 64 << 10;
const SECOND: Nanos = 1_000_000_000;
/// Blocks of 512 bytes of a chunk; block 3 is cached, and block `UNCACHED_BLOCK` is not.
const BLOCKS: u64 = CHUNK / 512;
const UNCACHED_BLOCK: u64 = 40 * BLOCKS;

struct Failing {
    power: Power,
    devices: [Disk; 3],
    tier: TierDevice<Disk, Disk, Disk>,
    config: Config,
    now: Nanos,
}

impl Failing {
    /// A tier whose first chunk is cached: dirty in writeback mode.
    fn new(mode: Mode) -> Self {
        Self::seeded(mode, 0)
    }

    fn seeded(mode: Mode, seed: u64) -> Self {
        let power = Power::default();
        let disk = |chunks: u64, n| Disk::new(512, chunks * BLOCKS, Limits::NONE, 3 * seed + n, &power);
        let devices = [disk(64, 1), disk(8, 2), disk(4, 3)];
        let config = Config { chunk: CHUNK, mode, migration_threshold: 0, ..Config::default() };
        let start = Start::Create { seed: 1, replace: false };
        let (tier, now) = Self::open(config, start, &devices, 0).expect("a tier");
        let mut failing = Self { power, devices, tier, config, now };
        for _ in 0..40 {
            assert_eq!(failing.read(3), Ok(0));
            failing.now += SECOND / 10;
            failing.tier.settle(failing.now);
        }
        assert_eq!(failing.tier.core().status().cache_blocks.0, 1);
        assert_eq!(failing.write(3, 7), Ok(()));
        assert_eq!(failing.tier.core().dirty(), u32::from(mode == Mode::Writeback));
        failing
    }

    fn open(
        config: Config,
        start: Start,
        [origin, cache, metadata]: &[Disk; 3],
        mut now: Nanos,
    ) -> Result<(TierDevice<Disk, Disk, Disk>, Nanos), OpenError> {
        let devices = (origin.clone(), cache.clone(), metadata.clone());
        let tier = crate::open(config, start, devices, now, |tier| {
            now = tier.next_work().max(now);
            now
        })?;
        Ok((tier, now))
    }

    fn reopen(&mut self, config: Config) -> Result<(), OpenError> {
        self.reopen_after(config, false)
    }

    fn reopen_after(&mut self, config: Config, power_lost: bool) -> Result<(), OpenError> {
        self.devices.iter().for_each(|disk| {
            disk.fail(0);
            disk.restart(power_lost);
        });
        (self.tier, self.now) = Self::open(config, Start::Open, &self.devices, self.now)?;
        Ok(())
    }

    fn change(&mut self, control: Control) -> Result<(), ControlError> {
        self.tier.control(self.now, control)?;
        loop {
            if let Some(outcome) = self.tier.take_outcome() {
                return outcome;
            }
            self.now = self.tier.next_work().max(self.now);
            self.tier.settle(self.now);
        }
    }

    fn run(&mut self, verb: Verb, lba: u64, data: Vec<u8>) -> Result<u8, Status> {
        let operation = Operation { verb, lba, blocks: u32::from(verb != Verb::Flush) };
        let Ok(()) = self.tier.submit(self.now, 0, &operation, data);
        loop {
            let Ok(done) = self.tier.poll(self.now);
            if let Some(done) = done {
                return done.status.ok().map(|()| done.data.first().copied().unwrap_or(0));
            }
            self.now = self.tier.next_event().max(self.now);
        }
    }

    fn read(&mut self, lba: u64) -> Result<u8, Status> {
        self.run(Verb::Read, lba, vec![0; 512])
    }

    fn write(&mut self, lba: u64, fill: u8) -> Result<(), Status> {
        self.run(Verb::Write, lba, vec![fill; 512]).map(|_| ())
    }

    fn flush(&mut self) -> Result<(), Status> {
        self.run(Verb::Flush, 0, Vec::new()).map(|_| ())
    }
}

#[test]
fn in_writeback_mode_what_is_dirty_fails_until_the_cache_is_back() {
    let mut it = Failing::new(Mode::Writeback);
    assert_eq!(it.flush(), Ok(()));
    it.devices[1].vanish();
    assert!(it.read(3).is_err() && it.write(3, 8).is_err());
    assert_eq!(it.read(UNCACHED_BLOCK), Ok(0));
    assert!(it.write(UNCACHED_BLOCK, 8).is_err() && it.flush().is_err());
    assert_eq!(it.tier.core().status().to_string(), "Fail");
    let refused = Err(ControlError::Degraded("the cache device"));
    assert_eq!(it.tier.control(it.now, Control::WriteBack), refused);
    assert_eq!(it.tier.control(it.now, Control::Close), refused);
    assert_eq!(it.reopen(it.config), Ok(()));
    assert_eq!((it.read(3), it.tier.core().dirty()), (Ok(7), 1));
}

#[test]
fn in_writethrough_mode_the_tier_goes_on_without_its_cache() {
    for both in [false, true] {
        let mut it = Failing::new(Mode::Writethrough);
        it.devices[1].vanish();
        if both {
            it.devices[2].vanish();
        }
        assert_eq!(it.read(3), Ok(7));
        assert_eq!((it.write(3, 8), it.write(UNCACHED_BLOCK, 9), it.flush()), (Ok(()), Ok(()), Ok(())));
        assert_eq!((it.read(3), it.read(UNCACHED_BLOCK)), (Ok(8), Ok(9)));
        // The cache comes back with what it had, and that does not count.
        assert_eq!(it.reopen(it.config), Ok(()));
        assert_eq!((it.read(3), it.tier.core().status().cache_blocks.0), (Ok(8), 0));
    }
}

#[test]
fn after_a_failure_of_metadata_the_next_opening_wants_repair() {
    for (mode, writes) in [(Mode::Writeback, false), (Mode::Writethrough, true)] {
        let mut it = Failing::new(mode);
        // The promotion is recorded, and then everything fails but the mark.
        assert_eq!(it.flush(), Ok(()));
        it.now += 2 * SECOND;
        it.tier.settle(it.now);
        it.devices[2].fail(1_000_000_000);
        assert_eq!(it.tier.control(it.now, Control::Policy(crate::PolicyKind::Mq)), Ok(()));
        let outcome = loop {
            if let Some(outcome) = it.tier.take_outcome() {
                break outcome;
            }
            it.now = it.tier.next_work().max(it.now);
            it.devices[2].fail(if it.tier.core().health() == Health::default() { 1_000_000_000 } else { 0 });
            it.tier.settle(it.now);
        };
        assert!(matches!(outcome, Err(ControlError::Metadata(_))), "{outcome:?}");
        while it.tier.next_work() < Nanos::MAX {
            it.devices[2].fail(0);
            it.now = it.tier.next_work().max(it.now);
            it.tier.settle(it.now);
        }
        let status = it.tier.core().status().to_string();
        assert!(status.ends_with("ro needs_check"), "{status}");
        assert_eq!((it.read(3), it.write(3, 8).is_ok(), it.flush().is_ok()), (Ok(7), writes, writes));
        assert_eq!(it.reopen(it.config), Err(OpenError::NeedsCheck));
        assert_eq!(it.reopen(Config { repair: true, ..it.config }), Ok(()));
        assert_eq!(it.read(3), Ok(if writes { 8 } else { 7 }));
    }
}

#[test]
fn a_read_of_a_clean_chunk_that_the_cache_cannot_give_comes_from_the_origin() {
    let mut it = Failing::new(Mode::Writethrough);
    it.devices[1].fail(1_000_000_000);
    assert_eq!(it.read(3), Ok(7));
    // A write is done on the origin, and the chunk leaves the cache.
    assert_eq!(it.write(3, 8), Ok(()));
    it.devices[1].fail(0);
    assert_eq!((it.tier.core().status().cache_blocks.0, it.read(3)), (0, Ok(8)));
}

#[test]
fn reads_of_a_chunk_that_a_write_takes_out_of_a_failing_cache_come_from_the_origin() {
    for seed in 0..100 {
        let mut it = Failing::seeded(Mode::Writethrough, seed);
        let reads = [3, 5, 7, 11];
        for (tag, lba) in (0..).zip(reads) {
            let operation = Operation { verb: Verb::Read, lba, blocks: 1 };
            let Ok(()) = it.tier.submit(it.now, tag, &operation, vec![0; 512]);
            let operation = Operation { verb: Verb::Write, lba: lba + 1, blocks: 1 };
            let Ok(()) = it.tier.submit(it.now, 100 + tag, &operation, vec![9; 512]);
        }
        it.devices[1].fail(1_000_000_000);
        let mut ended = 0;
        while ended < 2 * reads.len() {
            let Ok(done) = it.tier.poll(it.now);
            match done {
                Some(done) => {
                    assert!(done.status.is_success(), "seed {seed}, request {}: {}", done.tag, done.status);
                    ended += 1;
                }
                None => it.now = it.tier.next_event().max(it.now),
            }
        }
        assert_eq!((it.read(3), it.read(4), it.read(5)), (Ok(7), Ok(9), Ok(0)), "seed {seed}");
    }
}

#[test]
fn flushes_of_a_tier_fail_after_one_that_failed() {
    for (mode, device) in [(Mode::Writeback, 1), (Mode::Writethrough, 0)] {
        let Failing { devices, mut tier, mut now, .. } = Failing::new(mode);
        conformance::check_failed_flush(
            &mut tier,
            |_| devices[device].fail_flush(Some(0)),
            |tier| {
                now = if tier.next_event() < Nanos::MAX { now.max(tier.next_event()) } else { now };
                now
            },
        );
    }
}

#[test]
fn a_flush_of_the_origin_that_failed_fails_all_later_ones() {
    for mode in [Mode::Writeback, Mode::Writethrough] {
        for seed in 0..20 {
            let mut it = Failing::seeded(mode, seed);
            assert_eq!((it.flush(), it.write(UNCACHED_BLOCK, 5)), (Ok(()), Ok(())));
            // In writeback mode the chunk is written back, and called clean.
            it.tier.core_mut().set("migration_threshold", "100000").unwrap();
            assert_eq!(it.write(3, 8), Ok(()));
            it.now += 5 * SECOND;
            it.tier.settle(it.now);
            while it.tier.core().dirty() > 0 {
                it.now = it.tier.next_work().max(it.now);
                it.tier.settle(it.now);
            }
            it.devices[0].fail_flush(Some(0));
            for _ in 0..3 {
                assert!(
                    it.flush().is_err() && it.write(3, 9).is_err() && it.write(UNCACHED_BLOCK, 9).is_err()
                );
            }
            // It is in the cache, and the origin may have lost it.
            assert_eq!((it.read(3), it.read(UNCACHED_BLOCK).is_err()), (Ok(8), true));
            assert_eq!(it.tier.core().status().to_string(), "Fail");
            let refused = Err(ControlError::Degraded("the origin"));
            assert_eq!(it.change(Control::WriteBack), refused);
            assert_eq!(it.change(Control::Close), refused);
            assert_eq!(it.reopen(it.config), Ok(()));
            let found = it.read(3);
            // Only the cache is sure to have it; in the other modes the origin counts, and the host knows that it was not flushed.
            assert!(found == Ok(8) || mode != Mode::Writeback && found == Ok(7), "{mode} {seed}: {found:?}");
        }
    }
}

#[test]
fn everything_is_written_back_when_the_origin_has_flushed_it() {
    let mut it = Failing::new(Mode::Writeback);
    it.devices[0].fail_flush(Some(1));
    assert_eq!((it.change(Control::WriteBack), it.tier.core().dirty()), (Ok(()), 0));
    assert_eq!(it.write(3, 8), Ok(()));
    assert_eq!(it.change(Control::WriteBack), Err(ControlError::Degraded("the origin")));
}

#[test]
fn a_device_that_fails_while_a_shutdown_waits_ends_it() {
    let mut it = Failing::new(Mode::Writeback);
    assert_eq!((it.flush(), it.write(3, 8)), (Ok(()), Ok(())));
    it.devices[1].fail_flush(Some(0));
    let flush = Operation { verb: Verb::Flush, lba: 0, blocks: 0 };
    let Ok(()) = it.tier.submit(it.now, 0, &flush, Vec::new());
    assert_eq!(it.change(Control::Close), Err(ControlError::Degraded("the cache device")));
}

#[test]
fn a_flush_of_the_cache_that_failed_ends_its_use() {
    for seed in 0..20 {
        let mut it = Failing::seeded(Mode::Writeback, seed);
        assert_eq!((it.flush(), it.write(3, 8)), (Ok(()), Ok(())));
        it.devices[1].fail_flush(Some(0));
        assert!(it.flush().is_err() && it.flush().is_err());
        // It may be lost: it is neither read as if nothing had happened nor written to the origin.
        assert!(it.read(3).is_err() && it.write(3, 9).is_err());
        assert_eq!(it.change(Control::Close), Err(ControlError::Degraded("the cache device")));
        assert_eq!(it.reopen(it.config), Ok(()));
        assert!([Ok(7), Ok(8)].contains(&it.read(3)));
        let mut it = Failing::seeded(Mode::Writethrough, seed);
        it.devices[1].fail_flush(Some(0));
        assert_eq!((it.write(3, 8), it.flush(), it.read(3)), (Ok(()), Ok(()), Ok(8)));
        assert_eq!(it.change(Control::Close), Ok(()));
        assert_eq!(it.reopen(it.config), Ok(()));
        assert_eq!((it.tier.core().status().cache_blocks.0, it.read(3)), (0, Ok(8)));
    }
}

#[test]
fn writes_end_where_the_superblock_may_name_writeback_mode() {
    let mut taken = 0;
    for (seed, after) in (0..20).flat_map(|seed| (0..3).map(move |after| (seed, after))) {
        let mut it = Failing::seeded(Mode::Writethrough, seed);
        assert_eq!(it.flush(), Ok(()));
        it.devices[2].fail_flush(Some(after));
        if it.change(Control::Mode(Mode::Writeback)).is_ok() {
            continue;
        }
        let written = it.write(3, 8).and_then(|()| it.flush());
        taken += u32::from(written.is_ok());
        assert_eq!(it.reopen_after(Config { repair: true, ..it.config }, true), Ok(()));
        let found = it.read(3);
        assert!(found == Ok(8) || written.is_err() && found == Ok(7), "{seed} {after}: {found:?}");
    }
    assert!(taken > 0, "before the superblock, nothing is uncertain");
}

/// A session that was killed may have written a superblock that is not durable. The next one reads it, and writes where the table of the
/// superblock before it is: a power cut must not leave that one without its table.
#[test]
fn a_kill_and_then_a_power_cut_at_any_calls_of_an_opening_leave_what_opens() {
    let mut cut = 0;
    for (seed, killed) in (0..3).flat_map(|seed| (8..16).map(move |killed| (seed, killed))) {
        for after in 4..16 {
            let mut it = Failing::seeded(Mode::Writethrough, 100 * seed + killed);
            assert_eq!(it.flush(), Ok(()));
            it.devices.iter().for_each(|disk| disk.restart(false));
            for (calls, power_lost) in [(killed, false), (after, true)] {
                it.power.fails_after(calls);
                let _ = Failing::open(it.config, Start::Open, &it.devices, it.now);
                cut += u64::from(it.power.is_off());
                it.power.restore();
                it.devices.iter().for_each(|disk| disk.restart(power_lost));
            }
            let opened = it.reopen_after(it.config, false);
            assert_eq!(opened, Ok(()), "seed {seed}, killed at call {killed}, power lost at call {after}");
            assert_eq!(it.read(3), Ok(7));
        }
    }
    assert!(cut > 100, "{cut}");
}
