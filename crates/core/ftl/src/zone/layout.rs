//! How zones lie in a volume.

use crate::config::{GRANULE_PAGES, PAGE, SetConfig};
use crate::zone::zrwa::ZrwaLayout;
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
    /// The Zone Random Write Areas of its zones; `None` if they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zrwa: Option<ZrwaLayout>,
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

    /// Pages of a zone that can be written.
    #[inline]
    pub(crate) fn pages_of_zone(&self) -> u32 {
        (self.capacity / u64::from(PAGE)) as u32
    }

    /// Whether a set that supports this can have such zones, apart from how many can be active.
    pub(crate) fn fits(&self, support: &ZoneSupport) -> bool {
        let areas = |zrwa: ZrwaLayout| {
            support.zrwa.is_some_and(|most| zrwa.pages <= most.pages && zrwa.max <= most.max)
        };
        self.is_possible(support.capacity) && self.zrwa.is_none_or(areas)
    }

    /// Whether it can be, with zones of at most `most` bytes.
    fn is_possible(&self, most: u64) -> bool {
        let page = u64::from(PAGE);
        self.zones > 0
            && self.capacity > 0
            && self.capacity <= self.size.min(most)
            && self.capacity.is_multiple_of(page)
            && self.size.is_multiple_of(page)
            && self.size.checked_mul(self.zones.into()).is_some()
            && (1..=self.max_active).contains(&self.max_open)
            && self.zrwa.is_none_or(|zrwa| zrwa.is_possible(self.capacity / page, self.max_active))
    }
}

/// What zones a set can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSupport {
    /// Most bytes that can be written to a zone.
    pub capacity: u64,
    /// Bytes from the begin of a zone to that of the next.
    pub size: u64,
    /// Zones that can still be promised to be active at a time.
    pub active: u32,
    /// How many of them a volume gets that does not say how many it wants.
    pub share: u32,
    /// Zone Random Write Areas: how large they are, and how many can still be promised. `None` if the set has none.
    pub zrwa: Option<ZrwaLayout>,
}

impl SetConfig {
    /// What zones a new set can have; `None` if the set has no zones.
    pub fn zone_support(&self) -> Option<ZoneSupport> {
        let SetConfig::Nand { nand, zones, .. } = self else { return None };
        let capacity = zones.capacity(&nand.geometry);
        (zones.active > 0).then(|| ZoneSupport {
            capacity,
            size: zones.distance(capacity),
            active: zones.active,
            share: zones.share_of(zones.active),
            zrwa: zones.zrwa,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_that_cannot_be_are_told() {
        let mib = 1 << 20;
        let good =
            ZoneLayout { zones: 4, size: 2 * mib, capacity: mib, max_active: 3, max_open: 2, zrwa: None };
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
        let area = ZrwaLayout { pages: 8, granularity: 4, max: 3 };
        assert!(ZoneLayout { zrwa: Some(area), ..good }.is_possible(mib));
        for bad in [
            ZrwaLayout { pages: 0, ..area },
            ZrwaLayout { pages: 10, ..area },
            ZrwaLayout { pages: 512, ..area },
            ZrwaLayout { granularity: 0, ..area },
            ZrwaLayout { pages: 9, granularity: 3, ..area },
            ZrwaLayout { max: 0, ..area },
            ZrwaLayout { max: 4, ..area },
        ] {
            assert!(!ZoneLayout { zrwa: Some(bad), ..good }.is_possible(mib), "{bad:?}");
        }
        let support = ZoneSupport {
            capacity: mib,
            size: mib,
            active: 3,
            share: 3,
            zrwa: Some(ZrwaLayout { max: 2, ..area }),
        };
        let with = |max| ZoneLayout { zrwa: Some(ZrwaLayout { max, ..area }), ..good };
        assert!(good.fits(&support) && with(2).fits(&support) && !with(3).fits(&support));
        assert!(good.fits(&ZoneSupport { zrwa: None, ..support }));
        assert!(!with(1).fits(&ZoneSupport { zrwa: None, ..support }));
    }
}
