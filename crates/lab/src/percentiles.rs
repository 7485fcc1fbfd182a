//! A latency in a few numbers.

use serde::Serialize;

/// Percentiles of a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many were measured.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 in 100 are no longer than this.
    pub p95: f64,
    /// 99 in 100 are no longer than this.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}
