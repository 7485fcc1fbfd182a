//! The controller's non-volatile state as one section of JSON, recorded on every change.

use super::namespace::Namespace;
use super::persistent_state::PersistentState;
use super::state::Core;
use crate::contents::Contents;
use crate::stats::counts::Traffic;
use ftl::{Record, Section};
use serde::{Deserialize, Serialize};

/// Version of the section.
pub(crate) const SECTION_VERSION: u32 = 1;

/// The section. `N` is a namespace, as it is written or read.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedState<N> {
    pub version: u32,
    #[serde(rename = "life")]
    pub persistent: PersistentState,
    /// With their identifiers.
    pub namespaces: Vec<(u32, N)>,
}

/// A namespace with its traffic up to now.
#[derive(Serialize)]
struct SavedNamespace<'a> {
    #[serde(flatten)]
    namespace: &'a Namespace,
    traffic: Traffic,
}

impl Core {
    /// The section as it is now.
    pub(crate) fn section(&self) -> Vec<u8> {
        let saved =
            |(nsid, ns): (u32, _)| (nsid, SavedNamespace { traffic: Namespace::traffic(ns), namespace: ns });
        let namespaces = self.namespaces.iter().map(saved).collect();
        let mut persistent = self.persistent.clone();
        persistent.powered += if self.power.on { self.now().since(self.power.since).0 } else { 0 };
        serde_json::to_vec(&SavedState { version: SECTION_VERSION, persistent, namespaces })
            .unwrap_or_default()
    }

    /// Records the state after a change.
    pub(crate) fn record<S: Contents>(&self, storage: &mut S) {
        if storage.keeps_records() {
            storage.record(Record::Section { kind: Section::Controller, bytes: &self.section() });
        }
    }
}
