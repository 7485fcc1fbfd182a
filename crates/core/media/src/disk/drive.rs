//! A disk with a queue: submit, next event, poll.

use super::cache::{CacheConfig, Lookup};
use super::geometry::Place;
use super::mechanism::{Access, Before, SlowSectors};
use super::service::{Model, State};
use super::types::{Completion, DiskError, Op, ReadsFirst, Request};
use crate::time::Nanos;

/// Which waiting request is next.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The one that the heads reach first. A request that has waited for a while counts as if it were reached earlier: by `age` parts
    /// of 256 of its wait. So none waits for ever. Seltzer, Chen, Ousterhout, "Disk scheduling revisited", USENIX Winter 1990.
    Sptf {
        /// Parts of 256 of the wait.
        age: u32,
    },
}

/// What a disk is.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// The parts.
    pub model: Model,
    /// The firmware of the buffer.
    pub cache: CacheConfig,
    /// Bytes of a block: 512 or 4096.
    pub block_bytes: u32,
    /// Scheduling.
    pub scheduling: Scheduling,
    /// Blocks of writes that the buffer holds, if the model has a write cache.
    pub write_buffer: u64,
}

/// A request or a buffered write that waits for the arm.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    place: Place,
    /// When the controller can begin with it.
    ready: Nanos,
    /// Which request of the disk it is.
    order: u64,
}

/// What the arm does.
#[derive(Clone, Copy, Debug)]
struct Work {
    request: Request,
    /// The host waits for it. Otherwise it is a buffered write.
    answers: bool,
    from: Nanos,
    before: Before,
    access: Access,
}

/// What a power cut left.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PowerCut {
    /// The write that was under way.
    pub under_way: Option<u64>,
    /// Blocks of the write under way that are on the platters: first block and number.
    pub written: Option<(u64, u32)>,
    /// The block that was under the head: neither old nor new, and it cannot be read until it is written again.
    pub torn: Option<u64>,
    /// Blocks of writes that were in the buffer only, some of them acknowledged.
    pub lost: Vec<(u64, u32)>,
}

/// Revolutions that a read of an unreadable block takes before it fails.
const RETRIES: u32 = 8;
/// Revolutions that a reassigned block takes: to its spare track, and back.
pub const REASSIGNED_REVOLUTIONS: u32 = 2;

/// A disk. It holds no contents.
///
/// Requests for the same blocks keep their order if one of them writes.
#[derive(Clone, Debug)]
pub struct Disk {
    model: Model,
    state: State,
    block_bytes: u32,
    scheduling: Scheduling,
    write_buffer: u64,
    waiting: Vec<Waiting>,
    /// Buffered writes, oldest first.
    dirty: Vec<Waiting>,
    dirty_blocks: u64,
    work: Option<Work>,
    /// Completions that are to come, not sorted: there are few.
    due: Vec<Completion>,
    /// Flushes. Each waits for the buffered writes before this order.
    flushes: Vec<(u64, u64)>,
    /// Buffered writes that have reached the platters, and that the owner was not told of.
    landed: Vec<u64>,
    /// Blocks that were reassigned, and that the owner was not told of.
    reassigned: Vec<u64>,
    /// Order of the next request.
    next_order: u64,
    /// The controller serves one command of the buffer at a time.
    controller: Nanos,
    /// Unreadable blocks, sorted.
    unreadable: Vec<u64>,
}

impl Disk {
    /// A disk that has just started.
    ///
    /// # Errors
    /// If blocks are neither of 512 nor of 4096 bytes.
    pub fn new(config: DiskConfig) -> Result<Disk, DiskError> {
        if ![512, 4096].contains(&config.block_bytes) {
            return Err(DiskError::new(format!("blocks of {} bytes: 512 or 4096", config.block_bytes)));
        }
        Ok(Disk {
            model: config.model,
            state: State::new(config.cache),
            block_bytes: config.block_bytes,
            scheduling: config.scheduling,
            write_buffer: config.write_buffer,
            waiting: Vec::new(),
            dirty: Vec::new(),
            dirty_blocks: 0,
            work: None,
            due: Vec::new(),
            flushes: Vec::new(),
            landed: Vec::new(),
            reassigned: Vec::new(),
            next_order: 0,
            controller: Nanos::ZERO,
            unreadable: Vec::new(),
        })
    }

    /// Blocks of the disk.
    pub fn blocks(&self) -> u64 {
        self.model.mechanism.geometry.blocks()
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Requests that have no completion yet.
    pub fn outstanding(&self) -> usize {
        let works = self.work.is_some_and(|w| w.answers);
        self.waiting.len() + self.due.len() + self.flushes.len() + usize::from(works)
    }

    /// Puts a request to the disk at `now`, which never goes backwards.
    ///
    /// # Panics
    /// If the disk does not have the blocks.
    pub fn submit(&mut self, now: Nanos, request: Request) {
        let Request { op, block, count, .. } = request;
        assert!(count > 0 && block + u64::from(count) <= self.blocks(), "blocks {block} + {count}");
        self.advance(now);
        self.next_order += 1;
        let buffered = match op {
            Op::Read => self.finds(now, block, count),
            // The buffer must not overtake a write of the same blocks that waits for the platters.
            Op::Write => {
                !request.force
                    && self.has_room(count)
                    && !self.awaits_write(block, count)
                    && self.unreadable_of(&request).is_none()
            }
        };
        if buffered {
            self.answer(now, request);
        } else {
            let command = self.model.overheads.command[op as usize][0][self.state.before.op as usize];
            let place = self.model.mechanism.geometry.place(block);
            self.waiting.push(Waiting { request, place, ready: now + command, order: self.next_order });
        }
        if self.work.is_none() {
            self.start(now);
        }
    }

    /// Completes `id` when all writes that are in the buffer at `now` are on the platters.
    pub fn flush(&mut self, now: Nanos, id: u64) {
        self.advance(now);
        if self.dirty.is_empty() && self.work.is_none_or(|w| w.answers) {
            self.due.push(Completion { id, at: now, hit: false, failed: None });
        } else {
            self.flushes.push((id, self.next_order));
        }
        if self.work.is_none() {
            self.start(now);
        }
    }

    /// When something happens next, if nothing is submitted before.
    pub fn next_event(&self) -> Option<Nanos> {
        let due = self.due.iter().map(|c| c.at).min();
        let work = self.work.map(|w| w.access.end);
        due.into_iter().chain(work).min()
    }

    /// Appends what is complete at `now`, in the order of time.
    pub fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.advance(now);
        let from = completions.len();
        self.due.retain(|c| {
            if c.at <= now {
                completions.push(*c);
            }
            c.at > now
        });
        completions[from..].sort_by_key(|c| c.at);
    }

    /// Whether writes are complete when they are in the buffer.
    #[inline]
    pub fn has_write_cache(&self) -> bool {
        self.model.write_cache
    }

    /// Appends the numbers of writes that were complete when they were in the buffer, and that are on the platters now.
    #[inline]
    pub fn take_landed(&mut self, landed: &mut Vec<u64>) {
        landed.append(&mut self.landed);
    }

    /// Appends the blocks that could not be read, and that a write has reassigned to spares. Each takes [`REASSIGNED_REVOLUTIONS`] revolutions more.
    #[inline]
    pub fn take_reassigned(&mut self, reassigned: &mut Vec<u64>) {
        reassigned.append(&mut self.reassigned);
    }

    /// Whether a block cannot be read.
    #[inline]
    pub fn is_unreadable(&self, block: u64, count: u32) -> bool {
        let at = self.unreadable.partition_point(|&b| b < block);
        self.unreadable.get(at).is_some_and(|&b| b < block + u64::from(count))
    }

    /// The first block that a request must read and that cannot be read.
    fn unreadable_of(&self, request: &Request) -> Option<u64> {
        if self.unreadable.is_empty() {
            return None;
        }
        let Request { op, block, count, reads_first, .. } = *request;
        let end = block + u64::from(count);
        let first_in = |from: u64, to: u64| {
            let at = self.unreadable.partition_point(|&b| b < from);
            self.unreadable.get(at).copied().filter(|&b| b < to)
        };
        match (op, reads_first) {
            (Op::Read, _) | (Op::Write, ReadsFirst::All) => first_in(block, end),
            (Op::Write, ReadsFirst::Nothing) => None,
            (Op::Write, ReadsFirst::Ends { first, last }) => {
                first_in(block, block + u64::from(first)).or_else(|| first_in(end - u64::from(last), end))
            }
        }
    }

    /// Blocks that cannot be read until they are written again, in their order.
    pub fn unreadable(&self) -> &[u64] {
        &self.unreadable
    }

    /// Blocks that take more revolutions, in their order.
    pub fn slow_sectors(&self) -> &[SlowSectors] {
        &self.model.mechanism.slow
    }

    /// Power is lost. Requests that have no completion yet never get one.
    pub fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.advance(now);
        let mut cut = PowerCut::default();
        // A write that will fail, because it must read what cannot be read, writes nothing.
        let writes = |w: &Work| w.request.op == Op::Write && self.unreadable_of(&w.request).is_none();
        if let Some(work) = self.work.filter(writes) {
            let done = self.done(&work, now);
            let Request { id, block, count, .. } = work.request;
            cut.under_way = Some(id);
            cut.written = (done > 0).then_some((block, done));
            let next = block + u64::from(done);
            if done < count && self.is_under_head(&work, done, now) {
                cut.torn = Some(next);
                self.mark(next);
            }
            if !work.answers && done < count {
                cut.lost.push((next, count - done));
            }
        }
        cut.lost.extend(self.dirty.iter().map(|w| (w.request.block, w.request.count)));
        (self.work, self.dirty_blocks, self.controller) = (None, 0, now);
        self.waiting.clear();
        self.dirty.clear();
        self.due.clear();
        self.flushes.clear();
        self.landed.clear();
        self.state.cache.clear();
        cut
    }

    /// A block becomes unreadable until it is written again: the next write reassigns it to a spare, which takes longer from then on.
    ///
    /// # Panics
    /// If the disk does not have the block.
    pub fn grow_defect(&mut self, block: u64) {
        assert!(block < self.blocks(), "block {block}");
        self.mark(block);
    }

    /// From now on, blocks take more revolutions.
    pub fn slow_down(&mut self, sectors: SlowSectors) {
        let slow = &mut self.model.mechanism.slow;
        let end = sectors.first + sectors.count;
        slow.retain(|s| s.first >= end || s.first + s.count <= sectors.first);
        let at = slow.partition_point(|s| s.first < sectors.first);
        slow.insert(at, sectors);
    }

    /// Blocks can be read again: they were written without the arm.
    pub fn make_readable(&mut self, block: u64, count: u32) {
        self.unreadable.retain(|&b| b < block || b >= block + u64::from(count));
    }

    fn mark(&mut self, block: u64) {
        if let Err(at) = self.unreadable.binary_search(&block) {
            self.unreadable.insert(at, block);
        }
    }

    /// Whether the buffer answers a read: it has the blocks, or buffered writes have them.
    fn finds(&self, now: Nanos, block: u64, count: u32) -> bool {
        let end = block + u64::from(count);
        // A block that was written in part is not whole before the disk has read it.
        let has = |w: &Waiting| {
            let r = &w.request;
            r.reads_first == ReadsFirst::Nothing && r.block <= block && end <= r.block + u64::from(r.count)
        };
        self.dirty.iter().any(has)
            || (!self.is_unreadable(block, count)
                && self.state.cache.lookup(now, block, count) == Lookup::Hit)
    }

    /// Whether a write of one of the blocks waits for the platters, and the host for it.
    fn awaits_write(&self, block: u64, count: u32) -> bool {
        let end = block + u64::from(count);
        let hits = |r: &Request| r.op == Op::Write && r.block < end && block < r.block + u64::from(r.count);
        self.work.is_some_and(|w| w.answers && hits(&w.request))
            || self.waiting.iter().any(|w| hits(&w.request))
    }

    fn has_room(&self, count: u32) -> bool {
        self.model.write_cache && self.dirty_blocks + u64::from(count) <= self.write_buffer
    }

    /// The buffer answers.
    fn answer(&mut self, now: Nanos, request: Request) {
        let Request { id, op, block, count, .. } = request;
        let overheads = &self.model.overheads;
        let command = overheads.command[op as usize][1][self.state.before.op as usize];
        let bus = Nanos(overheads.block.0 * u64::from(count));
        let at = now.max(self.controller) + command + bus + overheads.completion[op as usize];
        self.controller = at;
        self.due.push(Completion { id, at, hit: true, failed: None });
        if op == Op::Write {
            let place = self.model.mechanism.geometry.place(block);
            self.dirty.push(Waiting { request, place, ready: at, order: self.next_order });
            self.dirty_blocks += u64::from(count);
        } else if self.work.is_none() {
            self.model.account(&mut self.state, now, op, (block, count), true, None);
        }
    }

    /// Lets time pass until `now`.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        while let Some(work) = self.work.filter(|w| w.access.end <= now) {
            self.work = None;
            self.end(&work);
            self.start(work.access.end);
        }
    }

    /// The arm is done with `work`.
    fn end(&mut self, work: &Work) {
        let Request { id, op, block, count, .. } = work.request;
        let end = block + u64::from(count);
        let failed = self.unreadable_of(&work.request);
        if !self.unreadable.is_empty() && op == Op::Write && failed.is_none() {
            let (from, to) = (
                self.unreadable.partition_point(|&b| b < block),
                self.unreadable.partition_point(|&b| b < end),
            );
            let reassigned: Vec<u64> = self.unreadable.drain(from..to).collect();
            for &first in &reassigned {
                self.slow_down(SlowSectors { first, count: 1, revolutions: REASSIGNED_REVOLUTIONS });
            }
            self.reassigned.extend(reassigned);
        }
        if work.answers {
            let over = if op == Op::Read { work.access.bus_end } else { work.access.end };
            let at = over + self.model.overheads.completion[op as usize];
            self.due.push(Completion { id, at, hit: false, failed });
            return;
        }
        self.dirty_blocks -= u64::from(count);
        self.landed.push(id);
        if self.flushes.is_empty() {
            return;
        }
        let oldest = self.dirty.iter().map(|w| w.order).min().unwrap_or(u64::MAX);
        let (at, due) = (work.access.end, &mut self.due);
        self.flushes.retain(|&(id, before)| {
            let waits = oldest <= before;
            if !waits {
                due.push(Completion { id, at, hit: false, failed: None });
            }
            waits
        });
    }

    /// The arm is free at `now`: it begins with what is next.
    fn start(&mut self, now: Nanos) {
        // Hosts wait for requests, so buffered writes come after them, unless the buffer is half full or a flush waits.
        // A write to the platters must not be undone by an older one that is still in the buffer, and a read must not miss it.
        let older = |w: &Waiting| overtakes(&self.dirty, w);
        let pressed = self.dirty_blocks * 2 > self.write_buffer
            || !self.flushes.is_empty()
            || (!self.dirty.is_empty() && self.waiting.iter().any(older));
        let host = if pressed && !self.dirty.is_empty() { None } else { self.choose(&self.waiting, now) };
        let (waiting, answers) = match host {
            Some(i) => (self.waiting.swap_remove_kept(i, self.scheduling), true),
            None => match self.choose(&self.dirty, now) {
                Some(i) => (self.dirty.swap_remove_kept(i, self.scheduling), false),
                None => return,
            },
        };
        let Request { op, block, count, .. } = waiting.request;
        let from = now.max(waiting.ready);
        let before = self.state.before;
        self.state.cache.stop(from);
        let bus = self.model.overheads.block;
        let mut access =
            self.model.mechanism.access_from(from, &before, op, (block, count), waiting.place, bus);
        let mut turns = u32::from(waiting.request.reads_first != ReadsFirst::Nothing);
        if self.unreadable_of(&waiting.request).is_some() {
            turns += RETRIES;
        }
        if turns > 0 {
            let time = Nanos(self.model.mechanism.spindle.revolution().0 * u64::from(turns));
            access.end += time;
            access.bus_end += time;
        }
        self.work = Some(Work { request: waiting.request, answers, from, before, access });
        self.model.account(&mut self.state, access.end, op, (block, count), false, Some(access.last));
    }

    /// The index of the next one of a list. None overtakes an older one for the same blocks.
    #[inline]
    fn choose(&self, list: &[Waiting], now: Nanos) -> Option<usize> {
        let Scheduling::Sptf { age } = self.scheduling else {
            return (!list.is_empty()).then_some(0);
        };
        let mut best: Option<(i64, usize)> = None;
        for (i, waiting) in list.iter().enumerate() {
            let from = now.max(waiting.ready);
            let Request { op, block, .. } = waiting.request;
            let reach = self.model.mechanism.reach(from, &self.state.before, op, block, waiting.place);
            let waited = now.since(waiting.ready).0 * u64::from(age) / 256;
            let cost = (from + reach).since(now).0.cast_signed() - waited.cast_signed();
            if best.is_none_or(|b| cost < b.0) && !overtakes(list, waiting) {
                best = Some((cost, i));
            }
        }
        best.map(|b| b.1)
    }

    /// Blocks of a write under way that are on the platters at `now`.
    fn done(&self, work: &Work, now: Nanos) -> u32 {
        let (mut low, mut high) = (0, work.request.count);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.end_of(work, middle) <= now { low = middle } else { high = middle - 1 }
        }
        low
    }

    fn end_of(&self, work: &Work, count: u32) -> Nanos {
        let range = (work.request.block, count);
        let end =
            self.model.mechanism.access(work.from, &work.before, work.request.op, range, Nanos::ZERO).end;
        match work.request.reads_first {
            ReadsFirst::Nothing => end,
            _ => end + self.model.mechanism.spindle.revolution(),
        }
    }

    /// Whether the block behind `done` ones is just being written.
    fn is_under_head(&self, work: &Work, done: u32, now: Nanos) -> bool {
        let run = self.model.mechanism.geometry.run(work.request.block + u64::from(done), 1);
        let start = self.end_of(work, done + 1).since(self.model.mechanism.spindle.span(run.turn));
        start < now
    }
}

/// Whether `waiting` would overtake an older one of the list that has a block of it, and one of the two writes.
fn overtakes(list: &[Waiting], waiting: &Waiting) -> bool {
    let end = |r: &Request| r.block + u64::from(r.count);
    let r = &waiting.request;
    let hits = |e: &Waiting| e.request.block < end(r) && r.block < end(&e.request);
    let writes = |e: &Waiting| r.op == Op::Write || e.request.op == Op::Write;
    list.iter().any(|e| e.order < waiting.order && hits(e) && writes(e))
}

/// Taking one of a list whose order matters only where the first one is served first.
trait Take {
    fn swap_remove_kept(&mut self, i: usize, scheduling: Scheduling) -> Waiting;
}

impl Take for Vec<Waiting> {
    #[inline]
    fn swap_remove_kept(&mut self, i: usize, scheduling: Scheduling) -> Waiting {
        match scheduling {
            Scheduling::Fcfs => self.remove(i),
            Scheduling::Sptf { .. } => self.swap_remove(i),
        }
    }
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
