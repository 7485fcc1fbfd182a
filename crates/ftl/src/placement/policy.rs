//! What a policy says.

/// A stream, as a policy names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writer {
    /// A placement handle's.
    Host(usize),
    /// A stream that takes what collection moves.
    Relocation(usize),
}

/// A way to place data. It has no state: what it says of a stream never changes.
pub(crate) trait PlacementPolicy: Sync {
    /// Relocation streams of a set with so many placement handles: 1 at least.
    fn relocation_streams(&self, handles: usize) -> usize;

    /// The placement handle whose stream takes what a host writes with `handle`, of so many. One that the set does not have counts as
    /// the first.
    fn host(&self, handle: usize, handles: usize) -> usize {
        if handle < handles { handle } else { 0 }
    }

    /// The stream that takes what is collected from a superblock that `from` wrote.
    fn relocated(&self, from: Writer) -> Writer;

    /// The placement handle that all data of a superblock belong to; `None` if they may belong to several.
    fn handle(&self, writer: Writer) -> Option<usize> {
        match writer {
            Writer::Host(handle) => Some(handle),
            Writer::Relocation(_) => None,
        }
    }
}
