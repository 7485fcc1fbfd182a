//! Copy, Write Uncorrectable and Get LBA Status.

use crate::common::table::Table;
use crate::common::{Bench, bytes, pattern};
use nvme::admin::{FormatNvm, GetLbaStatus, LbaStatusAction, LbaStatusDescriptor, SecureErase};
use nvme::copy::{Copy, CopySource};
use nvme::feature::{FeatureId, HostBehaviorSupport};
use nvme::identify::{Cns, IdentifyNamespace};
use nvme::io::{Blocks, PrInfo};
use nvme::zerocopy::FromBytes;
use nvme::{Command, IoCommand, IoOpcode, Status, U16};

fn enable(b: &mut Bench) {
    let behavior = HostBehaviorSupport { lbafee: 1, cdfe: U16::new(0xC), ..HostBehaviorSupport::default() };
    b.admin_ok(Command::set_features(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, 0), &bytes(&behavior));
}

fn format(b: &mut Bench, nsid: u32, lbaf: u8, pi: u8) {
    b.admin_ok(FormatNvm { nsid, lbaf, mset: true, pi, pil: false, ses: SecureErase::NONE }, &[]);
}

fn range(slba: u64, nlb: u32) -> CopySource {
    CopySource { slba, nlb, ..CopySource::default() }
}

fn copy(b: &mut Bench, copy: Copy, sources: &[CopySource]) -> (Status, u32) {
    let mut data = Vec::new();
    for source in sources {
        source.write(copy.desfmt, |bytes| data.extend_from_slice(bytes));
    }
    let id = b.controller;
    let copy = Copy { nr: sources.len() as u16, ..copy };
    let (completion, _) = b.on(id, 1, &copy.into(), &data);
    (completion.status(), completion.dw0.get())
}

fn to(nsid: u32, sdlba: u64) -> Copy {
    Copy { nsid, sdlba, ..Copy::default() }
}

#[test]
fn ranges_are_gathered() {
    for (nsid, lbaf, size) in [(1, 0, 4096), (2, 0, 4096), (1, 1, 512), (2, 2, 520), (1, 4, 4160)] {
        let mut b = Bench::with_namespaces(&[]);
        format(&mut b, nsid, lbaf, 0);
        let data = pattern(1, 30 * size);
        b.write(nsid, 5, 30, &data);
        let sources = [range(30, 3), range(5, 1), range(7, 9)];
        assert_eq!(copy(&mut b, to(nsid, 101), &sources), (Status::SUCCESS, 3));
        let expected = [&data[25 * size..28 * size], &data[..size], &data[2 * size..11 * size]].concat();
        assert_eq!(b.read(nsid, 101, 13), expected);
        assert_eq!(b.read(nsid, 5, 30), data);
    }
}

#[test]
fn other_namespaces_are_sources_when_the_host_has_enabled_that() {
    let mut b = Bench::with_namespaces(&[]);
    let data = pattern(2, 4 * 4096);
    b.write(1, 0, 4, &data);
    let source = CopySource { snsid: Some(1), ..range(1, 2) };
    assert!(copy(&mut b, Copy { desfmt: 2, ..to(2, 1) }, &[source]).0.is(Status::INVALID_FIELD));
    enable(&mut b);
    for desfmt in [2, 3] {
        assert_eq!(copy(&mut b, Copy { desfmt, ..to(2, 1) }, &[source]), (Status::SUCCESS, 1));
        assert_eq!(b.read(2, 1, 2), data[4096..3 * 4096]);
        // Of another size, or with metadata.
        format(&mut b, 2, 1, 0);
        assert!(copy(&mut b, Copy { desfmt, ..to(2, 1) }, &[source]).0.is(Status::INCOMPATIBLE_NAMESPACE));
        format(&mut b, 2, 3, 0);
        assert!(copy(&mut b, Copy { desfmt, ..to(2, 1) }, &[source]).0.is(Status::INCOMPATIBLE_NAMESPACE));
        format(&mut b, 2, 0, 0);
    }
}

#[test]
fn protection_information_is_checked_inserted_and_stripped() {
    for (lbaf, desfmt) in [(3, 0), (5, 1), (6, 1)] {
        let mut b = Bench::with_namespaces(&[]);
        enable(&mut b);
        format(&mut b, 1, lbaf, 1);
        let (pract, checks) = (PrInfo::from_nibble(8), PrInfo::from_nibble(7));
        let both = PrInfo::from_nibble(8 | 7);
        let data = pattern(3, 4 * 4096);
        let at = |slba: u64, nlb, prinfo| Blocks {
            prinfo,
            lbtl: slba as u32,
            lbatm: 0xFFFF,
            ..Blocks::new(1, slba, nlb)
        };
        assert_eq!(b.io(at(10, 4, pract).encode(IoOpcode::WRITE), &data).0, Status::SUCCESS);
        let source = |slba: u64, nlb| CopySource { lbtl: slba as u32, lbatm: 0xFFFF, ..range(slba, nlb) };
        // Stripped, checked, and inserted with the tags of the new place.
        let c = Copy { desfmt, prinfor: both, prinfow: pract, lbtl: 50, ..to(1, 50) };
        assert_eq!(copy(&mut b, c, &[source(12, 2), source(10, 1)]), (Status::SUCCESS, 2));
        let expected = [&data[2 * 4096..], &data[..4096]].concat();
        assert_eq!(b.io(at(50, 3, both).encode(IoOpcode::READ), &[]), (Status::SUCCESS, expected));
        // As it is, the tags are those of the old place: the write's own check finds that.
        let c = Copy { desfmt, prinfor: checks, prinfow: checks, lbatm: 0xFFFF, lbtl: 70, ..to(1, 70) };
        let (status, _) = copy(&mut b, c, &[source(12, 2)]);
        assert!(status.is(Status::REFERENCE_TAG_CHECK_ERROR), "{status}");
        assert_eq!(
            b.io(at(70, 1, pract).encode(IoOpcode::READ), &[]).1,
            vec![0; 4096],
            "nothing was written"
        );
        let c = Copy { prinfow: PrInfo::from_nibble(0), ..c };
        assert_eq!(copy(&mut b, c, &[source(12, 2)]).0, Status::SUCCESS);
        // The second range does not pass. Nothing is written, so dword 0 is 0 (NVM 3.3.2.5).
        let wrong = CopySource { lbat: 1, ..source(13, 1) };
        let c = Copy { desfmt, prinfor: both, prinfow: pract, lbtl: 80, ..to(1, 80) };
        let (status, copied) = copy(&mut b, c, &[source(12, 1), wrong]);
        assert!(status.is(Status::APPLICATION_TAG_CHECK_ERROR) && copied == 0, "{status}");
        assert_eq!(b.io(at(80, 1, pract).encode(IoOpcode::READ), &[]).1, vec![0; 4096]);
        let c = Copy { prinfor: checks, ..c };
        assert!(copy(&mut b, c, &[source(12, 1)]).0.is(Status::INVALID_FIELD), "PRACT of one side");
    }
}

#[test]
fn refused_copies() {
    let mut b = Bench::with_namespaces(&[]);
    enable(&mut b);
    let id: IdentifyNamespace = b.ask(nvme::admin::Identify {
        nsid: 1,
        cns: Cns::NAMESPACE,
        cntid: 0,
        cnssid: 0,
        csi: nvme::Csi::NVM,
        uidx: 0,
    });
    let (length, most) = (u32::from(id.mssrl.get()), id.mcl.get());
    assert_eq!((length, most, id.msrc_z), (256, 256, 255));
    let other = |snsid| CopySource { snsid: Some(snsid), ..range(0, 1) };
    let rows: Vec<(&str, Copy, Vec<CopySource>, Status)> = vec![
        ("the most", to(1, 500), vec![range(0, most)], Status::SUCCESS),
        ("as many ranges as there can be", to(1, 500), vec![range(3, 1); 256], Status::SUCCESS),
        ("too long a range", to(1, 500), vec![range(0, most + 1)], Status::COMMAND_SIZE_LIMIT_EXCEEDED),
        ("too much", to(1, 500), vec![range(0, 200), range(0, 100)], Status::COMMAND_SIZE_LIMIT_EXCEEDED),
        ("a source too far", to(1, 0), vec![range(1023, 2)], Status::LBA_OUT_OF_RANGE),
        ("a source that wraps", to(1, 0), vec![range(u64::MAX, 2)], Status::LBA_OUT_OF_RANGE),
        ("a destination too far", to(1, 1023), vec![range(0, 2)], Status::LBA_OUT_OF_RANGE),
        ("a destination that wraps", to(1, u64::MAX), vec![range(0, 2)], Status::LBA_OUT_OF_RANGE),
        ("onto itself", to(1, 10), vec![range(100, 1), range(9, 2)], Status::OVERLAPPING_IO_RANGE),
        ("a reserved format", Copy { desfmt: 5, ..to(1, 10) }, vec![range(0, 1)], Status::INVALID_FIELD),
        ("zoned format", Copy { desfmt: 4, ..to(1, 10) }, vec![range(0, 1)], Status::INVALID_FIELD),
        ("no source namespace", Copy { desfmt: 2, ..to(1, 10) }, vec![other(0)], Status::INVALID_NAMESPACE),
        (
            "a source that is not there",
            Copy { desfmt: 3, ..to(1, 10) },
            vec![other(9)],
            Status::INVALID_FIELD,
        ),
        (
            "fast copies only",
            Copy { desfmt: 2, ..to(1, 10) },
            vec![CopySource { fco: true, ..other(2) }],
            Status::FAST_COPY_NOT_POSSIBLE,
        ),
        ("a directive", Copy { dtype: 1, ..to(1, 10) }, vec![range(0, 1)], Status::INVALID_FIELD),
        ("an extension", Copy { cetype: 1, ..to(1, 10) }, vec![range(0, 1)], Status::INVALID_FIELD),
        (
            "protection that there is not",
            Copy { prinfow: PrInfo::from_nibble(8), ..to(1, 10) },
            vec![range(0, 1)],
            Status::INVALID_PROTECTION_INFORMATION,
        ),
        (
            "checks that there are not",
            Copy { prinfor: PrInfo::from_nibble(4), ..to(1, 10) },
            vec![range(0, 1)],
            Status::INVALID_PROTECTION_INFORMATION,
        ),
        ("no namespace", to(0, 10), vec![range(0, 1)], Status::INVALID_NAMESPACE),
    ];
    let mut table = Table::new("Copy", "copies.rs", "refused_copies");
    for (name, command, sources, status) in rows {
        let (got, _) = copy(&mut b, command, &sources);
        table.check(name, false, &command.into(), got, status);
        assert_eq!(got.dnr(), !status.is_success(), "{name}");
    }
    let id = b.controller;
    let (completion, _) = b.on(id, 1, &Copy { nr: 2, ..to(1, 10) }.into(), &[0; 32]);
    let (command, status) = (to(1, 10).into(), Status::DATA_SGL_LENGTH_INVALID);
    table.check("too little data", false, &command, completion.status(), status);
    table.finish();
}

#[test]
fn blocks_are_marked_one_by_one_until_they_are_written() {
    for (nsid, lbaf, size) in [(1, 1, 512), (2, 1, 512), (1, 0, 4096), (2, 2, 520)] {
        let mut b = Bench::with_namespaces(&[]);
        format(&mut b, nsid, lbaf, 0);
        let mut data = pattern(1, 32 * size);
        b.write(nsid, 0, 32, &data);
        assert_eq!(b.io(IoCommand::WriteUncorrectable(Blocks::new(nsid, 5, 6)), &[]).0, Status::SUCCESS);
        for lba in 0..32 {
            let (status, got) = b.io(Command::read(nsid, lba, 1), &[]);
            let verified = b.io(IoCommand::Verify(Blocks::new(nsid, lba, 1)), &[]).0;
            if (5..11).contains(&lba) {
                assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{lba}: {status}");
                assert!(verified.is(Status::UNRECOVERED_READ_ERROR), "{lba}: {status}");
            } else {
                assert_eq!((status, verified), (Status::SUCCESS, Status::SUCCESS), "{lba}");
                assert_eq!(got, data[lba as usize * size..(lba as usize + 1) * size]);
            }
        }
        assert!(b.io(Command::read(nsid, 0, 32), &[]).0.is(Status::UNRECOVERED_READ_ERROR));
        let (status, _) = copy(&mut b, to(nsid, 100), &[range(3, 4)]);
        assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status}");
        // Over one end, and the rest.
        let part = pattern(2, 3 * size);
        b.write(nsid, 9, 3, &part);
        data[9 * size..12 * size].copy_from_slice(&part);
        assert_eq!(b.read(nsid, 9, 4), data[9 * size..13 * size]);
        assert!(b.io(Command::read(nsid, 8, 2), &[]).0.is(Status::UNRECOVERED_READ_ERROR));
        assert_eq!(b.io(Command::write_zeroes(nsid, 5, 4, false), &[]).0, Status::SUCCESS);
        data[5 * size..9 * size].fill(0);
        assert_eq!(b.read(nsid, 0, 32), data);
    }
}

#[test]
fn marks_are_versions_of_their_pages() {
    for energy in [false, true] {
        let mut b = Bench::with_namespaces(&[]);
        format(&mut b, 1, 1, 0);
        b.write(1, 0, 64, &pattern(1, 64 * 512));
        assert_eq!(b.io(IoCommand::WriteUncorrectable(Blocks::new(1, 3, 1)), &[]).0, Status::SUCCESS);
        b.write(1, 20, 1, &pattern(2, 512));
        assert_eq!(b.io(Command::flush(1), &[]).0, Status::SUCCESS);
        b.cut(energy);
        b.power_on();
        if energy {
            assert!(b.io(Command::read(1, 3, 1), &[]).0.is(Status::UNRECOVERED_READ_ERROR));
            assert_eq!(b.read(1, 4, 16), pattern(1, 64 * 512)[4 * 512..20 * 512]);
        }
        // Formatted, nothing is marked, and what earlier users of slots left does not count.
        format(&mut b, 1, 1, 0);
        b.write(1, 0, 64, &pattern(3, 64 * 512));
        assert_eq!(b.io(IoCommand::WriteUncorrectable(Blocks::new(1, 60, 1)), &[]).0, Status::SUCCESS);
        assert_eq!(b.read(1, 0, 60), pattern(3, 64 * 512)[..60 * 512]);
    }
}

#[test]
fn the_status_of_blocks_is_told_or_refused() {
    let mut b = Bench::with_namespaces(&[]);
    format(&mut b, 1, 1, 0);
    let ask = |b: &mut Bench, atype, slba, range, dwords| {
        let (_, data) = b.admin_ok(GetLbaStatus { nsid: 1, slba, dwords, range, atype }, &[]);
        assert_eq!(data.len() as u64, dwords * 4);
        let count = u32::from_le_bytes([data[0], data[1], data[2], data[3]]) as usize;
        let all = data[8..].chunks(16).take(count).map(|d| {
            let d = LbaStatusDescriptor::read_from_bytes(d).unwrap();
            (d.dslba.get(), d.nlb.get())
        });
        (data[4], all.collect::<Vec<_>>())
    };
    assert_eq!(ask(&mut b, LbaStatusAction::ALLOCATED, 0, 0, 1024), (2, vec![]));
    b.write(1, 16, 8, &pattern(1, 4096));
    b.write(1, 30, 4, &pattern(1, 2048));
    assert_eq!(ask(&mut b, LbaStatusAction::ALLOCATED, 0, 0, 1024), (2, vec![(16, 24)]), "whole pages");
    assert_eq!(ask(&mut b, LbaStatusAction::ALLOCATED, 20, 8, 1024), (2, vec![(20, 8)]));
    assert_eq!(ask(&mut b, LbaStatusAction::SCAN, 0, 0, 1024), (2, vec![]));
    for lba in [17, 18, 31, 33] {
        assert_eq!(b.io(IoCommand::WriteUncorrectable(Blocks::new(1, lba, 1)), &[]).0, Status::SUCCESS);
    }
    for action in [LbaStatusAction::SCAN, LbaStatusAction::TRACKED] {
        assert_eq!(ask(&mut b, action, 0, 0, 1024), (2, vec![(17, 2), (31, 1), (33, 1)]));
        assert_eq!(ask(&mut b, action, 18, 14, 1024), (2, vec![(18, 1), (31, 1)]));
        assert_eq!(ask(&mut b, action, 0, 0, 6), (1, vec![(17, 2)]), "no room for more");
    }
    let mut table = Table::new("Get LBA Status", "copies.rs", "the_status_of_blocks_is_told_or_refused");
    for (name, c, status) in [
        (
            "too far",
            GetLbaStatus { nsid: 1, slba: 8192, dwords: 4, range: 0, atype: LbaStatusAction::SCAN },
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "no room",
            GetLbaStatus { nsid: 1, slba: 0, dwords: 1, range: 0, atype: LbaStatusAction::SCAN },
            Status::INVALID_FIELD,
        ),
        (
            "no namespace",
            GetLbaStatus { nsid: 0, slba: 0, dwords: 4, range: 0, atype: LbaStatusAction::SCAN },
            Status::INVALID_NAMESPACE,
        ),
        (
            "broadcast",
            GetLbaStatus { nsid: u32::MAX, slba: 0, dwords: 4, range: 0, atype: LbaStatusAction::SCAN },
            Status::INVALID_NAMESPACE,
        ),
        (
            "a reserved action",
            GetLbaStatus { nsid: 1, slba: 0, dwords: 4, range: 0, atype: LbaStatusAction(3) },
            Status::INVALID_FIELD,
        ),
    ] {
        let (completion, _) = b.admin(c, &[]);
        table.check(name, true, &c.into(), completion.status(), status);
    }
    table.finish();
}
