//! Where files lie on the namespaces.

use super::config::{Config, PAGE, Volume};

/// A run of logical blocks of one namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// The namespace, as the actor counts them.
    pub namespace: u16,
    /// Its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub block_bytes: u64,
}

/// Blocks of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockRange {
    pub(super) namespace: u16,
    pub(super) lba: u64,
    pub(super) blocks: u32,
}

impl Area {
    /// Bytes from here on, folded into the area; `at` and `bytes` are multiples of 4,096.
    pub(super) fn place(&self, at: u64, bytes: u64) -> BlockRange {
        let room = self.bytes.saturating_sub(bytes) / 4096 + 1;
        let start = self.start + at / 4096 % room * 4096;
        BlockRange {
            namespace: self.namespace,
            lba: start / self.block_bytes,
            blocks: u32::try_from(bytes / self.block_bytes).unwrap_or(u32::MAX),
        }
    }
}

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
        let of = |v: Volume| v.blocks.saturating_mul(v.block_bytes.into());
        let total = (u128::from(of(config.data)) * u128::from(config.filled.min(1000)) / 1000) as u64;
        let block_bytes = u64::from(config.data.block_bytes);
        let valid = |v: Volume| v.block_bytes >= 512 && 4096 % v.block_bytes == 0;
        if !valid(config.data) {
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
                    (1, Some(volume)) if valid(volume) && of(volume) >= bytes => {
                        let copies =
                            Area { namespace: 1, start: 0, bytes, block_bytes: volume.block_bytes.into() };
                        let rest = (of(volume) - bytes) / PAGE * PAGE;
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
