//! The two devices, and what lies where on the cache device.

use crate::config::{BLOCK, BUCKET_MAX, BUCKET_MIN, Config, ConfigError};
use blockdev::{Geometry, Limits};

/// One of the two devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Device {
    /// The large and slow one.
    Origin,
    /// The small and fast one.
    Cache,
}

impl Device {
    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Device::Origin => "the origin",
            Device::Cache => "the cache device",
        }
    }
}

/// What the two devices are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometries {
    /// Of the origin.
    pub origin: Geometry,
    /// Of the cache device.
    pub cache: Geometry,
}

/// Blocks of the two superblocks, at the beginning of the cache device.
pub(crate) const SUPERBLOCKS: u32 = 2;
/// Blocks of the smallest journal.
const JOURNAL_MIN: u32 = 128;
/// Blocks of the cache device for one of the journal.
const PER_JOURNAL: u32 = 48;
/// Buckets of the smallest cache.
const BUCKETS_MIN: u32 = 8;
/// Requests of the journal are no longer than this: 128 KiB.
const JOURNAL_BATCH: u32 = 32;
/// Blocks of the journal that a commit takes at most, of the smallest journal.
const COMMIT_MIN: u32 = 24;

/// Sizes in blocks of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Of the cache as a block device.
    pub(crate) geometry: Geometry,
    /// Blocks of a device in one of 4 KiB.
    per_origin: u64,
    per_cache: u64,
    pub(crate) origin_blocks: u32,
    pub(crate) cache_blocks: u32,
    /// Of a bucket.
    pub(crate) bucket: u32,
    pub(crate) buckets: u32,
    /// Of the journal.
    pub(crate) journal: u32,
    /// The block of the first bucket.
    pub(crate) first: u32,
    /// The longest read or write of either device.
    pub(crate) transfer: u32,
    /// The longest request of the journal.
    pub(crate) journal_batch: u32,
}

impl Shape {
    pub(crate) fn new(config: &Config, all: &Geometries) -> Result<Self, ConfigError> {
        if !config.bucket.is_power_of_two() || !(BUCKET_MIN..=BUCKET_MAX).contains(&config.bucket) {
            return Err(ConfigError::Bucket(config.bucket));
        }
        if config.dirty_target > 70 {
            return Err(ConfigError::DirtyTarget(config.dirty_target));
        }
        let (least, most) = config.writeback_rate;
        if least < BLOCK || most < least {
            return Err(ConfigError::Rate(least, most));
        }
        let mut limits = Vec::new();
        for (device, of) in [("the origin", &all.origin), ("the cache device", &all.cache)] {
            let block = of.block_size;
            if block == 0 || !BLOCK.is_multiple_of(block.into()) {
                return Err(ConfigError::BlockSize { device, block });
            }
            let per = (BLOCK / u64::from(block)) as u32;
            let least = of.limits.transfer.min(of.limits.write_zeroes).min(of.limits.deallocate);
            if least < per {
                let bytes = u64::from(least) * u64::from(block);
                return Err(ConfigError::TransferTooSmall { device, bytes });
            }
            limits.push(Limits {
                transfer: of.limits.transfer / per,
                write_zeroes: of.limits.write_zeroes / per,
                deallocate: of.limits.deallocate / per,
                copy: 1,
                append: 1,
            });
        }
        let bytes = |of: &Geometry| of.blocks.saturating_mul(of.block_size.into());
        let (origin, cache) = (bytes(&all.origin), bytes(&all.cache));
        let origin_blocks = u32::try_from(origin / BLOCK).ok().filter(|blocks| *blocks < u32::MAX - 1);
        let origin_blocks = origin_blocks
            .filter(|blocks| *blocks > 0 && origin.is_multiple_of(BLOCK))
            .ok_or(ConfigError::Origin(origin))?;
        let bucket = (config.bucket / BLOCK) as u32;
        let layout = |cache_blocks: u32| {
            let journal = JOURNAL_MIN.max(cache_blocks / PER_JOURNAL);
            let first = (SUPERBLOCKS + journal).next_multiple_of(bucket);
            (journal, first, cache_blocks.saturating_sub(first) / bucket)
        };
        let least = (SUPERBLOCKS + JOURNAL_MIN).next_multiple_of(bucket) + BUCKETS_MIN * bucket;
        let needed = u64::from(least) * BLOCK;
        let too_small = ConfigError::Cache { found: cache, needed, bucket: config.bucket };
        let cache_blocks =
            u32::try_from(cache / BLOCK).ok().filter(|it| *it < u32::MAX - 1).ok_or(too_small.clone())?;
        let (journal, first, buckets) = layout(cache_blocks);
        if buckets < BUCKETS_MIN {
            return Err(too_small);
        }
        let transfer = limits[0].transfer.min(limits[1].transfer);
        let limits = Limits { transfer, copy: transfer, ..limits[0] };
        let geometry = Geometry { block_size: BLOCK as u32, blocks: origin_blocks.into(), limits };
        let per = |of: &Geometry| BLOCK / u64::from(of.block_size);
        Ok(Self {
            geometry,
            per_origin: per(&all.origin),
            per_cache: per(&all.cache),
            origin_blocks,
            cache_blocks,
            bucket,
            buckets,
            journal,
            first,
            transfer,
            journal_batch: transfer.min(JOURNAL_BATCH),
        })
    }

    /// Blocks of a device in one of 4 KiB.
    #[inline]
    pub(crate) fn per(&self, device: Device) -> u64 {
        match device {
            Device::Origin => self.per_origin,
            Device::Cache => self.per_cache,
        }
    }

    /// Places for blocks.
    pub(crate) fn places(&self) -> u32 {
        self.bucket * self.buckets
    }

    /// Blocks of the journal that a commit takes at most.
    pub(crate) fn commit(&self) -> u32 {
        COMMIT_MIN.max(self.journal / 8)
    }

    /// Blocks of the journal within which all places are written down once.
    pub(crate) fn cycle(&self) -> u32 {
        self.journal / 2 - self.commit() * 3 / 2
    }
}
