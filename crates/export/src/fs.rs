//! The directory as the kernel asks about it.

use crate::drive::LARGEST;
use crate::engine::{Answer, Engine};
use crate::files::{File, Files, ROOT};
use crate::pool;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// Flag of an open file whose writes are to be durable (Linux, `asm-generic/fcntl.h`). What `rustix` calls so is `O_SYNC`.
pub(crate) const O_DSYNC: u32 = 0o10_000;
/// Names and attributes stay valid until the kernel is told otherwise.
pub(crate) const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Inode numbers are never used twice.
const GENERATION: Generation = Generation(0);
/// Asynchronous requests that the kernel may have outstanding over all files: loop devices have up to 128
/// each.
const OUTSTANDING: u16 = 1024;

/// The mounted directory: what it answers, whichever way the kernel asks.
#[derive(Clone)]
pub struct Directory {
    files: Arc<Files>,
    engine: Arc<Engine>,
    since: SystemTime,
    /// Whether to ask the kernel for io_uring.
    rings: bool,
    granted: Arc<AtomicBool>,
}

/// What is to be changed of a file.
#[derive(Clone, Copy, Default)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Whether it is about an open file.
    pub open: bool,
}

impl Directory {
    /// The directory of these files; with `rings`, the kernel is asked to bring its requests through io_uring.
    pub fn new(files: Arc<Files>, engine: Arc<Engine>, rings: bool) -> Self {
        Directory { files, engine, since: SystemTime::now(), rings, granted: Arc::default() }
    }

    /// Whether the kernel is asked for io_uring.
    pub fn asks_for_rings(&self) -> bool {
        self.rings
    }

    /// Whether the kernel has agreed to io_uring. Known when it is mounted.
    pub fn has_rings(&self) -> bool {
        self.granted.load(Ordering::Relaxed)
    }

    fn file(&self, ino: u64) -> Result<Arc<File>, Errno> {
        match ino {
            ROOT => Err(Errno::EISDIR),
            ino => self.files.get(ino).ok_or(Errno::ENODEV),
        }
    }

    /// The file of this name.
    pub fn find(&self, parent: u64, name: &str) -> Option<FileAttr> {
        let file = if parent == ROOT { self.files.find(name) } else { None };
        file.map(|file| attributes(&file))
    }

    /// What `stat` shows.
    pub fn attributes(&self, ino: u64) -> Result<FileAttr, Errno> {
        if ino != ROOT {
            return Ok(attributes(&*self.file(ino)?));
        }
        let access = self.files.default_access();
        Ok(FileAttr {
            kind: FileType::Directory,
            perm: 0o755,
            nlink: 2,
            uid: access.uid,
            gid: access.gid,
            size: 0,
            blocks: 0,
            blksize: 4096,
            ..common(ROOT, self.since)
        })
    }

    /// Permissions and ownership can be changed until the directory is unmounted; times are ignored. The
    /// size is the namespace's: as with a block device, truncating while opening does nothing (so that `dd`
    /// and `cp` work), any other truncation to another size is refused.
    pub fn change(&self, ino: u64, change: Change) -> Result<FileAttr, Errno> {
        let file = match self.file(ino) {
            Ok(file) => file,
            Err(Errno::EISDIR) => return Err(Errno::EPERM),
            Err(errno) => return Err(errno),
        };
        let Change { mode, uid, gid, size, open } = change;
        let opening = !open && size == Some(0);
        if size.is_some_and(|size| size != file.namespace.bytes()) && !opening {
            return Err(Errno::EINVAL);
        }
        {
            let mut access = file.access();
            // Only the permission bits; 12 bits fit.
            access.mode = mode.map_or(access.mode, |mode| (mode & 0o7777) as u16);
            access.uid = uid.unwrap_or(access.uid);
            access.gid = gid.unwrap_or(access.gid);
        }
        Ok(attributes(&file))
    }

    /// Opens a file with the flags of `open`.
    pub fn open(&self, ino: u64, flags: u32) -> Result<FopenFlags, Errno> {
        let file = self.file(ino)?;
        if file.namespace.read_only && OpenFlags(flags.cast_signed()).acc_mode() != OpenAccMode::O_RDONLY {
            return Err(Errno::EROFS);
        }
        // No page cache of the file's own: what is acknowledged is with the drive. Without the second flag
        // the kernel lets only one write per file run at a time.
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        Ok(direct | FopenFlags::FOPEN_NOFLUSH)
    }

    /// Reads `size` bytes at `offset`.
    pub fn read(&self, ino: u64, offset: u64, size: u32, answer: Answer) {
        match self.file(ino) {
            Ok(file) => self.engine.read(file, offset, size, answer),
            Err(errno) => answer.fail(errno),
        }
    }

    /// Writes `data` at `offset`; `flags` are those of `open`.
    pub fn write(&self, ino: u64, offset: u64, data: Vec<u8>, flags: u32, answer: Answer) {
        // The kernel adds the flag for a single write with RWF_DSYNC, too. O_SYNC contains it.
        let fua = flags & O_DSYNC != 0;
        match self.file(ino) {
            Ok(file) => self.engine.write(file, offset, data, fua, answer),
            Err(errno) => answer.fail(errno),
        }
    }

    /// `fsync` and `fdatasync`.
    pub fn sync(&self, ino: u64, answer: Answer) {
        match self.file(ino) {
            Ok(file) => self.engine.flush(file, answer),
            Err(errno) => answer.fail(errno),
        }
    }

    /// `fallocate`, with its mode.
    pub fn allocate(&self, ino: u64, offset: u64, length: u64, mode: u32, answer: Answer) {
        let file = match self.file(ino) {
            Ok(file) => file,
            Err(errno) => return answer.fail(errno),
        };
        let mode = FallocateFlags::from_bits_retain(mode);
        let keep = FallocateFlags::KEEP_SIZE;
        let deallocate = if mode == FallocateFlags::PUNCH_HOLE | keep {
            true
        } else if mode | keep == FallocateFlags::ZERO_RANGE | keep {
            false
        } else {
            return answer.fail(Errno::EOPNOTSUPP);
        };
        let end = offset.checked_add(length);
        if !mode.contains(keep) && end.is_none_or(|end| end > file.namespace.bytes()) {
            return answer.fail(Errno::EINVAL);
        }
        self.engine.zero(file, offset, length, deallocate, answer);
    }

    /// The directory's entries after an offset: offset, inode, type and name of each. An entry's offset is where
    /// the listing goes on after it: 1 and 2 for the directory itself, 2 + NSID for a file, so that files that come
    /// and go in between shift nothing.
    pub fn list(&self, after: u64) -> impl Iterator<Item = (u64, u64, FileType, String)> {
        let own = [(1, "."), (2, "..")].map(|(at, name)| (at, ROOT, FileType::Directory, name.to_owned()));
        let files =
            self.files.all().into_iter().map(|file| {
                (2 + u64::from(file.namespace.nsid), file.ino, FileType::RegularFile, file.name())
            });
        own.into_iter().chain(files).filter(move |(at, ..)| *at > after)
    }

    /// Blocks and bytes of a block, for `statfs`: of a file, its namespace; of the directory, all of them. A loop
    /// device takes its discard granularity from here.
    pub fn space(&self, ino: u64) -> (u64, u32) {
        let (bytes, unit) = match self.file(ino) {
            Ok(file) => (file.namespace.bytes(), file.namespace.block_size),
            Err(_) => (self.files.all().iter().map(|file| file.namespace.bytes()).sum(), 4096),
        };
        (bytes / u64::from(unit), unit)
    }
}

fn common(ino: u64, since: SystemTime) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: since,
        mtime: since,
        ctime: since,
        crtime: since,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

fn attributes(file: &File) -> FileAttr {
    let access = *file.access();
    let bytes = file.namespace.bytes();
    FileAttr {
        size: bytes,
        blocks: bytes / 512,
        blksize: file.namespace.block_size,
        perm: access.mode,
        uid: access.uid,
        gid: access.gid,
        ..common(file.ino, file.since)
    }
}

impl Filesystem for Directory {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without this the kernel answers asynchronous direct I/O, which loop devices do, one by one.
        let wanted = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_PARALLEL_DIROPS;
        if let Err(missing) = config.add_capabilities(wanted) {
            tracing::debug!(?missing, "the kernel lacks FUSE capabilities");
            let _ = config.add_capabilities(wanted & !missing);
        }
        let granted = self.rings && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok();
        self.granted.store(granted, Ordering::Relaxed);
        let _ = config.set_max_write(LARGEST);
        let _ = config.set_max_background(OUTSTANDING);
        let _ = config.set_congestion_threshold(OUTSTANDING);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str().and_then(|name| self.find(parent.0, name)) {
            Some(attributes) => reply.entry(&KEEP, &attributes, GENERATION),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.0) {
            Ok(attributes) => reply.attr(&KEEP, &attributes),
            Err(errno) => reply.error(errno),
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
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.change(ino.0, Change { mode, uid, gid, size, open: handle.is_some() }) {
            Ok(attributes) => reply.attr(&KEEP, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match Directory::open(self, ino.0, flags.0.cast_unsigned()) {
            Ok(flags) => reply.opened(FileHandle(0), flags),
            Err(errno) => reply.error(errno),
        }
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
        Directory::read(self, ino.0, offset, size, Answer::Data(reply));
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
        // `data` lies in the buffer for the next request.
        let (data, flags) = (pool::copy(data), flags.0.cast_unsigned());
        Directory::write(self, ino.0, offset, data, flags, Answer::Written(reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file promises nothing. The kernel does not ask again after this answer.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(ino.0, Answer::Done(reply));
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
        self.allocate(ino.0, offset, length, mode.cast_unsigned(), Answer::Done(reply));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if ino.0 != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        for (at, ino, kind, name) in self.list(offset) {
            if reply.add(INodeNo(ino), at, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let (blocks, unit) = self.space(ino.0);
        reply.statfs(blocks, 0, 0, 0, 0, unit, 255, unit);
    }

    // Which files there are is the drive's to say: namespaces are created and deleted over NVMe.

    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        reply.error(Errno::EPERM);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    // What follows is answered only so that the kernel stops asking.

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: fuser::ReplyLseek) {
        // The kernel then takes the file as data from its start to its end.
        reply.error(Errno::ENOSYS);
    }
}
