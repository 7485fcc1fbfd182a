//! A file store on the zones of a zoned namespace.
//!
//! - [`Store`] has files, directories and links on a [`ZoneDevice`]. It writes zones from their start to their end, and resets them when no
//!   file has blocks of them.
//! - Data that is expected to die together shares zones: [`Placement`] says what decides, [`Lifetime`] and [`KeyRange`] what a writer can tell.
//! - The metadata is a log of records in the first zones. `docs/store-format.md` describes its bytes.
//! - [`NamespaceZones`] is a zoned namespace as such a device, [`FileSystem`] a store as a file system that can be mounted.
//! - [`simulated`] is a device in memory that loses its power, for tests.
//!
//! What it promises: after any crash, everything that was synced is there, changes of names are there in their order, and no file has bytes
//! that were never written to it.

mod batch_read;
mod check;
mod claim;
mod codec;
mod commit;
pub mod device;
mod dirty;
mod drive;
mod error;
mod extents;
#[cfg(test)]
mod fences;
mod files;
mod fuse;
mod keys;
mod landing;
mod lifetime;
mod log;
mod metadata;
#[cfg(test)]
mod model;
mod names;
mod open;
mod patches;
mod placement;
mod reason;
mod record;
mod reserve;
pub mod simulated;
mod space;
mod state;
mod store;
#[cfg(test)]
mod takeover;
mod totals;
mod tree;
#[cfg(test)]
mod waiting;
mod zones;

pub use check::Report;
pub use claim::{Claim, identify};
pub use device::ZoneDevice;
pub use drive::{APPEND_QUEUES, NamespaceZones};
pub use error::Error;
pub use files::Read;
pub use fuse::FileSystem;
pub use keys::KeyRange;
pub use lifetime::Lifetime;
pub use log::Layout;
pub use names::{Change, Replace};
pub use open::FormatOptions;
pub use placement::Placement;
pub use reason::Reason;
pub use record::{Attributes, Ino, NewKind};
pub use state::Counters;
pub use store::{FileKind, Stat, Store, Usage};
pub use zones::{ZoneState, ZoneUse};
