//! One virtual machine's function, with the controller that it has at the drive.

use crate::endpoint::HostIdentity;
use crate::engine::{Engine, FrontEndId, Owner, Token};
use device::{ControllerId, Host, MAX_IO_QUEUES, Origin, TransportModel};
use image::{Buffer, DataBuffer};
use media::Nanos;
use nvme::admin::GetFeatures;
use nvme::feature::{FeatureId, Select};
use nvme::property::{Cap, Cc, Csts, NSSR_NVME, PropertyOffset, Shn, Shst};
use nvme::protocol_fault::CompletionFault;
use nvme::{CNTLID_DYNAMIC, Command, Completion, SeparateBlock, Status, Transfer, U32};
use pcie::{
    BarLayout, Bus, CommandTag, EnabledValues, Function, FunctionConfig, Incoming, MsixTableOwner,
    PciIdentity, Request, Step,
};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::TryRecvError;
use vfio::{
    Answer, ClientLink, ClientMessage, DeviceShape, GuestMap, InterruptChange, InterruptKind, MapAccess,
    Space,
};

/// The front end's name in the engine.
pub(super) const FRONT_END: FrontEndId = FrontEndId::new(4).with_host_identifiers();
/// Messages of a client that are heard before others have their turn.
const ROUND_MESSAGES: usize = 64;
/// Steps of a function before others have their turn.
const ROUND_STEPS: usize = 256;
/// I/O queue pairs of a function.
const QUEUE_PAIRS: u16 = MAX_IO_QUEUES;
/// MSI-X vectors of a function: one for each queue pair, and one for the admin queue.
const VECTORS: u16 = QUEUE_PAIRS + 1;
/// Doorbell Stride: doorbells lie next to each other.
const DOORBELL_STRIDE: u8 = 0;
/// Commands in flight of one function.
const MAX_COMMANDS: u16 = 8192;

/// Who a function says that it is. Hosts bind their driver by the class. The vendor is not an assigned one.
const IDENTITY: PciIdentity =
    PciIdentity { vendor: 0x54E7, device: 0x0001, subsystem_vendor: 0x54E7, subsystem: 0x0001, revision: 0 };

/// The shape of every function, which a client asks for before the drive answers. A client may map doorbells if the drive's thread never
/// sleeps.
pub(crate) fn shape(never_sleeps: bool) -> DeviceShape {
    let layout = BarLayout::new(QUEUE_PAIRS, DOORBELL_STRIDE, VECTORS);
    let doorbells = layout.doorbells();
    let lent_doorbells = never_sleeps.then_some((doorbells.start, doorbells.end - doorbells.start));
    DeviceShape { bar_bytes: layout.bytes, vectors: layout.vectors, lent_doorbells }
}

/// The tools of a call of the function.
macro_rules! bus {
    ($port:expr) => {
        Bus { memory: &$port.memory, doorbells: $port.doorbells.as_ref(), now_ns: $port.now.0 }
    };
}

/// The events that a client has connected to its interrupts.
#[derive(Default)]
struct ClientEvents {
    vectors: Vec<Option<File>>,
    pin: Option<File>,
    /// The pin sends nothing until the client unmasks it. Sending masks it.
    is_pin_masked: bool,
}

impl ClientEvents {
    fn change(&mut self, kind: InterruptKind, change: InterruptChange) {
        match (kind, change) {
            (InterruptKind::Pin, InterruptChange::Connect(_, mut events)) => {
                self.pin = events.pop().flatten();
                self.is_pin_masked = false;
            }
            (InterruptKind::Pin, InterruptChange::Disconnect) => self.pin = None,
            (InterruptKind::Pin, InterruptChange::Mask) => self.is_pin_masked = true,
            (InterruptKind::Pin, InterruptChange::Unmask) => self.is_pin_masked = false,
            (InterruptKind::Msix, InterruptChange::Connect(first, events)) => {
                for (event, vector) in events.into_iter().zip(first as usize..usize::from(VECTORS)) {
                    if vector >= self.vectors.len() {
                        self.vectors.resize_with(vector + 1, || None);
                    }
                    self.vectors[vector] = event;
                }
            }
            (InterruptKind::Msix, InterruptChange::Disconnect) => self.vectors.clear(),
            // A client masks its vectors itself.
            (InterruptKind::Msix, InterruptChange::Mask | InterruptChange::Unmask) => {}
        }
    }
}

/// Raises an event. One that cannot be written to belongs to a client that has gone.
fn raise(event: Option<&File>) {
    if let Some(mut event) = event {
        let _ = event.write(&1u64.to_ne_bytes());
    }
}

/// A function and what it needs.
pub(crate) struct Port {
    function: Function,
    memory: GuestMap,
    /// Doorbells that the client may have mapped.
    doorbells: Option<GuestMap>,
    link: ClientLink,
    events: ClientEvents,
    host: HostIdentity,
    /// `None` while there is none: the drive has ended it, or could not make one.
    controller: Option<ControllerId>,
    /// Whether there is something to do after commands have ended.
    is_touched: bool,
    /// Whether the drive is shutting the controller down.
    is_shutting_down: bool,
    /// A fault: the controller is enabled, and the function is told so only then.
    late_ready: Option<(Nanos, EnabledValues)>,
    /// A fault: the function is not there until then.
    vanished: Option<Nanos>,
    now: Nanos,
    /// The socket, which goes with the port.
    path: Option<PathBuf>,
}

impl Port {
    /// A function for the client of a link, and a controller for it.
    pub(crate) fn new(
        engine: &mut Engine,
        link: ClientLink,
        host: HostIdentity,
        path: Option<PathBuf>,
        now: Nanos,
    ) -> Result<Self, Status> {
        let controller = connect(engine, &host, now)?;
        let cap = engine.drive.property_get(controller, PropertyOffset::CAP, true)?;
        let limits = engine.limits();
        let function = Function::new(FunctionConfig {
            identity: IDENTITY,
            capabilities: Cap::from_bits(cap.into()),
            queue_pairs: QUEUE_PAIRS,
            max_entries: limits.entries,
            vectors: VECTORS,
            doorbell_stride: DOORBELL_STRIDE,
            requires_contiguous: false,
            max_transfer: limits.transfer,
            max_commands: MAX_COMMANDS,
            msix_table: MsixTableOwner::Client,
        });
        Ok(Port {
            function,
            memory: GuestMap::default(),
            doorbells: None,
            link,
            events: ClientEvents::default(),
            host,
            controller: Some(controller),
            is_touched: false,
            is_shutting_down: false,
            late_ready: None,
            vanished: None,
            now,
            path,
        })
    }

    /// Hears what the client says. False if there is more.
    pub(super) fn hear(&mut self, now: Nanos) -> bool {
        self.now = now;
        let mut is_all = false;
        for _ in 0..ROUND_MESSAGES {
            match self.link.messages.try_recv() {
                Ok(message) => self.take(message),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                    is_all = true;
                    break;
                }
            }
        }
        self.function.follow_doorbells(bus!(self));
        is_all
    }

    /// Whether the host can ring doorbells in memory.
    pub(super) fn has_doorbells_in_memory(&self) -> bool {
        self.function.has_doorbells_in_memory(bus!(self))
    }

    /// Whether the host has rung a doorbell in memory.
    pub(super) fn has_news(&self) -> bool {
        self.function.has_news(bus!(self))
    }

    /// The drive's thread is awake, or wants to sleep. Whether there is something to do.
    pub(super) fn watch(&mut self, is_awake: bool) -> bool {
        self.function.watch(is_awake, bus!(self))
    }

    fn take(&mut self, message: ClientMessage) {
        let bus = bus!(self);
        let done = |result: std::io::Result<()>| result.map(|()| Vec::new()).map_err(|e| e.kind());
        let answer: Answer = match message {
            ClientMessage::Read { space, offset, len } => {
                let mut bytes = vec![0; len];
                match space {
                    _ if self.vanished.is_some() => bytes.fill(u8::MAX),
                    Space::Config => self.function.read_config(offset, &mut bytes),
                    Space::Bar0 => self.function.read_bar(offset, &mut bytes),
                }
                Ok(bytes)
            }
            ClientMessage::Write { .. } if self.vanished.is_some() => return,
            ClientMessage::Write { space: Space::Config, offset, bytes } => {
                return self.function.write_config(offset, &bytes, bus);
            }
            ClientMessage::Write { space: Space::Bar0, offset, bytes } => {
                return self.function.write_bar(offset, &bytes, bus);
            }
            ClientMessage::Map { addr, size, file: Some(file), offset, access } => {
                done(self.memory.map(addr, size, file, offset, access))
            }
            // Memory without a file is none that the function may use.
            ClientMessage::Map { file: None, .. } => Ok(Vec::new()),
            ClientMessage::Unmap(Some((addr, size))) => done(self.memory.unmap(addr, size)),
            ClientMessage::Unmap(None) => {
                self.memory.clear();
                Ok(Vec::new())
            }
            ClientMessage::Interrupts(kind, change) => {
                self.events.change(kind, change);
                Ok(Vec::new())
            }
            ClientMessage::Doorbells(file) => {
                let (start, bytes) = shape(true).lent_doorbells.unwrap_or_default();
                let access = MapAccess { read: true, write: true };
                let mut doorbells = GuestMap::default();
                // Without, the client has a page that nobody looks at: the system has no more memory for the drive.
                match doorbells.map(0, bytes.into(), file, start.into(), access) {
                    Ok(()) => self.doorbells = Some(doorbells),
                    Err(error) => tracing::error!("cannot map the doorbells of a virtual machine: {error}"),
                }
                return;
            }
            ClientMessage::Reset => {
                self.function.function_reset();
                Ok(Vec::new())
            }
            ClientMessage::Gone => {
                self.function.function_reset();
                self.memory.clear();
                self.doorbells = None;
                self.events = ClientEvents::default();
                return;
            }
        };
        // The client waits for it, so there is room.
        let _ = self.link.answers.try_send(answer);
    }

    /// Does what the function wants, and sends interrupts. False if there is more to do.
    pub(super) fn advance(&mut self, engine: &mut Engine, number: u64, now: Nanos) -> bool {
        self.now = now;
        self.is_touched = false;
        self.end_faults();
        self.see_shutdown(engine);
        let mut steps = 0;
        // Both commands of a fused operation find room.
        while steps < ROUND_STEPS && engine.room() > 1 {
            match self.function.poll(bus!(self)) {
                Some(Step::Command(incoming)) => self.submit(engine, number, incoming),
                Some(Step::Request(request)) => self.carry_out(engine, request),
                Some(Step::Handled) => {}
                None => break,
            }
            steps += 1;
        }
        self.interrupt();
        steps < ROUND_STEPS
    }

    /// Sends the interrupts that are due.
    fn interrupt(&mut self) {
        let Port { function, events, .. } = self;
        function.take_interrupts(self.now.0, |vector| {
            raise(events.vectors.get(usize::from(vector)).and_then(Option::as_ref));
        });
        if !events.is_pin_masked && function.is_pin_asserted() {
            events.is_pin_masked = true;
            raise(events.pin.as_ref());
        }
    }

    fn respond(&mut self, tag: CommandTag, completion: Completion) {
        let bus = bus!(self);
        // Each command is answered once.
        let _ = self.function.respond(tag, completion, bus);
    }

    fn submit(&mut self, engine: &mut Engine, number: u64, incoming: Incoming) {
        let Incoming { tag, qid, sqe, alone } = incoming;
        let Some(controller) = self.controller else {
            return self.respond(tag, Completion::new(0, Status::INTERNAL_ERROR));
        };
        let (transfer, separate) = engine.drive.transfer_of_blocks(controller, qid, &sqe);
        let data = match self.gather(tag, transfer, separate) {
            Ok(data) => data,
            Err(status) => return self.respond(tag, Completion::new(0, status)),
        };
        let token = Token { queue: number, command: tag.to_bits().into() };
        engine.submit(self.now, Owner { front_end: FRONT_END, token }, controller, qid, sqe, data);
        if alone {
            engine.end_fused(self.now, controller, qid);
        }
    }

    /// A command's data, or room for what it reads.
    fn gather(
        &mut self,
        tag: CommandTag,
        transfer: Transfer,
        separate: Option<SeparateBlock>,
    ) -> Result<DataBuffer, Status> {
        if transfer == Transfer::None {
            return Ok(DataBuffer::None);
        }
        self.function.map(tag, transfer, separate, &self.memory)?;
        // What is longer was refused.
        let mut buffer = Buffer::zeroed(u32::try_from(transfer.bytes()).unwrap_or(0));
        if let Transfer::ToController(_) = transfer {
            self.function.read(tag, buffer.as_mut_slice(), &self.memory)?;
        }
        Ok(buffer.into())
    }

    /// A command has ended.
    pub(super) fn complete(
        &mut self,
        tag: u32,
        completion: Completion,
        fault: CompletionFault,
        to_host: usize,
        mut data: DataBuffer,
    ) {
        let tag = CommandTag::from_bits(tag);
        let bytes = data.as_mut_slice();
        let len = to_host.min(bytes.len());
        if completion.status().is_success() && len > 0 {
            let bytes = &mut bytes[..len];
            self.function.describe_transport(tag, bytes);
            self.function.write(tag, bytes, &self.memory);
        }
        let bus = bus!(self);
        // Each command is answered once.
        let _ = self.function.respond_with(tag, completion, fault, bus);
        self.is_touched = true;
    }

    /// A fault: an interrupt comes for the queue of a command in flight.
    pub(super) fn interrupt_of(&mut self, tag: u32) {
        self.function.raise_spurious(CommandTag::from_bits(tag));
        self.is_touched = true;
    }

    /// A fault: the function is not there until this time.
    pub(super) fn vanish(&mut self, controller: ControllerId, until: Nanos) {
        if self.controller == Some(controller) {
            self.power_lost();
            self.vanished = Some(until);
        }
    }

    /// A function that has vanished is there again.
    pub(super) fn reappear(&mut self) {
        if self.vanished.take().is_some() {
            self.function.power_returned();
        }
    }

    /// Ends faults whose time has come.
    fn end_faults(&mut self) {
        if self.vanished.is_some_and(|until| until <= self.now) {
            self.reappear();
        }
        if let Some((_, values)) = self.late_ready.take_if(|(until, _)| *until <= self.now) {
            self.function.enabled(Some(values), bus!(self));
        }
    }

    /// Does what the function requests of the drive.
    fn carry_out(&mut self, engine: &mut Engine, request: Request) {
        match request {
            Request::Enable(cc) => {
                let values = self.enable(engine, cc);
                let late = self.controller.and_then(|id| engine.enabling_is_late(self.now, id));
                match late.zip(values) {
                    Some(late) => self.late_ready = Some(late),
                    None => self.function.enabled(values, bus!(self)),
                }
            }
            Request::Reset => {
                self.is_shutting_down = false;
                self.late_ready = None;
                if let Some(controller) = self.controller {
                    engine.release_queue(controller, None);
                }
                self.set(engine, PropertyOffset::CC, Cc::new().into_bits().get());
            }
            Request::Shutdown(shn) => self.begin_shutdown(engine, shn),
            Request::SubsystemReset => {
                if !self.set(engine, PropertyOffset::NSSR, NSSR_NVME) {
                    self.function.fail();
                }
            }
            Request::AddQueue { qid, entries } => {
                let added = self.controller.map(|id| engine.drive.add_queue(id, qid, entries));
                if !matches!(added, Some(Ok(()))) {
                    tracing::warn!("the drive refuses queue {qid} of a virtual machine: {added:?}");
                    self.function.fail();
                }
            }
            Request::RemoveQueue { qid } => {
                if let Some(controller) = self.controller {
                    engine.remove_queue(controller, qid);
                }
            }
            Request::Event(event) => tracing::warn!("a virtual machine writes a wrong doorbell: {event:?}"),
        }
    }

    /// Enables the controller, and makes one first if there is none.
    fn enable(&mut self, engine: &mut Engine, cc: Cc) -> Option<EnabledValues> {
        if self.controller.is_none() {
            self.controller = connect(engine, &self.host, self.now).ok();
        }
        // Sizes of pages and arbitration between queues are the function's.
        let cc = Cc::new().with_en(true).with_css(cc.css()).with_iosqes(6).with_iocqes(4);
        if !self.set(engine, PropertyOffset::CC, cc.into_bits().get()) {
            return None;
        }
        let arbitration =
            GetFeatures { nsid: 0, fid: FeatureId::ARBITRATION, sel: Select::CURRENT, uidx: 0, cdw11: 0 };
        let (arbitration, _) =
            engine.drive.inspect(self.now, self.controller?, &Command::from(arbitration)).ok()?;
        Some(EnabledValues { arbitration })
    }

    fn begin_shutdown(&mut self, engine: &mut Engine, shn: Shn) {
        let cc = Cc::new().with_en(true).with_css(Cc::CSS_SETS).with_iosqes(6).with_iocqes(4).with_shn(shn);
        self.is_shutting_down = self.set(engine, PropertyOffset::CC, cc.into_bits().get());
        if !self.is_shutting_down {
            self.function.shut_down();
        }
        self.see_shutdown(engine);
    }

    /// Tells the function when the controller is shut down.
    fn see_shutdown(&mut self, engine: &Engine) {
        let Some(controller) = self.controller.filter(|_| self.is_shutting_down) else { return };
        let csts = engine.drive.property_get(controller, PropertyOffset::CSTS, false).unwrap_or(0);
        if Csts::from_bits(U32::new(csts as u32)).shst() == Shst::COMPLETE {
            self.is_shutting_down = false;
            self.function.shut_down();
        }
    }

    /// Sets a property of the controller. Whether it was.
    fn set(&mut self, engine: &mut Engine, offset: PropertyOffset, value: u32) -> bool {
        let Some(controller) = self.controller else { return false };
        let Engine { drive, store, outputs, .. } = engine;
        drive.property_set(self.now, controller, offset, value, store, outputs).is_ok()
    }

    pub(super) fn has_to_flush(&self) -> bool {
        self.is_touched
    }

    /// When an interrupt is due that waits for others.
    pub(super) fn deadline(&self) -> Nanos {
        let faults = self.vanished.into_iter().chain(self.late_ready.map(|(until, _)| until));
        faults.fold(Nanos(self.function.deadline_ns()), Nanos::min)
    }

    /// The drive has ended a controller.
    pub(super) fn controller_lost(&mut self, controller: ControllerId) {
        if self.controller == Some(controller) {
            self.controller = None;
            self.is_shutting_down = false;
            self.function.subsystem_reset();
            self.is_touched = true;
        }
    }

    pub(super) fn power_lost(&mut self) {
        self.controller = None;
        self.is_shutting_down = false;
        self.late_ready = None;
        self.function.power_lost();
    }

    pub(super) fn power_returned(&mut self) {
        self.vanished = None;
        self.function.power_returned();
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes a controller for a virtual machine. Who may open the socket may do everything.
fn connect(engine: &mut Engine, host: &HostIdentity, now: Nanos) -> Result<ControllerId, Status> {
    let host =
        Host { transport: TransportModel::Memory, ..Host::administrator(host.nqn, host.id, Origin::Unix) };
    engine.drive.connect(now, host, CNTLID_DYNAMIC, 0)
}
