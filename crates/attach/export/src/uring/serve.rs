//! What requests mean, and how answers look (Linux, `include/uapi/linux/fuse.h`, version 7.36 and later).

use super::frame::{Fixed, Frame, Reply};
use crate::access::AccessChange;
use crate::attributes::{ATTRIBUTE_TIMEOUT, Shown};
use crate::directory::{Change, Directory, Entry, Space};
use crate::request_queue::{Answer, Responder};
use crate::task;
use fuser::{Errno, FileAttr, FileType};
use std::time::{SystemTime, UNIX_EPOCH};

/// Kinds of requests: `enum fuse_opcode`.
mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const CREATE: u32 = 35;
    pub const DESTROY: u32 = 38;
    pub const FALLOCATE: u32 = 43;
    pub const RENAME2: u32 = 45;
}

/// Which fields of `struct fuse_setattr_in` count.
mod valid {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const HANDLE: u32 = 1 << 6;
}

/// Starts the request; the answer follows, perhaps from another thread.
pub fn serve(directory: &Directory, reply: Reply) {
    let Some(frame) = reply.frame() else { return };
    let (node, fixed) = (frame.node(), frame.fixed());
    match frame.opcode() {
        // `struct fuse_read_in`: handle, offset, size, …
        opcode::READ => {
            let (offset, size) = (fixed.u64(8), fixed.u32(16));
            directory.read(node, offset, size, Answer::to(reply));
        }
        // `struct fuse_write_in`: handle, offset, size, write_flags, lock_owner, flags.
        opcode::WRITE => {
            let (offset, flags) = (fixed.u64(8), fixed.u32(32));
            let data = crate::buffer_pool::copy(frame.data());
            directory.write(node, offset, data, flags, Answer::to(reply));
        }
        opcode::FSYNC => directory.sync(node, Answer::to(reply)),
        // `struct fuse_fallocate_in`: handle, offset, length, mode.
        opcode::FALLOCATE => {
            let (offset, length, mode) = (fixed.u64(8), fixed.u64(16), fixed.u32(24));
            directory.allocate(node, offset, length, mode, Answer::to(reply));
        }
        _ => {
            let directory = directory.clone();
            task::run(async move {
                match meta(&directory, &reply).await {
                    Ok(out) => reply.data(&out.0),
                    Err(errno) => reply.error(errno),
                }
            });
        }
    }
}

impl Responder for Reply {
    fn succeed(self: Box<Self>, data: &[u8], len: u32) {
        match self.frame().map(Frame::opcode) {
            Some(opcode::READ) => self.data(data),
            // `struct fuse_write_out`.
            Some(opcode::WRITE) => self.data(&Out::default().u32(len).u32(0).0),
            _ => self.ok(),
        }
    }

    fn fail(self: Box<Self>, errno: Errno) {
        self.error(errno);
    }
}

/// Requests about names, attributes and open files.
async fn meta(directory: &Directory, reply: &Reply) -> Result<Out, Errno> {
    let Some(frame) = reply.frame() else { return Err(Errno::EIO) };
    let (node, fixed) = (frame.node(), frame.fixed());
    match frame.opcode() {
        opcode::LOOKUP => {
            // With a byte of zero behind it.
            let name = frame.data().split(|byte| *byte == 0).next().unwrap_or_default();
            let name = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
            directory.find(node, name).await.map(entry)
        }
        opcode::GETATTR => directory.attributes(node).await.map(attributes),
        opcode::SETATTR => directory.change(node, change(fixed)).await.map(attributes),
        // `struct fuse_open_in`: flags; `struct fuse_open_out`: handle, flags.
        opcode::OPEN => {
            let flags = directory.open(node, fixed.u32(0)).await?;
            Ok(Out::default().u64(0).u32(flags.bits()).u32(0))
        }
        // `struct fuse_release_in`: handle, flags, …
        opcode::RELEASE => directory.release(node, fixed.u32(8)).await.map(|()| Out::default()),
        opcode::OPENDIR => Ok(Out::default().u64(0).u64(0)),
        opcode::RELEASEDIR | opcode::DESTROY => Ok(Out::default()),
        opcode::READDIR => list(directory, node, fixed),
        // `struct fuse_kstatfs`.
        opcode::STATFS => {
            let Space { blocks, free, unit, files } = directory.space(node).await?;
            let counts = Out::default().u64(blocks).u64(free).u64(free).u64(files).u64(0);
            Ok(counts.u32(unit).u32(255).u32(unit).u32(0).zeroes(24))
        }
        // Which files there are is the drive's to say.
        opcode::CREATE
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::SYMLINK
        | opcode::LINK
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::RENAME2 => Err(Errno::EPERM),
        // The kernel then does without.
        _ => Err(Errno::ENOSYS),
    }
}

/// `struct fuse_setattr_in`: valid, padding, handle, size, lock_owner, three times, three parts of seconds, mode, unused, uid, gid.
fn change(fixed: Fixed<'_>) -> Change {
    let given = |bit| fixed.u32(0) & bit != 0;
    let access = AccessChange {
        mode: given(valid::MODE).then(|| fixed.u32(68)),
        uid: given(valid::UID).then(|| fixed.u32(76)),
        gid: given(valid::GID).then(|| fixed.u32(80)),
    };
    Change { access, size: given(valid::SIZE).then(|| fixed.u64(16)), open: given(valid::HANDLE) }
}

/// As many entries from the offset on as there is room for: `struct fuse_dirent` is inode, offset, length of the name, type, name.
fn list(directory: &Directory, node: u64, fixed: Fixed<'_>) -> Result<Out, Errno> {
    let (offset, room) = (fixed.u64(8), fixed.u32(16) as usize);
    let mut out = Out::default();
    for Entry { at, ino, kind, name } in directory.list(node, offset)? {
        let padded = name.len().next_multiple_of(8);
        if out.0.len() + 24 + padded > room {
            break;
        }
        // As in the mode of a file.
        let kind = type_bits(kind) >> 12;
        out = out.u64(ino).u64(at).u32(u32::try_from(name.len()).unwrap_or(0)).u32(kind);
        out.0.extend_from_slice(name.as_bytes());
        out = out.zeroes(padded - name.len());
    }
    Ok(out)
}

fn type_bits(kind: FileType) -> u32 {
    match kind {
        FileType::Directory => 0o040_000,
        _ => 0o100_000,
    }
}

/// `struct fuse_entry_out`: node, generation, how long name and attributes are valid, attributes.
fn entry(of: Shown) -> Out {
    let Shown { attributes, keep } = of;
    let out =
        Out::default().u64(attributes.ino.0).u64(0).u64(ATTRIBUTE_TIMEOUT.as_secs()).u64(keep.as_secs());
    attribute_list(out.u64(0), &attributes)
}

/// `struct fuse_attr_out`: how long they are valid, attributes.
fn attributes(of: Shown) -> Out {
    attribute_list(Out::default().u64(of.keep.as_secs()).u64(0), &of.attributes)
}

/// `struct fuse_attr`.
fn attribute_list(out: Out, of: &FileAttr) -> Out {
    let times = [of.atime, of.mtime, of.ctime];
    let since = times.map(|time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    let mut out = out.u64(of.ino.0).u64(of.size).u64(of.blocks);
    for time in since {
        out = out.u64(time.as_secs());
    }
    for time in since {
        out = out.u32(time.subsec_nanos());
    }
    let mode = type_bits(of.kind) | u32::from(of.perm);
    out.u32(mode).u32(of.nlink).u32(of.uid).u32(of.gid).u32(of.rdev).u32(of.blksize).u32(0)
}

/// An answer, written from its first byte on.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn zeroes(mut self, len: usize) -> Self {
        self.0.resize(self.0.len() + len, 0);
        self
    }
}
