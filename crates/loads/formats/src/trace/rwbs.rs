//! Kinds of I/O as the kernel's block layer tells them.

use super::event::event;
use super::line::{Line, sectors};
use workload::{Nanos, Verb};

/// What an I/O is. In letters: `F` for a flush before it, the operation, and flags of which `F` is Force Unit Access.
#[derive(Clone, Copy)]
pub(super) struct Rwbs {
    /// Whether what was written before is to be durable first.
    pub flushes: bool,
    /// What it does besides; `None`: nothing on blocks.
    pub verb: Option<Verb>,
}

impl Rwbs {
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err(format!(
                "the kind of I/O is {text:?}: it is made of the letters R, W, D, F, N, S, A, M"
            ));
        }
        if text.starts_with('Z') {
            return Err(format!("{text} is a command of zones, which cannot be replayed on blocks"));
        }
        let (flushes, rest) = text.strip_prefix('F').map_or((false, text), |rest| (true, rest));
        let mut letters = rest.chars();
        let verb = match letters.next() {
            Some('R') => Some(Verb::Read),
            Some('W') if letters.as_str().contains('F') => Some(Verb::WriteFua),
            Some('W') => Some(Verb::Write),
            Some('D') => Some(Verb::Trim),
            _ => None,
        };
        Ok(Self { flushes, verb })
    }

    /// The bits in which LTTng writes it (`instrumentation/events/block.h` of lttng-modules).
    pub fn of_lttng(bits: u64) -> Self {
        let has = |bit: u32| bits >> bit & 1 == 1;
        let verb = match () {
            () if has(1) => Some(Verb::Trim),
            () if has(2) => Some(Verb::Read),
            () if has(0) && has(9) => Some(Verb::WriteFua),
            () if has(0) => Some(Verb::Write),
            () => None,
        };
        Self { flushes: has(8) || has(10), verb }
    }

    /// An I/O of this kind on so many sectors. Without sectors it is at most a flush.
    pub fn line(self, at: Nanos, device: &str, sector: u64, count: u64) -> Result<Line<'_>, String> {
        let (offset, bytes) = (sectors(sector)?, sectors(count)?);
        let (event, flushes) = match self.verb {
            Some(verb) if bytes > 0 => (event(at, verb, offset, bytes)?, self.flushes),
            _ if self.flushes => (event(at, Verb::Flush, 0, 0)?, false),
            _ => return Ok(Line::Ignored),
        };
        Ok(Line::Event { event, device, flushes, count: 1 })
    }
}
