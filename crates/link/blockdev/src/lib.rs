//! The contract of block devices, how a request becomes NVMe commands, and devices that stand on others.
//!
//! - [`Operation`] is one request: a [`Verb`] on a range of logical blocks. [`Operation::parts`] cuts it into parts that
//!   keep to the [`Limits`] of a device.
//! - [`BlockDevice`] is the contract: submit a part, poll for what has ended, ask for the time of the next event.
//! - [`Namespace`] is the encoder: it turns a part into one command, with protection information, Force Unit Access and
//!   the ranges that are the data of Copy and of Dataset Management.
//! - [`Flushes`] lets no flush of a device succeed after one that failed.
//! - [`conformance`] holds every implementation to the contract, and has a device in memory to test what is built over one.
//! - [`stack`] has what lies between a load and a device, as block devices over block devices.
//!
//! Nothing here does I/O, reads a clock or allocates per command.
//!
//! ```
//! # use blockdev::{Limits, Namespace, Operation, Verb};
//! let limits = Limits { transfer: 32, ..Limits::NONE };
//! let namespace = Namespace { limits, ..Namespace::plain(1, 1000, 4096) };
//! let write = Operation { verb: Verb::WriteFua, lba: 100, blocks: 80 };
//! let commands: Vec<_> = write.parts(&limits).map(|part| namespace.encode(&part).0).collect();
//! assert_eq!(commands.len(), 3);
//! ```

pub mod conformance;
mod device;
mod flushes;
mod limits;
mod namespace;
mod operation;
pub mod recording;
pub mod stack;
mod verb;

pub use device::{BlockDevice, Completed, Geometry};
pub use flushes::Flushes;
pub use limits::{ControllerLimits, Limits};
pub use namespace::{Namespace, Payload, Ranges, Unusable, is_absent};
pub use nvme::Status;
pub use operation::{Operation, Parts};
pub use verb::{Verb, ZoneAction};

/// Nanoseconds of whichever clock drives the device.
pub type Nanos = u64;
