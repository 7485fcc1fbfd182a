//! What `stat` shows of files and directories.

use crate::access::Access;
use crate::file_table::File;
use fuser::{FileAttr, FileType, INodeNo};
use nvme::zone::ZoneState;
use std::time::{Duration, SystemTime};

/// Names, and attributes of block files and directories, stay valid until the kernel is told otherwise.
pub const ATTRIBUTE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Attributes, and how long the kernel may keep them.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The attributes.
    pub attributes: FileAttr,
    /// How long they are valid.
    pub keep: Duration,
}

impl Shown {
    /// They stay.
    fn kept(attributes: FileAttr) -> Self {
        Shown { attributes, keep: ATTRIBUTE_TIMEOUT }
    }

    /// A namespace as a block file.
    pub fn file(file: &File) -> Self {
        let access = *file.access();
        let bytes = file.namespace.bytes();
        Self::kept(FileAttr {
            size: bytes,
            blocks: bytes / 512,
            blksize: file.namespace.block_size(),
            perm: access.mode,
            uid: access.uid,
            gid: access.gid,
            ..common(file.ino, file.since)
        })
    }

    /// The mounted directory.
    pub fn root(ino: u64, since: SystemTime, access: Access) -> Self {
        Self::kept(FileAttr { perm: 0o755, ..directory(ino, since, access) })
    }

    /// The directory of a zoned namespace. The size of a directory of zonefs is how many entries it has.
    pub fn zoned(file: &File) -> Self {
        let attributes = directory(file.ino, file.since, *file.access());
        Self::kept(FileAttr { perm: 0o555, size: 1, nlink: 3, ..attributes })
    }

    /// The directory of a zoned namespace that has the files of its zones.
    pub fn zones(file: &File) -> Self {
        let attributes = directory(file.zones_ino(), file.since, *file.access());
        let size = file.namespace.zones.map_or(0, |zones| zones.count.into());
        Self::kept(FileAttr { perm: 0o555, size, ..attributes })
    }

    /// A zone in this state, with so many logical blocks written. Other hosts may write it, so the kernel asks each time.
    pub fn zone(file: &File, zone: u32, state: ZoneState, written: u64) -> Self {
        let access = file.zones().access(zone);
        let perm = match state {
            ZoneState::OFFLINE => access.mode & !0o777,
            ZoneState::READ_ONLY => access.mode & !0o222,
            _ if file.namespace.read_only => access.mode & !0o222,
            _ => access.mode,
        };
        let attributes = FileAttr {
            size: written * u64::from(file.namespace.block_size()),
            blocks: file.namespace.zone_bytes() / 512,
            blksize: file.namespace.block_size(),
            perm,
            uid: access.uid,
            gid: access.gid,
            ..common(file.zone_ino(zone), file.since)
        };
        Shown { attributes, keep: Duration::ZERO }
    }
}

fn directory(ino: u64, since: SystemTime, access: Access) -> FileAttr {
    FileAttr {
        kind: FileType::Directory,
        nlink: 2,
        uid: access.uid,
        gid: access.gid,
        blksize: 4096,
        ..common(ino, since)
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
