//! What a policy of collection says.

use crate::policy_input::Candidate;
use dyn_clone::DynClone;

/// A way to choose the superblock that is collected next.
///
/// Each NVM Set has a copy of its own, so a policy may have state. A set that loses power begins again with a copy of the policy that its
/// configuration has. Nothing random should come from outside: then equal loads give equal victims.
///
/// What a policy of age should know: the age counts superblocks that were sealed, not time, and it does not outlive a loss of
/// power ([`Candidate::age`]). To keep it, the drive would have to write the order of sealing to its system area.
pub trait VictimPolicy: DynClone + Send + Sync {
    /// The number of the superblock to collect next. Candidates come in the order of their numbers, and each gives something:
    /// a superblock that is full of valid pages is none. Wear levelling may take another superblock instead.
    ///
    /// `None`, or a number that no candidate has, means: not yet. The policy is asked again as the set goes on. When hosts
    /// have no superblock left to write to, the set takes the candidate with fewest valid pages.
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32>;
}

dyn_clone::clone_trait_object!(VictimPolicy);
