//! The three devices, and how their blocks and chunks lie to each other.

use crate::chunk::{Cblock, Oblock};
use crate::config::{Config, ConfigError, SECTOR};
use crate::metadata::BLOCK;
use crate::metadata::layout::Layout;
use crate::metadata::table::DISCARDS;
use blockdev::{Geometry, Limits};

/// One of the three devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Device {
    /// The large and slow one.
    Origin,
    /// The small and fast one.
    Cache,
    /// What says what lies on the cache.
    Metadata,
}

impl Device {
    /// All of them.
    pub const ALL: [Device; 3] = [Device::Origin, Device::Cache, Device::Metadata];

    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Device::Origin => "the origin",
            Device::Cache => "the cache device",
            Device::Metadata => "the metadata device",
        }
    }
}

/// What the three devices are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometries {
    /// Of the origin.
    pub origin: Geometry,
    /// Of the cache device.
    pub cache: Geometry,
    /// Of the metadata device.
    pub metadata: Geometry,
}

impl Config {
    /// Whether a tier can be made of devices of these sizes.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self, devices: &Geometries) -> Result<(), ConfigError> {
        let shape = Shape::new(self, devices)?;
        Layout::new(shape.cache_chunks, shape.metadata_bytes).map(drop)
    }
}

/// Sizes in the tier's own blocks, and factors from them to those of the devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The tier's own geometry.
    pub(crate) geometry: Geometry,
    /// Blocks of a chunk.
    pub(crate) chunk: u64,
    pub(crate) origin_chunks: u32,
    pub(crate) cache_chunks: u32,
    /// Blocks of a device in one of the tier's.
    per_origin: u64,
    per_cache: u64,
    /// Blocks of the metadata device in one of metadata; and blocks of metadata in one request.
    pub(crate) per_metadata: u64,
    pub(crate) metadata_batch: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) origin_bytes: u64,
    /// Bytes of a block of discards.
    pub(crate) discard_block: u64,
    /// Blocks that a migration copies in one request.
    pub(crate) copy: u64,
}

fn bytes(geometry: &Geometry) -> u64 {
    geometry.blocks.saturating_mul(geometry.block_size.into())
}

/// Requests of metadata are no longer than this: 128 KiB.
const METADATA_BATCH: u64 = 32;
/// A migration copies so many bytes in one request: dm-kcopyd's parts, 64 KiB in RHEL 7.1, and 512 KiB today (`kcopyd_subjob_size_kb`).
const COPY_INLINE: u64 = 64 << 10;
const COPY: u64 = 512 << 10;

impl Shape {
    pub(crate) fn new(config: &Config, all: &Geometries) -> Result<Self, ConfigError> {
        let Geometries { origin, cache, metadata } = all;
        let (origin_chunks, cache_chunks) = config.chunks(bytes(origin), bytes(cache))?;
        let block = origin.block_size.max(cache.block_size);
        for (device, of, unit) in [
            ("the origin", origin.block_size, config.chunk),
            ("the cache device", cache.block_size, config.chunk),
            ("the metadata device", metadata.block_size, BLOCK),
        ] {
            if of == 0 || !unit.is_multiple_of(of.into()) || !block.is_multiple_of(of.min(block)) {
                return Err(ConfigError::BlockSize { device, block: of, unit });
            }
        }
        let limits = Self::limits(block, origin, cache)?;
        let batch = u64::from(metadata.limits.transfer) * u64::from(metadata.block_size) / BLOCK;
        if batch == 0 {
            let bytes = u64::from(metadata.limits.transfer) * u64::from(metadata.block_size);
            return Err(ConfigError::TransferTooSmall {
                device: "the metadata device",
                bytes,
                block: BLOCK as u32,
            });
        }
        let per_origin = u64::from(block / origin.block_size);
        let chunk = config.chunk / u64::from(block);
        let copy = if config.policy.is_inline() { COPY_INLINE } else { COPY } / u64::from(block);
        let mut discard_block = config.chunk;
        while bytes(origin).div_ceil(discard_block) > DISCARDS {
            discard_block *= 2;
        }
        Ok(Self {
            geometry: Geometry { block_size: block, blocks: origin.blocks / per_origin, limits },
            chunk,
            origin_chunks,
            cache_chunks,
            per_origin,
            per_cache: u64::from(block / cache.block_size),
            per_metadata: BLOCK / u64::from(metadata.block_size),
            metadata_batch: batch.min(METADATA_BATCH),
            metadata_bytes: bytes(metadata),
            origin_bytes: bytes(origin),
            discard_block,
            copy: copy.min(limits.transfer.into()).min(limits.write_zeroes.into()).clamp(1, chunk),
        })
    }

    /// What both devices take, in blocks of `block` bytes.
    fn limits(block: u32, origin: &Geometry, cache: &Geometry) -> Result<Limits, ConfigError> {
        let in_blocks = |device, of: &Geometry, limit: u32| {
            let per = block / of.block_size;
            match limit / per {
                0 => {
                    let bytes = u64::from(limit) * u64::from(of.block_size);
                    Err(ConfigError::TransferTooSmall { device, bytes, block })
                }
                limit => Ok(limit),
            }
        };
        let both = |of: fn(&Limits) -> u32| {
            let origin = in_blocks("the origin", origin, of(&origin.limits))?;
            Ok(origin.min(in_blocks("the cache device", cache, of(&cache.limits))?))
        };
        let transfer = both(|limits| limits.transfer)?;
        Ok(Limits {
            transfer,
            write_zeroes: both(|limits| limits.write_zeroes)?,
            deallocate: in_blocks("the origin", origin, origin.limits.deallocate)?,
            // A copy is a read and a write.
            copy: transfer,
            append: 1,
        })
    }

    /// The chunk of a block; `None` in the rest of the origin that is no whole chunk. That is not cached.
    #[inline]
    pub(crate) fn oblock(&self, lba: u64) -> Option<Oblock> {
        u32::try_from(lba / self.chunk).ok().filter(|chunk| *chunk < self.origin_chunks).map(Oblock)
    }

    /// The first block of a chunk on the origin.
    #[inline]
    pub(crate) fn on_origin(&self, oblock: Oblock) -> u64 {
        u64::from(oblock.0) * self.chunk
    }

    /// The first block of a place on the cache device.
    #[inline]
    pub(crate) fn on_cache(&self, cblock: Cblock) -> u64 {
        u64::from(cblock.0) * self.chunk
    }

    /// Blocks of a device in one of the tier's.
    #[inline]
    pub(crate) fn per(&self, device: Device) -> u64 {
        match device {
            Device::Origin => self.per_origin,
            Device::Cache => self.per_cache,
            Device::Metadata => self.per_metadata,
        }
    }

    /// Sectors of 512 bytes in so many blocks.
    #[inline]
    pub(crate) fn sectors(&self, blocks: u64) -> u64 {
        blocks * (u64::from(self.geometry.block_size) / SECTOR)
    }

    /// Blocks of discards.
    pub(crate) fn discards(&self) -> u32 {
        self.origin_bytes.div_ceil(self.discard_block) as u32
    }

    /// The block of discards of a chunk.
    pub(crate) fn discard_of(&self, oblock: Oblock) -> u32 {
        let block = self.discard_block / u64::from(self.geometry.block_size);
        (self.on_origin(oblock) / block) as u32
    }
}
