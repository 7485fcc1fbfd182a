//! What a host may do: administrators, tenants and guests.
//!
//! Who connects decides ([`Host::role`](crate::Host)), and this module says what follows. A command that a role does not have
//! ends with Operation Denied. Namespaces that a host may not see are to it as if they did not exist.

use crate::log_table;
use nvme::admin::SetFeatures;
use nvme::command::AdminOpcode;
use nvme::command_table::{self, Audience};
use nvme::feature::FeatureId;
use nvme::log::LogId;

/// What a host may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// Everything.
    Administrator,
    /// Sees and uses the namespaces with these identifiers and no others. It may format them, and lower their quotas.
    Tenant(Vec<u32>),
    /// Sees and uses what is attached to it, and changes nothing but contents.
    Guest,
}

/// Features that a host sets for its own controller, or of namespaces that are attached to it. The rest is the whole drive's.
const OWN_FEATURES: &[FeatureId] = &[
    FeatureId::ARBITRATION,
    FeatureId::POWER_MANAGEMENT,
    FeatureId::TEMPERATURE_THRESHOLD,
    FeatureId::ERROR_RECOVERY,
    FeatureId::VOLATILE_WRITE_CACHE,
    FeatureId::NUMBER_OF_QUEUES,
    FeatureId::WRITE_ATOMICITY,
    FeatureId::ASYNC_EVENT_CONFIGURATION,
    FeatureId::KEEP_ALIVE_TIMER,
    FeatureId::LBA_STATUS_ATTRIBUTES,
    FeatureId::HOST_BEHAVIOR_SUPPORT,
    FeatureId::HOST_IDENTIFIER,
    FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION,
    FeatureId::RESERVATION_NOTIFICATION_MASK,
    FeatureId::RESERVATION_PERSISTENCE,
];

impl Role {
    /// Whether the host administers the drive.
    pub fn is_administrator(&self) -> bool {
        *self == Role::Administrator
    }

    /// Whether a host of this role may have a namespace attached at all.
    pub(crate) fn may_attach(&self, nsid: u32) -> bool {
        !matches!(self, Role::Tenant(own) if !own.contains(&nsid))
    }

    /// Whether a namespace is attached to this host unless a choice for this host says otherwise. `all` is the namespace's own
    /// choice for hosts that it does not know.
    pub(crate) fn attaches(&self, nsid: u32, all: bool) -> bool {
        match self {
            Role::Administrator | Role::Guest => all,
            Role::Tenant(own) => own.contains(&nsid),
        }
    }

    /// Whether the host may have a command of an admin queue carried out.
    pub(crate) fn has_command(&self, opcode: AdminOpcode) -> bool {
        let audience = command_table::of_admin(opcode).map_or(Audience::Everyone, |info| info.audience);
        match self {
            Role::Administrator => true,
            Role::Tenant(_) => audience != Audience::Administrators,
            Role::Guest => audience == Audience::Everyone,
        }
    }

    /// Whether the host may read a log.
    pub(crate) fn reads(&self, log: LogId) -> bool {
        self.is_administrator() || log_table::of(log).is_none_or(|info| !info.private)
    }

    /// Whether the host may set a feature. What it saves would be every other controller's from then on.
    pub(super) fn sets(&self, c: &SetFeatures) -> bool {
        match self {
            Role::Administrator => true,
            Role::Tenant(_) if c.fid == FeatureId::QUOTA => true,
            Role::Tenant(_) | Role::Guest => OWN_FEATURES.contains(&c.fid) && !c.sv,
        }
    }
}
