//! A namespace over a socket, for the thread that runs the tier.

use blockdev::{BlockDevice, Completed, Geometry, Nanos, Operation};
use host::{DriveQueue, DriveTransport, Host, NamespaceDevice, Queue, TransportError};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long a drive may be silent while commands are under way. A drive that ends or a connection that breaks is noticed at once.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A namespace of a drive elsewhere.
pub struct SocketDevice {
    device: NamespaceDevice<DriveQueue>,
    /// The association ends with its admin queue.
    _host: Host<DriveTransport>,
    /// When the first of the present commands was submitted, or the last answer came.
    heard: Nanos,
}

impl SocketDevice {
    /// A namespace through a queue of this host.
    pub fn new(host: Host<DriveTransport>, queue: DriveQueue, namespace: blockdev::Namespace) -> Self {
        SocketDevice { device: NamespaceDevice::new(queue, namespace), _host: host, heard: 0 }
    }

    fn queue(&mut self) -> &mut DriveQueue {
        self.device.queue().queue()
    }

    /// Its socket.
    pub fn socket(&mut self) -> BorrowedFd<'_> {
        DriveQueue::as_fd(self.queue())
    }
}

impl BlockDevice for SocketDevice {
    type Error = TransportError;

    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn room(&self) -> usize {
        self.device.room()
    }

    fn submit(
        &mut self,
        now: Nanos,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), TransportError> {
        if self.queue().outstanding() == 0 {
            self.heard = now;
        }
        // It is sent when the tier looks for answers, together with others.
        self.device.submit(now, tag, part, data)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, TransportError> {
        let mut done = self.device.arrived();
        if done.is_none() {
            self.queue().exchange_all()?;
            done = self.device.arrived();
        }
        if done.is_some() {
            self.heard = now;
        } else if self.queue().outstanding() > 0
            && now.saturating_sub(self.heard) > SILENCE_TIMEOUT.as_nanos() as Nanos
        {
            return Err(TransportError::Timeout(SILENCE_TIMEOUT));
        }
        Ok(done)
    }

    fn next_event(&self) -> Nanos {
        self.device.next_event()
    }
}
