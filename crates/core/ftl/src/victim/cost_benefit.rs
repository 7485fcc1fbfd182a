//! What collecting a superblock gives, times its age, over what it costs (Rosenblum & Ousterhout, ACM TOCS 10(1), 1992; Kawaguchi, Nishioka &
//! Motoda, USENIX 1995).

use super::policy::VictimPolicy;
use crate::policy_input::Candidate;
use std::cmp::Ordering;

#[derive(Clone)]
pub(super) struct CostBenefit;

impl CostBenefit {
    /// (1 - u) x age / 2u, compared without division: the better first.
    fn order(a: &Candidate, b: &Candidate) -> Ordering {
        let worth = |c: &Candidate| u128::from(c.gain()) * u128::from(c.age);
        (worth(b) * u128::from(a.valid)).cmp(&(worth(a) * u128::from(b.valid)))
    }
}

impl VictimPolicy for CostBenefit {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        let chosen = candidates.min_by(|a, b| CostBenefit::order(a, b).then(a.superblock.cmp(&b.superblock)));
        chosen.map(|c| c.superblock)
    }
}
