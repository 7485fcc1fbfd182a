//! Values that no source tells.

/// Over-provisioning of the published conventional drives of 1.92 and 1.60 TB, in percent of their capacity, as the paper counts it. Both are 2.05 TB. The rest of
/// 2 TiB of media holds no data: parity, spare blocks, the drive's own tables. The paper does not say so. Were all media over-provisioning, it would be 15 and 37 %.
pub(super) const OVER_PROVISIONING_PERCENT: [u64; 2] = [7, 28];

/// Bytes of the operating system's page cache: half of the published machine's memory.
pub(super) const PAGE_CACHE_BYTES: u64 = 64 << 30;
