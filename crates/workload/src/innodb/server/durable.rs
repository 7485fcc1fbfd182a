//! What makes changes durable: redo log, binary log, and the file system's journal below both.

use super::super::journal::{Commit, Waiter};
use super::super::log::Step;
use super::{Innodb, Purpose};
use crate::Nanos;
use crate::innodb::space::Area;

/// A block of the file system.
const BLOCK: u64 = 4096;

impl Innodb {
    pub(super) fn write_redo(&mut self) {
        if self.redo.step != Step::Idle || (self.redo.queue.is_empty() && self.unlogged.is_empty()) {
            return;
        }
        let bytes = self.redo.begin();
        self.redo.parts = self.write_log(self.areas.redo, bytes, Purpose::Redo);
    }

    pub(super) fn redo_done(&mut self, now: Nanos) {
        match self.redo.part_done() {
            Some(Step::Idle) => {}
            Some(_) => return self.sync(Waiter::Redo),
            None => return,
        }
        let mut group = std::mem::take(&mut self.redo.group);
        if self.config.binlog_change > 0 {
            self.binlog.queue.append(&mut group);
            self.write_binlog();
        } else {
            self.counts.groups += u64::from(!group.is_empty());
            self.committed(&mut group, now);
        }
        self.redo.group = group;
        for flusher in std::mem::take(&mut self.unlogged) {
            self.logged(flusher);
        }
        self.write_redo();
    }

    fn write_binlog(&mut self) {
        if self.binlog.step != Step::Idle || self.binlog.queue.is_empty() {
            return;
        }
        let bytes = self.binlog.begin();
        self.counts.groups += 1;
        self.binlog.parts = self.write_log(self.areas.binlog, bytes, Purpose::Binlog);
    }

    pub(super) fn binlog_done(&mut self, now: Nanos) {
        match self.binlog.part_done() {
            Some(Step::Idle) => {}
            Some(_) => return self.sync(Waiter::Binlog),
            None => return,
        }
        let mut group = std::mem::take(&mut self.binlog.group);
        self.committed(&mut group, now);
        self.binlog.group = group;
        self.write_binlog();
    }

    /// Writes to a log's file, in commands of 128 KiB at most; how many.
    fn write_log(&mut self, area: Area, (from, bytes): (u64, u64), purpose: Purpose) -> u32 {
        self.counts.log_bytes += bytes;
        self.write(area, from, bytes, 128 << 10, purpose)
    }

    /// Makes durable what was written to a file, and what the file system knows of it.
    pub(super) fn sync(&mut self, waiter: Waiter) {
        if self.config.journal > 0 && (self.config.journal_times || waiter == Waiter::Binlog) {
            self.journal.wait(waiter);
            return self.write_journal();
        }
        let purpose = match waiter {
            Waiter::Redo => Purpose::Redo,
            Waiter::Binlog => Purpose::Binlog,
            Waiter::Batch(flusher) => Purpose::Batch { flusher },
        };
        self.flush(0, purpose);
    }

    fn write_journal(&mut self) {
        if self.journal.begin() {
            self.journal_part(u64::from(self.config.journal).next_multiple_of(BLOCK));
        }
    }

    /// The next part of the journal, in one command.
    fn journal_part(&mut self, bytes: u64) {
        let at = self.journal.append(bytes);
        self.counts.log_bytes += bytes;
        self.write(self.areas.journal, at, bytes, bytes, Purpose::Journal);
    }

    pub(super) fn journal_done(&mut self, now: Nanos) {
        match self.journal.commit {
            Commit::Idle => {}
            Commit::Blocks => {
                self.journal.commit = Commit::Record;
                self.journal_part(BLOCK);
            }
            Commit::Record => {
                self.journal.commit = Commit::Flush;
                self.flush(0, Purpose::Journal);
            }
            Commit::Flush => {
                for waiter in self.journal.done() {
                    match waiter {
                        Waiter::Redo => self.redo_done(now),
                        Waiter::Binlog => self.binlog_done(now),
                        Waiter::Batch(flusher) => self.batch_done(flusher, now),
                    }
                }
                self.write_journal();
            }
        }
    }

    fn committed(&mut self, group: &mut Vec<u32>, now: Nanos) {
        for id in group.drain(..) {
            let took = now - self.connections[id as usize].since;
            self.counts.commit_wait += took;
            self.commits.saturating_record(took / 1000);
            self.ended(id, now);
        }
    }
}
