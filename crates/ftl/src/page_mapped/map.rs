//! What entries of the map and spare areas say.

use crate::lost::LOST;
use media::Slot;

/// Map entry of a page that holds nothing.
pub(super) const UNMAPPED: u32 = u32::MAX;
/// Bit of a map entry that names a buffer entry instead of a flash page.
pub(super) const BUFFERED: u32 = 1 << 31;
/// What the spare area of a copy that is out of date names: its contents were given up.
pub(crate) const STALE: Slot = Slot(u32::MAX - 2);

/// Whether a copy on flash with this handle refers to contents.
#[inline]
pub(crate) fn has_contents(slot: Slot) -> bool {
    slot != LOST && slot != STALE
}
