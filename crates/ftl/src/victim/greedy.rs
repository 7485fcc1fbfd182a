//! Fewest valid pages, counted against what the superblock can hold.

use super::policy::{Candidate, VictimPolicy};

pub(super) struct Greedy;

impl VictimPolicy for Greedy {
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<Candidate> {
        candidates.min_by_key(|c| (i64::from(c.valid) - i64::from(c.usable), c.superblock))
    }
}
