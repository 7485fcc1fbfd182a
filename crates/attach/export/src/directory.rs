//! The directory as the kernel asks about it.

use crate::access::AccessChange;
use crate::attributes::{ATTRIBUTE_TIMEOUT, Shown};
use crate::drive::MAX_TRANSFER_BYTES;
use crate::file_table::{File, FileTable, Node, ROOT};
use crate::request_queue::{Answer, RequestQueue, Responder};
use crate::zonefs::{Room, WriteMode, ZoneFs};
use crate::{buffer_pool, task};
use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The directory with the files of zones. There are no conventional zones, for which zonefs would have `cnv`.
const ZONES: &str = "seq";
/// Zones that are listed at a time: more than an answer of 128 KiB has room for.
const MAX_LISTED_ZONES: u32 = 8192;
/// Inode numbers are never used twice.
const GENERATION: Generation = Generation(0);
/// Asynchronous requests that the kernel may have outstanding over all files: loop devices have up to 128
/// each.
const MAX_OUTSTANDING: u16 = 1024;

/// The mounted directory: what it answers, whichever way the kernel asks.
#[derive(Clone)]
pub struct Directory {
    files: Arc<FileTable>,
    requests: Arc<RequestQueue>,
    zones: ZoneFs,
    since: SystemTime,
    /// Whether to ask the kernel for io_uring.
    rings: bool,
    granted: Arc<AtomicBool>,
}

/// What is to be changed of a file.
#[derive(Clone, Copy, Default)]
pub struct Change {
    /// Permissions and owner.
    pub access: AccessChange,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Whether it is about an open file.
    pub open: bool,
}

/// How much there is room for, for `statfs`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Space {
    /// Blocks.
    pub blocks: u64,
    /// Blocks that are free.
    pub free: u64,
    /// Bytes of a block.
    pub unit: u32,
    /// Files.
    pub files: u64,
}

impl Directory {
    /// The directory of these files; with `rings`, the kernel is asked to bring its requests through io_uring.
    pub fn new(files: Arc<FileTable>, requests: Arc<RequestQueue>, rings: bool) -> Self {
        let zones = ZoneFs::new(requests.clone());
        Directory { files, requests, zones, since: SystemTime::now(), rings, granted: Arc::default() }
    }

    /// Begins several requests, whose commands the drive may begin together when `begin` returns.
    pub fn together(&self, begin: impl FnMut()) {
        self.requests.together(begin);
    }

    /// Whether the kernel is asked for io_uring.
    pub fn asks_for_rings(&self) -> bool {
        self.rings
    }

    /// Whether the kernel has agreed to io_uring. Known when it is mounted.
    pub fn has_rings(&self) -> bool {
        self.granted.load(Ordering::Relaxed)
    }

    fn node(&self, ino: u64) -> Result<Node, Errno> {
        self.files.node(ino).ok_or(Errno::ENODEV)
    }

    /// A block file.
    fn file(&self, ino: u64) -> Result<Arc<File>, Errno> {
        match self.node(ino)? {
            Node::File(file) => Ok(file),
            Node::Zone(..) => Err(Errno::EOPNOTSUPP),
            Node::Root | Node::Zoned(_) | Node::Zones(_) => Err(Errno::EISDIR),
        }
    }

    async fn show(&self, node: Node) -> Result<Shown, Errno> {
        Ok(match node {
            Node::Root => Shown::root(ROOT, self.since, self.files.default_access()),
            Node::File(file) => Shown::file(&file),
            Node::Zoned(file) => Shown::zoned(&file),
            Node::Zones(file) => Shown::zones(&file),
            Node::Zone(file, zone) => return self.zones.show(&file, zone).await,
        })
    }

    /// The file of this name.
    pub async fn find(&self, parent: u64, name: &str) -> Result<Shown, Errno> {
        let found = match self.node(parent)? {
            Node::Root => self.files.find(name).and_then(|file| self.files.node(file.ino)),
            Node::Zoned(file) => (name == ZONES).then_some(Node::Zones(file)),
            Node::Zones(file) => zone_of_name(&file, name).map(|zone| Node::Zone(file, zone)),
            Node::File(_) | Node::Zone(..) => return Err(Errno::ENOTDIR),
        };
        self.show(found.ok_or(Errno::ENOENT)?).await
    }

    /// What `stat` shows.
    pub async fn attributes(&self, ino: u64) -> Result<Shown, Errno> {
        self.show(self.node(ino)?).await
    }

    /// Permissions and ownership of files can be changed until the directory is unmounted; times are ignored. The size of a block file
    /// is the namespace's: as with a block device, truncating while opening does nothing (so that `dd` and `cp` work), any other
    /// truncation to another size is refused.
    pub async fn change(&self, ino: u64, change: Change) -> Result<Shown, Errno> {
        let Change { access, size, open } = change;
        let file = match self.node(ino)? {
            Node::File(file) => file,
            Node::Zone(file, zone) => return self.zones.change(&file, zone, access, size).await,
            Node::Root | Node::Zoned(_) | Node::Zones(_) => return Err(Errno::EPERM),
        };
        let opening = !open && size == Some(0);
        if size.is_some_and(|size| size != file.namespace.bytes()) && !opening {
            return Err(Errno::EINVAL);
        }
        access.apply(&mut file.access());
        Ok(Shown::file(&file))
    }

    /// Opens a file with the flags of `open`.
    pub async fn open(&self, ino: u64, flags: u32) -> Result<FopenFlags, Errno> {
        if let Node::Zone(file, zone) = self.node(ino)? {
            return self.zones.open(&file, zone, flags).await;
        }
        let file = self.file(ino)?;
        if file.namespace.read_only && OpenFlags(flags.cast_signed()).acc_mode() != OpenAccMode::O_RDONLY {
            return Err(Errno::EROFS);
        }
        // No page cache of the file's own: what is acknowledged is with the drive. Without the second flag
        // the kernel lets only one write per file run at a time.
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        Ok(direct | FopenFlags::FOPEN_NOFLUSH)
    }

    /// A file that was opened with these flags is closed.
    pub async fn release(&self, ino: u64, flags: u32) -> Result<(), Errno> {
        match self.node(ino) {
            Ok(Node::Zone(file, zone)) => self.zones.release(&file, zone, flags).await,
            _ => Ok(()),
        }
    }

    /// Reads `size` bytes at `offset`.
    pub fn read(&self, ino: u64, offset: u64, size: u32, answer: Answer) {
        match self.node(ino) {
            Ok(Node::File(file)) => self.requests.read(file, offset, size, answer),
            Ok(Node::Zone(file, zone)) => self.zones.read(file, zone, offset, size, answer),
            Ok(Node::Root | Node::Zoned(_) | Node::Zones(_)) => answer.fail(Errno::EISDIR),
            Err(errno) => answer.fail(errno),
        }
    }

    /// Writes `data` at `offset`; `flags` are those of `open`.
    pub fn write(&self, ino: u64, offset: u64, data: Vec<u8>, flags: u32, answer: Answer) {
        let mode = WriteMode::new(flags);
        match self.node(ino) {
            Ok(Node::File(file)) => self.requests.write(file, offset, data, mode.durable, answer),
            Ok(Node::Zone(file, zone)) => self.zones.write(file, zone, offset, data, mode, answer),
            Ok(Node::Root | Node::Zoned(_) | Node::Zones(_)) => answer.fail(Errno::EISDIR),
            Err(errno) => answer.fail(errno),
        }
    }

    /// `fsync` and `fdatasync`.
    pub fn sync(&self, ino: u64, answer: Answer) {
        match self.node(ino) {
            Ok(Node::File(file) | Node::Zone(file, _)) => self.requests.flush(file, answer),
            Ok(Node::Root | Node::Zoned(_) | Node::Zones(_)) => answer.fail(Errno::EISDIR),
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
        self.requests.zero(file, offset, length, deallocate, answer);
    }

    /// A directory's entries after an offset. An entry's offset is where the listing goes on after it: 1 and 2 for the directory itself
    /// and the one above, 2 + NSID for a namespace, so that those that come and go in between shift nothing.
    pub fn list(&self, ino: u64, after: u64) -> Result<Vec<Entry>, Errno> {
        let node = self.node(ino)?;
        let directory =
            |at, ino, name: &str| Entry { at, ino, kind: FileType::Directory, name: name.to_owned() };
        let own = |ino, above| vec![directory(1, ino, "."), directory(2, above, "..")];
        let mut entries = match &node {
            Node::Root => own(ROOT, ROOT),
            Node::Zoned(file) => own(file.ino, ROOT),
            Node::Zones(file) => own(file.zones_ino(), file.ino),
            Node::File(_) | Node::Zone(..) => return Err(Errno::ENOTDIR),
        };
        match &node {
            Node::Zoned(file) => entries.push(directory(3, file.zones_ino(), ZONES)),
            Node::Zones(file) => {
                let count = file.namespace.zones.map_or(0, |zones| zones.count);
                // As many as one answer has room for, or more.
                let first = u32::try_from(after.saturating_sub(2)).unwrap_or(u32::MAX);
                let last = count.min(first.saturating_add(MAX_LISTED_ZONES));
                entries.extend((first..last).map(|zone| Entry {
                    at: 3 + u64::from(zone),
                    ino: file.zone_ino(zone),
                    kind: FileType::RegularFile,
                    name: zone.to_string(),
                }));
            }
            _ => entries.extend(self.files.all().into_iter().map(|file| Entry {
                at: 2 + u64::from(file.namespace.nsid()),
                ino: file.ino,
                kind: file.namespace.zones.map_or(FileType::RegularFile, |_| FileType::Directory),
                name: file.name(),
            })),
        }
        entries.retain(|entry| entry.at > after);
        Ok(entries)
    }

    /// What `statfs` shows: of a file, its namespace; of the directory, all of them. A loop device takes its discard granularity from
    /// here.
    pub async fn space(&self, ino: u64) -> Result<Space, Errno> {
        match self.node(ino)? {
            Node::Root => {
                let bytes: u64 = self.files.all().iter().map(|file| file.namespace.bytes()).sum();
                Ok(Space { blocks: bytes / 4096, unit: 4096, ..Space::default() })
            }
            Node::File(file) => {
                let (blocks, unit) = (file.namespace.device.blocks, file.namespace.block_size());
                Ok(Space { blocks, unit, ..Space::default() })
            }
            Node::Zoned(file) | Node::Zones(file) | Node::Zone(file, _) => {
                let Room { blocks, free, zones } = self.zones.room(&file).await?;
                Ok(Space { blocks, free, unit: file.namespace.block_size(), files: zones })
            }
        }
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where the listing goes on after it.
    pub at: u64,
    /// Inode number.
    pub ino: u64,
    /// Directory or file.
    pub kind: FileType,
    /// Name.
    pub name: String,
}

/// The zone whose file has this name.
fn zone_of_name(file: &File, name: &str) -> Option<u32> {
    let zone: u32 = name.parse().ok()?;
    // `parse` takes "01" and "+1" as well.
    let count = file.namespace.zones?.count;
    (zone < count && zone.to_string() == name).then_some(zone)
}

/// Answers with what `stat` shows.
fn shown(shown: Result<Shown, Errno>, reply: ReplyAttr) {
    match shown {
        Ok(Shown { attributes, keep }) => reply.attr(&keep, &attributes),
        Err(errno) => reply.error(errno),
    }
}

impl Responder for ReplyData {
    fn succeed(self: Box<Self>, data: &[u8], _: u32) {
        self.data(data);
    }

    fn fail(self: Box<Self>, errno: Errno) {
        self.error(errno);
    }
}

impl Responder for ReplyWrite {
    fn succeed(self: Box<Self>, _: &[u8], len: u32) {
        self.written(len);
    }

    fn fail(self: Box<Self>, errno: Errno) {
        self.error(errno);
    }
}

impl Responder for ReplyEmpty {
    fn succeed(self: Box<Self>, _: &[u8], _: u32) {
        self.ok();
    }

    fn fail(self: Box<Self>, errno: Errno) {
        self.error(errno);
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
        let _ = config.set_max_write(MAX_TRANSFER_BYTES);
        let _ = config.set_max_background(MAX_OUTSTANDING);
        let _ = config.set_congestion_threshold(MAX_OUTSTANDING);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (directory, name) = (self.clone(), name.to_str().map(str::to_owned));
        task::run(async move {
            let Some(name) = name else { return reply.error(Errno::ENOENT) };
            match directory.find(parent.0, &name).await {
                Ok(Shown { attributes, keep }) => {
                    reply.entry_with_ttls(&keep, &ATTRIBUTE_TIMEOUT, &attributes, GENERATION);
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let directory = self.clone();
        task::run(async move { shown(directory.attributes(ino.0).await, reply) });
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
        let access = AccessChange { mode, uid, gid };
        let (directory, open) = (self.clone(), handle.is_some());
        task::run(async move {
            shown(directory.change(ino.0, Change { access, size, open }).await, reply);
        });
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let directory = self.clone();
        task::run(async move {
            match Directory::open(&directory, ino.0, flags.0.cast_unsigned()).await {
                Ok(flags) => reply.opened(FileHandle(0), flags),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        flags: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let directory = self.clone();
        task::run(async move {
            match Directory::release(&directory, ino.0, flags.0.cast_unsigned()).await {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            }
        });
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
        Directory::read(self, ino.0, offset, size, Answer::to(reply));
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
        let (data, flags) = (buffer_pool::copy(data), flags.0.cast_unsigned());
        Directory::write(self, ino.0, offset, data, flags, Answer::to(reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file promises nothing. The kernel does not ask again after this answer.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(ino.0, Answer::to(reply));
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
        self.allocate(ino.0, offset, length, mode.cast_unsigned(), Answer::to(reply));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.list(ino.0, offset) {
            Ok(entries) => {
                let mut full = entries
                    .iter()
                    .map(|Entry { at, ino, kind, name }| reply.add(INodeNo(*ino), *at, *kind, name));
                full.find(|full| *full);
                drop(full);
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let directory = self.clone();
        task::run(async move {
            match directory.space(ino.0).await {
                Ok(Space { blocks, free, unit, files }) => {
                    reply.statfs(blocks, free, free, files, 0, unit, 255, unit);
                }
                Err(errno) => reply.error(errno),
            }
        });
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
