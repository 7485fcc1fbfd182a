//! Where files lie on the namespaces.

use super::config::{Config, PAGE};
use crate::database::{Area, Storage, Tables, Volume};

/// The areas of all files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// Redo log, written in a circle.
    pub redo: Area,
    /// Binary log, which grows; here in a circle.
    pub binlog: Area,
    /// The journal of the data's file system, written in a circle.
    pub journal: Area,
    /// Doublewrite buffer.
    pub copies: Option<Area>,
    /// The journal of the file system on the other namespace, if there is one with room for a journal.
    pub second_journal: Option<Area>,
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
        let second = config.logs.map_or(block_bytes, |volume| volume.block_bytes.into());
        if !config.logs.is_none_or(Volume::is_valid) {
            return None;
        }
        // Where the next file begins, on each namespace.
        let mut at = [0, 0];
        let mut area = |namespace: u16, bytes: u64| {
            let at = &mut at[usize::from(namespace)];
            let block_bytes = if namespace == 0 { block_bytes } else { second };
            let area = Area { namespace, start: *at, bytes: bytes / PAGE * PAGE, block_bytes };
            *at += area.bytes;
            area
        };
        let of_logs = u16::from(config.logs.is_some());
        let redo = area(of_logs, config.redo_capacity.min(total / LOG_SHARE));
        let binlog = area(of_logs, total / LOG_SHARE);
        let journal_bytes = (128 << 20).min(total / LOG_SHARE / 8);
        let journal = area(0, journal_bytes);
        let mut second_journal = (of_logs == 1).then(|| area(1, journal_bytes));
        let copies = match config.doublewrite {
            None => None,
            Some(doublewrite) => {
                let bytes = u64::from(doublewrite.shards.max(1)) * u64::from(config.batch) * PAGE;
                match (doublewrite.namespace, config.logs, config.copies) {
                    (0, ..) | (1, Some(_), _) => Some(area(doublewrite.namespace, bytes)),
                    (1, None, Some(volume)) if volume.is_valid() && volume.bytes() >= bytes => {
                        let copies =
                            Area { namespace: 1, start: 0, bytes, block_bytes: volume.block_bytes.into() };
                        let rest = (volume.bytes() - bytes) / PAGE * PAGE;
                        let journal = Area { start: bytes, bytes: rest, ..copies };
                        second_journal = (rest >= 1 << 20).then_some(journal);
                        Some(copies)
                    }
                    _ => return None,
                }
            }
        };
        let [at, of_second] = at;
        if config.logs.is_some_and(|volume| volume.bytes() < of_second) {
            return None;
        }
        let rest = total.checked_sub(at)?.min(pages.checked_mul(PAGE)?);
        let data = Area { namespace: 0, start: at, bytes: rest / PAGE * PAGE, block_bytes };
        // Each must hold its largest write.
        let enough = [redo, binlog, journal].iter().all(|a| a.bytes >= 1 << 20) && data.bytes >= 1 << 24;
        enough.then_some(Areas { redo, binlog, journal, copies, second_journal, data })
    }

    /// The end of what is used of the data's namespace, in bytes.
    pub fn end(&self) -> u64 {
        self.data.start + self.data.bytes
    }
}

impl Config {
    /// Where its files lie; `None` if the namespaces are too small for them.
    pub fn areas(&self) -> Option<Areas> {
        Areas::new(self, Tables::new(self.schema, self.warehouses, Storage::Clustered).pages())
    }
}
