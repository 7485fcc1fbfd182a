//! The random numbers of TPC-C (revision 5.11, clauses 2.1.6 and 4.3.2).

/// The same seed makes the same load on every machine.
#[derive(Clone, Debug)]
pub struct Rng(rng::Rng);

impl Rng {
    /// A generator for one of several independent streams of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(rng::Rng::stream(seed, stream))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `low ..= high`.
    pub fn uniform(&mut self, low: u32, high: u32) -> u32 {
        debug_assert!(low <= high);
        low + u32::try_from(self.0.below(u64::from(high - low) + 1)).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// The non-uniform random number of clause 2.1.6: `NURand(a, low, high)` with the run-time constant `c`.
    pub fn nurand(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        let mixed = self.uniform(0, a) | self.uniform(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    /// Appends between `low` and `high` random alphanumeric characters.
    pub fn text(&mut self, out: &mut Vec<u8>, low: u32, high: u32) {
        const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ab";
        let mut left = self.uniform(low, high);
        while left > 0 {
            let mut bits = self.next_u64();
            for _ in 0..left.min(10) {
                out.push(ALPHABET[usize::try_from(bits & 63).unwrap_or(0)]);
                bits >>= 6;
                left -= 1;
            }
        }
    }

    /// Appends between `low` and `high` random digits.
    pub fn digits(&mut self, out: &mut Vec<u8>, low: u32, high: u32) {
        for _ in 0..self.uniform(low, high) {
            out.push(b'0' + u8::try_from(self.uniform(0, 9)).unwrap_or(0));
        }
    }

    /// Appends a data string of 26 to 50 characters; one in ten holds "ORIGINAL" (clause 4.3.3.1).
    pub fn data(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        self.text(out, 26, 50);
        if self.percent(10) {
            let room = u32::try_from(out.len() - start - 8).unwrap_or(0);
            let at = start + usize::try_from(self.uniform(0, room)).unwrap_or(0);
            out[at..at + 8].copy_from_slice(b"ORIGINAL");
        }
    }

    /// A random order of `1 ..= n`.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (1..=n).collect();
        for i in (1..all.len()).rev() {
            let j = self.uniform(0, u32::try_from(i).unwrap_or(u32::MAX));
            all.swap(i, usize::try_from(j).unwrap_or(0));
        }
        all
    }
}

/// The last name with this number, 0 to 999 (clause 4.3.2.3).
pub fn last_name(number: u32) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let digit = |place: u32| SYLLABLES[usize::try_from(number / place % 10).unwrap_or(0)];
    format!("{}{}{}", digit(100), digit(10), digit(1))
}

/// The constants C of the non-uniform numbers: drawn once per load and once per run (clause 2.1.6.1).
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// For customer numbers, 0 to 1023.
    pub customer: u32,
    /// For item numbers, 0 to 8191.
    pub item: u32,
    /// For last names, 0 to 255.
    pub last_name: u32,
}

/// The constant for last names that the loader uses.
pub const LOAD_LAST_NAME: u32 = 157;

impl Constants {
    /// The constants of a run. The constant of last names differs from the loader's by 65 to 119, but not by 96 or 112. So
    /// the hot names of the run are not those of the load.
    pub fn for_run(seed: u64) -> Self {
        let mut rng = Rng::new(seed, u64::MAX);
        let delta = loop {
            let delta = rng.uniform(65, 119);
            if delta != 96 && delta != 112 {
                break delta;
            }
        };
        Self { customer: rng.uniform(0, 1023), item: rng.uniform(0, 8191), last_name: LOAD_LAST_NAME - delta }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_syllable_table() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn uniform_reaches_both_ends_and_nothing_else() {
        let mut rng = Rng::new(1, 0);
        let mut seen = [0u32; 6];
        for _ in 0..10_000 {
            seen[usize::try_from(rng.uniform(0, 5)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&n| (1_500..1_850).contains(&n)), "{seen:?}");
    }

    #[test]
    fn nurand_stays_in_range_and_is_skewed() {
        let constants = Constants::for_run(7);
        assert!((65..=119).contains(&(LOAD_LAST_NAME - constants.last_name)));
        let mut rng = Rng::new(7, 1);
        let mut counts = vec![0u32; 3_001];
        for _ in 0..300_000 {
            counts[usize::try_from(rng.nurand(1_023, constants.customer, 1, 3_000)).unwrap()] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hottest_tenth: u32 = counts[..300].iter().sum();
        assert!(hottest_tenth > 90_000, "uniform would be 30,000 of 300,000, got {hottest_tenth}");
    }

    #[test]
    fn one_in_ten_data_strings_is_original() {
        let mut rng = Rng::new(3, 0);
        let mut original = 0;
        for _ in 0..5_000 {
            let mut text = Vec::new();
            rng.data(&mut text);
            assert!((26..=50).contains(&text.len()));
            original += u32::from(text.windows(8).any(|w| w == b"ORIGINAL"));
        }
        assert!((400..600).contains(&original), "{original}");
    }

    #[test]
    fn permutation_holds_each_number_once() {
        let mut all = Rng::new(9, 0).permutation(3_000);
        assert_ne!(all[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=3_000));
    }
}
