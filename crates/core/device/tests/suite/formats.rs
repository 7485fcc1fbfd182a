//! Namespaces of every LBA format: metadata and protection information on their way to the medium and back.

use crate::common::table::Table;
use crate::common::{Bench, bytes, nqn, pattern};
use device::protection::{Guard, Protection, Tags};
use device::{Drive, Host, Origin, Transfer, TransportModel};
use nvme::admin::{FormatNvm, Identify, NamespaceManagement, NamespaceManagementSelect, SecureErase};
use nvme::feature::{FeatureId, HostBehaviorSupport};
use nvme::identify::{Cns, Flbas, IdentifyController, NamespaceCreate, Nmic, NvmNamespace};
use nvme::io::{Blocks, PrInfo};
use nvme::{Command, Csi, IoCommand, IoOpcode, NSID_ALL, SeparateBlock, Status};

const GUARD: u8 = 4;
const APPLICATION: u8 = 2;
const REFERENCE: u8 = 1;
const PRACT: u8 = 8;

/// A drive whose host knows all formats.
fn bench() -> Bench {
    let mut b = Bench::with_namespaces(&[]);
    enable(&mut b);
    b
}

fn enable(b: &mut Bench) {
    let behavior = HostBehaviorSupport { lbafee: 1, ..HostBehaviorSupport::default() };
    b.admin_ok(Command::set_features(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, 0), &bytes(&behavior));
}

fn format(b: &mut Bench, nsid: u32, lbaf: u8, pi: u8, pil: bool) {
    b.admin_ok(FormatNvm { nsid, lbaf, mset: true, pi, pil, ses: SecureErase::NONE }, &[]);
}

fn blocks(nsid: u32, slba: u64, nlb: u32, prinfo: u8) -> Blocks {
    Blocks { prinfo: PrInfo::from_nibble(prinfo), lbtl: slba as u32, ..Blocks::new(nsid, slba, nlb) }
}

#[test]
fn metadata_travels_behind_the_data_of_each_block() {
    for (lbaf, size) in [(2, 520), (3, 4104), (4, 4160)] {
        for nsid in [1, 2] {
            let mut b = bench();
            format(&mut b, nsid, lbaf, 0, false);
            assert_eq!(b.read(nsid, 3, 10), vec![0; 10 * size]);
            let whole = pattern(1, 40 * size);
            b.write(nsid, 3, 40, &whole);
            let part = pattern(2, 3 * size);
            b.write(nsid, 6, 3, &part);
            let mut expected = whole;
            expected[3 * size..6 * size].copy_from_slice(&part);
            assert_eq!(b.read(nsid, 3, 40), expected);
            b.admin_ok(FormatNvm { nsid, lbaf, mset: true, pi: 0, pil: false, ses: SecureErase::NONE }, &[]);
            assert_eq!(b.read(nsid, 3, 10), vec![0; 10 * size]);
        }
    }
}

#[test]
fn the_controller_inserts_strips_and_checks() {
    for (lbaf, data, info, guard) in [
        (2, 512, 8, Guard::Crc16),
        (3, 4096, 8, Guard::Crc16),
        (5, 4096, 16, Guard::Crc32),
        (6, 4096, 16, Guard::Crc64),
    ] {
        for kind in 1..=3 {
            let mut b = bench();
            format(&mut b, 1, lbaf, kind, false);
            let plain = pattern(3, 5 * data);
            let application = Blocks { lbat: 0x1234, lbatm: 0xFFFF, ..blocks(1, 11, 5, PRACT) };
            assert_eq!(b.io(application.encode(IoOpcode::WRITE), &plain).0, Status::SUCCESS);
            // Stripped, and checked on the way.
            let checks = if kind == 3 { GUARD | APPLICATION } else { GUARD | APPLICATION | REFERENCE };
            let read = Blocks { prinfo: PrInfo::from_nibble(PRACT | checks), ..application };
            assert_eq!(b.io(read.encode(IoOpcode::READ), &[]), (Status::SUCCESS, plain.clone()));
            // And with the protection information, just as the specification has it.
            let read = Blocks { prinfo: PrInfo::from_nibble(checks), ..application };
            let (status, extended) = b.io(read.encode(IoOpcode::READ), &[]);
            assert_eq!((status, extended.len()), (Status::SUCCESS, 5 * (data + info)));
            let storage_bits = if guard == Guard::Crc32 { 16 } else { 0 };
            let p = Protection { kind, guard, storage_bits, storage_mask: 0, first: false };
            let tags = Tags { reference: 11, application: 0x1234, ..Tags::default() };
            for (i, block) in extended.chunks(data + info).enumerate() {
                let mut expected = vec![0; info];
                p.insert(&plain[i * data..(i + 1) * data], &mut expected, &tags, i as u32);
                assert_eq!(block[..data], plain[i * data..(i + 1) * data]);
                assert_eq!(block[data..], expected);
            }
            // The host may write the same itself.
            assert_eq!(b.io(read.encode(IoOpcode::WRITE), &extended).0, Status::SUCCESS);
            // What does not fit is refused as a whole, and changes nothing.
            let mut wrong = extended.clone();
            wrong[3 * (data + info) + 7] ^= 1;
            let (status, _) = b.io(read.encode(IoOpcode::WRITE), &wrong);
            assert!(status.is(Status::GUARD_CHECK_ERROR) && status.dnr(), "{status}");
            assert_eq!(b.io(read.encode(IoOpcode::READ), &[]).1, extended);
            let other = Blocks { lbat: 0x1235, ..read };
            for opcode in [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::VERIFY, IoOpcode::COMPARE] {
                let (status, _) = b.io(other.encode(opcode), &extended);
                assert!(status.is(Status::APPLICATION_TAG_CHECK_ERROR), "{opcode:?}: {status}");
                let masked = Blocks { lbatm: 0xFFFE, ..other };
                assert_eq!(b.io(masked.encode(opcode), &extended).0, Status::SUCCESS, "{opcode:?}");
            }
            if kind == 2 {
                let other = Blocks { lbtl: 12, ..read };
                for opcode in [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::VERIFY, IoOpcode::COMPARE] {
                    let (status, _) = b.io(other.encode(opcode), &extended);
                    assert!(status.is(Status::REFERENCE_TAG_CHECK_ERROR), "{opcode:?}: {status}");
                }
            } else {
                // Type 1 is bound to the address, type 3 has nothing to expect.
                let other = Blocks { lbtl: 12, prinfo: PrInfo::from_nibble(REFERENCE), ..read };
                let (status, _) = b.io(other.encode(IoOpcode::READ), &[]);
                assert!(status.is(Status::INVALID_PROTECTION_INFORMATION), "{status}");
            }
        }
    }
}

#[test]
fn what_holds_nothing_is_not_checked() {
    for (lbaf, size) in [(2, 520), (3, 4104), (6, 4112)] {
        let mut b = bench();
        format(&mut b, 1, lbaf, 1, false);
        let data = size & !0xFF;
        let one = pattern(1, data);
        assert_eq!(b.io(blocks(1, 9, 1, PRACT).encode(IoOpcode::WRITE), &one).0, Status::SUCCESS);
        let (status, got) = b.io(blocks(1, 0, 24, GUARD | REFERENCE).encode(IoOpcode::READ), &[]);
        assert_eq!(status, Status::SUCCESS);
        for (i, block) in got.chunks(size).enumerate() {
            if i == 9 {
                assert_eq!(block[..data], one);
            } else {
                assert_eq!(block[..data], vec![0; data]);
                assert_eq!(block[data..], vec![0xFF; size - data], "block {i}");
            }
        }
        // Zeros that are written have protection information if the controller inserts it.
        assert_eq!(b.io(IoCommand::WriteZeroes(blocks(1, 8, 3, PRACT)), &[]).0, Status::SUCCESS);
        let (status, got) = b.io(blocks(1, 8, 3, GUARD | REFERENCE).encode(IoOpcode::READ), &[]);
        assert_eq!(status, Status::SUCCESS);
        assert!(got.chunks(size).all(|block| block[data..] != vec![0xFF; size - data]));
        let (status, _) = b.io(IoCommand::WriteZeroes(blocks(1, 8, 3, GUARD)), &[]);
        assert!(status.is(Status::INVALID_PROTECTION_INFORMATION));
    }
}

#[test]
fn metadata_larger_than_protection_information_stays_the_hosts() {
    for first in [false, true] {
        let mut b = bench();
        format(&mut b, 2, 4, 1, first);
        let sent = pattern(4, 2 * 4160);
        assert_eq!(b.io(blocks(2, 5, 2, PRACT).encode(IoOpcode::WRITE), &sent).0, Status::SUCCESS);
        let (status, got) = b.io(blocks(2, 5, 2, PRACT | GUARD | REFERENCE).encode(IoOpcode::READ), &[]);
        assert_eq!((status, got.len()), (Status::SUCCESS, sent.len()));
        for (ours, theirs) in got.chunks(4160).zip(sent.chunks(4160)) {
            let info = if first { 4096..4104 } else { 4152..4160 };
            assert_eq!(ours[..info.start], theirs[..info.start]);
            assert_eq!(ours[info.end..], theirs[info.end..]);
            assert_ne!(ours[info.clone()], theirs[info.clone()]);
        }
        // Compare does not look at it.
        assert_eq!(b.io(blocks(2, 5, 2, 0).encode(IoOpcode::COMPARE), &sent).0, Status::SUCCESS);
        let mut other = sent.clone();
        other[4160 + 4096 + 30] ^= 1;
        let (status, _) = b.io(blocks(2, 5, 2, 0).encode(IoOpcode::COMPARE), &other);
        assert!(status.is(Status::COMPARE_FAILURE), "{status}");
    }
}

#[test]
fn storage_tags_are_checked_when_asked() {
    let mut b = bench();
    format(&mut b, 1, 7, 2, false);
    // 48 bits: 16 of storage tag above 32 of reference tag, whose upper 16 are in CDW3.
    let tagged = |storage: u64, stc| Blocks { lbtu: storage, lbtl: 77, stc, ..blocks(1, 0, 1, 0) };
    let data = pattern(1, 4096);
    let write = Blocks { prinfo: PrInfo::from_nibble(PRACT), ..tagged(0xBEEF, false) };
    assert_eq!(b.io(write.encode(IoOpcode::WRITE), &data).0, Status::SUCCESS);
    assert_eq!(b.io(tagged(0xBEEF, true).encode(IoOpcode::READ), &[]).0, Status::SUCCESS);
    assert_eq!(b.io(tagged(0xBEEE, false).encode(IoOpcode::READ), &[]).0, Status::SUCCESS);
    let (status, _) = b.io(tagged(0xBEEE, true).encode(IoOpcode::READ), &[]);
    assert!(status.is(Status::STORAGE_TAG_CHECK_ERROR), "{status}");
}

#[test]
fn a_host_that_has_not_enabled_extended_formats_does_not_get_them() {
    let mut b = bench();
    format(&mut b, 1, 6, 1, false);
    let data = pattern(1, 4096);
    assert_eq!(b.io(blocks(1, 0, 1, PRACT).encode(IoOpcode::WRITE), &data).0, Status::SUCCESS);
    let other = b.connect("other", Origin::InProcess);
    for opcode in [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::WRITE_ZEROES, IoOpcode::VERIFY] {
        let (completion, _) = b.on(other, 1, &blocks(1, 0, 1, PRACT).encode(opcode), &data);
        assert!(completion.status().is(Status::INVALID_NAMESPACE), "{}", completion.status());
    }
    let again = FormatNvm { nsid: 1, lbaf: 6, mset: true, pi: 1, pil: false, ses: SecureErase::NONE };
    let (completion, _) = b.on(other, 0, &again.into(), &[]);
    assert!(completion.status().is(Status::INVALID_NAMESPACE));
    assert_eq!(b.io(blocks(1, 0, 1, PRACT | GUARD).encode(IoOpcode::READ), &[]), (Status::SUCCESS, data));
}

/// The fields of Identify Namespace that describe metadata, for the current controller: MC and FLBAS.
fn metadata_fields(b: &mut Bench, cns: Cns, nsid: u32) -> (u8, u8) {
    let (_, identified) =
        b.admin_ok(Identify { nsid, cns, cntid: 0, cnssid: 0, csi: Csi::NVM, uidx: 0 }, &[]);
    (identified[27], identified[26])
}

#[test]
fn metadata_in_a_buffer_of_its_own_is_for_hosts_with_memory_queues() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\nmax_transfer = \"64KiB\"")]);
    let messages = b.controller;
    let machine = Host::administrator(nqn("machine"), [9; 16], Origin::Unix);
    let machine = b.connect_host(Host { transport: TransportModel::Memory, ..machine });
    let separate = FormatNvm { nsid: 1, lbaf: 3, mset: false, pi: 1, pil: false, ses: SecureErase::NONE };
    let (completion, _) = b.admin(separate, &[]);
    assert!(completion.status().is(Status::INVALID_FORMAT));
    b.controller = machine;
    b.admin_ok(separate, &[]);
    let created = NamespaceCreate {
        nsze: 64.into(),
        ncap: 64.into(),
        nvmsetid: 1.into(),
        flbas: Flbas::from_format_index(4),
        nmic: Nmic::new().with_shrns(true),
        ..Default::default()
    };
    let select = NamespaceManagementSelect::CREATE;
    let create = NamespaceManagement { nsid: 0, sel: select, csi: Csi::NVM };
    let (nsid, _) = b.admin_ok(create, &bytes(&created));
    assert_eq!(metadata_fields(&mut b, Cns::ALLOCATED_NAMESPACE, nsid), (0b11, 4));
    assert_eq!(metadata_fields(&mut b, Cns::NAMESPACE, NSID_ALL).0, 0b11);
    assert_eq!(metadata_fields(&mut b, Cns::NAMESPACE, 1), (0b11, 3));

    // MDTS counts data alone.
    let most = pattern(1, 16 * 4104);
    b.write(1, 8, 16, &most);
    assert!(b.read(1, 8, 16) == most);
    let block = SeparateBlock::new(4096, 8);
    let transfer = |b: &Bench, id, command: Command| b.drive.transfer_of_blocks(id, 1, &command);
    assert_eq!(transfer(&b, machine, Command::read(1, 8, 16)), (Transfer::ToHost(16 * 4104), block));
    assert_eq!(transfer(&b, machine, Command::write(1, 8, 2)), (Transfer::ToController(2 * 4104), block));
    assert_eq!(transfer(&b, machine, Command::read(1, 8, 17)), (Transfer::None, None));
    assert!(b.io(Command::read(1, 8, 17), &[]).0.is(Status::INVALID_FIELD));
    assert_eq!(transfer(&b, machine, Command::read(2, 8, 1)), (Transfer::ToHost(4096), None));

    // A host without such a buffer has all that moves no metadata.
    let plain = pattern(2, 3 * 4096);
    b.controller = messages;
    assert_eq!(metadata_fields(&mut b, Cns::NAMESPACE, 1), (0b01, 3));
    assert_eq!(metadata_fields(&mut b, Cns::NAMESPACE, NSID_ALL).0, 0b01);
    let stripped = blocks(1, 0, 3, PRACT);
    assert_eq!(b.io(stripped.encode(IoOpcode::WRITE), &plain).0, Status::SUCCESS);
    assert_eq!(b.io(stripped.encode(IoOpcode::READ), &[]), (Status::SUCCESS, plain.clone()));
    for opcode in [IoOpcode::VERIFY, IoOpcode::WRITE_ZEROES] {
        assert_eq!(b.io(blocks(1, 4, 1, 0).encode(opcode), &[]).0, Status::SUCCESS, "{opcode:?}");
    }
    for opcode in [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::COMPARE] {
        let command = blocks(1, 0, 3, 0).encode(opcode);
        assert_eq!(transfer(&b, messages, command), (Transfer::None, None), "{opcode:?}");
        let (status, _) = b.io(command, &pattern(3, 3 * 4104));
        assert!(status.is(Status::INVALID_NAMESPACE), "{opcode:?}: {status}");
    }
    assert_eq!(b.io(stripped.encode(IoOpcode::READ), &[]), (Status::SUCCESS, plain));

    // A restart keeps it, and a format without metadata, or with it behind the data, ends it.
    let restored = Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    b.drive = restored.finish(b.now, &mut b.memory).unwrap();
    let machine = Host::administrator(nqn("machine"), [9; 16], Origin::Unix);
    b.controller = b.connect_host(Host { transport: TransportModel::Memory, ..machine });
    assert_eq!(metadata_fields(&mut b, Cns::NAMESPACE, 1), (0b11, 3));
    b.admin_ok(FormatNvm { lbaf: 0, pi: 0, ..separate }, &[]);
    assert_eq!(metadata_fields(&mut b, Cns::NAMESPACE, 1), (0b11, 0));
    b.admin_ok(FormatNvm { mset: true, ..separate }, &[]);
    assert_eq!(metadata_fields(&mut b, Cns::NAMESPACE, 1), (0b11, 0x13));
}

/// What formats, metadata and protection information forbid, by namespaces of each kind.
#[test]
fn refused_formats() {
    let mut b = bench();
    let mut table = Table::new("Formats and protection information", "formats.rs", "refused_formats");
    let format_nvm = |change: fn(&mut FormatNvm)| {
        let mut c = FormatNvm { nsid: 2, lbaf: 3, mset: true, pi: 1, pil: false, ses: SecureErase::NONE };
        change(&mut c);
        Command::from(c)
    };
    for (name, command, status) in [
        ("protection without metadata", format_nvm(|c| c.lbaf = 0), Status::INVALID_FORMAT),
        ("a reserved protection type", format_nvm(|c| c.pi = 4), Status::INVALID_FORMAT),
        ("metadata in a separate buffer", format_nvm(|c| c.mset = false), Status::INVALID_FORMAT),
        ("a format that is not there", format_nvm(|c| c.lbaf = 9), Status::INVALID_FORMAT),
    ] {
        let (got, _) = b.admin(command, &[]);
        table.check(name, true, &command, got.status(), status);
    }
    let info = Status::INVALID_PROTECTION_INFORMATION;
    // Namespace 1 with each type of protection, namespace 2 with metadata alone.
    format(&mut b, 2, 3, 0, false);
    for (pi, rows) in [
        (0, vec![("PRACT on metadata alone", PRACT), ("a check on metadata alone", GUARD)]),
        (1, vec![("type 1: another reference tag than the address, checked", REFERENCE)]),
        (3, vec![("type 3: the reference tag, checked", REFERENCE)]),
    ] {
        let nsid = if pi == 0 { 2 } else { 1 };
        if pi != 0 {
            format(&mut b, 1, 3, pi, false);
        }
        for (name, prinfo) in rows {
            for opcode in [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::COMPARE, IoOpcode::VERIFY] {
                let command = Blocks { lbtl: 12, ..blocks(nsid, 5, 1, prinfo) }.encode(opcode);
                let (got, _) = b.io(command, &vec![0; 4104]);
                table.check(name, false, &command, got, info);
            }
        }
    }
    // A check that fails, and what came without its metadata.
    format(&mut b, 1, 3, 1, false);
    let data = pattern(3, 4096);
    assert_eq!(b.io(blocks(1, 5, 1, PRACT).encode(IoOpcode::WRITE), &data).0, Status::SUCCESS);
    let wrong = |prinfo, lbat| Blocks { lbat, lbatm: 0xFFFF, ..blocks(1, 5, 1, prinfo) };
    let mut spoilt = data.clone();
    spoilt.extend([0; 8]);
    for (name, command, data, status) in [
        (
            "another application tag",
            wrong(APPLICATION, 7).encode(IoOpcode::READ),
            &spoilt,
            Status::APPLICATION_TAG_CHECK_ERROR,
        ),
        (
            "a guard that does not fit",
            wrong(GUARD, 0).encode(IoOpcode::WRITE),
            &spoilt,
            Status::GUARD_CHECK_ERROR,
        ),
        (
            "a reference tag in the data that does not fit",
            wrong(REFERENCE, 0).encode(IoOpcode::WRITE),
            &spoilt,
            Status::REFERENCE_TAG_CHECK_ERROR,
        ),
    ] {
        let (got, _) = b.io(command, data);
        table.check(name, false, &command, got, status);
    }
    table.finish();
    assert_eq!(b.io(blocks(1, 5, 1, PRACT | GUARD).encode(IoOpcode::READ), &[]), (Status::SUCCESS, data));
}

#[test]
fn qualified_formats_protect_as_others_do() {
    let offered = ["4096", "4096+8", "4096+8:q16", "4096+16:q32", "4096+16:q64", "4096+16:q64:16"];
    let list = offered.map(|f| format!("\"{f}\"")).join(", ");
    let lines = format!("[drive]\nlba_formats = [{list}]");
    let start = || {
        let mut b = Bench::with_namespaces(&[("[drive]", &lines)]);
        enable(&mut b);
        b
    };
    let mut b = start();
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.ctratt.elbas());
    let asks =
        Identify { cns: Cns::IOCS_NAMESPACE, csi: Csi::NVM, nsid: NSID_ALL, cntid: 0, cnssid: 0, uidx: 0 };
    let nvm: NvmNamespace = b.ask(asks);
    // QPIFS, and storage tags that reads check; none with guards of 16 bits.
    assert_eq!(nvm.pic, 1 << 3 | 1 << 2);
    let told: Vec<u32> = nvm.elbaf[..6].iter().map(|e| e.get()).collect();
    assert_eq!(told, [0, 0, 3 << 7, 1 << 9 | 3 << 7 | 16, 2 << 9 | 3 << 7, 2 << 9 | 3 << 7 | 16]);
    // A drive without them does not say that it has them.
    let nvm: NvmNamespace = bench().ask(asks);
    assert_eq!(nvm.pic >> 3 & 1, 0);
    for (lbaf, info) in [(2, 8), (3, 16), (4, 16), (5, 16)] {
        let (mut ours, mut plain) = (start(), bench());
        // The same guard, not qualified: of the drive's own list.
        let other = [3, 5, 6, 7][usize::from(lbaf) - 2];
        format(&mut ours, 1, lbaf, 1, false);
        format(&mut plain, 1, other, 1, false);
        let data = pattern(3, 4096);
        let mut images = Vec::new();
        for b in [&mut ours, &mut plain] {
            let write = IoCommand::Write(blocks(1, 5, 1, PRACT));
            // Metadata that is nothing but protection information is inserted and stripped.
            assert_eq!(b.io(write, &data).0, Status::SUCCESS, "format {lbaf}");
            let (status, whole) = b.io(IoCommand::Read(blocks(1, 5, 1, GUARD | REFERENCE)), &[]);
            assert_eq!((status, whole.len()), (Status::SUCCESS, 4096 + info));
            let mut wrong = whole.clone();
            wrong[0] ^= 1;
            let write = IoCommand::Write(blocks(1, 5, 1, GUARD));
            assert!(b.io(write, &wrong).0.is(Status::GUARD_CHECK_ERROR));
            images.push(whole);
        }
        assert_eq!(images[0], images[1], "format {lbaf}: the guard is that of the plain format");
    }
    // Hosts that do not know of extended formats do not get them, also with guards of 16 bits.
    let mut b = Bench::with_namespaces(&[("[drive]", &lines)]);
    for lbaf in 2..6 {
        let format = FormatNvm { nsid: 1, lbaf, mset: true, pi: 1, pil: false, ses: SecureErase::NONE };
        assert!(b.admin(format, &[]).0.status().is(Status::INVALID_NAMESPACE), "format {lbaf}");
    }
}
