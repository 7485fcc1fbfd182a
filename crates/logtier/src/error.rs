//! What can go wrong.

use crate::config::{ConfigError, OriginId};
use blockdev::Status;
use thiserror::Error;

/// Why a cache does not open.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The devices and the configuration do not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is nothing of a cache.
    #[error("the cache device holds no log-structured cache: make one first, or choose another device")]
    Foreign,
    /// A cache would be made over another one.
    #[error("the cache device holds a log-structured cache already: write it back and remove it first")]
    Exists,
    /// Checksums or numbers are wrong.
    #[error("the cache is damaged: {0}")]
    Damaged(&'static str),
    /// Another version.
    #[error("the cache has version {0}; this program reads version {known}", known = crate::config::VERSION)]
    Version(u32),
    /// Another bucket size.
    #[error("the cache was made with buckets of {recorded} bytes, and not of {asked}")]
    Bucket {
        /// What it was made with.
        recorded: u64,
        /// What was asked for.
        asked: u64,
    },
    /// An origin of another size.
    #[error("the cache was made for an origin of {recorded} bytes; this one has {found}")]
    OriginSize {
        /// What it was made for.
        recorded: u64,
        /// What there is.
        found: u64,
    },
    /// Another origin.
    #[error("the cache is that of another origin: of {recorded:02x}, not of {found:02x}")]
    OriginId {
        /// What it was made for.
        recorded: OriginId,
        /// What there is.
        found: OriginId,
    },
    /// A cache device of another size.
    #[error("the cache device had {recorded} bytes when the cache was made, and has {found}")]
    CacheSize {
        /// What it had.
        recorded: u64,
        /// What it has.
        found: u64,
    },
    /// A device failed meanwhile.
    #[error("{device} failed: {status}")]
    Device {
        /// Which one.
        device: &'static str,
        /// How.
        status: Status,
    },
    /// A journal cannot be read where no contents are kept.
    #[error("a cache whose devices keep no contents can be made, and not opened")]
    NoContents,
}

/// Why a control did not do what it should.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Another one is under way, or the cache is not open.
    #[error("the cache is busy with another change, or is not open")]
    Busy,
    /// Dirty blocks cannot be written back.
    #[error("{0} blocks are dirty still: a device failed")]
    Dirty(u32),
    /// The cache device failed before.
    #[error("the cache device failed before: the cache takes no change, and is left as after a crash")]
    Degraded,
    /// A device failed.
    #[error("what the cache knows could not be made durable: {0}")]
    Device(Status),
}
