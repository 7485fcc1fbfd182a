//! A drive at an address, by the transport that the address names.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nvme::Command;

use crate::addr::{Addr, Endpoint};
use crate::pci::{PciQueue, PciTransport};
use crate::queue::{CompletedCommand, Connected, Data, Identity, Queue, Tag, Transport};
use crate::socket::{SocketQueue, SocketTransport};
use crate::{Error, TransportError};

/// A drive at an address: NVMe/TCP, or a PCI device.
#[derive(Debug)]
pub enum DriveTransport {
    /// NVMe/TCP over a socket.
    Socket(Box<SocketTransport>),
    /// PCI over vfio-user.
    Pci(Box<PciTransport>),
}

/// A queue of a [`DriveTransport`].
#[derive(Debug)]
pub enum DriveQueue {
    /// NVMe/TCP over a socket.
    Socket(Box<SocketQueue>),
    /// PCI over vfio-user.
    Pci(PciQueue),
}

impl DriveTransport {
    /// The drive at this address; nothing is sent yet. `timeout` limits each step of connecting.
    #[must_use]
    pub fn new(addr: Addr, timeout: Duration) -> Self {
        match addr.endpoint {
            Endpoint::Pci(path) => Self::Pci(Box::new(PciTransport::new(path, addr.subnqn, timeout))),
            Endpoint::Tcp { .. } | Endpoint::Unix(_) => {
                Self::Socket(Box::new(SocketTransport::new(addr, timeout)))
            }
        }
    }
}

/// The same controller with queues of either kind.
fn connected<Q>(connected: Connected<Q>, queue: impl FnOnce(Q) -> DriveQueue) -> Connected<DriveQueue> {
    Connected { admin: queue(connected.admin), cntlid: connected.cntlid, cap: connected.cap }
}

fn socket(queue: SocketQueue) -> DriveQueue {
    DriveQueue::Socket(Box::new(queue))
}

impl Transport for DriveTransport {
    type Queue = DriveQueue;

    fn connect(&mut self, identity: &Identity) -> Result<Connected<DriveQueue>, Error> {
        match self {
            Self::Socket(transport) => Ok(connected(transport.connect(identity)?, socket)),
            Self::Pci(transport) => Ok(connected(transport.connect(identity)?, DriveQueue::Pci)),
        }
    }

    fn open_io(&mut self, depth: u16) -> Result<DriveQueue, Error> {
        match self {
            Self::Socket(transport) => transport.open_io(depth).map(socket),
            Self::Pci(transport) => transport.open_io(depth).map(DriveQueue::Pci),
        }
    }

    fn shutdown(&mut self, admin: &mut DriveQueue) -> Result<(), Error> {
        match (self, admin) {
            (Self::Socket(transport), DriveQueue::Socket(admin)) => transport.shutdown(admin),
            (Self::Pci(transport), DriveQueue::Pci(admin)) => transport.shutdown(admin),
            _ => Err(Error::Usage("the admin queue is that of another drive".into())),
        }
    }

    fn disconnect(&mut self) {
        match self {
            Self::Socket(transport) => transport.disconnect(),
            Self::Pci(transport) => transport.disconnect(),
        }
    }
}

/// Calls a function of the queue, whichever it is.
macro_rules! either {
    ($queue:expr, $each:ident => $call:expr) => {
        match $queue {
            DriveQueue::Socket($each) => $call,
            DriveQueue::Pci($each) => $call,
        }
    };
}

impl DriveQueue {
    /// Sends and takes what can be, without waiting; [`Queue::arrived`] has the completions then. For a caller that watches the
    /// [file](AsFd::as_fd) of the queue itself.
    ///
    /// # Errors
    /// The transport is broken.
    pub fn exchange_all(&mut self) -> Result<(), TransportError> {
        match self {
            Self::Socket(queue) => queue.exchange_all().map(drop),
            Self::Pci(queue) => queue.exchange_all(),
        }
    }
}

impl AsFd for DriveQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, queue => queue.as_fd())
    }
}

impl Queue for DriveQueue {
    fn capacity(&self) -> usize {
        either!(self, queue => queue.capacity())
    }

    fn outstanding(&self) -> usize {
        either!(self, queue => queue.outstanding())
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        either!(self, queue => queue.submit(command, data))
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        either!(self, queue => queue.flush())
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        either!(self, queue => queue.next(timeout))
    }

    fn submit_read(&mut self, command: Command, bytes: usize) -> Result<Tag, TransportError> {
        either!(self, queue => queue.submit_read(command, bytes))
    }

    fn next_to(
        &mut self,
        timeout: Option<Duration>,
        places: &mut [(Tag, &mut [u8])],
    ) -> Result<Option<CompletedCommand>, TransportError> {
        either!(self, queue => queue.next_to(timeout, places))
    }

    fn abandon(&mut self) {
        either!(self, queue => queue.abandon());
    }

    fn arrived(&mut self) -> Option<CompletedCommand> {
        either!(self, queue => queue.arrived())
    }
}
