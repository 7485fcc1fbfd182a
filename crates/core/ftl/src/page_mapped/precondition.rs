//! Preconditioning without commands: puts directly onto flash what a set holds after a long time of writes.
//!
//! To write that takes hours of a real drive and minutes of a simulated one, and the result is known. Let uniform random overwriting
//! go on until `n` of the `N` logical pages have still to be written, and seal a superblock then. In the end it has kept each of its
//! pages with a probability of e^(-n/N). It does not matter whether the host or collection wrote it. Collection takes the oldest superblock,
//! which has kept least. So superblocks in the order of their age hold a geometric series of valid pages. It begins with a
//! full superblock and adds up to `N` (P. Desnoyers, "Analytic Models of SSD Write Performance", ACM Transactions on Storage
//! 10(2), 2014, section 3, for LRU cleaning; greedy cleaning of large superblocks takes the same ones).
//!
//! This leaves out the fluctuations between superblocks, and what is half written. Some real random writes put that right.

use super::PageMappedSet;
use crate::answer::WriteHistory;
use crate::config::GRANULE_PAGES;
use crate::flash::SuperblockState;
use media::{LogicalPage, Medium, Rng, Slot, Spare, Unit};

/// A permutation of `0..len` that takes no memory (except that of its parameters): rounds of two operations that can be undone, on as many
/// bits as `len` has, again as long as the result is too large.
struct Shuffle {
    len: u64,
    mask: u64,
    shift: u32,
    factors: [u64; 4],
}

impl Shuffle {
    fn new(len: u64, rng: &mut Rng) -> Shuffle {
        let bits = (u64::BITS - len.saturating_sub(1).leading_zeros()).max(2);
        let factors = [(); 4].map(|()| rng.next_u64() | 1);
        Shuffle { len, mask: u64::MAX >> (u64::BITS - bits), shift: bits.div_ceil(2), factors }
    }

    fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            for factor in self.factors {
                x = x.wrapping_add(factor).wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.len {
                return x;
            }
        }
    }
}

/// Valid pages of superblocks that can hold `usable` pages each, youngest first: `pages` in all, in a geometric series that begins with a full
/// superblock.
fn decay(pages: u64, usable: &[u64]) -> Vec<u64> {
    // Terms in 2^-20 pages; the ratio in 2^-64.
    let first = u128::from(usable.iter().sum::<u64>() / usable.len().max(1) as u64) << 20;
    let next = |term: u128, ratio: u64| (term * u128::from(ratio)) >> 64;
    let sum = |ratio| (0..usable.len()).fold((0, first), |(sum, t), _| (sum + t, next(t, ratio))).0;
    let mut ratio = 0;
    for bit in (0..u64::BITS).rev() {
        let larger = ratio | 1 << bit;
        if sum(larger) <= u128::from(pages) << 20 {
            ratio = larger;
        }
    }
    let (mut term, mut series, mut done) = (first, 0, 0);
    let count = |&usable: &u64| {
        series += term;
        term = next(term, ratio);
        // What is rounded off, and what does not fit, is left to the next one.
        let valid = (((series + (1 << 19)) >> 20) as u64).min(pages).saturating_sub(done).min(usable);
        done += valid;
        valid
    };
    usable.iter().map(count).collect()
}

impl PageMappedSet {
    /// Programs blank chips as if the logical pages in `granules` (of [`GRANULE_PAGES`]) had been written like this. `version` counts on.
    /// Recovery finds the map. Returns false, and changes nothing, if the chips are not blank, or too few are sound. Asks `go_on`
    /// before each superblock, and leaves out the rest when it says no.
    pub fn precondition_chips(
        &mut self,
        granules: &[u32],
        history: WriteHistory,
        version: &mut u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        if self.flash.superblocks().iter().any(|(_, b)| b.state != SuperblockState::Free && b.usable > 0) {
            return false;
        }
        let granule = u64::from(GRANULE_PAGES);
        let pages = granules.len() as u64 * granule;
        let (seed, random) = match history {
            WriteHistory::Filled => (0, false),
            WriteHistory::Overwritten(seed) => (seed, true),
        };
        let mut rng = Rng::new(rng::mix(seed ^ u64::from(self.flash.id().0)));
        let shuffle = Shuffle::new(pages, &mut rng);
        // Those that collection keeps free stay so.
        let usable = |s: &u32| u64::from(self.flash.superblocks().get(*s).usable);
        let mut old: Vec<u32> = (0..self.flash.geo().superblocks).filter(|s| usable(s) > 0).collect();
        let mut kept = (1..=self.gc.config.low as usize).rev();
        let fits = |&kept: &usize| old.iter().rev().skip(kept).map(usable).sum::<u64>() >= pages;
        let Some(kept) = kept.find(fits) else { return false };
        old.truncate(old.len() - kept);
        let room: Vec<u64> = old.iter().map(usable).collect();
        // Recovery takes superblocks with higher numbers for older ones.
        let written: Vec<(u32, u64)> = if random {
            old.into_iter().zip(decay(pages, &room)).filter(|&(_, valid)| valid > 0).rev().collect()
        } else {
            let before = room.iter().scan(0, |sum, room| {
                let before = *sum;
                *sum += room;
                Some(before)
            });
            let needed = before.take_while(|&before| before < pages).count();
            let mut left = pages;
            let fill = |(superblock, room): (u32, u64)| {
                let valid = room.min(left);
                left -= valid;
                (superblock, valid)
            };
            old.into_iter().zip(room).take(needed).rev().map(fill).collect()
        };
        let mut index = 0;
        let mut spares = vec![Spare::EMPTY; self.flash.geo().unit_pages as usize];
        let mut places = vec![0; spares.len()];
        for (superblock, mut valid) in written {
            if !go_on() {
                return false;
            }
            let usable = self.flash.superblocks().get(superblock).usable;
            let has_bad = usable < self.flash.geo().pages_per_superblock();
            let mut left = if random { u64::from(usable) } else { valid };
            let units = self.flash.geo().units_per_superblock();
            for unit in (superblock * units..(superblock + 1) * units).map(Unit) {
                if left == 0 {
                    break;
                }
                if has_bad && self.flash.nand.is_bad(unit) {
                    continue;
                }
                spares.fill(Spare::EMPTY);
                let mut count = 0;
                for i in 0..spares.len() as u32 {
                    // Each of the pages that are left has the same chance to be one of those that are valid.
                    let is_valid = valid > 0 && (valid == left || rng.below(left) < valid);
                    left = left.saturating_sub(1);
                    places[count] = i;
                    count += usize::from(is_valid);
                    valid -= u64::from(is_valid);
                }
                // One after the other they would wait for each other's misses of the cache.
                for (index, &place) in (index..).zip(&places[..count]) {
                    let page = if random { shuffle.at(index) } else { index };
                    let page = u64::from(granules[(page / granule) as usize]) * granule + page % granule;
                    *version += 1;
                    spares[place as usize] =
                        Spare { page: LogicalPage(page as u32), version: *version, slot: Slot::NONE };
                }
                index += count as u64;
                // The unit is on the medium, and has as many pages.
                let _ = self.flash.nand.apply_program(unit, &spares);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_a_permutation() {
        for len in [1, 2, 3, 255, 256, 257, 100_000] {
            let shuffle = Shuffle::new(len, &mut Rng::new(len));
            let mut all: Vec<u64> = (0..len).map(|i| shuffle.at(i)).collect();
            let in_place = (0..).zip(&all).filter(|&(i, &x)| i == x).count();
            assert!(len < 100 || in_place < 10, "{in_place} of {len} stay where they are");
            all.sort_unstable();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn superblocks_with_bad_blocks_hold_less() {
        let usable: Vec<u64> = (0..60).map(|i| 1024 - i % 7 * 16).collect();
        let counts = decay(52_000, &usable);
        assert_eq!(counts.iter().sum::<u64>(), 52_000);
        assert!(counts.iter().zip(&usable).all(|(c, u)| c <= u));
    }

    #[test]
    fn superblocks_decay_to_what_is_written() {
        for (pages, usable, superblocks) in
            [(50_000, 1024, 60), (60_000, 1024, 60), (900, 1024, 60), (192, 64, 3)]
        {
            let counts = decay(pages, &vec![usable; superblocks]);
            assert_eq!(counts.iter().sum::<u64>(), pages);
            assert!(counts.iter().all(|&c| c <= usable));
            // But for rounding, each has less than the one before.
            assert!(counts.windows(2).all(|w| w[1] <= w[0] + 1), "{counts:?}");
        }
    }
}
