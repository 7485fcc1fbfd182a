//! Buckets: which are free, which are being filled, and which is used again next.

use crate::config::Replacement;
use rng::Rng;
use std::collections::VecDeque;

/// Who fills a bucket. Each stream has one of its own: what was written and what was read live differently long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stream {
    /// Writes of hosts.
    Writes,
    /// What reads have brought from the origin.
    Fills,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    /// It is being filled.
    Open,
    Closed,
    /// Nothing in it is valid, and the journal does not say so yet.
    Freeing,
}

/// A bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) state: State,
    /// Blocks that were handed out, from its first on.
    used: u32,
    /// Blocks that lie here, and those of them that are dirty.
    pub(crate) valid: u32,
    pub(crate) dirty: u32,
    /// Requests under way on it.
    pub(crate) pins: u32,
    /// When it was read last, on the clock of ages.
    touched: u32,
    /// How many buckets were opened before it.
    opened: u32,
}

/// Of this age a bucket cannot become older (bcache's initial priority).
const OLDEST: u32 = 32_768;

/// The buckets.
pub(crate) struct Buckets {
    all: Vec<Bucket>,
    free: VecDeque<u32>,
    open: [Option<u32>; 2],
    pub(crate) freeing: Vec<u32>,
    /// Blocks of a bucket.
    blocks: u32,
    replacement: Replacement,
    rng: Rng,
    /// The clock of ages: a tick each time that a 1024th of the cache was read or written (bcache's).
    clock: u32,
    moved: u64,
    opened: u32,
    /// Buckets with something dirty.
    with_dirty: u32,
}

impl Buckets {
    pub(crate) fn new(count: u32, blocks: u32, replacement: Replacement) -> Self {
        let bucket =
            Bucket { state: State::Free, used: 0, valid: 0, dirty: 0, pins: 0, touched: 0, opened: 0 };
        Self {
            all: vec![bucket; count as usize],
            free: (0..count).collect(),
            open: [None; 2],
            freeing: Vec::new(),
            blocks,
            replacement,
            rng: Rng::new(0x6275_636b),
            clock: OLDEST,
            moved: 0,
            opened: 0,
            with_dirty: 0,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    pub(crate) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    pub(crate) fn with_dirty(&self) -> u32 {
        self.with_dirty
    }

    /// The bucket of a place.
    #[inline]
    pub(crate) fn of(&self, place: u32) -> u32 {
        place / self.blocks
    }

    pub(crate) fn get(&self, bucket: u32) -> &Bucket {
        &self.all[bucket as usize]
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.all.len() * (size_of::<Bucket>() + size_of::<u32>())
    }

    /// The next places of a stream: the first, and how many, up to `want`. `spare` buckets stay free.
    pub(crate) fn append(&mut self, stream: Stream, want: u32, spare: u32) -> Option<(u32, u32)> {
        let open = &mut self.open[stream as usize];
        let bucket = match *open {
            Some(bucket) => bucket,
            None if self.free.len() as u32 <= spare => return None,
            None => {
                let bucket = self.free.pop_front()?;
                *open = Some(bucket);
                self.opened += 1;
                let it = &mut self.all[bucket as usize];
                (it.state, it.used, it.opened, it.touched) = (State::Open, 0, self.opened, self.clock);
                bucket
            }
        };
        let it = &mut self.all[bucket as usize];
        let place = bucket * self.blocks + it.used;
        let count = want.min(self.blocks - it.used);
        it.used += count;
        if it.used == self.blocks {
            it.state = State::Closed;
            *open = None;
        }
        self.spent(count.into());
        Some((place, count))
    }

    /// So many blocks were read or written.
    fn spent(&mut self, blocks: u64) {
        self.moved += blocks;
        let tick = (u64::from(self.count()) * u64::from(self.blocks) / 1024).max(1);
        self.clock = self.clock.saturating_add((self.moved / tick) as u32);
        self.moved %= tick;
    }

    /// Blocks of a bucket were read.
    pub(crate) fn touch(&mut self, bucket: u32, blocks: u32) {
        self.spent(blocks.into());
        self.all[bucket as usize].touched = self.clock;
    }

    pub(crate) fn pin(&mut self, bucket: u32) {
        self.all[bucket as usize].pins += 1;
    }

    pub(crate) fn unpin(&mut self, bucket: u32) {
        self.all[bucket as usize].pins -= 1;
        self.look(bucket);
    }

    /// A block has come to a bucket.
    pub(crate) fn came(&mut self, bucket: u32) {
        self.all[bucket as usize].valid += 1;
    }

    /// A clean block has left a bucket.
    pub(crate) fn went(&mut self, bucket: u32) {
        self.all[bucket as usize].valid -= 1;
        self.look(bucket);
    }

    /// A block of a bucket is dirty now, or not any more.
    pub(crate) fn mark(&mut self, bucket: u32, dirty: bool) {
        let it = &mut self.all[bucket as usize];
        match dirty {
            true => {
                it.dirty += 1;
                self.with_dirty += u32::from(it.dirty == 1);
            }
            false => {
                it.dirty -= 1;
                self.with_dirty -= u32::from(it.dirty == 0);
            }
        }
    }

    fn look(&mut self, bucket: u32) {
        let it = &mut self.all[bucket as usize];
        if it.state == State::Closed && it.valid == 0 && it.pins == 0 {
            it.state = State::Freeing;
            self.freeing.push(bucket);
        }
    }

    /// The journal says that nothing is valid in this bucket.
    pub(crate) fn freed(&mut self, bucket: u32) {
        self.all[bucket as usize].state = State::Free;
        self.free.push_back(bucket);
    }

    /// Clean buckets to use again, the best first: at most so many.
    pub(crate) fn victims(&mut self, most: u32) -> Vec<u32> {
        let (clock, share) = (self.clock, OLDEST / 8);
        let mut all: Vec<(u64, u32)> = Vec::new();
        for (number, it) in (0..).zip(&self.all) {
            if it.state == State::Closed && it.dirty == 0 && it.pins == 0 {
                let key = match self.replacement {
                    Replacement::Lru => {
                        let left = OLDEST.saturating_sub(clock - it.touched);
                        // An old bucket still costs by what is valid in it.
                        u64::from(left + share) * u64::from(it.valid)
                    }
                    Replacement::Fifo => 0,
                    Replacement::Random => self.rng.next_u64(),
                };
                all.push((key, number));
            }
        }
        let opened = |bucket: u32| self.all[bucket as usize].opened;
        all.sort_unstable_by_key(|(key, bucket)| (*key, opened(*bucket)));
        all.into_iter().take(most as usize).map(|(_, bucket)| bucket).collect()
    }

    /// The closed bucket with the fewest dirty blocks that is not among these.
    pub(crate) fn least_dirty(&self) -> Option<u32> {
        let closed = (0..).zip(&self.all).filter(|(_, it)| it.state == State::Closed && it.dirty > 0);
        closed.min_by_key(|(_, it)| it.dirty).map(|(bucket, _)| bucket)
    }

    /// After the journal was read: buckets in which something lies are closed, and all others are free.
    pub(crate) fn rebuild(&mut self, places: impl Iterator<Item = (u32, bool)>) {
        for (place, dirty) in places {
            let bucket = self.of(place);
            self.came(bucket);
            if dirty {
                self.mark(bucket, true);
            }
        }
        self.free.clear();
        for (number, it) in (0..).zip(&mut self.all) {
            (it.used, it.touched) = (self.blocks, self.clock);
            match it.valid {
                0 => self.free.push_back(number),
                _ => it.state = State::Closed,
            }
        }
    }
}
