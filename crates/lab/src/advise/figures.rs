//! Figures that only some layouts have.

use serde::Serialize;

use crate::figure::show;

/// A figure that only some layouts have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// What the neighbour writes and reads, in bytes a second.
    Neighbour,
}

impl Figure {
    /// For the report.
    pub fn title(self) -> &'static str {
        match self {
            Self::Neighbour => "the neighbour moves, MB/s",
        }
    }

    /// A value for the report.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Neighbour => show(value / 1e6),
        }
    }
}
