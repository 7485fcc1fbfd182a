//! Random numbers that are the same on every machine: integers only.

use serde::{Deserialize, Serialize};

/// One step of SplitMix64 (Steele, Lea, Flood 2014): also a good 64-bit mixing function.
#[inline]
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// xoshiro256** (Blackman, Vigna 2018), seeded through SplitMix64.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// A generator; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        let step = 0x9E37_79B9_7F4A_7C15u64;
        Rng { s: [0, 1, 2, 3].map(|i| mix(seed.wrapping_add(step.wrapping_mul(i)))) }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
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

    /// First outputs of the reference implementations for seed 0 and for the state 1, 2, 3, 4.
    #[test]
    fn is_the_published_generator() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        let mut r = Rng { s: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| r.next_u64()).collect();
        assert_eq!(first, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
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
