//! What can go wrong when namespaces are exported.
//!
//! The messages contain their reasons, so the reasons are no `source()` that would be printed again.

use std::io;
use std::path::PathBuf;

/// Why an export could not be started or cleaned up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The directory is missing or cannot be used.
    #[error("{0}: {reason}; the directory must exist (mkdir -p {0})", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// The error.
        reason: io::Error,
    },
    /// It is not a directory.
    #[error("{}: not a directory; name an empty directory", .0.display())]
    NotADirectory(PathBuf),
    /// It has something in it, which the mount would hide.
    #[error("{}: not empty; the mount would hide what is in it, name an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// A running drive serves it.
    #[error("{}: a program that is running has mounted its files there; stop it first, or name another directory", .0.display())]
    InUse(PathBuf),
    /// There is no FUSE.
    #[error(
        "/dev/fuse: {0}; load the module (modprobe fuse), or pass the device into the container (docker run \
         --device /dev/fuse --cap-add SYS_ADMIN)"
    )]
    NoFuse(io::Error),
    /// There is FUSE, but not for this user.
    #[error(
        "/dev/fuse: {0}; use sudo, let the user open it (chmod 666 /dev/fuse), or reach the drive through its socket"
    )]
    FuseNotAllowed(io::Error),
    /// Neither privileges nor a helper to mount with.
    #[error(
        "{}: mounting needs root (CAP_SYS_ADMIN) or the program fusermount3 (Debian: apt install fuse3); use \
         sudo, install it, or reach the drive through its socket", .0.display()
    )]
    NotAllowed(PathBuf),
    /// The mount failed.
    #[error("{}: cannot mount: {reason}", dir.display())]
    Mount {
        /// The directory.
        dir: PathBuf,
        /// The error.
        reason: io::Error,
    },
    /// The caller insists on io_uring, and the kernel does not offer it.
    #[error("{}: no FUSE over io_uring: {why}; --fuse-io auto does without", dir.display())]
    NoRings {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        why: String,
    },
    /// Something could not be unmounted.
    #[error("{0}: cannot unmount: {reason}; stop what uses it, then: umount -l {0}", point.display())]
    Unmount {
        /// The mount point.
        point: PathBuf,
        /// The error.
        reason: io::Error,
    },
    /// `losetup` could not be run.
    #[error(
        "losetup: {0}; loop devices are attached with it (Debian: apt install mount), or serve without them"
    )]
    NoLosetup(io::Error),
    /// A loop device could not be attached or detached.
    #[error("{what}: {message}")]
    Loop {
        /// Device or file.
        what: String,
        /// What happened and what to do.
        message: String,
    },
    /// The drive does not answer.
    #[error("the drive: {0}")]
    Drive(String),
    /// Something about the system could not be read or done.
    #[error("{what}: {reason}")]
    System {
        /// What.
        what: String,
        /// The error.
        reason: io::Error,
    },
}

impl ExportError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |reason| ExportError::System { what, reason }
    }
}
