//! The redo log and the binary log with group commit, in the two stages of MySQL's ordered commit: the redo log is written and
//! synced for all who wait, then the binary log; while one group is in the second stage, the next is in the first.

use workload::Nanos;

/// What file systems write at least.
const BLOCK: u64 = 4096;
/// Bytes of a redo block that hold log: 512 less header and checksum (`OS_FILE_LOG_BLOCK_SIZE`).
const PAYLOAD: (u64, u64) = (496, 512);

/// Where a stage is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Idle,
    /// Commands of the log itself are under way.
    Write,
    /// Its file is being synced: what the file system knows of it is journalled, or the drive is flushed.
    Sync,
}

/// One of the two logs.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) step: Step,
    /// Commands under way.
    pub(super) parts: u32,
    /// Bytes so far; counted from 1, so that no position is 0.
    pub(super) end: u64,
    /// Bytes that are durable.
    pub(super) flushed: u64,
    /// What is durable when the stage ends.
    pub(super) target: u64,
    /// Who waits for the stage, and who is in it.
    pub(super) queue: Vec<u32>,
    pub(super) group: Vec<u32>,
    /// Groups and members so far.
    pub(super) groups: u64,
    pub(super) members: u64,
}

impl Log {
    pub(super) fn new() -> Log {
        Log {
            step: Step::Idle,
            parts: 0,
            end: 1,
            flushed: 1,
            target: 1,
            queue: Vec::new(),
            group: Vec::new(),
            groups: 0,
            members: 0,
        }
    }

    /// Appends; returns the new end.
    pub(super) fn append(&mut self, bytes: u64) -> u64 {
        self.end += bytes;
        self.end
    }

    /// Begins a stage with all who wait. The bytes to write: from the block that was last written in part to the end.
    pub(super) fn begin(&mut self) -> (u64, u64) {
        std::mem::swap(&mut self.group, &mut self.queue);
        self.step = Step::Write;
        self.groups += 1;
        self.members += self.group.len() as u64;
        self.target = self.end;
        let from = self.flushed / BLOCK * BLOCK;
        // If nothing is new, the last block is written again.
        (from, (self.end.next_multiple_of(BLOCK) - from).max(BLOCK))
    }

    /// A command of the stage has ended. Once all have: the step that follows.
    pub(super) fn part_done(&mut self) -> Option<Step> {
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
}

/// Bytes in the log file of so many bytes of redo.
pub(super) fn in_blocks(redo: u64) -> u64 {
    redo * PAYLOAD.1 / PAYLOAD.0
}

/// Percentage of `io_capacity` at which adaptive flushing writes, for a log that is `age` bytes ahead of the oldest dirty page
/// (`af_get_pct_for_lsn`: nothing below 10 % of the capacity, then with the power of 3/2).
pub(super) fn pressure(age: u64, capacity: u64, max_over_capacity: u64) -> u64 {
    let limit = (capacity / 8 * 7).max(1);
    if age < limit / 10 {
        return 0;
    }
    // In tenths of a per cent of the limit; the square root then is of tenths, too.
    let factor = (u128::from(age) * 1000 / u128::from(limit)).min(2000) as u64;
    max_over_capacity * factor * (factor * 10).isqrt() / 750
}

/// One flush per second; adaptive flushing decides in this interval (`innodb_page_cleaners`' loop).
pub(super) const SECOND: Nanos = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_all_who_wait_and_blocks_are_whole() {
        let mut log = Log::new();
        log.queue.extend([3, 5]);
        log.append(5000);
        assert_eq!(log.begin(), (0, 8192));
        assert_eq!((&log.group[..], log.queue.len()), (&[3, 5][..], 0));
        // What came meanwhile is for the next.
        log.append(100);
        log.queue.push(7);
        log.parts = 2;
        let steps: [_; 3] = std::array::from_fn(|_| log.part_done());
        assert_eq!(steps, [None, Some(Step::Sync), Some(Step::Idle)]);
        log.group.clear();
        assert_eq!(log.begin(), (4096, 4096));
        assert_eq!((&log.group[..], log.groups, log.members), (&[7][..], 2, 3));
    }

    #[test]
    fn pressure_grows_faster_than_age() {
        // InnoDB: max/capacity * age% * sqrt(age%) / 7.5.
        let reference = |percent: f64| 2.0 * percent * percent.sqrt() / 7.5;
        for percent in [10u64, 20, 50, 80, 100] {
            let ours = pressure((8 << 30) / 8 * 7 / 100 * percent + 4096, 8 << 30, 2);
            let exact = reference(percent as f64);
            assert!((ours as f64 - exact).abs() < exact / 15.0 + 1.0, "{percent} %: {ours}, {exact}");
        }
        assert_eq!(pressure(1 << 20, 8 << 30, 2), 0);
    }
}
