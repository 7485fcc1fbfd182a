//! What was published: Micron, "Using Namespaces on the Micron 9300 NVMe SSD to Improve Application Performance", June 2019.

/// How much better eight namespaces are than one: "roughly 80% better". The article does not name the metric.
pub(super) const EIGHT_OVER_ONE: f64 = 1.8;
/// The pair of numbers of namespaces that this is about.
pub(super) const PAIR: (u32, u32) = (8, 1);
/// Service threads, queues, and threads per queue of the published runs of version 5.1.
pub(super) const THREADS: (u32, u32, u32) = (8, 8, 128);
