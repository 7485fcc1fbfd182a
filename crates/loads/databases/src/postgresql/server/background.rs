//! Checkpoints and the background writer: who writes pages for which nobody waits.

use std::collections::VecDeque;

use super::{Event, Loaded, PostgresqlEngine, Purpose, Writer};
use crate::postgresql::checkpoint::{Checkpoint, RECORD, Stage, WRITE_DELAY};

impl PostgresqlEngine {
    /// A checkpoint begins: all pages that are dirty now are to be written.
    pub(super) fn begin_checkpoint(&mut self, load: &mut Loaded) {
        load.counts.own.checkpoints += 1;
        self.changed.begin_checkpoint();
        let pages: VecDeque<_> = self.pool.begin_checkpoint().into();
        let total = pages.len() as u64;
        self.checkpoint =
            Checkpoint { stage: Stage::Pages, pages, total, parts: 0, began: load.now, redo: self.wal.end };
        self.go_on_with_checkpoint(load);
    }

    /// Begins a checkpoint if there is so much log that one is wanted.
    pub(super) fn look_at_log(&mut self, load: &mut Loaded) {
        if self.checkpoint.stage == Stage::Idle
            && self.wal.end - self.checkpoint.redo >= self.config.wal_between()
        {
            load.counts.own.by_wal += 1;
            self.begin_checkpoint(load);
        }
    }

    /// The checkpointer has slept.
    pub(super) fn wake_checkpointer(&mut self, load: &mut Loaded) {
        let since = load.now - self.checkpoint.began;
        if self.checkpoint.stage == Stage::Idle && since >= self.config.checkpoint_timeout {
            self.begin_checkpoint(load);
        }
        self.go_on_with_checkpoint(load);
        load.after(WRITE_DELAY, Event::Checkpointer);
    }

    /// Writes pages until the checkpoint is ahead, or has as many under way as it may. After the last one files are synced.
    pub(super) fn go_on_with_checkpoint(&mut self, load: &mut Loaded) {
        if self.checkpoint.stage != Stage::Pages {
            return;
        }
        // Each page is looked at once: others may be writing some.
        for _ in 0..self.checkpoint.pages.len() {
            if self.checkpoint.parts >= self.config.flush_after.max(1) {
                break;
            }
            let Some(&(frame, page)) = self.checkpoint.pages.front() else { break };
            if !self.pool.owes(frame) || self.pool.frames.page(frame) != page {
                self.checkpoint.pages.pop_front();
            } else if self.pool.frames.is_writing(frame) {
                self.checkpoint.pages.rotate_left(1);
            } else if !self.checkpoint.is_behind(&self.config, load.now, self.wal.end) {
                break;
            } else {
                self.checkpoint.pages.pop_front();
                if self.pool.mark(frame) {
                    self.checkpoint.parts += 1;
                    self.write_page(load, frame, Writer::Checkpoint);
                }
            }
        }
        if self.checkpoint.pages.is_empty() && self.checkpoint.parts == 0 {
            self.checkpoint.stage = Stage::Sync;
            load.flush(0, Purpose::Sync);
        }
    }

    /// The files are synced: the checkpoint is over.
    pub(super) fn synced(&mut self, load: &mut Loaded) {
        self.checkpoint.stage = Stage::Idle;
        load.counts.own.checkpoints_ended += 1;
        self.log_checkpoint(load, RECORD);
    }

    /// A round of the background writer.
    pub(super) fn look_ahead(&mut self, load: &mut Loaded) {
        let wanted = self.background.wanted(self.config.bgwriter_multiplier);
        for frame in self.pool.ahead(wanted, self.config.bgwriter_pages) {
            if self.pool.mark(frame) {
                self.write_page(load, frame, Writer::Background);
            }
        }
        load.after(self.config.bgwriter_delay.max(1), Event::Background);
    }
}

#[cfg(test)]
impl super::Postgresql {
    /// Where the pages lie that the checkpoint under way still owes.
    pub(in crate::postgresql) fn owed_places(&self) -> Vec<u64> {
        let pool = &self.engine.pool;
        let owed = (0..pool.frames.len()).filter(|&frame| pool.owes(frame));
        owed.map(|frame| self.load.pages.place(pool.frames.page(frame)).lba).collect()
    }
}
