//! What is due at a time.

use crate::Nanos;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Things with the times when they are due. Those of the same time come in the order in which they were added.
pub struct Due<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    added: u64,
}

struct Entry<T> {
    key: (Nanos, u64),
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Due<T> {
    /// Nothing is due.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }

    /// Adds something that is due at this time.
    pub fn add(&mut self, at: Nanos, what: T) {
        self.added += 1;
        self.heap.push(Reverse(Entry { key: (at, self.added), what }));
    }

    /// When the first is due: `Nanos::MAX` if there is none.
    pub fn next(&self) -> Nanos {
        self.heap.peek().map_or(Nanos::MAX, |Reverse(entry)| entry.key.0)
    }

    /// The first that is due by `now`, and when it was.
    pub fn take(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.key.0, entry.what))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<T> Default for Due<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comes_first_and_equals_in_order() {
        let mut due = Due::new();
        for (at, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (4, 'b')] {
            due.add(at, what);
        }
        assert_eq!((due.next(), due.len(), due.take(2)), (3, 4, None));
        let taken: String = std::iter::from_fn(|| due.take(5)).map(|(_, what)| what).collect();
        assert_eq!((taken.as_str(), due.next(), due.is_empty()), ("abcd", Nanos::MAX, true));
    }
}
