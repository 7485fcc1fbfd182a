//! The host's disk as an image sees it: a directory of files. In a test it is a simulated one, which loses what was not
//! synced, fails, and stops at any call.

use super::error::ImageError;
use crate::machine::{available_memory, file_identity};
use crate::trust::{TrustError, TrustedDir};
use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// It must be there.
    Existing,
    /// It is made if it is not there.
    Create,
    /// It is made, or emptied.
    Empty,
}

/// A directory of the host that holds an image. What is written to it counts against a crash of the process at once, and
/// against a crash of the host when it was synced: bytes with [`DiskFile::sync`], names with
/// [`sync_names`](Disk::sync_names).
pub trait Disk: Send + Sync + Debug {
    /// Opens a file for reading and writing.
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Reads a whole file, if there is memory for it.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Reads the beginning of a file, `most` bytes of it.
    fn read_head(&self, name: &str, most: usize) -> io::Result<Vec<u8>>;
    /// How many bytes a file has.
    fn len(&self, name: &str) -> io::Result<u64>;
    /// Gives a file another name, in place of what has that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes names durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Which boot of the host this is.
    fn boot(&self) -> u64;
    /// Random bytes.
    fn random(&self) -> [u8; 16];
    /// Where it is, for messages.
    fn path(&self) -> &Path;
}

/// An open file. All clones of the handle are one open file to the host.
#[allow(clippy::len_without_is_empty, reason = "a file with nothing in it is nothing special")]
pub trait DiskFile: Send + Sync + Debug {
    /// Reads what is there: fewer bytes at the end of the file.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;
    /// The same, if the host need not wait for its disk; `None` if it must.
    fn read_now(&self, bytes: &mut [u8], at: u64) -> io::Result<Option<usize>>;
    /// Writes all bytes.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// How many bytes it has.
    fn len(&self) -> io::Result<u64>;
    /// Cuts it off, or makes it longer with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Sets room aside without changing the file's length.
    fn reserve(&self, at: u64, span: u64) -> io::Result<()>;
    /// Makes zeros of a range and gives its room back.
    fn punch(&self, at: u64, span: u64) -> io::Result<()>;
    /// Makes bytes and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Says that reads of this open file come in no order: the host need not read ahead.
    fn expect_no_order(&self) {}
    /// Says that no read of these bytes will follow soon: the host need not keep them in memory.
    fn expect_no_more(&self, _at: u64, _span: u64) {}
}

/// Reads `bytes` at `at`; whether all of them were there. What lies beyond the end of the file becomes zeros.
pub(super) fn read_full(file: &dyn DiskFile, mut at: u64, mut bytes: &mut [u8]) -> io::Result<bool> {
    while !bytes.is_empty() {
        match file.read_at(bytes, at) {
            Ok(0) => {
                bytes.fill(0);
                return Ok(false);
            }
            Ok(n) => {
                at += n as u64;
                bytes = &mut bytes[n..];
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

/// Reads bytes that no host has asked for. Returns whether all of them were there. Bytes that were not in the page cache before are not kept
/// there.
pub(super) fn read_aside(file: &dyn DiskFile, at: u64, bytes: &mut [u8]) -> io::Result<bool> {
    let there = file.read_now(bytes, at)?.unwrap_or(0);
    if there == bytes.len() {
        return Ok(true);
    }
    let at = at + there as u64;
    let all = read_full(file, at, &mut bytes[there..]);
    file.expect_no_more(at, (bytes.len() - there) as u64);
    all
}

/// A directory of this machine that nobody else can change.
#[derive(Clone, Debug)]
pub struct HostDisk {
    dir: TrustedDir,
    /// As the user named it.
    named: PathBuf,
    /// What a test says which boot this is.
    boot: Option<u64>,
}

const LOCK: &str = "lock";
/// Longest text of the lock file: a process identifier, an inode number and a time in nanoseconds.
const LOCK_TEXT_BYTES: u64 = 64;

/// An image that this process holds. Dropping it lets others have it.
#[derive(Debug)]
pub(crate) struct ImageLock {
    _file: File,
    /// The lock file is another one than the file that the last process held: the directory is a copy.
    pub is_copy: bool,
}

impl HostDisk {
    /// Opens a directory that exists.
    pub fn open_dir(dir: &Path) -> Result<Self, TrustError> {
        Ok(HostDisk { dir: TrustedDir::open(dir)?, named: dir.to_owned(), boot: None })
    }

    /// Opens a directory, and makes it, for its owner alone, if it is not there.
    pub(crate) fn make(dir: &Path) -> Result<Self, TrustError> {
        Ok(HostDisk { dir: TrustedDir::make(dir)?, named: dir.to_owned(), boot: None })
    }

    /// On a host that was booted since.
    #[cfg(test)]
    pub(crate) fn on_boot(self, boot: u64) -> Self {
        HostDisk { boot: Some(boot), ..self }
    }

    /// Whether somebody else on this machine can read a file of the image: one that an older program made, or that was copied.
    pub(crate) fn is_open_to_others(&self) -> bool {
        let mode = |name: Option<&str>| self.dir.mode(name).unwrap_or(0);
        // A user who may not enter the directory reads nothing in it.
        mode(None) & 0o011 != 0
            && self.names().unwrap_or_default().iter().any(|name| mode(Some(name)) & 0o044 != 0)
    }

    /// Opens a file to be read.
    pub(crate) fn open_to_read(&self, name: &str) -> io::Result<File> {
        self.dir.open_file(name, OFlags::RDONLY)
    }

    /// Takes the lock that keeps a second process out; it lives as long as the returned file.
    pub(crate) fn lock(&self) -> Result<ImageLock, ImageError> {
        let file = self.dir.open_file(LOCK, OFlags::RDWR | OFlags::CREATE);
        let file = file.map_err(ImageError::io("open", &self.named.join(LOCK)))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(e) => return Err(self.not_locked(&file, e)),
        }
        let mut before = String::new();
        let _ = (&file).take(LOCK_TEXT_BYTES).read_to_string(&mut before);
        let [inode, born] = file.metadata().map_or([0; 2], |found| file_identity(&found));
        let identity = format!("{inode} {born}");
        let is_copy = before.split_once(' ').is_some_and(|(_, recorded)| recorded.trim_end() != identity);
        // Only for messages; that it cannot be written is no reason to refuse the image.
        let text = format!("{} {identity}\n", std::process::id());
        let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
        Ok(ImageLock { _file: file, is_copy })
    }

    /// Takes the lock for reading only, and changes nothing. Other readers may have it, too. An image that no drive ever
    /// had open, or a copy of one, has no file to lock, and no drive to keep out.
    pub(crate) fn lock_to_look(&self) -> Result<Option<File>, ImageError> {
        let file = match self.open_to_read(LOCK) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(ImageError::io("open", &self.named.join(LOCK)))?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Some(file)),
            Err(e) => Err(self.not_locked(&file, e)),
        }
    }

    fn not_locked(&self, file: &File, error: Errno) -> ImageError {
        if error != Errno::WOULDBLOCK {
            return ImageError::io("lock", &self.named.join(LOCK))(error.into());
        }
        let mut holder = String::new();
        let _ = file.take(LOCK_TEXT_BYTES).read_to_string(&mut holder);
        let holder = holder.split_whitespace().next().unwrap_or("unknown").to_owned();
        ImageError::Locked { path: self.named.clone(), holder }
    }
}

impl Disk for HostDisk {
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let create = if how == Open::Existing { OFlags::empty() } else { OFlags::CREATE };
        let file = self.dir.open_file(name, OFlags::RDWR | create)?;
        if how == Open::Empty {
            file.set_len(0)?;
        }
        Ok(Arc::new(HostFile { file, tells: AtomicBool::new(true) }))
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open_to_read(name)?;
        let mut bytes = room(file.metadata()?.len())?;
        // A file that grows meanwhile gets no more than that.
        let len = bytes.capacity() as u64;
        file.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_head(&self, name: &str, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(most);
        self.open_to_read(name)?.take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(self.open_to_read(name)?.metadata()?.len())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.dir.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.dir.remove(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.dir.names()
    }

    fn sync_names(&self) -> io::Result<()> {
        self.dir.sync()
    }

    fn boot(&self) -> u64 {
        if let Some(boot) = self.boot {
            return boot;
        }
        match std::fs::read("/proc/sys/kernel/random/boot_id") {
            Ok(id) => super::format::fold_boot(&id),
            // A host that does not tell counts as booted anew each time.
            Err(_) => u64::from_le_bytes(random()),
        }
    }

    fn random(&self) -> [u8; 16] {
        random()
    }

    fn path(&self) -> &Path {
        &self.named
    }
}

/// Room for a file of `len` bytes. Somebody else may have made the file, and made it as long as file systems allow.
pub(super) fn room(len: u64) -> io::Result<Vec<u8>> {
    let available = available_memory().unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    match usize::try_from(len) {
        Ok(room) if len <= available && bytes.try_reserve_exact(room).is_ok() => Ok(bytes),
        _ => Err(io::Error::new(
            ErrorKind::OutOfMemory,
            format!("it has {len} bytes, and {available} bytes of memory are available"),
        )),
    }
}

/// Random bytes for identifiers.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) != Ok(N) {
        let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = super::format::crc(&now.as_nanos().to_le_bytes()) ^ u64::from(std::process::id());
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = seed.rotate_left(i as u32 * 7).to_le_bytes()[i % 8];
        }
    }
    bytes
}

/// A file of this machine.
#[derive(Debug)]
struct HostFile {
    file: File,
    /// The host's file system can tell that a read would wait.
    tells: AtomicBool,
}

impl DiskFile for HostFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(bytes, at)
    }

    fn read_now(&self, bytes: &mut [u8], at: u64) -> io::Result<Option<usize>> {
        if !self.tells.load(Ordering::Relaxed) {
            return self.file.read_at(bytes, at).map(Some);
        }
        match preadv2(&self.file, &mut [IoSliceMut::new(bytes)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(Some(read)),
            Err(Errno::AGAIN) => Ok(None),
            Err(_) => {
                self.tells.store(false, Ordering::Relaxed);
                self.file.read_at(bytes, at).map(Some)
            }
        }
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.metadata().map(|m| m.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, at: u64, span: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, at, span) {
            // A file system that cannot set room aside: errors come when they come.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn punch(&self, at: u64, span: u64) -> io::Result<()> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, at, span) {
            Ok(()) => Ok(()),
            // A file system without holes.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                (at..at + span).step_by(ZEROS.len()).try_for_each(|byte| {
                    let rest = (at + span - byte).min(ZEROS.len() as u64);
                    self.file.write_all_at(&ZEROS[..rest as usize], byte)
                })
            }
            Err(e) => Err(e.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn expect_no_order(&self) {
        // Advice: a file system that takes none goes on as it does.
        let _ = fadvise(&self.file, 0, None, Advice::Random);
    }

    fn expect_no_more(&self, at: u64, span: u64) {
        let _ = fadvise(&self.file, at, NonZeroU64::new(span), Advice::DontNeed);
    }
}

/// Writes a whole file, emptied before.
pub(super) fn write_all(disk: &dyn Disk, name: &str, parts: &[&[u8]], sync: bool) -> io::Result<()> {
    let file = disk.open(name, Open::Empty)?;
    let mut at = 0;
    for part in parts {
        file.write_at(part, at)?;
        at += part.len() as u64;
    }
    if sync { file.sync() } else { Ok(()) }
}

/// Whether an error says that there is no room.
pub(super) fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_image_is_private_to_its_owner() {
        let temp = tempfile::tempdir().unwrap();
        let disk = HostDisk::make(&temp.path().join("above/image")).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(disk.path()), 0o700);
        let file = disk.open("file", Open::Create).unwrap();
        let _lock = disk.lock().unwrap();
        for name in disk.names().unwrap() {
            assert_eq!(mode(&disk.path().join(&name)), 0o600, "{name}");
        }
        // As it was made by an older program, or copied.
        let allow = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            disk.is_open_to_others()
        };
        assert!(!allow(&disk.path().join("file"), 0o644), "nobody else may enter the directory");
        assert!(allow(disk.path(), 0o755));
        assert!(!allow(&disk.path().join("file"), 0o600), "the files are private");
        file.write_at(&[7; 10], 5).unwrap();
        let mut bytes = [1; 20];
        assert!(!read_full(&*file, 8, &mut bytes).unwrap());
        assert_eq!(bytes, [7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.punch(6, 2).unwrap();
        assert_eq!(disk.read("file").unwrap(), [0, 0, 0, 0, 0, 7, 0, 0, 7, 7, 7, 7, 7, 7, 7]);
    }
}
