//! Values that no source tells, with how they were found. Each matches a published result of the conventional drive with 7 % of spare.

/// Superblocks of a conventional drive, in thousandths of those that 2 TiB of media have: steady writes of `cns-7`, 370 MiB/s (226 with 1000). Chips have more blocks than their
/// nominal size, and the paper does not say how many the drives had.
pub(super) const MEDIA_PER_MILLE: u64 = 1105;
