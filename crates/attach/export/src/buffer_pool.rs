//! Buffers for commands, kept by each thread for its next ones.

use std::cell::RefCell;

/// Larger ones go back to the allocator.
const MAX_KEPT_BYTES: usize = 128 << 10;
/// How many a thread keeps.
const MAX_KEPT_BUFFERS: usize = 64;

thread_local! {
    static FREE_BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of `len` bytes with any content: old data of the same drive or zeroes.
pub fn take(len: u64) -> Vec<u8> {
    let mut buffer = kept();
    // Commands move less than 4 GiB.
    let len = usize::try_from(len).unwrap_or(0);
    if buffer.capacity() < len {
        buffer.clear();
    }
    buffer.resize(len, 0);
    buffer
}

/// A buffer with a copy of `data`.
pub fn copy(data: &[u8]) -> Vec<u8> {
    let mut buffer = kept();
    buffer.clear();
    buffer.extend_from_slice(data);
    buffer
}

/// Keeps a buffer for later.
pub fn give(buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > MAX_KEPT_BYTES {
        return;
    }
    FREE_BUFFERS.with_borrow_mut(|free| {
        if free.len() < MAX_KEPT_BUFFERS {
            free.push(buffer);
        }
    });
}

fn kept() -> Vec<u8> {
    FREE_BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default()
}
