//! The checksum of a block: CRC-32C over all of it, with zeroes in the checksum's place.

use crc_fast::{CrcAlgorithm, Digest};

/// Where the checksum of every kind of block lies.
const CHECKSUM_RANGE: std::ops::Range<usize> = 8..12;

fn of(block: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[..CHECKSUM_RANGE.start]);
    digest.update(&[0; 4]);
    digest.update(&block[CHECKSUM_RANGE.end..]);
    digest.finalize() as u32
}

/// Writes the checksum into a block.
pub(crate) fn seal(block: &mut [u8]) {
    let sum = of(block);
    block[CHECKSUM_RANGE].copy_from_slice(&sum.to_le_bytes());
}

/// Whether a block is what it was when it was sealed.
pub(super) fn holds(block: &[u8]) -> bool {
    block[CHECKSUM_RANGE] == of(block).to_le_bytes()
}
