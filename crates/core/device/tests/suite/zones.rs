//! Zoned namespaces: the Zoned Namespace Command Set as a host sees it.

use crate::common::table::Table;
use crate::common::zones::*;
use crate::common::{Bench, bytes, pattern};
use device::Origin;
use ftl::ZonesConfig;
use nvme::admin::{
    FormatNvm, NamespaceAttachment, NamespaceAttachmentSelect, Sanitize, SanitizeAction, SecureErase,
};
use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::identify::{
    Cns, ControllerList, IdentifyController, IdentifyNamespace, IoCommandSets, NamespaceCreate,
    NamespaceIdDescriptor, NamespaceList, Znsco, ZonedController, ZonedCreate, ZonedNamespace,
};
use nvme::io::{Blocks, DatasetManagement, DsmRange, appended_lba};
use nvme::log::{ChangedZones, LogId};
use nvme::property::{Cc, PropertyOffset};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::zone::{
    ZoneManagementReceive, ZoneManagementSend, ZoneReceiveAction, ZoneReport, ZoneReportFilter,
    ZoneSendAction, ZoneState,
};
use nvme::{Command, Csi, IDENTIFY_SIZE, IoCommand, IoOpcode, NSID_ALL, Status, U16, U32, U64};

#[test]
fn appends_are_as_long_as_the_controller_says() {
    let mut b = with_changes(&[("[drive]", "[drive]\nmax_append = \"16KiB\"")], ZonesConfig::default());
    let controller: ZonedController = b.ask(identify(Cns::IOCS_CONTROLLER, 0, Csi::ZONED));
    assert_eq!(controller.zasl, 2);
    let nsid = create(&mut b, &new_namespace());
    let data = vec![7; 5 * 4096];
    assert!(b.io(Command::zone_append(nsid, 0, 4), &data[..4 * 4096]).0.is_success());
    let longer = b.io(Command::zone_append(nsid, 0, 5), &data).0;
    assert!(longer.is(Status::INVALID_FIELD), "{longer}");
    // Other commands have the limit of all transfers.
    let write: Command = IoCommand::Write(Blocks::new(nsid, 4, 5)).into();
    assert!(b.io(write, &data).0.is_success());
}

#[test]
fn a_zoned_namespace_says_what_it_is() {
    let mut b = bench();
    let sets: IoCommandSets = b.ask(identify(Cns::IO_COMMAND_SETS, 0, Csi::NVM));
    assert_eq!(sets.iocsc[0].get(), 0b101);
    let conventional = b.create_attached(1, 1024);
    let nsid = create(&mut b, &new_namespace());
    let controller: ZonedController = b.ask(identify(Cns::IOCS_CONTROLLER, 0, Csi::ZONED));
    assert_eq!(controller.zasl, 0);
    let zoned: ZonedNamespace = b.ask(identify(Cns::IOCS_NAMESPACE, nsid, Csi::ZONED));
    assert_eq!((zoned.max_active(), zoned.max_open()), (Some(4), Some(4)));
    // What Linux wants: no excursions, no variable capacity, a power of two.
    assert_eq!(zoned.zoc.into_bits().get(), 0);
    assert_eq!((zoned.lbafe[0].zsze.get(), zoned.lbafe[0].extension_bytes()), (SIZE, 64));
    assert_eq!(zoned.lbafe[1].zsze.get(), 0, "blocks of 512 bytes");
    let ns: IdentifyNamespace = b.ask(identify(Cns::NAMESPACE, nsid, Csi::NVM));
    assert_eq!((ns.nsze.get(), ns.ncap.get(), ns.nuse.get()), (ZONES * SIZE, ZONES * CAPACITY, 0));
    let (_, list) = b.admin_ok(identify(Cns::NAMESPACE_DESCRIPTORS, nsid, Csi::NVM), &[]);
    let descriptors: Vec<_> = NamespaceIdDescriptor::read_list(&list).collect();
    assert!(descriptors.contains(&NamespaceIdDescriptor::Csi(Csi::ZONED)), "{descriptors:?}");
    for (cns, csi, expected) in [
        (Cns::ACTIVE_NAMESPACES, Csi::NVM, vec![conventional, nsid]),
        (Cns::IOCS_ACTIVE_NAMESPACES, Csi::NVM, vec![conventional]),
        (Cns::IOCS_ACTIVE_NAMESPACES, Csi::ZONED, vec![nsid]),
        (Cns::IOCS_ALLOCATED_NAMESPACES, Csi::ZONED, vec![nsid]),
    ] {
        let list: NamespaceList = b.ask(identify(cns, 0, csi));
        assert_eq!(list.iter().collect::<Vec<_>>(), expected, "{cns:?} {csi:?}");
    }
}

#[test]
fn zones_are_written_in_order_and_read_anywhere() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    let empty = (ZoneState::EMPTY, Some(0));
    assert_eq!(report(&mut b, nsid)[0], empty);
    let data = pattern(7, CAPACITY as usize * 4096);
    for (from, to) in [(0, 10), (10, 12), (12, 100), (100, 256)] {
        let piece = &data[from * 4096..to * 4096];
        let (status, _) =
            b.io(IoCommand::Write(Blocks::new(nsid, SIZE + from as u64, (to - from) as u32)), piece);
        assert!(status.is_success(), "{status}");
        assert_eq!(report(&mut b, nsid)[1], (ZoneState::IMPLICITLY_OPENED, Some(SIZE + to as u64)));
    }
    assert_eq!(append(&mut b, nsid, 1, 28, &data[256 * 4096..284 * 4096]), Ok(SIZE + 256));
    assert_eq!(append(&mut b, nsid, 1, 100, &data[284 * 4096..]), Ok(SIZE + 284));
    assert_eq!(report(&mut b, nsid)[1], (ZoneState::FULL, None));
    assert_eq!(b.read(nsid, SIZE, 200), data[..200 * 4096]);
    assert_eq!(b.read(nsid, SIZE + 200, 184), data[200 * 4096..]);
    // Behind the capacity, and across the zone's end, are zeros.
    assert!(b.read(nsid, SIZE + CAPACITY, 130).iter().all(|&byte| byte == 0));
    assert!(send(&mut b, nsid, ZoneSendAction::RESET, 1).is_success());
    assert_eq!(report(&mut b, nsid)[1], (ZoneState::EMPTY, Some(SIZE)));
    assert!(b.read(nsid, SIZE, 100).iter().all(|&byte| byte == 0));
}

#[test]
fn appends_under_way_together_take_places_one_after_the_other() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    let data: Vec<Vec<u8>> = (0..48).map(|i| pattern(i, 8 * 4096)).collect();
    let submitted: Vec<u32> = data
        .iter()
        .map(|data| b.submit(b.controller, 1, &Command::zone_append(nsid, 3 * SIZE, 8), data))
        .collect();
    let mut places = Vec::new();
    for (io, data) in submitted.into_iter().zip(&data) {
        let (completion, _) = b.wait(io);
        assert!(completion.status().is_success(), "{}", completion.status());
        let lba = appended_lba(&completion);
        assert_eq!(&b.read(nsid, lba, 8), data);
        places.push(lba);
    }
    places.sort_unstable();
    assert!(places.into_iter().eq((3 * SIZE..3 * SIZE + 384).step_by(8)));
    assert_eq!(state(&mut b, nsid, 3), ZoneState::FULL);
}

#[test]
fn resources_are_limited() {
    let mut b = bench();
    let mut new = new_namespace();
    new.set_zoned(&ZonedCreate { rar: U32::new(3), ror: U32::new(2), ..ZonedCreate::default() });
    let nsid = create(&mut b, &new);
    assert!(write(&mut b, nsid, 0, 1).is_success());
    assert!(send(&mut b, nsid, ZoneSendAction::OPEN, 1).is_success());
    // Zone 0 is closed for it, as a write opened it.
    assert!(write(&mut b, nsid, 2 * SIZE, 1).is_success());
    let states: Vec<_> = report(&mut b, nsid).into_iter().map(|(state, _)| state).collect();
    assert_eq!(
        states[..4],
        [ZoneState::CLOSED, ZoneState::EXPLICITLY_OPENED, ZoneState::IMPLICITLY_OPENED, ZoneState::EMPTY]
    );
    assert!(write(&mut b, nsid, 3 * SIZE, 1).is(Status::TOO_MANY_ACTIVE_ZONES));
    assert!(send(&mut b, nsid, ZoneSendAction::OPEN, 2).is_success());
    assert!(write(&mut b, nsid, 1, 1).is(Status::TOO_MANY_OPEN_ZONES));
    assert!(send(&mut b, nsid, ZoneSendAction::FINISH, 2).is_success());
    assert!(write(&mut b, nsid, 3 * SIZE, 1).is_success());
    assert!(send_all(&mut b, nsid, ZoneSendAction::CLOSE).is_success());
    assert!(send_all(&mut b, nsid, ZoneSendAction::OPEN).is(Status::TOO_MANY_OPEN_ZONES));
    assert!(send_all(&mut b, nsid, ZoneSendAction::RESET).is_success());
    assert!(report(&mut b, nsid).iter().all(|(state, _)| *state == ZoneState::EMPTY));
    // The set has promised three of its four active zones.
    assert!(b.admin(create_command(), &bytes(&new)).0.status().is(Status::NAMESPACE_INSUFFICIENT_CAPACITY));
    let mut second = new_namespace();
    second.set_zoned(&ZonedCreate { rar: U32::new(1), ..ZonedCreate::default() });
    create(&mut b, &second);
}

#[test]
fn reports_list_what_is_asked_for() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    for zone in [1, 4, 5] {
        assert!(write(&mut b, nsid, zone * SIZE, 1).is_success());
    }
    assert!(send(&mut b, nsid, ZoneSendAction::FINISH, 4).is_success());
    let extension = pattern(3, 64);
    let command = ZoneManagementSend::new(nsid, ZoneSendAction::SET_DESCRIPTOR_EXTENSION, 6 * SIZE);
    assert!(b.io(command, &extension).0.is_success());
    let listed = |b: &mut Bench, c: ZoneManagementReceive, extension: usize| {
        let (status, data) = b.io(c, &[]);
        assert!(status.is_success(), "{status}");
        let report = ZoneReport::parse(&data, extension).unwrap();
        let zones: Vec<u64> = report.zones().map(|(zone, _)| zone.zslba.get() / SIZE).collect();
        (report.nzones(), zones)
    };
    let all = receive(nsid, 0, 1024);
    assert_eq!(listed(&mut b, all, 0), (8, (0..8).collect()));
    assert_eq!(listed(&mut b, receive(nsid, 5, 1024), 0), (3, vec![5, 6, 7]));
    let open = ZoneManagementReceive { filter: ZoneReportFilter::IMPLICITLY_OPENED, ..all };
    assert_eq!(listed(&mut b, open, 0), (2, vec![1, 5]));
    // Two descriptors fit.
    assert_eq!(listed(&mut b, receive(nsid, 0, 48), 0), (8, vec![0, 1]));
    assert_eq!(
        listed(&mut b, ZoneManagementReceive { partial: true, ..receive(nsid, 0, 48) }, 0),
        (2, vec![0, 1])
    );
    let extended =
        ZoneManagementReceive { action: ZoneReceiveAction::EXTENDED_REPORT, ..receive(nsid, 6, 1024) };
    let (_, data) = b.io(extended, &[]);
    let report = ZoneReport::parse(&data, 64).unwrap();
    let (zone, found) = report.zones().next().unwrap();
    assert_eq!((zone.state(), zone.za.zdev(), found), (ZoneState::CLOSED, true, &extension[..]));
}

#[test]
fn power_cuts_leave_what_was_acknowledged() {
    for energy in [true, false] {
        let mut b = bench();
        let nsid = create(&mut b, &new_namespace());
        let data = pattern(1, 100 * 4096);
        assert_eq!(append(&mut b, nsid, 0, 100, &data), Ok(0));
        assert!(send(&mut b, nsid, ZoneSendAction::OPEN, 1).is_success());
        b.cut(energy);
        b.power_on();
        let zones = report(&mut b, nsid);
        assert_eq!(zones[1].0, ZoneState::EMPTY);
        let end = zones[0].1.unwrap();
        if energy {
            assert_eq!(zones[0], (ZoneState::CLOSED, Some(100)));
        }
        if end > 0 {
            assert_eq!(b.read(nsid, 0, end as u32), data[..end as usize * 4096]);
        }
        assert!(write(&mut b, nsid, end, 5).is_success());
    }
}

#[test]
fn format_and_sanitize_empty_all_zones() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    let empty = |b: &mut Bench| report(b, nsid).iter().all(|(state, _)| *state == ZoneState::EMPTY);
    let format = FormatNvm { nsid, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::USER_DATA };
    assert!(write(&mut b, nsid, 0, 100).is_success() && !empty(&mut b));
    b.admin_ok(format, &[]);
    assert!(empty(&mut b));
    assert!(write(&mut b, nsid, 0, 100).is_success() && !empty(&mut b));
    let small_blocks = b.admin(FormatNvm { lbaf: 1, ..format }, &[]).0.status();
    assert!(small_blocks.is(Status::INVALID_FORMAT), "{small_blocks}");
    b.admin_ok(Sanitize { sanact: SanitizeAction::BLOCK_ERASE, ..Sanitize::default() }, &[]);
    b.run_until(media::Nanos(b.now.0 + 10_000_000_000));
    assert!(empty(&mut b));
    assert!(write(&mut b, nsid, 0, 100).is_success());
}

#[test]
fn what_zones_refuse() {
    let mut b = bench();
    let conventional = b.create_attached(1, 1024);
    let mut table = Table::new("Zoned namespaces", "zones.rs", "what_zones_refuse");
    // Creation.
    let changed = |change: fn(&mut NamespaceCreate)| {
        let mut new = new_namespace();
        change(&mut new);
        new
    };
    let zoned = |zoned: ZonedCreate| {
        let mut new = new_namespace();
        new.set_zoned(&zoned);
        new
    };
    let rows: Vec<(&str, NamespaceCreate, Status)> = vec![
        ("size is no whole number of zones", changed(|n| n.nsze = U64::new(SIZE + 1)), Status::INVALID_FIELD),
        (
            "capacity is that of other zones",
            changed(|n| n.ncap = U64::new(CAPACITY + 1)),
            Status::INVALID_FIELD,
        ),
        (
            "blocks of 512 bytes",
            changed(|n| n.flbas = nvme::identify::Flbas::from_format_index(1)),
            Status::INVALID_FORMAT,
        ),
        ("a set without zones", changed(|n| n.nvmsetid = U16::new(2)), Status::INVALID_FIELD),
        (
            "Zone Random Write Areas",
            zoned(ZonedCreate { znsco: Znsco::new().with_azr(true), ..ZonedCreate::default() }),
            Status::INVALID_FIELD,
        ),
        (
            "more active zones than there are",
            zoned(ZonedCreate { rar: U32::new(5), ..ZonedCreate::default() }),
            Status::NAMESPACE_INSUFFICIENT_CAPACITY,
        ),
        (
            "more open than active zones",
            zoned(ZonedCreate { rar: U32::new(2), ror: U32::new(3), ..ZonedCreate::default() }),
            Status::INVALID_FIELD,
        ),
    ];
    for (what, new, expected) in rows {
        let got = b.admin(create_command(), &bytes(&new)).0.status();
        table.check(what, true, &create_command().into(), got, expected);
    }
    let nsid = create(&mut b, &new_namespace());
    // Commands that conventional namespaces do not have.
    for command in [
        Command::zone_append(conventional, 0, 1),
        ZoneManagementSend::new(conventional, ZoneSendAction::RESET, 0).into(),
        receive(conventional, 0, 1024).into(),
    ] {
        let got = b.io(command, &[0; 4096]).0;
        table.check("conventional namespace", false, &command, got, Status::INVALID_OPCODE);
    }
    // Writes.
    assert!(write(&mut b, nsid, 0, 8).is_success());
    assert!(send(&mut b, nsid, ZoneSendAction::FINISH, 1).is_success());
    let data = vec![0; 257 * 4096];
    let rows: Vec<(&str, Command, Status)> = vec![
        (
            "not at the write pointer",
            IoCommand::Write(Blocks::new(nsid, 9, 1)).into(),
            Status::ZONE_INVALID_WRITE,
        ),
        (
            "before the write pointer",
            IoCommand::Write(Blocks::new(nsid, 0, 8)).into(),
            Status::ZONE_INVALID_WRITE,
        ),
        (
            "zeroes not at the write pointer",
            IoCommand::WriteZeroes(Blocks::new(nsid, 9, 1)).into(),
            Status::ZONE_INVALID_WRITE,
        ),
        ("full zone", IoCommand::Write(Blocks::new(nsid, SIZE, 1)).into(), Status::ZONE_IS_FULL),
        (
            "across the end of a zone",
            IoCommand::Write(Blocks::new(nsid, 3 * SIZE - 8, 16)).into(),
            Status::ZONE_BOUNDARY_ERROR,
        ),
        ("append to a full zone", Command::zone_append(nsid, SIZE, 1), Status::ZONE_IS_FULL),
        ("append where no zone begins", Command::zone_append(nsid, 1, 1), Status::INVALID_FIELD),
        (
            "append beyond the namespace",
            Command::zone_append(nsid, ZONES * SIZE, 1),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "append of more than a command may transfer",
            Command::zone_append(nsid, 3 * SIZE, 257),
            Status::INVALID_FIELD,
        ),
        (
            "comparison fused with a write",
            IoCommand::Write(Blocks::new(nsid, 9, 1)).into(),
            Status::ZONE_INVALID_WRITE,
        ),
    ];
    for (what, command, expected) in rows {
        let bytes = (command.cdw12.get() as usize & 0xFFFF) * 4096 + 4096;
        let got = b.io(command, &data[..bytes]).0;
        table.check(what, false, &command, got, expected);
    }
    let filled = |b: &mut Bench, zone: u64, blocks: u32| {
        let mut at = zone * SIZE;
        let mut left = blocks;
        while left > 0 {
            let piece = left.min(128);
            assert!(write(b, nsid, at, piece).is_success());
            (at, left) = (at + u64::from(piece), left - piece);
        }
    };
    filled(&mut b, 2, CAPACITY as u32 - 4);
    let command = Command::zone_append(nsid, 2 * SIZE, 8);
    let got = b.io(command, &data[..8 * 4096]).0;
    table.check("append of more than is left", false, &command, got, Status::ZONE_BOUNDARY_ERROR);
    let command: Command = IoCommand::Write(Blocks::new(nsid, 2 * SIZE + CAPACITY - 4, 8)).into();
    let got = b.io(command, &data[..8 * 4096]).0;
    table.check("write beyond the zone's capacity", false, &command, got, Status::ZONE_BOUNDARY_ERROR);
    // Management.
    let at = |action, lba| ZoneManagementSend::new(nsid, action, lba);
    let open_with_zrwa = ZoneManagementSend { zrwa: true, ..at(ZoneSendAction::OPEN, 3 * SIZE) };
    let rows: Vec<(&str, ZoneManagementSend, Status)> = vec![
        ("no zone begins there", at(ZoneSendAction::RESET, 1), Status::INVALID_FIELD),
        ("beyond the namespace", at(ZoneSendAction::RESET, ZONES * SIZE), Status::LBA_OUT_OF_RANGE),
        ("open a full zone", at(ZoneSendAction::OPEN, SIZE), Status::INVALID_ZONE_STATE_TRANSITION),
        ("close an empty zone", at(ZoneSendAction::CLOSE, 3 * SIZE), Status::INVALID_ZONE_STATE_TRANSITION),
        (
            "take a zone offline that can be written",
            at(ZoneSendAction::OFFLINE, 0),
            Status::INVALID_ZONE_STATE_TRANSITION,
        ),
        (
            "an extension for a zone that is written",
            at(ZoneSendAction::SET_DESCRIPTOR_EXTENSION, 0),
            Status::INVALID_ZONE_STATE_TRANSITION,
        ),
        ("open with a Zone Random Write Area", open_with_zrwa, Status::INVALID_FIELD),
        ("flush of a Zone Random Write Area", at(ZoneSendAction::FLUSH_ZRWA, 0), Status::INVALID_FIELD),
    ];
    for (what, c, expected) in rows {
        let extension = c.action == ZoneSendAction::SET_DESCRIPTOR_EXTENSION;
        let got = b.io(c, &data[..if extension { 64 } else { 0 }]).0;
        table.check(what, false, &c.into(), got, expected);
    }
    let c = at(ZoneSendAction::SET_DESCRIPTOR_EXTENSION, 3 * SIZE);
    for len in [0, 4, 60] {
        let got = b.io(c, &data[..len]).0;
        table.check(
            "an extension of less than 64 bytes",
            false,
            &c.into(),
            got,
            Status::DATA_SGL_LENGTH_INVALID,
        );
    }
    let c = ZoneManagementSend::new(nsid, ZoneSendAction(0x20), 0);
    let got = b.io(c, &[]).0;
    table.check("an action that there is not", false, &c.into(), got, Status::INVALID_FIELD);
    for (what, c, expected) in [
        ("beyond the namespace", receive(nsid, ZONES, 1024), Status::LBA_OUT_OF_RANGE),
        ("more than a command may transfer", receive(nsid, 0, 1 << 20), Status::INVALID_FIELD),
        (
            "an action that there is not",
            ZoneManagementReceive { action: ZoneReceiveAction(2), ..receive(nsid, 0, 16) },
            Status::INVALID_FIELD,
        ),
        (
            "a filter that there is not",
            ZoneManagementReceive { filter: ZoneReportFilter(9), ..receive(nsid, 0, 16) },
            Status::INVALID_FIELD,
        ),
    ] {
        let got = b.io(c, &[]).0;
        table.check(what, false, &c.into(), got, expected);
    }
    too_many_zones(&mut table);
    worn_zones(&mut table);
    table.finish();
}

/// More active and open zones than a namespace may have: two, and one.
fn too_many_zones(table: &mut Table) {
    let mut b = bench();
    let mut new = new_namespace();
    new.set_zoned(&ZonedCreate { rar: U32::new(2), ror: U32::new(1), ..ZonedCreate::default() });
    let nsid = create(&mut b, &new);
    let at = |action, zone| -> Command { ZoneManagementSend::new(nsid, action, zone * SIZE).into() };
    let data = [0; 4096];
    let mut refused = |b: &mut Bench, what: &str, zone: u64, status: Status| {
        let zeroes: Command = IoCommand::WriteZeroes(Blocks::new(nsid, zone * SIZE, 1)).into();
        let write: Command = IoCommand::Write(Blocks::new(nsid, zone * SIZE, 1)).into();
        let rows = [
            (write, &data[..]),
            (zeroes, &[]),
            (Command::zone_append(nsid, zone * SIZE, 1), &data),
            (at(ZoneSendAction::OPEN, zone), &[]),
        ];
        for (command, data) in rows {
            let got = b.io(command, data).0;
            table.check(what, false, &command, got, status);
        }
    };
    // A zone that the host opened is not closed for another one.
    assert!(send(&mut b, nsid, ZoneSendAction::OPEN, 0).is_success());
    refused(&mut b, "one more open zone", 1, Status::TOO_MANY_OPEN_ZONES);
    assert!(send(&mut b, nsid, ZoneSendAction::CLOSE, 0).is_success());
    assert!(write(&mut b, nsid, SIZE, 1).is_success());
    refused(&mut b, "one more active zone", 2, Status::TOO_MANY_ACTIVE_ZONES);
    let extend = at(ZoneSendAction::SET_DESCRIPTOR_EXTENSION, 2);
    let got = b.io(extend, &data[..64]).0;
    table.check("one more active zone", false, &extend, got, Status::TOO_MANY_ACTIVE_ZONES);
    assert!(send(&mut b, nsid, ZoneSendAction::OPEN, 1).is_success());
    let all =
        ZoneManagementSend { select_all: true, ..ZoneManagementSend::new(nsid, ZoneSendAction::OPEN, 0) };
    let got = b.io(all, &[]).0;
    table.check(
        "all closed zones are opened, and they are too many",
        false,
        &all.into(),
        got,
        Status::TOO_MANY_OPEN_ZONES,
    );
}

/// Zones that a worn set has made Read Only or taken offline.
fn worn_zones(table: &mut Table) {
    let mut b = bench();
    let nsid = create(&mut b, &two_zones());
    assert!(write(&mut b, nsid, 0, 8).is_success());
    wear_out(&mut b, nsid);
    let data = [0; 4096];
    for (zone, at, zone_state, name, status) in [
        (0, 8, ZoneState::READ_ONLY, "read-only zone", Status::ZONE_IS_READ_ONLY),
        (1, 0, ZoneState::OFFLINE, "offline zone", Status::ZONE_IS_OFFLINE),
    ] {
        assert_eq!(state(&mut b, nsid, zone as usize), zone_state);
        let (start, blocks) = (zone * SIZE, Blocks::new(nsid, zone * SIZE + at, 1));
        let mut rows: Vec<(Command, &[u8], Status)> = vec![
            (IoCommand::Write(blocks).into(), &data, status),
            (IoCommand::WriteZeroes(blocks).into(), &[], status),
            (Command::zone_append(nsid, start, 1), &data, status),
        ];
        if zone_state == ZoneState::OFFLINE {
            rows.push((IoCommand::Read(blocks).into(), &[], status));
            rows.push((IoCommand::Verify(blocks).into(), &[], status));
            rows.push((IoCommand::Compare(blocks).into(), &data, status));
        }
        for (action, data) in [
            (ZoneSendAction::OPEN, &[][..]),
            (ZoneSendAction::CLOSE, &[]),
            (ZoneSendAction::FINISH, &[]),
            (ZoneSendAction::RESET, &[]),
            (ZoneSendAction::SET_DESCRIPTOR_EXTENSION, &data[..64]),
        ] {
            let command = ZoneManagementSend::new(nsid, action, start).into();
            rows.push((command, data, Status::INVALID_ZONE_STATE_TRANSITION));
        }
        for (command, data, status) in rows {
            let got = b.io(command, data).0;
            table.check(name, false, &command, got, status);
        }
    }
}

#[test]
fn what_is_no_write_leaves_the_write_pointer() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    assert!(write(&mut b, nsid, 0, 8).is_success());
    let data = b.read(nsid, 0, 8);
    assert!(b.io(IoCommand::Compare(Blocks::new(nsid, 0, 8)), &data).0.is_success());
    assert!(b.io(IoCommand::Verify(Blocks::new(nsid, 0, 8)), &[]).0.is_success());
    let dsm = DatasetManagement { nsid, nr: 1, idr: false, idw: false, ad: true };
    let range = DsmRange { lengthlb: U32::new(8), ..DsmRange::default() };
    assert!(b.io(IoCommand::DatasetManagement(dsm), range.as_bytes()).0.is_success());
    assert_eq!(report(&mut b, nsid)[0].1, Some(8));
    assert_eq!(b.read(nsid, 0, 8), data);
    // Zeroes are a write, whatever else is asked for.
    let zeroes = Blocks { deac: true, ..Blocks::new(nsid, 8, 8) };
    assert!(b.io(IoCommand::WriteZeroes(zeroes), &[]).0.is_success());
    assert_eq!(report(&mut b, nsid)[0].1, Some(16));
    assert!(b.io(IoCommand::Flush { nsid }, &[]).0.is_success());
    let other = b.connect("other", Origin::InProcess);
    assert!(!b.on(other, 1, &Command::zone_append(nsid, 0, 1), &[0; 4096]).0.status().is_success());
    assert_eq!(IoOpcode::ZONE_APPEND.0, 0x7D);
    let (_, all) = b.admin_ok(identify(Cns::IOCS_NAMESPACE, NSID_ALL, Csi::ZONED), &[]);
    assert_eq!(all.len(), IDENTIFY_SIZE);
    let common = ZonedNamespace::read_from_bytes(&all).unwrap();
    assert_eq!(common.lbafe[0].zsze.get(), SIZE);
}

/// Makes erases fail until zones cannot be written any more.
/// A host that selects the NVM Command Set only has no use for zones, and would write them as if they had none.
#[test]
fn a_host_that_selects_one_command_set_has_no_zoned_namespaces() {
    let mut b = bench();
    let conventional = b.create_attached(1, 1024);
    let nsid = create(&mut b, &new_namespace());
    assert!(write(&mut b, nsid, 0, 8).is_success());
    let active = |b: &mut Bench| {
        let list: NamespaceList = b.ask(identify(Cns::ACTIVE_NAMESPACES, 0, Csi::NVM));
        list.iter().collect::<Vec<_>>()
    };
    let enable = |b: &mut Bench, css| {
        let id = b.controller;
        let cc = Cc::new().with_css(css).with_iosqes(6).with_iocqes(4);
        for en in [false, true] {
            b.set_property(id, PropertyOffset::CC, cc.with_en(en).into_bits().get()).unwrap();
        }
        b.drive.add_queue(id, 1, 128).unwrap();
    };
    assert_eq!(active(&mut b), [conventional, nsid]);
    enable(&mut b, Cc::CSS_NVM);
    assert_eq!(active(&mut b), [conventional]);
    let ns: IdentifyNamespace = b.ask(identify(Cns::NAMESPACE, nsid, Csi::NVM));
    assert_eq!(ns.nsze.get(), 0);
    let allocated: NamespaceList = b.ask(identify(Cns::ALLOCATED_NAMESPACES, 0, Csi::NVM));
    assert_eq!(allocated.iter().collect::<Vec<_>>(), [conventional, nsid]);
    assert!(b.io(IoCommand::Read(Blocks::new(nsid, 0, 8)), &[]).0.is(Status::INVALID_FIELD));
    assert!(write(&mut b, nsid, 8, 8).is(Status::INVALID_FIELD));
    let list = ControllerList::new([b.controller.0]);
    let attach = NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH };
    assert!(b.admin(attach, &bytes(&list)).0.status().is(Status::IOCS_NOT_ENABLED));
    // It is attached again for a host that selects all.
    enable(&mut b, Cc::CSS_SETS);
    assert_eq!(active(&mut b), [conventional, nsid]);
    assert_eq!(b.read(nsid, 0, 8), pattern(0, 8 * 4096));
    assert!(write(&mut b, nsid, 8, 8).is_success());
}

/// Sizes of zones and shares of active zones that are not the default.
#[test]
fn zones_have_the_distance_and_namespaces_the_share_that_the_set_says() {
    let size = (CAPACITY + 3) * 4096;
    let mut b = with(ZonesConfig { share: 3, size, ..ZonesConfig::default() });
    let blocks = U64::new(2 * (CAPACITY + 3));
    let new = NamespaceCreate { nsze: blocks, ncap: blocks, ..new_namespace() };
    let (first, second) = (create(&mut b, &new), create(&mut b, &new));
    // The share is 3, and each has two zones: it takes no more than it can use.
    for (nsid, active) in [(first, 2), (second, 2)] {
        let zoned: ZonedNamespace = b.ask(identify(Cns::IOCS_NAMESPACE, nsid, Csi::ZONED));
        assert_eq!(zoned.lbafe[0].zsze.get(), CAPACITY + 3);
        assert_eq!((zoned.max_active(), zoned.max_open()), (Some(active), Some(active)));
    }
    assert!(b.admin(create_command(), &bytes(&new)).0.status().is(Status::NAMESPACE_INSUFFICIENT_CAPACITY));
    let mut small = with(ZonesConfig { share: 1, size, ..ZonesConfig::default() });
    let nsid = create(&mut small, &new);
    let zoned: ZonedNamespace = small.ask(identify(Cns::IOCS_NAMESPACE, nsid, Csi::ZONED));
    assert_eq!(zoned.max_active(), Some(1));
    let data = pattern(3, 8 * 4096);
    let command = Command::zone_append(first, CAPACITY + 3, 8);
    let (completion, _) = b.on(b.controller, 1, &command, &data);
    assert_eq!((completion.status().is_success(), appended_lba(&completion)), (true, CAPACITY + 3));
    assert_eq!(b.read(first, CAPACITY + 3, 8), data);
}

fn wear_out(b: &mut Bench, nsid: u32) {
    b.fail_erases();
    for round in 0.. {
        assert!(round < 10_000, "the set wears out");
        if !(send(b, nsid, ZoneSendAction::RESET, 1).is_success() && write(b, nsid, SIZE, 8).is_success()) {
            break;
        }
    }
}

#[test]
fn zones_of_a_worn_set_can_only_be_read_or_are_offline_and_the_host_is_told() {
    let mut b = bench();
    let controller: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(controller.oaes.zdcn());
    let conventional = b.create_attached(1, 256);
    let (first, second) = (create(&mut b, &two_zones()), create(&mut b, &two_zones()));
    let retained = |nsid| Command::get_log_page(LogId::CHANGED_ZONES, nsid, 0, 0, 4096);
    let changed = |nsid| {
        let mut command = retained(nsid);
        // Without Retain Asynchronous Event.
        command.cdw10 = U32::new(command.cdw10.get() & !(1 << 15));
        command
    };
    let list = |b: &mut Bench, nsid| {
        let log: ChangedZones = b.ask(changed(nsid));
        log.zones().unwrap().iter().map(|zslba| zslba.get()).collect::<Vec<_>>()
    };
    let enabled = AsyncEventConfiguration::new().with_zdcn(true).into_bits().get();
    b.admin_ok(Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, enabled), &[]);
    let me = b.controller;
    let request = Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    let requests: Vec<u32> = (0..2).map(|_| b.submit(me, 0, &request, &[])).collect();
    let told = |b: &Bench, i: usize| {
        let (completion, _) = b.done.get(&requests[i])?;
        Some((AsyncEvent::from_dw0(completion.dw0.get()), completion.dw1.get()))
    };
    let event = AsyncEvent::notice(NoticeInfo::ZONE_DESCRIPTOR_CHANGED);
    assert!(write(&mut b, first, 0, 8).is_success());
    assert!(list(&mut b, first).is_empty());
    wear_out(&mut b, first);

    // The zone that holds something can only be read, the others are of no use, and the host hears of the first namespace.
    assert_eq!(told(&b, 0), Some((event, first)));
    assert_eq!(told(&b, 1), None);
    for (nsid, zone, worn, status) in [
        (first, 0, ZoneState::READ_ONLY, Status::ZONE_IS_READ_ONLY),
        (first, 1, ZoneState::OFFLINE, Status::ZONE_IS_OFFLINE),
        (second, 0, ZoneState::OFFLINE, Status::ZONE_IS_OFFLINE),
        (second, 1, ZoneState::OFFLINE, Status::ZONE_IS_OFFLINE),
    ] {
        assert_eq!(state(&mut b, nsid, zone as usize), worn, "{nsid} {zone}");
        let written = if worn == ZoneState::READ_ONLY { 8 } else { 0 };
        assert!(write(&mut b, nsid, zone * SIZE + written, 1).is(status));
        let appended = append(&mut b, nsid, zone, 1, &pattern(1, 4096));
        assert_eq!(appended.map_err(|s| s.is(status)), Err(true), "{nsid} {zone}");
        assert!(send(&mut b, nsid, ZoneSendAction::RESET, zone).is(Status::INVALID_ZONE_STATE_TRANSITION));
    }
    assert_eq!(b.read(first, 0, 8), pattern(0, 8 * 4096));
    let lost = b.io(IoCommand::Read(Blocks::new(second, 0, 1)), &[]).0;
    assert!(lost.is(Status::ZONE_IS_OFFLINE), "{lost}");
    let kept: ChangedZones = b.ask(retained(first));
    assert_eq!(kept.nrzid.get(), 2);
    assert_eq!(told(&b, 1), None);
    // Once the list of the first namespace is read, the host hears of the second.
    assert_eq!(list(&mut b, first), [0, SIZE]);
    assert!(list(&mut b, first).is_empty());
    assert_eq!(told(&b, 1), Some((event, second)));
    assert_eq!(list(&mut b, second), [0, SIZE]);

    // A zone that can only be read can be taken offline: then it cannot be read, either.
    assert!(send(&mut b, first, ZoneSendAction::OFFLINE, 0).is_success());
    assert_eq!(state(&mut b, first, 0), ZoneState::OFFLINE);
    assert!(write(&mut b, first, 8, 1).is(Status::ZONE_IS_OFFLINE));
    // The list is of namespaces with zones that are attached.
    for nsid in [0, conventional, NSID_ALL, second + 1] {
        assert!(!b.admin(changed(nsid), &[]).0.status().is_success(), "{nsid}");
    }
}
