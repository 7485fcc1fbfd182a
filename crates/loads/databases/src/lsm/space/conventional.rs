//! Extents on a conventional namespace, as a file system like XFS has them: a file gets the first stretch that is long enough for what it is expected to have,
//! else the longest; what it did not need goes back when it is closed.

use super::{DeviceIo, Extent, FileId, FileSpace, Files, Hint, Usage, push, reads};
use std::collections::BTreeMap;
use workload::Verb;

/// A namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConventionalConfig {
    /// Logical blocks that files may have, from 0.
    pub blocks: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Whether blocks of deleted files are deallocated (the mount option `discard`).
    pub discard: bool,
}

#[derive(Clone, Debug)]
struct File {
    extents: Vec<Extent>,
    /// Blocks that it is still expected to get.
    expected: u64,
    /// A stretch that it has, but has not written.
    room: Extent,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Conventional {
    config: ConventionalConfig,
    files: Files<File>,
    /// Lengths of free stretches by their first block.
    free: BTreeMap<u64, u64>,
    live: u64,
    taken: u64,
}

impl Conventional {
    /// An empty file system.
    pub fn new(config: ConventionalConfig) -> Self {
        let free = BTreeMap::from([(0, config.blocks)]);
        Conventional { config, files: Files::EMPTY, free, live: 0, taken: 0 }
    }

    /// Takes the first stretch that is long enough, else the longest.
    fn take(&mut self, wanted: u64) -> Option<Extent> {
        let (&lba, &length) = match self.free.iter().find(|(_, length)| **length >= wanted) {
            Some(found) => found,
            // The first of the longest.
            None => self.free.iter().rev().max_by_key(|(_, length)| **length)?,
        };
        let blocks = wanted.min(length);
        self.free.remove(&lba);
        if blocks < length {
            self.free.insert(lba + blocks, length - blocks);
        }
        self.taken += blocks;
        Some(Extent { lba, blocks })
    }

    fn give(&mut self, extent: Extent) {
        let Extent { mut lba, mut blocks } = extent;
        if blocks == 0 {
            return;
        }
        self.taken -= blocks;
        if let Some((&before, &length)) = self.free.range(..lba).next_back()
            && before + length == lba
        {
            self.free.remove(&before);
            (lba, blocks) = (before, blocks + length);
        }
        if let Some(length) = self.free.remove(&(lba + blocks)) {
            blocks += length;
        }
        self.free.insert(lba, blocks);
    }
}

impl FileSpace for Conventional {
    fn create(&mut self, hint: Hint) -> FileId {
        let expected = hint.expected.div_ceil(u64::from(self.config.block_bytes));
        self.files.add(File { extents: Vec::new(), expected, room: Extent { lba: 0, blocks: 0 } })
    }

    fn append(&mut self, file: FileId, blocks: u32, out: &mut Vec<DeviceIo>) -> u32 {
        let mut left = u64::from(blocks);
        while left > 0 {
            if self.files.get(file).room.blocks == 0 {
                let wanted = self.files.get(file).expected.max(left);
                let Some(room) = self.take(wanted) else { break };
                self.files.get_mut(file).room = room;
            }
            let own = self.files.get_mut(file);
            let some = own.room.blocks.min(left);
            let lba = own.room.lba;
            own.room = Extent { lba: lba + some, blocks: own.room.blocks - some };
            own.expected = own.expected.saturating_sub(some);
            push(&mut own.extents, lba, some);
            out.push(DeviceIo { verb: Verb::Write, lba, blocks: some as u32 });
            self.live += some;
            left -= some;
        }
        blocks - left as u32
    }

    fn read(&self, file: FileId, at: u64, blocks: u32, out: &mut Vec<DeviceIo>) {
        reads(&self.files.get(file).extents, at, blocks, out);
    }

    fn close(&mut self, file: FileId, _out: &mut Vec<DeviceIo>) {
        let own = self.files.get_mut(file);
        let room = std::mem::replace(&mut own.room, Extent { lba: 0, blocks: 0 });
        self.give(room);
    }

    fn delete(&mut self, file: FileId, out: &mut Vec<DeviceIo>) {
        self.close(file, out);
        for extent in self.files.remove(file).extents {
            self.live -= extent.blocks;
            self.give(extent);
            if self.config.discard {
                let Extent { lba, blocks } = extent;
                let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
                out.push(DeviceIo { verb: Verb::Trim, lba, blocks });
            }
        }
    }

    fn usage(&self) -> Usage {
        Usage { capacity: self.config.blocks, live: self.live, taken: self.taken, ..Usage::default() }
    }
}
