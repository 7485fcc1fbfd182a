//! Checkpoints and the background writer: who writes pages for which nobody waits.

use std::collections::VecDeque;

use super::{Event, Postgresql, Writer};
use crate::postgresql::checkpoint::{Checkpoint, RECORD, Stage, WRITE_DELAY};
use workload::Nanos;

impl Postgresql {
    /// A checkpoint begins: all pages that are dirty now are to be written.
    pub(super) fn begin_checkpoint(&mut self, now: Nanos) {
        self.counts.checkpoints += 1;
        self.wal.begin_checkpoint();
        let pages: VecDeque<_> = self.pool.begin_checkpoint().into();
        let total = pages.len() as u64;
        self.checkpoint =
            Checkpoint { stage: Stage::Pages, pages, total, parts: 0, began: now, redo: self.wal.end };
        self.go_on_with_checkpoint(now);
    }

    /// Begins a checkpoint if there is so much log that one is wanted.
    pub(super) fn look_at_log(&mut self, now: Nanos) {
        if self.checkpoint.stage == Stage::Idle
            && self.wal.end - self.checkpoint.redo >= self.config.wal_between()
        {
            self.counts.by_wal += 1;
            self.begin_checkpoint(now);
        }
    }

    /// The checkpointer has slept.
    pub(super) fn wake_checkpointer(&mut self, now: Nanos) {
        let since = now - self.checkpoint.began;
        if self.checkpoint.stage == Stage::Idle && since >= self.config.checkpoint_timeout {
            self.begin_checkpoint(now);
        }
        self.go_on_with_checkpoint(now);
        self.at(now + WRITE_DELAY, Event::Checkpointer);
    }

    /// Writes pages until the checkpoint is ahead, or has as many under way as it may. After the last one files are synced.
    pub(super) fn go_on_with_checkpoint(&mut self, now: Nanos) {
        if self.checkpoint.stage != Stage::Pages {
            return;
        }
        // Each page is looked at once: others may be writing some.
        for _ in 0..self.checkpoint.pages.len() {
            if self.checkpoint.parts >= self.config.flush_after.max(1) {
                break;
            }
            let Some(&(frame, page)) = self.checkpoint.pages.front() else { break };
            if !self.pool.owes(frame) || self.pool.page(frame) != page {
                self.checkpoint.pages.pop_front();
            } else if self.pool.is_writing(frame) {
                self.checkpoint.pages.rotate_left(1);
            } else if !self.checkpoint.is_behind(&self.config, now, self.wal.end) {
                break;
            } else {
                self.checkpoint.pages.pop_front();
                if self.pool.mark(frame) {
                    self.checkpoint.parts += 1;
                    self.write_page(frame, Writer::Checkpoint, now);
                }
            }
        }
        if self.checkpoint.pages.is_empty() && self.checkpoint.parts == 0 {
            self.checkpoint.stage = Stage::Sync;
            self.sync_data();
        }
    }

    /// The files are synced: the checkpoint is over.
    pub(super) fn synced(&mut self, now: Nanos) {
        self.checkpoint.stage = Stage::Idle;
        self.counts.checkpoints_ended += 1;
        self.log_checkpoint(RECORD, now);
    }

    /// A round of the background writer.
    pub(super) fn look_ahead(&mut self, now: Nanos) {
        let wanted = self.background.wanted(self.config.bgwriter_multiplier);
        for frame in self.pool.ahead(wanted, self.config.bgwriter_pages) {
            if self.pool.mark(frame) {
                self.write_page(frame, Writer::Background, now);
            }
        }
        self.at(now + self.config.bgwriter_delay.max(1), Event::Background);
    }

    /// Where the pages lie that the checkpoint under way still owes.
    #[cfg(test)]
    pub(in crate::postgresql) fn owed_places(&self) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for frame in 0..self.config.pool_pages.max(256) {
            if self.pool.owes(frame) {
                all.push(self.place(self.pool.page(frame)).lba);
            }
        }
        all
    }
}
