//! The contract between the engine and the ways in which hosts reach the drive.
//!
//! A front end is a transport: connections over NVMe/TCP, queues of this process, queues under a virtual clock. The engine knows
//! none of them. The owner of the engine holds the front ends beside it, and passes them to [`Engine::settle`].
//!
//! - **Commands in.** In [`FrontEnd::poll`] a front end takes what its hosts have sent. It hands each command to
//!   [`Engine::submit`] with its [`Owner`] and its [`DataBuffer`].
//! - **Completions out.** Each command comes back once, by [`FrontEnd::complete`], with the buffer. A front end gathers what it has to
//!   tell its hosts, and does so in [`FrontEnd::flush`], once for a batch.
//! - **Time.** [`FrontEnd::deadline`] says when the front end wants to be polled next, if nothing comes before.
//! - **Losses.** A front end is told when controllers end, when power goes and comes back, and when the drive stops.
//! - **Limits.** [`Engine::limits`] says what the drive takes; [`Engine::room`] says how many commands more can be in flight.
//!
//! A front end with queues in the memory of a virtual machine fits in: `poll` fetches commands when doorbells ring, `complete` copies
//! what was read from the slots to that memory, and `flush` raises one interrupt for a batch.

use super::{Engine, Owner};
use crate::clock::Clock;
use crate::wake::Ready;
use device::{ControllerId, PortId};
use image::{DataBuffer, Store};
use media::Nanos;
use nvme::protocol_fault::CompletionFault;
use nvme::{Completion, Nqn};

/// A command that has ended.
pub struct EndedCommand {
    /// Whose it is.
    pub owner: Owner,
    /// How it ended.
    pub completion: Completion,
    /// Bytes of the data that go to the host if it succeeded.
    pub to_host: u32,
    /// What is wrong with the way in which its host hears of it.
    pub fault: CompletionFault,
    /// The buffer that came with the command. Its references to slots are the front end's to end
    /// ([`Store::end_references`]).
    pub data: DataBuffer,
}

/// One turn of the engine.
pub struct EngineTurn<'a> {
    /// The drive's clock.
    pub clock: &'a Clock,
    /// The drive's time. A front end that takes long reads the clock again.
    pub now: Nanos,
    /// Sockets with news; `None` on a thread that does not watch them.
    pub(crate) ready: Option<&'a Ready>,
}

impl<'a> EngineTurn<'a> {
    pub(crate) fn new(clock: &'a Clock, ready: Option<&'a Ready>) -> Self {
        EngineTurn { clock, now: clock.now(), ready }
    }

    /// Reads the clock again.
    #[inline]
    pub fn refresh(&mut self) {
        self.now = self.clock.now();
    }
}

/// A way in which hosts reach the drive.
pub trait FrontEnd {
    /// Takes what hosts have sent, submits their commands, and does what is due.
    fn poll(&mut self, engine: &mut Engine, turn: &mut EngineTurn<'_>);

    /// A command of this front end has ended. Nothing may be submitted from here.
    fn complete(&mut self, ended: EndedCommand, store: &mut Store);

    /// Whether [`flush`](FrontEnd::flush) has something to do.
    fn has_to_flush(&self) -> bool {
        false
    }

    /// Tells hosts what has ended, and goes on with what waited for that. False if it has to be called again.
    fn flush(&mut self, engine: &mut Engine, now: Nanos) -> bool {
        let _ = (engine, now);
        true
    }

    /// When it wants to be polled next; [`Nanos::MAX`] if only its hosts can tell.
    fn deadline(&self) -> Nanos {
        Nanos::MAX
    }

    /// The drive has ended a controller (keep-alive timeout, subsystem reset). Its commands come back nevertheless.
    fn controller_lost(&mut self, controller: ControllerId) {
        let _ = controller;
    }

    /// An interrupt comes for the queue of this command, which is in flight.
    fn interrupt(&mut self, owner: Owner) {
        let _ = owner;
    }

    /// A controller of this host vanishes until this time. [`controller_lost`](FrontEnd::controller_lost) follows.
    fn controller_vanished(&mut self, controller: ControllerId, host: &Nqn, until: Nanos) {
        let _ = (controller, host, until);
    }

    /// A port goes down for a time, after its hosts were told what has ended.
    fn port_down(&mut self, port: PortId, span: Nanos) {
        let _ = (port, span);
    }

    /// Ports that are down come back.
    fn ports_up(&mut self) {}

    /// The drive has lost its power, and with it all controllers. Each command in flight follows by
    /// [`complete`](FrontEnd::complete), with the status Commands Aborted due to Power Loss Notification.
    fn power_lost(&mut self, store: &mut Store) {
        let _ = store;
    }

    /// The drive has power again.
    fn power_returned(&mut self, engine: &mut Engine, now: Nanos) {
        let _ = (engine, now);
    }

    /// The drive has stopped for good. Nothing comes back any more.
    fn stopped(&mut self, store: &mut Store) {
        let _ = store;
    }
}
