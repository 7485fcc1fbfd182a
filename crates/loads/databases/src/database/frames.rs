//! Frames of a buffer pool. A frame has a page and the connections that wait for it; `T` is what a pool adds.

use std::ops::{Index, IndexMut};

/// No frame, no connection.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Frame<T> {
    page: u64,
    /// The next frame of the same bucket.
    chain: u32,
    /// The first connection that waits for it.
    waiter: u32,
    resident: bool,
    reading: bool,
    writing: bool,
    own: T,
}

/// All frames, with a hash table of the pages in them.
pub struct Frames<T> {
    frames: Vec<Frame<T>>,
    buckets: Vec<u32>,
    empty: Frame<T>,
}

impl<T> Index<u32> for Frames<T> {
    type Output = T;

    fn index(&self, frame: u32) -> &T {
        &self.frames[frame as usize].own
    }
}

impl<T> IndexMut<u32> for Frames<T> {
    fn index_mut(&mut self, frame: u32) -> &mut T {
        &mut self.frames[frame as usize].own
    }
}

impl<T: Copy> Frames<T> {
    /// So many, without pages.
    pub(crate) fn new(count: u32, own: T) -> Frames<T> {
        let empty = Frame {
            page: 0,
            chain: NONE,
            waiter: NONE,
            resident: false,
            reading: false,
            writing: false,
            own,
        };
        let buckets = vec![NONE; (count as usize * 2).next_power_of_two()];
        Frames { frames: vec![empty; count as usize], buckets, empty }
    }

    pub(crate) fn len(&self) -> u32 {
        self.frames.len() as u32
    }

    fn bucket(&self, page: u64) -> usize {
        let hash = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        hash as usize & (self.buckets.len() - 1)
    }

    /// The frame of a page, if there is one; it may still be read.
    pub(crate) fn find(&self, page: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(page)];
        while at != NONE {
            let frame = &self.frames[at as usize];
            if frame.page == page {
                return Some(at);
            }
            at = frame.chain;
        }
        None
    }

    pub(crate) fn page(&self, frame: u32) -> u64 {
        self.frames[frame as usize].page
    }

    pub(crate) fn waiter(&mut self, frame: u32) -> &mut u32 {
        &mut self.frames[frame as usize].waiter
    }

    pub(crate) fn is_reading(&self, frame: u32) -> bool {
        self.frames[frame as usize].reading
    }

    pub(crate) fn is_writing(&self, frame: u32) -> bool {
        self.frames[frame as usize].writing
    }

    /// Whether there is a page, and nobody is at it.
    pub(crate) fn is_idle(&self, frame: u32) -> bool {
        let it = &self.frames[frame as usize];
        it.resident && !it.reading && !it.writing && it.waiter == NONE
    }

    /// A page comes into a frame that holds nothing; it is being read.
    pub(crate) fn insert(&mut self, frame: u32, page: u64) {
        let bucket = self.bucket(page);
        self.frames[frame as usize] =
            Frame { page, chain: self.buckets[bucket], resident: true, reading: true, ..self.empty };
        self.buckets[bucket] = frame;
    }

    /// The page has been read.
    pub(crate) fn read(&mut self, frame: u32) {
        self.frames[frame as usize].reading = false;
    }

    /// Marks a page as being written. False if it is being read or written already.
    pub(crate) fn mark(&mut self, frame: u32) -> bool {
        let it = &mut self.frames[frame as usize];
        let can = !it.reading && !it.writing;
        it.writing |= can;
        can
    }

    /// The page has been written.
    pub(crate) fn written(&mut self, frame: u32) {
        self.frames[frame as usize].writing = false;
    }

    /// A page leaves: its frame holds nothing.
    pub(crate) fn remove(&mut self, frame: u32) {
        let Frame { page, chain, .. } = self.frames[frame as usize];
        let bucket = self.bucket(page);
        let mut at = self.buckets[bucket];
        if at == frame {
            self.buckets[bucket] = chain;
        }
        while at != NONE && at != frame {
            let next = self.frames[at as usize].chain;
            if next == frame {
                self.frames[at as usize].chain = chain;
            }
            at = next;
        }
        self.frames[frame as usize] = self.empty;
    }
}
