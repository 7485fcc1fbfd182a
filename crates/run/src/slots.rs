//! Which slots of contents are in use.

use media::{Slot, tables::huge_pages};

/// References of a slot beyond which it is not lent.
const MOST_LENT: u8 = 128;

/// Reference counts and free slots.
///
/// Free slots are reused last in, first out: memory and disk blocks that were touched before come
/// first. Slots beyond [`fresh`](Slots::fresh) were never given out.
pub(crate) struct Slots {
    refs: Vec<u8>,
    free: Vec<u32>,
    fresh: u32,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let mut refs = vec![0; count as usize];
        huge_pages(&mut refs);
        Slots { refs, free: Vec::new(), fresh: 0 }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.refs.len() as u32
    }

    /// A free slot, with one reference from now on.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if (self.fresh as usize) < self.refs.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        assert_eq!(self.refs[slot as usize], 0, "slot {slot} is given out while something refers to it");
        self.refs[slot as usize] = 1;
        Some(Slot(slot))
    }

    /// Counts one more reference. A slot that is out of range is nobody's: ignored.
    #[inline]
    pub(crate) fn retain(&mut self, slot: Slot) {
        if let Some(count) = self.refs.get_mut(slot.0 as usize) {
            // A count that reached the top stays there: the slot is lost until references are
            // counted anew, which is harmless, where a wrong count would not be.
            *count = count.saturating_add(1);
        }
    }

    /// Counts one more reference for a slot whose bytes are being sent; false where too many are out already, so
    /// that hosts cannot bring a count to its top.
    #[inline]
    pub(crate) fn lend(&mut self, slot: Slot) -> bool {
        match self.refs.get_mut(slot.0 as usize) {
            Some(count @ 1..MOST_LENT) => {
                *count += 1;
                true
            }
            _ => false,
        }
    }

    /// Counts one reference fewer; true if that was the last one: the slot is the caller's to
    /// [`give`](Slots::give) back.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) -> bool {
        match self.refs.get_mut(slot.0 as usize) {
            Some(count) if *count > 0 && *count < u8::MAX => {
                *count -= 1;
                *count == 0
            }
            _ => false,
        }
    }

    /// Makes a slot without references available again.
    #[inline]
    pub(crate) fn give(&mut self, slot: u32) {
        assert_eq!(self.refs[slot as usize], 0, "slot {slot} is given back while something refers to it");
        self.free.push(slot);
    }

    /// Makes many slots available again.
    pub(crate) fn give_all(&mut self, slots: &mut Vec<u32>) {
        self.free.append(slots);
    }

    /// Takes all free slots away, to be given back later.
    pub(crate) fn take_all(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.free)
    }

    /// Whether nobody refers to a slot, or there is no such slot.
    pub(crate) fn is_free(&self, slot: u32) -> bool {
        self.refs.get(slot as usize).is_none_or(|count| *count == 0)
    }

    /// Drops all references and the list of free slots. [`retain`](Slots::retain) counts the references anew. Then the
    /// caller asks for the [`unreferenced`](Slots::unreferenced) slots and gives them back when they are safe.
    pub(crate) fn forget(&mut self) {
        self.refs.fill(0);
        self.free.clear();
        self.fresh = self.count();
    }

    /// Every slot without a reference, lowest last.
    pub(crate) fn unreferenced(&self) -> Vec<u32> {
        (0..self.count()).rev().filter(|&slot| self.refs[slot as usize] == 0).collect()
    }

    /// Slots that can be had at once.
    pub(crate) fn available(&self) -> u32 {
        self.free.len() as u32 + (self.count() - self.fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_and_reused() {
        let mut slots = Slots::new(3);
        let taken: Vec<u32> = std::iter::from_fn(|| slots.take()).map(|s| s.0).collect();
        assert_eq!(taken, [0, 1, 2]);
        slots.retain(Slot(1));
        assert!(!slots.release(Slot(1)));
        assert!(slots.release(Slot(1)));
        assert!(!slots.release(Slot(1)), "nothing left to drop");
        assert!(!slots.release(Slot::NONE));
        slots.give(1);
        assert_eq!(slots.take(), Some(Slot(1)));
        assert_eq!(slots.take(), None);
    }

    #[test]
    fn recounting_finds_what_is_free() {
        let mut slots = Slots::new(4);
        slots.take();
        slots.take();
        slots.forget();
        slots.retain(Slot(2));
        let mut free = slots.unreferenced();
        assert_eq!(free, [3, 1, 0]);
        slots.give_all(&mut free);
        assert_eq!(slots.take(), Some(Slot(0)));
        assert_eq!(slots.available(), 2);
    }
}
