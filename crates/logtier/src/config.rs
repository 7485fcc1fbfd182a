//! What a cache is made with.

use std::fmt;
use thiserror::Error;

/// The version of the format on the cache device.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a block: the unit of the index, and of the cache as a block device.
pub const BLOCK: u64 = 4096;
/// The smallest bucket: 64 KiB.
pub const BUCKET_MIN: u64 = 64 << 10;
/// The largest bucket: 16 MiB.
pub const BUCKET_MAX: u64 = 16 << 20;
/// The bucket if nothing else is said: 512 KiB (bcache-tools).
pub const BUCKET_DEFAULT: u64 = 512 << 10;
/// Bytes of a stream of requests in order from which on it goes past the cache: 4 MiB (bcache's documentation, "Troubleshooting performance").
pub const SEQUENTIAL_CUTOFF: u64 = 4 << 20;

/// What a write does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A write goes to the cache, and later to the origin.
    #[default]
    Writeback,
    /// A write goes to both.
    Writethrough,
    /// A write goes to the origin, and what the cache has of it is dropped. Reads are cached.
    Writearound,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Writeback => "writeback",
            Mode::Writethrough => "writethrough",
            Mode::Writearound => "writearound",
        })
    }
}

/// Which clean bucket is used again first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replacement {
    /// The one that was read longest ago, weighed by how much of it is valid.
    #[default]
    Lru,
    /// The one that was filled first.
    Fifo,
    /// Any.
    Random,
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Replacement::Lru => "lru",
            Replacement::Fifo => "fifo",
            Replacement::Random => "random",
        })
    }
}

/// What names an origin. A cache opens with the origin that it was made with, and with no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OriginId(pub [u8; 16]);

impl fmt::LowerHex for OriginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a cache is made with, and opened with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Bytes of a bucket: a power of two from [`BUCKET_MIN`] to [`BUCKET_MAX`]. It stays as the cache was made.
    pub bucket: u64,
    /// What a write does.
    pub mode: Mode,
    /// Which clean bucket is used again first.
    pub replacement: Replacement,
    /// Bytes of a stream in order from which on it goes past the cache; 0: none does.
    pub sequential_cutoff: u64,
    /// Percent of the cache that may be dirty before the write-back speeds up: 0 to 70 (bcache's `writeback_percent`, 10).
    pub dirty_target: u8,
    /// Bytes per second of the write-back while hosts use the cache, at most and at least. At least 4096 each. bcache's least is 4 KiB.
    pub writeback_rate: (u64, u64),
    /// What names the origin.
    pub origin: OriginId,
    /// Whether the devices keep contents. Without, a cache can be made and not opened: simulations of time only.
    pub contents: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bucket: BUCKET_DEFAULT,
            mode: Mode::Writeback,
            replacement: Replacement::Lru,
            sequential_cutoff: SEQUENTIAL_CUTOFF,
            dirty_target: 10,
            writeback_rate: (4 << 10, 64 << 20),
            origin: OriginId::default(),
            contents: true,
        }
    }
}

/// Why devices and a configuration do not fit.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No possible bucket.
    #[error("a bucket of {0} bytes is not possible: a power of two from {BUCKET_MIN} to {BUCKET_MAX} is")]
    Bucket(u64),
    /// No possible share.
    #[error("a target of {0} % dirty data is not possible: 0 to 70 are")]
    DirtyTarget(u8),
    /// No possible rates.
    #[error(
        "a write-back from {0} to {1} bytes per second is not possible: 4096 or more, and no less than the least"
    )]
    Rate(u64, u64),
    /// Blocks that do not fit.
    #[error(
        "{device} has blocks of {block} bytes; the cache needs blocks that {BLOCK} bytes are a multiple of"
    )]
    BlockSize {
        /// Which one.
        device: &'static str,
        /// Its blocks.
        block: u32,
    },
    /// Requests that are too short.
    #[error("{device} takes {bytes} bytes in a request; the cache needs {BLOCK}")]
    TransferTooSmall {
        /// Which one.
        device: &'static str,
        /// What it takes.
        bytes: u64,
    },
    /// An origin with a rest, or none.
    #[error("the origin has {0} bytes: a multiple of {BLOCK} is needed, up to 16 TiB. Use a partition of it")]
    Origin(u64),
    /// A cache that is too small, or too large.
    #[error(
        "the cache device has {found} bytes; with buckets of {bucket} bytes it needs {needed}, and at most 16 TiB"
    )]
    Cache {
        /// Its bytes.
        found: u64,
        /// What it needs at least.
        needed: u64,
        /// Bytes of a bucket.
        bucket: u64,
    },
}
