//! The low-level contract: queues that carry commands, and transports that open them.

use std::time::Duration;

use nvme::{Command, Completion};

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
pub struct Done {
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

    /// Submits a command. CID and data pointer are the queue's to fill in.
    ///
    /// # Errors
    /// [`TransportError::Full`] when [`capacity`](Queue::capacity) commands are outstanding (the queue stays
    /// usable), otherwise the transport is broken.
    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError>;

    /// The next completion: at once if there is one, else waits until `timeout` has passed (`None`: without
    /// limit; zero: does not wait). `Ok(None)` means that nothing completed in that time.
    ///
    /// # Errors
    /// The transport is broken.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Done>, TransportError>;
}

/// Opens queues to one NVM subsystem.
///
/// Every queue starts with a Connect command that the caller (the typed host) submits, on a socket and in
/// the same process alike.
pub trait Transport {
    /// Its queues.
    type Queue: Queue;

    /// Opens a queue for `depth` outstanding commands; the transport may grant fewer.
    ///
    /// # Errors
    /// The subsystem cannot be reached.
    fn open(&mut self, kind: QueueKind, depth: u16) -> Result<Self::Queue, TransportError>;
}

/// Admin or I/O queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// The admin queue of a new controller.
    Admin,
    /// An I/O queue of an existing controller.
    Io,
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
