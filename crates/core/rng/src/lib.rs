//! Random numbers that are the same on every machine: integers only, and no other generator in this project.
//!
//! Images, reports of bugs and results name seeds, so the sequence of a seed is here to stay.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256StarStar};

/// One step of SplitMix64 (Steele, Lea, Flood 2014): also a good 64-bit mixing function.
#[inline]
pub fn mix(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}

/// xoshiro256** (Blackman, Vigna 2018), seeded through SplitMix64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng(Xoshiro256StarStar);

impl Rng {
    /// A generator; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        Rng(Xoshiro256StarStar::seed_from_u64(seed))
    }

    /// A generator for one of several independent streams of a seed.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Rng::new(seed ^ mix(stream))
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..bound`, without bias (Lemire 2019). 0 for a bound of 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// True with a probability of `per_billion` / 10^9.
    #[inline]
    pub fn chance(&mut self, per_billion: u32) -> bool {
        per_billion > 0 && self.below(1_000_000_000) < u64::from(per_billion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        let mut r = Rng::new(1);
        assert_eq!([r.next_u64(), r.next_u64()], [0xB3F2_AF6D_0FC7_10C5, 0x853B_5596_4736_4CEA]);
    }

    #[test]
    fn below_is_in_range_and_uniform_enough() {
        let mut r = Rng::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[r.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (9_500..10_500).contains(c)), "{counts:?}");
        assert_eq!(r.below(0), 0);
        assert_eq!(r.below(1), 0);
    }

    #[test]
    fn chance_is_what_it_says() {
        let mut r = Rng::new(3);
        let hits = (0..1_000_000).filter(|_| r.chance(1_000_000)).count();
        assert!((900..1_100).contains(&hits), "{hits}");
        assert!(!r.chance(0));
        assert!(r.chance(1_000_000_000));
    }
}
