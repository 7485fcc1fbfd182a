//! What outlives power of the most recent sanitize operation.

use nvme::admin::{AdminCommand, Sanitize, SanitizeAction};
use nvme::command::AdminOpcode;
use nvme::{Command, U32};
use serde::{Deserialize, Serialize};

/// Passes of an overwrite, at most.
pub(super) const MOST_PASSES: u32 = 16;

/// The most recent operation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SanitizeRecord {
    pub(super) state: SanitizeState,
    /// Dwords 10 and 11 of its command.
    pub(super) cdw10: u32,
    pattern: u32,
    /// A host has left the failure mode.
    pub(super) exited: bool,
    /// The translation layer's version when it succeeded.
    pub(super) version: u64,
}

/// How far it came.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) enum SanitizeState {
    #[default]
    Never,
    InProgress,
    Completed,
    Failed,
}

impl SanitizeRecord {
    /// Of an operation that begins now.
    pub(super) fn begun(c: &Sanitize) -> Self {
        let cdw10 = Command::from(*c).cdw10.get();
        SanitizeRecord {
            state: SanitizeState::InProgress,
            cdw10,
            pattern: c.ovrpat,
            exited: false,
            version: 0,
        }
    }

    /// The command that it began with, as far as that is kept.
    fn command(&self) -> Option<Sanitize> {
        let mut command = Command::new(AdminOpcode::SANITIZE.0, 0);
        (command.cdw10, command.cdw11) = (U32::new(self.cdw10), U32::new(self.pattern));
        match AdminCommand::parse(&command) {
            Ok(AdminCommand::Sanitize(c)) => Some(c),
            _ => None,
        }
    }

    /// Whether it has failed, and no host has left the failure mode.
    pub(super) fn in_failure_mode(&self) -> bool {
        self.state == SanitizeState::Failed && !self.exited
    }

    /// Whether a host may leave the failure mode (AUSE).
    pub(super) fn unrestricted(&self) -> bool {
        self.command().is_some_and(|c| c.ause)
    }

    /// Whether it only destroys keys.
    pub(crate) fn is_crypto(&self) -> bool {
        self.command().is_some_and(|c| c.sanact == SanitizeAction::CRYPTO_ERASE)
    }

    /// Passes over the media, after the erase.
    pub(super) fn passes(&self) -> u32 {
        match self.command() {
            Some(c) if c.sanact == SanitizeAction::OVERWRITE && c.owpass == 0 => MOST_PASSES,
            Some(c) if c.sanact == SanitizeAction::OVERWRITE => c.owpass.into(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(sanact: SanitizeAction, owpass: u8) -> Sanitize {
        let cdw10 = u32::from(sanact.0) | 1 << 3 | u32::from(owpass) << 4;
        SanitizeRecord { cdw10, pattern: 7, ..SanitizeRecord::default() }.command().unwrap()
    }

    #[test]
    fn a_record_knows_its_command() {
        let overwrite = SanitizeRecord::begun(&command(SanitizeAction::OVERWRITE, 3));
        assert_eq!((overwrite.passes(), overwrite.is_crypto()), (3, false));
        assert!(overwrite.unrestricted() && !overwrite.in_failure_mode());
        assert_eq!(overwrite.command().unwrap().ovrpat, 7);
        assert_eq!(SanitizeRecord::begun(&command(SanitizeAction::OVERWRITE, 0)).passes(), MOST_PASSES);
        let crypto = SanitizeRecord::begun(&command(SanitizeAction::CRYPTO_ERASE, 0));
        assert_eq!((crypto.passes(), crypto.is_crypto()), (0, true));
        assert!(SanitizeRecord { state: SanitizeState::Failed, ..crypto }.in_failure_mode());
        assert!(!SanitizeRecord { state: SanitizeState::Failed, exited: true, ..crypto }.in_failure_mode());
    }
}
