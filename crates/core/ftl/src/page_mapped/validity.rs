//! Which flash pages are valid, and how many of each superblock. The newest copy of a page that has landed is valid, until its successor
//! has landed or the page is deallocated.

use super::bits::{bit, clear_bit, set_bit};
use media::Geometry;
use media::tables::{Table, prefetch};

#[derive(Clone, Debug)]
pub(super) struct Validity {
    /// One bit per flash page, which are visited at random.
    bits: Table<u64>,
    /// Valid pages by superblock.
    counts: Vec<u32>,
}

impl Validity {
    pub fn new(geo: &Geometry) -> Validity {
        Validity {
            bits: Table::zeros(geo.pages().div_ceil(64) as usize),
            counts: vec![0; geo.superblocks as usize],
        }
    }

    /// Whether a page is valid.
    #[inline]
    pub fn holds(&self, page: u32) -> bool {
        bit(&self.bits, page)
    }

    /// Valid pages of a superblock.
    #[inline]
    pub fn of(&self, superblock: u32) -> u32 {
        self.counts[superblock as usize]
    }

    /// Valid pages of all superblocks.
    pub fn all(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Whether any page is valid.
    pub fn is_any(&self) -> bool {
        self.counts.iter().any(|&count| count != 0)
    }

    /// A page of this superblock is valid from now on.
    #[inline]
    pub fn set(&mut self, page: u32, superblock: u32) {
        set_bit(&mut self.bits, page);
        self.counts[superblock as usize] += 1;
    }

    /// A page of this superblock is not valid any more.
    #[inline]
    pub fn clear(&mut self, page: u32, superblock: u32) {
        clear_bit(&mut self.bits, page);
        self.counts[superblock as usize] -= 1;
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        // Where nothing is valid, the bits are zeros already, mostly without memory.
        if self.is_any() {
            self.bits.fill(0);
            self.counts.fill(0);
        }
    }

    /// The first valid page from `page` on, below `end`.
    #[inline]
    pub fn next(&self, mut page: u32, end: u32) -> Option<u32> {
        while page < end {
            // Whole words without valid pages are skipped.
            let rest = self.bits[(page / 64) as usize] >> (page % 64);
            if rest != 0 {
                page += rest.trailing_zeros();
                // The word may be another superblock's, too.
                return (page < end).then_some(page);
            }
            page += 64 - page % 64;
        }
        None
    }

    /// Begins to bring the bit of a page into the host's cache. There need be no such page.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        prefetch(&self.bits, page / 64);
    }

    /// A bit for each page.
    pub fn bits(&self) -> &[u64] {
        &self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_valid_page_is_found_within_its_superblock() {
        let geo = Geometry {
            dies: 1,
            channels: 1,
            planes: 1,
            superblocks: 3,
            units_per_block: 100,
            unit_pages: 1,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 1,
        };
        let mut valid = Validity::new(&geo);
        for page in [0, 99, 100, 230] {
            valid.set(page, page / 100);
        }
        let all = |from: u32, end: u32| {
            std::iter::successors(valid.next(from, end), |&page| valid.next(page + 1, end))
                .collect::<Vec<_>>()
        };
        assert_eq!([all(0, 100), all(100, 200), all(200, 300)], [vec![0, 99], vec![100], vec![230]]);
        assert_eq!([0, 1, 2].map(|superblock| valid.of(superblock)), [2, 1, 1]);
        valid.clear(99, 0);
        assert_eq!((valid.of(0), valid.holds(99), valid.next(1, 100)), (1, false, None));
    }
}
