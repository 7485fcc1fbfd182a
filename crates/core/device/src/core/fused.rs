//! Commands of fused operations that wait: firsts for their seconds, and pairs for their turn.

use super::controller::ControllerId;
use super::failure::Failure;
use nvme::io::Blocks;
use nvme::{Command, Status};
use std::collections::BTreeMap;

/// Values of FUSE (Base 4.1, Command Dword 0).
pub(crate) const FIRST: u8 = 1;
pub(crate) const SECOND: u8 = 2;

/// Whether a command is one of a fused operation.
#[inline]
pub(crate) fn is_fused(command: &Command, qid: u16) -> bool {
    let fuse = command.flags.fuse();
    (fuse == FIRST || fuse == SECOND) && qid != 0 && command.opc != nvme::command::FABRICS_OPCODE
}

/// Fused operations under way.
#[derive(Default)]
pub(crate) struct Fused {
    /// First commands whose second is the next of the queue, by controller and queue: number and blocks. `None` if the first has failed, and
    /// the second must be aborted.
    pub firsts: BTreeMap<(u16, u16), Option<(u32, Blocks)>>,
    /// The number and the blocks of the first command, by the number of the second: until both are executed.
    pub pairs: BTreeMap<u32, (u32, Blocks)>,
}

impl Fused {
    /// Whether any command waits for its second.
    #[inline]
    pub fn waits(&self) -> bool {
        !self.firsts.is_empty()
    }

    /// A queue is gone, or all of a controller's are.
    pub fn forget(&mut self, controller: ControllerId, qid: Option<u16>) {
        self.firsts
            .retain(|&(c, q), first| first.is_some() || c != controller.0 || qid.is_some_and(|qid| qid != q));
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        *self = Fused::default();
    }
}

/// Aborted, for the other one has failed.
pub(crate) fn other_failed() -> Failure {
    Failure { location: 1, ..Status::ABORTED_FAILED_FUSED.into() }
}
