//! How zones lie on flash.

use crate::config::PAGE;
use media::{Geometry, Unit};

/// Which blocks hold a zone: those of some dies of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plot {
    pub superblock: u32,
    /// Which of the superblock's plots.
    pub index: u32,
}

/// How superblocks are cut into plots, and how a zone is striped over the dies of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Striping {
    /// Dies of a plot.
    pub dies: u32,
    /// Plots of a superblock.
    pub plots: u32,
    /// Units of a plot, and pages of a unit.
    pub units: u32,
    pub unit_pages: u32,
    dies_of_set: u32,
    units_of_superblock: u32,
}

impl Striping {
    pub fn new(geo: &Geometry, dies: u32) -> Striping {
        Striping {
            dies,
            plots: geo.dies / dies,
            units: geo.units_per_block * dies,
            unit_pages: geo.unit_pages,
            dies_of_set: geo.dies,
            units_of_superblock: geo.units_per_superblock(),
        }
    }

    /// Bytes of a plot.
    pub fn bytes(&self) -> u64 {
        u64::from(self.units) * self.unit_bytes()
    }

    /// Bytes of a unit.
    #[inline]
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.unit_pages) * u64::from(PAGE)
    }

    /// Where a zone's unit lies in its plot, and the die.
    #[inline]
    pub fn unit(&self, plot: Plot, unit: u32) -> (Unit, u32) {
        let (row, column) = (unit / self.dies, unit % self.dies);
        let die = plot.index * self.dies + column;
        (Unit(plot.superblock * self.units_of_superblock + row * self.dies_of_set + die), die)
    }

    /// The flash page of a zone's page.
    #[inline]
    pub fn page(&self, plot: Plot, page: u32) -> u32 {
        self.unit(plot, page / self.unit_pages).0.0 * self.unit_pages + page % self.unit_pages
    }

    /// The first unit of each block of a plot.
    pub fn blocks(&self, plot: Plot) -> impl Iterator<Item = Unit> + use<> {
        let first = plot.superblock * self.units_of_superblock + plot.index * self.dies;
        (first..first + self.dies).map(Unit)
    }

    /// The plot of a block, by any unit of it.
    pub fn plot_of(&self, unit: Unit) -> Plot {
        let superblock = unit.0 / self.units_of_superblock;
        Plot { superblock, index: unit.0 % self.dies_of_set / self.dies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry {
            dies: 8,
            channels: 2,
            planes: 1,
            superblocks: 10,
            units_per_block: 5,
            unit_pages: 3,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 1000,
        }
    }

    #[test]
    fn the_plots_of_a_superblock_share_no_page_and_leave_none_out() {
        let geo = geometry();
        for dies in [1, 2, 4, 8] {
            let striping = Striping::new(&geo, dies);
            let mut pages: Vec<u32> = (0..striping.plots)
                .flat_map(|index| {
                    let plot = Plot { superblock: 7, index };
                    (0..striping.units * striping.unit_pages).map(move |page| striping.page(plot, page))
                })
                .collect();
            pages.sort_unstable();
            let first = 7 * geo.pages_per_superblock();
            assert!(pages.into_iter().eq(first..first + geo.pages_per_superblock()), "plots of {dies} dies");
        }
    }

    #[test]
    fn a_zone_goes_from_die_to_die() {
        let striping = Striping::new(&geometry(), 4);
        let plot = Plot { superblock: 2, index: 1 };
        let dies: Vec<u32> = (0..6).map(|unit| striping.unit(plot, unit).1).collect();
        assert_eq!(dies, [4, 5, 6, 7, 4, 5]);
        for unit in 0..striping.units {
            let (unit, die) = striping.unit(plot, unit);
            assert_eq!((striping.plot_of(unit), unit.0 % 8), (plot, die));
        }
        assert!(striping.blocks(plot).eq((84..88).map(Unit)));
    }
}
