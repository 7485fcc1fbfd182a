//! Two owners may stand on one flash: a page-mapped part, and zones. These numbers tell what is whose.

/// Who writes the superblocks of zones, as the journal and [`Superblock::writer`](super::Superblock) name it. Streams of the page-mapped
/// part have lower numbers.
pub(crate) const ZONES: u8 = u8::MAX;

/// Bit of a program's number that says that it is one of the zones'.
pub(crate) const ZONE_OP: u32 = 1 << 31;
