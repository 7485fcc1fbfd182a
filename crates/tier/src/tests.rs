//! The tier over devices in memory.

use crate::{Config, Control, ControlError, Counters, Mode, OpenError, PolicyKind, Start, TierDevice};
use blockdev::conformance::{self, Memory};
use blockdev::{BlockDevice, Limits, Namespace, Nanos, Operation, Status, Verb};

type Tier = TierDevice<Memory, Memory, Memory>;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SECOND: Nanos = 1_000_000_000;
const KINDS: [PolicyKind; 4] =
    [PolicyKind::Mq, PolicyKind::Smq, PolicyKind::SmqBefore412, PolicyKind::Cleaner];
const MODES: [Mode; 3] = [Mode::Writeback, Mode::Writethrough, Mode::Passthrough];

fn memory(bytes: u64, seed: u64) -> Memory {
    Memory::new(Namespace::plain(1, bytes / 4096, 4096), 32, seed)
}

fn devices(origin: u64, cache: u64) -> (Memory, Memory, Memory) {
    (memory(origin, 1), memory(cache, 2), memory(MIB, 3))
}

const CREATE: Start = Start::Create { seed: 5, replace: false };

/// A tier under a clock of its own.
struct Bench {
    tier: Tier,
    now: Nanos,
}

impl Bench {
    fn open(config: Config, start: Start, devices: (Memory, Memory, Memory)) -> Result<Self, OpenError> {
        let mut now = 0;
        let tier = TierDevice::open(config, start, devices, 0, |tier| {
            now = tier.next_work().max(now);
            now
        })?;
        Ok(Self { tier, now })
    }

    fn new(config: Config, origin: u64, cache: u64) -> Self {
        Self::open(config, CREATE, devices(origin, cache)).expect("a tier is made")
    }

    fn run(&mut self, verb: Verb, lba: u64, blocks: u32, fill: u8) -> (Status, Vec<u8>) {
        let operation = Operation { verb, lba, blocks };
        let data = vec![fill; operation.bytes(self.tier.block_size()) as usize];
        let Ok(()) = self.tier.submit(self.now, 0, &operation, data);
        loop {
            let Ok(done) = self.tier.poll(self.now);
            if let Some(done) = done {
                return (done.status, done.data);
            }
            self.now = self.tier.next_event().max(self.now);
        }
    }

    fn ok(&mut self, verb: Verb, lba: u64, blocks: u32, fill: u8) -> Vec<u8> {
        let (status, data) = self.run(verb, lba, blocks, fill);
        assert!(status.is_success(), "{verb:?} {lba}: {status}");
        data
    }

    fn read(&mut self, lba: u64) -> u8 {
        self.ok(Verb::Read, lba, 1, 0)[17]
    }

    /// Lets time pass. What the tier wants to do in the background, it does.
    fn wait(&mut self, nanos: Nanos) {
        let end = self.now + nanos;
        loop {
            let next = self.tier.next_work().max(self.now);
            if next > end {
                break;
            }
            self.now = next;
            self.tier.settle(self.now);
        }
        self.now = end;
        self.tier.settle(end);
    }

    fn change(&mut self, control: Control) -> Result<(), ControlError> {
        let mut now = self.now;
        let result = self.tier.change(now, control, |tier| {
            now = tier.next_work().max(now);
            now
        });
        self.now = now;
        result
    }

    fn counters(&self) -> Counters {
        *self.tier.core().counters()
    }

    fn reopen(self, config: Config) -> Result<Self, OpenError> {
        Self::open(config, Start::Open, self.tier.into_devices())
    }
}

fn config(chunk: u64, mode: Mode, policy: PolicyKind) -> Config {
    Config { chunk, mode, policy, ..Config::default() }
}

#[test]
fn a_tier_conforms_in_every_mode_with_every_policy() {
    for (n, (mode, policy)) in MODES.iter().flat_map(|mode| KINDS.map(|kind| (*mode, kind))).enumerate() {
        let seed = n as u64;
        let limits = Limits { transfer: 40, write_zeroes: 60, deallocate: 100, copy: 7, append: 1 };
        let origin = Namespace { limits, ..Namespace::plain(1, 3000, 512) };
        let cache =
            Namespace { limits: Limits { transfer: 24, ..Limits::NONE }, ..Namespace::plain(1, 48, 4096) };
        let devices = (
            Memory::new(origin, 3, seed),
            Memory::new(cache, 3, seed + 100),
            Memory::new(
                Namespace {
                    limits: Limits { transfer: 3, ..Limits::NONE },
                    ..Namespace::plain(1, 512, 4096)
                },
                2,
                9,
            ),
        );
        let bench = Bench::open(config(32 * KIB, mode, policy), CREATE, devices).expect("a tier");
        let (mut tier, mut now) = (bench.tier, bench.now);
        conformance::check(&mut tier, seed, 400, |tier| {
            now = match tier.next_event() {
                Nanos::MAX => now + SECOND / 4,
                next => next.max(now),
            };
            now
        });
        let promoted = tier.core().counters().promotions;
        let promotes = mode != Mode::Passthrough && policy != PolicyKind::Cleaner;
        assert_eq!(promoted > 0, promotes, "{mode} {policy}: {promoted} promotions");
    }
}

#[test]
fn everything_is_there_after_a_shutdown_and_dirty_chunks_stay_dirty() {
    for policy in [PolicyKind::Mq, PolicyKind::Smq, PolicyKind::SmqBefore412] {
        let config = config(64 * KIB, Mode::Writeback, policy);
        let mut bench = Bench::new(Config { migration_threshold: 1, ..config }, 8 * MIB, MIB);
        bench.tier.core_mut().set("migration_threshold", "4096").unwrap();
        for round in 0..40 {
            bench.ok(Verb::Write, 3, 1, 7 + round);
            bench.wait(SECOND / 20);
            bench.ok(Verb::Write, 100, 16, 9);
        }
        bench.tier.core_mut().set("migration_threshold", "0").unwrap();
        bench.ok(Verb::Write, 3, 1, 77);
        bench.ok(Verb::Write, 100, 1, 78);
        let before = bench.tier.core().status();
        assert!(before.dirty > 0, "{policy}: {before}");
        assert_eq!(bench.change(Control::Close), Ok(()));
        assert_eq!(bench.run(Verb::Read, 0, 1, 0).0, Status::NAMESPACE_NOT_READY);
        let mut bench = bench.reopen(Config { migration_threshold: 0, ..config }).expect("it opens");
        let after = bench.tier.core().status();
        assert_eq!((after.dirty, after.cache_blocks), (before.dirty, before.cache_blocks), "{policy}");
        assert_eq!([bench.read(3), bench.read(100)], [77, 78]);
    }
}
