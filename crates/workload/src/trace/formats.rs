//! One line of each format.

use super::event::{Event, Format, event, number};
use super::recording;
use crate::{Nanos, Verb};

/// First line of fio's logs.
pub(super) const IOLOG_2: &str = "fio version 2 iolog";
pub(super) const IOLOG_3: &str = "fio version 3 iolog";

/// Bytes of the sectors in which the block layer counts.
const SECTOR: u64 = 512;
/// A line that was understood.
pub(super) enum Line<'a> {
    /// An event; its device is still a name.
    Event { event: Event, device: &'a str },
    /// So much time passes (iolog version 2).
    Wait(Nanos),
    /// Not an I/O, or not one that counts.
    Ignored,
    /// From here on there are no more events.
    Summary,
}

/// Whether this line names the columns.
pub(super) fn is_head(format: Format, line: &str) -> bool {
    match format {
        Format::Msr => line.starts_with("Timestamp,"),
        Format::Alibaba => line.starts_with("device_id,"),
        Format::Tencent => line.starts_with("Timestamp,Offset,"),
        Format::Systor => line.starts_with("Timestamp,Response,"),
        _ => false,
    }
}

pub(super) fn parse(format: Format, action: u8, line: &str) -> Result<Line<'_>, String> {
    match format {
        Format::Blkparse => blkparse(action, line),
        Format::Msr => msr(line),
        Format::Alibaba => alibaba(line),
        Format::Tencent => tencent(line),
        Format::Systor => systor(line),
        Format::Iolog2 => iolog(None, line),
        Format::Iolog3 => {
            let (time, rest) =
                line.split_once(' ').ok_or("there is only one word: write TIME FILE ACTION …")?;
            iolog(Some(number("the time", time)?.saturating_mul(1000)), rest)
        }
        Format::Recording => recording::parse(line).map(|(event, device)| Line::Event { event, device }),
    }
}

/// Exactly so many fields.
fn fields<'a, const N: usize>(line: &'a str, names: &str) -> Result<[&'a str; N], String> {
    let mut all = [""; N];
    let mut count = 0;
    for field in line.split(',') {
        if let Some(place) = all.get_mut(count) {
            *place = field.trim();
        }
        count += 1;
    }
    if count == N { Ok(all) } else { Err(format!("there are {count} fields: there must be {N}, {names}")) }
}

/// Seconds with up to nine digits behind the point.
fn seconds(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("the time is {text:?}: it is seconds, with up to nine digits behind the point");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part = part.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = part.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    whole.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanos)).ok_or_else(wrong)
}

fn blkparse(wanted: u8, line: &str) -> Result<Line<'_>, String> {
    const FORM: &str = "write MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS";
    let mut words = line.split_ascii_whitespace();
    let device = words.next().unwrap_or("");
    if device.starts_with("CPU") || device == "Total" {
        return Ok(Line::Summary);
    }
    let numbers = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !device.split_once(',').is_some_and(|(major, minor)| numbers(major) && numbers(minor)) {
        return Err(format!("{device:?} is no device: {FORM}"));
    }
    let mut next = |what: &str| words.next().ok_or_else(|| format!("the {what} is missing: {FORM}"));
    number("the CPU", next("CPU")?)?;
    number("the sequence number", next("sequence number")?)?;
    let at = seconds(next("time")?)?;
    next("process")?;
    let action = next("action")?;
    if action.as_bytes() != [wanted] {
        return Ok(Line::Ignored);
    }
    let kind = next("kind of I/O")?;
    if !kind.bytes().all(|b| b.is_ascii_uppercase()) {
        return Err(format!("the kind of I/O is {kind:?}: it is made of the letters R, W, D, F, N, S, A, M"));
    }
    let flushes = kind.starts_with('F');
    let first = kind.trim_start_matches('F').chars().next();
    let place = words.next().filter(|word| numbers(word));
    let Some(sector) = place else {
        // A flush alone has no place.
        let flush = event(at, Verb::Flush, 0, 0)?;
        return Ok(if flushes { Line::Event { event: flush, device } } else { Line::Ignored });
    };
    let sector = number("the sector", sector)?;
    if words.next() != Some("+") {
        return Err(format!("there is no + behind the sector: {FORM}"));
    }
    let sectors = number("the number of sectors", words.next().unwrap_or(""))?;
    let verb = match first {
        _ if sectors == 0 && flushes => Verb::Flush,
        _ if sectors == 0 => return Ok(Line::Ignored),
        Some('R') => Verb::Read,
        Some('W') => Verb::Write,
        Some('D') => Verb::Trim,
        _ => return Ok(Line::Ignored),
    };
    if verb == Verb::Flush {
        return Ok(Line::Event { event: event(at, verb, 0, 0)?, device });
    }
    let (offset, bytes) = (self::sectors(sector)?, self::sectors(sectors)?);
    Ok(Line::Event { event: event(at, verb, offset, bytes)?, device })
}

fn msr(line: &str) -> Result<Line<'_>, String> {
    const NAMES: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    let [time, _, _, kind, offset, size, _] = fields::<7>(line, NAMES)?;
    let verb = match kind {
        "Read" => Verb::Read,
        "Write" => Verb::Write,
        _ => return Err(format!("the type is {kind:?}: it is Read or Write")),
    };
    let at = number("the timestamp", time)?.saturating_mul(100);
    let event = event(at, verb, number("the offset", offset)?, number("the size", size)?)?;
    if event.bytes == 0 {
        return Ok(Line::Ignored);
    }
    // Host and disk stand together in the line.
    let from = line.find(',').map_or(0, |comma| comma + 1);
    let name = &line[from..];
    let second = name.match_indices(',').nth(1).map_or(name.len(), |(at, _)| at);
    Ok(Line::Event { event, device: &name[..second] })
}

fn alibaba(line: &str) -> Result<Line<'_>, String> {
    let [device, kind, offset, length, time] = fields::<5>(line, "device_id,opcode,offset,length,timestamp")?;
    let verb = match kind {
        "R" => Verb::Read,
        "W" => Verb::Write,
        _ => return Err(format!("the opcode is {kind:?}: it is R or W")),
    };
    number("the device", device)?;
    let at = number("the timestamp", time)?.saturating_mul(1000);
    let event = event(at, verb, number("the offset", offset)?, number("the length", length)?)?;
    Ok(if event.bytes == 0 { Line::Ignored } else { Line::Event { event, device } })
}

/// So many sectors, in bytes.
fn sectors(count: u64) -> Result<u64, String> {
    count.checked_mul(SECTOR).ok_or_else(|| format!("{count} sectors are more than there can be"))
}

/// The README of Tencent's set (SNIA IOTTA, parallel traces, 27917): times are Unix seconds, offsets and sizes are sectors of 512 bytes, and
/// the type is 0 for reads and 1 for writes.
fn tencent(line: &str) -> Result<Line<'_>, String> {
    let [time, offset, size, kind, volume] = fields::<5>(line, "Timestamp,Offset,Size,IOType,VolumeID")?;
    let verb = match kind {
        "0" => Verb::Read,
        "1" => Verb::Write,
        _ => return Err(format!("the IOType is {kind:?}: it is 0 (read) or 1 (write)")),
    };
    number("the volume", volume)?;
    let (offset, size) = (sectors(number("the offset", offset)?)?, sectors(number("the size", size)?)?);
    let event = event(seconds(time)?, verb, offset, size)?;
    Ok(if event.bytes == 0 { Line::Ignored } else { Line::Event { event, device: volume } })
}

/// The README of Systor '17's set (SNIA IOTTA, block traces, 4928): times are Unix seconds with a fraction, offsets and sizes are bytes. The type
/// is empty where no response was seen: whether such a request read or wrote is not known, so it does not count.
fn systor(line: &str) -> Result<Line<'_>, String> {
    let [time, _, kind, lun, offset, size] = fields::<6>(line, "Timestamp,Response,IOType,LUN,Offset,Size")?;
    let verb = match kind {
        "R" => Verb::Read,
        "W" => Verb::Write,
        "" => return Ok(Line::Ignored),
        _ => return Err(format!("the IOType is {kind:?}: it is R, W or empty")),
    };
    number("the LUN", lun)?;
    let event = event(seconds(time)?, verb, number("the offset", offset)?, number("the size", size)?)?;
    Ok(if event.bytes == 0 { Line::Ignored } else { Line::Event { event, device: lun } })
}

fn iolog(at: Option<Nanos>, line: &str) -> Result<Line<'_>, String> {
    let mut words = line.split_ascii_whitespace();
    let (device, action) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let allowed = "add, open, close, wait (version 2), read, write, trim, sync or datasync";
    let verb = match action {
        "add" | "open" | "close" => return Ok(Line::Ignored),
        "sync" | "datasync" => {
            return Ok(Line::Event { event: event(at.unwrap_or(0), Verb::Flush, 0, 0)?, device });
        }
        "read" => Verb::Read,
        "write" => Verb::Write,
        "trim" => Verb::Trim,
        "wait" if at.is_none() => {
            let micros = number("the time to wait", words.next().unwrap_or(""))?;
            return Ok(Line::Wait(micros.saturating_mul(1000)));
        }
        _ => return Err(format!("the action is {action:?}: it is {allowed}")),
    };
    let offset = number("the offset", words.next().unwrap_or(""))?;
    let bytes = number("the length", words.next().unwrap_or(""))?;
    if words.next().is_some() {
        return Err("there is more behind the length".to_owned());
    }
    let event = event(at.unwrap_or(0), verb, offset, bytes)?;
    Ok(if bytes == 0 { Line::Ignored } else { Line::Event { event, device } })
}
