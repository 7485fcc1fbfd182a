//! The front end of hosts over sockets: NVMe/TCP PDUs on Unix sockets and, with the same code, TCP.

mod admission;
mod authentication;
mod connect;
mod connection_id;
mod counts;
mod discover;
mod fuzz;
mod gate;
mod helper;
mod peer;
mod peer_warnings;
mod places;
mod ports;
mod socket;
mod timers;
mod turns;

pub use fuzz::fuzz_hosts;
pub(crate) use gate::Guard;
pub use ports::{MAX_PORTS, TcpPort};
pub(crate) use ports::{Port, Ports};
pub(crate) use socket::Listener;
pub use socket::{accept_tcp, listen_privately};
pub use timers::Limits;

use crate::engine::front_end::{EndedCommand, EngineTurn, FrontEnd};
use crate::engine::{CommandLimits, Engine, FrontEndId, Owner};
use crate::snapshot::{AuthenticationFailures, ConnectionCounts, TransportSnapshot};
use crate::wake::{Ready, Sleeper};
use authentication::GateVerdict;
use connection_id::{ConnectionId, GENERATIONS, LISTENERS};
use counts::Counts;
use device::{ControllerId, Origin, PortId, Role};
use fabric::Part;
use fabric::target::{Config, Connection, Incoming};
use gate::Gate;
use helper::{Helper, Task};
use image::Buffer;
use image::{DataBuffer, LentMemory, Store};
use media::{Nanos, Slot};
use nvme::command::FABRICS_OPCODE;
use nvme::fabrics::FabricsType;
use nvme::protocol_fault::CompletionFault;
use nvme::{Completion, Nqn, Status};
use peer::Peer;
use peer_warnings::warn_limited;
use peers::Network;
use places::Places;
use rustix::fd::OwnedFd;
use socket::{Source, Stream};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use timers::Watches;
use turns::{Turn, Turns};

/// Bytes that are read from one connection before others have their turn.
const FAIR_SHARE: usize = 1 << 18;
/// A connection gives memory back when nothing came from the host for so long.
const IDLE_TIMEOUT: Nanos = Nanos(5_000_000_000);
/// Boxes of lent memory that are kept then.
const MAX_SPARE_BOXES: usize = 128;
/// Commands that are looked at before the first of them is executed.
const LOOKAHEAD_COMMANDS: usize = 64;
/// Connections that a port accepts before hosts that are connected have their turn. Others wait in the listener.
const ROUND_ACCEPTS: usize = 4;

/// Listeners and their connections.
pub(crate) struct Server {
    sleeper: Arc<Sleeper>,
    ports: Ports,
    limits: Limits,
    counts: Counts,
    /// When the connections are looked at next for what they owe.
    next_look: Nanos,
    /// Ports that go down, and for how long.
    downs: Vec<(PortId, Nanos)>,
    /// All ports come back, before those go down.
    all_up: bool,
    peers: Vec<Option<Box<Peer>>>,
    generations: Vec<u32>,
    /// Places in `peers` that are free.
    vacant: Vec<u32>,
    places: Places,
    turns: Turns,
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
    /// Memory to be lent that holds nothing.
    #[expect(clippy::vec_box, reason = "commands own the boxes while the drive has them")]
    spare: Vec<Box<LentMemory>>,
    /// The parts of an answer, as the connection knows them.
    parts: Vec<Part>,
}

impl FrontEnd for Server {
    fn poll(&mut self, engine: &mut Engine, turn: &mut EngineTurn<'_>) {
        if let Some(ready) = turn.ready {
            self.serve(engine, ready, turn.now);
            // To read from sockets takes its time.
            turn.refresh();
        }
        if self.deadline() <= turn.now {
            self.tick(engine, turn.now);
        }
    }

    /// Answers the command; the answer is sent by [`flush`](FrontEnd::flush).
    fn complete(&mut self, ended: EndedCommand, store: &mut Store) {
        let EndedCommand { owner, completion, to_host, fault, mut data } = ended;
        let (id, tag) = ConnectionId::of(owner.token);
        let mut parts = std::mem::take(&mut self.parts);
        let spare = match self.peer(id) {
            Some(peer) => {
                let spare = peer.answer(tag, completion, to_host, data, &mut parts, store);
                if fault == CompletionFault::Duplicate {
                    peer.wire.repeat(tag, completion);
                }
                spare
            }
            None => {
                data.lent_mut().into_iter().for_each(|memory| store.end_references(memory));
                None
            }
        };
        self.parts = parts;
        self.spare.extend(spare);
        self.touch(id);
    }

    fn has_to_flush(&self) -> bool {
        !(self.touched.is_empty() && self.expelled.is_empty() && self.downs.is_empty()) || self.all_up
    }

    /// Sends what can be sent, closes what has ended, and takes the commands that had waited for room. False if there
    /// is more to send.
    fn flush(&mut self, engine: &mut Engine, now: Nanos) -> bool {
        for controller in std::mem::take(&mut self.expelled) {
            self.close_controller(engine, controller, now);
        }
        if std::mem::take(&mut self.all_up) && self.ports.bring_up(None) {
            self.ports_changed(engine);
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
            let waits = peer.wire.pending().len() > 0 && !peer.leaving && !peer.away && !peer.rests;
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

    fn deadline(&self) -> Nanos {
        self.next_look.min(self.ports.due())
    }

    fn controller_lost(&mut self, controller: ControllerId) {
        self.expelled.push(controller);
    }

    fn controller_vanished(&mut self, controller: ControllerId, host: &Nqn, until: Nanos) {
        self.ports.hide_from(host, until);
        let peers = self.peers.iter_mut().flatten();
        let own = peers.filter(|peer| peer.queue.is_some_and(|(id, _)| id == controller));
        own.for_each(|peer| peer.is_mute = true);
    }

    fn port_down(&mut self, port: PortId, span: Nanos) {
        self.downs.push((port, span));
    }

    fn ports_up(&mut self) {
        self.downs.clear();
        self.all_up = true;
    }

    fn power_lost(&mut self, store: &mut Store) {
        self.close_all(store);
    }

    fn stopped(&mut self, store: &mut Store) {
        self.close_all(store);
    }
}

impl Server {
    /// The front end's name in the engine.
    pub(crate) const ID: FrontEndId = FrontEndId::new(2).with_host_identifiers();

    pub(crate) fn new(
        sleeper: Arc<Sleeper>,
        ports: Ports,
        guard: Guard,
        limits: Limits,
        drive: CommandLimits,
    ) -> io::Result<Self> {
        for (i, port) in ports.iter().enumerate() {
            sleeper.watch_listener(&port.listener, Server::ID.number(), i as u64)?;
        }
        let config = Config {
            max_depth: u16::try_from(drive.entries).unwrap_or(u16::MAX),
            max_transfer: drive.transfer,
            in_capsule: drive.in_capsule,
            ..Config::default()
        };
        Ok(Server {
            helper: Helper::new(sleeper.clone()),
            sleeper,
            ports,
            limits,
            counts: Counts::default(),
            next_look: Nanos::MAX,
            downs: Vec::new(),
            all_up: false,
            peers: Vec::new(),
            generations: Vec::new(),
            vacant: Vec::new(),
            places: Places::new(&limits),
            turns: Turns::default(),
            reserve: reserve(),
            next_trim: Nanos(0),
            touched: Vec::new(),
            hungry: Vec::new(),
            guard,
            expelled: Vec::new(),
            config,
            scratch: vec![0; 1 << 16],
            spare: Vec::new(),
            parts: Vec::new(),
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
    fn serve(&mut self, engine: &mut Engine, ready: &Ready, now: Nanos) {
        self.turns.begin_round(self.places.are_shared());
        for (number, gone) in ready.sockets(Server::ID.number()) {
            if number < LISTENERS {
                self.accept(engine, number as usize, now);
                continue;
            }
            let number = number - LISTENERS;
            let index = number as u32;
            let Some(&generation) = self.generations.get(index as usize) else { continue };
            if u64::from(generation & GENERATIONS) == number >> 32 {
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
            if let Some(peer) = self.peer(id) {
                peer.rests = false;
                self.take_commands(engine, id, now);
                self.read(engine, id, now);
            }
        }
        self.trim(now);
        if !self.hungry.is_empty() {
            self.sleeper.ring();
        }
    }

    fn accept(&mut self, engine: &mut Engine, number: usize, now: Nanos) {
        for _ in 0..ROUND_ACCEPTS {
            let Some(port) = self.ports.by_number(number) else { return };
            let (id, is_down) = (port.id, port.is_down());
            let (stream, source) = match port.listener.accept() {
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
                    self.counts.refused += u64::from(refused);
                    note_refused(&e);
                    if refused {
                        continue;
                    }
                    return;
                }
            };
            self.make_room(engine, source, now);
            let stream = match (stream, &self.guard.tls) {
                (Stream::Tcp(stream), Some(tls)) => match tls.accept(stream) {
                    Ok(session) => Stream::Tls(Box::new(session)),
                    Err(e) => {
                        self.counts.refused += 1;
                        note_refused(&e);
                        continue;
                    }
                },
                (stream, _) => stream,
            };
            self.adopt(stream, source, id, now);
        }
    }

    /// Makes sure that the connections are looked at in a while.
    fn watch(&mut self, now: Nanos) {
        if self.next_look == Nanos::MAX {
            self.next_look = now + self.limits.interval();
        }
    }

    /// Does what is due: brings ports back, and ends connections that have owed something for too long.
    fn tick(&mut self, engine: &mut Engine, now: Nanos) {
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
                peer.counted.timeouts += 1;
                warn_limited(format_args!("a connection of {} ends: {why}", peer.stream.name()));
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

    fn take_down(&mut self, engine: &mut Engine, port: PortId, span: Nanos, now: Nanos) {
        if self.ports.take_down(port, now + span) {
            self.ports_changed(engine);
        }
        self.close_those(engine, now, |peer| peer.port == port);
    }

    /// Serves a connection that came through a port from here on.
    fn adopt(&mut self, stream: Stream, source: Source, port: PortId, now: Nanos) {
        let index = self.vacant.pop().map_or_else(
            || {
                self.peers.push(None);
                self.generations.push(0);
                self.peers.len() - 1
            },
            |index| index as usize,
        );
        let id = self.id(index);
        let place = match stream.watch(&self.sleeper, Server::ID.number(), id.number()) {
            Ok(()) => self
                .places
                .admit(source, id)
                .ok_or_else(|| io::Error::other("its network or user has its share of all connections")),
            Err(e) => Err(e),
        };
        let place = match place {
            Ok(place) => place,
            Err(e) => {
                self.vacant.push(index as u32);
                self.counts.refused += 1;
                return note_refused(&e);
            }
        };
        let (origin, network) = match source {
            Source::Network(network) => (Origin::Network, network),
            Source::User(_) => (Origin::Unix, Network::Loopback),
        };
        let role = if stream.is_near() { Role::Administrator } else { Role::Guest };
        let gate = Gate::new(self.guard.access.clone().filter(|_| origin == Origin::Network), role);
        let peer = Peer {
            stream,
            origin,
            port,
            began: now,
            place,
            network,
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
            rests: false,
            is_mute: false,
            counted: ConnectionCounts::default(),
        };
        self.peers[index] = Some(Box::new(peer));
        self.watch(now);
    }

    /// Serves a connection of a test.
    #[cfg(test)]
    pub(crate) fn adopt_unix(&mut self, stream: std::os::unix::net::UnixStream, now: Nanos) {
        self.adopt(Stream::Unix(stream), Source::User(0), PortId(1), now);
    }

    /// What connections count, how many were refused, and which hosts were not let in.
    pub(crate) fn counts(&self) -> (Vec<TransportSnapshot>, u64, AuthenticationFailures) {
        let (transports, failures) = self.counts.with(self.peers.iter().flatten().map(|peer| &**peer));
        (transports, self.counts.refused, failures)
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.peers.iter().flatten().count()
    }

    /// Lets connections that were idle for a while give memory back.
    fn trim(&mut self, now: Nanos) {
        if now < self.next_trim {
            return;
        }
        self.next_trim = now + IDLE_TIMEOUT;
        self.spare.truncate(MAX_SPARE_BOXES);
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
        let Some(turn) = self.turn(id) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut share = FAIR_SHARE;
        let mut close = false;
        let left = self.turns.left(turn);
        if let Some(peer) = self.peer(id) {
            peer.wire.allow_memory(left);
        }
        loop {
            let is_over = share == 0 || self.turns.is_over(turn);
            let Some(peer) = self.peer(id) else { break };
            peer.blocked = false;
            peer.idle = false;
            if peer.leaving || peer.rests {
                break;
            }
            if is_over {
                self.rest(id);
                break;
            }
            let (result, most) = peer.receive(&mut scratch);
            match result {
                Ok((0, _)) => {
                    close = true;
                    break;
                }
                Ok((n, received)) => {
                    share = share.saturating_sub(n);
                    peer.counted.received_bytes += n as u64;
                    if let Err(e) = received {
                        peer.count_error(e);
                        warn_limited(format_args!("a connection of {} ends: {e}", peer.stream.name()));
                        peer.leaving = true;
                    }
                    let drained = !peer.gone && peer.stream.short_read_is_all();
                    self.turns.spend(turn, n);
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
            return self.close(engine, id, now);
        }
        self.touch(id);
        let Some(peer) = self.peer(id) else { return };
        let (made, waits) = (peer.wire.take_memory_made(), peer.wire.waits_for_allowance());
        self.turns.spend(turn, made);
        if waits {
            self.rest(id);
        }
    }

    /// The turn that a connection has in this round.
    fn turn(&mut self, id: ConnectionId) -> Option<Turn> {
        let index = id.index as usize;
        let is_there = self.generations.get(index) == Some(&id.generation);
        let peer = self.peers.get(index).filter(|_| is_there)?.as_deref()?;
        Some(self.turns.of(&peer.place))
    }

    /// A connection goes on in the next round.
    fn rest(&mut self, id: ConnectionId) {
        if let Some(peer) = self.peer(id)
            && !std::mem::replace(&mut peer.rests, true)
        {
            self.hungry.push(id);
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
        let Some(turn) = self.turn(id) else { return };
        loop {
            if self.generations.get(index) != Some(&id.generation) {
                break;
            }
            let Some(peer) = self.peers.get_mut(index).and_then(Option::as_deref_mut) else { break };
            // Commands that come together do not wait for one miss of the cache after another.
            if ahead == 0 {
                ahead = peer.wire.pending().len().min(LOOKAHEAD_COMMANDS);
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
            if self.turns.is_over(turn) && peer.wire.pending().len() > 0 {
                self.rest(id);
                break;
            }
            let Some(incoming) = peer.wire.next() else { break };
            let Incoming { tag, sqe, alone, .. } = incoming;
            if sqe.opc == FABRICS_OPCODE || peer.gate.is_shut() {
                match authentication::pass(peer, &incoming) {
                    GateVerdict::On => {}
                    GateVerdict::Answered => {
                        peer.prove(engine, &mut self.places);
                        continue;
                    }
                    GateVerdict::Later(task) => {
                        self.delegate(engine, id, task, now);
                        continue;
                    }
                }
            }
            if sqe.opc == FABRICS_OPCODE && sqe.fctype() == FabricsType::CONNECT {
                let (ports, places) = (&mut self.ports, &self.places);
                let Some(completion) = connect::connect(engine, peer, ports, places, &incoming, now) else {
                    peer.leaving = true;
                    break;
                };
                let _ = peer.wire.respond(tag, completion, 0);
                peer.prove(engine, &mut self.places);
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
                    engine.remove_queue(controller, qid);
                }
                let _ = peer.wire.respond(tag, Completion::success(0, 0), 0);
                peer.queue = None;
                peer.leaving = true;
                continue;
            }
            let buffer = peer.wire.take_buffer(tag).unwrap_or_default();
            let data = lend(&mut self.spare, buffer);
            let owner = Owner { front_end: Server::ID, token: id.token(tag) };
            let bytes = engine.submit(now, owner, controller, qid, sqe, data);
            self.turns.executed(turn, qid, bytes);
            if alone {
                engine.end_fused(now, controller, qid);
            }
        }
    }

    fn close(&mut self, engine: &mut Engine, id: ConnectionId, now: Nanos) {
        let Some(peer) = self.peer(id) else { return };
        let queue = peer.queue.take();
        // One that the drive has not made is not the connection's to end.
        let promised = peer.promised.is_some();
        if let Some(host) = peer.gate.unproven() {
            warn_limited(format_args!("{host} ({}) left without authenticating itself", peer.stream.name()));
        }
        peer.wire.abandon(|token| engine.store.end_reference(Slot(token)));
        // Closing the socket takes it out of the set that is watched.
        if let Some(peer) = self.peers[id.index as usize].take() {
            self.counts.end(&peer);
            self.places.give_back(peer.place);
            if peer.away {
                self.helper.forget(id);
            }
        }
        self.generations[id.index as usize] = id.generation.wrapping_add(1);
        self.vacant.push(id.index);
        match queue {
            Some((controller, 0)) => {
                engine.drive_disconnect(now, controller);
                self.close_controller(engine, controller, now);
            }
            Some((controller, qid)) if !promised => engine.remove_queue(controller, qid),
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

    /// Closes every connection, after what is there to send was offered to the socket.
    fn close_all(&mut self, store: &mut Store) {
        for (index, slot) in self.peers.iter_mut().enumerate() {
            if let Some(mut peer) = slot.take() {
                peer.send(store);
                peer.wire.abandon(|token| store.end_reference(Slot(token)));
                self.counts.end(&peer);
                self.places.give_back(peer.place);
                self.generations[index] = self.generations[index].wrapping_add(1);
                self.vacant.push(index as u32);
            }
        }
        self.touched.clear();
        self.hungry.clear();
        self.expelled.clear();
    }
}

/// Memory of a connection, to be lent with a command.
#[inline]
#[expect(clippy::vec_box, reason = "as in `Server`")]
fn lend(spare: &mut Vec<Box<LentMemory>>, buffer: fabric::Buffer) -> DataBuffer {
    let len = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
    let memory = buffer.into_memory();
    if memory.is_empty() {
        return DataBuffer::None;
    }
    let mut lent = spare.pop().unwrap_or_default();
    lent.bytes = Buffer::part_of(memory, 0, len).unwrap_or_default();
    DataBuffer::Lent(lent)
}

/// Says why a connection was refused.
fn note_refused(why: &dyn std::fmt::Display) {
    warn_limited(format_args!(
        "a connection is refused: {why} (where it is descriptors, raise the limit with ulimit -n)"
    ));
}

/// Any descriptor.
fn reserve() -> Option<OwnedFd> {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).ok()
}
