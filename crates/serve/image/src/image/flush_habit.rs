//! A habit of hosts: again and again the same number of pages, and then a Flush.
//!
//! A sync that begins before the Flush arrives is over sooner. The image begins one when as many pages are written as before the last
//! Flushes. If another page follows instead, the sync was in vain. Then the habit counts for nothing until it has shown itself for
//! some time.

/// Flushes in a row after the same number of pages, before a sync begins ahead.
const HABIT_FLUSHES: i32 = 2;
/// More of them change nothing.
const MAX_FLUSHES: i32 = 4;
/// What a sync in vain takes away.
const IN_VAIN: i32 = 16;

/// How many pages come before a Flush.
#[derive(Default, Debug)]
pub(super) struct FlushHabit {
    /// Pages since the last Flush.
    pages: u32,
    /// Pages before the last Flush.
    usual: u32,
    /// Flushes in a row that came after as many, less than zero after a sync in vain.
    trust: i32,
    /// A sync was begun ahead since the last Flush.
    begun: bool,
}

impl FlushHabit {
    /// A page was written.
    pub(super) fn writes(&mut self) {
        self.pages = self.pages.saturating_add(1);
    }

    /// Whether a Flush is to be expected next, and no sync was begun for it.
    pub(super) fn expects_flush(&self) -> bool {
        !self.begun && self.trust >= HABIT_FLUSHES && self.pages == self.usual
    }

    /// A sync is begun for it.
    pub(super) fn begins(&mut self) {
        self.begun = true;
    }

    /// A Flush arrives. `covered`: the sync that was begun last is all that it needs.
    pub(super) fn flushes(&mut self, covered: bool) {
        if self.pages == 0 {
            return;
        }
        self.trust = match self.pages == self.usual && (covered || !self.begun) {
            true => (self.trust + 1).min(MAX_FLUSHES),
            false if self.begun => -IN_VAIN,
            false => self.trust.min(0),
        };
        (self.usual, self.pages, self.begun) = (self.pages, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(habit: &mut FlushHabit, pages: u32) -> bool {
        (0..pages).for_each(|_| habit.writes());
        let expects = habit.expects_flush();
        if expects {
            habit.begins();
            assert!(!habit.expects_flush(), "one sync is enough");
        }
        expects
    }

    #[test]
    fn a_habit_shows_itself_a_few_times_first() {
        let mut habit = FlushHabit::default();
        let expected: Vec<bool> = (0..6)
            .map(|_| {
                let expects = burst(&mut habit, 3);
                habit.flushes(true);
                // Hosts that ask twice say nothing new.
                habit.flushes(true);
                expects
            })
            .collect();
        assert_eq!(expected, [false, false, false, true, true, true]);
        assert!(!burst(&mut habit, 2));
        assert!(burst(&mut habit, 1), "three pages, though one by one");
    }

    #[test]
    fn a_sync_in_vain_is_not_repeated_soon() {
        let mut habit = FlushHabit::default();
        let mut begun = 0;
        for _ in 0..100 {
            begun += u32::from(burst(&mut habit, 1));
            // The drive does something between the two that leaves the sync incomplete.
            habit.flushes(false);
        }
        assert!((2..=8).contains(&begun), "{begun} of 100 are in vain");
    }
}
