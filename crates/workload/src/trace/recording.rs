//! What this drive writes down of its hosts' I/O: a text that any tool reads, one line per command, in the order of arrival.
//!
//! The first line is [`HEAD`]. Each further line has six fields with commas between: when the command came (nanoseconds since the
//! recording began), namespace, queue (a number for each I/O queue of each host, from 1), what it does, first byte, bytes.
//! What it does is `R` (Read, Compare), `W` (Write), `T` (a range of a Dataset Management with Deallocate, Write Zeroes), `F` (Flush), `RF` or `WF` (Read and
//! Write with Force Unit Access), `C` or `CF` (a range of a Copy within a namespace, without and with it); the latter two have a seventh field, the first byte
//! of what is copied. Version 1, [`HEAD_1`], has just the first four.
//! All lines end with a line feed, so that one without is known to be cut off.

use super::formats::{event, number};
use super::reader::Event;
use crate::{Nanos, Verb};
use std::io::{self, Write};

/// First line of a recording.
pub const HEAD: &str = "# tranche recording 2";
/// First line of an earlier version, whose lines are of this one, too.
pub const HEAD_1: &str = "# tranche recording 1";

/// One command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When it came.
    pub at: Nanos,
    /// Its namespace.
    pub nsid: u32,
    /// Its queue.
    pub queue: u32,
    /// What it does; a copy names the first byte.
    pub verb: Verb,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// How many bytes; 0 for a flush.
    pub bytes: u64,
}

impl Entry {
    /// Writes its line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let verb = match self.verb {
            Verb::Read => "R",
            Verb::ReadFua => "RF",
            Verb::Write => "W",
            Verb::WriteFua => "WF",
            Verb::Trim => "T",
            Verb::Flush => "F",
            Verb::Copy { fua: false, .. } => "C",
            Verb::Copy { fua: true, .. } => "CF",
        };
        let Entry { at, nsid, queue, offset, bytes, .. } = self;
        match self.verb {
            Verb::Copy { from, .. } => writeln!(out, "{at},{nsid},{queue},{verb},{offset},{bytes},{from}"),
            _ => writeln!(out, "{at},{nsid},{queue},{verb},{offset},{bytes}"),
        }
    }
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
