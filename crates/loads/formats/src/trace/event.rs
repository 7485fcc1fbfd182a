//! What a trace is made of, whatever its format.

use std::io;
use workload::{Nanos, Verb};

/// Most bytes of a read or a write.
const BYTES_MAX: u64 = 1 << 30;

/// In which form a trace is written. The table is in the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// The files of blktrace.
    Blktrace,
    /// blkparse's default output.
    Blkparse,
    /// The traces of MSR Cambridge.
    Msr,
    /// Alibaba's block traces.
    Alibaba,
    /// Tencent's block storage.
    Tencent,
    /// The LUN traces of Systor '17.
    Systor,
    /// Events of the kernel's as text.
    Ftrace,
    /// LTTng's events of the block layer, as babeltrace prints them.
    Lttng,
    /// DFTracer's traces of files, as of MLPerf Storage.
    DfTracer,
    /// Twitter's traces of caches.
    Twitter,
    /// The traces of Meta's CacheLib.
    CacheLib,
    /// fio's iolog, version 2.
    Iolog2,
    /// fio's iolog, version 3.
    Iolog3,
    /// What this drive records.
    Recording,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 14] = [
        Format::Blktrace,
        Format::Blkparse,
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor,
        Format::Ftrace,
        Format::Lttng,
        Format::DfTracer,
        Format::Twitter,
        Format::CacheLib,
        Format::Iolog2,
        Format::Iolog3,
        Format::Recording,
    ];

    /// As it is written where a format is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
            Format::Ftrace => "ftrace",
            Format::Lttng => "lttng",
            Format::DfTracer => "dftracer",
            Format::Twitter => "twitter",
            Format::CacheLib => "cachelib",
            Format::Iolog2 => "iolog2",
            Format::Iolog3 => "iolog3",
            Format::Recording => "recording",
        }
    }

    /// That of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Something that a host did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    /// When, in nanoseconds since the trace's own origin of time; never less than that of the event before.
    pub at: Nanos,
    /// On which device: an index into [`Reader::devices`](super::Reader::devices).
    pub device: u32,
    /// What.
    pub verb: Verb,
    /// From which byte of the device on; 0 for a flush.
    pub offset: u64,
    /// How many bytes; 0 for a flush.
    pub bytes: u64,
}

pub(super) fn number(what: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} is {text:?}: it is a whole number from 0 to {}", u64::MAX))
}

/// An I/O of so many bytes.
pub(super) fn event(at: Nanos, verb: Verb, offset: u64, bytes: u64) -> Result<Event, String> {
    if !matches!(verb, Verb::Trim | Verb::Flush) && bytes > BYTES_MAX {
        return Err(format!("it moves {bytes} bytes: that is more than {BYTES_MAX}"));
    }
    if offset.checked_add(bytes).is_none() {
        return Err(format!("{bytes} bytes from byte {offset} on end beyond the largest address"));
    }
    if let Verb::Copy { from, .. } = verb
        && from.checked_add(bytes).is_none()
    {
        return Err(format!("{bytes} bytes from byte {from} on end beyond the largest address"));
    }
    Ok(Event { at, device: 0, verb, offset, bytes })
}

/// The problem of compressed data that end too early: their decoder asks for more ([`io::ErrorKind::UnexpectedEof`]).
const CUT_SHORT: &str =
    "the compressed data end here, before their own end: the file is damaged, or a part of it is missing";

/// Why a trace cannot be read any further.
pub(super) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => CUT_SHORT.to_owned(),
        _ => format!("it cannot be read: {error}"),
    }
}
