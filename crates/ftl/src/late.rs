//! Reads that are answered later, for tests: a set that is written in place can be told to behave as a disk does, which does not
//! know when a read ends. No drive is built with this.

use crate::answer::{Answer, CompletedIo, Fault};
use crate::context::{Event, EventQueue};
use crate::storage::Io;
use crate::volume::SetId;
use media::Nanos;

/// The reads of a set that are to be answered later.
#[derive(Clone, Default, Debug)]
pub(crate) struct LateReads {
    /// How much later than the medium says; `None`: reads are answered at once.
    pub by: Option<Nanos>,
    waiting: Vec<CompletedIo>,
}

impl LateReads {
    /// What to answer to a read now, in place of what the medium says. What the medium could not give fails later, anything else
    /// at once.
    pub fn answer(
        &mut self,
        now: Nanos,
        io: Io,
        answer: Answer,
        set: SetId,
        events: &mut EventQueue,
    ) -> Answer {
        let Some(by) = self.by else { return answer };
        let (at, result) = match answer {
            Answer::At(end) => (end + by, Ok(())),
            Answer::Failed(Fault::Unrecovered) => (now + by, Err(Fault::Unrecovered)),
            other => return other,
        };
        self.waiting.push(CompletedIo { io, at, result });
        events.push(at, (set, Event::Read(io)));
        Answer::Later
    }

    /// The answer to a read whose event has come.
    pub fn take(&mut self, now: Nanos, io: Io) -> Option<CompletedIo> {
        let due = self.waiting.iter().position(|done| done.io == io && done.at <= now)?;
        Some(self.waiting.remove(due))
    }

    /// Power is lost: nobody is answered.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
