//! Frames: what the log writes with one command. `docs/store-format.md` describes their bytes.

use crc_fast::{CrcAlgorithm, checksum};

use crate::codec::{Reader, Writer};
use crate::device::Shape;

/// Bytes of a frame before its payload.
pub(crate) const HEADER: usize = 64;
const MAGIC: &[u8; 8] = b"TRANCHEL";
/// Where the checksum lies.
const CHECKSUM: std::ops::Range<usize> = 48..56;
/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// What the payload of a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameKind {
    /// The first frame of a zone: a [`Layout`] and the zone's [`Part`] of its epoch.
    Start,
    /// A piece of the stream of records.
    Records,
    /// The snapshot ends here. No payload.
    SnapshotEnd,
}

/// What stands before the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    /// Which store.
    pub(crate) id: [u8; 16],
    /// Which log of it: each begins with a snapshot.
    pub(crate) epoch: u64,
    /// Which frame of the epoch.
    pub(crate) sequence: u64,
}

/// How a store lies on its device. Each zone of the log begins with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a logical block.
    pub block: u32,
    /// Logical blocks from the start of a zone to that of the next.
    pub zone_blocks: u64,
    /// Number of zones.
    pub zones: u32,
    /// Zones of the log: the first of the device.
    pub log_zones: u32,
    /// Zones of data whose space no file can take. Garbage collection needs it.
    pub reserved_zones: u32,
}

impl Layout {
    /// Whether a device has this layout.
    #[must_use]
    pub fn fits(&self, shape: &Shape) -> bool {
        let block = u32::try_from(shape.block);
        block == Ok(self.block) && shape.zone_blocks == self.zone_blocks && shape.zones == self.zones
    }

    /// Payload of the frame that starts a zone.
    pub(crate) fn encode(&self, part: &Part) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        w.u32(VERSION).u32(self.block).u64(self.zone_blocks).u32(self.zones);
        w.u32(self.log_zones).u32(self.reserved_zones).u32(part.index);
        if let Some(first) = part.first {
            let offline = &part.offline[..part.offline.len().min(MAX_OFFLINE)];
            w.u32(first).u32(u32::try_from(offline.len()).unwrap_or(0));
            for zone in offline {
                w.u32(*zone);
            }
        }
        bytes
    }

    /// The layout, and the part of the epoch that a zone is. The error is the version, if it is another one.
    pub(crate) fn decode(payload: &[u8]) -> Option<Result<(Self, Part), u32>> {
        let mut r = Reader(payload);
        let version = r.u32()?;
        if version != VERSION {
            return Some(Err(version));
        }
        let (block, zone_blocks, zones) = (r.u32()?, r.u64()?, r.u32()?);
        let (log_zones, reserved_zones, index) = (r.u32()?, r.u32()?, r.u32()?);
        let (first, offline) = (r.u32(), r.u32().unwrap_or(0));
        let offline = (0..offline).map_while(|_| r.u32()).collect();
        let part = Part { index, first, offline };
        Some(Ok((Self { block, zone_blocks, zones, log_zones, reserved_zones }, part)))
    }
}

/// Zones of the log that a [`Part`] says are offline, at most: what has place in a block of 256 bytes.
const MAX_OFFLINE: usize = 32;

/// Which part of its epoch a zone of the log is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Its index. One is missing if a zone took no frame.
    pub(crate) index: u32,
    /// The first zone of the epoch. It tells apart epochs of one number that two programs began at once. `None`: an older program wrote it.
    pub(crate) first: Option<u32>,
    /// Zones of the log that were offline when the zone was begun. They hold nothing of this epoch.
    pub(crate) offline: Vec<u32>,
}

/// Bytes of a frame with this payload. `block` is the size of a logical block in bytes.
pub(crate) fn length(payload: &[u8], block: usize) -> usize {
    (HEADER + payload.len()).next_multiple_of(block)
}

/// A frame with its payload, padded with zeroes to whole blocks.
pub(crate) fn encode(header: &FrameHeader, payload: &[u8], block: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(length(payload, block));
    frame.extend_from_slice(MAGIC);
    frame.extend_from_slice(&header.id);
    let mut w = Writer(&mut frame);
    w.u64(header.epoch).u64(header.sequence);
    w.u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    let kind = match header.kind {
        FrameKind::Start => 1,
        FrameKind::Records => 2,
        FrameKind::SnapshotEnd => 3,
    };
    w.u32(kind);
    frame.resize(HEADER, 0);
    frame.extend_from_slice(payload);
    let crc = checksum(CrcAlgorithm::Crc64Nvme, &frame);
    frame[CHECKSUM].copy_from_slice(&crc.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(block), 0);
    frame
}

/// The frame at the beginning of these bytes: header and payload. `None` if there is no whole one.
pub(crate) fn decode(bytes: &[u8]) -> Option<(FrameHeader, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let mut r = Reader(head.strip_prefix(MAGIC)?);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&r.u64()?.to_le_bytes());
    id[8..].copy_from_slice(&r.u64()?.to_le_bytes());
    let (epoch, sequence, length, kind) = (r.u64()?, r.u64()?, r.u32()?, r.u32()?);
    let expected = r.u64()?;
    let payload = rest.get(..usize::try_from(length).ok()?)?;
    let mut whole = bytes[..HEADER + payload.len()].to_vec();
    whole[CHECKSUM].fill(0);
    if checksum(CrcAlgorithm::Crc64Nvme, &whole) != expected {
        return None;
    }
    let kind = match kind {
        1 => FrameKind::Start,
        2 => FrameKind::Records,
        3 => FrameKind::SnapshotEnd,
        _ => return None,
    };
    Some((FrameHeader { kind, id, epoch, sequence }, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let header = FrameHeader { kind: FrameKind::Records, id: [3; 16], epoch: 4, sequence: 5 };
        let frame = encode(&header, b"payload", 512);
        assert_eq!(frame.len(), 512);
        assert_eq!(decode(&frame), Some((header, b"payload".as_slice())));
        for at in 0..HEADER + 7 {
            let mut damaged = frame.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
        }
        for length in 0..HEADER + 7 {
            assert_eq!(decode(&frame[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_layout_is_read_as_it_was_written() {
        let layout = Layout { block: 512, zone_blocks: 9, zones: 8, log_zones: 3, reserved_zones: 2 };
        let old = Part { index: 7, first: None, offline: Vec::new() };
        for part in [old.clone(), Part { first: Some(3), offline: vec![1, 2], ..old }] {
            assert_eq!(Layout::decode(&layout.encode(&part)), Some(Ok((layout, part))));
        }
        assert_eq!(Layout::decode(&[9, 0, 0, 0]), Some(Err(9)));
        assert_eq!(Layout::decode(&[1, 0]), None);
    }
}
