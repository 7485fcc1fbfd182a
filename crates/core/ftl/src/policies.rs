//! Policies of other crates, in place of those that a configuration names.

use crate::placement::{Placement, PlacementPolicy};
use crate::victim::{GcPolicy, VictimPolicy};
use std::fmt;
use std::sync::Arc;

/// Policies of one's own for an NVM Set on flash. Where there is none, the configuration says which one it is.
///
/// They live in memory only. An image does not know by which policy it was written, and any policy can go on with it. An image of several
/// streams needs as many streams.
#[derive(Clone, Default)]
pub struct Policies {
    /// Which superblock is collected next, in place of [`GcConfig::policy`](crate::GcConfig::policy).
    pub victim: Option<Arc<dyn VictimPolicy>>,
    /// Where data go, in place of what [`PlacementConfig`](crate::PlacementConfig) says. Then the set has one placement handle, and its streams are the policy's.
    pub placement: Option<Arc<dyn PlacementPolicy>>,
}

impl Policies {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.victim.is_none() && self.placement.is_none()
    }

    /// A new policy that chooses victims.
    pub(crate) fn victim(&self, named: GcPolicy) -> Box<dyn VictimPolicy> {
        match &self.victim {
            Some(own) => dyn_clone::clone_box(&**own),
            None => named.policy(),
        }
    }

    /// A new policy that places data.
    pub(crate) fn placement(&self, named: Placement) -> Box<dyn PlacementPolicy> {
        match &self.placement {
            Some(own) => dyn_clone::clone_box(&**own),
            None => named.policy(),
        }
    }
}

/// Equal are those that are the same objects.
impl PartialEq for Policies {
    fn eq(&self, other: &Self) -> bool {
        fn same<T: ?Sized>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            }
        }
        same(self.victim.as_ref(), other.victim.as_ref())
            && same(self.placement.as_ref(), other.placement.as_ref())
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = |there: bool| if there { "own" } else { "named" };
        let (victim, placement) = (own(self.victim.is_some()), own(self.placement.is_some()));
        f.debug_struct("Policies").field("victim", &victim).field("placement", &placement).finish()
    }
}
