//! Hosts in this process, as the drive and they themselves know them: who they are, and the queues between the two.

use image::Buffer;
use nvme::{Completion, Nqn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// Who connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostIdentity {
    /// Host NQN: attachments of namespaces are remembered by it.
    pub nqn: Nqn,
    /// Host Identifier.
    pub id: [u8; 16],
}

impl HostIdentity {
    /// A host whose identifier is derived from its NQN, as that of a host over a network is ([`host::Identity::new`]).
    ///
    /// # Errors
    /// If the name is no NQN.
    pub fn new(nqn: &str) -> Result<Self, nvme::nqn::NqnError> {
        let nqn = Nqn::new(nqn)?;
        Ok(HostIdentity { nqn, id: nqn.host_identifier() })
    }
}

/// Where the completions of a queue go.
///
/// The thread that steps the drive calls it, which is often the one that submitted, inside its `submit`. It must
/// not block. It may submit further commands; they are carried out after it returns.
pub trait Sink: Send + Sync + 'static {
    /// The command that was submitted with `tag` is complete; `buffer` is the one that was submitted,
    /// filled if it was a successful read.
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer);
}

impl<F: Fn(u64, Completion, Buffer) + Send + Sync + 'static> Sink for F {
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer) {
        self(tag, completion, buffer);
    }
}

/// What happens to a controller. Called like [`Sink::complete`]: it must not block, so hand the news
/// to a thread of your own before sending admin commands.
pub trait Events: Send + Sync + 'static {
    /// Namespaces were attached, detached, created, deleted, formatted or resized, or may have been, as after a loss of power: identify them again.
    /// (Namespace Attribute Changed; the runtime keeps the Asynchronous Event Request outstanding and
    /// clears the event.)
    fn namespaces_changed(&self) {}
    /// The drive lost power (`false`) or is ready again (`true`).
    fn power(&self, up: bool) {
        let _ = up;
    }
    /// The drive is gone for good; every command from now on fails with [`Gone`].
    fn stopped(&self) {}
}

/// Takes no interest in events.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoEvents;
impl Events for NoEvents {}

/// The drive was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the drive has been stopped")]
pub struct Gone;

/// Why a connection was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The drive refused the host or the queue.
    #[error("the drive refused the connection: {0}")]
    Refused(nvme::Status),
    /// The drive is without power.
    #[error("the drive is without power")]
    PowerOff,
    /// The drive was stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A command that was not accepted, with its buffer.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub reason: RefusedReason,
    /// What was to be submitted.
    pub buffer: Buffer,
}

/// Why a command was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RefusedReason {
    /// As many commands as the queue has entries are in flight.
    #[error("the queue is full")]
    Full,
    /// The drive was stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// What the handle and the drive both know of a queue.
pub(crate) struct QueueEndpoint {
    /// Index of the association among those of this process.
    pub(crate) association: AtomicU32,
    /// Queue identifier in the controller; 0 is the admin queue.
    pub(crate) qid: AtomicU16,
    pub(crate) entries: u16,
    pub(crate) in_flight: AtomicU32,
    pub(crate) sink: Arc<dyn Sink>,
}

impl QueueEndpoint {
    pub(crate) fn new(entries: u16, sink: Arc<dyn Sink>) -> Self {
        QueueEndpoint {
            association: AtomicU32::new(u32::MAX),
            qid: AtomicU16::new(0),
            entries,
            in_flight: AtomicU32::new(0),
            sink,
        }
    }

    /// Takes an entry for a command; false if the queue is full.
    pub(crate) fn enter(&self) -> bool {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if before >= u32::from(self.entries) {
            self.leave();
            return false;
        }
        true
    }

    /// A command has ended.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reservations know hosts by their identifiers.
    #[test]
    fn a_name_is_one_host_in_this_process_and_over_a_network() {
        let name = "nqn.2026-11.test:host";
        let near = HostIdentity::new(name).unwrap();
        let far = host::Identity::new(name.parse().unwrap());
        assert_eq!(near.id, far.hostid);
        assert_ne!(near.id, HostIdentity::new("nqn.2026-11.test:other").unwrap().id);
    }
}
