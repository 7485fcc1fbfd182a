//! A cache of blocks: sets of places, each of which forgets what was used longest ago.

/// Places of a set.
const WAYS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Tags, the last used of each set first; 0 is none.
    tags: Vec<[u64; WAYS]>,
}

impl Cache {
    /// For so many blocks.
    pub fn new(blocks: u64) -> Self {
        Cache { tags: vec![[0; WAYS]; (blocks / WAYS as u64) as usize] }
    }

    /// Whether a block is there. It is from now on.
    pub fn touch(&mut self, table: u64, block: u64) -> bool {
        if self.tags.is_empty() {
            return false;
        }
        let tag = (table << 32 | block) + 1;
        let hash =
            tag.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let set = ((u128::from(hash) * self.tags.len() as u128) >> 64) as usize;
        let set = &mut self.tags[set];
        let at = set.iter().position(|other| *other == tag);
        set[..=at.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = tag;
        at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_lately_stays() {
        let mut cache = Cache::new(1024);
        let hits = |cache: &mut Cache, blocks: u64| (0..blocks).filter(|n| cache.touch(1, *n)).count();
        assert_eq!(hits(&mut cache, 512), 0);
        assert!(hits(&mut cache, 512) > 480, "half of the cache stays nearly whole");
        hits(&mut cache, 100_000);
        assert_eq!(hits(&mut cache, 512), 0);
        assert!(!Cache::new(0).touch(1, 1));
    }
}
