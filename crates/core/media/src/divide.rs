//! Division by a number that is known only at run time but never changes.

/// A divisor of `u32` numbers, as a multiplication: a page becomes unit, row, die and block by three
/// divisions in every operation, so these are worth it.
///
/// `q = n * m >> 63` with `m = ceil(2^63 / d)` is exact for every `u32` n while `d <= 2^31`: the error
/// `n * (m * d - 2^63)` stays below 2^63.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divisor {
    magic: u64,
    by: u32,
}

impl Divisor {
    /// A divisor.
    ///
    /// # Panics
    /// If `by` is 0 or greater than 2^31.
    pub fn new(by: u32) -> Self {
        assert!(by > 0 && by <= 1 << 31, "divisor {by} is not in 1..=2^31");
        Divisor { magic: (1u64 << 63).div_ceil(u64::from(by)), by }
    }

    /// What it divides by.
    #[inline]
    pub fn by(self) -> u32 {
        self.by
    }

    /// Quotient and remainder.
    #[inline]
    pub fn div_rem(self, n: u32) -> (u32, u32) {
        let q = ((u128::from(n) * u128::from(self.magic)) >> 63) as u32;
        (q, n - q * self.by)
    }

    /// Quotient.
    #[inline]
    pub fn quotient(self, n: u32) -> u32 {
        self.div_rem(n).0
    }

    /// Remainder.
    #[inline]
    pub fn remainder(self, n: u32) -> u32 {
        self.div_rem(n).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rng::Rng;

    #[test]
    fn agrees_with_division_at_the_edges_and_at_random() {
        let mut rng = Rng::new(1);
        let edges = [1u32, 2, 3, 5, 7, 64, 255, 256, 257, 65_535, 65_537, (1 << 31) - 1, 1 << 31];
        let random: Vec<u32> = (0..500).map(|_| (rng.next_u64() as u32 % (1 << 31)).max(1)).collect();
        for d in edges.into_iter().chain(random) {
            let divisor = Divisor::new(d);
            let near =
                [0, 1, d - 1, d, d + 1, u32::MAX, u32::MAX - 1, u32::MAX / d * d, u32::MAX / d * d - 1];
            let random: Vec<u32> = (0..200).map(|_| rng.next_u64() as u32).collect();
            for n in near.into_iter().chain(random) {
                assert_eq!(divisor.div_rem(n), (n / d, n % d), "{n} / {d}");
            }
        }
    }
}
