//! Protection information (NVM 5.2): arithmetic on one logical block, without state.

use crc_fast::{CrcAlgorithm, Digest, checksum};
use serde::{Deserialize, Serialize};

/// Protection Information Format (NVM 4.1.5.3, ELBAF.PIF): which guard, and how much room for tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Guard {
    /// CRC-16/T10-DIF, 8 bytes in all, 32 bits for storage and reference tags.
    Crc16,
    /// CRC-32C, 16 bytes in all, 80 bits for storage and reference tags.
    Crc32,
    /// CRC-64/NVME, 16 bytes in all, 48 bits for storage and reference tags.
    Crc64,
}

impl Guard {
    /// Bytes of the protection information.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Guard::Crc16 => 8,
            Guard::Crc32 | Guard::Crc64 => 16,
        }
    }

    /// Bits of the guard itself: 16, 32 or 64.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Guard::Crc16 => 16,
            Guard::Crc32 => 32,
            Guard::Crc64 => 64,
        }
    }

    /// Bits that storage tag and reference tag share (NVM 5.2.1.4).
    #[inline]
    #[must_use]
    pub const fn space_bits(self) -> u8 {
        match self {
            Guard::Crc16 => 32,
            Guard::Crc32 => 80,
            Guard::Crc64 => 48,
        }
    }

    /// Sizes that a storage tag can have (NVM 4.1.5.3, ELBAF.STS).
    #[must_use]
    pub const fn storage_bits(self) -> std::ops::RangeInclusive<u8> {
        match self {
            Guard::Crc16 => 0..=32,
            Guard::Crc32 => 16..=64,
            Guard::Crc64 => 0..=48,
        }
    }

    /// Its value in ELBAF.PIF.
    #[must_use]
    pub const fn format(self) -> u8 {
        match self {
            Guard::Crc16 => 0,
            Guard::Crc32 => 1,
            Guard::Crc64 => 2,
        }
    }

    #[inline]
    fn of(self, data: &[u8], more: &[u8]) -> u64 {
        let algorithm = match self {
            Guard::Crc16 => CrcAlgorithm::Crc16T10Dif,
            Guard::Crc32 => CrcAlgorithm::Crc32Iscsi,
            Guard::Crc64 => CrcAlgorithm::Crc64Nvme,
        };
        if more.is_empty() {
            return checksum(algorithm, data);
        }
        let mut digest = Digest::new(algorithm);
        digest.update(data);
        digest.update(more);
        digest.finalize()
    }
}

/// How the blocks of a namespace are protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protection {
    /// Protection Information Type: 1 to 3.
    pub kind: u8,
    /// Which guard.
    pub guard: Guard,
    /// Bits of the storage tag, within [`Guard::storage_bits`].
    pub storage_bits: u8,
    /// Bits of the storage tag that are checked (LBSTM).
    pub storage_mask: u64,
    /// At the beginning of the metadata, else at its end.
    pub first: bool,
}

/// Tags of a command: what is inserted, or expected (NVM 3.3; LBTU, LBTL, LBAT, LBATM).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tags {
    /// Storage tag.
    pub storage: u64,
    /// Reference tag of the command's first block.
    pub reference: u64,
    /// Application tag.
    pub application: u16,
    /// Bits of the application tag that are checked.
    pub application_mask: u16,
}

/// What is checked.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Checks {
    /// PRCHK bit 2.
    pub guard: bool,
    /// PRCHK bit 1.
    pub application: bool,
    /// PRCHK bit 0.
    pub reference: bool,
    /// STC.
    pub storage: bool,
}

impl Checks {
    /// Whether there is anything to check.
    #[inline]
    #[must_use]
    pub const fn any(self) -> bool {
        self.guard || self.application || self.reference || self.storage
    }
}

/// Which check a block did not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The guard is not that of the data.
    Guard,
    /// The application tag is another than expected.
    Application,
    /// The reference tag is another than expected.
    Reference,
    /// The storage tag is another than expected.
    Storage,
    /// There is no data to check: the block is marked uncorrectable.
    Uncorrectable,
}

/// The lowest `bits` bits, 0 to 64.
pub const fn low(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Protection {
    /// Bits of the reference tag: 0 to 64.
    #[inline]
    #[must_use]
    pub const fn reference_bits(&self) -> u8 {
        self.guard.space_bits() - self.storage_bits
    }

    /// Storage and reference tag of a command's 80 bits, of which `upper` are the highest 48 (LBTU) and `lower` the rest.
    #[must_use]
    pub fn split(&self, upper: u64, lower: u32) -> (u64, u64) {
        let all = (u128::from(upper) << 32 | u128::from(lower)) & ((1 << self.guard.space_bits()) - 1);
        let storage = (all >> self.reference_bits()) as u64 & low(self.storage_bits);
        (storage, all as u64 & low(self.reference_bits()))
    }

    /// The reference tag of the block with this index in a command that begins with `initial`.
    #[inline]
    #[must_use]
    pub fn reference(&self, initial: u64, index: u32) -> u64 {
        let step = if self.kind == 3 { 0 } else { u64::from(index) };
        initial.wrapping_add(step) & low(self.reference_bits())
    }

    /// Whether a command may expect `reference` of blocks that begin at `slba` (NVM 5.2.1.5): with type 1 it is the
    /// lower part of the address, and with type 3 it cannot be checked.
    #[must_use]
    pub fn may_expect(&self, reference: u64, slba: u64) -> bool {
        match self.kind {
            1 => reference == slba & low(self.reference_bits()),
            3 => false,
            _ => true,
        }
    }

    /// Where it lies in `metadata` bytes of metadata.
    #[inline]
    #[must_use]
    pub const fn place(&self, metadata: usize) -> std::ops::Range<usize> {
        let bytes = self.guard.bytes();
        let start = if self.first { 0 } else { metadata.saturating_sub(bytes) };
        start..start + bytes
    }

    /// Writes the protection information of a block into its metadata. `index` counts the command's blocks.
    ///
    /// # Panics
    /// If the metadata is shorter than the protection information.
    #[inline]
    pub fn insert(&self, data: &[u8], metadata: &mut [u8], tags: &Tags, index: u32) {
        let place = self.place(metadata.len());
        let guard = self.guard.of(data, &metadata[..place.start]);
        let reference = self.reference(tags.reference, index);
        let info = &mut metadata[place];
        let application = tags.application.to_be_bytes();
        match self.guard {
            Guard::Crc16 => {
                info[..2].copy_from_slice(&(guard as u16).to_be_bytes());
                info[2..4].copy_from_slice(&application);
            }
            Guard::Crc32 => {
                info[..4].copy_from_slice(&(guard as u32).to_be_bytes());
                info[4..6].copy_from_slice(&application);
            }
            Guard::Crc64 => {
                info[..8].copy_from_slice(&guard.to_be_bytes());
                info[8..10].copy_from_slice(&application);
            }
        }
        let space = usize::from(self.guard.space_bits() / 8);
        let tag = u128::from(tags.storage & low(self.storage_bits)) << self.reference_bits()
            | u128::from(reference);
        let from = info.len() - space;
        info[from..].copy_from_slice(&tag.to_be_bytes()[16 - space..]);
    }

    /// Adds to the reference tag in a block's metadata (PIREMAP). It wraps around within its bits.
    ///
    /// # Panics
    /// If the metadata is shorter than the protection information.
    pub fn add_to_reference(&self, metadata: &mut [u8], by: u64) {
        let place = self.place(metadata.len());
        let info = &mut metadata[place];
        let space = &mut info[self.guard.bytes() - usize::from(self.guard.space_bits() / 8)..];
        let tag = space.iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
        let reference = u128::from(low(self.reference_bits()));
        let tag = tag & !reference | tag.wrapping_add(u128::from(by)) & reference;
        space.copy_from_slice(&tag.to_be_bytes()[16 - space.len()..]);
    }

    /// Checks a block against its metadata. `index` counts the command's blocks.
    ///
    /// # Errors
    /// The first check that it does not pass, in the order guard, application tag, reference tag, storage tag.
    ///
    /// # Panics
    /// If the metadata is shorter than the protection information.
    #[inline]
    pub fn check(
        &self,
        data: &[u8],
        metadata: &[u8],
        tags: &Tags,
        checks: Checks,
        index: u32,
    ) -> Result<(), Check> {
        let place = self.place(metadata.len());
        let info = &metadata[place.clone()];
        let (guard, tail) = match self.guard {
            Guard::Crc16 => (u64::from(u16::from_be_bytes([info[0], info[1]])), &info[2..]),
            Guard::Crc32 => (u64::from(u32::from_be_bytes([info[0], info[1], info[2], info[3]])), &info[4..]),
            Guard::Crc64 => (
                u64::from_be_bytes([info[0], info[1], info[2], info[3], info[4], info[5], info[6], info[7]]),
                &info[8..],
            ),
        };
        let application = u16::from_be_bytes([tail[0], tail[1]]);
        let space = tail[2..].iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
        let reference = space as u64 & low(self.reference_bits());
        // Escape (NVM 5.2.1.5): the block says that it is not to be checked.
        if application == 0xFFFF && (self.kind != 3 || reference == low(self.reference_bits())) {
            return Ok(());
        }
        if checks.guard && guard != self.guard.of(data, &metadata[..place.start]) {
            return Err(Check::Guard);
        }
        if checks.application && (application ^ tags.application) & tags.application_mask != 0 {
            return Err(Check::Application);
        }
        if checks.reference && reference != self.reference(tags.reference, index) {
            return Err(Check::Reference);
        }
        let storage = (space >> self.reference_bits()) as u64 & low(self.storage_bits);
        if checks.storage && (storage ^ tags.storage) & self.storage_mask & low(self.storage_bits) != 0 {
            return Err(Check::Storage);
        }
        Ok(())
    }
}
