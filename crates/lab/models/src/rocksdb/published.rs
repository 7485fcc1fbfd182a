//! The published database and its drive.
//!
//! - \[ATC\]: M. Bjorling et al., "ZNS: Avoiding the Block Interface Tax for Flash-based SSDs", USENIX ATC 2021.

/// Keys of the database on zones, and bytes of a key, of a value, and of a compressed value (\[ATC\] section 5.2).
pub const KEYS: u64 = 3_800_000_000;
/// See [`KEYS`].
pub const RECORD: (u32, u32, u32) = (20, 800, 400);
/// Bytes of the tables over the capacity of a drive, in percent (\[ATC\] section 5.2).
pub const FILLED_PERCENT: u64 = 80;
/// Bytes that compactions are behind from which on writes are slowed down and stopped: defaults of db_bench.
pub(super) const PENDING_BYTES: (u64, u64) = (64 << 30, 128 << 30);

/// The drive of the published experiment.
pub const DEFAULT_PROFILE: &str = "zn540-2t";
/// Fraction of its capacity, by default.
pub const DEFAULT_SCALE: u32 = 256;
/// What db_bench took on a machine of our own, with Snappy (docs/studies/zoned-models.md). Not fitted.
pub const DEFAULT_COMPACTION_NS: u64 = 6_000;
