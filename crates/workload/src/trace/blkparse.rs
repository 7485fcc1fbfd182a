//! What blkparse writes, and the letters in which the kernel tells the kinds of I/O.

use super::event::{event, number};
use super::line::{Action, Line, seconds, sectors};
use crate::Verb;

/// How lines of blkparse's summaries begin, of its own messages, and of the messages of blktrace.
const BLKPARSE_REMARKS: [&str; 18] = [
    "Reads ",
    "Read ",
    "PC Reads ",
    "PC Read ",
    "IO unplugs:",
    "Allocation wait:",
    "Dispatch wait:",
    "Completion wait:",
    "Throughput (R/W):",
    "Events (",
    "Skips:",
    "CPU",
    "Total (",
    "Input file ",
    "Bad fs action ",
    "Bad pc action ",
    "===",
    "Device: ",
];

/// Whether a line of blkparse's is none of an event. In the summary of option -s a process is written `NAME (PID)`.
fn is_remark(line: &str) -> bool {
    let process = || {
        let pid = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
        pid.is_some_and(|(_, pid)| is_number(pid))
    };
    BLKPARSE_REMARKS.iter().any(|begin| line.starts_with(begin)) || process()
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// What the letters of a block trace say of an I/O: `F` for a flush before it, the operation, and flags of which `F` is Force Unit Access.
#[derive(Clone, Copy)]
pub(super) struct Rwbs {
    pub flushes: bool,
    pub verb: Option<Verb>,
}

impl Rwbs {
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err(format!(
                "the kind of I/O is {text:?}: it is made of the letters R, W, D, F, N, S, A, M"
            ));
        }
        if text.starts_with('Z') {
            return Err(format!("{text} is a command of zones, which cannot be replayed on blocks"));
        }
        let (flushes, rest) = text.strip_prefix('F').map_or((false, text), |rest| (true, rest));
        let mut letters = rest.chars();
        let verb = match letters.next() {
            Some('R') => Some(Verb::Read),
            Some('W') if letters.as_str().contains('F') => Some(Verb::WriteFua),
            Some('W') => Some(Verb::Write),
            Some('D') => Some(Verb::Trim),
            _ => None,
        };
        Ok(Self { flushes, verb })
    }

    /// What an I/O of so many bytes is, and whether a flush comes before it. `None`: it is none.
    pub fn of(self, bytes: u64) -> Option<(Verb, bool)> {
        match self.verb {
            Some(verb) if bytes > 0 => Some((verb, self.flushes)),
            _ if self.flushes => Some((Verb::Flush, false)),
            _ => None,
        }
    }
}

/// One line of blkparse's default output.
pub(super) fn parse(wanted: Action, line: &str) -> Result<Line<'_>, String> {
    const FORM: &str = "write MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS";
    let mut words = line.split_ascii_whitespace();
    let device = words.next().unwrap_or("");
    if !device.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor)) {
        return if is_remark(line) {
            Ok(Line::Remark)
        } else {
            Err(format!("{device:?} is no device: {FORM}"))
        };
    }
    let mut next = |what: &str| words.next().ok_or_else(|| format!("the {what} is missing: {FORM}"));
    number("the CPU", next("CPU")?)?;
    number("the sequence number", next("sequence number")?)?;
    let at = seconds(next("time")?)?;
    next("process")?;
    match next("action")? {
        "Q" if wanted == Action::Queued => {}
        "D" if wanted == Action::Issued => {}
        "Q" | "D" => return Ok(Line::OtherAction),
        _ => return Ok(Line::Ignored),
    }
    let kind = Rwbs::parse(next("kind of I/O")?)?;
    let (offset, bytes) = match (words.next().filter(|word| is_number(word)), words.next()) {
        (Some(sector), Some("+")) => {
            let count = number("the number of sectors", words.next().unwrap_or(""))?;
            (sectors(number("the sector", sector)?)?, sectors(count)?)
        }
        // A request that is no I/O on blocks has bytes, and maybe its command.
        (Some(_), Some(word)) if word.starts_with(['(', '[']) => return Ok(Line::Ignored),
        (Some(_), _) => return Err(format!("there is no + behind the sector: {FORM}")),
        // A flush alone has no place.
        (None, _) => (0, 0),
    };
    let Some((verb, flushes)) = kind.of(bytes) else { return Ok(Line::Ignored) };
    let (offset, bytes) = if verb == Verb::Flush { (0, 0) } else { (offset, bytes) };
    Ok(Line::Event { event: event(at, verb, offset, bytes)?, device, flushes, count: 1 })
}
