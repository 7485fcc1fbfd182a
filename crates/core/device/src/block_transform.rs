//! The transform between a command's blocks and slots: metadata, protection information, encryption and marks of unreadable blocks.
//!
//! The controller fills in a [`BlockTransform`]. The owner of the contents moves blocks with its methods. So there is one
//! implementation, without state, of where everything lies.

use drive_config::protection::{Check, Checks, Protection, Tags};
use ftl::{PAGE, Piece};
use std::ops::Range;

/// Bytes that a slot has beside those of its page:
///
/// | bytes | what |
/// |---|---|
/// | 0 to 63 | metadata of its blocks, one behind the other |
/// | 64 | bit *n*: the *n*th block is marked uncorrectable (Write Uncorrectable) |
/// | 68 to 71 | stamp, little endian: tells what is valid from what an earlier user of the slot left |
/// | others | zero |
pub const SPARE_BYTES: usize = 128;
const MARKS: usize = 64;
const STAMP_RANGE: Range<usize> = 68..72;

/// What a command does with blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockAction {
    /// To the host's buffer.
    Read,
    /// From the host's buffer.
    Write,
    /// Against the host's buffer.
    Compare,
    /// To nowhere: only the checks count.
    Verify,
    /// Zeros, with protection information if `insert`.
    Zeroes,
    /// Marks them uncorrectable.
    Mark,
}

/// What happens to a command's blocks between the host's buffer and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockTransform {
    /// What is done.
    pub action: BlockAction,
    /// Bytes of data of a block, as a power of two.
    pub shift: u8,
    /// Bytes of metadata of a block in its slot: at most 64 for a page.
    pub metadata: u8,
    /// Bytes of metadata that lie behind each block's data in the host's buffer: as many as `metadata`, or none.
    pub host_metadata: u8,
    /// Protection information, if the namespace has it.
    pub protection: Option<Protection>,
    /// Which of it is checked.
    pub checks: Checks,
    /// Whether the controller inserts it into what is written (PRACT).
    pub insert: bool,
    /// What is inserted or expected.
    pub tags: Tags,
    /// What is added to reference tags on their way to slots, inserted ones and the host's: the blocks between a zone's start and the place of
    /// an append (PIREMAP). Otherwise 0.
    pub remap: u64,
    /// The stamp of the namespace's slots since blocks of it were marked uncorrectable; 0 if none ever were.
    pub stamp: u32,
    /// Whether blocks are in the command's own room ([`Contents::gather`](crate::Contents::gather)) instead of the host's buffer.
    pub gathered: bool,
    /// Byte of the buffer at which the command's first block lies.
    pub offset: u32,
    /// Whether blocks, with their metadata, are encrypted in slots with the namespace's key.
    pub encrypted: bool,
    /// Namespace Identifier.
    pub nsid: u32,
    /// LBA of the command's first block.
    pub slba: u64,
}

/// A block that a command could not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockError {
    /// Which check.
    pub check: Check,
    /// LBA of the block.
    pub lba: u64,
}

impl BlockTransform {
    /// Whether the spare bytes of slots count; otherwise blocks are plain bytes of the page.
    #[inline]
    #[must_use]
    pub const fn uses_spare(&self) -> bool {
        self.metadata > 0 || self.stamp != 0
    }

    /// Whether reads must check blocks ([`check_slot`](BlockTransform::check_slot)) before they move bytes.
    #[inline]
    #[must_use]
    pub const fn needs_check(&self) -> bool {
        self.checks.any() || self.stamp != 0
    }

    /// Where a piece's blocks lie in the host's buffer.
    #[inline]
    #[must_use]
    pub const fn host_range(&self, piece: Piece) -> Range<usize> {
        let each = (1 << self.shift) + self.host_metadata as usize;
        let first = (piece.host >> self.shift) as usize;
        let count = (piece.len >> self.shift) as usize;
        let offset = self.offset as usize;
        offset + first * each..offset + (first + count) * each
    }

    /// Indexes of a piece's blocks: within the command, and within the page.
    #[inline]
    fn blocks(&self, piece: Piece) -> impl Iterator<Item = (u32, usize)> + use<> {
        let (first, at) = (piece.host >> self.shift, (piece.page >> self.shift) as usize);
        (0..piece.len >> self.shift).map(move |i| (first + i, at + i as usize))
    }

    /// The blocks of a piece as units of encryption: LBA, and where data and metadata lie in the slot's page and beside it.
    #[inline]
    pub fn encryption_units(
        &self,
        piece: Piece,
    ) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> + use<> {
        let this = *self;
        self.blocks(piece)
            .map(move |(index, at)| (this.slba + u64::from(index), this.data_range(at), this.spare_range(at)))
    }

    /// The same for all blocks of the page that a piece lies in.
    pub fn encryption_units_of_page(
        &self,
        piece: Piece,
    ) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> + use<> {
        let this = *self;
        let (index, at) = (piece.host >> self.shift, piece.page >> self.shift);
        // Pages begin at multiples of their blocks.
        let first = (this.slba + u64::from(index)).wrapping_sub(u64::from(at));
        (0..PAGE >> self.shift).map(move |i| {
            (first.wrapping_add(u64::from(i)), this.data_range(i as usize), this.spare_range(i as usize))
        })
    }

    #[inline]
    fn data_range(&self, at: usize) -> Range<usize> {
        at << self.shift..(at + 1) << self.shift
    }

    #[inline]
    fn spare_range(&self, at: usize) -> Range<usize> {
        let each = usize::from(self.metadata);
        at * each..(at + 1) * each
    }

    #[inline]
    fn block_error(&self, check: Check, index: u32) -> BlockError {
        BlockError { check, lba: self.slba + u64::from(index) }
    }

    /// Checks the protection information of what the host sent: `buffer` holds whole blocks with their metadata.
    ///
    /// # Errors
    /// The first block that does not pass.
    pub fn check_host(&self, buffer: &[u8]) -> Result<(), BlockError> {
        let Some(protection) =
            self.protection.filter(|_| self.host_metadata > 0 && !self.insert && self.checks.any())
        else {
            return Ok(());
        };
        let size = 1 << self.shift;
        for (index, block) in (0..).zip(buffer.chunks_exact(size + usize::from(self.host_metadata))) {
            let (data, metadata) = block.split_at(size);
            protection
                .check(data, metadata, &self.tags, self.checks, index)
                .map_err(|check| self.block_error(check, index))?;
        }
        Ok(())
    }

    /// Fills in what a page that was never written reads as: zeros. Their protection information says that it is not to be checked
    /// (NVM 3.3.3.2.1).
    pub fn fill_unwritten(&self, page: &mut [u8], spare: &mut [u8; SPARE_BYTES]) {
        page.fill(0);
        spare.fill(0);
        if let Some(protection) = &self.protection {
            let place = protection.place(self.metadata.into());
            for metadata in spare[..MARKS].chunks_exact_mut(usize::from(self.metadata).max(1)) {
                if let Some(info) = metadata.get_mut(place.clone()) {
                    info.fill(0xFF);
                }
            }
        }
        self.stamp(spare);
    }

    fn stamp(&self, spare: &mut [u8; SPARE_BYTES]) {
        spare[STAMP_RANGE].copy_from_slice(&self.stamp.to_le_bytes());
    }

    /// Which blocks of a slot are marked uncorrectable, bit by bit, in a namespace with this stamp; `always` if its slots
    /// always have spare bytes.
    #[must_use]
    pub fn marks(spare: &[u8; SPARE_BYTES], stamp: u32, always: bool) -> u8 {
        if always || spare[STAMP_RANGE] == stamp.to_le_bytes() { spare[MARKS] } else { 0 }
    }

    /// Whether a slot's spare bytes are of this namespace, and not what an earlier user of the slot left: with metadata
    /// they are always written.
    fn is_valid(&self, spare: &[u8; SPARE_BYTES]) -> bool {
        self.metadata > 0 || spare[STAMP_RANGE] == self.stamp.to_le_bytes()
    }

    /// A partial write starts from another slot's contents. This makes that slot's spare bytes valid for this namespace. A command that
    /// began before blocks of its namespace were marked has a lower stamp than the slot: it keeps the marks.
    pub fn claim_spare(&self, spare: &mut [u8; SPARE_BYTES]) {
        if stamp_of(spare) > self.stamp {
            return;
        }
        if !self.is_valid(spare) {
            spare.fill(0);
        }
        self.stamp(spare);
    }

    /// The spare bytes of a page that has a part from the slot `newer` and the rest from the slot `older`. `bytes` of the page, whole
    /// sectors of 512 bytes, are from `newer`. A slot has none (`None`) if it was written before blocks of its namespace were marked, or
    /// never. A block of which both have a part gets parts of both metadata, as its data.
    ///
    /// The stamps tell whose marks are valid. Stamps only grow, and marks have their namespace's stamp. So of two stamps the lower one is
    /// what an earlier user of the slot left.
    #[must_use]
    pub fn splice_spare(
        older: Option<[u8; SPARE_BYTES]>,
        newer: Option<[u8; SPARE_BYTES]>,
        bytes: Range<u32>,
    ) -> Option<[u8; SPARE_BYTES]> {
        if older.is_none() && newer.is_none() {
            return None;
        }
        // Metadata of blocks that were never written is all ones, which no check of protection information looks at.
        let mut never = [0; SPARE_BYTES];
        never[..MARKS].fill(0xFF);
        let (older, newer) = (older.unwrap_or(never), newer.unwrap_or(never));
        let valid = stamp_of(&older).max(stamp_of(&newer));
        let marks = |spare: &[u8; SPARE_BYTES]| if stamp_of(spare) == valid { spare[MARKS] } else { 0 };
        let mut made = older;
        let at = |byte: u32| byte as usize * MARKS / PAGE as usize;
        let metadata = at(bytes.start)..at(bytes.end);
        made[metadata.clone()].copy_from_slice(&newer[metadata]);
        let sectors = (bytes.start / 512..bytes.end / 512).fold(0, |bits, sector| bits | 1 << sector);
        made[MARKS] = marks(&older) & !sectors | marks(&newer) & sectors;
        made[STAMP_RANGE].copy_from_slice(&valid.to_le_bytes());
        Some(made)
    }

    /// Puts a piece's blocks into a slot. `host` is the part of the host's buffer that [`host_range`](BlockTransform::host_range) names. It
    /// is empty if the blocks come from no host. `page` and `spare` hold the rest of the slot's contents. If the piece is a
    /// whole page, they may hold anything.
    ///
    /// # Panics
    /// If the slices are shorter than the piece says.
    pub fn write_slot(&self, piece: Piece, host: &[u8], page: &mut [u8], spare: &mut [u8; SPARE_BYTES]) {
        if piece.len == PAGE {
            spare[MARKS..].fill(0);
            self.stamp(spare);
        }
        let size = 1 << self.shift;
        let each = size + usize::from(self.host_metadata);
        let tags = Tags { reference: self.tags.reference.wrapping_add(self.remap), ..self.tags };
        for (i, (index, at)) in self.blocks(piece).enumerate() {
            let (data, metadata) = (&mut page[self.data_range(at)], self.spare_range(at));
            let mark = u8::from(self.action == BlockAction::Mark);
            spare[MARKS] = spare[MARKS] & !(1 << at) | mark << at;
            let metadata = &mut spare[metadata];
            if host.is_empty() {
                data.fill(0);
                metadata.fill(0);
            } else {
                let block = &host[i * each..(i + 1) * each];
                data.copy_from_slice(&block[..size]);
                if self.host_metadata > 0 {
                    metadata.copy_from_slice(&block[size..]);
                }
            }
            match &self.protection {
                Some(protection) if self.insert => protection.insert(data, metadata, &tags, index),
                Some(protection) if self.remap > 0 => protection.add_to_reference(metadata, self.remap),
                _ => {}
            }
        }
    }

    /// Checks a piece's blocks in a slot: their marks, and the protection information that the command wants checked.
    ///
    /// # Errors
    /// The first block that does not pass.
    ///
    /// # Panics
    /// If `page` is shorter than a page.
    pub fn check_slot(&self, piece: Piece, page: &[u8], spare: &[u8; SPARE_BYTES]) -> Result<(), BlockError> {
        let valid = self.is_valid(spare);
        for (index, at) in self.blocks(piece) {
            if valid && spare[MARKS] >> at & 1 != 0 {
                return Err(self.block_error(Check::Uncorrectable, index));
            }
            if let Some(protection) = self.protection.filter(|_| self.checks.any()) {
                protection
                    .check(
                        &page[self.data_range(at)],
                        &spare[self.spare_range(at)],
                        &self.tags,
                        self.checks,
                        index,
                    )
                    .map_err(|check| self.block_error(check, index))?;
            }
        }
        Ok(())
    }

    /// Copies a piece's blocks out of a slot. `host` is the part of the host's buffer that [`host_range`](BlockTransform::host_range) names.
    ///
    /// # Panics
    /// If the slices are shorter than the piece says.
    pub fn read_slot(&self, piece: Piece, page: &[u8], spare: &[u8; SPARE_BYTES], host: &mut [u8]) {
        let size = 1 << self.shift;
        let blocks = host.chunks_exact_mut(size + usize::from(self.host_metadata));
        for ((_, at), block) in self.blocks(piece).zip(blocks) {
            block[..size].copy_from_slice(&page[self.data_range(at)]);
            if self.host_metadata > 0 {
                block[size..].copy_from_slice(&spare[self.spare_range(at)]);
            }
        }
    }

    /// Whether a piece's blocks in a slot are the host's. Protection information is not compared (NVM 3.3.1).
    ///
    /// # Panics
    /// If the slices are shorter than the piece says.
    #[must_use]
    pub fn equals_host(&self, piece: Piece, page: &[u8], spare: &[u8; SPARE_BYTES], host: &[u8]) -> bool {
        let size = 1 << self.shift;
        let blocks = host.chunks_exact(size + usize::from(self.host_metadata));
        self.blocks(piece).zip(blocks).all(|((_, at), block)| {
            let (theirs, ours) = (&block[size..], &spare[self.spare_range(at)]);
            let info = self.protection.map_or(0..0, |p| p.place(self.metadata.into()));
            let same = |part: Range<usize>| theirs[part.clone()] == ours[part];
            block[..size] == page[self.data_range(at)]
                && (self.host_metadata == 0 || (same(0..info.start) && same(info.end..ours.len())))
        })
    }
}

/// The stamp of a slot's spare bytes; 0 if there is none.
fn stamp_of(spare: &[u8; SPARE_BYTES]) -> u32 {
    spare[STAMP_RANGE].iter().rev().fold(0, |stamp, &byte| stamp << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(stamp: u32, marks: u8) -> [u8; SPARE_BYTES] {
        let mut spare = [0; SPARE_BYTES];
        spare[MARKS] = marks;
        spare[STAMP_RANGE].copy_from_slice(&stamp.to_le_bytes());
        spare
    }

    /// A disk lands writes in any order: one that was accepted before blocks of its page were marked may come after the marks.
    #[test]
    fn marks_stay_where_the_other_slot_has_none() {
        let part = 1024..2048;
        let spliced = |older, newer| {
            let made = BlockTransform::splice_spare(older, newer, part.clone());
            made.map(|made| BlockTransform::marks(&made, 7, false))
        };
        let (marked, plain, stale) = (beside(7, 0b1110_0110), beside(7, 0), beside(3, 0xFF));
        assert_eq!(spliced(None, None), None);
        assert_eq!(spliced(Some(marked), None), Some(0b1110_0010));
        assert_eq!(spliced(None, Some(marked)), Some(0b0000_0100));
        assert_eq!(spliced(Some(marked), Some(plain)), Some(0b1110_0010));
        assert_eq!(spliced(Some(plain), Some(marked)), Some(0b0000_0100));
        assert_eq!(
            spliced(Some(marked), Some(stale)),
            Some(0b1110_0010),
            "an earlier user's count for nothing"
        );
        assert_eq!(spliced(Some(stale), Some(marked)), Some(0b0000_0100));
        assert_eq!(spliced(Some(stale), Some(stale)), Some(0));
    }
}
