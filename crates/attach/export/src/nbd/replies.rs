//! Replies to requests, as they are on the wire.

use super::wire::{
    ALLOCATION_ID, NbdError, Put, SIMPLE_REPLY_MAGIC, STATE_HOLE, STATE_ZERO, STRUCTURED_REPLY_MAGIC, chunk,
};
use crate::drive::Extent;

/// Extents of one reply at most.
pub const EXTENTS: usize = 64 << 10;

/// What a reply begins with, for data of a read to follow.
pub fn before_data(structured: bool, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(28);
    match structured {
        true => begin(&mut out, chunk::OFFSET_DATA, cookie, 8 + len).u64(offset),
        false => out.u32(SIMPLE_REPLY_MAGIC).u32(0).u64(cookie),
    };
    out
}

/// Success without data.
pub fn done(cookie: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.u32(SIMPLE_REPLY_MAGIC).u32(0).u64(cookie);
    out
}

/// An error, with words for people where there is room for them.
pub fn error(structured: bool, cookie: u64, error: NbdError, words: &str) -> Vec<u8> {
    let mut out = Vec::new();
    // The words are short.
    let len = u16::try_from(words.len()).unwrap_or(0);
    let words = &words.as_bytes()[..len.into()];
    match structured {
        true => {
            begin(&mut out, chunk::ERROR, cookie, 6 + u32::from(len)).u32(error as u32).u16(len).bytes(words)
        }
        false => out.u32(SIMPLE_REPLY_MAGIC).u32(error as u32).u64(cookie),
    };
    out
}

/// Which blocks of `block_size` bytes are allocated, of `len` bytes that were asked about. `extents` has one at least, and none is of 0 blocks.
pub fn status(cookie: u64, block_size: u32, len: u32, extents: &[Extent]) -> Vec<u8> {
    let mut list: Vec<(u32, u32)> = Vec::new();
    let mut left = len;
    for extent in extents.iter().take(EXTENTS) {
        let bytes = extent.blocks.saturating_mul(block_size.into());
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(left);
        if bytes == 0 {
            break;
        }
        left -= bytes;
        list.push((bytes, if extent.allocated { 0 } else { STATE_HOLE | STATE_ZERO }));
    }
    let mut out = Vec::new();
    // At most 64 Ki of 8 bytes.
    begin(&mut out, chunk::BLOCK_STATUS, cookie, 4 + 8 * list.len() as u32).u32(ALLOCATION_ID);
    for (bytes, state) in list {
        out.u32(bytes).u32(state);
    }
    out
}

/// The head of a chunk that is the only one of its reply.
fn begin(out: &mut Vec<u8>, kind: u16, cookie: u64, len: u32) -> &mut Vec<u8> {
    out.u32(STRUCTURED_REPLY_MAGIC).u16(chunk::DONE).u16(kind).u64(cookie).u32(len)
}
