//! What the cache writes about itself: superblocks and blocks of the journal. docs/log-cache.md describes them byte by byte.

use crate::config::{BLOCK, OriginId, VERSION};
use crate::error::OpenError;
use crc_fast::{CrcAlgorithm, Digest};

/// Records in a block of the journal.
pub(crate) const RECORDS: usize = 330;
/// Places that are written down together, and always in one block of the journal.
pub(crate) const SPAN: u32 = 64;

const SUPER: &[u8; 8] = b"TRNCLOGT";
const JOURNAL: &[u8; 8] = b"TRNCLOGJ";
const SUM: std::ops::Range<usize> = 8..12;
const HEADER: usize = 80;
const RECORD: usize = 12;

fn checksum(block: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[..SUM.start]);
    digest.update(&[0; 4]);
    digest.update(&block[SUM.end..]);
    digest.finalize() as u32
}

/// Writes the checksum into a block.
pub(crate) fn seal(block: &mut [u8]) {
    let sum = checksum(block);
    block[SUM].copy_from_slice(&sum.to_le_bytes());
}

fn holds(block: &[u8]) -> bool {
    block[SUM] == checksum(block).to_le_bytes()
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

fn u64_at(block: &[u8], at: usize) -> u64 {
    u64::from(u32_at(block, at)) | u64::from(u32_at(block, at + 4)) << 32
}

struct Writer(Vec<u8>);

impl Writer {
    fn new(magic: &[u8; 8]) -> Self {
        Self([magic.as_slice(), &[0; 4]].concat())
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(BLOCK as usize, 0);
        seal(&mut self.0);
        self.0
    }
}

/// Where the journal's picture of all places stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cycle {
    /// The first block of the journal of the last picture that is whole: from here on it is read.
    pub(crate) whole: u64,
    /// The first block of the picture that is being written.
    pub(crate) begun: u64,
    /// The places before this one are in it.
    pub(crate) cursor: u32,
}

/// A superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// The one with the larger number holds.
    pub(crate) sequence: u64,
    /// What names the cache: blocks of another one do not count.
    pub(crate) identity: u64,
    /// How often the cache was opened.
    pub(crate) session: u64,
    /// Whether it was shut down in order.
    pub(crate) clean: bool,
    pub(crate) bucket: u32,
    pub(crate) cache_blocks: u32,
    pub(crate) origin_blocks: u32,
    pub(crate) origin: OriginId,
    /// Where reading the journal begins.
    pub(crate) tail: u64,
    /// The journal reached at least up to here.
    pub(crate) head: u64,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(SUPER)
            .u32(VERSION)
            .u64(self.sequence)
            .u64(self.identity)
            .u64(self.session)
            .u32(u32::from(self.clean))
            .u32(self.bucket)
            .u32(self.cache_blocks)
            .u32(self.origin_blocks);
        writer.0.extend(self.origin.0);
        writer.u64(self.tail).u64(self.head).end()
    }

    /// Reads one: `None` if there is nothing of the kind.
    pub(crate) fn decode(block: &[u8]) -> Option<Result<Self, OpenError>> {
        if !block.starts_with(SUPER) {
            return None;
        }
        if !holds(block) {
            return Some(Err(OpenError::Damaged("the checksum of a superblock is wrong")));
        }
        let version = u32_at(block, 12);
        if version != VERSION {
            return Some(Err(OpenError::Version(version)));
        }
        let mut origin = OriginId::default();
        origin.0.copy_from_slice(&block[56..72]);
        let it = Self {
            sequence: u64_at(block, 16),
            identity: u64_at(block, 24),
            session: u64_at(block, 32),
            clean: u32_at(block, 40) == 1,
            bucket: u32_at(block, 44),
            cache_blocks: u32_at(block, 48),
            origin_blocks: u32_at(block, 52),
            origin,
            tail: u64_at(block, 72),
            head: u64_at(block, 80),
        };
        let limit = 1 << 62;
        let grows = it.sequence < limit && it.session < limit && it.head < limit && it.tail <= it.head;
        Some(if grows { Ok(it) } else { Err(OpenError::Damaged("a number of a superblock is too large")) })
    }
}

/// A change of what the cache has, or what it has of some places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    /// So many blocks of the origin lie at these places.
    Insert { block: u32, place: u32, count: u16, dirty: bool },
    /// These blocks are not cached.
    Remove { block: u32, count: u32 },
    /// These blocks, if they lie at these places, are dirty no more.
    Clean { block: u32, place: u32, count: u16 },
    /// Nothing lies at these places.
    Reset { place: u32, count: u32 },
    /// Nothing that is clean is cached.
    DropClean,
}

impl Record {
    fn encode(self, out: &mut Vec<u8>) {
        let (kind, flags, count, block, place): (u8, u8, u16, u32, u32) = match self {
            Record::Insert { block, place, count, dirty } => (1, dirty.into(), count, block, place),
            Record::Remove { block, count } => (2, 0, 0, block, count),
            Record::Clean { block, place, count } => (3, 0, count, block, place),
            Record::Reset { place, count } => (4, 0, 0, place, count),
            Record::DropClean => (5, 0, 0, 0, 0),
        };
        out.extend([kind, flags]);
        out.extend(count.to_le_bytes());
        out.extend(block.to_le_bytes());
        out.extend(place.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let count = u16::from_le_bytes([bytes[2], bytes[3]]);
        let (a, b) = (u32_at(bytes, 4), u32_at(bytes, 8));
        Some(match (bytes[0], bytes[1]) {
            (1, flags @ 0..=1) => Record::Insert { block: a, place: b, count, dirty: flags == 1 },
            (2, 0) => Record::Remove { block: a, count: b },
            (3, 0) => Record::Clean { block: a, place: b, count },
            (4, 0) => Record::Reset { place: a, count: b },
            (5, 0) => Record::DropClean,
            _ => return None,
        })
    }
}

/// A block of the journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct JournalBlock {
    /// Its number, from 0 on. Its place is the rest after division by the journal's length.
    pub(crate) number: u64,
    pub(crate) identity: u64,
    pub(crate) session: u64,
    /// All blocks before this number were durable when it was written.
    pub(crate) durable: u64,
    /// After it.
    pub(crate) cycle: Cycle,
    pub(crate) records: Vec<Record>,
}

impl JournalBlock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(JOURNAL)
            .u32(self.records.len() as u32)
            .u64(self.number)
            .u64(self.identity)
            .u64(self.session)
            .u64(self.durable)
            .u64(self.cycle.whole)
            .u64(self.cycle.begun)
            .u32(self.cycle.cursor);
        writer.0.resize(HEADER, 0);
        self.records.iter().for_each(|record| record.encode(&mut writer.0));
        writer.end()
    }

    /// Reads the block with this number, if it is there and whole, and belongs to this cache.
    pub(crate) fn decode(block: &[u8], number: u64, identity: u64) -> Option<Self> {
        if !block.starts_with(JOURNAL) || u64_at(block, 16) != number || u64_at(block, 24) != identity {
            return None;
        }
        let count = u32_at(block, 12) as usize;
        if count > RECORDS || !holds(block) {
            return None;
        }
        let records = block[HEADER..].chunks_exact(RECORD).take(count).map(Record::decode);
        Some(Self {
            number,
            identity,
            session: u64_at(block, 32),
            durable: u64_at(block, 40),
            cycle: Cycle { whole: u64_at(block, 48), begun: u64_at(block, 56), cursor: u32_at(block, 64) },
            records: records.collect::<Option<_>>()?,
        })
    }
}

const _: () = assert!(HEADER + RECORDS * RECORD <= BLOCK as usize && RECORDS > SPAN as usize);
