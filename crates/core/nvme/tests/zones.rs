//! The Zoned Namespace Command Set: encodings, reports, logs and what a namespace says of its zones.

use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::identify::*;
use nvme::io::*;
use nvme::log::*;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::zone::*;
use nvme::{Command, Completion, FormatUnit, IoCommand, IoOpcode, Status, Transfer, data_transfer};
use proptest::prelude::*;

const FIELD: Status = Status::INVALID_FIELD.with_dnr();

const ACTIONS: [ZoneSendAction; 7] = [
    ZoneSendAction::CLOSE,
    ZoneSendAction::FINISH,
    ZoneSendAction::OPEN,
    ZoneSendAction::RESET,
    ZoneSendAction::OFFLINE,
    ZoneSendAction::SET_DESCRIPTOR_EXTENSION,
    ZoneSendAction::FLUSH_ZRWA,
];

const STATES: [ZoneState; 7] = [
    ZoneState::EMPTY,
    ZoneState::IMPLICITLY_OPENED,
    ZoneState::EXPLICITLY_OPENED,
    ZoneState::CLOSED,
    ZoneState::READ_ONLY,
    ZoneState::FULL,
    ZoneState::OFFLINE,
];

/// Bytes taken by hand from the specification's figures.
#[test]
fn encodings_are_the_specifications() {
    let open = ZoneManagementSend {
        zrwa: true,
        ..ZoneManagementSend::new(3, ZoneSendAction::OPEN, 0x1122_3344_5566_7788)
    };
    let cmd = Command::from(open);
    let b = cmd.as_bytes();
    assert_eq!((b[0], b[4]), (0x79, 3));
    assert_eq!(b[40..48], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(cmd.cdw13.get(), 0x203);
    let all = ZoneManagementSend { select_all: true, ..ZoneManagementSend::new(3, ZoneSendAction::RESET, 0) };
    assert_eq!(Command::from(all).cdw13.get(), 0x104);

    let cmd = Command::from(ZoneManagementReceive {
        nsid: 1,
        slba: 0x8000,
        dwords: 1024,
        action: ZoneReceiveAction::EXTENDED_REPORT,
        filter: ZoneReportFilter::FULL,
        partial: true,
    });
    assert_eq!((cmd.opc, cmd.cdw10.get(), cmd.cdw12.get(), cmd.cdw13.get()), (0x7A, 0x8000, 1023, 0x1_0501));
    assert_eq!(data_transfer(&cmd, false, |_| 0), Transfer::ToHost(4096));

    let append = IoCommand::ZoneAppend(Blocks { piremap: true, ..Blocks::new(1, 0x4000, 8) });
    let cmd = Command::from(append);
    assert_eq!((cmd.opc, cmd.cdw10.get(), cmd.cdw12.get()), (0x7D, 0x4000, 1 << 25 | 7));
    assert_eq!(IoCommand::parse(&cmd), Ok(append));
    assert_eq!(Command::zone_append(1, 0x4000, 8).cdw12.get(), 7);
    assert_eq!(data_transfer(&cmd, false, |_| 4096), Transfer::ToController(32768));
    let completion = Completion::default().with_result64(0x1_0000_4008);
    assert_eq!(appended_lba(&completion), 0x1_0000_4008);

    let zone = ZoneDescriptor {
        za: ZoneAttributes::new().with_zrwav(true).with_zdev(true).with_fzr(true),
        zai: ZoneAttributesInformation::new().with_fzr_limit(2).with_rzr_limit(1),
        ..ZoneDescriptor::new(0x4000, 0x3000, ZoneState::CLOSED, 0x4010)
    };
    assert_eq!(zone.as_bytes()[..4], [0x02, 0x40, 0x8A, 0x06]);
    assert_eq!(zone.as_bytes()[24..32], [0x10, 0x40, 0, 0, 0, 0, 0, 0]);

    let event = AsyncEvent::notice(NoticeInfo::ZONE_DESCRIPTOR_CHANGED);
    assert_eq!(event.to_dw0(), 0x00BF_EF02);
    assert_eq!(Status::ZRWA_RESOURCES_UNAVAILABLE.0, 0x1B7);
}

#[test]
fn reserved_actions_are_refused() {
    let mut send = Command::new(IoOpcode::ZONE_MANAGEMENT_SEND.0, 1);
    for code in 0..=255u8 {
        send.cdw13.set(code.into());
        let known = ACTIONS.iter().any(|action| action.0 == code);
        assert_eq!(IoCommand::parse(&send).is_ok(), known, "{code:02x}h");
        if !known {
            assert_eq!(IoCommand::parse(&send), Err(FIELD));
            assert_eq!(data_transfer(&send, false, |_| 64), Transfer::None);
        }
    }
    for action in ACTIONS {
        send.cdw13.set(0x100 | u32::from(action.0));
        assert_eq!(IoCommand::parse(&send).is_ok(), action.takes_all(), "{action} with Select All");
    }
    let mut receive = Command::new(IoOpcode::ZONE_MANAGEMENT_RECEIVE.0, 1);
    for (cdw13, known) in [(0, true), (1, true), (2, false), (0x700, true), (0x800, false), (0x10000, true)] {
        receive.cdw13.set(cdw13);
        assert_eq!(IoCommand::parse(&receive).is_ok(), known, "{cdw13:x}h");
    }
    receive.cdw13.set(2);
    assert_eq!(IoCommand::parse(&receive), Err(FIELD));
}

#[test]
fn only_the_extension_has_data_and_the_format_says_how_much() {
    for action in ACTIONS {
        let cmd = Command::from(ZoneManagementSend::new(7, action, 0));
        let moved = data_transfer(&cmd, false, |unit| {
            assert_eq!(unit, FormatUnit::ZoneExtension(7));
            128
        });
        let extension = action == ZoneSendAction::SET_DESCRIPTOR_EXTENSION;
        let expected = if extension { Transfer::ToController(128) } else { Transfer::None };
        assert_eq!(moved, expected, "{action}");
    }
    assert_eq!(LbaFormatExtension::new(1 << 16, 2).extension_bytes(), 128);
    assert_eq!(LbaFormatExtension::new(1 << 16, 255).extension_bytes(), 16320);
}

#[test]
fn states_take_resources_and_have_write_pointers() {
    let of = |property: fn(ZoneState) -> bool| STATES.into_iter().filter(move |state| property(*state));
    assert_eq!(
        of(ZoneState::is_open).collect::<Vec<_>>(),
        [ZoneState::IMPLICITLY_OPENED, ZoneState::EXPLICITLY_OPENED]
    );
    assert_eq!(of(ZoneState::is_active).count(), 3);
    assert_eq!(of(ZoneState::has_write_pointer).count(), 4);
    for state in STATES {
        let zone = ZoneDescriptor::new(100, 50, state, 110);
        assert_eq!(zone.state(), state);
        assert_eq!(zone.write_pointer(), state.has_write_pointer().then_some(110));
        assert!(state.has_write_pointer() || zone.wp.get() == u64::MAX);
        assert_eq!(zone.writable_end(), Some(150));
        // Each state has one filter of its own, and the one of all.
        assert_eq!((0..=255).filter(|filter| ZoneReportFilter(*filter).lists(state)).count(), 2, "{state}");
    }
    assert_eq!(ZoneDescriptor::new(u64::MAX, 1, ZoneState::FULL, 0).writable_end(), None);
}

#[test]
fn limits_are_zero_based_on_the_wire() {
    let mut ns = ZonedNamespace::default();
    assert_eq!((ns.max_active(), ns.max_open(), ns.zrwa_resources()), (Some(1), Some(1), 0));
    ns.set_max_active(Some(14));
    ns.set_max_open(None);
    ns.set_zrwa_resources(7);
    assert_eq!((ns.max_active(), ns.max_open(), ns.zrwa_resources()), (Some(14), None, 7));
    let b = ns.as_bytes();
    assert_eq!(b[2..12], [2, 0, 13, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert_eq!(b[44..48], [6, 0, 0, 0]);
    ns.set_zrwa_resources(0);
    assert!(!ns.ozcs.zrwasup());
}

#[test]
fn a_zoned_namespace_is_created_from_the_command_sets_part() {
    let mut create = NamespaceCreate::default();
    assert_eq!(create.zoned(), ZonedCreate::default());
    let zoned = ZonedCreate {
        znsco: Znsco::new().with_azr(true),
        rar: 14.into(),
        ror: 13.into(),
        rnumzrwa: 0x0102_0304.into(),
    };
    create.set_zoned(&zoned);
    assert_eq!(create.zoned(), zoned);
    assert_eq!(create.as_bytes()[499..512], [1, 14, 0, 0, 0, 13, 0, 0, 0, 4, 3, 2, 1]);
}

#[test]
fn the_list_of_changed_zones() {
    let zones =
        |log: &ChangedZones| log.zones().map(|zones| zones.iter().map(|z| z.get()).collect::<Vec<_>>());
    assert_eq!(zones(&ChangedZones::new([])), Some(vec![]));
    assert_eq!(zones(&ChangedZones::new([0x1000, 0x3000])), Some(vec![0x1000, 0x3000]));
    assert_eq!(zones(&ChangedZones::new(0..511)).map(|zones| zones.len()), Some(511));
    assert_eq!(zones(&ChangedZones::new(0..512)), None);
    let mut hostile = ChangedZones::new([1]);
    hostile.nrzid.set(0xFFFE);
    assert_eq!(zones(&hostile).map(|zones| zones.len()), Some(511));
}

proptest! {
    #[test]
    fn commands_round_trip(
        nsid: u32, slba: u64, dwords in 1u64..=1 << 32, action in prop::sample::select(&ACTIONS[..]),
        extended: bool, filter in 0u8..8, partial: bool, all: bool, zrwa: bool,
    ) {
        let select_all = all && action.takes_all();
        let send = ZoneManagementSend { nsid, slba, action, select_all, zrwa };
        prop_assert_eq!(IoCommand::parse(&send.into()), Ok(IoCommand::ZoneManagementSend(send)));
        let receive = ZoneManagementReceive {
            nsid,
            slba,
            dwords,
            action: ZoneReceiveAction(extended.into()),
            filter: ZoneReportFilter(filter),
            partial,
        };
        let cmd = Command::from(receive);
        prop_assert_eq!(IoCommand::parse(&cmd), Ok(IoCommand::ZoneManagementReceive(receive)));
        prop_assert_eq!(data_transfer(&cmd, false, |_| 0), Transfer::ToHost(dwords * 4));
    }

    #[test]
    fn appends_round_trip(nsid: u32, zslba: u64, nlb in 1u32..=65536, fua: bool, piremap: bool, lbtl: u32, dspec: u16) {
        let blocks = Blocks { fua, piremap, lbtl, dspec, ..Blocks::new(nsid, zslba, nlb) };
        let append = IoCommand::ZoneAppend(blocks);
        prop_assert_eq!(IoCommand::parse(&append.into()), Ok(append));
        prop_assert_eq!(append.blocks(), Some(&blocks));
    }

    /// What is read is what was written, as far as it fits.
    #[test]
    fn reports_round_trip(
        zones in prop::collection::vec((any::<u64>(), any::<u64>(), prop::sample::select(&STATES[..])), 0..20),
        units in 0usize..3, more: u16, cut in 0usize..200,
    ) {
        let extension = units * 64;
        let nzones = zones.len() as u64 + u64::from(more);
        let mut bytes = ZoneReportHeader { nzones: nzones.into(), ..Default::default() }.as_bytes().to_vec();
        let mut written = Vec::new();
        for (index, (zslba, wp, state)) in zones.iter().enumerate() {
            let zone = ZoneDescriptor::new(*zslba, 5, *state, *wp);
            bytes.extend(zone.as_bytes());
            bytes.extend(vec![index as u8; extension]);
            written.push((zone, vec![index as u8; extension]));
        }
        let whole = zones.len() * (64 + extension);
        let cut = cut.min(whole);
        bytes.truncate(64 + whole - cut);
        written.truncate((whole - cut) / (64 + extension));
        let report = ZoneReport::parse(&bytes, extension).unwrap();
        prop_assert_eq!(report.nzones(), nzones);
        let read: Vec<_> = report.zones().map(|(zone, extension)| (*zone, extension.to_vec())).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn any_bytes_are_a_report(bytes in prop::collection::vec(any::<u8>(), 0..500), extension: usize, small in 0usize..200) {
        for extension in [extension, small] {
            match ZoneReport::parse(&bytes, extension) {
                Some(report) => {
                    let zones: Vec<_> = report.zones().map(|(zone, _)| zone.write_pointer()).collect();
                    prop_assert!(zones.len() as u64 <= report.nzones());
                }
                None => prop_assert!(bytes.len() < 64),
            }
        }
    }

    #[test]
    fn any_bytes_are_a_structure(seed in prop::collection::vec(any::<u8>(), 4096)) {
        let ns = ZonedNamespace::read_from_bytes(&seed).unwrap();
        let _ = (ns.max_active(), ns.max_open(), ns.zrwa_resources(), ns.lbafe[63].extension_bytes());
        let log = ChangedZones::read_from_bytes(&seed).unwrap();
        prop_assert!(log.zones().is_none_or(|zones| zones.len() <= 511));
        let create = NamespaceCreate::read_from_bytes(&seed).unwrap();
        let mut again = create;
        again.set_zoned(&create.zoned());
        prop_assert_eq!(again, create);
    }
}
