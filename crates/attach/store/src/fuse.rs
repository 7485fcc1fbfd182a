//! A store as a mounted file system.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use crate::device::ZoneDevice;
use crate::error::Error;
use crate::keys::KeyRange;
use crate::lifetime::Lifetime;
use crate::names::{Change, Replace};
use crate::placement::Placement;
use crate::record::{Attributes, Ino, NewKind};
use crate::store::{FileKind, Stat, Store};

/// How long the kernel may use what it knows. Nobody else changes the store.
const ATTRIBUTE_TIMEOUT: Duration = Duration::from_secs(60);
/// Inode numbers are not used twice while the store is mounted.
const GENERATION: Generation = Generation(0);
/// Bytes of one write at most.
const MAX_WRITE_BYTES: u32 = 1 << 20;
/// Names of a directory that are taken from the store at a time.
const NAMES: usize = 1024;
/// Flags of open files whose writes are to be durable (Linux, `asm-generic/fcntl.h`).
const O_DSYNC: i32 = 0o10_000;
/// Bits of `fallocate` (Linux, `linux/falloc.h`).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
/// Bits of `renameat2` and `setxattr` (Linux, `linux/fs.h`, `linux/xattr.h`).
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;
/// The bits of a mode that tell regular files from others (`S_IFMT`, `S_IFREG`), and the bit of directories that gives its group to what is
/// made in it (`S_ISGID`).
const TYPE_BITS: u32 = 0o170_000;
const REGULAR_FILE: u32 = 0o100_000;
const SET_GROUP: u32 = 0o2000;

/// The names of a directory as they were when it was opened.
type Listing = Vec<(Vec<u8>, Ino, FileKind)>;

/// A store as the kernel asks about it.
#[derive(Debug)]
pub struct FileSystem<D> {
    store: Arc<Store<D>>,
    listings: Mutex<(u64, BTreeMap<u64, Arc<Listing>>)>,
}

impl<D> FileSystem<D> {
    /// The file system of a store.
    #[must_use]
    pub fn new(store: Arc<Store<D>>) -> Self {
        Self { store, listings: Mutex::default() }
    }
}

fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NotDirectory => Errno::ENOTDIR,
        Error::IsDirectory => Errno::EISDIR,
        Error::NotEmpty => Errno::ENOTEMPTY,
        Error::NameTooLong => Errno::ENAMETOOLONG,
        Error::Invalid(_) => Errno::EINVAL,
        Error::FileTooLong => Errno::EFBIG,
        Error::NoSpace => Errno::ENOSPC,
        Error::NoAttribute => Errno::ENODATA,
        Error::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn now() -> u64 {
    nanoseconds(SystemTime::now())
}

fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
    }
}

impl<D: ZoneDevice> FileSystem<D> {
    fn attr(&self, stat: &Stat) -> FileAttr {
        let time = |nanoseconds| UNIX_EPOCH + Duration::from_nanos(nanoseconds);
        let mtime = time(stat.attributes.mtime);
        let block = self.store.block();
        FileAttr {
            ino: INodeNo(stat.ino.0),
            size: stat.size,
            blocks: stat.blocks * block / 512,
            atime: mtime,
            mtime,
            ctime: time(stat.attributes.ctime),
            crtime: mtime,
            kind: kind(stat.kind),
            perm: u16::try_from(stat.attributes.mode & 0o7777).unwrap_or(0),
            nlink: stat.links,
            uid: stat.attributes.uid,
            gid: stat.attributes.gid,
            rdev: 0,
            blksize: u32::try_from(block).unwrap_or(4096).max(4096),
            flags: 0,
        }
    }

    fn entry(&self, found: Result<Stat, Error>, reply: ReplyEntry) {
        match found {
            Ok(stat) => reply.entry(&ATTRIBUTE_TIMEOUT, &self.attr(&stat), GENERATION),
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// Makes something new for the process that asks.
    fn make(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: NewKind,
        mode: u32,
    ) -> Result<Stat, Error> {
        let above = self.store.stat(Ino(parent.0))?.attributes;
        let inherits = above.mode & SET_GROUP != 0;
        let gid = if inherits { above.gid } else { req.gid() };
        let of_group = if inherits && kind == NewKind::Directory { SET_GROUP } else { 0 };
        let time = now();
        let attributes =
            Attributes { mode: mode & 0o7777 | of_group, uid: req.uid(), gid, mtime: time, ctime: time };
        self.store.create(Ino(parent.0), name.as_bytes(), kind, attributes)
    }

    fn change(&self, ino: Ino, change: &Change, size: Option<u64>) -> Result<Stat, Error> {
        if let Some(size) = size {
            self.store.truncate(ino, size, now())?;
        }
        if *change == Change::default() {
            self.store.stat(ino)
        } else {
            self.store.change(ino, change, now())
        }
    }

    fn allocate(&self, ino: Ino, offset: u64, length: u64, mode: i32) -> Result<(), Errno> {
        let fail = |error: Error| errno(&error);
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let size = self.store.stat(ino).map_err(fail)?.size;
        match mode {
            // Space is taken when data comes.
            0 if end > size => self.store.truncate(ino, end, now()).map_err(fail),
            0 | KEEP_SIZE => Ok(()),
            _ if mode == PUNCH_HOLE | KEEP_SIZE => self.store.punch(ino, offset, end, now()).map_err(fail),
            _ if mode & !KEEP_SIZE == ZERO_RANGE => {
                self.store.punch(ino, offset, end, now()).map_err(fail)?;
                let longer = mode & KEEP_SIZE == 0 && end > size;
                if longer { self.store.truncate(ino, end, now()).map_err(fail) } else { Ok(()) }
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// All names of a directory, with itself and the directory above.
    fn listing(&self, ino: Ino) -> Result<Listing, Error> {
        let parent = self.store.parent(ino)?;
        let mut listing =
            vec![(b".".to_vec(), ino, FileKind::Directory), (b"..".to_vec(), parent, FileKind::Directory)];
        let mut after: Option<Vec<u8>> = None;
        loop {
            let names = self.store.list(ino, after.as_deref(), NAMES)?;
            let more = names.len() == NAMES;
            after = names.last().map(|(name, _)| name.clone());
            listing.extend(names.into_iter().map(|(name, stat)| (name, stat.ino, stat.kind)));
            if !more {
                return Ok(listing);
            }
        }
    }
}

fn answer(result: Result<(), Error>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

/// Whether the store keeps an extended attribute of this name. Those of the system mean something else than bytes.
fn is_kept(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"user.")
}

impl<D: ZoneDevice + Send + Sync + 'static> Filesystem for FileSystem<D> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        Ok(())
    }

    fn destroy(&mut self) {
        // Nobody could be told of an error here. Who needs data to be durable has synced it.
        let _ = self.store.sync_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.store.lookup(Ino(parent.0), name.as_bytes()), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.store.stat(Ino(ino.0)) {
            Ok(stat) => reply.attr(&ATTRIBUTE_TIMEOUT, &self.attr(&stat)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mtime = mtime.map(|time| match time {
            TimeOrNow::SpecificTime(time) => nanoseconds(time),
            TimeOrNow::Now => now(),
        });
        match self.change(Ino(ino.0), &Change { mode, uid, gid, mtime }, size) {
            Ok(stat) => reply.attr(&ATTRIBUTE_TIMEOUT, &self.attr(&stat)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.store.target(Ino(ino.0)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        if ![0, REGULAR_FILE].contains(&(mode & TYPE_BITS)) {
            return reply.error(Errno::EPERM);
        }
        self.entry(self.make(req, parent, name, NewKind::File, mode & !umask), reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.entry(self.make(req, parent, name, NewKind::Directory, mode & !umask), reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = NewKind::Symlink(target.as_os_str().as_bytes().to_vec());
        self.entry(self.make(req, parent, name, target, 0o777), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.store.link(Ino(ino.0), Ino(parent.0), name.as_bytes(), now()), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.store.unlink(Ino(parent.0), name.as_bytes(), now()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.store.remove_directory(Ino(parent.0), name.as_bytes(), now()), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replace = match flags.bits() {
            0 => Replace::Yes,
            RENAME_NOREPLACE => Replace::No,
            RENAME_EXCHANGE => Replace::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = ((Ino(parent.0), name.as_bytes()), (Ino(new_parent.0), new_name.as_bytes()));
        answer(self.store.rename(from, to, replace, now()), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.store.open_file(Ino(ino.0)) {
            // Nobody else changes the file, so what the kernel has of it stays right.
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(req, parent, name, NewKind::File, mode & !umask);
        let opened = made.and_then(|stat| self.store.open_file(stat.ino).map(|()| stat));
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        match opened {
            Ok(stat) => {
                reply.created(&ATTRIBUTE_TIMEOUT, &self.attr(&stat), GENERATION, FileHandle(0), flags)
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        answer(self.store.close_file(Ino(ino.0)), reply);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; size as usize];
        match self.store.read(Ino(ino.0), offset, &mut buffer) {
            Ok(length) => reply.data(&buffer[..length]),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.store.write(Ino(ino.0), offset, data, now());
        let durable = written.and_then(|()| match flags.0 & O_DSYNC {
            0 => Ok(()),
            _ => self.store.sync(Ino(ino.0)),
        });
        match durable {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file promises nothing. The kernel does not ask again after this answer.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer(self.store.sync(Ino(ino.0)), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer(self.store.sync_names(), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.allocate(Ino(ino.0), offset, length, mode) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    // Of these the kernel and programs take other ways. FUSE's library would log each request.

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _cmd: u32,
        _in: &[u8],
        _out: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        // The kernel then takes a file for one without holes.
        reply.error(Errno::ENOSYS);
    }

    fn bmap(&self, _: &Request, _: INodeNo, _: u32, _: u64, reply: ReplyBmap) {
        reply.error(Errno::ENOSYS);
    }

    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        // The kernel then takes files for ready, always.
        reply.error(Errno::ENOSYS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _from: u64,
        _: INodeNo,
        _: FileHandle,
        _to: u64,
        _length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then copies by itself, and does not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.listing(Ino(ino.0)) {
            Ok(listing) => {
                let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
                listings.0 += 1;
                let handle = listings.0;
                listings.1.insert(handle, Arc::new(listing));
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listing) = listings.1.get(&handle.0).cloned() else { return reply.error(Errno::EBADF) };
        drop(listings);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (name, ino, of)) in (1..).zip(listing.iter()).skip(start) {
            if reply.add(INodeNo(ino.0), next, kind(*of), OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let usage = self.store.usage();
        let block = u32::try_from(usage.block).unwrap_or(4096);
        let files = usage.free_inodes;
        let (blocks, free) = (usage.blocks, usage.free_blocks);
        reply.statfs(blocks, free, free, usage.inodes + files, files, block, 255, block);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (ino, key) = (Ino(ino.0), name.as_bytes());
        if !is_kept(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let is_known = match key {
            Lifetime::XATTR => Lifetime::parse(value).is_some(),
            KeyRange::XATTR => KeyRange::parse(value).is_some(),
            Placement::XATTR => Placement::parse(value).is_some(),
            _ => true,
        };
        if !is_known {
            return reply.error(Errno::EINVAL);
        }
        let there = self.store.xattr(ino, key).is_ok();
        match flags {
            XATTR_CREATE if there => return reply.error(Errno::EEXIST),
            XATTR_REPLACE if !there => return reply.error(Errno::ENODATA),
            _ => {}
        }
        answer(self.store.set_xattr(ino, key, Some(value)), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !is_kept(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.store.xattr(Ino(ino.0), name.as_bytes()) {
            Ok(value) => answer_xattr(&value, size, reply),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.store.xattrs(Ino(ino.0)) {
            Ok(names) => {
                let mut list = names
                    .into_iter()
                    .filter(|name| is_kept(OsStr::from_bytes(name)))
                    .collect::<Vec<_>>()
                    .join(&0);
                list.extend((!list.is_empty()).then_some(0));
                answer_xattr(&list, size, reply);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !is_kept(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        answer(self.store.set_xattr(Ino(ino.0), name.as_bytes(), None), reply);
    }
}

/// The kernel asks with a size of 0 how long the value is.
fn answer_xattr(value: &[u8], size: u32, reply: ReplyXattr) {
    match size as usize {
        0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        room if room < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
