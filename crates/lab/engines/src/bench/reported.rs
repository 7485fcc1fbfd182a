//! What the reports are made of.

use super::worker::Usage;
use load_formats::fio::JobSpec;
use std::time::Duration;

/// What is reported as one: a clone, or with `group_reporting` all clones of a group.
pub(crate) struct Reported<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) clones: u32,
    pub(super) stats: load_formats::fio::Stats,
    pub(super) error: i32,
    /// What its threads used; nothing in virtual time, where it has none.
    pub(super) usage: Option<Usage>,
    /// Seconds of all its threads.
    pub(super) elapsed: Duration,
}

/// How many in a second, of what took so many nanoseconds; none of what was over before it began.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
pub fn per_second(count: u64, nanos: u64) -> f64 {
    if nanos == 0 { 0.0 } else { count as f64 * 1e9 / nanos as f64 }
}
