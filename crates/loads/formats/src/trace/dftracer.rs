//! Traces of files, as DFTracer writes them of MLPerf Storage's benchmark (DLIO) and of other programs: a JSON object on each line.
//!
//! A file has one place, by a hash of its name. What the page cache would have answered is read here, too.

use super::event::{event, number};
use super::keys::place;
use super::line::{Line, plain};
use std::collections::BTreeMap;
use workload::Verb;

/// The name of the device.
const DEVICE: &str = "files";
/// Most open files whose positions are remembered.
const OPEN_MAX: usize = 65_536;

/// How far programs have read and written in the files that they have open: by the hash of process, descriptor and file.
#[derive(Clone, Default, Debug)]
pub(super) struct Positions(BTreeMap<u64, u64>);

impl Positions {
    fn set(&mut self, file: u64, position: u64) {
        if self.0.len() >= OPEN_MAX && !self.0.contains_key(&file) {
            self.0.pop_first();
        }
        self.0.insert(file, position);
    }

    /// Where so many bytes begin, and the position goes on behind them.
    fn advance(&mut self, file: u64, bytes: u64) -> u64 {
        let at = self.0.get(&file).copied().unwrap_or(0);
        self.set(file, at.saturating_add(bytes));
        at
    }
}

/// The value of a key in an object, without its quotes; the first one of this name.
fn value<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let mut parts = object.match_indices(key);
    let rest = parts.find_map(|(at, _)| {
        let before = object[..at].ends_with('"');
        object[at + key.len()..].strip_prefix("\":").filter(|_| before)
    })?;
    let rest = rest.trim_start();
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}']).next().map(str::trim),
    }
}

/// Whether a line begins such a trace.
pub(super) fn is_one(line: &str) -> bool {
    line == "[" || (line.starts_with('{') && value(line, "cat").is_some() && value(line, "ph").is_some())
}

/// `{"id":9,"name":"read","cat":"POSIX","pid":1,"tid":2,"ts":1698080324850514,"dur":115,"ph":"X","args":{"fname":"/data/a","fd":18,"count":4096,"ret":4096}}`.
pub(super) fn parse<'a>(positions: &mut Positions, line: &'a str) -> Result<Line<'a>, String> {
    if line == "[" || line == "]" {
        return Ok(Line::Remark);
    }
    let (head, args) = line.split_once("\"args\":").unwrap_or((line, ""));
    let of = |object: &'a str, key: &str| {
        value(object, key).ok_or_else(|| {
            format!("there is no \"{key}\": the event is cut, or was written without its arguments")
        })
    };
    let name = of(head, "name")?;
    // The first four letters are those of all variants, such as pread64.
    let stream = match value(head, "cat") {
        Some("POSIX") => false,
        Some("STDIO") => true,
        _ => return Ok(Line::Ignored),
    };
    let name = name.trim_start_matches('_').trim_end_matches("64");
    const KNOWN_CALLS: [&str; 17] = [
        "open",
        "openat",
        "creat",
        "fopen",
        "close",
        "fclose",
        "lseek",
        "ftell",
        "fseek",
        "read",
        "write",
        "pread",
        "pwrite",
        "fread",
        "fwrite",
        "fsync",
        "fdatasync",
    ];
    if !KNOWN_CALLS.contains(&name) {
        return Ok(Line::Ignored);
    }
    let at = number("the time", of(head, "ts")?)?.saturating_mul(1000);
    if let "fsync" | "fdatasync" = name {
        return Ok(plain(event(at, Verb::Flush, 0, 0)?, DEVICE));
    }
    let path = value(args, "fhash")
        .or_else(|| value(args, "fname"))
        .ok_or("the file is not named: fname or fhash")?;
    // What an open returns is the descriptor of what follows. Streams have none.
    let returned = of(args, "ret");
    let opens = matches!(name, "open" | "openat" | "creat" | "fopen");
    let fd = if stream {
        Ok("")
    } else if opens {
        returned.clone()
    } else {
        of(args, "fd")
    };
    let file = place(&format!("{},{},{path}", value(head, "pid").unwrap_or(""), fd.unwrap_or("")));
    match name {
        _ if opens => positions.set(file, 0),
        "close" | "fclose" => {
            positions.0.remove(&file);
        }
        "fseek" => match (of(args, "whence")?, number("the offset", of(args, "offset")?)) {
            ("0", Ok(offset)) => positions.set(file, offset),
            ("1", Ok(offset)) => {
                positions.advance(file, offset);
            }
            // Its end is not known; a ftell behind it tells.
            _ => {}
        },
        "lseek" | "ftell" => {
            if let Ok(position) = returned?.parse() {
                positions.set(file, position);
            }
        }
        _ => {
            let count: i64 = returned?.parse().map_err(|_| "what it returned is no number".to_owned())?;
            let size = if stream { number("the size", of(args, "size")?)? } else { 1 };
            // An error is negative, and the end of a file 0.
            let bytes = u64::try_from(count).unwrap_or(0).saturating_mul(size);
            if bytes == 0 {
                return Ok(Line::Ignored);
            }
            let within = match name {
                "pread" | "pwrite" => number("the offset", of(args, "offset")?)?,
                _ => positions.advance(file, bytes),
            };
            let verb = if name.ends_with("read") { Verb::Read } else { Verb::Write };
            return Ok(plain(event(at, verb, place(path).saturating_add(within), bytes)?, DEVICE));
        }
    }
    Ok(Line::Ignored)
}
