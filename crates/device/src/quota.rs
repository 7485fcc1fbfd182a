//! Quotas: what a namespace may use, feature D8h, and the meters that enforce it.

use crate::config_error::ConfigError;
use crate::contents::Contents;
use crate::core::{ControllerId, Cx, Failure, Outcome, Reply};
use crate::drive::Drive;
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::feature::Select;
use nvme::quota::{Quota, QuotaKind};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{NSID_ALL, Status, U16, U32};
use serde::{Deserialize, Serialize};

/// What a namespace may use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes per second that may be read: [`Quota::MIN_BANDWIDTH`] to [`Quota::MAX_BANDWIDTH`].
    pub read_bandwidth: Option<u64>,
    /// Bytes per second that may be written, likewise.
    pub write_bandwidth: Option<u64>,
    /// Commands per second that may read: 1 to [`Quota::MAX_COMMANDS`].
    pub read_commands: Option<u64>,
    /// Commands per second that may write, likewise.
    pub write_commands: Option<u64>,
    /// How much may come at once after a pause, in microseconds of the limits' rates: up to
    /// [`Quota::MAX_BURST_US`]; 0 is [`Quota::DEFAULT_BURST_US`].
    pub burst_us: u32,
    /// Share of the NVM Set beside others that want it, too: 1 to [`Quota::MAX_WEIGHT`]; 0 is
    /// [`Quota::DEFAULT_WEIGHT`].
    pub weight: u16,
}

impl From<&Quota> for Limits {
    fn from(quota: &Quota) -> Self {
        Limits {
            read_bandwidth: quota.limit(QuotaKind::ReadBandwidth),
            write_bandwidth: quota.limit(QuotaKind::WriteBandwidth),
            read_commands: quota.limit(QuotaKind::ReadCommands),
            write_commands: quota.limit(QuotaKind::WriteCommands),
            burst_us: quota.burst_us.get(),
            weight: quota.weight.get(),
        }
    }
}

impl From<&Limits> for Quota {
    fn from(limits: &Limits) -> Self {
        let mut quota = Quota {
            weight: U16::new(limits.weight),
            burst_us: U32::new(limits.burst_us),
            ..Quota::unlimited()
        };
        quota.set_limit(QuotaKind::ReadBandwidth, limits.read_bandwidth);
        quota.set_limit(QuotaKind::WriteBandwidth, limits.write_bandwidth);
        quota.set_limit(QuotaKind::ReadCommands, limits.read_commands);
        quota.set_limit(QuotaKind::WriteCommands, limits.write_commands);
        quota
    }
}

impl Limits {
    /// Checks those of a namespace in a drive's TOML, under this name.
    ///
    /// # Errors
    /// The first that cannot be.
    pub(crate) fn check(&self, namespace: &str) -> Result<(), ConfigError> {
        let Err(offset) = Quota::from(self).check() else { return Ok(()) };
        let given = |limit: Option<u64>| limit.map_or("not given".to_owned(), |limit| limit.to_string());
        let bandwidth = "4096B/s to 1TB/s; leave it out for no limit";
        let commands = "1 to 1,000,000,000 commands per second; leave it out for no limit";
        let (key, value, rule) = match offset {
            2 => ("weight", "out of range".to_owned(), "1 to 1,000"),
            4 => ("burst", "out of range".to_owned(), "whole microseconds, from 1us to 10s"),
            8 => ("read", given(self.read_bandwidth), bandwidth),
            16 => ("write", given(self.write_bandwidth), bandwidth),
            24 => ("read_iops", given(self.read_commands), commands),
            _ => ("write_iops", given(self.write_commands), commands),
        };
        Err(ConfigError::value(format!("{namespace}.{key}"), value, rule))
    }

    /// Whether they are what Set Features would take.
    pub(crate) fn is_allowed(&self) -> bool {
        Quota::from(self).check().is_ok()
    }

    /// Whether they let nothing through that others would hold back.
    fn is_within(&self, most: &Limits) -> bool {
        let (mine, theirs) = (Quota::from(self), Quota::from(most));
        let kinds = [
            QuotaKind::ReadBandwidth,
            QuotaKind::WriteBandwidth,
            QuotaKind::ReadCommands,
            QuotaKind::WriteCommands,
        ];
        let unlimited = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        kinds.iter().all(|kind| unlimited(mine.limit(*kind)) <= unlimited(theirs.limit(*kind)))
            && mine.effective_burst_us() <= theirs.effective_burst_us()
            && mine.effective_weight() <= theirs.effective_weight()
    }

    pub(crate) fn burst(&self) -> Nanos {
        Nanos(u64::from(Quota::from(self).effective_burst_us()) * 1000)
    }
}

impl Drive {
    /// The namespaces that Set Features means: any that is allocated, as for Namespace Management; FFFFFFFFh is all that
    /// are attached to the controller (Base 4.4).
    fn quota_targets(&self, id: ControllerId, nsid: u32) -> Result<Vec<u32>, Failure> {
        if nsid == NSID_ALL {
            let controller = self.core.controller(id)?;
            return Ok(self
                .core
                .namespaces
                .ids()
                .into_iter()
                .filter(|nsid| controller.is_attached(*nsid))
                .collect());
        }
        self.core.seen(id, nsid).map(|_| vec![nsid])
    }

    /// Set Features D8h. Nothing is changed unless all of it is allowed.
    pub(crate) fn set_quota<S: Contents>(
        &mut self,
        id: ControllerId,
        c: &SetFeatures,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let (quota, _) = Quota::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        // The error log points to the data (bytes 24 to 39 of the command), and tells the offset there.
        quota.check().map_err(|offset| Failure::field(24).with_information(offset as u64))?;
        let limits = Limits::from(quota);
        let targets = self.quota_targets(id, c.nsid)?;
        let administers = self.core.controller(id)?.role.is_administrator();
        let quota_of = |nsid: &u32| self.core.namespaces.get(*nsid).map(|ns| ns.quota);
        if !administers && !targets.iter().filter_map(quota_of).all(|quota| quota.grants(&limits, c.sv)) {
            return Err(Status::OPERATION_DENIED.into());
        }
        for nsid in targets {
            let Some(ns) = self.core.namespaces.get_mut(nsid) else { continue };
            ns.quota.set(limits, c.sv, administers);
            self.core.apply_quota(nsid, cx.now);
        }
        if c.sv {
            self.remember_saved(id, *c, cx.now);
            self.core.record(cx.storage);
        }
        Ok(Reply::Done(0))
    }

    /// Get Features D8h.
    pub(crate) fn get_quota(&self, id: ControllerId, c: &GetFeatures) -> Outcome {
        let ns = self.core.seen(id, c.nsid)?;
        let limits = match c.sel {
            Select::DEFAULT => Limits::default(),
            Select::SAVED => ns.quota.saved,
            _ => ns.quota.current,
        };
        Ok(Reply::Data(Quota::from(&limits).as_bytes().to_vec(), 0))
    }
}

/// A namespace's quota: what is saved with it, and what is in force. A tenant may set what lies within the limits that an
/// administrator set last.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
#[serde(from = "SavedQuotas", into = "SavedQuotas")]
pub(crate) struct Quotas {
    pub saved: Limits,
    pub current: Limits,
    /// What an administrator set last.
    granted: Limits,
    /// What an administrator saved last.
    saved_granted: Limits,
}

/// A namespace's quota as it is saved.
#[derive(Serialize, Deserialize)]
struct SavedQuotas {
    #[serde(flatten)]
    saved: Limits,
    /// What an administrator saved, if a tenant has saved something else since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    granted: Option<Limits>,
}

impl From<SavedQuotas> for Quotas {
    fn from(SavedQuotas { saved, granted }: SavedQuotas) -> Self {
        let granted = granted.unwrap_or(saved);
        Quotas { saved, current: saved, granted, saved_granted: granted }
    }
}

impl From<Quotas> for SavedQuotas {
    fn from(quotas: Quotas) -> Self {
        let Quotas { saved, saved_granted, .. } = quotas;
        SavedQuotas { saved, granted: (saved != saved_granted).then_some(saved_granted) }
    }
}

impl Quotas {
    /// The quota of a new namespace, as if an administrator had saved it.
    pub fn new(limits: Limits) -> Self {
        Quotas { saved: limits, current: limits, granted: limits, saved_granted: limits }
    }

    /// Takes limits that a host set.
    fn set(&mut self, limits: Limits, save: bool, by_administrator: bool) {
        self.current = limits;
        if by_administrator {
            self.granted = limits;
        }
        if save {
            self.saved = limits;
        }
        if save && by_administrator {
            self.saved_granted = limits;
        }
    }

    /// Whether a tenant may set these limits, and save them if it wants to.
    fn grants(&self, limits: &Limits, save: bool) -> bool {
        limits.is_within(&self.granted) && (!save || limits.is_within(&self.saved_granted))
    }

    /// After a loss of power what was saved is in force.
    pub fn restart(&mut self) {
        (self.current, self.granted) = (self.saved, self.saved_granted);
    }

    /// Whether a host could have set them.
    pub fn are_allowed(&self) -> bool {
        self.saved.is_allowed()
            && self.saved_granted.is_allowed()
            && self.saved.is_within(&self.saved_granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_survive_the_wire() {
        let limits = Limits {
            read_bandwidth: Some(391_000_000),
            write_commands: Some(1),
            burst_us: 5,
            weight: 7,
            ..Limits::default()
        };
        let quota = Quota::from(&limits);
        assert_eq!(quota.check(), Ok(()));
        assert_eq!(Limits::from(&quota), limits);
    }
}
