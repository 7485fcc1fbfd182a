//! The buffer of a command's data, while the drive has it.
//!
//! A front end gives the buffer with the command, and gets it back when the command ends. In between it is the store's. No byte of it is
//! copied on the way: memory moves with its owner.
//!
//! A front end that sends what is read need not have it in its buffer. It lends memory ([`LentMemory`]), and the store may leave
//! references to slots there instead of bytes. A connection sends from the slots. A front end with memory of a virtual machine
//! copies from the slots to that memory, so that a read is copied once.

use crate::buffer::Buffer;
use media::Slot;

/// The data of one command.
#[derive(Debug, Default)]
pub enum DataBuffer {
    /// None.
    #[default]
    None,
    /// Bytes that belong to the command.
    Owned(Buffer),
    /// Memory of a front end, which takes references to slots instead of bytes. Boxed, so that it moves fast: front ends use the
    /// boxes again.
    Lent(Box<LentMemory>),
    /// Room without bytes, for data that nothing reads.
    Void,
}

/// Memory that a front end lends for one command.
#[derive(Debug, Default)]
pub struct LentMemory {
    /// What the host wrote, or room for what it reads.
    pub bytes: Buffer,
    /// Where the data is that was read, in order. Empty if all of it is in `bytes`.
    pub parts: Vec<AnswerPart>,
}

/// A part of what was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerPart {
    /// Bytes of the lent memory.
    Copied {
        /// The first.
        start: u32,
        /// How many.
        len: u32,
    },
    /// Bytes of a slot. The slot does not change before the reference ends.
    InSlot {
        /// Which slot.
        slot: Slot,
        /// The first byte of its page.
        start: u32,
        /// How many.
        len: u32,
    },
}

impl LentMemory {
    /// Notes that the next `len` bytes were copied to `start`.
    #[inline]
    pub(super) fn copied(&mut self, start: u32, len: u32) {
        match self.parts.last_mut() {
            Some(AnswerPart::Copied { start: first, len: so_far }) if *first + *so_far == start => {
                *so_far += len;
            }
            _ => self.parts.push(AnswerPart::Copied { start, len }),
        }
    }

    /// Whether some of the data is in slots.
    pub fn refers_to_slots(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, AnswerPart::InSlot { .. }))
    }
}

impl DataBuffer {
    /// Whether a transfer fits.
    #[inline]
    pub fn holds(&self, bytes: u64) -> bool {
        matches!(self, DataBuffer::Void) || bytes <= self.as_slice().len() as u64
    }

    /// Its bytes, as far as they are in memory of their own.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            DataBuffer::None | DataBuffer::Void => &[],
            DataBuffer::Owned(buffer) => buffer.as_slice(),
            DataBuffer::Lent(lent) => lent.bytes.as_slice(),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            DataBuffer::None | DataBuffer::Void => &mut [],
            DataBuffer::Owned(buffer) => buffer.as_mut_slice(),
            DataBuffer::Lent(lent) => lent.bytes.as_mut_slice(),
        }
    }

    /// The lent memory, if that is what it is.
    #[inline]
    pub fn lent_mut(&mut self) -> Option<&mut LentMemory> {
        match self {
            DataBuffer::Lent(lent) => Some(lent),
            _ => None,
        }
    }

    /// The bytes that belong to the command; empty if none do.
    pub fn into_owned(self) -> Buffer {
        match self {
            DataBuffer::Owned(buffer) => buffer,
            DataBuffer::None | DataBuffer::Void | DataBuffer::Lent(_) => Buffer::empty(),
        }
    }
}

impl From<Buffer> for DataBuffer {
    fn from(buffer: Buffer) -> Self {
        DataBuffer::Owned(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_what_it_has_bytes_for_and_a_void_one_anything() {
        let lent = LentMemory { bytes: Buffer::zeroed(512), parts: Vec::new() };
        for buffer in [DataBuffer::from(Buffer::zeroed(512)), DataBuffer::Lent(Box::new(lent))] {
            assert!(buffer.holds(512) && !buffer.holds(513));
        }
        assert!(DataBuffer::None.holds(0) && !DataBuffer::None.holds(1));
        assert!(DataBuffer::Void.holds(u64::MAX));
        assert!(size_of::<DataBuffer>() <= 40, "buffers move with every command");
    }

    #[test]
    fn bytes_that_follow_each_other_are_one_part() {
        let mut lent = LentMemory::default();
        lent.copied(0, 512);
        lent.copied(512, 512);
        assert!(!lent.refers_to_slots());
        lent.parts.push(AnswerPart::InSlot { slot: Slot(3), start: 0, len: 4096 });
        lent.copied(5120, 512);
        assert!(lent.refers_to_slots());
        let (first, last) = (AnswerPart::Copied { start: 0, len: 1024 }, lent.parts[2]);
        assert_eq!((lent.parts[0], last), (first, AnswerPart::Copied { start: 5120, len: 512 }));
    }
}
