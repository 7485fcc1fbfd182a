//! A cache tier that runs. The crate `tier` is the state machine; this one gives it devices, time and a way to be reached.
//!
//! - [`Place`] says where a device is: a namespace of a drive, a file, a block device. [`Source`] is a device that is open, and claimed for
//!   this process.
//! - [`LiveTier`] owns the state machine. A thread that takes requests from the kernel runs it, and so does one that delivers what a device has
//!   done.
//! - [`BlockFiles`] shows tiers, and the drive that they may be part of, to `export`.
//! - [`control`] takes requests of users through a Unix socket.
//! - [`table`] reads `[[cache]]` of a drive's TOML.

mod bell;
mod block_files;
mod claim;
pub mod control;
mod device;
mod error;
mod live;
mod local_device;
mod place;
mod socket;
mod source;
pub mod table;
#[cfg(test)]
mod tests;
mod watch;

pub use block_files::BlockFiles;
pub use device::{Backing, DeviceError, execute};
pub use error::Error;
pub use live::{Devices, LiveTier, Report};
pub use place::{Place, PlaceError, Role};
pub use source::{Source, check_apart, recorded, recorded_or_blank, remove};
