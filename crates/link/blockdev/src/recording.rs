//! What this drive writes down of its hosts' I/O: a text that any tool reads, one line per command, in the order of arrival.
//!
//! The first line is [`HEAD`]. Each further line has six fields with commas between:
//! 1. when the command came (nanoseconds since the recording began),
//! 2. namespace,
//! 3. queue (a number for each I/O queue of each host, from 1),
//! 4. what it does,
//! 5. first byte,
//! 6. bytes.
//!
//! What it does is one of:
//! - `R`: Read, Compare,
//! - `W`: Write,
//! - `T`: a range of a Dataset Management with Deallocate, Write Zeroes,
//! - `F`: Flush,
//! - `RF`, `WF`: Read and Write with Force Unit Access,
//! - `C`, `CF`: a range of a Copy within a namespace, without and with Force Unit Access. A seventh field is the first byte of the source.
//!
//! Version 1, [`HEAD_1`], has `R`, `W`, `T` and `F` only.
//!
//! From version 3 on a line that begins with `#` is a remark. One kind is known, [`Latencies`]: how the commands ended, by the
//! drive's clock, and by what its hosts were told. The drive writes them when it ends. Others mean nothing.
//! All lines end with a line feed, so that a line that was cut off can be told.

use crate::{Nanos, Verb};
use std::io::{self, Write};

/// First line of a recording.
pub const HEAD: &str = "# tranche recording 3";
/// First lines of earlier versions, whose lines are of this one, too.
pub const HEAD_1: &str = "# tranche recording 1";
/// See [`HEAD_1`].
pub const HEAD_2: &str = "# tranche recording 2";

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
    /// Those of the writer. Appends and actions on zones have no line.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let verb = match self.verb {
            Verb::Read => "R",
            Verb::ReadFua => "RF",
            Verb::Write => "W",
            Verb::WriteFua => "WF",
            // The recorder has written zeroes as deallocations: both read as zeroes.
            Verb::Trim | Verb::WriteZeroes { .. } => "T",
            Verb::Flush => "F",
            Verb::Copy { fua: false, .. } => "C",
            Verb::Copy { fua: true, .. } => "CF",
            Verb::Append | Verb::Zone(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a recording has no commands of zones",
                ));
            }
        };
        let Entry { at, nsid, queue, offset, bytes, .. } = self;
        match self.verb {
            Verb::Copy { from, .. } => writeln!(out, "{at},{nsid},{queue},{verb},{offset},{bytes},{from}"),
            _ => writeln!(out, "{at},{nsid},{queue},{verb},{offset},{bytes}"),
        }
    }
}

/// The class of commands that latencies belong to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CommandClass {
    /// Read.
    Reads,
    /// Write.
    Writes,
    /// Flush.
    Flushes,
    /// Commands that deallocate.
    Deallocates,
}

impl CommandClass {
    /// All of them, in order.
    pub const ALL: [CommandClass; 4] =
        [CommandClass::Reads, CommandClass::Writes, CommandClass::Flushes, CommandClass::Deallocates];

    /// In a recording.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CommandClass::Reads => "reads",
            CommandClass::Writes => "writes",
            CommandClass::Flushes => "flushes",
            CommandClass::Deallocates => "deallocates",
        }
    }
}

/// Latencies of all commands of a kind that succeeded on a namespace while a recording was made: the remark
/// `# latency,NAMESPACE,KIND,drive|host,COMMANDS,SUM,MAX,P50,P99`, nanoseconds all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latencies {
    /// Of which namespace.
    pub nsid: u32,
    /// Of which commands.
    pub of: CommandClass,
    /// Until the completion was handed to the host, late as the machine may have been; otherwise until the command's end by the drive's own clock.
    pub host: bool,
    /// How many there were.
    pub count: u64,
    /// Sum of all.
    pub sum: Nanos,
    /// The longest: upper bound of its bucket, or exactly.
    pub max: Nanos,
    /// The median: upper bound of its bucket.
    pub p50: Nanos,
    /// What 99 of 100 did not exceed: upper bound of its bucket.
    pub p99: Nanos,
}

/// How a remark with latencies begins.
pub const LATENCY: &str = "# latency,";

impl Latencies {
    /// Writes its line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Latencies { nsid, of, host, count, sum, max, p50, p99 } = self;
        let (of, by) = (of.name(), if *host { "host" } else { "drive" });
        writeln!(out, "{LATENCY}{nsid},{of},{by},{count},{sum},{max},{p50},{p99}")
    }

    /// The mean, if there were any.
    #[must_use]
    pub fn mean(&self) -> Option<Nanos> {
        self.sum.checked_div(self.count)
    }
}
