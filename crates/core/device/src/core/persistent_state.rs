//! What the controller keeps for the drive's whole life, and the accounts that SMART shows.

use crate::feature::values::FeatureValues;
use crate::firmware::slots::SlotTable;
use crate::keys::wrapped::DriveKeyId;
use crate::persistent_event_log::events::PersistentEvents;
use crate::predictable_latency::setting::WindowSetting;
use crate::sanitize::record::SanitizeRecord;
use crate::self_test::state::SelfTests;
use crate::stats::counts::Traffic;
use crate::telemetry::capture::SavedTelemetry;
use ftl::SetId;
use serde::{Deserialize, Serialize};

/// Counts and saved feature values that outlive power.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentState {
    /// Namespaces ever made: the source of their unique identifiers.
    pub namespaces_made: u64,
    /// The drive's own number, another source of them: see [`Drive::made`](crate::Drive::made).
    pub mark: u64,
    pub power_cycles: u64,
    pub unsafe_shutdowns: u64,
    /// Nanoseconds with power, before this power cycle.
    pub powered: u64,
    /// Nanoseconds with an I/O command on its way.
    pub busy: u64,
    pub media_errors: u64,
    pub error_entries: u64,
    /// Times that the capacitors had to save what was in the buffer.
    pub backups: u64,
    /// Whether they failed when the power went, until it is back.
    pub backup_failed: bool,
    /// Stamps given to namespaces since blocks of theirs were marked uncorrectable.
    pub stamps: u32,
    /// Whether everything was shut down in order.
    pub clean: bool,
    /// Firmware slots.
    pub firmware: SlotTable,
    /// Device self-tests.
    pub self_tests: SelfTests,
    /// Events of the Persistent Event log.
    #[serde(rename = "history")]
    pub events: PersistentEvents,
    /// Telemetry that the controller captured by itself.
    pub telemetry: SavedTelemetry,
    /// Saved values of features.
    pub saved: FeatureValues,
    /// The key that wraps the keys of namespaces, once there was one.
    pub drive_key: Option<DriveKeyId>,
    /// Whether nothing that was written since the drive was made, or sanitized, is on the media in the clear.
    pub encrypted: bool,
    /// The most recent sanitize operation.
    pub sanitize: SanitizeRecord,
    /// Saved configuration of Predictable Latency Mode, by NVM Set.
    pub windows: Vec<WindowSetting>,
    /// Flexible Data Placement, by NVM Set.
    pub fdp: Vec<crate::fdp::group::FdpGroup>,
    /// Host traffic by NVM Set.
    traffic: Vec<Traffic>,
}

impl PersistentState {
    /// Host traffic of a set.
    #[inline]
    pub fn traffic_mut(&mut self, set: SetId) -> &mut Traffic {
        let index = usize::from(set.0);
        if index >= self.traffic.len() {
            self.traffic.resize(index + 1, Traffic::default());
        }
        &mut self.traffic[index]
    }

    /// Host traffic of a set.
    pub fn traffic(&self, set: SetId) -> Traffic {
        self.traffic.get(usize::from(set.0)).copied().unwrap_or_default()
    }

    /// Host traffic of all sets.
    pub fn total(&self) -> Traffic {
        self.traffic.iter().fold(Traffic::default(), |a, b| a.and(*b))
    }
}
