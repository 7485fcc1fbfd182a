//! What was published (`dell-rh15`): the set-up of MariaDB and sysbench, and two takeaways.

/// The NVMe drive "improves by 18x" over the hard disk.
pub(super) const NVME: f64 = 18.0;
/// dm-cache with an NVMe drive: 4x.
pub(super) const CACHE: f64 = 4.0;
/// Rows of the table.
pub(super) const ROWS: u64 = 100_000_000;
/// Threads of sysbench.
pub(super) const THREADS: u32 = 32;
/// Bytes of the log files: 32 GB each.
pub(super) const REDO: u64 = 64 << 30;
