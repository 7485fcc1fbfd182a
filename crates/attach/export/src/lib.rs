//! Namespaces as block files: a directory with one file per attached namespace, through FUSE, and loop
//! devices on them. A zoned namespace is a directory with a file for each zone, with the contract of Linux's zonefs. The same files over NBD
//! ([`nbd`]), and as block devices of the kernel ([`ublk`]).
//!
//! [`Export`] connects to a drive as an NVMe host, mounts the directory and follows the drive: namespaces
//! that are created, attached, detached or deleted appear and vanish. `docs/block-export.md` says what
//! programs can expect of the files: alignment, promises, errors; `docs/howto/zonefs.md` says it of the files of zones.
//!
//! How a request travels:
//! 1. A thread takes it from the kernel, through io_uring (`uring`) or `/dev/fuse` (`fuser`). Both ask the same `directory`.
//! 2. `request_queue` turns it into commands, one where the drive's limit allows (`split`).
//! 3. The thread that delivers the drive's completion answers the request. Often it is the same one, so a request costs no switch of threads.
//!
//! Writes of partial blocks read, change and write back, apart from other writes (`write_lock`).
//!
//! Zones (`zonefs`): the drive is asked for the size of a file, and judges where a write goes. What takes several commands is an
//! `async` function, which the thread that delivers a completion goes on with (`task`).
//!
//! This crate clips requests to the file's size and refuses writes to protected namespaces. The drive checks everything else, and its
//! status becomes an `errno` in one place.
//!
//! A [`Backend`] is what front ends share: the connection to the drive, its files, the requests in flight.
//!
//! [`MountedFileSystem`] mounts what has nothing to do with block files, in the same way.
//!
//! Not here:
//! - ioctls: a regular file has no `BLKGETSIZE64`; loop devices do,
//! - mmap with `MAP_SHARED`: the kernel has no page cache for these files,
//! - namespaces with metadata or of other command sets than NVM and Zoned Namespace: they are left out, with a warning.

mod access;
mod attached;
mod attributes;
mod backend;
mod buffer_pool;
mod directory;
pub mod drive;
mod errno;
mod error;
mod export;
mod extents;
mod file_table;
mod loop_records;
mod loops;
mod mailbox;
mod mount;
mod mounted_file_system;
mod mountinfo;
pub mod nbd;
mod request_queue;
mod split;
mod task;
pub mod ublk;
mod uring;
mod write_lock;
mod zonefs;
mod zones;

#[cfg(test)]
mod tests;

pub use attached::{Attached, HOST_NQN};
pub use backend::{Backend, DEFAULT_MODE};
pub use drive::Zones;
pub use errno::errno;
pub use error::ExportError;
pub use export::{Device, Export, FuseTransport, Options};
pub use fuser::Errno;
pub use mount::{Cleaned, clean_stale, prepare};
pub use mounted_file_system::MountedFileSystem;
