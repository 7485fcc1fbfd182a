//! What a host may do: administrators, tenants and guests.
//!
//! Who connects decides ([`Host::role`](crate::Host)), and this module says what follows. A command that a role does not have
//! ends with Operation Denied. Namespaces that a host may not see are to it as if they did not exist.

use crate::controller::{Controller, ControllerId};
use crate::drive::{Drive, Failure};
use crate::log_table;
use crate::namespace::Namespace;
use nvme::Status;
use nvme::admin::{AdminCommand, SetFeatures};
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
    fn sets(&self, c: &SetFeatures) -> bool {
        match self {
            Role::Administrator => true,
            Role::Tenant(_) if c.fid == FeatureId::QUOTA => true,
            Role::Tenant(_) | Role::Guest => OWN_FEATURES.contains(&c.fid) && !c.sv,
        }
    }
}

impl Controller {
    /// Whether its host may know of a namespace.
    pub(crate) fn sees(&self, nsid: u32) -> bool {
        match &self.role {
            Role::Administrator => true,
            Role::Tenant(own) => own.contains(&nsid),
            Role::Guest => self.is_attached(nsid),
        }
    }

    /// Whether its host may know of another controller: its own ones, and all if it administers.
    pub(crate) fn sees_controller(&self, other: &Controller) -> bool {
        other.proven && (self.role.is_administrator() || self.host == other.host)
    }
}

impl Drive {
    /// Whether a controller's host may have this command carried out.
    ///
    /// # Errors
    /// Operation Denied; for a namespace that the host may not know of, what it gets for one that does not exist.
    pub(crate) fn check_role(
        &self,
        id: ControllerId,
        opcode: AdminOpcode,
        command: &AdminCommand,
    ) -> Result<(), Failure> {
        let controller = self.controller(id)?;
        let role = &controller.role;
        if role.is_administrator() {
            return Ok(());
        }
        let one_of_others = |nsid: u32| nsid != 0 && nsid != nvme::NSID_ALL && !controller.sees(nsid);
        let allowed = role.has_command(opcode)
            && match command {
                AdminCommand::GetLogPage(c) => role.reads(c.lid),
                AdminCommand::SetFeatures(c) => role.sets(c),
                _ => true,
            };
        match command {
            AdminCommand::FormatNvm(c) if one_of_others(c.nsid) => Err(self.no_namespace(c.nsid)),
            _ if !allowed => Err(Status::OPERATION_DENIED.into()),
            _ => Ok(()),
        }
    }

    /// A namespace, unless the host of a controller may not know of it.
    ///
    /// # Errors
    /// What names of namespaces that do not exist get.
    pub(crate) fn seen(&self, id: ControllerId, nsid: u32) -> Result<&Namespace, Failure> {
        let sees = self.controller(id)?.sees(nsid);
        self.namespaces.get(nsid).filter(|_| sees).ok_or_else(|| self.no_namespace(nsid))
    }

    /// Controllers that the host of a controller may know of, in order.
    pub(crate) fn seen_controllers(&self, id: ControllerId) -> impl Iterator<Item = ControllerId> {
        let viewer = self.controllers.get(id);
        let seen = move |other: &Controller| viewer.is_some_and(|viewer| viewer.sees_controller(other));
        self.controllers.iter().filter(move |(_, other)| seen(other)).map(|(other, _)| other)
    }
}
