//! A host that asks the discovery service.

use super::timers::{Limits, nanos};
use fabric::Tag;
use fabric::discovery::Controller;
use fabric::target::{Connection, Incoming};
use media::Nanos;
use std::collections::VecDeque;

/// A discovery controller, on its connection.
pub(super) struct Discovering {
    pub(super) controller: Controller,
    /// Requests for events that wait, the oldest first.
    requests: VecDeque<Tag>,
    last_command: Nanos,
}

impl Discovering {
    pub(super) fn new(controller: Controller, now: Nanos) -> Self {
        Discovering { controller, requests: VecDeque::new(), last_command: now }
    }

    /// Executes a command.
    pub(super) fn execute(&mut self, wire: &mut Connection, incoming: &Incoming, now: Nanos) {
        self.last_command = now;
        let room = wire.data(incoming.tag).unwrap_or_default();
        match self.controller.execute(&incoming.sqe, room) {
            // The tag came from this connection just now.
            Some((completion, filled)) => drop(wire.respond(incoming.tag, completion, filled)),
            None => self.requests.push_back(incoming.tag),
        }
        self.tell(wire);
    }

    /// Answers waiting requests for events, if there is something to tell.
    pub(super) fn tell(&mut self, wire: &mut Connection) {
        while let Some(completion) = self.controller.take_event() {
            let Some(tag) = self.requests.pop_front() else { break };
            // As above.
            let _ = wire.respond(tag, completion, 0);
        }
    }

    /// When the last command came, and within which time the next must come.
    pub(super) fn keep_alive(&self, limits: &Limits) -> (Nanos, Nanos) {
        let within = match self.controller.keep_alive_ms() {
            0 => nanos(limits.discovery),
            // In units of the granularity (KAS).
            millis => Nanos(u64::from(millis).next_multiple_of(1000) * 1_000_000),
        };
        (self.last_command, within)
    }
}
