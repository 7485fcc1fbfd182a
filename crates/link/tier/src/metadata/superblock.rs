//! The superblock: what the cache is, and which copy of the table holds.

use super::BLOCK;
use super::checksum;
use super::layout::Layout;
use crate::config::{DeviceId, Mode, PolicyKind};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

const MAGIC: [u8; 8] = *b"TRNCTIER";
/// The version that this program writes and reads.
pub(crate) const VERSION: u32 = 1;

/// How the session that wrote it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The tier was shut down in order: dirty flags, hints and discards hold.
    Clean,
    /// A session is open, or ended without order.
    Open,
}

/// Counts that live on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) read_hits: u64,
    pub(crate) read_misses: u64,
    pub(crate) write_hits: u64,
    pub(crate) write_misses: u64,
}

/// What the superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// Larger with every one that is written. Its lowest bit says in which place it lies.
    pub(crate) sequence: u64,
    /// Of the table that holds and of the log that continues it.
    pub(crate) epoch: u64,
    /// Which copy of the table holds.
    pub(crate) copy: u8,
    pub(crate) state: State,
    pub(crate) needs_check: bool,
    /// The mode of the session.
    pub(crate) mode: Mode,
    /// Whose hints the table has.
    pub(crate) policy: PolicyKind,
    pub(crate) chunk: u64,
    pub(crate) chunks: u32,
    pub(crate) origin_bytes: u64,
    pub(crate) origin: DeviceId,
    /// The cache device of the session; zeroes where it is not known.
    pub(crate) cache: DeviceId,
    pub(crate) layout: Layout,
    /// Bytes of a block of discards.
    pub(crate) discard_block: u64,
    pub(crate) counts: Counts,
}

/// The superblock on the device. All numbers are little-endian.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    checksum: U32,
    version: U32,
    sequence: U64,
    epoch: U64,
    copy: u8,
    state: u8,
    needs_check: u8,
    mode: u8,
    policy: u8,
    reserved: [u8; 3],
    chunk: U64,
    chunks: U32,
    reserved_2: U32,
    origin_bytes: U64,
    origin: [u8; 16],
    table: U64,
    log: U64,
    discard_block: U64,
    counts: [U64; 4],
    cache: [u8; 16],
}

/// What a place for a superblock holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A superblock.
    Superblock(Superblock),
    /// One of a later version.
    Version(u32),
    /// One whose checksum is wrong or whose fields make no sense.
    Damaged,
    /// Nothing of a tier.
    Foreign,
}

const MODES: [Mode; 3] = [Mode::Writeback, Mode::Writethrough, Mode::Passthrough];
const POLICIES: [PolicyKind; 4] =
    [PolicyKind::Mq, PolicyKind::Smq, PolicyKind::SmqBefore412, PolicyKind::Cleaner];

fn number<T: PartialEq>(all: &[T], of: &T) -> u8 {
    all.iter().position(|one| one == of).unwrap_or(0) as u8
}

impl Superblock {
    /// The block that lies in place `sequence % 2`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let counts = [
            self.counts.read_hits,
            self.counts.read_misses,
            self.counts.write_hits,
            self.counts.write_misses,
        ];
        let raw = Raw {
            magic: MAGIC,
            checksum: 0.into(),
            version: VERSION.into(),
            sequence: self.sequence.into(),
            epoch: self.epoch.into(),
            copy: self.copy,
            state: u8::from(self.state == State::Open),
            needs_check: self.needs_check.into(),
            mode: number(&MODES, &self.mode),
            policy: number(&POLICIES, &self.policy),
            chunk: self.chunk.into(),
            chunks: self.chunks.into(),
            origin_bytes: self.origin_bytes.into(),
            origin: self.origin.0,
            cache: self.cache.0,
            table: self.layout.table.into(),
            log: self.layout.log.into(),
            discard_block: self.discard_block.into(),
            counts: counts.map(U64::new),
            ..Raw::new_zeroed()
        };
        let mut block = raw.as_bytes().to_vec();
        block.resize(BLOCK as usize, 0);
        checksum::seal(&mut block);
        block
    }

    /// Reads a place for a superblock.
    pub(crate) fn decode(block: &[u8]) -> Found {
        let Ok((raw, _)) = Raw::read_from_prefix(block) else { return Found::Foreign };
        if raw.magic != MAGIC {
            return Found::Foreign;
        }
        if !checksum::holds(block) {
            return Found::Damaged;
        }
        if raw.version.get() != VERSION {
            return Found::Version(raw.version.get());
        }
        let (Some(mode), Some(policy)) =
            (MODES.get(usize::from(raw.mode)), POLICIES.get(usize::from(raw.policy)))
        else {
            return Found::Damaged;
        };
        let [read_hits, read_misses, write_hits, write_misses] = raw.counts.map(U64::get);
        // They grow, and no tier has come that far.
        let growing = [raw.sequence.get(), raw.epoch.get(), read_hits, read_misses, write_hits, write_misses];
        if growing.iter().any(|number| *number > u64::MAX / 2) {
            return Found::Damaged;
        }
        Found::Superblock(Superblock {
            sequence: raw.sequence.get(),
            epoch: raw.epoch.get(),
            copy: raw.copy & 1,
            state: if raw.state == 0 { State::Clean } else { State::Open },
            needs_check: raw.needs_check != 0,
            mode: *mode,
            policy: *policy,
            chunk: raw.chunk.get(),
            chunks: raw.chunks.get(),
            origin_bytes: raw.origin_bytes.get(),
            origin: DeviceId(raw.origin),
            cache: DeviceId(raw.cache),
            layout: Layout { table: raw.table.get(), log: raw.log.get() },
            discard_block: raw.discard_block.get(),
            counts: Counts { read_hits, read_misses, write_hits, write_misses },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_is_read_as_it_was_written_and_any_damage_is_seen() {
        let superblock = Superblock {
            sequence: 7,
            epoch: 3,
            copy: 1,
            state: State::Open,
            needs_check: true,
            mode: Mode::Passthrough,
            policy: PolicyKind::SmqBefore412,
            chunk: 1 << 20,
            chunks: 1234,
            origin_bytes: 1 << 40,
            origin: DeviceId([9; 16]),
            cache: DeviceId([5; 16]),
            layout: Layout { table: 5, log: 77 },
            discard_block: 4 << 20,
            counts: Counts { read_hits: 1, read_misses: 2, write_hits: 3, write_misses: 4 },
        };
        let block = superblock.encode();
        assert_eq!(Superblock::decode(&block), Found::Superblock(superblock));
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 0x40;
            let expected = if at < 8 { Found::Foreign } else { Found::Damaged };
            assert_eq!(Superblock::decode(&damaged), expected, "byte {at}");
        }
        assert_eq!(Superblock::decode(&[0; 4096]), Found::Foreign);
    }
}
