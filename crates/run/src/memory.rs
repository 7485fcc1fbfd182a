//! Contents in memory.

use media::Slot;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Bytes of a slot.
pub(crate) const SLOT: usize = ftl::PAGE as usize;
/// Slots of a chunk.
const CHUNK: usize = 512;

/// 2 MiB, aligned so that the kernel can back it with one huge page where that is enabled.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(2097152))]
struct Chunk {
    slots: [[u8; SLOT]; CHUNK],
}

/// Slots in chunks that are allocated when the first of their slots is written.
pub(crate) struct Memory {
    chunks: Vec<Option<Box<Chunk>>>,
}

/// The host has no memory left.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

impl Memory {
    pub(crate) fn new(slots: u32) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((slots as usize).div_ceil(CHUNK), || None);
        Memory { chunks }
    }

    /// The slot's bytes, if it was ever written.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&[u8; SLOT]> {
        let slot = slot.0 as usize;
        let chunk = self.chunks.get(slot / CHUNK)?.as_deref()?;
        Some(&chunk.slots[slot % CHUNK])
    }

    /// The slot's bytes, to be written.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Result<&mut [u8; SLOT], OutOfMemory> {
        let slot = slot.0 as usize;
        let chunk = self.chunks.get_mut(slot / CHUNK).ok_or(OutOfMemory)?;
        if chunk.is_none() {
            *chunk = Some(Chunk::new_box_zeroed().map_err(|_| OutOfMemory)?);
        }
        match chunk {
            Some(chunk) => Ok(&mut chunk.slots[slot % CHUNK]),
            None => Err(OutOfMemory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_what_is_written() {
        let mut memory = Memory::new(1000);
        assert!(memory.get(Slot(999)).is_none());
        memory.get_mut(Slot(999)).unwrap()[5] = 7;
        assert_eq!(memory.get(Slot(999)).unwrap()[5], 7);
        assert_eq!(memory.get(Slot(998)).unwrap()[5], 0);
        assert!(memory.get(Slot(0)).is_none());
        assert!(memory.get_mut(Slot(1024)).is_err());
    }
}
