//! What has happened.

/// Levels that are told apart: level 0 to 8.
pub const LEVELS: usize = 9;

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Records written.
    pub writes: u64,
    /// Bytes of these records, key and value, as the log has them.
    pub user_bytes: u64,
    /// Bytes written to logs.
    pub log_bytes: u64,
    /// Flushes, and bytes that they wrote.
    pub flushes: u64,
    /// See [`Counts::flushes`].
    pub flush_bytes: u64,
    /// Compactions, those that only moved tables to another level, and those within level 0.
    pub compactions: u64,
    /// See [`Counts::compactions`].
    pub moves: u64,
    /// See [`Counts::compactions`].
    pub within_zero: u64,
    /// Bytes that compactions read, and wrote.
    pub compaction_read: u64,
    /// See [`Counts::compaction_read`].
    pub compaction_written: u64,
    /// Bytes that flushes and compactions wrote, by the level they went to.
    pub written_to: [u64; LEVELS],
    /// Tables made, and deleted.
    pub tables_made: u64,
    /// See [`Counts::tables_made`].
    pub tables_deleted: u64,
    /// Bytes that the file system moved to other zones.
    pub moved_bytes: u64,
    /// Nanoseconds in which writes were stopped, by memtables, by level 0, and by what compaction is behind.
    pub stopped: [u64; 3],
    /// Nanoseconds in which they were slowed down.
    pub slowed: u64,
    /// Point reads, and those of the device that they made.
    pub reads: u64,
    /// See [`Counts::reads`].
    pub block_reads: u64,
    /// Blocks that were in the cache.
    pub hits: u64,
    /// Requests that failed.
    pub failed: u64,
}

impl Counts {
    /// What happened since an earlier moment.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut written_to = self.written_to;
        for (now, before) in written_to.iter_mut().zip(&earlier.written_to) {
            *now -= before;
        }
        let mut stopped = self.stopped;
        for (now, before) in stopped.iter_mut().zip(&earlier.stopped) {
            *now -= before;
        }
        Counts {
            writes: self.writes - earlier.writes,
            user_bytes: self.user_bytes - earlier.user_bytes,
            log_bytes: self.log_bytes - earlier.log_bytes,
            flushes: self.flushes - earlier.flushes,
            flush_bytes: self.flush_bytes - earlier.flush_bytes,
            compactions: self.compactions - earlier.compactions,
            moves: self.moves - earlier.moves,
            within_zero: self.within_zero - earlier.within_zero,
            compaction_read: self.compaction_read - earlier.compaction_read,
            compaction_written: self.compaction_written - earlier.compaction_written,
            written_to,
            tables_made: self.tables_made - earlier.tables_made,
            tables_deleted: self.tables_deleted - earlier.tables_deleted,
            moved_bytes: self.moved_bytes - earlier.moved_bytes,
            stopped,
            slowed: self.slowed - earlier.slowed,
            reads: self.reads - earlier.reads,
            block_reads: self.block_reads - earlier.block_reads,
            hits: self.hits - earlier.hits,
            failed: self.failed - earlier.failed,
        }
    }

    /// Bytes that flushes and compactions wrote for each that flushes did, in thousandths: what RocksDB calls W-Amp of its sum.
    pub fn amplification(&self) -> u64 {
        let written = u128::from(self.flush_bytes + self.compaction_written) * 1000;
        written.checked_div(u128::from(self.flush_bytes)).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    }
}
