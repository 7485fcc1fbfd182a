//! What was published (`dell-rh15`): the set-up of MariaDB and sysbench, and two takeaways.

/// The NVMe drive "improves by 18x" over the hard disk.
pub(super) const NVME: f64 = 18.0;
/// dm-cache with an NVMe drive: 4x.
pub(super) const CACHE: f64 = 4.0;
/// Transactions of a variant over those on the disk.
pub(super) fn over_disk(variant: &str) -> Option<f64> {
    match variant.trim_start_matches("virtual-") {
        "nvme" | "nvme-cold" => Some(NVME),
        "cache-writethrough" | "cache-writeback" | "cache-cold" | "cache-second" | "cache-full"
        | "cache-full-cold" => Some(CACHE),
        _ => None,
    }
}
/// Rows of the table.
pub(super) const ROWS: u64 = 100_000_000;
/// Threads of sysbench.
pub(super) const THREADS: u32 = 32;
/// Bytes of the log files: 32 GB each.
pub(super) const REDO: u64 = 64 << 30;
