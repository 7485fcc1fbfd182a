//! Data buffers of a connection: reused, and bounded in sum.

use std::ops::{Deref, DerefMut};

const SMALLEST: u32 = 9; // 512 bytes
const CLASSES: usize = 24; // up to 4 GiB, more than a limit ever allows

/// A buffer of a connection's pool. Its bytes are what an earlier command left in it until they are written.
#[derive(Debug, Default)]
pub struct Buffer {
    memory: Box<[u8]>,
    len: usize,
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
    free: [Vec<Box<[u8]>>; CLASSES],
    /// Bytes of all buffers, given out and free.
    total: usize,
    /// Bytes of the buffers given out.
    in_use: usize,
    limit: usize,
}

impl Pool {
    pub fn new(limit: usize) -> Self {
        Self { free: Default::default(), total: 0, in_use: 0, limit }
    }

    /// A buffer of this length, or `None` while too much is given out. One buffer of any size is always
    /// given out, so that nobody waits for ever.
    pub fn take(&mut self, len: usize) -> Option<Buffer> {
        if len == 0 {
            return Some(Buffer::default());
        }
        let (class, size) = class_of(len);
        if self.in_use != 0 && self.in_use + size > self.limit {
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
                vec![0; size].into_boxed_slice()
            }
        };
        self.in_use += size;
        Buffer { memory, len }
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Buffer) {
        let size = buffer.memory.len();
        if size == 0 {
            return;
        }
        self.in_use = self.in_use.saturating_sub(size);
        self.free[class_of(size).0].push(buffer.memory);
        if self.total > self.limit {
            self.shrink(self.limit);
        }
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
    let size = len.next_power_of_two().max(1 << SMALLEST);
    let class = usize::try_from(size.ilog2() - SMALLEST).unwrap_or(CLASSES).min(CLASSES - 1);
    (class, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_reused() {
        let mut pool = Pool::new(16384);
        let a = pool.take(5000).unwrap();
        assert_eq!(a.len(), 5000);
        let b = pool.take(8192).unwrap();
        assert!(pool.take(1).is_none());
        pool.give(a);
        pool.give(b);
        for len in 1..=32 {
            let buffer = pool.take(len * 512).unwrap();
            pool.give(buffer);
            assert!(pool.total() <= 16384);
        }
        let alone = pool.take(100_000).unwrap();
        assert!(pool.take(1).is_none());
        pool.give(alone);
        assert!(pool.total() <= 16384);
    }
}
