//! Bytes of an image's files, drawn in `docs/image-format.md`. Pure: no files here.
//!
//! Everything is little endian. Everything that is read is checked: a length that does not fit, a checksum that
//! is wrong or an unknown number ends the reading with an error, never with a panic.

use crate::memory::SLOT as PAGE;
use crc_fast::{CrcAlgorithm, checksum};
use device::SPARE_BYTES;
use ftl::{Record, Section, SectorState};
use media::{LogicalPage, Nanos, Page, Slot, Spare, Unit};

/// The version that this program writes, and the newest that it reads. Version 1 had no spare bytes beside contents; up to
/// version 2 there were no checksums of contents, and journals followed each other by an end frame.
pub(crate) const VERSION: u32 = 3;
/// The first version whose journals say what they continue.
pub(crate) const FIRST_LINKED_VERSION: u32 = 3;
/// Bytes of the header of a checkpoint or journal.
pub const HEADER: usize = 80;
/// Bytes 5 to 7 of every frame up to version 2.
const FRAME_MAGIC: [u8; 3] = *b"TRN";
/// Bytes of a frame before its payload.
pub(crate) const FRAME_HEAD: usize = 24;
/// Bytes of a frame around its payload.
pub(crate) const FRAME: usize = FRAME_HEAD + 8;
/// Longest payload of a frame: a checkpoint-sized section still fits, a wild length does not.
pub(crate) const MAX_PAYLOAD: u32 = 1 << 28;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageFileKind {
    /// The drive's state at one moment.
    Checkpoint,
    /// What has changed since.
    Journal,
}

impl ImageFileKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            ImageFileKind::Checkpoint => b"TRNCKPT\n",
            ImageFileKind::Journal => b"TRNJRNL\n",
        }
    }
}

/// The first 80 bytes of a checkpoint or journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the file is.
    pub kind: ImageFileKind,
    /// Version of its form.
    pub version: u32,
    /// Which drive: files of different images never mix.
    pub image: [u8; 16],
    /// Counts up by one with each checkpoint.
    pub generation: u64,
    /// The host's boot during which the file was made, see [`fold_boot`]; [`NO_BOOT`] if it counts as of another boot.
    pub boot: u64,
    /// The drive's clock.
    pub time: Nanos,
    /// Bytes of a checkpoint's body; 0 in a journal.
    pub body: u64,
    /// Checksum of a checkpoint's body; 0 in a journal.
    pub body_crc: u64,
    /// A checkpoint that a clean shutdown left: nothing to recover.
    pub clean: bool,
}

/// Why a file cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// Too short for what it should hold.
    #[error("it ends after {0} bytes, in the middle of what it should hold")]
    Truncated(u64),
    /// Something else than what its name says.
    #[error("it is not a Tranche checkpoint or journal (wrong first bytes)")]
    Foreign,
    /// Made by a newer program.
    #[error("it has format version {0}, this program knows up to {VERSION}: use a newer tranche")]
    Newer(u32),
    /// The checksum says that bytes have changed.
    #[error("its checksum is wrong: bytes have changed since it was written")]
    Checksum,
    /// It belongs to another image or generation.
    #[error("it belongs to another image or generation than its name says")]
    Mixed,
    /// A record that this program does not know.
    #[error("it holds a record of unknown kind {kind} at byte {at}")]
    Unknown {
        /// Tag of the record.
        kind: u8,
        /// Where.
        at: u64,
    },
}

/// The boot of a journal whose image has failed: what was not synced does not count, even if the host still holds it.
pub(crate) const NO_BOOT: u64 = 0;

/// The checksum of headers, bodies and frames.
pub fn crc(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The host's boot identifier in eight bytes: it is only ever compared.
pub(crate) fn fold_boot(id: &[u8]) -> u64 {
    crc(id)
}

impl Header {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut b = [0; HEADER];
        b[0..8].copy_from_slice(self.kind.magic());
        b[8..12].copy_from_slice(&self.version.to_le_bytes());
        b[12..16].copy_from_slice(&u32::from(self.clean).to_le_bytes());
        b[16..32].copy_from_slice(&self.image);
        b[32..40].copy_from_slice(&self.generation.to_le_bytes());
        b[40..48].copy_from_slice(&self.time.0.to_le_bytes());
        b[48..56].copy_from_slice(&self.body.to_le_bytes());
        b[56..64].copy_from_slice(&self.body_crc.to_le_bytes());
        b[64..72].copy_from_slice(&self.boot.to_le_bytes());
        let sum = crc(&b[..72]);
        b[72..80].copy_from_slice(&sum.to_le_bytes());
        b
    }

    /// Reads and checks a header.
    pub fn decode(kind: ImageFileKind, bytes: &[u8]) -> Result<Header, FormatError> {
        let b = bytes.get(..HEADER).ok_or(FormatError::Truncated(bytes.len() as u64))?;
        if &b[..8] != kind.magic() {
            return Err(FormatError::Foreign);
        }
        // The header is laid out the same in every version, so its checksum comes first: a changed version is damage.
        let version = u32_at(b, 8);
        if crc(&b[..72]) != u64_at(b, 72) || version == 0 {
            return Err(FormatError::Checksum);
        }
        if version > VERSION {
            return Err(FormatError::Newer(version));
        }
        let mut image = [0; 16];
        image.copy_from_slice(&b[16..32]);
        Ok(Header {
            kind,
            version,
            image,
            generation: u64_at(b, 32),
            boot: u64_at(b, 64),
            time: Nanos(u64_at(b, 40)),
            body: u64_at(b, 48),
            body_crc: u64_at(b, 56),
            clean: u32_at(b, 12) & 1 != 0,
        })
    }

    /// The salt of the checksums of this journal's frames. With it, a frame of another file, or of a file that once had
    /// these blocks, does not count as one of this file.
    pub fn salt(&self) -> Salt {
        Salt { value: crc(&self.encode()[16..40]), heads: self.version >= FIRST_LINKED_VERSION }
    }
}

/// What makes a frame one of a certain journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salt {
    value: u64,
    /// Whether the heads of frames have checksums of their own.
    pub heads: bool,
}

impl Salt {
    /// Bytes 5 to 7 of a frame's head.
    fn of_head(self, head: &[u8]) -> [u8; 3] {
        if !self.heads {
            return FRAME_MAGIC;
        }
        let mut covered = [0; FRAME_HEAD];
        covered.copy_from_slice(&head[..FRAME_HEAD]);
        covered[5..8].fill(0);
        let sum = (crc(&covered) ^ self.value).to_le_bytes();
        [sum[0], sum[1], sum[2]]
    }
}

/// The bytes of a payload and the sequence number, if an intact head of a frame is there.
pub(crate) fn head_at(journal: &[u8], at: usize, salt: Salt) -> Option<(usize, u64)> {
    let head = journal.get(at..)?.get(..FRAME_HEAD)?;
    let payload = u32_at(head, 0);
    (payload <= MAX_PAYLOAD && head[5..8] == salt.of_head(head)).then(|| (payload as usize, u64_at(head, 8)))
}

/// Kinds of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Records of one step of the drive.
    Step = 1,
    /// Contents and journal up to a place are on the host's disk.
    Sync = 2,
    /// The journal continues in the next generation's: only up to version 2.
    End = 3,
    /// The first of a journal: the place that it continues from.
    Start = 4,
}

/// A place in the chain of journals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark {
    pub generation: u64,
    pub offset: u64,
}

/// Starts a frame at the end of `out`; the payload is appended by the caller, then [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEAD]);
    start
}

/// Completes the frame that began at `start`.
pub fn end_frame(out: &mut Vec<u8>, start: usize, kind: FrameKind, sequence: u64, time: Nanos, salt: Salt) {
    let payload = (out.len() - start - FRAME_HEAD) as u32;
    let head = &mut out[start..start + FRAME_HEAD];
    head[..4].copy_from_slice(&payload.to_le_bytes());
    head[4] = kind as u8;
    head[8..16].copy_from_slice(&sequence.to_le_bytes());
    head[16..24].copy_from_slice(&time.0.to_le_bytes());
    let check = salt.of_head(head);
    head[5..8].copy_from_slice(&check);
    let sum = crc(&out[start..]) ^ salt.value;
    out.extend_from_slice(&sum.to_le_bytes());
}

/// A complete frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frame<'a> {
    /// What it says.
    pub kind: FrameKind,
    /// Its number in the journal, from 0.
    pub sequence: u64,
    /// The drive's clock.
    pub time: Nanos,
    /// What it holds.
    pub payload: &'a [u8],
    /// Where the next one begins.
    pub next: usize,
}

/// The frame at `at`, if a complete and intact one is there.
pub fn frame_at(journal: &[u8], at: usize, sequence: u64, salt: Salt) -> Option<Frame<'_>> {
    let (payload, found) = head_at(journal, at, salt)?;
    if found != sequence {
        return None;
    }
    let end = FRAME_HEAD + payload;
    let whole = journal[at..].get(..end + 8)?;
    if crc(&whole[..end]) ^ salt.value != u64_at(whole, end) {
        return None;
    }
    let kind = match whole[4] {
        1 => FrameKind::Step,
        2 => FrameKind::Sync,
        3 => FrameKind::End,
        4 => FrameKind::Start,
        _ => return None,
    };
    Some(Frame {
        kind,
        sequence,
        time: Nanos(u64_at(whole, 16)),
        payload: &whole[FRAME_HEAD..end],
        next: at + end + 8,
    })
}

/// Appends a place.
pub(crate) fn encode_mark(mark: Mark, out: &mut Vec<u8>) {
    out.extend_from_slice(&mark.generation.to_le_bytes());
    out.extend_from_slice(&mark.offset.to_le_bytes());
}

/// Reads the place at the beginning of a payload.
fn decode_mark(payload: &[u8]) -> Option<Mark> {
    (payload.len() >= 16).then(|| Mark { generation: u64_at(payload, 0), offset: u64_at(payload, 8) })
}

/// Why a journal continues another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Continuation {
    /// The same process went over to the next one: nothing is behind that place.
    Switched = 0,
    /// The image was opened after its process had died.
    Opened = 1,
    /// The image was opened after the host had gone down: all before that place is on the host's disk, contents in their own
    /// files.
    Restored = 2,
}

/// What the first frame of a journal says: where it continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub at: Mark,
    pub how: Continuation,
}

impl Start {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        encode_mark(self.at, out);
        out.push(self.how as u8);
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let how = match *payload.get(16)? {
            0 => Continuation::Switched,
            1 => Continuation::Opened,
            2 => Continuation::Restored,
            _ => return None,
        };
        Some(Start { at: decode_mark(payload)?, how })
    }
}

/// What a sync frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Synced<'a> {
    /// Up to here journal and contents are on the host's disk.
    pub mark: Mark,
    /// Up to here contents are there in their own files. Those that were written between this and `mark` are in this frame and in
    /// the sync frames behind this place.
    pub full: Mark,
    /// Records with contents.
    pub records: &'a [u8],
}

impl<'a> Synced<'a> {
    /// Reads the payload of a sync frame. Up to version 2 it was the first place alone.
    pub(crate) fn decode(payload: &'a [u8]) -> Option<Self> {
        let mark = decode_mark(payload)?;
        match payload.len() {
            16 => Some(Synced { mark, full: mark, records: &[] }),
            _ => Some(Synced { mark, full: decode_mark(&payload[16..])?, records: &payload[32..] }),
        }
    }
}

/// What a record is about: the drive, or the image.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Entry<'a> {
    /// A change of the drive's state.
    Drive(Record<'a>),
    /// The checksum of a slot's page.
    Sum { slot: u32, sum: u32 },
    /// A slot's page.
    Page { slot: u32, bytes: &'a [u8] },
    /// What a slot holds beside its page.
    Beside { slot: u32, bytes: &'a [u8] },
    /// Everything up to here was on the host's disk when this was written.
    Durable(Mark),
}

/// Appends the checksum of a slot's page.
#[inline]
pub(crate) fn encode_sum(slot: u32, sum: u32, out: &mut Vec<u8>) {
    let mut b = [0; 10];
    b[0] = 12;
    b[2..6].copy_from_slice(&slot.to_le_bytes());
    b[6..].copy_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&b);
}

/// Contents in a journal are combined with this byte, by exclusive or. So a sector of them is hardly ever all zeros. A sector of
/// zeros was not written before the host went down.
const MASK: u8 = 0xA6;

fn mask(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().map(|byte| byte ^ MASK));
}

/// The contents that [`encode_page`] or [`encode_beside`] put into a journal.
pub fn unmasked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    mask(bytes, &mut out);
    out
}

/// Appends a slot's page.
pub(crate) fn encode_page(slot: u32, bytes: &[u8; PAGE], out: &mut Vec<u8>) {
    out.extend_from_slice(&[13, 0]);
    out.extend_from_slice(&slot.to_le_bytes());
    mask(bytes, out);
}

/// Appends what a slot holds beside its page.
pub(crate) fn encode_beside(slot: u32, bytes: &[u8; SPARE_BYTES], out: &mut Vec<u8>) {
    out.extend_from_slice(&[14, 0]);
    out.extend_from_slice(&slot.to_le_bytes());
    mask(bytes, out);
}

/// Appends the place up to which everything is on the host's disk.
pub(crate) fn encode_durable(mark: Mark, out: &mut Vec<u8>) {
    out.extend_from_slice(&[15, 0]);
    encode_mark(mark, out);
}

/// Appends a record.
pub(crate) fn encode(record: &Record<'_>, out: &mut Vec<u8>) {
    let head = |out: &mut Vec<u8>, tag: u8, set: u8, number: u32| {
        out.extend_from_slice(&[tag, set]);
        out.extend_from_slice(&number.to_le_bytes());
    };
    match *record {
        Record::Program { set, unit, spares } => {
            head(out, 1, set, unit.0);
            out.extend_from_slice(&(spares.len() as u32).to_le_bytes());
            for spare in spares {
                encode_spare(spare, out);
            }
        }
        Record::Spoil { set, unit } => head(out, 2, set, unit.0),
        Record::Erase { set, unit } => head(out, 3, set, unit.0),
        Record::Retire { set, unit } => head(out, 4, set, unit.0),
        Record::Buffer { set, ref spare } => {
            out.extend_from_slice(&[5, set]);
            encode_spare(spare, out);
        }
        Record::Place { set, page, ref spare } => {
            head(out, 6, set, page.0);
            encode_spare(spare, out);
        }
        Record::Trim { set, first, count, version, gone } => {
            head(out, 7, set, first);
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(&version.to_le_bytes());
            out.push(u8::from(gone));
        }
        Record::Open { set, superblock, writer } => {
            head(out, 9, set, superblock);
            out.push(writer);
        }
        Record::Lose { set } => out.extend_from_slice(&[10, set]),
        Record::Clear { set, first, count } => {
            head(out, 11, set, first);
            out.extend_from_slice(&count.to_le_bytes());
        }
        Record::Zone { set, volume, zone, bytes } => {
            let len = bytes.len() as u16;
            debug_assert_eq!(usize::from(len), bytes.len(), "the translation layer bounds what it encodes");
            head(out, 16, set, zone);
            out.extend_from_slice(&volume.to_le_bytes());
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(&bytes[..usize::from(len)]);
        }
        Record::Sectors { set, first, count, state } => {
            head(out, 17, set, count);
            out.extend_from_slice(&first.to_le_bytes());
            let (kind, revolutions) = match state {
                SectorState::Good => (0, 0),
                SectorState::Unreadable => (1, 0),
                SectorState::Slow(revolutions) => (2, revolutions),
            };
            out.push(kind);
            out.extend_from_slice(&revolutions.to_le_bytes());
        }
        Record::Section { kind, bytes } => {
            head(out, 8, kind as u8, bytes.len() as u32);
            out.extend_from_slice(bytes);
        }
    }
}

#[inline]
fn encode_spare(spare: &Spare, out: &mut Vec<u8>) {
    let mut b = [0; 16];
    b[..4].copy_from_slice(&spare.page.0.to_le_bytes());
    b[4..12].copy_from_slice(&spare.version.to_le_bytes());
    b[12..].copy_from_slice(&spare.slot.0.to_le_bytes());
    out.extend_from_slice(&b);
}

/// Reads the records of a step's payload in order.
pub(crate) struct Records<'a> {
    rest: &'a [u8],
    whole: usize,
    spares: Vec<Spare>,
}

impl<'a> Records<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Records { rest: payload, whole: payload.len(), spares: Vec::new() }
    }

    /// The next record; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Result<Entry<'_>, FormatError>> {
        (!self.rest.is_empty()).then(|| self.decode())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        if self.rest.len() < count {
            return Err(FormatError::Truncated(self.whole as u64));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    fn decode(&mut self) -> Result<Entry<'_>, FormatError> {
        let at = (self.whole - self.rest.len()) as u64;
        let head = self.take(2)?;
        let (tag, set) = (head[0], head[1]);
        Ok(match tag {
            12 => Entry::Sum { slot: self.u32()?, sum: self.u32()? },
            13 => Entry::Page { slot: self.u32()?, bytes: self.take(PAGE)? },
            14 => Entry::Beside { slot: self.u32()?, bytes: self.take(SPARE_BYTES)? },
            15 => {
                let mark = self.take(16)?;
                Entry::Durable(Mark { generation: u64_at(mark, 0), offset: u64_at(mark, 8) })
            }
            _ => Entry::Drive(self.decode_change(tag, set, at)?),
        })
    }

    fn decode_change(&mut self, tag: u8, set: u8, at: u64) -> Result<Record<'_>, FormatError> {
        Ok(match tag {
            1 => {
                let unit = Unit(self.u32()?);
                let count = self.u32()? as usize;
                let bytes = self.take(count.checked_mul(16).ok_or(FormatError::Truncated(at))?)?;
                self.spares.clear();
                self.spares.extend(bytes.chunks_exact(16).map(decode_spare));
                Record::Program { set, unit, spares: &self.spares }
            }
            2 => Record::Spoil { set, unit: Unit(self.u32()?) },
            3 => Record::Erase { set, unit: Unit(self.u32()?) },
            4 => Record::Retire { set, unit: Unit(self.u32()?) },
            5 => Record::Buffer { set, spare: decode_spare(self.take(16)?) },
            6 => Record::Place { set, page: Page(self.u32()?), spare: decode_spare(self.take(16)?) },
            7 => {
                let first = self.u32()?;
                let count = self.u32()?;
                let rest = self.take(9)?;
                Record::Trim { set, first, count, version: u64_at(rest, 0), gone: rest[8] != 0 }
            }
            8 => {
                let kind = match set {
                    1 => Section::Volumes,
                    2 => Section::Controller,
                    kind => return Err(FormatError::Unknown { kind, at }),
                };
                let len = self.u32()? as usize;
                Record::Section { kind, bytes: self.take(len)? }
            }
            9 => Record::Open { set, superblock: self.u32()?, writer: self.take(1)?[0] },
            10 => Record::Lose { set },
            11 => Record::Clear { set, first: self.u32()?, count: self.u32()? },
            16 => {
                let zone = self.u32()?;
                let (volume, len) = (self.u16()?, self.u16()?);
                Record::Zone { set, volume, zone, bytes: self.take(usize::from(len))? }
            }
            17 => {
                let count = self.u32()?;
                let rest = self.take(13)?;
                let (first, revolutions) = (u64_at(rest, 0), u32_at(rest, 9));
                let state = match rest[8] {
                    0 => SectorState::Good,
                    1 => SectorState::Unreadable,
                    2 => SectorState::Slow(revolutions),
                    kind => return Err(FormatError::Unknown { kind, at }),
                };
                Record::Sectors { set, first, count, state }
            }
            kind => return Err(FormatError::Unknown { kind, at }),
        })
    }

    fn u16(&mut self) -> Result<u16, FormatError> {
        self.take(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
    }

    fn u32(&mut self) -> Result<u32, FormatError> {
        self.take(4).map(|b| u32_at(b, 0))
    }
}

fn decode_spare(b: &[u8]) -> Spare {
    Spare { page: LogicalPage(u32_at(b, 0)), version: u64_at(b, 4), slot: Slot(u32_at(b, 12)) }
}

/// The caller has checked the length.
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// The caller has checked the length.
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) | u64::from(u32_at(b, at + 4)) << 32
}

/// Reads `bytes` as a checkpoint and as a journal, all the way down to the records, and tells how many
/// records there were: what a fuzzer calls.
pub fn fuzz_open(bytes: &[u8]) -> usize {
    let mut seen = usize::from(Header::decode(ImageFileKind::Checkpoint, bytes).is_ok());
    // Without a valid header a fuzzer would never get past the checksum: records are tried on their own.
    let none = Salt { value: 0, heads: false };
    let salt = Header::decode(ImageFileKind::Journal, bytes).map_or(none, |h| h.salt());
    let (mut at, mut sequence) = (HEADER, 0);
    while let Some(frame) = frame_at(bytes, at, sequence, salt) {
        seen += count_records(frame.payload);
        at = frame.next;
        sequence += 1;
    }
    seen + count_records(bytes)
        + Synced::decode(bytes).map_or(0, |synced| count_records(synced.records))
        + usize::from(Start::decode(bytes).is_some())
}

fn count_records(payload: &[u8]) -> usize {
    let mut records = Records::new(payload);
    let mut seen = 0;
    while let Some(Ok(_)) = records.next() {
        seen += 1;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: ImageFileKind::Journal,
            version: VERSION,
            image: [7; 16],
            generation: 3,
            boot: 1,
            time: Nanos(5),
            body: 0,
            body_crc: 0,
            clean: false,
        }
    }

    fn spare(n: u32) -> Spare {
        Spare { page: LogicalPage(n), version: u64::from(n) << 33, slot: Slot(n + 1) }
    }

    #[test]
    fn a_header_survives_and_every_changed_bit_is_found() {
        let bytes = header().encode();
        let back = Header::decode(ImageFileKind::Journal, &bytes).unwrap();
        assert_eq!(back, header());
        assert_eq!(Header::decode(ImageFileKind::Checkpoint, &bytes), Err(FormatError::Foreign));
        assert_eq!(Header::decode(ImageFileKind::Journal, &bytes[..79]), Err(FormatError::Truncated(79)));
        for bit in 0..HEADER * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(ImageFileKind::Journal, &changed).is_err(), "bit {bit}");
        }
        let newer = Header { version: VERSION + 1, ..header() }.encode();
        assert_eq!(Header::decode(ImageFileKind::Journal, &newer), Err(FormatError::Newer(VERSION + 1)));
    }

    #[test]
    fn records_survive() {
        let spares = [spare(1), spare(2), Spare::EMPTY];
        // The longest that a zone's record can be.
        let zone = [5; 16 + ftl::MAX_ZONE_EXTENSION];
        let records = [
            Record::Program { set: 0, unit: Unit(9), spares: &spares },
            Record::Spoil { set: 1, unit: Unit(8) },
            Record::Erase { set: 2, unit: Unit(7) },
            Record::Retire { set: 3, unit: Unit(6) },
            Record::Open { set: 1, superblock: 77, writer: 3 },
            Record::Buffer { set: 4, spare: spare(5) },
            Record::Lose { set: 4 },
            Record::Clear { set: 5, first: 7, count: 9 },
            Record::Place { set: 5, page: Page(4), spare: spare(6) },
            Record::Trim { set: 6, first: 1, count: 2, version: 3, gone: true },
            Record::Section { kind: Section::Controller, bytes: b"hello" },
            Record::Zone { set: 7, volume: 1023, zone: 1 << 20, bytes: &zone },
            Record::Zone { set: 0, volume: 0, zone: 0, bytes: &[] },
            Record::Sectors { set: 2, first: 1 << 33, count: 7, state: SectorState::Unreadable },
            Record::Sectors { set: 2, first: 3, count: 1, state: SectorState::Slow(9) },
            Record::Sectors { set: 0, first: 0, count: 1, state: SectorState::Good },
        ];
        let salts = [(123, true), (123, false), (124, true)].map(|(value, heads)| Salt { value, heads });
        let mut out = Vec::new();
        let start = begin_frame(&mut out);
        for record in &records {
            encode(record, &mut out);
        }
        end_frame(&mut out, start, FrameKind::Step, 4, Nanos(77), salts[0]);
        let frame = frame_at(&out, 0, 4, salts[0]).unwrap();
        assert_eq!((frame.kind, frame.time, frame.next), (FrameKind::Step, Nanos(77), out.len()));
        let mut back = Records::new(frame.payload);
        for record in &records {
            assert_eq!(back.next().unwrap().unwrap(), Entry::Drive(*record));
        }
        assert!(back.next().is_none());
        assert!(frame_at(&out, 0, 5, salts[0]).is_none(), "another sequence number");
        assert!(frame_at(&out, 0, 4, salts[1]).is_none(), "of an earlier version");
        assert!(frame_at(&out, 0, 4, salts[2]).is_none(), "another file");
        for cut in 0..out.len() {
            assert!(frame_at(&out[..cut], 0, 4, salts[0]).is_none());
        }
    }

    #[test]
    fn records_of_the_image_survive() {
        let (page, beside) = ([3; PAGE], [4; SPARE_BYTES]);
        let mark = Mark { generation: 5, offset: 6 };
        let mut out = Vec::new();
        encode_mark(mark, &mut out);
        encode_mark(Mark { generation: 1, offset: 2 }, &mut out);
        encode_sum(1, 2, &mut out);
        encode_page(3, &page, &mut out);
        encode_beside(4, &beside, &mut out);
        encode_durable(mark, &mut out);
        let synced = Synced::decode(&out).unwrap();
        assert_eq!((synced.mark, synced.full), (mark, Mark { generation: 1, offset: 2 }));
        let mut back = Records::new(synced.records);
        let entries = [
            Entry::Sum { slot: 1, sum: 2 },
            Entry::Page { slot: 3, bytes: &unmasked(&page) },
            Entry::Beside { slot: 4, bytes: &unmasked(&beside) },
            Entry::Durable(mark),
        ];
        for entry in entries {
            assert_eq!(back.next().unwrap().unwrap(), entry);
        }
        assert!(back.next().is_none());
        assert_eq!(Synced::decode(&out[..16]).unwrap().full, mark, "of version 2");
        assert_eq!(Synced::decode(&out[..20]), None);
    }

    #[test]
    fn wild_bytes_are_survived() {
        let mut state = 0x1234_5678_u64;
        for len in 0..600 {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Small numbers reach more of the records than even ones.
                    let byte = state.to_le_bytes()[7];
                    if byte < 128 { byte % 18 } else { byte }
                })
                .collect();
            fuzz_open(&bytes);
        }
    }
}
