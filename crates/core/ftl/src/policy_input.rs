//! What policies see of a set: superblocks, streams and writes.

/// A stream, as a policy names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// One that takes what hosts write.
    Host(usize),
    /// One that takes what collection moves.
    Relocation(usize),
}

/// A piece of a write of a host: as many pages as the drive writes atomically, at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostWrite {
    /// Its first logical page in the NVM Set.
    pub page: u32,
    /// Pages that hosts wrote to the drive before it: a clock for the age of data.
    pub written: u64,
    /// The placement handle that the host gave. One that the set does not have is possible.
    pub handle: usize,
    /// Placement handles of the set.
    pub handles: usize,
}

/// A superblock that can be collected, as a policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its number.
    pub superblock: u32,
    /// Pages that would have to be moved.
    pub valid: u32,
    /// Pages that it can hold.
    pub usable: u32,
    /// Superblocks that were sealed since it was, and one. After a loss of power the order of sealing is not known: superblocks
    /// with higher numbers count as older.
    pub age: u64,
    /// How often it was erased.
    pub erases: u32,
    /// The stream that wrote it.
    pub writer: Writer,
}

impl Candidate {
    /// Pages that collecting it gives.
    pub fn gain(&self) -> u64 {
        u64::from(self.usable.saturating_sub(self.valid))
    }
}
