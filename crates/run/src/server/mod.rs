//! Hosts over sockets: NVMe/TCP PDUs on Unix sockets and, with the same code, TCP.

mod connect;
mod fuzz;
mod socket;

pub use fuzz::fuzz_hosts;
pub(crate) use socket::Listener;

use crate::engine::{Engine, Owner};
use crate::store::Lent;
use crate::wake::{Ready, Sleeper};
use device::{ControllerId, MAX_QUEUE_ENTRIES, Origin};
use fabric::discovery;
use fabric::target::{Config, Connection, Incoming};
use media::Nanos;
use nvme::command::FABRICS_OPCODE;
use nvme::fabrics::FabricsType;
use nvme::{Completion, Status};
use socket::Stream;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

/// Numbers of listeners among the sockets that are watched; connections follow.
const LISTENERS: u64 = 16;
/// Connections at once; further ones are closed at once.
const MAX_CONNECTIONS: usize = 4096;
/// Bytes that are read from one connection before others have their turn.
const FAIR_SHARE: usize = 1 << 20;
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

struct Peer {
    stream: Stream,
    origin: Origin,
    wire: Connection,
    /// The controller and queue, after Connect.
    queue: Option<(ControllerId, u16)>,
    /// Or the discovery controller.
    discovery: Option<discovery::Controller>,
    /// Closed as soon as everything is sent.
    leaving: bool,
    /// The other end has closed its side: after what is still to be read comes the end, and no further event.
    gone: bool,
    /// Something to send that the socket did not take yet.
    blocked: bool,
    touched: bool,
}

/// Listeners and their connections.
pub(crate) struct Server {
    sleeper: Arc<Sleeper>,
    listeners: Vec<Listener>,
    peers: Vec<Option<Box<Peer>>>,
    generations: Vec<u32>,
    /// Connections with answers to send.
    touched: Vec<ConnectionId>,
    hungry: Vec<ConnectionId>,
    /// Controllers whose connections are to be closed.
    expelled: Vec<ControllerId>,
    config: Config,
    scratch: Vec<u8>,
}

impl Server {
    pub(crate) fn new(
        sleeper: Arc<Sleeper>,
        listeners: Vec<Listener>,
        max_transfer: u32,
        in_capsule: u32,
    ) -> io::Result<Self> {
        for (i, listener) in listeners.iter().enumerate() {
            match listener {
                Listener::Unix(l, _) => sleeper.watch_listener(l, i as u64)?,
                Listener::Tcp(l, _) => sleeper.watch_listener(l, i as u64)?,
            }
        }
        let max_depth = u16::try_from(MAX_QUEUE_ENTRIES).unwrap_or(u16::MAX);
        Ok(Server {
            sleeper,
            listeners,
            peers: Vec::new(),
            generations: Vec::new(),
            touched: Vec::new(),
            hungry: Vec::new(),
            expelled: Vec::new(),
            config: Config { max_depth, max_transfer, in_capsule, ..Config::default() },
            scratch: vec![0; 1 << 16],
        })
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
                self.accept(number as usize);
                continue;
            }
            let number = number - LISTENERS;
            let index = number as u32;
            let Some(&generation) = self.generations.get(index as usize) else { continue };
            if u64::from(generation & 0x7FFF_FFFF) == number >> 32 {
                let id = ConnectionId { index, generation };
                if let Some(peer) = self.peer(id) {
                    peer.gone |= gone;
                }
                self.read(engine, id, now);
            }
        }
        for id in std::mem::take(&mut self.hungry) {
            self.read(engine, id, now);
        }
        if !self.hungry.is_empty() {
            self.sleeper.ring();
        }
    }

    fn accept(&mut self, number: usize) {
        while let Some(listener) = self.listeners.get(number) {
            let (stream, origin) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::ConnectionAborted => {
                    continue;
                }
                Err(e) => {
                    // Out of descriptors or memory: the others go on, and this one is tried again later.
                    tracing::warn!("cannot accept a connection: {e}");
                    return;
                }
            };
            self.adopt(stream, origin);
        }
    }

    /// Serves a connection from here on.
    fn adopt(&mut self, stream: Stream, origin: Origin) {
        let index = match self.peers.iter().position(Option::is_none) {
            Some(index) => index,
            None if self.peers.len() < MAX_CONNECTIONS => {
                self.peers.push(None);
                self.generations.push(0);
                self.peers.len() - 1
            }
            None => {
                tracing::warn!("more than {MAX_CONNECTIONS} connections: one is refused");
                return;
            }
        };
        let id = ConnectionId { index: index as u32, generation: self.generations[index] };
        let watched = match &stream {
            Stream::Unix(s) => self.sleeper.watch(s, id.number()),
            Stream::Tcp(s) => self.sleeper.watch(s, id.number()),
        };
        if let Err(e) = watched {
            tracing::warn!("cannot watch a connection: {e}");
            return;
        }
        let peer = Peer {
            stream,
            origin,
            wire: Connection::new(self.config.clone()),
            queue: None,
            discovery: None,
            leaving: false,
            gone: false,
            blocked: false,
            touched: false,
        };
        self.peers[index] = Some(Box::new(peer));
    }

    /// How many connections there are.
    fn connections(&self) -> usize {
        self.peers.iter().flatten().count()
    }

    fn read(&mut self, engine: &mut Engine, id: ConnectionId, now: Nanos) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut share = FAIR_SHARE;
        let mut close = false;
        while let Some(peer) = self.peer(id) {
            peer.blocked = false;
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
                        tracing::warn!("a connection ends: {e}");
                        peer.leaving = true;
                    }
                    let gone = peer.gone;
                    self.take_commands(engine, id, now);
                    if n < most && !gone {
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
        while let Some(peer) = self.peer(id) {
            let Some(incoming) = peer.wire.next() else { break };
            let Incoming { tag, sqe, .. } = incoming;
            if sqe.opc == FABRICS_OPCODE && sqe.fctype() == FabricsType::CONNECT {
                let completion = connect::connect(engine, peer, &incoming, now);
                let _ = peer.wire.respond(tag, completion, 0);
                continue;
            }
            if let Some(discovery) = &mut peer.discovery {
                let room = peer.wire.data(tag).unwrap_or_default();
                // What is not answered waits for an event, and there is none.
                if let Some((completion, filled)) = discovery.execute(&sqe, room) {
                    let _ = peer.wire.respond(tag, completion, filled);
                }
                continue;
            }
            let Some((controller, qid)) = peer.queue else {
                let status = Status::COMMAND_SEQUENCE_ERROR.with_dnr();
                let _ = peer.wire.respond(tag, Completion::new(0, status), 0);
                continue;
            };
            if sqe.opc == FABRICS_OPCODE && sqe.fctype() == FabricsType::DISCONNECT && qid != 0 {
                engine.drive.remove_queue(controller, qid);
                let _ = peer.wire.respond(tag, Completion::success(0, 0), 0);
                peer.queue = None;
                peer.leaving = true;
                continue;
            }
            let buffer = peer.wire.take_buffer(tag).unwrap_or_default();
            let owner = Owner::Connection { connection: id, tag };
            engine.submit(now, owner, controller, qid, &sqe, Lent::Wire(buffer));
        }
    }

    /// Answers a command; the answer is sent by [`flush`](Server::flush).
    pub(crate) fn complete(
        &mut self,
        id: ConnectionId,
        tag: fabric::Tag,
        completion: Completion,
        to_host: u32,
        buffer: Lent,
    ) {
        let Some(peer) = self.peer(id) else { return };
        if let Lent::Wire(buffer) = buffer {
            let _ = peer.wire.put_buffer(tag, buffer);
        }
        let _ = peer.wire.respond(tag, completion, to_host as usize);
        self.touch(id);
    }

    /// Sends what can be sent, and closes what has ended.
    pub(crate) fn flush(&mut self, engine: &mut Engine, now: Nanos) {
        for controller in std::mem::take(&mut self.expelled) {
            self.close_controller(engine, controller, now);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let Some(peer) = self.peer(id) else { continue };
            peer.touched = false;
            if !peer.send() {
                self.close(engine, id, now);
            }
        }
        touched.append(&mut self.touched);
        self.touched = touched;
    }

    fn close(&mut self, engine: &mut Engine, id: ConnectionId, now: Nanos) {
        let Some(peer) = self.peer(id) else { return };
        let queue = peer.queue.take();
        // Closing the socket takes it out of the set that is watched.
        self.peers[id.index as usize] = None;
        self.generations[id.index as usize] = id.generation.wrapping_add(1);
        match queue {
            Some((controller, 0)) => {
                engine.drive_disconnect(now, controller);
                self.close_controller(engine, controller, now);
            }
            Some((controller, qid)) => engine.drive.remove_queue(controller, qid),
            None => {}
        }
    }

    /// Closes the connections of a controller that has gone.
    fn close_controller(&mut self, engine: &mut Engine, controller: ControllerId, now: Nanos) {
        for index in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[index] else { continue };
            if peer.queue.is_some_and(|(c, _)| c == controller) {
                peer.queue = None;
                // What the host has still coming to it, in particular why, is sent if the socket takes it.
                peer.send();
                let id = ConnectionId { index: index as u32, generation: self.generations[index] };
                self.close(engine, id, now);
            }
        }
    }

    /// The drive has ended a controller.
    pub(crate) fn expel(&mut self, controller: ControllerId) {
        self.expelled.push(controller);
    }

    /// Closes every connection, after what is there to send was offered to the socket.
    pub(crate) fn close_all(&mut self) {
        for (index, slot) in self.peers.iter_mut().enumerate() {
            if let Some(mut peer) = slot.take() {
                peer.send();
                self.generations[index] = self.generations[index].wrapping_add(1);
            }
        }
        self.touched.clear();
        self.hungry.clear();
        self.expelled.clear();
    }
}

impl Peer {
    /// Sends until the socket is full; false if the connection is over.
    fn send(&mut self) -> bool {
        while self.wire.wants_to_send() && !self.blocked {
            let sent = {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let mut count = 0;
                for (slice, bytes) in slices.iter_mut().zip(self.wire.transmit()) {
                    *slice = IoSlice::new(bytes);
                    count += 1;
                }
                self.stream.write(&slices[..count])
            };
            match sent {
                Ok(0) => return false,
                Ok(n) => self.wire.sent(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.blocked = true,
                Err(_) => return false,
            }
        }
        !self.leaving || self.wire.wants_to_send()
    }
}
