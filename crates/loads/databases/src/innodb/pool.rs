//! The buffer pool (MySQL 8.0 manual, "Buffer Pool"). Each of its instances has free frames, a least-recently-used list whose new
//! pages enter at its middle, and a list of dirty pages in the order in which they became dirty.

use super::config::Config;
use crate::database::{Frames, NONE};
use workload::Nanos;

/// How far the user's thread looks for a clean page at the end of the list (`BUF_LRU_SEARCH_SCAN_THRESHOLD`).
const LRU_SCAN_PAGES: u32 = 100;
/// The old sublist has 3/8 of the list (`innodb_old_blocks_pct` 37).
const OLD_SUBLIST_SHARE: (u32, u32) = (3, 8);
/// By so much it may differ (`BUF_LRU_OLD_TOLERANCE`).
const TOLERANCE: u32 = 20;

/// What the pool knows of a frame.
#[derive(Clone, Copy)]
pub struct State {
    /// Neighbours in the LRU list: towards its head, and towards its tail.
    newer: u32,
    older: u32,
    /// Neighbours in the list of dirty pages: that became dirty before, and after it.
    before: u32,
    after: u32,
    /// When it was first used.
    used: Nanos,
    /// Log positions of its oldest and of its newest change that is not written; 0: it is clean.
    oldest: u64,
    newest: u64,
    /// Evictions of its instance when it was made young.
    clock: u32,
    in_old: bool,
}

const EMPTY: State = State {
    newer: NONE,
    older: NONE,
    before: NONE,
    after: NONE,
    used: 0,
    oldest: 0,
    newest: 0,
    clock: 0,
    in_old: false,
};

struct Instance {
    head: u32,
    tail: u32,
    /// The newest page of the old sublist, and how many there are.
    old: u32,
    old_len: u32,
    len: u32,
    first_dirty: u32,
    last_dirty: u32,
    dirty: u32,
    free: Vec<u32>,
    evicted: u32,
}

/// The buffer pool.
pub(super) struct Pool {
    pub(super) frames: Frames<State>,
    instances: Vec<Instance>,
    old_time: Nanos,
}

impl Pool {
    pub(super) fn new(config: &Config) -> Pool {
        let count = config.instances.max(1);
        let each = (config.pool_pages / count).max(256);
        let instance = |n: u32| Instance {
            head: NONE,
            tail: NONE,
            old: NONE,
            old_len: 0,
            len: 0,
            first_dirty: NONE,
            last_dirty: NONE,
            dirty: 0,
            free: (n * each..(n + 1) * each).rev().collect(),
            evicted: 0,
        };
        Pool {
            frames: Frames::new(each * count, EMPTY),
            instances: (0..count).map(instance).collect(),
            old_time: config.old_time,
        }
    }

    /// The instance of a page: extents of 64 pages stay together.
    pub(super) fn instance(&self, page: u64) -> usize {
        ((page >> 6) % self.instances.len() as u64) as usize
    }

    fn instance_of(&self, frame: u32) -> usize {
        self.instance(self.frames.page(frame))
    }

    pub(super) fn instances(&self) -> usize {
        self.instances.len()
    }

    pub(super) fn newest(&self, frame: u32) -> u64 {
        self.frames[frame].newest
    }

    pub(super) fn free(&self, instance: usize) -> usize {
        self.instances[instance].free.len()
    }

    pub(super) fn dirty(&self) -> u64 {
        self.instances.iter().map(|i| u64::from(i.dirty)).sum()
    }

    /// The oldest change that is not written.
    pub(super) fn oldest(&self) -> Option<u64> {
        let firsts = self.instances.iter().filter(|i| i.first_dirty != NONE);
        firsts.map(|i| self.frames[i.first_dirty].oldest).min()
    }

    /// A frame for another page: a free one, or that of a clean page at the end of the list.
    pub(super) fn take(&mut self, instance: usize) -> Option<u32> {
        if self.instances[instance].free.is_empty() {
            let mut at = self.instances[instance].tail;
            for _ in 0..LRU_SCAN_PAGES {
                if at == NONE {
                    break;
                }
                let older = self.frames[at].newer;
                if self.can_leave(at) {
                    self.evict(at);
                    break;
                }
                at = older;
            }
        }
        self.instances[instance].free.pop()
    }

    /// Whether the page is clean and nobody is at it.
    fn can_leave(&self, frame: u32) -> bool {
        self.frames[frame].oldest == 0 && self.frames.is_idle(frame)
    }

    /// A page comes into a frame that was taken; it is being read.
    pub(super) fn insert(&mut self, frame: u32, page: u64) {
        self.frames.insert(frame, page);
        self.link_at_old(frame);
    }

    /// A use of a page.
    pub(super) fn touch(&mut self, frame: u32, now: Nanos) {
        let was = self.frames[frame];
        let instance = self.instance_of(frame);
        if was.in_old {
            if was.used == 0 {
                self.frames[frame].used = now.max(1);
            } else if now - was.used >= self.old_time {
                self.make_young(frame, instance);
            }
        } else {
            // Young pages move only when they are no longer among the first quarter.
            let list = &self.instances[instance];
            let quarter = (list.len - list.old_len) / 4;
            if list.evicted.wrapping_sub(was.clock) > quarter {
                self.make_young(frame, instance);
            }
        }
    }

    fn make_young(&mut self, frame: u32, instance: usize) {
        self.unlink(frame);
        let head = self.instances[instance].head;
        let clock = self.instances[instance].evicted;
        let it = &mut self.frames[frame];
        (it.newer, it.older, it.clock) = (NONE, head, clock);
        it.in_old = false;
        let list = &mut self.instances[instance];
        match head {
            NONE => list.tail = frame,
            head => self.frames[head].newer = frame,
        }
        let list = &mut self.instances[instance];
        list.head = frame;
        list.len += 1;
        self.balance(instance);
    }

    /// Before the newest of the old pages.
    fn link_at_old(&mut self, frame: u32) {
        let instance = self.instance_of(frame);
        let old = self.instances[instance].old;
        let newer = match old {
            NONE => self.instances[instance].tail,
            old => self.frames[old].newer,
        };
        let it = &mut self.frames[frame];
        (it.newer, it.older) = (newer, old);
        it.in_old = true;
        match newer {
            NONE => self.instances[instance].head = frame,
            newer => self.frames[newer].older = frame,
        }
        match old {
            NONE => self.instances[instance].tail = frame,
            old => self.frames[old].newer = frame,
        }
        let list = &mut self.instances[instance];
        list.old = frame;
        list.old_len += 1;
        list.len += 1;
        self.balance(instance);
    }

    fn unlink(&mut self, frame: u32) {
        let was = self.frames[frame];
        let instance = self.instance_of(frame);
        match was.newer {
            NONE => self.instances[instance].head = was.older,
            newer => self.frames[newer].older = was.older,
        }
        match was.older {
            NONE => self.instances[instance].tail = was.newer,
            older => self.frames[older].newer = was.newer,
        }
        let list = &mut self.instances[instance];
        if list.old == frame {
            list.old = was.older;
        }
        if was.in_old {
            list.old_len -= 1;
        }
        list.len -= 1;
        self.balance(instance);
    }

    /// Moves the boundary of the old sublist to where it belongs.
    fn balance(&mut self, instance: usize) {
        loop {
            let list = &self.instances[instance];
            let target = list.len / OLD_SUBLIST_SHARE.1 * OLD_SUBLIST_SHARE.0;
            if list.old_len + TOLERANCE < target {
                let next = match list.old {
                    NONE => list.tail,
                    old => self.frames[old].newer,
                };
                if next == NONE {
                    return;
                }
                self.frames[next].in_old = true;
                let list = &mut self.instances[instance];
                (list.old, list.old_len) = (next, list.old_len + 1);
            } else if list.old_len > target + TOLERANCE {
                let old = list.old;
                let it = &mut self.frames[old];
                it.in_old = false;
                let next = it.older;
                let list = &mut self.instances[instance];
                (list.old, list.old_len) = (next, list.old_len - 1);
            } else {
                return;
            }
        }
    }

    /// A clean page leaves; its frame is free.
    pub(super) fn evict(&mut self, frame: u32) {
        self.unlink(frame);
        let instance = self.instance_of(frame);
        self.frames.remove(frame);
        let list = &mut self.instances[instance];
        list.evicted = list.evicted.wrapping_add(1);
        list.free.push(frame);
    }

    /// A page was changed; its log ends at `lsn`, which is not 0.
    pub(super) fn change(&mut self, frame: u32, lsn: u64) {
        let it = &mut self.frames[frame];
        it.newest = lsn;
        if it.oldest == 0 {
            it.oldest = lsn;
            let instance = self.instance_of(frame);
            let last = self.instances[instance].last_dirty;
            let it = &mut self.frames[frame];
            (it.before, it.after) = (last, NONE);
            match last {
                NONE => self.instances[instance].first_dirty = frame,
                last => self.frames[last].after = frame,
            }
            let list = &mut self.instances[instance];
            list.last_dirty = frame;
            list.dirty += 1;
        }
    }

    /// What was written of it is what it holds.
    fn clean(&mut self, frame: u32) {
        let was = self.frames[frame];
        let instance = self.instance_of(frame);
        match was.before {
            NONE => self.instances[instance].first_dirty = was.after,
            before => self.frames[before].after = was.after,
        }
        match was.after {
            NONE => self.instances[instance].last_dirty = was.before,
            after => self.frames[after].before = was.before,
        }
        self.instances[instance].dirty -= 1;
        let it = &mut self.frames[frame];
        (it.oldest, it.newest, it.before, it.after) = (0, 0, NONE, NONE);
    }

    /// A page has been written as it was at `lsn`. Changed since, it becomes dirty anew, from that change on.
    pub(super) fn written(&mut self, frame: u32, lsn: u64) {
        self.frames.written(frame);
        if self.frames[frame].oldest != 0 {
            let newest = self.frames[frame].newest;
            self.clean(frame);
            if newest > lsn {
                self.change(frame, newest);
            }
        }
    }

    /// What an LRU flusher does at the end of the list: clean pages leave until `free` frames are free, up to `most` dirty ones are
    /// marked as being written, and are in `batch`. It looks at `depth` pages at most.
    pub(super) fn sweep(&mut self, instance: usize, depth: u32, most: u32, batch: &mut Vec<u32>) {
        let mut at = self.instances[instance].tail;
        for _ in 0..depth {
            let list = &self.instances[instance];
            if at == NONE || list.free.len() + batch.len() >= depth as usize || batch.len() >= most as usize {
                return;
            }
            let next = self.frames[at].newer;
            if self.can_leave(at) {
                self.evict(at);
            } else if self.mark(at) {
                batch.push(at);
            }
            at = next;
        }
    }

    /// The pages that became dirty first, up to `most`, marked as being written.
    pub(super) fn oldest_dirty(&mut self, instance: usize, most: u32, batch: &mut Vec<u32>) {
        let mut at = self.instances[instance].first_dirty;
        // Those that are being written already are passed over.
        for _ in 0..most.saturating_mul(8) {
            if at == NONE || batch.len() >= most as usize {
                return;
            }
            let next = self.frames[at].after;
            if self.mark(at) {
                batch.push(at);
            }
            at = next;
        }
    }

    fn mark(&mut self, frame: u32) -> bool {
        self.frames[frame].oldest != 0 && self.frames.mark(frame)
    }

    /// Lets a page go that was written, if nobody has used it for something new. Whether it went.
    pub(super) fn release(&mut self, frame: u32) -> bool {
        let can = self.can_leave(frame) && self.frames[frame].in_old;
        if can {
            self.evict(frame);
        }
        can
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Volume;

    fn pool(pages: u32) -> Pool {
        let config = Config::published(1, Volume { blocks: 1 << 30, block_bytes: 4096 }, 3);
        Pool::new(&Config { pool_pages: pages, instances: 1, old_time: 1000, ..config })
    }

    impl Pool {
        fn load(&mut self, page: u64, now: Nanos) -> u32 {
            let frame = self.take(0).unwrap();
            self.insert(frame, page);
            self.frames.read(frame);
            self.touch(frame, now);
            frame
        }

        /// Pages from the head, with their sublists; checks every link.
        fn list(&self) -> Vec<(u64, bool)> {
            let (mut at, mut newer, mut all) = (self.instances[0].head, NONE, Vec::new());
            while at != NONE {
                let frame = &self.frames[at];
                assert_eq!(frame.newer, newer);
                all.push((self.frames.page(at), frame.in_old));
                (newer, at) = (at, frame.older);
            }
            assert_eq!((self.instances[0].tail, self.instances[0].len), (newer, all.len() as u32));
            let old = all.iter().filter(|page| page.1).count();
            assert_eq!(old, self.instances[0].old_len as usize);
            assert!(all.iter().skip_while(|page| !page.1).all(|page| page.1), "old pages are at the end");
            all
        }
    }

    #[test]
    fn new_pages_enter_in_the_middle_and_a_scan_leaves_the_young_ones() {
        let mut pool = pool(1000);
        for page in 0..1000 {
            pool.load(page, 1);
        }
        // Used again soon: they stay where they are. Later: they are young.
        let before = pool.list();
        for page in 100..200 {
            pool.touch(pool.frames.find(page).unwrap(), 500);
        }
        assert_eq!(pool.list(), before);
        for page in 100..400 {
            pool.touch(pool.frames.find(page).unwrap(), 1500);
        }
        let list = pool.list();
        let old = list.iter().filter(|page| page.1).count();
        assert!(old.abs_diff(375) <= 20, "{old}");
        // A scan of a thousand pages goes through the old sublist only.
        let young: Vec<u64> = list.iter().filter(|page| !page.1).map(|page| page.0).collect();
        for page in 5000..6000 {
            pool.load(page, 2000);
        }
        let list = pool.list();
        assert!(young[..550].iter().all(|page| list.iter().any(|p| p.0 == *page)));
        assert!(list.iter().filter(|page| page.0 >= 5000).count() < 450);
        assert!((0..6000).all(|page| pool.frames.find(page).is_some() == list.iter().any(|p| p.0 == page)));
    }

    #[test]
    fn dirty_pages_stay_until_they_are_written() {
        let mut pool = pool(300);
        for page in 0..300 {
            let frame = pool.load(page, 1);
            pool.change(frame, page + 1);
        }
        assert_eq!((pool.dirty(), pool.oldest(), pool.take(0)), (300, Some(1), None));
        let mut batch = Vec::new();
        pool.oldest_dirty(0, 3, &mut batch);
        assert_eq!(batch.iter().map(|&f| pool.frames.page(f)).collect::<Vec<_>>(), [0, 1, 2]);
        // One changes while it is written.
        pool.change(batch[1], 900);
        for &frame in &batch {
            let lsn = pool.frames.page(frame) + 1;
            pool.written(frame, lsn);
        }
        assert_eq!((pool.dirty(), pool.oldest(), pool.newest(batch[1])), (298, Some(4), 900));
        let mut tail = Vec::new();
        pool.sweep(0, 100, 5, &mut tail);
        assert_eq!((tail.len(), pool.free(0)), (5, 2), "two clean ones were at the end");
        assert!(tail.iter().all(|frame| !batch.contains(frame) || *frame == batch[1]));
        pool.list();
    }
}
