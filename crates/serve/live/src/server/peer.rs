//! One connection: its stream, its gate, and what it owes.

use super::discover::Discovering;
use super::gate::Gate;
use super::peer_warnings::warn_limited;
use super::places::{Claim, Party, Place, Places};
use super::socket::Stream;
use super::timers::{AwaitedProgress, Limits, Watches};
use crate::engine::Engine;
use crate::snapshot::ConnectionCounts;
use device::{ControllerId, Origin, PortId};
use fabric::pdu::Fes;
use fabric::target::Connection;
use fabric::{Part, Tag};
use image::{AnswerPart, DataBuffer, LentMemory, Store};
use media::{Nanos, Slot};
use nvme::Completion;
use peers::Network;
use std::io::{self, ErrorKind, IoSlice};

/// Slices of a vectored write.
const SLICES: usize = 64;

/// Bytes that were read, and what the connection thinks of them.
type Received = (usize, Result<(), fabric::Error>);

/// A connection.
pub(super) struct Peer {
    pub(super) stream: Stream,
    pub(super) origin: Origin,
    /// The port that it came through.
    pub(super) port: PortId,
    pub(super) began: Nanos,
    /// What it holds.
    pub(super) place: Place,
    /// Whose turn it is when the helper has work for it; loopback on the Unix socket.
    pub(super) network: Network,
    pub(super) watches: Watches,
    pub(super) wire: Connection,
    /// Who may pass.
    pub(super) gate: Gate,
    /// The controller and queue, after Connect.
    pub(super) queue: Option<(ControllerId, u16)>,
    /// Entries of an I/O queue that the drive makes when the host has proved itself.
    pub(super) promised: Option<u32>,
    /// Or the discovery controller.
    pub(super) discovery: Option<Discovering>,
    /// It is closed as soon as everything is sent.
    pub(super) leaving: bool,
    /// The other end has closed its side: after what is still to be read comes the end, and no further event.
    pub(super) gone: bool,
    /// Something to send that the socket did not take yet.
    pub(super) blocked: bool,
    pub(super) touched: bool,
    /// Nothing has come since connections gave memory back.
    pub(super) idle: bool,
    /// The helper has work of this connection, and no command is taken until that is done.
    pub(super) away: bool,
    /// Something has come meanwhile.
    pub(super) rung: bool,
    /// Its party has had its turn, and it goes on in the next round.
    pub(super) rests: bool,
    /// Its controller has vanished: nothing more is sent.
    pub(super) is_mute: bool,
    /// What is counted here; [`counts`](Peer::counts) has all.
    pub(super) counted: ConnectionCounts,
}

impl Peer {
    /// What the connection has counted.
    pub(super) fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            accepted: 1,
            sent_bytes: self.wire.bytes_sent(),
            data_digest_errors: self.wire.data_digest_errors(),
            ..self.counted
        }
    }

    /// Counts why the connection ends.
    pub(super) fn count_error(&mut self, error: fabric::Error) {
        match error {
            fabric::Error::Violation(fault) if fault.fes == Fes::HEADER_DIGEST => {
                self.counted.header_digest_errors += 1;
            }
            fabric::Error::Violation(_) => self.counted.protocol_errors += 1,
            // The host has its reasons, or has been told of them.
            fabric::Error::Terminated { .. } | fabric::Error::Ended => {}
        }
    }

    /// Reads once: how many bytes, and what the connection thinks of them; and how many there could have been.
    pub(super) fn receive(&mut self, scratch: &mut [u8]) -> (io::Result<Received>, usize) {
        match self.wire.gap() {
            // Much data: straight to where it belongs.
            Some(gap) if gap.len() >= 4096 => {
                let most = gap.len();
                let got = self.stream.read(gap);
                let result = match got {
                    Ok(0) | Err(_) => Ok(()),
                    Ok(n) => self.wire.filled(n),
                };
                (got.map(|n| (n, result)), most)
            }
            _ => {
                let got = self.stream.read(scratch);
                let result = match got {
                    Ok(0) | Err(_) => Ok(()),
                    Ok(n) => self.wire.receive(&scratch[..n]),
                };
                (got.map(|n| (n, result)), scratch.len())
            }
        }
    }

    /// What an unproven connection takes when its host is in; `None` of a stranger, which never is.
    pub(super) fn claim(&self, controller: bool) -> Option<Claim> {
        let Place::Unproven(network, _) = self.place else { return None };
        if self.gate.is_stranger() {
            return None;
        }
        let entry = self.gate.admitted;
        let party = Party::of(network, entry, self.gate.has_key(&self.stream));
        Some(Claim { party, controller, entry })
    }

    /// If the host has connected and owes no proof, the connection takes its place. Its controller gets what it is to see (on
    /// the admin queue), or the queue is made.
    pub(super) fn prove(&mut self, engine: &mut Engine, places: &mut Places) {
        if !self.is_set_up() || self.gate.is_shut() {
            return;
        }
        if let Some(claim) = self.claim(self.queue.is_some_and(|(_, qid)| qid == 0))
            && let Err(full) = places.prove(&mut self.place, claim)
        {
            warn_limited(format_args!("a connection of {} ends: {full}", self.stream.name()));
            self.gate.shut = true;
            self.leaving = true;
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
            warn_limited(format_args!("queue {qid} of {} cannot be made any more", self.stream.name()));
            self.queue = None;
            self.leaving = true;
        }
    }

    /// Whether its Connect command has succeeded.
    pub(super) fn is_set_up(&self) -> bool {
        self.queue.is_some() || self.discovery.is_some()
    }

    /// Whether its host has not connected, is a stranger, or still has to authenticate itself.
    pub(super) fn is_unproven(&self) -> bool {
        !self.is_set_up() || self.gate.is_shut() || self.gate.is_stranger()
    }

    /// Whether it owes something that it may not owe for ever.
    pub(super) fn is_watched(&self) -> bool {
        self.queue.is_none() || self.gate.is_shut() || self.wire.is_owed() || self.wire.wants_to_send()
    }

    pub(super) fn owed(&self, limits: &Limits) -> AwaitedProgress {
        let (pdu, r2t) = self.wire.owed();
        AwaitedProgress {
            setup: self.is_unproven().then_some(self.began),
            pdu,
            r2t,
            unread: self.wire.wants_to_send().then(|| self.wire.bytes_sent()),
            keep_alive: self.discovery.as_ref().map(|discovering| discovering.keep_alive(limits)),
        }
    }

    /// Sends until the socket is full; false if the connection is over.
    pub(super) fn send(&mut self, store: &mut Store) -> bool {
        if self.is_mute {
            return false;
        }
        while self.wire.wants_to_send() && !self.blocked {
            let sent = {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let mut count = 0;
                for (slice, bytes) in
                    slices.iter_mut().zip(self.wire.transmit_with(|token| store.page(Slot(token))))
                {
                    *slice = IoSlice::new(bytes);
                    count += 1;
                }
                self.stream.write(&slices[..count])
            };
            match sent {
                Ok(0) => return false,
                Ok(n) => self.wire.sent_with(n, |token| store.end_reference(Slot(token))),
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

    /// Answers a command whose data was lent. `parts` is room for a list. Returns the lent memory, which holds nothing any
    /// more.
    pub(super) fn answer(
        &mut self,
        tag: Tag,
        completion: Completion,
        to_host: u32,
        data: DataBuffer,
        parts: &mut Vec<Part>,
        store: &mut Store,
    ) -> Option<Box<LentMemory>> {
        let DataBuffer::Lent(mut memory) = data else {
            let _ = self.wire.respond(tag, completion, to_host as usize);
            return None;
        };
        let bytes = std::mem::take(&mut memory.bytes);
        let len = bytes.len();
        let _ = self.wire.put_buffer(tag, fabric::Buffer::from_memory(bytes.into_vec(), len));
        if !memory.refers_to_slots() {
            let _ = self.wire.respond(tag, completion, to_host as usize);
            memory.parts.clear();
            return Some(memory);
        }
        parts.clear();
        parts.extend(memory.parts.iter().map(|part| match *part {
            AnswerPart::Copied { start, len } => Part::Own { start, len },
            AnswerPart::InSlot { slot, start, len } => Part::Away { token: slot.0, start, len },
        }));
        // From here on the connection has the references.
        if self.wire.respond_with(tag, completion, parts, |token| store.page(Slot(token))).is_ok() {
            memory.parts.clear();
        } else {
            // The read failed in the end, or nobody waits for it any more.
            store.end_references(&mut memory);
            let _ = self.wire.respond(tag, completion, 0);
        }
        Some(memory)
    }
}
