//! Bytes to send: headers of our own making between pieces of the commands' buffers.

use std::collections::VecDeque;

use zerocopy::{Immutable, IntoBytes};

use crate::Part;
use crate::digest::{RunningDigest, crc32c};
use crate::pdu::{CommonHeader, Fault, Format, PduType, TermReq};

#[derive(Clone, Copy, Debug)]
enum Segment {
    /// The next bytes of `heads`.
    Head { len: usize },
    /// Part of the data of the command in this slot.
    Data { slot: u16, start: u32, len: u32 },
    /// Bytes that only the caller knows.
    Away { token: u32, start: u32, len: u32 },
}

impl Segment {
    fn len(self) -> usize {
        match self {
            Segment::Head { len } => len,
            Segment::Data { len, .. } | Segment::Away { len, .. } => {
                usize::try_from(len).unwrap_or(usize::MAX)
            }
        }
    }
}

/// `len` bytes from `start` on, as far as they are there.
fn part(bytes: &[u8], start: u32, len: u32) -> &[u8] {
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
    bytes.get(start..end).unwrap_or_default()
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    heads: Vec<u8>,
    /// Bytes of `heads` that have been sent.
    heads_sent: usize,
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that have been sent.
    first_sent: usize,
    /// Bytes that were ever queued, and that were ever sent.
    queued: u64,
    sent: u64,
    /// Slots that wait until so many bytes were sent in all.
    marks: VecDeque<(u64, u16)>,
}

impl Outbox {
    fn head(&mut self, bytes: &[u8]) {
        self.heads.extend_from_slice(bytes);
        self.queued += bytes.len() as u64;
        if let Some(Segment::Head { len }) = self.segments.back_mut() {
            *len += bytes.len();
        } else {
            self.segments.push_back(Segment::Head { len: bytes.len() });
        }
    }

    /// A PDU without data.
    pub fn plain(&mut self, pdu: &(impl IntoBytes + Immutable), format: Format) {
        self.head(pdu.as_bytes());
        if format.hdgst {
            self.head(&crc32c(pdu.as_bytes()));
        }
    }

    /// A PDU with data; its common header says already where the data starts. `data` is what `start` of the
    /// slot's buffer holds, for the digest.
    pub fn with_data(
        &mut self,
        pdu: &(impl IntoBytes + Immutable),
        ch: CommonHeader,
        format: Format,
        slot: u16,
        start: u32,
        data: &[u8],
    ) {
        self.before_data(pdu, ch, format);
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.segments.push_back(Segment::Data { slot, start, len });
        self.queued += u64::from(len);
        if format.ddgst {
            self.head(&crc32c(data));
        }
    }

    fn before_data(&mut self, pdu: &(impl IntoBytes + Immutable), ch: CommonHeader, format: Format) {
        self.plain(pdu, format);
        let gathered = usize::from(ch.hlen) + if format.hdgst { 4 } else { 0 };
        let padding = usize::from(ch.pdo).saturating_sub(gathered);
        if padding > 0 {
            self.head(&[0; 128][..padding.min(128)]);
        }
    }

    /// As [`Outbox::with_data`], for data in parts: some in the slot's `buffer`, some in the caller's memory, which tokens name.
    pub fn with_parts<'a>(
        &mut self,
        pdu: &(impl IntoBytes + Immutable),
        ch: CommonHeader,
        format: Format,
        (slot, buffer): (u16, &[u8]),
        parts: &[Part],
        contents: impl Fn(u32) -> &'a [u8],
    ) {
        self.before_data(pdu, ch, format);
        for &part in parts {
            let (segment, len) = match part {
                Part::Own { start, len } => (Segment::Data { slot, start, len }, len),
                Part::Away { token, start, len } => (Segment::Away { token, start, len }, len),
            };
            self.segments.push_back(segment);
            self.queued += u64::from(len);
        }
        if format.ddgst {
            let mut digest = RunningDigest::new();
            for &of in parts {
                match of {
                    Part::Own { start, len } => digest.update(part(buffer, start, len)),
                    Part::Away { token, start, len } => digest.update(part(contents(token), start, len)),
                }
            }
            self.head(&digest.finish());
        }
    }

    /// When everything so far has been sent, [`Outbox::sent`] reports this slot.
    pub fn mark(&mut self, slot: u16) {
        self.marks.push_back((self.queued, slot));
    }

    /// A termination request with the header that was wrong.
    pub fn terminate(&mut self, kind: PduType, fault: &Fault, evidence: &[u8]) {
        let mut ch = CommonHeader::new(kind, false);
        ch.plen.set(24 + u32::try_from(evidence.len()).unwrap_or(0));
        let pdu = TermReq { ch, fes: fault.fes, fei: nvme::U32::new(fault.fei), rsvd14: [0; 10] };
        self.head(pdu.as_bytes());
        self.head(evidence);
    }

    /// Bytes that were ever sent.
    pub fn bytes_sent(&self) -> u64 {
        self.sent
    }

    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The bytes to send, in order. `data` gives the buffer of a slot, `contents` what the caller's token names.
    pub fn slices<'a>(
        &'a self,
        data: impl Fn(u16) -> &'a [u8] + 'a,
        contents: impl Fn(u32) -> &'a [u8] + 'a,
    ) -> impl Iterator<Item = &'a [u8]> + 'a {
        let mut heads = &self.heads[self.heads_sent..];
        let mut skip = self.first_sent;
        self.segments.iter().map(move |segment| {
            let skipped = std::mem::take(&mut skip);
            match *segment {
                Segment::Head { len } => {
                    // What was sent of this segment has left `heads` already.
                    let (head, rest) = heads.split_at((len - skipped).min(heads.len()));
                    heads = rest;
                    head
                }
                Segment::Data { slot, start, len } => {
                    part(data(slot), start, len).get(skipped..).unwrap_or_default()
                }
                Segment::Away { token, start, len } => {
                    part(contents(token), start, len).get(skipped..).unwrap_or_default()
                }
            }
        })
    }

    /// Notes that `bytes` of the slices have been sent. Slots whose mark was passed go to `passed`, tokens that
    /// are not needed any more to `ended`.
    pub fn sent(&mut self, mut bytes: usize, mut passed: impl FnMut(u16), mut ended: impl FnMut(u32)) {
        self.sent += bytes as u64;
        while let Some(&(at, slot)) = self.marks.front()
            && at <= self.sent
        {
            self.marks.pop_front();
            passed(slot);
        }
        while let Some(&segment) = self.segments.front() {
            let len = segment.len();
            let now = bytes.min(len - self.first_sent);
            bytes -= now;
            self.first_sent += now;
            if matches!(segment, Segment::Head { .. }) {
                self.heads_sent += now;
            }
            if self.first_sent < len {
                break;
            }
            self.first_sent = 0;
            self.segments.pop_front();
            if let Segment::Away { token, .. } = segment {
                ended(token);
            }
        }
        if self.heads_sent == self.heads.len() {
            self.heads.clear();
            self.heads_sent = 0;
        } else if self.heads_sent > 64 * 1024 {
            self.heads.drain(..self.heads_sent);
            self.heads_sent = 0;
        }
    }

    /// Gives memory back, if there is nothing to send.
    pub fn trim(&mut self) {
        if self.is_empty() {
            self.heads = Vec::new();
            self.segments = VecDeque::new();
            self.marks.shrink_to_fit();
        }
    }

    /// Nothing more is sent: all tokens go to `ended`.
    pub fn abandon(&mut self, mut ended: impl FnMut(u32)) {
        for segment in self.segments.drain(..) {
            if let Segment::Away { token, .. } = segment {
                ended(token);
            }
        }
        *self = Outbox::default();
    }
}
