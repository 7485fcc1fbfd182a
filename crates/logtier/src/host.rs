//! Requests of the host, and where writes go.

use crate::buckets::Stream;
use crate::config::{BLOCK, Mode};
use crate::shape::Device;
use crate::state::{Core, Extent, Owner, Phase, Request, Route, Stage, Waiter};
use blockdev::{Nanos, Operation, Status, Verb};
use stack::Done;

/// Write Fault (NVM Command Set 4.1.2.2, media and data integrity errors).
pub(crate) const WRITE_FAULT: Status = Status(2 << 8 | 0x80);
/// Unrecovered Read Error.
pub(crate) const READ_ERROR: Status = Status(2 << 8 | 0x81);

/// Above so many percent of buckets with dirty data, writes go past the cache (bcache's `CUTOFF_WRITEBACK_SYNC`).
const DIRTY_MOST: u64 = 70;

impl Core {
    /// Begins a request of the host. `data` has the length of the blocks: of a write their contents, of a read room for them. It is empty
    /// with every other verb, and where contents are not kept.
    pub fn submit(&mut self, now: Nanos, tag: u32, operation: &Operation, data: Vec<u8>) {
        self.last_request = now;
        let request = Request {
            tag,
            operation: *operation,
            data,
            stage: Stage::Before,
            route: Route::Origin,
            left: 0,
            placed: 0,
            written: Vec::new(),
            bypass: false,
            missed: false,
            locked: false,
            status: Status::SUCCESS,
        };
        let request = self.requests.insert(request);
        match self.phase {
            Phase::Running => self.begin(now, request),
            Phase::Opening(_) => self.held.push_back(request),
            _ => self.end_request(request, Status::NAMESPACE_NOT_READY),
        }
        self.work(now);
    }

    /// Whether the journal is so far behind that requests wait for it.
    pub(crate) fn is_behind(&self) -> bool {
        let most = (self.shape.commit() as usize - 14) * crate::format::RECORDS;
        self.commit.pending.len() > most && !self.health.is_bad()
    }

    pub(crate) fn begin(&mut self, now: Nanos, request: u32) {
        let Some(it) = self.requests.get(request) else { return };
        let Operation { verb, lba, blocks } = it.operation;
        let end = |lba: u64| lba.checked_add(blocks.into());
        let size = self.shape.geometry.blocks;
        let from = if let Verb::Copy { from, .. } = verb { from } else { lba };
        if end(lba).is_none_or(|end| end > size) || end(from).is_none_or(|end| end > size) {
            return self.end_request(request, Status::LBA_OUT_OF_RANGE);
        }
        if self.is_behind() {
            self.commit.wanted = true;
            return self.held.push_back(request);
        }
        let cutoff = self.config.sequential_cutoff;
        let moves = verb.reads() || verb.writes();
        if moves && cutoff > 0 && self.sequential.note(lba, blocks.into()) * BLOCK >= cutoff {
            self.counters.sequential += 1;
            if let Some(it) = self.requests.get_mut(request) {
                it.bypass = true;
            }
        }
        let buffer = if let Verb::Copy { .. } = verb { self.buffer(blocks) } else { Vec::new() };
        match verb {
            Verb::Append | Verb::Zone(_) => self.end_request(request, Status::INVALID_OPCODE),
            Verb::Flush | Verb::ReadFua => self.join_commit(Waiter::Request(request)),
            _ if blocks == 0 => self.end_request(request, Status::SUCCESS),
            Verb::Copy { from, .. } => {
                if let Some(it) = self.requests.get_mut(request) {
                    (it.stage, it.data) = (Stage::Source, buffer);
                }
                self.begin_read(now, request, from);
            }
            Verb::Read => self.begin_read(now, request, lba),
            Verb::Write | Verb::WriteFua | Verb::WriteZeroes { .. } | Verb::Trim => {
                self.begin_write(now, request);
            }
        }
    }

    /// A request goes on after the commit that it waited for.
    pub(crate) fn committed_request(&mut self, now: Nanos, request: u32, result: Result<(), Status>) {
        let Some(it) = self.requests.get_mut(request) else { return };
        let result = match self.health.is_bad() && self.commit.says_dirty {
            // The cache has it, or may have it after a restart.
            true => Err(WRITE_FAULT),
            false => result,
        };
        match (it.operation.verb, it.stage, result) {
            (Verb::ReadFua, Stage::Before, Ok(())) if it.operation.blocks > 0 => {
                let lba = it.operation.lba;
                self.begin_read(now, request, lba);
            }
            (_, _, result) => self.end_request(request, result.err().unwrap_or(Status::SUCCESS)),
        }
    }

    pub(crate) fn end_request(&mut self, request: u32, status: Status) {
        let Some(it) = self.requests.remove(request) else { return };
        let data = match it.operation.verb {
            Verb::Copy { .. } => Vec::new(),
            _ => it.data,
        };
        self.done.push_back(Done { tag: it.tag, status, data });
    }

    /// Whether something of this range is being written.
    pub(crate) fn is_locked(&self, lba: u64, blocks: u64) -> bool {
        let end = lba + blocks;
        self.locks.range(..end).next_back().is_some_and(|(_, locked)| *locked > lba)
    }

    /// Begins to write, or waits for another write of the same blocks.
    pub(crate) fn begin_write(&mut self, now: Nanos, request: u32) {
        let Some(it) = self.requests.get(request) else { return };
        let Operation { verb, lba, blocks } = it.operation;
        if self.is_locked(lba, blocks.into()) {
            return self.blocked.push_back(request);
        }
        let (block, bypass) = (lba as u32, it.bypass);
        let dirty = self.dirty.any(block, blocks);
        if self.health.is_bad() && (self.commit.says_dirty || dirty) {
            // The cache may be back after a restart, and then what it has holds.
            return self.end_request(request, WRITE_FAULT);
        }
        let end = block + blocks;
        for fill in self.fills.iter_mut().filter(|it| it.block < end && block < it.block + it.count) {
            fill.cancelled = true;
        }
        let full = u64::from(self.buckets.with_dirty()) * 100 > u64::from(self.buckets.count()) * DIRTY_MOST;
        let route = match (verb, self.config.mode) {
            _ if self.health.is_bad() => Route::Origin,
            // A deallocation is advice. What is dirty stays: the origin may have something older.
            (Verb::Trim, _) => Route::Origin,
            _ if dirty => Route::Cache,
            (Verb::WriteZeroes { .. }, _) => Route::Origin,
            (_, Mode::Writeback) if !bypass && !full => Route::Cache,
            (_, Mode::Writethrough) if !bypass => Route::Both,
            _ => Route::Origin,
        };
        match route {
            Route::Cache => self.counters.write_hits += 1,
            Route::Both | Route::Origin => self.counters.write_misses += 1,
        }
        self.locks.insert(lba, lba + u64::from(blocks));
        if let Some(it) = self.requests.get_mut(request) {
            (it.stage, it.route, it.left, it.locked) = (Stage::Writes, route, 1, true);
            (it.placed, it.status) = (0, Status::SUCCESS);
        }
        if route != Route::Cache {
            self.unmap_clean(block, blocks);
            self.write_past(request, 0, blocks);
        }
        match route {
            Route::Origin => self.part_ended(now, request),
            Route::Cache | Route::Both => self.place(now, request),
        }
    }

    /// Writes a part of a request to the origin.
    fn write_past(&mut self, request: u32, at: u32, blocks: u32) {
        let Some(it) = self.requests.get_mut(request) else { return };
        it.left += 1;
        let verb = match it.operation.verb.plain() {
            Verb::Copy { .. } => Verb::Write,
            verb => verb,
        };
        let data = match (verb, it.route) {
            (Verb::Write, Route::Origin) => std::mem::take(&mut it.data),
            (Verb::Write, _) => Self::slice(&it.data, at, blocks),
            _ => Vec::new(),
        };
        let operation = Operation { verb, lba: it.operation.lba + u64::from(at), blocks };
        self.emit(Owner::Past { request }, Device::Origin, operation, data);
    }

    /// Finds places for what a request writes, and writes it there.
    pub(crate) fn place(&mut self, now: Nanos, request: u32) {
        loop {
            let Some(it) = self.requests.get(request) else { return };
            let at = it.placed;
            let left = it.operation.blocks - at;
            let (block, route) = (it.operation.lba as u32 + at, it.route);
            if left == 0 || self.health.is_bad() {
                break;
            }
            let want = left.min(self.shape.transfer);
            let spare = if route == Route::Cache { 0 } else { 1 };
            let Some((place, count)) = self.buckets.append(Stream::Writes, want, spare) else {
                self.look_for_room = true;
                if route == Route::Both {
                    break;
                }
                return self.starved.push_back(request);
            };
            self.look_for_room |= self.buckets.free() <= self.reserve();
            let extent = Extent { block, place, count };
            self.buckets.pin(self.buckets.of(place));
            self.counters.written += u64::from(count);
            let zeroes = self.buffer(count);
            let Some(it) = self.requests.get_mut(request) else { return };
            (it.placed, it.left) = (at + count, it.left + 1);
            let data = match it.operation.verb {
                Verb::WriteZeroes { .. } => zeroes,
                _ => Self::slice(&it.data, at, count),
            };
            self.write_cache(Owner::Put { request, at, extent }, extent, data);
        }
        let unplaced = self.requests.get(request).is_some_and(|it| it.placed < it.operation.blocks);
        if unplaced {
            self.unplaced(request);
        }
        self.part_ended(now, request);
    }

    /// A request found no places for all that it writes, and will not.
    pub(crate) fn unplaced(&mut self, request: u32) {
        if let Some(it) = self.requests.get_mut(request)
            && it.route == Route::Cache
            && it.status.is_success()
        {
            it.status = WRITE_FAULT;
        }
    }

    pub(crate) fn write_cache(&mut self, owner: Owner, extent: Extent, data: Vec<u8>) {
        let lba = u64::from(self.shape.first + extent.place);
        let operation = Operation { verb: Verb::Write, lba, blocks: extent.count };
        self.emit(owner, Device::Cache, operation, data);
    }

    /// A write of a request to the cache has ended.
    pub(crate) fn put_done(&mut self, now: Nanos, request: u32, at: u32, extent: Extent, status: Status) {
        let Extent { block, count, .. } = extent;
        if status.is_success() {
            self.commit.cache_unflushed = true;
            if let Some(it) = self.requests.get_mut(request) {
                it.written.push(extent);
            }
            return self.part_ended(now, request);
        }
        self.buckets.unpin(self.buckets.of(extent.place));
        if self.requests.get(request).is_some_and(|it| it.route == Route::Cache) {
            let held = self.dirty.any(block, count) || self.health.is_bad() && self.commit.says_dirty;
            match held {
                true => {
                    if let Some(it) = self.requests.get_mut(request) {
                        it.status = WRITE_FAULT;
                    }
                }
                false => {
                    // It goes past the cache.
                    self.unmap_clean(block, count);
                    self.write_past(request, at, count);
                }
            }
        }
        self.part_ended(now, request);
    }

    /// A write of a request to the origin has ended.
    pub(crate) fn past_done(&mut self, now: Nanos, request: u32, status: Status, data: Vec<u8>) {
        self.commit.origin_unflushed = true;
        if let Some(it) = self.requests.get_mut(request) {
            if !status.is_success() && it.status.is_success() {
                it.status = status;
            }
            if it.data.is_empty() {
                it.data = data;
            }
        }
        self.part_ended(now, request);
    }

    /// One thing less that a request waits for.
    pub(crate) fn part_ended(&mut self, now: Nanos, request: u32) {
        let Some(it) = self.requests.get_mut(request) else { return };
        it.left -= 1;
        if it.left > 0 {
            return;
        }
        match it.stage {
            Stage::Source if it.status.is_success() => self.begin_write(now, request),
            Stage::Writes => self.written(now, request),
            _ => {
                let status = it.status;
                self.end_request(request, status);
            }
        }
    }

    /// Everything of a write has ended: now the index knows it.
    fn written(&mut self, now: Nanos, request: u32) {
        let bad = self.health.is_bad();
        let Some(it) = self.requests.get_mut(request) else { return };
        let extents = std::mem::take(&mut it.written);
        let (route, lba, fua) = (it.route, it.operation.lba, it.operation.verb.fua());
        if bad && route == Route::Cache && !extents.is_empty() {
            // The journal takes it no more.
            it.status = WRITE_FAULT;
        }
        let status = it.status;
        for extent in extents {
            let bucket = self.buckets.of(extent.place);
            match route {
                Route::Cache if !bad => self.map(extent, true),
                Route::Both if !bad && status.is_success() => self.map(extent, false),
                _ => {}
            }
            self.buckets.unpin(bucket);
        }
        self.locks.remove(&lba);
        for other in std::mem::take(&mut self.blocked) {
            self.begin_write(now, other);
        }
        if !fua || !status.is_success() {
            return self.end_request(request, status);
        }
        if let Some(it) = self.requests.get_mut(request) {
            it.stage = Stage::After;
        }
        self.join_commit(Waiter::Request(request));
    }
}
