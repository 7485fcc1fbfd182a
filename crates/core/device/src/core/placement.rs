//! Placement handles: which NVM Sets have several, and whether Flexible Data Placement gives them to namespaces.

use super::state::Core;
use ftl::SetId;

impl Core {
    /// Whether a set has placement handles to choose from.
    pub(crate) fn can_place(&self, set: SetId) -> bool {
        usize::from(set.0) < self.ftl.set_count() && self.ftl.handles(set) > 1
    }

    /// Whether some set has placement handles. Such a drive has Flexible Data Placement and directives.
    pub(crate) fn has_placement(&self) -> bool {
        (0..self.ftl.set_count()).any(|i| self.can_place(SetId(i as u8)))
    }

    /// Whether Flexible Data Placement is enabled in a set's Endurance Group.
    pub(crate) fn is_placing(&self, set: SetId) -> bool {
        self.can_place(set) && self.persistent.fdp.get(usize::from(set.0)).is_some_and(|group| group.enabled)
    }
}
