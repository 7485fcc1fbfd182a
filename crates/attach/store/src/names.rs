//! Names, directories, attributes.

use crate::device::ZoneDevice;
use crate::error::Error;
use crate::metadata::{Claim, inode_bytes, name_bytes};
use crate::record::{Attributes, Ino, NewKind, Record};
use crate::state::State;
use crate::store::{FileKind, Stat, Store};
use crate::tree::{Directory, Inode, Kind, MAX_NAME, is_name, xattr_bytes};

/// The longest target of a symbolic link, in bytes.
const MAX_TARGET: usize = 4095;
/// The largest value of an extended attribute, in bytes.
const MAX_XATTR: usize = 4096;
/// Names that a file may have.
const MAX_LINKS: u32 = 1 << 16;

/// What [`Store::rename`] does with a name that is there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Replace {
    /// Replaces it.
    #[default]
    Yes,
    /// Fails.
    No,
    /// Exchanges the two.
    Exchange,
}

/// Attributes that change; `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last change of the contents, in nanoseconds since 1970.
    pub mtime: Option<u64>,
}

impl State {
    fn inode(&self, ino: Ino) -> Result<&Inode, Error> {
        self.tree.get(ino).ok_or(Error::NotFound)
    }

    fn directory(&self, ino: Ino) -> Result<&Directory, Error> {
        self.inode(ino)?.directory().ok_or(Error::NotDirectory)
    }

    fn named(&self, parent: Ino, name: &[u8]) -> Result<Option<Ino>, Error> {
        Ok(self.directory(parent)?.names.get(name).copied())
    }

    /// A name for something new.
    fn new_name(&self, parent: Ino, name: &[u8]) -> Result<(), Error> {
        self.writable()?;
        if name.len() > MAX_NAME {
            return Err(Error::NameTooLong);
        }
        if !is_name(name) {
            return Err(Error::Invalid("a name is not empty, '.' or '..', and has no slash and no zero"));
        }
        if self.inode(parent)?.names == 0 {
            return Err(Error::NotFound);
        }
        self.directory(parent).map(|_| ())
    }

    /// The contents of a directory changed.
    fn touch(&mut self, ino: Ino, now: u64) -> Result<(), Error> {
        let attributes = Attributes { mtime: now, ctime: now, ..self.inode(ino)?.attributes };
        self.record(&Record::Attributes { ino, attributes })
    }

    /// The names of an inode changed.
    fn mark_changed(&mut self, ino: Ino, now: u64) -> Result<(), Error> {
        let attributes = Attributes { ctime: now, ..self.inode(ino)?.attributes };
        self.record(&Record::Attributes { ino, attributes })
    }

    /// Forgets an inode that has no names and is not open.
    fn forget_if_unused(&mut self, ino: Ino) -> Result<(), Error> {
        let open = self.active.get(&ino).is_some_and(|active| active.opens > 0);
        if open || self.inode(ino)?.names > 0 {
            return Ok(());
        }
        self.drop_dirty(ino, 0, u64::MAX);
        self.active.remove(&ino);
        self.record(&Record::Forget { ino })
    }

    fn stat(&self, ino: Ino) -> Result<Stat, Error> {
        let inode = self.inode(ino)?;
        let mut attributes = inode.attributes;
        let (kind, size, blocks, links) = match &inode.kind {
            Kind::File(contents) => {
                let runs = contents.extents.iter().map(|(_, run)| run.blocks);
                let dirty = self.active.get(&ino).map_or(0, |active| active.dirty.len()) as u64;
                let under_way: u64 = self.under_way_of(ino).map(|data| data.blocks).sum();
                // What is in memory may replace blocks that are there.
                let most = self.size(ino)?.div_ceil(self.tree.block());
                let blocks = (runs.sum::<u64>() + dirty + under_way).min(most);
                (FileKind::File, self.size(ino)?, blocks, inode.names)
            }
            Kind::Directory(directory) => {
                let links = inode.names + 1 + directory.directories;
                (FileKind::Directory, directory.names.len() as u64, 0, links)
            }
            Kind::Symlink(target) => (FileKind::Symlink, target.len() as u64, 0, inode.names),
        };
        if let Some(active) = self.active.get(&ino).filter(|active| active.size.is_some()) {
            (attributes.mtime, attributes.ctime) = (active.mtime, active.mtime);
        }
        Ok(Stat { ino, kind, attributes, links, size, blocks })
    }

    fn unlink(&mut self, parent: Ino, name: &[u8], now: u64) -> Result<(), Error> {
        let ino = self.named(parent, name)?.ok_or(Error::NotFound)?;
        self.record(&Record::Unlink { parent, name: name.to_vec() })?;
        self.touch(parent, now)?;
        self.mark_changed(ino, now)?;
        self.forget_if_unused(ino)
    }

    /// Whether a name can become another one. Returns what it replaces.
    fn check_rename(
        &self,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        replace: Replace,
    ) -> Result<(Ino, Option<Ino>), Error> {
        self.new_name(new_parent, new_name)?;
        let ino = self.named(parent, name)?.ok_or(Error::NotFound)?;
        let replaced = self.named(new_parent, new_name)?;
        let into_itself = || Error::Invalid("a directory cannot move into itself");
        if self.tree.is_within(new_parent, ino) {
            return Err(into_itself());
        }
        let Some(other) = replaced else {
            return if replace == Replace::Exchange { Err(Error::NotFound) } else { Ok((ino, None)) };
        };
        match replace {
            Replace::No => return Err(Error::Exists),
            Replace::Exchange if self.tree.is_within(parent, other) => return Err(into_itself()),
            Replace::Exchange => return Ok((ino, None)),
            Replace::Yes => {}
        }
        let is_directory = self.inode(ino)?.directory().is_some();
        match self.inode(other)?.directory() {
            Some(_) if !is_directory => Err(Error::IsDirectory),
            Some(directory) if other != ino && !directory.names.is_empty() => Err(Error::NotEmpty),
            None if is_directory => Err(Error::NotDirectory),
            _ => Ok((ino, Some(other))),
        }
    }
}

impl<D: ZoneDevice> Store<D> {
    /// What a directory names so.
    ///
    /// # Errors
    /// There is no such directory or name.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Stat, Error> {
        let state = self.lock();
        let ino = state.named(parent, name)?.ok_or(Error::NotFound)?;
        state.stat(ino)
    }

    /// What a path of names names, from the top directory on. Symbolic links are not followed.
    ///
    /// # Errors
    /// There is no such file.
    pub fn find(&self, path: &[u8]) -> Result<Stat, Error> {
        let state = self.lock();
        let mut ino = Ino::ROOT;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            ino = state.named(ino, name)?.ok_or(Error::NotFound)?;
        }
        state.stat(ino)
    }

    /// What is known of an inode.
    ///
    /// # Errors
    /// There is no such inode.
    pub fn stat(&self, ino: Ino) -> Result<Stat, Error> {
        self.lock().stat(ino)
    }

    /// The directory that names a directory. The top directory names itself.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn parent(&self, ino: Ino) -> Result<Ino, Error> {
        self.lock().directory(ino).map(|directory| directory.parent)
    }

    /// The names of a directory behind `after` (none: from the first on), at most `most`, with what they name.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn list(&self, ino: Ino, after: Option<&[u8]>, most: usize) -> Result<Vec<(Vec<u8>, Stat)>, Error> {
        use std::ops::Bound;
        let state = self.lock();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = state.directory(ino)?.names.range::<[u8], _>((from, Bound::Unbounded));
        names.take(most).map(|(name, ino)| Ok((name.clone(), state.stat(*ino)?))).collect()
    }

    /// Makes a file, directory or symbolic link.
    ///
    /// # Errors
    /// The name is taken or cannot be, there is no such directory, or there is no space.
    pub fn create(
        &self,
        parent: Ino,
        name: &[u8],
        kind: NewKind,
        attributes: Attributes,
    ) -> Result<Stat, Error> {
        let mut state = self.lock();
        state.new_name(parent, name)?;
        if state.named(parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        let target = if let NewKind::Symlink(target) = &kind { target.len() } else { 0 };
        if target > MAX_TARGET {
            return Err(Error::NameTooLong);
        }
        state.reserve_metadata(&self.device, Claim::New, inode_bytes(name.len(), target))?;
        let ino = state.tree.number();
        state.record(&Record::Inode { ino, kind, attributes })?;
        state.record(&Record::Link { parent, name: name.to_vec(), ino })?;
        state.touch(parent, attributes.ctime)?;
        state.write_log_if_long(&self.device)?;
        state.stat(ino)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// The name is taken or cannot be, there is no such file, or it is a directory.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8], now: u64) -> Result<Stat, Error> {
        let mut state = self.lock();
        state.new_name(parent, name)?;
        if state.named(parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        match state.inode(ino)? {
            inode if inode.directory().is_some() => return Err(Error::IsDirectory),
            inode if inode.names == 0 => return Err(Error::NotFound),
            inode if inode.names >= MAX_LINKS => return Err(Error::Invalid("the file has too many names")),
            _ => {}
        }
        state.reserve_metadata(&self.device, Claim::New, name_bytes(name.len()))?;
        state.record(&Record::Link { parent, name: name.to_vec(), ino })?;
        state.touch(parent, now)?;
        state.mark_changed(ino, now)?;
        state.write_log_if_long(&self.device)?;
        state.stat(ino)
    }

    /// Takes the name of a file away. A file without names is gone when it is closed.
    ///
    /// # Errors
    /// There is no such name, or it names a directory.
    pub fn unlink(&self, parent: Ino, name: &[u8], now: u64) -> Result<(), Error> {
        let mut state = self.lock();
        state.writable()?;
        let ino = state.named(parent, name)?.ok_or(Error::NotFound)?;
        if state.inode(ino)?.directory().is_some() {
            return Err(Error::IsDirectory);
        }
        state.unlink(parent, name, now)?;
        state.write_log_if_long(&self.device)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// There is no such directory, or it has contents.
    pub fn remove_directory(&self, parent: Ino, name: &[u8], now: u64) -> Result<(), Error> {
        let mut state = self.lock();
        state.writable()?;
        let ino = state.named(parent, name)?.ok_or(Error::NotFound)?;
        if !state.directory(ino)?.names.is_empty() {
            return Err(Error::NotEmpty);
        }
        state.unlink(parent, name, now)?;
        state.write_log_if_long(&self.device)
    }

    /// A name becomes another one. What a file has in memory is written first if it replaces another, so that a crash leaves the contents of
    /// one of the two.
    ///
    /// # Errors
    /// There is no such name, or the new one cannot be.
    pub fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        replace: Replace,
        now: u64,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let (ino, replaced) = state.check_rename(from, to, replace)?;
        if replaced == Some(ino) {
            return Ok(());
        }
        let longer =
            if replace == Replace::Exchange { 0 } else { to.1.len().saturating_sub(from.1.len()) as u64 };
        state.reserve_metadata(&self.device, Claim::Change, longer)?;
        if replaced.is_some() && state.active.contains_key(&ino) {
            state.write_out(&self.device, ino)?;
            state.land(&self.device, ino)?;
        }
        let ((parent, name), (new_parent, new_name)) = (from, to);
        state.record(&Record::Rename {
            parent,
            name: name.to_vec(),
            new_parent,
            new_name: new_name.to_vec(),
            exchange: replace == Replace::Exchange,
        })?;
        state.touch(parent, now)?;
        if parent != new_parent {
            state.touch(new_parent, now)?;
        }
        state.mark_changed(ino, now)?;
        if let Some(replaced) = replaced {
            state.forget_if_unused(replaced)?;
        }
        state.write_log_if_long(&self.device)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// There is no such link.
    pub fn target(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        match &self.lock().inode(ino)?.kind {
            Kind::Symlink(target) => Ok(target.clone()),
            _ => Err(Error::Invalid("this is no symbolic link")),
        }
    }

    /// Changes attributes. The size has [a method of its own](Store::truncate).
    ///
    /// # Errors
    /// There is no such inode.
    pub fn change(&self, ino: Ino, change: &Change, now: u64) -> Result<Stat, Error> {
        let mut state = self.lock();
        state.writable()?;
        let before = state.stat(ino)?.attributes;
        let attributes = Attributes {
            mode: change.mode.unwrap_or(before.mode) & 0o7777,
            uid: change.uid.unwrap_or(before.uid),
            gid: change.gid.unwrap_or(before.gid),
            mtime: change.mtime.unwrap_or(before.mtime),
            ctime: now,
        };
        if change.mtime.is_some() {
            // What is in memory would bring its own time along.
            if state.active.contains_key(&ino) {
                state.write_out(&self.device, ino)?;
                state.land(&self.device, ino)?;
            }
        }
        state.record(&Record::Attributes { ino, attributes })?;
        state.stat(ino)
    }

    /// A file is open once more: it stays, also without names.
    ///
    /// # Errors
    /// There is no such inode.
    pub fn open_file(&self, ino: Ino) -> Result<(), Error> {
        let mut state = self.lock();
        state.inode(ino)?;
        state.active.entry(ino).or_default().opens += 1;
        Ok(())
    }

    /// A file is open once less.
    ///
    /// # Errors
    /// There is no such inode, or the store takes no changes.
    pub fn close_file(&self, ino: Ino) -> Result<(), Error> {
        let mut state = self.lock();
        let Some(active) = state.active.get_mut(&ino) else { return Err(Error::NotFound) };
        active.opens = active.opens.saturating_sub(1);
        if active.opens > 0 {
            return Ok(());
        }
        if state.stopped.is_none() {
            state.forget_if_clean(ino)?;
        }
        if state.writable().is_ok() { state.forget_if_unused(ino) } else { Ok(()) }
    }

    /// Sets an extended attribute, or removes it.
    ///
    /// # Errors
    /// There is no such inode or attribute, or name or value are too long.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let mut state = self.lock();
        state.writable()?;
        if name.is_empty() || name.len() > MAX_NAME || value.is_some_and(|value| value.len() > MAX_XATTR) {
            return Err(Error::Invalid(
                "the name of an extended attribute has 1 to 255 bytes, its value at most 4096",
            ));
        }
        let old = state.inode(ino)?.xattrs.get(name).map(|old| xattr_bytes(name, old));
        let new = value.map(|value| xattr_bytes(name, value));
        if old.or(new).is_none() {
            return Err(Error::NoAttribute);
        }
        let more = new.unwrap_or(0).saturating_sub(old.unwrap_or(0));
        state.reserve_metadata(&self.device, Claim::New, more)?;
        state.record(&Record::Xattr { ino, name: name.to_vec(), value: value.map(<[u8]>::to_vec) })
    }

    /// An extended attribute.
    ///
    /// # Errors
    /// There is no such inode or attribute.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Error> {
        self.lock().inode(ino)?.xattrs.get(name).cloned().ok_or(Error::NoAttribute)
    }

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// There is no such inode.
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.lock().inode(ino)?.xattrs.keys().cloned().collect())
    }
}
