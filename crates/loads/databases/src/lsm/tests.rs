//! The engine as a whole, on a drive that takes a fixed time for each request.
//!
//!     TRANCHE_LSM_SEEDS=100 cargo test --profile suite -p workload --lib lsm      (a campaign)

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use workload::{Actor, Nanos, Next, Request, Verb, ZoneAction};

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("TRANCHE_LSM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A small database: 20,000 records of 400 bytes in tables of 256 KiB.
fn config(seed: u64) -> Config {
    Config {
        write_buffer: 1 << 20,
        level_base: 2 << 20,
        multiplier: 4,
        table: 256 << 10,
        compactions: 4,
        compaction_read: 128 << 10,
        compaction_write: 64 << 10,
        log_write: 64 << 10,
        cache: 256 << 10,
        soft_pending: 64 << 20,
        hard_pending: 256 << 20,
        ..Config::db_bench(20_000, 20, 800, 400, seed)
    }
}

fn conventional() -> Conventional {
    Conventional::new(ConventionalConfig { blocks: 40 << 8, block_bytes: 4096, discard: false })
}

fn zoned(placement: Placement) -> Zoned {
    Zoned::new(ZonedConfig {
        zones: 80,
        size: 256,
        capacity: 160,
        block_bytes: 4096,
        active: 14,
        placement,
        reserve: 2,
        finish: 20,
    })
}

/// Sections are zones, or segments of two writes.
fn f2fs(zones: bool) -> F2fs {
    let (sections, size, capacity) = if zones { (80, 256, 160) } else { (320, 32, 32) };
    F2fs::new(F2fsConfig { sections, size, capacity, spare: 9, reserve: 4, zones })
}

/// A drive that answers each request after 100 us, which checks what is asked of zones and that nothing is read that was not written.
struct Drive {
    under_way: BTreeMap<(Nanos, u64), Request>,
    tags: BTreeSet<u32>,
    written: BTreeSet<u64>,
    /// Blocks from a zone to the next, and write pointers.
    zones: Option<(u64, BTreeMap<u64, u64>)>,
    now: Nanos,
    serial: u64,
    requests: u64,
    digest: u64,
}

impl Drive {
    fn new(zones: Option<u64>) -> Self {
        Drive {
            under_way: BTreeMap::new(),
            tags: BTreeSet::new(),
            written: BTreeSet::new(),
            zones: zones.map(|size| (size, BTreeMap::new())),
            now: 0,
            serial: 0,
            requests: 0,
            digest: 0,
        }
    }

    fn submit(&mut self, request: Request, seed: u64) {
        assert!(self.tags.insert(request.tag), "seed {seed}: a tag that is in use");
        let blocks = request.lba..request.lba + u64::from(request.blocks);
        match request.verb {
            Verb::Write => {
                if let Some((size, pointers)) = &mut self.zones {
                    let pointer = pointers.entry(request.lba / *size).or_default();
                    assert_eq!(request.lba % *size, *pointer, "seed {seed}: beside the write pointer");
                    *pointer += u64::from(request.blocks);
                }
                self.written.extend(blocks);
            }
            Verb::Read => {
                assert!(
                    blocks.clone().all(|lba| self.written.contains(&lba)),
                    "seed {seed}: nothing is there"
                );
            }
            Verb::Zone(ZoneAction::Reset) => {
                let Some((size, pointers)) = &mut self.zones else { panic!("seed {seed}: no zones") };
                let zone = request.lba..request.lba + *size;
                for other in self.under_way.values().filter(|other| other.blocks > 0) {
                    assert!(!zone.contains(&other.lba), "seed {seed}: {other:?} is under way at a reset");
                }
                pointers.remove(&(request.lba / *size));
                self.written.retain(|lba| !zone.contains(lba));
            }
            _ => {}
        }
        for word in [request.lba, request.blocks.into(), self.now] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
        self.requests += 1;
        self.serial += 1;
        self.under_way.insert((self.now + 100_000, self.serial), request);
    }

    fn run<S: FileSpace>(&mut self, engine: &mut Engine<S>, until: Nanos, seed: u64) {
        while self.now < until {
            let wake = match engine.next(self.now) {
                Next::Submit(request) => {
                    self.submit(request, seed);
                    continue;
                }
                Next::At(at) => at,
                Next::Wait => Nanos::MAX,
                Next::Done => return,
            };
            match self.under_way.first_key_value() {
                Some((&(at, _), _)) if at <= wake => {
                    self.now = at;
                    let Some((_, request)) = self.under_way.pop_first() else { return };
                    self.tags.remove(&request.tag);
                    engine.completed(self.now, request.tag, true);
                }
                _ => {
                    assert_ne!(
                        wake,
                        Nanos::MAX,
                        "seed {seed}: it waits for what never comes: {}",
                        engine.state()
                    );
                    self.now = wake;
                }
            }
        }
    }
}

const SECOND: Nanos = 1_000_000_000;

fn play<S: FileSpace>(space: S, zones: Option<u64>, seed: u64) -> (Engine<S>, Drive) {
    let mut engine = Engine::new(config(seed), space, 4096);
    let mut drive = Drive::new(zones);
    for step in 1..=24 {
        drive.run(&mut engine, step * SECOND / 20, seed);
        engine.check().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        if step == 12 {
            engine.change_load(drive.now, |config| config.readers = 4);
        }
    }
    (engine, drive)
}

#[test]
fn levels_hold_and_nothing_is_read_that_is_gone() {
    for seed in seeds() {
        let (engine, _) = play(conventional(), None, seed);
        let counts = engine.counts();
        assert!(counts.writes > 50_000 && counts.reads > 500, "seed {seed}: {counts:?}");
        assert!(counts.compactions > 50 && counts.failed == 0, "seed {seed}: {counts:?}");
        for placement in [Placement::None, Placement::Lifetime, Placement::Overlap] {
            let (engine, _) = play(zoned(placement), Some(256), seed);
            let counts = engine.counts();
            assert!(counts.writes > 50_000 && counts.reads > 500, "seed {seed}, {placement:?}: {counts:?}");
            assert!(engine.usage().resets > 10, "seed {seed}, {placement:?}: {:?}", engine.usage());
        }
        for zones in [false, true] {
            let (engine, _) = play(f2fs(zones), zones.then_some(256), seed);
            let counts = engine.counts();
            assert!(counts.writes > 50_000 && counts.reads > 500, "seed {seed}, f2fs {zones}: {counts:?}");
            assert_eq!(engine.usage().resets > 10, zones, "seed {seed}: {:?}", engine.usage());
        }
    }
}

#[test]
fn what_is_written_is_what_is_counted() {
    let (engine, drive) = play(conventional(), None, 1);
    let counts = engine.counts();
    let to: u64 = counts.written_to.iter().sum();
    assert_eq!(to, counts.flush_bytes + counts.compaction_written);
    // Tables have each key once at most in a level below 0.
    let keys = |level| engine.level(level).map_or(0, |(_, bytes)| bytes / 428);
    assert!((1..7).all(|level| keys(level) <= 20_000));
    assert!((1..7).any(|level| keys(level) > 10_000), "the keys have gone down");
    assert!(counts.amplification() > 2000, "{counts:?}");
    assert!(drive.requests > 1000);
    let user = counts.writes * 843;
    assert_eq!(counts.user_bytes, user);
    assert!(counts.log_bytes.abs_diff(user) * 20 < user, "{counts:?}");
}

#[test]
fn equal_seeds_give_equal_requests() {
    let digest = |seed| play(zoned(Placement::Lifetime), Some(256), seed).1.digest;
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}

#[test]
fn limits_of_rates_are_kept() {
    let mut config = Config { write_limit: 4 << 20, ..config(1) };
    config.rate_limit = 8 << 20;
    let mut engine = Engine::new(config, conventional(), 4096);
    let mut drive = Drive::new(None);
    drive.run(&mut engine, 4 * SECOND, 1);
    let counts = engine.counts();
    let mib = counts.user_bytes as f64 / f64::from(1 << 20);
    assert!((15.0..=16.1).contains(&mib), "{mib}");
    let background = (counts.flush_bytes + counts.compaction_written) as f64 / f64::from(1 << 20);
    assert!(background > 8.0 && background < 33.0, "{background}");
}

#[test]
fn writes_stop_where_flushes_are_behind() {
    // A flush that takes longer than the memtable lasts.
    let mut config = config(1);
    config.rate_limit = 1 << 20;
    let mut engine = Engine::new(config, conventional(), 4096);
    Drive::new(None).run(&mut engine, 3 * SECOND, 1);
    let counts = engine.counts();
    assert!(counts.stopped[0] > SECOND, "{counts:?}");
    let (writes, _) = engine.latencies();
    assert!(writes.max() > SECOND / 10);
}
