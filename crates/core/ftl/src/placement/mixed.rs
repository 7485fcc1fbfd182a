//! Collection moves the data of all placement handles to the same superblocks: initially isolated, in the words of Flexible Data
//! Placement.

use super::policy::PlacementPolicy;
use crate::policy_input::{Candidate, Writer};

#[derive(Clone)]
pub(super) struct Mixed;

impl PlacementPolicy for Mixed {
    fn relocation_streams(&self, _handles: usize) -> usize {
        1
    }

    fn relocated(&mut self, _victim: &Candidate) -> Writer {
        Writer::Relocation(0)
    }
}
