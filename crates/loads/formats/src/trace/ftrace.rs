//! Events of the kernel as text: `trace_pipe`, `trace-cmd report` and `perf script`.

use super::event::{Event, event, number};
use super::line::{Action, Line, is_number, plain, seconds};
use super::rwbs::Rwbs;
use workload::{Nanos, Verb};

/// Force Unit Access, in the control field of a command.
const FUA: u64 = 1 << 14;

/// The events that say what I/O there is.
const EVENTS: [(&str, Action); 3] = [
    ("block_bio_queue", Action::Queued),
    ("block_rq_issue", Action::Issued),
    ("nvme_setup_cmd", Action::Command),
];

/// Parts of a line: the time, the event's name without its system, and what it says.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    // The name of a process may have colons and blanks.
    let mut places = line.match_indices(": ").map(|(at, _)| at);
    places.find_map(|at| {
        let time = line[..at].rsplit(' ').next()?;
        time.split_once('.').filter(|(whole, part)| is_number(whole) && is_number(part))?;
        let (event, said) = line[at + 2..].split_once(": ")?;
        let name = event.trim().rsplit(':').next().filter(|name| !name.contains(' '))?;
        Some((time, name, said.trim()))
    })
}

/// Whether a line is of such a text.
pub(super) fn is_one(line: &str) -> bool {
    line.starts_with("# tracer:")
        || line.starts_with("cpus=")
        || split(line).is_some_and(|(_, name, _)| EVENTS.iter().any(|(event, _)| *event == name))
}

pub(super) fn parse<'a>(
    wanted: &mut Option<Action>,
    block_bytes: u32,
    line: &'a str,
) -> Result<Line<'a>, String> {
    if line.starts_with('#') || line.starts_with("cpus=") || line.starts_with("version = ") {
        return Ok(Line::Remark);
    }
    if line.starts_with("CPU:") && line.contains("LOST") {
        return Err("the tracer has lost events here".to_owned());
    }
    let (time, name, said) = split(line).ok_or("there is no event: write TASK [CPU] SECONDS: EVENT: …")?;
    let Some((_, action)) = EVENTS.into_iter().find(|(event, _)| *event == name) else {
        return Ok(Line::Ignored);
    };
    if *wanted.get_or_insert(action) != action {
        return Ok(Line::OtherAction);
    }
    let at = seconds(time)?;
    match action {
        Action::Command => command(at, block_bytes, said),
        Action::Queued | Action::Issued => of_block_layer(at, said),
    }
}

/// `259,0 WS 2048 + 8 [fio]` of a bio, `259,0 WS 4096 () 2048 + 8 [fio]` of a request.
fn of_block_layer(at: Nanos, said: &str) -> Result<Line<'_>, String> {
    const FORM: &str = "write MAJOR,MINOR RWBS SECTOR + SECTORS";
    let mut words = said.split_ascii_whitespace();
    let device = words.next().unwrap_or("");
    let kind = Rwbs::parse(words.next().ok_or(FORM)?)?;
    let (before, after) = said.split_once(" + ").ok_or(FORM)?;
    let sector = number("the sector", before.rsplit(' ').next().unwrap_or(""))?;
    let count = number("the number of sectors", after.split_ascii_whitespace().next().unwrap_or(""))?;
    kind.line(at, device, sector, count)
}

/// `nvme0: disk=nvme0n1, qid=4, cmdid=12, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=0, len=7, ctrl=0x0, …)`.
fn command(at: Nanos, block_bytes: u32, said: &str) -> Result<Line<'_>, String> {
    let controller = said.split(':').next().unwrap_or("");
    let (head, command) = said.split_once("cmd=(").ok_or("there is no cmd=(…)")?;
    let (name, said) = command.split_once([' ', ')']).unwrap_or((command, ""));
    let value = |text: &str, key: &str| -> Result<u64, String> {
        let mut words = text.split([' ', ',', ')']);
        let word = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let word =
            word.ok_or_else(|| format!("there is no {key}=: the line is cut, or of another kernel"))?;
        match word.strip_prefix("0x") {
            Some(hex) => {
                u64::from_str_radix(hex, 16).map_err(|_| format!("{key} is {word:?}: it is a number"))
            }
            None => number(key, word),
        }
    };
    // Queue 0 has the administrator's commands.
    if value(head, "qid")? == 0 {
        return Ok(Line::Ignored);
    }
    let device = head.split([' ', ',']).find_map(|word| word.strip_prefix("disk=")).unwrap_or(controller);
    let blocks = |verb: Verb| -> Result<Event, String> {
        let (first, count) = (value(said, "slba")?, value(said, "len")? + 1);
        let bytes =
            |blocks: u64| blocks.checked_mul(block_bytes.into()).ok_or("it ends beyond the largest address");
        event(at, verb, bytes(first)?, bytes(count)?)
    };
    let is_fua = || Ok::<bool, String>(value(said, "ctrl")? & FUA != 0);
    let event = match name {
        "nvme_cmd_read" if is_fua()? => blocks(Verb::ReadFua)?,
        "nvme_cmd_read" | "nvme_cmd_compare" => blocks(Verb::Read)?,
        "nvme_cmd_write" if is_fua()? => blocks(Verb::WriteFua)?,
        "nvme_cmd_write" => blocks(Verb::Write)?,
        "nvme_cmd_write_zeroes" => blocks(Verb::Trim)?,
        "nvme_cmd_flush" => event(at, Verb::Flush, 0, 0)?,
        "nvme_cmd_zone_append" => {
            return Err("a Zone Append cannot be replayed: the trace does not tell its place".to_owned());
        }
        // Of Dataset Management only the number of ranges is told.
        _ => return Ok(Line::Ignored),
    };
    Ok(plain(event, device))
}
