//! Ports and Asymmetric Namespace Access: what each state lets through, and how hosts learn of it.

use crate::common::{Bench, pattern};
use device::{ControllerId, Origin, Output, PortId};
use media::Nanos;
use nvme::admin::{
    Abort, FaultInjection, FaultKind, FormatNvm, NamespaceAttachment, NamespaceAttachmentSelect,
    NamespaceManagement, NamespaceManagementSelect, SecureErase,
};
use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::identify::{Cns, ControllerList, IdentifyController, IdentifyNamespace, IndependentNamespace};
use nvme::log::{AnaGroup, AnaHeader, AnaState, ControllerEntry, LogId};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{AdminCommand, Command, Csi, NSID_ALL, Status};

const STATES: [(AnaState, Status); 5] = [
    (AnaState::OPTIMIZED, Status::SUCCESS),
    (AnaState::NON_OPTIMIZED, Status::SUCCESS),
    (AnaState::INACCESSIBLE, Status::ANA_INACCESSIBLE),
    (AnaState::PERSISTENT_LOSS, Status::ANA_PERSISTENT_LOSS),
    (AnaState::CHANGE, Status::ANA_TRANSITION),
];

/// A drive with two ports, and a controller of one host on each.
fn two_paths() -> (Bench, ControllerId, ControllerId) {
    let mut b = Bench::with_namespaces(&[]);
    b.drive.add_port(PortId(1), AnaState::OPTIMIZED);
    b.drive.add_port(PortId(2), AnaState::NON_OPTIMIZED);
    let one = b.connect("multi", Origin::Unix);
    let two = b.connect("multi", Origin::Unix);
    b.drive.arrive(one, PortId(1));
    b.drive.arrive(two, PortId(2));
    (b, one, two)
}

fn fault(kind: FaultKind, port: u16, param: u32) -> Command {
    FaultInjection { nsid: 0, kind, nvmsetid: port, count: 0, one_in: 0, param, lba: None }.into()
}

fn set_state(b: &mut Bench, port: u16, state: AnaState) {
    b.admin_ok(fault(FaultKind::PORT_ANA, port, state.0.into()), &[]);
}

fn ana_log(b: &mut Bench, id: ControllerId, lsp: u8, rae: bool) -> (AnaHeader, AnaGroup, Vec<u32>) {
    let mut command = Command::get_log_page(LogId::ANA, 0, 0, 0, 256);
    let dword = command.cdw10.get() & !0x8000 | u32::from(lsp) << 8 | u32::from(rae) << 15;
    command.cdw10.set(dword);
    let (done, bytes) = b.on(id, 0, &command, &[]);
    assert!(done.status().is_success(), "{}", done.status());
    let (header, rest) = AnaHeader::read_from_prefix(&bytes).unwrap();
    let (group, rest) = AnaGroup::read_from_prefix(rest).unwrap();
    let nsids = rest.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    (header, group, nsids.take(group.nnv.get() as usize).collect())
}

#[test]
fn what_is_said_of_it_agrees() {
    let (mut b, one, two) = two_paths();
    let mut seen = Vec::new();
    for id in [one, two] {
        let (_, page) = b.on(id, 0, &Command::identify(Cns::CONTROLLER, 0), &[]);
        let c = IdentifyController::read_from_bytes(&page).unwrap();
        assert!(c.cmic.mports() && c.cmic.mctrs() && c.cmic.anars());
        assert!(c.oaes.anacn() && c.anacap.optimized() && c.anacap.change() && c.anatt > 0);
        let (header, group, nsids) = ana_log(&mut b, id, 0, true);
        assert_eq!((header.nagd.get(), group.agid.get()), (c.nanagrpid.get() as u16, c.anagrpmax.get()));
        assert_eq!((header.chngcnt.get(), group.chngcnt.get(), &nsids[..]), (0, 1, &[1, 2][..]));
        let (_, page) = b.on(id, 0, &Command::identify(Cns::NAMESPACE, 1), &[]);
        let ns = IdentifyNamespace::read_from_bytes(&page).unwrap();
        let (_, page) = b.on(id, 0, &Command::identify(Cns::INDEPENDENT_NAMESPACE, 1), &[]);
        let independent = IndependentNamespace::read_from_bytes(&page).unwrap();
        assert_eq!((ns.anagrpid, independent.anagrpid), (group.agid, group.agid));
        assert!(ns.nmic.shrns() && independent.nmic.shrns());
        seen.push((ns, c.subnqn, group.anas));
    }
    let (_, log) = b.on(one, 0, &Command::get_log_page(LogId::CONTROLLERS, 0, 0, 16, 3 * 272), &[]);
    let hosts: Vec<(u16, AnaState)> = <[ControllerEntry]>::ref_from_bytes(&log)
        .unwrap()
        .iter()
        .map(|entry| (entry.portid.get(), entry.anas))
        .collect();
    let expected = [(0, AnaState::OPTIMIZED), (1, AnaState::OPTIMIZED), (2, AnaState::NON_OPTIMIZED)];
    assert_eq!(hosts, expected);
    assert_eq!(
        (seen[0].0, seen[0].1),
        (seen[1].0, seen[1].1),
        "one namespace of one subsystem on both paths"
    );
    assert_eq!((seen[0].2, seen[1].2), (AnaState::OPTIMIZED, AnaState::NON_OPTIMIZED));
    // Hosts read as much as the log can be, in pieces that may lie beyond what it has now.
    let most: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    let end = 16 + 32 * most.nanagrpid.get() + 4 * most.nn.get();
    let (got, _) = b.on(one, 0, &Command::get_log_page(LogId::ANA, 0, 0, u64::from(end) - 4, 4), &[]);
    assert!(got.status().is_success(), "{}", got.status());
    // Return Groups Only.
    let (_, group, nsids) = ana_log(&mut b, one, 1, true);
    assert_eq!((group.nnv.get(), nsids.len()), (0, 0));
}

#[test]
fn each_state_lets_through_what_it_should() {
    for (state, expected) in STATES {
        let (mut b, one, two) = two_paths();
        b.drive.arrive(b.controller, PortId(0));
        set_state(&mut b, 2, state);
        let data = pattern(1, 4096);
        let mut deallocate = Command::new(nvme::IoOpcode::DATASET_MANAGEMENT.0, 1);
        deallocate.cdw11.set(4);
        for (command, data) in [
            (Command::write(1, 0, 1), &data[..]),
            (Command::read(1, 0, 1), &[]),
            (Command::flush(1), &[]),
            (Command::flush(NSID_ALL), &[]),
            (Command::new(nvme::IoOpcode::WRITE_ZEROES.0, 1), &[]),
            (Command::new(nvme::IoOpcode::VERIFY.0, 1), &[]),
            (deallocate, &[0; 16]),
        ] {
            let (got, _) = b.on(two, 1, &command, data);
            assert!(got.status().is(expected), "{state}, opcode {:#x}: {}", command.opc, got.status());
            assert!(!got.status().dnr(), "another path may do it");
            let (got, _) = b.on(one, 1, &command, data);
            assert!(got.status().is_success(), "the other path, opcode {:#x}: {}", command.opc, got.status());
        }
        // Admin commands: those that touch what is on a namespace as above, the others as ever.
        let format = FormatNvm { nsid: 1, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
        let delete = NamespaceManagement { nsid: 2, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM };
        for command in [
            Command::from(format),
            Command::from(AdminCommand::NamespaceManagement(delete)),
            Command::set_features(FeatureId::ERROR_RECOVERY, 1, 5),
        ] {
            let (got, _) = b.on(two, 0, &command, &[]);
            assert!(got.status().is(expected), "{state}, admin {:#x}: {}", command.opc, got.status());
        }
        for command in [
            Command::identify(Cns::NAMESPACE, 1),
            Command::identify(Cns::ACTIVE_NAMESPACES, 0),
            Command::get_log_page(LogId::SMART, 0, 0, 0, 512),
            Command::get_features(FeatureId::NUMBER_OF_QUEUES, 0, nvme::feature::Select::CURRENT),
            AdminCommand::KeepAlive.into(),
        ] {
            let (got, _) = b.on(two, 0, &command, &[]);
            assert!(got.status().is_success(), "{state}, admin {:#x}: {}", command.opc, got.status());
        }
        let attach = NamespaceAttachment { nsid: 1, sel: NamespaceAttachmentSelect::DETACH };
        let list = ControllerList::new([two.0]);
        b.admin_ok(Command::from(attach), list.as_bytes());
        let attach = NamespaceAttachment { nsid: 1, sel: NamespaceAttachmentSelect::ATTACH };
        let (got, _) = b.admin(Command::from(attach), list.as_bytes());
        let lost = state == AnaState::PERSISTENT_LOSS;
        assert!(got.status().is(if lost { Status::ANA_ATTACH_FAILED } else { Status::SUCCESS }));
    }
}

#[test]
fn a_change_is_told_once_until_the_log_is_read() {
    let (mut b, one, two) = two_paths();
    let on = AsyncEventConfiguration::new().with_anacn(true).into_bits().get();
    let mut requests = Vec::new();
    for id in [one, two] {
        let (got, _) = b.on(id, 0, &Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, on), &[]);
        assert!(got.status().is_success());
        for _ in 0..2 {
            requests.push(b.submit(id, 0, &AdminCommand::AsyncEventRequest.into(), &[]));
        }
    }
    set_state(&mut b, 2, AnaState::INACCESSIBLE);
    let event = AsyncEvent::from_dw0(b.wait(requests[2]).0.dw0.get());
    assert_eq!((event.info(), event.lid()), (NoticeInfo::ANA_CHANGE.0, LogId::ANA));
    set_state(&mut b, 2, AnaState::OPTIMIZED);
    assert!(!b.done.contains_key(&requests[3]), "masked until the log is read");
    assert!(!b.done.contains_key(&requests[0]), "the other port is as it was");
    let (header, group, _) = ana_log(&mut b, two, 0, false);
    assert_eq!((header.chngcnt.get(), group.chngcnt.get(), group.anas), (2, 3, AnaState::OPTIMIZED));
    // The same state again is no change.
    set_state(&mut b, 2, AnaState::OPTIMIZED);
    assert!(!b.done.contains_key(&requests[3]));
    set_state(&mut b, 0, AnaState::CHANGE);
    assert!(b.done.contains_key(&requests[3]) && b.done.contains_key(&requests[0]));
    // Clearing the faults gives each port its first state back.
    b.admin_ok(fault(FaultKind::CLEAR, 0, 0), &[]);
    assert_eq!(b.drive.port_state(PortId(1)), Some(AnaState::OPTIMIZED));
    assert_eq!(b.drive.port_state(PortId(2)), Some(AnaState::NON_OPTIMIZED));
    assert!(b.events.iter().any(|e| matches!(e, Output::PortsUp)));
}

#[test]
fn port_faults_are_checked() {
    let (mut b, ..) = two_paths();
    for (kind, port, param) in [
        (FaultKind::PORT_ANA, 3, 1),
        (FaultKind::PORT_ANA, 1, 0),
        (FaultKind::PORT_ANA, 1, 5),
        (FaultKind::PORT_ANA, 1, 0x101),
        (FaultKind::PORT_DOWN, 0, 100),
        (FaultKind::PORT_DOWN, 3, 100),
        (FaultKind::PORT_DOWN, 1, 0),
    ] {
        let (got, _) = b.admin(fault(kind, port, param), &[]);
        assert!(got.status().is(Status::INVALID_FIELD), "{kind} {port} {param}: {}", got.status());
    }
    b.admin_ok(fault(FaultKind::PORT_DOWN, 2, 1500), &[]);
    let down = Output::PortDown { port: PortId(2), span: Nanos(1_500_000_000) };
    assert!(b.events.contains(&down));
}

#[test]
fn a_namespace_may_be_created_in_the_group() {
    let (mut b, ..) = two_paths();
    for (group, status) in [(0, Status::SUCCESS), (1, Status::SUCCESS), (2, Status::ANA_GROUP_ID_INVALID)] {
        let mut create = nvme::identify::NamespaceCreate::default();
        create.nsze.set(256);
        create.ncap.set(256);
        create.anagrpid.set(group);
        let c = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi: Csi::NVM };
        let (got, _) = b.admin(Command::from(AdminCommand::NamespaceManagement(c)), create.as_bytes());
        assert!(got.status().is(status), "group {group}: {}", got.status());
    }
}

#[test]
fn aborts_have_a_limit() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\ntiming = true")]);
    let me = b.controller;
    let limit: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    let limit = usize::from(limit.acl_z) + 1;
    let submit = |b: &mut Bench| b.submit(me, 0, &Command::from(Abort { sqid: 0, cid: 0xFFF0 }), &[]);
    let aborts: Vec<u32> = (0..=limit).map(|_| submit(&mut b)).collect();
    for (i, abort) in aborts.into_iter().enumerate() {
        let status = b.wait(abort).0.status();
        assert_eq!(status.is(Status::ABORT_LIMIT_EXCEEDED), i == limit, "Abort {i}: {status}");
    }
    let again = submit(&mut b);
    assert!(b.wait(again).0.status().is_success());
}

#[test]
fn a_command_that_waits_for_idle_namespaces_can_be_aborted() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\ntiming = true")]);
    let me = b.controller;
    let write = b.submit(me, 1, &Command::write(1, 0, 1), &pattern(1, 4096));
    let delete = NamespaceManagement { nsid: 1, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM };
    let delete = b.submit(me, 0, &AdminCommand::NamespaceManagement(delete).into(), &[]);
    assert!(!b.done.contains_key(&write) && !b.done.contains_key(&delete));
    let abort = b.submit(me, 0, &Command::from(Abort { sqid: 0, cid: delete as u16 }), &[]);
    assert!(b.wait(delete).0.status().is(Status::ABORT_REQUESTED));
    let (done, _) = b.wait(abort);
    assert_eq!((done.status(), done.dw0.get()), (Status::SUCCESS, 0));
    assert!(b.wait(write).0.status().is_success());
    let (got, _) = b.io(Command::read(1, 0, 1), &[]);
    assert!(got.is_success(), "the namespace is open again: {got}");
}
