//! The write-ahead log: what is in it, and who waits for it.

use super::config::PAGE;

/// What the log is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Idle,
    /// A commit waits for others (`commit_delay`).
    Delay,
    Write,
    Flush,
}

/// The log.
#[derive(Debug)]
pub(super) struct Wal {
    pub(super) step: Step,
    /// Commands under way.
    pub(super) parts: u32,
    /// Bytes so far; counted from 1, so that no position is 0.
    pub(super) end: u64,
    /// Bytes that are durable.
    pub(super) flushed: u64,
    /// What is durable when the flush ends.
    target: u64,
    /// It is to be flushed although no commit waits.
    pub(super) due: bool,
    /// Connections that wait for the next flush, and those of the one under way.
    pub(super) queue: Vec<u32>,
    pub(super) group: Vec<u32>,
    /// Pages that changed since the last checkpoint began, a bit each.
    changed: Vec<u64>,
}

impl Wal {
    /// A log for a database of so many pages.
    pub(super) fn new(pages: u64) -> Wal {
        Wal {
            step: Step::Idle,
            parts: 0,
            end: 1,
            flushed: 1,
            target: 1,
            due: false,
            queue: Vec::new(),
            group: Vec::new(),
            changed: vec![0; usize::try_from(pages.div_ceil(64)).unwrap_or(0)],
        }
    }

    /// Whether this is the first change of the page since the last checkpoint began. It no longer is.
    pub(super) fn is_first(&mut self, page: u64) -> bool {
        let Some(word) = self.changed.get_mut((page / 64) as usize) else { return false };
        let bit = 1 << (page % 64);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    /// A checkpoint begins here.
    pub(super) fn begin_checkpoint(&mut self) {
        self.changed.fill(0);
    }

    /// Begins a flush for all who wait: where it begins to write, and how many bytes. The last page is written again.
    pub(super) fn begin(&mut self) -> (u64, u64) {
        std::mem::swap(&mut self.group, &mut self.queue);
        (self.step, self.due, self.target) = (Step::Write, false, self.end);
        let from = self.flushed / PAGE * PAGE;
        (from, (self.end.next_multiple_of(PAGE) - from).max(PAGE))
    }

    /// Everything is written and flushed.
    pub(super) fn ended(&mut self) {
        (self.step, self.flushed) = (Step::Idle, self.target);
    }

    /// Bytes that no flush has, not even the one under way.
    pub(super) fn unwritten(&self) -> u64 {
        let under_way = matches!(self.step, Step::Write | Step::Flush);
        self.end - if under_way { self.target } else { self.flushed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_has_whole_pages_and_all_who_wait() {
        let mut wal = Wal::new(100);
        wal.end += 10_000;
        wal.queue.extend([1, 2]);
        assert_eq!(wal.begin(), (0, 16_384));
        wal.end += 100;
        wal.queue.push(3);
        assert_eq!((wal.unwritten(), &wal.group[..]), (100, &[1, 2][..]));
        wal.ended();
        wal.group.clear();
        assert_eq!((wal.flushed, wal.begin(), &wal.group[..]), (10_001, (8192, 8192), &[3][..]));
    }

    #[test]
    fn the_first_change_after_a_checkpoint_is_told() {
        let mut wal = Wal::new(100);
        assert!(wal.is_first(70) && wal.is_first(6) && !wal.is_first(70));
        wal.begin_checkpoint();
        assert!(wal.is_first(70) && !wal.is_first(70) && !wal.is_first(1 << 40));
    }
}
