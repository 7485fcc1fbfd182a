//! The buffer pool: pages in frames, and a clock hand that finds the place for the next one (PostgreSQL's source, `storage/buffer/README`).

use crate::database::Frames;

/// Uses that count at most (`BM_MAX_USAGE_COUNT`).
const MOST_USES: u8 = 5;

/// What the pool knows of a frame.
#[derive(Clone, Copy)]
pub struct State {
    /// Log position of its newest change that is not written; 0: it is clean.
    lsn: u64,
    uses: u8,
    /// To be written by the checkpoint that is under way.
    checkpoint: bool,
}

/// The buffer pool.
pub(super) struct Pool {
    pub(super) frames: Frames<State>,
    free: Vec<u32>,
    hand: u32,
}

impl Pool {
    /// A pool of so many pages: 256 at least.
    pub(super) fn new(pages: u32) -> Pool {
        let count = pages.max(256);
        Pool {
            frames: Frames::new(count, State { lsn: 0, uses: 0, checkpoint: false }),
            free: (0..count).rev().collect(),
            hand: 0,
        }
    }

    pub(super) fn lsn(&self, frame: u32) -> u64 {
        self.frames[frame].lsn
    }

    pub(super) fn touch(&mut self, frame: u32) {
        let it = &mut self.frames[frame];
        it.uses = (it.uses + 1).min(MOST_USES);
    }

    fn next(&self, frame: u32) -> u32 {
        if frame + 1 < self.frames.len() { frame + 1 } else { 0 }
    }

    /// A frame that holds nothing.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// The frame whose page leaves next: the hand goes on to it. None if somebody is at each.
    pub(super) fn victim(&mut self) -> Option<u32> {
        for _ in 0..u64::from(self.frames.len()) * (u64::from(MOST_USES) + 1) {
            let at = self.hand;
            self.hand = self.next(at);
            if !self.frames.is_idle(at) {
                continue;
            }
            match &mut self.frames[at].uses {
                0 => return Some(at),
                uses => *uses -= 1,
            }
        }
        None
    }

    /// What the background writer finds ahead of the hand: up to `most` dirty pages that would be taken soon, until it has passed `wanted` that
    /// can be taken.
    pub(super) fn ahead(&self, wanted: u64, most: u32) -> Vec<u32> {
        let (mut at, mut found, mut dirty) = (self.hand, 0, Vec::new());
        for _ in 0..self.frames.len() {
            if found >= wanted || dirty.len() >= most as usize {
                break;
            }
            let it = &self.frames[at];
            if it.uses == 0 && self.frames.is_idle(at) {
                found += 1;
                if it.lsn != 0 {
                    dirty.push(at);
                }
            }
            at = self.next(at);
        }
        dirty
    }

    /// A page leaves if it is clean and nobody is at it: its frame is free. Whether it did.
    pub(super) fn evict(&mut self, frame: u32) -> bool {
        let can = self.frames[frame].lsn == 0 && self.frames.is_idle(frame);
        if can {
            self.frames.remove(frame);
            self.free.push(frame);
        }
        can
    }

    /// A page was changed; its log ends at `lsn`, which is not 0.
    pub(super) fn change(&mut self, frame: u32, lsn: u64) {
        self.frames[frame].lsn = lsn;
    }

    /// Marks a page as being written. False if it is clean or being written already.
    pub(super) fn mark(&mut self, frame: u32) -> bool {
        self.frames[frame].lsn != 0 && self.frames.mark(frame)
    }

    /// A page has been written as it was at `lsn`. Changed since, it stays dirty.
    pub(super) fn written(&mut self, frame: u32, lsn: u64) {
        self.frames.written(frame);
        let it = &mut self.frames[frame];
        if it.lsn == lsn {
            (it.lsn, it.checkpoint) = (0, false);
        }
    }

    /// All dirty pages, in the order of their places, marked for a checkpoint: frame and page.
    pub(super) fn begin_checkpoint(&mut self) -> Vec<(u32, u64)> {
        let mut all = Vec::new();
        for at in 0..self.frames.len() {
            let it = &mut self.frames[at];
            it.checkpoint = it.lsn != 0;
            if it.checkpoint {
                all.push((at, self.frames.page(at)));
            }
        }
        all.sort_unstable_by_key(|one| one.1);
        all
    }

    /// Whether the checkpoint still has to write the page of a frame.
    pub(super) fn owes(&self, frame: u32) -> bool {
        self.frames[frame].checkpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(pool: &mut Pool, page: u64) -> u32 {
        let frame = pool.take().unwrap();
        pool.frames.insert(frame, page);
        pool.frames.read(frame);
        pool.touch(frame);
        frame
    }

    #[test]
    fn the_hand_takes_what_is_used_least() {
        let mut pool = Pool::new(256);
        for page in 0..256 {
            load(&mut pool, page);
        }
        assert!(pool.take().is_none());
        for page in (0..256).filter(|page| page % 4 != 0) {
            pool.touch(pool.frames.find(page).unwrap());
        }
        // Of pages that were used once each is taken before the others.
        let mut taken = Vec::new();
        for _ in 0..64 {
            let frame = pool.victim().unwrap();
            taken.push(pool.frames.page(frame));
            assert!(pool.evict(frame) && pool.frames.find(taken[taken.len() - 1]).is_none());
            pool.take().unwrap();
        }
        assert!(taken.iter().all(|page| page % 4 == 0), "{taken:?}");
        assert_eq!((0..256).filter(|&page| pool.frames.find(page).is_some()).count(), 192);
    }

    #[test]
    fn dirty_pages_stay_and_a_checkpoint_has_each() {
        let mut pool = Pool::new(256);
        let frames: Vec<_> = (0..256).map(|page| load(&mut pool, page * 7 % 256)).collect();
        for &frame in &frames[..10] {
            pool.change(frame, 100);
        }
        assert!(!pool.evict(frames[3]) && pool.evict(frames[20]));
        let all = pool.begin_checkpoint();
        assert!(all.len() == 10 && all.windows(2).all(|pair| pair[0].1 < pair[1].1), "{all:?}");
        // Another process writes one; one changes while it is written.
        assert!(pool.mark(frames[0]) && !pool.mark(frames[0]) && !pool.mark(frames[50]));
        pool.written(frames[0], 100);
        assert!(!pool.owes(frames[0]) && pool.owes(frames[1]));
        assert!(pool.mark(frames[1]) && pool.frames.is_writing(frames[1]));
        pool.change(frames[1], 200);
        pool.written(frames[1], 100);
        assert!(pool.owes(frames[1]) && pool.lsn(frames[1]) == 200);
    }

    #[test]
    fn the_background_writer_looks_ahead_of_the_hand() {
        let mut pool = Pool::new(256);
        for page in 0..256 {
            let frame = load(&mut pool, page);
            pool.change(frame, page + 1);
        }
        assert!(pool.ahead(50, 100).is_empty(), "each was used");
        pool.victim().unwrap();
        assert_eq!((pool.ahead(50, 100).len(), pool.ahead(500, 100).len()), (50, 100));
        assert!(pool.ahead(500, 0).is_empty());
    }
}
