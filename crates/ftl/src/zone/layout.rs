//! How zones lie in a volume.

use crate::config::{GRANULE_PAGES, PAGE, SetConfig};
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

impl SetConfig {
    /// What zones a new set can have; `None` if the set has no zones.
    pub fn zone_support(&self) -> Option<ZoneSupport> {
        let SetConfig::Nand { nand, zones, .. } = self else { return None };
        let geo = &nand.geometry;
        let dies = if zones.dies == 0 { geo.dies } else { zones.dies };
        let pages = u64::from(dies) * u64::from(geo.units_per_block) * u64::from(geo.unit_pages);
        (zones.active > 0).then(|| ZoneSupport { capacity: pages * u64::from(PAGE), active: zones.active })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
