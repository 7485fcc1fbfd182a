//! Which slots of contents are in use: free, referred to, waiting until what freed them is safe, or being erased. An illegal transition
//! stops the image, in every build.

use media::{Slot, tables::huge_pages};

/// References of a slot beyond which it is not lent.
const MOST_LENT: u8 = 128;
/// A count that reached this stays there: the slot is lost until references are counted anew, which is harmless, where a
/// wrong count would not be.
const STUCK: u8 = 250;
/// No page refers to the slot, but a state that a crash may lead back to does.
const WAITING: u8 = 254;
/// The slot has no references, and its bytes are being erased.
const ERASING: u8 = 255;

/// The life of every slot: free, referred to, waiting until what freed it is safe, or being erased.
///
/// A slot is in one of these states, and in the list that belongs to it. A transition that is not one of the following means
/// that the next step could give one slot to two pages. So the slot is set aside, and the owner is told with
/// [`broken`](Slots::broken), so that it goes no further:
///
/// - free -> referred to once ([`take`](Slots::take))
/// - referred to -> once more, once less ([`retain`](Slots::retain), [`release`](Slots::release))
/// - referred to for the last time -> waiting, or free in memory ([`release`](Slots::release))
/// - waiting -> free, when what freed it is safe ([`committed`](Slots::committed), [`sync_ended`](Slots::sync_ended))
/// - free or waiting -> erasing -> free ([`erase`](Slots::erase), [`erased`](Slots::erased))
///
/// Free slots are used again last in, first out: memory and disk blocks that were touched before come first.
pub(crate) struct Slots {
    /// 0 is free, up to [`STUCK`] a number of references, or [`WAITING`] or [`ERASING`].
    life: Vec<u8>,
    free: Vec<u32>,
    /// Slots from here on were never given out.
    fresh: u32,
    /// When a slot is free again.
    reuse: Reuse,
    /// References are being counted anew.
    counting: bool,
    /// What was wrong first.
    broken: Option<String>,
    /// Waiting: freed by the step that runs.
    released: Vec<u32>,
    /// Waiting: freed by earlier steps, to be covered by the next sync.
    parked: Vec<u32>,
    /// Waiting: covered by the sync under way.
    syncing: Vec<u32>,
    /// Being erased.
    erasing: Vec<u32>,
}

/// When a slot without references is free again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reuse {
    /// At once: nothing outlives the process.
    AtOnce,
    /// When the step that freed it is committed.
    AfterStep,
    /// When that step is on the host's disk.
    AfterSync,
}

impl Slots {
    pub(crate) fn new(count: u32, reuse: Reuse) -> Self {
        let mut life = vec![0; count as usize];
        huge_pages(&mut life);
        Slots {
            life,
            free: Vec::new(),
            fresh: 0,
            reuse,
            counting: false,
            broken: None,
            released: Vec::new(),
            parked: Vec::new(),
            syncing: Vec::new(),
            erasing: Vec::new(),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.life.len() as u32
    }

    /// What was wrong first: a reference too many or too few, or a slot in two lists. The owner of the slots stops then.
    #[inline]
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// A free slot, with one reference from now on.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.fresh < self.count() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        self.change(slot, 0, 1).then_some(Slot(slot))
    }

    /// Goes from one state to the next; whether it may.
    #[inline]
    fn change(&mut self, slot: u32, from: u8, to: u8) -> bool {
        let life = &mut self.life[slot as usize];
        if *life != from {
            self.break_off(slot, "cannot change its state");
            return false;
        }
        *life = to;
        true
    }

    /// A bug, or a state that no drive wrote. The slot is not used any more.
    #[cold]
    fn break_off(&mut self, slot: u32, what: &str) {
        let life = std::mem::replace(&mut self.life[slot as usize], STUCK);
        let what = format!("slot {slot}, in state {life}, {what}");
        // Without an image nothing but a bug leads here, and there is nothing to be saved.
        assert!(self.reuse != Reuse::AtOnce, "{what}");
        self.broken.get_or_insert(what);
    }

    /// Counts one more reference. A slot that is out of range is ignored.
    #[inline]
    pub(crate) fn retain(&mut self, slot: Slot) {
        let counting = self.counting;
        let Some(life) = self.life.get_mut(slot.0 as usize) else { return };
        match *life {
            0 if !counting => self.break_off(slot.0, "is free and referred to"),
            0..STUCK => *life += 1,
            STUCK => {}
            _ => self.break_off(slot.0, "is not in use and referred to"),
        }
    }

    /// Counts one more reference for a slot whose bytes are being sent, or read from the host's disk; false where too many are
    /// out already, so that hosts cannot bring a count to its top.
    #[inline]
    pub(crate) fn lend(&mut self, slot: Slot) -> bool {
        match self.life.get_mut(slot.0 as usize) {
            Some(count @ 1..MOST_LENT) => {
                *count += 1;
                true
            }
            _ => false,
        }
    }

    /// Counts one reference fewer. The last one frees the slot, now or when that is safe; whether it is free now. A slot that is
    /// out of range is nobody's: ignored.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) -> bool {
        let Some(life) = self.life.get_mut(slot.0 as usize) else { return false };
        match *life {
            STUCK => {}
            0 | WAITING | ERASING => self.break_off(slot.0, "loses a reference that it does not have"),
            1 if self.reuse == Reuse::AtOnce => {
                *life = 0;
                self.free.push(slot.0);
                return true;
            }
            1 => {
                *life = WAITING;
                self.released.push(slot.0);
            }
            _ => *life -= 1,
        }
        false
    }

    /// The step that runs is in the journal.
    #[inline]
    pub(crate) fn committed(&mut self) {
        if !self.released.is_empty() {
            match self.reuse {
                Reuse::AfterSync => self.parked.append(&mut self.released),
                Reuse::AtOnce | Reuse::AfterStep => {
                    let mut list = std::mem::take(&mut self.released);
                    self.set_free(&mut list, WAITING);
                    self.released = list;
                }
            }
        }
    }

    fn set_free(&mut self, list: &mut Vec<u32>, from: u8) {
        list.retain(|&slot| self.change(slot, from, 0));
        self.free.append(list);
    }

    /// A sync begins that covers all committed steps.
    pub(crate) fn sync_begins(&mut self) {
        self.syncing.append(&mut self.parked);
    }

    /// The sync has ended well. Whether slots became free.
    pub(crate) fn sync_ended(&mut self) -> bool {
        let mut list = std::mem::take(&mut self.syncing);
        let any = !list.is_empty();
        self.set_free(&mut list, WAITING);
        self.syncing = list;
        any
    }

    /// The state that was reached is on the host's disk as a whole: all slots without references are free.
    pub(crate) fn all_is_safe(&mut self) {
        self.committed();
        self.sync_begins();
        self.sync_ended();
    }

    /// Slots that nobody refers to are erased from now on, and none of them is given out. No sync may be under way, and all
    /// steps must be committed.
    pub(crate) fn erase(&mut self) -> &[u32] {
        assert!(self.syncing.is_empty() && self.released.is_empty() && self.erasing.is_empty());
        let mut list = std::mem::take(&mut self.free);
        for &slot in &list {
            self.life[slot as usize] = ERASING;
        }
        for &slot in &self.parked {
            self.life[slot as usize] = ERASING;
        }
        list.append(&mut self.parked);
        self.erasing = list;
        &self.erasing
    }

    /// What was begun with [`erase`](Slots::erase) has ended. Otherwise than `well`, the slots wait for the next sync, as
    /// some of them did before.
    pub(crate) fn erased(&mut self, well: bool) {
        let mut list = std::mem::take(&mut self.erasing);
        match self.reuse {
            Reuse::AfterSync if !well => {
                list.retain(|&slot| self.change(slot, ERASING, WAITING));
                self.parked.append(&mut list);
            }
            _ => self.set_free(&mut list, ERASING),
        }
    }

    /// Whether a slot has no references, or there is no such slot.
    pub(crate) fn is_unreferenced(&self, slot: u32) -> bool {
        self.references(slot) == 0
    }

    /// How many references a slot has.
    pub(crate) fn references(&self, slot: u32) -> u8 {
        self.life.get(slot as usize).copied().filter(|&life| life <= STUCK).unwrap_or(0)
    }

    /// Drops all references: [`retain`](Slots::retain) counts them anew, then comes [`counted`](Slots::counted). Slots that are
    /// being erased stay out of it.
    pub(crate) fn forget(&mut self) {
        self.life.fill(0);
        for &slot in &self.erasing {
            self.life[slot as usize] = ERASING;
        }
        for list in [&mut self.free, &mut self.released, &mut self.parked, &mut self.syncing] {
            list.clear();
        }
        self.counting = true;
    }

    /// All references are counted. An older state may still need the slots without one, so they wait as if the step that
    /// runs had freed them.
    pub(crate) fn counted(&mut self) {
        self.counting = false;
        let used = self.life.iter().rposition(|&life| life != 0).map_or(0, |last| last as u32 + 1);
        self.fresh = self.fresh.max(used);
        let unreferenced = (0..self.fresh).rev().filter(|&slot| self.life[slot as usize] == 0);
        match self.reuse {
            Reuse::AtOnce => self.free.extend(unreferenced),
            Reuse::AfterStep | Reuse::AfterSync => {
                self.released.extend(unreferenced);
                for &slot in &self.released {
                    self.life[slot as usize] = WAITING;
                }
            }
        }
    }

    /// Slots below this may have been written by an earlier process.
    pub(crate) fn written_up_to(&mut self, slot: u32) {
        self.fresh = self.fresh.max(slot.min(self.count()));
    }

    /// Slots that can be taken now.
    pub(crate) fn available(&self) -> u32 {
        self.free.len() as u32 + (self.count() - self.fresh)
    }

    /// Slots that the next sync would free.
    pub(crate) fn parked(&self) -> u32 {
        self.parked.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(slots: &mut Slots) -> Vec<u32> {
        std::iter::from_fn(|| slots.take()).map(|s| s.0).collect()
    }

    #[test]
    fn slots_are_counted_and_reused() {
        let mut slots = Slots::new(3, Reuse::AtOnce);
        assert_eq!(all(&mut slots), [0, 1, 2]);
        slots.retain(Slot(1));
        slots.release(Slot(1));
        assert_eq!((slots.take(), slots.references(1)), (None, 1));
        slots.release(Slot(1));
        slots.release(Slot::NONE);
        assert_eq!(slots.take(), Some(Slot(1)));
        assert_eq!(slots.take(), None);
    }

    #[test]
    fn a_slot_is_free_when_what_freed_it_is_safe() {
        let mut slots = Slots::new(2, Reuse::AfterSync);
        let taken = all(&mut slots);
        slots.release(Slot(taken[0]));
        assert_eq!(slots.take(), None);
        slots.committed();
        slots.sync_begins();
        slots.release(Slot(taken[1]));
        slots.committed();
        assert_eq!((slots.take(), slots.parked()), (None, 1));
        assert!(slots.sync_ended());
        assert_eq!(all(&mut slots), [0]);
        slots.sync_begins();
        assert!(slots.sync_ended() && !slots.sync_ended());
        assert_eq!(all(&mut slots), [1]);
    }

    #[test]
    fn recounting_finds_what_is_free() {
        let mut slots = Slots::new(6, Reuse::AfterStep);
        let taken = all(&mut slots);
        slots.release(Slot(taken[5]));
        slots.committed();
        assert_eq!(slots.erase(), [5]);
        slots.release(Slot(taken[1]));
        slots.forget();
        slots.retain(Slot(2));
        slots.retain(Slot(2));
        slots.counted();
        assert_eq!((slots.take(), slots.references(2)), (None, 2));
        slots.committed();
        assert_eq!(all(&mut slots), [0, 1, 3, 4]);
        slots.erased(true);
        assert_eq!(all(&mut slots), [5]);
    }

    #[test]
    fn what_is_erased_in_vain_waits_for_a_sync() {
        let mut slots = Slots::new(2, Reuse::AfterSync);
        let taken = all(&mut slots);
        slots.release(Slot(taken[1]));
        slots.committed();
        assert_eq!(slots.erase(), [1]);
        slots.erased(false);
        assert_eq!((slots.take(), slots.parked()), (None, 1));
        slots.all_is_safe();
        assert_eq!(slots.take(), Some(Slot(1)));
    }

    #[test]
    #[should_panic(expected = "cannot change its state")]
    fn a_slot_in_two_lists_is_noticed() {
        let mut slots = Slots::new(2, Reuse::AtOnce);
        let slot = slots.take().unwrap();
        slots.free.push(slot.0);
        slots.take();
    }

    #[test]
    fn a_reference_too_few_or_too_many_is_noticed() {
        let mut slots = Slots::new(2, Reuse::AfterSync);
        let slot = slots.take().unwrap();
        slots.release(slot);
        assert_eq!(slots.broken(), None);
        slots.release(slot);
        assert_eq!(slots.broken(), Some("slot 0, in state 254, loses a reference that it does not have"));
        // It is nobody's from now on.
        slots.all_is_safe();
        assert_eq!(all(&mut slots), [1]);
        let mut slots = Slots::new(2, Reuse::AfterStep);
        slots.retain(Slot(1));
        assert_eq!(slots.broken(), Some("slot 1, in state 0, is free and referred to"));
    }
}
