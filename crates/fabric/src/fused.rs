//! Fused operations (Base 3.4.2) on the controller's side. Two commands that follow each other in the queue are passed on one right
//! behind the other, when the data of both is there.
//!
//! Only this module knows the order in which commands came. A first command waits for the next capsule. If that is its second
//! command, each waits for the other's data. If not, the first is passed on as [`alone`](crate::target::Incoming::alone). If the data of
//! one of the two is damaged, that one fails and the other is aborted.

use crate::target::{CommandState, Connection};
use nvme::command::FABRICS_OPCODE;
use nvme::{Command, Completion, Status};

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
    fn pair_is_complete(self) -> Option<bool> {
        match self {
            FusedHalf::Paired { complete, .. } | FusedHalf::Second { complete, .. } => Some(complete),
            FusedHalf::None | FusedHalf::First { .. } | FusedHalf::Alone | FusedHalf::Broken => None,
        }
    }
}

/// Whether the command that came last is the first of a fused operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LastFirst {
    #[default]
    None,
    /// In this place.
    At(u16),
    /// And it has failed already.
    Failed,
}

impl Connection {
    /// A command has come: it may belong to the one before.
    pub(crate) fn join(&mut self, index: u16) {
        let fuse = self.fuse_of(&self.slots[usize::from(index)].sqe);
        let last = std::mem::take(&mut self.fused);
        match (last, fuse) {
            (LastFirst::None, _) => {}
            (LastFirst::At(first), 2) => {
                let complete = self.slots[usize::from(first)].fused == FusedHalf::First { complete: true };
                self.slots[usize::from(first)].fused = FusedHalf::Paired { second: index, complete };
                self.slots[usize::from(index)].fused = FusedHalf::Second { first, complete: false };
            }
            (LastFirst::At(first), _) => {
                let slot = &mut self.slots[usize::from(first)];
                let complete = slot.fused == FusedHalf::First { complete: true };
                slot.fused = FusedHalf::Alone;
                if complete {
                    self.deliver_now(first);
                }
            }
            (LastFirst::Failed, 2) => self.slots[usize::from(index)].fused = FusedHalf::Broken,
            (LastFirst::Failed, _) => {}
        }
        if fuse == 1 {
            self.slots[usize::from(index)].fused = FusedHalf::First { complete: false };
            self.fused = LastFirst::At(index);
        }
    }

    fn fuse_of(&self, sqe: &Command) -> u8 {
        // On admin queues, and of fabrics commands, the controller says what it thinks of it.
        if self.is_admin || sqe.opc == FABRICS_OPCODE { 0 } else { sqe.flags.fuse() }
    }

    /// The data of one of a pair is there.
    pub(crate) fn deliver_half(&mut self, index: u16) {
        let half = self.slots[usize::from(index)].fused;
        let pair = match half {
            FusedHalf::First { .. } => {
                self.slots[usize::from(index)].fused = FusedHalf::First { complete: true };
                return;
            }
            FusedHalf::Paired { second, .. } => {
                self.slots[usize::from(index)].fused = FusedHalf::Paired { second, complete: true };
                (index, second)
            }
            FusedHalf::Second { first, .. } => {
                self.slots[usize::from(index)].fused = FusedHalf::Second { first, complete: true };
                (first, index)
            }
            FusedHalf::Broken => return self.refuse_now(index, Status::ABORTED_FAILED_FUSED.with_dnr()),
            FusedHalf::None | FusedHalf::Alone => return self.deliver_now(index),
        };
        let complete = |index: u16| self.slots[usize::from(index)].fused.pair_is_complete() == Some(true);
        if complete(pair.0) && complete(pair.1) {
            for index in [pair.0, pair.1] {
                self.slots[usize::from(index)].fused = FusedHalf::None;
                self.deliver_now(index);
            }
        }
    }

    /// A command fails before the controller sees it, and its other half with it.
    pub(crate) fn refuse(&mut self, index: u16, status: Status) {
        let half = std::mem::take(&mut self.slots[usize::from(index)].fused);
        if self.fused == LastFirst::At(index) {
            self.fused = LastFirst::Failed;
        }
        self.refuse_now(index, status);
        let other = match half {
            FusedHalf::Paired { second, .. } => second,
            FusedHalf::Second { first, .. } => first,
            _ => return,
        };
        let Some(complete) = self.slots[usize::from(other)].fused.pair_is_complete() else { return };
        self.slots[usize::from(other)].fused = FusedHalf::Broken;
        if complete {
            self.refuse_now(other, Status::ABORTED_FAILED_FUSED.with_dnr());
        }
    }

    fn refuse_now(&mut self, index: u16, status: Status) {
        self.slots[usize::from(index)].state = CommandState::Ready;
        self.answer(index, Completion::new(0, status), 0);
    }
}
