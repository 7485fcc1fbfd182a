//! What was written to zones of data since the store was made. It stays over openings: an attribute of the top directory has it in each snapshot, and the records behind
//! the snapshot tell the rest.

use crate::codec::{Reader, Writer};
use crate::record::{Ino, Record};
use crate::tree::Tree;

/// The attribute's name. It does not begin with `user.`, so no program sees it.
const XATTR: &[u8] = b"tranche.totals";

/// Blocks that were written to zones of data since the store was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Totals {
    /// By programs.
    pub(crate) written: u64,
    /// By garbage collection.
    pub(crate) moved: u64,
}

impl Totals {
    /// Those that a snapshot has. A store of an earlier version has none.
    pub(crate) fn of(tree: &Tree) -> Self {
        let value = tree.get(Ino::ROOT).and_then(|root| root.xattrs.get(XATTR));
        let mut reader = Reader(value.map_or(&[], Vec::as_slice));
        match (reader.u64(), reader.u64()) {
            (Some(written), Some(moved)) => Self { written, moved },
            _ => Self::default(),
        }
    }

    /// Counts what a record behind the snapshot tells.
    pub(crate) fn count(&mut self, record: &Record) {
        match record {
            Record::Extent { run, .. } => self.written = self.written.saturating_add(run.blocks),
            Record::Moved { run, .. } => self.moved = self.moved.saturating_add(run.blocks),
            _ => {}
        }
    }

    /// The record that gives them to the next snapshot.
    pub(crate) fn record(self) -> Record {
        let mut value = Vec::new();
        Writer(&mut value).u64(self.written).u64(self.moved);
        Record::Xattr { ino: Ino::ROOT, name: XATTR.to_vec(), value: Some(value) }
    }
}
