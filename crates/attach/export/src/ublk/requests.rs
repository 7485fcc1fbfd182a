//! Requests of the kernel: what they mean, and how they enter the request queue.

use super::abi::{Descriptor, SECTOR};
use super::reply::{Asked, Reply};
use crate::buffer_pool;
use crate::file_table::File;
use crate::request_queue::{Answer, RequestQueue};
use fuser::Errno;
use std::sync::Arc;

/// What is to be done, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Write.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// Durable before the answer.
        fua: bool,
    },
    /// Make a range read as zeroes.
    Zero {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Give the space back.
        deallocate: bool,
        /// Durable before the answer.
        fua: bool,
    },
    /// Make all writes durable that were answered.
    Flush,
}

impl Action {
    /// What a descriptor means; nothing if it is no request that was asked for.
    pub fn of(descriptor: Descriptor) -> Option<Self> {
        // Operation, and bits of its flags (`UBLK_IO_OP_FLUSH`, `UBLK_IO_F_FUA`, `UBLK_IO_F_NOUNMAP`).
        const FLUSH: u32 = 2;
        const FUA: u32 = 1 << 13;
        const KEEP_BIT: u32 = 1 << 15;
        let Descriptor { operation, sectors, start } = descriptor;
        let fua = operation & FUA != 0;
        if operation & 0xFF == FLUSH {
            // The kernel says no place, as all ones.
            return Some(Action::Flush);
        }
        let offset = start.checked_mul(SECTOR)?;
        let len = u64::from(sectors) * SECTOR;
        let short = u32::try_from(len).ok();
        match operation & 0xFF {
            0 => Some(Action::Read { offset, len: short? }),
            1 => Some(Action::Write { offset, len: short?, fua }),
            3 => Some(Action::Zero { offset, len, deallocate: true, fua }),
            5 => Some(Action::Zero { offset, len, deallocate: operation & KEEP_BIT == 0, fua }),
            _ => None,
        }
    }

    /// What its answer has to have.
    pub fn asked(self) -> Asked {
        match self {
            Action::Read { len, .. } => Asked::Data(len),
            Action::Write { len, .. } => Asked::Bytes(len),
            Action::Zero { .. } | Action::Flush => Asked::Done,
        }
    }
}

/// Has it done. `reply` is answered when it is.
pub fn carry_out(requests: &Arc<RequestQueue>, file: Arc<File>, action: Action, reply: Reply) {
    match action {
        Action::Read { offset, len } => requests.read(file, offset, len, Answer::to(reply)),
        Action::Write { offset, len, fua } => {
            let mut data = buffer_pool::take(len.into());
            match reply.take_data(&mut data) {
                Ok(()) => requests.write(file, offset, data, fua, Answer::to(reply)),
                Err(error) => {
                    tracing::debug!(%error, "the kernel does not hand out the data of a write");
                    reply.fail(Errno::EIO);
                }
            }
        }
        Action::Zero { offset, len, deallocate, fua: false } => {
            requests.zero(file, offset, len, deallocate, Answer::to(reply));
        }
        Action::Zero { offset, len, deallocate, fua: true } => {
            requests.zero_durably(file, offset, len, deallocate, Answer::to(reply));
        }
        Action::Flush => requests.flush(file, Answer::to(reply)),
    }
}
