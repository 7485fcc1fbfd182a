//! A log with group commit: it is written and synced for all who wait, while the next group gathers.

/// What a log is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Idle,
    /// A commit waits for others (PostgreSQL's `commit_delay`).
    Delay,
    /// Commands of the log itself are under way.
    Write,
    /// Its file is being synced: what the file system knows of it is journalled, or the drive is flushed.
    Sync,
}

/// A log.
#[derive(Debug)]
pub(crate) struct Log {
    /// What is written at least.
    block: u64,
    pub(crate) step: Step,
    /// Commands under way.
    pub(crate) parts: u32,
    /// Bytes so far; counted from 1, so that no position is 0.
    pub(crate) end: u64,
    /// Bytes that are durable.
    pub(crate) flushed: u64,
    /// What is durable when the flush ends.
    target: u64,
    /// It is to be flushed although no commit waits.
    pub(crate) due: bool,
    /// Connections that wait for the next flush, and those of the one under way.
    pub(crate) queue: Vec<u32>,
    pub(crate) group: Vec<u32>,
}

impl Log {
    pub(crate) fn new(block: u64) -> Log {
        Log {
            block,
            step: Step::Idle,
            parts: 0,
            end: 1,
            flushed: 1,
            target: 1,
            due: false,
            queue: Vec::new(),
            group: Vec::new(),
        }
    }

    /// Appends; returns the new end.
    pub(crate) fn append(&mut self, bytes: u64) -> u64 {
        self.end += bytes;
        self.end
    }

    /// Whether somebody waits for the next flush, or it is due.
    pub(crate) fn is_wanted(&self) -> bool {
        self.due || !self.queue.is_empty()
    }

    /// Begins a flush for all who wait. Where it begins to write, and how many bytes: from the block that was last written in part to the end.
    pub(crate) fn begin(&mut self) -> (u64, u64) {
        std::mem::swap(&mut self.group, &mut self.queue);
        (self.step, self.due, self.target) = (Step::Write, false, self.end);
        let from = self.flushed / self.block * self.block;
        // If nothing is new, the last block is written again.
        (from, (self.end.next_multiple_of(self.block) - from).max(self.block))
    }

    /// A command of the flush has ended. Once all have: the step that follows.
    pub(crate) fn part_done(&mut self) -> Option<Step> {
        self.parts -= 1;
        if self.parts > 0 {
            return None;
        }
        if self.step == Step::Write {
            (self.step, self.parts) = (Step::Sync, 1);
        } else {
            (self.step, self.flushed) = (Step::Idle, self.target);
        }
        Some(self.step)
    }

    /// Bytes that no flush has, not even the one under way.
    pub(crate) fn unwritten(&self) -> u64 {
        let under_way = matches!(self.step, Step::Write | Step::Sync);
        self.end - if under_way { self.target } else { self.flushed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_all_who_wait_and_blocks_are_whole() {
        let mut log = Log::new(4096);
        log.queue.extend([3, 5]);
        log.append(5000);
        assert!(log.is_wanted());
        assert_eq!(log.begin(), (0, 8192));
        assert_eq!((&log.group[..], log.queue.len(), log.is_wanted()), (&[3, 5][..], 0, false));
        // What came meanwhile is for the next.
        log.append(100);
        log.queue.push(7);
        assert_eq!(log.unwritten(), 100);
        log.parts = 2;
        let steps: [_; 3] = std::array::from_fn(|_| log.part_done());
        assert_eq!(steps, [None, Some(Step::Sync), Some(Step::Idle)]);
        log.group.clear();
        assert_eq!((log.flushed, log.begin(), &log.group[..]), (5001, (4096, 4096), &[7][..]));
    }
}
