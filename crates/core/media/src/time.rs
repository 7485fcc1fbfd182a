//! Time, timelines of resources, and the queue of events. An operation reserves channel, plane and die when it is requested, and knows
//! its end.

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
            rate => Nanos(match bytes.checked_mul(1_000_000_000) {
                Some(product) => product.div_ceil(rate),
                // A division that is several times as slow, for more than 18 GB.
                None => (u128::from(bytes) * 1_000_000_000).div_ceil(rate.into()) as u64,
            }),
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
    /// Disjoint, sorted, never adjoining, from `first` on; those before are over. One after the other in memory, as
    /// most of the work is to walk over the last of them and to make room between them.
    busy: Vec<(Nanos, Nanos)>,
    first: usize,
}

/// Intervals that are over and still in the list.
const MAX_PAST_INTERVALS: usize = 64;

impl Timeline {
    /// Reserves `span` at the first gap at or after `earliest`; returns its start. What ended before
    /// `now` is forgotten.
    #[inline]
    pub fn reserve(&mut self, now: Nanos, earliest: Nanos, span: Nanos) -> Nanos {
        while self.busy.get(self.first).is_some_and(|b| b.1 <= now) {
            self.first += 1;
        }
        if span == Nanos::ZERO {
            return earliest;
        }
        if self.first == self.busy.len() {
            self.clear();
        } else if self.first >= MAX_PAST_INTERVALS {
            self.forget();
        }
        match self.busy.last_mut() {
            None => {
                self.busy.push((earliest, earliest + span));
                earliest
            }
            Some(last) if earliest >= last.0 => {
                let start = earliest.max(last.1);
                if start == last.1 {
                    last.1 = start + span;
                } else {
                    self.busy.push((start, start + span));
                }
                start
            }
            Some(_) => self.reserve_in_gap(earliest, span),
        }
    }

    fn forget(&mut self) {
        self.busy.drain(..self.first);
        self.first = 0;
    }

    fn reserve_in_gap(&mut self, earliest: Nanos, span: Nanos) -> Nanos {
        let busy = &self.busy[self.first..];
        // What ends before `earliest` does not matter.
        let mut at = busy.partition_point(|b| b.1 <= earliest);
        let mut start = earliest;
        for b in &busy[at..] {
            if b.0 >= start + span {
                break;
            }
            start = start.max(b.1);
            at += 1;
        }
        let end = start + span;
        let (before, after) = busy.split_at(at);
        let joins_before = before.last().is_some_and(|b| b.1 == start);
        let joins_after = after.first().is_some_and(|b| b.0 == end);
        let at = at + self.first;
        match (joins_before, joins_after) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.remove(at);
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = start,
            (false, false) => self.insert(at, (start, end)),
        }
        start
    }

    /// As [`Vec::insert`], which calls a function that is made for longer ways.
    fn insert(&mut self, at: usize, interval: (Nanos, Nanos)) {
        let mut moved = interval;
        for place in &mut self.busy[at..] {
            std::mem::swap(place, &mut moved);
        }
        self.busy.push(moved);
    }

    /// When the last reservation ends; zero if there is none.
    pub fn end(&self) -> Nanos {
        self.busy[self.first..].last().map_or(Nanos::ZERO, |b| b.1)
    }

    /// Forgets everything: power was lost.
    pub fn clear(&mut self) {
        self.busy.clear();
        self.first = 0;
    }
}

/// A queue of future events; those of the same time come out in the order in which they went in.
///
/// A timing wheel: time is cut into slices of about 4 microseconds, and a slice has the list of its events in
/// order. An event costs a few instructions that way, where a heap of as many events as a drive has
/// dies costs dozens that no processor predicts. What lies beyond one turn of the wheel waits in a heap.
#[derive(Clone, Debug)]
pub struct Events<T> {
    /// The events of the wheel, and a chain of unused entries from `unused`.
    entries: Vec<WheelEntry<T>>,
    unused: u32,
    /// Per slice of the wheel its first and its last event, or [`NO_EVENT`].
    lists: Box<[(u32, u32); SLICES]>,
    /// A bit per slice: whether it has events.
    occupied: [u64; SLICES / 64],
    /// No event of the wheel is earlier than the start of this slice, counted from the start of time.
    slice: u64,
    /// Later than one turn of the wheel when they came.
    far: BinaryHeap<Far<T>>,
    /// How many came into `far` so far.
    order: u64,
    /// How many there are, in the wheel.
    near: usize,
    /// Time of the earliest event; [`Nanos::MAX`] if there is none.
    next: Nanos,
}

/// Slices of one turn: 4 milliseconds, longer than most programs.
const SLICES: usize = 1024;
/// Nanoseconds of a slice, as a power of two.
const SLICE_BITS: u32 = 12;
const NO_EVENT: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct WheelEntry<T> {
    at: Nanos,
    /// The event after it in its slice; of an unused entry, another unused one.
    next: u32,
    event: Option<T>,
}

#[derive(Clone, Debug)]
struct Far<T> {
    at: Nanos,
    order: u64,
    event: T,
}

impl<T> PartialEq for Far<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl<T> Eq for Far<T> {}
impl<T> PartialOrd for Far<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Far<T> {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Events {
            entries: Vec::with_capacity(1024),
            unused: NO_EVENT,
            lists: Box::new([(NO_EVENT, NO_EVENT); SLICES]),
            occupied: [0; SLICES / 64],
            slice: 0,
            far: BinaryHeap::new(),
            order: 0,
            near: 0,
            next: Nanos::MAX,
        }
    }
}

impl<T> Events<T> {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Nanos, event: T) {
        // An event for the past is one for now.
        let slice = (at.0 >> SLICE_BITS).max(self.slice);
        if slice - self.slice >= SLICES as u64 {
            self.far.push(Far { at, order: self.order, event });
            self.order += 1;
        } else {
            self.insert(slice as usize % SLICES, at, event);
        }
        self.next = self.next.min(at);
    }

    #[inline]
    fn insert(&mut self, list: usize, at: Nanos, event: T) {
        let entry = self.entry(at, event);
        self.near += 1;
        let (first, last) = self.lists[list];
        if first == NO_EVENT {
            self.occupied[list / 64] |= 1 << (list % 64);
            self.lists[list] = (entry, entry);
        } else if self.entries[last as usize].at <= at {
            self.entries[last as usize].next = entry;
            self.lists[list].1 = entry;
        } else if self.entries[first as usize].at > at {
            self.entries[entry as usize].next = first;
            self.lists[list].0 = entry;
        } else {
            // After the last one that is not later; the list's last is.
            let mut before = first;
            loop {
                let after = self.entries[before as usize].next;
                if self.entries[after as usize].at > at {
                    self.entries[entry as usize].next = after;
                    self.entries[before as usize].next = entry;
                    break;
                }
                before = after;
            }
        }
    }

    #[inline]
    fn entry(&mut self, at: Nanos, event: T) -> u32 {
        let entry = WheelEntry { at, next: NO_EVENT, event: Some(event) };
        if self.unused == NO_EVENT {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        let index = self.unused;
        let unused = &mut self.entries[index as usize];
        self.unused = unused.next;
        *unused = entry;
        index
    }

    /// The time of the earliest event.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(self.next)
    }

    /// The same, [`Nanos::MAX`] if there is none.
    #[inline]
    pub fn due(&self) -> Nanos {
        self.next
    }

    /// Takes the earliest event if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next > now || self.is_empty() {
            return None;
        }
        // Of two events of the same time, the one in `far` came first: at that time its slice was not within reach yet.
        let taken = match self.far.peek() {
            Some(far) if far.at == self.next => {
                self.slice = self.slice.max(far.at.0 >> SLICE_BITS);
                self.far.pop().map(|far| (far.at, far.event))
            }
            _ => self.pop_near(),
        };
        let near = self.first_slice().map_or(Nanos::MAX, |(_, first)| self.entries[first as usize].at);
        self.next = self.far.peek().map_or(near, |far| near.min(far.at));
        taken
    }

    fn pop_near(&mut self) -> Option<(Nanos, T)> {
        let (slice, first) = self.first_slice()?;
        let list = slice as usize % SLICES;
        self.slice = slice;
        let entry = &mut self.entries[first as usize];
        let taken = entry.event.take().map(|event| (entry.at, event));
        let after = std::mem::replace(&mut entry.next, self.unused);
        self.unused = first;
        self.near -= 1;
        self.lists[list].0 = after;
        if after == NO_EVENT {
            self.lists[list].1 = NO_EVENT;
            self.occupied[list / 64] &= !(1 << (list % 64));
        }
        taken
    }

    /// The first slice that has events, and its first event.
    #[inline]
    fn first_slice(&self) -> Option<(u64, u32)> {
        let start = self.slice as usize % SLICES;
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (start % 64));
        // The word of the start comes twice: first its upper bits, last its lower ones.
        for _ in 0..=SLICES / 64 {
            if bits != 0 {
                let list = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (list + SLICES - start) % SLICES;
                return Some((self.slice + ahead as u64, self.lists[list].0));
            }
            word = (word + 1) % (SLICES / 64);
            bits = self.occupied[word];
        }
        None
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.near + self.far.len()
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.near == 0 && self.far.is_empty()
    }

    /// Forgets everything: power was lost.
    pub fn clear(&mut self) {
        *self = Events::default();
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
        assert_eq!(t.busy.len() - t.first, 1);
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

    #[test]
    fn events_come_in_order_near_and_far() {
        for seed in 0..50 {
            let mut rng = crate::Rng::new(seed);
            let (mut events, mut model, mut now) = (Events::default(), Vec::new(), 0);
            // From all at once to far beyond the wheel.
            let span = 1 << rng.below(28);
            for number in 0..2000u32 {
                if rng.chance(500_000_000 + 100_000_000 * (number / 500)) {
                    now += rng.below(span) / 8;
                    let due = Nanos(now);
                    loop {
                        let first = model.iter().copied().min().filter(|&(at, _)| at <= due);
                        assert_eq!(events.next_at(), model.iter().map(|&(at, _)| at).min(), "seed {seed}");
                        assert_eq!(events.pop_due(due), first, "seed {seed}");
                        let Some(first) = first else { break };
                        model.retain(|&event| event != first);
                    }
                }
                for copy in 0..rng.below(3) as u32 {
                    let at = Nanos(now + rng.below(span));
                    let event = number * 4 + copy;
                    events.push(at, event);
                    model.push((at, event));
                }
                assert_eq!(events.len(), model.len(), "seed {seed}");
            }
        }
    }
}
