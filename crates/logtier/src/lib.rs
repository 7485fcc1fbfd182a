//! A log-structured write-back cache: a fast block device in front of a slow one, with the fast one written in order only.
//!
//! - [`Core`] is the state machine. It does no I/O and reads no clock: it says what it wants of the origin and of the cache device, and is
//!   told how that ended.
//! - [`LogDevice`] runs it over two block devices, and is one itself.
//! - [`Config`] says what it is made with, [`Control`] what can be changed later, [`Counters`] what it has done.
//!
//! The design is that of bcache's documentation (Linux, `Documentation/admin-guide/bcache.rst`); docs/log-cache.md says what is taken
//! from where, and describes the format. The crate `tier` has dm-cache's semantics.
//!
//! ```
//! # use blockdev::{BlockDevice, Namespace, conformance::Memory};
//! # use logtier::{Config, LogDevice, Start};
//! let memory = |bytes: u64| Memory::new(Namespace::plain(1, bytes / 4096, 4096), 32, 7);
//! let devices = (memory(16 << 20), memory(4 << 20));
//! let config = Config { bucket: 128 << 10, ..Config::default() };
//! let start = Start::Create { seed: 1, replace: false };
//! let cache = logtier::open(config, start, devices, 0, |cache| cache.next_work())?;
//! assert_eq!(cache.core().status().buckets, 27);
//! # Ok::<(), logtier::OpenError>(())
//! ```

mod bits;
mod buckets;
mod commit;
mod config;
mod control;
mod device;
mod error;
mod format;
mod fuzz;
mod host;
mod index;
#[cfg(test)]
mod model;
mod open;
mod read;
mod sequential;
mod shape;
mod space;
mod state;
#[cfg(test)]
mod tests;
mod writeback;

pub use config::{
    BLOCK, BUCKET_DEFAULT, BUCKET_MAX, BUCKET_MIN, Config, ConfigError, Mode, OriginId, Replacement,
    SEQUENTIAL_CUTOFF,
};
pub use device::{LogDevice, begin, open};
pub use error::{ControlError, OpenError};
pub use fuzz::fuzz;
pub use open::Start;
pub use shape::{Device, Geometries};
pub use stack::Done;
pub use state::{CacheStatus, Control, Core, Counters, Health, Sub};
