//! A latency in a few numbers.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

/// Percentiles of a latency. In results they are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Percentiles {
    /// How many were measured.
    pub count: u64,
    /// The mean.
    #[schemars(extend("unit" = "ms"))]
    pub mean: f64,
    /// The median.
    #[schemars(extend("unit" = "ms"))]
    pub p50: f64,
    /// 95 in 100 are no longer than this.
    #[schemars(extend("unit" = "ms"))]
    pub p95: f64,
    /// 99 in 100 are no longer than this.
    #[schemars(extend("unit" = "ms"))]
    pub p99: f64,
    /// The longest.
    #[schemars(extend("unit" = "ms"))]
    pub max: f64,
}

impl Percentiles {
    /// Of a histogram, whose values are divided by `unit`: nanoseconds by 1e3 are microseconds.
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes at most")]
    pub fn of(histogram: &Histogram<u64>, unit: f64) -> Self {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / unit;
        Self {
            count: histogram.len(),
            mean: histogram.mean() / unit,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}
