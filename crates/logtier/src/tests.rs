//! The cache over devices in memory.

use crate::{
    BLOCK, CacheStatus, Config, ConfigError, Control, ControlError, Geometries, LogDevice, Mode, OpenError,
    OriginId, Replacement, Start,
};
use blockdev::conformance::{self, Memory};
use blockdev::{BlockDevice, Completed, Geometry, Limits, Namespace, Nanos, Operation, Status, Verb};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SECOND: Nanos = 1_000_000_000;
const MODES: [Mode; 3] = [Mode::Writeback, Mode::Writethrough, Mode::Writearound];
const RULES: [Replacement; 3] = [Replacement::Lru, Replacement::Fifo, Replacement::Random];
const CREATE: Start = Start::Create { seed: 5, replace: false };

fn memory(bytes: u64, seed: u64) -> Memory {
    Memory::new(Namespace::plain(1, bytes / BLOCK, BLOCK as u32), 32, seed)
}

/// A device that notes its writes.
struct Noted {
    device: Memory,
    writes: Vec<(u64, u32)>,
}

impl Noted {
    fn new(device: Memory) -> Self {
        Self { device, writes: Vec::new() }
    }
}

impl BlockDevice for Noted {
    type Error = std::convert::Infallible;

    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn room(&self) -> usize {
        self.device.room()
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Self::Error> {
        if part.verb.writes() {
            self.writes.push((part.lba, part.blocks));
        }
        self.device.submit(now, tag, part, data)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Self::Error> {
        self.device.poll(now)
    }

    fn next_event(&self) -> Nanos {
        self.device.next_event()
    }
}

/// A cache under a clock of its own.
struct Bench {
    cache: LogDevice<Noted, Noted>,
    now: Nanos,
}

impl Bench {
    fn open(config: Config, start: Start, (origin, cache): (Memory, Memory)) -> Result<Self, OpenError> {
        let mut now = 0;
        let devices = (Noted::new(origin), Noted::new(cache));
        let cache = crate::open(config, start, devices, 0, |cache| {
            now = cache.next_work().max(now);
            now
        })?;
        Ok(Self { cache, now })
    }

    fn new(config: Config, origin: u64, cache: u64) -> Self {
        Self::open(config, CREATE, (memory(origin, 1), memory(cache, 2))).expect("a cache is made")
    }

    fn run(&mut self, verb: Verb, lba: u64, blocks: u32, fill: u8) -> (Status, Vec<u8>) {
        let operation = Operation { verb, lba, blocks };
        let data = vec![fill; operation.bytes(BLOCK as u32) as usize];
        let Ok(()) = self.cache.submit(self.now, 0, &operation, data);
        loop {
            let Ok(done) = self.cache.poll(self.now);
            if let Some(done) = done {
                return (done.status, done.data);
            }
            self.now = self.cache.next_event().max(self.now);
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

    /// Lets time pass. What the cache wants to do in the background, it does.
    fn wait(&mut self, nanos: Nanos) {
        let end = self.now + nanos;
        loop {
            let next = self.cache.next_work().max(self.now);
            if next > end {
                break;
            }
            self.now = next;
            self.cache.settle(self.now);
        }
        self.now = end;
        self.cache.settle(end);
    }

    fn change(&mut self, control: Control) -> Result<(), ControlError> {
        let mut now = self.now;
        let result = self.cache.change(now, control, |cache| {
            now = cache.next_work().max(now);
            now
        });
        self.now = now;
        result
    }

    fn status(&self) -> CacheStatus {
        self.cache.core().status()
    }

    fn devices(self) -> (Memory, Memory) {
        let (origin, cache) = self.cache.into_devices();
        (origin.device, cache.device)
    }
}

fn config(mode: Mode) -> Config {
    Config { bucket: 64 * KIB, mode, ..Config::default() }
}

#[test]
fn a_cache_conforms_in_every_mode_with_every_rule() {
    for (n, (mode, replacement)) in MODES.iter().flat_map(|mode| RULES.map(|rule| (*mode, rule))).enumerate()
    {
        let seed = n as u64;
        let limits = Limits { transfer: 40, write_zeroes: 60, deallocate: 100, copy: 7, append: 1 };
        let origin = Namespace { limits, ..Namespace::plain(1, 8 * 600, 512) };
        let cache =
            Namespace { limits: Limits { transfer: 24, ..Limits::NONE }, ..Namespace::plain(1, 292, 4096) };
        let devices = (Memory::new(origin, 3, seed), Memory::new(cache, 3, seed + 100));
        let config = Config { replacement, sequential_cutoff: 0, ..config(mode) };
        let Bench { mut cache, mut now } = Bench::open(config, CREATE, devices).expect("a cache");
        conformance::check(&mut cache, seed, 120, |cache| {
            now = match cache.next_event() {
                Nanos::MAX => now + SECOND / 4,
                next => next.max(now),
            };
            now
        });
        let counters = cache.core().status().counters;
        assert!(counters.filled > 0 && counters.reclaimed > 0, "{mode} {replacement}: {counters:?}");
        assert_eq!(counters.written_back > 0, mode == Mode::Writeback, "{mode}: {counters:?}");
    }
}

#[test]
fn buckets_are_written_in_order_only() {
    let mut bench = Bench::new(config(Mode::Writeback), 64 * MIB, 4 * MIB);
    let mut rng = rng::Rng::new(3);
    for n in 0..4000 {
        let (lba, blocks) = (rng.below(16_000), 1 + rng.below(6) as u32);
        match rng.below(3) {
            0 => bench.ok(Verb::Read, lba, blocks, 0),
            _ => bench.ok(Verb::Write, lba, blocks, n as u8),
        };
        if n % 64 == 0 {
            bench.wait(SECOND);
        }
    }
    let (first, bucket) = (bench.cache.core().first_block(), 16);
    let writes = &bench.cache.cache().writes;
    let mut next = std::collections::BTreeMap::new();
    let mut filled = 0;
    for (lba, blocks) in writes.iter().filter(|(lba, _)| *lba >= first) {
        let (number, at) = ((lba - first) / bucket, (lba - first) % bucket);
        let expected = next.entry(number).or_insert(0);
        assert_eq!(at, *expected, "bucket {number}");
        *expected = (at + u64::from(*blocks)) % bucket;
        filled += u64::from(*expected == 0);
    }
    assert!(filled > 300, "{filled} buckets were filled");
}

#[test]
fn streams_in_order_go_past_the_cache() {
    for (cutoff, cached) in [(0, 512), (MIB, 240)] {
        let config = Config { sequential_cutoff: cutoff, ..config(Mode::Writeback) };
        let mut bench = Bench::new(config, 64 * MIB, 8 * MIB);
        for n in 0..32 {
            bench.ok(Verb::Read, n * 16, 16, 0);
        }
        bench.wait(SECOND);
        // The request that reaches the cutoff goes past it.
        assert_eq!(bench.status().cached, cached, "{cutoff}");
    }
}

#[test]
fn what_is_read_stays_with_lru_and_not_with_fifo() {
    for (replacement, stays) in [(Replacement::Lru, true), (Replacement::Fifo, false)] {
        let config = Config { replacement, ..config(Mode::Writethrough) };
        let mut bench = Bench::new(config, 64 * MIB, 4 * MIB);
        for n in 0..64 {
            bench.ok(Verb::Read, n * 4, 2, 0);
        }
        let mut misses = 0;
        for round in 0..200 {
            for n in 0..16 {
                bench.ok(Verb::Read, 2000 + round * 64 + n * 4, 2, 0);
            }
            let before = bench.status().counters.read_misses;
            for n in 0..64 {
                bench.read(n * 4);
            }
            misses += bench.status().counters.read_misses - before;
            bench.wait(SECOND / 10);
        }
        assert_eq!(misses == 0, stays, "{replacement}: {misses} misses");
        assert!(bench.status().counters.reclaimed > 100);
    }
}

#[test]
fn dirty_data_beyond_the_target_goes_back_in_order_and_the_rest_when_hosts_are_idle() {
    let config = Config { dirty_target: 10, writeback_rate: (4 * KIB, 4 * MIB), ..config(Mode::Writeback) };
    let mut bench = Bench::new(config, 64 * MIB, 16 * MIB);
    let target = 3952 / 10;
    for n in 0..1000_u64 {
        bench.ok(Verb::Write, n * 7919 % 16_000, 1, 9);
    }
    assert_eq!(bench.status().dirty, 1000, "a rate, and no time");
    for _ in 0..20 {
        bench.wait(10 * SECOND);
        // Hosts are not idle.
        bench.read(1);
    }
    let dirty = bench.status().dirty;
    assert!(dirty > target - 200 && dirty < target + 200, "{dirty}");
    let writes: Vec<u64> = bench.cache.origin().writes.iter().map(|(lba, _)| *lba).collect();
    let turns = writes.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(turns <= 16 + writes.len() / 4, "{turns} of {}: up to 16 are under way", writes.len());
    bench.wait(60 * SECOND);
    assert_eq!(bench.status().dirty, 0);
    assert_eq!(bench.read(7919), 9);
}

#[test]
fn everything_is_there_after_a_shutdown_and_what_is_clean_is_dropped_after_a_crash() {
    for crash in [false, true] {
        let mut bench = Bench::new(config(Mode::Writeback), 8 * MIB, 2 * MIB);
        bench.ok(Verb::Write, 100, 1, 7);
        bench.ok(Verb::Read, 200, 1, 0);
        bench.ok(Verb::Flush, 0, 0, 0);
        let before = bench.status();
        assert_eq!((before.cached, before.dirty), (2, 1));
        if !crash {
            assert_eq!(bench.change(Control::Close), Ok(()));
            assert_eq!(bench.run(Verb::Read, 0, 1, 0).0, Status::NAMESPACE_NOT_READY);
        }
        let mut bench = Bench::open(config(Mode::Writeback), Start::Open, bench.devices()).expect("it opens");
        let after = bench.status();
        assert_eq!((after.cached, after.dirty), (if crash { 1 } else { 2 }, 1));
        assert_eq!([bench.read(100), bench.read(200)], [7, 0]);
    }
}

#[test]
fn modes_change_while_it_runs_and_everything_is_written_back_on_demand() {
    let mut bench = Bench::new(config(Mode::Writeback), 8 * MIB, 2 * MIB);
    bench.ok(Verb::Write, 3, 2, 50);
    assert_eq!(bench.change(Control::Mode(Mode::Writethrough)), Ok(()));
    // What is dirty stays in the cache, and what is not goes to both.
    bench.ok(Verb::Write, 3, 1, 51);
    bench.ok(Verb::Write, 9, 1, 52);
    let on_origin = |bench: &Bench, lba: usize| bench.cache.origin().device.contents()[lba * 4096];
    assert_eq!((bench.status().dirty, on_origin(&bench, 3), on_origin(&bench, 9)), (2, 0, 52));
    assert_eq!(bench.change(Control::WriteBack), Ok(()));
    assert_eq!((bench.status().dirty, on_origin(&bench, 3), on_origin(&bench, 4)), (0, 51, 50));
    assert_eq!(bench.change(Control::Mode(Mode::Writearound)), Ok(()));
    bench.ok(Verb::Write, 3, 1, 53);
    assert_eq!((bench.status().cached, on_origin(&bench, 3), bench.read(3)), (2, 53, 53));
}

#[test]
fn what_does_not_fit_is_refused() {
    let plain = config(Mode::Writeback);
    let open = |config, start, devices| Bench::open(config, start, devices).map(|_| ());
    let made = || Bench::new(plain, 8 * MIB, 2 * MIB).devices();
    assert_eq!(open(plain, Start::Open, (memory(8 * MIB, 1), memory(2 * MIB, 2))), Err(OpenError::Foreign));
    assert_eq!(open(plain, CREATE, made()), Err(OpenError::Exists));
    assert_eq!(open(plain, Start::Create { seed: 6, replace: true }, made()), Ok(()));
    let bucket = Config { bucket: 128 * KIB, ..plain };
    let error = OpenError::Bucket { recorded: 64 * KIB, asked: 128 * KIB };
    assert_eq!(open(bucket, Start::Open, made()), Err(error));
    let other = Config { origin: OriginId([7; 16]), ..plain };
    let error = open(other, Start::Open, made()).unwrap_err();
    assert!(error.to_string().starts_with("the cache is that of another origin: of 0000"), "{error}");
    let (_, cache) = made();
    let error = OpenError::OriginSize { recorded: 8 * MIB, found: 9 * MIB };
    assert_eq!(open(plain, Start::Open, (memory(9 * MIB, 1), cache)), Err(error));
    assert_eq!(open(Config { contents: false, ..plain }, Start::Open, made()), Err(OpenError::NoContents));
    let refused = |config, origin, cache| open(config, CREATE, (memory(origin, 1), memory(cache, 2)));
    let is = |error: ConfigError| Err(OpenError::Config(error));
    assert_eq!(
        refused(Config { bucket: 96 * KIB, ..plain }, MIB, 2 * MIB),
        is(ConfigError::Bucket(96 * KIB))
    );
    assert_eq!(refused(Config { dirty_target: 71, ..plain }, MIB, 2 * MIB), is(ConfigError::DirtyTarget(71)));
    let too_small = ConfigError::Cache { found: 512 * KIB, needed: 1088 * KIB, bucket: 64 * KIB };
    assert_eq!(refused(plain, MIB, 512 * KIB), is(too_small));
    assert_eq!(refused(plain, MIB, 1088 * KIB), Ok(()));
    let odd = Memory::new(Namespace::plain(1, 2047, 512), 8, 1);
    assert_eq!(open(plain, CREATE, (odd, memory(2 * MIB, 2))), is(ConfigError::Origin(2047 * 512)));
}

/// Writes blocks of a device.
fn overwrite(device: &mut Memory, lba: u64, bytes: Vec<u8>) {
    let operation = Operation { verb: Verb::Write, lba, blocks: (bytes.len() / 4096) as u32 };
    let Ok(()) = device.submit(0, 9, &operation, bytes);
    let Ok(done) = device.poll(Nanos::MAX);
    assert!(done.is_some());
}

#[test]
fn a_damaged_cache_is_refused_and_one_superblock_is_enough() {
    let plain = config(Mode::Writeback);
    let damage = |blocks: &[usize], byte: usize| {
        let mut bench = Bench::new(plain, 8 * MIB, 2 * MIB);
        for n in 0..8 {
            bench.ok(Verb::WriteFua, n * 3, 1, 1);
        }
        let (origin, mut cache) = bench.devices();
        for block in blocks {
            let mut bytes = cache.contents()[block * 4096..][..4096].to_vec();
            bytes[byte] ^= 1;
            overwrite(&mut cache, *block as u64, bytes);
        }
        Bench::open(plain, Start::Open, (origin, cache)).map(|bench| bench.status().dirty)
    };
    // A new cache has the first of its superblocks only.
    assert!(matches!(damage(&[0], 30), Err(OpenError::Damaged(_))));
    assert_eq!(damage(&[1], 30), Ok(8));
    assert_eq!(damage(&[0], 3), Err(OpenError::Foreign));
    // A block of the journal in the middle: what came behind says that it was durable.
    assert!(matches!(damage(&[4], 200), Err(OpenError::Damaged(_))));
    // The last one may be one that a crash tore.
    assert_eq!(damage(&[9], 200), Ok(7));
}

#[test]
fn a_cache_takes_no_more_than_11_and_a_quarter_bytes_for_a_block() {
    let plain = |bytes: u64| Geometry { block_size: 4096, blocks: bytes / 4096, limits: Limits::NONE };
    let geometries = Geometries { origin: plain(40 << 30), cache: plain(12 << 30) };
    let config = Config { contents: false, ..Config::default() };
    let core = crate::Core::new(config, &geometries, CREATE, 0).expect("a cache");
    let status = core.status();
    let blocks = f64::from(status.buckets) * 128.0;
    let bytes = core.memory() as f64 / blocks;
    println!("{bytes:.2} bytes for each block of 4 KiB");
    assert!(bytes <= 11.25, "{bytes}");
}

#[test]
fn nothing_is_written_after_it_was_shut_down() {
    let config = Config { dirty_target: 0, writeback_rate: (64 * KIB, 64 * KIB), ..config(Mode::Writeback) };
    let mut late = 0;
    for seed in 0..60 {
        let mut rng = rng::Rng::new(seed);
        let mut bench = Bench::new(config, 4 * MIB, MIB + 300 * KIB);
        for _ in 0..40 + rng.below(80) {
            let (lba, blocks) = (rng.below(1000), 1 + rng.below(12) as u32);
            bench.ok(Verb::Write, lba, blocks, 7);
            bench.wait(rng.below(SECOND / 2));
        }
        let dirty = bench.status().dirty;
        assert_eq!(bench.change(Control::Close), Ok(()));
        // Write-backs that ended before are said to be clean by the last commit, and make room.
        late += u32::from(bench.status().dirty < dirty);
        let writes = bench.cache.cache().writes.len();
        bench.wait(40 * SECOND);
        assert_eq!(bench.cache.cache().writes.len(), writes, "seed {seed}");
        let opened = Bench::open(config, Start::Open, bench.devices());
        assert!(opened.is_ok(), "seed {seed}: {:?}", opened.err());
    }
    assert!(late > 2, "{late} of 60");
}
