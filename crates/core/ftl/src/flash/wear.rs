//! Bad blocks and wear.

use super::Flash;
use super::superblock::Cycles;
use media::{Medium, Unit};

impl Flash {
    /// Looks at every block.
    pub fn cycles(&self) -> Cycles {
        let blocks = (0..self.geo.superblocks).flat_map(|b| (0..self.geo.dies).map(move |d| (b, d)));
        let (mut sum, mut fewest, mut most, mut bad) = (0u64, u32::MAX, 0, 0);
        for (superblock, die) in blocks {
            let unit = Unit(superblock * self.geo.units_per_superblock() + die);
            let wear = self.nand.wear(unit);
            sum += u64::from(wear);
            fewest = fewest.min(wear);
            most = most.max(wear);
            bad += u32::from(self.nand.is_bad(unit));
        }
        let mean = sum / u64::from(self.geo.superblocks * self.geo.dies);
        Cycles { mean, fewest, most, bad }
    }

    /// Counts the pages that a superblock can hold, now that some of its blocks may be bad.
    pub(super) fn count_usable(&mut self, superblock: u32) {
        let first = superblock * self.geo.units_per_superblock();
        let good = (0..self.geo.dies).filter(|&d| !self.nand.is_bad(Unit(first + d))).count() as u32;
        self.superblocks.all[superblock as usize].usable =
            good * self.geo.units_per_block * self.geo.unit_pages;
    }
}
