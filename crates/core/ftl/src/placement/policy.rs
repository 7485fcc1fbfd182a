//! What a policy of placement says.

use crate::policy_input::{Candidate, HostWrite, Writer};
use dyn_clone::DynClone;

/// A way to place data.
///
/// Each NVM Set has a copy of its own, so a policy may have state. A set that loses power begins again with a copy of the policy that its
/// configuration has. Streams that the policy names and the set does not have count as the first of their kind.
pub trait PlacementPolicy: DynClone + Send + Sync {
    /// Streams for what hosts write, of a set with so many placement handles: 1 to [`MAX_HANDLES`](crate::MAX_HANDLES). A set has at least one
    /// for each handle.
    fn host_streams(&self, handles: usize) -> usize {
        handles
    }

    /// Streams for what collection moves: 1 to [`MAX_HANDLES`](crate::MAX_HANDLES).
    fn relocation_streams(&self, handles: usize) -> usize;

    /// The stream that takes what a host writes. Data that waits in the write buffer and is written again goes where the newer write goes.
    fn host(&mut self, write: HostWrite) -> usize {
        if write.handle < write.handles { write.handle } else { 0 }
    }

    /// The stream that takes what is collected from this superblock.
    fn relocated(&mut self, victim: &Candidate) -> Writer;

    /// The placement handle that all data of a superblock belong to; `None` if they may belong to several.
    fn handle(&self, writer: Writer) -> Option<usize> {
        match writer {
            Writer::Host(handle) => Some(handle),
            Writer::Relocation(_) => None,
        }
    }
}

dyn_clone::clone_trait_object!(PlacementPolicy);
