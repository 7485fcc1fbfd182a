//! Whether the drive has power.

use media::Nanos;

/// Whether there is power, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Power {
    pub on: bool,
    /// When it came.
    pub since: Nanos,
}

impl Default for Power {
    fn default() -> Self {
        Power { on: true, since: Nanos::ZERO }
    }
}
