//! The superblock that was full first.

use super::policy::{Candidate, VictimPolicy};
use std::cmp::Reverse;

pub(super) struct Fifo;

impl VictimPolicy for Fifo {
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<Candidate> {
        candidates.min_by_key(|c| (Reverse(c.age), c.superblock))
    }
}
