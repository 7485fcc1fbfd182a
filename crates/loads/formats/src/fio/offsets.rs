//! Which places a job visits, in which order.

use super::fixed::{self, ONE};
use super::options::Distribution;
use super::value::Amount;
use workload::Rng;

/// An order in which each of `0..len` comes exactly once, without memory: a Feistel network over the next
/// power of two, walked on until it is in the range (Black, Rogaway 2002).
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    len: u64,
    left_bits: u32,
    right_bits: u32,
    keys: [u64; 6],
}

impl Permutation {
    pub fn new(len: u64, rng: &mut Rng) -> Self {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            left_bits: bits / 2,
            right_bits: bits - bits / 2,
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// The place of `index`, which must be below the length.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = self.encrypt(value);
            if value < self.len || self.len <= 1 {
                return value;
            }
        }
    }

    #[inline]
    fn encrypt(&self, value: u64) -> u64 {
        // The halves differ by a bit when the number of bits is odd; they swap sizes with each round.
        let (mut bits, mut other) = (self.left_bits, self.right_bits);
        let mask = |bits: u32| (1u64 << bits) - 1;
        let (mut left, mut right) = (value >> other, value & mask(other));
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 24;
            (left, right) = (right, (left ^ mixed) & mask(bits));
            (bits, other) = (other, bits);
        }
        left << other | right
    }
}

/// Which blocks were visited; for blocks of several sizes.
#[derive(Clone, Debug)]
pub(super) struct Map {
    len: u64,
    /// A bit for each block, then a bit for each full word of the level below, up to one word.
    levels: Vec<Vec<u64>>,
}

impl Map {
    /// Most blocks: a map takes a bit for each.
    pub const MAX_BLOCKS: u64 = 1 << 33;

    pub fn new(len: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = len.min(Self::MAX_BLOCKS);
        loop {
            let words = usize::try_from(bits.div_ceil(64)).unwrap_or(1).max(1);
            let mut level = vec![0u64; words];
            // What does not exist is taken.
            if !bits.is_multiple_of(64) || bits == 0 {
                level[words - 1] = u64::MAX << (bits % 64);
            }
            levels.push(level);
            if words == 1 {
                return Self { len, levels };
            }
            bits = words as u64;
        }
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.len);
    }

    fn is_taken(&self, block: u64) -> bool {
        block >= self.len || self.levels[0][word(block)] >> (block % 64) & 1 == 1
    }

    /// The first free block from this one on, from the start again after the end.
    pub fn free_from(&self, block: u64) -> Option<u64> {
        self.search(block).or_else(|| self.search(0))
    }

    fn search(&self, from: u64) -> Option<u64> {
        let mut at = from;
        let mut level = 0;
        loop {
            let bits = self.levels.get(level)?;
            let free = !bits.get(word(at))? & u64::MAX << (at % 64);
            if free != 0 {
                at = (at & !63) + u64::from(free.trailing_zeros());
                if level == 0 {
                    return Some(at);
                }
                level -= 1;
                at *= 64;
            } else {
                level += 1;
                at = at / 64 + 1;
            }
        }
    }

    /// Takes up to so many blocks; the result is how many were free from `block` on.
    pub fn take(&mut self, block: u64, most: u64) -> u64 {
        let mut taken = 0;
        while taken < most && !self.is_taken(block + taken) {
            let mut at = block + taken;
            for level in &mut self.levels {
                let bits = &mut level[word(at)];
                *bits |= 1 << (at % 64);
                if *bits != u64::MAX {
                    break;
                }
                at /= 64;
            }
            taken += 1;
        }
        taken
    }
}

fn word(bit: u64) -> usize {
    usize::try_from(bit / 64).unwrap_or(usize::MAX)
}

/// Draws places of `0..len`, some more often than others.
#[derive(Clone, Debug)]
pub(super) enum Skew {
    Uniform,
    /// Gray, Sundaresan, Englert, Baclawski, Weinberger 1994: "Quickly Generating Billion-Record Synthetic
    /// Databases"; ranks are then scattered by a permutation and moved so that the hottest is at its centre.
    Zipf {
        zeta: i128,
        second: i128,
        eta: i128,
        alpha: i128,
        /// Ranks that share a place.
        scale: u64,
        scatter: Permutation,
        shift: u64,
    },
    Pareto {
        power: i128,
        scatter: Permutation,
        shift: u64,
    },
    /// Standard deviation and centre, in places.
    Normal {
        deviation: u64,
        centre: u64,
    },
    /// Percent of the accesses, first place, number of places.
    Zones(Vec<(u32, u64, u64)>),
    /// Such zones of a permuted range.
    ShuffledZones(Vec<(u32, u64, u64)>, Permutation),
}

impl Skew {
    /// The range has `len` places of `bytes` each; `len` is at least 1.
    pub fn new(distribution: &Distribution, len: u64, bytes: u64, rng: &mut Rng) -> Self {
        let of = |millionths: u64| (u128::from(len) * u128::from(millionths) / 1_000_000) as u64;
        let mut scattered = |centre: Option<u64>| {
            let scatter = Permutation::new(len, rng);
            let hottest = scatter.at(0);
            let wanted = centre.map_or_else(|| rng.below(len), |c| of(c).min(len - 1));
            let shift = if wanted >= hottest { wanted - hottest } else { wanted + (len - hottest) };
            (scatter, shift)
        };
        match distribution {
            Distribution::Random => Self::Uniform,
            Distribution::Zipf(theta, centre) => zipf(*theta, 1, len, scattered(*centre)),
            Distribution::ScaledZipf(theta, scale) => zipf(*theta, *scale, len, scattered(None)),
            Distribution::Pareto(power, centre) => {
                let (scatter, shift) = scattered(*centre);
                let h = fixed::from_millionths(*power);
                Self::Pareto { power: fixed::div(-fixed::log2(h), -fixed::log2(ONE - h)), scatter, shift }
            }
            Distribution::Normal(deviation, centre) => {
                Self::Normal { deviation: of(deviation / 100), centre: of(*centre) }
            }
            Distribution::Zoned(zones) => Self::Zones(cut(zones, len, bytes)),
            Distribution::ShuffledZones(zones) => {
                Self::ShuffledZones(cut(zones, len, bytes), Permutation::new(len, rng))
            }
        }
    }

    /// One of `0..len`.
    #[inline]
    pub fn draw(&self, len: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform => rng.below(len),
            Self::Zipf { zeta, second, eta, alpha, scale, scatter, shift } => {
                let u = rng.next_u64();
                let z = fixed::share(*zeta, u);
                let rank = if z < ONE {
                    0
                } else if z < ONE + second {
                    1
                } else {
                    // 1 - eta (1 - u)
                    let base = ONE - fixed::share(*eta, !u);
                    scaled(len.saturating_mul(*scale), fixed::pow(base.max(1), *alpha))
                };
                moved(scatter.at((rank / scale).min(len - 1)), *shift, len)
            }
            Self::Pareto { power, scatter, shift } => {
                let u = i128::from(rng.next_u64() >> (64 - fixed::FRACTION));
                let rank = scaled(len - 1, fixed::pow(u.max(1), *power));
                moved(scatter.at(rank.min(len - 1)), *shift, len)
            }
            Self::Normal { deviation, centre } => {
                // The sum of twelve uniform numbers has variance 1 (Irwin, Hall); it is drawn again when it
                // leaves the range.
                for _ in 0..64 {
                    let sum: i128 =
                        (0..12).map(|_| i128::from(rng.next_u64() >> 32)).sum::<i128>() - (6 << 32);
                    let at = i128::from(*centre) + ((sum * i128::from(*deviation)) >> 32);
                    if let Ok(at) = u64::try_from(at)
                        && at < len
                    {
                        return at;
                    }
                }
                *centre.min(&(len - 1))
            }
            Self::Zones(zones) => draw_of_zones(zones, len, rng),
            Self::ShuffledZones(zones, scatter) => scatter.at(draw_of_zones(zones, len, rng)),
        }
    }
}

/// Zipf's law over `len` places. `scale` ranks share a place. The exponent is in millionths.
fn zipf(theta: u64, scale: u64, len: u64, (scatter, shift): (Permutation, u64)) -> Skew {
    let theta = fixed::from_millionths(theta);
    let ranks = len.saturating_mul(scale);
    let n = i128::from(ranks.min(1 << 62)) << fixed::FRACTION;
    let second = fixed::pow(2 * ONE, -theta);
    let zeta = zeta(ranks, theta);
    let eta = fixed::div(
        ONE - fixed::pow(fixed::div(2 * ONE, n), ONE - theta),
        (ONE - fixed::div(ONE + second, zeta)).max(1),
    );
    let alpha = fixed::div(ONE, ONE - theta);
    Skew::Zipf { zeta, second, eta, alpha, scale, scatter, shift }
}

/// Zones as a distribution states them, in places of `bytes`: percent of the accesses, first place, number of places.
fn cut(zones: &[(u32, Amount)], len: u64, bytes: u64) -> Vec<(u32, u64, u64)> {
    let mut start = 0;
    let zone = |(share, end): &(u32, Amount)| {
        let end = (end.of(len * bytes, 0) / bytes).clamp(start, len);
        let first = std::mem::replace(&mut start, end);
        (*share, first, end - first)
    };
    zones.iter().map(zone).collect()
}

fn draw_of_zones(zones: &[(u32, u64, u64)], len: u64, rng: &mut Rng) -> u64 {
    let mut percent = rng.below(100) as u32;
    for (share, first, places) in zones {
        if percent < *share && *places > 0 {
            return first + rng.below(*places);
        }
        percent = percent.saturating_sub(*share);
    }
    rng.below(len)
}

fn moved(place: u64, shift: u64, len: u64) -> u64 {
    ((u128::from(place) + u128::from(shift)) % u128::from(len.max(1))) as u64
}

/// `len` times a number, at most `u64::MAX`.
fn scaled(len: u64, by: i128) -> u64 {
    // The upper half of the product is enough: what is lost is less than one place.
    let product = (i128::from(len) * (by >> 28).clamp(0, 1 << 60)) >> (fixed::FRACTION - 28);
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// The sum of n^-theta for n from 1 to `len`: the first terms one by one, the others by the formula of Euler and
/// Maclaurin.
fn zeta(len: u64, theta: i128) -> i128 {
    // Terms that are added one by one.
    const EXACT_TERMS: u64 = 1000;
    let term = |n: u64| fixed::pow(i128::from(n.min(1 << 62)) << fixed::FRACTION, -theta);
    let mut sum: i128 = (1..=len.min(EXACT_TERMS)).map(term).sum();
    if len > EXACT_TERMS {
        let integral = |n: u64| fixed::pow(i128::from(n.min(1 << 62)) << fixed::FRACTION, ONE - theta);
        let difference = integral(len) - integral(EXACT_TERMS);
        let divisor = ONE - theta;
        sum += fixed::div(difference.abs(), divisor.abs()) + (term(len) - term(EXACT_TERMS)) / 2;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_permutation_visits_each_once() {
        let mut rng = Rng::new(3);
        for len in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            let order = Permutation::new(len, &mut rng);
            let mut seen: Vec<u64> = (0..len).map(|i| order.at(i)).collect();
            let is_sorted = seen.is_sorted();
            seen.sort_unstable();
            assert_eq!(seen, (0..len).collect::<Vec<_>>());
            assert!(len < 64 || !is_sorted);
        }
        let huge = Permutation::new(u64::MAX / 3, &mut rng);
        assert!((0..1000).all(|i| huge.at(i) < u64::MAX / 3));
    }

    #[test]
    fn a_map_hands_out_each_once() {
        for len in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut map = Map::new(len);
            let mut rng = Rng::new(len);
            let mut left = len;
            while let Some(block) = map.free_from(rng.below(len)) {
                assert!(block < len);
                let taken = map.take(block, 1 + rng.below(50));
                assert!(taken > 0);
                left -= taken;
            }
            assert_eq!(left, 0, "{len}");
            map.clear();
            assert_eq!(map.free_from(len - 1), Some(len - 1));
        }
    }

    /// How often each of the places was drawn, the most frequent first.
    fn ranked(distribution: &Distribution, len: u64, draws: u64) -> Vec<u64> {
        let mut rng = Rng::new(11);
        let skew = Skew::new(distribution, len, 4096, &mut rng);
        let mut counts = vec![0u64; usize::try_from(len).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(skew.draw(len, &mut rng)).unwrap()] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn zipf_is_zipf() {
        // P(rank) = rank^-theta / zeta; for 10,000 places and 0.9, zeta is 15.7 and the first tenth takes 0.67.
        let counts = ranked(&Distribution::Zipf(900_000, None), 10_000, 1_000_000);
        let first = counts[0];
        assert!((60_000..67_000).contains(&first), "{first}");
        let second = counts[1];
        assert!((first * 50 / 100..first * 57 / 100).contains(&second), "{first} {second}");
        let tenth: u64 = counts[..1000].iter().sum();
        assert!((650_000..690_000).contains(&tenth), "{tenth}");
        // Above 1 the first alone takes 1 / zeta(1.5) = 0.38.
        let first = ranked(&Distribution::Zipf(1_500_000, None), 1_000_000, 200_000)[0];
        assert!((74_000..80_000).contains(&first), "{first}");
    }

    /// A place of the scaled range takes what its ranks take in the large one: near an exponent of 1, far more than in a small range.
    #[test]
    fn scaled_zipf_has_the_shares_of_the_large_range() {
        let large = ranked(&Distribution::Zipf(990_000, None), 1_000_000, 400_000);
        let scaled = ranked(&Distribution::ScaledZipf(990_000, 100), 10_000, 400_000);
        let small = ranked(&Distribution::Zipf(990_000, None), 10_000, 400_000);
        let share = |counts: &[u64], hottest: usize| counts[..hottest].iter().sum::<u64>();
        // Further down, most ranks of the large range are drawn a few times, and their order is chance.
        for hottest in [1, 10, 100] {
            let (large, scaled) = (share(&large, 100 * hottest), share(&scaled, hottest));
            assert!(scaled.abs_diff(large) < large / 50, "{hottest}: {scaled}, not {large}");
        }
        assert!(share(&scaled, 1) > 3 * share(&small, 1));
    }

    #[test]
    fn pareto_gives_its_share_to_its_part() {
        // Of power 0.2: a fifth of the places takes four fifths.
        let counts = ranked(&Distribution::Pareto(200_000, None), 10_000, 500_000);
        let fifth: u64 = counts[..2000].iter().sum();
        assert!((390_000..410_000).contains(&fifth), "{fifth}");
    }

    #[test]
    fn normal_and_zones() {
        let mut rng = Rng::new(5);
        let skew = Skew::new(&Distribution::Normal(10_000_000, 500_000), 100_000, 4096, &mut rng);
        let near = (0..100_000).filter(|_| skew.draw(100_000, &mut rng).abs_diff(50_000) < 10_000).count();
        assert!((67_000..70_000).contains(&near), "{near}");
        let zones = [(60, 10), (30, 30), (8, 60), (2, 100)].map(|(share, end)| (share, Amount::Percent(end)));
        let skew = Skew::new(&Distribution::Zoned(zones.to_vec()), 1000, 4096, &mut rng);
        let mut counts = [0; 4];
        for _ in 0..100_000 {
            let place = skew.draw(1000, &mut rng);
            counts[[100, 300, 600].iter().filter(|end| place >= **end).count()] += 1;
        }
        for (count, percent) in counts.iter().zip([60, 30, 8, 2]) {
            assert!((percent * 1000i64 - count).abs() < 500, "{counts:?}");
        }
    }

    /// A tenth of the places takes all writes. In order they are the first ones, shuffled they lie all over the range, and are the same
    /// in each round of a load.
    #[test]
    fn shuffled_zones_lie_all_over_the_range() {
        let places = |shuffled: bool| {
            let zones = vec![(100, Amount::Percent(10))];
            let distribution = match shuffled {
                true => Distribution::ShuffledZones(zones),
                false => Distribution::Zoned(zones),
            };
            let mut rng = Rng::new(5);
            let skew = Skew::new(&distribution, 10_000, 4096, &mut rng);
            (0..50_000).map(|_| skew.draw(10_000, &mut rng)).collect::<BTreeSet<u64>>()
        };
        let (ordered, shuffled) = (places(false), places(true));
        assert_eq!((ordered.len(), ordered.last()), (1000, Some(&999)));
        assert_eq!(shuffled.len(), 1000);
        for tenth in 0..10 {
            let there = shuffled.range(tenth * 1000..(tenth + 1) * 1000).count();
            assert!((70..130).contains(&there), "{there} in tenth {tenth}");
        }
        assert_eq!(shuffled, places(true));
    }

    #[test]
    fn a_centre_is_the_hottest_place() {
        let mut rng = Rng::new(5);
        let skew = Skew::new(&Distribution::Zipf(1_200_000, Some(250_000)), 1000, 4096, &mut rng);
        let hits = (0..10_000).filter(|_| skew.draw(1000, &mut rng) == 250).count();
        assert!(hits > 1500, "{hits}");
        for distribution in
            [Distribution::Zipf(9_000_000, None), Distribution::Zipf(1, None), Distribution::Pareto(1, None)]
        {
            for len in [1, 2, 3, 1 << 40, u64::MAX / 512] {
                let skew = Skew::new(&distribution, len, 512, &mut rng);
                assert!((0..100).all(|_| skew.draw(len, &mut rng) < len));
            }
        }
    }
}
