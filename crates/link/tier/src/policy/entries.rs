//! Entries of a policy in one flat array. Lists and a hash table link them by index.

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Bits of an entry's block number: the origin has at most `BLOCKS` chunks.
const BLOCK: u32 = (1 << 29) - 1;
const DIRTY_BIT: u32 = 1 << 29;
const PENDING_BIT: u32 = 1 << 30;
const MAPPED_BIT: u32 = 1 << 31;

/// What is known of a chunk: 12 bytes, the links of a list, and a block number with three flags.
#[derive(Clone, Copy)]
struct Entry {
    next: u32,
    prev: u32,
    block: u32,
}

/// The entries. Those from `sentinels` on mark places in lists and stand for no chunk.
pub(super) struct Entries {
    all: Vec<Entry>,
    /// Of a policy with levels.
    levels: Vec<u8>,
    sentinels: u32,
}

impl Entries {
    /// So many entries, and sentinels behind them. With levels, each has one.
    pub(super) fn new(count: u32, sentinels: u32, levels: bool) -> Self {
        let all = count as usize + sentinels as usize;
        let empty = Entry { next: NONE, prev: NONE, block: 0 };
        Self {
            all: vec![empty; all],
            levels: if levels { vec![0; all] } else { Vec::new() },
            sentinels: count,
        }
    }

    #[inline]
    pub(super) fn is_sentinel(&self, at: u32) -> bool {
        at >= self.sentinels
    }

    #[inline]
    pub(super) fn block(&self, at: u32) -> u32 {
        self.all[at as usize].block & BLOCK
    }

    /// Makes it an entry of this block: not dirty, not pending, not in a table.
    #[inline]
    pub(super) fn assign(&mut self, at: u32, block: u32) {
        self.all[at as usize].block = block & BLOCK;
    }

    #[inline]
    fn flag(&self, at: u32, flag: u32) -> bool {
        self.all[at as usize].block & flag != 0
    }

    #[inline]
    fn set_flag(&mut self, at: u32, flag: u32, on: bool) {
        let block = &mut self.all[at as usize].block;
        *block = if on { *block | flag } else { *block & !flag };
    }

    /// Whether the cache's copy is newer than the origin's.
    #[inline]
    pub(super) fn is_dirty(&self, at: u32) -> bool {
        self.flag(at, DIRTY_BIT)
    }

    #[inline]
    pub(super) fn set_dirty(&mut self, at: u32, on: bool) {
        self.set_flag(at, DIRTY_BIT, on);
    }

    /// Whether a migration of it is queued or under way. It is in no queue meanwhile.
    #[inline]
    pub(super) fn is_pending(&self, at: u32) -> bool {
        self.flag(at, PENDING_BIT)
    }

    #[inline]
    pub(super) fn set_pending(&mut self, at: u32, on: bool) {
        self.set_flag(at, PENDING_BIT, on);
    }

    /// Whether a table finds it.
    #[inline]
    pub(super) fn is_mapped(&self, at: u32) -> bool {
        self.flag(at, MAPPED_BIT)
    }

    #[inline]
    pub(super) fn level(&self, at: u32) -> u8 {
        self.levels[at as usize]
    }

    #[inline]
    pub(super) fn set_level(&mut self, at: u32, level: u8) {
        self.levels[at as usize] = level;
    }

    /// What follows it in its list.
    #[inline]
    pub(super) fn next(&self, at: u32) -> u32 {
        self.all[at as usize].next
    }

    /// The first entry of a list from `at` on that is no sentinel.
    #[inline]
    pub(super) fn first_real(&self, mut at: u32) -> u32 {
        while at != NONE && self.is_sentinel(at) {
            at = self.next(at);
        }
        at
    }

    /// The last entry of a list that is no sentinel.
    pub(super) fn last_real(&self, list: &List) -> u32 {
        let mut at = list.tail;
        while at != NONE && self.is_sentinel(at) {
            at = self.all[at as usize].prev;
        }
        at
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.all.capacity() * size_of::<Entry>() + self.levels.capacity()
    }
}

/// A list of entries.
#[derive(Clone, Copy)]
pub(super) struct List {
    pub(super) head: u32,
    tail: u32,
    /// Entries that are no sentinels.
    pub(super) len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    #[inline]
    pub(super) fn push_back(&mut self, entries: &mut Entries, at: u32) {
        self.insert_before(entries, NONE, at);
    }

    #[inline]
    pub(super) fn push_front(&mut self, entries: &mut Entries, at: u32) {
        self.insert_before(entries, self.head, at);
    }

    /// Inserts it before another one; before `NONE` is the end.
    #[inline]
    pub(super) fn insert_before(&mut self, entries: &mut Entries, before: u32, at: u32) {
        let prev = if before == NONE { self.tail } else { entries.all[before as usize].prev };
        let entry = &mut entries.all[at as usize];
        (entry.next, entry.prev) = (before, prev);
        match prev {
            NONE => self.head = at,
            prev => entries.all[prev as usize].next = at,
        }
        match before {
            NONE => self.tail = at,
            before => entries.all[before as usize].prev = at,
        }
        self.len += u32::from(!entries.is_sentinel(at));
    }

    #[inline]
    pub(super) fn remove(&mut self, entries: &mut Entries, at: u32) {
        let Entry { next, prev, .. } = entries.all[at as usize];
        let ahead = if prev == NONE { &mut self.head } else { &mut entries.all[prev as usize].next };
        let linked = std::mem::replace(ahead, next);
        let behind = if next == NONE { &mut self.tail } else { &mut entries.all[next as usize].prev };
        let tied = std::mem::replace(behind, prev);
        // An entry that leaves a list twice would tie two lists together.
        assert!(linked == at && tied == at, "entry {at} is not in this list");
        self.len -= u32::from(!entries.is_sentinel(at));
    }

    pub(super) fn pop_front(&mut self, entries: &mut Entries) -> Option<u32> {
        let at = self.head;
        (at != NONE).then(|| {
            self.remove(entries, at);
            at
        })
    }
}

/// Finds entries by their block: a table with linear probing (Knuth, volume 3, 6.4, algorithms L and R). A cell has an entry's number and, in the bits
/// above it, some of the block's hash. So a search looks at cells side by side, and at hardly any entry but the one that it finds.
pub(super) struct Table {
    cells: Vec<u32>,
    /// Bits of an entry's number.
    bits: u32,
}

/// A cell without an entry.
const EMPTY: u32 = u32::MAX;

impl Table {
    /// For so many entries, of those whose numbers are below `numbers`. A cell more for every seven of them, at least, stays empty.
    pub(super) fn new(entries: u32, numbers: u32) -> Self {
        let cells = entries as usize + entries as usize / 7 + 2;
        // So that no entry makes a cell look empty.
        Self { cells: vec![EMPTY; cells], bits: u32::BITS - numbers.leading_zeros() }
    }

    /// The cell where the search for a block begins, and the bits of its hash that cells have.
    #[inline]
    fn home(&self, block: u32) -> (usize, u32) {
        // Multiplicative hashing (Knuth, volume 3, 6.4): 2^64 over the golden ratio.
        let hash = u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let cell = ((hash >> 32) * self.cells.len() as u64) >> 32;
        (cell as usize, (hash >> 16) as u32 >> self.bits)
    }

    #[inline]
    fn after(&self, cell: usize) -> usize {
        if cell + 1 == self.cells.len() { 0 } else { cell + 1 }
    }

    #[inline]
    fn number(&self, cell: u32) -> u32 {
        cell & !(u32::MAX << self.bits)
    }

    #[inline]
    pub(super) fn find(&self, entries: &Entries, block: u32) -> Option<u32> {
        let (mut at, hash) = self.home(block);
        loop {
            let cell = self.cells[at];
            if cell == EMPTY {
                return None;
            }
            if cell >> self.bits == hash && entries.block(self.number(cell)) == block {
                return Some(self.number(cell));
            }
            at = self.after(at);
        }
    }

    pub(super) fn insert(&mut self, entries: &mut Entries, number: u32) {
        assert!(!entries.is_mapped(number), "entry {number} is in a table twice");
        debug_assert_eq!(self.find(entries, entries.block(number)), None, "two entries have one block");
        let (mut at, hash) = self.home(entries.block(number));
        while self.cells[at] != EMPTY {
            at = self.after(at);
        }
        self.cells[at] = hash << self.bits | number;
        entries.set_flag(number, MAPPED_BIT, true);
    }

    pub(super) fn remove(&mut self, entries: &mut Entries, number: u32) {
        assert!(entries.is_mapped(number), "entry {number} is in no table");
        entries.set_flag(number, MAPPED_BIT, false);
        let (mut hole, hash) = self.home(entries.block(number));
        while self.cells[hole] != hash << self.bits | number {
            hole = self.after(hole);
        }
        // Who was pushed behind the hole comes back to it, so that searches need not go on at empty cells.
        let mut at = hole;
        loop {
            at = self.after(at);
            let cell = self.cells[at];
            if cell == EMPTY {
                break;
            }
            let home = self.home(entries.block(self.number(cell))).0;
            let stays = if hole < at { hole < home && home <= at } else { hole < home || home <= at };
            if !stays {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = EMPTY;
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(entries: &Entries, list: &List) -> Vec<u32> {
        let head = Some(list.head).filter(|at| *at != NONE);
        std::iter::successors(head, |at| Some(entries.next(*at)).filter(|at| *at != NONE)).collect()
    }

    #[test]
    fn lists_keep_their_order_and_count_no_sentinels() {
        let mut entries = Entries::new(4, 2, true);
        let mut list = List::EMPTY;
        list.push_back(&mut entries, 4);
        list.push_back(&mut entries, 1);
        list.push_front(&mut entries, 0);
        list.insert_before(&mut entries, 4, 2);
        assert_eq!((order(&entries, &list), list.len), (vec![0, 2, 4, 1], 3));
        list.remove(&mut entries, 2);
        assert_eq!(list.pop_front(&mut entries), Some(0));
        assert_eq!(entries.first_real(list.head), 1);
        list.remove(&mut entries, 1);
        assert_eq!((entries.first_real(list.head), entries.last_real(&list), list.len), (NONE, NONE, 0));
    }

    /// Random entries come and go, in tables that are nearly empty or full, and whose cells have many or no bits of the hash.
    #[test]
    fn the_table_finds_what_is_in_it() {
        for (seed, (most, numbers)) in
            [(3, 3), (100, 100), (1000, 3000), (64, 1 << 29)].into_iter().enumerate()
        {
            let mut random = rng::Rng::new(seed as u64);
            let (mut entries, mut table) = (Entries::new(most, 0, false), Table::new(most, numbers));
            let mut there = vec![None; most as usize];
            for step in 0..20_000 {
                let at = random.below(u64::from(most)) as u32;
                match there[at as usize].take() {
                    Some(_) if step % 3000 > 200 => table.remove(&mut entries, at),
                    Some(block) => there[at as usize] = Some(block),
                    None => {
                        // Blocks of their own, some of them beside each other.
                        let block = (random.below(50) as u32 * most + at) & BLOCK;
                        entries.assign(at, block);
                        table.insert(&mut entries, at);
                        there[at as usize] = Some(block);
                    }
                }
                let block = random.below(50 * u64::from(most)) as u32;
                let expected = there.iter().position(|other| *other == Some(block));
                let found = table.find(&entries, block);
                assert_eq!(found, expected.map(|at| at as u32), "seed {seed}, step {step}");
                assert_eq!(entries.is_mapped(at), there[at as usize].is_some());
            }
        }
    }
}
