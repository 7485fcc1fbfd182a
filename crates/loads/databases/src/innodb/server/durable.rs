//! What makes changes durable: redo log, binary log, and the file system's journal below both. The logs are the two stages of MySQL's ordered commit: the redo log
//! is flushed for all who wait, then the binary log. While one group is in the second stage, the next is in the first.

use super::super::flush::Phase;
use super::super::journal::{Commit, File, Waiter};
use super::{InnodbEngine, Loaded, Purpose};
use crate::database::Step;

/// A block of the file system: what it writes at least.
pub(super) const BLOCK: u64 = 4096;

/// Files: redo log, binary log, doublewrite buffer, and from [`TABLES`] on tablespaces.
const REDO: usize = 0;
const BINLOG: usize = 1;
pub(super) const COPIES: usize = 2;
pub(super) const TABLES: usize = 3;

impl InnodbEngine {
    pub(super) fn write_redo(&mut self, load: &mut Loaded) {
        let wanted = self.redo.is_wanted() || !self.unlogged.is_empty();
        if self.redo.step != Step::Idle || !wanted {
            return;
        }
        let (from, bytes) = self.redo.begin();
        self.redo.parts = load.write_log(self.areas.redo, from, bytes, Purpose::Redo);
        self.changed(load, REDO);
    }

    pub(super) fn redo_done(&mut self, load: &mut Loaded) {
        match self.redo.part_done() {
            Some(Step::Idle) => {}
            Some(_) => return self.sync(load, REDO, Waiter::Redo),
            None => return,
        }
        if self.config.binlog_change > 0 {
            self.binlog.queue.append(&mut self.redo.group);
            self.write_binlog(load);
        } else {
            load.counts.groups += u64::from(!self.redo.group.is_empty());
            load.committed(&mut self.redo.group);
        }
        for flusher in std::mem::take(&mut self.unlogged) {
            self.logged(load, flusher);
        }
        self.write_redo(load);
    }

    fn write_binlog(&mut self, load: &mut Loaded) {
        if self.binlog.step != Step::Idle || !self.binlog.is_wanted() {
            return;
        }
        let (from, bytes) = self.binlog.begin();
        load.counts.groups += 1;
        self.binlog.parts = load.write_log(self.areas.binlog, from, bytes, Purpose::Binlog);
        self.changed(load, BINLOG);
    }

    pub(super) fn binlog_done(&mut self, load: &mut Loaded) {
        match self.binlog.part_done() {
            Some(Step::Idle) => {}
            Some(_) => return self.sync(load, BINLOG, Waiter::Binlog),
            None => return,
        }
        load.committed(&mut self.binlog.group);
        self.write_binlog(load);
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
    pub(super) fn changed(&mut self, load: &Loaded, file: usize) {
        let of = self.file_system(file);
        // Only of a file that grows fdatasync(2) makes more durable than the data.
        let grows = file == BINLOG;
        let room = of == 0 || self.areas.second_journal.is_some();
        if self.config.journal > 0 && room && (grows || self.config.journal_times) {
            self.journals[of].written(&mut self.files[file], load.now, grows);
        }
    }

    /// Makes durable what was written to a file, and what its file system knows of it.
    pub(super) fn sync(&mut self, load: &mut Loaded, file: usize, waiter: Waiter) {
        let of = self.file_system(file);
        if self.journals[of].wait(self.files[file], waiter) {
            return self.write_journal(load, of);
        }
        let purpose = match waiter {
            Waiter::Redo => Purpose::Redo,
            Waiter::Binlog => Purpose::Binlog,
            Waiter::Batch(flusher) => Purpose::Batch { flusher },
        };
        load.flush(of as u16, purpose);
    }

    /// A batch's pages are written. Now tablespaces that owe the journal something are synced in turn, also those that others wrote to.
    pub(super) fn sync_tables(&mut self, load: &mut Loaded, flusher: u32) {
        let owes = |file: &File| self.journals[0].owes(*file);
        let tables = self.files[TABLES..].iter().enumerate();
        let unsynced = tables.filter(|(_, file)| owes(file)).fold(0, |all, (at, _)| all | 1 << at);
        let Some(batch) = self.batch(flusher) else { return };
        (batch.phase, batch.parts, batch.unsynced) = (Phase::PagesSync, 1, unsynced);
        if unsynced == 0 {
            load.flush(0, Purpose::Batch { flusher });
        } else {
            self.sync_next(load, flusher);
        }
    }

    pub(super) fn sync_next(&mut self, load: &mut Loaded, flusher: u32) {
        let Some(batch) = self.batch(flusher) else { return };
        let table = batch.unsynced.trailing_zeros();
        batch.unsynced &= batch.unsynced - 1;
        batch.parts = 1;
        self.sync(load, TABLES + table as usize, Waiter::Batch(flusher));
    }

    fn write_journal(&mut self, load: &mut Loaded, of: usize) {
        if self.journals[of].begin() {
            self.journal_part(load, of, u64::from(self.config.journal).next_multiple_of(BLOCK));
        }
    }

    /// The next part of a journal, in one command.
    fn journal_part(&mut self, load: &mut Loaded, of: usize, bytes: u64) {
        let area = if of == 0 { Some(self.areas.journal) } else { self.areas.second_journal };
        let Some(area) = area else { return };
        let at = self.journals[of].append(bytes);
        load.counts.log_bytes += bytes;
        load.write(area, at, bytes, bytes, Purpose::Journal { of: of as u16 });
    }

    pub(super) fn journal_done(&mut self, load: &mut Loaded, of: usize) {
        let journal = &mut self.journals[of];
        match journal.commit {
            Commit::Idle => {}
            Commit::Blocks => {
                journal.commit = Commit::Record;
                self.journal_part(load, of, BLOCK);
            }
            Commit::Record => {
                journal.commit = Commit::Flush;
                load.flush(of as u16, Purpose::Journal { of: of as u16 });
            }
            Commit::Flush => {
                for waiter in journal.done() {
                    match waiter {
                        Waiter::Redo => self.redo_done(load),
                        Waiter::Binlog => self.binlog_done(load),
                        Waiter::Batch(flusher) => self.batch_done(load, flusher),
                    }
                }
                self.write_journal(load, of);
            }
        }
    }
}
