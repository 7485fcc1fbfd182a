//! Blocks of the table and of the log.

use super::BLOCK;
use super::checksum;
use crate::chunk::{Cblock, Oblock};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Entries of a block of the table.
pub(crate) const ENTRIES: usize = (BLOCK as usize - size_of::<Header>()) / size_of::<RawEntry>();
/// Records of a block of the log.
pub(crate) const RECORDS: usize = (BLOCK as usize - size_of::<Header>()) / size_of::<RawRecord>();
/// Discards of their block.
pub(crate) const DISCARDS: u64 = 1 << 14;

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Table,
    Discards,
    Log,
}

impl Kind {
    fn magic(self) -> [u8; 8] {
        match self {
            Kind::Table => *b"TRNCTABL",
            Kind::Discards => *b"TRNCDISC",
            Kind::Log => *b"TRNCTLOG",
        }
    }
}

/// The beginning of a block: what it is, of which epoch, and which of its kind.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    checksum: U32,
    /// Entries or records in it.
    count: U16,
    /// Of a block of the log: one more than the blocks before it that were written with it. The others were durable by then.
    before: U16,
    epoch: U64,
    index: U64,
}

/// An entry of the table.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawEntry {
    oblock: U32,
    hint: U16,
    /// Bit 0: there is a chunk; bit 1: it is dirty.
    flags: u8,
    reserved: u8,
}

/// A record of the log.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawRecord {
    cblock: U32,
    oblock: U32,
    kind: u8,
    reserved: [u8; 3],
}

/// What the table says of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) oblock: Oblock,
    pub(crate) dirty: bool,
    pub(crate) hint: u16,
}

/// A change of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    /// A chunk came to a place. It is not dirty in a session whose dirty flags hold.
    Insert(Cblock, Oblock),
    /// A place is empty.
    Remove(Cblock),
    /// A chunk is dirty no more.
    Clean(Cblock),
}

impl Record {
    pub(crate) fn cblock(&self) -> Cblock {
        match self {
            Record::Insert(cblock, _) | Record::Remove(cblock) | Record::Clean(cblock) => *cblock,
        }
    }
}

fn block(
    kind: Kind,
    epoch: u64,
    index: u64,
    (count, before): (usize, u64),
    body: impl Iterator<Item = u8>,
) -> Vec<u8> {
    let header = Header {
        magic: kind.magic(),
        checksum: 0.into(),
        count: (count as u16).into(),
        before: u16::try_from(before).unwrap_or(0).into(),
        epoch: epoch.into(),
        index: index.into(),
    };
    let mut block = Vec::with_capacity(BLOCK as usize);
    block.extend_from_slice(header.as_bytes());
    block.extend(body);
    block.resize(BLOCK as usize, 0);
    checksum::seal(&mut block);
    block
}

/// The header and the body of a block, if it is whole and the one that is expected.
fn open(kind: Kind, epoch: u64, index: u64, block: &[u8]) -> Option<(usize, &[u8])> {
    let (header, body) = Header::ref_from_prefix(block).ok()?;
    let expected = header.magic == kind.magic() && header.epoch == epoch && header.index == index;
    (expected && checksum::holds(block)).then_some((header.count.get() as usize, body))
}

/// A block of the table.
pub(crate) fn encode(epoch: u64, index: u64, entries: impl Iterator<Item = Option<Entry>>) -> Vec<u8> {
    let raw = entries.map(|entry| match entry {
        None => RawEntry::new_zeroed(),
        Some(Entry { oblock, dirty, hint }) => RawEntry {
            oblock: oblock.0.into(),
            hint: hint.into(),
            flags: 1 | u8::from(dirty) << 1,
            reserved: 0,
        },
    });
    let raw: Vec<RawEntry> = raw.collect();
    block(Kind::Table, epoch, index, (raw.len(), 0), raw.as_bytes().iter().copied())
}

/// The entries of a block of the table; `None` if it is damaged, or another block.
pub(crate) fn decode(epoch: u64, index: u64, bytes: &[u8]) -> Option<Vec<Option<Entry>>> {
    let (count, body) = open(Kind::Table, epoch, index, bytes)?;
    let raw = <[RawEntry]>::ref_from_prefix_with_elems(body, count.min(ENTRIES)).ok()?.0;
    let entries = raw.iter().map(|raw| {
        (raw.flags & 1 != 0).then(|| Entry {
            oblock: Oblock(raw.oblock.get()),
            dirty: raw.flags & 2 != 0,
            hint: raw.hint.get(),
        })
    });
    Some(entries.collect())
}

/// The block of discards.
pub(crate) fn encode_discards(epoch: u64, bits: impl Iterator<Item = u8>) -> Vec<u8> {
    block(Kind::Discards, epoch, 0, (0, 0), bits.take(DISCARDS as usize / 8))
}

/// Which blocks of discards are set; `None` if the block is damaged.
pub(crate) fn decode_discards(epoch: u64, bytes: &[u8]) -> Option<Vec<u32>> {
    let (_, body) = open(Kind::Discards, epoch, 0, bytes)?;
    let set = |at: &u32| body[*at as usize / 8] >> (at % 8) & 1 != 0;
    Some((0..DISCARDS as u32).filter(set).collect())
}

/// A block of the log. `first` is the first one that is written with it.
pub(crate) fn encode_log(epoch: u64, index: u64, first: u64, records: &[Record]) -> Vec<u8> {
    let raw = records.iter().map(|record| {
        let (kind, oblock) = match record {
            Record::Insert(_, oblock) => (1, oblock.0),
            Record::Remove(_) => (2, 0),
            Record::Clean(_) => (3, 0),
        };
        RawRecord { cblock: record.cblock().0.into(), oblock: oblock.into(), kind, reserved: [0; 3] }
    });
    let raw: Vec<RawRecord> = raw.collect();
    block(Kind::Log, epoch, index, (records.len(), index - first + 1), raw.as_bytes().iter().copied())
}

/// Blocks of the log before this number were durable when this one was written; `None` if it is damaged, another block, or does not say.
pub(crate) fn durable_before(epoch: u64, index: u64, bytes: &[u8]) -> Option<u64> {
    open(Kind::Log, epoch, index, bytes)?;
    let (header, _) = Header::ref_from_prefix(bytes).ok()?;
    (index + 1).checked_sub(header.before.get().into()).filter(|_| header.before.get() > 0)
}

/// The records of a block of the log; `None` where the log has ended.
pub(crate) fn decode_log(epoch: u64, index: u64, bytes: &[u8]) -> Option<Vec<Record>> {
    let (count, body) = open(Kind::Log, epoch, index, bytes)?;
    let raw = <[RawRecord]>::ref_from_prefix_with_elems(body, count.min(RECORDS)).ok()?.0;
    let records = raw.iter().map(|raw| {
        let cblock = Cblock(raw.cblock.get());
        match raw.kind {
            1 => Some(Record::Insert(cblock, Oblock(raw.oblock.get()))),
            2 => Some(Record::Remove(cblock)),
            3 => Some(Record::Clean(cblock)),
            _ => None,
        }
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let entry = |n: u32| {
            let dirty = n.is_multiple_of(2);
            (!n.is_multiple_of(3)).then_some(Entry { oblock: Oblock(n * 7), dirty, hint: n as u16 })
        };
        let block = encode(5, 2, (0..ENTRIES as u32).map(entry));
        assert_eq!(block.len(), 4096);
        assert_eq!(decode(5, 2, &block), Some((0..ENTRIES as u32).map(entry).collect()));
        assert_eq!(decode(4, 2, &block), None, "another epoch");
        assert_eq!(decode(5, 3, &block), None, "another place");
        let records: Vec<Record> = (0..RECORDS as u32)
            .map(|n| match n % 3 {
                0 => Record::Insert(Cblock(n), Oblock(n + 1)),
                1 => Record::Remove(Cblock(n)),
                _ => Record::Clean(Cblock(n)),
            })
            .collect();
        let mut log = encode_log(5, 0, 0, &records);
        assert_eq!(decode_log(5, 0, &log), Some(records));
        assert_eq!(durable_before(5, 0, &log), Some(0));
        assert_eq!(durable_before(5, 9, &encode_log(5, 9, 7, &[])), Some(7));
        assert_eq!((durable_before(4, 0, &log), durable_before(5, 1, &log)), (None, None));
        log[4000] ^= 1;
        assert_eq!(decode_log(5, 0, &log), None, "torn");
        let discards = encode_discards(5, [3u8, 0, 128].into_iter());
        assert_eq!(decode_discards(5, &discards), Some(vec![0, 1, 23]));
    }
}
