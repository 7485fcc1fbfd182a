//! Where the origin's blocks lie in the cache.

/// The index, both ways: the block of each place, and a table of places by the hash of their block. Linear probing, and entries behind
/// one that leaves move up. A fixed hash: the same requests give the same table.
pub(crate) struct Index {
    /// One more than the block that lies there; 0 is none.
    owner: Vec<u32>,
    /// One more than a place; 0 is none.
    slots: Vec<u32>,
    mapped: u32,
}

impl Index {
    pub(crate) fn new(places: u32) -> Self {
        let slots = u64::from(places) * 3 / 2 + 16;
        Self { owner: vec![0; places as usize], slots: vec![0; slots as usize], mapped: 0 }
    }

    /// Blocks that are cached.
    pub(crate) fn mapped(&self) -> u32 {
        self.mapped
    }

    /// The block that lies at a place.
    #[inline]
    pub(crate) fn owner(&self, place: u32) -> Option<u32> {
        self.owner[place as usize].checked_sub(1)
    }

    #[inline]
    fn home(&self, block: u32) -> usize {
        let hash = u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * self.slots.len() as u64) >> 32) as usize
    }

    /// The slot of a block, or the empty one where the search for it ends.
    #[inline]
    fn slot(&self, block: u32) -> usize {
        let mut at = self.home(block);
        loop {
            match self.slots[at] {
                0 => return at,
                place if self.owner[place as usize - 1] == block + 1 => return at,
                _ => at = if at + 1 == self.slots.len() { 0 } else { at + 1 },
            }
        }
    }

    /// The place of a block.
    #[inline]
    pub(crate) fn get(&self, block: u32) -> Option<u32> {
        self.slots[self.slot(block)].checked_sub(1)
    }

    /// Puts a block at a place where none lies. Returns the place where it lay before.
    pub(crate) fn insert(&mut self, block: u32, place: u32) -> Option<u32> {
        let slot = self.slot(block);
        let before = self.slots[slot].checked_sub(1);
        if let Some(before) = before {
            self.owner[before as usize] = 0;
        } else {
            self.mapped += 1;
        }
        self.slots[slot] = place + 1;
        self.owner[place as usize] = block + 1;
        before
    }

    /// Takes a block out. Returns its place.
    pub(crate) fn remove(&mut self, block: u32) -> Option<u32> {
        let mut hole = self.slot(block);
        let place = self.slots[hole].checked_sub(1)?;
        self.mapped -= 1;
        let count = self.slots.len();
        let mut at = hole;
        loop {
            at = if at + 1 == count { 0 } else { at + 1 };
            let Some(other) = self.slots[at].checked_sub(1) else { break };
            let home = self.home(self.owner[other as usize] - 1);
            // It may move up unless its home lies behind the hole.
            let (to_hole, to_at) = ((hole + count - home) % count, (at + count - home) % count);
            if to_hole < to_at {
                self.slots[hole] = other + 1;
                hole = at;
            }
        }
        self.slots[hole] = 0;
        self.owner[place as usize] = 0;
        Some(place)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        (self.owner.len() + self.slots.len()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        for seed in 0..20 {
            let mut rng = rng::Rng::new(seed);
            let places = 1 + rng.below(300) as u32;
            let mut index = Index::new(places);
            let mut map = BTreeMap::new();
            for _ in 0..4000 {
                let block = rng.below(500) as u32;
                let place = rng.below(places.into()) as u32;
                match rng.below(3) {
                    0 => assert_eq!(index.remove(block), map.remove(&block), "seed {seed}"),
                    1 if index.owner(place).is_none() => {
                        assert_eq!(index.insert(block, place), map.insert(block, place), "seed {seed}");
                    }
                    _ => assert_eq!(index.get(block), map.get(&block).copied(), "seed {seed}"),
                }
                assert_eq!(index.mapped() as usize, map.len());
            }
        }
    }
}
