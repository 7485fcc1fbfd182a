//! What can go wrong.

use crate::config::{ConfigError, DeviceId};
use blockdev::Status;
use thiserror::Error;

/// Why a tier does not open.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The devices and the configuration do not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is nothing of a tier.
    #[error("the metadata device holds no cache tier: make one first, or choose another device")]
    Foreign,
    /// A tier would be made over another one.
    #[error("the metadata device holds a cache tier already: remove it first")]
    Exists,
    /// Checksums are wrong.
    #[error("the metadata is damaged: {0}")]
    Damaged(&'static str),
    /// Another version.
    #[error("the metadata has version {0}; this program reads version {known}", known = crate::metadata::superblock::VERSION)]
    Version(u32),
    /// Another chunk size.
    #[error("the cache was made with chunks of {recorded} bytes, and not of {asked}")]
    Chunk {
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
    #[error("the cache is that of another origin: of {recorded}, not of {found}")]
    OriginId {
        /// What it was made for.
        recorded: DeviceId,
        /// What there is.
        found: DeviceId,
    },
    /// Another cache device.
    #[error(
        "this is not the cache device of the last session: that was {recorded}, and this is {found}. What is dirty is on the other one"
    )]
    CacheId {
        /// That of the last session.
        recorded: DeviceId,
        /// What there is.
        found: DeviceId,
    },
    /// One of two superblocks is damaged, and the other one may be older.
    #[error(
        "one of the two superblocks is damaged, and the other one may be older: restore the metadata device, or open the tier with repair, as after a crash of the session that the other one describes"
    )]
    SuperblockDamaged,
    /// The metadata device is smaller than it was.
    #[error("the metadata takes {needed} bytes; the device has {found}")]
    MetadataShrunk {
        /// Bytes that the metadata takes.
        needed: u64,
        /// Bytes of the device.
        found: u64,
    },
    /// The cache has grown too much.
    #[error(
        "the cache has {chunks} chunks now; its metadata has room for {capacity}: remove the cache and make it anew"
    )]
    Grown {
        /// Chunks of the cache.
        chunks: u32,
        /// Chunks that the metadata has room for.
        capacity: u64,
    },
    /// The cache has lost chunks that are dirty.
    #[error(
        "the cache device is too small now: its chunk {cblock} is dirty. Open the cache at its full size and write it back first"
    )]
    Shrunk {
        /// The first dirty chunk beyond its end.
        cblock: u32,
    },
    /// Passthrough needs a clean cache.
    #[error("passthrough needs a clean cache, and {0} chunks are dirty: write them back first")]
    NotClean(u32),
    /// An operation of metadata failed in an earlier session.
    #[error(
        "an operation of metadata failed before (needs_check): check the metadata device, and open the tier with repair"
    )]
    NeedsCheck,
    /// A device failed meanwhile.
    #[error("{device} failed: {status}")]
    Device {
        /// Which one.
        device: &'static str,
        /// How.
        status: Status,
    },
    /// Metadata cannot be read where no contents are kept.
    #[error("a tier whose devices keep no contents can be made, and not opened")]
    NoContents,
}

/// Why a control did not do what it should.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Another one is under way, or the tier is not open.
    #[error("the tier is busy with another change, or is not open")]
    Busy,
    /// Passthrough needs a clean cache.
    #[error("passthrough needs a clean cache, and {0} chunks are dirty: write them back first")]
    NotClean(u32),
    /// Invalidation needs passthrough mode.
    #[error("chunks are invalidated in passthrough mode only")]
    NotPassthrough,
    /// No such chunks.
    #[error("the cache has chunks 0 to {0}, one past the end")]
    Range(u32),
    /// Dirty chunks cannot be written back.
    #[error("{0} chunks are dirty still: a device failed")]
    Dirty(u32),
    /// A device failed before.
    #[error("{0} failed before: the tier takes no change, and is left as after a crash")]
    Degraded(&'static str),
    /// The metadata was not written.
    #[error("the metadata could not be written: {0}")]
    Metadata(Status),
    /// A name or value that is none.
    #[error("{0}")]
    Setting(String),
}
