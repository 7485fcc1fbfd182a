//! The names of connections.

use super::ports::MAX_PORTS;
use crate::engine::Token;
use fabric::Tag;

/// Numbers of listeners among the sockets that are watched; connections follow.
pub(super) const LISTENERS: u64 = MAX_PORTS as u64;
/// The part of a connection's generation that is in the number of its socket.
pub(super) const GENERATIONS: u32 = 0xFF_FFFF;

/// Names a connection, even after it has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl ConnectionId {
    pub(super) fn number(self) -> u64 {
        LISTENERS + (u64::from(self.generation & GENERATIONS) << 32 | u64::from(self.index))
    }

    /// What the engine calls a command of this connection.
    #[inline]
    pub(super) fn token(self, tag: Tag) -> Token {
        let queue = u64::from(self.generation) << 32 | u64::from(self.index);
        Token { queue, command: tag.to_bits().into() }
    }

    /// The connection and its command of a token.
    #[inline]
    pub(super) fn of(token: Token) -> (ConnectionId, Tag) {
        let id = ConnectionId { index: token.queue as u32, generation: (token.queue >> 32) as u32 };
        (id, Tag::from_bits(token.command as u32))
    }
}
