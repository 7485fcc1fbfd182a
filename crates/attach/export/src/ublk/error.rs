//! Why there are no ublk devices.

use std::io;

/// What went wrong. The messages contain their reasons, so the reasons are no `source()` that would be printed again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The driver is not there.
    #[error(
        "/dev/ublk-control: {0}; load the driver (modprobe ublk_drv, Linux 6.5 or later), or pass the device into the container, with \
         --privileged. --nbd and --fuse need no such driver"
    )]
    NoDriver(io::Error),
    /// This user may not.
    #[error(
        "/dev/ublk-control: {0}; ublk devices need root (CAP_SYS_ADMIN): use sudo, or --nbd, which needs none"
    )]
    NotAllowed(io::Error),
    /// io_uring is not allowed, or is too old.
    #[error(
        "ublk needs io_uring, which cannot be used ({0}); allow it (sysctl kernel.io_uring_disabled=0, and in a container a seccomp profile that \
         lets it through), or use --nbd"
    )]
    NoRing(io::Error),
    /// The driver is too old.
    #[error(
        "this kernel's ublk driver cannot copy data through its character device: that needs Linux 6.5 or later; use --nbd or --fuse"
    )]
    TooOld,
    /// Something that the driver or the system refuses.
    #[error("{what}: {reason}")]
    Refused {
        /// What was to be done.
        what: String,
        /// The error.
        reason: io::Error,
    },
}

impl UblkError {
    pub(super) fn refused(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |reason| UblkError::Refused { what, reason }
    }
}
