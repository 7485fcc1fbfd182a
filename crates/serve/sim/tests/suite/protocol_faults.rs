//! Faults of the protocol in virtual time.

use crate::common::shape;
use host::{Data, Error, Queue, TransportError};
use nvme::protocol_fault::{CommandMatch, ProtocolAction, ProtocolFault, Recurrence};
use nvme::{Command, IoOpcode};
use sim::{Contents, Sim};
use std::time::Duration;

const NQN: &str = "nqn.2026-11.test:host";

fn of_flushes(action: ProtocolAction, recurrence: Recurrence) -> ProtocolFault {
    let commands = CommandMatch { opcode: Some(IoOpcode::FLUSH.0), ..CommandMatch::default() };
    ProtocolFault { commands, recurrence, action }
}

/// What comes late is late by the clock of the machine, to the nanosecond.
#[test]
fn a_delay_is_of_virtual_time() {
    let sim = Sim::new(shape().config, Contents::None).unwrap();
    let mut host = sim.host(NQN).unwrap();
    let delay =
        of_flushes(ProtocolAction::Delay(40_000_000), Recurrence { every: 2, ..Recurrence::default() });
    host.inject_protocol_fault(&delay).unwrap();
    let mut queue = host.io_queue(4).unwrap().into_raw();
    let mut late = Vec::new();
    for _ in 0..4 {
        let begun = sim.now();
        queue.submit(Command::flush(1), Data::None).unwrap();
        let done = queue.next(None).unwrap().unwrap();
        assert!(done.completion.status().is_success());
        late.push(sim.now().since(begun).0);
    }
    assert_eq!(late, [40_000_000_000, 0, 40_000_000_000, 0]);
}

/// Nobody waits for ever: where nothing more happens, that is said.
#[test]
fn a_dropped_completion_is_an_error_or_a_timeout() {
    let sim = Sim::new(shape().config, Contents::None).unwrap();
    let mut host = sim.host(NQN).unwrap();
    let drop_one = Recurrence { count: 1, ..Recurrence::default() };
    let fault = of_flushes(ProtocolAction::Drop { unexecuted: false }, drop_one);
    for _ in 0..2 {
        host.inject_protocol_fault(&fault).unwrap();
    }
    let mut queue = host.io_queue(4).unwrap().into_raw();
    queue.submit(Command::flush(1), Data::None).unwrap();
    assert!(queue.next(Some(Duration::from_secs(30))).unwrap().is_none());
    queue.submit(Command::flush(1), Data::None).unwrap();
    let error = queue.next(None).unwrap_err();
    assert!(matches!(error, TransportError::Protocol(_)), "{error}");
    // The queue ends, and another one works.
    drop(queue);
    let mut queue = host.io_queue(4).unwrap();
    queue.flush(1).unwrap();
}

/// The host's requests fail with what happened, and the next host is well.
#[test]
fn a_vanished_controller_is_lost() {
    let sim = Sim::new(shape().config, Contents::None).unwrap();
    let mut host = sim.host(NQN).unwrap();
    let once = Recurrence { count: 1, ..Recurrence::default() };
    host.inject_protocol_fault(&of_flushes(ProtocolAction::Vanish(5), once)).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    assert!(queue.flush(1).is_err());
    let error = host.identify_namespace(1).unwrap_err();
    assert!(matches!(error, Error::Command { .. }), "{error}");
    let mut host = sim.host("nqn.2026-11.test:other").unwrap();
    host.io_queue(4).unwrap().flush(1).unwrap();
}
