//! Files and names of an opened store.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use store::{Attributes, FileKind, Ino, KeyRange, Lifetime, NewKind, Read, Replace, Stat};

use crate::appender::Appender;
use crate::failure::{Code, Failure};
use crate::opened::{Inner, Opened, locked, now};
use crate::paths::at;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mode {
    /// The file is made if it is not there.
    pub create: bool,
    /// It becomes empty.
    pub truncate: bool,
    /// [`File::append`] may be used, which goes on from the end.
    pub append: bool,
}

/// An open file.
#[derive(Debug)]
pub struct File {
    opened: Arc<Opened>,
    ino: Ino,
    appender: Option<Arc<Mutex<Appender>>>,
}

fn attributes(mode: u32) -> Attributes {
    let (uid, gid, time) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw(), now());
    Attributes { mode, uid, gid, mtime: time, ctime: time }
}

impl Inner {
    fn appender(&self, ino: Ino, end: u64) -> Arc<Mutex<Appender>> {
        let mut appenders = self.appenders.write().unwrap_or_else(PoisonError::into_inner);
        appenders.retain(|_, appender| appender.strong_count() > 0);
        let known = appenders.get(&ino).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let appender = Arc::new(Mutex::new(Appender::new(ino, self.block, end)));
            appenders.insert(ino, Arc::downgrade(&appender));
            appender
        })
    }

    /// What is known of a file, with what is collected for it.
    fn stat(&self, ino: Ino) -> Result<Stat, Failure> {
        self.drain(ino)?;
        Ok(self.store.stat(ino)?)
    }
}

impl Opened {
    /// Opens a file.
    ///
    /// # Errors
    /// There is no such file, it is a directory, or there is no space.
    pub fn file(self: &Arc<Self>, path: &[u8], mode: Mode) -> Result<File, Failure> {
        let inner = &self.inner;
        let found = loop {
            let found = match inner.find(path) {
                Err(failure) if failure.code == Code::NotFound && mode.create => {
                    let (parent, name) = inner.parent(path)?;
                    match inner.store.create(parent, &name, NewKind::File, attributes(0o644)) {
                        // Another thread was faster.
                        Err(store::Error::Exists) => inner.find(path)?,
                        made => at(path, made)?,
                    }
                }
                found => found?,
            };
            match inner.store.open_file(found.ino) {
                // Another thread removed it.
                Err(store::Error::NotFound) if mode.create => {}
                opened => break at(path, opened).map(|()| found)?,
            }
        };
        let mut file = File { opened: Arc::clone(self), ino: found.ino, appender: None };
        if found.kind == FileKind::Directory {
            return Err(Failure::new(
                Code::IsDirectory,
                String::from_utf8_lossy(path) + ": this is a directory",
            ));
        }
        let end = inner.stat(found.ino)?.size;
        if mode.append {
            file.appender = Some(inner.appender(found.ino, end));
        }
        if mode.truncate && end > 0 {
            file.truncate(0)?;
        }
        Ok(file)
    }

    /// What is known of a file or directory.
    ///
    /// # Errors
    /// There is no such file.
    pub fn stat(&self, path: &[u8]) -> Result<Stat, Failure> {
        let found = self.inner.find(path)?;
        self.inner.stat(found.ino)
    }

    /// The names of a directory.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn list(&self, path: &[u8]) -> Result<Vec<(Vec<u8>, Stat)>, Failure> {
        let inner = &self.inner;
        let directory = inner.find(path)?;
        let mut names = at(path, inner.store.list(directory.ino, None, usize::MAX))?;
        let appenders = inner.appenders.read().unwrap_or_else(PoisonError::into_inner);
        for (_, stat) in names.iter_mut().filter(|(_, stat)| appenders.contains_key(&stat.ino)) {
            if let Some(appender) = appenders.get(&stat.ino).and_then(Weak::upgrade) {
                stat.size = locked(&appender).end().max(stat.size);
            }
        }
        Ok(names)
    }

    /// Makes a directory. With `parents` the directories above it are made, too, and it may be there.
    ///
    /// # Errors
    /// The name is taken, or there is no space.
    pub fn make_directory(&self, path: &[u8], parents: bool) -> Result<(), Failure> {
        let store = &self.inner.store;
        let make = |path: &[u8]| {
            let (parent, name) = self.inner.parent(path)?;
            at(path, store.create(parent, &name, NewKind::Directory, attributes(0o755)).map(drop))
        };
        if !parents {
            return make(path);
        }
        let ends = path.iter().enumerate().filter(|(index, byte)| *index > 0 && **byte == b'/');
        for end in ends.map(|(index, _)| index).chain([path.len()]) {
            let part = &path[..end];
            match self.inner.find(part) {
                Ok(found) if found.kind == FileKind::Directory => {}
                Ok(_) => return at(part, Err(store::Error::NotDirectory)),
                Err(failure) if failure.code == Code::NotFound => match make(part) {
                    Err(failure) if failure.code == Code::Exists => {}
                    made => made?,
                },
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// There is no such directory, or it has contents.
    pub fn remove_directory(&self, path: &[u8]) -> Result<(), Failure> {
        let (parent, name) = self.inner.parent(path)?;
        at(path, self.inner.store.remove_directory(parent, &name, now()))
    }

    /// Takes the name of a file away.
    ///
    /// # Errors
    /// There is no such name, or it names a directory.
    pub fn unlink(&self, path: &[u8]) -> Result<(), Failure> {
        let (parent, name) = self.inner.parent(path)?;
        at(path, self.inner.store.unlink(parent, &name, now()))
    }

    /// A name becomes another one, and replaces what it names.
    ///
    /// # Errors
    /// There is no such name, or the new one cannot be.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Failure> {
        let (parent, name) = self.inner.parent(from)?;
        let (new_parent, new_name) = self.inner.parent(to)?;
        let moved = at(from, self.inner.store.lookup(parent, &name))?;
        // If it replaces another file, its contents are to be there first.
        self.inner.drain(moved.ino)?;
        let (old, new) = ((parent, name.as_slice()), (new_parent, new_name.as_slice()));
        at(from, self.inner.store.rename(old, new, Replace::Yes, now()))
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// There is no such file, it is a directory, or the name is taken.
    pub fn link(&self, path: &[u8], new: &[u8]) -> Result<(), Failure> {
        let found = self.inner.find(path)?;
        let (parent, name) = self.inner.parent(new)?;
        at(new, self.inner.store.link(found.ino, parent, &name, now()).map(drop))
    }

    /// Locks a path, for all users of the store in this process. Others cannot have it open.
    ///
    /// # Errors
    /// It is locked.
    pub fn lock(&self, path: &[u8]) -> Result<(), Failure> {
        match locked(&self.inner.locks).insert(path.to_vec()) {
            true => Ok(()),
            false => {
                Err(Failure::new(Code::Busy, String::from_utf8_lossy(path) + ": this process has locked it"))
            }
        }
    }

    /// Unlocks a path.
    ///
    /// # Errors
    /// It is not locked.
    pub fn unlock(&self, path: &[u8]) -> Result<(), Failure> {
        match locked(&self.inner.locks).remove(path) {
            true => Ok(()),
            false => Err(Failure::invalid(String::from_utf8_lossy(path) + ": it is not locked")),
        }
    }
}

impl File {
    /// Its number in the store.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.ino.0
    }

    /// Reads bytes. Returns how many there are: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// The drive failed.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        self.opened.inner.drain(self.ino)?;
        Ok(self.opened.inner.store.read(self.ino, offset, buffer)?)
    }

    /// Does several reads at once.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), Failure> {
        self.opened.inner.drain(self.ino)?;
        Ok(self.opened.inner.store.read_many(self.ino, reads)?)
    }

    /// Writes bytes at an offset. What is appended next goes behind them.
    ///
    /// # Errors
    /// There is no space, or the drive failed.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let inner = &self.opened.inner;
        let Some(appender) = &self.appender else {
            inner.drain(self.ino)?;
            return Ok(inner.store.write(self.ino, offset, data, now())?);
        };
        let mut appender = locked(appender);
        appender.drain(&inner.store, now())?;
        inner.store.write(self.ino, offset, data, now())?;
        appender.seek(offset + data.len() as u64);
        Ok(())
    }

    /// Appends bytes. They may be collected; other users of the file see them all the same.
    ///
    /// # Errors
    /// There is no space, the drive failed, or the file is not open for appending.
    pub fn append(&self, data: &[u8]) -> Result<(), Failure> {
        let appender = self.appender.as_ref();
        let appender = appender.ok_or_else(|| Failure::invalid("the file is not open for appending"))?;
        Ok(locked(appender).append(&self.opened.inner.store, data, now())?)
    }

    /// Gives the store what was collected.
    ///
    /// # Errors
    /// There is no space, or the drive failed.
    pub fn flush(&self) -> Result<(), Failure> {
        self.opened.inner.drain(self.ino)
    }

    /// Makes the file durable, and all changes of names that were made before.
    ///
    /// # Errors
    /// The drive failed, or the store takes no changes any more.
    pub fn sync(&self) -> Result<(), Failure> {
        self.opened.inner.drain(self.ino)?;
        Ok(self.opened.inner.store.sync(self.ino)?)
    }

    /// Bytes of the file. Of one that is open for appending, the place where the next append goes.
    ///
    /// # Errors
    /// The drive failed.
    pub fn size(&self) -> Result<u64, Failure> {
        match &self.appender {
            Some(appender) => Ok(locked(appender).end()),
            None => Ok(self.opened.inner.stat(self.ino)?.size),
        }
    }

    /// Gives the file a size. The next append goes to its end.
    ///
    /// # Errors
    /// The drive failed.
    pub fn truncate(&self, size: u64) -> Result<(), Failure> {
        let inner = &self.opened.inner;
        let Some(appender) = &self.appender else {
            inner.drain(self.ino)?;
            return Ok(inner.store.truncate(self.ino, size, now())?);
        };
        let mut appender = locked(appender);
        appender.drain(&inner.store, now())?;
        inner.store.truncate(self.ino, size, now())?;
        appender.seek(size);
        Ok(())
    }

    /// Says how long the data of the file is expected to live.
    ///
    /// # Errors
    /// The store takes no changes any more.
    pub fn expect(&self, lifetime: Lifetime) -> Result<(), Failure> {
        let value = lifetime.name().as_bytes();
        Ok(self.opened.inner.store.set_xattr(self.ino, Lifetime::XATTR, Some(value))?)
    }

    /// Says which keys the file holds. It counts for data that is written from now on.
    ///
    /// # Errors
    /// The store takes no changes any more, or has no space for it.
    pub fn hold(&self, keys: &KeyRange) -> Result<(), Failure> {
        let value = keys.attribute();
        Ok(self.opened.inner.store.set_xattr(self.ino, KeyRange::XATTR, Some(&value))?)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let inner = &self.opened.inner;
        if let Some(appender) = &self.appender {
            // Who must know of an error has flushed or synced before.
            let _ = locked(appender).drain(&inner.store, now());
        }
        let _ = inner.store.close_file(self.ino);
    }
}
