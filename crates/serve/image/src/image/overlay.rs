//! A directory that is only looked at: what is written to it stays in memory. So an image is opened, and its drive recovered, as
//! always, without a changed byte on the host's disk.

use super::disk::{Disk, DiskFile, HostDisk, Open};
use super::error::ImageError;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page of contents.
const PAGE: usize = 4096;

/// A directory of this machine as it would be.
#[derive(Debug)]
pub(crate) struct Overlay {
    host: HostDisk,
    /// Files that were opened; `None` for those that were removed.
    files: Mutex<HashMap<String, Option<Arc<Layer>>>>,
}

impl Overlay {
    pub(crate) fn new(host: HostDisk) -> Self {
        Overlay { host, files: Mutex::default() }
    }

    /// The same directory, as it is without what was written.
    pub(crate) fn anew(&self) -> Self {
        Overlay::new(self.host.clone())
    }

    /// Keeps drives out as long as the returned file lives, if any ever had the image open.
    pub(crate) fn lock(&self) -> Result<Option<File>, ImageError> {
        self.host.lock_to_look()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Option<Arc<Layer>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn layer(&self, name: &str) -> io::Result<Arc<Layer>> {
        let mut files = self.files();
        match files.get(name) {
            Some(Some(layer)) => Ok(layer.clone()),
            Some(None) => Err(ErrorKind::NotFound.into()),
            None => {
                let layer = Arc::new(Layer::over(self.host.open_to_read(name)?)?);
                files.insert(name.to_owned(), Some(layer.clone()));
                Ok(layer)
            }
        }
    }
}

impl Disk for Overlay {
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        match self.layer(name) {
            Ok(layer) if how != Open::Empty => Ok(layer),
            Err(e) if how == Open::Existing || e.kind() != ErrorKind::NotFound => Err(e),
            _ => {
                let layer = Arc::new(Layer::default());
                self.files().insert(name.to_owned(), Some(layer.clone()));
                Ok(layer)
            }
        }
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.read_head(name, usize::MAX)
    }

    fn read_head(&self, name: &str, most: usize) -> io::Result<Vec<u8>> {
        let layer = self.layer(name)?;
        let len = layer.len()?.min(most as u64);
        let mut bytes = super::disk::room(len)?;
        bytes.resize(len as usize, 0);
        super::disk::read_full(&*layer, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.layer(name)?.len()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let layer = self.layer(from)?;
        self.files().extend([(from.to_owned(), None), (to.to_owned(), Some(layer))]);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().insert(name.to_owned(), None);
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.host.names()?;
        let files = self.files();
        names.retain(|name| !files.contains_key(name));
        names.extend(files.iter().filter(|(_, layer)| layer.is_some()).map(|(name, _)| name.clone()));
        Ok(names)
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn boot(&self) -> u64 {
        self.host.boot()
    }

    fn random(&self) -> [u8; 16] {
        self.host.random()
    }

    fn path(&self) -> &Path {
        self.host.path()
    }
}

/// A file, and what differs from it.
#[derive(Debug, Default)]
struct Layer {
    base: Option<File>,
    changes: Mutex<Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    len: u64,
    /// Bytes of the base that still count.
    base: u64,
    /// Pages that were written, by their number.
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl Layer {
    fn over(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let changes = Changes { len, base: len, pages: BTreeMap::new() };
        Ok(Layer { base: Some(file), changes: Mutex::new(changes) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the base, and zeros behind it.
    fn read_base(&self, limit: u64, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let there = usize::try_from(limit.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        let (there, beyond) = bytes.split_at_mut(there);
        beyond.fill(0);
        match &self.base {
            // What was cut off since is zeros, too.
            Some(file) => match file.read_exact_at(there, at) {
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    there.fill(0);
                    let mut read = 0;
                    while read < there.len() {
                        match file.read_at(&mut there[read..], at + read as u64)? {
                            0 => break,
                            n => read += n,
                        }
                    }
                }
                other => other?,
            },
            None => there.fill(0),
        }
        Ok(())
    }
}

/// The pages that a range touches: their number, and where in them and in the range the bytes are.
fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = at + done as u64;
        let within = (place % PAGE as u64) as usize;
        let count = (PAGE - within).min(len - done);
        let piece = (place / PAGE as u64, within, done..done + count);
        done += count;
        (count > 0).then_some(piece)
    })
}

impl DiskFile for Layer {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let changes = self.changes();
        let count = usize::try_from(changes.len.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = &mut bytes[..count];
        self.read_base(changes.base, bytes, at)?;
        if !changes.pages.is_empty() {
            for (page, within, range) in pieces(at, count) {
                if let Some(page) = changes.pages.get(&page) {
                    let len = range.len();
                    bytes[range].copy_from_slice(&page[within..within + len]);
                }
            }
        }
        Ok(count)
    }

    fn read_now(&self, bytes: &mut [u8], at: u64) -> io::Result<Option<usize>> {
        self.read_at(bytes, at).map(Some)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut changes = self.changes();
        for (number, within, range) in pieces(at, bytes.len()) {
            if !changes.pages.contains_key(&number) {
                let mut page = Box::new([0; PAGE]);
                self.read_base(changes.base, &mut page[..], number * PAGE as u64)?;
                changes.pages.insert(number, page);
            }
            if let Some(page) = changes.pages.get_mut(&number) {
                page[within..within + range.len()].copy_from_slice(&bytes[range]);
            }
        }
        changes.len = changes.len.max(at + bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes();
        changes.pages.split_off(&len.div_ceil(PAGE as u64));
        if let Some(last) = changes.pages.get_mut(&(len / PAGE as u64)) {
            last[(len % PAGE as u64) as usize..].fill(0);
        }
        changes.base = changes.base.min(len);
        changes.len = len;
        Ok(())
    }

    fn reserve(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, at: u64, span: u64) -> io::Result<()> {
        let end = (at + span).min(self.len()?);
        for start in (at..end).step_by(PAGE) {
            self.write_at(&[0; PAGE][..(end - start).min(PAGE as u64) as usize], start)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(disk: &Overlay, name: &str) -> Vec<u8> {
        disk.read(name).unwrap()
    }

    #[test]
    fn what_is_written_stays_in_memory() {
        let temp = tempfile::tempdir().unwrap();
        let before: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        std::fs::write(temp.path().join("a"), &before).unwrap();
        let host = HostDisk::open_dir(temp.path()).unwrap();
        let disk = Overlay::new(host.clone());
        let file = disk.open("a", Open::Existing).unwrap();
        let mut wanted = before.clone();
        file.write_at(&[9; 5000], 4000).unwrap();
        wanted[4000..9000].fill(9);
        assert_eq!(hold(&disk, "a"), wanted);
        file.set_len(8500).unwrap();
        file.write_at(&[1], 9500).unwrap();
        wanted[8500..].fill(0);
        wanted.truncate(9501);
        wanted[9500] = 1;
        assert_eq!(hold(&disk, "a"), wanted);
        assert_eq!(disk.read_head("a", 4001).unwrap(), wanted[..4001]);
        file.punch(10, 20).unwrap();
        wanted[10..30].fill(0);
        assert_eq!(hold(&disk, "a"), wanted);
        disk.rename("a", "b").unwrap();
        assert_eq!((disk.names().unwrap(), hold(&disk, "b")), (vec!["b".to_owned()], wanted));
        assert_eq!(disk.open("a", Open::Existing).unwrap_err().kind(), ErrorKind::NotFound);
        disk.open("a", Open::Create).unwrap().write_at(&[3], 2).unwrap();
        assert_eq!(hold(&disk, "a"), [0, 0, 3]);
        disk.remove("b").unwrap();
        assert_eq!(disk.names().unwrap(), ["a"]);
        assert_eq!(std::fs::read(temp.path().join("a")).unwrap(), before);
        assert_eq!(host.names().unwrap(), ["a"]);
    }
}
