//! Zone Random Write Areas as a host sees them.

use crate::common::table::Table;
use crate::common::zones::*;
use crate::common::{Bench, bytes, pattern};
use nvme::identify::{Cns, NamespaceCreate, Znsco, ZonedCreate, ZonedNamespace};
use nvme::io::Blocks;
use nvme::zone::{ZoneManagementSend, ZoneReport, ZoneSendAction, ZoneState};
use nvme::{Command, Csi, IoCommand, NSID_ALL, Status, U32};

const OPEN: (ZoneState, u64) = (ZoneState::EXPLICITLY_OPENED, 0);

/// A namespace whose zones can have areas: so many at a time, 0 for as many as can be.
fn namespace(areas: u32) -> NamespaceCreate {
    let mut new = new_namespace();
    let (rnumzrwa, znsco) = (U32::new(areas), Znsco::new().with_azr(true));
    new.set_zoned(&ZonedCreate { znsco, rnumzrwa, ..ZonedCreate::default() });
    new
}

fn open_command(nsid: u32, zone: u64) -> ZoneManagementSend {
    ZoneManagementSend { zrwa: true, ..ZoneManagementSend::new(nsid, ZoneSendAction::OPEN, zone * SIZE) }
}

fn open(b: &mut Bench, nsid: u32, zone: u64) -> Status {
    b.io(open_command(nsid, zone), &[]).0
}

/// Commits everything up to this block of a zone, without it.
fn commit(b: &mut Bench, nsid: u32, zone: u64, end: u64) -> Status {
    b.io(ZoneManagementSend::new(nsid, ZoneSendAction::FLUSH_ZRWA, zone * SIZE + end - 1), &[]).0
}

/// Writes blocks of a zone, with what `seed` makes.
fn put(b: &mut Bench, nsid: u32, lba: u64, blocks: u32, seed: u32) -> Status {
    let data = pattern(seed, blocks as usize * 4096);
    b.io(IoCommand::Write(Blocks::new(nsid, lba, blocks)), &data).0
}

/// State and written blocks of a zone, and whether it has an area.
fn look(b: &mut Bench, nsid: u32, zone: u64) -> ((ZoneState, u64), bool) {
    let (status, data) = b.io(receive(nsid, zone, 16 + 16), &[]);
    assert!(status.is_success(), "{status}");
    let report = ZoneReport::parse(&data, 0).unwrap();
    let (zone, _) = report.zones().next().unwrap();
    let written = zone.write_pointer().map_or(u64::MAX, |lba| lba - zone.zslba.get());
    ((zone.state(), written), zone.za.zrwav())
}

#[test]
fn a_namespace_says_what_areas_its_zones_can_have() {
    let mut b = with_areas();
    let common: ZonedNamespace = b.ask(identify(Cns::IOCS_NAMESPACE, NSID_ALL, Csi::ZONED));
    assert_eq!(common.zrwa_resources(), 2);
    let nsid = create(&mut b, &namespace(1));
    let zoned: ZonedNamespace = b.ask(identify(Cns::IOCS_NAMESPACE, nsid, Csi::ZONED));
    assert_eq!((zoned.zrwa_resources(), zoned.zrwacap.expflushsup()), (1, true));
    assert_eq!((zoned.zrwas.get(), zoned.zrwafg.get()), (AREA as u16, GRANULARITY as u16));
    // One that did not ask has none.
    let mut b = with_areas();
    let nsid = create(&mut b, &new_namespace());
    let zoned: ZonedNamespace = b.ask(identify(Cns::IOCS_NAMESPACE, nsid, Csi::ZONED));
    assert_eq!((zoned.zrwa_resources(), zoned.zrwas.get(), zoned.ozcs.zrwasup()), (0, 0, false));
}

#[test]
fn blocks_of_an_area_are_written_in_any_order_and_again() {
    let mut b = with_areas();
    let nsid = create(&mut b, &namespace(0));
    assert!(open(&mut b, nsid, 1).is_success());
    assert_eq!(look(&mut b, nsid, 1), (OPEN, true));
    for (block, seed) in [(9, 1), (3, 2), (3, 3), (15, 4), (0, 5)] {
        assert!(put(&mut b, nsid, SIZE + block, 1, seed).is_success(), "block {block}");
        assert_eq!(b.read(nsid, SIZE + block, 1), pattern(seed, 4096), "block {block}");
        assert_eq!(look(&mut b, nsid, 1), (OPEN, true));
    }
    assert!(b.read(nsid, SIZE + 1, 2).iter().all(|&byte| byte == 0), "what was never written");
    // A commit on demand, of what was written and what was not.
    assert!(commit(&mut b, nsid, 1, 8).is_success());
    assert_eq!(look(&mut b, nsid, 1).0, (ZoneState::EXPLICITLY_OPENED, 8));
    assert!(put(&mut b, nsid, SIZE + 3, 1, 6).is(Status::ZONE_INVALID_WRITE));
    // A write behind the area moves it there, by whole granules.
    assert!(put(&mut b, nsid, SIZE + 24, 1, 7).is_success());
    assert_eq!(look(&mut b, nsid, 1).0, (ZoneState::EXPLICITLY_OPENED, 12));
    for (block, seed) in [(0, 5), (3, 3), (9, 1), (15, 4), (24, 7)] {
        assert_eq!(b.read(nsid, SIZE + block, 1), pattern(seed, 4096), "block {block}");
    }
    for (from, blocks) in [(1, 2), (4, 5), (10, 5), (16, 8)] {
        assert!(
            b.read(nsid, SIZE + from, blocks).iter().all(|&byte| byte == 0),
            "{blocks} blocks from {from}"
        );
    }
}

#[test]
fn a_zone_is_full_when_its_last_block_is_committed() {
    let mut b = with_areas();
    let nsid = create(&mut b, &namespace(1));
    assert!(open(&mut b, nsid, 2).is_success());
    let mut at = 0;
    while at < CAPACITY {
        assert!(put(&mut b, nsid, 2 * SIZE + at, 8, at as u32).is_success(), "block {at}");
        at += 8;
    }
    // All was written, and the last blocks can be written again.
    assert_eq!(look(&mut b, nsid, 2).0, (ZoneState::EXPLICITLY_OPENED, CAPACITY - AREA));
    assert!(put(&mut b, nsid, 2 * SIZE + CAPACITY - 8, 8, 9999).is_success());
    assert!(commit(&mut b, nsid, 2, CAPACITY).is_success());
    assert_eq!(look(&mut b, nsid, 2), ((ZoneState::FULL, u64::MAX), false));
    for at in (0..CAPACITY - 8).step_by(8) {
        assert_eq!(b.read(nsid, 2 * SIZE + at, 8), pattern(at as u32, 8 * 4096), "block {at}");
    }
    assert_eq!(b.read(nsid, 2 * SIZE + CAPACITY - 8, 8), pattern(9999, 8 * 4096));
    // Its area is free for another zone.
    assert!(open(&mut b, nsid, 3).is_success());
}

#[test]
fn finish_keeps_what_is_in_the_area_and_reset_does_not() {
    let mut b = with_areas();
    let nsid = create(&mut b, &namespace(0));
    for zone in [0, 1] {
        assert!(open(&mut b, nsid, zone).is_success());
        assert!(put(&mut b, nsid, zone * SIZE + 5, 2, 7).is_success());
    }
    assert!(open(&mut b, nsid, 2).is(Status::ZRWA_RESOURCES_UNAVAILABLE));
    // Opened and closed again, a zone keeps its area.
    assert!(send(&mut b, nsid, ZoneSendAction::CLOSE, 0).is_success());
    assert_eq!(look(&mut b, nsid, 0), ((ZoneState::CLOSED, 0), true));
    assert!(open(&mut b, nsid, 0).is_success());
    assert!(send(&mut b, nsid, ZoneSendAction::FINISH, 0).is_success());
    assert!(send(&mut b, nsid, ZoneSendAction::RESET, 1).is_success());
    assert_eq!(look(&mut b, nsid, 0), ((ZoneState::FULL, u64::MAX), false));
    assert_eq!(look(&mut b, nsid, 1), ((ZoneState::EMPTY, 0), false));
    assert_eq!(b.read(nsid, 5, 2), pattern(7, 2 * 4096));
    assert!(b.read(nsid, 0, 5).iter().chain(&b.read(nsid, 7, 100)).all(|&byte| byte == 0));
    assert!(b.read(nsid, SIZE, 64).iter().all(|&byte| byte == 0));
    assert!(open(&mut b, nsid, 2).is_success());
    assert!(open(&mut b, nsid, 3).is_success());
}

#[test]
fn power_cuts_leave_what_was_acknowledged_in_the_area() {
    for energy in [true, false] {
        let mut b = with_areas();
        let nsid = create(&mut b, &namespace(0));
        assert!(open(&mut b, nsid, 1).is_success());
        assert!(put(&mut b, nsid, SIZE + 2, 2, 1).is_success());
        assert!(put(&mut b, nsid, SIZE + 3, 1, 2).is_success());
        assert!(commit(&mut b, nsid, 1, 4).is_success());
        assert!(put(&mut b, nsid, SIZE + 11, 1, 3).is_success());
        assert!(open(&mut b, nsid, 2).is_success());
        b.cut(energy);
        b.power_on();
        // Nothing was written to it.
        assert_eq!(look(&mut b, nsid, 2), ((ZoneState::EMPTY, 0), false));
        if !energy {
            // The capacitors failed: nothing had come to flash.
            assert_eq!(look(&mut b, nsid, 1), ((ZoneState::EMPTY, 0), false));
            continue;
        }
        assert_eq!(look(&mut b, nsid, 1), ((ZoneState::CLOSED, 4), true));
        let of = |seed, block: usize| pattern(seed, 2 * 4096)[block * 4096..][..4096].to_vec();
        assert_eq!(b.read(nsid, SIZE + 2, 1), of(1, 0));
        assert_eq!(b.read(nsid, SIZE + 3, 1), of(2, 0));
        assert_eq!(b.read(nsid, SIZE + 11, 1), of(3, 0));
        assert!(b.read(nsid, SIZE + 4, 7).iter().all(|&byte| byte == 0));
        // The area goes on where it was.
        assert!(put(&mut b, nsid, SIZE + 11, 1, 4).is_success());
        assert!(put(&mut b, nsid, SIZE + 3, 1, 4).is(Status::ZONE_INVALID_WRITE));
        assert_eq!(b.read(nsid, SIZE + 11, 1), of(4, 0));
    }
}

#[test]
fn other_commands_write_into_an_area_too() {
    let mut b = with_areas();
    let nsid = create(&mut b, &namespace(0));
    assert!(open(&mut b, nsid, 1).is_success());
    assert!(put(&mut b, nsid, SIZE + 4, 4, 1).is_success());
    assert!(b.io(IoCommand::WriteZeroes(Blocks::new(nsid, SIZE + 5, 2)), &[]).0.is_success());
    assert!(b.read(nsid, SIZE + 5, 2).iter().all(|&byte| byte == 0));
    assert_eq!(b.read(nsid, SIZE + 4, 1), pattern(1, 4096));
    let data = b.read(nsid, SIZE + 4, 4);
    assert!(b.io(IoCommand::Compare(Blocks::new(nsid, SIZE + 4, 4)), &data).0.is_success());
    assert_eq!(look(&mut b, nsid, 1), (OPEN, true));
}

#[test]
fn what_areas_refuse() {
    let mut table = Table::new("Zone Random Write Areas", "zone_areas.rs", "what_areas_refuse");
    let mut b = with_areas();
    for (what, new, expected) in [
        ("more areas than there are", namespace(3), Status::ZRWA_RESOURCES_UNAVAILABLE),
        (
            "more areas than active zones",
            {
                let mut new = namespace(2);
                new.set_zoned(&ZonedCreate { rar: U32::new(1), ..new.zoned() });
                new
            },
            Status::INVALID_FIELD,
        ),
    ] {
        let got = b.admin(create_command(), &bytes(&new)).0.status();
        table.check(what, true, &create_command().into(), got, expected);
    }
    let nsid = create(&mut b, &namespace(1));
    assert!(put(&mut b, nsid, 2 * SIZE, 4, 1).is_success());
    assert!(open(&mut b, nsid, 0).is_success());
    assert!(commit(&mut b, nsid, 0, 4).is_success());
    let flush = |lba| ZoneManagementSend::new(nsid, ZoneSendAction::FLUSH_ZRWA, lba).into();
    let all = ZoneManagementSend {
        select_all: true,
        ..ZoneManagementSend::new(nsid, ZoneSendAction::FLUSH_ZRWA, 0)
    };
    let write = |lba, blocks| Command::from(IoCommand::Write(Blocks::new(nsid, lba, blocks)));
    let rows: Vec<(&str, Command, Status)> = vec![
        (
            "an area for a zone that is written",
            open_command(nsid, 2).into(),
            Status::INVALID_ZONE_OPERATION_REQUEST,
        ),
        ("no area is left", open_command(nsid, 1).into(), Status::ZRWA_RESOURCES_UNAVAILABLE),
        (
            "append to a zone with an area",
            Command::zone_append(nsid, 0, 1),
            Status::INVALID_ZONE_OPERATION_REQUEST,
        ),
        ("write before the write pointer", write(3, 1), Status::ZONE_INVALID_WRITE),
        ("write across the write pointer", write(3, 2), Status::ZONE_INVALID_WRITE),
        ("write further than a second area", write(4 + 2 * AREA - 1, 2), Status::ZONE_INVALID_WRITE),
        ("commit in a zone without an area", flush(2 * SIZE + 7), Status::INVALID_ZONE_OPERATION_REQUEST),
        ("commit before the write pointer", flush(3), Status::INVALID_ZONE_OPERATION_REQUEST),
        ("commit of a part of a granule", flush(4), Status::INVALID_ZONE_OPERATION_REQUEST),
        ("commit behind the area", flush(4 + AREA + 3), Status::INVALID_ZONE_OPERATION_REQUEST),
        ("commit beyond the namespace", flush(ZONES * SIZE), Status::LBA_OUT_OF_RANGE),
        ("commit in all zones", all.into(), Status::INVALID_FIELD),
    ];
    for (what, command, expected) in rows {
        let blocks = (command.cdw12.get() as usize & 0xFFFF) + 1;
        let got = b.io(command, &vec![0; blocks * 4096]).0;
        table.check(what, false, &command, got, expected);
    }
    assert_eq!(look(&mut b, nsid, 0), ((ZoneState::EXPLICITLY_OPENED, 4), true));
    table.finish();
}
