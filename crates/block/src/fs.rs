//! The directory as the kernel asks about it.

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
use std::time::{Duration, SystemTime};

/// Flag of an open file whose writes are to be durable (Linux, `asm-generic/fcntl.h`). What `rustix` calls so is `O_SYNC`.
pub(crate) const O_DSYNC: u32 = 0o10_000;
/// Names and attributes stay valid until the kernel is told otherwise.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Inode numbers are never used twice.
const GENERATION: Generation = Generation(0);
/// Largest read or write that the kernel is asked to send: what its default limit of 256 pages allows.
const LARGEST: u32 = 1 << 20;
/// Asynchronous requests that the kernel may have outstanding over all files: loop devices have up to 128
/// each.
const OUTSTANDING: u16 = 1024;

/// The mounted directory.
pub struct Directory {
    files: Arc<Files>,
    engine: Arc<Engine>,
    since: SystemTime,
}

impl Directory {
    /// The directory of these files.
    pub fn new(files: Arc<Files>, engine: Arc<Engine>) -> Self {
        Directory { files, engine, since: SystemTime::now() }
    }

    fn file(&self, ino: INodeNo) -> Result<Arc<File>, Errno> {
        match ino.0 {
            ROOT => Err(Errno::EISDIR),
            ino => self.files.get(ino).ok_or(Errno::ENODEV),
        }
    }

    fn attributes(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        if ino.0 != ROOT {
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
        let _ = config.set_max_write(LARGEST);
        let _ = config.set_max_background(OUTSTANDING);
        let _ = config.set_congestion_threshold(OUTSTANDING);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let file = if parent.0 == ROOT { name.to_str().and_then(|name| self.files.find(name)) } else { None };
        match file {
            Some(file) => reply.entry(&KEEP, &attributes(&file), GENERATION),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Ok(attributes) => reply.attr(&KEEP, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    /// Permissions and ownership can be changed until the directory is unmounted; times are ignored. The
    /// size is the namespace's: as with a block device, truncating while opening does nothing (so that `dd`
    /// and `cp` work), any other truncation to another size is refused.
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
        let file = match self.file(ino) {
            Ok(file) => file,
            Err(Errno::EISDIR) => return reply.error(Errno::EPERM),
            Err(errno) => return reply.error(errno),
        };
        let opening = handle.is_none() && size == Some(0);
        if size.is_some_and(|size| size != file.namespace.bytes()) && !opening {
            return reply.error(Errno::EINVAL);
        }
        {
            let mut access = file.access();
            // Only the permission bits; 12 bits fit.
            access.mode = mode.map_or(access.mode, |mode| (mode & 0o7777) as u16);
            access.uid = uid.unwrap_or(access.uid);
            access.gid = gid.unwrap_or(access.gid);
        }
        reply.attr(&KEEP, &attributes(&file));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let file = match self.file(ino) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        if file.namespace.read_only && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        // No page cache of the file's own: what is acknowledged is with the drive. Without the second flag
        // the kernel lets only one write per file run at a time.
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), direct | FopenFlags::FOPEN_NOFLUSH);
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
        match self.file(ino) {
            Ok(file) => self.engine.read(file, offset, size, Answer::Data(reply)),
            Err(errno) => reply.error(errno),
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
        let file = match self.file(ino) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        // The kernel adds the flag for a single write with RWF_DSYNC, too. O_SYNC contains it.
        let fua = flags.0.cast_unsigned() & O_DSYNC != 0;
        // `data` lies in the buffer for the next request.
        self.engine.write(file, offset, pool::copy(data), fua, Answer::Written(reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file promises nothing. The kernel does not ask again after this answer.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        match self.file(ino) {
            Ok(file) => self.engine.flush(file, Answer::Done(reply)),
            Err(errno) => reply.error(errno),
        }
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
        let file = match self.file(ino) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let keep = FallocateFlags::KEEP_SIZE;
        let deallocate = if mode == FallocateFlags::PUNCH_HOLE | keep {
            true
        } else if mode | keep == FallocateFlags::ZERO_RANGE | keep {
            false
        } else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let end = offset.checked_add(length);
        if !mode.contains(keep) && end.is_none_or(|end| end > file.namespace.bytes()) {
            return reply.error(Errno::EINVAL);
        }
        self.engine.zero(file, offset, length, deallocate, Answer::Done(reply));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if ino.0 != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        // An entry's offset is where the listing goes on after it: 1 and 2 for the directory itself, 2 + NSID
        // for a file, so that files that come and go in between shift nothing.
        let own = [(1, "."), (2, "..")].map(|(at, name)| (at, ROOT, FileType::Directory, name.to_owned()));
        let files =
            self.files.all().into_iter().map(|file| {
                (2 + u64::from(file.namespace.nsid), file.ino, FileType::RegularFile, file.name())
            });
        for (at, ino, kind, name) in own.into_iter().chain(files).filter(|(at, ..)| *at > offset) {
            if reply.add(INodeNo(ino), at, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    /// Of a file, its namespace; of the directory, all of them. A loop device takes its discard granularity
    /// from here.
    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let (bytes, unit) = match self.file(ino) {
            Ok(file) => (file.namespace.bytes(), file.namespace.block_size),
            Err(_) => (self.files.all().iter().map(|file| file.namespace.bytes()).sum(), 4096),
        };
        reply.statfs(bytes / u64::from(unit), 0, 0, 0, 0, unit, 255, unit);
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
