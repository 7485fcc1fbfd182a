//! The loads that are held against dm-cache.

use super::load::{Load, Step};
use tier::{Mode, PolicyKind};

const KIB: u64 = 1 << 10;

/// All of them, with phases that are so many times as long as they need to be.
pub fn loads(seed: u64, times: u64) -> Vec<Load> {
    let mut all = vec![
        full("writeback-32k", 32 * KIB, (1024, 64), Mode::Writeback, seed, times),
        full("writeback-256k", 256 * KIB, (256, 48), Mode::Writeback, seed + 1, times),
        full("writethrough-64k", 64 * KIB, (2048, 96), Mode::Writethrough, seed + 2, times),
        changes(seed + 3),
        discards(seed + 4),
        large("large-1m", 1 << 20, seed + 5),
        large("large-2m", 2 << 20, seed + 6),
    ];
    // What comes after that is a crash.
    for load in &mut all {
        load.step(Step::Pause(1000)).step(Step::Flush);
    }
    all
}

/// Chunks that are as large as the migration threshold, or larger.
fn large(name: &str, chunk: u64, seed: u64) -> Load {
    let mut load = Load::new(name, chunk, 64, 12, seed);
    load.step(Step::Table(Mode::Writeback, PolicyKind::Smq)).step(Step::Think(20_000));
    load.hot(200, 40, 0, 16).phase("hot chunks");
    load.step(Step::Pause(6000)).phase("idle");
    load.hot(200, 0, 20, 16).phase("other chunks");
    load.step(Step::Pause(6000)).phase("idle again");
    load
}

/// Every mode and both policies after each other on the same cache, which is taken away and made again.
fn changes(seed: u64) -> Load {
    use Mode::{Passthrough, Writeback, Writethrough};
    let mut load = Load::new("changes-64k", 64 * KIB, 512, 40, seed);
    load.step(Step::Table(Writeback, PolicyKind::Smq)).step(Step::Think(4000));
    load.stream(true, 0, 24, 16).exact("whole chunks").hot(200, 50, 0, 32).phase("writeback");
    load.step(Step::Table(Writeback, PolicyKind::Smq)).phase("the same again");
    load.hot(200, 50, 0, 32).step(Step::Remove).step(Step::Table(Writeback, PolicyKind::Smq));
    load.phase("taken away and made again");
    load.hot(100, 50, 0, 32).phase("a little more");
    load.step(Step::Table(Writeback, PolicyKind::Cleaner)).uniform(60, 0, 100, 200).phase("the cleaner");
    load.hot(120, 50, 0, 24).phase("writes with the cleaner");
    load.step(Step::Pause(4000)).phase("the cleaner, idle");
    load.step(Step::Table(Passthrough, PolicyKind::Smq)).hot(150, 30, 0, 24).phase("passthrough");
    load.step(Step::Table(Writethrough, PolicyKind::Smq)).hot(300, 40, 0, 40).phase("writethrough");
    load.step(Step::Table(Writeback, PolicyKind::Smq)).hot(200, 40, 0, 40).phase("writeback at last");
    load.step(Step::Pause(4000)).phase("idle");
    load
}

/// Discards, and what is written and read there afterwards.
fn discards(seed: u64) -> Load {
    let mut load = Load::new("discards-64k", 64 * KIB, 512, 64, seed);
    load.step(Step::Table(Mode::Writeback, PolicyKind::Smq)).step(Step::Think(4000));
    load.stream(true, 0, 8, 16).exact("whole chunks");
    // Two of them are in the cache, and the ends are no whole chunks.
    load.step(Step::Discard(6 * 16 + 3, 30 * 16)).exact("a discard");
    load.uniform(60, 100, 7, 28).exact("writes where nothing is");
    load.step(Step::Discard(0, 64 * 16)).uniform(60, 100, 0, 64);
    load.exact("writes in what was cached");
    load.step(Step::Flush).step(Step::Pause(4000)).phase("idle");
    load.uniform(200, 20, 200, 200).phase("elsewhere");
    load
}

/// A cache that becomes full, with everything that a host does.
fn full(name: &str, chunk: u64, (origin, cache): (u64, u64), mode: Mode, seed: u64, times: u64) -> Load {
    let mut load = Load::new(name, chunk, origin, cache, seed);
    let whole = load.chunk as u32;
    load.step(Step::Table(mode, PolicyKind::Smq)).step(Step::Think(4000));
    load.uniform(150, 0, 0, origin).phase("cold reads");
    load.hot(400, 30, 0, cache).phase("hot chunks");
    load.stream(true, 100, cache / 4, whole).phase("whole chunks");
    load.step(Step::Pause(4000)).phase("idle");
    load.hot(600 * times, 50, 0, 4 * cache).phase("more than the cache");
    load.stream(false, 0, 16, 8).step(Step::Flush).phase("a stream");
    load.step(Step::Pause(4000)).phase("idle again");
    load.step(Step::Until(63_000)).phase("a minute");
    load.hot(900 * times, 40, origin / 2, 2 * cache).phase("other chunks");
    load.step(Step::Pause(4000)).phase("idle at last");
    load
}
