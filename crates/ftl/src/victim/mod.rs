//! Which superblock is collected next. A new policy is a file here with a type that has [`VictimPolicy`], and a variant of
//! [`GcPolicy`]. A drive's TOML knows it by the variant's name.

mod cost_benefit;
mod fifo;
mod greedy;

use cost_benefit::CostBenefit;
use fifo::Fifo;
use greedy::Greedy;
use serde::Deserialize;

/// Choice of the victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPolicy {
    /// Fewest valid pages.
    Greedy,
    /// Largest (1 - u) / 2u x age (Rosenblum & Ousterhout 1992; Kawaguchi et al. 1995).
    CostBenefit,
    /// The one that was full first ("LRU cleaning": P. Desnoyers, ACM Transactions on Storage 10(2), 2014).
    Fifo,
}

/// A superblock that can be collected, as a policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// Its number.
    pub superblock: u32,
    /// Pages that would have to be moved.
    pub valid: u32,
    /// Pages that it can hold.
    pub usable: u32,
    /// Superblocks that were sealed since it was, and one. After a loss of power the order of sealing is not known: superblocks
    /// with higher numbers count as older.
    pub age: u64,
}

impl Candidate {
    /// Pages that collecting it gives.
    fn gain(&self) -> u64 {
        u64::from(self.usable.saturating_sub(self.valid))
    }
}

/// A way to choose. It has no state: equal sets give equal victims.
///
/// What a policy of age should know: the age counts superblocks that were sealed, not time, and it does not outlive a loss of
/// power ([`Candidate::age`]). To keep it, the drive would have to write the order of sealing to its system area.
pub(crate) trait VictimPolicy {
    /// The superblock to collect next. Candidates come in the order of their numbers, and each gives something.
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<Candidate>;
}

impl GcPolicy {
    pub(crate) fn chooses(self) -> &'static dyn VictimPolicy {
        match self {
            GcPolicy::Greedy => &Greedy,
            GcPolicy::CostBenefit => &CostBenefit,
            GcPolicy::Fifo => &Fifo,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(superblock: u32, valid: u32, age: u64) -> Candidate {
        Candidate { superblock, valid, usable: 100, age }
    }

    #[test]
    fn policies_choose_by_what_their_names_say() {
        // Fewest valid pages; a little more, but old; the oldest, and nearly full.
        let all = [candidate(0, 20, 1), candidate(1, 25, 50), candidate(2, 95, 60)];
        let chosen = |policy: GcPolicy| policy.chooses().choose(&mut all.iter().copied()).unwrap().superblock;
        assert_eq!([GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::Fifo].map(chosen), [0, 1, 2]);
    }

    #[test]
    fn of_equals_all_choose_the_first_and_of_none_none() {
        for policy in [GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::Fifo] {
            let equal = [candidate(4, 30, 9), candidate(7, 30, 9)];
            let chosen = policy.chooses().choose(&mut equal.iter().copied());
            assert_eq!(chosen.map(|c| c.superblock), Some(4), "{policy:?}");
            assert_eq!(policy.chooses().choose(&mut std::iter::empty()), None);
        }
    }

    /// One without valid pages is worth more than any that has some.
    #[test]
    fn an_empty_superblock_is_first_for_cost_benefit() {
        let all = [candidate(0, 1, u64::MAX), candidate(1, 0, 1)];
        let chosen = GcPolicy::CostBenefit.chooses().choose(&mut all.iter().copied());
        assert_eq!(chosen.map(|c| c.superblock), Some(1));
    }
}
