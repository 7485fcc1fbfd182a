//! What this drive writes down of its hosts' I/O: a text that any tool reads, one line per command, in the order of arrival.
//!
//! The first line is [`HEAD`]. Each further line has six fields with commas between: when the command came (nanoseconds since the
//! recording began), namespace, queue (a number for each I/O queue of each host, from 1), what it does, first byte, bytes.
//! What it does is `R` (Read, Compare), `W` (Write), `T` (a range of a Dataset Management with Deallocate, Write Zeroes) or `F` (Flush).
//! All lines end with a line feed, so that one without is known to be cut off.

use super::formats::{event, number};
use super::reader::Event;
use crate::{Nanos, Verb};
use std::io::{self, Write};

/// First line of a recording.
pub const HEAD: &str = "# tranche recording 1";

/// One command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When it came.
    pub at: Nanos,
    /// Its namespace.
    pub nsid: u32,
    /// Its queue.
    pub queue: u32,
    /// What it does.
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
            Verb::Read => 'R',
            Verb::Write => 'W',
            Verb::Trim => 'T',
            Verb::Flush => 'F',
        };
        let Entry { at, nsid, queue, offset, bytes, .. } = self;
        writeln!(out, "{at},{nsid},{queue},{verb},{offset},{bytes}")
    }
}

pub(super) fn parse(line: &str) -> Result<(Event, &str), String> {
    let all: Vec<&str> = line.splitn(7, ',').collect();
    let [at, nsid, queue, verb, offset, bytes] = all[..] else {
        return Err("there must be six fields: TIME,NAMESPACE,QUEUE,R|W|T|F,OFFSET,BYTES".to_owned());
    };
    let verb = match verb {
        "R" => Verb::Read,
        "W" => Verb::Write,
        "T" => Verb::Trim,
        "F" => Verb::Flush,
        _ => return Err(format!("the command is {verb:?}: it is R, W, T or F")),
    };
    number("the namespace", nsid)?;
    number("the queue", queue)?;
    let at = number("the time", at)?;
    let event = event(at, verb, number("the offset", offset)?, number("the number of bytes", bytes)?)?;
    Ok((event, nsid))
}
