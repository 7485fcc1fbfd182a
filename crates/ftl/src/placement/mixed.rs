//! Collection moves the data of all placement handles to the same superblocks: initially isolated, in the words of Flexible Data
//! Placement.

use super::policy::{PlacementPolicy, Writer};

pub(super) struct Mixed;

impl PlacementPolicy for Mixed {
    fn relocation_streams(&self, _handles: usize) -> usize {
        1
    }

    fn relocated(&self, _from: Writer) -> Writer {
        Writer::Relocation(0)
    }
}
