//! Bits for blocks, and the next one that is set.

/// A bit for each of many blocks, with a bit above for each 64 of them.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    above: Vec<u64>,
    count: u32,
}

impl Bits {
    pub(crate) fn new(bits: u32) -> Self {
        let words = (bits as usize).div_ceil(64);
        Self { words: vec![0; words], above: vec![0; words.div_ceil(64)], count: 0 }
    }

    /// How many are set.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> bool {
        self.words[at as usize / 64] >> (at % 64) & 1 != 0
    }

    /// Sets one. False if it was set before.
    pub(crate) fn set(&mut self, at: u32) -> bool {
        let word = at as usize / 64;
        let changed = !self.get(at);
        self.words[word] |= 1 << (at % 64);
        self.above[word / 64] |= 1 << (word % 64);
        self.count += u32::from(changed);
        changed
    }

    /// Clears one. False if it was clear before.
    pub(crate) fn clear(&mut self, at: u32) -> bool {
        let word = at as usize / 64;
        let changed = self.get(at);
        self.words[word] &= !(1 << (at % 64));
        if self.words[word] == 0 {
            self.above[word / 64] &= !(1 << (word % 64));
        }
        self.count -= u32::from(changed);
        changed
    }

    /// The first one from here on that is set.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let word = from as usize / 64;
        let rest = self.words.get(word)? & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some((word as u32) * 64 + rest.trailing_zeros());
        }
        let from = word + 1;
        let mut group = from / 64;
        let mut bits = self.above.get(group)? & (u64::MAX << (from % 64));
        while bits == 0 {
            group += 1;
            bits = *self.above.get(group)?;
        }
        let word = group * 64 + bits.trailing_zeros() as usize;
        Some((word as u32) * 64 + self.words[word].trailing_zeros())
    }

    /// Whether one of `count` from `from` on is set.
    pub(crate) fn any(&self, from: u32, count: u32) -> bool {
        self.next(from).is_some_and(|at| at < from.saturating_add(count))
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        (self.words.len() + self.above.len()) * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_is_found() {
        let mut bits = Bits::new(20_000);
        let mut rng = rng::Rng::new(1);
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..3000 {
            let at = rng.below(20_000) as u32;
            match rng.below(2) {
                0 => assert_eq!(bits.set(at), all.insert(at)),
                _ => assert_eq!(bits.clear(at), all.remove(&at)),
            }
            let from = rng.below(20_200) as u32;
            assert_eq!(bits.next(from), all.range(from..).next().copied());
            assert_eq!(bits.count() as usize, all.len());
        }
        assert_eq!(bits.any(19_000, 2000), all.range(19_000..).next().is_some());
    }
}
