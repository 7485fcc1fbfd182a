//! The layout of BAR0: registers, doorbells, the tables of MSI-X.

use std::ops::Range;

/// Offset of the first doorbell (PCIe transport 1.1, section 3.1.2).
pub(crate) const DOORBELLS_OFFSET: u32 = 0x1000;
/// Bytes that a client maps as a whole: doorbells share no page with anything else.
const MAP_BYTES: u32 = 4096;
/// Bytes of an entry of the MSI-X table.
pub(crate) const MSIX_ENTRY_BYTES: u32 = 16;
/// I/O queue pairs of a function, at most: with the admin queue they are the bits of a set of queues.
pub const MAX_QUEUE_PAIRS: u16 = 127;
/// Interrupt vectors of a function, at most.
pub const MAX_VECTORS: u16 = 1024;
/// CAP.DSTRD, at most.
pub const MAX_STRIDE: u8 = 4;

/// Which doorbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doorbell {
    /// Submission Queue Tail.
    Tail(u16),
    /// Completion Queue Head.
    Head(u16),
}

/// Where everything is in BAR0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarLayout {
    /// Bytes of BAR0: a power of two.
    pub bytes: u32,
    /// Bytes between two doorbells.
    pub stride: u32,
    /// Offset behind the pages of doorbells.
    pub doorbells_end: u32,
    /// Offset of the MSI-X table.
    pub msix_table: u32,
    /// Offset of the pending bit array of MSI-X.
    pub pending_bits: u32,
    /// Interrupt vectors.
    pub vectors: u16,
    /// Queues of each kind with the admin queue.
    queues: u16,
}

impl BarLayout {
    /// The layout for this many I/O queue pairs (1 to [`MAX_QUEUE_PAIRS`]), a doorbell stride (CAP.DSTRD, up to [`MAX_STRIDE`]) and
    /// this many vectors (1 to [`MAX_VECTORS`]). Other values are brought into range.
    #[must_use]
    pub fn new(queue_pairs: u16, dstrd: u8, vectors: u16) -> Self {
        let queues = queue_pairs.clamp(1, MAX_QUEUE_PAIRS) + 1;
        let vectors = vectors.clamp(1, MAX_VECTORS);
        let stride = 4 << dstrd.min(MAX_STRIDE);
        let doorbells_end = DOORBELLS_OFFSET + (2 * u32::from(queues) * stride).next_multiple_of(MAP_BYTES);
        let table_bytes = u32::from(vectors) * MSIX_ENTRY_BYTES;
        let pending_bits = doorbells_end + table_bytes.next_multiple_of(MAP_BYTES);
        let bytes = (pending_bits + MAP_BYTES).next_power_of_two();
        BarLayout { bytes, stride, doorbells_end, msix_table: doorbells_end, pending_bits, vectors, queues }
    }

    /// The pages of doorbells.
    #[must_use]
    pub fn doorbells(&self) -> Range<u32> {
        DOORBELLS_OFFSET..self.doorbells_end
    }

    /// The doorbell at an offset; `None` if there is none.
    pub(crate) fn doorbell(&self, offset: u32) -> Option<Doorbell> {
        let at = offset.checked_sub(DOORBELLS_OFFSET)?;
        let index = at / self.stride;
        let qid = u16::try_from(index / 2).ok().filter(|qid| *qid < self.queues)?;
        match (at % self.stride, index % 2) {
            (0, 0) => Some(Doorbell::Tail(qid)),
            (0, _) => Some(Doorbell::Head(qid)),
            _ => None,
        }
    }

    /// The number of a doorbell, from the first one.
    pub(crate) fn doorbell_index(&self, doorbell: Doorbell) -> usize {
        match doorbell {
            Doorbell::Tail(qid) => 2 * usize::from(qid),
            Doorbell::Head(qid) => 2 * usize::from(qid) + 1,
        }
    }

    /// The offset of a doorbell, from the first one. Shadow doorbells have the same (Base 5.2.5, "Doorbell Buffer Config").
    pub(crate) fn doorbell_offset(&self, doorbell: Doorbell) -> u32 {
        self.doorbell_index(doorbell) as u32 * self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_bar0_do_not_overlap() {
        for (pairs, dstrd, vectors) in [(1, 0, 1), (64, 0, 65), (127, 4, 1024), (0, 9, 0), (999, 9, 9999)] {
            let layout = BarLayout::new(pairs, dstrd, vectors);
            assert!(layout.bytes.is_power_of_two());
            let last = layout.doorbell_offset(Doorbell::Head(pairs.clamp(1, MAX_QUEUE_PAIRS)));
            assert!(DOORBELLS_OFFSET + last + layout.stride <= layout.msix_table);
            let table = u32::from(layout.vectors) * MSIX_ENTRY_BYTES;
            assert!(layout.msix_table + table <= layout.pending_bits);
            assert!(layout.pending_bits + u32::from(layout.vectors).div_ceil(64) * 8 <= layout.bytes);
        }
        assert_eq!(BarLayout::new(64, 0, 65).bytes, 0x4000);
    }

    #[test]
    fn doorbells_are_found_by_their_offset() {
        let layout = BarLayout::new(2, 1, 3);
        for doorbell in (0..3).flat_map(|qid| [Doorbell::Tail(qid), Doorbell::Head(qid)]) {
            let offset = DOORBELLS_OFFSET + layout.doorbell_offset(doorbell);
            assert_eq!(layout.doorbell(offset), Some(doorbell));
            assert_eq!(layout.doorbell(offset + 4), None, "between two doorbells");
        }
        assert_eq!((layout.doorbell(0xFFC), layout.doorbell(0x1000 + 6 * 8)), (None, None));
        assert_eq!(layout.doorbell(u32::MAX), None);
    }
}
