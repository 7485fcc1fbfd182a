//! Hosts over sockets: NVMe/TCP PDUs on Unix sockets and, with the same code, TCP.

mod admission;
mod connect;
mod discover;
mod fuzz;
mod gate;
mod helper;
mod note;
mod ports;
mod socket;
mod timers;

pub use fuzz::fuzz_hosts;
pub(crate) use gate::Guard;
pub use ports::{MAX_PORTS, TcpPort};
pub(crate) use ports::{Port, Ports};
pub(crate) use socket::Listener;
pub use timers::Limits;

use crate::engine::{Engine, Owner};
use crate::store::{Lent, Store};
use crate::wake::{Ready, Sleeper};
use device::{ControllerId, MAX_QUEUE_ENTRIES, Origin, PortId, Role};
use discover::Discovering;
use fabric::Part;
use fabric::target::{Config, Connection, Incoming};
use gate::{Gate, Passed};
use helper::{Helper, Task};
use media::Nanos;
use note::note;
use nvme::command::FABRICS_OPCODE;
use nvme::fabrics::FabricsType;
use nvme::{Completion, Status};
use rustix::fd::OwnedFd;
use socket::Stream;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use timers::{Owed, Watches};

/// Numbers of listeners among the sockets that are watched; connections follow.
const LISTENERS: u64 = MAX_PORTS as u64;
/// Connections at once; further ones are closed at once.
const MAX_CONNECTIONS: usize = 4096;
/// Bytes that are read from one connection before others have their turn.
const FAIR_SHARE: usize = 1 << 18;
/// After such a time without anything from the host a connection gives memory back.
const IDLE: Nanos = Nanos(5_000_000_000);
/// Commands that are looked at before the first of them is executed.
const AHEAD: usize = 64;
/// Slices of a vectored write.
const SLICES: usize = 64;

/// Names a connection, even after it has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId {
    index: u32,
    generation: u32,
}

impl ConnectionId {
    fn number(self) -> u64 {
        LISTENERS + (u64::from(self.generation & 0x7FFF_FFFF) << 32 | u64::from(self.index))
    }
}

/// How a command ended, and its data.
pub(crate) struct Answer<'a> {
    pub(crate) completion: Completion,
    /// Bytes of the buffer that go to the host if it succeeded.
    pub(crate) to_host: u32,
    pub(crate) buffer: Lent,
    /// Where the data is if not all in the buffer; the loans are taken over.
    pub(crate) parts: &'a [Part],
}

struct Peer {
    stream: Stream,
    origin: Origin,
    /// The port that it came through.
    port: PortId,
    began: Nanos,
    watches: Watches,
    wire: Connection,
    /// Who may pass.
    gate: Gate,
    /// The controller and queue, after Connect.
    queue: Option<(ControllerId, u16)>,
    /// Entries of an I/O queue that the drive makes when the host has proved itself.
    promised: Option<u32>,
    /// Or the discovery controller.
    discovery: Option<Discovering>,
    /// Closed as soon as everything is sent.
    leaving: bool,
    /// The other end has closed its side: after what is still to be read comes the end, and no further event.
    gone: bool,
    /// Something to send that the socket did not take yet.
    blocked: bool,
    touched: bool,
    /// Nothing has come since connections gave memory back.
    idle: bool,
    /// The helper has work of this connection, and no command is taken until that is done.
    away: bool,
    /// Something has come meanwhile.
    rung: bool,
}

/// Listeners and their connections.
pub(crate) struct Server {
    sleeper: Arc<Sleeper>,
    ports: Ports,
    limits: Limits,
    /// When the connections are looked at next for what they owe.
    next_look: Nanos,
    /// Ports that go down, and for how long.
    downs: Vec<(PortId, Nanos)>,
    peers: Vec<Option<Box<Peer>>>,
    generations: Vec<u32>,
    /// Places in `peers` that are free.
    vacant: Vec<u32>,
    /// Given up to accept a connection when there is no other descriptor left, and close it: otherwise it would be
    /// reported again and again.
    reserve: Option<OwnedFd>,
    /// When connections that have nothing to do give memory back.
    next_trim: Nanos,
    /// Connections with answers to send.
    touched: Vec<ConnectionId>,
    hungry: Vec<ConnectionId>,
    /// Who may connect over the network, and how.
    guard: Guard,
    helper: Helper,
    /// Controllers whose connections are to be closed.
    expelled: Vec<ControllerId>,
    config: Config,
    scratch: Vec<u8>,
}

impl Server {
    pub(crate) fn new(
        sleeper: Arc<Sleeper>,
        ports: Ports,
        guard: Guard,
        limits: Limits,
        max_transfer: u32,
        in_capsule: u32,
    ) -> io::Result<Self> {
        for (i, port) in ports.iter().enumerate() {
            sleeper.watch_listener(&port.listener, i as u64)?;
        }
        let max_depth = u16::try_from(MAX_QUEUE_ENTRIES).unwrap_or(u16::MAX);
        Ok(Server {
            helper: Helper::new(sleeper.clone()),
            sleeper,
            ports,
            limits,
            next_look: Nanos::MAX,
            downs: Vec::new(),
            peers: Vec::new(),
            generations: Vec::new(),
            vacant: Vec::new(),
            reserve: reserve(),
            next_trim: Nanos(0),
            touched: Vec::new(),
            hungry: Vec::new(),
            guard,
            expelled: Vec::new(),
            config: Config { max_depth, max_transfer, in_capsule, ..Config::default() },
            scratch: vec![0; 1 << 16],
        })
    }

    /// Names the connection that has this place now.
    fn id(&self, index: usize) -> ConnectionId {
        ConnectionId { index: index as u32, generation: self.generations[index] }
    }

    fn peer(&mut self, id: ConnectionId) -> Option<&mut Peer> {
        let index = id.index as usize;
        if self.generations.get(index) != Some(&id.generation) {
            return None;
        }
        self.peers.get_mut(index)?.as_deref_mut()
    }

    /// Accepts, reads, and hands commands to the drive.
    pub(crate) fn serve(&mut self, engine: &mut Engine, ready: &Ready, now: Nanos) {
        for (number, gone) in ready.sockets() {
            if number < LISTENERS {
                self.accept(number as usize, now);
                continue;
            }
            let number = number - LISTENERS;
            let index = number as u32;
            let Some(&generation) = self.generations.get(index as usize) else { continue };
            if u64::from(generation & 0x7FFF_FFFF) == number >> 32 {
                let id = ConnectionId { index, generation };
                if let Some(peer) = self.peer(id) {
                    peer.gone |= gone;
                    peer.rung = true;
                }
                self.read(engine, id, now);
            }
        }
        while let Some(job) = self.helper.finished() {
            self.resume(engine, job, now);
        }
        for id in std::mem::take(&mut self.hungry) {
            self.read(engine, id, now);
        }
        self.trim(now);
        if !self.hungry.is_empty() {
            self.sleeper.ring();
        }
    }

    fn accept(&mut self, number: usize, now: Nanos) {
        while let Some(port) = self.ports.by_number(number) {
            let (id, is_down) = (port.id, port.is_down());
            let (stream, origin) = match port.listener.accept() {
                // Its listener stays, so that nobody else takes the address meanwhile.
                Ok(_) if is_down => continue,
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::ConnectionAborted => {
                    continue;
                }
                Err(e) => {
                    // Out of descriptors or memory: the others go on, and this one hears of it.
                    drop(self.reserve.take());
                    let refused = port.listener.accept().is_ok();
                    self.reserve = reserve();
                    note_refused(&e);
                    if refused {
                        continue;
                    }
                    return;
                }
            };
            if let Some(address) = stream.address().map(|at| at.ip())
                && self.unproven(address) >= self.limits.unproven
            {
                let most = self.limits.unproven;
                note(format_args!(
                    "a connection is refused: {most} of {address} have not connected and authenticated themselves yet"
                ));
                continue;
            }
            let stream = match (stream, &self.guard.tls) {
                (Stream::Tcp(stream), Some(tls)) => match tls.accept(stream) {
                    Ok(session) => Stream::Tls(Box::new(session)),
                    Err(e) => {
                        note_refused(&e);
                        continue;
                    }
                },
                (stream, _) => stream,
            };
            self.adopt(stream, origin, id, now);
        }
    }

    /// Makes sure that the connections are looked at in a while.
    fn watch(&mut self, now: Nanos) {
        if self.next_look == Nanos::MAX {
            self.next_look = now + self.limits.interval();
        }
    }

    /// When [`tick`](Server::tick) is to be called.
    pub(crate) fn deadline(&self) -> Nanos {
        self.next_look.min(self.ports.due())
    }

    /// Does what is due: brings ports back, and ends connections that have owed something for too long.
    pub(crate) fn tick(&mut self, engine: &mut Engine, now: Nanos) {
        if self.ports.due() <= now && self.ports.bring_up(Some(now)) {
            self.ports_changed(engine);
        }
        if self.next_look > now {
            return;
        }
        self.next_look = Nanos::MAX;
        for index in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[index] else { continue };
            let (owed, limits) = (peer.owed(&self.limits), self.limits);
            let why = peer.watches.look(&owed, &limits, now);
            let watched = peer.is_watched();
            if let Some(why) = why {
                note(format_args!("a connection of {} ends: {why}", peer.stream.name()));
                self.close(engine, self.id(index), now);
            } else if watched {
                self.watch(now);
            }
        }
    }

    /// Tells discovery controllers that there is another log.
    fn ports_changed(&mut self, engine: &Engine) {
        let subsystem = engine.drive.config().identity.nqn;
        for index in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[index] else { continue };
            let Some(discovering) = &mut peer.discovery else { continue };
            if peer.gate.is_stranger() {
                continue;
            }
            self.ports.update(&mut discovering.controller, &peer.stream, peer.port, &subsystem);
            discovering.tell(&mut peer.wire);
            self.touch(self.id(index));
        }
    }

    /// A port is to go down, after what is there to send was offered to its sockets.
    pub(crate) fn port_down(&mut self, port: PortId, span: Nanos) {
        self.downs.push((port, span));
    }

    /// All ports are to come back.
    pub(crate) fn ports_up(&mut self, engine: &Engine) {
        self.downs.clear();
        if self.ports.bring_up(None) {
            self.ports_changed(engine);
        }
    }

    fn take_down(&mut self, engine: &mut Engine, port: PortId, span: Nanos, now: Nanos) {
        if self.ports.take_down(port, now + span) {
            self.ports_changed(engine);
        }
        self.close_those(engine, now, |peer| peer.port == port);
    }

    /// Serves a connection that came through a port from here on.
    fn adopt(&mut self, stream: Stream, origin: Origin, port: PortId, now: Nanos) {
        let index = match self.vacant.pop() {
            Some(index) => index as usize,
            None if self.peers.len() < MAX_CONNECTIONS => {
                self.peers.push(None);
                self.generations.push(0);
                self.peers.len() - 1
            }
            None => {
                return note_refused(&format_args!("there are {MAX_CONNECTIONS} already"));
            }
        };
        let id = self.id(index);
        if let Err(e) = stream.watch(&self.sleeper, id.number()) {
            self.vacant.push(index as u32);
            return note_refused(&e);
        }
        let role = if stream.is_near() { Role::Administrator } else { Role::Guest };
        let gate = Gate::new(self.guard.access.clone().filter(|_| origin == Origin::Network), role);
        let peer = Peer {
            stream,
            origin,
            port,
            began: now,
            watches: Watches::default(),
            gate,
            wire: Connection::new(self.config.clone()),
            queue: None,
            promised: None,
            discovery: None,
            leaving: false,
            gone: false,
            blocked: false,
            touched: false,
            idle: false,
            away: false,
            rung: false,
        };
        self.peers[index] = Some(Box::new(peer));
        self.watch(now);
    }

    /// How many connections there are.
    fn connections(&self) -> usize {
        self.peers.iter().flatten().count()
    }

    /// Lets connections that were idle for a while give memory back.
    fn trim(&mut self, now: Nanos) {
        if now < self.next_trim {
            return;
        }
        self.next_trim = now + IDLE;
        for peer in self.peers.iter_mut().flatten() {
            if std::mem::replace(&mut peer.idle, true) {
                peer.wire.trim();
            }
        }
    }

    fn read(&mut self, engine: &mut Engine, id: ConnectionId, now: Nanos) {
        if let Some(session) = self.peer(id).and_then(|peer| peer.stream.take_handshake()) {
            return self.delegate(engine, id, Task::Handshake { session, result: Ok(()) }, now);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut share = FAIR_SHARE;
        let mut close = false;
        while let Some(peer) = self.peer(id) {
            peer.blocked = false;
            peer.idle = false;
            if peer.leaving {
                break;
            }
            if share == 0 {
                self.hungry.push(id);
                break;
            }
            let (result, most) = match peer.wire.gap() {
                // Much data: straight to where it belongs.
                Some(gap) if gap.len() >= 4096 => {
                    let most = gap.len();
                    let got = peer.stream.read(gap);
                    let result = match got {
                        Ok(0) | Err(_) => Ok(()),
                        Ok(n) => peer.wire.filled(n),
                    };
                    (got.map(|n| (n, result)), most)
                }
                _ => {
                    let got = peer.stream.read(&mut scratch);
                    let result = match got {
                        Ok(0) | Err(_) => Ok(()),
                        Ok(n) => peer.wire.receive(&scratch[..n]),
                    };
                    (got.map(|n| (n, result)), scratch.len())
                }
            };
            match result {
                Ok((0, _)) => {
                    close = true;
                    break;
                }
                Ok((n, received)) => {
                    share = share.saturating_sub(n);
                    if let Err(e) = received {
                        note(format_args!("a connection of {} ends: {e}", peer.stream.name()));
                        peer.leaving = true;
                    }
                    let drained = !peer.gone && peer.stream.short_read_is_all();
                    self.take_commands(engine, id, now);
                    if n < most && drained {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    close = true;
                    break;
                }
            }
        }
        self.scratch = scratch;
        if close {
            self.close(engine, id, now);
        } else {
            self.touch(id);
        }
    }

    fn touch(&mut self, id: ConnectionId) {
        if let Some(peer) = self.peer(id)
            && !peer.touched
        {
            peer.touched = true;
            self.touched.push(id);
        }
    }

    fn take_commands(&mut self, engine: &mut Engine, id: ConnectionId, now: Nanos) {
        let mut ahead = 0;
        let index = id.index as usize;
        loop {
            if self.generations.get(index) != Some(&id.generation) {
                break;
            }
            let Some(peer) = self.peers.get_mut(index).and_then(Option::as_deref_mut) else { break };
            // Commands that come together do not wait for one miss of the cache after another.
            if ahead == 0 {
                ahead = peer.wire.pending().len().min(AHEAD);
                if ahead > 1 && peer.queue.is_some_and(|(_, qid)| qid != 0) {
                    let commands = || peer.wire.pending().take(ahead);
                    commands().for_each(|sqe| engine.drive.prefetch(sqe));
                    commands().for_each(|sqe| engine.drive.prefetch_place(sqe));
                }
            }
            ahead = ahead.saturating_sub(1);
            if peer.away {
                break;
            }
            let Some(incoming) = peer.wire.next() else { break };
            let Incoming { tag, sqe, alone, .. } = incoming;
            if sqe.opc == FABRICS_OPCODE || peer.gate.is_shut() {
                match gate::pass(peer, &incoming) {
                    Passed::On => {}
                    Passed::Answered => {
                        peer.prove(engine);
                        continue;
                    }
                    Passed::Later(task) => {
                        self.delegate(engine, id, task, now);
                        continue;
                    }
                }
            }
            if sqe.opc == FABRICS_OPCODE && sqe.fctype() == FabricsType::CONNECT {
                let completion = connect::connect(engine, peer, &mut self.ports, &incoming, now);
                let _ = peer.wire.respond(tag, completion, 0);
                continue;
            }
            if let Some(discovery) = &mut peer.discovery {
                discovery.execute(&mut peer.wire, &incoming, now);
                continue;
            }
            let Some((controller, qid)) = peer.queue else {
                let status = Status::COMMAND_SEQUENCE_ERROR.with_dnr();
                let _ = peer.wire.respond(tag, Completion::new(0, status), 0);
                continue;
            };
            if sqe.opc == FABRICS_OPCODE && sqe.fctype() == FabricsType::DISCONNECT && qid != 0 {
                if peer.promised.is_none() {
                    engine.drive.remove_queue(controller, qid);
                }
                let _ = peer.wire.respond(tag, Completion::success(0, 0), 0);
                peer.queue = None;
                peer.leaving = true;
                continue;
            }
            let buffer = peer.wire.take_buffer(tag).unwrap_or_default();
            let owner = Owner::Connection { connection: id, tag };
            engine.submit(now, owner, controller, qid, sqe, Lent::Wire(buffer));
            if alone {
                engine.end_fused(now, controller, qid);
            }
        }
    }

    /// Answers a command; the answer is sent by [`flush`](Server::flush).
    pub(crate) fn complete(
        &mut self,
        id: ConnectionId,
        tag: fabric::Tag,
        answer: Answer<'_>,
        store: &mut Store,
    ) {
        let Answer { completion, to_host, buffer, parts } = answer;
        let Some(peer) = self.peer(id) else { return store.end_loans(parts) };
        if let Lent::Wire(buffer) = buffer {
            let _ = peer.wire.put_buffer(tag, buffer);
        }
        let elsewhere = parts.iter().any(|part| matches!(part, Part::Away { .. }));
        if !elsewhere {
            let _ = peer.wire.respond(tag, completion, to_host as usize);
        } else if peer.wire.respond_with(tag, completion, parts, |token| store.lent(token)).is_err() {
            // The read failed in the end, or nobody waits for it any more.
            store.end_loans(parts);
            let _ = peer.wire.respond(tag, completion, 0);
        }
        self.touch(id);
    }

    /// Sends what can be sent, closes what has ended, and takes the commands that had waited for room. False if there
    /// is more to send.
    pub(crate) fn flush(&mut self, engine: &mut Engine, now: Nanos) -> bool {
        for controller in std::mem::take(&mut self.expelled) {
            self.close_controller(engine, controller, now);
        }
        for (port, span) in std::mem::take(&mut self.downs) {
            self.take_down(engine, port, span, now);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let Some(peer) = self.peer(id) else { continue };
            peer.touched = false;
            if !peer.send(&mut engine.store) {
                self.close(engine, id, now);
                continue;
            }
            let waits = peer.wire.pending().len() > 0 && !peer.leaving && !peer.away;
            if peer.is_watched() {
                self.watch(now);
            }
            if waits {
                self.take_commands(engine, id, now);
                self.touch(id);
            }
        }
        touched.append(&mut self.touched);
        self.touched = touched;
        self.touched.is_empty()
    }

    fn close(&mut self, engine: &mut Engine, id: ConnectionId, now: Nanos) {
        let Some(peer) = self.peer(id) else { return };
        let queue = peer.queue.take();
        // One that the drive has not made is not the connection's to end.
        let promised = peer.promised.is_some();
        if let Some(host) = peer.gate.unproven() {
            note(format_args!("{host} ({}) left without authenticating itself", peer.stream.name()));
        }
        peer.wire.abandon(|token| engine.store.end_loan(token));
        // Closing the socket takes it out of the set that is watched.
        self.peers[id.index as usize] = None;
        self.generations[id.index as usize] = id.generation.wrapping_add(1);
        self.vacant.push(id.index);
        match queue {
            Some((controller, 0)) => {
                engine.drive_disconnect(now, controller);
                self.close_controller(engine, controller, now);
            }
            Some((controller, qid)) if !promised => engine.drive.remove_queue(controller, qid),
            _ => {}
        }
    }

    /// Closes the connections of a controller that has gone.
    fn close_controller(&mut self, engine: &mut Engine, controller: ControllerId, now: Nanos) {
        self.close_those(engine, now, |peer| peer.queue.take_if(|(c, _)| *c == controller).is_some());
    }

    /// Closes the connections that are meant. What their hosts have still coming to them, in particular why, is sent if
    /// the socket takes it.
    fn close_those(&mut self, engine: &mut Engine, now: Nanos, mut meant: impl FnMut(&mut Peer) -> bool) {
        for index in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[index] else { continue };
            if meant(peer) {
                peer.send(&mut engine.store);
                self.close(engine, self.id(index), now);
            }
        }
    }

    /// The drive has ended a controller.
    pub(crate) fn expel(&mut self, controller: ControllerId) {
        self.expelled.push(controller);
    }

    /// Closes every connection, after what is there to send was offered to the socket.
    pub(crate) fn close_all(&mut self, store: &mut Store) {
        for (index, slot) in self.peers.iter_mut().enumerate() {
            if let Some(mut peer) = slot.take() {
                peer.send(store);
                peer.wire.abandon(|token| store.end_loan(token));
                self.generations[index] = self.generations[index].wrapping_add(1);
                self.vacant.push(index as u32);
            }
        }
        self.touched.clear();
        self.hungry.clear();
        self.expelled.clear();
    }
}

/// Says why a connection was refused.
fn note_refused(why: &dyn std::fmt::Display) {
    note(format_args!(
        "a connection is refused: {why} (where it is descriptors, raise the limit with ulimit -n)"
    ));
}

/// Any descriptor.
fn reserve() -> Option<OwnedFd> {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).ok()
}

impl Peer {
    /// If the host has authenticated itself, its controller gets what it is to see (on the admin queue), or the queue is made.
    fn prove(&mut self, engine: &mut Engine) {
        if self.gate.is_shut() {
            return;
        }
        let Some((controller, qid)) = self.queue else { return };
        if qid == 0 {
            return engine.drive.prove(controller);
        }
        if let Some(entries) = self.promised.take()
            && engine.drive.add_queue(controller, qid, entries).is_err()
        {
            // Another connection of the host has it by now, or the controller was reset.
            note(format_args!("queue {qid} of {} cannot be made any more", self.stream.name()));
            self.queue = None;
            self.leaving = true;
        }
    }

    /// Whether its Connect command has succeeded.
    fn is_set_up(&self) -> bool {
        self.queue.is_some() || self.discovery.is_some()
    }

    /// Whether it owes something that it may not owe for ever.
    fn is_watched(&self) -> bool {
        self.queue.is_none() || self.gate.is_shut() || self.wire.is_owed() || self.wire.wants_to_send()
    }

    fn owed(&self, limits: &Limits) -> Owed {
        let (pdu, r2t) = self.wire.owed();
        Owed {
            setup: (!self.is_set_up() || self.gate.is_shut()).then_some(self.began),
            pdu,
            r2t,
            unread: self.wire.wants_to_send().then(|| self.wire.bytes_sent()),
            keep_alive: self.discovery.as_ref().map(|discovering| discovering.keep_alive(limits)),
        }
    }

    /// Sends until the socket is full; false if the connection is over.
    fn send(&mut self, store: &mut Store) -> bool {
        while self.wire.wants_to_send() && !self.blocked {
            let sent = {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let mut count = 0;
                for (slice, bytes) in
                    slices.iter_mut().zip(self.wire.transmit_with(|token| store.lent(token)))
                {
                    *slice = IoSlice::new(bytes);
                    count += 1;
                }
                self.stream.write(&slices[..count])
            };
            match sent {
                Ok(0) => return false,
                Ok(n) => self.wire.sent_with(n, |token| store.end_loan(token)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.blocked = true,
                Err(_) => return false,
            }
        }
        if self.stream.is_holding() && !self.blocked {
            match self.stream.flush() {
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.blocked = true,
                Err(_) => return false,
                Ok(()) => {}
            }
        }
        !self.leaving || self.wire.wants_to_send() || self.stream.is_holding()
    }
}
