//! The protected write cache of a storage controller.

use crate::{BlockDevice, Completed, Geometry, Nanos, Operation, Status, Verb};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How a write cache works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteCacheConfig {
    /// Bytes of data that it holds. It holds one part of the device's at least.
    pub capacity: u64,
    /// Nanoseconds after which written data goes to the device, from the first write on.
    pub interval: Nanos,
    /// Percent of the capacity from which it goes there at once.
    pub high: u32,
    /// Percent of the capacity down to which it goes then.
    pub low: u32,
    /// Writes to the device at the same time: 1 or more.
    pub writes: usize,
    /// Bytes of such a write at most. Blocks side by side go together.
    pub write_size: u64,
    /// Whether parts have data. Without, no block has contents, as on a device that keeps none.
    pub contents: bool,
}

/// What a write cache has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriteCacheCounts {
    /// Blocks that hosts have written.
    pub written: u64,
    /// Of these, blocks that took the place of one that was waiting.
    pub overwritten: u64,
    /// Blocks written to the device.
    pub destaged: u64,
    /// Writes to the device.
    pub writes: u64,
    /// Reads that the cache has answered.
    pub read_hits: u64,
    /// Writes to the device that failed. They are tried again.
    pub failed: u64,
}

/// How long nothing is tried again after a write to the device has failed.
const RETRY_NANOS: Nanos = 1_000_000_000;
/// Write Fault (NVM Command Set 4.1.2.2).
const WRITE_FAULT: Status = Status(2 << 8 | 0x80);

/// A block that waits to be written.
struct Line {
    data: Box<[u8]>,
    /// It is on its way to the device.
    destaging: bool,
    /// It was written again since.
    newer: bool,
}

/// A part at the device.
enum Below {
    /// A read of the host's, with the blocks that the cache has of it.
    Read { tag: u32, cached: Vec<(u32, Box<[u8]>)> },
    /// Something else of the host's.
    Other { tag: u32 },
    /// Blocks of the cache.
    Destage { first: u64, blocks: u32 },
}

/// A part that waits.
struct Waiting {
    tag: u32,
    part: Operation,
    data: Vec<u8>,
}

/// A write cache that a battery or capacitors protect, before a device. A write ends when the cache has it, a Flush at once: what the cache has
/// is as safe as on the device. Reads see it. It goes to the device in the order of its places, from where the last write went.
///
/// A loss of power takes nothing of the cache: it keeps it until the device is there again. So a power cut is nothing that happens to it. It flushes no
/// device: a write that the device has ended must be durable there, as with a disk whose own cache is off.
pub struct WriteCache<D> {
    config: WriteCacheConfig,
    device: D,
    geometry: Geometry,
    /// Blocks that fit.
    capacity: usize,
    lines: BTreeMap<u64, Line>,
    /// Those that are not under way, in the order of their places.
    dirty: BTreeSet<u64>,
    /// When the oldest of them must go, if there are any.
    flush_at: Nanos,
    /// Data goes to the device: down to so many blocks.
    flushing: Option<usize>,
    /// Where the last write to the device ended.
    cursor: u64,
    /// Nothing is tried before this time.
    retry_at: Nanos,
    /// The last write to the device failed.
    failing: bool,
    destages: usize,
    /// Parts that need room, or blocks that are not on their way.
    waiting: VecDeque<Waiting>,
    /// Parts for the device, which has no room.
    ready: VecDeque<(Below, Operation, Vec<u8>)>,
    under_way: Vec<Option<Below>>,
    free: Vec<u32>,
    done: VecDeque<Completed>,
    /// Parts of the host's that have not been taken back.
    outstanding: usize,
    counts: WriteCacheCounts,
}

impl<D: BlockDevice> WriteCache<D> {
    /// An empty cache before a device on which nothing is outstanding.
    pub fn new(config: WriteCacheConfig, device: D) -> Self {
        let geometry = device.geometry();
        let most = u64::from(geometry.limits.transfer).min(geometry.blocks).min(1 << 16);
        let capacity = (config.capacity / u64::from(geometry.block_size)).max(most);
        Self {
            config: WriteCacheConfig { writes: config.writes.max(1), ..config },
            geometry: Geometry {
                limits: crate::Limits { transfer: most as u32, ..geometry.limits },
                ..geometry
            },
            device,
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            lines: BTreeMap::new(),
            dirty: BTreeSet::new(),
            flush_at: 0,
            flushing: None,
            cursor: 0,
            retry_at: 0,
            failing: false,
            destages: 0,
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            under_way: Vec::new(),
            free: Vec::new(),
            done: VecDeque::new(),
            outstanding: 0,
            counts: WriteCacheCounts::default(),
        }
    }

    /// The device behind.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device behind, to be changed.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// What it has done.
    pub fn counts(&self) -> WriteCacheCounts {
        self.counts
    }

    /// Blocks that it holds.
    pub fn held(&self) -> usize {
        self.lines.len()
    }

    fn end(&mut self, tag: u32, status: Status, data: Vec<u8>) {
        self.done.push_back(Completed { tag, status, data });
    }

    /// Whether a block of this range is on its way to the device.
    fn destaging(&self, first: u64, blocks: u32) -> bool {
        self.destages > 0
            && self.lines.range(first..first + u64::from(blocks)).any(|(_, line)| line.destaging)
    }

    /// What the cache has of a range.
    fn cached(&self, first: u64, blocks: u32) -> impl Iterator<Item = (u32, &Line)> {
        self.lines
            .range(first..first + u64::from(blocks))
            .map(move |(lba, line)| ((lba - first) as u32, line))
    }

    /// Begins a part, or gives it back if it has to wait.
    fn begin(&mut self, now: Nanos, waiting: Waiting) -> Option<Waiting> {
        let Waiting { tag, part, data } = waiting;
        let Operation { verb, lba, blocks } = part;
        let wait = |data| Some(Waiting { tag, part, data });
        match verb {
            Verb::Flush => self.end(tag, Status::SUCCESS, data),
            Verb::Read | Verb::ReadFua => self.read(tag, part, data),
            Verb::Write | Verb::WriteFua => {
                let held = self.cached(lba, blocks).count();
                if self.lines.len() - held + blocks as usize > self.capacity {
                    if self.failing {
                        self.end(tag, WRITE_FAULT, data);
                        return None;
                    }
                    // Room comes when something has gone to the device.
                    self.flush_to(self.capacity * self.config.low as usize / 100);
                    return wait(data);
                }
                self.write(now, lba, blocks, &data);
                self.end(tag, Status::SUCCESS, data);
            }
            Verb::Trim | Verb::WriteZeroes { .. } => {
                if self.destaging(lba, blocks) {
                    return wait(data);
                }
                // What it covers is not wanted any more.
                self.forget(lba, blocks);
                self.ready.push_back((Below::Other { tag }, part, data));
            }
            Verb::Copy { from, .. } => {
                if self.cached(from, blocks).next().is_some() || self.destaging(lba, blocks) {
                    self.flush_to(0);
                    return wait(data);
                }
                self.forget(lba, blocks);
                self.ready.push_back((Below::Other { tag }, part, data));
            }
            Verb::Append | Verb::Zone(_) => self.ready.push_back((Below::Other { tag }, part, data)),
        }
        None
    }

    /// Data goes to the device until no more than so many blocks wait.
    fn flush_to(&mut self, blocks: usize) {
        self.flushing = Some(self.flushing.map_or(blocks, |other| other.min(blocks)));
    }

    fn forget(&mut self, first: u64, blocks: u32) {
        let gone: Vec<u64> =
            self.lines.range(first..first + u64::from(blocks)).map(|(lba, _)| *lba).collect();
        for lba in gone {
            self.lines.remove(&lba);
            self.dirty.remove(&lba);
        }
    }

    fn read(&mut self, tag: u32, part: Operation, mut data: Vec<u8>) {
        let mut count = 0;
        let block = self.geometry.block_size as usize;
        let mut cached = Vec::new();
        for (at, line) in self.cached(part.lba, part.blocks) {
            count += 1;
            if self.config.contents {
                cached.push((at, line.data.clone()));
            }
        }
        if count < part.blocks || part.blocks == 0 {
            self.ready.push_back((Below::Read { tag, cached }, part, data));
            return;
        }
        overlay(&mut data, cached, block);
        self.counts.read_hits += 1;
        self.end(tag, Status::SUCCESS, data);
    }

    fn write(&mut self, now: Nanos, first: u64, blocks: u32, data: &[u8]) {
        let block = self.geometry.block_size as usize;
        if self.dirty.is_empty() {
            self.flush_at = now.saturating_add(self.config.interval);
        }
        for at in 0..blocks {
            let lba = first + u64::from(at);
            let contents: Box<[u8]> = match self.config.contents {
                true => data[at as usize * block..][..block].into(),
                false => Box::default(),
            };
            self.counts.written += 1;
            match self.lines.get_mut(&lba) {
                Some(line) => {
                    self.counts.overwritten += 1;
                    (line.data, line.newer) = (contents, line.destaging);
                }
                None => {
                    self.lines.insert(lba, Line { data: contents, destaging: false, newer: false });
                    self.dirty.insert(lba);
                }
            }
        }
        if self.lines.len() >= self.capacity * self.config.high as usize / 100 {
            self.flush_to(self.capacity * self.config.low as usize / 100);
        }
    }

    /// Gives the device what is to be written to it.
    fn destage(&mut self, now: Nanos) {
        if now >= self.flush_at && !self.dirty.is_empty() {
            self.flush_to(0);
        }
        let Some(down_to) = self.flushing else { return };
        if now < self.retry_at {
            return;
        }
        while self.destages < self.config.writes && self.lines.len() > down_to {
            let Some(&first) = self.dirty.range(self.cursor..).next().or_else(|| self.dirty.first()) else {
                break;
            };
            let size = u64::from(self.geometry.block_size);
            let most =
                (self.config.write_size / size).clamp(1, u64::from(self.geometry.limits.transfer)) as u32;
            let mut blocks = 0;
            let mut data = Vec::new();
            while blocks < most && self.dirty.remove(&(first + u64::from(blocks))) {
                if let Some(line) = self.lines.get_mut(&(first + u64::from(blocks))) {
                    line.destaging = true;
                    data.extend_from_slice(&line.data);
                }
                blocks += 1;
            }
            self.cursor = first + u64::from(blocks);
            self.destages += 1;
            self.counts.writes += 1;
            let part = Operation { verb: Verb::Write, lba: first, blocks };
            self.ready.push_back((Below::Destage { first, blocks }, part, data));
        }
        if self.lines.len() <= down_to && (down_to > 0 || self.lines.is_empty()) {
            self.flushing = None;
            self.flush_at = now.saturating_add(self.config.interval);
        }
    }

    /// A write of the cache's has ended.
    fn destaged(&mut self, now: Nanos, first: u64, blocks: u32, status: Status) {
        self.destages -= 1;
        self.failing = !status.is_success();
        if self.failing {
            self.counts.failed += 1;
            self.retry_at = now.saturating_add(RETRY_NANOS);
        }
        for lba in first..first + u64::from(blocks) {
            let Some(line) = self.lines.get_mut(&lba) else { continue };
            line.destaging = false;
            let newer = std::mem::take(&mut line.newer);
            self.counts.destaged += u64::from(!self.failing);
            if newer || self.failing {
                self.dirty.insert(lba);
            } else {
                self.lines.remove(&lba);
            }
        }
    }

    /// Moves everything on that can move on at `now`.
    fn settle(&mut self, now: Nanos) -> Result<(), D::Error> {
        loop {
            self.resume(now);
            self.destage(now);
            while self.device.room() > 0
                && let Some((below, part, data)) = self.ready.pop_front()
            {
                let tag = self.free.pop().unwrap_or_else(|| {
                    self.under_way.push(None);
                    self.under_way.len() as u32 - 1
                });
                self.under_way[tag as usize] = Some(below);
                self.device.submit(now, tag, &part, data)?;
            }
            let mut news = false;
            while self.device.next_work() <= now
                && let Some(done) = self.device.poll(now)?
            {
                news = true;
                self.completed(now, done);
            }
            if !news {
                return Ok(());
            }
        }
    }

    /// Begins what waits, in order. What has to wait holds up what comes after it.
    fn resume(&mut self, now: Nanos) {
        while let Some(waiting) = self.waiting.pop_front() {
            if let Some(waiting) = self.begin(now, waiting) {
                self.waiting.push_front(waiting);
                return;
            }
        }
    }

    fn completed(&mut self, now: Nanos, done: Completed) {
        let Completed { tag, status, mut data } = done;
        self.free.push(tag);
        match self.under_way[tag as usize].take() {
            Some(Below::Destage { first, blocks }) => self.destaged(now, first, blocks, status),
            Some(Below::Other { tag }) => self.end(tag, status, data),
            Some(Below::Read { tag, cached }) => {
                if status.is_success() {
                    overlay(&mut data, cached, self.geometry.block_size as usize);
                }
                self.end(tag, status, data);
            }
            None => {}
        }
    }
}

/// Puts blocks into data, each at its number.
fn overlay(data: &mut [u8], cached: Vec<(u32, Box<[u8]>)>, block: usize) {
    for (at, line) in cached {
        data[at as usize * block..][..block].copy_from_slice(&line);
    }
}

impl<D: BlockDevice> BlockDevice for WriteCache<D> {
    type Error = D::Error;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn room(&self) -> usize {
        // What waits for the device is held here.
        self.device.room().saturating_sub(self.ready.len()).max(usize::from(self.waiting.is_empty()))
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), D::Error> {
        self.outstanding += 1;
        self.waiting.push_back(Waiting { tag, part: *part, data });
        self.settle(now)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, D::Error> {
        if self.done.is_empty() {
            self.settle(now)?;
        }
        let done = self.done.pop_front();
        self.outstanding -= usize::from(done.is_some());
        Ok(done)
    }

    fn next_event(&self) -> Nanos {
        if self.outstanding == 0 { Nanos::MAX } else { self.next_work() }
    }

    fn next_work(&self) -> Nanos {
        if !self.done.is_empty() {
            return 0;
        }
        let own = match self.flushing {
            Some(_) if self.failing && self.destages == 0 => self.retry_at,
            Some(_) => Nanos::MAX,
            None if self.dirty.is_empty() => Nanos::MAX,
            None => self.flush_at,
        };
        own.min(self.device.next_work())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;
    use crate::conformance::{self, Memory};

    const SECOND: Nanos = 1_000_000_000;

    const CONFIG: WriteCacheConfig = WriteCacheConfig {
        capacity: 64 * 512,
        interval: 4 * SECOND,
        high: 75,
        low: 25,
        writes: 3,
        write_size: 8 * 512,
        contents: true,
    };

    fn memory(transfer: u32, seed: u64) -> Memory {
        let limits = crate::Limits { transfer, ..crate::Limits::NONE };
        Memory::new(Namespace { limits, ..Namespace::plain(1, 600, 512) }, 5, seed)
    }

    fn write(lba: u64, blocks: u32) -> Operation {
        Operation { verb: Verb::Write, lba, blocks }
    }

    /// Lets everything happen until nothing is left to do; the time then.
    fn rest(cache: &mut WriteCache<Memory>, mut now: Nanos) -> Nanos {
        while cache.next_work() < Nanos::MAX {
            now = now.max(cache.next_work());
            let Ok(_) = cache.poll(now);
        }
        now
    }

    #[test]
    fn it_conforms() {
        for seed in 0..12 {
            let config = WriteCacheConfig {
                capacity: 512 * (8 + 40 * (seed % 3)),
                interval: [1000, SECOND, 4 * SECOND][seed as usize % 3],
                writes: 1 + seed as usize % 4,
                ..CONFIG
            };
            let mut cache = WriteCache::new(config, memory(16, seed));
            let mut now = 0;
            conformance::check(&mut cache, seed, 300, |cache| {
                if cache.next_event() < Nanos::MAX {
                    now = now.max(cache.next_event());
                }
                now += 50;
                now
            });
            // In the end the device has what the host has seen.
            let mut seen = Vec::new();
            for lba in (0..600).step_by(8) {
                let Ok(()) =
                    cache.submit(now, 1, &Operation { verb: Verb::Read, lba, blocks: 8 }, vec![0; 4096]);
                let data = loop {
                    now = now.max(cache.next_event());
                    let Ok(done) = cache.poll(now);
                    if let Some(done) = done {
                        break done.data;
                    }
                };
                seen.extend(data);
            }
            rest(&mut cache, now);
            assert_eq!(
                (cache.held(), &cache.device().contents()[..seen.len()]),
                (0, &seen[..]),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn writes_end_at_once_and_go_to_the_device_in_order() {
        let mut cache = WriteCache::new(CONFIG, memory(16, 1));
        for (tag, lba) in [(1, 40), (2, 8), (3, 41), (4, 8)] {
            let Ok(()) = cache.submit(0, tag, &write(lba, 1), vec![tag as u8; 512]);
            let Ok(done) = cache.poll(0);
            assert_eq!(done.map(|done| done.tag), Some(tag));
        }
        assert_eq!((cache.next_event(), cache.next_work()), (Nanos::MAX, 4 * SECOND));
        assert_eq!((cache.held(), cache.device().submitted()), (3, 0));
        rest(&mut cache, 0);
        let counts = cache.counts();
        // 8, then 40 and 41 together; the first copy of 8 is never written.
        assert_eq!((counts.written, counts.overwritten, counts.destaged, counts.writes), (4, 1, 3, 2));
        assert_eq!((cache.device().contents()[8 * 512], cache.device().contents()[41 * 512]), (4, 3));
    }

    #[test]
    fn a_full_cache_lets_writes_wait() {
        let mut cache = WriteCache::new(CONFIG, memory(16, 1));
        // Three quarters of 64 blocks: it begins to write, long before four seconds have passed.
        for tag in 0..8 {
            let Ok(()) = cache.submit(0, tag, &write(u64::from(tag) * 20, 8), vec![1; 4096]);
        }
        let mut ended = 0;
        while let Ok(Some(_)) = cache.poll(0) {
            ended += 1;
        }
        assert_eq!((ended, cache.held()), (8, 64));
        let Ok(()) = cache.submit(0, 9, &write(500, 8), vec![1; 4096]);
        let Ok(None) = cache.poll(0) else { panic!("there is no room") };
        let at = cache.next_event();
        assert!(at < SECOND);
        let mut now = at;
        while let Ok(None) = cache.poll(now) {
            now = cache.next_event();
        }
        assert!(cache.held() <= 64);
    }

    #[test]
    fn what_the_device_does_not_take_stays() {
        let mut device = memory(16, 1);
        device.fail(0);
        device.fail(1);
        let mut cache = WriteCache::new(CONFIG, device);
        let Ok(()) = cache.submit(0, 1, &write(5, 4), vec![9; 2048]);
        let Ok(Some(_)) = cache.poll(0) else { panic!("a write ends at once") };
        let now = rest(&mut cache, 0);
        assert!(now >= 6 * SECOND, "twice in vain, a second apart each");
        assert_eq!((cache.counts().failed, cache.held()), (2, 0));
        assert_eq!(cache.device().contents()[5 * 512..9 * 512], [9; 2048]);
    }

    #[test]
    fn a_full_cache_before_a_broken_device_says_so() {
        let mut device = memory(16, 1);
        (0..100).for_each(|part| device.fail(part));
        let mut cache = WriteCache::new(CONFIG, device);
        let (mut now, mut failed) = (0, 0);
        for tag in 0..12 {
            let Ok(()) = cache.submit(now, tag, &write(u64::from(tag) * 20, 8), vec![1; 4096]);
            let done = loop {
                let Ok(done) = cache.poll(now);
                match done {
                    Some(done) => break done,
                    None => now = now.max(cache.next_event()),
                }
            };
            failed += u32::from(!done.status.is_success());
        }
        assert_eq!((failed, cache.held()), (4, 64), "64 blocks are kept, no more are promised");
    }
}
