//! Where things lie on the metadata device. docs/tier-format.md is the description.

use super::BLOCK;
use super::table::ENTRIES;
use crate::config::ConfigError;

/// Superblocks at the beginning.
pub(crate) const SUPERBLOCKS: u64 = 2;
/// Blocks of discards behind each copy of the table.
const DISCARD_BLOCKS: u64 = 1;
/// Blocks of the log: as many as there are, within these bounds.
const LOG_MIN: u64 = 16;
const LOG_MAX: u64 = 1024;

/// Where things lie, in blocks of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Blocks of each copy of the table, the one of discards not counted.
    pub(crate) table: u64,
    /// Blocks of the log.
    pub(crate) log: u64,
}

impl Layout {
    /// For a cache of so many chunks, on a device of so many bytes. Where there is room, the cache can grow to four times its size.
    pub(crate) fn new(chunks: u32, bytes: u64) -> Result<Self, ConfigError> {
        let needed = |table: u64| SUPERBLOCKS + 2 * (table + DISCARD_BLOCKS) + LOG_MIN;
        let blocks = bytes / BLOCK;
        let least = u64::from(chunks).div_ceil(ENTRIES as u64);
        if blocks < needed(least) {
            let needed = needed(least) * BLOCK;
            return Err(ConfigError::MetadataTooSmall { bytes, needed, chunks });
        }
        let table = (least..=4 * least).rev().find(|table| needed(*table) <= blocks).unwrap_or(least);
        let log = (blocks - needed(table) + LOG_MIN).min(LOG_MAX);
        Ok(Self { table, log })
    }

    /// Chunks for which a copy of the table has room.
    pub(crate) fn capacity(&self) -> u64 {
        self.table * ENTRIES as u64
    }

    /// The first block of a copy of the table; the block of discards is its last.
    pub(crate) fn table_at(&self, copy: u8) -> u64 {
        SUPERBLOCKS + u64::from(copy) * (self.table + DISCARD_BLOCKS)
    }

    /// The first block of the log.
    pub(crate) fn log_at(&self) -> u64 {
        self.table_at(2)
    }

    /// Blocks of all.
    pub(crate) fn blocks(&self) -> u64 {
        self.log_at() + self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place() {
        let layout = Layout::new(1000, 64 << 20).unwrap();
        assert_eq!((layout.table, layout.log), (8, 1024));
        assert!(layout.capacity() >= 4000);
        assert_eq!([layout.table_at(0), layout.table_at(1), layout.log_at()], [2, 11, 20]);
        let error = Layout::new(1_000_000, 1 << 20).unwrap_err();
        let ConfigError::MetadataTooSmall { needed, .. } = error else { panic!("{error}") };
        let layout = Layout::new(1_000_000, needed).unwrap();
        assert_eq!((layout.log, layout.blocks() * BLOCK), (LOG_MIN, needed));
    }
}
