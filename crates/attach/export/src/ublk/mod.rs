//! Namespaces as block devices `/dev/ublkbN` of a kernel with the driver `ublk_drv` (Linux 6.5).
//!
//! Each conventional namespace is a device. `docs/howto/ublk.md` says what programs can expect of it; the kernel's `Documentation/block/ublk.rst` and
//! `include/uapi/linux/ublk_cmd.h` say what the driver expects.
//!
//! How a request travels:
//! 1. A device has a few queues, each with a thread and a ring (`queue`, `ring`). The kernel describes a request in memory that both see (`abi`).
//! 2. The thread turns it into a request of the request queue (`requests`). The data of a write is read from the character device `/dev/ublkcN`
//!    (`UBLK_F_USER_COPY`), so that no memory is lent to the kernel.
//! 3. The thread that delivers the drive's completion copies the data of a read into the request, and the queue's thread tells the kernel that it is
//!    done (`reply`).
//!
//! Devices follow the drive (`devices`): one whose namespace is gone, or has lost completed writes, is removed.
//!
//! Not here:
//! - zoned namespaces: they are directories of zones through FUSE,
//! - recovery by another process (`UBLK_F_USER_RECOVERY`): a device ends with its process, as a drive that is pulled out,
//! - devices of users other than root (`UBLK_F_UNPRIVILEGED_DEV`): the kernel does not let them copy data this way.

mod abi;
mod control;
mod device;
mod devices;
mod error;
mod queue;
mod reply;
mod requests;
mod ring;

pub use devices::{Devices, Exported};
pub use error::UblkError;
pub use reply::Reply;

#[cfg(test)]
pub use {
    abi::Descriptor,
    reply::{Answers, Asked, Done},
    requests::{Action, carry_out},
};
