//! Collection writes to the superblock that the host writes to, so that what it moves comes among newer data. Its relocation stream is never
//! opened.

use super::policy::PlacementPolicy;
use crate::policy_input::{Candidate, Writer};

#[derive(Clone)]
pub(super) struct Together;

impl PlacementPolicy for Together {
    fn relocation_streams(&self, _handles: usize) -> usize {
        1
    }

    fn relocated(&mut self, _victim: &Candidate) -> Writer {
        Writer::Host(0)
    }
}
