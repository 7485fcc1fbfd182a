//! What a cache does when a device fails, mode by mode.

use crate::{Config, Control, ControlError, LogDevice, Mode, OpenError, Start};
use blockdev::{BlockDevice, Limits, Nanos, Operation, Status, Verb};
use stack::model::{Disk, Power};

const BLOCK: usize = 4096;
/// A block that is cached, and one that is not.
const HERE: u64 = 3;
const AWAY: u64 = 900;

struct Failing {
    devices: [Disk; 2],
    cache: LogDevice<Disk, Disk>,
    config: Config,
    now: Nanos,
}

impl Failing {
    /// A cache that has one block: dirty in writeback mode.
    fn new(mode: Mode) -> Self {
        let power = Power::default();
        let disk = |blocks: u64, seed| Disk::new(4096, blocks, Limits::NONE, seed, &power);
        let devices = [disk(1000, 1), disk(300, 2)];
        let config = Config { bucket: 64 << 10, mode, ..Config::default() };
        let start = Start::Create { seed: 1, replace: false };
        let (cache, now) = Self::open(config, start, &devices, 0).expect("a cache");
        let mut failing = Self { devices, cache, config, now };
        assert_eq!((failing.write(HERE, 7), failing.read(HERE)), (Ok(()), Ok(7)));
        let status = failing.cache.core().status();
        assert_eq!((status.cached, status.dirty), (1, u32::from(mode == Mode::Writeback)));
        failing
    }

    fn open(
        config: Config,
        start: Start,
        [origin, cache]: &[Disk; 2],
        mut now: Nanos,
    ) -> Result<(LogDevice<Disk, Disk>, Nanos), OpenError> {
        let devices = (origin.clone(), cache.clone());
        let cache = crate::open(config, start, devices, now, |cache| {
            now = cache.next_work().max(now);
            now
        })?;
        Ok((cache, now))
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        self.devices.iter().for_each(|disk| {
            disk.fail(0);
            disk.restart(false);
        });
        (self.cache, self.now) = Self::open(self.config, Start::Open, &self.devices, self.now)?;
        Ok(())
    }

    fn run(&mut self, verb: Verb, lba: u64, data: Vec<u8>) -> Result<u8, Status> {
        let operation = Operation { verb, lba, blocks: u32::from(verb != Verb::Flush) };
        let Ok(()) = self.cache.submit(self.now, 0, &operation, data);
        loop {
            let Ok(done) = self.cache.poll(self.now);
            if let Some(done) = done {
                return done.status.ok().map(|()| done.data.first().copied().unwrap_or(0));
            }
            self.now = self.cache.next_event().max(self.now);
        }
    }

    fn read(&mut self, lba: u64) -> Result<u8, Status> {
        self.run(Verb::Read, lba, vec![0; BLOCK])
    }

    fn write(&mut self, lba: u64, fill: u8) -> Result<(), Status> {
        self.run(Verb::Write, lba, vec![fill; BLOCK]).map(|_| ())
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
    assert!(it.read(HERE).is_err() && it.write(HERE, 8).is_err());
    assert_eq!(it.read(AWAY), Ok(0));
    assert!(it.write(AWAY, 8).is_err() && it.flush().is_err());
    assert!(it.cache.core().status().health.cache_failed);
    for control in [Control::WriteBack, Control::Close] {
        assert_eq!(it.cache.control(it.now, control), Err(ControlError::Degraded));
    }
    assert_eq!(it.reopen(), Ok(()));
    assert_eq!((it.read(HERE), it.cache.core().status().dirty), (Ok(7), 1));
}

#[test]
fn in_the_other_modes_the_origin_goes_on_alone() {
    let mut it = Failing::new(Mode::Writethrough);
    it.devices[1].vanish();
    assert_eq!(it.read(HERE), Ok(7));
    assert_eq!((it.write(HERE, 8), it.write(AWAY, 9), it.flush()), (Ok(()), Ok(()), Ok(())));
    assert_eq!((it.read(HERE), it.read(AWAY)), (Ok(8), Ok(9)));
    // The cache comes back with what it had, and that does not count.
    assert_eq!(it.reopen(), Ok(()));
    assert_eq!((it.cache.core().status().cached, it.read(HERE)), (0, Ok(8)));
}

#[test]
fn a_read_that_the_cache_cannot_give_comes_from_the_origin_if_it_is_clean() {
    let mut it = Failing::new(Mode::Writethrough);
    it.devices[1].fail(1_000_000_000);
    assert_eq!(it.read(HERE), Ok(7));
    let mut it = Failing::new(Mode::Writeback);
    it.devices[1].fail(1_000_000_000);
    assert!(it.read(HERE).is_err());
    // One failure of a read is no reason to give the cache up.
    it.devices[1].fail(0);
    assert_eq!((it.read(HERE), it.flush()), (Ok(7), Ok(())));
}

#[test]
fn a_write_that_the_cache_cannot_take_goes_past_it() {
    let mut it = Failing::new(Mode::Writeback);
    it.devices[1].fail(1_000_000_000);
    assert_eq!(it.write(AWAY, 9), Ok(()));
    // The origin has something older of what is dirty, and must not get anything newer.
    assert!(it.write(HERE, 9).is_err());
    it.devices[1].fail(0);
    assert_eq!((it.read(AWAY), it.read(HERE)), (Ok(9), Ok(7)));
}

#[test]
fn after_a_failure_of_the_journal_nothing_is_lost_that_was_durable() {
    let mut it = Failing::new(Mode::Writeback);
    assert_eq!(it.flush(), Ok(()));
    assert_eq!(it.write(HERE, 8), Ok(()));
    it.devices[1].fail(1_000_000_000);
    assert!(it.flush().is_err());
    it.devices[1].fail(0);
    assert!(it.cache.core().status().health.journal_failed);
    assert!(it.write(AWAY, 9).is_err() && it.flush().is_err());
    // The failed flush may have lost it.
    assert!(it.read(HERE).is_err());
    // The write was not durable.
    assert_eq!(it.reopen(), Ok(()));
    assert!(matches!(it.read(HERE), Ok(7 | 8)));
}

#[test]
fn what_the_origin_does_not_take_stays_dirty() {
    let mut it = Failing::new(Mode::Writeback);
    it.devices[0].fail(1_000_000_000);
    assert_eq!(it.cache.control(it.now, Control::WriteBack), Ok(()));
    let outcome = loop {
        if let Some(outcome) = it.cache.take_outcome() {
            break outcome;
        }
        it.now = it.cache.next_work().max(it.now);
        it.cache.settle(it.now);
    };
    assert_eq!(outcome, Err(ControlError::Dirty(1)));
    it.devices[0].fail(0);
    assert_eq!((it.read(HERE), it.cache.core().status().dirty), (Ok(7), 1));
}
