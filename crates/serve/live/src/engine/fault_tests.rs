//! Each fault of the protocol, at the seam between the drive and a front end.

use super::tests::{Bench, Fake, Told, lent};
use image::{Buffer, DataBuffer, testing};
use media::Nanos;
use nvme::admin::{FaultInjection, FaultKind, NamespaceManagement, NamespaceManagementSelect, PowerCut};
use nvme::fabrics::FabricsCommand;
use nvme::identify::Cns;
use nvme::property::{Cc, PropertyOffset};
use nvme::protocol_fault::{
    BlockRange, CommandMatch, CompletionFault, ProtocolAction, ProtocolFault, QueueKind, Recurrence,
};
use nvme::{AdminOpcode, Command, Csi, Status};

const DROP: ProtocolAction = ProtocolAction::Drop { unexecuted: false };

fn once(action: ProtocolAction) -> ProtocolFault {
    let recurrence = Recurrence { count: 1, ..Recurrence::default() };
    ProtocolFault { commands: CommandMatch::default(), recurrence, action }
}

fn of_admin(opcode: AdminOpcode, action: ProtocolAction) -> ProtocolFault {
    let commands =
        CommandMatch { queue: QueueKind::Admin, opcode: Some(opcode.0), ..CommandMatch::default() };
    ProtocolFault { commands, ..once(action) }
}

impl Bench {
    /// Injects a fault, as a host does. What is counted begins anew.
    fn inject(&mut self, fault: ProtocolFault) {
        let (command, data) = fault.command();
        let told = self.turn_with(0, command, Buffer::from(data.to_vec()).into());
        assert_eq!(told, [Told::Completed(self.fake.submitted - 1, Status::SUCCESS), Told::Flushed]);
        self.fake.ended.clear();
        self.fake.submitted = 0;
    }

    fn write(&mut self, lba: u64, byte: u8) -> Vec<Told> {
        self.turn_with(1, Command::write(1, lba, 1), Buffer::from(vec![byte; 4096]).into())
    }

    fn read(&mut self, lba: u64) -> u8 {
        self.turn_with(1, Command::read(1, lba, 1), Buffer::zeroed(4096).into());
        let ended = self.ended(1).pop().unwrap();
        assert!(ended.completion.status().is_success(), "{}", ended.completion.status());
        ended.data.as_slice()[17]
    }

    /// Lets a command of the admin queue run to its end: dword 0 and status of its completion.
    fn admin(&mut self, command: Command, data: DataBuffer) -> (u32, Status) {
        self.fake.ended.clear();
        self.turn_with(0, command, data);
        let number = self.fake.submitted - 1;
        let ended = self.ended(1);
        let found = ended.iter().find(|ended| ended.owner.token.command - Fake::FIRST == number).unwrap();
        (found.completion.dw0.get(), found.completion.status())
    }

    fn abort(&mut self, cid: u16) -> (u32, Status) {
        let mut abort = Command::new(AdminOpcode::ABORT.0, 0);
        abort.cdw10.set(u32::from(cid) << 16 | 1);
        self.admin(abort, DataBuffer::None)
    }

    /// Nothing is left anywhere.
    fn assert_empty(&mut self) {
        assert_eq!((self.engine.room(), self.engine.drive.in_flight()), (device::MAX_IO as usize, 0));
        assert_eq!(self.engine.store.references(), 0);
        assert_eq!(self.engine.next_deadline(&self.fake), Nanos::MAX);
        assert!(self.engine.struck.struck_is_empty(), "nothing is remembered");
    }
}

#[test]
fn a_dropped_completion_comes_back_with_an_abort() {
    let mut bench = Bench::new();
    bench.inject(once(DROP));
    assert_eq!(bench.write(3, 7), []);
    assert_eq!(bench.engine.next_deadline(&bench.fake), Nanos::MAX, "it never comes");
    // The drive has executed it, and other commands go on.
    assert_eq!(bench.read(3), 7);
    let (dw0, status) = bench.abort(0);
    assert_eq!((dw0, status), (0, Status::SUCCESS), "the command was aborted");
    assert_eq!(bench.abort(0).0, 1, "it is gone");
    bench.assert_empty();
}

#[test]
fn an_aborted_command_is_answered_before_its_abort() {
    let mut bench = Bench::new();
    bench.inject(once(DROP));
    bench.write(3, 7);
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0);
    abort.cdw10.set(1);
    let told = bench.turn_with(0, abort, DataBuffer::None);
    let aborted = Told::Completed(0, Status::ABORT_REQUESTED.with_dnr());
    assert_eq!(told, [aborted, Told::Completed(1, Status::SUCCESS), Told::Flushed]);
    bench.assert_empty();
}

#[test]
fn an_abort_may_be_lost_too() {
    let mut bench = Bench::new();
    bench.inject(once(DROP));
    bench.inject(of_admin(AdminOpcode::ABORT, ProtocolAction::Drop { unexecuted: true }));
    bench.write(3, 7);
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0);
    abort.cdw10.set(1);
    assert_eq!(bench.turn_with(0, abort, DataBuffer::None), []);
    let controller = bench.fake.controller;
    bench.engine.drive_disconnect(bench.clock.now(), controller);
    let mut told = bench.turn();
    told.sort_by_key(|told| format!("{told:?}"));
    let aborted = |number| Told::Completed(number, Status::ABORTED_SQ_DELETION);
    assert_eq!(told, [aborted(0), aborted(1), Told::Flushed]);
    bench.assert_empty();
}

#[test]
fn queues_and_controllers_that_end_give_back_what_was_dropped() {
    let mut bench = Bench::new();
    for ends_queue in [true, false] {
        bench.inject(once(DROP));
        bench.turn_with(1, Command::read(1, 0, 1), lent(4096));
        assert_eq!(bench.fake.ended.len(), 0);
        let (now, controller) = (bench.clock.now(), bench.fake.controller);
        if ends_queue {
            bench.engine.remove_queue(controller, 2);
            assert_eq!(bench.turn(), [], "another queue");
            bench.engine.remove_queue(controller, 1);
        } else {
            bench.engine.drive_disconnect(now, controller);
        }
        assert_eq!(bench.turn(), [Told::Completed(0, Status::ABORTED_SQ_DELETION), Told::Flushed]);
        let mut ended = bench.ended(1).pop().unwrap();
        let memory = ended.data.lent_mut().unwrap();
        bench.engine.store.end_references(memory);
        bench.assert_empty();
        if ends_queue {
            bench.engine.drive.add_queue(controller, 1, 64).unwrap();
        }
    }
}

/// Its controller is gone before the drive has executed it.
#[test]
fn a_struck_command_of_a_host_that_has_gone_ends_as_any_other() {
    let mut bench = Bench::with(|config| {
        config.timing = true;
        config.link.command_overhead = Nanos(5_000);
        config.protocol_faults = vec![once(DROP)];
    });
    assert_eq!(bench.turn_with(1, Command::flush(1), DataBuffer::None), []);
    let controller = bench.fake.controller;
    bench.engine.drive_disconnect(bench.clock.now(), controller);
    bench.ended(1);
    bench.assert_empty();
}

#[test]
fn a_delayed_completion_comes_at_its_time() {
    let mut bench = Bench::new();
    bench.inject(once(ProtocolAction::Delay(300)));
    let at = bench.clock.now();
    assert_eq!(bench.write(3, 7), []);
    assert_eq!(bench.engine.next_deadline(&bench.fake), at + Nanos(300_000));
    assert_eq!(bench.read(3), 7, "others do not wait");
    bench.clock.advance(at + Nanos(300_000));
    assert_eq!(bench.turn(), [Told::Completed(0, Status::SUCCESS), Told::Flushed]);
    bench.assert_empty();
    bench.fake.ended.clear();
    // An Abort ends it before.
    bench.inject(once(ProtocolAction::Delay(300)));
    bench.write(3, 7);
    let cid = bench.fake.submitted - 1;
    assert_eq!(bench.abort(cid as u16).0, 0);
    bench.assert_empty();
}

#[test]
fn completions_are_repeated_or_lose_their_interrupt() {
    let mut bench = Bench::new();
    for (action, fault) in [
        (ProtocolAction::Duplicate, CompletionFault::Duplicate),
        (ProtocolAction::LoseInterrupt, CompletionFault::LostInterrupt),
    ] {
        bench.inject(once(action));
        bench.write(3, 7);
        bench.write(3, 8);
        let faults: Vec<_> = bench.ended(2).iter().map(|ended| ended.fault).collect();
        assert_eq!(faults, [fault, CompletionFault::None]);
    }
    bench.assert_empty();
}

#[test]
fn an_interrupt_comes_before_its_completion() {
    let mut bench = Bench::new();
    bench.inject(once(ProtocolAction::SpuriousInterrupt(20)));
    let at = bench.clock.now();
    assert_eq!(bench.write(3, 7), [Told::Interrupted(0)]);
    bench.clock.advance(at + Nanos(19_999));
    assert_eq!(bench.turn(), []);
    bench.clock.advance(at + Nanos(20_000));
    assert_eq!(bench.turn(), [Told::Completed(0, Status::SUCCESS), Told::Flushed]);
    bench.assert_empty();
}

#[test]
fn another_status_says_nothing_of_the_data_unless_it_is_meant_to() {
    let mut bench = Bench::new();
    bench.write(3, 1);
    bench.fake.ended.clear();
    let status = Status::WRITE_FAULT;
    for (unexecuted, found) in [(true, 1), (false, 7)] {
        bench.inject(once(ProtocolAction::Status { status, unexecuted }));
        assert_eq!(bench.write(3, 7), [Told::Completed(0, status), Told::Flushed]);
        bench.fake.ended.clear();
        assert_eq!(bench.read(3), found);
    }
    // A read that fails gives no data.
    bench.inject(once(ProtocolAction::Status { status, unexecuted: false }));
    bench.turn_with(1, Command::read(1, 3, 1), lent(4096));
    let mut ended = bench.ended(1).pop().unwrap();
    assert_eq!(ended.completion.status(), status);
    bench.engine.store.end_references(ended.data.lent_mut().unwrap());
    bench.assert_empty();
}

#[test]
fn faults_choose_their_commands() {
    let mut bench = Bench::new();
    let commands =
        CommandMatch { blocks: Some(BlockRange { slba: 8, blocks: 4 }), ..CommandMatch::default() };
    let recurrence = Recurrence { after: 1, count: 1, ..Recurrence::default() };
    bench.inject(ProtocolFault { commands, recurrence, action: DROP });
    for (lba, answers) in [(0, 1), (12, 1), (8, 1), (11, 0), (8, 1)] {
        bench.write(lba, 1);
        assert_eq!(bench.fake.ended.len(), answers, "block {lba}");
        bench.fake.ended.clear();
    }
    assert!(!bench.engine.drive.has_protocol_faults());
}

#[test]
fn identify_is_as_it_was() {
    let mut bench = Bench::new();
    let identify = |bench: &mut Bench| {
        bench.fake.ended.clear();
        bench.turn_with(0, Command::identify(Cns::NAMESPACE, 1), Buffer::zeroed(4096).into());
        let ended = bench.ended(1).pop().unwrap();
        (ended.completion.status().is_success(), ended.data.as_slice().to_vec())
    };
    let before = identify(&mut bench);
    let recurrence = Recurrence::default();
    bench.inject(ProtocolFault {
        recurrence,
        ..of_admin(AdminOpcode::IDENTIFY, ProtocolAction::StaleIdentify)
    });
    let delete = NamespaceManagement { nsid: 1, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM };
    assert!(bench.admin(delete.into(), DataBuffer::None).1.is_success());
    assert_eq!(identify(&mut bench), before);
    let clear = FaultInjection {
        nsid: 0,
        kind: FaultKind::CLEAR,
        nvmsetid: 0,
        count: 0,
        one_in: 0,
        param: 0,
        lba: None,
    };
    assert!(bench.admin(clear.into(), DataBuffer::None).1.is_success());
    assert_ne!(identify(&mut bench), before);
    bench.fake.ended.clear();
    bench.assert_empty();
}

#[test]
fn a_controller_vanishes_with_its_commands() {
    let mut bench = Bench::new();
    let commands = CommandMatch { opcode: Some(0), ..CommandMatch::default() };
    bench.inject(ProtocolFault { commands, ..once(ProtocolAction::Vanish(5_000)) });
    bench.inject(once(DROP));
    bench.write(3, 7);
    let (at, controller) = (bench.clock.now(), bench.fake.controller);
    let told = bench.turn_with(1, Command::flush(1), DataBuffer::None);
    assert_eq!(
        told[..2],
        [Told::Vanished(controller, at + Nanos(5_000_000)), Told::ControllerLost(controller)]
    );
    let mut ended: Vec<u64> =
        bench.ended(2).iter().map(|ended| ended.owner.token.command - Fake::FIRST).collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1]);
    assert_eq!(bench.engine.drive.controllers().count(), 0);
    bench.assert_empty();
}

fn set_cc(cc: Cc) -> Command {
    let value = cc.with_iosqes(6).with_iocqes(4).into_bits().get().into();
    FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value }.into()
}

#[test]
fn a_controller_is_ready_late_or_never() {
    let mut bench = Bench::new();
    let status = FabricsCommand::PropertyGet { offset: PropertyOffset::CSTS, wide: false };
    let is_ready = |bench: &mut Bench| bench.admin(status.into(), DataBuffer::None).0 & 1 == 1;
    let enable = set_cc(Cc::new().with_en(true).with_css(Cc::CSS_SETS));
    for late in [700, ProtocolAction::ENDLESS_US] {
        bench.inject(of_admin(AdminOpcode::FABRICS, ProtocolAction::LateReady(late)));
        assert!(is_ready(&mut bench), "it was enabled before");
        bench.admin(set_cc(Cc::new()), DataBuffer::None);
        bench.admin(enable, DataBuffer::None);
        let at = bench.clock.now();
        assert!(!is_ready(&mut bench));
        bench.clock.advance(at + Nanos(699_999));
        assert!(!is_ready(&mut bench));
        bench.clock.advance(at + Nanos(700_000));
        assert_eq!(is_ready(&mut bench), late != ProtocolAction::ENDLESS_US);
        bench.clock.advance(at + Nanos(3_600_000_000_000));
        assert_eq!(is_ready(&mut bench), late != ProtocolAction::ENDLESS_US);
        // A reset ends it: the fault struck once.
        bench.admin(set_cc(Cc::new()), DataBuffer::None);
        bench.admin(enable, DataBuffer::None);
        assert!(is_ready(&mut bench));
    }
    bench.fake.ended.clear();
    bench.assert_empty();
}

/// A reset of the controller ends its queues, so dropped completions come back.
#[test]
fn a_reset_gives_back_what_was_dropped() {
    let mut bench = Bench::new();
    bench.inject(once(DROP));
    bench.write(3, 7);
    let told = bench.turn_with(0, set_cc(Cc::new()), DataBuffer::None);
    assert!(told.contains(&Told::Completed(0, Status::ABORTED_SQ_DELETION)), "{told:?}");
    bench.fake.ended.clear();
    bench.assert_empty();
}

#[test]
fn a_power_cut_ends_what_was_dropped_and_keeps_the_fault() {
    let mut bench = Bench::new();
    bench.inject(ProtocolFault { recurrence: Recurrence::default(), ..once(DROP) });
    bench.write(3, 7);
    let cut = PowerCut { after_media_ops: 0, off_ms: 3, seed: 1, no_plp: false };
    let told = bench.turn_with(0, cut.into(), DataBuffer::None);
    assert!(told.contains(&Told::Completed(0, Status::POWER_LOSS)), "{told:?}");
    bench.fake.ended.clear();
    bench.clock.advance(bench.engine.next_deadline(&bench.fake));
    bench.turn();
    bench.assert_empty();
    assert_eq!(bench.write(3, 8), [], "it drops again");
}

#[test]
fn a_drives_configuration_arms_faults() {
    let mut bench = Bench::with(|config| config.protocol_faults = vec![once(DROP)]);
    assert_eq!(bench.write(3, 7), []);
    assert_eq!(bench.write(3, 8).len(), 2);
    let controller = testing::connect(
        &mut bench.engine.drive,
        &mut bench.engine.store,
        &mut bench.engine.outputs,
        bench.clock.now(),
    );
    assert_ne!(controller, bench.fake.controller);
}
