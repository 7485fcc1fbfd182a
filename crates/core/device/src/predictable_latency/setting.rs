//! The configuration of Predictable Latency Mode, which outlives power.

use serde::{Deserialize, Serialize};

/// Value of Predictable Latency Mode Config for a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WindowSetting {
    pub(super) enabled: bool,
    /// Events that the aggregate log tells, as bits of [`nvme::plm::WindowEvents`].
    pub(super) events: u16,
    /// Thresholds of the warnings: reads and writes of 4 KiB, and milliseconds.
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) time: u64,
}
