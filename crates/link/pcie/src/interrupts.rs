//! Interrupt vectors and coalescing (Base 5.1.25.2.1, 5.1.25.2.2).

use nvme::feature::{InterruptCoalescing, InterruptVectorConfiguration};

/// Nanoseconds of a unit of the aggregation time.
const AGGREGATION_UNIT_NS: u64 = 100_000;

/// One interrupt vector.
#[derive(Clone, Copy, Debug, Default)]
struct Vector {
    /// Whether its interrupts are never coalesced.
    is_immediate: bool,
    /// Entries since its last interrupt.
    entries: u32,
    /// When the first of them was written.
    since_ns: u64,
    /// Whether an interrupt is due without coalescing.
    is_due: bool,
    /// Whether an interrupt is due without an entry: a fault.
    is_spurious: bool,
}

impl Vector {
    /// Whether an interrupt is due, now or later.
    fn is_waiting(&self) -> bool {
        self.entries > 0 || self.is_spurious
    }
}

/// All vectors of a function.
#[derive(Debug)]
pub(crate) struct Interrupts {
    vectors: Vec<Vector>,
    /// Vectors with an interrupt to come.
    waiting: usize,
    coalescing: InterruptCoalescing,
}

impl Interrupts {
    /// This many vectors, without coalescing.
    pub(crate) fn new(vectors: u16) -> Self {
        Interrupts {
            vectors: vec![Vector::default(); usize::from(vectors)],
            waiting: 0,
            coalescing: InterruptCoalescing::new(),
        }
    }

    /// Everything is as at the start.
    pub(crate) fn reset(&mut self) {
        self.vectors.fill(Vector::default());
        self.waiting = 0;
        self.coalescing = InterruptCoalescing::new();
    }

    /// How many vectors there are.
    pub(crate) fn count(&self) -> u16 {
        self.vectors.len() as u16
    }

    /// The value of feature 08h.
    pub(crate) fn coalescing(&self) -> InterruptCoalescing {
        self.coalescing
    }

    /// Sets feature 08h.
    pub(crate) fn set_coalescing(&mut self, value: InterruptCoalescing) {
        self.coalescing = InterruptCoalescing::new().with_thr_z(value.thr_z()).with_time(value.time());
    }

    /// The value of feature 09h for a vector; `None` if there is no such vector.
    pub(crate) fn configuration(&self, iv: u16) -> Option<InterruptVectorConfiguration> {
        let vector = self.vectors.get(usize::from(iv))?;
        Some(InterruptVectorConfiguration::new().with_iv(iv).with_cd(vector.is_immediate))
    }

    /// Sets feature 09h. False if there is no such vector.
    pub(crate) fn configure(&mut self, value: InterruptVectorConfiguration) -> bool {
        match self.vectors.get_mut(usize::from(value.iv())) {
            Some(vector) => {
                vector.is_immediate = value.cd();
                true
            }
            None => false,
        }
    }

    /// Entries were written to a completion queue of this vector. Entries of the admin queue are not coalesced.
    pub(crate) fn posted(&mut self, iv: u16, entries: u32, is_admin: bool, now_ns: u64) {
        let Some(vector) = self.vectors.get_mut(usize::from(iv)) else { return };
        if entries == 0 {
            return;
        }
        self.waiting += usize::from(!vector.is_waiting());
        if vector.entries == 0 {
            vector.since_ns = now_ns;
        }
        vector.entries = vector.entries.saturating_add(entries);
        vector.is_due |= is_admin;
    }

    /// An interrupt is due, whether there are entries or not.
    pub(crate) fn raise(&mut self, iv: u16) {
        if let Some(vector) = self.vectors.get_mut(usize::from(iv)) {
            self.waiting += usize::from(!vector.is_waiting());
            vector.is_spurious = true;
        }
    }

    /// The host has taken all entries of a vector: it needs no interrupt.
    pub(crate) fn withdraw(&mut self, iv: u16) {
        if let Some(vector) = self.vectors.get_mut(usize::from(iv)) {
            self.waiting -= usize::from(vector.is_waiting());
            (vector.entries, vector.is_due, vector.is_spurious) = (0, false, false);
        }
    }

    /// When the entries of a vector are due; `None` if it has none.
    fn due_ns(&self, vector: &Vector) -> Option<u64> {
        let full = vector.entries > u32::from(self.coalescing.thr_z());
        let wait = u64::from(self.coalescing.time()) * AGGREGATION_UNIT_NS;
        match vector.entries {
            _ if vector.is_spurious => Some(0),
            0 => None,
            _ if full || vector.is_due || vector.is_immediate => Some(vector.since_ns),
            _ => Some(vector.since_ns.saturating_add(wait)),
        }
    }

    /// Takes the vectors whose interrupts are due.
    pub(crate) fn take_due(&mut self, now_ns: u64, mut raise: impl FnMut(u16)) {
        for index in 0..self.vectors.len() {
            if self.waiting == 0 {
                break;
            }
            let due = self.due_ns(&self.vectors[index]);
            if due.is_some_and(|due| due <= now_ns) {
                self.withdraw(index as u16);
                raise(index as u16);
            }
        }
    }

    /// When the next interrupt is due; `u64::MAX` if none is.
    pub(crate) fn deadline_ns(&self) -> u64 {
        if self.waiting == 0 {
            return u64::MAX;
        }
        self.vectors.iter().filter_map(|vector| self.due_ns(vector)).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(interrupts: &mut Interrupts, now_ns: u64) -> Vec<u16> {
        let mut found = Vec::new();
        interrupts.take_due(now_ns, |iv| found.push(iv));
        found
    }

    #[test]
    fn interrupts_wait_for_entries_or_time() {
        let mut interrupts = Interrupts::new(3);
        interrupts.posted(1, 2, false, 10);
        assert_eq!(due(&mut interrupts, 10), [1], "one interrupt for a batch");
        interrupts.set_coalescing(InterruptCoalescing::new().with_thr_z(2).with_time(3));
        assert!(interrupts.configure(InterruptVectorConfiguration::new().with_iv(2).with_cd(true)));
        assert!(!interrupts.configure(InterruptVectorConfiguration::new().with_iv(3)));
        assert!(interrupts.configuration(2).unwrap().cd());
        interrupts.posted(1, 2, false, 20);
        interrupts.posted(2, 1, false, 20);
        interrupts.posted(0, 1, true, 20);
        assert_eq!(due(&mut interrupts, 20), [0, 2]);
        assert_eq!(interrupts.deadline_ns(), 300_020);
        interrupts.posted(1, 1, false, 50);
        assert_eq!(due(&mut interrupts, 50), [1], "three entries are enough");
        interrupts.posted(1, 1, false, 60);
        assert_eq!(due(&mut interrupts, 300_059), []);
        assert_eq!(due(&mut interrupts, 300_060), [1]);
        interrupts.posted(1, 1, false, 70);
        interrupts.withdraw(1);
        assert_eq!((due(&mut interrupts, u64::MAX), interrupts.deadline_ns()), (vec![], u64::MAX));
        interrupts.raise(1);
        interrupts.raise(9);
        assert_eq!(
            (due(&mut interrupts, 80), due(&mut interrupts, 80)),
            (vec![1], vec![]),
            "without an entry"
        );
        interrupts.posted(9, 1, false, 70);
        assert_eq!(interrupts.deadline_ns(), u64::MAX, "no such vector");
    }
}
