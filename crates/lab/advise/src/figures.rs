//! Figures that only some layouts have.

use schemars::JsonSchema;
use serde::Serialize;

use lab_report::figure::show;

/// Bounds for a part of the warm-up, after which a cache is warm. The share of reads that hit changes by less than so many points. Less than so
/// many percent of the cache is filled.
pub const SETTLED_PERCENT: f64 = 1.0;

/// A figure that only some layouts have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// What the neighbour writes and reads, in bytes a second.
    Neighbour,
    /// Percent of the reads that the cache answered, in the measured time.
    ReadHits,
    /// Percent of the cache that held data when the measured time began.
    CacheFilled,
    /// Seconds of load that warmed the cache.
    CacheWarmUp,
    /// Points by which the percentage of reads that hit changed in the last part of that warm-up.
    ReadHitsMoved,
}

impl Figure {
    /// For the report.
    pub fn title(self) -> &'static str {
        match self {
            Self::Neighbour => "the neighbour moves, MB/s",
            Self::ReadHits => "reads that hit the cache, %",
            Self::CacheFilled => "the cache was filled at the begin, %",
            Self::CacheWarmUp => "it had been warmed for, s",
            Self::ReadHitsMoved => "hits still moved at the end of that by points of",
        }
    }

    /// A value for the report.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Neighbour => show(value / 1e6),
            Self::ReadHits | Self::CacheFilled | Self::CacheWarmUp => show(value),
            Self::ReadHitsMoved => format!("{value:+.1}"),
        }
    }
}
