//! NVMe over Fabrics without sockets: the NVMe/TCP transport as state machines.
//!
//! Bytes that arrived go in ([`target::Connection::receive`], [`host::Connection::receive`]), commands and
//! completions come out, and bytes to send are lent out as slices (`transmit`, `sent`). What carries the
//! bytes (a TCP or Unix socket, a test's vector) is the caller's business, and so are timeouts.
//!
//! Source: *NVM Express NVMe over TCP Transport Specification, Revision 1.1* ("TCP").
//!
//! - One connection is one queue. The target passes Connect up like any other command; its answer tells the
//!   connection how deep the queue is and whether SQ flow control is on.
//! - Nothing is allocated per command in the steady state: places for commands are made when so many are
//!   first outstanding, data buffers come from a pool of the connection and go back to it. An idle connection gives
//!   both back ([`target::Connection::trim`]).
//! - Memory is bounded for any input: by the queue's depth, and by [`target::Config::data_memory`] for data;
//!   a command whose data does not fit waits for its turn before any of it is asked for.
//! - A violation of the protocol ends the connection with the specified Fatal Error Status; data with a
//!   wrong digest only fails its command.
//!
//! [`discovery`] is a small controller beside them, as it needs no drive.
//!
//! - A large write is asked for in several R2Ts at a time, as many as the host allows for one command.
//!
//! [`auth`] is in-band authentication, and how the keys of TLS are made; who answers which command is decided
//! above.
//!
//! Not here: TLS itself (it carries the same bytes), SGLs of more than one descriptor.

pub mod auth;
mod buffer_pool;
mod command_identifier;
mod digest;
pub mod discovery;
mod frame;
mod fused;
mod fuzz;
pub mod host;
mod outbox;
pub mod pdu;
mod requests;
mod sgl;
mod slot;
pub mod target;

pub use buffer_pool::Buffer;
pub use command_identifier::{command_identifier, place_of};
pub use fuzz::fuzz;

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The peer broke the protocol; a termination request that says so is ready to be sent.
    #[error("the peer broke the protocol: {0}")]
    Violation(pdu::Fault),
    /// The peer ended the connection with a termination request.
    #[error("the peer ended the connection: {fes} (information {fei:#x})")]
    Terminated {
        /// Fatal Error Status.
        fes: pdu::Fes,
        /// Fatal Error Information.
        fei: u32,
    },
    /// The connection has ended before; nothing more is accepted.
    #[error("the connection has ended")]
    Ended,
}

/// A call that makes no sense in the connection's state: a mistake of the caller, not of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misuse {
    /// The tag names no outstanding command (answered before, or from another connection).
    #[error("the tag names no outstanding command")]
    StaleTag,
    /// Every place in the queue is taken.
    #[error("every place in the queue is taken")]
    Full,
    /// The connection is not set up yet, or has ended.
    #[error("the connection is not ready for commands")]
    NotReady,
    /// More data than one command can carry.
    #[error("one command cannot carry that much data")]
    TooLarge,
}

/// Names a command in flight on a connection. A tag that was answered never names a later command, until
/// its place has been used 65,536 times more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag {
    slot: u16,
    generation: u16,
}

/// A part of the data of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Bytes of the command's own buffer.
    Own {
        /// The first.
        start: u32,
        /// How many.
        len: u32,
    },
    /// Bytes that lie elsewhere: the caller knows where by the token, and keeps them there, unchanged, until it is
    /// told that they are sent.
    Away {
        /// The caller's name for the memory.
        token: u32,
        /// The first byte of that memory.
        start: u32,
        /// How many.
        len: u32,
    },
}

impl Tag {
    /// The command's place in the queue: below the queue's depth, for tables of the caller's own.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.slot)
    }

    /// The tag as a number, for tables of the caller's own.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        (self.generation as u32) << 16 | self.slot as u32
    }

    /// The tag that [`Tag::to_bits`] made a number of. Any other number gives a tag that names no command, or another one.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Tag { slot: (bits & 0xFFFF) as u16, generation: (bits >> 16) as u16 }
    }
}
