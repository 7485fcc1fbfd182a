//! What blkparse writes.

use super::event::number;
use super::line::{Action, Line, is_number, seconds};
use super::rwbs::Rwbs;

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
    let (sector, count) = match (words.next().filter(|word| is_number(word)), words.next()) {
        (Some(sector), Some("+")) => {
            let count = number("the number of sectors", words.next().unwrap_or(""))?;
            (number("the sector", sector)?, count)
        }
        // A request that is no I/O on blocks has bytes, and maybe its command.
        (Some(_), Some(word)) if word.starts_with(['(', '[']) => return Ok(Line::Ignored),
        (Some(_), _) => return Err(format!("there is no + behind the sector: {FORM}")),
        // A flush alone has no place.
        (None, _) => (0, 0),
    };
    kind.line(at, device, sector, count)
}
