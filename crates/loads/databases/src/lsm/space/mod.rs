//! Where files lie: the contract between the engine and a file system, and three of them.

mod conventional;
mod f2fs;
#[cfg(test)]
mod tests;
mod zoned;

pub use conventional::{Conventional, ConventionalConfig};
pub use f2fs::{F2fs, F2fsConfig};
pub use zoned::{Placement, Zoned, ZonedConfig};

use super::config::Lifetime;
use workload::Verb;

/// Number of a file; used again when the file is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub(super) u32);

/// What is known of a file when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// How long it is expected to live.
    pub lifetime: Lifetime,
    /// The level of a table, and its keys: the first, and the first behind them. `None` for a log.
    pub table: Option<(u32, u64, u64)>,
    /// Bytes that it is expected to have.
    pub expected: u64,
}

/// A request to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceIo {
    /// What to do.
    pub verb: Verb,
    /// First logical block.
    pub lba: u64,
    /// How many; 0 for an action on a zone.
    pub blocks: u32,
}

/// Blocks of a file that are to be moved, so that a zone can be reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The file.
    pub file: FileId,
    /// Where they are.
    pub lba: u64,
    /// How many they are.
    pub blocks: u32,
}

/// How much room there is, in logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Of the device, as far as files may have it.
    pub capacity: u64,
    /// Of files.
    pub live: u64,
    /// That no new file can have, the blocks of files among them: in zones, what was written or given up since their last reset.
    pub taken: u64,
    /// Moved so far to other zones.
    pub moved: u64,
    /// Zones that were reset so far, and that were finished before they were full.
    pub resets: u64,
    /// See [`Usage::resets`].
    pub finished: u64,
}

/// A file system, as far as it says where data lies. Files are written from their begin on, and deleted as a whole.
///
/// What it pushes to `out` is to be sent to the device in this order. The owner deletes no file of which a request is under way.
pub trait FileSpace {
    /// A new file, which is empty.
    fn create(&mut self, hint: Hint) -> FileId;

    /// Room for blocks at the end of a file, and the writes that fill it. Returns for how many of them: fewer if there is no room for all now, and then what makes
    /// room may be in `out`.
    fn append(&mut self, file: FileId, blocks: u32, out: &mut Vec<DeviceIo>) -> u32;

    /// The reads of so many blocks of a file, which were appended before.
    fn read(&self, file: FileId, at: u64, blocks: u32, out: &mut Vec<DeviceIo>);

    /// The file will not grow any more.
    fn close(&mut self, file: FileId, out: &mut Vec<DeviceIo>);

    /// The file is no more.
    fn delete(&mut self, file: FileId, out: &mut Vec<DeviceIo>);

    /// A request of `out` that is no read and no write has ended. Returns whether there may be room now.
    fn ended(&mut self, io: &DeviceIo) -> bool {
        let _ = io;
        false
    }

    /// Chooses what is to be moved so that there is room, if there is need and nothing of it is under way. Fewer blocks than this at a time.
    fn collect(&mut self, most: u32) -> Option<Vec<Move>> {
        let _ = most;
        None
    }

    /// Blocks were read and are written elsewhere. Returns how many of them, from the first on: fewer if there is no room for all now. All, if the file is gone.
    fn relocate(&mut self, of: &Move, out: &mut Vec<DeviceIo>) -> u32 {
        let _ = out;
        of.blocks
    }

    /// Everything that [`collect`](FileSpace::collect) chose was moved.
    fn collected(&mut self, out: &mut Vec<DeviceIo>) {
        let _ = out;
    }

    /// How much room there is.
    fn usage(&self) -> Usage;

    /// What it has where, for messages of tests.
    #[cfg(test)]
    fn describe(&self) -> String {
        String::new()
    }

    /// Panics where something does not hold that must at any time.
    #[cfg(test)]
    fn check(&self) {}
}

impl<F: FileSpace + ?Sized> FileSpace for Box<F> {
    fn create(&mut self, hint: Hint) -> FileId {
        (**self).create(hint)
    }

    fn append(&mut self, file: FileId, blocks: u32, out: &mut Vec<DeviceIo>) -> u32 {
        (**self).append(file, blocks, out)
    }

    fn read(&self, file: FileId, at: u64, blocks: u32, out: &mut Vec<DeviceIo>) {
        (**self).read(file, at, blocks, out);
    }

    fn close(&mut self, file: FileId, out: &mut Vec<DeviceIo>) {
        (**self).close(file, out);
    }

    fn delete(&mut self, file: FileId, out: &mut Vec<DeviceIo>) {
        (**self).delete(file, out);
    }

    fn ended(&mut self, io: &DeviceIo) -> bool {
        (**self).ended(io)
    }

    fn collect(&mut self, most: u32) -> Option<Vec<Move>> {
        (**self).collect(most)
    }

    fn relocate(&mut self, of: &Move, out: &mut Vec<DeviceIo>) -> u32 {
        (**self).relocate(of, out)
    }

    fn collected(&mut self, out: &mut Vec<DeviceIo>) {
        (**self).collected(out);
    }

    fn usage(&self) -> Usage {
        (**self).usage()
    }
}

/// Blocks that lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent {
    lba: u64,
    blocks: u64,
}

/// Adds blocks to a file's extents.
fn push(extents: &mut Vec<Extent>, lba: u64, blocks: u64) {
    match extents.last_mut() {
        Some(last) if last.lba + last.blocks == lba => last.blocks += blocks,
        _ => extents.push(Extent { lba, blocks }),
    }
}

/// Blocks of a file are moved: they lie in these places, in order.
fn replace(extents: &mut Vec<Extent>, lba: u64, blocks: u64, places: &[Extent]) {
    let has = |extent: &Extent| (extent.lba..extent.lba + extent.blocks).contains(&lba);
    let Some(mut at) = extents.iter().position(has) else { return };
    let extent = extents.remove(at);
    let before = lba - extent.lba;
    let after = extent.blocks - before - blocks;
    let kept = [Extent { lba: extent.lba, blocks: before }, Extent { lba: lba + blocks, blocks: after }];
    for part in kept[..1].iter().chain(places).chain(&kept[1..]).filter(|part| part.blocks > 0) {
        extents.insert(at, *part);
        at += 1;
    }
}

/// The reads of a part of a file.
fn reads(extents: &[Extent], at: u64, blocks: u32, out: &mut Vec<DeviceIo>) {
    let (mut skip, mut left) = (at, u64::from(blocks));
    for extent in extents {
        if skip >= extent.blocks {
            skip -= extent.blocks;
            continue;
        }
        let some = (extent.blocks - skip).min(left);
        if some == 0 {
            break;
        }
        out.push(DeviceIo { verb: Verb::Read, lba: extent.lba + skip, blocks: some as u32 });
        (skip, left) = (0, left - some);
    }
    debug_assert_eq!(left, 0, "a read beyond the end of a file");
}

/// Slots with numbers that are used again.
#[derive(Clone, Debug)]
struct Files<T> {
    files: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Files<T> {
    const EMPTY: Self = Files { files: Vec::new(), free: Vec::new() };

    fn add(&mut self, file: T) -> FileId {
        match self.free.pop() {
            Some(index) => {
                self.files[index as usize] = Some(file);
                FileId(index)
            }
            None => {
                self.files.push(Some(file));
                FileId(self.files.len() as u32 - 1)
            }
        }
    }

    fn get(&self, id: FileId) -> &T {
        self.files[id.0 as usize].as_ref().unwrap_or_else(|| unreachable!("a file that is gone"))
    }

    fn get_mut(&mut self, id: FileId) -> &mut T {
        self.files[id.0 as usize].as_mut().unwrap_or_else(|| unreachable!("a file that is gone"))
    }

    fn find_mut(&mut self, id: FileId) -> Option<&mut T> {
        self.files.get_mut(id.0 as usize)?.as_mut()
    }

    fn remove(&mut self, id: FileId) -> T {
        self.free.push(id.0);
        self.files[id.0 as usize].take().unwrap_or_else(|| unreachable!("a file that is gone"))
    }
}
