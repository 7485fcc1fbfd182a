//! The files of blktrace: records as the kernel writes them, a file for each processor (`linux/blktrace_api.h`).

use super::event::unreadable;
use super::line::{Action, Line};
use super::rwbs::Rwbs;
use std::io::{self, BufRead, ErrorKind};
use workload::{Nanos, Verb};

/// Bytes of a record.
const RECORD: usize = 48;
/// Bytes of the sectors in which places count.
const SECTOR_BYTES: u32 = 512;
/// The first word of a record, without the version in its lowest byte.
const MAGIC: u32 = 0x6561_7400;
/// The version that is read.
const VERSION: u8 = 7;

/// Actions, in the lower half of the word.
mod action {
    pub(super) const QUEUE: u32 = 1;
    pub(super) const ISSUE: u32 = 7;
    /// The action has the control group behind it.
    pub(super) const CGROUP: u32 = 1 << 8;
}

/// Categories, in the upper half of the word.
mod category {
    pub(super) const WRITE: u32 = 1 << 1;
    pub(super) const FLUSH: u32 = 1 << 2;
    pub(super) const PASSTHROUGH: u32 = 1 << 9;
    pub(super) const NOTIFY: u32 = 1 << 10;
    pub(super) const DISCARD: u32 = 1 << 13;
    pub(super) const FUA: u32 = 1 << 15;
}

/// Whether a text begins as a file of blktrace does, of any version and any byte order.
#[must_use]
pub fn begins(bytes: &[u8]) -> bool {
    let Some(word) = bytes.first_chunk() else { return false };
    [u32::from_le_bytes(*word), u32::from_be_bytes(*word)].iter().any(|word| word & !0xFF == MAGIC)
}

/// One thing that the kernel noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Counted for each processor, from 1. Notes have none.
    sequence: u32,
    pub time: Nanos,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
}

impl Record {
    fn parse(bytes: &[u8; RECORD], big: bool) -> (Self, usize) {
        let at = |at: usize| bytes[at..].first_chunk::<4>().map_or(0, |word| order(*word, big));
        let long = |low: usize| {
            let (first, second) = (u64::from(at(low)), u64::from(at(low + 4)));
            if big { first << 32 | second } else { second << 32 | first }
        };
        // The last word is the error and the length of what follows.
        let follows = if big { at(44) & 0xFFFF } else { at(44) >> 16 };
        let record = Record {
            sequence: at(4),
            time: long(8),
            sector: long(16),
            bytes: at(24),
            action: at(28),
            device: at(36),
        };
        (record, follows as usize)
    }

    /// The device as blkparse writes it.
    pub fn device(&self) -> String {
        format!("{},{}", self.device >> 20, self.device & 0xF_FFFF)
    }

    /// What it says, if this action counts. `device` is [its own](Self::device).
    pub fn say<'a>(&self, wanted: Action, device: &'a str) -> Result<Line<'a>, String> {
        let is = |category: u32| self.action >> 16 & category != 0;
        let found = match self.action & 0xFFFF & !action::CGROUP {
            _ if is(category::NOTIFY) => return Ok(Line::Ignored),
            action::QUEUE => Action::Queued,
            action::ISSUE => Action::Issued,
            _ => return Ok(Line::Ignored),
        };
        if found != wanted {
            return Ok(Line::OtherAction);
        }
        let verb = match () {
            () if is(category::PASSTHROUGH) => return Ok(Line::Ignored),
            () if is(category::DISCARD) => Verb::Trim,
            () if is(category::WRITE) && is(category::FUA) => Verb::WriteFua,
            () if is(category::WRITE) => Verb::Write,
            () => Verb::Read,
        };
        let kind = Rwbs { flushes: is(category::FLUSH), verb: Some(verb) };
        kind.line(self.time, device, self.sector, (self.bytes / SECTOR_BYTES).into())
    }
}

/// A word in the byte order of the machine that wrote it.
fn order(word: [u8; 4], big: bool) -> u32 {
    if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

/// The records of one processor.
#[derive(Clone, Debug)]
struct Stream<R> {
    input: R,
    /// The record that comes next.
    head: Option<Record>,
    /// The number of the last one that had any.
    sequence: u32,
}

/// The records of all processors, in the order of their times.
#[derive(Clone, Debug)]
pub(super) struct Records<R> {
    streams: Vec<Stream<R>>,
    count: u64,
    /// How many of them end in the middle of a record.
    cut: u64,
    /// Records that are missing by their numbers.
    missing: u64,
}

impl<R: BufRead> Records<R> {
    pub fn new(inputs: Vec<R>) -> Result<Self, String> {
        let streams = inputs.into_iter().map(|input| Stream { input, head: None, sequence: 0 }).collect();
        let mut records = Records { streams, count: 0, cut: 0, missing: 0 };
        for at in 0..records.streams.len() {
            records.advance(at)?;
        }
        Ok(records)
    }

    /// Records so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Files so far that end in the middle of a record.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Records so far that are missing between others of their processor. The kernel drops records that no program takes in time.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The next record of all.
    pub fn next(&mut self) -> Result<Option<Record>, String> {
        let heads = self.streams.iter().enumerate();
        let times = heads.filter_map(|(at, stream)| stream.head.map(|head| (head.time, at)));
        let Some((_, at)) = times.min() else { return Ok(None) };
        let record = self.streams[at].head;
        self.count += 1;
        self.advance(at)?;
        Ok(record)
    }

    /// Reads on in a file.
    fn advance(&mut self, at: usize) -> Result<(), String> {
        let stream = &mut self.streams[at];
        stream.head = None;
        let mut bytes = [0; RECORD];
        let length = fill(&mut stream.input, &mut bytes)?;
        if length < RECORD {
            self.cut += u64::from(length > 0);
            return Ok(());
        }
        let word = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let (little, big) = (order(word, false), order(word, true));
        let (magic, is_big) = if little & !0xFF == MAGIC { (little, false) } else { (big, true) };
        if magic & !0xFF != MAGIC {
            return Err("this is no record of blktrace: the file is damaged".to_owned());
        }
        let version = magic as u8;
        if version != VERSION {
            return Err(format!("this is version {version} of blktrace's format: version {VERSION} is read"));
        }
        let (record, follows) = Record::parse(&bytes, is_big);
        let mut rest = vec![0; follows];
        if fill(&mut stream.input, &mut rest)? < follows {
            self.cut += 1;
        }
        if record.action >> 16 & category::NOTIFY == 0 && record.sequence > 0 {
            let last = std::mem::replace(&mut stream.sequence, record.sequence);
            let next = last.saturating_add(1);
            self.missing += if last > 0 { u64::from(record.sequence.saturating_sub(next)) } else { 0 };
        }
        stream.head = Some(record);
        Ok(())
    }
}

/// Reads as much as there is. Returns how much that is.
fn fill(input: &mut impl io::Read, bytes: &mut [u8]) -> Result<usize, String> {
    let mut length = 0;
    while length < bytes.len() {
        match input.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(&error)),
        }
    }
    Ok(length)
}
