//! What a host asks of a disk, and what it hears.

use crate::time::Nanos;
use thiserror::Error;

/// The most cylinders of a disk.
pub const MOST_CYLINDERS: u32 = 1 << 22;

/// A disk that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct DiskError(String);

impl DiskError {
    pub(super) fn new(text: impl Into<String>) -> DiskError {
        DiskError(text.into())
    }
}

/// What a request does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Op {
    /// Blocks to the host.
    #[default]
    Read = 0,
    /// Blocks to the disk.
    Write = 1,
}

/// Blocks of a write that the disk reads and writes a revolution later.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ReadsFirst {
    /// None: all are written as a whole.
    #[default]
    Nothing,
    /// Those that the write has in part: its first block, its last one, or both.
    Ends {
        /// The first block.
        first: bool,
        /// The last block.
        last: bool,
    },
    /// All: the write depends on what is there.
    All,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The owner's number. The completion has it.
    pub id: u64,
    /// What it does.
    pub op: Op,
    /// First block.
    pub block: u64,
    /// Number of blocks, 1 at least.
    pub count: u32,
    /// A write that must be on the platters when it is complete (Force Unit Access).
    pub force: bool,
    /// What the disk must read of it before it writes.
    pub reads_first: ReadsFirst,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The request's number.
    pub id: u64,
    /// When.
    pub at: Nanos,
    /// Whether the cache answered.
    pub hit: bool,
    /// The first block that could not be read or written, if one could not.
    pub failed: Option<u64>,
}
