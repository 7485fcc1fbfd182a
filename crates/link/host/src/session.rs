//! Hosts that stay: trying again until a drive is there, and associations that are made again after a loss.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nvme::Command;

use crate::queue::{CompletedCommand, Data, Identity, Queue, Tag, Transport};
use crate::{Error, Host, TransportError};

/// The first pause between two attempts; the following ones are twice as long each, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Whether another attempt to connect may succeed: the drive is not there, or not yet, or said so.
#[must_use]
pub fn may_pass(error: &Error) -> bool {
    match error {
        Error::Transport(TransportError::Closed | TransportError::Timeout(_)) => true,
        Error::Transport(TransportError::Io { source, .. }) => !matches!(
            source.kind(),
            // These take a person to change.
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported
        ),
        Error::Command { status, .. } | Error::Connect { status: Some(status), .. } => !status.dnr(),
        _ => false,
    }
}

/// Calls `attempt` until it succeeds, fails for good, or `limit` has passed; at least once. Pauses grow from attempt to
/// attempt.
///
/// # Errors
/// That of the last attempt.
pub fn retry<T>(limit: Duration, mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match attempt() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || !may_pass(&error) {
            return Err(error);
        }
        sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A command that was in flight when its association was lost: it may or may not have been executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight {
    /// Index of the queue among those of the [`Session`].
    pub queue: usize,
    /// What the queue called it.
    pub tag: Tag,
    /// The command as it was submitted.
    pub command: Command,
}

/// A queue that knows its commands in flight.
#[derive(Debug)]
pub struct TrackedQueue<Q> {
    queue: Q,
    flying: Vec<Option<Command>>,
}

impl<Q: Queue> TrackedQueue<Q> {
    fn new(queue: Q) -> Self {
        Self { queue, flying: Vec::new() }
    }

    /// Commands in flight with their tags.
    pub fn in_flight(&self) -> impl Iterator<Item = (Tag, Command)> {
        (0..).zip(&self.flying).filter_map(|(tag, command)| Some((Tag(tag), (*command)?)))
    }
}

impl<Q: Queue> Queue for TrackedQueue<Q> {
    fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        let tag = self.queue.submit(command, data)?;
        let index = usize::from(tag.0);
        if self.flying.len() <= index {
            self.flying.resize(index + 1, None);
        }
        self.flying[index] = Some(command);
        Ok(tag)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.queue.flush()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        let done = self.queue.next(timeout)?;
        if let Some(done) = &done
            && let Some(flying) = self.flying.get_mut(usize::from(done.tag.0))
        {
            *flying = None;
        }
        Ok(done)
    }
}

/// A host with its I/O queues, for users that outlive the loss of a connection: when a call reports a broken transport,
/// [`Session::recover`] makes a new association with as many queues and says which commands were in flight.
///
/// With a keep-alive timeout in the identity, [`Session::tend`] must be called more often than twice within it.
pub struct Session<T: Transport> {
    make: Box<dyn FnMut() -> T + Send>,
    identity: Identity,
    depths: Vec<u16>,
    /// How long a drive may be away.
    loss_timeout: Duration,
    host: Host<T>,
    queues: Vec<TrackedQueue<T::Queue>>,
    /// Commands of associations that were given up, until somebody is told.
    lost: Vec<InFlight>,
}

impl<T: Transport> Session<T> {
    /// Connects, with one I/O queue for each of the depths. `make` makes a transport for each attempt, so it may take
    /// another path each time. `loss_timeout` limits how long it is tried, now and after every loss.
    ///
    /// # Errors
    /// That of the last attempt.
    pub fn connect(
        mut make: impl FnMut() -> T + Send + 'static,
        identity: Identity,
        depths: &[u16],
        loss_timeout: Duration,
    ) -> Result<Self, Error> {
        let (host, queues) = associate(&mut make, &identity, depths, loss_timeout)?;
        Ok(Self {
            make: Box::new(make),
            identity,
            depths: depths.to_vec(),
            loss_timeout,
            host,
            queues,
            lost: Vec::new(),
        })
    }

    /// The host: admin commands.
    pub fn host(&mut self) -> &mut Host<T> {
        &mut self.host
    }

    /// The I/O queues, in the order of their depths; none while a recovery has failed.
    pub fn queues(&mut self) -> &mut [TrackedQueue<T::Queue>] {
        &mut self.queues
    }

    /// Sends a Keep Alive command if it is time for one.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn tend(&mut self) -> Result<(), Error> {
        self.host.tend()
    }

    /// Gives the association up and makes a new one. The commands that were in flight are returned: each may or may not
    /// have been executed, and their completions do not come any more.
    ///
    /// # Errors
    /// The drive was away for longer than the loss timeout, or does not let this host in any more. The session may be
    /// recovered again.
    pub fn recover(&mut self) -> Result<Vec<InFlight>, Error> {
        // The old connections are closed first, so that nothing of theirs is still executed after what is sent again.
        for (queue, old) in self.queues.drain(..).enumerate() {
            self.lost.extend(old.in_flight().map(|(tag, command)| InFlight { queue, tag, command }));
        }
        self.host.transport.disconnect();
        let (host, queues) = associate(&mut self.make, &self.identity, &self.depths, self.loss_timeout)?;
        (self.host, self.queues) = (host, queues);
        Ok(std::mem::take(&mut self.lost))
    }
}

type Association<T> = (Host<T>, Vec<TrackedQueue<<T as Transport>::Queue>>);

fn associate<T: Transport>(
    make: &mut impl FnMut() -> T,
    identity: &Identity,
    depths: &[u16],
    limit: Duration,
) -> Result<Association<T>, Error> {
    retry(limit, || {
        let mut host = Host::connect(make(), identity)?;
        let open = |depth: &u16| host.io_queue(*depth).map(|queue| TrackedQueue::new(queue.into_raw()));
        let queues = depths.iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        Ok((host, queues))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::Status;

    fn error(status: Status) -> Error {
        Error::Connect { what: "connecting".into(), why: status.to_string(), status: Some(status) }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_nothing_else() {
        let mut left = 3;
        let done = retry(Duration::from_secs(60), || {
            left -= 1;
            if left > 0 { Err(error(Status::CONNECT_CONTROLLER_BUSY)) } else { Ok(7) }
        });
        assert_eq!((done.unwrap(), left), (7, 0));
        let mut tries = 0;
        let failed: Result<(), _> = retry(Duration::from_secs(60), || {
            tries += 1;
            Err(error(Status::CONNECT_INVALID_PARAMETERS.with_dnr()))
        });
        assert!(failed.is_err() && tries == 1);
        let failed: Result<(), _> = retry(Duration::ZERO, || {
            tries += 1;
            Err(TransportError::Closed.into())
        });
        assert!(failed.is_err() && tries == 2);
        let refused = |kind: ErrorKind| TransportError::Io { what: "connecting".into(), source: kind.into() };
        assert!(may_pass(&refused(ErrorKind::ConnectionRefused).into()));
        assert!(!may_pass(&refused(ErrorKind::PermissionDenied).into()));
    }
}
