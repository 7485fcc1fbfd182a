//! The low-level contract: queues that carry commands, and transports that open them.

use std::num::NonZeroU64;
use std::time::Duration;

use fabric::auth::{ChapKeys, TlsPsk};
use nvme::identify::NvmController;
use nvme::property::Cap;
use nvme::{Command, Completion, Nqn};

use crate::error::{Error, TransportError};

/// Names a submitted command until its completion is returned. Unique among the outstanding commands of its
/// queue; the queue chooses it, and writes it into the command's CID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(pub u16);

/// A command's data. Buffers are handed over with the command and come back with its completion, so that a
/// caller that keeps them allocates nothing per command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Data {
    /// No data.
    #[default]
    None,
    /// These bytes, from the host to the controller.
    Out(Vec<u8>),
    /// From the controller to the host: as many bytes as the vector is long, replaced by what arrives. Bytes
    /// that the controller does not send stay as they were.
    In(Vec<u8>),
}

impl Data {
    /// Room for `bytes` from the controller, zeroed.
    #[must_use]
    pub fn room(bytes: usize) -> Self {
        Self::In(vec![0; bytes])
    }

    /// The buffer, whichever way it went; empty without data.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Out(buffer) | Self::In(buffer) => buffer,
        }
    }

    /// Number of bytes that move.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Out(buffer) | Self::In(buffer) => buffer.len(),
        }
    }

    /// Whether nothing moves.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A completed command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompletedCommand {
    /// Which command.
    pub tag: Tag,
    /// How it ended: a failed command is a value, not an `Err`.
    pub completion: Completion,
    /// Its buffer: what arrived, or what was sent.
    pub data: Data,
}

/// A queue pair: commands go in, completions come out in any order.
///
/// `Err` means that the transport is broken and the queue of no more use; commands outstanding then may or
/// may not have been executed.
pub trait Queue {
    /// Commands that may be outstanding at once.
    fn capacity(&self) -> usize;

    /// Commands outstanding: submitted, and not yet returned by [`next`](Queue::next).
    fn outstanding(&self) -> usize;

    /// Submits a command. CID and data pointer are the queue's to fill in. It may be held back until
    /// [`flush`](Queue::flush) or [`next`](Queue::next), so that several go together.
    ///
    /// # Errors
    /// [`TransportError::Full`] when [`capacity`](Queue::capacity) commands are outstanding (the queue stays
    /// usable), otherwise the transport is broken.
    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError>;

    /// Submits a command for a namespace of this [generation](blockdev::Namespace::generation). A drive in this process refuses it with *Invalid Namespace or
    /// Format* if the namespace was replaced or formatted. Over a wire, the command has its NSID only.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    fn submit_of(
        &mut self,
        generation: Option<NonZeroU64>,
        command: Command,
        data: Data,
    ) -> Result<Tag, TransportError> {
        let _ = generation;
        self.submit(command, data)
    }

    /// Sends what [`submit`](Queue::submit) held back, as far as that goes without waiting.
    ///
    /// # Errors
    /// The transport is broken.
    fn flush(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// The next completion: at once if there is one, else waits until `timeout` has passed (`None`: without
    /// limit; zero: does not wait). `Ok(None)` means that nothing completed in that time.
    ///
    /// # Errors
    /// The transport is broken.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError>;

    /// Submits a command that reads so many bytes, for [`next_to`](Queue::next_to) to put into memory of the caller.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    fn submit_read(&mut self, command: Command, bytes: usize) -> Result<Tag, TransportError> {
        self.submit(command, Data::room(bytes))
    }

    /// As [`next`](Queue::next), while all outstanding commands were submitted with [`submit_read`](Queue::submit_read). The place of each of them
    /// is given at each call, as long as it is to read. What a command reads is in its place when it is returned, also when it has failed; bytes that
    /// the controller did not send are zero then. The completion has no data.
    ///
    /// # Errors
    /// As [`next`](Queue::next).
    fn next_to(
        &mut self,
        timeout: Option<Duration>,
        places: &mut [(Tag, &mut [u8])],
    ) -> Result<Option<CompletedCommand>, TransportError> {
        let mut done = self.next(timeout)?;
        if let Some(done) = &mut done
            && let Some((_, place)) = places.iter_mut().find(|(tag, _)| *tag == done.tag)
        {
            let bytes = std::mem::take(&mut done.data).into_buffer();
            let (there, missing) = place.split_at_mut(bytes.len().min(place.len()));
            there.copy_from_slice(&bytes[..there.len()]);
            missing.fill(0);
        }
        Ok(done)
    }

    /// The caller does not wait for outstanding commands any more, because the drive has stopped answering. If a transport
    /// has several queues of one controller, shutting it down does not wait for an answer from then on.
    fn abandon(&mut self) {}

    /// A completion that has arrived already, without looking for more: what came together with the one that
    /// [`next`](Queue::next) returned. A queue that does not know may always say `None`.
    fn arrived(&mut self) -> Option<CompletedCommand> {
        None
    }
}

/// A queue that is borrowed is a queue.
impl<Q: Queue + ?Sized> Queue for &mut Q {
    fn capacity(&self) -> usize {
        (**self).capacity()
    }

    fn outstanding(&self) -> usize {
        (**self).outstanding()
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        (**self).submit(command, data)
    }

    fn submit_of(
        &mut self,
        generation: Option<NonZeroU64>,
        command: Command,
        data: Data,
    ) -> Result<Tag, TransportError> {
        (**self).submit_of(generation, command, data)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        (**self).flush()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        (**self).next(timeout)
    }

    fn submit_read(&mut self, command: Command, bytes: usize) -> Result<Tag, TransportError> {
        (**self).submit_read(command, bytes)
    }

    fn next_to(
        &mut self,
        timeout: Option<Duration>,
        places: &mut [(Tag, &mut [u8])],
    ) -> Result<Option<CompletedCommand>, TransportError> {
        (**self).next_to(timeout, places)
    }

    fn abandon(&mut self) {
        (**self).abandon();
    }

    fn arrived(&mut self) -> Option<CompletedCommand> {
        (**self).arrived()
    }
}

/// Makes controllers of one NVM subsystem and opens their queues.
pub trait Transport {
    /// Its queues.
    type Queue: Queue;

    /// Makes a controller for this host, brings it to the state in which it takes commands, and opens its
    /// admin queue.
    ///
    /// # Errors
    /// The subsystem cannot be reached, or refuses the host.
    fn connect(&mut self, identity: &Identity) -> Result<Connected<Self::Queue>, Error>;

    /// Opens an I/O queue of the controller for `depth` outstanding commands; the transport may grant fewer.
    ///
    /// # Errors
    /// Not connected before, the subsystem cannot be reached, or refuses the queue.
    fn open_io(&mut self, depth: u16) -> Result<Self::Queue, Error>;

    /// The controller's Identify data of the NVM Command Set, if the transport has it without asking. To ask a drive in virtual time takes
    /// some of its time.
    fn nvm_controller(&self) -> Option<NvmController> {
        None
    }

    /// Whether there is a zoned namespace, if the transport knows that without asking.
    fn has_zones(&self) -> Option<bool> {
        None
    }

    /// Shuts the controller down in good order: what was written is safe when this returns.
    ///
    /// # Errors
    /// The transport is broken, or the controller did not report the shutdown complete in time.
    fn shutdown(&mut self, admin: &mut Self::Queue) -> Result<(), Error>;

    /// Lets go of a controller that only one host may have at a time. Its queues are of no more use.
    fn disconnect(&mut self) {}
}

/// Who connects, and to which subsystem.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Host NQN. The drive remembers attached namespaces by it.
    pub hostnqn: Nqn,
    /// Host Identifier.
    pub hostid: [u8; 16],
    /// NQN of the subsystem; `None`: the only one that the discovery service at the address knows.
    pub subnqn: Option<Nqn>,
    /// Keep Alive Timeout in milliseconds; 0 is off. With it, commands or [`crate::Host::keep_alive`] must
    /// come often enough.
    pub kato_ms: u32,
    /// Keys with which this host authenticates itself (DH-HMAC-CHAP) to a drive that asks for it. With the
    /// controller's key among them, a drive that does not authenticate itself is refused.
    pub chap: Option<ChapKeys>,
    /// With it, TCP connections are made over TLS 1.3, and no others.
    pub tls: Option<TlsPsk>,
}

impl Identity {
    /// A host whose identifier is derived from its NQN, without keep-alive.
    #[must_use]
    pub fn new(hostnqn: Nqn) -> Self {
        let hostid = hostnqn.host_identifier();
        Self { hostnqn, hostid, subnqn: None, kato_ms: 0, chap: None, tls: None }
    }
}

/// A controller that takes commands.
#[derive(Debug)]
pub struct Connected<Q> {
    /// Its admin queue.
    pub admin: Q,
    /// Its Controller ID.
    pub cntlid: u16,
    /// Its capabilities (the property CAP).
    pub cap: Cap,
}
