//! Contents in memory, which is given back to the system when nothing is left in it.

use crate::prefault::Prefault;
use media::Slot;
use media::tables::{MemoryRange, give_back, huge_pages};
use zerocopy::FromZeros;

/// Bytes of a slot.
pub const SLOT: usize = ftl::PAGE as usize;
/// Slots of a chunk: 64 MiB of address space for pages, touched as slots are written.
const CHUNK: usize = 16_384;
/// What the kernel can back with one huge page, and the alignment that this takes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

struct Chunk {
    bytes: Box<[u8]>,
    /// Where the first slot begins.
    start: usize,
}

impl Chunk {
    fn new(size: usize) -> Result<Self, OutOfMemory> {
        // Zeroed by the system when it is touched, not by us.
        let mut bytes =
            <[u8]>::new_box_zeroed_with_elems(CHUNK * size + HUGE_PAGE_BYTES).map_err(|_| OutOfMemory)?;
        let start = bytes.as_ptr().align_offset(HUGE_PAGE_BYTES).min(HUGE_PAGE_BYTES);
        huge_pages(&mut bytes[start..start + CHUNK * size]);
        Ok(Chunk { bytes, start })
    }

    /// The chunk that belongs there; a new one if there is none.
    #[inline]
    fn made(place: &mut Option<Chunk>, size: usize) -> Result<&mut Chunk, OutOfMemory> {
        match place {
            Some(chunk) => Ok(chunk),
            None => Ok(place.insert(Chunk::new(size)?)),
        }
    }

    #[inline]
    fn at(&self, slot: usize, size: usize) -> std::ops::Range<usize> {
        let first = self.start + slot * size;
        first..first + size
    }
}

/// Slots in a word of bits.
const WORD: usize = u64::BITS as usize;

/// Regions without slots in use that are kept for the next writes: to give memory back and get it again takes its time.
const MAX_SPARE_REGIONS: usize = 16;

/// What slots hold, `SIZE` bytes each, in chunks that are made when the first of their slots is written. The memory of a
/// region, that of a huge page, goes back to the system when no slot in it is in use any more.
pub(crate) struct Memory<const SIZE: usize = SLOT> {
    chunks: Vec<Option<Chunk>>,
    /// Slots in use, by region.
    used: Vec<u32>,
    /// A bit for each slot that may hold something else than zeroes.
    written: Vec<u64>,
    /// Regions that had no slot in use at some time lately.
    unused: Vec<u32>,
    /// The thread that puts memory under the first of them.
    prefault: Option<Prefault>,
}

/// The host has no memory left.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

impl<const SIZE: usize> Memory<SIZE> {
    pub(crate) fn new(slots: u32) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((slots as usize).div_ceil(CHUNK), || None);
        let used = vec![0; chunks.len() * CHUNK / Self::REGION];
        let written = vec![0; chunks.len() * CHUNK / WORD];
        Memory { chunks, used, written, unused: Vec::with_capacity(MAX_SPARE_REGIONS + 1), prefault: None }
    }

    /// Faults the first `bytes` of memory in, in whole regions, by a thread of its own. Slots come into use in their order.
    pub(crate) fn prefault(&mut self, slots: u32, bytes: u64) {
        let end = (slots as usize).div_ceil(Self::REGION);
        let regions = usize::try_from(bytes / HUGE_PAGE_BYTES as u64).unwrap_or(end).min(end);
        let mut ranges = Vec::new();
        for first in (0..regions).map(|region| region * Self::REGION) {
            let Some(place) = self.chunks.get_mut(first / CHUNK) else { break };
            // A later write there gets the error.
            let Ok(chunk) = Chunk::made(place, SIZE) else { break };
            let start = chunk.start + first % CHUNK * SIZE;
            ranges.push(MemoryRange::of(&chunk.bytes[start..start + HUGE_PAGE_BYTES]));
        }
        if !ranges.is_empty() {
            self.prefault = Prefault::begin(ranges);
        }
    }

    /// Slots of a region.
    const REGION: usize = HUGE_PAGE_BYTES / SIZE;

    /// A slot is in use from now on.
    #[inline]
    pub(crate) fn taken(&mut self, slot: Slot) {
        self.used[slot.0 as usize / Self::REGION] += 1;
    }

    /// A slot is not in use any more.
    #[inline]
    pub(crate) fn freed(&mut self, slot: Slot) {
        let region = slot.0 as usize / Self::REGION;
        self.used[region] -= 1;
        if self.used[region] == 0 {
            self.give_back(region as u32);
        }
    }

    /// The memory of a region may go: what was unused before it goes now.
    #[cold]
    fn give_back(&mut self, region: u32) {
        self.unused.push(region);
        if self.unused.len() <= MAX_SPARE_REGIONS {
            return;
        }
        for region in std::mem::take(&mut self.unused) {
            let first = region as usize * Self::REGION;
            if self.used[region as usize] == 0
                && let Some(Some(chunk)) = self.chunks.get_mut(first / CHUNK)
            {
                let start = chunk.start + first % CHUNK * SIZE;
                give_back(&mut chunk.bytes[start..start + HUGE_PAGE_BYTES]);
                self.written[first / WORD..(first + Self::REGION) / WORD].fill(0);
            }
        }
    }

    /// Counts anew which slots are in use.
    pub(crate) fn recount(&mut self, in_use: impl Fn(u32) -> bool) {
        for region in 0..self.used.len() {
            let first = (region * Self::REGION) as u32;
            let used = (first..first + Self::REGION as u32).filter(|&slot| in_use(slot)).count() as u32;
            let before = std::mem::replace(&mut self.used[region], used);
            if used == 0 && before > 0 {
                self.give_back(region as u32);
            }
        }
    }

    /// The slot's bytes, if any of its chunk was ever written.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&[u8; SIZE]> {
        let slot = slot.0 as usize;
        let chunk = self.chunks.get(slot / CHUNK)?.as_ref()?;
        chunk.bytes[chunk.at(slot % CHUNK, SIZE)].first_chunk()
    }

    /// Erases the slots that `free` says are nobody's. Memory that holds no others goes back to the system. The time grows with the slots that were
    /// written since the last call.
    pub(crate) fn erase(&mut self, free: impl Fn(u32) -> bool) {
        for (index, place) in self.chunks.iter_mut().enumerate() {
            let Some(chunk) = place else { continue };
            let first = index * CHUNK;
            let words = &mut self.written[first / WORD..(first + CHUNK) / WORD];
            for (number, word) in words.iter_mut().enumerate() {
                let mut rest = *word;
                while rest != 0 {
                    let slot = number * WORD + rest.trailing_zeros() as usize;
                    if free((first + slot) as u32) {
                        let range = chunk.at(slot, SIZE);
                        chunk.bytes[range].fill(0);
                        *word &= !(1 << (slot % WORD));
                    }
                    rest &= rest - 1;
                }
            }
            if words.iter().all(|word| *word == 0) {
                *place = None;
            }
        }
    }

    /// Erases one slot.
    pub(crate) fn clear(&mut self, slot: Slot) {
        let slot = slot.0 as usize;
        if let Some(Some(chunk)) = self.chunks.get_mut(slot / CHUNK) {
            let range = chunk.at(slot % CHUNK, SIZE);
            chunk.bytes[range].fill(0);
            self.written[slot / WORD] &= !(1 << (slot % WORD));
        }
    }

    /// The slot's bytes, to be written.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Result<&mut [u8; SIZE], OutOfMemory> {
        let slot = slot.0 as usize;
        let place = self.chunks.get_mut(slot / CHUNK).ok_or(OutOfMemory)?;
        let chunk = Chunk::made(place, SIZE)?;
        self.written[slot / WORD] |= 1 << (slot % WORD);
        let range = chunk.at(slot % CHUNK, SIZE);
        chunk.bytes[range].first_chunk_mut().ok_or(OutOfMemory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_when_nothing_in_it_is_in_use() {
        let mut memory: Memory = Memory::new(CHUNK as u32);
        let region = Memory::<SLOT>::REGION as u32;
        for slot in (0..CHUNK as u32).map(Slot) {
            memory.taken(slot);
            memory.get_mut(slot).unwrap().fill(1);
        }
        memory.freed(Slot(3));
        assert_eq!(memory.get(Slot(3)).unwrap()[0], 1, "others of its region are in use");
        memory.taken(Slot(3));
        (region..CHUNK as u32).for_each(|slot| memory.freed(Slot(slot)));
        let gone = (region..CHUNK as u32).filter(|&slot| memory.get(Slot(slot)).unwrap()[0] == 0).count();
        assert!(gone >= CHUNK - (MAX_SPARE_REGIONS + 2) * region as usize, "{gone} slots");
        assert_eq!(memory.get(Slot(3)).unwrap()[0], 1);
        // It can be taken again.
        memory.taken(Slot(CHUNK as u32 / 2));
        memory.get_mut(Slot(CHUNK as u32 / 2)).unwrap().fill(9);
        assert_eq!(memory.get(Slot(CHUNK as u32 / 2)).unwrap()[7], 9);
        memory.recount(|slot| slot < region);
        assert_eq!(memory.used.iter().sum::<u32>(), region);
    }

    #[test]
    fn what_is_erased_is_zeroes_and_nothing_else() {
        let slots = 2 * CHUNK as u32;
        let mut memory: Memory = Memory::new(slots);
        let mut rng = media::Rng::new(1);
        let mut kept = vec![0; slots as usize];
        for round in 1..40 {
            for _ in 0..rng.below(2000) {
                let slot = rng.below(slots.into()) as u32;
                memory.get_mut(Slot(slot)).unwrap().fill(round);
                kept[slot as usize] = round;
            }
            // Those of a few bytes of their number are in use.
            let salt = rng.below(64) as u32;
            let free = |slot: u32| slot % 64 <= salt;
            memory.erase(free);
            (0..slots).filter(|slot| free(*slot)).for_each(|slot| kept[slot as usize] = 0);
            for (slot, kept) in (0..slots).zip(&kept) {
                let there = memory.get(Slot(slot)).map_or(0, |bytes| bytes[SLOT - 1]);
                assert_eq!(there, *kept, "slot {slot} in round {round}");
            }
        }
        memory.erase(|_| true);
        assert!(memory.chunks.iter().all(Option::is_none), "memory without contents goes back");
    }

    #[test]
    fn memory_is_there_before_it_is_written() {
        let slots = 2 * CHUNK as u32;
        let mut memory: Memory = Memory::new(slots);
        memory.prefault(slots, 3 * HUGE_PAGE_BYTES as u64 + 5);
        assert!(memory.get(Slot(0)).is_some(), "the chunk is made");
        assert!(memory.get(Slot(CHUNK as u32)).is_none(), "and no more than is asked for");
        for slot in (0..slots).map(Slot) {
            memory.taken(slot);
            memory.get_mut(slot).unwrap().fill(slot.0 as u8);
        }
        assert!((0..slots).all(|slot| memory.get(Slot(slot)).unwrap()[99] == slot as u8));
        // Less than a region is nothing, and more than there is, is all.
        let mut memory: Memory = Memory::new(slots);
        memory.prefault(slots, HUGE_PAGE_BYTES as u64 - 1);
        assert!(memory.prefault.is_none());
        memory.prefault(slots, u64::MAX);
        assert!(memory.get(Slot(slots - 1)).is_some());
    }

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
