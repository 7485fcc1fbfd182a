//! What the engine is told: sizes, triggers, threads. Names of RocksDB's options stand beside each.

use workload::Nanos;

/// How long data is expected to live, as `fcntl(F_SET_RW_HINT)` of Linux names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lifetime {
    /// Shorter than most: the log.
    Short,
    /// Medium: tables of level 0 and of the first level below it.
    Medium,
    /// Longer than most: the second level.
    Long,
    /// Longest: all further ones.
    Extreme,
}

/// The model's parameters. Bytes are those that lie on the drive, unless said otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Keys that there are; each write takes one of them at random.
    pub keys: u64,
    /// Bytes of a record in the log.
    pub log_record: u32,
    /// Bytes of a record in the memtable.
    pub memory_record: u32,
    /// Bytes of a record in a table, compressed, with its share of index and metadata.
    pub table_record: u32,
    /// Bytes of a block of a table: what a point read needs.
    pub block: u32,
    /// Bytes of memory of a memtable (`write_buffer_size`).
    pub write_buffer: u64,
    /// Memtables at most, the one that is written among them (`max_write_buffer_number`).
    pub write_buffers: u32,
    /// Whether there is a log (`disable_wal`).
    pub log: bool,
    /// Bytes of one write to the log's file.
    pub log_write: u32,
    /// Writes of the log under way at most; a writer waits for more.
    pub log_depth: u32,
    /// Levels, from 2 (`num_levels`).
    pub levels: u32,
    /// Bytes of the first level below 0 (`max_bytes_for_level_base`).
    pub level_base: u64,
    /// How much larger each further level is (`max_bytes_for_level_multiplier`).
    pub multiplier: u32,
    /// Whether targets follow from the size of the last level (`level_compaction_dynamic_level_bytes`).
    pub dynamic_levels: bool,
    /// Bytes of a table at most (`target_file_size_base`).
    pub table: u64,
    /// Tables in level 0 that begin a compaction (`level0_file_num_compaction_trigger`).
    pub trigger: u32,
    /// Tables in level 0 from which on writes are slowed down (`level0_slowdown_writes_trigger`), and from which on they stop
    /// (`level0_stop_writes_trigger`).
    pub slowdown: u32,
    /// See [`Config::slowdown`].
    pub stop: u32,
    /// Bytes that compaction is behind from which on writes are slowed down (`soft_pending_compaction_bytes_limit`), and stop
    /// (`hard_pending_compaction_bytes_limit`).
    pub soft_pending: u64,
    /// See [`Config::soft_pending`].
    pub hard_pending: u64,
    /// Bytes of a compaction's inputs beyond which it is not made larger, in multiples of a table (25 in RocksDB: `max_compaction_bytes`).
    pub compaction_tables: u32,
    /// Flushes at the same time.
    pub flushes: u32,
    /// Compactions at the same time (`max_background_compactions`).
    pub compactions: u32,
    /// Bytes of a read of a compaction (`compaction_readahead_size`).
    pub compaction_read: u32,
    /// Bytes of a write of a flush or a compaction (`writable_file_max_buffer_size`).
    pub compaction_write: u32,
    /// Nanoseconds of a processor for each 1,024 bytes that a compaction reads, and a flush writes.
    pub kilobyte: Nanos,
    /// Bytes per second that flushes and compactions may write together (`rate_limiter_bytes_per_sec`); 0: no limit.
    pub rate_limit: u64,
    /// Bytes per second of a slowed writer, at first (`delayed_write_rate`).
    pub delayed_rate: u64,
    /// Nanoseconds of a processor for a write.
    pub write: Nanos,
    /// Nanoseconds of a processor for a point read, and more for each table that it looks at.
    pub read: Nanos,
    /// Threads that read points.
    pub readers: u32,
    /// Whether tables have filters, so that a read looks only at the table that has its key.
    pub filters: bool,
    /// Bytes of the cache of blocks.
    pub cache: u64,
    /// Bytes of records per second that the writer writes at most; 0: no limit; and whether there is a writer.
    pub write_limit: u64,
    /// See [`Config::write_limit`].
    pub writer: bool,
    /// Seed of every choice.
    pub seed: u64,
}

impl Config {
    /// RocksDB as db_bench runs it by default (version 6 and 7), with records of these sizes.
    pub fn db_bench(keys: u64, key: u32, value: u32, compressed: u32, seed: u64) -> Self {
        Config {
            keys,
            // A batch has 12 bytes before a record, a record 4 for its kind and lengths, and the log 7 for a batch.
            log_record: key + value + 23,
            memory_record: key + value + 32,
            table_record: key + 8 + compressed,
            block: 4096,
            write_buffer: 64 << 20,
            write_buffers: 2,
            log: true,
            log_write: 1 << 20,
            log_depth: 8,
            levels: 7,
            level_base: 256 << 20,
            multiplier: 10,
            dynamic_levels: false,
            table: 64 << 20,
            trigger: 4,
            slowdown: 20,
            stop: 36,
            soft_pending: 64 << 30,
            hard_pending: 128 << 30,
            compaction_tables: 25,
            flushes: 1,
            compactions: 1,
            compaction_read: 2 << 20,
            compaction_write: 1 << 20,
            kilobyte: 4_000,
            rate_limit: 0,
            delayed_rate: 8 << 20,
            write: 3_500,
            read: 5_000,
            readers: 0,
            filters: false,
            cache: 8 << 20,
            write_limit: 0,
            writer: true,
            seed,
        }
    }

    /// The lifetime that RocksDB gives a table of a level, where `base` is the first level below 0 that is used.
    pub(super) fn lifetime(level: usize, base: usize) -> Lifetime {
        match level.saturating_sub(base) {
            0 => Lifetime::Medium,
            1 => Lifetime::Long,
            _ => Lifetime::Extreme,
        }
    }
}
