//! The stochastic multi-queue: lists stacked into levels. A hit swaps an entry with the least recently used one of a higher level.

use super::entries::{Entries, List, NONE};

/// Levels of a queue (`NR_HOTSPOT_LEVELS`, `NR_CACHE_LEVELS` of dm-cache-policy-smq.c).
pub(super) const LEVELS: u8 = 64;

/// Entries in levels. The lowest level has those that are worth least, and the head of a list the least recently used one.
pub(super) struct Queue {
    levels: [List; LEVELS as usize],
    /// Entries that are no sentinels.
    pub(super) len: u32,
    /// How many entries each level should have, for so many of them.
    targets: [u32; LEVELS as usize],
    targeted: u32,
    /// So many levels at the top have so many entries together; the others share the rest evenly.
    top: (u8, u32),
}

/// Where the entry goes that a hit pushes down.
#[derive(Clone, Copy)]
pub(super) enum Pushed {
    /// To the end of its new level.
    Back,
    /// Before this sentinel.
    Before(u32),
    /// Before the sentinel that it stood before: the older one, the younger one, or none of them.
    Among(u32, u32),
}

impl Queue {
    pub(super) fn new(top: (u8, u32)) -> Self {
        let levels = [List::EMPTY; LEVELS as usize];
        Self { levels, len: 0, targets: [0; LEVELS as usize], targeted: 0, top }
    }

    #[inline]
    fn list(&mut self, entries: &Entries, at: u32) -> &mut List {
        &mut self.levels[usize::from(entries.level(at))]
    }

    /// To the end of its level.
    #[inline]
    pub(super) fn push_back(&mut self, entries: &mut Entries, at: u32) {
        self.insert_before(entries, NONE, at);
    }

    /// To the beginning of its level.
    pub(super) fn push_front(&mut self, entries: &mut Entries, at: u32) {
        let head = self.list(entries, at).head;
        self.insert_before(entries, head, at);
    }

    /// Into its level before another entry; before `NONE` is the end.
    #[inline]
    pub(super) fn insert_before(&mut self, entries: &mut Entries, before: u32, at: u32) {
        self.len += u32::from(!entries.is_sentinel(at));
        self.list(entries, at).insert_before(entries, before, at);
    }

    #[inline]
    pub(super) fn remove(&mut self, entries: &mut Entries, at: u32) {
        self.len -= u32::from(!entries.is_sentinel(at));
        self.list(entries, at).remove(entries, at);
    }

    /// The least recently used entry of the lowest populated level below `levels`. `any_age` takes entries behind sentinels, too.
    pub(super) fn first(&self, entries: &Entries, levels: u8, any_age: bool) -> Option<u32> {
        let heads = self.levels[..usize::from(levels)].iter().map(|list| list.head);
        let real = heads.map(|head| match any_age {
            true => entries.first_real(head),
            false if head != NONE && entries.is_sentinel(head) => NONE,
            false => head,
        });
        real.into_iter().find(|at| *at != NONE)
    }

    /// An entry is used: it rises by so many levels, and the least recently used entry there takes its place.
    pub(super) fn hit(&mut self, entries: &mut Entries, at: u32, jump: u8, pushed: Pushed) {
        let from = entries.level(at);
        let to = (from + jump).min(LEVELS - 1);
        self.remove(entries, at);
        if to > from {
            let (mut passed, mut other) = (0, self.levels[usize::from(to)].head);
            while other != NONE && entries.is_sentinel(other) {
                (passed, other) = (passed + 1, entries.next(other));
            }
            if other != NONE {
                self.remove(entries, other);
                entries.set_level(other, from);
                let before = match (pushed, passed) {
                    (Pushed::Before(sentinel), _) | (Pushed::Among(sentinel, _), 0) => sentinel,
                    (Pushed::Among(_, sentinel), 1) => sentinel,
                    (Pushed::Back | Pushed::Among(..), _) => NONE,
                };
                self.insert_before(entries, before, other);
            }
        }
        entries.set_level(at, to);
        self.push_back(entries, at);
    }

    fn spread(&mut self, count: u32, begin: u8, end: u8) {
        let levels = u32::from(end - begin);
        if levels == 0 {
            return;
        }
        for (n, level) in (begin..end).enumerate() {
            let more = u32::from((n as u32) < count % levels);
            self.targets[usize::from(level)] = count / levels + more;
        }
    }

    fn set_targets(&mut self) {
        if self.targeted == self.len {
            return;
        }
        self.targeted = self.len;
        let (top_levels, in_top) = self.top;
        let below = LEVELS - top_levels;
        self.spread(in_top, below, LEVELS);
        self.spread(self.len.saturating_sub(in_top), 0, below);
    }

    /// Moves entries between levels until each has as many as it should. What a level has too many goes to the beginning or to the end
    /// of the next.
    pub(super) fn redistribute(&mut self, entries: &mut Entries, to_front: bool) {
        self.set_targets();
        for level in 0..LEVELS - 1 {
            let target = self.targets[usize::from(level)];
            while self.levels[usize::from(level)].len < target {
                let above = self.levels[usize::from(level) + 1..].iter();
                let Some(at) = above.map(|list| entries.first_real(list.head)).find(|at| *at != NONE) else {
                    break;
                };
                self.remove(entries, at);
                entries.set_level(at, level);
                self.push_back(entries, at);
            }
            while self.levels[usize::from(level)].len > target {
                let at = entries.last_real(&self.levels[usize::from(level)]);
                self.remove(entries, at);
                entries.set_level(at, level + 1);
                match to_front {
                    true => self.push_front(entries, at),
                    false => self.push_back(entries, at),
                }
            }
        }
    }

    /// Entries of a level that are no sentinels.
    #[cfg(test)]
    pub(super) fn in_level(&self, level: u8) -> u32 {
        self.levels[usize::from(level)].len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_filled_evenly_and_the_top_ones_less() {
        let mut entries = Entries::new(1000, 0, true);
        let mut queue = Queue::new((8, 16));
        (0..1000).for_each(|at| queue.push_back(&mut entries, at));
        queue.redistribute(&mut entries, false);
        let counts: Vec<u32> = (0..LEVELS).map(|level| queue.in_level(level)).collect();
        assert_eq!(counts[56..], [2; 8]);
        assert!(counts[..56].iter().all(|count| [17, 18].contains(count)), "{counts:?}");
        assert_eq!(counts.iter().sum::<u32>(), 1000);
    }

    #[test]
    fn a_hit_swaps_with_the_oldest_of_the_level_above() {
        let mut entries = Entries::new(3, 2, true);
        let mut queue = Queue::new((0, 0));
        entries.set_level(1, 1);
        entries.set_level(2, 1);
        entries.set_level(4, 0);
        for at in [0, 1, 2, 4] {
            queue.push_back(&mut entries, at);
        }
        queue.hit(&mut entries, 0, 1, Pushed::Before(4));
        assert_eq!([entries.level(0), entries.level(1), entries.level(2)], [1, 0, 1]);
        // It stands before the sentinel, so it is old at once.
        assert_eq!(queue.first(&entries, LEVELS, false), Some(1));
        assert_eq!(queue.len, 3);
    }
}
