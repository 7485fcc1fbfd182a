//! Fewest valid pages, counted against what the superblock can hold.

use super::policy::VictimPolicy;
use crate::policy_input::Candidate;

#[derive(Clone)]
pub(super) struct Greedy;

impl VictimPolicy for Greedy {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        let chosen = candidates.min_by_key(|c| (i64::from(c.valid) - i64::from(c.usable), c.superblock));
        chosen.map(|c| c.superblock)
    }
}
