//! What was published, and what was not (`dell-rh15`): sixteen plots without values, and one takeaway.

/// "When compared to SAS SSD by 400%": four times, or five. The text does not say of which plot.
pub(super) const NVME_OVER_SAS: (f64, f64) = (4.0, 5.0);
/// The published ratio of a metric of one variant over another: of random reads, NVMe over the SAS SSD.
pub(super) fn ratio(metric: &str, of: &str, over: &str) -> Option<f64> {
    let is_of_pair = of.contains("nvme") && over.contains("sas-ssd") && !over.ends_with("-h330");
    (metric == "randread_iops" && is_of_pair).then_some(NVME_OVER_SAS.1)
}
/// Jobs and depth of the printed fio job, which reads 4 KiB at random with libaio and direct I/O.
pub(super) const JOBS: u32 = 16;
/// Requests that each of them has under way.
pub(super) const DEPTH: u32 = 512;
/// Bytes of each job's file.
pub(super) const FILE: u64 = 4 << 30;
