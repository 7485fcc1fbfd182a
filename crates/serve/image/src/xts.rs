//! AES-256-XTS (IEEE 1619-2007) for machines whose instructions encrypt four blocks of AES at once. OpenSSL before 3.5 does not use them
//! for XTS.
//!
//! The crate `aes` encrypts blocks, 64 at a time. Here are the tweaks of 64 blocks, in vectors that the compiler makes. The tweak
//! of a block is that of the one before it, times x in GF(2^128). So the tweaks of the next 64 blocks are these times x^64, which is a
//! move by half a tweak and a few shifts.

use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    Array, Block, BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, ParBlocks,
};
use aes::{Aes256Dec, Aes256Enc};
use media::tables::prefetch;

/// Blocks of AES that are turned at once.
const BLOCKS: usize = 64;
/// Bytes that are turned at once: a data unit is a multiple of them.
pub(crate) const STEP: usize = BLOCKS * 16;
/// A line of the processor's cache.
pub(crate) type Line = [u8; 64];

/// The cipher of one key.
pub(crate) struct WideXts {
    to_medium: Aes256Enc,
    from_medium: Aes256Dec,
    tweaks: Aes256Enc,
}

impl WideXts {
    /// The cipher of a key: the half for data, and the half for tweaks. It works on every machine. It is worth its while only where
    /// [`is_fast`](WideXts::is_fast) says so.
    pub(crate) fn new(data: &[u8; 32], tweaks: &[u8; 32]) -> WideXts {
        WideXts {
            to_medium: Aes256Enc::new(data.into()),
            from_medium: Aes256Dec::new(data.into()),
            tweaks: Aes256Enc::new(tweaks.into()),
        }
    }

    /// Whether this machine turns as many blocks at once as this file does.
    pub(crate) fn is_fast(&self) -> bool {
        let mut blocks = 0;
        self.from_medium.decrypt_with_backend(Width(&mut blocks));
        blocks == BLOCKS
    }

    fn first_tweak(&self, unit: u64) -> u128 {
        let mut tweak: Block<Aes256Enc> = u128::from(unit).to_le_bytes().into();
        self.tweaks.encrypt_block(&mut tweak);
        u128::from_le_bytes(tweak.into())
    }

    /// Encrypts a data unit from one place to another. Both have the same length, a multiple of [`STEP`]; bytes beyond are left alone.
    pub(crate) fn encrypt_to(&self, unit: u64, from: &[u8], to: &mut [u8]) {
        let tweak = self.first_tweak(unit);
        self.to_medium.encrypt_with_backend(Unit { tweak, from, to, next: &[] });
    }

    /// Decrypts what [`encrypt_to`](WideXts::encrypt_to) made. Meanwhile it begins to bring as many bytes of `next` into the cache.
    pub(crate) fn decrypt_to(&self, unit: u64, from: &[u8], to: &mut [u8], next: &[Line]) {
        let tweak = self.first_tweak(unit);
        self.from_medium.decrypt_with_backend(Unit { tweak, from, to, next });
    }
}

/// Asks how many blocks are turned at once.
struct Width<'a>(&'a mut usize);

impl BlockSizeUser for Width<'_> {
    type BlockSize = U16;
}

impl BlockCipherDecClosure for Width<'_> {
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, _: &B) {
        *self.0 = B::ParBlocksSize::USIZE;
    }
}

/// A data unit that is to be turned.
struct Unit<'a> {
    /// Of its first block.
    tweak: u128,
    from: &'a [u8],
    to: &'a mut [u8],
    next: &'a [Line],
}

impl BlockSizeUser for Unit<'_> {
    type BlockSize = U16;
}

// What follows is compiled into functions with the instructions of the machine, so all of it is `inline(always)`.

impl BlockCipherEncClosure for Unit<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        self.turn::<ParBlocks<B>>(
            |all| backend.encrypt_par_blocks(all.into()),
            |one| backend.encrypt_block(one.into()),
        );
    }
}

impl BlockCipherDecClosure for Unit<'_> {
    #[inline(always)]
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, backend: &B) {
        self.turn::<ParBlocks<B>>(
            |all| backend.decrypt_par_blocks(all.into()),
            |one| backend.decrypt_block(one.into()),
        );
    }
}

impl Unit<'_> {
    /// Turns the unit with what turns `P`, blocks at once, and what turns one.
    #[inline(always)]
    fn turn<P: Default + AsMut<[Array<u8, U16>]>>(
        self,
        all: impl Fn(&mut P),
        one: impl Fn(&mut Array<u8, U16>),
    ) {
        let (from, _) = self.from.as_chunks::<STEP>();
        let (to, _) = self.to.as_chunks_mut::<STEP>();
        let mut tweaks = first_tweaks(self.tweak);
        for (step, (from, to)) in from.iter().zip(to).enumerate() {
            if step > 0 {
                next_tweaks(&mut tweaks);
            }
            let mut turned = P::default();
            let blocks = Array::slice_as_flattened_mut(turned.as_mut());
            if let Ok(blocks) = <&mut [u8; STEP]>::try_from(blocks) {
                xor(&tweaks, from, blocks);
                // In two parts: a processor waits for two dozen lines at once.
                prefetch_half(self.next, 2 * step);
                all(&mut turned);
                prefetch_half(self.next, 2 * step + 1);
                let blocks = Array::slice_as_flattened_mut(turned.as_mut());
                if let Ok(blocks) = <&mut [u8; STEP]>::try_from(blocks) {
                    xor(&tweaks, blocks, to);
                }
            } else {
                let mut blocks = [0; STEP];
                xor(&tweaks, from, &mut blocks);
                prefetch_half(self.next, 2 * step);
                prefetch_half(self.next, 2 * step + 1);
                Array::slice_as_chunks_mut(&mut blocks).0.iter_mut().for_each(&one);
                xor(&tweaks, &blocks, to);
            }
        }
    }
}

/// Begins to bring a part of the next bytes into the cache, half as much as one step turns.
#[inline(always)]
fn prefetch_half(next: &[Line], half: usize) {
    // Cache lines of half a step.
    const LINES: usize = STEP / size_of::<Line>() / 2;
    if let Some(lines) = next.get(half * LINES..(half + 1) * LINES) {
        (0..LINES as u32).for_each(|line| prefetch(lines, line));
    }
}

/// Tweaks of consecutive blocks, the lower half of each first.
type Tweaks = [[u64; 2]; BLOCKS];

/// What x^128 times the polynomial of these 64 bits is, as the lower and the upper half: x^128 is x^7 + x^2 + x + 1.
#[inline(always)]
const fn folded(bits: u64) -> [u64; 2] {
    [bits ^ bits << 1 ^ bits << 2 ^ bits << 7, bits >> 63 ^ bits >> 62 ^ bits >> 57]
}

/// A tweak times 1, x, x^2 and so on.
#[inline(always)]
fn first_tweaks(tweak: u128) -> Tweaks {
    let (low, high) = (tweak as u64, (tweak >> 64) as u64);
    let mut tweaks = [[0; 2]; BLOCKS];
    for (power, made) in (0..).zip(&mut tweaks) {
        // Two shifts, as one by all of 64 bits has no meaning.
        let over = folded(high >> 1 >> (63 - power));
        *made = [low << power ^ over[0], high << power ^ low >> 1 >> (63 - power) ^ over[1]];
    }
    tweaks
}

/// Each tweak times x^64.
#[inline(always)]
fn next_tweaks(tweaks: &mut Tweaks) {
    for tweak in tweaks {
        let [low, high] = *tweak;
        let over = folded(high);
        *tweak = [over[0], low ^ over[1]];
    }
}

#[inline(always)]
fn xor(tweaks: &Tweaks, from: &[u8; STEP], to: &mut [u8; STEP]) {
    let (from, to) = (from.as_chunks::<8>().0, to.as_chunks_mut::<8>().0);
    for ((tweak, from), to) in tweaks.as_flattened().iter().zip(from).zip(to) {
        *to = (u64::from_le_bytes(*from) ^ tweak).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tweak times x, as the standard has it.
    fn doubled(tweak: u128) -> u128 {
        (tweak << 1) ^ if tweak >> 127 == 1 { 0x87 } else { 0 }
    }

    #[test]
    fn tweaks_follow_each_other_as_in_the_standard() {
        for first in [1, u128::MAX, 1 << 127, 1 << 64, 0x0123_4567_89AB_CDEF_0F1E_2D3C_4B5A_6978] {
            let (mut tweaks, mut wanted) = (first_tweaks(first), first);
            for step in 0..4 {
                for (block, [low, high]) in tweaks.into_iter().enumerate() {
                    let tweak = u128::from(low) | u128::from(high) << 64;
                    assert_eq!(tweak, wanted, "{first:#x}: block {block} of step {step}");
                    wanted = doubled(wanted);
                }
                next_tweaks(&mut tweaks);
            }
        }
    }

    #[test]
    fn bytes_behind_the_last_step_are_left_alone() {
        let cipher = WideXts::new(&[1; 32], &[2; 32]);
        let (from, mut to) = ([7; STEP + 100], [9; STEP + 100]);
        cipher.encrypt_to(3, &from, &mut to);
        assert_eq!(to[STEP..], [9; 100]);
        let mut again = [8; STEP + 100];
        // Whatever comes next is only looked at.
        cipher.decrypt_to(3, &to, &mut again, &[[0; 64]; 3]);
        assert_eq!((&again[..STEP], &again[STEP..]), (&from[..STEP], &[8; 100][..]));
    }
}
