//! What makes changes durable: redo log, binary log, and the file system's journal below both.

use super::super::flush::Phase;
use super::super::journal::{Commit, File, Waiter};
use super::super::log::Step;
use super::{Innodb, Purpose};
use crate::database::Area;
use workload::Nanos;

/// A block of the file system.
const BLOCK: u64 = 4096;

/// Files: redo log, binary log, doublewrite buffer, and from [`TABLES`] on tablespaces.
const REDO: usize = 0;
const BINLOG: usize = 1;
pub(super) const COPIES: usize = 2;
pub(super) const TABLES: usize = 3;

impl Innodb {
    pub(super) fn write_redo(&mut self) {
        let wanted = self.log_due || !self.redo.queue.is_empty() || !self.unlogged.is_empty();
        if self.redo.step != Step::Idle || !wanted {
            return;
        }
        self.log_due = false;
        let bytes = self.redo.begin();
        self.redo.parts = self.write_log(self.areas.redo, bytes, Purpose::Redo);
        self.changed(REDO);
    }

    pub(super) fn redo_done(&mut self, now: Nanos) {
        match self.redo.part_done() {
            Some(Step::Idle) => {}
            Some(_) => return self.sync(REDO, Waiter::Redo),
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
        self.changed(BINLOG);
    }

    pub(super) fn binlog_done(&mut self, now: Nanos) {
        match self.binlog.part_done() {
            Some(Step::Idle) => {}
            Some(_) => return self.sync(BINLOG, Waiter::Binlog),
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

    /// The file system of a file: the namespace that it is on.
    fn file_system(&self, file: usize) -> usize {
        match (file, self.areas.copies) {
            (REDO, _) => self.areas.redo.namespace.into(),
            (BINLOG, _) => self.areas.binlog.namespace.into(),
            (COPIES, Some(area)) => area.namespace.into(),
            _ => 0,
        }
    }

    /// A file is written to.
    pub(super) fn changed(&mut self, file: usize) {
        let of = self.file_system(file);
        // Only of a file that grows fdatasync(2) makes more durable than the data.
        let grows = file == BINLOG;
        let room = of == 0 || self.areas.second_journal.is_some();
        if self.config.journal > 0 && room && (grows || self.config.journal_times) {
            self.journals[of].written(&mut self.files[file], self.now, grows);
        }
    }

    /// Makes durable what was written to a file, and what its file system knows of it.
    pub(super) fn sync(&mut self, file: usize, waiter: Waiter) {
        let of = self.file_system(file);
        if self.journals[of].wait(self.files[file], waiter) {
            return self.write_journal(of);
        }
        let purpose = match waiter {
            Waiter::Redo => Purpose::Redo,
            Waiter::Binlog => Purpose::Binlog,
            Waiter::Batch(flusher) => Purpose::Batch { flusher },
        };
        self.flush(of as u16, purpose);
    }

    /// A batch's pages are written. Now tablespaces that owe the journal something are synced in turn, also those that others wrote to.
    pub(super) fn sync_tables(&mut self, flusher: u32) {
        let owes = |file: &File| self.journals[0].owes(*file);
        let tables = self.files[TABLES..].iter().enumerate();
        let unsynced = tables.filter(|(_, file)| owes(file)).fold(0, |all, (at, _)| all | 1 << at);
        let Some(batch) = self.batch(flusher) else { return };
        (batch.phase, batch.parts, batch.unsynced) = (Phase::PagesSync, 1, unsynced);
        if unsynced == 0 {
            self.flush(0, Purpose::Batch { flusher });
        } else {
            self.sync_next(flusher);
        }
    }

    pub(super) fn sync_next(&mut self, flusher: u32) {
        let Some(batch) = self.batch(flusher) else { return };
        let table = batch.unsynced.trailing_zeros();
        batch.unsynced &= batch.unsynced - 1;
        batch.parts = 1;
        self.sync(TABLES + table as usize, Waiter::Batch(flusher));
    }

    fn write_journal(&mut self, of: usize) {
        if self.journals[of].begin() {
            self.journal_part(of, u64::from(self.config.journal).next_multiple_of(BLOCK));
        }
    }

    /// The next part of a journal, in one command.
    fn journal_part(&mut self, of: usize, bytes: u64) {
        let area = if of == 0 { Some(self.areas.journal) } else { self.areas.second_journal };
        let Some(area) = area else { return };
        let at = self.journals[of].append(bytes);
        self.counts.log_bytes += bytes;
        self.write(area, at, bytes, bytes, Purpose::Journal { of: of as u16 });
    }

    pub(super) fn journal_done(&mut self, of: usize, now: Nanos) {
        let journal = &mut self.journals[of];
        match journal.commit {
            Commit::Idle => {}
            Commit::Blocks => {
                journal.commit = Commit::Record;
                self.journal_part(of, BLOCK);
            }
            Commit::Record => {
                journal.commit = Commit::Flush;
                self.flush(of as u16, Purpose::Journal { of: of as u16 });
            }
            Commit::Flush => {
                for waiter in journal.done() {
                    match waiter {
                        Waiter::Redo => self.redo_done(now),
                        Waiter::Binlog => self.binlog_done(now),
                        Waiter::Batch(flusher) => self.batch_done(flusher, now),
                    }
                }
                self.write_journal(of);
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
