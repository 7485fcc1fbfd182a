//! Collection writes to the host's superblock: its data comes among newer data. This is so for each victim, or for a share of the victims.

use super::policy::PlacementPolicy;
use crate::policy_input::{Candidate, Writer};

#[derive(Clone)]
pub(super) struct Together {
    /// Of the victims, from 1 to 100.
    percent: u32,
    /// Hundredths of a victim that are to go to the host's superblock.
    due: u32,
}

impl Together {
    pub fn new(percent: u32) -> Together {
        Together { percent, due: 0 }
    }
}

impl PlacementPolicy for Together {
    fn relocation_streams(&self, _handles: usize) -> usize {
        1
    }

    fn relocated(&mut self, _victim: &Candidate) -> Writer {
        self.due += self.percent;
        match self.due.checked_sub(100) {
            Some(left) => {
                self.due = left;
                Writer::Host(0)
            }
            None => Writer::Relocation(0),
        }
    }
}
