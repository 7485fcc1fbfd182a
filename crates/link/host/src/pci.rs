//! A drive as a PCI device of this process, over vfio-user: queues in memory that both share.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fabric::{command_identifier, place_of};
use nvme::admin::{CreateIoCq, CreateIoSq};
use nvme::identify::{Cns, IdentifyController};
use nvme::property::{Aqa, Cap, Cc, Csts, PropertyOffset, Shn, Shst};
use nvme::zerocopy::FromBytes;
use nvme::{AdminOpcode, Command, IoOpcode, Nqn, SglDescriptor, U32, U64};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vfio::{CQE_BYTES, Doorbell, GuestMemory, LentMemory, PAGE_BYTES, PciDevice, QueuePair, SQE_BYTES};

use crate::queue::{CompletedCommand, Connected, Data, Identity, Queue, Tag, Transport};
use crate::{Error, TransportError};

/// Entries of an admin queue.
const ADMIN_ENTRIES: u16 = 33;
/// Data of an admin command in bytes, at most, and of any command where the controller names no limit.
const MAX_TRANSFER_BYTES: u64 = 4 << 20;
/// Entries of a page of a PRP list.
const LIST_ENTRIES: u64 = PAGE_BYTES / 8;
/// How long a queue is silent before it looks whether the controller still works.
const SILENCE: Duration = Duration::from_millis(500);
/// How long it waits for the controller's status then.
const CHECK_TIMEOUT: Duration = Duration::from_millis(100);
/// Polls without a completion between two looks at the time.
const POLLS_PER_LOOK: u32 = 4096;

fn failed(what: &str) -> impl FnOnce(io::Error) -> TransportError + '_ {
    move |source| match source.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            TransportError::Closed
        }
        ErrorKind::InvalidData => TransportError::Protocol(source.to_string()),
        _ => TransportError::Io { what: what.into(), source },
    }
}

fn unmapped(_: vfio::Unmapped) -> TransportError {
    let source = io::Error::other("it became shorter");
    TransportError::Io { what: "using memory that is shared with the drive".into(), source }
}

/// A command that has a place in a queue.
#[derive(Debug)]
struct Flying {
    /// Its identifier.
    cid: u16,
    data: Data,
    /// Whether its data is read only if the command succeeds: all of it is there then.
    is_read: bool,
}

/// A queue pair with memory of its own: the queues, then a list of PRPs and data for each command.
#[derive(Debug)]
struct Ring {
    device: Arc<PciDevice>,
    memory: LentMemory,
    pair: QueuePair,
    tail: Doorbell,
    head: Doorbell,
    /// By place.
    flying: Vec<Option<Flying>>,
    /// How many commands each place had.
    generations: Vec<u16>,
    free: Vec<u16>,
    /// Where the lists and data of commands are, and the bytes of both for each.
    commands: u64,
    command_bytes: u64,
    list_bytes: u64,
    /// Completions that arrived while another one was waited for.
    early: VecDeque<CompletedCommand>,
    event: Option<OwnedFd>,
    socket: OwnedFd,
    /// Whether commands were added since the last ring of the tail, and completions taken since the last ring of the head.
    has_new_tail: bool,
    has_new_head: bool,
    polls: u32,
    /// When something came last, or was looked for after nothing had come.
    heard: Instant,
}

impl Ring {
    /// A pair with this many entries, for commands of at most `transfer` bytes. `stride` is the one of doorbells.
    fn new(device: &Arc<PciDevice>, qid: u16, entries: u16, transfer: u64, stride: u64) -> io::Result<Self> {
        let sizes =
            [SQE_BYTES, CQE_BYTES].map(|bytes| (bytes * u64::from(entries)).next_multiple_of(PAGE_BYTES));
        let pages = transfer.div_ceil(PAGE_BYTES).max(1);
        let list_bytes = pages.div_ceil(LIST_ENTRIES - 1) * PAGE_BYTES;
        let command_bytes = list_bytes + pages * PAGE_BYTES;
        let capacity = entries - 1;
        let memory = device.lend(sizes[0] + sizes[1] + u64::from(capacity) * command_bytes)?;
        let (submission, completion) = (memory.base, memory.base + sizes[0]);
        Ok(Ring {
            pair: QueuePair::new(submission, completion, entries.into()),
            tail: device.doorbell(qid, false, stride),
            head: device.doorbell(qid, true, stride),
            flying: (0..capacity).map(|_| None).collect(),
            generations: vec![0; capacity.into()],
            free: (0..capacity).rev().collect(),
            commands: completion + sizes[1],
            command_bytes,
            list_bytes,
            early: VecDeque::new(),
            event: device.interrupt(qid.into())?,
            socket: device.socket()?,
            has_new_tail: false,
            has_new_head: false,
            polls: 0,
            heard: Instant::now(),
            memory,
            device: Arc::clone(device),
        })
    }

    /// Bytes of a command's data, at most.
    fn room(&self) -> usize {
        (self.command_bytes - self.list_bytes) as usize
    }

    fn data_of(&self, place: u16) -> u64 {
        self.commands + u64::from(place) * self.command_bytes + self.list_bytes
    }

    /// The data pointer of a command: two pages, or a list that continues in the next page.
    fn prps(&self, place: u16, bytes: usize) -> Result<[u64; 2], vfio::Unmapped> {
        let data = self.data_of(place);
        let rest = (bytes as u64).div_ceil(PAGE_BYTES).saturating_sub(1);
        if rest <= 1 {
            return Ok([data, data + PAGE_BYTES]);
        }
        let list = data - self.list_bytes;
        let (mut at, mut entries) = (list, Vec::with_capacity(rest as usize * 8));
        for page in 1..=rest {
            let is_last_of_list = (at - list) % PAGE_BYTES == PAGE_BYTES - 8;
            if is_last_of_list && page < rest {
                at += 8;
                entries.extend_from_slice(&at.to_le_bytes());
            }
            entries.extend_from_slice(&(data + page * PAGE_BYTES).to_le_bytes());
            at += 8;
        }
        self.memory.map.write(list, &entries)?;
        Ok([data, list])
    }

    fn submit(&mut self, mut command: Command, data: Data) -> Result<Tag, TransportError> {
        let len = data.len();
        if len > self.room() {
            return Err(TransportError::TooLarge(len));
        }
        let Some(place) = self.free.pop() else { return Err(TransportError::Full) };
        let generation = &mut self.generations[usize::from(place)];
        let cid = command_identifier(place, *generation, self.flying.len());
        *generation = generation.wrapping_add(1);
        let is_read = command.opc == IoOpcode::READ.0;
        match &data {
            Data::Out(bytes) => self.memory.map.write(self.data_of(place), bytes).map_err(unmapped)?,
            // Bytes that the controller does not write stay.
            Data::In(bytes) if !is_read => {
                self.memory.map.write(self.data_of(place), bytes).map_err(unmapped)?
            }
            Data::In(_) | Data::None => {}
        }
        if len > 0 {
            command.dptr = SglDescriptor::of_prps(self.prps(place, len).map_err(unmapped)?);
        }
        command.flags.set_psdt(0);
        command.cid.set(cid);
        self.pair.push(&self.memory.map, &command).map_err(unmapped)?;
        self.flying[usize::from(place)] = Some(Flying { cid, data, is_read });
        self.has_new_tail = true;
        Ok(Tag(cid))
    }

    fn outstanding(&self) -> usize {
        self.flying.len() - self.free.len()
    }

    /// Rings the doorbells that are due.
    fn ring(&mut self) -> Result<(), TransportError> {
        let what = "ringing a doorbell of the drive";
        if std::mem::take(&mut self.has_new_head) {
            self.device.ring(&mut self.head, self.pair.head()).map_err(failed(what))?;
        }
        if std::mem::take(&mut self.has_new_tail) {
            self.device.ring(&mut self.tail, self.pair.tail()).map_err(failed(what))?;
        }
        Ok(())
    }

    /// Takes a completion from the queue. Its place stays taken until it is [released](Ring::release).
    fn take(&mut self) -> Result<Option<CompletedCommand>, TransportError> {
        let Some(completion) = self.pair.take(&self.memory.map).map_err(unmapped)? else { return Ok(None) };
        self.has_new_head = true;
        let cid = completion.cid.get();
        let place = place_of(cid, self.flying.len());
        let flying = self.flying.get_mut(usize::from(place));
        // A completion that comes twice is that of no command, also if the next one has the place already.
        let flying = flying.and_then(|flying| flying.take_if(|flying| flying.cid == cid));
        let Some(Flying { mut data, is_read, .. }) = flying else {
            return Err(TransportError::Protocol(format!("it completes command {cid}, which was not sent")));
        };
        if let Data::In(bytes) = &mut data
            && (completion.status().is_success() || !is_read)
        {
            self.memory.map.read(self.data_of(place), bytes).map_err(unmapped)?;
        }
        self.heard = Instant::now();
        Ok(Some(CompletedCommand { tag: Tag(cid), completion, data }))
    }

    /// Gives the place of a completed command back: its caller has it now.
    fn release(&mut self, done: CompletedCommand) -> CompletedCommand {
        self.free.push(place_of(done.tag.0, self.flying.len()));
        done
    }

    /// Whether the controller still works: commands of one that does not have no answer.
    fn check(&mut self) -> Result<(), TransportError> {
        let csts = self.device.read_register_within(CHECK_TIMEOUT, PropertyOffset::CSTS);
        self.heard = Instant::now();
        let csts = match csts {
            // A drive that is silent for a while may come back. The caller has a limit of its own.
            Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(()),
            csts => csts.map_err(failed("reading the controller's status"))?,
        };
        let broken = |problem: &str| {
            let source = io::Error::new(ErrorKind::ConnectionReset, problem.to_owned());
            Err(TransportError::Io { what: "waiting for the controller".into(), source })
        };
        match Csts::from_bits(U32::new(csts)) {
            _ if csts == u32::MAX => broken("it has no power"),
            csts if csts.cfs() => broken("it reports a fatal error (CSTS.CFS)"),
            csts if !csts.rdy() => broken("it was reset (CSTS.RDY is 0)"),
            _ => Ok(()),
        }
    }

    /// The next completion; see [`Queue::next`].
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        let done = match self.early.pop_front() {
            Some(done) => Some(done),
            None => self.wait(timeout)?,
        };
        Ok(done.map(|done| self.release(done)))
    }

    /// The next completion from the queue. Its place stays taken.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        // New commands go before completions are looked for, and heads with them.
        if self.has_new_tail {
            self.ring()?;
        }
        if let Some(done) = self.take()? {
            return Ok(Some(done));
        }
        self.ring()?;
        if timeout == Some(Duration::ZERO) {
            self.polls += 1;
            if self.polls.is_multiple_of(POLLS_PER_LOOK)
                && self.heard.elapsed() > SILENCE
                && self.outstanding() > 0
            {
                self.check()?;
            }
            return self.take();
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            self.sleep(deadline)?;
            if let Some(done) = self.take()? {
                return Ok(Some(done));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            if self.heard.elapsed() > SILENCE && self.outstanding() > 0 {
                self.check()?;
            }
        }
    }

    /// Waits for an interrupt, for a while.
    fn sleep(&mut self, deadline: Option<Instant>) -> Result<(), TransportError> {
        // Without interrupts it looks from time to time.
        let longest = if self.event.is_some() { SILENCE } else { Duration::from_micros(50) };
        let left = deadline.map_or(longest, |deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.min(longest);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        let none = PollFlags::empty();
        let mut polled = [
            PollFd::new(&self.socket, none),
            self.event
                .as_ref()
                .map_or(PollFd::new(&self.socket, none), |event| PollFd::new(event, PollFlags::IN)),
        ];
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("waiting for the drive")(error.into())),
        }
        let is_gone = polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        self.drain();
        if is_gone { Err(TransportError::Closed) } else { Ok(()) }
    }

    /// Takes the event of the interrupt. Completions are looked for afterwards.
    fn drain(&mut self) {
        if let Some(event) = &self.event {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }

    /// Submits a command, and waits for its successful end.
    fn call(
        &mut self,
        command: Command,
        data: Data,
        timeout: Duration,
        what: impl FnOnce() -> String,
    ) -> Result<CompletedCommand, Error> {
        let tag = self.submit(command, data)?;
        let deadline = Instant::now() + timeout;
        let done = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let done = self.wait(Some(left))?.ok_or(TransportError::Timeout(timeout))?;
            if done.tag == tag {
                break self.release(done);
            }
            self.early.push_back(done);
        };
        match done.completion.status().ok() {
            Ok(()) => Ok(done),
            Err(status) => Err(Error::Command { what: what(), status }),
        }
    }
}

/// A queue of a [`PciTransport`].
#[derive(Debug)]
pub struct PciQueue {
    /// The transport uses the admin queue, too.
    ring: Arc<Mutex<Ring>>,
    /// The interrupt's event, for a caller that watches several queues.
    event: Option<OwnedFd>,
    socket: OwnedFd,
    /// The drive does not answer any more: shared by the queues of a controller.
    silent: Arc<AtomicBool>,
}

impl PciQueue {
    fn new(ring: Ring, silent: Arc<AtomicBool>) -> Result<Self, Error> {
        let what = "using another descriptor";
        let event = ring.event.as_ref().map(OwnedFd::try_clone).transpose().map_err(failed(what))?;
        let socket = ring.socket.try_clone().map_err(failed(what))?;
        Ok(PciQueue { ring: Arc::new(Mutex::new(ring)), event, socket, silent })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was held back and looks for completions, without waiting; [`Queue::arrived`] has them then. For a caller that watches the
    /// [interrupt](AsFd::as_fd) itself.
    ///
    /// # Errors
    /// The device has gone.
    pub fn exchange_all(&mut self) -> Result<(), TransportError> {
        let mut ring = self.ring();
        ring.drain();
        ring.ring()?;
        while let Some(done) = ring.take()? {
            ring.early.push_back(done);
        }
        ring.ring()
    }
}

impl AsFd for PciQueue {
    /// The event of its interrupt. A device without interrupts has its connection only.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_ref().unwrap_or(&self.socket).as_fd()
    }
}

impl Queue for PciQueue {
    fn capacity(&self) -> usize {
        self.ring().flying.len()
    }

    fn outstanding(&self) -> usize {
        self.ring().outstanding()
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        self.ring().submit(command, data)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.ring().ring()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        self.ring().next(timeout)
    }

    fn arrived(&mut self) -> Option<CompletedCommand> {
        let mut ring = self.ring();
        let done = match ring.early.pop_front() {
            Some(done) => Some(done),
            // What breaks is seen by the next call that may report it.
            None => ring.take().ok().flatten(),
        };
        done.map(|done| ring.release(done))
    }

    fn abandon(&mut self) {
        self.silent.store(true, Ordering::Relaxed);
    }
}

/// The controller of a PCI device.
#[derive(Debug)]
struct Association {
    device: Arc<PciDevice>,
    admin: Arc<Mutex<Ring>>,
    cap: Cap,
    cc: Cc,
    next_qid: u16,
    transfer: u64,
    stride: u64,
    shutdown: Duration,
    silent: Arc<AtomicBool>,
}

/// A drive as a PCI device.
#[derive(Debug)]
pub struct PciTransport {
    path: PathBuf,
    /// The NQN that the subsystem must have.
    subnqn: Option<Nqn>,
    timeout: Duration,
    association: Option<Association>,
}

impl PciTransport {
    /// The device of this socket; nothing is sent yet. `timeout` limits each step of connecting. With `subnqn`, other subsystems are refused.
    #[must_use]
    pub fn new(path: PathBuf, subnqn: Option<Nqn>, timeout: Duration) -> Self {
        PciTransport { path, subnqn, timeout, association: None }
    }

    fn what(&self) -> String {
        format!("connecting to pci://{}", self.path.display())
    }

    fn set_cc(&self, device: &PciDevice, cc: Cc) -> Result<(), Error> {
        let what = "configuring the controller";
        Ok(device.write_register(PropertyOffset::CC, cc.into_bits().get()).map_err(failed(what))?)
    }

    /// Waits until CSTS is as wanted.
    fn wait_for(
        &self,
        device: &PciDevice,
        limit: Duration,
        what: &str,
        wanted: impl Fn(Csts) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let wrong = |problem: &str| Error::Answer { what: what.into(), problem: problem.into() };
        loop {
            let value = device.read_register(PropertyOffset::CSTS, false).map_err(failed(what))? as u32;
            let csts = Csts::from_bits(U32::new(value));
            if value == u32::MAX {
                let source = io::Error::new(ErrorKind::ConnectionReset, "the controller has no power");
                return Err(TransportError::Io { what: what.into(), source }.into());
            }
            if wanted(csts) {
                return Ok(());
            }
            if csts.cfs() {
                return Err(wrong("the controller reports a fatal error (CSTS.CFS)"));
            }
            if Instant::now() >= deadline {
                return Err(wrong("the controller did not do so in time"));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Enables the controller with an admin queue.
    fn enable(&self, device: &Arc<PciDevice>) -> Result<(Ring, Cap, Cc), Error> {
        let what = self.what();
        let cap = device.read_register(PropertyOffset::CAP, true).map_err(failed(&what))?;
        let cap = Cap::from_bits(U64::new(cap));
        // At least what the controller says it may take, in units of 500 ms.
        let limit = (Duration::from_millis(500) * u32::from(cap.to())).max(self.timeout);
        self.set_cc(device, Cc::new())?;
        self.wait_for(device, limit, "resetting the controller", |csts| !csts.rdy())?;
        let admin = Ring::new(device, 0, ADMIN_ENTRIES, MAX_TRANSFER_BYTES, 4 << cap.dstrd())
            .map_err(failed(&what))?;
        let [submission, completion] = admin.pair.bases();
        let aqa = Aqa::new().with_asqs_z(ADMIN_ENTRIES - 1).with_acqs_z(ADMIN_ENTRIES - 1);
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        let [asq, acq] = [submission, completion].map(halves);
        for (offset, value) in [
            (PropertyOffset::AQA, aqa.into_bits().get()),
            (PropertyOffset::ASQ, asq[0]),
            (PropertyOffset(PropertyOffset::ASQ.0 + 4), asq[1]),
            (PropertyOffset::ACQ, acq[0]),
            (PropertyOffset(PropertyOffset::ACQ.0 + 4), acq[1]),
        ] {
            device.write_register(offset, value).map_err(failed(&what))?;
        }
        let cc = Cc::enabled(cap);
        self.set_cc(device, cc)?;
        self.wait_for(device, limit, "enabling the controller", |csts| csts.rdy())?;
        Ok((admin, cap, cc))
    }

    /// Moves the doorbells of I/O queues to memory, if the controller has that: a doorbell is a message only when the drive sleeps.
    fn share_doorbells(&self, device: &PciDevice, admin: &mut Ring) -> Result<(), Error> {
        let what = "sharing doorbells with the drive";
        let (memory, pages) = device.lend_shadow_doorbells().map_err(failed(what))?;
        let command =
            Command::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0).with_dptr(SglDescriptor::of_prps(pages));
        match admin.call(command, Data::None, self.timeout, || what.into()) {
            Ok(_) => device.use_shadow_doorbells(memory),
            // Without, doorbells are messages.
            Err(Error::Command { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Transport for PciTransport {
    type Queue = PciQueue;

    fn connect(&mut self, identity: &Identity) -> Result<Connected<PciQueue>, Error> {
        self.disconnect();
        let wrong = |why: String| Error::Connect { what: self.what(), why, status: None };
        if identity.chap.as_ref().is_some_and(|keys| keys.controller.is_some()) {
            return Err(wrong("a PCI device cannot prove who it is".into()));
        }
        let device = PciDevice::open(&self.path, self.timeout).map_err(|source| match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => TransportError::Timeout(self.timeout),
            _ => failed(&self.what())(source),
        })?;
        let device = Arc::new(device);
        let (mut admin, cap, cc) = self.enable(&device)?;
        let identify = Command::identify(Cns::CONTROLLER, 0);
        let what = || "identifying the controller".into();
        let done = admin.call(identify, Data::room(nvme::IDENTIFY_SIZE), self.timeout, what)?;
        let controller = IdentifyController::read_from_bytes(&done.data.into_buffer()).unwrap_or_default();
        let subnqn = Nqn::from_field(&controller.subnqn).ok();
        if let Some(wanted) = identity.subnqn.or(self.subnqn).filter(|wanted| subnqn != Some(*wanted)) {
            let found = subnqn.map_or_else(|| "one without a name".to_owned(), |nqn| nqn.to_string());
            return Err(wrong(format!("the subsystem there is not {wanted}, but {found}")));
        }
        if controller.oacs.dbcs() {
            self.share_doorbells(&device, &mut admin)?;
        }
        let transfer = match controller.mdts {
            0 => MAX_TRANSFER_BYTES,
            mdts => 1u64.checked_shl(12 + u32::from(cap.mpsmin()) + u32::from(mdts)).unwrap_or(u64::MAX),
        };
        let silent = Arc::default();
        let queue = PciQueue::new(admin, Arc::clone(&silent))?;
        self.association = Some(Association {
            admin: Arc::clone(&queue.ring),
            cap,
            cc,
            next_qid: 1,
            transfer: transfer.min(1 << 30),
            stride: 4 << cap.dstrd(),
            shutdown: Duration::from_micros(controller.rtd3e.get().into()).max(self.timeout),
            silent,
            device,
        });
        Ok(Connected { admin: queue, cntlid: controller.cntlid.get(), cap })
    }

    fn open_io(&mut self, depth: u16) -> Result<PciQueue, Error> {
        let timeout = self.timeout;
        let not_connected = || Error::Usage("an I/O queue needs a connected controller".into());
        let association = self.association.as_mut().ok_or_else(not_connected)?;
        let Association { device, admin, cap, next_qid, transfer, stride, silent, .. } = association;
        let qid = *next_qid;
        // One entry stays empty.
        let entries = depth.max(1).saturating_add(1).min(cap.mqes_z().saturating_add(1)).max(2);
        let ring = Ring::new(device, qid, entries, *transfer, *stride)
            .map_err(failed("lending memory to the drive"))?;
        let [submission, completion] = ring.pair.bases();
        let (ien, qsize_z) = (ring.event.is_some(), entries - 1);
        let create = CreateIoCq { qid, qsize_z, pc: true, ien, iv: if ien { qid } else { 0 } };
        let add = CreateIoSq { qid, qsize_z, pc: true, qprio: 0, cqid: qid, nvmsetid: 0 };
        for (command, base) in [(Command::from(create), completion), (Command::from(add), submission)] {
            let command = command.with_dptr(SglDescriptor::of_prps([base, 0]));
            let mut admin = admin.lock().unwrap_or_else(PoisonError::into_inner);
            admin.call(command, Data::None, timeout, || format!("creating I/O queue {qid}"))?;
        }
        *next_qid += 1;
        PciQueue::new(ring, Arc::clone(silent))
    }

    fn shutdown(&mut self, _: &mut PciQueue) -> Result<(), Error> {
        let Some(Association { device, cc, shutdown, silent, .. }) = &self.association else { return Ok(()) };
        if silent.load(Ordering::Relaxed) {
            return Err(Error::Answer {
                what: "shutting the controller down".into(),
                problem: "the drive has stopped answering".into(),
            });
        }
        self.set_cc(device, cc.with_shn(Shn::NORMAL))?;
        self.wait_for(device, *shutdown, "shutting the controller down", |csts| {
            csts.shst() == Shst::COMPLETE
        })?;
        self.disconnect();
        Ok(())
    }

    fn disconnect(&mut self) {
        if let Some(association) = self.association.take() {
            association.device.close();
        }
    }
}
