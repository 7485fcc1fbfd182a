//! What a tier is made with.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Bytes of a sector: the unit of dm-cache's numbers.
pub const SECTOR: u64 = 512;
/// The smallest chunk, of which every chunk is a multiple: 32 KiB (dm-cache's documentation, "Fixed block size").
pub const CHUNK_MIN: u64 = 32 << 10;
/// The largest chunk: 1 GiB.
pub const CHUNK_MAX: u64 = 1 << 30;
/// Sectors that migrate at the same time, if nothing else is said (`DEFAULT_MIGRATION_THRESHOLD`).
pub const MIGRATION_THRESHOLD: u64 = 2048;

/// Chunks of an origin at most: entries number them with 29 bits.
const ORIGIN_CHUNKS: u64 = (1 << 29) - 1;
/// Chunks of a cache at most, as in the kernel: 28 bits.
const CACHE_CHUNKS: u64 = (1 << 28) - 1;

/// What a write does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A write to a cached chunk goes to the cache only, and makes the chunk dirty.
    #[default]
    Writeback,
    /// A write to a cached chunk goes to both devices. Clean chunks stay clean.
    Writethrough,
    /// Every request goes to the origin. A write to a cached chunk takes the chunk out of the cache.
    Passthrough,
}

/// Which chunks are cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyKind {
    /// The multi-queue of RHEL 7.1 and of Linux before 4.6, with the core of that time.
    Mq,
    /// The stochastic multi-queue since Linux 4.12.
    #[default]
    Smq,
    /// The stochastic multi-queue of Linux 4.2 to 4.11, with the core of that time.
    SmqBefore412,
    /// Nothing is promoted, and everything dirty is written back.
    Cleaner,
}

impl PolicyKind {
    /// Whether requests wait for the migrations that they cause, and the migration threshold limits promotions: Linux before 4.12.
    #[must_use]
    pub fn is_inline(self) -> bool {
        matches!(self, PolicyKind::Mq | PolicyKind::SmqBefore412)
    }

    /// dm-cache's name of it. Both generations of smq have the same one.
    #[must_use]
    pub fn kernel_name(self) -> &'static str {
        match self {
            PolicyKind::Mq => "mq",
            PolicyKind::Smq | PolicyKind::SmqBefore412 => "smq",
            PolicyKind::Cleaner => "cleaner",
        }
    }
}

/// A word that is none of those that are known.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{word:?} is not one of {known}{}", units::did_you_mean(.word, .known.split(", ")))]
pub struct UnknownWord {
    word: String,
    known: &'static str,
}

macro_rules! words {
    ($type:ident: $($name:literal => $value:ident),*; $known:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($type::$value => $name,)*
                })
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($name => Ok($type::$value),)*
                    _ => Err(UnknownWord { word: word.to_owned(), known: $known }),
                }
            }
        }
    };
}

words!(Mode: "writeback" => Writeback, "writethrough" => Writethrough, "passthrough" => Passthrough;
    "writeback, writethrough, passthrough");
words!(PolicyKind: "mq" => Mq, "smq" => Smq, "smq-4.11" => SmqBefore412, "cleaner" => Cleaner;
    "mq, smq, smq-4.11, cleaner");

/// What a user can set of the policy mq. The defaults are the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MqTunables {
    /// So many requests in sequence make the load sequential, and nothing is promoted. 0: never.
    pub sequential_threshold: u32,
    /// So many requests out of sequence make it random again.
    pub random_threshold: u32,
    /// Hits beyond the threshold that a chunk needs which is read.
    pub read_promote_adjustment: u32,
    /// Hits beyond the threshold that a chunk needs which is written.
    pub write_promote_adjustment: u32,
    /// Hits that a chunk needs which is discarded and written.
    pub discard_promote_adjustment: u32,
}

impl Default for MqTunables {
    fn default() -> Self {
        Self {
            sequential_threshold: 512,
            random_threshold: 4,
            read_promote_adjustment: 4,
            write_promote_adjustment: 8,
            discard_promote_adjustment: 1,
        }
    }
}

/// Which device this is, so that another one is not taken for it. Zeroes: it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceId(pub [u8; 16]);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("a device without an identity");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a tier is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Bytes of a chunk: 32 KiB to 1 GiB, a multiple of 32 KiB.
    pub chunk: u64,
    /// What a write does.
    pub mode: Mode,
    /// Which chunks are cached.
    pub policy: PolicyKind,
    /// Of the policy mq.
    pub mq: MqTunables,
    /// Sectors of 512 bytes that migrate at the same time.
    pub migration_threshold: u64,
    /// Whether deallocations go on to the origin. RHEL 7.1 kept them.
    pub discard_passdown: bool,
    /// The origin's identity: an identifier of a namespace, for example. It is recorded when the tier is made.
    pub origin: DeviceId,
    /// The cache device's identity. It is recorded by each session.
    pub cache: DeviceId,
    /// Opens metadata of which an operation failed before. What is there is checked as always.
    pub repair: bool,
    /// Whether the devices keep contents. Without, no buffer is moved, and a tier can be made and not opened.
    pub contents: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            chunk: 256 << 10,
            mode: Mode::default(),
            policy: PolicyKind::default(),
            mq: MqTunables::default(),
            migration_threshold: MIGRATION_THRESHOLD,
            discard_passdown: true,
            origin: DeviceId::default(),
            cache: DeviceId::default(),
            repair: false,
            contents: true,
        }
    }
}

/// Why a tier cannot be made of these devices.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The chunk.
    #[error("a chunk has 32 KiB to 1 GiB and is a multiple of 32 KiB; this one has {0} bytes")]
    Chunk(u64),
    /// The cache is smaller than a chunk.
    #[error("the cache device has {cache} bytes: less than one chunk of {chunk}")]
    CacheTooSmall {
        /// Bytes of the cache device.
        cache: u64,
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// The origin is smaller than a chunk.
    #[error("the origin has {origin} bytes: less than one chunk of {chunk}")]
    OriginTooSmall {
        /// Bytes of the origin.
        origin: u64,
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// Too many chunks.
    #[error("{device} has {chunks} chunks, and may have {most}: choose larger chunks")]
    TooManyChunks {
        /// Which device.
        device: &'static str,
        /// How many it has.
        chunks: u64,
        /// How many it may have.
        most: u64,
    },
    /// The metadata device.
    #[error("the metadata device has {bytes} bytes, and needs {needed} for {chunks} chunks")]
    MetadataTooSmall {
        /// Bytes of the device.
        bytes: u64,
        /// Bytes that are needed.
        needed: u64,
        /// Chunks of the cache.
        chunks: u32,
    },
    /// A device's blocks.
    #[error("{device} has blocks of {block} bytes, which do not divide {unit}")]
    BlockSize {
        /// Which device.
        device: &'static str,
        /// Bytes of its blocks.
        block: u32,
        /// What they must divide.
        unit: u64,
    },
    /// A device's limit.
    #[error("{device} takes {bytes} bytes in one request: less than one block of {block}")]
    TransferTooSmall {
        /// Which device.
        device: &'static str,
        /// Bytes of a request.
        bytes: u64,
        /// Bytes of the block.
        block: u32,
    },
}

impl Config {
    /// Checks the chunk alone.
    ///
    /// # Errors
    /// It is no multiple of 32 KiB, or out of range.
    pub fn check_chunk(&self) -> Result<(), ConfigError> {
        let good = (CHUNK_MIN..=CHUNK_MAX).contains(&self.chunk) && self.chunk.is_multiple_of(CHUNK_MIN);
        if good { Ok(()) } else { Err(ConfigError::Chunk(self.chunk)) }
    }

    /// Changes a tunable, by dm-cache's name and as a decimal number.
    ///
    /// # Errors
    /// There is none of this name with this policy, or the value is none.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let no = |what: &str| format!("{key} {value}: {what}");
        let number: u64 = value.parse().map_err(|_| no("the value is a number"))?;
        if key == "migration_threshold" {
            self.migration_threshold = number;
            return Ok(());
        }
        let number = u32::try_from(number).map_err(|_| no("the number is too large"))?;
        if self.policy != PolicyKind::Mq {
            return Err(no(&format!("the policy {} has no such tunable", self.policy)));
        }
        let place = match key {
            "sequential_threshold" => &mut self.mq.sequential_threshold,
            "random_threshold" => &mut self.mq.random_threshold,
            "read_promote_adjustment" => &mut self.mq.read_promote_adjustment,
            "write_promote_adjustment" => &mut self.mq.write_promote_adjustment,
            "discard_promote_adjustment" => &mut self.mq.discard_promote_adjustment,
            _ => return Err(no("there is no such tunable")),
        };
        *place = number;
        Ok(())
    }

    /// Whole chunks of the origin and of the cache.
    pub(crate) fn chunks(&self, origin: u64, cache: u64) -> Result<(u32, u32), ConfigError> {
        self.check_chunk()?;
        let chunk = self.chunk;
        if cache < chunk {
            return Err(ConfigError::CacheTooSmall { cache, chunk });
        }
        if origin < chunk {
            return Err(ConfigError::OriginTooSmall { origin, chunk });
        }
        let count = |device, bytes: u64, most: u64| {
            let chunks = bytes / chunk;
            match u32::try_from(chunks) {
                Ok(count) if chunks <= most => Ok(count),
                _ => Err(ConfigError::TooManyChunks { device, chunks, most }),
            }
        };
        Ok((count("the origin", origin, ORIGIN_CHUNKS)?, count("the cache device", cache, CACHE_CHUNKS)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_refused() {
        let config = |chunk| Config { chunk, ..Config::default() };
        for chunk in [0, 1, 16 << 10, 48 << 10, (1 << 30) + (32 << 10), u64::MAX] {
            assert_eq!(config(chunk).check_chunk(), Err(ConfigError::Chunk(chunk)));
        }
        for chunk in [32 << 10, 96 << 10, 1 << 30] {
            assert_eq!(config(chunk).check_chunk(), Ok(()));
        }
        let config = config(1 << 20);
        assert_eq!(config.chunks(10 << 20, 3 << 20), Ok((10, 3)));
        assert!(matches!(config.chunks(10 << 20, 1000), Err(ConfigError::CacheTooSmall { .. })));
        assert!(matches!(config.chunks(1000, 10 << 20), Err(ConfigError::OriginTooSmall { .. })));
        assert!(matches!(config.chunks(1 << 50, 1 << 20), Err(ConfigError::TooManyChunks { .. })));
        assert!(matches!(config.chunks(1 << 20, 1 << 50), Err(ConfigError::TooManyChunks { .. })));
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for mode in [Mode::Writeback, Mode::Writethrough, Mode::Passthrough] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for kind in [PolicyKind::Mq, PolicyKind::Smq, PolicyKind::SmqBefore412, PolicyKind::Cleaner] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "write-back".parse::<Mode>().unwrap_err();
        let known = "writeback, writethrough, passthrough";
        assert_eq!(
            error.to_string(),
            format!("\"write-back\" is not one of {known} (did you mean writeback?)")
        );
        let error = "lru".parse::<PolicyKind>().unwrap_err();
        assert_eq!(error.to_string(), "\"lru\" is not one of mq, smq, smq-4.11, cleaner");
    }
}
