//! A cache, what happens to it, and what must be true then.

use super::disk::{Disk, Power};
use super::oracle::{Oracle, SECTOR, Stamp, contents};
use crate::{BLOCK, Config, Control, ControlError, LogDevice, Mode, OpenError, Replacement, Start};
use blockdev::{BlockDevice, Completed, Geometry, Limits, Nanos, Operation, Verb};
use rng::Rng;
use std::collections::BTreeMap;

type Cache = LogDevice<Disk, Disk>;

const SECOND: Nanos = 1_000_000_000;
const PER: u64 = BLOCK / SECTOR as u64;

/// What happened in a run.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) hits: u64,
    pub(crate) filled: u64,
    pub(crate) written: u64,
    pub(crate) written_back: u64,
    pub(crate) reclaimed: u64,
    pub(crate) commits: u64,
    /// Blocks of the journal.
    pub(crate) journal: u64,
    pub(crate) journal_peak: u64,
    pub(crate) flushes: u64,
    pub(crate) power_cuts: u64,
    pub(crate) cuts_in_opening: u64,
    pub(crate) kills: u64,
    pub(crate) vanished: u64,
    pub(crate) closed: u64,
    pub(crate) changes: u64,
    pub(crate) failed_requests: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.hits += other.hits;
        self.filled += other.filled;
        self.written += other.written;
        self.written_back += other.written_back;
        self.reclaimed += other.reclaimed;
        self.commits += other.commits;
        self.journal += other.journal;
        self.journal_peak = self.journal_peak.max(other.journal_peak);
        self.flushes += other.flushes;
        self.power_cuts += other.power_cuts;
        self.cuts_in_opening += other.cuts_in_opening;
        self.kills += other.kills;
        self.vanished += other.vanished;
        self.closed += other.closed;
        self.changes += other.changes;
        self.failed_requests += other.failed_requests;
    }
}

/// A request under way.
struct UnderWay {
    operation: Operation,
    stamp: Stamp,
    /// The oracle's clock when it began.
    began: u64,
}

pub(crate) struct World {
    seed: u64,
    rng: Rng,
    power: Power,
    origin: Disk,
    cache: Disk,
    config: Config,
    open: Option<Cache>,
    now: Nanos,
    oracle: Oracle,
    under_way: BTreeMap<u32, UnderWay>,
    next_tag: u32,
    next_stamp: Stamp,
    /// Requests may fail: a device fails or is gone.
    failing: bool,
    doing: &'static str,
    counts: Counts,
}

fn limits(rng: &mut Rng) -> Limits {
    let transfer = [8, 16, 24, 64, 256][rng.below(5) as usize];
    let write_zeroes = [8, 40, 4096][rng.below(3) as usize];
    Limits { transfer, write_zeroes, deallocate: [64, 4096][rng.below(2) as usize], ..Limits::NONE }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let power = Power::default();
        let of_cache = [512, 512, 4096][rng.below(3) as usize];
        let blocks = 100 + rng.below(300);
        let origin = Disk::new(512, blocks * PER, limits(&mut rng), seed ^ 1, &power);
        // Two superblocks, the journal, and a few buckets.
        let cache_bytes = (144 + 16 * (8 + rng.below(8)) + rng.below(16)) * BLOCK;
        let cache_limits = Limits { transfer: 8 + rng.below(70) as u32, ..limits(&mut rng) };
        let cache = Disk::new(of_cache, cache_bytes / u64::from(of_cache), cache_limits, seed ^ 2, &power);
        let mut world = Self {
            config: Config::default(),
            oracle: Oracle::new(blocks * PER),
            seed,
            rng,
            power,
            origin,
            cache,
            open: None,
            now: 0,
            under_way: BTreeMap::new(),
            next_tag: 0,
            next_stamp: 1,
            failing: false,
            doing: "making",
            counts: Counts::default(),
        };
        world.config = world.random_config();
        let made = world.try_open(Start::Create { seed, replace: false });
        if let Err(error) = made {
            world.fail(&format!("it cannot be made: {error}"));
        }
        world
    }

    fn random_config(&mut self) -> Config {
        let rng = &mut self.rng;
        Config {
            bucket: 64 << 10,
            mode: [Mode::Writeback, Mode::Writeback, Mode::Writethrough, Mode::Writearound]
                [rng.below(4) as usize],
            replacement: [Replacement::Lru, Replacement::Fifo, Replacement::Random][rng.below(3) as usize],
            sequential_cutoff: [0, 64 << 10, 256 << 10][rng.below(3) as usize],
            dirty_target: [0, 10, 60][rng.below(3) as usize],
            writeback_rate: [(4096, 4096), (4096, 1 << 20), (1 << 20, 1 << 26)][rng.below(3) as usize],
            ..Config::default()
        }
    }

    fn fail(&self, why: &str) -> ! {
        let Config { mode, replacement, .. } = self.config;
        panic!(
            "seed {}, step {}, {} ({mode}, {replacement}): {why}",
            self.seed, self.counts.steps, self.doing
        );
    }

    fn cache(&mut self) -> &mut Cache {
        self.open.as_mut().expect("the cache is open")
    }

    /// Makes or opens a cache with the present configuration.
    fn try_open(&mut self, start: Start) -> Result<(), OpenError> {
        let devices = (self.origin.clone(), self.cache.clone());
        let mut now = self.now;
        let mut left = 100_000;
        let opened = LogDevice::open(self.config, start, devices, now, |cache| {
            left -= 1;
            assert!(left > 0, "it never opens");
            now = match cache.next_work() {
                Nanos::MAX => now + SECOND,
                next => next.max(now),
            };
            now
        });
        self.now = now;
        self.open = Some(opened?);
        Ok(())
    }

    pub(crate) fn run(mut self, steps: u64) -> Counts {
        for _ in 0..steps {
            self.counts.steps += 1;
            self.step();
            if self.power.is_off() {
                self.crash(true);
            }
        }
        self.settle();
        if self.power.is_off() {
            self.crash(true);
        }
        self.compare();
        self.note();
        self.counts
    }

    /// Adds what the cache has counted, before it is gone.
    fn note(&mut self) {
        let Some(cache) = &self.open else { return };
        let counters = cache.core().status().counters;
        self.counts.hits += counters.read_hits + counters.write_hits;
        self.counts.filled += counters.filled;
        self.counts.written += counters.written;
        self.counts.written_back += counters.written_back;
        self.counts.reclaimed += counters.reclaimed;
        self.counts.commits += counters.commits;
        self.counts.journal += counters.journal;
        self.counts.journal_peak = self.counts.journal_peak.max(counters.journal_peak);
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..640 => self.request(),
            640..840 => self.pass(),
            840..890 => self.wait_long(),
            890..905 => self.compare(),
            905..925 => self.change(),
            925..940 => self.close(),
            940..950 => self.crash(false),
            950..960 => {
                self.doing = "losing power";
                self.crash(true);
            }
            960..980 => {
                let calls = self.rng.below(80);
                self.power.fails_after(calls + 1);
            }
            980..992 => self.devices_fail(),
            _ => self.vanish(),
        }
    }

    /// A range of blocks on which nothing is under way. Some are used more than others, and some in order.
    fn range(&mut self) -> Option<(u64, u32)> {
        let Geometry { blocks, limits, .. } = self.open.as_ref()?.geometry();
        let most = u64::from(limits.transfer.min(limits.write_zeroes).min(limits.deallocate));
        let lba = match self.rng.below(10) {
            0..4 => self.rng.below(24),
            4 | 5 => u64::from(self.next_tag) * 2 % blocks,
            _ => self.rng.below(blocks),
        };
        let length = match self.rng.below(6) {
            0 => most,
            1 => most.min(2),
            _ => 1 + self.rng.below(most.min(4)),
        };
        let length = length.min(blocks - lba).min(most);
        let end = lba + length;
        let overlaps = |it: &UnderWay| {
            let Operation { lba: begin, blocks, .. } = it.operation;
            lba < begin + u64::from(blocks) && begin < end
        };
        (!self.under_way.values().any(overlaps)).then_some((lba, length as u32))
    }

    fn request(&mut self) {
        self.doing = "a request";
        if self.cache().room() == 0 || self.under_way.len() > 8 {
            return self.pass();
        }
        let verb = match self.rng.below(20) {
            0..6 => Verb::Read,
            6 => Verb::ReadFua,
            7..13 => Verb::Write,
            13 | 14 => Verb::WriteFua,
            15 => Verb::WriteZeroes { deallocate: self.rng.below(2) == 0 },
            16 => Verb::Trim,
            _ => Verb::Flush,
        };
        let (lba, blocks) = match verb {
            Verb::Flush => (0, 0),
            _ => match self.range() {
                Some(range) => range,
                None => return self.pass(),
            },
        };
        self.submit(Operation { verb, lba, blocks });
    }

    fn sectors(operation: &Operation) -> std::ops::Range<u64> {
        operation.lba * PER..(operation.lba + u64::from(operation.blocks)) * PER
    }

    fn submit(&mut self, operation: Operation) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let stamp = match operation.verb {
            Verb::Write | Verb::WriteFua => {
                self.next_stamp += 1;
                self.next_stamp
            }
            _ => 0,
        };
        let sectors = Self::sectors(&operation);
        let data = match operation.verb {
            Verb::Write | Verb::WriteFua => {
                sectors.clone().flat_map(|sector| contents(sector, stamp)).collect()
            }
            Verb::Read | Verb::ReadFua => vec![0xA5; (sectors.end - sectors.start) as usize * SECTOR],
            _ => Vec::new(),
        };
        let began = self.oracle.clock();
        if !matches!(operation.verb, Verb::Read | Verb::ReadFua | Verb::Flush) {
            for sector in sectors {
                self.oracle.begin(sector, stamp, operation.verb == Verb::Trim);
            }
        }
        self.under_way.insert(tag, UnderWay { operation, stamp, began });
        let now = self.now;
        let Ok(()) = self.cache().submit(now, tag, &operation, data);
    }

    /// Takes what has ended.
    fn take(&mut self) {
        loop {
            let now = self.now;
            let Ok(done) = self.cache().poll(now);
            // What ends when the power is off is no answer.
            if self.power.is_off() {
                return;
            }
            let Some(done) = done else { return };
            self.ended(done);
        }
    }

    fn ended(&mut self, done: Completed) {
        let Completed { tag, status, data } = done;
        let Some(UnderWay { operation, stamp, began }) = self.under_way.remove(&tag) else {
            self.fail(&format!("the tag {tag} is not under way"));
        };
        let ok = status.is_success();
        if !ok {
            self.counts.failed_requests += 1;
            if !self.failing {
                self.fail(&format!("{operation:?}: {status}"));
            }
        }
        let sectors = Self::sectors(&operation);
        match operation.verb {
            Verb::Read | Verb::ReadFua if ok => {
                for (sector, found) in sectors.zip(data.chunks_exact(SECTOR)) {
                    if let Some(objection) = self.oracle.read(sector, found) {
                        self.fail(&format!("{operation:?}: {objection}"));
                    }
                }
            }
            Verb::Read | Verb::ReadFua => {}
            Verb::Flush if ok => {
                self.counts.flushes += 1;
                self.oracle.flushed(began);
            }
            Verb::Flush => {}
            _ => {
                for sector in sectors {
                    self.oracle.end(sector, stamp, ok);
                    if ok && operation.verb == Verb::WriteFua {
                        self.oracle.durable(sector, stamp);
                    }
                }
            }
        }
    }

    /// Time passes until something happens.
    fn pass(&mut self) {
        let next = self.cache().next_work();
        self.now = match next {
            Nanos::MAX => self.now + SECOND / 8,
            next => next.max(self.now),
        };
        self.take();
    }

    /// Time passes until everything has ended.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.under_way.is_empty() || self.power.is_off() {
                return;
            }
            self.pass();
        }
        let waiting: Vec<&Operation> = self.under_way.values().map(|it| &it.operation).collect();
        self.fail(&format!("these never end: {waiting:?}"));
    }

    fn wait_long(&mut self) {
        self.doing = "waiting";
        let end = self.now + [1, 3, 40][self.rng.below(3) as usize] * SECOND;
        for _ in 0..10_000 {
            let next = self.cache().next_work().max(self.now);
            if next > end || self.power.is_off() {
                break;
            }
            self.now = next;
            self.take();
        }
        self.now = self.now.max(end);
        self.take();
    }

    /// Reads everything.
    fn compare(&mut self) {
        self.settle();
        self.doing = "comparing";
        self.read_all(|oracle, sector, found| oracle.read(sector, found));
    }

    fn read_all(&mut self, mut check: impl FnMut(&mut Oracle, u64, &[u8]) -> Option<String>) {
        if self.power.is_off() {
            return;
        }
        let Geometry { blocks, limits, .. } = self.cache().geometry();
        let mut lba = 0;
        while lba < blocks {
            let length = u64::from(limits.transfer).min(blocks - lba) as u32;
            let operation = Operation { verb: Verb::Read, lba, blocks: length };
            let now = self.now;
            let room = vec![0; length as usize * BLOCK as usize];
            let Ok(()) = self.cache().submit(now, u32::MAX, &operation, room);
            let done = loop {
                let now = self.now;
                let Ok(done) = self.cache().poll(now);
                if self.power.is_off() {
                    return;
                }
                if let Some(done) = done {
                    break done;
                }
                self.now = self.cache().next_work().max(self.now);
            };
            if done.status.is_success() {
                for (sector, found) in Self::sectors(&operation).zip(done.data.chunks_exact(SECTOR)) {
                    if let Some(objection) = check(&mut self.oracle, sector, found) {
                        self.fail(&objection);
                    }
                }
            } else if !self.failing {
                self.fail(&format!("{operation:?}: {}", done.status));
            }
            lba += u64::from(length);
        }
    }

    fn change(&mut self) {
        self.doing = "a change";
        let modes = [Mode::Writeback, Mode::Writethrough, Mode::Writearound];
        let control = match self.rng.below(2) {
            0 => Control::WriteBack,
            _ => Control::Mode(modes[self.rng.below(3) as usize]),
        };
        let now = self.now;
        match self.cache().control(now, control) {
            Ok(()) => {}
            Err(ControlError::Degraded) if self.failing => return,
            Err(error) if !self.power.is_off() => self.fail(&format!("{control:?}: {error}")),
            Err(_) => return,
        }
        for _ in 0..100_000 {
            if self.power.is_off() {
                return;
            }
            match self.cache().take_outcome() {
                Some(Ok(())) => {
                    self.counts.changes += 1;
                    return;
                }
                Some(Err(error)) if !self.failing => self.fail(&format!("{control:?}: {error}")),
                Some(Err(_)) => return,
                None => self.pass(),
            }
        }
        self.fail(&format!("{control:?} never ends"));
    }

    /// Shuts the cache down in order, and opens it with other settings.
    fn close(&mut self) {
        self.settle();
        self.doing = "closing";
        if self.power.is_off() {
            return;
        }
        let now = self.now;
        let mut closed = self.cache().control(now, Control::Close);
        while closed.is_ok() && !self.power.is_off() {
            if let Some(outcome) = self.cache().take_outcome() {
                closed = outcome;
                break;
            }
            self.pass();
        }
        if self.power.is_off() {
            return;
        }
        if let Err(error) = closed {
            if !self.failing {
                self.fail(&format!("it does not close: {error}"));
            }
            return self.crash(false);
        }
        self.counts.closed += 1;
        let dirty = self.cache().core().status().dirty;
        self.note();
        self.open = None;
        if self.failing {
            self.origin.restart(false);
            self.cache.restart(false);
        }
        self.heal();
        self.config = self.random_config();
        if self.reopen(false) && self.cache().core().status().dirty > dirty {
            self.fail("more is dirty than when it was closed");
        }
    }

    fn heal(&mut self) {
        self.failing = false;
        self.origin.fail(0);
        self.cache.fail(0);
    }

    fn restart(&mut self, power_lost: bool) {
        self.power.restore();
        self.origin.restart(power_lost);
        self.cache.restart(power_lost);
    }

    /// The process or the machine dies, and the cache is opened again.
    fn crash(&mut self, power_lost: bool) {
        self.doing = if power_lost { "after a power cut" } else { "after a kill" };
        match power_lost {
            true => self.counts.power_cuts += 1,
            false => self.counts.kills += 1,
        }
        self.note();
        self.open = None;
        self.under_way.clear();
        self.heal();
        self.restart(power_lost);
        self.config = self.random_config();
        self.reopen(true);
    }

    /// Opens the cache, with the power failing now and then while it does. Whether it did not.
    fn reopen(&mut self, crashed: bool) -> bool {
        let mut crashed = crashed;
        if self.rng.below(4) == 0 {
            let calls = self.rng.below(12);
            self.power.fails_after(calls + 1);
        }
        loop {
            let opened = self.try_open(Start::Open);
            if self.power.is_off() {
                self.counts.cuts_in_opening += 1;
                self.open = None;
                self.restart(true);
                crashed = true;
                if self.rng.below(2) == 0 {
                    let calls = self.rng.below(12);
                    self.power.fails_after(calls + 1);
                }
                continue;
            }
            match opened {
                Ok(()) => break,
                Err(error) => self.fail(&format!("it does not open: {error}")),
            }
        }
        // The power may fail while everything is read, too.
        self.power.restore();
        if crashed {
            self.read_all(|oracle, sector, found| oracle.read_after_crash(sector, found));
        }
        !crashed
    }

    /// Requests of a device fail for a while.
    fn devices_fail(&mut self) {
        self.doing = "devices fail";
        if self.failing {
            return self.crash(true);
        }
        self.failing = true;
        let disk = [&self.origin, &self.cache][self.rng.below(2) as usize];
        disk.fail([1, 20, 300][self.rng.below(3) as usize] * 1_000_000);
    }

    /// A device is gone until the next crash or shutdown.
    fn vanish(&mut self) {
        self.doing = "a device vanishes";
        self.failing = true;
        self.counts.vanished += 1;
        match self.rng.below(3) {
            0 => self.origin.vanish(),
            _ => self.cache.vanish(),
        }
        for _ in 0..self.rng.below(40) {
            self.request();
            if self.power.is_off() {
                return;
            }
        }
        self.settle();
        if self.rng.below(2) == 0 {
            self.close();
        } else {
            let power_lost = self.rng.below(2) == 0;
            self.crash(power_lost);
        }
    }
}
