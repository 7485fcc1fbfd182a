//! Crate `host`'s transport within the process: typed hosts without a socket.

use crate::handle::{
    Controller, Events, Handle, HostIdentity, Queue as DriveQueue, Refused, RefusedReason, Sink,
};
use crate::hosts::ManagedBy;
use device::Origin;
use host::{CompletedCommand, Connected, Data, Error, Identity, Queue, Tag, Transport, TransportError};
use image::Buffer;
use nvme::fabrics::FabricsCommand;
use nvme::property::{Cap, Cc, Csts, PropertyOffset, Shn, Shst};
use nvme::{Command, Completion};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Commands of the admin queue that may be outstanding.
const ADMIN_DEPTH: u16 = 31;
/// How long a shutdown may take.
const SHUTDOWN: Duration = Duration::from_secs(120);

/// Connects typed hosts ([`host::Host`]) to a drive in this process.
///
/// What the host does is up to it, as over a socket: after a power cut its queues are dead, and it connects
/// again.
pub struct LocalTransport {
    handle: Handle,
    controller: Option<Controller>,
    origin: Origin,
    /// Where the runtime reports what happens to the controller, if it looks after it.
    events: Option<Arc<dyn Events>>,
    posted: Arc<PostedCommands>,
}

/// The admin queue of a host, for threads that leave commands there without waiting. Those that wait in [`host::Host`] do not notice.
pub struct AdminQueue {
    queue: DriveQueue,
    posted: Arc<PostedCommands>,
}

/// Receives a command that has ended.
type Continuation = Box<dyn FnOnce(Completion, Buffer) + Send>;

/// The first tag of posted commands. Those of a [`LocalQueue`] are lower.
const FIRST_POSTED_TAG: u64 = 1 << 16;

/// Commands that were left in an admin queue, by tag.
#[derive(Default)]
struct PostedCommands {
    count: AtomicU64,
    waiting: Mutex<HashMap<u64, Continuation>>,
}

impl PostedCommands {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Continuation>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminQueue {
    /// Leaves a command with the drive, as [`DriveQueue::post`] has it, and rings. `then` runs on the thread that delivers the completion, perhaps
    /// before this returns. It must not block.
    ///
    /// # Errors
    /// The queue is full or the drive was stopped: `then` does not run.
    pub fn post(
        &self,
        command: &Command,
        generation: Option<NonZeroU64>,
        buffer: Buffer,
        then: impl FnOnce(Completion, Buffer) + Send + 'static,
    ) -> Result<(), RefusedReason> {
        let tag = FIRST_POSTED_TAG + self.posted.count.fetch_add(1, Ordering::Relaxed);
        self.posted.waiting().insert(tag, Box::new(then));
        if let Err(refused) = self.queue.post(tag, command, generation, buffer) {
            let then = self.posted.waiting().remove(&tag);
            drop(then);
            return Err(refused.reason);
        }
        self.queue.ring();
        Ok(())
    }
}

/// Where the completions of a host's admin queue go.
struct AdminSink {
    waits: Arc<dyn Sink>,
    posted: Arc<PostedCommands>,
}

impl Sink for AdminSink {
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer) {
        if tag < FIRST_POSTED_TAG {
            return self.waits.complete(tag, completion, buffer);
        }
        let then = self.posted.waiting().remove(&tag);
        if let Some(then) = then {
            then(completion, buffer);
        }
    }
}

impl LocalTransport {
    /// A transport to the drive behind `handle`.
    pub fn new(handle: Handle) -> Self {
        LocalTransport {
            handle,
            controller: None,
            origin: Origin::InProcess,
            events: None,
            posted: Arc::default(),
        }
    }

    /// The same for a host that does what others ask it for over a network, as a web server does. The drive refuses to it what it refuses to hosts on
    /// the network: power cuts and faults, unless its TOML allows them (`allow_network_faults`).
    pub fn for_network(handle: Handle) -> Self {
        LocalTransport { origin: Origin::Network, ..LocalTransport::new(handle) }
    }

    /// A transport whose hosts survive power cuts and subsystem resets: the runtime connects them again, with their queues, and reports to `events`. It
    /// also keeps the request for events outstanding, so such a host does not ask for them.
    pub fn managed(handle: Handle, events: Arc<dyn Events>) -> Self {
        LocalTransport { events: Some(events), ..LocalTransport::new(handle) }
    }

    /// Opens an I/O queue that any number of threads submit to, for `entries` commands. Completions go to `sink`.
    ///
    /// # Errors
    /// The host is not connected, or the drive refuses the queue.
    pub fn shared_queue(&self, entries: u16, sink: Arc<dyn Sink>) -> Result<DriveQueue, Error> {
        self.controller()?.queue(entries, sink).map_err(|error| refused("Connect of an I/O queue", error))
    }

    /// The admin queue, for any number of threads.
    ///
    /// # Errors
    /// The host is not connected.
    pub fn admin_queue(&self) -> Result<AdminQueue, Error> {
        Ok(AdminQueue { queue: self.controller()?.admin_queue(), posted: self.posted.clone() })
    }

    fn controller(&self) -> Result<&Controller, Error> {
        self.controller.as_ref().ok_or_else(|| Error::Usage("the host is not connected".to_owned()))
    }
}

/// A queue of a drive in this process.
pub struct LocalQueue {
    queue: DriveQueue,
    arrived: Receiver<(u64, Completion, Buffer)>,
    /// What became of the data of each tag: whether it goes to the host.
    slots: Vec<Direction>,
    free: Vec<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    None,
    Out,
    In,
}

fn refused(what: &str, error: crate::handle::ConnectError) -> Error {
    match error {
        crate::handle::ConnectError::Refused(status) => Error::Command { what: what.to_owned(), status },
        crate::handle::ConnectError::PowerOff => {
            Error::Command { what: what.to_owned(), status: nvme::Status::POWER_LOSS }
        }
        crate::handle::ConnectError::Gone(_) => TransportError::Closed.into(),
    }
}

impl LocalQueue {
    fn open(
        depth: u16,
        open: impl FnOnce(Arc<dyn Sink>) -> Result<DriveQueue, Error>,
    ) -> Result<Self, Error> {
        let (sender, arrived) = channel();
        let sink = move |tag: u64, completion: Completion, buffer: Buffer| {
            // A queue that was dropped does not care any more.
            let _ = sender.send((tag, completion, buffer));
        };
        let queue = open(Arc::new(sink))?;
        let slots = vec![Direction::None; usize::from(depth)];
        Ok(LocalQueue { queue, arrived, slots, free: (0..depth).rev().collect() })
    }

    fn call(&mut self, command: Command) -> Result<Completion, TransportError> {
        let tag = self.submit(command, Data::None)?;
        loop {
            match self.next(Some(SHUTDOWN))? {
                Some(done) if done.tag == tag => return Ok(done.completion),
                Some(_) => {}
                None => return Err(TransportError::Timeout(SHUTDOWN)),
            }
        }
    }

    fn property(&mut self, offset: PropertyOffset, wide: bool) -> Result<u64, Error> {
        let completion = self.call(FabricsCommand::PropertyGet { offset, wide }.into())?;
        let status = completion.status();
        status.ok().map_err(|status| Error::Command { what: "Property Get".to_owned(), status })?;
        Ok(completion.result64())
    }
}

impl Queue for LocalQueue {
    fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        self.submit_of(None, command, data)
    }

    fn submit_of(
        &mut self,
        generation: Option<NonZeroU64>,
        command: Command,
        data: Data,
    ) -> Result<Tag, TransportError> {
        let Some(tag) = self.free.pop() else { return Err(TransportError::Full) };
        let (direction, bytes) = match data {
            Data::None => (Direction::None, Vec::new()),
            Data::Out(bytes) => (Direction::Out, bytes),
            Data::In(bytes) => (Direction::In, bytes),
        };
        if u32::try_from(bytes.len()).is_err() {
            self.free.push(tag);
            return Err(TransportError::TooLarge(bytes.len()));
        }
        self.slots[usize::from(tag)] = direction;
        match self.queue.post(u64::from(tag), &command, generation, Buffer::from(bytes)) {
            Ok(()) => {
                self.queue.ring();
                Ok(Tag(tag))
            }
            Err(Refused { reason, .. }) => {
                self.free.push(tag);
                Err(match reason {
                    RefusedReason::Full => TransportError::Full,
                    RefusedReason::Gone(_) => TransportError::Closed,
                })
            }
        }
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let (tag, completion, buffer) = loop {
            // A drive that stops does not answer any more: looked at from time to time.
            let patience = Duration::from_millis(200);
            let left =
                deadline.map_or(patience, |d| d.saturating_duration_since(Instant::now()).min(patience));
            match self.arrived.recv_timeout(left) {
                Ok(arrived) => break arrived,
                Err(RecvTimeoutError::Disconnected) => return Err(TransportError::Closed),
                Err(RecvTimeoutError::Timeout) if self.queue.is_gone() => return Err(TransportError::Closed),
                Err(RecvTimeoutError::Timeout) if deadline.is_some_and(|d| d <= Instant::now()) => {
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let tag = tag as u16;
        self.free.push(tag);
        let data = match self.slots[usize::from(tag)] {
            Direction::None => Data::None,
            Direction::Out => Data::Out(buffer.into_vec()),
            Direction::In => Data::In(buffer.into_vec()),
        };
        Ok(Some(CompletedCommand { tag: Tag(tag), completion, data }))
    }
}

impl Transport for LocalTransport {
    type Queue = LocalQueue;

    fn connect(&mut self, identity: &Identity) -> Result<Connected<LocalQueue>, Error> {
        let host = HostIdentity { nqn: identity.hostnqn, id: identity.hostid };
        let managed_by = match &self.events {
            Some(events) => ManagedBy::Runtime(events.clone()),
            None => ManagedBy::Host { kato_ms: identity.kato_ms },
        };
        let mut controller = None;
        let mut admin = LocalQueue::open(ADMIN_DEPTH, |waits| {
            let sink = Arc::new(AdminSink { waits, posted: self.posted.clone() });
            let (made, queue) = self
                .handle
                .connect_managed(host, managed_by, self.origin, sink)
                .map_err(|e| refused("Connect", e))?;
            controller = Some(made);
            Ok(queue)
        })?;
        let cntlid = controller.as_ref().map_or(0, Controller::cntlid);
        self.controller = controller;
        let cap = Cap::from_bits(nvme::U64::new(admin.property(PropertyOffset::CAP, true)?));
        Ok(Connected { admin, cntlid, cap })
    }

    fn open_io(&mut self, depth: u16) -> Result<LocalQueue, Error> {
        let depth = depth.clamp(1, 1023);
        LocalQueue::open(depth, |sink| self.shared_queue(depth, sink))
    }

    fn shutdown(&mut self, admin: &mut LocalQueue) -> Result<(), Error> {
        let value = u64::from(
            Cc::new()
                .with_en(true)
                .with_css(Cc::CSS_SETS)
                .with_iosqes(6)
                .with_iocqes(4)
                .with_shn(Shn::NORMAL)
                .into_bits(),
        );
        let set = FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value };
        let status = admin.call(set.into())?.status();
        status.ok().map_err(|status| Error::Command { what: "Property Set".to_owned(), status })?;
        let deadline = Instant::now() + SHUTDOWN;
        while Instant::now() < deadline {
            let bits = u32::try_from(admin.property(PropertyOffset::CSTS, false)?).unwrap_or(0);
            if Csts::from_bits(nvme::U32::new(bits)).shst() == Shst::COMPLETE {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(TransportError::Timeout(SHUTDOWN).into())
    }
}
