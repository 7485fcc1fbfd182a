//! What the model is told, and what only it counts.

use crate::database::{self, Volume};
use workload::Nanos;

/// Bytes of a page (`block_size`), and of a page of the log (`wal_block_size`).
pub const PAGE: u64 = 8 << 10;

/// The model's parameters. The [module](super) has the source of each rule and value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Connections, each with one transaction at a time and no time to think.
    pub connections: u32,
    /// Warehouses (TPC-C 5.11 clause 1.2).
    pub warehouses: u32,
    /// Shares of new-order, payment, order-status, delivery and stock-level (clause 5.2.3).
    pub mix: [u32; 5],
    /// Pages of the buffer pool (`shared_buffers`).
    pub pool_pages: u32,
    /// Whether the log has pages whole (`full_page_writes`).
    pub full_page_writes: bool,
    /// Bytes of log for a change of a row or of an index, its header among them.
    pub record: u32,
    /// Bytes of log for a commit.
    pub commit_record: u32,
    /// Bytes of a whole page in the log: without its free space, and perhaps compressed (`wal_compression`).
    pub image: u32,
    /// The longest time from the begin of a checkpoint to that of the next (`checkpoint_timeout`).
    pub checkpoint_timeout: Nanos,
    /// Bytes of log that may be there, about (`max_wal_size`).
    pub max_wal_size: u64,
    /// Share of the time between checkpoints in which one writes its pages, per mille (`checkpoint_completion_target`).
    pub completion_target: u32,
    /// Pages that a checkpoint has under way at most (`checkpoint_flush_after`): 1 or more.
    pub flush_after: u32,
    /// Bytes of log that are not written at most (`wal_buffers`).
    pub wal_buffers: u64,
    /// Time between two flushes of the log for which nobody waits (`wal_writer_delay`).
    pub wal_writer_delay: Nanos,
    /// Bytes of a new segment of the log that is filled with zeroes before it is used; 0: segments are used again.
    pub new_segment: u64,
    /// Whether a commit waits until the log has it (`synchronous_commit`).
    pub flush_at_commit: bool,
    /// Time that a commit waits for others before it flushes (`commit_delay`).
    pub commit_delay: Nanos,
    /// It waits only if so many others are active (`commit_siblings`).
    pub commit_siblings: u32,
    /// Time between two rounds of the background writer (`bgwriter_delay`).
    pub bgwriter_delay: Nanos,
    /// Pages that it writes in a round at most (`bgwriter_lru_maxpages`); 0: none.
    pub bgwriter_pages: u32,
    /// Clean pages that it looks for: those that were needed lately times this, per mille (`bgwriter_lru_multiplier`).
    pub bgwriter_multiplier: u32,
    /// Processors that connections share.
    pub cores: u32,
    /// Processor time of a statement, its client's part and the network's among it.
    pub statement: Nanos,
    /// The namespace of the data and, unless it is elsewhere, of the log. A database that is larger is folded onto it.
    pub data: Volume,
    /// The namespace of the log, if it has one: the actor's second.
    pub wal: Option<Volume>,
    /// Seed of every choice.
    pub seed: u64,
}

impl Config {
    /// PostgreSQL 18 as a package installs it, with a hundred warehouses on sixteen processors.
    pub fn new(connections: u32, data: Volume, seed: u64) -> Config {
        Config {
            connections,
            warehouses: 100,
            mix: [10, 10, 1, 1, 1],
            pool_pages: 16 << 10,
            full_page_writes: true,
            record: 130,
            commit_record: 45,
            image: 7800,
            checkpoint_timeout: 300_000_000_000,
            max_wal_size: 1 << 30,
            completion_target: 900,
            flush_after: 32,
            wal_buffers: 4 << 20,
            wal_writer_delay: 200_000_000,
            new_segment: 0,
            flush_at_commit: true,
            commit_delay: 0,
            commit_siblings: 5,
            bgwriter_delay: 200_000_000,
            bgwriter_pages: 100,
            bgwriter_multiplier: 2000,
            cores: 16,
            statement: 162_000,
            data,
            wal: None,
            seed,
        }
    }

    /// Bytes of log from the begin of a checkpoint until the next one begins.
    pub(super) fn wal_between(&self) -> u64 {
        let whole =
            u128::from(self.max_wal_size) * 1000 / (1000 + u128::from(self.completion_target.min(1000)));
        u64::try_from(whole).unwrap_or(u64::MAX).max(PAGE)
    }
}

/// What only this model counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OwnCounts {
    /// Pages written by connections that needed their places.
    pub backend_writes: u64,
    /// Pages written by the background writer.
    pub background_writes: u64,
    /// Pages written by checkpoints.
    pub checkpoint_writes: u64,
    /// Checkpoints that have begun.
    pub checkpoints: u64,
    /// Of these, because there was so much log.
    pub by_wal: u64,
    /// Checkpoints that have ended.
    pub checkpoints_ended: u64,
    /// Bytes of log, as they were made. Written are whole pages, and zeroes in new segments.
    pub wal_bytes: u64,
    /// Whole pages in it.
    pub images: u64,
}

/// What the model has done.
pub type Counts = database::Counts<OwnCounts>;
