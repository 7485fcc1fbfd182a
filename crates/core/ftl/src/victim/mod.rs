//! Which superblock is collected next. A new policy is a file here with a type that has [`VictimPolicy`], and a variant of
//! [`GcPolicy`] with its place in [`GcPolicy::ALL`]. A drive's TOML knows it by the variant's name, and the tests run all of them. A policy
//! of another crate comes with [`Policies`](crate::Policies).

mod cost_benefit;
mod fifo;
mod greedy;
mod policy;

use cost_benefit::CostBenefit;
use fifo::Fifo;
use greedy::Greedy;
pub use policy::VictimPolicy;
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

impl GcPolicy {
    /// All of them, in the order of the variants. Tests run each.
    pub const ALL: &[GcPolicy] = &[GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::Fifo];

    pub(crate) fn policy(self) -> Box<dyn VictimPolicy> {
        match self {
            GcPolicy::Greedy => Box::new(Greedy),
            GcPolicy::CostBenefit => Box::new(CostBenefit),
            GcPolicy::Fifo => Box::new(Fifo),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy_input::{Candidate, Writer};
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    fn candidate(superblock: u32, valid: u32, age: u64) -> Candidate {
        Candidate { superblock, valid, usable: 100, age, erases: 0, writer: Writer::Host(0) }
    }

    #[test]
    fn policies_choose_by_what_their_names_say() {
        // Fewest valid pages; a little more, but old; the oldest, and nearly full.
        let all = [candidate(0, 20, 1), candidate(1, 25, 50), candidate(2, 95, 60)];
        let chosen = |policy: GcPolicy| policy.policy().choose(&mut all.iter().copied()).unwrap();
        assert_eq!([GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::Fifo].map(chosen), [0, 1, 2]);
    }

    /// A policy that the list lacks would run in no test. The error for an unknown name lists the variants.
    #[test]
    fn the_list_has_all_policies() {
        let unknown: StrDeserializer<'_, Error> = "none".into_deserializer();
        let error = GcPolicy::deserialize(unknown).unwrap_err().to_string();
        let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(names.len(), GcPolicy::ALL.len(), "{error}");
        for (name, policy) in names.into_iter().zip(GcPolicy::ALL) {
            let named: StrDeserializer<'_, Error> = name.into_deserializer();
            assert_eq!(GcPolicy::deserialize(named).as_ref(), Ok(policy));
        }
    }

    #[test]
    fn of_equals_all_choose_the_first_and_of_none_none() {
        for policy in GcPolicy::ALL {
            let equal = [candidate(4, 30, 9), candidate(7, 30, 9)];
            let chosen = policy.policy().choose(&mut equal.iter().copied());
            assert_eq!(chosen, Some(4), "{policy:?}");
            assert_eq!(policy.policy().choose(&mut std::iter::empty()), None);
        }
    }

    /// One without valid pages is worth more than any that has some.
    #[test]
    fn an_empty_superblock_is_first_for_cost_benefit() {
        let all = [candidate(0, 1, u64::MAX), candidate(1, 0, 1)];
        let chosen = GcPolicy::CostBenefit.policy().choose(&mut all.iter().copied());
        assert_eq!(chosen, Some(1));
    }
}
