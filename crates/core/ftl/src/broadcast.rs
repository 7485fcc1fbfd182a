//! Commands that every set answers, and the one answer that is made of them.

use crate::answer::{Answer, CompletedIo, Fault};
use crate::storage::Io;
use media::Nanos;

/// A command that several sets answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BroadcastCommand {
    io: Io,
    /// Sets that still have to answer.
    left: u32,
    /// Latest end so far.
    end: Nanos,
    /// First fault so far.
    fault: Option<Fault>,
}

impl BroadcastCommand {
    pub fn new(io: Io, now: Nanos) -> BroadcastCommand {
        BroadcastCommand { io, left: 0, end: now, fault: None }
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
pub(crate) struct BroadcastCommands(Vec<BroadcastCommand>);

impl BroadcastCommands {
    /// Says what to answer now to a command that has been given to every set. `done[seen..]` came meanwhile.
    pub fn answer(&mut self, command: BroadcastCommand, seen: usize, done: &mut Vec<CompletedIo>) -> Answer {
        if command.left == 0 {
            return command.fault.map_or(Answer::At(command.end), Answer::Failed);
        }
        self.0.push(command);
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
            let command = &mut self.0[j];
            command.left -= 1;
            command.end = command.end.max(done.at);
            command.fault = command.fault.or(done.result.err());
            if command.left == 0 {
                all[i] = CompletedIo {
                    io: command.io,
                    at: command.end,
                    result: command.fault.map_or(Ok(()), Err),
                };
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
        let (mut commands, mut all) = (BroadcastCommands::default(), Vec::new());
        let mut command = BroadcastCommand::new(Io(7), Nanos(1));
        for answer in [Answer::Later, Answer::At(Nanos(9)), Answer::Later] {
            command.take(answer);
        }
        assert_eq!(commands.answer(command, 0, &mut all), Answer::Later);
        // Another command's answers stay as they are.
        all.extend([done(3, 4, Ok(())), done(7, 5, Err(Fault::ReadOnly))]);
        commands.join(0, &mut all);
        assert_eq!(all, [done(3, 4, Ok(()))]);
        all.push(done(7, 6, Err(Fault::Storage)));
        commands.join(1, &mut all);
        assert_eq!(all, [done(3, 4, Ok(())), done(7, 9, Err(Fault::ReadOnly))]);
    }

    #[test]
    fn what_all_sets_answer_at_once_is_answered_at_once() {
        let mut commands = BroadcastCommands::default();
        let mut command = BroadcastCommand::new(Io(1), Nanos(2));
        command.take(Answer::At(Nanos(5)));
        assert_eq!(commands.answer(command, 0, &mut Vec::new()), Answer::At(Nanos(5)));
        command.take(Answer::Failed(Fault::ReadOnly));
        assert_eq!(commands.answer(command, 0, &mut Vec::new()), Answer::Failed(Fault::ReadOnly));
    }
}
