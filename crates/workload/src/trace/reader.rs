//! Traces as streams of events.

use super::event::{Event, Format};
use super::formats::{self, Line};
use super::recording::{self, Latencies};
use crate::Nanos;
use std::fmt;
use std::io::{self, BufRead};

/// Longest line, in bytes.
pub const LINE_MAX: usize = 4096;
/// Most devices of a trace.
pub const DEVICES_MAX: usize = 65_536;
/// Most remarks with latencies of a recording that are kept.
const LATENCIES_MAX: usize = 65_536;
/// What a text in UTF-8 may begin with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// What is wrong with compressed data whose decoder asks for more than there is ([`io::ErrorKind::UnexpectedEof`]).
const CUT_SHORT: &str =
    "the compressed data end here, before their own end: the file is damaged, or a part of it is missing";
/// Longest name of a device, in bytes.
const NAME_MAX: usize = 255;

/// What is wrong with a trace, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// Line, counted from 1.
    pub line: u64,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for TraceError {}

impl Format {
    /// By the first line of the trace.
    #[must_use]
    pub fn detect(first: &str) -> Option<Format> {
        let first = first.trim();
        let fields: Vec<&str> = first.split(',').map(str::trim).collect();
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let device = first.split_ascii_whitespace().next().unwrap_or("");
        match first {
            formats::IOLOG_2 => Some(Format::Iolog2),
            formats::IOLOG_3 => Some(Format::Iolog3),
            recording::HEAD | recording::HEAD_1 | recording::HEAD_2 => Some(Format::Recording),
            _ if first.len() > device.len()
                && device.split_once(',').is_some_and(|(major, minor)| digits(major) && digits(minor)) =>
            {
                Some(Format::Blkparse)
            }
            _ => match fields[..] {
                [_, _, _, _, _, _, _] => Some(Format::Msr),
                // Where Alibaba's have a letter, Tencent's have a number.
                [time, offset, _, "0" | "1", _]
                    if digits(offset) && time.starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    Some(Format::Tencent)
                }
                ["Timestamp", "Offset", ..] if fields.len() == 5 => Some(Format::Tencent),
                [_, _, _, _, _] => Some(Format::Alibaba),
                [_, _, "R" | "W" | "" | "IOType", _, _, _] => Some(Format::Systor),
                _ => None,
            },
        }
    }
}

/// The events of a trace, one after the other.
#[derive(Clone, Debug)]
pub struct Reader<R> {
    input: R,
    format: Format,
    /// blkparse's action that counts.
    action: u8,
    line: u64,
    buffer: Vec<u8>,
    /// A line that is in the buffer and not yet taken: the one by which the format was known.
    pending: bool,
    /// Names of the devices, and their numbers sorted by name.
    devices: Vec<String>,
    by_name: Vec<u32>,
    last: Nanos,
    waited: Nanos,
    /// blkparse's summary has begun.
    summary: bool,
    ended: bool,
    cut: Option<u64>,
    reordered: u64,
    ignored: u64,
    latencies: Vec<Latencies>,
}

impl<R: BufRead> Reader<R> {
    /// A trace of this format, or of the one that its first line is of. `action` is the one of blkparse's actions that counts: `Q` (as it
    /// came to the block layer), if not given, or `D` (as it went to the device).
    ///
    /// # Errors
    /// The trace cannot be read, is empty, or is of no known format.
    pub fn new(input: R, format: Option<Format>, action: Option<char>) -> Result<Self, TraceError> {
        let action = match action {
            None | Some('Q') => b'Q',
            Some('D') => b'D',
            Some(other) => {
                let problem = format!("{other:?} is no action of blkparse that can be replayed: use Q or D");
                return Err(TraceError { line: 1, problem });
            }
        };
        let mut reader = Reader {
            input,
            format: format.unwrap_or(Format::Blkparse),
            action,
            line: 0,
            buffer: Vec::with_capacity(256),
            pending: false,
            devices: Vec::new(),
            by_name: Vec::new(),
            last: 0,
            waited: 0,
            summary: false,
            ended: false,
            cut: None,
            reordered: 0,
            ignored: 0,
            latencies: Vec::new(),
        };
        reader.open(format)?;
        Ok(reader)
    }

    /// Looks at the first line.
    fn open(&mut self, format: Option<Format>) -> Result<(), TraceError> {
        loop {
            if !self.fill()? {
                return Err(self.wrong("the trace is empty"));
            }
            let first = String::from_utf8_lossy(&self.buffer).into_owned();
            let first = first.trim();
            if first.is_empty() && !self.ended {
                continue;
            }
            let found = Format::detect(first);
            self.format = match format.or(found) {
                Some(format) => format,
                None => {
                    return Err(self.wrong(
                        "this is no trace that is known: there are blkparse's text, the CSV of MSR Cambridge, Alibaba, Tencent and \
                         Systor '17, fio's iolog (versions 2 and 3) and recordings",
                    ));
                }
            };
            let head = match self.format {
                Format::Iolog2 => Some(formats::IOLOG_2),
                Format::Iolog3 => Some(formats::IOLOG_3),
                Format::Recording => Some(recording::HEAD),
                Format::Blkparse | Format::Msr | Format::Alibaba | Format::Tencent | Format::Systor => None,
            };
            match head {
                Some(_) if self.format == Format::Recording && found == Some(Format::Recording) => {}
                Some(head) if first != head => {
                    return Err(self.wrong(&format!("it starts with {head:?}")));
                }
                Some(_) => {}
                None => self.pending = !formats::is_head(self.format, first),
            }
            return Ok(());
        }
    }

    fn wrong(&self, problem: &str) -> TraceError {
        TraceError { line: self.line.max(1), problem: problem.to_owned() }
    }

    /// Has the next line in the buffer, without the mark that some programs of Windows begin a text with; false at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        if std::mem::take(&mut self.pending) {
            return Ok(true);
        }
        let filled = self.read_line()?;
        if self.line == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(filled)
    }

    /// Reads a line into the buffer; false at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        if self.ended {
            return Ok(false);
        }
        self.line += 1;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.ended = true;
                    return Err(self.wrong(&match error.kind() {
                        io::ErrorKind::UnexpectedEof => CUT_SHORT.to_owned(),
                        _ => format!("it cannot be read: {error}"),
                    }));
                }
            };
            if available.is_empty() {
                self.ended = true;
                return Ok(!self.buffer.is_empty());
            }
            let (part, whole) = match available.iter().position(|&byte| byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (available.len(), false),
            };
            let room = LINE_MAX.saturating_sub(self.buffer.len());
            if part > room {
                return Err(self.wrong(&format!("the line is longer than {LINE_MAX} bytes")));
            }
            self.buffer.extend_from_slice(&available[..part]);
            self.input.consume(part);
            if whole {
                return Ok(true);
            }
        }
    }

    /// The next event; `None` at the end of the trace.
    ///
    /// # Errors
    /// The line that makes no sense, or in which the trace cannot be read any further: compressed data that end too early are damaged.
    pub fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        while self.fill()? {
            let whole = self.buffer.ends_with(b"\n");
            let Ok(text) = std::str::from_utf8(&self.buffer) else {
                if !whole {
                    break;
                }
                return Err(self.wrong("this is no text"));
            };
            let text = text.trim();
            if text.is_empty() || self.summary {
                continue;
            }
            // Only a recording always ends its lines, so only there is one without an end surely cut.
            if !whole && self.format == Format::Recording {
                break;
            }
            if self.format == Format::Recording && text.starts_with('#') {
                match recording::remark(text) {
                    Ok(found) => {
                        self.latencies.extend(found.filter(|_| self.latencies.len() < LATENCIES_MAX))
                    }
                    Err(problem) => return Err(self.wrong(&problem)),
                }
                continue;
            }
            let event = match formats::parse(self.format, self.action, text) {
                Ok(Line::Event { event, device }) => {
                    let names = (&mut self.devices, &mut self.by_name);
                    match number_of(device, names, self.format == Format::Msr) {
                        Ok(device) => Event { device, ..event },
                        Err(problem) => return Err(self.wrong(&problem)),
                    }
                }
                Ok(Line::Wait(nanos)) => {
                    self.waited = self.waited.saturating_add(nanos);
                    continue;
                }
                Ok(Line::Ignored) => {
                    self.ignored += 1;
                    continue;
                }
                Ok(Line::Summary) => {
                    self.summary = true;
                    continue;
                }
                Err(_) if !whole => break,
                Err(problem) => return Err(self.wrong(&problem)),
            };
            let at = if self.format == Format::Iolog2 { self.waited } else { event.at };
            self.reordered += u64::from(at < self.last);
            self.last = self.last.max(at);
            return Ok(Some(Event { at: self.last, ..event }));
        }
        if !self.buffer.is_empty() && !self.buffer.ends_with(b"\n") && !self.summary {
            self.cut = Some(self.line);
        }
        self.ended = true;
        self.buffer.clear();
        Ok(None)
    }

    /// What a recording says of the latencies of its commands; known at its end.
    #[must_use]
    pub fn latencies(&self) -> &[Latencies] {
        &self.latencies
    }

    /// Its format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Names of the devices so far, in the order in which they were first used. Of MSR Cambridge's traces: host and disk, with a dot
    /// between; of recordings: the namespace.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Lines so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.line
    }

    /// The line in whose middle the text ends, if it does; it is left out. Compressed data that end too early are an error instead.
    #[must_use]
    pub fn cut(&self) -> Option<u64> {
        self.cut
    }

    /// Events whose time was before that of an earlier one.
    #[must_use]
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Lines that are no I/O of the host: other actions of blkparse, opened and closed files.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}

/// The number of a device; a new one if the name is new. `dotted`: its parts are written with a dot between.
fn number_of(
    name: &str,
    (devices, by_name): (&mut Vec<String>, &mut Vec<u32>),
    dotted: bool,
) -> Result<u32, String> {
    let owned;
    let name = if dotted {
        owned = name.replace(',', ".");
        &owned
    } else {
        name
    };
    if name.len() > NAME_MAX {
        return Err(format!("the device's name is longer than {NAME_MAX} bytes"));
    }
    match by_name.binary_search_by(|&index| devices[index as usize].as_str().cmp(name)) {
        Ok(place) => Ok(by_name[place]),
        Err(_) if devices.len() == DEVICES_MAX => Err(format!("there are more than {DEVICES_MAX} devices")),
        Err(place) => {
            let index = devices.len() as u32;
            devices.push(name.to_owned());
            by_name.insert(place, index);
            Ok(index)
        }
    }
}
