//! What the metadata device holds. docs/tier-format.md is the description.

/// Bytes of a block of metadata.
pub(crate) const BLOCK: u64 = 4096;

pub(crate) mod checksum;
pub(crate) mod layout;
pub(crate) mod superblock;
pub(crate) mod table;
