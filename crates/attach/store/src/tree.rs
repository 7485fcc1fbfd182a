//! The tree of files: what all records of the log make, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::device::{Run, Shape};
use crate::extents::Extents;
use crate::patches::Patches;
use crate::record::{Attributes, Ino, NewKind, Record};

/// The longest file, in bytes.
pub const MAX_SIZE: u64 = 1 << 60;
/// The longest name, in bytes.
pub const MAX_NAME: usize = 255;

/// What an inode is, with what only this kind has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File(Contents),
    /// A directory.
    Directory(Directory),
    /// A symbolic link with its target.
    Symlink(Vec<u8>),
}

/// The contents of a regular file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Contents {
    /// Length in bytes.
    pub size: u64,
    /// Blocks in zones of data.
    pub extents: Extents,
    /// Bytes that lie over them, in the log.
    pub patches: Patches,
}

/// The contents of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    /// The directory that names it; its own number for the top one.
    pub parent: Ino,
    /// What it names.
    pub names: BTreeMap<Vec<u8>, Ino>,
    /// How many of them are names of directories.
    pub directories: u32,
}

/// A file, directory or symbolic link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Owner, permissions, times.
    pub attributes: Attributes,
    /// Names that it has. With none it is gone as soon as it is closed.
    pub names: u32,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Inode {
    /// The contents, if it is a file.
    #[must_use]
    pub fn contents(&self) -> Option<&Contents> {
        match &self.kind {
            Kind::File(contents) => Some(contents),
            _ => None,
        }
    }

    /// The directory, if it is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Directory> {
        match &self.kind {
            Kind::Directory(directory) => Some(directory),
            _ => None,
        }
    }
}

/// A record that does not fit the tree, with the reason.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(pub &'static str);

/// All inodes, and how many blocks each zone holds of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    inodes: BTreeMap<Ino, Inode>,
    next: u64,
    shape: Shape,
    /// Blocks of files, by zone.
    live: Vec<u64>,
    live_total: u64,
    /// Bytes of the records of a snapshot besides extents, about.
    record_bytes: u64,
    extents: u64,
    patch_bytes: u64,
    patch_pieces: u64,
}

/// Bytes that an extent takes in a snapshot.
pub(crate) const EXTENT_BYTES: u64 = 53;
/// Bytes that a piece of a patch takes in a snapshot besides its own.
pub(crate) const PATCH_BYTES: u64 = 33;
/// Bytes that an inode takes in a snapshot, without its name: the inode, its size, its attributes.
pub(crate) const INODE_BYTES: u64 = 120;
/// Bytes that a name takes in a snapshot besides its letters.
pub(crate) const NAME_BYTES: u64 = 25;

/// Bytes that an extended attribute takes in a snapshot.
pub(crate) fn xattr_bytes(name: &[u8], value: &[u8]) -> u64 {
    (22 + name.len() + value.len()) as u64
}

impl Tree {
    /// The top directory alone.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            inodes: BTreeMap::new(),
            next: Ino::ROOT.0 + 1,
            shape,
            live: vec![0; shape.zones as usize],
            live_total: 0,
            record_bytes: 0,
            extents: 0,
            patch_bytes: 0,
            patch_pieces: 0,
        }
    }

    /// The inode of a number.
    #[must_use]
    pub fn get(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino)
    }

    /// All inodes, by their numbers.
    pub fn inodes(&self) -> impl Iterator<Item = (Ino, &Inode)> {
        self.inodes.iter().map(|(ino, inode)| (*ino, inode))
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block(&self) -> u64 {
        self.shape.block as u64
    }

    /// Number of inodes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inodes.len()
    }

    /// The number that the next new inode gets.
    #[cfg(test)]
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// A number for a new inode.
    pub fn number(&mut self) -> Ino {
        self.next += 1;
        Ino(self.next - 1)
    }

    /// Blocks of files that a zone holds.
    #[must_use]
    pub fn live(&self, zone: u32) -> u64 {
        self.live.get(zone as usize).copied().unwrap_or(0)
    }

    /// Blocks of files in all zones.
    #[must_use]
    pub fn live_total(&self) -> u64 {
        self.live_total
    }

    /// Bytes of all patches.
    #[must_use]
    pub fn patch_bytes(&self) -> u64 {
        self.patch_bytes
    }

    /// Pieces of all patches. They lie in at most as many blocks.
    #[must_use]
    pub fn patch_pieces(&self) -> u64 {
        self.patch_pieces
    }

    /// Bytes that a [snapshot](Tree::snapshot) takes, at most.
    #[must_use]
    pub fn snapshot_bytes(&self) -> u64 {
        let patches = self.patch_pieces * PATCH_BYTES + self.patch_bytes;
        self.record_bytes + self.extents * EXTENT_BYTES + patches
    }

    /// Changes the tree as a record says.
    ///
    /// # Errors
    /// The record does not fit the tree. Then it may have been carried out in part.
    pub fn apply(&mut self, record: &Record) -> Result<(), Misfit> {
        match record {
            Record::Inode { ino, kind, attributes } => self.add(*ino, kind, *attributes),
            Record::Link { parent, name, ino } => self.link(*parent, name, *ino),
            Record::Unlink { parent, name } => self.unlink(*parent, name),
            Record::Rename { parent, name, new_parent, new_name, exchange } => {
                self.rename((*parent, name), (*new_parent, new_name), *exchange)
            }
            Record::Attributes { ino, attributes } => {
                self.inode(*ino)?.attributes = *attributes;
                Ok(())
            }
            Record::Size { ino, size, mtime } => self.resize(*ino, *size, *mtime),
            Record::Extent { ino, block, run, size, mtime } => {
                if *size > MAX_SIZE {
                    return Err(Misfit("a file is too long"));
                }
                self.place(*ino, *block, *run)?;
                let bytes = self.shape.block as u64;
                self.change(*ino, Some(*mtime), |contents, _| {
                    contents.size = contents.size.max(*size);
                    contents.patches.remove(block * bytes, (block + run.blocks) * bytes);
                })
            }
            Record::Moved { ino, block, run } => self.place(*ino, *block, *run),
            Record::Inline { ino, offset, bytes, mtime } => self.patch(*ino, *offset, bytes, *mtime),
            Record::Hole { ino, from, to, mtime } => self.punch(*ino, *from, *to, *mtime),
            Record::Xattr { ino, name, value } => self.set_xattr(*ino, name, value.as_deref()),
            Record::Freed { zone } => match self.live.get(*zone as usize) {
                Some(0) => Ok(()),
                Some(_) => Err(Misfit("a zone with blocks of files is freed")),
                None => Err(Misfit("a zone that is not there is freed")),
            },
            Record::Forget { ino } => self.forget(*ino),
        }
    }

    fn inode(&mut self, ino: Ino) -> Result<&mut Inode, Misfit> {
        self.inodes.get_mut(&ino).ok_or(Misfit("it names an inode that is not there"))
    }

    /// The contents of a file that a caller changes: keeps count of extents and patches from its state before.
    fn contents(&mut self, ino: Ino, mtime: Option<u64>) -> Result<&mut Contents, Misfit> {
        let inode = self.inode(ino)?;
        if let Some(mtime) = mtime {
            (inode.attributes.mtime, inode.attributes.ctime) = (mtime, mtime);
        }
        match &mut inode.kind {
            Kind::File(contents) => Ok(contents),
            _ => Err(Misfit("it writes to what is no file")),
        }
    }

    /// Changes the contents of a file, and keeps the counts of the tree.
    fn change(
        &mut self,
        ino: Ino,
        mtime: Option<u64>,
        change: impl FnOnce(&mut Contents, &mut dyn FnMut(Run)),
    ) -> Result<(), Misfit> {
        let shape = self.shape;
        let mut dead = Vec::new();
        let contents = self.contents(ino, mtime)?;
        let count = |contents: &Contents| {
            (contents.extents.len() as u64, contents.patches.bytes(), contents.patches.len() as u64)
        };
        let before = count(contents);
        change(contents, &mut |run| dead.push(run));
        let after = count(contents);
        self.extents = (self.extents + after.0).saturating_sub(before.0);
        self.patch_bytes = (self.patch_bytes + after.1).saturating_sub(before.1);
        self.patch_pieces = (self.patch_pieces + after.2).saturating_sub(before.2);
        for run in dead {
            // What a file gives up was counted when it got it. A zone without blocks of files is emptied.
            let live = &mut self.live[shape.zone_of(run.lba) as usize];
            assert!(*live >= run.blocks && self.live_total >= run.blocks, "{run:?} is given up twice");
            *live -= run.blocks;
            self.live_total -= run.blocks;
        }
        Ok(())
    }

    fn add(&mut self, ino: Ino, kind: &NewKind, attributes: Attributes) -> Result<(), Misfit> {
        if ino.0 == 0 || ino.0 == u64::MAX || self.inodes.contains_key(&ino) {
            return Err(Misfit("the number of a new inode is taken or cannot be"));
        }
        self.record_bytes += INODE_BYTES;
        let kind = match kind {
            NewKind::File => Kind::File(Contents::default()),
            NewKind::Directory => {
                Kind::Directory(Directory { parent: ino, names: BTreeMap::new(), directories: 0 })
            }
            NewKind::Symlink(target) => {
                self.record_bytes += target.len() as u64;
                Kind::Symlink(target.clone())
            }
        };
        // The top directory needs no name.
        let names = u32::from(ino == Ino::ROOT);
        self.inodes.insert(ino, Inode { kind, attributes, names, xattrs: BTreeMap::new() });
        self.next = self.next.max(ino.0 + 1);
        Ok(())
    }

    fn directory(&mut self, parent: Ino) -> Result<&mut Directory, Misfit> {
        match &mut self.inode(parent)?.kind {
            Kind::Directory(directory) => Ok(directory),
            _ => Err(Misfit("it names something within what is no directory")),
        }
    }

    /// What a directory names so.
    fn named(&mut self, (parent, name): (Ino, &[u8])) -> Result<Option<Ino>, Misfit> {
        Ok(self.directory(parent)?.names.get(name).copied())
    }

    /// A name is that of an inode from now on, or of none. Returns what it named before.
    fn set_name(&mut self, (parent, name): (Ino, &[u8]), ino: Option<Ino>) -> Result<Option<Ino>, Misfit> {
        let is_directory = |tree: &Self, ino: Option<Ino>| {
            ino.and_then(|ino| tree.get(ino)).is_some_and(|inode| inode.directory().is_some())
        };
        let old = self.named((parent, name))?;
        let (less, more) = (is_directory(self, old), is_directory(self, ino));
        let directory = self.directory(parent)?;
        directory.directories = (directory.directories + u32::from(more)).saturating_sub(u32::from(less));
        match ino {
            Some(ino) => directory.names.insert(name.to_vec(), ino),
            None => directory.names.remove(name),
        };
        if let Some(ino) = ino
            && let Kind::Directory(directory) = &mut self.inode(ino)?.kind
        {
            directory.parent = parent;
        }
        Ok(old)
    }

    fn link(&mut self, parent: Ino, name: &[u8], ino: Ino) -> Result<(), Misfit> {
        if !is_name(name) {
            return Err(Misfit("a name is empty, too long, or has a slash or a zero"));
        }
        let inode = self.inode(ino)?;
        if inode.directory().is_some() && inode.names > 0 {
            return Err(Misfit("a directory gets a second name"));
        }
        if self.named((parent, name))?.is_some() {
            return Err(Misfit("a name is taken"));
        }
        if self.is_within(parent, ino) {
            return Err(Misfit("a directory gets a name within itself"));
        }
        self.set_name((parent, name), Some(ino))?;
        self.inode(ino)?.names += 1;
        self.record_bytes += NAME_BYTES + name.len() as u64;
        Ok(())
    }

    fn unlink(&mut self, parent: Ino, name: &[u8]) -> Result<(), Misfit> {
        let ino = self.named((parent, name))?.ok_or(Misfit("a name is not there"))?;
        let inode = self.inode(ino)?;
        if inode.directory().is_some_and(|directory| !directory.names.is_empty()) {
            return Err(Misfit("a directory with contents loses its name"));
        }
        inode.names -= 1;
        self.set_name((parent, name), None)?;
        self.record_bytes = self.record_bytes.saturating_sub(NAME_BYTES + name.len() as u64);
        Ok(())
    }

    fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), exchange: bool) -> Result<(), Misfit> {
        let ino = self.named(from)?.ok_or(Misfit("a name is not there"))?;
        let replaced = self.named(to)?;
        if replaced == Some(ino) {
            // Both names are the same inode's: nothing is to do.
            return Ok(());
        }
        match (exchange, replaced) {
            (true, None) => return Err(Misfit("a name is not there")),
            (true, Some(other)) => {
                if self.is_within(to.0, ino) || self.is_within(from.0, other) {
                    return Err(Misfit("a directory gets a name within itself"));
                }
                self.set_name(from, Some(other))?;
                self.set_name(to, Some(ino))?;
                return Ok(());
            }
            (false, Some(_)) => self.unlink(to.0, to.1)?,
            (false, None) => {}
        }
        if self.is_within(to.0, ino) {
            return Err(Misfit("a directory gets a name within itself"));
        }
        self.set_name(from, None)?;
        self.record_bytes = self.record_bytes.saturating_sub(NAME_BYTES + from.1.len() as u64);
        self.inode(ino)?.names -= 1;
        self.link(to.0, to.1, ino)
    }

    /// Whether a directory is another one, or lies within it.
    #[must_use]
    pub fn is_within(&self, mut ino: Ino, ancestor: Ino) -> bool {
        let mut seen = 0;
        loop {
            if ino == ancestor {
                return true;
            }
            let Some(directory) = self.get(ino).and_then(Inode::directory) else { return false };
            // Directories without a name are their own parents.
            if directory.parent == ino || seen > self.inodes.len() {
                return false;
            }
            ino = directory.parent;
            seen += 1;
        }
    }

    fn resize(&mut self, ino: Ino, size: u64, mtime: u64) -> Result<(), Misfit> {
        if size > MAX_SIZE {
            return Err(Misfit("a file is too long"));
        }
        let block = self.shape.block as u64;
        self.change(ino, Some(mtime), |contents, dead| {
            if size < contents.size {
                contents.extents.remove(size.div_ceil(block), u64::MAX, dead);
                contents.patches.remove(size, u64::MAX);
                zero_tail(contents, size, size.next_multiple_of(block), block);
            }
            contents.size = size;
        })
    }

    /// The blocks of a run become those of a file from `block` on.
    fn place(&mut self, ino: Ino, block: u64, run: Run) -> Result<(), Misfit> {
        let shape = self.shape;
        let zone = shape.zone_of(run.lba);
        let end = run.lba.checked_add(run.blocks).filter(|_| run.blocks > 0);
        let fits = end.is_some_and(|end| shape.zone_of(end - 1) == zone) && zone < shape.zones;
        let longest = MAX_SIZE / shape.block as u64;
        if !fits || block.checked_add(run.blocks).is_none_or(|end| end > longest) {
            return Err(Misfit("an extent lies where none can"));
        }
        self.change(ino, None, |contents, dead| {
            contents.extents.insert(block, run, shape.zone_blocks, dead);
        })?;
        self.live[zone as usize] += run.blocks;
        self.live_total += run.blocks;
        Ok(())
    }

    fn patch(&mut self, ino: Ino, offset: u64, bytes: &[u8], mtime: u64) -> Result<(), Misfit> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= MAX_SIZE);
        let Some(end) = end else { return Err(Misfit("a file is too long")) };
        let block = self.shape.block as u64;
        self.change(ino, Some(mtime), |contents, _| {
            contents.patches.insert(offset, bytes, block);
            contents.size = contents.size.max(end);
        })
    }

    fn punch(&mut self, ino: Ino, from: u64, to: u64, mtime: u64) -> Result<(), Misfit> {
        if from > to || to > MAX_SIZE {
            return Err(Misfit("a hole ends before it begins, or lies behind the end"));
        }
        let block = self.shape.block as u64;
        self.change(ino, Some(mtime), |contents, dead| {
            contents.patches.remove(from, to);
            let (first, last) = (from.div_ceil(block), to / block);
            if first < last {
                contents.extents.remove(first, last, dead);
            }
            let head = from.next_multiple_of(block).min(to);
            zero_tail(contents, from, head, block);
            zero_tail(contents, (last * block).max(head), to, block);
        })
    }

    fn set_xattr(&mut self, ino: Ino, name: &[u8], value: Option<&[u8]>) -> Result<(), Misfit> {
        let inode = self.inode(ino)?;
        let old = match value {
            Some(value) => inode.xattrs.insert(name.to_vec(), value.to_vec()),
            None => inode.xattrs.remove(name),
        };
        let (less, more) =
            (old.map_or(0, |old| xattr_bytes(name, &old)), value.map_or(0, |value| xattr_bytes(name, value)));
        self.record_bytes = (self.record_bytes + more).saturating_sub(less);
        Ok(())
    }

    fn forget(&mut self, ino: Ino) -> Result<(), Misfit> {
        let inode = self.inode(ino)?;
        let empty = inode.directory().is_none_or(|directory| directory.names.is_empty());
        if inode.names > 0 || !empty {
            return Err(Misfit("an inode that is in use is forgotten"));
        }
        if inode.contents().is_some() {
            self.resize(ino, 0, 0)?;
        }
        if let Some(inode) = self.inodes.remove(&ino) {
            let target = if let Kind::Symlink(target) = &inode.kind { target.len() } else { 0 };
            let xattrs: u64 = inode.xattrs.iter().map(|(name, value)| xattr_bytes(name, value)).sum();
            let bytes = INODE_BYTES + target as u64 + xattrs;
            self.record_bytes = self.record_bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    /// The inodes that have no name.
    #[must_use]
    pub fn nameless(&self) -> BTreeSet<Ino> {
        self.inodes().filter(|(_, inode)| inode.names == 0).map(|(ino, _)| ino).collect()
    }

    /// Records that make this tree out of an empty one.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        let inodes = self.inodes().flat_map(|(ino, inode)| describe(ino, inode));
        let links = self.inodes().filter_map(|(ino, inode)| Some((ino, inode.directory()?)));
        inodes.chain(links.flat_map(|(parent, directory)| {
            directory.names.iter().map(move |(name, ino)| Record::Link {
                parent,
                name: name.clone(),
                ino: *ino,
            })
        }))
    }
}

/// The bytes of a file from `from` to `to`, within a block, read as zeroes from now on, whatever lies there.
fn zero_tail(contents: &mut Contents, from: u64, to: u64, block: u64) {
    if from < to && contents.extents.has(from / block) {
        let zeroes = vec![0; usize::try_from(to - from).unwrap_or(0)];
        contents.patches.insert(from, &zeroes, block);
    }
}

/// Records that make an inode with its contents, but without its names.
fn describe(ino: Ino, inode: &Inode) -> Vec<Record> {
    let kind = match &inode.kind {
        Kind::File(_) => NewKind::File,
        Kind::Directory(_) => NewKind::Directory,
        Kind::Symlink(target) => NewKind::Symlink(target.clone()),
    };
    let (attributes, mtime) = (inode.attributes, inode.attributes.mtime);
    let mut records = vec![Record::Inode { ino, kind, attributes }];
    if let Some(contents) = inode.contents() {
        let size = contents.size;
        let runs = contents.extents.iter();
        records.extend(runs.map(|(block, run)| Record::Extent { ino, block, run, size, mtime }));
        let pieces = contents.patches.iter();
        records.extend(pieces.map(|(offset, bytes)| Record::Inline {
            ino,
            offset,
            bytes: bytes.to_vec(),
            mtime,
        }));
        records.push(Record::Size { ino, size, mtime });
        records.push(Record::Attributes { ino, attributes });
    }
    records.extend(inode.xattrs.iter().map(|(name, value)| Record::Xattr {
        ino,
        name: name.clone(),
        value: Some(value.clone()),
    }));
    records
}

/// Whether these bytes can be a name.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    let plain = !name.is_empty() && name != b"." && name != b"..";
    plain && name.len() <= MAX_NAME && !name.contains(&b'/') && !name.contains(&0)
}
