//! Faults of the protocol as a virtual machine's driver meets them.

use crate::common::shape;
use crate::machine::Machine;
use host::{Data, DriveTransport, Host, Identity, Queue, SocketTransport, TransportError};
use live::{Options, Running};
use nvme::admin::{AdminCommand, DeleteQueue};
use nvme::property::PropertyOffset;
use nvme::protocol_fault::{CommandMatch, ProtocolAction, ProtocolFault, QueueKind, Recurrence};
use nvme::{AdminOpcode, Command, IoOpcode, Status};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vfio::{DeviceAccess, Space};

/// How long an answer may take on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Long enough to see that nothing comes. A slow machine makes no test fail by it.
const SILENCE: Duration = Duration::from_millis(100);

fn start(dir: &Path) -> Running {
    let options = Options { pci: vec![socket(dir)], unix: Some(dir.join("s")), ..Options::default() };
    live::start(Some(shape()), &options, &mut |_| ()).unwrap()
}

fn inject(running: &Running, dir: &Path, commands: CommandMatch, action: ProtocolAction) {
    let mut identity = Identity::new("nqn.2026-11.test:admin".parse().unwrap());
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    let addr = format!("unix://{}", dir.join("s").display()).parse().unwrap();
    let mut host = Host::connect(SocketTransport::new(addr, ANSWER_TIMEOUT), &identity).unwrap();
    let recurrence = Recurrence { count: 1, ..Recurrence::default() };
    host.inject_protocol_fault(&ProtocolFault { commands, recurrence, action }).unwrap();
}

fn flushes() -> CommandMatch {
    CommandMatch { opcode: Some(IoOpcode::FLUSH.0), ..CommandMatch::default() }
}

const DROP: ProtocolAction = ProtocolAction::Drop { unexecuted: false };

impl Machine {
    fn disable(&mut self) {
        self.0.access.write(Space::Bar0, PropertyOffset::CC.0.into(), &[0; 4]).unwrap();
        self.wait_for(0);
    }

    fn flush(&mut self) -> u16 {
        self.submit(1, Command::new(IoOpcode::FLUSH.0, 1))
    }

    fn assert_silent(&mut self, qid: u16) {
        std::thread::sleep(SILENCE);
        assert!(self.0.take(qid).unwrap().is_none());
    }
}

/// The device's socket.
fn socket(dir: &Path) -> PathBuf {
    dir.join("machine")
}

#[test]
fn a_dropped_completion_comes_back_by_abort_deletion_and_reset() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let running = start(dir);
    let mut machine = Machine::enabled(&socket(dir));
    inject(&running, dir, flushes(), DROP);
    let lost = machine.flush();
    machine.assert_silent(1);
    let abort = nvme::admin::Abort { sqid: 1, cid: lost };
    machine.submit(0, AdminCommand::Abort(abort).into());
    let aborted = machine.next(1);
    assert_eq!((aborted.cid.get(), aborted.status()), (lost, Status::ABORT_REQUESTED.with_dnr()));
    let answer = machine.next(0);
    assert_eq!((answer.status(), answer.dw0.get() & 1), (Status::SUCCESS, 0));
    // The deletion of its queue.
    inject(&running, dir, flushes(), DROP);
    machine.flush();
    machine.assert_silent(1);
    let delete = AdminCommand::DeleteIoSq(DeleteQueue { qid: 1 });
    machine.submit(0, delete.into());
    assert!(machine.next(0).status().is_success());
    machine.disable();
    machine.enable();
    // A reset.
    inject(&running, dir, flushes(), DROP);
    machine.flush();
    machine.assert_silent(1);
    machine.disable();
    machine.enable();
    let cid = machine.flush();
    machine.end(1, cid);
}

#[test]
fn a_completion_comes_twice() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let running = start(dir);
    let mut machine = Machine::enabled(&socket(dir));
    inject(&running, dir, flushes(), ProtocolAction::Duplicate);
    let twice = machine.flush();
    let cids = [machine.next(1).cid.get(), machine.next(1).cid.get()];
    assert_eq!(cids, [twice; 2]);
    let once = machine.flush();
    assert_eq!(machine.next(1).cid.get(), once);
    machine.assert_silent(1);
}

#[test]
fn a_typed_host_does_not_take_a_second_completion_for_the_next_commands() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let running = start(dir);
    let addr = format!("pci://{}", socket(dir).display()).parse().unwrap();
    let identity = Identity::new("nqn.2026-11.test:host".parse().unwrap());
    let mut host = Host::connect(DriveTransport::new(addr, ANSWER_TIMEOUT), &identity).unwrap();
    // One place: the next command has that of the command before.
    let mut queue = host.io_queue(1).unwrap().into_raw();
    inject(&running, dir, flushes(), ProtocolAction::Duplicate);
    let flush = Command::new(IoOpcode::FLUSH.0, 1);
    let first = queue.submit(flush, Data::None).unwrap();
    assert_eq!(queue.next(None).unwrap().unwrap().tag, first);
    queue.submit(flush, Data::None).unwrap();
    let wrong = queue.next(None).unwrap_err();
    assert!(
        matches!(wrong, TransportError::Protocol(_)) && wrong.to_string().contains("not sent"),
        "{wrong}"
    );
}

#[test]
fn a_controller_is_ready_late_or_never() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let running = start(dir);
    let enabling = CommandMatch {
        queue: QueueKind::Admin,
        opcode: Some(AdminOpcode::FABRICS.0),
        ..CommandMatch::default()
    };
    let mut machine = Machine::attach(&socket(dir));
    inject(&running, dir, enabling, ProtocolAction::LateReady(150_000));
    let begun = Instant::now();
    machine.enable();
    assert!(begun.elapsed() >= Duration::from_millis(150));
    machine.disable();
    inject(&running, dir, enabling, ProtocolAction::LateReady(ProtocolAction::ENDLESS_US));
    machine.0.enable().unwrap();
    std::thread::sleep(SILENCE);
    assert_eq!(machine.status(), 0);
    // The driver gives up, and tries again.
    machine.disable();
    machine.enable();
    let cid = machine.flush();
    machine.end(1, cid);
}

#[test]
fn a_function_that_vanished_reads_as_ones_until_it_returns() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let running = start(dir);
    let mut machine = Machine::enabled(&socket(dir));
    let begun = Instant::now();
    inject(&running, dir, flushes(), ProtocolAction::Vanish(300_000));
    machine.flush();
    machine.wait_for(u32::MAX);
    let mut vendor = [0; 2];
    machine.0.access.region_read(7, 0, &mut vendor).unwrap();
    assert!(vendor == [0xFF; 2] || begun.elapsed() >= Duration::from_millis(300));
    machine.wait_for(0);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    machine.enable();
    let cid = machine.flush();
    machine.end(1, cid);
}
