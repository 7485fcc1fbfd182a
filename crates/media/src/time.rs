//! Time, timelines of resources, and the queue of events.

use serde::{Deserialize, Serialize};
use std::collections::BinaryHeap;
use std::ops::{Add, AddAssign, Sub};

/// A point in time or a span, in nanoseconds. Zero is when the drive was first powered.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of time; also a span of nothing.
    pub const ZERO: Nanos = Nanos(0);
    /// Never.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Time to move `bytes` at `bytes_per_second`, rounded up; zero for an infinite rate (0).
    pub fn of_transfer(bytes: u64, bytes_per_second: u64) -> Nanos {
        match bytes_per_second {
            0 => Nanos::ZERO,
            rate => Nanos((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)) as u64),
        }
    }

    /// `self - earlier`, or zero if that is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    #[inline]
    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    /// # Panics
    /// In debug builds, if the result would be negative.
    #[inline]
    fn sub(self, span: Nanos) -> Nanos {
        Nanos(self.0 - span.0)
    }
}

/// A resource that serves one user at a time (a channel, a link): a list of busy intervals.
///
/// A reservation may lie in the future (the transfer after a sense) and leave a gap before it, which a
/// later call may use. Adjoining intervals merge, so a saturated resource has a list of one.
#[derive(Clone, Default, Debug)]
pub struct Timeline {
    /// Disjoint, sorted, never adjoining.
    busy: std::collections::VecDeque<(Nanos, Nanos)>,
}

impl Timeline {
    /// Reserves `span` at the first gap at or after `earliest`; returns its start. What ended before
    /// `now` is forgotten.
    #[inline]
    pub fn reserve(&mut self, now: Nanos, earliest: Nanos, span: Nanos) -> Nanos {
        while self.busy.front().is_some_and(|b| b.1 <= now) {
            self.busy.pop_front();
        }
        if span == Nanos::ZERO {
            return earliest;
        }
        match self.busy.back_mut() {
            None => {
                self.busy.push_back((earliest, earliest + span));
                earliest
            }
            Some(last) if earliest >= last.0 => {
                let start = earliest.max(last.1);
                if start == last.1 {
                    last.1 = start + span;
                } else {
                    self.busy.push_back((start, start + span));
                }
                start
            }
            Some(_) => self.reserve_in_gap(earliest, span),
        }
    }

    fn reserve_in_gap(&mut self, earliest: Nanos, span: Nanos) -> Nanos {
        let mut start = earliest;
        let mut at = self.busy.len();
        // Most gaps asked for are near the end, and what ends before `earliest` does not matter.
        let first = self.busy.iter().rposition(|b| b.1 <= earliest).map_or(0, |i| i + 1);
        for (i, &(from, to)) in self.busy.range(first..).enumerate().map(|(i, b)| (i + first, b)) {
            if start + span <= from {
                at = i;
                break;
            }
            start = start.max(to);
        }
        let end = start + span;
        let joins_before = at > 0 && self.busy[at - 1].1 == start;
        let joins_after = at < self.busy.len() && self.busy[at].0 == end;
        match (joins_before, joins_after) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.remove(at);
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = start,
            (false, false) => self.busy.insert(at, (start, end)),
        }
        start
    }

    /// When the last reservation ends; zero if there is none.
    pub fn end(&self) -> Nanos {
        self.busy.back().map_or(Nanos::ZERO, |b| b.1)
    }

    /// Forgets everything: power was lost.
    pub fn clear(&mut self) {
        self.busy.clear();
    }
}

/// A queue of future events; those of the same time come out in the order in which they went in.
#[derive(Clone, Debug)]
pub struct Events<T> {
    heap: BinaryHeap<Entry<T>>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at: Nanos,
    order: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Events { heap: BinaryHeap::with_capacity(1024), next: 0 }
    }
}

impl<T> Events<T> {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Nanos, event: T) {
        self.heap.push(Entry { at, order: self.next, event });
        self.next += 1;
    }

    /// The time of the earliest event.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|e| e.at)
    }

    /// Takes the earliest event if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.heap.peek()?.at > now {
            return None;
        }
        self.heap.pop().map(|e| (e.at, e.event))
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Forgets everything: power was lost.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_fills_gaps_and_merges() {
        let mut t = Timeline::default();
        let r = |t: &mut Timeline, e, s| t.reserve(Nanos::ZERO, Nanos(e), Nanos(s)).0;
        assert_eq!(r(&mut t, 100, 10), 100);
        assert_eq!(r(&mut t, 0, 50), 0);
        assert_eq!(r(&mut t, 0, 50), 50);
        assert_eq!(t.busy.len(), 1);
        assert_eq!(r(&mut t, 0, 5), 110);
        assert_eq!(t.end(), Nanos(115));
        assert_eq!(r(&mut t, 200, 5), 200);
        assert_eq!(r(&mut t, 0, 100), 205);
        t.reserve(Nanos(400), Nanos(400), Nanos(1));
        assert_eq!(t.busy.len(), 1);
    }

    #[test]
    fn a_reservation_is_the_first_that_fits() {
        for seed in 0..20 {
            let mut rng = crate::Rng::new(seed);
            let (mut timeline, mut model, mut now) = (Timeline::default(), Vec::<(u64, u64)>::new(), 0);
            for _ in 0..500 {
                now += rng.below(15);
                let (earliest, span) = (now + rng.below(60), 1 + rng.below(20));
                let ends = model.iter().map(|b| b.1).filter(|&end| end > earliest);
                let fits = |&start: &u64| model.iter().all(|b| start + span <= b.0 || b.1 <= start);
                let expected = ends.chain([earliest]).filter(fits).min();
                let start = timeline.reserve(Nanos(now), Nanos(earliest), Nanos(span)).0;
                assert_eq!(Some(start), expected, "seed {seed}");
                model.push((start, start + span));
            }
        }
    }

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut e = Events::default();
        e.push(Nanos(2), 'c');
        e.push(Nanos(1), 'a');
        e.push(Nanos(1), 'b');
        assert_eq!(e.pop_due(Nanos(0)), None);
        let all: Vec<char> = std::iter::from_fn(|| e.pop_due(Nanos(9)).map(|x| x.1)).collect();
        assert_eq!(all, ['a', 'b', 'c']);
    }
}
