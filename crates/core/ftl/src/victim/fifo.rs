//! The superblock that was full first.

use super::policy::VictimPolicy;
use crate::policy_input::Candidate;
use std::cmp::Reverse;

#[derive(Clone)]
pub(super) struct Fifo;

impl VictimPolicy for Fifo {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        let chosen = candidates.min_by_key(|c| (Reverse(c.age), c.superblock));
        chosen.map(|c| c.superblock)
    }
}
