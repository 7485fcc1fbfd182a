//! Commits: what makes writes and the index durable.
//!
//! A commit flushes the data that its records name, writes the records to the journal, and flushes that. The journal is a ring. It takes
//! the changes, and a picture of all places, a few at a time. What is older than the last whole picture is needed no more. A
//! superblock says where reading begins, before anything there is written again.

use crate::config::BLOCK;
use crate::format::{Cycle, JournalBlock, RECORDS, Record, SPAN, Superblock};
use crate::shape::Device;
use crate::state::{Core, Owner, Phase, Step, Waiter};
use crate::writeback::SECOND;
use blockdev::{Nanos, Operation, Status, Verb};

/// Spans of the picture that go into one block of the journal at most, even where little lies.
const SPANS: u32 = 16;

impl Core {
    /// Waits for the next commit, which makes everything durable that was written.
    pub(crate) fn join_commit(&mut self, waiter: Waiter) {
        self.commit.waiters.push(waiter);
        (self.commit.wanted, self.commit.flush_wanted) = (true, true);
    }

    /// Writes a superblock with the next commit.
    pub(crate) fn mark_session(&mut self, clean: bool) {
        self.commit.clean_wanted = Some(clean);
        self.join_commit(Waiter::Control);
    }

    /// Whether there is something that a commit makes durable without being asked.
    pub(crate) fn next_commit(&self) -> Nanos {
        let something = !self.commit.pending.is_empty() || !self.returned.is_empty();
        match (&self.phase, self.commit.step) {
            (Phase::Running, Step::Idle) if something && !self.health.is_bad() => self.commit.next,
            _ => Nanos::MAX,
        }
    }

    pub(crate) fn begin_commit(&mut self, now: Nanos) {
        // The last commit of a session is the last thing that is written.
        if self.commit.step != Step::Idle || !self.commit.wanted || matches!(self.phase, Phase::Closed) {
            return;
        }
        let bad = self.health.is_bad();
        let returned = std::mem::take(&mut self.returned);
        let commit = &mut self.commit;
        (commit.wanted, commit.next) = (false, now + SECOND);
        let flush = std::mem::take(&mut commit.flush_wanted);
        commit.records = std::mem::take(&mut commit.pending);
        commit.served = std::mem::take(&mut commit.waiters);
        commit.clean = commit.clean_wanted.take();
        (commit.failed, commit.cycle_before) = (None, commit.cycle);
        commit.dirtied = false;
        commit.freed = std::mem::take(&mut self.buckets.freeing);
        let origin = commit.origin_unflushed && (flush || !returned.is_empty());
        commit.returned = returned;
        if bad {
            commit.records.clear();
        }
        let nothing = self.commit.records.is_empty() && self.commit.returned.is_empty() || bad;
        self.commit.blocks = if nothing { Vec::new() } else { self.lay_out() };
        // A superblock says how far the journal is: what it says is to be durable before it.
        let names = !self.commit.blocks.is_empty() || self.commit.clean.is_some();
        let cache = self.commit.cache_unflushed && !bad && names;
        self.commit.step = Step::Data;
        self.commit.left = u32::from(origin) + u32::from(cache);
        for (device, wanted) in [(Device::Origin, origin), (Device::Cache, cache)] {
            if wanted {
                match device {
                    Device::Origin => self.commit.origin_unflushed = false,
                    Device::Cache => self.commit.cache_unflushed = false,
                }
                self.flush(Owner::Data(device), device);
            }
        }
        if self.commit.left == 0 {
            self.next_step(now);
        }
    }

    fn flush(&mut self, owner: Owner, device: Device) {
        self.emit(owner, device, Operation { verb: Verb::Flush, lba: 0, blocks: 0 }, Vec::new());
    }

    /// Blocks of the journal for the records, and for as much of the picture as has room in them or is due.
    fn lay_out(&mut self) -> Vec<JournalBlock> {
        let mut blocks: Vec<JournalBlock> = Vec::new();
        let records = std::mem::take(&mut self.commit.records);
        let whole = self.commit.cycle;
        for chunk in records.chunks(RECORDS) {
            blocks.push(JournalBlock { cycle: whole, records: chunk.to_vec(), ..JournalBlock::default() });
        }
        if blocks.is_empty() {
            // What is clean by then comes into it.
            blocks.push(JournalBlock::default());
        }
        self.commit.records = records;
        let places = u64::from(self.shape.places());
        loop {
            let last = blocks.len() - 1;
            self.picture(&mut blocks[last]);
            let Cycle { begun, cursor, .. } = self.commit.cycle;
            let end = self.commit.head + blocks.len() as u64;
            if u64::from(cursor) >= places {
                self.commit.cycle = Cycle { whole: begun, begun: end, cursor: 0 };
                blocks[last].cycle = self.commit.cycle;
                return blocks;
            }
            blocks[last].cycle = self.commit.cycle;
            if u64::from(cursor) * u64::from(self.shape.cycle()) >= places * (end - begun) {
                return blocks;
            }
            blocks.push(JournalBlock::default());
        }
    }

    /// Fills a block of the journal up with the picture.
    fn picture(&mut self, block: &mut JournalBlock) {
        let places = self.shape.places();
        for _ in 0..SPANS {
            if self.commit.cycle.cursor == places {
                return;
            }
            let first = self.commit.cycle.cursor;
            let count = SPAN.min(places - first);
            let mut records = vec![Record::Reset { place: first, count }];
            for place in first..first + count {
                let Some(owner) = self.index.owner(place) else { continue };
                let is_dirty = self.dirty.get(owner);
                match records.last_mut() {
                    Some(Record::Insert { block, place: begins, count, dirty })
                        if *block + u32::from(*count) == owner
                            && *begins + u32::from(*count) == place
                            && *dirty == is_dirty =>
                    {
                        *count += 1;
                    }
                    _ => records.push(Record::Insert { block: owner, place, count: 1, dirty: is_dirty }),
                }
            }
            // Empty places after others are one record.
            if let ([Record::Reset { .. }], Some(Record::Reset { count: before, place })) =
                (&records[..], block.records.last_mut())
                && *place + *before == first
            {
                *before += count;
            } else if block.records.len() + records.len() > RECORDS {
                return;
            } else {
                block.records.append(&mut records);
            }
            self.commit.cycle.cursor += count;
        }
    }

    /// A request of the running commit has ended.
    pub(crate) fn commit_done(&mut self, now: Nanos, device: Device, status: Status) {
        self.commit.left -= 1;
        if !status.is_success() {
            match device {
                Device::Origin => {
                    self.commit.origin_unflushed = true;
                    self.commit.failed.get_or_insert((device, status));
                }
                // It weighs more: what the device lost is not known.
                Device::Cache => self.commit.failed = Some((device, status)),
            }
        }
        if self.commit.left == 0 {
            self.next_step(now);
        }
    }

    fn next_step(&mut self, now: Nanos) {
        if let Some((device, status)) = self.commit.failed {
            return self.fail_commit(now, device, status);
        }
        match self.commit.step {
            Step::Data if self.health.is_bad() => match self.commit.clean {
                None => self.end_commit(now, Ok(())),
                Some(_) => self.fail_commit(now, Device::Cache, Status::INTERNAL_ERROR),
            },
            Step::Data => {
                let returned = std::mem::take(&mut self.commit.returned);
                let cleaned = self.clean(returned, true);
                self.add(&cleaned);
                match self.commit.blocks.is_empty() {
                    true => self.after_journal(now),
                    false => self.write_journal(now),
                }
            }
            Step::Journal => self.flush_journal(Step::JournalFlush),
            Step::JournalFlush => self.after_journal(now),
            Step::Super => self.flush_journal(Step::SuperFlush),
            Step::SuperFlush => {
                self.commit.superblock = self.next_superblock();
                self.commit.slot = 1 - self.commit.slot;
                self.end_commit(now, Ok(()));
            }
            Step::Idle => {}
        }
    }

    /// Adds what is clean now: the picture was taken before.
    fn add(&mut self, records: &[Record]) {
        for record in records {
            let cycle = self.commit.cycle;
            let room = self.commit.blocks.last_mut().filter(|block| block.records.len() < RECORDS);
            match room {
                Some(block) => block.records.push(*record),
                None => self.commit.blocks.push(JournalBlock {
                    cycle,
                    records: vec![*record],
                    ..JournalBlock::default()
                }),
            }
        }
    }

    fn flush_journal(&mut self, step: Step) {
        self.commit.step = step;
        self.commit.left = 1;
        self.flush(Owner::Journal, Device::Cache);
    }

    fn write_journal(&mut self, now: Nanos) {
        let length = u64::from(self.shape.journal);
        let Superblock { identity, session, tail, .. } = self.commit.superblock;
        let head = self.commit.head;
        let mut blocks = std::mem::take(&mut self.commit.blocks);
        let used = head + blocks.len() as u64 - tail;
        self.counters.journal_peak = self.counters.journal_peak.max(used);
        if used > length {
            // What is needed is never overwritten.
            debug_assert!(false, "the journal is full: {used} of {length}");
            return self.fail_commit(now, Device::Cache, Status::INTERNAL_ERROR);
        }
        for (number, block) in (head..).zip(&mut blocks) {
            (block.number, block.identity, block.session) = (number, identity, session);
            block.durable = head;
        }
        self.commit.step = Step::Journal;
        self.counters.commits += 1;
        self.counters.journal += blocks.len() as u64;
        let mut at = 0;
        while at < blocks.len() {
            let place = (head + at as u64) % length;
            let count =
                (blocks.len() - at).min(self.shape.journal_batch as usize).min((length - place) as usize);
            let data = match self.config.contents {
                true => blocks[at..at + count].iter().flat_map(JournalBlock::encode).collect(),
                false => Vec::new(),
            };
            let lba = u64::from(crate::shape::SUPERBLOCKS) + place;
            self.commit.left += 1;
            let operation = Operation { verb: Verb::Write, lba, blocks: count as u32 };
            self.emit(Owner::Journal, Device::Cache, operation, data);
            at += count;
        }
        self.commit.head += blocks.len() as u64;
    }

    /// The superblock that is written next.
    fn next_superblock(&self) -> Superblock {
        let durable = &self.commit.superblock;
        Superblock {
            sequence: durable.sequence + 1,
            clean: self.commit.clean.unwrap_or(false),
            tail: self.commit.cycle.whole,
            head: self.commit.head,
            ..*durable
        }
    }

    fn after_journal(&mut self, now: Nanos) {
        let used = self.commit.head - self.commit.superblock.tail;
        let moved = self.commit.superblock.tail < self.commit.cycle.whole;
        if self.commit.clean.is_none() && (!moved || used <= u64::from(self.shape.journal) / 4) {
            return self.end_commit(now, Ok(()));
        }
        let block = self.next_superblock().encode();
        debug_assert_eq!(block.len() as u64, BLOCK);
        let data = if self.config.contents { block } else { Vec::new() };
        let lba = u64::from(1 - self.commit.slot);
        (self.commit.step, self.commit.left) = (Step::Super, 1);
        self.counters.journal += 1;
        self.emit(Owner::Journal, Device::Cache, Operation { verb: Verb::Write, lba, blocks: 1 }, data);
    }

    fn end_commit(&mut self, now: Nanos, result: Result<(), Status>) {
        let commit = &mut self.commit;
        commit.step = Step::Idle;
        commit.clean = None;
        commit.records.clear();
        let served = std::mem::take(&mut commit.served);
        let freed = std::mem::take(&mut commit.freed);
        let bad = self.health.is_bad();
        if result.is_ok() && !bad {
            let dirty = self.dirty.count() > 0;
            self.commit.says_dirty = dirty || self.commit.dirtied;
            freed.into_iter().for_each(|bucket| self.buckets.freed(bucket));
        } else {
            self.buckets.freeing.extend(freed);
            let returned = std::mem::take(&mut self.commit.returned);
            self.clean(returned, false);
        }
        self.look_for_room = true;
        for waiter in served {
            match waiter {
                Waiter::Request(request) => self.committed_request(now, request, result),
                Waiter::Control => self.committed_control(now, result),
            }
        }
        for request in std::mem::take(&mut self.starved) {
            self.place(now, request);
        }
    }

    fn fail_commit(&mut self, now: Nanos, device: Device, status: Status) {
        let commit = &mut self.commit;
        commit.blocks.clear();
        if device == Device::Origin && commit.step == Step::Data {
            // Nothing was written: the changes wait for the next commit.
            let mut records = std::mem::take(&mut commit.records);
            records.append(&mut commit.pending);
            (commit.pending, commit.cycle) = (records, commit.cycle_before);
            // The cache was flushed, perhaps, and perhaps not.
            commit.cache_unflushed = true;
        } else {
            self.health.journal_failed = true;
            self.wait_again();
        }
        self.end_commit(now, Err(status));
        self.not_cleaned(now);
    }

    /// The cache is of no more use. The next commit goes on without it, and whether that will do is seen then.
    fn wait_again(&mut self) {
        let commit = &mut self.commit;
        let is_request = |waiter: &mut Waiter| matches!(waiter, Waiter::Request(_));
        let requests: Vec<Waiter> = commit.served.extract_if(.., is_request).collect();
        if !requests.is_empty() {
            commit.waiters.extend(requests);
            (commit.wanted, commit.flush_wanted) = (true, true);
        }
    }

    /// The cache device is of no more use. Its requests that are under way are to be completed as failed.
    pub fn device_failed(&mut self, now: Nanos, device: Device) {
        if device == Device::Cache {
            self.health.cache_failed = true;
            self.starve(now);
            self.cleaning_failed();
        }
        self.work(now);
    }
}
