//! One command at a time.

use std::time::{Duration, Instant};

use nvme::command::FABRICS_OPCODE;
use nvme::fabrics::FabricsType;
use nvme::{Command, Status};

use crate::error::{Error, TransportError};
use crate::queue::{CompletedCommand, Data, Queue};

/// Submits to a queue on which nothing else is outstanding, and waits for success.
pub(crate) fn call_alone<Q: Queue>(
    queue: &mut Q,
    command: Command,
    data: Data,
    timeout: Duration,
    what: impl FnOnce() -> String,
) -> Result<CompletedCommand, Error> {
    let is_connect = command.opc == FABRICS_OPCODE && command.fctype() == FabricsType::CONNECT;
    let done = complete_alone(queue, command, data, timeout)?;
    match done.completion.status().ok() {
        Ok(()) => Ok(done),
        Err(status) if is_connect => {
            let why = connect_refusal(status, done.completion.dw0.get());
            Err(Error::Connect { what: what(), why, status: Some(status) })
        }
        Err(status) => Err(Error::Command { what: what(), status }),
    }
}

/// Submits to a queue on which nothing else is outstanding, and waits for the end.
pub(crate) fn complete_alone<Q: Queue>(
    queue: &mut Q,
    command: Command,
    data: Data,
    timeout: Duration,
) -> Result<CompletedCommand, TransportError> {
    // A command that was given up may have ended since. Nobody waits for it, and it has a place in the queue.
    while queue.outstanding() > 0 && queue.next(Some(Duration::ZERO))?.is_some() {}
    let tag = queue.submit(command, data)?;
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let done = queue.next(Some(left))?.ok_or(TransportError::Timeout(timeout))?;
        if done.tag == tag {
            return Ok(done);
        }
    }
}

/// What a Connect that failed says, in words (Base 6.3). Code 81h means something else for other commands.
fn connect_refusal(status: Status, dw0: u32) -> String {
    if status.is(Status::CONNECT_INVALID_HOST) {
        "the drive's list of hosts does not admit this host now: it has no entry for it, or one that has expired (Connect \
         Invalid Host)"
            .to_owned()
    } else if status.is(Status::CONNECT_INVALID_PARAMETERS) {
        format!("the drive does not accept {} (Connect Invalid Parameters)", connect_value(dw0))
    } else if status.is(Status::CONNECT_CONTROLLER_BUSY) {
        "it has no power at the moment, or this host has as many controllers or connections as it may have: max_controllers in the \
         drive's list of hosts, or its share of all (Connect Controller Busy)"
            .to_owned()
    } else {
        format!("the drive answered: {status}")
    }
}

/// What dword 0 of a Connect that failed with Connect Invalid Parameters points to (Base 6.3).
fn connect_value(dw0: u32) -> &'static str {
    let (in_data, offset) = (dw0 >> 16 & 1 != 0, dw0 & 0xFFFF);
    match (in_data, offset) {
        (true, 16) => "the controller identifier",
        (true, 256) => "the subsystem NQN: it has another name, or shows itself to other hosts only",
        (true, 512) => "the host NQN",
        (false, 42) => "the queue identifier: it grants fewer queues",
        (false, 44) => "the size of the queue",
        _ => "a value, and does not say which",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Tag;
    use nvme::{Completion, IoCommand};
    use std::collections::VecDeque;

    /// A queue with one place. Its first command ends after it was given up.
    #[derive(Default)]
    struct LateQueue {
        submitted: u16,
        outstanding: bool,
        arrived: VecDeque<u16>,
    }

    impl Queue for LateQueue {
        fn capacity(&self) -> usize {
            1
        }

        fn outstanding(&self) -> usize {
            self.outstanding.into()
        }

        fn submit(&mut self, _command: Command, _data: Data) -> Result<Tag, TransportError> {
            if std::mem::replace(&mut self.outstanding, true) {
                return Err(TransportError::Full);
            }
            self.submitted += 1;
            if self.submitted > 1 {
                self.arrived.push_back(self.submitted);
            }
            Ok(Tag(self.submitted))
        }

        fn next(&mut self, _timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
            let Some(tag) = self.arrived.pop_front() else { return Ok(None) };
            self.outstanding = false;
            let completion = Completion::new(tag, Status::SUCCESS);
            Ok(Some(CompletedCommand { tag: Tag(tag), completion, data: Data::None }))
        }
    }

    #[test]
    fn a_command_that_ends_after_it_was_given_up_leaves_its_place() {
        let mut queue = LateQueue::default();
        let mut flush = || {
            let command = IoCommand::Flush { nsid: 1 }.into();
            call_alone(&mut queue, command, Data::None, Duration::ZERO, || "flushing".to_owned())
        };
        let given_up = flush().unwrap_err();
        assert!(matches!(given_up, Error::Transport(TransportError::Timeout(_))), "{given_up}");
        let still_there = flush().unwrap_err();
        assert!(matches!(still_there, Error::Transport(TransportError::Full)) && !still_there.is_lost());
        queue.arrived.push_back(1);
        let tag = |done: Result<CompletedCommand, Error>| done.unwrap().tag;
        let mut flush = || {
            let command = IoCommand::Flush { nsid: 1 }.into();
            call_alone(&mut queue, command, Data::None, Duration::ZERO, || "flushing".to_owned())
        };
        assert_eq!(tag(flush()), Tag(2), "the completion of the first is not that of the second");
    }
}
