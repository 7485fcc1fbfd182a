//! How Zone Random Write Areas lie in zones.

use serde::{Deserialize, Serialize};

/// Zone Random Write Areas (NVMe Zoned Namespace Command Set, "Zone Random Write Area"): pages behind the write pointer of a zone that
/// can be written in any order, and again, until the write pointer passes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ZrwaLayout {
    /// Pages of an area.
    pub pages: u32,
    /// The write pointer moves by multiples of so many pages, which divide those of the area and of a zone's capacity.
    pub granularity: u32,
    /// Most zones that have an area at a time.
    pub max: u32,
}

impl ZrwaLayout {
    /// Whether areas can be so for zones of so many pages, of which so many can be active.
    pub(super) fn is_possible(&self, pages: u64, max_active: u32) -> bool {
        self.granularity > 0
            && self.pages > 0
            && self.pages.is_multiple_of(self.granularity)
            && u64::from(self.pages) <= pages
            && pages.is_multiple_of(self.granularity.into())
            && (1..=max_active).contains(&self.max)
    }

    /// The write pointer after a write of the pages `first..end` of a zone whose write pointer is at `pointer`: it moves if the write ends
    /// behind the area, by as little as brings the write into the area. `None` if the write begins before the write pointer, or ends
    /// behind the pages that it can reach so.
    pub(crate) fn pointer_after(&self, pointer: u32, first: u32, end: u32) -> Option<u32> {
        let reach = u64::from(pointer) + 2 * u64::from(self.pages);
        if first < pointer || u64::from(end) > reach {
            return None;
        }
        let behind = end.saturating_sub(pointer + self.pages);
        Some(pointer + behind.next_multiple_of(self.granularity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_pointer_follows_writes_behind_the_area() {
        let area = ZrwaLayout { pages: 8, granularity: 4, max: 1 };
        let after = |first, end| area.pointer_after(100, first, end);
        for (first, end, pointer) in [(100, 101, 100), (107, 108, 100), (100, 108, 100), (104, 106, 100)] {
            assert_eq!(after(first, end), Some(pointer), "{first} to {end}");
        }
        // Behind the area: by whole granules.
        for (first, end, pointer) in
            [(108, 109, 104), (100, 109, 104), (108, 112, 104), (112, 113, 108), (115, 116, 108)]
        {
            assert_eq!(after(first, end), Some(pointer), "{first} to {end}");
        }
        for (first, end) in [(99, 101), (0, 1), (115, 117), (200, 201)] {
            assert_eq!(after(first, end), None, "{first} to {end}");
        }
    }
}
