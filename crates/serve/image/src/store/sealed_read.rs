//! What the store keeps of a read that is to be decrypted.

use device::BlockTransform;
use ftl::{Io, Piece};
use media::Slot;

/// A read whose blocks are still encrypted.
#[derive(Debug)]
pub(super) struct SealedRead {
    pub(super) io: Io,
    pub(super) transform: BlockTransform,
    pub(super) piece: Piece,
    /// Counted in the store's references.
    pub(super) slot: Slot,
    /// Byte of the command's buffer.
    pub(super) host: usize,
}
