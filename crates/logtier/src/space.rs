//! The index gains and loses places, and buckets become free for more.

use crate::buckets::State;
use crate::format::Record;
use crate::state::{Core, Extent};
use crate::writeback::DELAY;
use blockdev::Nanos;

impl Core {
    /// Free buckets that are kept: a 64th of all.
    pub(crate) fn reserve(&self) -> u32 {
        (self.buckets.count() / 64).clamp(2, 256)
    }

    /// Blocks lie at these places now. What lay of them elsewhere is valid no more.
    pub(crate) fn map(&mut self, extent: Extent, dirty: bool) {
        for n in 0..extent.count {
            let (block, place) = (extent.block + n, extent.place + n);
            self.put(block, place, dirty);
        }
        let Extent { block, place, count } = extent;
        self.commit.pending.push(Record::Insert { block, place, count: count as u16, dirty });
        if dirty {
            if self.dirty.count() == extent.count {
                self.next_back = self.next_back.max(self.last_request + DELAY);
            }
            (self.commit.says_dirty, self.commit.dirtied) = (true, true);
        }
    }

    fn put(&mut self, block: u32, place: u32, dirty: bool) {
        let before = self.index.insert(block, place);
        let bucket = self.buckets.of(place);
        self.buckets.came(bucket);
        if let Some(before) = before {
            let old = self.buckets.of(before);
            if self.dirty.clear(block) {
                self.buckets.mark(old, false);
            }
            self.buckets.went(old);
        }
        if dirty {
            self.dirty.set(block);
            self.buckets.mark(bucket, true);
        }
    }

    /// Takes what is clean of these blocks out of the cache.
    pub(crate) fn unmap_clean(&mut self, block: u32, count: u32) {
        let mut run = (block, 0);
        for at in block..block + count {
            if !self.dirty.get(at)
                && let Some(place) = self.index.remove(at)
            {
                self.buckets.went(self.buckets.of(place));
                match run.0 + run.1 == at {
                    true => run.1 += 1,
                    false => {
                        self.removed(run);
                        run = (at, 1);
                    }
                }
            }
        }
        self.removed(run);
    }

    fn removed(&mut self, (block, count): (u32, u32)) {
        if count > 0 {
            self.commit.pending.push(Record::Remove { block, count });
        }
    }

    /// These blocks were written back: the origin has them durably.
    pub(crate) fn clean(&mut self, extents: Vec<Extent>, durable: bool) -> Vec<Record> {
        let mut records = Vec::new();
        for extent in extents {
            let bucket = self.buckets.of(extent.place);
            let mut run: Option<Extent> = None;
            for n in 0..extent.count {
                let (block, place) = (extent.block + n, extent.place + n);
                self.returning.clear(block);
                let is_it = durable && self.dirty.get(block) && self.index.get(block) == Some(place);
                if !is_it {
                    continue;
                }
                self.dirty.clear(block);
                self.buckets.mark(bucket, false);
                match &mut run {
                    Some(run) if run.block + run.count == block => run.count += 1,
                    _ => {
                        records.extend(run.take().map(cleaned));
                        run = Some(Extent { block, place, count: 1 });
                    }
                }
            }
            records.extend(run.map(cleaned));
            self.buckets.unpin(bucket);
        }
        self.look_for_room = true;
        records
    }

    /// Takes clean buckets back before there is none free, and writes dirty ones back if there are no clean ones.
    pub(crate) fn make_room(&mut self, _now: Nanos) {
        if !std::mem::take(&mut self.look_for_room) || self.health.is_bad() {
            return;
        }
        let reserve = self.reserve();
        let coming = (self.buckets.freeing.len() + self.commit.freed.len()) as u32;
        let mut have = self.buckets.free() + coming;
        if have < reserve {
            for victim in self.buckets.victims(reserve + reserve / 4 - have) {
                self.evict(victim);
                have += 1;
            }
        }
        let few = self.buckets.free() <= reserve / 2 || !self.starved.is_empty();
        if few && !self.buckets.freeing.is_empty() {
            self.commit.wanted = true;
        }
        if have < reserve && self.urgent.is_empty() {
            self.clean_bucket();
        }
        if have < reserve && !self.returned.is_empty() && self.backs.is_empty() {
            self.commit.wanted = true;
        }
    }

    /// Drops what is valid in a clean bucket.
    fn evict(&mut self, bucket: u32) {
        let count = self.shape.bucket;
        let place = bucket * count;
        self.counters.reclaimed += 1;
        self.counters.evicted += u64::from(self.buckets.get(bucket).valid);
        for at in place..place + count {
            if let Some(block) = self.index.owner(at) {
                self.index.remove(block);
                self.buckets.went(bucket);
            }
        }
        self.commit.pending.push(Record::Reset { place, count });
    }

    /// Has the bucket with the least that is dirty written back at once.
    fn clean_bucket(&mut self) {
        let Some(bucket) = self.buckets.least_dirty() else { return };
        debug_assert_eq!(self.buckets.get(bucket).state, State::Closed);
        let first = bucket * self.shape.bucket;
        let owners = (first..first + self.shape.bucket).filter_map(|place| self.index.owner(place));
        let mut blocks: Vec<u32> =
            owners.filter(|block| self.dirty.get(*block) && !self.returning.get(*block)).collect();
        blocks.sort_unstable();
        self.urgent.extend(blocks);
    }
}

fn cleaned(run: Extent) -> Record {
    Record::Clean { block: run.block, place: run.place, count: run.count as u16 }
}
