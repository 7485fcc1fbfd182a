//! What tests a block device that is made of others.
//!
//! - [`Disk`] is a device in memory that loses power, fails and vanishes.
//! - [`Oracle`] knows what each sector may hold.
//! - In a [`World`] a cache is used, changed, shut down, cut off and opened again at random.
//!
//! **The promise.** A read finds the last write that has ended. After a crash or a power cut each sector holds what it held at the last flush, or
//! something that was written since. Nothing else is ever seen.

mod disk;
mod oracle;
mod world;

pub use disk::{Disk, Gone, Power, limits};
pub use oracle::{Oracle, SECTOR, Stamp, contents, stamp};
pub use world::{Counts, Odds, Subject, World};

/// A number that an environment variable sets, if it is one.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}
