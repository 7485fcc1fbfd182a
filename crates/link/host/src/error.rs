//! What the typed host reports.

use std::io::ErrorKind;
use std::time::Duration;

use nvme::{Nsid, Status};

/// Why a request to the drive did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transport is broken.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The drive executed the command and reported an error.
    #[error("{what}: the drive answered: {status}")]
    Command {
        /// What was asked.
        what: String,
        /// The status of the completion.
        status: Status,
    },
    /// The drive's answer makes no sense.
    #[error("{what}: {problem}")]
    Answer {
        /// What was asked.
        what: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The drive, or its discovery service, does not let this host in.
    #[error("{what}: {why}")]
    Connect {
        /// What was asked.
        what: String,
        /// Why, in words.
        why: String,
        /// The status of the Connect command, if it was the one that failed.
        status: Option<Status>,
    },
    /// Host and drive could not convince each other of who they are.
    #[error("{what}: {why}; the keys on both sides must match")]
    Authentication {
        /// What was asked.
        what: String,
        /// Who refused, and why.
        why: fabric::auth::HostFailure,
    },
    /// The drive has no such namespace, or none that is attached to this host.
    #[error("{0}")]
    Absent(String),
    /// The request itself makes no sense; nothing was sent.
    #[error("{0}")]
    Usage(String),
}

/// Namespace identifiers as a message names them: `1, 2`, or `none`.
#[must_use]
pub fn nsid_list(nsids: &[Nsid]) -> String {
    let all: Vec<String> = nsids.iter().map(Nsid::to_string).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

impl Error {
    /// The status of the command that failed, if it was one.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Command { status, .. } => Some(*status),
            Self::Connect { status, .. } => *status,
            _ => None,
        }
    }

    /// Whether the drive closed the connection under the command, or ended the command as it lost its power.
    pub(crate) fn is_hung_up(&self) -> bool {
        match self {
            Self::Transport(TransportError::Io { source, .. }) => {
                matches!(source.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
            }
            Self::Transport(error) => matches!(error, TransportError::Closed),
            _ => self.is_lost(),
        }
    }

    /// Whether the association with the drive has gone, as after a power cut: the host has to connect again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Transport(error) => !matches!(error, TransportError::Full),
            _ => self.status().is_some_and(|status| {
                [Status::POWER_LOSS, Status::ABORTED_SQ_DELETION].iter().any(|lost| status.is(*lost))
            }),
        }
    }
}

/// A broken transport.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// Every place in the queue is taken: wait for a completion first.
    #[error("the queue is full: take a completion before submitting another command")]
    Full,
    /// The other side closed the connection, or the drive stopped.
    #[error("the connection was closed by the drive")]
    Closed,
    /// No answer within the time limit.
    #[error("no answer from the drive within {0:?}")]
    Timeout(Duration),
    /// The operating system reported an error.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The error.
        source: std::io::Error,
    },
    /// The drive broke the protocol.
    #[error("the drive broke the protocol: {0}")]
    Protocol(String),
    /// More data than the transport can carry in one command.
    #[error("a command cannot carry {0} bytes of data")]
    TooLarge(usize),
}
