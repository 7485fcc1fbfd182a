//! What was captured, as the logs show it and the saved state keeps it.

use nvme::log::TELEMETRY_BLOCK;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What outlives power: how many captures there were, and the controller-initiated one until a host has read it (Base
/// 5.1.12.1.9).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedTelemetry {
    /// Generation of the host-initiated capture.
    pub(super) host: u8,
    /// Generation of the controller-initiated capture.
    pub(super) controller: u8,
    /// The controller-initiated capture.
    pub(super) own: Option<Capture>,
}

/// Data areas 1 to 3, and why they were captured.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Capture {
    /// A line for each area; empty if nothing was captured.
    areas: [String; 3],
    pub(super) reason: String,
}

impl Capture {
    pub(super) fn new(areas: [Value; 3], reason: String) -> Capture {
        Capture { areas: areas.map(|area| format!("{area}\n")), reason }
    }

    /// Last block of each area, as they follow each other; FFFFh also stands for any later block.
    pub(super) fn last_blocks(&self) -> [u16; 3] {
        let mut blocks = 0;
        self.areas.each_ref().map(|area| {
            blocks += area.len().div_ceil(TELEMETRY_BLOCK);
            u16::try_from(blocks).unwrap_or(u16::MAX)
        })
    }

    /// Appends the areas to a log, each of whole blocks.
    pub(super) fn write(&self, log: &mut Vec<u8>) {
        for area in &self.areas {
            log.extend_from_slice(area.as_bytes());
            log.resize(log.len().next_multiple_of(TELEMETRY_BLOCK), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_whole_blocks() {
        let areas = ["a".repeat(10), "b".repeat(TELEMETRY_BLOCK), String::new()];
        let capture = Capture::new(areas.map(Value::String), String::from("test"));
        // Quotes and the line's end make the second area longer than one block.
        assert_eq!(capture.last_blocks(), [1, 3, 4]);
        let mut log = vec![0; TELEMETRY_BLOCK];
        capture.write(&mut log);
        assert_eq!(log.len(), 5 * TELEMETRY_BLOCK);
        assert_eq!(Capture::default().last_blocks(), [0, 0, 0]);
    }

    #[test]
    fn huge_areas_end_at_the_largest_number() {
        let text = "x".repeat(70_000 * TELEMETRY_BLOCK);
        let capture = Capture::new([Value::Null, Value::String(text), Value::Null], String::new());
        assert_eq!(capture.last_blocks(), [1, u16::MAX, u16::MAX]);
    }
}
