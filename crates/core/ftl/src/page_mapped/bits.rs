//! Tables of bits.

#[inline]
pub(super) fn bit(bits: &[u64], i: u32) -> bool {
    bits[(i / 64) as usize] >> (i % 64) & 1 == 1
}

#[inline]
pub(super) fn set_bit(bits: &mut [u64], i: u32) {
    bits[(i / 64) as usize] |= 1 << (i % 64);
}

#[inline]
pub(super) fn clear_bit(bits: &mut [u64], i: u32) {
    bits[(i / 64) as usize] &= !(1 << (i % 64));
}
