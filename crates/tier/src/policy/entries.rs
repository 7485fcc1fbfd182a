//! Entries of a policy in one flat array. Lists and a hash table link them by index.

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Bits of an entry's block number: the origin has at most `BLOCKS` chunks.
const BLOCK: u32 = (1 << 29) - 1;
const DIRTY: u32 = 1 << 29;
const PENDING: u32 = 1 << 30;
const MAPPED: u32 = 1 << 31;

/// What is known of a chunk: 16 bytes, the links of a list, the link of a bucket, and a block number with three flags.
#[derive(Clone, Copy)]
struct Entry {
    next: u32,
    prev: u32,
    chain: u32,
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
        let empty = Entry { next: NONE, prev: NONE, chain: NONE, block: 0 };
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
        self.flag(at, DIRTY)
    }

    #[inline]
    pub(super) fn set_dirty(&mut self, at: u32, on: bool) {
        self.set_flag(at, DIRTY, on);
    }

    /// Whether a migration of it is queued or under way. It is in no queue meanwhile.
    #[inline]
    pub(super) fn is_pending(&self, at: u32) -> bool {
        self.flag(at, PENDING)
    }

    #[inline]
    pub(super) fn set_pending(&mut self, at: u32, on: bool) {
        self.set_flag(at, PENDING, on);
    }

    /// Whether a table finds it.
    #[inline]
    pub(super) fn is_mapped(&self, at: u32) -> bool {
        self.flag(at, MAPPED)
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
        match prev {
            NONE => self.head = next,
            prev => entries.all[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => entries.all[next as usize].prev = prev,
        }
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

/// Finds entries by their block.
pub(super) struct Table {
    buckets: Vec<u32>,
    shift: u32,
}

impl Table {
    /// For so many entries: a bucket for every two to four of them.
    pub(super) fn new(entries: u32) -> Self {
        let buckets = (entries / 2).max(16).next_power_of_two() / 2;
        let buckets = buckets.max(16);
        Self { buckets: vec![NONE; buckets as usize], shift: 64 - buckets.ilog2() }
    }

    #[inline]
    fn bucket(&self, block: u32) -> usize {
        // Multiplicative hashing (Knuth, volume 3, 6.4): 2^64 over the golden ratio.
        (u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline]
    pub(super) fn find(&self, entries: &Entries, block: u32) -> Option<u32> {
        let mut at = self.buckets[self.bucket(block)];
        while at != NONE {
            if entries.block(at) == block {
                return Some(at);
            }
            at = entries.all[at as usize].chain;
        }
        None
    }

    pub(super) fn insert(&mut self, entries: &mut Entries, at: u32) {
        let bucket = self.bucket(entries.block(at));
        entries.all[at as usize].chain = self.buckets[bucket];
        self.buckets[bucket] = at;
        entries.set_flag(at, MAPPED, true);
    }

    pub(super) fn remove(&mut self, entries: &mut Entries, at: u32) {
        let bucket = self.bucket(entries.block(at));
        let chain = entries.all[at as usize].chain;
        entries.set_flag(at, MAPPED, false);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = chain;
            return;
        }
        let mut before = self.buckets[bucket];
        while before != NONE {
            let next = entries.all[before as usize].chain;
            if next == at {
                entries.all[before as usize].chain = chain;
                return;
            }
            before = next;
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.buckets.capacity() * size_of::<u32>()
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

    #[test]
    fn the_table_finds_what_was_inserted() {
        let (mut entries, mut table) = (Entries::new(1000, 0, false), Table::new(1000));
        for at in 0..1000 {
            entries.assign(at, at * 7919);
            table.insert(&mut entries, at);
        }
        for at in (0..1000).step_by(3) {
            table.remove(&mut entries, at);
        }
        for at in 0..1000 {
            let found = table.find(&entries, at * 7919);
            assert_eq!(found, (at % 3 != 0).then_some(at));
            assert_eq!(entries.is_mapped(at), at % 3 != 0);
        }
    }
}
