//! A cache tier with dm-cache's semantics: a fast block device in front of a slow one.
//!
//! - [`Core`] is the state machine. It does no I/O and reads no clock: it says what it wants of the origin, the cache device and the metadata
//!   device, and is told how that ended.
//! - [`TierDevice`] runs it over three block devices, and is one itself.
//! - [`Config`] says what it is made with, [`Control`] what can be changed later, [`Status`] is dm-cache's status line.
//!
//! docs/cache.md describes modes and policies and says where each constant is from; docs/tier-format.md describes the metadata.
//!
//! ```
//! # use blockdev::{BlockDevice, Namespace, conformance::Memory};
//! # use tier::{Config, Start, TierDevice};
//! let memory = |bytes: u64| Memory::new(Namespace::plain(1, bytes / 4096, 4096), 32, 7);
//! let devices = (memory(16 << 20), memory(4 << 20), memory(1 << 20));
//! let config = Config { chunk: 64 << 10, ..Config::default() };
//! let start = Start::Create { seed: 1, replace: false };
//! let tier = tier::open(config, start, devices, 0, |tier| tier.next_work())?;
//! assert_eq!(tier.core().status().cache_blocks, (0, 64));
//! # Ok::<(), tier::OpenError>(())
//! ```

mod chunk;
mod commit;
mod config;
mod control;
mod device;
mod error;
mod fuzz;
mod host;
mod metadata;
mod migration;
#[cfg(test)]
mod model;
mod open;
mod policy;
mod recorded;
mod shape;
mod state;
mod status;
#[cfg(test)]
mod tests;

pub use blockdev::stack::Done;
pub use config::{
    CHUNK_MAX, CHUNK_MIN, Config, ConfigError, DeviceId, MIGRATION_THRESHOLD, Mode, MqTunables, PolicyKind,
    SECTOR, UnknownWord,
};
pub use device::{TierDevice, begin, open};
pub use error::{ControlError, OpenError};
pub use fuzz::fuzz;
pub use open::Start;
pub use policy::{Agreement, Difference, replay_policy};
pub use recorded::Recorded;
pub use shape::{Device, Geometries};
pub use state::{Control, Core, Counters, Health, Sub};
pub use status::Status;
