//! LTTng's events of the kernel's block layer, as `babeltrace` and `babeltrace2` print them.

use super::event::number;
use super::line::{Action, Line, seconds};
use super::rwbs::Rwbs;
use workload::Nanos;

const DAY: Nanos = 86_400_000_000_000;
const MINUTE: Nanos = 60_000_000_000;

/// The events that say what I/O there is.
const EVENTS: [(&str, Action); 2] = [("block_bio_queue", Action::Queued), ("block_rq_issue", Action::Issued)];

/// A clock that shows the time of day: how many midnights have passed.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct DayClock {
    last: Nanos,
    days: u64,
}

impl DayClock {
    /// Nanoseconds since the first midnight. A time more than half a day before the last one is of the next day.
    fn at(&mut self, time: Nanos) -> Nanos {
        self.days += u64::from(time + DAY / 2 < self.last);
        self.last = time;
        self.days.saturating_mul(DAY).saturating_add(time)
    }
}

/// Parts of a line: what stands in brackets, the event's name, and its fields.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (head, fields) = rest.split_once(": { ")?;
    Some((time, head.rsplit(' ').next()?, fields))
}

/// Whether a line is of such a text. Each event says on which processor it was.
pub(super) fn is_one(line: &str) -> bool {
    split(line).is_some_and(|(time, _, fields)| {
        time.starts_with(|c: char| c.is_ascii_digit()) && fields.starts_with("cpu_id = ")
    })
}

/// The time of day with or without the day before it, or seconds.
fn time(clock: &mut DayClock, text: &str) -> Result<Nanos, String> {
    let text = text.rsplit(' ').next().unwrap_or(text);
    let Some((hours, (minutes, rest))) =
        text.split_once(':').and_then(|(hours, rest)| Some((hours, rest.split_once(':')?)))
    else {
        return seconds(text);
    };
    let part = |text: &str| text.parse::<u64>().ok().filter(|part| *part < 60);
    let minutes = part(hours).zip(part(minutes)).map(|(hours, minutes)| hours * 60 + minutes);
    let rest = seconds(rest).ok().filter(|nanos| *nanos < MINUTE);
    let of_day = minutes.zip(rest).map(|(minutes, rest)| minutes * MINUTE + rest);
    Ok(clock.at(of_day.ok_or_else(|| format!("the time is {text:?}: it is HH:MM:SS.NANOSECONDS"))?))
}

/// `[11:04:05.123456789] (+0.000012345) host block_rq_issue: { cpu_id = 1 }, { dev = 8388608, sector = 2048, nr_sector = 8, …, rwbs = 4, … }`.
pub(super) fn parse<'a>(
    wanted: &mut Option<Action>,
    clock: &mut DayClock,
    line: &'a str,
) -> Result<Line<'a>, String> {
    let (at, name, fields) =
        split(line).ok_or("there is no event: write [TIME] (+DELTA) HOST EVENT: { … }")?;
    let at = time(clock, at)?;
    let Some((_, action)) = EVENTS.into_iter().find(|(event, _)| *event == name) else {
        return Ok(Line::Ignored);
    };
    if *wanted.get_or_insert(action) != action {
        return Ok(Line::OtherAction);
    }
    // The names of processes stand in quotes, and may be anything.
    let text = |key: &str| {
        let plain = fields.split('"').step_by(2).flat_map(|part| part.split([',', '{', '}']));
        let mut values = plain.filter_map(|field| field.trim().strip_prefix(key)?.strip_prefix(" = "));
        values.next().ok_or_else(|| format!("there is no {key} = : the line is cut, or of another tracer"))
    };
    let value = |what: &str, key: &str| number(what, text(key)?);
    let kind = Rwbs::of_lttng(value("the kind of I/O", "rwbs")?);
    kind.line(at, text("dev")?, value("the sector", "sector")?, value("the number of sectors", "nr_sector")?)
}

/// The kernel's number of a device as `MAJOR,MINOR`.
pub(super) fn device(number: &str) -> String {
    number
        .parse::<u64>()
        .map_or_else(|_| number.to_owned(), |dev| format!("{},{}", dev >> 20, dev & 0xF_FFFF))
}
