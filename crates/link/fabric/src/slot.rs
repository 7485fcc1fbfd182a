//! The places of a controller's queue for commands.

use crate::buffer_pool::Buffer;
use nvme::Command;

/// A command's part in a fused operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FusedHalf {
    /// It is none of a pair.
    #[default]
    None,
    /// A first command; whether its data is there.
    First { complete: bool },
    /// A first command with its second; whether its data is there.
    Paired { second: u16, complete: bool },
    /// A second command, with its first; whether its data is there.
    Second { first: u16, complete: bool },
    /// A first command without a second.
    Alone,
    /// The other one has failed.
    Broken,
}

impl FusedHalf {
    /// Of a command whose other half is known: whether its data is there.
    pub(crate) fn pair_is_complete(self) -> Option<bool> {
        match self {
            FusedHalf::Paired { complete, .. } | FusedHalf::Second { complete, .. } => Some(complete),
            FusedHalf::None | FusedHalf::First { .. } | FusedHalf::Alone | FusedHalf::Broken => None,
        }
    }
}

/// How far a command has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum CommandState {
    #[default]
    Free,
    /// Waits for room for its data.
    Waiting,
    /// Its data is coming.
    Gathering,
    /// Passed to the caller, or about to be.
    Ready,
    /// Answered; the answer is being sent.
    Answered,
}

/// The place of a command.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) state: CommandState,
    pub(crate) generation: u16,
    pub(crate) sqe: Command,
    pub(crate) to_host: bool,
    /// Bytes of the transfer.
    pub(crate) len: u32,
    /// Bytes that the buffer was given out for; in a capsule there may be more than the transfer.
    pub(crate) room: u32,
    /// Where in a capsule's data the transfer starts.
    pub(crate) offset: u32,
    /// Bytes that have arrived.
    pub(crate) received: u32,
    /// Bytes that R2Ts have asked for, from the start.
    pub(crate) asked: u32,
    /// R2Ts outstanding.
    pub(crate) requests: u16,
    /// Its data came with a wrong digest: it fails when all has come.
    pub(crate) damaged: bool,
    /// Its part in a fused operation.
    pub(crate) fused: FusedHalf,
    pub(crate) buffer: Buffer,
}
