//! Faults of the protocol over NVMe/TCP, as a host meets them.

use crate::common::shape;
use host::{Data, Error, Host, Identity, Queue, SocketQueue, SocketTransport, TransportError, retry};
use live::{Options, Running};
use nvme::admin::{FaultInjection, FaultKind};
use nvme::protocol_fault::{CommandMatch, ProtocolAction, ProtocolFault, QueueKind, Recurrence};
use nvme::{AdminOpcode, Command, IoOpcode, Status};
use std::path::Path;
use std::time::{Duration, Instant};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Long enough to see that nothing comes. A slow machine makes no test fail by it.
const SILENCE: Duration = Duration::from_millis(150);

fn start(dir: &Path) -> Running {
    let options =
        Options { tcp: vec!["127.0.0.1:0".into()], unix: Some(dir.join("s")), ..Options::default() };
    live::start(Some(shape()), &options, &mut |_| ()).unwrap()
}

fn connect(running: &Running, addr: &str, name: &str) -> Result<Host<SocketTransport>, Error> {
    let mut identity = Identity::new(name.parse().unwrap());
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    Host::connect(SocketTransport::new(addr.parse().unwrap(), ANSWER_TIMEOUT), &identity)
}

/// The host whose commands meet faults.
fn victim(running: &Running) -> Result<Host<SocketTransport>, Error> {
    connect(running, &format!("tcp://{}", running.ports()[0].address), "nqn.2026-11.test:victim")
}

/// The host that injects them.
fn administrator(running: &Running, dir: &Path) -> Host<SocketTransport> {
    connect(running, &format!("unix://{}", dir.join("s").display()), "nqn.2026-11.test:admin").unwrap()
}

fn of(commands: CommandMatch, action: ProtocolAction) -> ProtocolFault {
    // Port 1 is the TCP port: the administrator is safe.
    let commands = CommandMatch { port: Some(1), ..commands };
    ProtocolFault { commands, recurrence: Recurrence { count: 1, ..Recurrence::default() }, action }
}

fn of_writes(action: ProtocolAction) -> ProtocolFault {
    of(CommandMatch { opcode: Some(IoOpcode::WRITE.0), nsid: Some(1), ..CommandMatch::default() }, action)
}

fn of_admin(opcode: AdminOpcode, action: ProtocolAction) -> ProtocolFault {
    let queue = QueueKind::Admin;
    of(CommandMatch { queue, opcode: Some(opcode.0), ..CommandMatch::default() }, action)
}

fn write(queue: &mut SocketQueue, lba: u64, byte: u8) {
    queue.submit(Command::write(1, lba, 1), Data::Out(vec![byte; 4096])).unwrap();
}

fn read(queue: &mut SocketQueue, lba: u64) -> u8 {
    queue.submit(Command::read(1, lba, 1), Data::In(vec![0; 4096])).unwrap();
    let done = queue.next(Some(ANSWER_TIMEOUT)).unwrap().expect("an answer");
    assert!(done.completion.status().is_success(), "{}", done.completion.status());
    done.data.into_buffer()[17]
}

fn status(queue: &mut SocketQueue) -> Status {
    queue.next(Some(ANSWER_TIMEOUT)).unwrap().expect("an answer").completion.status()
}

#[test]
fn a_dropped_completion_never_comes_and_the_next_connection_is_well() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path());
    let mut admin = administrator(&running, temp.path());
    for unexecuted in [false, true] {
        let mut host = victim(&running).unwrap();
        let mut queue = host.io_queue(8).unwrap().into_raw();
        write(&mut queue, 0, 1);
        assert!(status(&mut queue).is_success());
        admin.inject_protocol_fault(&of_writes(ProtocolAction::Drop { unexecuted })).unwrap();
        write(&mut queue, 0, 2);
        assert!(queue.next(Some(SILENCE)).unwrap().is_none(), "it never comes");
        assert_eq!(read(&mut queue, 0), if unexecuted { 1 } else { 2 }, "others go on");
        assert_eq!(queue.outstanding(), 1);
        drop((queue, host));
        let mut host = victim(&running).unwrap();
        let mut queue = host.io_queue(8).unwrap().into_raw();
        write(&mut queue, 0, 3);
        assert!(status(&mut queue).is_success());
    }
    assert_eq!(admin.injected_faults().unwrap().1.len(), 0, "each struck once");
}

#[test]
fn a_delayed_completion_is_late_and_another_status_is_reported() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path());
    let mut admin = administrator(&running, temp.path());
    let mut host = victim(&running).unwrap();
    let mut queue = host.io_queue(8).unwrap().into_raw();
    admin.inject_protocol_fault(&of_writes(ProtocolAction::Delay(100_000))).unwrap();
    let begun = Instant::now();
    write(&mut queue, 0, 1);
    assert!(status(&mut queue).is_success());
    assert!(begun.elapsed() >= Duration::from_millis(100));
    let wrong = Status::NAMESPACE_NOT_READY.with_dnr();
    let action = ProtocolAction::Status { status: wrong, unexecuted: true };
    admin.inject_protocol_fault(&of_writes(action)).unwrap();
    write(&mut queue, 0, 2);
    assert_eq!(status(&mut queue), wrong);
    assert_eq!(read(&mut queue, 0), 1);
    let of_identify = ProtocolAction::Status { status: Status::INTERNAL_ERROR, unexecuted: false };
    admin.inject_protocol_fault(&of_admin(AdminOpcode::IDENTIFY, of_identify)).unwrap();
    let error = host.identify_namespace(1).unwrap_err();
    assert_eq!(error.status(), Some(Status::INTERNAL_ERROR));
    assert!(host.identify_namespace(1).is_ok());
}

/// A completion that comes twice breaks the protocol: a host says so, and takes it for no other command's.
#[test]
fn a_duplicated_completion_ends_a_connection_with_a_clear_error() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path());
    let mut admin = administrator(&running, temp.path());
    let mut host = victim(&running).unwrap();
    let mut queue = host.io_queue(8).unwrap().into_raw();
    admin.inject_protocol_fault(&of_writes(ProtocolAction::Duplicate)).unwrap();
    write(&mut queue, 0, 1);
    let error = loop {
        match queue.next(Some(ANSWER_TIMEOUT)) {
            Ok(Some(done)) => assert!(done.completion.status().is_success()),
            Ok(None) => panic!("the duplicate did not come"),
            Err(error) => break error,
        }
    };
    let said = error.to_string();
    assert!(matches!(error, TransportError::Protocol(_)) && said.contains("not outstanding"), "{said}");
    drop((queue, host));
    let mut host = victim(&running).unwrap();
    assert_eq!(read(&mut host.io_queue(8).unwrap().into_raw(), 0), 1);
}

#[test]
fn identify_is_stale_until_faults_are_cleared() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path());
    let mut admin = administrator(&running, temp.path());
    let mut host = victim(&running).unwrap();
    let before = host.active_namespaces().unwrap();
    let mut fault = of_admin(AdminOpcode::IDENTIFY, ProtocolAction::StaleIdentify);
    fault.recurrence.count = 0;
    admin.inject_protocol_fault(&fault).unwrap();
    admin.delete_namespace(1).unwrap();
    assert_eq!(host.active_namespaces().unwrap(), before);
    assert!(host.identify_namespace(1).is_ok_and(|namespace| namespace.nsze.get() > 0));
    let clear = FaultInjection {
        nsid: 0,
        kind: FaultKind::CLEAR,
        nvmsetid: 0,
        count: 0,
        one_in: 0,
        param: 0,
        lba: None,
    };
    admin.inject_fault(clear).unwrap();
    assert!(host.active_namespaces().unwrap().is_empty());
}

#[test]
fn a_controller_that_vanished_comes_back() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path());
    let mut admin = administrator(&running, temp.path());
    let mut host = victim(&running).unwrap();
    let mut queue = host.io_queue(8).unwrap().into_raw();
    let begun = Instant::now();
    admin.inject_protocol_fault(&of_writes(ProtocolAction::Vanish(200_000))).unwrap();
    write(&mut queue, 0, 1);
    let error = queue.next(Some(ANSWER_TIMEOUT)).map(|done| done.map(|done| done.completion)).unwrap_err();
    assert!(matches!(error, TransportError::Closed), "{error}");
    drop((queue, host));
    // Another host finds the drive meanwhile.
    assert!(admin.identify_namespace(1).is_ok());
    let mut host = retry(ANSWER_TIMEOUT, || victim(&running)).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(
        read(&mut host.io_queue(8).unwrap().into_raw(), 0),
        0,
        "the write was lost with the controller"
    );
}

#[test]
fn a_controller_is_ready_late() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path());
    let mut admin = administrator(&running, temp.path());
    let late = of_admin(AdminOpcode::FABRICS, ProtocolAction::LateReady(120_000));
    admin.inject_protocol_fault(&late).unwrap();
    let begun = Instant::now();
    let mut host = victim(&running).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(120));
    assert!(host.identify_namespace(1).is_ok());
}

#[test]
fn what_makes_no_sense_is_explained() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path());
    let mut admin = administrator(&running, temp.path());
    let mut said = |fault: ProtocolFault| admin.inject_protocol_fault(&fault).unwrap_err().to_string();
    let elsewhere = CommandMatch { port: Some(9), ..CommandMatch::default() };
    let drop = ProtocolAction::Drop { unexecuted: false };
    let fault = ProtocolFault { commands: elsewhere, recurrence: Recurrence::default(), action: drop };
    assert!(said(fault).contains("there is no port 9 (the drive has 2)"));
    let any_admin = CommandMatch { queue: QueueKind::Admin, ..CommandMatch::default() };
    assert!(said(of(any_admin, drop)).contains("names an opcode"));
    // A host on the network has no faults to give.
    let mut host = victim(&running).unwrap();
    let refused = host.inject_protocol_fault(&of_writes(drop)).unwrap_err();
    assert_eq!(refused.status().map(Status::code), Some(Status::OPERATION_DENIED));
}
