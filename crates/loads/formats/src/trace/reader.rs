//! Traces as streams of events.

use super::blktrace::{self, Records};
use super::event::{Event, Format, unreadable};
use super::formats::{self, Shape};
use super::line::{Action, Line, is_number};
use super::recording::{self, Latencies};
use super::{dftracer, ftrace, keys, lttng};
use std::fmt;
use std::io::{self, BufRead};
use workload::{Nanos, Verb};

/// Longest line, in bytes.
pub const LINE_MAX: usize = 4096;
/// Most devices of a trace.
pub const DEVICES_MAX: usize = 65_536;
/// Most remarks with latencies of a recording that are kept.
const LATENCIES_MAX: usize = 65_536;
/// What a text in UTF-8 may begin with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Longest name of a device, in bytes.
const NAME_MAX: usize = 255;
/// Of so many lines one may make no sense.
const UNKNOWN_ONE_IN: u64 = 100;
/// Lines that make no sense before the end of which the trace is given up.
const UNKNOWN_MAX: u64 = 100;

/// What was done with a line.
enum Taken {
    Event(Event),
    Nothing,
    /// It is the last one, and was cut off.
    Cut,
}

/// What is wrong with a trace, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// Line, or record of blktrace, counted from 1.
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
        let digits = is_number;
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
            _ if ftrace::is_one(first) => Some(Format::Ftrace),
            _ if lttng::is_one(first) => Some(Format::Lttng),
            _ if dftracer::is_one(first) => Some(Format::DfTracer),
            _ if keys::Columns::of(first).is_some() => Some(Format::CacheLib),
            _ => match fields[..] {
                [_, _, _, "Read" | "Write" | "Type", _, _, _] => Some(Format::Msr),
                _ if keys::is_twitter(first) => Some(Format::Twitter),
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

/// What a trace is read from.
#[derive(Clone, Debug)]
enum Source<R> {
    Lines(R),
    Records(Records<R>),
}

/// The events of a trace, one after the other.
#[derive(Clone, Debug)]
pub struct Reader<R> {
    source: Source<R>,
    shape: Shape,
    line: u64,
    buffer: Vec<u8>,
    /// A line that is in the buffer and not yet taken: the one by which the format was known.
    pending: bool,
    /// Names of the devices, and their numbers sorted by name.
    devices: Vec<String>,
    by_name: Vec<u32>,
    last: Nanos,
    waited: Nanos,
    /// What comes behind the event that was taken last, and how often.
    then: Option<(Event, u64)>,
    ended: bool,
    cut: Option<u64>,
    reordered: u64,
    ignored: u64,
    other_action: u64,
    unknown: u64,
    first_unknown: Option<TraceError>,
    latencies: Vec<Latencies>,
}

impl<R: BufRead> Reader<R> {
    /// A trace of this format, or of the one that its beginning is of.
    ///
    /// # Errors
    /// The trace cannot be read, is empty, or is of no known format.
    pub fn new(mut input: R, format: Option<Format>) -> Result<Self, TraceError> {
        let first = input.fill_buf().map_err(|error| TraceError { line: 1, problem: unreadable(&error) })?;
        let is_blktrace = blktrace::begins(first);
        match format {
            None | Some(Format::Blktrace) if is_blktrace => return Self::of_processors(vec![input]),
            Some(Format::Blktrace) => {
                let problem = "this is no file of blktrace: it begins with other bytes".to_owned();
                return Err(TraceError { line: 1, problem });
            }
            _ => {}
        }
        let mut reader = Self::with(Source::Lines(input), format.unwrap_or(Format::Blkparse));
        reader.open(format)?;
        Ok(reader)
    }

    /// What blktrace wrote of one device: a file for each processor.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn of_processors(inputs: Vec<R>) -> Result<Self, TraceError> {
        let records = Records::new(inputs).map_err(|problem| TraceError { line: 1, problem })?;
        Ok(Self::with(Source::Records(records), Format::Blktrace))
    }

    /// Of traces in which an I/O makes several events: the one that counts. Otherwise it is [`Action::Queued`] with blktrace, and in the text
    /// of the kernel's events the first one that comes.
    #[must_use]
    pub fn with_action(mut self, action: Option<Action>) -> Self {
        self.shape.action = action;
        self
    }

    /// Of traces of NVMe commands: bytes of a logical block, 512 if not given.
    #[must_use]
    pub fn with_block_bytes(mut self, bytes: Option<u32>) -> Self {
        self.shape.block_bytes = bytes.unwrap_or(512);
        self
    }

    fn with(source: Source<R>, format: Format) -> Self {
        Reader {
            source,
            shape: Shape::new(format),
            line: 0,
            buffer: Vec::with_capacity(256),
            pending: false,
            devices: Vec::new(),
            by_name: Vec::new(),
            last: 0,
            waited: 0,
            then: None,
            ended: false,
            cut: None,
            reordered: 0,
            ignored: 0,
            other_action: 0,
            unknown: 0,
            first_unknown: None,
            latencies: Vec::new(),
        }
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
            self.shape.format = match format.or(found) {
                Some(format) => format,
                None => {
                    return Err(self.wrong(
                        "this is no trace that is known: there are files of blktrace, blkparse's text, events of ftrace and LTTng, files of DFTracer, the CSV of \
                         MSR Cambridge, Alibaba, Tencent, Systor '17, Twitter and CacheLib, fio's iolog (versions 2 and 3) and recordings",
                    ));
                }
            };
            let head = match self.shape.format {
                Format::Iolog2 => Some(formats::IOLOG_2),
                Format::Iolog3 => Some(formats::IOLOG_3),
                Format::Recording => Some(recording::HEAD),
                _ => None,
            };
            match head {
                Some(_) if self.shape.format == Format::Recording && found == Some(Format::Recording) => {}
                Some(head) if first != head => {
                    return Err(self.wrong(&format!("it starts with {head:?}")));
                }
                Some(_) => {}
                None => self.pending = !formats::is_head(self.shape.format, first),
            }
            if self.shape.format == Format::CacheLib {
                let columns = keys::Columns::of(first);
                self.shape.columns = columns.ok_or_else(|| {
                    self.wrong("the first line names columns: key, op and size must be there")
                })?;
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
            let Source::Lines(input) = &mut self.source else { return Ok(false) };
            let available = match input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.ended = true;
                    return Err(self.wrong(&unreadable(&error)));
                }
            };
            if available.is_empty() {
                self.ended = true;
                self.line -= u64::from(self.buffer.is_empty());
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
            input.consume(part);
            if whole {
                return Ok(true);
            }
        }
    }

    /// The next event; `None` at the end of the trace. Lines that make no sense are left out, up to one in a hundred; a recording of this
    /// program has none.
    ///
    /// # Errors
    /// Too many lines make no sense, or the trace cannot be read any further: compressed data that end too early are damaged.
    pub fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        if let Some((event, count)) = self.then.take() {
            self.then = (count > 1).then(|| (event, count - 1));
            return Ok(Some(event));
        }
        if let Source::Records(_) = self.source {
            return self.next_of_records();
        }
        while self.fill()? {
            match self.take_line()? {
                Taken::Event(event) => return Ok(Some(event)),
                Taken::Nothing => {}
                Taken::Cut => self.cut = Some(self.line),
            }
        }
        self.buffer.clear();
        if self.unknown * UNKNOWN_ONE_IN > self.line { Err(self.too_unknown()) } else { Ok(None) }
    }

    /// The next event of blktrace's records. A damaged record is an error: where the next one begins is not known.
    fn next_of_records(&mut self) -> Result<Option<Event>, TraceError> {
        while let Source::Records(records) = &mut self.source {
            let next = records.next();
            self.line = records.count();
            if records.cut() > 0 {
                self.cut = Some(self.line);
            }
            let Some(record) = next.map_err(|problem| self.wrong(&problem))? else { break };
            let (device, action) = (record.device(), self.shape.action.unwrap_or(Action::Queued));
            let said = record.say(action, &device).map_err(|problem| self.wrong(&problem))?;
            if let Some(event) = self.follow(said)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Takes the line that is in the buffer.
    fn take_line(&mut self) -> Result<Taken, TraceError> {
        let buffer = std::mem::take(&mut self.buffer);
        let taken = self.take_bytes(&buffer);
        self.buffer = buffer;
        taken
    }

    fn take_bytes(&mut self, line: &[u8]) -> Result<Taken, TraceError> {
        let whole = line.ends_with(b"\n");
        // Names of processes are bytes. What is no text makes no sense.
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            return Ok(Taken::Nothing);
        }
        // Only a recording always ends its lines, so only there is one without an end surely cut.
        if !whole && self.shape.format == Format::Recording {
            return Ok(Taken::Cut);
        }
        if self.shape.format == Format::Recording && text.starts_with('#') {
            let found = recording::remark(text).map_err(|problem| self.wrong(&problem))?;
            self.latencies.extend(found.filter(|_| self.latencies.len() < LATENCIES_MAX));
            return Ok(Taken::Nothing);
        }
        match formats::parse(&mut self.shape, text) {
            Ok(line) => return Ok(self.follow(line)?.map_or(Taken::Nothing, Taken::Event)),
            Err(_) if !whole => return Ok(Taken::Cut),
            Err(problem) => {
                self.unknown += 1;
                let error = self.wrong(&problem);
                self.first_unknown.get_or_insert(error);
                let many = self.unknown > UNKNOWN_MAX && self.unknown * UNKNOWN_ONE_IN > self.line;
                if many || self.shape.format == Format::Recording {
                    return Err(self.too_unknown());
                }
            }
        }
        Ok(Taken::Nothing)
    }

    /// Counts a line that was understood. Returns its event, if it has one.
    fn follow(&mut self, line: Line<'_>) -> Result<Option<Event>, TraceError> {
        match line {
            Line::Event { event, device, flushes, count } => {
                let names = (&mut self.devices, &mut self.by_name);
                let device = number_of(&formats::device(self.shape.format, device), names);
                let device = device.map_err(|problem| self.wrong(&problem))?;
                return Ok(Some(self.take(Event { device, ..event }, flushes, count)));
            }
            Line::Wait(nanos) => self.waited = self.waited.saturating_add(nanos),
            Line::Ignored => self.ignored += 1,
            Line::OtherAction => {
                (self.ignored, self.other_action) = (self.ignored + 1, self.other_action + 1)
            }
            Line::Remark => {}
        }
        Ok(None)
    }

    /// An event that comes so many times, in time. If it flushes, the flush is taken first.
    fn take(&mut self, event: Event, flushes: bool, count: u64) -> Event {
        let at = if self.shape.format == Format::Iolog2 { self.waited } else { event.at };
        self.reordered += u64::from(at < self.last);
        self.last = self.last.max(at);
        let event = Event { at: self.last, ..event };
        let rest = if flushes { count } else { count - 1 };
        self.then = (rest > 0).then_some((event, rest));
        if flushes { Event { verb: Verb::Flush, offset: 0, bytes: 0, ..event } } else { event }
    }

    /// Too many lines make no sense. The first one says what is wrong.
    fn too_unknown(&mut self) -> TraceError {
        self.ended = true;
        let count = std::mem::take(&mut self.unknown);
        let first = self.first_unknown.take().unwrap_or_else(|| self.wrong("this makes no sense"));
        if count == 1 {
            return first;
        }
        let TraceError { line, problem } = first;
        let problem = format!(
            "{problem}; {count} lines of {} make no sense, and one in {UNKNOWN_ONE_IN} may",
            self.line
        );
        TraceError { line, problem }
    }

    /// What a recording says of the latencies of its commands; known at its end.
    #[must_use]
    pub fn latencies(&self) -> &[Latencies] {
        &self.latencies
    }

    /// Its format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.shape.format
    }

    /// Names of the devices so far, in the order in which they were first used. Of MSR Cambridge's traces: host and disk, with a dot
    /// between; of recordings: the namespace.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Lines, or records of blktrace, so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.line
    }

    /// The line in whose middle the text ends, if it does; it is left out. Of blktrace: the last record, if a file ends in the middle of one.
    /// Compressed data that end too early are an error instead.
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

    /// Lines of I/O that would count with another [`Action`].
    #[must_use]
    pub fn of_other_action(&self) -> u64 {
        self.other_action
    }

    /// Records of blktrace that are missing by their numbers.
    #[must_use]
    pub fn missing(&self) -> u64 {
        match &self.source {
            Source::Lines(_) => 0,
            Source::Records(records) => records.missing(),
        }
    }

    /// The action that counts, of traces in which an I/O makes several events.
    #[must_use]
    pub fn action(&self) -> Option<Action> {
        match self.shape.format {
            Format::Blktrace | Format::Blkparse => Some(self.shape.action.unwrap_or(Action::Queued)),
            Format::Ftrace | Format::Lttng => self.shape.action,
            _ => None,
        }
    }

    /// Whether its events have times.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.shape.format != Format::CacheLib || self.shape.columns.has_times()
    }

    /// Lines that made no sense and were left out, and the first of them.
    #[must_use]
    pub fn unknown(&self) -> (u64, Option<&TraceError>) {
        (self.unknown, self.first_unknown.as_ref())
    }
}

/// The number of a device; a new one if the name is new.
fn number_of(name: &str, (devices, by_name): (&mut Vec<String>, &mut Vec<u32>)) -> Result<u32, String> {
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
