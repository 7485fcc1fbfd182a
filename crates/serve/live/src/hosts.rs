//! The front end of hosts in this process: their controllers, queues and events.
//!
//! Other threads leave requests in an inbox. News for hosts are gathered as [`Notice`]s, and delivered when no thread holds the
//! engine any more.

use crate::endpoint::{ConnectError, Events, HostIdentity, QueueEndpoint};
use crate::engine::front_end::{EndedCommand, EngineTurn, FrontEnd};
use crate::engine::{Engine, FrontEndId, Owner, Token};
use device::{ControllerId, Host, Origin};
use image::Buffer;
use image::{DataBuffer, Store};
use media::Nanos;
use nvme::property::{Cc, PropertyOffset};
use nvme::{AdminOpcode, CNTLID_DYNAMIC, Command, Completion, Status};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

/// Identifier of the Changed Attached Namespace List log page (Base 5.1.12.1.5).
const CHANGED_NAMESPACES: u32 = 0x04;
/// Feature identifier of Asynchronous Event Configuration, and its bit for namespace attribute notices
/// (Base 5.1.25.1.5).
const EVENT_CONFIGURATION: u32 = 0x0B;
const NAMESPACE_NOTICES: u32 = 1 << 8;

/// Requests that are taken in before completions are delivered.
const BATCH: isize = 128;

/// What another thread asks for.
pub(crate) enum Request {
    Command {
        endpoint: Arc<QueueEndpoint>,
        tag: u64,
        command: Command,
        /// The generation of the namespace that the command is for, if its host says.
        generation: Option<NonZeroU64>,
        buffer: Buffer,
    },
    /// Boxed, because it is rare and large.
    Connect(Box<Connect>),
    AddQueue {
        endpoint: Arc<QueueEndpoint>,
        answer: Sender<Result<u16, ConnectError>>,
    },
    /// The last handle of a queue has gone.
    Close {
        endpoint: Arc<QueueEndpoint>,
    },
    /// Shut the drive down cleanly.
    Stop,
}

/// A host that connects.
pub(crate) struct Connect {
    pub(crate) host: HostIdentity,
    pub(crate) managed_by: ManagedBy,
    /// Where the drive takes it to come from.
    pub(crate) origin: Origin,
    pub(crate) endpoint: Arc<QueueEndpoint>,
    pub(crate) answer: Sender<Result<u16, ConnectError>>,
}

/// Who looks after a controller. The runtime enables it in any case.
pub(crate) enum ManagedBy {
    /// The runtime: it asks for events, and connects again when the drive has ended the controller.
    Runtime(Arc<dyn Events>),
    /// The host.
    Host { kato_ms: u32 },
}

/// What a host is to be told, after the engine was given back.
pub(crate) enum Notice {
    Complete { endpoint: Arc<QueueEndpoint>, tag: u64, completion: Completion, buffer: Buffer },
    NamespacesChanged(Arc<dyn Events>),
    Power(Arc<dyn Events>, bool),
    Stopped(Arc<dyn Events>),
}

impl Notice {
    pub(crate) fn deliver(self) {
        match self {
            Notice::Complete { endpoint, tag, completion, buffer } => {
                endpoint.leave();
                endpoint.sink.complete(tag, completion, buffer);
            }
            Notice::NamespacesChanged(events) => events.namespaces_changed(),
            Notice::Power(events, up) => events.power(up),
            Notice::Stopped(events) => events.stopped(),
        }
    }
}

/// A host and its controller.
struct Association {
    host: HostIdentity,
    managed_by: ManagedBy,
    origin: Origin,
    /// `None` while there is no power, or when the drive has ended the controller.
    controller: Option<ControllerId>,
    /// Index is the queue identifier; the first is the admin queue.
    queues: Vec<Option<Arc<QueueEndpoint>>>,
}

impl Association {
    fn events(&self) -> Option<Arc<dyn Events>> {
        match &self.managed_by {
            ManagedBy::Runtime(events) => Some(events.clone()),
            ManagedBy::Host { .. } => None,
        }
    }
}

/// A command in flight.
enum InFlight {
    /// None: the place is free.
    Free,
    /// A host's.
    Host { endpoint: Arc<QueueEndpoint>, tag: u64 },
    /// The runtime's: a request for events of this association.
    EventRequest { association: u32 },
    /// The runtime's: the log of changed namespaces is read, which clears the event.
    ChangedLog { association: u32 },
    /// The runtime's, and no host waits for it.
    Ignored,
}

/// All hosts in this process.
pub(crate) struct Hosts {
    inbox: Receiver<Request>,
    /// Requests that were taken in since [`take_count`](Hosts::take_count).
    taken: isize,
    associations: Vec<Option<Association>>,
    /// Commands in flight. The engine knows each by its index here.
    in_flight: Vec<InFlight>,
    /// Places there that are free.
    free: Vec<u32>,
    /// Requests for events that were answered, and how.
    answered: Vec<(u32, Completion)>,
    notices: Vec<Notice>,
    powered_off: bool,
    /// Hosts do not know yet that power is off.
    power_loss_untold: bool,
    /// The drive has ended controllers, and has power: hosts that the runtime manages connect again.
    reconnects: bool,
}

impl FrontEnd for Hosts {
    fn poll(&mut self, engine: &mut Engine, turn: &mut EngineTurn<'_>) {
        let before = self.taken;
        while self.taken - before < BATCH {
            let Ok(request) = self.inbox.try_recv() else { break };
            self.taken += 1;
            // A few commands take about as long as reading the clock is worth.
            if (self.taken - before) % 8 == 0 {
                turn.refresh();
            }
            let now = turn.now;
            match request {
                Request::Command { endpoint, tag, command, generation, buffer } => {
                    self.command(engine, now, endpoint, tag, (&command, generation), buffer);
                }
                Request::Stop => engine.begin_stop(now),
                Request::Connect(connect) => {
                    let Connect { host, managed_by, origin, endpoint, answer } = *connect;
                    let result = self.connect(engine, now, host, managed_by, origin, &endpoint);
                    // A host that no longer waits for the answer disconnects by dropping its queue.
                    let _ = answer.send(result);
                }
                Request::AddQueue { endpoint, answer } => {
                    let result = self.add_queue(engine, &endpoint);
                    let _ = answer.send(result);
                }
                Request::Close { endpoint } => self.close(engine, now, &endpoint),
            }
        }
    }

    fn complete(&mut self, ended: EndedCommand, _: &mut Store) {
        let EndedCommand { owner, completion, data, .. } = ended;
        let index = owner.token.command as u32;
        let Some(place) = self.in_flight.get_mut(index as usize) else { return };
        let command = std::mem::replace(place, InFlight::Free);
        self.free.push(index);
        match command {
            InFlight::Host { endpoint, tag } => {
                let buffer = data.into_owned();
                self.notices.push(Notice::Complete { endpoint, tag, completion, buffer });
            }
            InFlight::EventRequest { association } => self.answered.push((association, completion)),
            // After a power cut the hosts are told of all namespaces when they are connected again.
            InFlight::ChangedLog { association } if !self.powered_off => {
                let events = self.association(association).and_then(Association::events);
                self.notices.extend(events.map(Notice::NamespacesChanged));
            }
            InFlight::ChangedLog { .. } | InFlight::Ignored | InFlight::Free => {}
        }
    }

    fn has_to_flush(&self) -> bool {
        self.power_loss_untold || self.reconnects || !self.answered.is_empty()
    }

    fn flush(&mut self, engine: &mut Engine, now: Nanos) -> bool {
        if std::mem::take(&mut self.power_loss_untold) {
            let events = self.associations.iter().flatten().filter_map(Association::events);
            self.notices.extend(events.map(|events| Notice::Power(events, false)));
        }
        for (association, completion) in std::mem::take(&mut self.answered) {
            self.event(engine, now, association, completion);
        }
        if !self.reconnects {
            return true;
        }
        // Their identifiers may be given again once all front ends know that they have ended.
        if engine.is_expelling() {
            return false;
        }
        self.reconnects = false;
        let again = self.reconnect(engine, now);
        tracing::warn!(
            "the drive has ended all controllers, as a subsystem reset does; {} hosts of this process are connected again",
            again.len()
        );
        self.notices.extend(again.into_iter().map(Notice::NamespacesChanged));
        true
    }

    fn controller_lost(&mut self, controller: ControllerId) {
        for association in self.associations.iter_mut().flatten() {
            if association.controller == Some(controller) {
                association.controller = None;
                self.reconnects |= association.events().is_some();
            }
        }
    }

    fn power_lost(&mut self, _: &mut Store) {
        self.powered_off = true;
        self.power_loss_untold = true;
        self.reconnects = false;
        for association in self.associations.iter_mut().flatten() {
            association.controller = None;
        }
    }

    fn power_returned(&mut self, engine: &mut Engine, now: Nanos) {
        self.powered_off = false;
        for events in self.reconnect(engine, now) {
            self.notices.push(Notice::Power(events.clone(), true));
            self.notices.push(Notice::NamespacesChanged(events));
        }
    }

    fn stopped(&mut self, _: &mut Store) {
        let events = self.associations.iter().flatten().filter_map(Association::events);
        self.notices.extend(events.map(Notice::Stopped));
    }
}

impl Hosts {
    /// The front end's name in the engine.
    pub(crate) const ID: FrontEndId = FrontEndId::new(1);

    /// Hosts whose requests come through this inbox.
    pub(crate) fn new(inbox: Receiver<Request>) -> Self {
        Hosts {
            inbox,
            taken: 0,
            associations: Vec::new(),
            in_flight: Vec::new(),
            free: Vec::new(),
            answered: Vec::new(),
            notices: Vec::new(),
            powered_off: false,
            power_loss_untold: false,
            reconnects: false,
        }
    }

    /// How many requests were taken in since the last call.
    pub(crate) fn take_count(&mut self) -> isize {
        std::mem::take(&mut self.taken)
    }

    /// Gives what hosts are to be told, in exchange for an empty list.
    pub(crate) fn exchange_notices(&mut self, list: &mut Vec<Notice>) {
        std::mem::swap(&mut self.notices, list);
    }

    /// Lets go of everything that other threads might wait for.
    pub(crate) fn hang_up(&mut self) {
        while self.inbox.try_recv().is_ok() {}
    }

    fn association(&self, index: u32) -> Option<&Association> {
        self.associations.get(index as usize)?.as_ref()
    }

    /// The controller and queue of an endpoint.
    #[inline]
    fn controller_of(&self, endpoint: &QueueEndpoint) -> Result<(ControllerId, u16), Status> {
        let qid = endpoint.qid.load(Ordering::Relaxed);
        let association = self.association(endpoint.association.load(Ordering::Relaxed));
        // The entry may be another host's by now.
        let association = association.filter(|a| {
            let queue = a.queues.get(usize::from(qid)).and_then(Option::as_deref);
            queue.is_some_and(|queue| std::ptr::eq(queue, endpoint))
        });
        match association.and_then(|a| a.controller) {
            Some(controller) => Ok((controller, qid)),
            None if self.powered_off => Err(Status::POWER_LOSS),
            None => Err(Status::ABORTED_SQ_DELETION),
        }
    }

    /// Takes a place for a command in flight.
    #[inline]
    fn begin(&mut self, command: InFlight) -> Owner {
        let index = match self.free.pop() {
            Some(index) => {
                self.in_flight[index as usize] = command;
                index
            }
            None => {
                self.in_flight.push(command);
                self.in_flight.len() as u32 - 1
            }
        };
        Owner { front_end: Hosts::ID, token: Token { queue: 0, command: index.into() } }
    }

    fn command(
        &mut self,
        engine: &mut Engine,
        now: Nanos,
        endpoint: Arc<QueueEndpoint>,
        tag: u64,
        (command, generation): (&Command, Option<NonZeroU64>),
        buffer: Buffer,
    ) {
        let found = self.controller_of(&endpoint).and_then(|(controller, qid)| match generation {
            Some(of) if !engine.confirm(now, controller, command.nsid.get(), of) => {
                Err(Status::INVALID_NAMESPACE.with_dnr())
            }
            _ => Ok((controller, qid)),
        });
        match found {
            Ok((controller, qid)) => {
                if qid != 0 {
                    engine.drive.prefetch(command);
                }
                let owner = self.begin(InFlight::Host { endpoint, tag });
                engine.submit(now, owner, controller, qid, *command, buffer.into());
            }
            Err(status) => {
                let completion = Completion::new(0, status);
                self.notices.push(Notice::Complete { endpoint, tag, completion, buffer });
            }
        }
    }

    fn connect(
        &mut self,
        engine: &mut Engine,
        now: Nanos,
        host: HostIdentity,
        managed_by: ManagedBy,
        origin: Origin,
        endpoint: &Arc<QueueEndpoint>,
    ) -> Result<u16, ConnectError> {
        if self.powered_off {
            return Err(ConnectError::PowerOff);
        }
        if engine.is_expelling() {
            return Err(ConnectError::Refused(Status::CONNECT_CONTROLLER_BUSY));
        }
        let index = match self.associations.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.associations.push(None);
                self.associations.len() - 1
            }
        };
        let queues = vec![Some(endpoint.clone())];
        self.associations[index] = Some(Association { host, managed_by, origin, controller: None, queues });
        match self.associate(engine, now, index as u32) {
            Ok(id) => {
                endpoint.association.store(index as u32, Ordering::Relaxed);
                Ok(id.0)
            }
            Err(status) => {
                self.associations[index] = None;
                Err(ConnectError::Refused(status))
            }
        }
    }

    /// Connects the hosts again that the runtime manages and that have no controller, with the queues that they had. Returns them.
    fn reconnect(&mut self, engine: &mut Engine, now: Nanos) -> Vec<Arc<dyn Events>> {
        let mut again = Vec::new();
        for index in 0..self.associations.len() {
            let Some(association) = &self.associations[index] else { continue };
            let Some(events) = association.events().filter(|_| association.controller.is_none()) else {
                continue;
            };
            let queues: Vec<_> = association.queues.iter().skip(1).flatten().cloned().collect();
            match self.associate(engine, now, index as u32) {
                Ok(id) => {
                    for endpoint in queues {
                        let qid = endpoint.qid.load(Ordering::Relaxed);
                        if let Err(status) = engine.drive.add_queue(id, qid, u32::from(endpoint.entries) + 1)
                        {
                            tracing::error!("queue {qid} of a host could not be connected again: {status}");
                        }
                    }
                    again.push(events);
                }
                Err(status) => tracing::error!("a host could not be connected again: {status}"),
            }
        }
        again
    }

    /// Connects a host's controller, again or for the first time.
    fn associate(&mut self, engine: &mut Engine, now: Nanos, index: u32) -> Result<ControllerId, Status> {
        let association = self.association(index).ok_or(Status::INTERNAL_ERROR)?;
        let (managed, kato_ms) = match association.managed_by {
            ManagedBy::Runtime(_) => (true, 0),
            ManagedBy::Host { kato_ms } => (false, kato_ms),
        };
        let (nqn, host_id) = (association.host.nqn, association.host.id);
        let host = Host::administrator(nqn, host_id, association.origin);
        let id = engine.drive.connect(now, host, CNTLID_DYNAMIC, kato_ms)?;
        let enable =
            Cc::new().with_en(true).with_css(Cc::CSS_SETS).with_iosqes(6).with_iocqes(4).into_bits().into();
        let (store, outputs) = (&mut engine.store, &mut engine.outputs);
        engine.drive.property_set(now, id, PropertyOffset::CC, enable, store, outputs)?;
        if managed {
            let mut configure = Command::new(AdminOpcode::SET_FEATURES.0, 0);
            configure.cdw10.set(EVENT_CONFIGURATION);
            configure.cdw11.set(NAMESPACE_NOTICES);
            let owner = self.begin(InFlight::Ignored);
            engine.submit(now, owner, id, 0, configure, DataBuffer::None);
            self.request_event(engine, now, index, id);
        }
        if let Some(Some(association)) = self.associations.get_mut(index as usize) {
            association.controller = Some(id);
        }
        Ok(id)
    }

    fn request_event(&mut self, engine: &mut Engine, now: Nanos, association: u32, id: ControllerId) {
        let request = Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
        let owner = self.begin(InFlight::EventRequest { association });
        engine.submit(now, owner, id, 0, request, DataBuffer::None);
    }

    /// A request for events was answered: reads the log that the event is about, which clears it, and asks for the next.
    fn event(&mut self, engine: &mut Engine, now: Nanos, association: u32, completion: Completion) {
        let Some(id) = self.association(association).and_then(|a| a.controller) else { return };
        if !completion.status().is_success() {
            return;
        }
        let log = completion.dw0.get() >> 16 & 0xFF;
        let mut read = Command::new(AdminOpcode::GET_LOG_PAGE.0, nvme::NSID_ALL);
        let (bytes, command) = match log {
            CHANGED_NAMESPACES => (4096, InFlight::ChangedLog { association }),
            // SMART, Endurance Group and the like: reading the head of the log clears the event.
            _ => (512, InFlight::Ignored),
        };
        read.cdw10.set((bytes / 4 - 1) << 16 | log);
        let owner = self.begin(command);
        engine.submit(now, owner, id, 0, read, Buffer::zeroed(bytes).into());
        self.request_event(engine, now, association, id);
    }

    fn add_queue(&mut self, engine: &mut Engine, endpoint: &Arc<QueueEndpoint>) -> Result<u16, ConnectError> {
        if self.powered_off {
            return Err(ConnectError::PowerOff);
        }
        let refused = |status| Err(ConnectError::Refused(status));
        let index = endpoint.association.load(Ordering::Acquire) as usize;
        let Some(Some(association)) = self.associations.get_mut(index) else {
            return refused(Status::CONNECT_INVALID_PARAMETERS);
        };
        let Some(id) = association.controller else { return refused(Status::CONNECT_INVALID_PARAMETERS) };
        let queues = &mut association.queues;
        let qid = (1..queues.len()).find(|&q| queues[q].is_none()).unwrap_or(queues.len());
        let number = u16::try_from(qid).unwrap_or(u16::MAX);
        // A queue of NVMe holds one command fewer than it has entries.
        if let Err(status) = engine.drive.add_queue(id, number, u32::from(endpoint.entries) + 1) {
            return refused(status);
        }
        if queues.len() <= qid {
            queues.resize(qid + 1, None);
        }
        queues[qid] = Some(endpoint.clone());
        endpoint.qid.store(number, Ordering::Relaxed);
        Ok(number)
    }

    fn close(&mut self, engine: &mut Engine, now: Nanos, endpoint: &Arc<QueueEndpoint>) {
        let index = endpoint.association.load(Ordering::Relaxed) as usize;
        let qid = endpoint.qid.load(Ordering::Relaxed);
        let Some(place) = self.associations.get_mut(index) else { return };
        let Some(association) = place else { return };
        let queue = association.queues.get_mut(usize::from(qid));
        let Some(queue) = queue.filter(|q| q.as_ref().is_some_and(|q| Arc::ptr_eq(q, endpoint))) else {
            return;
        };
        let controller = association.controller;
        if qid != 0 {
            *queue = None;
            if let Some(id) = controller {
                engine.remove_queue(id, qid);
            }
            return;
        }
        *place = None;
        if let Some(id) = controller {
            engine.drive_disconnect(now, id);
        }
    }
}
