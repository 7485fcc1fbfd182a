//! One line of each format.

use super::event::{Format, event, number};
use super::line::{Action, Line, fields, plain, seconds, sectors};
use super::{blkparse, dftracer, ftrace, keys, lttng, recording};
use std::borrow::Cow;
use workload::{Nanos, Verb};

/// First line of fio's logs.
pub(super) const IOLOG_2: &str = "fio version 2 iolog";
pub(super) const IOLOG_3: &str = "fio version 3 iolog";

/// What is known of a trace before a line of it is read.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub format: Format,
    /// The action that counts; `None`: the first one that comes does.
    pub action: Option<Action>,
    /// Bytes of a logical block of NVMe commands.
    pub block_bytes: u32,
    /// Where CacheLib's columns are.
    pub columns: keys::Columns,
    /// LTTng's clock.
    pub clock: lttng::DayClock,
    /// Where DFTracer's programs are in their files.
    pub positions: dftracer::Positions,
}

impl Shape {
    pub fn new(format: Format) -> Self {
        Self {
            format,
            action: None,
            block_bytes: 512,
            columns: keys::Columns::default(),
            clock: lttng::DayClock::default(),
            positions: dftracer::Positions::default(),
        }
    }
}

/// Whether this line names the columns.
pub(super) fn is_head(format: Format, line: &str) -> bool {
    match format {
        Format::Msr => line.starts_with("Timestamp,"),
        Format::Alibaba => line.starts_with("device_id,"),
        Format::Tencent => line.starts_with("Timestamp,Offset,"),
        Format::Systor => line.starts_with("Timestamp,Response,"),
        Format::CacheLib => true,
        _ => false,
    }
}

/// The name of a device as it is shown, where its text is another.
pub(super) fn device(format: Format, text: &str) -> Cow<'_, str> {
    match format {
        // Host and disk.
        Format::Msr => text.replace(',', ".").into(),
        Format::Lttng => lttng::device(text).into(),
        _ => text.into(),
    }
}

pub(super) fn parse<'a>(shape: &mut Shape, line: &'a str) -> Result<Line<'a>, String> {
    match shape.format {
        // Its records have no lines.
        Format::Blktrace => Err("this is no record of blktrace".to_owned()),
        Format::Blkparse => blkparse::parse(shape.action.unwrap_or(Action::Queued), line),
        Format::Ftrace => ftrace::parse(&mut shape.action, shape.block_bytes, line),
        Format::Lttng => lttng::parse(&mut shape.action, &mut shape.clock, line),
        Format::DfTracer => dftracer::parse(&mut shape.positions, line),
        Format::Twitter => keys::twitter(line),
        Format::CacheLib => keys::cachelib(&shape.columns, line),
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
        Format::Recording => recording::parse(line).map(|(event, device)| plain(event, device)),
    }
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
    Ok(plain(event, &name[..second]))
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
    Ok(if event.bytes == 0 { Line::Ignored } else { plain(event, device) })
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
    Ok(if event.bytes == 0 { Line::Ignored } else { plain(event, volume) })
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
    Ok(if event.bytes == 0 { Line::Ignored } else { plain(event, lun) })
}

fn iolog(at: Option<Nanos>, line: &str) -> Result<Line<'_>, String> {
    let mut words = line.split_ascii_whitespace();
    let (device, action) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let allowed = "add, open, close, wait (version 2), read, write, trim, sync or datasync";
    let verb = match action {
        // A sync of a range of a file starts its writes, and flushes no device.
        "add" | "open" | "close" | "sync_file_range" => return Ok(Line::Ignored),
        "sync" | "datasync" | "syncfs" => {
            return Ok(plain(event(at.unwrap_or(0), Verb::Flush, 0, 0)?, device));
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
    Ok(if bytes == 0 { Line::Ignored } else { plain(event, device) })
}
