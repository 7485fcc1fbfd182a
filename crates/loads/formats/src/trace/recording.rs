//! Reads what a drive writes down of its hosts' I/O ([`blockdev::recording`] has the form).

use super::event::{Event, event, number};
pub use blockdev::recording::{CommandClass, Entry, HEAD, HEAD_1, HEAD_2, LATENCY, Latencies};
use workload::Verb;

/// What a remark says: latencies, or nothing that is known.
pub(super) fn remark(line: &str) -> Result<Option<Latencies>, String> {
    let Some(rest) = line.strip_prefix(LATENCY) else { return Ok(None) };
    let fields: Vec<&str> = rest.splitn(9, ',').collect();
    let [nsid, of, by, count, sum, max, p50, p99] = fields[..] else {
        return Err(format!(
            "the remark has eight fields: {LATENCY}NAMESPACE,KIND,drive|host,COMMANDS,SUM,MAX,P50,P99"
        ));
    };
    let kind = CommandClass::ALL.into_iter().find(|kind| kind.name() == of);
    let of = kind.ok_or_else(|| format!("{of:?} is reads, writes, flushes or deallocates"))?;
    let host = match by {
        "host" => true,
        "drive" => false,
        _ => return Err(format!("{by:?} is drive or host")),
    };
    let nsid = number("the namespace", nsid)?;
    Ok(Some(Latencies {
        nsid: u32::try_from(nsid).map_err(|_| format!("there is no namespace {nsid}"))?,
        of,
        host,
        count: number("the number of commands", count)?,
        sum: number("the sum", sum)?,
        max: number("the longest", max)?,
        p50: number("the median", p50)?,
        p99: number("the 99th percentile", p99)?,
    }))
}

pub(super) fn parse(line: &str) -> Result<(Event, &str), String> {
    let all: Vec<&str> = line.splitn(8, ',').collect();
    let (at, nsid, queue, verb, offset, bytes, from) = match all[..] {
        [at, nsid, queue, verb, offset, bytes] => (at, nsid, queue, verb, offset, bytes, None),
        [at, nsid, queue, verb, offset, bytes, from] => (at, nsid, queue, verb, offset, bytes, Some(from)),
        _ => {
            let form = "TIME,NAMESPACE,QUEUE,R|RF|W|WF|T|F,OFFSET,BYTES or …,C|CF,OFFSET,BYTES,FROM";
            return Err(format!("there must be six fields, or seven of a copy: {form}"));
        }
    };
    let verb = match (verb, from) {
        ("R", None) => Verb::Read,
        ("RF", None) => Verb::ReadFua,
        ("W", None) => Verb::Write,
        ("WF", None) => Verb::WriteFua,
        ("T", None) => Verb::Trim,
        ("F", None) => Verb::Flush,
        ("C" | "CF", Some(from)) => Verb::Copy { from: number("what is copied", from)?, fua: verb == "CF" },
        ("C" | "CF", None) => {
            return Err("a copy has a seventh field: the first byte of what is copied".to_owned());
        }
        ("R" | "RF" | "W" | "WF" | "T" | "F", Some(_)) => {
            return Err(format!("{verb} has six fields: only copies have a seventh"));
        }
        _ => return Err(format!("the command is {verb:?}: it is R, RF, W, WF, T, F, C or CF")),
    };
    number("the namespace", nsid)?;
    number("the queue", queue)?;
    let at = number("the time", at)?;
    let event = event(at, verb, number("the offset", offset)?, number("the number of bytes", bytes)?)?;
    Ok((event, nsid))
}
