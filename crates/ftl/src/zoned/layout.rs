//! How zones lie in a volume and on flash.

use crate::config::{GRANULE_PAGES, PAGE};
use media::{Geometry, Unit};
use serde::{Deserialize, Serialize};

/// The zones of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ZoneLayout {
    /// How many.
    pub zones: u32,
    /// Bytes from the begin of a zone to the begin of the next.
    pub size: u64,
    /// Bytes of a zone that can be written, from its begin: at most `size`, whole pages.
    pub capacity: u64,
    /// Most active zones.
    pub max_active: u32,
    /// Most open zones: at most `max_active`.
    pub max_open: u32,
}

impl ZoneLayout {
    /// Bytes of the volume's address space.
    pub fn bytes(&self) -> u64 {
        u64::from(self.zones) * self.size
    }

    /// Granules that the set keeps for each zone.
    pub(crate) fn granules_of_zone(&self) -> u32 {
        self.capacity.div_ceil(u64::from(GRANULE_PAGES) * u64::from(PAGE)) as u32
    }

    /// The zone of a byte of the volume, and the byte of the zone.
    #[inline]
    pub(crate) fn locate(&self, byte: u64) -> (u32, u64) {
        ((byte / self.size) as u32, byte % self.size)
    }

    /// Whether it can be, with zones of at most `most` bytes.
    pub(crate) fn is_possible(&self, most: u64) -> bool {
        let page = u64::from(PAGE);
        self.zones > 0
            && self.capacity > 0
            && self.capacity <= self.size.min(most)
            && self.capacity.is_multiple_of(page)
            && self.size.is_multiple_of(page)
            && self.size.checked_mul(self.zones.into()).is_some()
            && (1..=self.max_active).contains(&self.max_open)
    }
}

/// What zones a set can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSupport {
    /// Most bytes that can be written to a zone.
    pub capacity: u64,
    /// Zones that can still be promised to be active at a time.
    pub active: u32,
}

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

    #[test]
    fn layouts_that_cannot_be_are_told() {
        let mib = 1 << 20;
        let good = ZoneLayout { zones: 4, size: 2 * mib, capacity: mib, max_active: 3, max_open: 2 };
        assert!(good.is_possible(mib));
        assert_eq!((good.bytes(), good.granules_of_zone(), good.locate(5 * mib)), (8 * mib, 1, (2, mib)));
        let page = u64::from(PAGE);
        for bad in [
            ZoneLayout { zones: 0, ..good },
            ZoneLayout { capacity: 0, ..good },
            ZoneLayout { capacity: 512, ..good },
            ZoneLayout { capacity: mib + page, ..good },
            ZoneLayout { size: mib - page, ..good },
            ZoneLayout { max_open: 0, ..good },
            ZoneLayout { max_open: 4, ..good },
            ZoneLayout { size: u64::MAX / 3 / page * page, ..good },
        ] {
            assert!(!bad.is_possible(mib), "{bad:?}");
        }
    }
}
