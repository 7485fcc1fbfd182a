//! A tier, what happens to it, and what must be true then.

use super::disk::{Disk, Power};
use super::oracle::{Oracle, SECTOR, Stamp, contents};
use crate::{Config, Control, ControlError, Mode, MqTunables, OpenError, PolicyKind, Start, TierDevice};
use blockdev::{BlockDevice, Completed, Geometry, Limits, Nanos, Operation, Verb};
use rng::Rng;
use std::collections::BTreeMap;

type Tier = TierDevice<Disk, Disk, Disk>;

const CHUNK: u64 = 32 << 10;
const SECOND: Nanos = 1_000_000_000;
const MODES: [Mode; 3] = [Mode::Writeback, Mode::Writethrough, Mode::Passthrough];
const KINDS: [PolicyKind; 4] =
    [PolicyKind::Smq, PolicyKind::SmqBefore412, PolicyKind::Mq, PolicyKind::Cleaner];

/// What happened in a run.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) hits: u64,
    pub(crate) promotions: u64,
    pub(crate) demotions: u64,
    pub(crate) writebacks: u64,
    pub(crate) flushes: u64,
    pub(crate) checkpoints: u64,
    pub(crate) power_cuts: u64,
    pub(crate) cuts_in_opening: u64,
    pub(crate) kills: u64,
    pub(crate) vanished: u64,
    pub(crate) closed: u64,
    pub(crate) resized: u64,
    pub(crate) changes: u64,
    pub(crate) failed_requests: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self { steps, hits, promotions, demotions, writebacks, flushes, checkpoints, .. } = other;
        self.steps += steps;
        self.hits += hits;
        self.promotions += promotions;
        self.demotions += demotions;
        self.writebacks += writebacks;
        self.flushes += flushes;
        self.checkpoints += checkpoints;
        self.power_cuts += other.power_cuts;
        self.cuts_in_opening += other.cuts_in_opening;
        self.kills += other.kills;
        self.vanished += other.vanished;
        self.closed += other.closed;
        self.resized += other.resized;
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
    metadata: Disk,
    config: Config,
    tier: Option<Tier>,
    now: Nanos,
    oracle: Oracle,
    under_way: BTreeMap<u32, UnderWay>,
    next_tag: u32,
    next_stamp: Stamp,
    /// Requests may fail: a device fails or is gone.
    failing: bool,
    cache_chunks: u64,
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
        let chunks = 8 + rng.below(16);
        // The last chunk is no whole one.
        let sectors = chunks * (CHUNK / 512) + 8 * rng.below(8);
        let origin = Disk::new(512, sectors, limits(&mut rng), seed ^ 1, &power);
        let cache_chunks = 2 + rng.below(8);
        let cache_blocks = cache_chunks * (CHUNK / u64::from(of_cache));
        let cache_limits = Limits { transfer: 1 + rng.below(70) as u32, ..limits(&mut rng) };
        let cache = Disk::new(of_cache, cache_blocks, cache_limits, seed ^ 2, &power);
        let metadata_blocks = 8 * (22 + rng.below(30));
        let metadata = Disk::new(512, metadata_blocks, limits(&mut rng), seed ^ 3, &power);
        let mut world = Self {
            config: Config::default(),
            oracle: Oracle::new(sectors),
            seed,
            rng,
            power,
            origin,
            cache,
            metadata,
            tier: None,
            now: 0,
            under_way: BTreeMap::new(),
            next_tag: 0,
            next_stamp: 1,
            failing: false,
            cache_chunks,
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
        let threshold = [0, 64, 129, 2048, 1 << 20][rng.below(5) as usize];
        let mq = MqTunables {
            read_promote_adjustment: rng.below(3) as u32,
            write_promote_adjustment: rng.below(3) as u32,
            sequential_threshold: [0, 2, 512][rng.below(3) as usize],
            ..MqTunables::default()
        };
        let mode = MODES[[0, 0, 0, 1, 1, 2][rng.below(6) as usize]];
        let policy = KINDS[[0, 0, 0, 1, 1, 2, 2, 3][rng.below(8) as usize]];
        let discard_passdown = rng.below(3) > 0;
        let migration_threshold = threshold;
        Config { chunk: CHUNK, mode, policy, mq, migration_threshold, discard_passdown, ..Config::default() }
    }

    pub(super) fn fail(&self, why: &str) -> ! {
        let Config { mode, policy, .. } = self.config;
        panic!("seed {}, step {}, {} ({mode}, {policy}): {why}", self.seed, self.counts.steps, self.doing);
    }

    fn tier(&mut self) -> &mut Tier {
        self.tier.as_mut().expect("the tier is open")
    }

    fn per(&self) -> u64 {
        self.tier.as_ref().map_or(1, |tier| u64::from(tier.block_size()) / SECTOR as u64)
    }

    /// Makes or opens a tier with the present configuration.
    fn try_open(&mut self, start: Start) -> Result<(), OpenError> {
        let devices = (self.origin.clone(), self.cache.clone(), self.metadata.clone());
        let mut now = self.now;
        let mut left = 100_000;
        let opened = TierDevice::open(self.config, start, devices, now, |tier| {
            left -= 1;
            assert!(left > 0, "it never opens: {}", tier.core().condition());
            now = match tier.next_work() {
                Nanos::MAX => now + SECOND,
                next => next.max(now),
            };
            now
        });
        self.now = now;
        self.tier = Some(opened?);
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

    /// Adds what the tier has counted, before it is gone.
    fn note(&mut self) {
        let Some(tier) = &self.tier else { return };
        let counters = tier.core().counters();
        self.counts.hits += counters.read_hits + counters.write_hits;
        self.counts.promotions += counters.promotions;
        self.counts.demotions += counters.demotions;
        self.counts.writebacks += counters.writebacks;
        self.counts.checkpoints += counters.checkpoints;
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..620 => self.request(),
            620..820 => self.pass(),
            820..880 => self.wait_long(),
            880..900 => self.compare(),
            900..930 => self.change(),
            930..950 => self.close(),
            950..960 => self.crash(false),
            960..970 => {
                self.doing = "losing power";
                self.crash(true);
            }
            970..985 => {
                let calls = self.rng.below(60);
                self.power.fails_after(calls + 1);
            }
            985..993 => self.devices_fail(),
            _ => self.vanish(),
        }
    }

    /// A range of blocks on which nothing is under way. A few chunks are used more than others.
    fn range(&mut self) -> Option<(u64, u32)> {
        let tier = self.tier.as_ref()?;
        let Geometry { block_size, blocks, limits } = tier.geometry();
        let chunk = CHUNK / u64::from(block_size);
        let most = u64::from(limits.transfer.min(limits.write_zeroes).min(limits.deallocate));
        let lba = match self.rng.below(10) {
            0..5 => self.rng.below(4) * chunk + self.rng.below(chunk),
            5 => self.rng.below(blocks / chunk) * chunk,
            _ => self.rng.below(blocks),
        };
        let length = match self.rng.below(6) {
            0 => most.min(chunk),
            1 => most,
            _ => 1 + self.rng.below(most.min(12)),
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
        if self.tier().room() == 0 || self.under_way.len() > 8 {
            return self.pass();
        }
        let verb = match self.rng.below(20) {
            0..7 => Verb::Read,
            7 => Verb::ReadFua,
            8..14 => Verb::Write,
            14 | 15 => Verb::WriteFua,
            16 => Verb::WriteZeroes { deallocate: self.rng.below(2) == 0 },
            17 => Verb::Trim,
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

    fn sectors(&self, operation: &Operation) -> std::ops::Range<u64> {
        let per = self.per();
        operation.lba * per..(operation.lba + u64::from(operation.blocks)) * per
    }

    fn submit(&mut self, operation: Operation) -> u32 {
        let tag = self.next_tag;
        self.next_tag += 1;
        let stamp = match operation.verb {
            Verb::Write | Verb::WriteFua => {
                self.next_stamp += 1;
                self.next_stamp
            }
            _ => 0,
        };
        let sectors = self.sectors(&operation);
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
        let Ok(()) = self.tier().submit(now, tag, &operation, data);
        tag
    }

    /// Takes what has ended.
    fn take(&mut self) {
        loop {
            let now = self.now;
            let Ok(done) = self.tier().poll(now);
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
        let sectors = self.sectors(&operation);
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
        let next = self.tier().next_work();
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
        let end = self.now + self.rng.below(4) * SECOND;
        for _ in 0..10_000 {
            let next = self.tier().next_work().max(self.now);
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
        let Geometry { blocks, limits, .. } = self.tier().geometry();
        let mut lba = 0;
        while lba < blocks {
            let length = u64::from(limits.transfer).min(blocks - lba) as u32;
            let operation = Operation { verb: Verb::Read, lba, blocks: length };
            let bytes = (length as usize) * self.per() as usize * SECTOR;
            let now = self.now;
            let Ok(()) = self.tier().submit(now, u32::MAX, &operation, vec![0; bytes]);
            let done = loop {
                let now = self.now;
                let Ok(done) = self.tier().poll(now);
                if let Some(done) = done {
                    break done;
                }
                self.now = self.tier().next_event().max(now);
            };
            if self.power.is_off() {
                return;
            }
            if done.status.is_success() {
                for (sector, found) in self.sectors(&operation).zip(done.data.chunks_exact(SECTOR)) {
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

    /// Makes a change of a running tier, with requests under way.
    fn change(&mut self) {
        self.doing = "changing";
        let mode = MODES[self.rng.below(3) as usize];
        let control = match self.rng.below(4) {
            0 => Control::Mode(mode),
            1 => Control::Policy(KINDS[self.rng.below(4) as usize]),
            2 => Control::WriteBack,
            _ => Control::Invalidate { begin: 0, end: 1 + self.rng.below(self.cache_chunks) as u32 },
        };
        let now = self.now;
        let before = self.config;
        match self.tier().control(now, control) {
            Ok(()) => {}
            Err(ControlError::NotClean(_) | ControlError::NotPassthrough | ControlError::Degraded(_)) => {
                return;
            }
            Err(error) => self.fail(&format!("{control:?}: {error}")),
        }
        for _ in 0..100_000 {
            if self.power.is_off() {
                // Either may hold after this. What is asked for at opening does.
                return;
            }
            match self.tier().take_outcome() {
                Some(Ok(())) => {
                    self.counts.changes += 1;
                    match control {
                        Control::Mode(mode) => self.config.mode = mode,
                        Control::Policy(policy) => self.config.policy = policy,
                        _ => {}
                    }
                    return;
                }
                Some(Err(ControlError::NotClean(_))) => return,
                Some(Err(error)) => {
                    if !self.failing {
                        self.fail(&format!("{control:?}: {error}"));
                    }
                    self.config.mode = before.mode;
                    return;
                }
                None => self.pass(),
            }
        }
        self.fail(&format!("{control:?} never ends"));
    }

    /// Shuts the tier down in order, and opens it with other settings.
    fn close(&mut self) {
        self.settle();
        self.doing = "closing";
        if self.power.is_off() {
            return;
        }
        let now = self.now;
        let mut closed = self.tier().control(now, Control::Close);
        while closed.is_ok() && !self.tier().core().is_closed() && !self.power.is_off() {
            self.pass();
        }
        if self.power.is_off() {
            return;
        }
        if closed.is_ok() {
            closed = self.tier().take_outcome().unwrap_or(Ok(()));
        }
        if let Err(error) = closed {
            if !self.failing {
                self.fail(&format!("it does not close: {error}"));
            }
            return self.crash(false);
        }
        self.counts.closed += 1;
        self.note();
        self.tier = None;
        if self.failing {
            // A cache that is gone may have lost what it had not flushed.
            self.origin.restart(false);
            let power_lost = self.rng.below(2) == 0;
            self.cache.restart(power_lost && self.cache.is_gone());
            self.metadata.restart(false);
        }
        self.heal();
        self.config = self.random_config();
        if self.rng.below(4) == 0 {
            self.resize();
        }
        self.reopen(false);
    }

    fn resize(&mut self) {
        let chunks = 2 + self.rng.below(12);
        let per = CHUNK / u64::from(self.cache.geometry().block_size);
        if chunks > self.cache_chunks {
            self.cache = self.cache.resized(chunks * per);
            self.cache_chunks = chunks;
            self.counts.resized += 1;
            return;
        }
        // Only what opens is cut off.
        let before = self.cache_chunks;
        let full = self.cache.clone();
        let small = Small { disk: full, blocks: chunks * per };
        let devices = (self.origin.clone(), small, self.metadata.clone());
        let mut now = self.now;
        let opened = TierDevice::open(self.config, Start::Open, devices, now, |tier| {
            now = tier.next_work().max(now);
            now
        });
        self.now = now;
        match opened {
            Ok(tier) => {
                drop(tier);
                self.cache = self.cache.resized(chunks * per);
                self.cache_chunks = chunks;
                self.counts.resized += 1;
            }
            Err(OpenError::Shrunk { cblock }) => {
                if u64::from(cblock) < chunks || u64::from(cblock) >= before {
                    self.fail(&format!("{cblock} is not cut off: {before} to {chunks} chunks"));
                }
            }
            Err(OpenError::NotClean(_) | OpenError::Device { .. }) => {}
            Err(error) => self.fail(&format!("resize: {error}")),
        }
        // It was not shut down.
        let power_lost = self.power.is_off();
        self.restart(power_lost);
    }

    fn heal(&mut self) {
        self.failing = false;
        for disk in [&self.origin, &self.cache, &self.metadata] {
            disk.fail(0);
        }
    }

    fn restart(&mut self, power_lost: bool) {
        self.power.restore();
        for disk in [&self.origin, &self.cache, &self.metadata] {
            disk.restart(power_lost);
        }
    }

    /// The process or the machine dies, and the tier is opened again.
    fn crash(&mut self, power_lost: bool) {
        self.doing = if power_lost { "after a power cut" } else { "after a kill" };
        match power_lost {
            true => self.counts.power_cuts += 1,
            false => self.counts.kills += 1,
        }
        self.note();
        self.tier = None;
        self.under_way.clear();
        self.heal();
        self.restart(power_lost);
        self.config = self.random_config();
        self.reopen(true);
    }

    /// Opens the tier, with the power failing now and then while it does.
    fn reopen(&mut self, crashed: bool) {
        let mut crashed = crashed;
        if self.rng.below(4) == 0 {
            let calls = self.rng.below(40);
            self.power.fails_after(calls + 1);
        }
        loop {
            let opened = self.try_open(Start::Open);
            if self.power.is_off() {
                self.counts.cuts_in_opening += 1;
                self.tier = None;
                self.restart(true);
                crashed = true;
                if self.rng.below(2) == 0 {
                    let calls = self.rng.below(40);
                    self.power.fails_after(calls + 1);
                }
                continue;
            }
            match opened {
                Ok(()) => break,
                Err(OpenError::NotClean(_)) => self.config.mode = Mode::Writeback,
                Err(OpenError::NeedsCheck) => self.config.repair = true,
                Err(error) => self.fail(&format!("it does not open: {error}")),
            }
        }
        if !crashed {
            return;
        }
        // The power may fail while everything is read, too.
        self.power.restore();
        self.read_all(|oracle, sector, found| oracle.read_after_crash(sector, found));
    }

    /// Requests of a device fail for a while.
    fn devices_fail(&mut self) {
        self.doing = "devices fail";
        if self.failing {
            return self.crash(true);
        }
        self.failing = true;
        let disk = [&self.origin, &self.cache, &self.metadata][self.rng.below(3) as usize];
        disk.fail([1, 20, 300][self.rng.below(3) as usize] * 1_000_000);
    }

    /// The cache device, the metadata device, or both are gone until the next crash or shutdown.
    fn vanish(&mut self) {
        self.doing = "a device vanishes";
        self.failing = true;
        self.counts.vanished += 1;
        match self.rng.below(4) {
            0 => self.metadata.vanish(),
            1 => {
                self.cache.vanish();
                self.metadata.vanish();
            }
            2 => self.origin.vanish(),
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

/// A device of which only the beginning is used.
struct Small {
    disk: Disk,
    blocks: u64,
}

impl BlockDevice for Small {
    type Error = super::disk::Gone;

    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.blocks, ..self.disk.geometry() }
    }

    fn room(&self) -> usize {
        self.disk.room()
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Self::Error> {
        assert!(part.lba + u64::from(part.blocks) <= self.blocks, "{part:?} is beyond {}", self.blocks);
        self.disk.submit(now, tag, part, data)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Self::Error> {
        self.disk.poll(now)
    }

    fn next_event(&self) -> Nanos {
        self.disk.next_event()
    }
}
