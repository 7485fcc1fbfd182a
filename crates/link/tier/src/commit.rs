//! Commits: what makes writes and changes of the mapping durable.
//!
//! A commit flushes the data that its changes name. Then it writes the changes to the log, and flushes that. A checkpoint takes its place
//! when the log is full, a session begins or ends, or the mode changes. It writes the whole table to the copy that does not hold, and
//! then a superblock that names this copy. Nothing that holds is ever overwritten.

use crate::chunk::Cblock;
use crate::config::Mode;
use crate::metadata::superblock::{State, Superblock};
use crate::metadata::table::{self, ENTRIES, Entry, RECORDS, Record};
use crate::shape::Device;
use crate::state::{Core, Goal, Owner, Phase, Step, Waiter};
use blockdev::{Nanos, Operation, Status, Verb};
use std::collections::BTreeMap;

/// Requests of the table that are under way together.
const TABLE_REQUESTS: u32 = 8;

impl Core {
    /// Waits for the next commit. `flush` wants everything durable that was written.
    pub(crate) fn join_commit(&mut self, now: Nanos, waiter: Waiter, flush: bool) {
        self.commit.waiters.push(waiter);
        self.commit.wanted = true;
        self.commit.flush_wanted |= flush;
        self.begin_commit(now);
    }

    /// Writes the whole table with the next commit.
    pub(crate) fn checkpoint(&mut self, now: Nanos, goal: Goal) {
        self.commit.goal_wanted = Some(goal);
        self.join_commit(now, Waiter::Control, true);
    }

    /// What a session like the present one says of itself.
    pub(crate) fn open_goal(&self) -> Goal {
        Goal { state: State::Open, mode: self.config.mode, policy: self.config.policy }
    }

    pub(crate) fn begin_commit(&mut self, now: Nanos) {
        if self.commit.step != Step::Idle || !self.commit.wanted {
            return;
        }
        if self.health.is_bad() {
            // What the cache lost is not known, or no change can be recorded.
            self.commit.pending.clear();
        }
        let goal = self.open_goal();
        let commit = &mut self.commit;
        commit.wanted = false;
        let flush = std::mem::take(&mut commit.flush_wanted);
        commit.writing = std::mem::take(&mut commit.pending);
        commit.served = std::mem::take(&mut commit.waiters);
        commit.failed = None;
        commit.goal = commit.goal_wanted.take();
        let blocks = commit.writing.len().div_ceil(RECORDS) as u64;
        if commit.goal.is_none() && commit.log_at + blocks > commit.superblock.layout.log {
            commit.goal = Some(goal);
        }
        let all = flush || commit.goal.is_some();
        let comes = commit.writing.iter().any(|record| matches!(record, Record::Insert(..)));
        let goes = commit.writing.iter().any(|record| !matches!(record, Record::Insert(..)));
        let origin = commit.origin_unflushed && (all || goes && commit.written_back);
        let cache = commit.cache_unflushed && !self.health.cache_failed && (all || comes);
        // The table goes where that of an earlier superblock is, which must not be needed any more.
        let metadata = std::mem::take(&mut commit.metadata_unflushed);
        commit.step = Step::Data;
        commit.left = u32::from(origin) + u32::from(cache) + u32::from(metadata);
        if origin {
            (self.commit.origin_unflushed, self.commit.written_back) = (false, false);
            self.flush(Device::Origin);
        }
        if cache {
            self.commit.cache_unflushed = false;
            self.flush(Device::Cache);
        }
        if metadata {
            self.flush(Device::Metadata);
        }
        if self.commit.left == 0 {
            self.next_step(now);
        }
    }

    fn flush(&mut self, device: Device) {
        let owner = match device {
            Device::Metadata => Owner::Metadata,
            device => Owner::DataFlush(device),
        };
        self.emit(owner, device, Operation { verb: Verb::Flush, lba: 0, blocks: 0 }, Vec::new());
    }

    /// A request of the running commit has ended.
    pub(crate) fn commit_done(&mut self, now: Nanos, device: Device, status: Status) {
        let commit = &mut self.commit;
        assert!(commit.left > 0, "a request of a commit ends twice");
        commit.left -= 1;
        if !status.is_success() {
            commit.failed.get_or_insert((device, status));
            match device {
                Device::Origin => (commit.origin_unflushed, commit.written_back) = (true, true),
                Device::Cache => commit.cache_unflushed = true,
                Device::Metadata => {}
            }
        }
        if commit.step == Step::Table && commit.failed.is_none() {
            self.write_table();
        }
        if self.commit.left == 0 {
            self.next_step(now);
        }
    }

    fn next_step(&mut self, now: Nanos) {
        if let Some((device, status)) = self.commit.failed {
            return self.fail_commit(now, device, status);
        }
        let checkpoint = self.commit.goal.is_some();
        match self.commit.step {
            Step::Data if self.health.metadata_failed => match checkpoint {
                true => self.fail_commit(now, Device::Metadata, Status::INTERNAL_ERROR),
                false => self.commit_succeeded(now),
            },
            Step::Data if checkpoint => {
                self.commit.step = Step::Table;
                self.commit.table_at = 0;
                self.write_table();
            }
            Step::Data if self.commit.writing.is_empty() => self.commit_succeeded(now),
            Step::Data => {
                self.commit.step = Step::Log;
                self.write_log();
            }
            Step::Log => self.flush_metadata(Step::LogFlush),
            Step::Table => self.flush_metadata(Step::TableFlush),
            Step::TableFlush => {
                self.commit.step = Step::Super;
                self.write_superblock();
            }
            Step::Super => self.flush_metadata(Step::SuperFlush),
            Step::LogFlush | Step::SuperFlush => self.commit_succeeded(now),
            Step::Idle => {}
        }
    }

    fn flush_metadata(&mut self, step: Step) {
        self.commit.step = step;
        self.commit.left = 1;
        self.flush(Device::Metadata);
    }

    fn write_metadata(&mut self, block: u64, data: Vec<u8>, blocks: u64) {
        let operation = Operation { verb: Verb::Write, lba: block, blocks: blocks as u32 };
        let data = if self.config.contents { data } else { Vec::new() };
        self.commit.left += 1;
        self.emit(Owner::Metadata, Device::Metadata, operation, data);
    }

    fn write_log(&mut self) {
        let Superblock { layout, epoch, .. } = self.commit.superblock;
        let records = std::mem::take(&mut self.commit.writing);
        let first = self.commit.log_at;
        let mut index = first;
        let encode = |(of, at)| table::encode_log(epoch, at, first, of);
        let blocks: Vec<Vec<u8>> = records.chunks(RECORDS).zip(index..).map(encode).collect();
        // Behind the log lies what is not the tier's.
        assert!(
            first + blocks.len() as u64 <= layout.log,
            "{} blocks at block {first} of the log",
            blocks.len()
        );
        for batch in blocks.chunks(self.shape.metadata_batch as usize) {
            self.write_metadata(layout.log_at() + index, batch.concat(), batch.len() as u64);
            index += batch.len() as u64;
        }
        self.commit.log_at = index;
        self.commit.writing = records;
    }

    /// The superblock of the checkpoint that is being written.
    fn next_superblock(&self) -> Superblock {
        let durable = &self.commit.superblock;
        let goal = self.commit.goal.unwrap_or_else(|| self.open_goal());
        Superblock {
            sequence: durable.sequence + 1,
            epoch: durable.epoch + 1,
            copy: 1 - durable.copy,
            state: goal.state,
            needs_check: false,
            mode: goal.mode,
            policy: goal.policy,
            chunk: self.config.chunk,
            chunks: self.shape.cache_chunks,
            origin_bytes: self.shape.origin_bytes,
            origin: self.config.origin,
            cache: self.config.cache,
            layout: durable.layout,
            discard_block: self.shape.discard_block,
            counts: self.counters.lasting(),
        }
    }

    fn write_superblock(&mut self) {
        let block = self.next_superblock().encode();
        let slot = u64::from(1 - self.commit.slot);
        self.write_metadata(slot, block, 1);
    }

    /// Writes more of the table. The block behind its last is that of the discards.
    fn write_table(&mut self) {
        let blocks = u64::from(self.shape.cache_chunks).div_ceil(ENTRIES as u64);
        let Superblock { layout, epoch, copy, .. } = self.next_superblock();
        let changes: BTreeMap<Cblock, Record> =
            self.commit.writing.iter().map(|record| (record.cblock(), *record)).collect();
        while self.commit.left < TABLE_REQUESTS && self.commit.table_at <= blocks {
            let at = self.commit.table_at;
            if at == blocks {
                let data = match self.config.contents {
                    true => table::encode_discards(epoch, self.discards.bytes()),
                    false => Vec::new(),
                };
                self.commit.table_at += 1;
                self.write_metadata(layout.table_at(copy) + layout.table, data, 1);
                continue;
            }
            let count = self.shape.metadata_batch.min(blocks - at);
            // Behind a copy lies the other one, which holds.
            assert!(at + count <= layout.table, "block {at} of a table of {}", layout.table);
            let data = match self.config.contents {
                true => (at..at + count).flat_map(|at| self.encode_block(epoch, at, &changes)).collect(),
                false => Vec::new(),
            };
            self.commit.table_at += count;
            self.write_metadata(layout.table_at(copy) + at, data, count);
        }
    }

    fn encode_block(&self, epoch: u64, at: u64, changes: &BTreeMap<Cblock, Record>) -> Vec<u8> {
        let first = at as u32 * ENTRIES as u32;
        let last = (first + ENTRIES as u32).min(self.shape.cache_chunks);
        let entries = (first..last).map(|cblock| {
            let cblock = Cblock(cblock);
            let change = changes.get(&cblock);
            let known = self.policy.oblock(cblock);
            let oblock = match change {
                Some(Record::Insert(_, oblock)) => *oblock,
                _ => known?,
            };
            let dirty =
                known.is_some() && self.policy.is_dirty(cblock) && !matches!(change, Some(Record::Clean(_)));
            // The policy learns what comes and goes when that is durable. A cache that failed may have lost what was not flushed.
            let goes = matches!(change, Some(Record::Remove(_))) || self.health.cache_failed && !dirty;
            (!goes).then(|| Entry { oblock, dirty, hint: self.policy.hint(cblock) })
        });
        table::encode(epoch, at, entries)
    }

    fn commit_succeeded(&mut self, now: Nanos) {
        let counts = self.commit.goal.is_some() || !self.commit.writing.is_empty();
        self.counters.commits += u64::from(counts);
        if self.commit.goal.is_some() && !self.health.metadata_failed {
            self.counters.checkpoints += 1;
            self.commit.superblock = self.next_superblock();
            self.commit.slot = 1 - self.commit.slot;
            self.commit.log_at = 0;
        }
        self.commit.writing.clear();
        self.end_commit(now, Ok(()));
    }

    fn end_commit(&mut self, now: Nanos, result: Result<(), Status>) {
        self.commit.step = Step::Idle;
        self.commit.goal = None;
        let served = std::mem::take(&mut self.commit.served);
        let parked = std::mem::take(&mut self.commit.parked);
        for waiter in served {
            match waiter {
                Waiter::Request(request) => self.committed_request(now, request, result),
                Waiter::Migration(migration) => {
                    let ok = result.is_ok() && !self.health.is_bad();
                    self.committed_migration(now, migration, ok);
                }
                Waiter::Control => self.committed_control(now, result),
            }
        }
        for migration in parked {
            self.advance(now, migration);
        }
        self.look_at_control(now);
        self.begin_commit(now);
    }

    fn fail_commit(&mut self, now: Nanos, device: Device, status: Status) {
        // A device has failed: no change can be recorded any more.
        self.commit.writing.clear();
        self.commit.pending.clear();
        if device == Device::Metadata {
            let uncertain = matches!(self.commit.step, Step::Super | Step::SuperFlush);
            if let Some(Goal { mode: Mode::Writeback, .. }) = self.commit.goal.filter(|_| uncertain) {
                // The superblock may name this mode, in which the next opening takes what the cache has for newest.
                self.config.mode = Mode::Writeback;
            }
            self.fail_metadata();
        }
        if device != Device::Origin && self.health.is_bad() {
            self.wait_again();
        }
        self.end_commit(now, Err(status));
    }

    /// A device failed for good. The next commit goes on without it, and whether that will do is seen then.
    fn wait_again(&mut self) {
        let commit = &mut self.commit;
        let is_request = |waiter: &mut Waiter| matches!(waiter, Waiter::Request(_));
        let requests: Vec<Waiter> = commit.served.extract_if(.., is_request).collect();
        if !requests.is_empty() {
            commit.waiters.extend(requests);
            (commit.wanted, commit.flush_wanted) = (true, true);
        }
    }

    /// An operation of metadata failed: what the device says now is uncertain.
    pub(crate) fn fail_metadata(&mut self) {
        if std::mem::replace(&mut self.health.metadata_failed, true)
            || matches!(self.phase, Phase::Opening(_))
        {
            return;
        }
        self.policy.allow_promotions(false);
        // What holds stays where it is, and what was being written may be there: this one is newer than both.
        let mut superblock = Superblock { needs_check: true, ..self.commit.superblock };
        superblock.sequence += 2;
        let block = if self.config.contents { superblock.encode() } else { Vec::new() };
        let slot = u64::from(1 - self.commit.slot);
        let operation = Operation { verb: Verb::Write, lba: slot, blocks: 1 };
        self.emit(Owner::NeedsCheck, Device::Metadata, operation, block);
    }

    /// A device is of no more use: it is gone, or a flush of it failed. Its requests that are under way are to be completed as failed.
    pub fn device_failed(&mut self, now: Nanos, device: Device) {
        match device {
            Device::Origin => {
                self.health.origin_failed = true;
                self.policy.allow_promotions(false);
            }
            Device::Cache => {
                self.health.cache_failed = true;
                self.policy.allow_promotions(false);
            }
            Device::Metadata => {
                if self.commit.step == Step::Idle {
                    self.commit.pending.clear();
                }
                self.fail_metadata();
            }
        }
        self.work(now);
    }

    /// Commits that are asked for by time only.
    pub(crate) fn commit_by_time(&mut self, now: Nanos) {
        let retry = !self.commit.pending.is_empty() && !matches!(self.phase, Phase::Opening(_));
        self.commit.wanted |= retry;
        self.begin_commit(now);
    }
}
