//! What threads do: those in the background read inputs, work and write tables, one request at a time; others read points.

use super::keys::Segment;
use super::space::{FileId, Move};
use super::table::TableId;
use std::collections::VecDeque;
use workload::Nanos;

/// Bytes of a block of a file.
pub(super) const BLOCK: u64 = 4096;

/// Tables that are written.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub level: usize,
    /// Those that are still to come, with their bytes.
    pub tables: VecDeque<(Segment, u64)>,
    /// The one that is being written: its file, and blocks of it so far.
    pub file: Option<FileId>,
    pub written: u64,
    /// Those that are done.
    pub done: Vec<(Segment, u64, FileId)>,
    /// Blocks that may be written by now, of all tables, and that are.
    pub due: u64,
    pub sent: u64,
    /// Blocks of all tables.
    pub all: u64,
}

impl Output {
    pub fn new(level: usize, tables: Vec<(Segment, u64)>) -> Self {
        let all = tables.iter().map(|(_, bytes)| bytes.div_ceil(BLOCK)).sum();
        Output {
            level,
            tables: tables.into(),
            file: None,
            written: 0,
            done: Vec::new(),
            due: 0,
            sent: 0,
            all,
        }
    }

    /// Blocks of the next write, if one is due: as many as a write has, or the rest of a table.
    pub fn next(&self, most: u64) -> Option<u32> {
        let (_, bytes) = self.tables.front()?;
        let rest = bytes.div_ceil(BLOCK) - self.written;
        let some = rest.min(most);
        (some > 0 && self.due - self.sent >= some).then_some(some as u32)
    }
}

/// A part of an input that is read at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// The key that it begins with: so chunks of several tables are read in the order of keys.
    pub key: u64,
    pub table: TableId,
    pub at: u64,
    pub blocks: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// The oldest full memtable.
    Flush,
    Compaction {
        from: usize,
        inputs: Vec<(usize, TableId)>,
        chunks: VecDeque<Chunk>,
        /// Blocks of all inputs, and those that were worked on.
        blocks: u64,
        worked: u64,
    },
    /// The file system empties a zone.
    Collection { moves: VecDeque<Move> },
}

/// What a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Nothing: it goes on.
    None,
    /// A read of so many blocks.
    Read(u32),
    /// A processor, for what was read.
    Work(u32),
    /// A write.
    Write,
    /// The limit of the rate.
    Rate,
    /// Room in the file system.
    Room,
}

/// A background thread at work.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub kind: Kind,
    pub output: Output,
    pub wait: Wait,
    /// Until when the limit of the rate lets it wait.
    pub allowed: Option<Nanos>,
}

/// A thread that reads points.
#[derive(Clone, Default, Debug)]
pub(super) struct Reader {
    pub key: u64,
    pub began: Nanos,
    /// Tables that may have the key, the newest first; they stay until it is read.
    pub tables: Vec<TableId>,
    /// The one that is looked at.
    pub at: usize,
    /// It does nothing, for the load has fewer readers.
    pub ended: bool,
    /// It reads a key.
    pub reading: bool,
}
