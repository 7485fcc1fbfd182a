//! What can go wrong with a tier that runs.

use crate::device::DeviceError;
use crate::place::Role;
use std::io;
use tier::{ControlError, OpenError};

/// Why a tier could not be made, opened, changed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device cannot be opened.
    #[error("{role} {place}: {reason}")]
    Device {
        /// Which one.
        role: Role,
        /// Where it is.
        place: String,
        /// Why not.
        #[source]
        reason: DeviceError,
    },
    /// A device is in use.
    #[error(
        "{role} {place} is in use by another cache tier, or by another program that has locked it: stop that first"
    )]
    InUse {
        /// Which one.
        role: Role,
        /// Where it is.
        place: String,
    },
    /// A tier would be made over something else.
    #[error(
        "the metadata device holds something that is no cache tier: name another device, or give up what it holds with --replace"
    )]
    NotBlank,
    /// The metadata does not fit, or is none.
    #[error("{}", tier_words(.0))]
    Open(OpenError),
    /// The tier refuses a change.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Something about the system.
    #[error("{what}: {reason}")]
    System {
        /// What.
        what: String,
        /// The error.
        reason: io::Error,
    },
}

/// What the library says, with what to type.
fn tier_words(error: &OpenError) -> String {
    match error {
        OpenError::Foreign => {
            "the metadata device holds no cache tier: make one with `tranche cache create`, or name another device".to_owned()
        }
        OpenError::Exists => {
            "the metadata device holds a cache tier already: remove it with `tranche cache remove`, or give it up with --replace"
                .to_owned()
        }
        OpenError::NeedsCheck => {
            "an operation of metadata failed before (needs_check): see that the metadata device works, then give --repair"
                .to_owned()
        }
        other => other.to_string(),
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        Error::Open(error)
    }
}

impl Error {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |reason| Error::System { what, reason }
    }
}
