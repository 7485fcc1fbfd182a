//! Where files lie on the namespaces.

use super::config::{Config, PAGE};
use crate::database::Area;

/// The areas of all files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// Redo log, written in a circle.
    pub redo: Area,
    /// Binary log, which grows; here in a circle.
    pub binlog: Area,
    /// The file system's journal, written in a circle.
    pub journal: Area,
    /// Doublewrite buffer.
    pub copies: Option<Area>,
    /// The journal of its file system, if that is on another namespace and leaves room for one.
    pub copies_journal: Option<Area>,
    /// Tables and indexes.
    pub data: Area,
}

/// The logs have these shares of a namespace at most, so that a scaled drive holds scaled logs.
const LOG_SHARE: u64 = 64;

impl Areas {
    /// Lays them out; `None` if the namespace is too small.
    pub(super) fn new(config: &Config, pages: u64) -> Option<Areas> {
        let total = (u128::from(config.data.bytes()) * u128::from(config.filled.min(1000)) / 1000) as u64;
        let block_bytes = u64::from(config.data.block_bytes);
        if !config.data.is_valid() {
            return None;
        }
        let mut at = 0;
        let area = |at: &mut u64, bytes: u64| {
            let area = Area { namespace: 0, start: *at, bytes: bytes / PAGE * PAGE, block_bytes };
            *at += area.bytes;
            area
        };
        let redo = area(&mut at, config.redo_capacity.min(total / LOG_SHARE));
        let binlog = area(&mut at, total / LOG_SHARE);
        let journal = area(&mut at, (128 << 20).min(total / LOG_SHARE / 8));
        let (copies, copies_journal) = match config.doublewrite {
            None => (None, None),
            Some(doublewrite) => {
                let bytes = u64::from(doublewrite.shards.max(1)) * u64::from(config.batch) * PAGE;
                match (doublewrite.namespace, config.copies) {
                    (0, _) => (Some(area(&mut at, bytes)), None),
                    (1, Some(volume)) if volume.is_valid() && volume.bytes() >= bytes => {
                        let copies =
                            Area { namespace: 1, start: 0, bytes, block_bytes: volume.block_bytes.into() };
                        let rest = (volume.bytes() - bytes) / PAGE * PAGE;
                        let journal = Area { start: bytes, bytes: rest, ..copies };
                        (Some(copies), (rest >= 1 << 20).then_some(journal))
                    }
                    _ => return None,
                }
            }
        };
        let rest = total.checked_sub(at)?.min(pages.checked_mul(PAGE)?);
        let data = area(&mut at, rest);
        // Each must hold its largest write.
        let enough = [redo, binlog, journal].iter().all(|a| a.bytes >= 1 << 20) && data.bytes >= 1 << 24;
        enough.then_some(Areas { redo, binlog, journal, copies, copies_journal, data })
    }

    /// The end of what is used of the data's namespace, in bytes.
    pub fn end(&self) -> u64 {
        self.data.start + self.data.bytes
    }
}
