//! The life of namespaces: created, attached, seen, detached, deleted; and what hosts are told.

use crate::common::{Bench, bytes, small};
use device::{ControllerId, Origin};
use nvme::admin::{
    FormatNvm, Identify, NamespaceAttachment, NamespaceAttachmentSelect, NamespaceManagement,
    NamespaceManagementSelect, SecureErase,
};
use nvme::aer::AsyncEvent;
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::identify::{
    Cns, ControllerList, EnduranceGroupList, Flbas, IdentifyController, IdentifyNamespace, NamespaceCreate,
    NamespaceIdDescriptor, NamespaceList, Nmic, NvmSetList,
};
use nvme::log::{ChangedNamespaces, ErrorInformation, LogId};
use nvme::{Command, Csi, NSID_ALL, Status, U16, U64};

fn create(set: u16, blocks: u64, format: u8, shared: bool) -> (NamespaceManagement, Vec<u8>) {
    let command = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi: Csi::NVM };
    let data = NamespaceCreate {
        nsze: U64::new(blocks),
        ncap: U64::new(blocks),
        flbas: Flbas::from_format_index(format),
        nmic: Nmic::new().with_shrns(shared),
        nvmsetid: U16::new(set),
        ..NamespaceCreate::default()
    };
    (command, bytes(&data))
}

fn delete(nsid: u32) -> NamespaceManagement {
    NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM }
}

fn attach(nsid: u32, controllers: &[ControllerId]) -> (NamespaceAttachment, Vec<u8>) {
    let list = ControllerList::new(controllers.iter().map(|id| id.0));
    (NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }, bytes(&list))
}

fn detach(nsid: u32, controllers: &[ControllerId]) -> (NamespaceAttachment, Vec<u8>) {
    let (command, data) = attach(nsid, controllers);
    (NamespaceAttachment { sel: NamespaceAttachmentSelect::DETACH, ..command }, data)
}

impl Bench {
    fn create(&mut self, set: u16, blocks: u64, format: u8, shared: bool) -> u32 {
        let (command, data) = create(set, blocks, format, shared);
        self.admin_ok(command, &data).0
    }

    fn attach(&mut self, nsid: u32, controllers: &[ControllerId]) -> Status {
        let (command, data) = attach(nsid, controllers);
        self.admin(command, &data).0.status()
    }

    fn detach(&mut self, nsid: u32, controllers: &[ControllerId]) -> Status {
        let (command, data) = detach(nsid, controllers);
        self.admin(command, &data).0.status()
    }
}

fn list(data: &[u8]) -> Vec<u32> {
    use nvme::zerocopy::FromBytes;
    NamespaceList::ref_from_bytes(data).unwrap().iter().collect()
}

#[test]
fn created_attached_used_detached_deleted() {
    let mut b = Bench::new(small(&[]));
    let me = b.controller;
    assert_eq!(b.create(1, 1024, 0, false), 1);
    assert_eq!(b.create(2, 2048, 1, true), 2);
    assert!(b.visible(me).is_empty());
    let (_, all) = b.admin_ok(Command::identify(Cns::ALLOCATED_NAMESPACES, 0), &[]);
    assert_eq!(list(&all), [1, 2]);
    let inactive: IdentifyNamespace = b.ask(Command::identify(Cns::NAMESPACE, 1));
    assert_eq!(inactive, IdentifyNamespace::default());
    let allocated: IdentifyNamespace = b.ask(Command::identify(Cns::ALLOCATED_NAMESPACE, 2));
    assert_eq!(
        (allocated.nsze.get(), allocated.nvmsetid.get(), allocated.flbas.format_index()),
        (2048, 2, 1)
    );
    assert!(b.io(Command::read(1, 0, 1), &[]).0.is(Status::INVALID_FIELD));

    assert_eq!(b.attach(1, &[me]), Status::SUCCESS);
    assert_eq!(b.attach(2, &[me]), Status::SUCCESS);
    assert_eq!(b.visible(me), [1, 2]);
    let holders =
        Identify { cns: Cns::NAMESPACE_CONTROLLERS, nsid: 1, cntid: 0, cnssid: 0, csi: Csi::NVM, uidx: 0 };
    assert_eq!(b.ask::<ControllerList>(holders).iter().collect::<Vec<_>>(), [me.0]);
    b.write(1, 1023, 1, &[7; 4096]);
    let used: IdentifyNamespace = b.ask(Command::identify(Cns::NAMESPACE, 1));
    assert_eq!((used.nuse.get(), used.nvmcap.get()), (1, 4 << 20));
    let (_, descriptors) = b.admin_ok(Command::identify(Cns::NAMESPACE_DESCRIPTORS, 1), &[]);
    let descriptors: Vec<_> = NamespaceIdDescriptor::read_list(&descriptors).collect();
    assert!(descriptors.contains(&NamespaceIdDescriptor::Nguid(used.nguid)));
    assert!(descriptors.contains(&NamespaceIdDescriptor::Csi(Csi::NVM)));

    assert_eq!(b.detach(1, &[me]), Status::SUCCESS);
    assert_eq!(b.visible(me), [2]);
    b.admin_ok(delete(1), &[]);
    assert!(b.admin(delete(1), &[]).0.status().is(Status::INVALID_FIELD));
    // The lowest identifier is given again, the unique ones are not.
    assert_eq!(b.create(1, 1024, 0, true), 1);
    let again: IdentifyNamespace = b.ask(Command::identify(Cns::ALLOCATED_NAMESPACE, 1));
    assert_ne!(again.nguid, used.nguid);
    b.admin_ok(delete(NSID_ALL), &[]);
    let controller: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert_eq!(controller.unvmcap, controller.tnvmcap);
    assert_eq!(controller.tnvmcap.get(), (64 + 8) << 20);
}

#[test]
fn capacity_is_what_a_set_has() {
    let mut b = Bench::new(small(&[]));
    assert_eq!(b.create(2, 1536, 0, false), 1);
    let (command, data) = create(2, 1024, 0, false);
    let (completion, _) = b.admin(command, &data);
    assert!(completion.status().is(Status::NAMESPACE_INSUFFICIENT_CAPACITY));
    assert!(completion.status().more() && completion.status().dnr());
    let error: ErrorInformation = b.ask(Command::get_log_page(LogId::ERROR, NSID_ALL, 0, 0, 64));
    assert!(error.status().is(Status::NAMESPACE_INSUFFICIENT_CAPACITY));
    assert_eq!((error.cs.get(), error.cmdid.get()), (4 << 20, completion.cid.get()));
    // What is left is still to be had; the energy budget left the set 8 MiB.
    assert_eq!(b.create(2, 512, 0, false), 2);
    let sets: NvmSetList = b.ask(Command::identify(Cns::NVM_SETS, 0));
    let left: Vec<_> = sets.entries().iter().map(|s| (s.nvmsetid.get(), s.unvmsetcap.get() >> 20)).collect();
    assert_eq!(left, [(1, 64), (2, 0)]);
    let groups: EnduranceGroupList = b.ask(Command::identify(Cns::ENDURANCE_GROUPS, 0));
    assert_eq!(groups.iter().collect::<Vec<_>>(), [1, 2]);
    // The default set for NVMSETID 0, sizes that no 64 bits can count.
    assert_eq!(b.create(0, 256, 0, false), 3);
    for blocks in [u64::MAX, 1 << 52, (1 << 52) - 1, 1 << 51] {
        let (command, data) = create(1, blocks, 0, false);
        assert!(b.admin(command, &data).0.status().is(Status::NAMESPACE_INSUFFICIENT_CAPACITY), "{blocks}");
    }
}

#[test]
fn namespaces_run_out_of_identifiers() {
    let mut b = Bench::new(small(&[("[drive]", "[drive]\nmax_namespaces = 3")]));
    for nsid in 1..=3 {
        assert_eq!(b.create(1, 1, 0, false), nsid);
    }
    let (command, data) = create(1, 1, 0, false);
    assert!(b.admin(command, &data).0.status().is(Status::NAMESPACE_ID_UNAVAILABLE));
    assert!(b.admin(delete(4), &[]).0.status().is(Status::INVALID_NAMESPACE));
}

#[test]
fn attachment_statuses() {
    let mut b = Bench::new(small(&[]));
    let me = b.controller;
    let other = b.connect("other", Origin::Network);
    let private = b.create(1, 256, 0, false);
    let shared = b.create(1, 256, 0, true);
    assert!(b.attach(private, &[me, other]).is(Status::NAMESPACE_IS_PRIVATE));
    assert_eq!(b.attach(private, &[me]), Status::SUCCESS);
    assert!(b.attach(private, &[me]).is(Status::NAMESPACE_ALREADY_ATTACHED));
    assert!(b.attach(private, &[other]).is(Status::NAMESPACE_IS_PRIVATE));
    assert!(b.detach(private, &[other]).is(Status::NAMESPACE_NOT_ATTACHED));
    assert_eq!(b.attach(shared, &[me, other]), Status::SUCCESS);
    for wrong in [&[][..], &[ControllerId(99)], &[other, me], &[me, me]] {
        assert!(b.attach(shared, wrong).is(Status::CONTROLLER_LIST_INVALID), "{wrong:?}");
    }
    assert!(b.attach(9, &[me]).is(Status::INVALID_FIELD));
    assert!(b.attach(0, &[me]).is(Status::INVALID_NAMESPACE));
    assert!(b.attach(NSID_ALL, &[me]).is(Status::INVALID_NAMESPACE));
}

#[test]
fn attachment_is_remembered_for_the_host() {
    let mut b = Bench::new(small(&[]));
    let me = b.controller;
    let other = b.connect("other", Origin::Unix);
    let ns = b.create(1, 256, 0, true);
    let private = b.create(1, 256, 0, false);
    assert_eq!(b.attach(ns, &[other]), Status::SUCCESS);
    assert_eq!(b.attach(private, &[me]), Status::SUCCESS);
    let mut out = Vec::new();
    for (id, host) in [(other, "other"), (me, "host")] {
        b.drive.disconnect(b.now, id, &mut b.memory, &mut out);
        let again = b.connect(host, Origin::Network);
        assert_eq!(again, id);
        assert_eq!(b.visible(again), [if host == "host" { private } else { ns }]);
        if host == "host" {
            b.controller = again;
            // A second controller of the host does not get the private one.
            let second = b.connect("host", Origin::Network);
            assert!(b.visible(second).is_empty());
        }
    }
    assert_eq!(b.attach(ns, &[b.controller]), Status::SUCCESS);
    // And after a power cut, too.
    b.cut(true);
    b.power_on();
    assert_eq!(b.visible(b.controller), [ns, private]);
}

#[test]
fn a_namespace_for_all_can_be_hidden_from_one_host() {
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    let other = b.connect("other", Origin::Network);
    assert_eq!(b.detach(1, &[me]), Status::SUCCESS);
    assert_eq!((b.visible(me), b.visible(other)), (vec![2], vec![1, 2]));
    let again = b.connect("host", Origin::InProcess);
    let third = b.connect("third", Origin::InProcess);
    assert_eq!((b.visible(again), b.visible(third)), (vec![2], vec![1, 2]));
}

#[test]
fn hosts_are_told_of_changes() {
    let mut b = Bench::new(small(&[]));
    let me = b.controller;
    let other = b.connect("other", Origin::Network);
    let configuration = AsyncEventConfiguration::new().with_nan(true).into_bits().get();
    b.admin_ok(Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, configuration), &[]);
    let request = Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    let waiting = b.submit(me, 0, &request, &[]);
    let second = b.submit(me, 0, &request, &[]);
    let unasked = b.submit(other, 0, &request, &[]);
    let ns = b.create(1, 256, 0, true);
    assert!(b.done.is_empty(), "creation alone changes nothing for anyone");
    assert_eq!(b.attach(ns, &[me, other]), Status::SUCCESS);
    let (event, _) = b.wait(waiting);
    let event = AsyncEvent::from_dw0(event.dw0.get());
    assert_eq!((event.lid(), event.info()), (LogId::CHANGED_NAMESPACES, 0));
    // Masked until the log is read; what happens meanwhile is in it.
    let ns2 = b.create(1, 256, 0, true);
    assert_eq!(b.attach(ns2, &[me]), Status::SUCCESS);
    assert!(!b.done.contains_key(&second));
    let log = Command::get_log_page(LogId::CHANGED_NAMESPACES, NSID_ALL, 0, 0, 4096);
    let changed: ChangedNamespaces = b.ask(log);
    assert_eq!(changed.iter().collect::<Vec<_>>(), [ns, ns2]);
    let mut clearing = log;
    clearing.cdw10.set(log.cdw10.get() & !(1 << 15));
    let changed: ChangedNamespaces = b.ask(clearing);
    assert_eq!(changed.iter().count(), 2, "retained by the first read");
    let changed: ChangedNamespaces = b.ask(clearing);
    assert_eq!(changed.iter().count(), 0);
    let format = FormatNvm { nsid: ns, lbaf: 1, mset: false, pi: 0, pil: false, ses: SecureErase::USER_DATA };
    b.admin_ok(format, &[]);
    b.wait(second);
    let changed: ChangedNamespaces = b.ask(clearing);
    assert_eq!(changed.iter().collect::<Vec<_>>(), [ns]);
    // Nothing pending is lost when no request waits.
    b.admin_ok(delete(ns), &[]);
    let third = b.submit(me, 0, &request, &[]);
    b.wait(third);
    assert!(!b.done.contains_key(&unasked), "the other host did not enable notices");
}

#[test]
fn deleting_waits_for_commands_on_their_way() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\ntiming = true")]);
    let me = b.controller;
    b.write(1, 0, 1, &[1; 4096]);
    b.run_until(media::Nanos::MAX);
    let read = b.submit(me, 1, &Command::read(1, 0, 1), &[]);
    let deletion = b.submit(me, 0, &delete(1).into(), &[]);
    let late = b.submit(me, 1, &Command::read(1, 0, 1), &[]);
    assert!(!b.done.contains_key(&read) && !b.done.contains_key(&deletion));
    let (late, _) = b.wait(late);
    assert!(late.status().is(Status::NAMESPACE_NOT_READY) && !late.status().dnr());
    let (read, data) = b.wait(read);
    assert_eq!((read.status(), data), (Status::SUCCESS, vec![1; 4096]));
    assert_eq!(b.wait(deletion).0.status(), Status::SUCCESS);
    assert_eq!(b.visible(me), [2]);
}
