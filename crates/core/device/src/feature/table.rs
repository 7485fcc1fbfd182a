//! The feature table: one row for each feature that a drive may have.
//!
//! Get and Set Features, the log of feature effects and roles ask it. A row says what does not depend on the feature's value.

use nvme::feature::{FeatureCapabilities, FeatureId};

/// What a drive must have so that it has a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FeatureRequirement {
    /// Nothing.
    None,
    /// A volatile write cache.
    VolatileWriteCache,
    /// Deterministic windows (Predictable Latency Mode).
    Windows,
    /// Placement handles.
    Placement,
}

/// What a value belongs to; the value is the bit in Feature Identifiers Supported and Effects (Base 5.1.12.1.18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FeatureScope {
    Namespace = 1,
    Controller = 1 << 1,
    NvmSet = 1 << 2,
    EnduranceGroup = 1 << 3,
    Subsystem = 1 << 5,
}

/// Who may set a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FeatureSetter {
    /// Administrators.
    Administrators,
    /// Administrators, and tenants for their namespaces.
    Tenants,
    /// Every host. Only administrators save it: what is saved is every controller's.
    Everyone,
}

/// What a row says of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FeatureInfo {
    /// Its identifier.
    pub fid: FeatureId,
    /// Drives without this do not have it.
    pub requires: FeatureRequirement,
    /// Whether Set Features changes it.
    pub changeable: bool,
    /// Whether Set Features saves it.
    pub saveable: bool,
    /// What a value belongs to.
    pub scope: FeatureScope,
    /// Who may set it.
    pub setter: FeatureSetter,
}

impl FeatureInfo {
    /// As Get Features tells it.
    pub fn capabilities(&self) -> FeatureCapabilities {
        FeatureCapabilities::new()
            .with_changeable(self.changeable)
            .with_saveable(self.saveable)
            .with_namespace_specific(self.scope == FeatureScope::Namespace)
    }

    /// Its entry in Feature Identifiers Supported and Effects: supported, effects, and the scope in bits 31:20.
    pub fn effects(&self) -> u32 {
        let changes_capabilities = u32::from(self.fid == FeatureId::VOLATILE_WRITE_CACHE) << 4;
        1 | changes_capabilities | (self.scope as u32) << 20
    }
}

/// One that every host sets for its controller, and administrators save.
const fn feature(fid: FeatureId) -> FeatureInfo {
    FeatureInfo {
        fid,
        requires: FeatureRequirement::None,
        changeable: true,
        saveable: true,
        scope: FeatureScope::Controller,
        setter: FeatureSetter::Everyone,
    }
}

/// One that is never saved.
const fn unsaved(fid: FeatureId) -> FeatureInfo {
    FeatureInfo { saveable: false, ..feature(fid) }
}

/// One of administrators, with this scope, which only some drives have.
const fn with(requires: FeatureRequirement, scope: FeatureScope, fid: FeatureId) -> FeatureInfo {
    FeatureInfo { requires, scope, setter: FeatureSetter::Administrators, ..feature(fid) }
}

/// All of them, by identifier.
pub(crate) const FEATURES: &[FeatureInfo] = &[
    feature(FeatureId::ARBITRATION),
    feature(FeatureId::POWER_MANAGEMENT),
    feature(FeatureId::TEMPERATURE_THRESHOLD),
    feature(FeatureId::ERROR_RECOVERY),
    FeatureInfo {
        requires: FeatureRequirement::VolatileWriteCache,
        ..feature(FeatureId::VOLATILE_WRITE_CACHE)
    },
    unsaved(FeatureId::NUMBER_OF_QUEUES),
    feature(FeatureId::WRITE_ATOMICITY),
    feature(FeatureId::ASYNC_EVENT_CONFIGURATION),
    FeatureInfo {
        saveable: false,
        ..with(FeatureRequirement::None, FeatureScope::Subsystem, FeatureId::TIMESTAMP)
    },
    unsaved(FeatureId::KEEP_ALIVE_TIMER),
    with(FeatureRequirement::Windows, FeatureScope::NvmSet, FeatureId::PREDICTABLE_LATENCY_CONFIG),
    FeatureInfo {
        saveable: false,
        ..with(FeatureRequirement::Windows, FeatureScope::NvmSet, FeatureId::PREDICTABLE_LATENCY_WINDOW)
    },
    feature(FeatureId::LBA_STATUS_ATTRIBUTES),
    unsaved(FeatureId::HOST_BEHAVIOR_SUPPORT),
    FeatureInfo {
        scope: FeatureScope::EnduranceGroup,
        ..feature(FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION)
    },
    unsaved(FeatureId::IO_COMMAND_SET_PROFILE),
    with(FeatureRequirement::Placement, FeatureScope::EnduranceGroup, FeatureId::FDP),
    with(FeatureRequirement::Placement, FeatureScope::Namespace, FeatureId::FDP_EVENTS),
    FeatureInfo { changeable: false, ..unsaved(FeatureId::HOST_IDENTIFIER) },
    FeatureInfo { scope: FeatureScope::Namespace, ..unsaved(FeatureId::RESERVATION_NOTIFICATION_MASK) },
    FeatureInfo { scope: FeatureScope::Namespace, ..unsaved(FeatureId::RESERVATION_PERSISTENCE) },
    FeatureInfo {
        scope: FeatureScope::Namespace,
        setter: FeatureSetter::Tenants,
        ..feature(FeatureId::QUOTA)
    },
];

/// The row of a feature; `None` for one that no drive has.
pub(crate) fn of(fid: FeatureId) -> Option<&'static FeatureInfo> {
    FEATURES.iter().find(|info| info.fid == fid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order() {
        assert!(FEATURES.is_sorted_by(|a, b| a.fid.0 < b.fid.0));
        assert!(FEATURES.iter().all(|info| info.changeable || !info.saveable));
    }
}
