//! Namespaces that are replaced under a controller: its commands name an identifier, and must not meet another namespace than its host knows.

use crate::common::load::limit;
use crate::common::table::Table;
use crate::common::{Bench, bytes, small};
use device::{ControllerId, Origin};
use nvme::admin::{
    FormatNvm, NamespaceAttachment, NamespaceAttachmentSelect, NamespaceManagement,
    NamespaceManagementSelect, SecureErase,
};
use nvme::identify::{Cns, ControllerList, IdentifyNamespace, NamespaceCreate, Nmic};
use nvme::quota::QuotaKind;
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, Status, U16, U64};

const BLOCKS: u64 = 64;

impl Bench {
    /// Creates a namespace that is shared.
    fn create_shared(&mut self) -> u32 {
        let command = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi: Csi::NVM };
        let data = NamespaceCreate {
            nsze: U64::new(BLOCKS),
            ncap: U64::new(BLOCKS),
            nmic: Nmic::new().with_shrns(true),
            nvmsetid: U16::new(1),
            ..NamespaceCreate::default()
        };
        self.admin_ok(command, &bytes(&data)).0
    }

    fn attachment(&mut self, nsid: u32, sel: NamespaceAttachmentSelect, ids: &[ControllerId]) {
        let list = ControllerList::new(ids.iter().map(|id| id.0));
        self.admin_ok(NamespaceAttachment { nsid, sel }, &bytes(&list));
    }

    fn delete(&mut self, nsid: u32) {
        self.admin_ok(
            NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM },
            &[],
        );
    }

    fn format(&mut self, nsid: u32) {
        let format = FormatNvm { nsid, lbaf: 0, mset: true, pi: 0, pil: false, ses: SecureErase::NONE };
        self.admin_ok(format, &[]);
    }

    fn status_of(&mut self, id: ControllerId, command: &Command) -> Status {
        self.on(id, 1, command, &[9; 4096]).0.status()
    }

    fn identify(&mut self, id: ControllerId, cns: Cns) -> Vec<u8> {
        let (completion, page) = self.on(id, 0, &Command::identify(cns, 1), &[]);
        assert_eq!(completion.status(), Status::SUCCESS);
        page
    }

    fn generation(&mut self, id: ControllerId) -> u64 {
        IdentifyNamespace::read_from_bytes(&self.identify(id, Cns::NAMESPACE)).unwrap().generation()
    }

    /// Whatever the host of a controller sends to namespace 1 does nothing, until the controller identifies the namespace.
    fn is_closed_until_identified(&mut self, id: ControllerId, how: &str) {
        let commands = [
            Command::write(1, 0, 1),
            Command::read(1, 0, 1),
            Command::write_zeroes(1, 0, 1, false),
            Command::flush(1),
        ];
        for command in commands {
            let status = self.status_of(id, &command);
            assert!(status.is(Status::INVALID_NAMESPACE) && status.dnr(), "{how}: {status}");
        }
        // What does not tell the format, or is about something else, is not enough.
        for cns in [Cns::NAMESPACE_DESCRIPTORS, Cns::ACTIVE_NAMESPACES, Cns::ALLOCATED_NAMESPACE] {
            if cns == Cns::ACTIVE_NAMESPACES {
                self.on(id, 0, &Command::identify(cns, 0), &[]);
            } else {
                self.identify(id, cns);
            }
            assert!(self.status_of(id, &Command::read(1, 0, 1)).is(Status::INVALID_NAMESPACE), "{how}");
        }
        self.identify(id, Cns::NAMESPACE);
        let (completion, data) = self.on(id, 1, &Command::read(1, 0, 1), &[]);
        assert_eq!((completion.status(), data), (Status::SUCCESS, vec![0; 4096]), "{how}");
        assert_eq!(self.status_of(id, &Command::write(1, 0, 1)), Status::SUCCESS, "{how}");
    }
}

use NamespaceAttachmentSelect as Select;

#[test]
fn a_replaced_namespace_is_refused_until_its_host_has_identified_it() {
    let mut b = Bench::new(small(&[]));
    let other = b.connect("other", Origin::Network);
    assert_eq!(b.create_shared(), 1);
    b.attachment(1, Select::ATTACH, &[other]);
    // Its host never had another one.
    assert_eq!(b.status_of(other, &Command::write(1, 0, 1)), Status::SUCCESS);

    b.delete(1);
    assert_eq!(b.create_shared(), 1);
    assert!(b.status_of(other, &Command::read(1, 0, 1)).is(Status::INVALID_FIELD), "it is not attached");
    // There is nothing to know of yet.
    b.on(other, 0, &Command::identify(Cns::NAMESPACE, 1), &[]);
    b.attachment(1, Select::ATTACH, &[other]);
    b.is_closed_until_identified(other, "created anew");

    b.format(1);
    let mut table = Table::new(
        "A namespace that another host has formatted or replaced, before Identify",
        "replaced.rs",
        "a_replaced_namespace_is_refused_until_its_host_has_identified_it",
    );
    for (name, command) in [
        ("it is read", Command::read(1, 0, 1)),
        ("it is written", Command::write(1, 0, 1)),
        ("it is flushed", Command::flush(1)),
    ] {
        let status = b.status_of(other, &command);
        table.check(name, false, &command, status, Status::INVALID_NAMESPACE);
    }
    table.finish();
    b.is_closed_until_identified(other, "formatted");

    b.attachment(1, Select::DETACH, &[other]);
    b.attachment(1, Select::ATTACH, &[other]);
    let status = b.status_of(other, &Command::read(1, 0, 1));
    assert!(status.is(Status::INVALID_NAMESPACE), "attached again: {status}");
    b.identify(other, Cns::NAMESPACE);
    assert_eq!(b.status_of(other, &Command::read(1, 0, 1)), Status::SUCCESS);
}

#[test]
fn a_host_that_comes_back_knows_only_what_it_knew() {
    let mut b = Bench::new(small(&[]));
    let other = b.connect("other", Origin::Network);
    assert_eq!(b.create_shared(), 1);
    b.attachment(1, Select::ATTACH, &[other]);
    let away = |b: &mut Bench| {
        let mut out = Vec::new();
        b.drive.disconnect(b.now, other, &mut b.memory, &mut out);
        b.deliver(out);
    };
    away(&mut b);
    assert_eq!(b.connect("other", Origin::Network), other);
    assert_eq!(b.status_of(other, &Command::write(1, 0, 1)), Status::SUCCESS, "nothing has changed");
    away(&mut b);
    b.format(1);
    assert_eq!(b.connect("other", Origin::Network), other);
    b.is_closed_until_identified(other, "formatted while it was away");
    away(&mut b);
    b.format(1);
    b.cut(true);
    b.power_on();
    assert_eq!(b.connect("other", Origin::Network), other);
    b.is_closed_until_identified(other, "formatted while it was away, before a power cut");
}

#[test]
fn a_generation_names_one_namespace_in_one_format() {
    let mut b = Bench::new(small(&[]));
    let me = b.controller;
    assert_eq!(b.create_shared(), 1);
    b.attachment(1, Select::ATTACH, &[me]);
    let first = b.generation(me);
    assert_eq!(b.generation(me), first);
    b.cut(true);
    b.power_on();
    let me = b.controller;
    let other = b.connect("other", Origin::InProcess);
    b.attachment(1, Select::ATTACH, &[other]);
    assert_eq!(b.generation(me), first, "power does not change it");
    b.format(1);
    let second = b.generation(me);
    b.delete(1);
    assert!(!b.drive.confirm(other, 1, second), "there is none");
    assert_eq!(b.create_shared(), 1);
    b.attachment(1, Select::ATTACH, &[me, other]);
    assert_eq!(b.status_of(me, &Command::read(1, 0, 1)), Status::SUCCESS, "its host has replaced it");
    // A host that names the generation need not identify the namespace.
    assert!(!b.drive.confirm(other, 1, first) && !b.drive.confirm(other, 1, second));
    assert!(b.status_of(other, &Command::read(1, 0, 1)).is(Status::INVALID_NAMESPACE));
    assert!((1..20).any(|generation| b.drive.confirm(other, 1, generation)));
    assert_eq!(b.status_of(other, &Command::read(1, 0, 1)), Status::SUCCESS);
    let third = b.generation(other);
    assert!(first != 0 && first < second && second < third);
}

/// A command that the drive has accepted meets no other namespace, however long it is held.
#[test]
fn held_commands_do_not_outlive_their_namespace() {
    let replace: [fn(&mut Bench, ControllerId); 2] = [
        |b, other| {
            b.delete(1);
            assert_eq!(b.create_shared(), 1);
            b.attachment(1, Select::ATTACH, &[other]);
        },
        |b, _| b.format(1),
    ];
    for replace in replace {
        let mut b = Bench::new(small(&[]));
        let other = b.connect("other", Origin::Network);
        assert_eq!(b.create_shared(), 1);
        b.attachment(1, Select::ATTACH, &[other]);
        limit(&mut b, 1, &[(QuotaKind::WriteCommands, 1)]);
        let held: Vec<u32> =
            (0..8).map(|lba| b.submit(other, 1, &Command::write(1, lba, 1), &[7; 4096])).collect();
        replace(&mut b, other);
        let statuses: Vec<Status> = held.into_iter().map(|io| b.wait(io).0.status()).collect();
        assert!(statuses.iter().any(|status| status.is(Status::NAMESPACE_NOT_READY)), "{statuses:?}");
        b.run_until(media::Nanos(b.now.0 + 20_000_000_000));
        b.identify(other, Cns::NAMESPACE);
        let (completion, data) = b.on(other, 1, &Command::read(1, 0, 8), &[]);
        assert_eq!(completion.status(), Status::SUCCESS);
        assert!(data.iter().all(|byte| *byte == 0));
    }
}
