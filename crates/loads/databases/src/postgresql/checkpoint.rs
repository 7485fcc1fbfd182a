//! Where a checkpoint is, and what the background writer expects.

use super::config::Config;
use std::collections::VecDeque;
use workload::Nanos;

/// The checkpointer sleeps for so long when it is ahead (`CheckpointWriteDelay`).
pub(super) const WRITE_DELAY: Nanos = 100_000_000;
/// Bytes of log for a checkpoint: a header of 24 bytes and what `pg_control` has, about.
pub(super) const RECORD: u64 = 114;
/// Rounds over which the background writer lets the pages that are needed fade (`BgBufferSync`, `smoothing_samples`).
const SAMPLES: u64 = 16;

/// What a checkpoint is at.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// Pages are being written.
    Pages,
    /// Files are being synced.
    Sync,
}

/// The checkpointer.
#[derive(Default, Debug)]
pub(super) struct Checkpoint {
    pub(super) stage: Stage,
    /// Frames and pages that are to be written, in the order of their places, and how many there were.
    pub(super) pages: VecDeque<(u32, u64)>,
    pub(super) total: u64,
    /// Pages that are being written.
    pub(super) parts: u32,
    /// When the last checkpoint began, and where in the log.
    pub(super) began: Nanos,
    pub(super) redo: u64,
}

/// The background writer.
#[derive(Default, Debug)]
pub(super) struct Background {
    /// Frames that were taken since its last round.
    pub(super) taken: u64,
    /// Frames taken in a round lately, times [`SAMPLES`].
    smooth: u64,
}

impl Checkpoint {
    /// Whether it has written less than it should have by now, in time or in log, which ends at `end`.
    pub(super) fn is_behind(&self, config: &Config, now: Nanos, end: u64) -> bool {
        let target = u128::from(config.completion_target.min(1000));
        let done = u128::from(self.total - self.pages.len() as u64) * target;
        let behind = |elapsed: u64, whole: u64| {
            done * u128::from(whole.max(1)) < u128::from(elapsed) * u128::from(self.total) * 1000
        };
        behind(now - self.began, config.checkpoint_timeout) || behind(end - self.redo, config.wal_between())
    }
}

impl Background {
    /// A round begins: how many clean pages it looks for, with `multiplier` per mille of those that were needed lately.
    pub(super) fn wanted(&mut self, multiplier: u32) -> u64 {
        let taken = std::mem::take(&mut self.taken) * SAMPLES;
        // It rises at once and falls slowly.
        let fallen = self.smooth - self.smooth.saturating_sub(taken).div_ceil(SAMPLES);
        self.smooth = taken.max(fallen);
        self.smooth * u64::from(multiplier) / 1000 / SAMPLES
    }
}
