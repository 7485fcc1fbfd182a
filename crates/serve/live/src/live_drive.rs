//! A drive under the wall's clock: its engine with its front ends, in the hands of one thread at a time.

use crate::clock::Clock;
use crate::engine::front_end::{EndedCommand, EngineTurn, FrontEnd};
use crate::engine::{Engine, Owner};
use crate::hosts::{Hosts, Notice};
use crate::pci::PciHosts;
use crate::server::{Guard, Server};
use crate::snapshot::Snapshot;
use crate::wake::{Ready, Sleeper};
use device::{ControllerId, PortId};
use image::Store;
use media::Nanos;
use nvme::Nqn;
use std::sync::Arc;
use std::time::Duration;

/// The front ends of a live drive. Another one is a field, an entry of both lists, and an arm of
/// [`complete`](FrontEnd::complete).
pub(crate) struct FrontEnds {
    pub(crate) hosts: Hosts,
    /// `None` if the drive listens nowhere.
    pub(crate) server: Option<Server>,
    /// `None` without virtual machines.
    pub(crate) pci: Option<PciHosts>,
}

impl FrontEnds {
    /// All of them. Sockets come first: what they bring waits longest.
    fn all(&self) -> impl Iterator<Item = &dyn FrontEnd> {
        let server = self.server.as_ref().map(|server| server as &dyn FrontEnd);
        let list = [server, self.pci.as_ref().map(|pci| pci as &dyn FrontEnd), Some(&self.hosts)];
        list.into_iter().flatten()
    }

    /// The same, to be called.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn FrontEnd> {
        let server = self.server.as_mut().map(|server| server as &mut dyn FrontEnd);
        let pci = self.pci.as_mut().map(|pci| pci as &mut dyn FrontEnd);
        let list = [server, pci, Some(&mut self.hosts)];
        list.into_iter().flatten()
    }
}

impl FrontEnd for FrontEnds {
    fn poll(&mut self, engine: &mut Engine, turn: &mut EngineTurn<'_>) {
        self.all_mut().for_each(|front_end| front_end.poll(engine, turn));
    }

    #[inline]
    fn complete(&mut self, ended: EndedCommand, store: &mut Store) {
        let front_end = ended.owner.front_end;
        if front_end == Hosts::ID {
            self.hosts.complete(ended, store);
        } else if let Some(server) = self.server.as_mut().filter(|_| front_end == Server::ID) {
            server.complete(ended, store);
        } else if let Some(pci) = self.pci.as_mut().filter(|_| front_end == PciHosts::ID) {
            pci.complete(ended, store);
        }
    }

    fn has_to_flush(&self) -> bool {
        self.all().any(FrontEnd::has_to_flush)
    }

    fn flush(&mut self, engine: &mut Engine, now: Nanos) -> bool {
        let mut all_told = true;
        for front_end in self.all_mut() {
            all_told &= front_end.flush(engine, now);
        }
        all_told
    }

    fn deadline(&self) -> Nanos {
        self.all().map(FrontEnd::deadline).min().unwrap_or(Nanos::MAX)
    }

    fn controller_lost(&mut self, controller: ControllerId) {
        self.all_mut().for_each(|front_end| front_end.controller_lost(controller));
    }

    fn interrupt(&mut self, owner: Owner) {
        self.all_mut().for_each(|front_end| front_end.interrupt(owner));
    }

    fn controller_vanished(&mut self, controller: ControllerId, host: &Nqn, until: Nanos) {
        self.all_mut().for_each(|front_end| front_end.controller_vanished(controller, host, until));
    }

    fn port_down(&mut self, port: PortId, span: Nanos) {
        self.all_mut().for_each(|front_end| front_end.port_down(port, span));
    }

    fn ports_up(&mut self) {
        self.all_mut().for_each(FrontEnd::ports_up);
    }

    fn power_lost(&mut self, store: &mut Store) {
        self.all_mut().for_each(|front_end| front_end.power_lost(store));
    }

    fn power_returned(&mut self, engine: &mut Engine, now: Nanos) {
        self.all_mut().for_each(|front_end| front_end.power_returned(engine, now));
    }

    fn stopped(&mut self, store: &mut Store) {
        self.all_mut().for_each(|front_end| front_end.stopped(store));
    }
}

/// A drive under the wall's clock.
pub(crate) struct LiveDrive {
    pub(crate) engine: Engine,
    pub(crate) front_ends: FrontEnds,
    /// What the drive's thread sleeps on.
    sleeper: Arc<Sleeper>,
    /// Until when the drive's thread sleeps; `None` while it is awake.
    pub(crate) sleep_until: Option<Nanos>,
    /// How long before a deadline it wants to wake up.
    pub(crate) lead: u64,
}

impl LiveDrive {
    pub(crate) fn new(engine: Engine, front_ends: FrontEnds, sleeper: Arc<Sleeper>) -> Self {
        LiveDrive { engine, front_ends, sleeper, sleep_until: None, lead: 0 }
    }

    /// Takes in what hosts have sent, and runs what is due. Hosts of this process are to be told of `notices` afterwards. Returns
    /// how many of their requests were taken in.
    pub(crate) fn turn(&mut self, clock: &Clock, ready: Option<&Ready>, notices: &mut Vec<Notice>) -> isize {
        self.engine.turn(&mut EngineTurn::new(clock, ready), &mut self.front_ends);
        self.front_ends.hosts.exchange_notices(notices);
        self.front_ends.hosts.take_count()
    }

    /// Whether hosts of virtual machines can ring doorbells in memory.
    pub(crate) fn has_doorbells_in_memory(&self) -> bool {
        self.front_ends.pci.as_ref().is_some_and(PciHosts::has_doorbells_in_memory)
    }

    /// Whether one has.
    pub(crate) fn has_rung_doorbells(&self) -> bool {
        self.front_ends.pci.as_ref().is_some_and(PciHosts::has_news)
    }

    /// The drive's thread is awake, or wants to sleep. Whether there is something to do.
    pub(crate) fn watch_doorbells(&mut self, is_awake: bool) -> bool {
        self.front_ends.pci.as_mut().is_some_and(|pci| pci.watch(is_awake))
    }

    /// When the drive or a front end wants to be stepped next.
    #[inline]
    pub(crate) fn deadline(&self) -> Nanos {
        self.engine.next_deadline(&self.front_ends)
    }

    /// Makes sure that the sleeping thread wakes up for a deadline.
    pub(crate) fn wake_for(&mut self, deadline: Nanos, clock: &Clock) {
        let Some(until) = self.sleep_until else { return };
        let wanted = Nanos(deadline.0.saturating_sub(self.lead));
        if deadline != Nanos::MAX && wanted < until {
            self.sleeper.set_timer(Some(clock.on_the_wall(wanted.since(clock.now()))));
            self.sleep_until = Some(wanted);
        }
    }

    /// Takes over who may connect over the network from now on.
    pub(crate) fn set_guard(&mut self, guard: Guard, now: Nanos) {
        if let Some(server) = self.front_ends.server.as_mut().filter(|_| !self.engine.has_stopped()) {
            server.set_guard(&mut self.engine, guard, now);
        }
    }

    /// What is counted, at this time of the drive.
    pub(crate) fn snapshot(&self, now: Nanos, uptime: Duration) -> Snapshot {
        let server = self.front_ends.server.as_ref().map(Server::counts);
        let (transports, refused_connections, authentication_failures) = server.unwrap_or_default();
        Snapshot {
            drive: self.engine.drive.snapshot(now),
            uptime_ns: u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX),
            lossy_power_cuts: self.engine.losses(),
            transports,
            refused_connections,
            authentication_failures,
        }
    }

    /// Lets go of everything that other threads might wait for.
    pub(crate) fn hang_up(&mut self) {
        self.front_ends.hosts.hang_up();
        self.engine.hang_up();
    }
}
