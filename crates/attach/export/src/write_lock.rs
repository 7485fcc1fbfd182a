//! Keeps writes of partial blocks apart from other writes.
//!
//! A write that covers a logical block only in part reads the block, changes it and writes it back. Between
//! the two no other write to the file may be under way, or its data could be undone. Such writes are
//! rare (loop devices never issue them), so the rule is simple: they run alone, and in turn.

use std::collections::VecDeque;

/// Writes under way to one file, and those that wait. `T` names a write.
#[derive(Debug)]
pub struct WriteLock<T> {
    shared: u32,
    alone: bool,
    waiting: VecDeque<(T, bool)>,
}

impl<T> Default for WriteLock<T> {
    fn default() -> Self {
        WriteLock { shared: 0, alone: false, waiting: VecDeque::new() }
    }
}

impl<T> WriteLock<T> {
    /// Asks for a write to start, `alone` or beside others. `Some` gives it back: start it now. Otherwise it
    /// waits, and a later [`leave`](WriteLock::leave) names it.
    pub fn enter(&mut self, write: T, alone: bool) -> Option<T> {
        if !self.waiting.is_empty() || !self.admits(alone) {
            self.waiting.push_back((write, alone));
            return None;
        }
        self.admit(alone);
        Some(write)
    }

    /// A write has ended; `start` gets those that may start now.
    pub fn leave(&mut self, start: &mut Vec<T>) {
        if self.alone {
            self.alone = false;
        } else {
            self.shared -= 1;
        }
        while let Some((_, alone)) = self.waiting.front() {
            let alone = *alone;
            if !self.admits(alone) {
                return;
            }
            self.admit(alone);
            start.extend(self.waiting.pop_front().map(|(write, _)| write));
        }
    }

    fn admits(&self, alone: bool) -> bool {
        !self.alone && (!alone || self.shared == 0)
    }

    fn admit(&mut self, alone: bool) {
        if alone {
            self.alone = true;
        } else {
            self.shared += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WriteLock;

    #[test]
    fn whole_writes_run_together_and_partial_ones_alone_in_turn() {
        let mut lock = WriteLock::default();
        assert_eq!(lock.enter('a', false), Some('a'));
        assert_eq!(lock.enter('b', false), Some('b'));
        assert_eq!(lock.enter('P', true), None);
        assert_eq!(lock.enter('c', false), None, "does not overtake");
        assert_eq!(lock.enter('d', false), None);
        assert_eq!(lock.enter('Q', true), None);
        let mut start = Vec::new();
        lock.leave(&mut start);
        assert!(start.is_empty());
        lock.leave(&mut start);
        assert_eq!(start, ['P']);
        lock.leave(&mut start);
        assert_eq!(start, ['P', 'c', 'd']);
        lock.leave(&mut start);
        lock.leave(&mut start);
        assert_eq!(start, ['P', 'c', 'd', 'Q']);
        lock.leave(&mut start);
        assert_eq!(lock.enter('e', true), Some('e'));
    }
}
