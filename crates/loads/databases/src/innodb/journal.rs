//! A file system's journal, as ext4 has it (jbd2): what becomes known of files is gathered in one transaction while the one before is
//! committed. Who syncs a file waits for the transaction in which the file was changed last, with all others who wait for it.

use workload::Nanos;

/// Files' times are taken from a clock that goes in such steps (a kernel's tick with `CONFIG_HZ=1000`): who writes again within one has not changed them.
const TICK: Nanos = 1_000_000;

/// Who waits for a commit of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    Redo,
    Binlog,
    /// A flusher with a file that it has written to.
    Batch(u32),
}

/// A file, as far as its journal knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct File {
    /// The transaction that it was changed in last; 0: it was not.
    changed: u64,
    /// Its time, in ticks.
    time: Nanos,
}

impl File {
    pub(super) const NEW: File = File { changed: 0, time: Nanos::MAX };
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

/// A journal.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) commit: Commit,
    /// Bytes so far.
    end: u64,
    /// The transaction that gathers changes; the one before is committed unless one is under way.
    running: u64,
    /// Who waits for the running transaction, and who for the one that is being committed.
    queue: Vec<Waiter>,
    group: Vec<Waiter>,
}

impl Journal {
    pub(super) fn new() -> Journal {
        Journal { commit: Commit::Idle, end: 0, running: 1, queue: Vec::new(), group: Vec::new() }
    }

    /// A file is written to: its time changes, if it was not this tick's already. One that `grows` changes always.
    pub(super) fn written(&self, file: &mut File, now: Nanos, grows: bool) {
        let time = now / TICK;
        if grows || file.time != time {
            *file = File { changed: self.running, time };
        }
    }

    /// Whether what is known of the file is not in the journal yet. In a commit whose flush is under way it is; but what the file holds
    /// wants a flush that begins later.
    pub(super) fn owes(&self, file: File) -> bool {
        let committing = u64::from(matches!(self.commit, Commit::Blocks | Commit::Record));
        file.changed != 0 && file.changed >= self.running - committing
    }

    /// From now on he waits until what is known of the file is durable; false if only a flush is wanting.
    pub(super) fn wait(&mut self, file: File, waiter: Waiter) -> bool {
        if !self.owes(file) {
            return false;
        }
        let group = if file.changed == self.running { &mut self.queue } else { &mut self.group };
        group.push(waiter);
        true
    }

    /// Begins a commit for all who wait, unless there is one under way or nobody waits. Whether it began.
    pub(super) fn begin(&mut self) -> bool {
        let begins = self.commit == Commit::Idle && !self.queue.is_empty();
        if begins {
            std::mem::swap(&mut self.group, &mut self.queue);
            self.running += 1;
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
    fn who_syncs_waits_for_the_transaction_of_the_last_change() {
        let mut journal = Journal::new();
        let (mut redo, mut table) = (File::NEW, File::NEW);
        assert!(!journal.wait(redo, Waiter::Redo) && !journal.begin(), "nothing has changed");
        journal.written(&mut redo, 5 * TICK, false);
        journal.written(&mut table, 5 * TICK, false);
        assert!(journal.wait(redo, Waiter::Redo) && journal.begin());
        // The table was changed in the same transaction, which is under way.
        assert!(journal.wait(table, Waiter::Batch(3)) && !journal.begin(), "one at a time");
        // Its time is the same within a tick; what grows has changed all the same.
        journal.written(&mut table, 6 * TICK - 1, false);
        assert!(journal.wait(table, Waiter::Batch(4)));
        let mut binlog = table;
        journal.written(&mut binlog, 6 * TICK - 1, true);
        assert!(journal.wait(binlog, Waiter::Binlog) && !journal.begin());
        assert_eq!((journal.append(8192), journal.append(4096), journal.end), (0, 8192, 12_288));
        assert_eq!(journal.done(), [Waiter::Redo, Waiter::Batch(3), Waiter::Batch(4)]);
        assert!(!journal.owes(table) && !journal.wait(table, Waiter::Batch(5)) && journal.owes(binlog));
        assert!(journal.begin());
        assert_eq!(journal.done(), [Waiter::Binlog]);
        assert!(!journal.begin() && !journal.owes(binlog));
    }
}
