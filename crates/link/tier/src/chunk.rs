//! Chunks of the two devices.

/// A chunk of the origin: the field's *oblock*.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Oblock(pub u32);

/// A place for a chunk on the cache device: the field's *cblock*.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cblock(pub u32);

/// Bits, one for each of many things.
#[derive(Clone, Default, Debug)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn new(count: u32) -> Self {
        Self(vec![0; (count as usize).div_ceil(64)])
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> bool {
        self.0[at as usize / 64] >> (at % 64) & 1 != 0
    }

    /// Sets one. Returns whether it was set before.
    #[inline]
    pub(crate) fn set(&mut self, at: u32) -> bool {
        let word = &mut self.0[at as usize / 64];
        let before = *word >> (at % 64) & 1 != 0;
        *word |= 1 << (at % 64);
        before
    }

    #[inline]
    pub(crate) fn clear(&mut self, at: u32) {
        self.0[at as usize / 64] &= !(1 << (at % 64));
    }

    pub(crate) fn clear_all(&mut self) {
        self.0.fill(0);
    }

    /// All of them as bytes, the first in bit 0 of byte 0.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes())
    }
}
