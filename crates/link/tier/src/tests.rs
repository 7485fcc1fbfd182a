//! The tier over devices in memory.

use crate::{
    Config, Control, ControlError, Counters, DeviceId, Mode, OpenError, PolicyKind, Recorded, Start,
    TierDevice,
};
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
        let tier = crate::open(config, start, devices, 0, |tier| {
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
        let origin = Namespace { limits, ..Namespace::plain(1, 1500, 512) };
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
        conformance::check(&mut tier, seed, 80, |tier| {
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

/// Reads one block again and again, each time after a tick.
fn heat(bench: &mut Bench, lba: u64, times: u32) {
    for _ in 0..times {
        bench.ok(Verb::Read, lba, 1, 0);
        bench.wait(SECOND / 10);
    }
}

#[test]
fn the_default_threshold_of_linux_before_4_12_promotes_no_chunk_of_1_mib() {
    let promotions = |policy, chunk: u64, threshold: u64| {
        let config = Config { migration_threshold: threshold, ..config(chunk, Mode::Writeback, policy) };
        let mut bench = Bench::new(config, 64 * MIB, 16 * MIB);
        heat(&mut bench, 5, 40);
        bench.counters().promotions
    };
    for policy in [PolicyKind::Mq, PolicyKind::SmqBefore412] {
        // (migrations + 1) x chunk < 2048 sectors: 1 MiB is 2048 sectors.
        assert_eq!(promotions(policy, 512 * KIB, 2048), 1, "{policy}");
        assert_eq!(promotions(policy, MIB, 2048), 0, "{policy}");
        assert_eq!(promotions(policy, 2 * MIB, 2048), 0, "{policy}");
        assert_eq!(promotions(policy, MIB, 2049), 1, "{policy}");
        // lvm2 raised it to eight chunks in 2019.
        assert_eq!(promotions(policy, MIB, 8 * 2048), 1, "{policy}");
    }
    // Since 4.12 the threshold does not count for promotions.
    assert_eq!(promotions(PolicyKind::Smq, 2 * MIB, 2048), 1);
}

#[test]
fn since_4_12_the_threshold_keeps_chunks_of_more_than_1_mib_from_idle_write_back() {
    let dirty = |chunk: u64| {
        let mut bench = Bench::new(config(chunk, Mode::Writeback, PolicyKind::Smq), 64 * MIB, 16 * MIB);
        heat(&mut bench, 5, 60);
        // A miss: only the origin's requests keep it from being idle.
        bench.ok(Verb::Read, 8000, 1, 0);
        bench.ok(Verb::Write, 5, 1, 1);
        assert_eq!(bench.tier.core().dirty(), 1);
        bench.wait(SECOND * 9 / 10);
        assert_eq!(bench.tier.core().dirty(), 1, "the origin was idle for less than a second");
        bench.wait(3 * SECOND);
        bench.tier.core().dirty()
    };
    assert_eq!([dirty(512 * KIB), dirty(MIB), dirty(2 * MIB)], [0, 0, 1]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let plain = config(64 * KIB, Mode::Writeback, PolicyKind::Smq);
    let open = |config, start, devices| Bench::open(config, start, devices).map(|_| ());
    assert_eq!(open(plain, Start::Open, devices(8 * MIB, MIB)), Err(OpenError::Foreign));
    let error = open(plain, CREATE, (memory(8 * MIB, 1), memory(MIB, 2), memory(32 * KIB, 3))).unwrap_err();
    assert!(error.to_string().starts_with("the metadata device has 32768 bytes, and needs "), "{error}");
    let made = || Bench::new(plain, 8 * MIB, MIB).tier.into_devices();
    assert_eq!(open(plain, CREATE, made()), Err(OpenError::Exists));
    assert_eq!(open(plain, Start::Create { seed: 6, replace: true }, made()), Ok(()));
    let chunk = Config { chunk: 128 * KIB, ..plain };
    let (recorded, asked) = (64 * KIB, 128 * KIB);
    assert_eq!(open(chunk, Start::Open, made()), Err(OpenError::Chunk { recorded, asked }));
    let other = Config { origin: DeviceId([7; 16]), ..plain };
    let error = open(other, Start::Open, made()).unwrap_err();
    assert!(matches!(error, OpenError::OriginId { .. }), "{error}");
    let known = |id| Config { cache: DeviceId([id; 16]), ..plain };
    let of_one = || Bench::new(known(1), 8 * MIB, MIB).tier.into_devices();
    let (recorded, found) = (DeviceId([1; 16]), DeviceId([2; 16]));
    assert_eq!(open(known(2), Start::Open, of_one()), Err(OpenError::CacheId { recorded, found }));
    let (recorded, found) = (DeviceId([1; 16]), DeviceId::default());
    assert_eq!(open(plain, Start::Open, of_one()), Err(OpenError::CacheId { recorded, found }));
    assert_eq!(open(known(1), Start::Open, of_one()), Ok(()));
    // One that was made before its identity was known.
    assert_eq!(open(known(2), Start::Open, made()), Ok(()));
    let (_, cache, metadata) = made();
    let (recorded, found) = (8 * MIB, 9 * MIB);
    let error = OpenError::OriginSize { recorded, found };
    assert_eq!(open(plain, Start::Open, (memory(9 * MIB, 1), cache, metadata)), Err(error));
    assert_eq!(open(Config { contents: false, ..plain }, Start::Open, made()), Err(OpenError::NoContents));
}

#[test]
fn what_is_recorded_shows_without_opening() {
    let mut bench = Bench::new(config(64 * KIB, Mode::Writethrough, PolicyKind::Mq), 8 * MIB, MIB);
    let recorded = |bench: &Bench| Recorded::read(&bench.tier.metadata().contents()[..Recorded::BYTES]);
    let open = recorded(&bench).unwrap();
    assert_eq!((open.chunk, open.chunks, open.origin_bytes), (64 * KIB, 16, 8 * MIB));
    assert_eq!((open.mode, open.policy, open.in_order), (Mode::Writethrough, PolicyKind::Mq, false));
    bench.change(Control::Close).unwrap();
    let closed = recorded(&bench).unwrap();
    assert!(closed.in_order && !closed.needs_check && closed.sequence > open.sequence);
    assert_eq!(Recorded::read(&[0; Recorded::BYTES]), Err(OpenError::Foreign));
}

/// Writes blocks of a device.
fn overwrite(device: &mut Memory, lba: u64, bytes: Vec<u8>) {
    let operation = Operation { verb: Verb::Write, lba, blocks: (bytes.len() / 4096) as u32 };
    let Ok(()) = device.submit(0, 9, &operation, bytes);
    let Ok(done) = device.poll(Nanos::MAX);
    assert!(done.is_some());
}

#[test]
fn damaged_metadata_is_refused_and_one_superblock_is_enough() {
    let plain = config(64 * KIB, Mode::Writeback, PolicyKind::Smq);
    let damage = |blocks: &[usize], byte: usize| {
        let (origin, cache, mut metadata) = Bench::new(plain, 8 * MIB, MIB).tier.into_devices();
        for block in blocks {
            let mut bytes = metadata.contents()[block * 4096..][..4096].to_vec();
            bytes[byte] ^= 1;
            overwrite(&mut metadata, *block as u64, bytes);
        }
        Bench::open(plain, Start::Open, (origin, cache, metadata)).map(|_| ())
    };
    // A new tier has the first of its superblocks only.
    assert!(matches!(damage(&[0], 100), Err(OpenError::Damaged(_))));
    assert_eq!(damage(&[1], 100), Ok(()));
    assert_eq!(damage(&[0], 3), Err(OpenError::Foreign));
    assert!(matches!(damage(&[2], 100), Err(OpenError::Damaged(_))), "the table");
    assert!(matches!(damage(&[0], 12), Err(OpenError::Damaged(_))), "the version, and so the checksum");
}

#[test]
fn after_a_crash_everything_is_dirty_in_writeback_mode_and_what_is_clean_is_dropped_in_writethrough() {
    for (mode, dirty, resident) in [(Mode::Writeback, 1, 1), (Mode::Writethrough, 0, 0)] {
        let plain = config(64 * KIB, mode, PolicyKind::Smq);
        let mut bench = Bench::new(plain, 8 * MIB, MIB);
        heat(&mut bench, 3, 20);
        bench.ok(Verb::Flush, 0, 0, 0);
        let before = bench.tier.core().status();
        assert_eq!((before.dirty, before.cache_blocks), (0, (1, 16)));
        let bench = bench.reopen(Config { migration_threshold: 0, ..plain }).expect("it opens");
        let after = bench.tier.core().status();
        assert_eq!((after.dirty, after.cache_blocks.0), (dirty, resident), "{mode}");
    }
}

#[test]
fn modes_policies_and_places_change_while_it_runs() {
    let plain = config(64 * KIB, Mode::Writeback, PolicyKind::Smq);
    let mut bench = Bench::new(Config { migration_threshold: 0, ..plain }, 8 * MIB, MIB);
    heat(&mut bench, 3, 20);
    bench.ok(Verb::Write, 3, 1, 50);
    assert_eq!(bench.change(Control::Invalidate { begin: 0, end: 1 }), Err(ControlError::NotPassthrough));
    assert_eq!(bench.change(Control::Mode(Mode::Passthrough)), Err(ControlError::NotClean(1)));
    assert_eq!(bench.change(Control::Mode(Mode::Writethrough)), Ok(()));
    // A dirty chunk stays dirty, and is written on the cache only.
    bench.ok(Verb::Write, 3, 1, 51);
    assert_eq!((bench.tier.core().dirty(), bench.tier.origin().contents()[3 * 4096]), (1, 0));
    assert_eq!(bench.change(Control::WriteBack), Ok(()));
    assert_eq!((bench.tier.core().dirty(), bench.tier.origin().contents()[3 * 4096]), (0, 51));
    bench.ok(Verb::Write, 3, 1, 52);
    assert_eq!((bench.tier.core().dirty(), bench.tier.origin().contents()[3 * 4096]), (0, 52));
    assert_eq!(bench.change(Control::Policy(PolicyKind::Mq)), Ok(()));
    assert_eq!(bench.tier.core().status().cache_blocks.0, 1);
    assert_eq!(bench.change(Control::Mode(Mode::Passthrough)), Ok(()));
    let range = Control::Invalidate { begin: 3, end: 17 };
    assert_eq!(bench.change(range), Err(ControlError::Range(16)));
    assert_eq!(bench.change(Control::Invalidate { begin: 0, end: 16 }), Ok(()));
    assert_eq!(bench.tier.core().status().cache_blocks.0, 0);
    assert_eq!(bench.read(3), 52);
}

#[test]
fn passthrough_reads_the_origin_and_a_write_takes_the_chunk_out() {
    let plain = config(64 * KIB, Mode::Writethrough, PolicyKind::Smq);
    let mut bench = Bench::new(plain, 8 * MIB, MIB);
    heat(&mut bench, 3, 20);
    assert_eq!(bench.change(Control::Mode(Mode::Passthrough)), Ok(()));
    let before = bench.counters();
    bench.read(3);
    // The lookup is a hit, and counts as one.
    assert_eq!(bench.counters().read_hits, before.read_hits + 1);
    assert_eq!(bench.tier.core().status().cache_blocks.0, 1);
    bench.ok(Verb::Write, 3, 1, 9);
    let after = bench.counters();
    assert_eq!((after.demotions, after.write_hits), (before.demotions + 1, before.write_hits + 1));
    assert_eq!((bench.tier.core().status().cache_blocks.0, bench.read(3)), (0, 9));
}

#[test]
fn a_cache_grows_and_shrinks_when_it_is_opened() {
    let plain = Config { migration_threshold: 0, ..config(64 * KIB, Mode::Writeback, PolicyKind::Smq) };
    let mut bench = Bench::new(plain, 8 * MIB, MIB);
    for chunk in 0..16 {
        heat(&mut bench, chunk * 16, 20);
        bench.ok(Verb::Write, chunk * 16, 1, 1 + chunk as u8);
    }
    let resident = bench.tier.core().status().cache_blocks.0;
    assert!(resident > 8, "{resident}");
    assert_eq!(bench.change(Control::Close), Ok(()));
    let (origin, cache, metadata) = bench.tier.into_devices();
    let mut grown = memory(2 * MIB, 2);
    overwrite(&mut grown, 0, cache.contents().to_vec());
    let mut bench = Bench::open(plain, Start::Open, (origin, grown, metadata)).expect("a larger cache");
    assert_eq!(bench.tier.core().status().cache_blocks, (resident, 32));
    assert_eq!(bench.read(15 * 16), 16);
    assert_eq!(bench.change(Control::Close), Ok(()));
    let (origin, grown, metadata) = bench.tier.into_devices();
    let mut small = memory(512 * KIB, 2);
    overwrite(&mut small, 0, grown.contents()[..512 << 10].to_vec());
    let refused = Bench::open(plain, Start::Open, (origin, small, metadata)).err();
    assert!(matches!(refused, Some(OpenError::Shrunk { cblock: 8.. })), "{refused:?}");
    // The devices are gone with the tier that did not open. One that is clean can be cut off.
    let clean = Config { mode: Mode::Writethrough, ..plain };
    let mut bench = Bench::new(clean, 8 * MIB, MIB);
    for chunk in 0..16 {
        heat(&mut bench, chunk * 16, 20);
    }
    assert_eq!(bench.change(Control::Close), Ok(()));
    let (origin, cache, metadata) = bench.tier.into_devices();
    let mut small = memory(512 * KIB, 2);
    overwrite(&mut small, 0, cache.contents()[..512 << 10].to_vec());
    let bench = Bench::open(clean, Start::Open, (origin, small, metadata)).expect("a smaller cache");
    let (resident, chunks) = bench.tier.core().status().cache_blocks;
    assert!((1..=8).contains(&resident) && chunks == 8, "{resident} of {chunks}");
}

#[test]
fn the_status_line_has_the_fields_of_dm_cache_in_its_order() {
    let mut bench = Bench::new(config(64 * KIB, Mode::Writeback, PolicyKind::Smq), 8 * MIB, MIB);
    heat(&mut bench, 3, 20);
    let threshold = bench.tier.core_mut().set("migration_threshold", "0");
    assert_eq!(threshold, Ok(()));
    bench.ok(Verb::Write, 3, 1, 1);
    bench.ok(Verb::Write, 100, 1, 1);
    let status = bench.tier.core().status();
    let (hits, misses) = (status.counters.read_hits, status.counters.read_misses);
    assert_eq!(hits + misses, 20);
    // The second write's chunk has its place already, and is not there yet.
    let expected = format!(
        "8 {}/256 128 2/16 {hits} {misses} 1 1 0 1 1 1 writeback 2 migration_threshold 0 smq 0 rw -",
        status.metadata_blocks.0
    );
    assert_eq!(status.to_string(), expected);
    let config = Config { discard_passdown: false, ..config(64 * KIB, Mode::Writethrough, PolicyKind::Mq) };
    let mut bench = Bench::new(config, 8 * MIB, MIB);
    assert_eq!(bench.tier.core_mut().set("read_promote_adjustment", "2"), Ok(()));
    assert!(bench.tier.core_mut().set("read_promote", "2").is_err());
    assert!(bench.tier.core_mut().set("random_threshold", "many").is_err());
    assert_eq!(
        bench.tier.core().status().to_string(),
        "8 6/256 128 0/16 0 0 0 0 0 0 0 2 writethrough no_discard_passdown 2 migration_threshold 2048 mq 10 \
         random_threshold 4 sequential_threshold 512 discard_promote_adjustment 1 read_promote_adjustment 2 \
         write_promote_adjustment 8 rw -"
    );
}

#[test]
fn a_tier_takes_no_more_than_40_bytes_for_a_chunk() {
    for policy in KINDS {
        let chunk = 32 * KIB;
        let count = 1 << 20;
        let plain =
            |bytes: u64| blockdev::Geometry { block_size: 4096, blocks: bytes / 4096, limits: Limits::NONE };
        let geometries = crate::Geometries {
            origin: plain(10 * count * chunk),
            cache: plain(count * chunk),
            metadata: plain(64 * MIB),
        };
        let config = Config { contents: false, ..config(chunk, Mode::Writeback, policy) };
        let core = crate::Core::new(config, &geometries, CREATE, 0).expect("a tier");
        let bytes = core.memory() as f64 / count as f64;
        assert!(bytes <= 40.0, "{policy}: {bytes} bytes");
        println!("{policy}: {bytes:.1} bytes for each chunk");
    }
}

/// Changes one byte of a block.
fn damage(metadata: &mut Memory, block: u64, at: usize) {
    let mut bytes = metadata.contents()[block as usize * 4096..][..4096].to_vec();
    bytes[at] ^= 1;
    overwrite(metadata, block, bytes);
}

/// A tier with dirty chunks that nobody shut down, and the numbers of its blocks of metadata: those of the log.
fn crashed() -> ((Memory, Memory, Memory), u64, u64) {
    let config = config(64 * KIB, Mode::Writeback, PolicyKind::Smq);
    // Both superblocks are there after two sessions.
    let mut bench = Bench::new(config, 8 * MIB, 2 * MIB);
    assert_eq!(bench.change(Control::Close), Ok(()));
    let mut bench = bench.reopen(config).expect("it opens");
    for chunk in 0..12 {
        bench.ok(Verb::WriteFua, chunk * 16, 16, 9);
        bench.wait(3 * SECOND);
        bench.ok(Verb::Write, chunk * 16, 16, chunk as u8 + 1);
        bench.ok(Verb::Flush, 0, 0, 0);
    }
    bench.wait(3 * SECOND);
    let devices = bench.tier.into_devices();
    let contents = devices.2.contents();
    let is_log = |block: &&u64| contents[**block as usize * 4096..].starts_with(b"TRNCTLOG");
    let blocks: Vec<u64> = (0..contents.len() as u64 / 4096).collect();
    let log: Vec<u64> = blocks.iter().filter(is_log).copied().collect();
    assert!(log.len() > 3, "{log:?}");
    (devices, log[0], log.len() as u64)
}

#[test]
fn damage_of_what_was_durable_is_refused_and_never_passed_over() {
    let config = config(64 * KIB, Mode::Writeback, PolicyKind::Smq);
    let open = |config, devices| Bench::open(config, Start::Open, devices).map(|_| ());
    let (devices, first, count) = crashed();
    assert_eq!(open(config, devices), Ok(()));
    for block in first..first + count {
        let (mut devices, ..) = crashed();
        damage(&mut devices.2, block, 100);
        let opened = open(config, devices);
        // What was behind the last one, nobody knows: a power cut may have torn it.
        let last = block == first + count - 1;
        assert_eq!(opened.is_ok(), last, "block {block} of {first} and {count}: {opened:?}");
    }
    for slot in 0..2 {
        for at in [3, 40] {
            let (mut devices, ..) = crashed();
            damage(&mut devices.2, slot, at);
            assert_eq!(open(config, devices), Err(OpenError::SuperblockDamaged));
        }
        let (mut devices, ..) = crashed();
        damage(&mut devices.2, slot, 40);
        // As after a crash: everything is dirty, or the log says that something is missing.
        let repaired = Bench::open(Config { repair: true, ..config }, Start::Open, devices);
        if let Ok(bench) = repaired {
            let status = bench.tier.core().status();
            assert_eq!(status.cache_blocks.0, bench.tier.core().dirty(), "{status}");
        }
    }
}
