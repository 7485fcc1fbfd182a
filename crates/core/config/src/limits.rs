//! The limits of a quota.

use media::Nanos;
use nvme::quota::{Quota, QuotaKind};
use nvme::{U16, U32};
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
    /// What may pass at once after a pause, as microseconds of the rates: up to [`Quota::MAX_BURST_US`]. 0 is
    /// [`Quota::DEFAULT_BURST_US`].
    pub burst_us: u32,
    /// Weight among the namespaces that share the NVM Set: 1 to [`Quota::MAX_WEIGHT`]. 0 is
    /// [`Quota::DEFAULT_WEIGHT`].
    pub weight: u16,
}

/// Why a limit is not allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitFault {
    /// Its key in a drive's TOML.
    pub key: &'static str,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub rule: &'static str,
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
    /// The first limit that is not allowed, if there is one.
    pub fn fault(&self) -> Option<LimitFault> {
        let offset = Quota::from(self).check().err()?;
        let given = |limit: Option<u64>| limit.map_or("not given".to_owned(), |limit| limit.to_string());
        let bandwidth = "4096B/s to 1TB/s, or none";
        let commands = "1 to 1,000,000,000 commands per second, or none";
        let (key, value, rule) = match offset {
            2 => ("weight", "out of range".to_owned(), "1 to 1,000"),
            4 => ("burst", "out of range".to_owned(), "whole microseconds, from 1us to 10s"),
            8 => ("read", given(self.read_bandwidth), bandwidth),
            16 => ("write", given(self.write_bandwidth), bandwidth),
            24 => ("read_iops", given(self.read_commands), commands),
            _ => ("write_iops", given(self.write_commands), commands),
        };
        Some(LimitFault { key, value, rule })
    }

    /// Whether they are what Set Features would take.
    pub fn is_allowed(&self) -> bool {
        Quota::from(self).check().is_ok()
    }

    /// Whether each of these limits is as strict as `most`, or stricter.
    pub fn is_within(&self, most: &Limits) -> bool {
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

    /// How far a burst may run ahead.
    pub fn burst(&self) -> Nanos {
        Nanos(u64::from(Quota::from(self).effective_burst_us()) * 1000)
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

    #[test]
    fn a_fault_names_the_key() {
        let fault = Limits { weight: 1001, ..Limits::default() }.fault().unwrap();
        assert_eq!((fault.key, fault.rule), ("weight", "1 to 1,000"));
        let fault = Limits { read_bandwidth: Some(1), ..Limits::default() }.fault().unwrap();
        assert_eq!((fault.key, fault.value.as_str()), ("read", "1"));
        assert_eq!(Limits::default().fault(), None);
    }
}
