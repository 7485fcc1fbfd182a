//! The fewest valid pages of a few superblocks that are drawn at random (Y. Li, P. P. C. Lee, J. C. S. Lui, "Stochastic Modeling of Large-Scale
//! Solid-State Storage Systems", SIGMETRICS 2013). With one it is random collection, with all of them it is greedy.

use live::policies::{Candidate, VictimPolicy};
use rng::Rng;

/// Draws so many superblocks, and takes the best one.
#[derive(Clone)]
pub struct Choices {
    /// 1 or more.
    pub count: u64,
    pub rng: Rng,
}

impl VictimPolicy for Choices {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        let all: Vec<Candidate> = candidates.collect();
        let mut draw = || all.get(self.rng.below(all.len().max(1) as u64) as usize);
        let drawn = (0..self.count).filter_map(|_| draw());
        drawn.min_by_key(|c| (c.valid, c.superblock)).map(|c| c.superblock)
    }
}
