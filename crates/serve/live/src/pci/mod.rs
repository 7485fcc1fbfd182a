//! The front end of virtual machines: PCI Express functions over vfio-user.
//!
//! Each path is one function with one controller. A thread has its socket ([`vfio::serve`]); this front end has everything else, on the
//! drive's thread. The drive learns nothing of PCI but that the host's queues are in memory: it has a host that connects, sets properties, and
//! sends commands.

mod port;

pub(crate) use port::{Port, shape};

use crate::engine::front_end::{EndedCommand, EngineTurn, FrontEnd};
use crate::engine::{Engine, FrontEndId, Owner};
use crate::wake::Sleeper;
use device::ControllerId;
use image::Store;
use media::Nanos;
use nvme::Nqn;
use std::sync::Arc;

/// Virtual machines that the drive serves, one for each path.
pub(crate) struct PciHosts {
    ports: Vec<Port>,
    sleeper: Arc<Sleeper>,
}

impl PciHosts {
    /// The front end's name in the engine.
    pub(crate) const ID: FrontEndId = port::FRONT_END;

    pub(crate) fn new(ports: Vec<Port>, sleeper: Arc<Sleeper>) -> Self {
        PciHosts { ports, sleeper }
    }
}

/// Doorbells in memory: the drive's thread looks at them while it is awake. Before it sleeps, it asks hosts to write to BAR0: that is a message.
impl PciHosts {
    /// Whether hosts can ring doorbells in memory.
    pub(crate) fn has_doorbells_in_memory(&self) -> bool {
        self.ports.iter().any(Port::has_doorbells_in_memory)
    }

    /// Whether a host has rung a doorbell in memory.
    pub(crate) fn has_news(&self) -> bool {
        self.ports.iter().any(Port::has_news)
    }

    /// The drive's thread is awake, or wants to sleep. Whether there is something to do.
    pub(crate) fn watch(&mut self, is_awake: bool) -> bool {
        self.ports.iter_mut().fold(false, |found, port| found | port.watch(is_awake))
    }
}

impl FrontEnd for PciHosts {
    fn poll(&mut self, engine: &mut Engine, turn: &mut EngineTurn<'_>) {
        let mut is_all = true;
        for (port, number) in self.ports.iter_mut().zip(0..) {
            is_all &= port.hear(turn.now) & port.advance(engine, number, turn.now);
        }
        if !is_all {
            // Others have their turn before.
            self.sleeper.ring();
        }
    }

    fn complete(&mut self, ended: EndedCommand, _: &mut Store) {
        let EndedCommand { owner, completion, to_host, fault, data } = ended;
        if let Some(port) = self.ports.get_mut(owner.token.queue as usize) {
            port.complete(owner.token.command as u32, completion, fault, to_host as usize, data);
        }
    }

    fn has_to_flush(&self) -> bool {
        self.ports.iter().any(Port::has_to_flush)
    }

    fn flush(&mut self, engine: &mut Engine, now: Nanos) -> bool {
        let mut is_all = true;
        for (port, number) in self.ports.iter_mut().zip(0..).filter(|(port, _)| port.has_to_flush()) {
            is_all &= port.advance(engine, number, now);
        }
        is_all
    }

    fn deadline(&self) -> Nanos {
        self.ports.iter().map(Port::deadline).min().unwrap_or(Nanos::MAX)
    }

    fn controller_lost(&mut self, controller: ControllerId) {
        self.ports.iter_mut().for_each(|port| port.controller_lost(controller));
    }

    fn interrupt(&mut self, owner: Owner) {
        if let Some(port) =
            self.ports.get_mut(owner.token.queue as usize).filter(|_| owner.front_end == Self::ID)
        {
            port.interrupt_of(owner.token.command as u32);
        }
    }

    fn controller_vanished(&mut self, controller: ControllerId, _: &Nqn, until: Nanos) {
        self.ports.iter_mut().for_each(|port| port.vanish(controller, until));
    }

    fn ports_up(&mut self) {
        self.ports.iter_mut().for_each(Port::reappear);
    }

    fn power_lost(&mut self, _: &mut Store) {
        self.ports.iter_mut().for_each(Port::power_lost);
    }

    fn power_returned(&mut self, _: &mut Engine, _: Nanos) {
        self.ports.iter_mut().for_each(Port::power_returned);
    }

    fn stopped(&mut self, _: &mut Store) {
        // With their links the threads of the sockets end.
        self.ports.clear();
    }
}
