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
//! thread is at it, that one takes the command along. The drive's own thread does what no submitter waits for:
//! timers, sockets, held completions.
//!
//! **Power cuts.** A controller and its queues survive them. Commands in flight complete with *Commands
//! Aborted due to Power Loss Notification*, and so do later ones until power is back. Then the
//! runtime connects the same host again. [`Events::power`] reports both.
//!
//! **Subsystem resets.** The runtime connects the same host again at once. Commands that the drive held, for a quota for example, complete with *Command
//! Aborted due to SQ Deletion*.

pub use crate::endpoint::{ConnectError, Events, Gone, HostIdentity, NoEvents, Refused, RefusedReason, Sink};

use crate::endpoint::QueueEndpoint;
use crate::hosts::{Connect, ManagedBy, Request};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use device::Origin;
use image::Buffer;
use nvme::{Command, Completion};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};

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
        let (mut controller, _) =
            self.connect_managed(host, ManagedBy::Runtime(events), Origin::InProcess, waiters.clone())?;
        controller.admin.waiters = waiters;
        Ok(controller)
    }

    /// Connects with the completions of the admin queue going to `sink`.
    pub(crate) fn connect_managed(
        &self,
        host: HostIdentity,
        managed_by: ManagedBy,
        origin: Origin,
        sink: Arc<dyn Sink>,
    ) -> Result<(Controller, Queue), ConnectError> {
        let endpoint = Arc::new(QueueEndpoint::new(ADMIN_ENTRIES, sink));
        let (answer, answered) = mpsc::channel();
        let connect = Connect { host, managed_by, origin, endpoint: endpoint.clone(), answer };
        self.shared.post(Request::Connect(Box::new(connect)))?;
        let cntlid = answered.recv().map_err(|_| Gone)??;
        let queue = Queue { inner: Arc::new(QueueInner { shared: self.shared.clone(), endpoint }) };
        let admin = BlockingQueue { queue: queue.clone(), waiters: Arc::default() };
        Ok((Controller { admin, cntlid }, queue))
    }

    /// NQN of the drive's subsystem.
    pub fn subsystem_nqn(&self) -> &str {
        &self.shared.nqn
    }

    /// What the drive counts, and its state, at this moment: for monitors. No command is sent, and no host notices. Any thread may call it; not from
    /// within [`Sink::complete`] or [`Events`].
    ///
    /// # Errors
    /// If the drive was stopped.
    pub fn snapshot(&self) -> Result<Snapshot, Gone> {
        self.shared.snapshot()
    }

    /// How often the drive has lost completed writes to a power cut since it was started. A cut that capacitors cover
    /// does not count. A Flush covers nothing that was written before the last such cut. A caller that sees a completion sees
    /// all cuts before it counted here.
    pub fn losses(&self) -> u64 {
        self.shared.losses()
    }

    /// The drive's clock: nanoseconds since it was first powered.
    pub fn now(&self) -> media::Nanos {
        self.shared.clock.now()
    }
}

/// Entries of the admin queue: those of a typed host, and a question about each namespace.
const ADMIN_ENTRIES: u16 = 2048;

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

    pub(crate) fn admin_queue(&self) -> Queue {
        self.admin.queue.clone()
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
        let endpoint = Arc::new(QueueEndpoint::new(entries, sink));
        let association = admin.endpoint.association.load(Ordering::Acquire);
        endpoint.association.store(association, Ordering::Release);
        let (answer, answered) = mpsc::channel();
        admin.shared.post(Request::AddQueue { endpoint: endpoint.clone(), answer })?;
        answered.recv().map_err(|_| Gone)??;
        Ok(Queue { inner: Arc::new(QueueInner { shared: admin.shared.clone(), endpoint }) })
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
    endpoint: Arc<QueueEndpoint>,
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        // The admin queue takes its controller along.
        let _ = self.shared.post(Request::Close { endpoint: self.endpoint.clone() });
    }
}

impl Queue {
    /// Submits a command; its completion goes to the sink, possibly before this returns.
    ///
    /// The command's identifier and data pointer are the runtime's, and their values here are ignored. The
    /// buffer must hold at least the command's transfer; a command whose buffer is shorter completes with
    /// *Data SGL Length Invalid*.
    ///
    /// # Errors
    /// If the queue is full or the drive was stopped.
    pub fn submit(&self, tag: u64, command: &Command, buffer: Buffer) -> Result<(), Refused> {
        self.post(tag, command, None, buffer)?;
        self.ring();
        Ok(())
    }

    /// Leaves a command with the drive, as [`submit`](Queue::submit) does. The drive may not begin it before somebody
    /// [rings](Queue::ring): commands that come together cost less if it begins them together.
    ///
    /// With the `generation` of the namespace that the command is for (bytes 392 to 399 of Identify Namespace), the drive refuses the command with
    /// *Invalid Namespace or Format* if the NSID has another namespace by now, or the namespace was formatted.
    ///
    /// # Errors
    /// If the queue is full or the drive was stopped.
    pub fn post(
        &self,
        tag: u64,
        command: &Command,
        generation: Option<NonZeroU64>,
        buffer: Buffer,
    ) -> Result<(), Refused> {
        let QueueInner { shared, endpoint } = &*self.inner;
        if !endpoint.enter() {
            return Err(Refused { reason: RefusedReason::Full, buffer });
        }
        shared.submit(endpoint, tag, command, generation, buffer)
    }

    /// Lets the drive begin what was [posted](Queue::post). Completions may go to their sinks before this returns.
    pub fn ring(&self) {
        self.inner.shared.step();
    }

    /// Whether the drive has been stopped: nothing will complete any more.
    pub fn is_gone(&self) -> bool {
        self.inner.shared.is_stopped()
    }

    /// Commands that the queue can hold.
    pub fn entries(&self) -> u16 {
        self.inner.endpoint.entries
    }

    /// Commands in flight.
    pub fn in_flight(&self) -> u32 {
        self.inner.endpoint.in_flight.load(Ordering::Relaxed)
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

/// Commands that have ended and were not asked for yet, by their tags.
type Unclaimed = HashMap<u64, (Completion, Buffer)>;

#[derive(Default)]
struct Waiters {
    next: AtomicU64,
    done: Mutex<Unclaimed>,
    more: Condvar,
}

impl Waiters {
    fn lock(&self) -> std::sync::MutexGuard<'_, Unclaimed> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Waiters {
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer) {
        self.lock().insert(tag, (completion, buffer));
        self.more.notify_all();
    }
}
