//! What a host may do: administrators, tenants and guests.
//!
//! The transport gives each host a role ([`Host::role`](crate::Host)). This module says what follows. A command that a role does not have
//! ends with Operation Denied. Namespaces that a host may not see are to it as if they did not exist.

use crate::feature::table::{self, FeatureSetter};
use crate::log_table;
use nvme::admin::SetFeatures;
use nvme::command::AdminOpcode;
use nvme::command_table::{self, Audience};
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
        let Some(info) = table::of(c.fid) else { return self.is_administrator() };
        match info.setter {
            FeatureSetter::Administrators => self.is_administrator(),
            FeatureSetter::Tenants => *self != Role::Guest,
            FeatureSetter::Everyone => self.is_administrator() || !c.sv,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::feature::FeatureId;

    #[test]
    fn only_administrators_set_what_others_share() {
        let set = |fid, sv| SetFeatures { nsid: 0, fid, sv, uidx: 0, cdw11: 0, cdw12: 0, cdw13: 0, cdw15: 0 };
        let roles = [Role::Administrator, Role::Tenant(vec![1]), Role::Guest];
        let may = |fid, sv| roles.clone().map(|role| role.sets(&set(fid, sv)));
        assert_eq!(may(FeatureId::ARBITRATION, false), [true; 3]);
        assert_eq!(may(FeatureId::ARBITRATION, true), [true, false, false]);
        assert_eq!(may(FeatureId::QUOTA, true), [true, true, false]);
        for fid in [FeatureId::TIMESTAMP, FeatureId::FDP, FeatureId::HOST_MEMORY_BUFFER] {
            assert_eq!(may(fid, false), [true, false, false], "{fid:?}");
        }
    }
}
