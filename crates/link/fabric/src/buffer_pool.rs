//! Data buffers of a connection: reused, and bounded in sum.

use std::ops::{Deref, DerefMut};

const SMALLEST_CLASS: u32 = 9; // 512 bytes
const CLASSES: usize = 24; // up to 4 GiB, more than a limit ever allows

/// A buffer of a connection's pool. Its bytes are what an earlier command left in it until they are written.
#[derive(Debug, Default)]
pub struct Buffer {
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// The memory behind it, all of it usable, to move data elsewhere without a copy. The data is the first
    /// [`len`](slice::len) bytes.
    #[must_use]
    pub fn into_memory(self) -> Vec<u8> {
        self.memory
    }

    /// The first `len` bytes of this memory (or all, if it has less): what [`Buffer::into_memory`] gave, or
    /// other memory, which then takes its place in the pool only if it has the same length.
    #[must_use]
    pub fn from_memory(memory: Vec<u8>, len: usize) -> Self {
        let len = len.min(memory.len());
        Self { memory, len }
    }
}

impl Buffer {
    /// Only `len` bytes from `start` on are the data, which moves to the front. Nothing if it has fewer.
    pub(crate) fn cut(&mut self, start: u32, len: u32) {
        let (start, len) =
            (usize::try_from(start).unwrap_or(usize::MAX), usize::try_from(len).unwrap_or(usize::MAX));
        if start.checked_add(len).is_some_and(|end| end <= self.len) {
            self.memory.copy_within(start..start + len, 0);
            self.len = len;
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    free: [Vec<Vec<u8>>; CLASSES],
    /// Bytes of all buffers, given out and free.
    total: usize,
    /// Bytes of the buffers given out.
    in_use: usize,
    limit: usize,
    /// Bytes of new memory that may be made until more is allowed. With any left, one more buffer is made.
    allowance: usize,
    /// Bytes of memory that were made and not told yet.
    made: usize,
}

impl Pool {
    pub fn new(limit: usize) -> Self {
        Self { free: Default::default(), total: 0, in_use: 0, limit, allowance: usize::MAX, made: 0 }
    }

    /// So much new memory may be made from now on.
    pub fn allow(&mut self, bytes: usize) {
        self.allowance = bytes;
    }

    /// Whether no new memory may be made.
    pub fn is_used_up(&self) -> bool {
        self.allowance == 0
    }

    /// Bytes of memory that were made since the last call.
    pub fn take_made(&mut self) -> usize {
        std::mem::take(&mut self.made)
    }

    /// A buffer of this length, or `None` while too much is given out, or no new memory is [allowed](Pool::allow). One buffer of any size
    /// is always given out, so that no command waits for ever.
    pub fn take(&mut self, len: usize) -> Option<Buffer> {
        if len == 0 {
            return Some(Buffer::default());
        }
        let (class, size) = class_of(len);
        if self.in_use != 0
            && (self.in_use + size > self.limit || self.free[class].is_empty() && self.is_used_up())
        {
            return None;
        }
        Some(self.take_class(len, class, size))
    }

    /// A buffer of this length even beyond the limit.
    pub fn take_beyond(&mut self, len: usize) -> Buffer {
        let (class, size) = class_of(len);
        self.take_class(len, class, size)
    }

    fn take_class(&mut self, len: usize, class: usize, size: usize) -> Buffer {
        let memory = match self.free[class].pop() {
            Some(memory) => memory,
            None => {
                self.shrink(self.limit.saturating_sub(size));
                self.total += size;
                self.made += size;
                self.allowance = self.allowance.saturating_sub(size);
                vec![0; size]
            }
        };
        self.in_use += size;
        Buffer { memory, len }
    }

    /// Takes back a buffer that was given out for `len` bytes. One that was exchanged for other memory is
    /// not kept.
    pub fn give(&mut self, buffer: Buffer, len: usize) {
        if len == 0 {
            return;
        }
        let (class, size) = class_of(len);
        self.in_use = self.in_use.saturating_sub(size);
        if buffer.memory.len() == size {
            self.free[class].push(buffer.memory);
        } else {
            self.total = self.total.saturating_sub(size);
        }
        if self.total > self.limit {
            self.shrink(self.limit);
        }
    }

    /// Frees all unused buffers.
    pub fn trim(&mut self) {
        self.shrink(self.in_use);
    }

    /// Frees unused buffers, the largest first, until all together take no more than this.
    fn shrink(&mut self, to: usize) {
        for class in self.free.iter_mut().rev() {
            while self.total > to {
                let Some(memory) = class.pop() else { break };
                self.total -= memory.len();
            }
        }
    }

    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.total
    }
}

/// Powers of two from 512 bytes.
fn class_of(len: usize) -> (usize, usize) {
    let size = len.next_power_of_two().max(1 << SMALLEST_CLASS);
    let class = usize::try_from(size.ilog2() - SMALLEST_CLASS).unwrap_or(CLASSES).min(CLASSES - 1);
    (class, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_memory_is_made_as_far_as_it_is_allowed() {
        let mut pool = Pool::new(1 << 20);
        pool.allow(6000);
        let made: Vec<Buffer> = std::iter::from_fn(|| pool.take(4096)).collect();
        assert_eq!((made.len(), pool.take_made()), (2, 8192), "the second was begun");
        assert!(pool.is_used_up());
        // What is there is used again.
        for buffer in made {
            pool.give(buffer, 4096);
        }
        assert!(pool.take(4096).is_some() && pool.take(4096).is_some() && pool.take(4096).is_none());
        pool.allow(1);
        assert!(pool.take(4096).is_some());
    }

    #[test]
    fn bounded_and_reused() {
        let mut pool = Pool::new(16384);
        let a = pool.take(5000).unwrap();
        assert_eq!(a.len(), 5000);
        let b = pool.take(8192).unwrap();
        assert!(pool.take(1).is_none());
        pool.give(a, 5000);
        pool.give(b, 8192);
        for len in 1..=32 {
            let buffer = pool.take(len * 512).unwrap();
            pool.give(buffer, len * 512);
            assert!(pool.total() <= 16384);
        }
        let alone = pool.take(100_000).unwrap();
        assert!(pool.take(1).is_none());
        drop(alone);
        pool.give(Buffer::from_memory(vec![1; 7], 9), 100_000);
        assert!(pool.total() <= 16384);
    }
}
