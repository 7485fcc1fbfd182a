//! Collection keeps the data of each placement handle by itself: persistently isolated, in the words of Flexible Data Placement.

use super::policy::PlacementPolicy;
use crate::policy_input::{Candidate, Writer};

#[derive(Clone)]
pub(super) struct ByHandle;

impl PlacementPolicy for ByHandle {
    fn relocation_streams(&self, handles: usize) -> usize {
        handles
    }

    fn relocated(&mut self, victim: &Candidate) -> Writer {
        match victim.writer {
            Writer::Host(of) | Writer::Relocation(of) => Writer::Relocation(of),
        }
    }

    fn handle(&self, writer: Writer) -> Option<usize> {
        match writer {
            Writer::Host(of) | Writer::Relocation(of) => Some(of),
        }
    }
}
