//! A host's side of a queue pair: entries in memory that it shares with the device.

use crate::guest_map::GuestMap;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, Completion};
use pcie::{GuestMemory, Unmapped};

/// Bytes of a submission queue entry.
pub const SQE_BYTES: u64 = 64;
/// Bytes of a completion queue entry.
pub const CQE_BYTES: u64 = 16;

/// A submission queue and its completion queue, each contiguous.
#[derive(Clone, Copy, Debug)]
pub struct QueuePair {
    /// Address of the submission queue.
    submission: u64,
    /// Address of the completion queue.
    completion: u64,
    entries: u32,
    tail: u32,
    head: u32,
    /// Phase Tag of new entries.
    phase: bool,
}

impl QueuePair {
    /// An empty pair with this many entries each. The memory of the completion queue is zero.
    #[must_use]
    pub fn new(submission: u64, completion: u64, entries: u32) -> Self {
        QueuePair { submission, completion, entries, tail: 0, head: 0, phase: true }
    }

    /// Addresses of the submission and the completion queue.
    #[must_use]
    pub fn bases(&self) -> [u64; 2] {
        [self.submission, self.completion]
    }

    /// The index behind the last command.
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The index behind the last completion that was taken.
    #[must_use]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Adds a command. The caller keeps fewer commands outstanding than there are entries, and rings the doorbell.
    ///
    /// # Errors
    /// The queue is not mapped.
    pub fn push(&mut self, memory: &GuestMap, command: &Command) -> Result<(), Unmapped> {
        memory.write(self.submission + u64::from(self.tail) * SQE_BYTES, command.as_bytes())?;
        self.tail = (self.tail + 1) % self.entries;
        Ok(())
    }

    /// Takes the next completion; `None` if there is none. The caller rings the doorbell.
    ///
    /// # Errors
    /// The queue is not mapped.
    pub fn take(&mut self, memory: &GuestMap) -> Result<Option<Completion>, Unmapped> {
        let at = self.completion + u64::from(self.head) * CQE_BYTES;
        // The last dword, which has the Phase Tag, is written last and read first.
        let last = memory.load(at + CQE_BYTES - 4)?;
        if (last >> 16 & 1 != 0) != self.phase {
            return Ok(None);
        }
        let mut bytes = [0; CQE_BYTES as usize];
        memory.read(at, &mut bytes)?;
        self.head = (self.head + 1) % self.entries;
        self.phase ^= self.head == 0;
        Ok(Some(Completion::read_from_bytes(&bytes).unwrap_or_default()))
    }
}
