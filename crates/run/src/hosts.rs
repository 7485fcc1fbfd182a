//! Hosts in this process: their controllers, queues and events.

use crate::buffer::Buffer;
use crate::engine::{Engine, Owner};
use crate::handle::{ConnectError, Events, HostIdentity, Port};
use crate::shared::{Connect, Delivery, Request};
use crate::store::Lent;
use device::{ControllerId, Host, Origin};
use media::Nanos;
use nvme::property::{Cc, PropertyOffset};
use nvme::{AdminOpcode, CNTLID_DYNAMIC, Command, Completion, Status};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Identifier of the Changed Attached Namespace List log page (Base 5.1.12.1.5).
const CHANGED_NAMESPACES: u32 = 0x04;
/// Feature identifier of Asynchronous Event Configuration, and its bit for namespace attribute notices
/// (Base 5.1.25.1.5).
const EVENT_CONFIGURATION: u32 = 0x0B;
const NAMESPACE_NOTICES: u32 = 1 << 8;

/// How a host is connected.
pub(crate) enum Manner {
    /// The runtime enables the controller, asks for events and connects again after a power cut.
    Managed(Arc<dyn Events>),
    /// The runtime enables the controller; everything else is up to the host.
    Own { kato_ms: u32 },
}

struct Front {
    host: HostIdentity,
    manner: Manner,
    /// `None` while there is no power, or when the drive has ended the association.
    controller: Option<ControllerId>,
    /// Index is the queue identifier; the first is the admin queue.
    ports: Vec<Option<Arc<Port>>>,
}

impl Front {
    fn events(&self) -> Option<Arc<dyn Events>> {
        match &self.manner {
            Manner::Managed(events) => Some(events.clone()),
            Manner::Own { .. } => None,
        }
    }
}

/// All hosts in this process.
#[derive(Default)]
pub(crate) struct Hosts {
    fronts: Vec<Option<Front>>,
    powered_off: bool,
}

impl Hosts {
    /// The controller and queue of a port.
    #[inline]
    pub(crate) fn controller_of(&self, port: &Port) -> Result<(ControllerId, u16), Status> {
        let qid = port.qid.load(Ordering::Relaxed);
        let front = self.front(port.front.load(Ordering::Relaxed));
        // The entry may be another host's by now.
        let front = front.filter(|f| {
            f.ports.get(usize::from(qid)).and_then(Option::as_deref).is_some_and(|p| std::ptr::eq(p, port))
        });
        match front.and_then(|f| f.controller) {
            Some(controller) => Ok((controller, qid)),
            None if self.powered_off => Err(Status::POWER_LOSS),
            None => Err(Status::ABORTED_SQ_DELETION),
        }
    }

    /// The drive has ended an association.
    pub(crate) fn lose(&mut self, controller: ControllerId) {
        for front in self.fronts.iter_mut().flatten() {
            if front.controller == Some(controller) {
                front.controller = None;
            }
        }
    }

    pub(crate) fn power_lost(&mut self, deliveries: &mut Vec<Delivery>) {
        self.powered_off = true;
        for front in self.fronts.iter_mut().flatten() {
            front.controller = None;
            deliveries.extend(front.events().map(|events| Delivery::Power(events, false)));
        }
    }

    pub(crate) fn stopped(&mut self, deliveries: &mut Vec<Delivery>) {
        for front in self.fronts.iter().flatten() {
            deliveries.extend(front.events().map(Delivery::Stopped));
        }
    }

    fn front(&self, index: u32) -> Option<&Front> {
        self.fronts.get(index as usize)?.as_ref()
    }
}

impl Engine {
    /// What hosts in this process ask for besides commands.
    pub(crate) fn host_request(&mut self, now: Nanos, request: Request) {
        match request {
            Request::Connect(connect) => {
                let Connect { host, manner, port, answer } = *connect;
                let result = self.connect_host(now, host, manner, &port);
                // Whoever no longer waits for the answer disconnects by dropping its port.
                let _ = answer.send(result);
            }
            Request::AddQueue { port, answer } => {
                let result = self.add_queue(&port);
                let _ = answer.send(result);
            }
            Request::Close { port } => self.close(now, &port),
            Request::Command { .. } | Request::Guard(_) | Request::Stop => {}
        }
    }

    fn connect_host(
        &mut self,
        now: Nanos,
        host: HostIdentity,
        manner: Manner,
        port: &Arc<Port>,
    ) -> Result<u16, ConnectError> {
        if self.hosts.powered_off {
            return Err(ConnectError::PowerOff);
        }
        if self.is_expelling() {
            return Err(ConnectError::Refused(Status::CONNECT_CONTROLLER_BUSY));
        }
        let index = match self.hosts.fronts.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.hosts.fronts.push(None);
                self.hosts.fronts.len() - 1
            }
        };
        let front = Front { host, manner, controller: None, ports: vec![Some(port.clone())] };
        self.hosts.fronts[index] = Some(front);
        match self.associate(now, index as u32) {
            Ok(id) => {
                port.front.store(index as u32, Ordering::Relaxed);
                Ok(id.0)
            }
            Err(status) => {
                self.hosts.fronts[index] = None;
                Err(ConnectError::Refused(status))
            }
        }
    }

    /// Connects a host's controller, again or for the first time.
    fn associate(&mut self, now: Nanos, index: u32) -> Result<ControllerId, Status> {
        let front = self.hosts.front(index).ok_or(Status::INTERNAL_ERROR)?;
        let (managed, kato_ms) = match front.manner {
            Manner::Managed(_) => (true, 0),
            Manner::Own { kato_ms } => (false, kato_ms),
        };
        let (nqn, host_id) = (front.host.nqn, front.host.id);
        let id = self.drive.connect(
            now,
            Host::administrator(nqn, host_id, Origin::InProcess),
            CNTLID_DYNAMIC,
            kato_ms,
        )?;
        let enable = u64::from(Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits());
        self.drive.property_set(
            now,
            id,
            PropertyOffset::CC,
            false,
            enable,
            &mut self.store,
            &mut self.outputs,
        )?;
        if managed {
            let mut configure = Command::new(AdminOpcode::SET_FEATURES.0, 0);
            configure.cdw10.set(EVENT_CONFIGURATION);
            configure.cdw11.set(NAMESPACE_NOTICES);
            self.submit(now, Owner::Ignored, id, 0, configure, Lent::Nothing);
            self.request_event(now, index, id);
        }
        if let Some(Some(front)) = self.hosts.fronts.get_mut(index as usize) {
            front.controller = Some(id);
        }
        Ok(id)
    }

    fn request_event(&mut self, now: Nanos, front: u32, id: ControllerId) {
        let request = Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
        self.submit(now, Owner::EventRequest { front }, id, 0, request, Lent::Nothing);
    }

    /// A request for events was answered: read the log that the event is about, which clears it.
    pub(crate) fn event(&mut self, now: Nanos, front: u32, completion: Completion) {
        let Some(id) = self.hosts.front(front).and_then(|f| f.controller) else { return };
        if !completion.status().is_success() {
            return;
        }
        let log = completion.dw0.get() >> 16 & 0xFF;
        let mut read = Command::new(AdminOpcode::GET_LOG_PAGE.0, nvme::NSID_ALL);
        let (bytes, owner) = match log {
            CHANGED_NAMESPACES => (4096, Owner::ChangedLog { front }),
            // SMART, Endurance Group and the like: reading the head of the log clears the event.
            _ => (512, Owner::Ignored),
        };
        read.cdw10.set((bytes / 4 - 1) << 16 | log);
        self.submit(now, owner, id, 0, read, Buffer::zeroed(bytes).into());
        self.request_event(now, front, id);
    }

    pub(crate) fn changed_log_read(&mut self, _: Nanos, front: u32, deliveries: &mut Vec<Delivery>) {
        let events = self.hosts.front(front).and_then(Front::events);
        deliveries.extend(events.map(Delivery::NamespacesChanged));
    }

    fn add_queue(&mut self, port: &Arc<Port>) -> Result<u16, ConnectError> {
        if self.hosts.powered_off {
            return Err(ConnectError::PowerOff);
        }
        let refused = |status| Err(ConnectError::Refused(status));
        let index = port.front.load(Ordering::Acquire) as usize;
        let Some(Some(front)) = self.hosts.fronts.get_mut(index) else {
            return refused(Status::CONNECT_INVALID_PARAMETERS);
        };
        let Some(id) = front.controller else { return refused(Status::CONNECT_INVALID_PARAMETERS) };
        let qid = (1..front.ports.len()).find(|&q| front.ports[q].is_none()).unwrap_or(front.ports.len());
        let number = u16::try_from(qid).unwrap_or(u16::MAX);
        // A queue of NVMe holds one command fewer than it has entries.
        if let Err(status) = self.drive.add_queue(id, number, u32::from(port.entries) + 1) {
            return refused(status);
        }
        if front.ports.len() <= qid {
            front.ports.resize(qid + 1, None);
        }
        front.ports[qid] = Some(port.clone());
        port.qid.store(number, Ordering::Relaxed);
        Ok(number)
    }

    fn close(&mut self, now: Nanos, port: &Arc<Port>) {
        let index = port.front.load(Ordering::Relaxed) as usize;
        let qid = port.qid.load(Ordering::Relaxed);
        let Some(slot) = self.hosts.fronts.get_mut(index) else { return };
        let Some(front) = slot else { return };
        if !front.ports.get(usize::from(qid)).and_then(Option::as_ref).is_some_and(|p| Arc::ptr_eq(p, port)) {
            return;
        }
        let controller = front.controller;
        if qid != 0 {
            front.ports[usize::from(qid)] = None;
            if let Some(id) = controller {
                self.drive.remove_queue(id, qid);
            }
            return;
        }
        *slot = None;
        if let Some(id) = controller {
            self.drive.disconnect(now, id, &mut self.store, &mut self.outputs);
        }
    }

    /// Power is back: the hosts that the runtime manages connect again, with the queues that they had.
    pub(crate) fn hosts_return(&mut self, now: Nanos, deliveries: &mut Vec<Delivery>) {
        self.hosts.powered_off = false;
        for index in 0..self.hosts.fronts.len() {
            let Some(front) = &self.hosts.fronts[index] else { continue };
            let Some(events) = front.events() else { continue };
            let ports: Vec<_> = front.ports.iter().skip(1).flatten().cloned().collect();
            match self.associate(now, index as u32) {
                Ok(id) => {
                    for port in ports {
                        let qid = port.qid.load(Ordering::Relaxed);
                        if let Err(status) = self.drive.add_queue(id, qid, u32::from(port.entries) + 1) {
                            tracing::error!(
                                "queue {qid} could not be connected again after the power cut: {status}"
                            );
                        }
                    }
                    deliveries.push(Delivery::Power(events.clone(), true));
                    deliveries.push(Delivery::NamespacesChanged(events));
                }
                Err(status) => {
                    tracing::error!("a host could not be connected again after the power cut: {status}");
                }
            }
        }
    }
}
