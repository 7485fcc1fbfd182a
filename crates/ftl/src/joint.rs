//! Commands that every set answers, and the one answer that is made of them.

use crate::answer::{Answer, CompletedIo, Fault};
use crate::storage::Io;
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
    pub fn new(io: Io, now: Nanos) -> Joint {
        Joint { io, left: 0, end: now, fault: None }
    }

    /// Takes what one set has answered at once.
    pub fn take(&mut self, answer: Answer) {
        match answer {
            Answer::At(at) => self.end = self.end.max(at),
            Answer::Later => self.left += 1,
            Answer::Failed(fault) => self.fault = self.fault.or(Some(fault)),
        }
    }
}

/// The commands that some sets have not answered yet.
#[derive(Clone, Default, Debug)]
pub(crate) struct Joints(Vec<Joint>);

impl Joints {
    /// Says what to answer now to a command that has been given to every set. `done[seen..]` came meanwhile.
    pub fn answer(&mut self, joint: Joint, seen: usize, done: &mut Vec<CompletedIo>) -> Answer {
        if joint.left == 0 {
            return joint.fault.map_or(Answer::At(joint.end), Answer::Failed);
        }
        self.0.push(joint);
        self.join(seen, done);
        Answer::Later
    }

    /// Makes one answer of those that several sets gave to one command, from `done[from]` on.
    #[inline]
    pub fn join(&mut self, from: usize, done: &mut Vec<CompletedIo>) {
        if !self.0.is_empty() {
            self.join_some(from, done);
        }
    }

    #[cold]
    fn join_some(&mut self, from: usize, all: &mut Vec<CompletedIo>) {
        let mut i = from;
        while i < all.len() {
            let done = all[i];
            let Some(j) = self.0.iter().position(|f| f.io == done.io) else {
                i += 1;
                continue;
            };
            let joint = &mut self.0[j];
            joint.left -= 1;
            joint.end = joint.end.max(done.at);
            joint.fault = joint.fault.or(done.result.err());
            if joint.left == 0 {
                all[i] = CompletedIo { io: joint.io, at: joint.end, result: joint.fault.map_or(Ok(()), Err) };
                self.0.swap_remove(j);
                i += 1;
            } else {
                all.remove(i);
            }
        }
    }

    /// Forgets them: power is lost.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(io: u32, at: u64, result: Result<(), Fault>) -> CompletedIo {
        CompletedIo { io: Io(io), at: Nanos(at), result }
    }

    #[test]
    fn the_last_answer_counts_and_the_first_fault() {
        let (mut joints, mut all) = (Joints::default(), Vec::new());
        let mut joint = Joint::new(Io(7), Nanos(1));
        for answer in [Answer::Later, Answer::At(Nanos(9)), Answer::Later] {
            joint.take(answer);
        }
        assert_eq!(joints.answer(joint, 0, &mut all), Answer::Later);
        // Another command's answers stay as they are.
        all.extend([done(3, 4, Ok(())), done(7, 5, Err(Fault::ReadOnly))]);
        joints.join(0, &mut all);
        assert_eq!(all, [done(3, 4, Ok(()))]);
        all.push(done(7, 6, Err(Fault::Storage)));
        joints.join(1, &mut all);
        assert_eq!(all, [done(3, 4, Ok(())), done(7, 9, Err(Fault::ReadOnly))]);
    }

    #[test]
    fn what_all_sets_answer_at_once_is_answered_at_once() {
        let mut joints = Joints::default();
        let mut joint = Joint::new(Io(1), Nanos(2));
        joint.take(Answer::At(Nanos(5)));
        assert_eq!(joints.answer(joint, 0, &mut Vec::new()), Answer::At(Nanos(5)));
        joint.take(Answer::Failed(Fault::ReadOnly));
        assert_eq!(joints.answer(joint, 0, &mut Vec::new()), Answer::Failed(Fault::ReadOnly));
    }
}
