//! Values that no source tells, with how they were found. Those that are fitted match a published result of the conventional drive with 7 % of spare; others are assumed, and say so.

/// Superblocks of a conventional drive, in thousandths of those that 2 TiB of media have: steady writes of `cns-7`, 370 MiB/s (226 with 1000). Chips have more blocks than their
/// nominal size, and the paper does not say how many the drives had.
pub(super) const MEDIA_PER_MILLE: u64 = 1093;

/// Bytes of the operating system's cache of pages, on the published machine. Assumed: its memory is not told in the figures that this study has.
pub(super) const CACHE: u64 = 64 << 30;
