//! Hits of the cache, in virtual time: the tier over devices that answer at once.
//!
//!     cargo bench -p tier --bench hits
//!
//! Prints hits per second of CPU time, for the state machine alone and as a block device.

use blockdev::{BlockDevice, Completed, Geometry, Limits, Nanos, Operation, Status, Verb};
use std::collections::VecDeque;
use std::convert::Infallible;
use tier::{Config, Core, Geometries, Mode, PolicyKind, Start, TierDevice};

const CHUNK: u64 = 64 << 10;
/// Chunks of the cache, and of the origin.
const CACHE: u64 = 1 << 16;
const ORIGIN: u64 = 1 << 18;
const COUNT: u64 = 4_000_000;
/// Requests under way at the same time.
const DEPTH: u32 = 16;
const MICROSECOND: Nanos = 1000;

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    nanos / 1e9
}

/// A device without contents.
struct Instant {
    geometry: Geometry,
    done: VecDeque<u32>,
}

impl Instant {
    fn new(bytes: u64) -> Self {
        let geometry = Geometry { block_size: 4096, blocks: bytes / 4096, limits: Limits::NONE };
        Self { geometry, done: VecDeque::new() }
    }
}

impl BlockDevice for Instant {
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn room(&self) -> usize {
        1024 - self.done.len()
    }

    fn submit(&mut self, _: Nanos, tag: u32, _: &Operation, _: Vec<u8>) -> Result<(), Infallible> {
        self.done.push_back(tag);
        Ok(())
    }

    fn poll(&mut self, _: Nanos) -> Result<Option<Completed>, Infallible> {
        let completed = |tag| Completed { tag, status: Status::SUCCESS, data: Vec::new() };
        Ok(self.done.pop_front().map(completed))
    }

    fn next_event(&self) -> Nanos {
        if self.done.is_empty() { Nanos::MAX } else { 0 }
    }
}

/// A block of the warm part of the origin, and whether it is written.
fn request(n: u64, warm: u64) -> Operation {
    let random = rng::mix(n);
    let lba = random % (warm * CHUNK / 4096);
    let verb = if random >> 60 < 5 { Verb::Write } else { Verb::Read };
    Operation { verb, lba, blocks: 1 }
}

fn config(policy: PolicyKind) -> Config {
    let migration_threshold = u64::MAX / 4;
    let (mode, contents) = (Mode::Writeback, false);
    Config { chunk: CHUNK, mode, policy, migration_threshold, contents, ..Config::default() }
}

const START: Start = Start::Create { seed: 1, replace: false };

/// The state machine alone. Hits of each second, and the share of hits.
fn core(policy: PolicyKind) -> (f64, f64) {
    let bytes = |chunks: u64| Instant::new(chunks * CHUNK).geometry;
    let geometries =
        Geometries { origin: bytes(ORIGIN), cache: bytes(CACHE), metadata: Instant::new(64 << 20).geometry };
    let mut core = Core::new(config(policy), &geometries, START, 0).expect("a tier");
    let mut now = 0;
    let mut run = |core: &mut Core, count: u64, warm: u64| {
        let begin = cpu_seconds();
        let before = *core.counters();
        for n in 0..count / u64::from(DEPTH) {
            now += 20 * MICROSECOND;
            core.poll(now);
            for tag in 0..DEPTH {
                core.submit(now, tag, &request(n * u64::from(DEPTH) + u64::from(tag), warm), Vec::new());
            }
            while let Some(sub) = core.next_sub() {
                core.complete(now, sub.id, Status::SUCCESS, sub.data, sub.device);
            }
            while core.next_done().is_some() {}
        }
        let seconds = cpu_seconds() - begin;
        let (after, all) = (*core.counters(), count as f64);
        let hits = after.read_hits + after.write_hits - before.read_hits - before.write_hits;
        (all / seconds, hits as f64 / all)
    };
    // Warm up, and then what counts.
    run(&mut core, COUNT, CACHE / 2);
    run(&mut core, COUNT, CACHE / 2)
}

/// The same as a block device over three others.
fn device(policy: PolicyKind) -> f64 {
    let devices = (Instant::new(ORIGIN * CHUNK), Instant::new(CACHE * CHUNK), Instant::new(64 << 20));
    let mut tier = tier::open(config(policy), START, devices, 0, |_| 0).expect("a tier");
    let mut now = 0;
    let mut run = |tier: &mut TierDevice<Instant, Instant, Instant>| {
        let begin = cpu_seconds();
        for n in 0..COUNT / u64::from(DEPTH) {
            now += 20 * MICROSECOND;
            for tag in 0..DEPTH {
                let operation = request(n * u64::from(DEPTH) + u64::from(tag), CACHE / 2);
                let Ok(()) = tier.submit(now, tag, &operation, Vec::new());
            }
            while let Ok(Some(_)) = tier.poll(now) {}
        }
        COUNT as f64 / (cpu_seconds() - begin)
    };
    run(&mut tier);
    run(&mut tier)
}

fn main() {
    println!("policy    requests/s of the state machine  hits    requests/s as a block device");
    for policy in [PolicyKind::Smq, PolicyKind::SmqBefore412, PolicyKind::Mq] {
        let (rate, hits) = core(policy);
        let of_device = device(policy);
        println!("{policy:<8}  {rate:>12.0}  {:>25.1} %  {of_device:>12.0}", hits * 100.0);
    }
}
