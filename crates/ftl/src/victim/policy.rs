//! What a policy sees, and what it says.

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
    pub fn gain(&self) -> u64 {
        u64::from(self.usable.saturating_sub(self.valid))
    }
}

/// A way to choose. It has no state: equal sets give equal victims.
///
/// What a policy of age should know: the age counts superblocks that were sealed, not time, and it does not outlive a loss of
/// power ([`Candidate::age`]). To keep it, the drive would have to write the order of sealing to its system area.
pub(crate) trait VictimPolicy {
    /// The superblock to collect next. Candidates come in the order of their numbers, and each gives something:
    /// a superblock that is full of valid pages is none. Wear levelling may take another superblock instead.
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<Candidate>;
}
