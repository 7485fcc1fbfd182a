//! Contents in memory.

use media::{Slot, tables::huge_pages};
use zerocopy::FromZeros;

/// Bytes of a slot.
pub(crate) const SLOT: usize = ftl::PAGE as usize;
/// Slots of a chunk: 64 MiB of address space for pages, touched as slots are written.
const CHUNK: usize = 16_384;
/// What the kernel can back with one huge page, and the alignment that this takes.
const HUGE: usize = 2 << 20;

struct Chunk {
    bytes: Box<[u8]>,
    /// Where the first slot begins.
    start: usize,
}

impl Chunk {
    fn new(size: usize) -> Result<Self, OutOfMemory> {
        // Zeroed by the system when it is touched, not by us.
        let mut bytes = <[u8]>::new_box_zeroed_with_elems(CHUNK * size + HUGE).map_err(|_| OutOfMemory)?;
        let start = bytes.as_ptr().align_offset(HUGE).min(HUGE);
        huge_pages(&mut bytes[start..start + CHUNK * size]);
        Ok(Chunk { bytes, start })
    }

    #[inline]
    fn at(&self, slot: usize, size: usize) -> std::ops::Range<usize> {
        let first = self.start + slot * size;
        first..first + size
    }
}

/// What slots hold, `SIZE` bytes each, in chunks that are made when the first of their slots is written.
pub(crate) struct Memory<const SIZE: usize = SLOT> {
    chunks: Vec<Option<Chunk>>,
}

/// The host has no memory left.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

impl<const SIZE: usize> Memory<SIZE> {
    pub(crate) fn new(slots: u32) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((slots as usize).div_ceil(CHUNK), || None);
        Memory { chunks }
    }

    /// The slot's bytes, if any of its chunk was ever written.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&[u8; SIZE]> {
        let slot = slot.0 as usize;
        let chunk = self.chunks.get(slot / CHUNK)?.as_ref()?;
        chunk.bytes[chunk.at(slot % CHUNK, SIZE)].first_chunk()
    }

    /// Erases the slots that `free` says are nobody's; memory that holds no others goes back to the system.
    pub(crate) fn erase(&mut self, free: impl Fn(u32) -> bool) {
        for (index, place) in self.chunks.iter_mut().enumerate() {
            let first = index * CHUNK;
            let slots = || (0..CHUNK).filter(|&i| free((first + i) as u32));
            if slots().count() == CHUNK {
                *place = None;
            }
            let Some(chunk) = place else { continue };
            for slot in slots() {
                let range = chunk.at(slot, SIZE);
                chunk.bytes[range].fill(0);
            }
        }
    }

    /// Erases one slot.
    pub(crate) fn clear(&mut self, slot: Slot) {
        let slot = slot.0 as usize;
        if let Some(Some(chunk)) = self.chunks.get_mut(slot / CHUNK) {
            let range = chunk.at(slot % CHUNK, SIZE);
            chunk.bytes[range].fill(0);
        }
    }

    /// The slot's bytes, to be written.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Result<&mut [u8; SIZE], OutOfMemory> {
        let slot = slot.0 as usize;
        let place = self.chunks.get_mut(slot / CHUNK).ok_or(OutOfMemory)?;
        if place.is_none() {
            *place = Some(Chunk::new(SIZE)?);
        }
        let chunk = place.as_mut().ok_or(OutOfMemory)?;
        let range = chunk.at(slot % CHUNK, SIZE);
        chunk.bytes[range].first_chunk_mut().ok_or(OutOfMemory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_what_is_written() {
        let mut memory: Memory = Memory::new(20_000);
        assert!(memory.get(Slot(19_999)).is_none());
        memory.get_mut(Slot(19_999)).unwrap()[5] = 7;
        assert_eq!(memory.get(Slot(19_999)).unwrap()[..7], [0, 0, 0, 0, 0, 7, 0]);
        assert_eq!(memory.get(Slot(19_998)).unwrap()[5], 0);
        assert!(memory.get(Slot(0)).is_none());
        memory.get_mut(Slot(16_383)).unwrap().fill(9);
        assert_eq!(memory.get(Slot(16_384)).unwrap()[0], 0);
        assert!(memory.get_mut(Slot(40_000)).is_err());
    }
}
