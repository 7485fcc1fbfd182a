//! A load on the tier, with the times that it had on dm-cache.

use super::load::{Load, Step};
use super::{BLOCK, Counts, Log, Row};
use blockdev::conformance::Memory;
use blockdev::{BlockDevice, Completed, Geometry, Namespace, Nanos, Operation, Verb};
use rng::Rng;
use std::convert::Infallible;
use tier::{Config, Control, Mode, PolicyKind, Start, Status, TierDevice};

type Tier = TierDevice<Guest, Guest, Guest>;

/// A device in memory. What a host does not wait for takes a random time, as it does in a guest: parts of more than one block, and flushes.
struct Guest {
    memory: Memory,
    slowest: Nanos,
    rng: Rng,
    /// When which one may end.
    held: Vec<(Nanos, u32)>,
    done: Vec<Completed>,
}

impl Guest {
    fn new(bytes: u64, slowest: Nanos, seed: u64) -> Self {
        let memory = Memory::new(Namespace::plain(1, bytes / BLOCK, BLOCK as u32), 64, seed);
        Guest { memory, slowest, rng: Rng::new(seed), held: Vec::new(), done: Vec::new() }
    }
}

impl BlockDevice for Guest {
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn room(&self) -> usize {
        self.memory.room().saturating_sub(self.done.len())
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Infallible> {
        let slow = part.blocks != 1 && self.slowest > 0;
        let until = if slow { now + self.rng.below(self.slowest) } else { now };
        self.held.push((until, tag));
        self.memory.submit(now, tag, part, data)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Infallible> {
        while let Ok(Some(done)) = self.memory.poll(now) {
            self.done.push(done);
        }
        let may = |done: &Completed| self.held.iter().any(|(until, tag)| *tag == done.tag && *until <= now);
        let Some(at) = self.done.iter().position(may) else { return Ok(None) };
        let done = self.done.swap_remove(at);
        self.held.retain(|(_, tag)| *tag != done.tag);
        Ok(Some(done))
    }

    fn next_event(&self) -> Nanos {
        let held = self.done.iter().filter_map(|done| self.held.iter().find(|(_, tag)| *tag == done.tag));
        held.map(|(until, _)| *until).min().unwrap_or(Nanos::MAX).min(self.memory.next_event())
    }
}

const MIB: u64 = 1 << 20;

struct Replay {
    config: Config,
    tier: Option<Tier>,
    devices: Option<(Guest, Guest, Guest)>,
    made: bool,
    now: Nanos,
}

impl Replay {
    fn new(load: &Load, slowest: Nanos, seed: u64) -> Self {
        let chunk = load.chunk * BLOCK;
        let device = |bytes, number| Guest::new(bytes, slowest, seed ^ number);
        let devices = (device(load.origin * chunk, 1), device(load.cache * chunk, 2), device(4 * MIB, 3));
        let config = Config { chunk, ..Config::default() };
        Replay { config, tier: None, devices: Some(devices), made: false, now: 0 }
    }

    /// All steps, at the times of the log; and the counts after each.
    fn run(&mut self, load: &Load, log: &Log) -> Log {
        // The first row is that of the chunk's size.
        let rows = load.steps.iter().zip(log.0.iter().skip(1)).enumerate().map(|(number, (step, row))| {
            self.pass(row.began);
            self.step(number as u64, step, row.ended);
            Row { counts: self.counts(), ..*row }
        });
        let rows: Vec<Row> = log.0.first().copied().into_iter().chain(rows).collect();
        Log(rows)
    }
}

/// Does a load on a tier at the times that the log has, and counts after each step what the status line says. What a host does not wait for
/// takes up to `slowest` nanoseconds.
pub fn replay(load: &Load, log: &Log, slowest: Nanos, seed: u64) -> Log {
    Replay::new(load, slowest, seed).run(load, log)
}

/// The same, and then a crash. The counts before it, and after the tier is open again.
pub fn after_crash(load: &Load, log: &Log) -> (Counts, Counts) {
    let mut replay = Replay::new(load, 0, 0);
    replay.run(load, log);
    let before = replay.counts();
    replay.devices = replay.tier.take().map(TierDevice::into_devices);
    replay.table(replay.config.mode, replay.config.policy, replay.now);
    (before, replay.counts())
}

impl Replay {
    /// Time passes. What the tier wants to do in the background, it does.
    fn pass(&mut self, until: Nanos) {
        let Some(tier) = &mut self.tier else { return };
        while tier.next_work() <= until {
            self.now = tier.next_work().max(self.now);
            tier.settle(self.now);
        }
        self.now = self.now.max(until);
        tier.settle(self.now);
    }

    fn step(&mut self, number: u64, step: &Step, ends: Nanos) {
        match *step {
            Step::Table(mode, policy) => self.table(mode, policy, ends),
            Step::Remove => self.close(),
            Step::Think(_) | Step::Pause(_) | Step::Until(_) => self.pass(ends),
            Step::Read(lba, blocks) => self.request(number, Verb::Read, lba, blocks, ends),
            Step::Write(lba, blocks) => self.request(number, Verb::Write, lba, blocks, ends),
            Step::Fua(lba, blocks) => self.request(number, Verb::WriteFua, lba, blocks, ends),
            Step::Discard(lba, blocks) => self.request(number, Verb::Trim, lba, blocks, ends),
            Step::Flush => self.request(number, Verb::Flush, 0, 0, ends),
        }
    }

    fn close(&mut self) {
        let Some(mut tier) = self.tier.take() else { return };
        let mut now = self.now;
        let closed = tier.change(now, Control::Close, |tier| {
            now = tier.next_work().max(now);
            now
        });
        closed.expect("it closes");
        self.now = now;
        self.devices = Some(tier.into_devices());
    }

    /// Goes on until nothing is dirty, or nothing more is done about it.
    fn clean(&mut self) {
        let Some(tier) = &mut self.tier else { return };
        while tier.core().status().dirty > 0 && tier.next_work() < Nanos::MAX {
            self.now = tier.next_work().max(self.now);
            tier.settle(self.now);
        }
    }

    fn table(&mut self, mode: Mode, policy: PolicyKind, ends: Nanos) {
        if mode == Mode::Passthrough {
            // The guest's cache was clean, or dm-cache would not have taken the table. Here migrations may be slower than the guest's were.
            self.clean();
        }
        self.close();
        self.config = Config { mode, policy, ..self.config };
        let devices = self.devices.take().expect("the devices");
        let start = if self.made { Start::Open } else { Start::Create { seed: 1, replace: false } };
        // dm-cache begins when the step ends.
        let mut now = self.now.max(ends);
        let tier = tier::open(self.config, start, devices, now, |tier| {
            now = tier.next_work().max(now);
            now
        });
        self.tier = Some(tier.expect("the tier opens"));
        (self.now, self.made) = (now, true);
    }

    fn request(&mut self, number: u64, verb: Verb, lba: u64, blocks: u32, ends: Nanos) {
        let tier = self.tier.as_mut().expect("the tier is open");
        let operation = Operation { verb, lba, blocks };
        let length = operation.bytes(BLOCK as u32) as usize;
        let data = number.to_le_bytes().into_iter().cycle().take(length).collect();
        let Ok(()) = tier.submit(self.now, 0, &operation, data);
        loop {
            let Ok(done) = tier.poll(self.now);
            if let Some(done) = done {
                assert!(done.status.is_success(), "step {number}: {}", done.status);
                break;
            }
            // A request of the guest ends when its answer has come.
            self.now = tier.next_event().max(self.now).max(ends);
        }
    }

    fn counts(&self) -> Counts {
        let Some(tier) = &self.tier else { return Counts::default() };
        let Status { cache_blocks, counters, dirty, .. } = tier.core().status();
        Counts {
            used: cache_blocks.0.into(),
            read_hits: counters.read_hits.cast_signed(),
            read_misses: counters.read_misses.cast_signed(),
            write_hits: counters.write_hits.cast_signed(),
            write_misses: counters.write_misses.cast_signed(),
            demotions: counters.demotions.cast_signed(),
            promotions: counters.promotions.cast_signed(),
            dirty: dirty.into(),
        }
    }
}
