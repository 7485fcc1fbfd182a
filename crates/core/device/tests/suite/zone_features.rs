//! What other features of the drive make of zones: protection information, Copy, quotas, reservations, keys.

use crate::common::load::{OutstandingLoad, limit, run};
use crate::common::reservations::{acquire, join, release};
use crate::common::zones::*;
use crate::common::{Bench, Memory, bytes, pattern};
use device::Drive;
use device::protection::{Guard, Protection, Tags};
use nvme::admin::{FormatNvm, NamespaceManagement, NamespaceManagementSelect, SecureErase};
use nvme::copy::{Copy, CopySource};
use nvme::feature::{FeatureId, HostBehaviorSupport};
use nvme::identify::{Cns, IdentifyNamespace, IndependentNamespace, NamespaceCreate, Nmic};
use nvme::io::{Blocks, PrInfo, appended_lba};
use nvme::quota::QuotaKind;
use nvme::reservation::{AcquireAction, ReleaseAction, ReservationType};
use nvme::zone::{ZoneManagementSend, ZoneSendAction, ZoneState};
use nvme::{Command, Csi, IoCommand, IoOpcode, Status, U16};

/// Blocks of 4096 bytes with eight of metadata.
const WITH_METADATA: u8 = 3;

fn format(nsid: u32, lbaf: u8, pi: u8, ses: SecureErase) -> FormatNvm {
    FormatNvm { nsid, lbaf, mset: true, pi, pil: false, ses }
}

/// The controller inserts the tags of an append as those of where it goes.
#[test]
fn reference_tags_follow_an_append() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    b.admin_ok(format(nsid, WITH_METADATA, 1, SecureErase::NONE), &[]);
    let (insert, both) = (PrInfo::from_nibble(8), PrInfo::from_nibble(8 | 7));
    let data = pattern(5, 6 * 4096);
    let append = |b: &mut Bench, lbtl: u64, piremap: bool, data: &[u8]| {
        let blocks = (data.len() / 4096) as u32;
        let lbtl = lbtl as u32;
        let blocks = Blocks { prinfo: insert, lbtl, piremap, ..Blocks::new(nsid, 2 * SIZE, blocks) };
        let (completion, _) = b.on(b.controller, 1, &IoCommand::ZoneAppend(blocks).into(), data);
        (completion.status(), appended_lba(&completion))
    };
    let read = |b: &mut Bench, lba: u64, blocks: u32| {
        let range =
            Blocks { prinfo: both, lbtl: lba as u32, lbatm: 0xFFFF, ..Blocks::new(nsid, lba, blocks) };
        b.io(IoCommand::Read(range), &[])
    };
    // Two with the tags of the zone's start: they are those of their places.
    for half in [&data[..3 * 4096], &data[3 * 4096..]] {
        assert!(append(&mut b, 2 * SIZE, true, half).0.is_success());
    }
    let (status, read_back) = read(&mut b, 2 * SIZE, 6);
    assert!(status.is_success() && read_back == data, "{status}");
    // Type 1 has its tags by place. Without the remapping the host would have to know the place; and it is that from the zone's start.
    for (lbtl, piremap) in [(2 * SIZE, false), (2 * SIZE + 6, true)] {
        let (status, _) = append(&mut b, lbtl, piremap, &data[..4096]);
        assert!(status.is(Status::INVALID_PROTECTION_INFORMATION), "{status}");
    }
}

/// The same with metadata that the host made: it is checked against the tags from the zone's start, and stored with those of the place.
#[test]
fn reference_tags_of_the_host_follow_an_append() {
    for (lbaf, info, guard, kind) in
        [(3, 8, Guard::Crc16, 1), (5, 16, Guard::Crc32, 2), (6, 16, Guard::Crc64, 1)]
    {
        let mut b = bench();
        let behavior = HostBehaviorSupport { lbafee: 1, ..HostBehaviorSupport::default() };
        b.admin_ok(Command::set_features(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, 0), &bytes(&behavior));
        let nsid = create(&mut b, &new_namespace());
        b.admin_ok(format(nsid, lbaf, kind, SecureErase::NONE), &[]);
        let storage_bits = if guard == Guard::Crc32 { 16 } else { 0 };
        let p = Protection { kind, guard, storage_bits, storage_mask: 0, first: false };
        let plain = pattern(5, 6 * 4096);
        // Blocks with their metadata, with tags that count from a place.
        let made = |from: u64, blocks: std::ops::Range<usize>| {
            let tags = Tags { reference: from, application: 0x1234, ..Tags::default() };
            let block = |(index, at): (u32, usize)| {
                let data = &plain[at * 4096..(at + 1) * 4096];
                let mut metadata = vec![0; info];
                p.insert(data, &mut metadata, &tags, index);
                [data, &metadata].concat()
            };
            (0..).zip(blocks).flat_map(block).collect::<Vec<u8>>()
        };
        let checks = PrInfo::from_nibble(7);
        let append = |b: &mut Bench, lbtl: u64, piremap: bool, data: &[u8]| {
            let (blocks, lbtl) = ((data.len() / (4096 + info)) as u32, lbtl as u32);
            let blocks = Blocks {
                prinfo: checks,
                lbtl,
                lbat: 0x1234,
                lbatm: 0xFFFF,
                piremap,
                ..Blocks::new(nsid, 2 * SIZE, blocks)
            };
            let (completion, _) = b.on(b.controller, 1, &IoCommand::ZoneAppend(blocks).into(), data);
            (completion.status(), appended_lba(&completion))
        };
        for (half, at) in [(0..3, 2 * SIZE), (3..6, 2 * SIZE + 3)] {
            let (status, place) = append(&mut b, 2 * SIZE, true, &made(2 * SIZE, half));
            assert_eq!((status, place), (Status::SUCCESS, at), "{guard:?}");
        }
        let range = Blocks {
            prinfo: checks,
            lbtl: 2 * SIZE as u32,
            lbat: 0x1234,
            lbatm: 0xFFFF,
            ..Blocks::new(nsid, 2 * SIZE, 6)
        };
        assert_eq!(b.io(IoCommand::Read(range), &[]), (Status::SUCCESS, made(2 * SIZE, 0..6)), "{guard:?}");
        // Metadata with the tags of the place is not what the command says.
        let (status, _) = append(&mut b, 2 * SIZE, true, &made(2 * SIZE + 6, 0..1));
        assert!(status.is(Status::REFERENCE_TAG_CHECK_ERROR), "{status}");
        // With type 2 a host may know where it goes, as the only one that writes there.
        if kind == 2 {
            let (status, place) = append(&mut b, 2 * SIZE + 6, false, &made(2 * SIZE + 6, 0..1));
            assert_eq!((status, place), (Status::SUCCESS, 2 * SIZE + 6));
            let one =
                Blocks { lbtl: (2 * SIZE + 6) as u32, ..Blocks { nlb: 1, slba: 2 * SIZE + 6, ..range } };
            assert_eq!(b.io(IoCommand::Read(one), &[]), (Status::SUCCESS, made(2 * SIZE + 6, 0..1)));
        } else {
            let (status, _) = append(&mut b, 2 * SIZE, false, &made(2 * SIZE, 0..1));
            assert!(status.is(Status::INVALID_PROTECTION_INFORMATION), "{status}");
        }
        // What is refused leaves the write pointer where it was.
        let left = 2 * SIZE + 6 + u64::from(kind == 2);
        assert_eq!(report(&mut b, nsid)[2].1, Some(left), "{guard:?}");
    }
}

#[test]
fn a_copy_goes_to_the_write_pointer() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    let data = pattern(6, 8 * 4096);
    assert_eq!(append(&mut b, nsid, 1, 8, &data), Ok(SIZE));
    let copy = |b: &mut Bench, to: u64, from: u64, blocks: u32| {
        let (mut list, source) =
            (Vec::new(), CopySource { slba: from, nlb: blocks, ..CopySource::default() });
        source.write(0, |bytes| list.extend_from_slice(bytes));
        let command = Copy { nsid, sdlba: to, nr: 1, ..Copy::default() };
        b.on(b.controller, 1, &command.into(), &list).0.status()
    };
    assert!(copy(&mut b, 3 * SIZE, SIZE + 2, 4).is_success());
    assert!(copy(&mut b, 3 * SIZE + 4, SIZE, 2).is_success());
    assert_eq!(report(&mut b, nsid)[3], (ZoneState::IMPLICITLY_OPENED, Some(3 * SIZE + 6)));
    assert_eq!(b.read(nsid, 3 * SIZE, 6), [&data[2 * 4096..6 * 4096], &data[..2 * 4096]].concat());
    // Not behind it, and not before it.
    for place in [3 * SIZE, 3 * SIZE + 7] {
        let status = copy(&mut b, place, SIZE, 1);
        assert!(status.is(Status::ZONE_INVALID_WRITE), "{status}");
    }
    assert_eq!(report(&mut b, nsid)[3].1, Some(3 * SIZE + 6));
}

/// A Copy takes blocks from a zone to a conventional namespace, and back to the write pointer of another zone.
#[test]
fn a_copy_goes_between_zones_and_conventional_namespaces() {
    let mut b = bench();
    let conventional = b.create_attached(1, 1024);
    let nsid = create(&mut b, &new_namespace());
    let behavior = HostBehaviorSupport { cdfe: U16::new(0xC), ..HostBehaviorSupport::default() };
    b.admin_ok(Command::set_features(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, 0), &bytes(&behavior));
    let data = pattern(6, 8 * 4096);
    assert_eq!(append(&mut b, nsid, 1, 8, &data), Ok(SIZE));
    let copy = |b: &mut Bench, (to, sdlba): (u32, u64), (from, slba): (u32, u64), nlb: u32| {
        let source = CopySource { snsid: Some(from), slba, nlb, ..CopySource::default() };
        let mut list = Vec::new();
        source.write(2, |bytes| list.extend_from_slice(bytes));
        let command = Copy { nsid: to, sdlba, nr: 1, desfmt: 2, ..Copy::default() };
        b.on(b.controller, 1, &command.into(), &list).0.status()
    };
    assert_eq!(copy(&mut b, (conventional, 100), (nsid, SIZE + 2), 5), Status::SUCCESS);
    assert_eq!(b.read(conventional, 100, 5), data[2 * 4096..7 * 4096]);
    assert_eq!(copy(&mut b, (nsid, 3 * SIZE), (conventional, 101), 4), Status::SUCCESS);
    assert_eq!(b.read(nsid, 3 * SIZE, 4), data[3 * 4096..7 * 4096]);
    assert_eq!(report(&mut b, nsid)[3], (ZoneState::IMPLICITLY_OPENED, Some(3 * SIZE + 4)));
    let status = copy(&mut b, (nsid, 3 * SIZE), (conventional, 101), 4);
    assert!(status.is(Status::ZONE_INVALID_WRITE), "{status}");
}

/// The Identify data that all command sets have.
#[test]
fn zoned_namespaces_have_independent_identify_data() {
    let mut b = bench();
    let shared = NamespaceCreate { nmic: Nmic::new().with_shrns(true), ..new_namespace() };
    for (new, is_shared) in [(new_namespace(), false), (shared, true)] {
        let nsid = create(&mut b, &new);
        let independent: IndependentNamespace = b.ask(identify(Cns::INDEPENDENT_NAMESPACE, nsid, Csi::NVM));
        let ns: IdentifyNamespace = b.ask(identify(Cns::NAMESPACE, nsid, Csi::NVM));
        assert_eq!((independent.nmic.shrns(), independent.nstat & 1), (is_shared, 1));
        assert_eq!((independent.nvmsetid, independent.endgid), (ns.nvmsetid, ns.endgid));
        assert_eq!((independent.rescap, independent.anagrpid), (ns.rescap, ns.anagrpid));
        b.admin_ok(delete(nsid), &[]);
    }
}

fn delete(nsid: u32) -> NamespaceManagement {
    NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM }
}

#[test]
fn appends_keep_to_a_quota() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    limit(&mut b, nsid, &[(QuotaKind::WriteCommands, 300)]);
    let mut loads = [OutstandingLoad::new(8, Command::zone_append(nsid, SIZE, 1), 4096)];
    run(&mut b, 1_000_000_000, &mut loads);
    assert!(loads[0].done.abs_diff(300) <= 3, "{} instead of 300", loads[0].done);
    let (_, written) = report(&mut b, nsid)[1];
    // What is on its way may have its place already.
    assert!((loads[0].done..=loads[0].done + 8).contains(&(written.unwrap() - SIZE)), "{written:?}");
}

#[test]
fn a_reservation_keeps_others_from_changing_zones() {
    let mut b = bench();
    let (nsid, hosts) = create_shared(&mut b, 2);
    let (holder, other) = (hosts[0], hosts[1]);
    let data = pattern(8, 4096);
    let append = |b: &mut Bench, id| b.on(id, 1, &Command::zone_append(nsid, 0, 1), &data).0.status();
    let manage = |b: &mut Bench, id, action| {
        b.on(id, 1, &ZoneManagementSend::new(nsid, action, 0).into(), &[]).0.status()
    };
    join(&mut b, holder, 77);
    assert!(append(&mut b, other).is_success());
    let held = acquire(&mut b, holder, AcquireAction::ACQUIRE, ReservationType::WRITE_EXCLUSIVE, 77, 0);
    assert!(held.is_success(), "{held}");
    let refused = append(&mut b, other);
    assert!(refused.is(Status::RESERVATION_CONFLICT), "{refused}");
    for action in [ZoneSendAction::CLOSE, ZoneSendAction::FINISH, ZoneSendAction::RESET] {
        let refused = manage(&mut b, other, action);
        assert!(refused.is(Status::RESERVATION_CONFLICT), "{action:?}: {refused}");
    }
    // Reading and reports are free with this type.
    let (completion, read) = b.on(other, 1, &Command::read(nsid, 0, 1), &[]);
    assert_eq!((completion.status(), read), (Status::SUCCESS, data.clone()));
    assert!(b.on(other, 1, &receive(nsid, 0, 16 + 16 * ZONES).into(), &[]).0.status().is_success());
    assert!(append(&mut b, holder).is_success());
    assert!(manage(&mut b, holder, ZoneSendAction::FINISH).is_success());
    assert!(manage(&mut b, holder, ZoneSendAction::RESET).is_success());
}

/// With Exclusive Access others may not even read, or ask for reports.
#[test]
fn a_reservation_of_exclusive_access_keeps_others_out() {
    let mut b = bench();
    let (nsid, hosts) = create_shared(&mut b, 3);
    let [holder, registrant, other] = hosts[..] else { panic!("{hosts:?}") };
    join(&mut b, holder, 77);
    join(&mut b, registrant, 78);
    let data = pattern(8, 4096);
    let commands: Vec<(Command, &[u8])> = vec![
        (Command::zone_append(nsid, 0, 1), &data),
        (Command::read(nsid, 0, 1), &[]),
        (IoCommand::Compare(Blocks::new(nsid, 0, 1)).into(), &data),
        (receive(nsid, 0, 16 + 16 * ZONES).into(), &[]),
        (ZoneManagementSend::new(nsid, ZoneSendAction::CLOSE, 0).into(), &[]),
        (ZoneManagementSend::new(nsid, ZoneSendAction::FINISH, 0).into(), &[]),
        (ZoneManagementSend::new(nsid, ZoneSendAction::RESET, 0).into(), &[]),
    ];
    for (kind, registrants_may) in [
        (ReservationType::EXCLUSIVE_ACCESS, false),
        (ReservationType::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY, true),
    ] {
        let held = acquire(&mut b, holder, AcquireAction::ACQUIRE, kind, 77, 0);
        assert!(held.is_success(), "{held}");
        for (id, may) in [(holder, true), (other, false), (registrant, registrants_may)] {
            for (command, data) in &commands {
                let status = b.on(id, 1, command, data).0.status();
                let expected = if may { Status::SUCCESS } else { Status::RESERVATION_CONFLICT };
                assert!(status.is(expected), "{kind:?}, {:?}: {status}", IoOpcode(command.opc));
            }
        }
        let released = release(&mut b, holder, ReleaseAction::RELEASE, kind, 77);
        assert!(released.is_success(), "{released}");
    }
}

#[test]
fn a_cryptographic_erase_empties_all_zones() {
    let mut memory = Memory::default();
    memory.drive_key = Some([1; 16]);
    let mut drive = Drive::new(bench().drive.config().clone()).unwrap();
    drive.encrypt(&mut memory).unwrap();
    let mut b = Bench::around(drive, memory);
    let nsid = create(&mut b, &new_namespace());
    let data = pattern(9, 3 * 4096);
    assert_eq!(append(&mut b, nsid, 4, 3, &data), Ok(4 * SIZE));
    assert_eq!(b.read(nsid, 4 * SIZE, 3), data);
    b.admin_ok(format(nsid, 0, 0, SecureErase::CRYPTOGRAPHIC), &[]);
    assert_eq!(b.forgets, 1);
    assert!(report(&mut b, nsid).iter().all(|(state, _)| *state == ZoneState::EMPTY));
    assert_eq!(b.read(nsid, 4 * SIZE, 3), vec![0; 3 * 4096]);
    assert_eq!(append(&mut b, nsid, 4, 3, &data), Ok(4 * SIZE));
    b.cut(true);
    b.power_on();
    assert_eq!(b.read(nsid, 4 * SIZE, 3), data);
}
