//! Which limits of a namespace are in force, and what a tenant may change.

use drive_config::Limits;
use serde::{Deserialize, Serialize};

/// A namespace's quota: the saved values and those in force. A tenant may set values within the limits that an
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
    pub fn set(&mut self, limits: Limits, save: bool, by_administrator: bool) {
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
    pub fn grants(&self, limits: &Limits, save: bool) -> bool {
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

    fn reads(rate: u64) -> Limits {
        Limits { read_bandwidth: Some(rate), ..Limits::default() }
    }

    #[test]
    fn a_tenant_may_only_lower_what_an_administrator_granted() {
        let mut quotas = Quotas::new(reads(1 << 20));
        assert!(quotas.grants(&reads(1 << 20), true) && quotas.grants(&reads(1 << 19), true));
        assert!(!quotas.grants(&reads(1 << 21), false) && !quotas.grants(&Limits::default(), false));
        // An administrator raises the limit until the next power cycle: a tenant may use that, and may not save it.
        quotas.set(reads(1 << 21), false, true);
        assert!(quotas.grants(&reads(1 << 21), false) && !quotas.grants(&reads(1 << 21), true));
        quotas.set(reads(1 << 12), true, false);
        quotas.restart();
        assert_eq!(quotas.current, reads(1 << 12));
        assert!(quotas.grants(&reads(1 << 20), true), "what the administrator saved still holds");
    }
}
