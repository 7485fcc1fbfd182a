//! What the core and a policy say to each other.

use crate::chunk::{Cblock, Oblock};

/// A request of a host on one chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) oblock: Oblock,
    pub(crate) write: bool,
    /// Nothing needs to be copied for a promotion: the request writes the whole chunk, or it writes and the chunk is discarded.
    pub(crate) fast: bool,
    pub(crate) discarded: bool,
    /// Whether a migration may begin now. Policies whose migrations are work in the background do not ask.
    pub(crate) may_migrate: bool,
    /// Where it begins on the origin and how long it is, in sectors of 512 bytes.
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
}

/// What a policy answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The cache has it.
    Hit(Cblock),
    /// The origin has it.
    Miss,
    /// It is to be promoted to this place now, and the request waits for that. The victim leaves the place first.
    Promote { cblock: Cblock, victim: Option<Oblock> },
}

/// What a migration does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkKind {
    /// Copies a chunk to the cache.
    Promote,
    /// Takes a chunk out of the cache.
    Demote,
    /// Copies a dirty chunk to the origin. It stays in the cache.
    WriteBack,
}

/// A migration that a policy wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Work {
    pub(crate) kind: WorkKind,
    pub(crate) oblock: Oblock,
    pub(crate) cblock: Cblock,
}

/// How much is to be written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// The origin has other work.
    Busy,
    /// It has none.
    Idle,
    /// Everything is to be clean.
    All,
}
