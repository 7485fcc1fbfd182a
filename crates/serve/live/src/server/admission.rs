//! Admission of connections: what the helper does for them, how many may wait for it, and a new list of hosts.

use super::connection_id::ConnectionId;
use super::helper::{Job, Task};
use super::peer_warnings::warn_limited;
use super::socket::{Source, Stream};
use super::{Guard, Server, authentication};
use crate::engine::Engine;
use device::Origin;
use media::Nanos;
use std::io::ErrorKind;
use std::time::SystemTime;

impl Server {
    /// Has the helper do something for a connection.
    pub(super) fn delegate(&mut self, engine: &mut Engine, connection: ConnectionId, task: Task, now: Nanos) {
        let Some(peer) = self.peer(connection) else { return };
        (peer.away, peer.rung) = (true, false);
        let network = peer.network;
        if let Some(done) = self.helper.take(network, Job { connection, task }) {
            self.resume(engine, done, now);
        }
    }

    /// Goes on with a connection for which the helper has done something.
    pub(super) fn resume(&mut self, engine: &mut Engine, Job { connection, task }: Job, now: Nanos) {
        // Without the connection the session ends here, too.
        let Some(peer) = self.peer(connection) else { return };
        peer.away = false;
        match task {
            Task::Message { tag, chap, .. } => {
                authentication::proceed(peer, tag, chap, Ok(0));
                if let Some(Some(peer)) = self.peers.get_mut(connection.index as usize) {
                    peer.prove(engine, &mut self.places);
                }
                self.take_commands(engine, connection, now);
                self.touch(connection);
            }
            Task::Handshake { session, result } => {
                peer.stream = Stream::Tls(session);
                match result {
                    Err(e) if e.kind() == ErrorKind::WouldBlock && !peer.rung => {}
                    Ok(()) => self.read(engine, connection, now),
                    Err(e) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&e.kind()) => {
                        self.read(engine, connection, now);
                    }
                    Err(e) => {
                        peer.gate.failures.tls_handshake += 1;
                        // A host whose key does not fit is told so by TLS; the user of the drive is told here.
                        warn_limited(format_args!(
                            "a connection from {} is refused: {e}",
                            peer.stream.name()
                        ));
                        self.close(engine, connection, now);
                    }
                }
            }
        }
    }

    /// A new connection comes from this source. Where its network has no place left, the oldest one there that is unproven
    /// makes room: a host proves itself in less time than a flood of connections takes.
    pub(super) fn make_room(&mut self, engine: &mut Engine, source: Source, now: Nanos) {
        let Some(oldest) = self.places.oldest_in_the_way(source) else { return };
        if let Some(peer) = self.peer(oldest) {
            peer.counted.timeouts += 1;
            warn_limited(format_args!(
                "a connection of {} ends: newer ones of its network wait, and its host has not proved itself",
                peer.stream.name()
            ));
        }
        self.close(engine, oldest, now);
    }

    /// Takes over who may connect from now on. Hosts that are connected stay so if the new list lets them in by the proof that they
    /// gave; their roles follow the list.
    pub(crate) fn set_guard(&mut self, engine: &mut Engine, guard: Guard, now: Nanos) {
        let time = SystemTime::now();
        self.guard = guard;
        let Some(access) = self.guard.access.clone() else { return };
        let mut roles = Vec::new();
        let mut lost = Vec::new();
        for index in 0..self.peers.len() {
            let Some(peer) = self.peers[index].as_mut().filter(|peer| peer.origin == Origin::Network) else {
                continue;
            };
            // A TLS session that has not connected yet may have used a key that is no more.
            let is_new = !peer.is_set_up() && !matches!(peer.stream, Stream::Tcp(_));
            match (peer.gate.replace(&access, time).filter(|_| !is_new), peer.queue) {
                (Some(role), Some((controller, 0))) => roles.push((controller, role)),
                (Some(_), _) => {}
                (None, queue) => {
                    warn_limited(format_args!(
                        "a connection of {} ends: the new list of hosts does not let it in as before",
                        peer.stream.name()
                    ));
                    lost.push((self.id(index), queue));
                }
            }
        }
        for (id, queue) in lost {
            match queue {
                // With all its queues.
                Some((controller, _)) => {
                    engine.drive_disconnect(now, controller);
                    self.close_controller(engine, controller, now);
                }
                None => self.close(engine, id, now),
            }
        }
        for (controller, role) in roles {
            engine.set_role(now, controller, role);
        }
    }
}
