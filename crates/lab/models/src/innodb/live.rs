//! The parameters of MariaDB as the live study of the doublewrite buffer sets it up.

use database_models::innodb::{Config, Doublewrite, Schema, Volume};

/// Bytes of the redo log in MiB: so large that checkpoints do not set the pace of page writes.
pub const REDO_MIB: u64 = 192;
/// Processor time of a statement of MariaDB on this kind of machine with the load's part: estimated, fitted to nothing.
const STATEMENT_NS: u64 = 60_000;
/// Processors of the machine on which the live study was calibrated.
const CORES: u32 = 2;
/// MariaDB has one doublewrite buffer for all: each batch waits for the one before.
const SHARDS: u32 = 1;

/// The model of MariaDB as the live study sets it up.
pub(super) fn config(connections: u32, data: Volume, seed: u64) -> Config {
    Config {
        schema: Schema::Live,
        // TPC-C 5.11, clause 5.2.3, as the live load draws them.
        mix: [45, 43, 4, 4, 4],
        stock_statements: 0,
        instances: 1,
        // innodb_max_dirty_pages_pct_lwm is 0 in MariaDB: nothing is written for the share of dirty pages before it is 90 %.
        dirty_low: 90,
        redo_capacity: REDO_MIB << 20,
        doublewrite: Some(Doublewrite { namespace: 0, shards: SHARDS, command: 128 << 10 }),
        // MariaDB syncs with fdatasync().
        journal_times: false,
        cores: CORES,
        statement: STATEMENT_NS,
        ..Config::published(connections, data, seed)
    }
}
