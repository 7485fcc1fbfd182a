//! Reads of the host, and what they bring to the cache.

use crate::buckets::Stream;
use crate::config::BLOCK;
use crate::host::READ_ERROR;
use crate::shape::Device;
use crate::state::{Core, Extent, Fill, Owner, Stage};
use blockdev::{Nanos, Operation, Status, Verb};

/// Reads that bring something to the cache at the same time, at most. Others are not cached.
const FILLS: usize = 256;

impl Core {
    /// Begins to read, from this block of the origin on.
    pub(crate) fn begin_read(&mut self, now: Nanos, request: u32, lba: u64) {
        let Some(it) = self.requests.get_mut(request) else { return };
        let blocks = it.operation.blocks;
        it.left = 1;
        if it.stage != Stage::Source {
            it.stage = Stage::Reads;
        }
        self.read_range(request, 0, lba as u32, blocks);
        let missed = self.requests.get(request).is_some_and(|it| it.missed);
        match missed {
            true => self.counters.read_misses += 1,
            false => self.counters.read_hits += 1,
        }
        self.part_ended(now, request);
    }

    /// Where a block is read, if not from the origin.
    fn source(&self, block: u32) -> Option<u32> {
        // What is clean is read from the origin after a failure.
        if self.health.is_bad() && !self.dirty.get(block) {
            return None;
        }
        self.index.get(block)
    }

    fn read_range(&mut self, request: u32, mut at: u32, mut block: u32, blocks: u32) {
        let end = block + blocks;
        while block < end {
            let mut count = 1;
            match self.source(block) {
                Some(place) => {
                    let bucket = self.buckets.of(place);
                    while block + count < end
                        && self.buckets.of(place + count) == bucket
                        && self.source(block + count) == Some(place + count)
                    {
                        count += 1;
                    }
                    self.read_cache(request, at, Extent { block, place, count });
                }
                None => {
                    while block + count < end && self.source(block + count).is_none() {
                        count += 1;
                    }
                    self.read_origin(request, at, block, count);
                }
            }
            (block, at) = (block + count, at + count);
        }
    }

    fn read_cache(&mut self, request: u32, at: u32, extent: Extent) {
        let Extent { place, count, .. } = extent;
        let failed = self.health.cache_failed;
        let Some(it) = self.requests.get_mut(request) else { return };
        if failed {
            it.status = READ_ERROR;
            return;
        }
        it.left += 1;
        let bucket = self.buckets.of(place);
        self.buckets.pin(bucket);
        self.buckets.touch(bucket, count);
        let operation =
            Operation { verb: Verb::Read, lba: u64::from(self.shape.first + place), blocks: count };
        let data = self.buffer(count);
        self.emit(Owner::Hit { request, at, extent }, Device::Cache, operation, data);
    }

    fn read_origin(&mut self, request: u32, at: u32, block: u32, count: u32) {
        let Some(it) = self.requests.get_mut(request) else { return };
        it.left += 1;
        it.missed = true;
        let fills = !it.bypass
            && !self.health.is_bad()
            && self.fills.len() < FILLS
            && !self.is_locked(block.into(), count.into());
        let fill = fills.then(|| self.fills.insert(Fill { block, count, cancelled: false, left: 0 }));
        let operation = Operation { verb: Verb::Read, lba: block.into(), blocks: count };
        let data = self.buffer(count);
        self.emit(Owner::Miss { request, at, fill }, Device::Origin, operation, data);
    }

    fn copy_in(&mut self, request: u32, at: u32, data: &[u8]) {
        let start = at as usize * BLOCK as usize;
        if let Some(it) = self.requests.get_mut(request)
            && let Some(room) = it.data.get_mut(start..start + data.len())
        {
            room.copy_from_slice(data);
        }
    }

    /// A read of the cache has ended.
    pub(crate) fn hit_done(
        &mut self,
        now: Nanos,
        (request, at): (u32, u32),
        extent: Extent,
        status: Status,
        data: &[u8],
    ) {
        let Extent { block, place, count } = extent;
        self.buckets.unpin(self.buckets.of(place));
        if status.is_success() {
            self.copy_in(request, at, data);
        } else if (0..count)
            .any(|n| self.dirty.get(block + n) && self.index.get(block + n) == Some(place + n))
        {
            if let Some(it) = self.requests.get_mut(request) {
                it.status = READ_ERROR;
            }
        } else {
            // What is clean comes from the origin, and what was written meanwhile from where it is.
            self.unmap_clean(block, count);
            self.read_range(request, at, block, count);
        }
        self.part_ended(now, request);
    }

    /// A read of the origin has ended.
    pub(crate) fn miss_done(
        &mut self,
        now: Nanos,
        (request, at): (u32, u32),
        fill: Option<u32>,
        status: Status,
        data: &[u8],
    ) {
        match status.is_success() {
            true => self.copy_in(request, at, data),
            false => {
                if let Some(it) = self.requests.get_mut(request) {
                    it.status = status;
                }
            }
        }
        if let Some(fill) = fill {
            let goes_on = status.is_success() && !self.health.is_bad();
            self.place_fill(fill, goes_on, data);
        }
        self.part_ended(now, request);
    }

    /// Writes what was read to the cache, if there is room.
    fn place_fill(&mut self, fill: u32, goes_on: bool, data: &[u8]) {
        let Some(&Fill { block, count, cancelled, .. }) = self.fills.get(fill) else { return };
        let (mut at, mut left) = (0, 0);
        while goes_on && !cancelled && at < count {
            let want = (count - at).min(self.shape.transfer);
            let spare = self.reserve() / 2;
            let Some((place, got)) = self.buckets.append(Stream::Fills, want, spare) else {
                self.look_for_room = true;
                break;
            };
            self.look_for_room |= self.buckets.free() <= self.reserve();
            self.buckets.pin(self.buckets.of(place));
            self.counters.filled += u64::from(got);
            let extent = Extent { block: block + at, place, count: got };
            let data = Self::slice(data, at, got);
            self.write_cache(Owner::Fill { fill, extent }, extent, data);
            (at, left) = (at + got, left + 1);
        }
        match self.fills.get_mut(fill) {
            Some(it) if left > 0 => it.left = left,
            _ => {
                self.fills.remove(fill);
            }
        }
    }

    /// A fill's write to the cache has ended.
    pub(crate) fn fill_done(&mut self, fill: u32, extent: Extent, status: Status) {
        let Some(it) = self.fills.get_mut(fill) else { return };
        it.left -= 1;
        let (left, cancelled) = (it.left, it.cancelled);
        if status.is_success() {
            self.commit.cache_unflushed = true;
            if !cancelled && !self.health.is_bad() {
                self.map(extent, false);
            }
        }
        self.buckets.unpin(self.buckets.of(extent.place));
        if left == 0 {
            self.fills.remove(fill);
        }
    }
}
