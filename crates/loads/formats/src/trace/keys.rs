//! Traces of caches of keys and values, as if each value lay on the device: a get reads it, a set writes it, a delete deallocates it.
//!
//! A key has one place, by a hash. What a cache in memory would have answered is read here, too.

use super::event::{Event, event, number};
use super::line::{Line, plain};
use std::hash::Hasher;
use workload::{Nanos, Verb};

/// Places of keys are this far apart, and so many. Two keys of a million share one in about one of two such traces.
const PLACE_BYTES: u64 = 4096;
const PLACES: u64 = 1 << 40;
/// Most requests that one line stands for.
const COUNT_MAX: u64 = 1_000_000;
/// The name of the device.
const DEVICE: &str = "cache";

/// What a request of a cache does to its value.
fn verb(operation: &str) -> Result<Verb, String> {
    match operation.to_ascii_lowercase().as_str() {
        "get" | "gets" | "get_lease" => Ok(Verb::Read),
        "set" | "set_lease" | "add" | "replace" | "cas" | "append" | "prepend" | "incr" | "decr" => {
            Ok(Verb::Write)
        }
        "delete" => Ok(Verb::Trim),
        _ => Err(format!(
            "the operation is {operation:?}: it is one of get, set, add, replace, cas, append, prepend, incr, decr, delete"
        )),
    }
}

/// The byte where something of this name lies: the same on every machine and in every version.
pub(super) fn place(name: &str) -> u64 {
    let mut hasher = Fnv(0xCBF2_9CE4_8422_2325);
    hasher.write(name.as_bytes());
    hasher.finish() % PLACES * PLACE_BYTES
}

/// A request. The value of a get that found nothing has no size.
fn request(at: Nanos, operation: &str, key: &str, bytes: u64) -> Result<Option<Event>, String> {
    let (offset, verb) = (place(key), verb(operation)?);
    let bytes = if verb == Verb::Trim { bytes.max(PLACE_BYTES) } else { bytes };
    if bytes == 0 { Ok(None) } else { event(at, verb, offset, bytes).map(Some) }
}

/// FNV-1a.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn time(seconds: u64) -> Nanos {
    seconds.saturating_mul(1_000_000_000)
}

/// Twitter's cache traces: `timestamp,key,key size,value size,client,operation,TTL`. Keys may have commas.
pub(super) fn twitter(line: &str) -> Result<Line<'_>, String> {
    const NAMES: &str = "timestamp,key,key size,value size,client,operation,TTL";
    let wrong = || format!("there are too few fields: there must be 7, {NAMES}");
    let (at, rest) = line.split_once(',').ok_or_else(wrong)?;
    let mut back = rest.rsplitn(6, ',');
    let mut last = || back.next().ok_or_else(wrong);
    let (_, operation, _, value, key_bytes, key) = (last()?, last()?, last()?, last()?, last()?, last()?);
    let bytes = number("the size of the value", value)?;
    number("the size of the key", key_bytes)?;
    let found = request(time(number("the timestamp", at)?), operation, key, bytes)?;
    Ok(found.map_or(Line::Ignored, |event| plain(event, DEVICE)))
}

/// Whether a line is Twitter's.
pub(super) fn is_twitter(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').collect();
    fields.len() >= 7 && verb(fields[fields.len() - 2]).is_ok() && twitter(line).is_ok()
}

/// Where the columns of CacheLib's traces are; its sets differ in them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Columns {
    fields: usize,
    time: Option<usize>,
    key: usize,
    operation: usize,
    bytes: usize,
    count: Option<usize>,
}

impl Columns {
    /// Whether requests have times.
    pub fn has_times(&self) -> bool {
        self.time.is_some()
    }

    /// By a first line that names them.
    pub fn of(head: &str) -> Option<Self> {
        let names: Vec<&str> = head.split(',').map(str::trim).collect();
        let place = |name: &str| names.iter().position(|known| *known == name);
        Some(Self {
            fields: names.len(),
            time: place("op_time"),
            key: place("key")?,
            operation: place("op")?,
            bytes: place("size")?,
            count: place("op_count"),
        })
    }
}

/// Meta's CacheLib: columns that the first line names, of them `key`, `op` and `size`, and maybe `op_time` (seconds) and `op_count`.
pub(super) fn cachelib<'a>(columns: &Columns, line: &'a str) -> Result<Line<'a>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != columns.fields {
        return Err(format!("there are {} fields: the first line names {}", fields.len(), columns.fields));
    }
    let optional =
        |place: Option<usize>, what: &str, none: u64| place.map_or(Ok(none), |at| number(what, fields[at]));
    let at = time(optional(columns.time, "op_time", 0)?);
    let count = optional(columns.count, "op_count", 1)?;
    if count > COUNT_MAX {
        return Err(format!("op_count is {count}: it is at most {COUNT_MAX}"));
    }
    let bytes = number("the size", fields[columns.bytes])?;
    let found = request(at, fields[columns.operation], fields[columns.key], bytes)?;
    Ok(found.filter(|_| count > 0).map_or(Line::Ignored, |event| Line::Event {
        event,
        device: DEVICE,
        flushes: false,
        count,
    }))
}
