//! Commands that every set answers, and the one answer that is made of them.

use crate::set::NvmSet;
use crate::storage::{Io, Storage};
use crate::{Answer, Done, Fault, Ftl};
use media::Nanos;

/// A command that several sets answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joint {
    io: Io,
    /// Sets that still have to answer.
    left: u32,
    /// Latest end so far.
    end: Nanos,
    /// First fault so far.
    fault: Option<Fault>,
}

impl Joint {
    /// What one set has answered at once.
    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::At(at) => self.end = self.end.max(at),
            Answer::Later => self.left += 1,
            Answer::Failed(fault) => self.fault = self.fault.or(Some(fault)),
        }
    }
}

impl Ftl {
    /// Makes everything that was accepted before durable: at once if the buffer is protected.
    pub fn flush(&mut self, now: Nanos, io: Io, storage: &mut impl Storage) -> Answer {
        self.settle_buffers(now, io, storage, false)
    }

    /// Brings everything that was accepted before to the media, also what capacitors would save.
    pub fn shutdown(&mut self, now: Nanos, io: Io, storage: &mut impl Storage) -> Answer {
        self.settle_buffers(now, io, storage, true)
    }

    fn settle_buffers(&mut self, now: Nanos, io: Io, storage: &mut impl Storage, drain: bool) -> Answer {
        self.advance(now, storage);
        if self.config.protected && !drain {
            return Answer::At(now);
        }
        let mut joint = Joint { io, left: 0, end: now, fault: None };
        let seen = self.done.len();
        // Every set is asked, also after one that fails: what the others hold is to be brought to flash all the same.
        for i in 0..self.sets.len() {
            joint.take(self.sets[i].drain(now, io, context!(self, storage)));
        }
        self.answer_jointly(joint, seen)
    }

    /// What to answer now to a command that has been given to every set; `done[seen..]` came meanwhile.
    fn answer_jointly(&mut self, joint: Joint, seen: usize) -> Answer {
        if joint.left == 0 {
            return joint.fault.map_or(Answer::At(joint.end), Answer::Failed);
        }
        self.joint.push(joint);
        self.join(seen);
        Answer::Later
    }

    /// Makes one answer of those that several sets gave to one flush, from `done[from]` on.
    #[inline]
    pub(crate) fn join(&mut self, from: usize) {
        if !self.joint.is_empty() {
            self.join_some(from);
        }
    }

    #[cold]
    fn join_some(&mut self, from: usize) {
        let mut i = from;
        while i < self.done.len() {
            let done = self.done[i];
            let Some(j) = self.joint.iter().position(|f| f.io == done.io) else {
                i += 1;
                continue;
            };
            let joint = &mut self.joint[j];
            joint.left -= 1;
            joint.end = joint.end.max(done.at);
            joint.fault = joint.fault.or(done.result.err());
            if joint.left == 0 {
                self.done[i] = Done { io: joint.io, at: joint.end, result: joint.fault.map_or(Ok(()), Err) };
                self.joint.swap_remove(j);
                i += 1;
            } else {
                self.done.remove(i);
            }
        }
    }

    /// Gives up everything that any volume holds, out of date or not, and erases all flash that was written: afterwards no
    /// medium refers to contents. Volumes stay. No request may be under way, and none may
    /// come before the answer.
    pub fn purge(&mut self, now: Nanos, io: Io, storage: &mut impl Storage) -> Answer {
        self.advance(now, storage);
        let mut joint = Joint { io, left: 0, end: now, fault: None };
        let seen = self.done.len();
        for set in &mut self.sets {
            joint.take(set.purge(now, io, context!(self, storage)));
        }
        self.answer_jointly(joint, seen)
    }
}
