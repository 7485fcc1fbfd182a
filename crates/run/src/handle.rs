//! How the threads of this process talk to the drive: as NVMe hosts.
//!
//! A [`Handle`] connects; a [`Controller`] is one association with an admin queue; a [`Queue`] takes
//! commands from any number of threads and gives every one of them back through its [`Sink`].
//!
//! ```ignore
//! let controller = handle.connect(HostIdentity::new("nqn.2026-11.example:fuse")?, Arc::new(MyEvents))?;
//! let (completion, buffer) = controller.admin(&identify, Buffer::zeroed(4096))?;
//! let queue = controller.queue(128, Arc::new(MySink))?;
//! queue.submit(tag, &read, Buffer::with_headroom(16, 4096))?;   // MySink::complete(tag, ..) follows
//! ```
//!
//! **Who runs the drive.** One thread at a time. `submit` puts the command into a bounded queue and then
//! tries to become the thread that steps the drive; if it succeeds, the command (and those that others
//! put there meanwhile) is carried out before `submit` returns, without a switch of threads. If another
//! thread is at it, that one takes the command along. The drive's own thread does what nobody waits for:
//! timers, sockets, held completions.
//!
//! **Power cuts.** A controller and its queues survive them: commands in flight complete with *Commands
//! Aborted due to Power Loss Notification*, later ones the same way until power is back, and then the
//! runtime connects the same host again. [`Events::power`] tells.

use crate::buffer::Buffer;
use crate::hosts::Manner;
use crate::shared::{Connect, Request, Shared};
use nvme::{Command, Completion, Nqn};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};

/// Who connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostIdentity {
    /// Host NQN: attachments of namespaces are remembered by it.
    pub nqn: Nqn,
    /// Host Identifier.
    pub id: [u8; 16],
}

impl HostIdentity {
    /// A host whose identifier is derived from its NQN, as that of a host over a network is ([`host::Identity::new`]).
    ///
    /// # Errors
    /// If the name is no NQN.
    pub fn new(nqn: &str) -> Result<Self, nvme::nqn::NqnError> {
        let nqn = Nqn::new(nqn)?;
        Ok(HostIdentity { nqn, id: nqn.host_identifier() })
    }
}

/// Where the completions of a queue go.
///
/// Called on whichever thread steps the drive, often the one that submitted, inside its `submit`. It must
/// not block. It may submit further commands; they are carried out after it returns.
pub trait Sink: Send + Sync + 'static {
    /// The command that was submitted with `tag` is complete; `buffer` is the one that was submitted,
    /// filled if it was a successful read.
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer);
}

impl<F: Fn(u64, Completion, Buffer) + Send + Sync + 'static> Sink for F {
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer) {
        self(tag, completion, buffer);
    }
}

/// What happens to a controller. Called like [`Sink::complete`]: it must not block, so hand the news
/// to a thread of your own before sending admin commands.
pub trait Events: Send + Sync + 'static {
    /// Namespaces were attached, detached, created, deleted, formatted or resized: identify them again.
    /// (Namespace Attribute Changed; the runtime keeps the Asynchronous Event Request outstanding and
    /// clears the event.)
    fn namespaces_changed(&self) {}
    /// The drive lost power (`false`) or is ready again (`true`).
    fn power(&self, up: bool) {
        let _ = up;
    }
    /// The drive is gone for good; every command from now on fails with [`Gone`].
    fn stopped(&self) {}
}

/// Takes no interest in events.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoEvents;
impl Events for NoEvents {}

/// The drive was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the drive has been stopped")]
pub struct Gone;

/// Why a connection was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The drive refused the host or the queue.
    #[error("the drive refused the connection: {0}")]
    Refused(nvme::Status),
    /// The drive is without power.
    #[error("the drive is without power")]
    PowerOff,
    /// The drive was stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A command that was not accepted, with its buffer.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub reason: RefusedReason,
    /// What was to be submitted.
    pub buffer: Buffer,
}

/// Why a command was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RefusedReason {
    /// As many commands as the queue has entries are in flight.
    #[error("the queue is full")]
    Full,
    /// The drive was stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A running drive, as its hosts in this process see it. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Connects a host; blocks until the controller is ready.
    ///
    /// # Errors
    /// If the drive refuses the host, has no power or was stopped.
    pub fn connect(&self, host: HostIdentity, events: Arc<dyn Events>) -> Result<Controller, ConnectError> {
        let waiters = Arc::new(Waiters::default());
        let (mut controller, _) = self.connect_in_manner(host, Manner::Managed(events), waiters.clone())?;
        controller.admin.waiters = waiters;
        Ok(controller)
    }

    /// Connects with the completions of the admin queue going to `sink`.
    pub(crate) fn connect_in_manner(
        &self,
        host: HostIdentity,
        manner: Manner,
        sink: Arc<dyn Sink>,
    ) -> Result<(Controller, Queue), ConnectError> {
        let port = Arc::new(Port::new(ADMIN_ENTRIES, sink));
        let (answer, answered) = mpsc::channel();
        self.shared.post(Request::Connect(Box::new(Connect { host, manner, port: port.clone(), answer })))?;
        let cntlid = answered.recv().map_err(|_| Gone)??;
        let queue = Queue { inner: Arc::new(QueueInner { shared: self.shared.clone(), port }) };
        let admin = BlockingQueue { queue: queue.clone(), waiters: Arc::default() };
        Ok((Controller { admin, cntlid }, queue))
    }

    /// NQN of the drive's subsystem.
    pub fn subsystem_nqn(&self) -> &str {
        &self.shared.nqn
    }

    /// The drive's clock: nanoseconds since it was first powered.
    pub fn now(&self) -> media::Nanos {
        self.shared.clock.now()
    }
}

/// Entries of the admin queue.
const ADMIN_ENTRIES: u16 = 32;

/// One association of a host with the drive. Dropping it disconnects.
pub struct Controller {
    admin: BlockingQueue,
    cntlid: u16,
}

impl Controller {
    /// Controller ID at the time of the connection. A power cycle may change it where a host has several controllers.
    pub fn cntlid(&self) -> u16 {
        self.cntlid
    }

    /// How often the drive has lost completed writes to a power cut since it was started. A cut that capacitors cover
    /// does not count. A Flush covers nothing that was written before the last such cut. A caller that sees a completion sees
    /// all cuts before it counted here.
    pub fn losses(&self) -> u64 {
        self.admin.queue.inner.shared.losses()
    }

    /// Carries out one admin command and waits for its end. Any thread may call it, several at once; not
    /// from within [`Sink::complete`] or [`Events`].
    ///
    /// # Errors
    /// If the drive was stopped. A command that fails is `Ok` with its status.
    pub fn admin(&self, command: &Command, buffer: Buffer) -> Result<(Completion, Buffer), Gone> {
        self.admin.execute(command, buffer)
    }

    /// Makes an I/O queue for `entries` commands in flight.
    ///
    /// # Errors
    /// If the drive refuses it (too many queues, too many entries) or was stopped.
    pub fn queue(&self, entries: u16, sink: Arc<dyn Sink>) -> Result<Queue, ConnectError> {
        let admin = &self.admin.queue.inner;
        let port = Arc::new(Port::new(entries, sink));
        port.front.store(admin.port.front.load(Ordering::Acquire), Ordering::Release);
        let (answer, answered) = mpsc::channel();
        admin.shared.post(Request::AddQueue { port: port.clone(), answer })?;
        answered.recv().map_err(|_| Gone)??;
        Ok(Queue { inner: Arc::new(QueueInner { shared: admin.shared.clone(), port }) })
    }

    /// An I/O queue for threads that wait for each command.
    ///
    /// # Errors
    /// As for [`queue`](Controller::queue).
    pub fn blocking_queue(&self, entries: u16) -> Result<BlockingQueue, ConnectError> {
        let waiters = Arc::new(Waiters::default());
        let queue = self.queue(entries, waiters.clone())?;
        Ok(BlockingQueue { queue, waiters })
    }
}

/// A submission queue with its completions going to a [`Sink`]. Cheap to clone, used from any thread;
/// the queue is deleted when its last clone and its last command are gone.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<QueueInner>,
}

struct QueueInner {
    shared: Arc<Shared>,
    port: Arc<Port>,
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        // The admin queue takes its controller along.
        let _ = self.shared.post(Request::Close { port: self.port.clone() });
    }
}

impl Queue {
    /// Submits a command; its completion goes to the sink, possibly before this returns.
    ///
    /// The command's identifier and data pointer are the runtime's: whatever they hold is ignored. The
    /// buffer must hold at least the command's transfer; a command whose buffer is shorter completes with
    /// *Data SGL Length Invalid*.
    ///
    /// # Errors
    /// If the queue is full or the drive was stopped.
    pub fn submit(&self, tag: u64, command: &Command, buffer: Buffer) -> Result<(), Refused> {
        let QueueInner { shared, port } = &*self.inner;
        if !port.enter() {
            return Err(Refused { reason: RefusedReason::Full, buffer });
        }
        shared.submit(port, tag, command, buffer)
    }

    /// Whether the drive has been stopped: nothing will complete any more.
    pub fn is_gone(&self) -> bool {
        self.inner.shared.is_stopped()
    }

    /// Commands that the queue can hold.
    pub fn entries(&self) -> u16 {
        self.inner.port.entries
    }

    /// Commands in flight.
    pub fn in_flight(&self) -> u32 {
        self.inner.port.in_flight.load(Ordering::Relaxed)
    }
}

/// What the handle and the drive both know of a queue.
pub(crate) struct Port {
    /// Index of the controller's entry in the drive's table of in-process hosts.
    pub(crate) front: AtomicU32,
    /// Queue identifier in the controller; 0 is the admin queue.
    pub(crate) qid: AtomicU16,
    pub(crate) entries: u16,
    pub(crate) in_flight: AtomicU32,
    pub(crate) sink: Arc<dyn Sink>,
}

impl Port {
    fn new(entries: u16, sink: Arc<dyn Sink>) -> Self {
        Port {
            front: AtomicU32::new(u32::MAX),
            qid: AtomicU16::new(0),
            entries,
            in_flight: AtomicU32::new(0),
            sink,
        }
    }

    fn enter(&self) -> bool {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if before >= u32::from(self.entries) {
            self.leave();
            return false;
        }
        true
    }

    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A queue whose users wait for each of their commands.
pub struct BlockingQueue {
    queue: Queue,
    waiters: Arc<Waiters>,
}

impl BlockingQueue {
    /// Carries out one command and waits for its end; waits for a free entry first if the queue is
    /// full. Any thread may call it, several at once; not from within [`Sink::complete`].
    ///
    /// # Errors
    /// If the drive was stopped. A command that fails is `Ok` with its status.
    pub fn execute(&self, command: &Command, buffer: Buffer) -> Result<(Completion, Buffer), Gone> {
        let tag = self.submit(command, buffer)?;
        self.wait(tag)
    }

    /// Submits without waiting; [`wait`](BlockingQueue::wait) takes the tag that this returns.
    ///
    /// # Errors
    /// If the drive was stopped.
    pub fn submit(&self, command: &Command, mut buffer: Buffer) -> Result<u64, Gone> {
        let tag = self.waiters.next.fetch_add(1, Ordering::Relaxed);
        loop {
            match self.queue.submit(tag, command, buffer) {
                Ok(()) => return Ok(tag),
                Err(Refused { reason: RefusedReason::Gone(gone), .. }) => return Err(gone),
                Err(refused) => buffer = refused.buffer,
            }
            let done = self.waiters.lock();
            if self.queue.in_flight() >= u32::from(self.queue.entries()) {
                let patience = std::time::Duration::from_millis(10);
                drop(self.waiters.more.wait_timeout(done, patience));
            }
        }
    }

    /// Waits for the end of a command.
    ///
    /// # Errors
    /// If the drive was stopped before the command ended.
    pub fn wait(&self, tag: u64) -> Result<(Completion, Buffer), Gone> {
        let shared = &self.queue.inner.shared;
        loop {
            let mut done = self.waiters.lock();
            if let Some(found) = done.remove(&tag) {
                return Ok(found);
            }
            if shared.is_stopped() {
                return Err(Gone);
            }
            drop(done);
            if shared.attend() {
                continue;
            }
            done = self.waiters.lock();
            if !done.contains_key(&tag) {
                let patience = std::time::Duration::from_millis(200);
                drop(self.waiters.more.wait_timeout(done, patience));
            }
        }
    }

    /// A completion that has arrived, if that of `tag` has.
    pub fn try_wait(&self, tag: u64) -> Option<(Completion, Buffer)> {
        self.waiters.lock().remove(&tag)
    }
}

type Done = HashMap<u64, (Completion, Buffer)>;

#[derive(Default)]
struct Waiters {
    next: AtomicU64,
    done: Mutex<Done>,
    more: Condvar,
}

impl Waiters {
    fn lock(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Waiters {
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer) {
        self.lock().insert(tag, (completion, buffer));
        self.more.notify_all();
    }
}

/// Whether the drive still runs; shared with every handle.
#[derive(Default)]
pub(crate) struct Stopped(AtomicBool);

impl Stopped {
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reservations know hosts by their identifiers.
    #[test]
    fn a_name_is_one_host_in_this_process_and_over_a_network() {
        let name = "nqn.2026-11.test:host";
        let near = HostIdentity::new(name).unwrap();
        let far = host::Identity::new(name.parse().unwrap());
        assert_eq!(near.id, far.hostid);
        assert_ne!(near.id, HostIdentity::new("nqn.2026-11.test:other").unwrap().id);
    }
}
