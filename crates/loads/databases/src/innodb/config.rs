//! What the model is told: the database, the server, its settings and where its files lie.

use crate::database::{Schema, Volume};
use workload::Nanos;

/// Bytes of an InnoDB page (`innodb_page_size`, MySQL 8.0 manual, "InnoDB Startup Options").
pub const PAGE: u64 = 16 << 10;

/// Where pages are copied before they are written in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doublewrite {
    /// The namespace, as the actor counts them: 0 is that of the data.
    pub namespace: u16,
    /// Shards: each takes one batch at a time. 1 is one buffer shared by all (MySQL before 8.0.20, MariaDB); Percona Server 8.0.15
    /// has two for each instance of the buffer pool.
    pub shards: u32,
    /// Bytes of one command at most.
    pub command: u32,
}

/// The model's parameters. `docs/studies/doublewrite-model.md` has the source of each value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Connections, each with one transaction at a time and no time to think.
    pub connections: u32,
    /// Warehouses (TPC-C 5.11 clause 1.2).
    pub warehouses: u32,
    /// Tables and indexes.
    pub schema: Schema,
    /// Shares of new-order, payment, order-status, delivery and stock-level (clause 5.2.3).
    pub mix: [u32; 5],
    /// Statements of a stock-level transaction for each item that it counts: 1 as tpcc-mysql, 0 if it is one join.
    pub stock_statements: u32,
    /// In so many of 1,000 statements a further page of the same table is read: what is read beside the rows' own pages.
    pub stray: u32,
    /// Pages of the buffer pool (`innodb_buffer_pool_size`).
    pub pool_pages: u32,
    /// Its instances (`innodb_buffer_pool_instances`).
    pub instances: u32,
    /// A page in the old sublist becomes young if it is used so long after it was first (`innodb_old_blocks_time`).
    pub old_time: Nanos,
    /// Free pages that each instance's LRU flusher keeps ready (`innodb_lru_scan_depth`).
    pub scan_depth: u32,
    /// Instances whose lists of dirty pages are flushed at the same time (`innodb_page_cleaners`); the others wait for their turn.
    pub page_cleaners: u32,
    /// Pages of a batch of a flusher.
    pub batch: u32,
    /// Pages that adaptive flushing writes in a second at a pressure of 100 % (`innodb_io_capacity`).
    pub io_capacity: u32,
    /// The most that it writes in a second (`innodb_io_capacity_max`).
    pub io_capacity_max: u32,
    /// Percentage of dirty pages at which it begins (`innodb_max_dirty_pages_pct_lwm`).
    pub dirty_low: u32,
    /// Percentage of dirty pages that it aims to stay below (`innodb_max_dirty_pages_pct`).
    pub dirty_high: u32,
    /// Bytes of the redo log (`innodb_log_file_size` times `innodb_log_files_in_group`).
    pub redo_capacity: u64,
    /// Bytes of redo for each page that a statement changes, the undo record among them.
    pub redo_change: u32,
    /// Bytes in the binary log for each change of a row; 0: there is no binary log.
    pub binlog_change: u32,
    /// Bytes that a file system's journal has for a commit, before its commit block; 0: there is no journal. The binary log, which
    /// grows, has one committed each time that it is synced (`sync_binlog=1`).
    pub journal: u32,
    /// Whether the redo log and the tablespaces have one committed as well. They do not grow, but fsync(2) wants the time of the last change to
    /// be durable, too, and fdatasync(2) does not.
    pub journal_times: bool,
    /// Where page copies go; `None` without a doublewrite buffer.
    pub doublewrite: Option<Doublewrite>,
    /// Processors that connections share.
    pub cores: u32,
    /// Processor time of a statement, its client's part and the network's among it.
    pub statement: Nanos,
    /// Time that a flusher needs for each page besides the drive's.
    pub flush_page: Nanos,
    /// The namespace of data, logs and, unless it is elsewhere, of the doublewrite buffer.
    pub data: Volume,
    /// Whether a commit waits until the log has it (`innodb_flush_log_at_trx_commit=1`). Without, the log is written once a second, and there is no binary
    /// log.
    pub flush_at_commit: bool,
    /// Share of that namespace that all files together fill, per mille, if the database is larger; it is folded
    /// onto that: page N of M lies at N/M of the data's room.
    pub filled: u32,
    /// The namespace of the doublewrite buffer, if it has one.
    pub copies: Option<Volume>,
    /// The namespace of the redo log and of the binary log, if it is not that of the data. A doublewrite buffer on namespace 1 then lies behind them, and `copies` does not count.
    pub logs: Option<Volume>,
    /// Seed of every choice.
    pub seed: u64,
}

impl Config {
    /// The published set-up (Memblaze, Flash Memory Summit 2019 and DTCC 2019): Percona Server 8.0.15, tpcc-mysql with 28,000 warehouses,
    /// two processors of eight cores.
    pub fn published(connections: u32, data: Volume, seed: u64) -> Config {
        Config {
            connections,
            warehouses: 28_000,
            schema: Schema::TpccMysql,
            mix: [10, 10, 1, 1, 1],
            stock_statements: 1,
            stray: 0,
            pool_pages: 1 << 20,
            instances: 8,
            old_time: 1_000_000_000,
            scan_depth: 1024,
            page_cleaners: 4,
            batch: 120,
            io_capacity: 10_000,
            io_capacity_max: 20_000,
            dirty_low: 10,
            dirty_high: 90,
            redo_capacity: 8 << 30,
            redo_change: 240,
            binlog_change: 380,
            journal: 12 << 10,
            journal_times: true,
            doublewrite: Some(Doublewrite { namespace: 0, shards: 16, command: 124 << 10 }),
            cores: 16,
            statement: 150_000,
            flush_page: 20_000,
            data,
            flush_at_commit: true,
            filled: 1000,
            copies: None,
            logs: None,
            seed,
        }
    }
}
