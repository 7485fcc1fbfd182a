//! What changes add to a snapshot, and who may use how much of the log's place.

use crate::tree::{EXTENT_BYTES, INODE_BYTES, NAME_BYTES, PATCH_BYTES};

/// Bytes that a block of a file adds to the snapshot, at most: its extent, and the rest of the extent that it cuts in two.
pub(crate) const BLOCK_BYTES: u64 = 2 * EXTENT_BYTES;
/// Bytes that a piece of a patch adds when its block goes to a zone, at most.
pub(crate) const PROMOTION_BYTES: u64 = BLOCK_BYTES - PATCH_BYTES;
/// Bytes that a new piece of a patch adds, besides its own.
pub(crate) const PIECE_BYTES: u64 = PATCH_BYTES + PROMOTION_BYTES;
/// Length of the names for which [`Usage::free_inodes`](crate::Usage) counts, in bytes.
pub(crate) const TYPICAL_NAME_BYTES: u64 = 55;

/// What asks for place in the log. The later ones may use more of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Something new: a name, an inode, an attribute, a block of a file.
    New,
    /// A change of what is there.
    Change,
    /// Data that garbage collection moves.
    Move,
}

impl Claim {
    /// Sixteenths of the log's place that it may use.
    pub(crate) fn sixteenths(self) -> u64 {
        match self {
            Self::New => 14,
            Self::Change => 15,
            Self::Move => 16,
        }
    }
}

/// Bytes that a new inode with a name adds to the snapshot. A symbolic link has a target.
pub(crate) fn inode_bytes(name: usize, target: usize) -> u64 {
    INODE_BYTES + target as u64 + name_bytes(name)
}

/// Bytes that a name adds to the snapshot.
pub(crate) fn name_bytes(name: usize) -> u64 {
    NAME_BYTES + name as u64
}
