//! Blocks of a file that were written, and are not on the device yet.

use std::collections::BTreeMap;

/// A block in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DirtyBlock {
    /// Room for all of it.
    pub(crate) bytes: Box<[u8]>,
    /// The bytes that the device does not have lie from here...
    pub(crate) from: usize,
    /// ...to here, exclusive.
    pub(crate) to: usize,
    /// Whether the others are there, too.
    pub(crate) complete: bool,
    /// Whether the file had nothing on the device there.
    pub(crate) fresh: bool,
}

/// The blocks of one file, by their numbers within it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Dirty {
    blocks: BTreeMap<u64, DirtyBlock>,
}

impl Dirty {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn fresh(&self) -> usize {
        self.blocks.values().filter(|block| block.fresh).count()
    }

    /// Whether bytes can be put into a block, from the byte `at` on: there must be no gap to those that it has. `None`: there is no such block.
    pub(crate) fn takes(&self, block: u64, at: usize, length: usize) -> Option<bool> {
        let dirty = self.blocks.get(&block)?;
        Some(dirty.complete || (at <= dirty.to && at + length >= dirty.from))
    }

    /// Puts bytes into a block that [takes](Dirty::takes) them.
    pub(crate) fn change(&mut self, block: u64, at: usize, bytes: &[u8]) {
        if let Some(dirty) = self.blocks.get_mut(&block) {
            dirty.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            (dirty.from, dirty.to) = (dirty.from.min(at), dirty.to.max(at + bytes.len()));
        }
    }

    /// Gives a block the bytes that it lacks: those of `loaded`, which is all of it.
    pub(crate) fn complete(&mut self, block: u64, loaded: &[u8]) {
        if let Some(dirty) = self.blocks.get_mut(&block)
            && !dirty.complete
        {
            dirty.bytes[..dirty.from].copy_from_slice(&loaded[..dirty.from]);
            dirty.bytes[dirty.to..].copy_from_slice(&loaded[dirty.to..]);
            dirty.complete = true;
        }
    }

    pub(crate) fn insert(&mut self, block: u64, dirty: DirtyBlock) {
        self.blocks.insert(block, dirty);
    }

    /// Whether a block is in memory.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Takes out all blocks from `from` to `to` (exclusive).
    pub(crate) fn take(&mut self, from: u64, to: u64) -> BTreeMap<u64, DirtyBlock> {
        let mut taken = self.blocks.split_off(&from);
        let mut behind = taken.split_off(&to.max(from));
        self.blocks.append(&mut behind);
        taken
    }

    /// The first block.
    pub(crate) fn first(&self) -> Option<(u64, &DirtyBlock)> {
        self.blocks.first_key_value().map(|(number, dirty)| (*number, dirty))
    }

    /// The blocks from `from` to `to` (exclusive).
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &DirtyBlock)> {
        self.blocks.range(from..to.max(from)).map(|(number, dirty)| (*number, dirty))
    }

    /// The bytes of the block `first`, which is complete, and of those behind it that were written as a whole, without a gap: at most `most` blocks.
    pub(crate) fn whole_from(&self, first: u64, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for ((number, dirty), expected) in self.blocks.range(first..).zip(first..).take(most.max(1)) {
            let whole = dirty.from == 0 && dirty.to == dirty.bytes.len();
            if *number != expected || (expected > first && !whole) {
                break;
            }
            bytes.extend_from_slice(&dirty.bytes);
        }
        bytes
    }

    /// The file ends at the byte `end` of a block now. Returns whether anything of the block is new; if there is no such block, too.
    pub(crate) fn cut(&mut self, block: u64, end: usize) -> bool {
        let Some(dirty) = self.blocks.get_mut(&block) else { return true };
        dirty.bytes[end..].fill(0);
        dirty.to = dirty.to.min(end);
        dirty.from < dirty.to
    }
}
