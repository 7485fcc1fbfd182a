//! A namespace of the drive in this process.

use crate::bell::Bell;
use blockdev::{BlockDevice, Completed, Geometry, Namespace, Nanos, Operation, Payload, Status};
use host::{Host, Identity};
use live::{Buffer, Handle, LocalTransport, NoEvents, Queue, Refused, RefusedReason, Sink};
use nvme::identify::NamespaceIdDescriptor;
use nvme::{Completion, Nqn, Nsid};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Commands under way at once.
const ENTRIES: u16 = 256;
/// The buffer of a command is a list of ranges, and not the caller's.
const RANGES: u64 = 1 << 32;

/// A namespace of the drive in this process. The drive begins commands with the next poll, all that have come until then together, and has often
/// ended them when that asks for the first.
pub struct OwnDevice {
    handle: Handle,
    /// The association ends with it.
    _host: Host<LocalTransport>,
    queue: Queue,
    namespace: Namespace,
    arrived: Arc<Arrived>,
    /// Those of them that were taken over together, and not asked for yet.
    taken: VecDeque<Completed>,
    outstanding: usize,
    /// Commands were left with the drive, which may not have begun them.
    posted: bool,
    /// What the drive had lost when this was opened.
    losses: u64,
}

/// Why a namespace of this drive is of no more use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// A command found no room. It does not happen.
    #[error("the queue is full")]
    Full,
    /// The drive stopped.
    #[error("the drive has stopped")]
    Gone,
    /// A power cut took completed writes along.
    #[error("a power cut took completed writes along")]
    Lost,
    /// The namespace was detached, deleted or formatted.
    #[error("the namespace was detached from the cache tier's host, deleted or formatted")]
    Detached,
}

/// Completions that the tier has not asked for yet.
struct Arrived {
    done: Mutex<VecDeque<Completed>>,
    bell: Bell,
}

impl Sink for Arrived {
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer) {
        let data = if tag & RANGES == 0 { buffer.into_vec() } else { Vec::new() };
        // The lower half is the caller's tag.
        let completed = Completed { tag: tag as u32, status: completion.status(), data };
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push_back(completed);
        self.bell.ring();
    }
}

/// The identifier of a namespace that it has everywhere: NGUID, UUID or EUI64.
pub fn identity(descriptors: &[NamespaceIdDescriptor]) -> [u8; 16] {
    let mut id = [0; 16];
    for descriptor in descriptors {
        match descriptor {
            NamespaceIdDescriptor::Nguid(nguid) => return *nguid,
            NamespaceIdDescriptor::Uuid(uuid) => id = *uuid,
            NamespaceIdDescriptor::Eui64(eui) if id == [0; 16] => id[..8].copy_from_slice(eui),
            _ => {}
        }
    }
    id
}

impl OwnDevice {
    /// Opens a namespace that is attached to the host `nqn`. Also gives the identifier that it has everywhere.
    ///
    /// # Errors
    /// There is none, or the drive refuses the host.
    pub fn open(handle: &Handle, nqn: &str, nsid: Nsid, bell: Bell) -> Result<(Self, [u8; 16]), host::Error> {
        let name: Nqn = nqn.parse().map_err(|error| host::Error::Usage(format!("{nqn}: {error}")))?;
        let transport = LocalTransport::managed(handle.clone(), Arc::new(NoEvents));
        let mut host = Host::connect(transport, &Identity::new(name))?;
        let namespace = host.namespace(nsid)?;
        let id = identity(&host.namespace_descriptors(nsid)?);
        let arrived = Arc::new(Arrived { done: Mutex::default(), bell });
        let queue = host.transport().shared_queue(ENTRIES, arrived.clone())?;
        let losses = handle.losses();
        Ok((
            OwnDevice {
                handle: handle.clone(),
                _host: host,
                queue,
                namespace,
                arrived,
                taken: VecDeque::new(),
                outstanding: 0,
                posted: false,
                losses,
            },
            id,
        ))
    }

    fn has_lost(&self) -> bool {
        self.handle.losses() != self.losses
    }
}

impl BlockDevice for OwnDevice {
    type Error = OwnError;

    fn geometry(&self) -> Geometry {
        self.namespace.geometry()
    }

    fn room(&self) -> usize {
        usize::from(self.queue.entries()).saturating_sub(self.outstanding)
    }

    fn submit(&mut self, _now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), OwnError> {
        let (command, payload) = self.namespace.encode(part);
        let (tag, data) = match payload {
            Payload::None | Payload::Read | Payload::Write => (u64::from(tag), data),
            Payload::Ranges(ranges) => {
                let mut list = Vec::new();
                ranges.write(&mut list);
                (u64::from(tag) | RANGES, list)
            }
        };
        match self.queue.post(tag, &command, self.namespace.generation, Buffer::from(data)) {
            Ok(()) => {
                self.outstanding += 1;
                self.posted = true;
                Ok(())
            }
            Err(Refused { reason: RefusedReason::Full, .. }) => Err(OwnError::Full),
            Err(Refused { reason: RefusedReason::Gone(_), .. }) => Err(OwnError::Gone),
        }
    }

    fn poll(&mut self, _now: Nanos) -> Result<Option<Completed>, OwnError> {
        if std::mem::take(&mut self.posted) {
            self.queue.ring();
        }
        if self.taken.is_empty() {
            let mut done = self.arrived.done.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *done, &mut self.taken);
        }
        match self.taken.pop_front() {
            _ if self.has_lost() => Err(OwnError::Lost),
            // Power comes back, and the namespace with it; what is durable is only known when the tier is opened anew.
            Some(done) if done.status.code() == Status::POWER_LOSS => Err(OwnError::Lost),
            Some(done) if blockdev::is_absent(done.status) => Err(OwnError::Detached),
            Some(done) => {
                self.outstanding -= 1;
                Ok(Some(done))
            }
            None if self.queue.is_gone() => Err(OwnError::Gone),
            None => Ok(None),
        }
    }

    fn next_event(&self) -> Nanos {
        if self.outstanding == 0 { Nanos::MAX } else { 0 }
    }
}
