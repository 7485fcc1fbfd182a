//! What a step of the zones works with.

use crate::context::SetContext;
use crate::page_mapped::SharedFlash;
use crate::storage::Storage;
use media::Nanos;

/// What a step of the zones works with besides their own state.
pub(crate) struct ZoneContext<'a, 'c, S: Storage> {
    /// The time of the step.
    pub now: Nanos,
    /// The flash, and the strays on it.
    pub shared: SharedFlash<'a>,
    /// What every set works with.
    pub set: &'a mut SetContext<'c, S>,
}
