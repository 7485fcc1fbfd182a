//! Write-back: dirty blocks go to the origin in the order of its blocks, at a rate.

use crate::config::BLOCK;
use crate::shape::Device;
use crate::state::{Back, Core, Extent, Owner, Phase};
use blockdev::{Nanos, Operation, Status, Verb};

pub(crate) const SECOND: Nanos = 1_000_000_000;
/// Write-backs at the same time.
const BACKS: usize = 16;
/// Blocks of one: 256 KiB.
const RUN: u32 = 64;
/// Runs after which the origin is flushed, and what it got is clean.
const BATCH: usize = 64;
/// Without a request for so long, hosts count as idle, and the write-back goes as fast as it may: bcache's 30 s.
const IDLE: Nanos = 30 * SECOND;
/// Where nothing was dirty, the write-back begins so long after something is (bcache's `writeback_delay`).
pub(crate) const DELAY: Nanos = 30 * SECOND;
/// Backs that wait for a commit, at most.
const RETURNED: usize = 4 * BATCH;
/// What is dirty beyond the target is to be gone after so many seconds (bcache's `writeback_rate_p_term_inverse`).
const SECONDS: u64 = 40;

impl Core {
    /// Bytes per second of the write-back now.
    fn rate(&self, now: Nanos) -> u64 {
        let (least, most) = self.config.writeback_rate;
        if now.saturating_sub(self.last_request) >= IDLE {
            return most;
        }
        let target = u64::from(self.shape.places()) * u64::from(self.config.dirty_target) / 100;
        let beyond = u64::from(self.dirty.count()).saturating_sub(target);
        (beyond * BLOCK / SECONDS).clamp(least, most)
    }

    /// The next block that is dirty and not under way, from the cursor on and around.
    fn next_dirty(&self) -> Option<u32> {
        let search = |mut from: u32| {
            while let Some(block) = self.dirty.next(from) {
                if !self.returning.get(block) {
                    return Some(block);
                }
                from = block + 1;
            }
            None
        };
        search(self.cursor).or_else(|| search(0))
    }

    /// Begins what may begin.
    pub(crate) fn write_back(&mut self, now: Nanos) {
        if !self.may_write_back() || now < self.pause {
            return;
        }
        while self.backs.len() < BACKS && self.returned.len() < RETURNED {
            if let Some(block) = self.urgent.pop_front() {
                if self.dirty.get(block) && !self.returning.get(block) {
                    self.begin_back(block);
                }
                continue;
            }
            if self.dirty.count() == 0 || !self.cleaning && now < self.next_back {
                break;
            }
            let Some(block) = self.next_dirty() else { break };
            let count = self.begin_back(block);
            self.cursor = block + count;
            let nanos = u64::from(count) * BLOCK * SECOND / self.rate(now).max(1);
            self.next_back = now.max(self.next_back) + nanos;
        }
        let enough = self.returned.len() >= BATCH;
        let all = self.cleaning && self.backs.is_empty() && !self.returned.is_empty();
        self.commit.wanted |= enough || all;
        if self.cleaning && self.dirty.count() == 0 && self.backs.is_empty() && self.returned.is_empty() {
            self.cleaned(now);
        }
    }

    /// When the write-back goes on.
    pub(crate) fn next_write_back(&self) -> Nanos {
        let more = self.dirty.count() > 0
            && self.backs.len() < BACKS
            && self.returned.len() < RETURNED
            && self.next_dirty().is_some();
        match more && self.may_write_back() {
            true if self.cleaning || !self.urgent.is_empty() => self.pause,
            true => self.next_back.max(self.pause),
            false => Nanos::MAX,
        }
    }

    fn may_write_back(&self) -> bool {
        let running = match self.phase {
            Phase::Running => true,
            Phase::Quiescing => !self.starved.is_empty(),
            _ => false,
        };
        running && !self.health.is_bad()
    }

    /// Begins with the dirty blocks from this one on. Returns how many.
    fn begin_back(&mut self, block: u32) -> u32 {
        let most = RUN.min(self.shape.transfer).min(self.shape.origin_blocks - block);
        let mut extents: Vec<Extent> = Vec::new();
        let mut count = 0;
        while count < most {
            let at = block + count;
            if !self.dirty.get(at) || self.returning.get(at) {
                break;
            }
            let Some(place) = self.index.get(at) else { break };
            let buckets = &self.buckets;
            match extents.last_mut() {
                Some(last)
                    if last.place + last.count == place && buckets.of(last.place) == buckets.of(place) =>
                {
                    last.count += 1;
                }
                _ => extents.push(Extent { block: at, place, count: 1 }),
            }
            self.returning.set(at);
            count += 1;
        }
        let data = self.buffer(count);
        let left = extents.len() as u32;
        let back = Back { block, extents: extents.clone(), data, left, status: Status::SUCCESS };
        let back = self.backs.insert(back);
        for extent in extents {
            self.buckets.pin(self.buckets.of(extent.place));
            let lba = u64::from(self.shape.first + extent.place);
            let operation = Operation { verb: Verb::Read, lba, blocks: extent.count };
            let data = self.buffer(extent.count);
            let owner = Owner::BackRead { back, at: extent.block - block };
            self.emit(owner, Device::Cache, operation, data);
        }
        count
    }

    /// A read of a write-back has ended.
    pub(crate) fn back_read(&mut self, now: Nanos, back: u32, at: u32, status: Status, data: &[u8]) {
        let Some(it) = self.backs.get_mut(back) else { return };
        if !status.is_success() {
            it.status = status;
        } else {
            let start = at as usize * BLOCK as usize;
            if let Some(room) = it.data.get_mut(start..start + data.len()) {
                room.copy_from_slice(data);
            }
        }
        it.left -= 1;
        if it.left > 0 {
            return;
        }
        if !it.status.is_success() {
            return self.back_failed(now, back);
        }
        let blocks = it.extents.iter().map(|extent| extent.count).sum();
        let operation = Operation { verb: Verb::Write, lba: it.block.into(), blocks };
        let data = std::mem::take(&mut it.data);
        self.emit(Owner::BackWrite { back }, Device::Origin, operation, data);
    }

    /// The write of a write-back has ended.
    pub(crate) fn back_written(&mut self, now: Nanos, back: u32, status: Status) {
        self.commit.origin_unflushed = true;
        if !status.is_success() {
            return self.back_failed(now, back);
        }
        let Some(it) = self.backs.remove(back) else { return };
        self.counters.written_back += it.extents.iter().map(|extent| u64::from(extent.count)).sum::<u64>();
        self.returned.extend(it.extents);
        self.look_for_room |= !self.starved.is_empty();
    }

    fn back_failed(&mut self, now: Nanos, back: u32) {
        let Some(it) = self.backs.remove(back) else { return };
        self.clean(it.extents, false);
        self.not_cleaned(now);
    }

    /// Something that is dirty was not written back: not before the next second, and what waits for it fails.
    pub(crate) fn not_cleaned(&mut self, now: Nanos) {
        self.pause = now + SECOND;
        self.urgent.clear();
        self.starve(now);
        self.cleaning_failed();
    }
}
