//! The file system's journal, as ext4 has it (jbd2): one transaction is committed at a time, and who has to have one committed while
//! another is under way waits for the next, with all others who came.

/// Who waits for a commit of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    Redo,
    Binlog,
    /// A flusher with the files that it has written to.
    Batch(u32),
}

/// What a commit is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Commit {
    Idle,
    /// The changed blocks are being written to the journal.
    Blocks,
    /// The block that makes them count is.
    Record,
    /// It is being flushed.
    Flush,
}

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) commit: Commit,
    /// Bytes so far.
    pub(super) end: u64,
    /// Who waits for the next commit, and who for this one.
    queue: Vec<Waiter>,
    group: Vec<Waiter>,
}

impl Journal {
    pub(super) fn new() -> Journal {
        Journal { commit: Commit::Idle, end: 0, queue: Vec::new(), group: Vec::new() }
    }

    /// From now on he waits for a commit that begins later.
    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.queue.push(waiter);
    }

    /// Begins a commit for all who wait, unless there is one under way or nobody waits. Whether it began.
    pub(super) fn begin(&mut self) -> bool {
        let begins = self.commit == Commit::Idle && !self.queue.is_empty();
        if begins {
            std::mem::swap(&mut self.group, &mut self.queue);
            self.commit = Commit::Blocks;
        }
        begins
    }

    /// Room of so many bytes at the end; where it begins.
    pub(super) fn append(&mut self, bytes: u64) -> u64 {
        let at = self.end;
        self.end += bytes;
        at
    }

    /// The commit is done: who waited for it.
    pub(super) fn done(&mut self) -> Vec<Waiter> {
        self.commit = Commit::Idle;
        std::mem::take(&mut self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_during_a_commit_waits_for_the_next() {
        let mut journal = Journal::new();
        assert!(!journal.begin(), "nobody waits");
        journal.wait(Waiter::Redo);
        journal.wait(Waiter::Batch(3));
        assert!(journal.begin());
        journal.wait(Waiter::Binlog);
        assert!(!journal.begin(), "one at a time");
        assert_eq!((journal.append(8192), journal.append(4096), journal.end), (0, 8192, 12_288));
        assert_eq!(journal.done(), [Waiter::Redo, Waiter::Batch(3)]);
        assert!(journal.begin());
        assert_eq!(journal.done(), [Waiter::Binlog]);
        assert!(!journal.begin());
    }
}
