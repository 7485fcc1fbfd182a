//! What zoned namespaces refuse because of other features of the drive: tags, copies, reservations, keys, sanitize, limits.

use crate::common::reservations::{acquire, join};
use crate::common::table::Table;
use crate::common::zones::*;
use crate::common::{Bench, Memory, TIMED_SMALL, bytes};
use device::Drive;
use ftl::ZonesConfig;
use nvme::admin::{
    FormatNvm, NamespaceAttachment, NamespaceAttachmentSelect, Sanitize, SanitizeAction, SecureErase,
};
use nvme::copy::{Copy, CopySource};
use nvme::identify::ControllerList;
use nvme::io::{Blocks, PrInfo};
use nvme::property::{Cc, PropertyOffset};
use nvme::reservation::{AcquireAction, ReservationType};
use nvme::zone::{ZoneManagementSend, ZoneSendAction};
use nvme::{Command, IoCommand, Status};

static DATA: [u8; 5 * 4096] = [7; 5 * 4096];

#[test]
fn what_other_features_refuse_zones() {
    let mut table =
        Table::new("Zones with other features", "zone_refusals.rs", "what_other_features_refuse_zones");
    long_appends(&mut table);
    tags(&mut table);
    copies(&mut table);
    selected(&mut table);
    reserved(&mut table);
    locked(&mut table);
    sanitized(&mut table);
    formats(&mut table);
    table.finish();
}

/// The commands of the Zoned Namespace Command Set.
fn zone_commands(nsid: u32) -> [(Command, usize); 3] {
    [
        (Command::zone_append(nsid, 0, 1), 4096),
        (ZoneManagementSend::new(nsid, ZoneSendAction::RESET, 0).into(), 0),
        (receive(nsid, 0, 16 + 16 * ZONES).into(), 0),
    ]
}

fn all_are(table: &mut Table, what: &str, b: &mut Bench, nsid: u32, expected: Status) {
    for (command, length) in zone_commands(nsid) {
        let got = b.io(command, &DATA[..length]).0;
        table.check(what, false, &command, got, expected);
    }
}

fn long_appends(table: &mut Table) {
    let mut b = with_changes(&[("[drive]", "[drive]\nmax_append = \"16KiB\"")], ZonesConfig::default());
    let nsid = create(&mut b, &new_namespace());
    let command = Command::zone_append(nsid, 0, 5);
    let got = b.io(command, &DATA).0;
    table.check("an append of more than ZASL", false, &command, got, Status::INVALID_FIELD);
}

fn tags(table: &mut Table) {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    let format = |lbaf, pi| FormatNvm { nsid, lbaf, mset: true, pi, pil: false, ses: SecureErase::NONE };
    for (lbaf, kind, lbtl, piremap, what) in [
        (3, 1, 0, false, "an append with tags of type 1 that are not remapped"),
        (3, 1, 6, true, "an append with tags of type 1 that are not those of the zone's start"),
        (3, 3, 0, true, "an append with remapped tags of type 3"),
    ] {
        b.admin_ok(format(lbaf, kind), &[]);
        let prinfo = PrInfo::from_nibble(8);
        let command =
            IoCommand::ZoneAppend(Blocks { prinfo, lbtl, piremap, ..Blocks::new(nsid, 0, 1) }).into();
        let got = b.io(command, &DATA[..4096]).0;
        table.check(what, false, &command, got, Status::INVALID_PROTECTION_INFORMATION);
    }
}

fn copies(table: &mut Table) {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    for zone in [0, 4] {
        assert!(append(&mut b, nsid, zone, 2, &DATA[..2 * 4096]).is_ok());
    }
    assert!(send(&mut b, nsid, ZoneSendAction::FINISH, 1).is_success());
    for (what, to, expected) in [
        ("a copy before the write pointer", 0, Status::ZONE_INVALID_WRITE),
        ("a copy behind the write pointer", 3, Status::ZONE_INVALID_WRITE),
        ("a copy to a full zone", SIZE, Status::ZONE_IS_FULL),
        ("a copy across the end of a zone", 3 * SIZE - 1, Status::ZONE_BOUNDARY_ERROR),
    ] {
        let mut list = Vec::new();
        CopySource { slba: 4 * SIZE, nlb: 2, ..CopySource::default() }
            .write(0, |bytes| list.extend_from_slice(bytes));
        let command = Copy { nsid, sdlba: to, nr: 1, ..Copy::default() }.into();
        let got = b.io(command, &list).0;
        table.check(what, false, &command, got, expected);
    }
}

fn selected(table: &mut Table) {
    let mut b = with_areas();
    let nsid = create(&mut b, &new_namespace());
    for (what, action, length) in [
        ("an extension for all zones", ZoneSendAction::SET_DESCRIPTOR_EXTENSION, 64),
        ("a flush of all Zone Random Write Areas", ZoneSendAction::FLUSH_ZRWA, 0),
    ] {
        let command =
            ZoneManagementSend { select_all: true, ..ZoneManagementSend::new(nsid, action, 0) }.into();
        let got = b.io(command, &DATA[..length]).0;
        table.check(what, false, &command, got, Status::INVALID_FIELD);
    }
}

fn reserved(table: &mut Table) {
    let mut b = bench();
    let (nsid, hosts) = create_shared(&mut b, 2);
    join(&mut b, hosts[0], 77);
    let held = acquire(&mut b, hosts[0], AcquireAction::ACQUIRE, ReservationType::EXCLUSIVE_ACCESS, 77, 0);
    assert!(held.is_success(), "{held}");
    for (command, length) in zone_commands(nsid) {
        let got = b.on(hosts[1], 1, &command, &DATA[..length]).0.status();
        let what = "a reservation of another host, Exclusive Access";
        table.check(what, false, &command, got, Status::RESERVATION_CONFLICT);
    }
}

fn locked(table: &mut Table) {
    let mut memory = Memory::default();
    memory.drive_key = Some([1; 16]);
    let mut drive = Drive::new(bench().drive.config().clone()).unwrap();
    drive.encrypt(&mut memory).unwrap();
    let mut b = Bench::around(drive, memory);
    let nsid = create(&mut b, &new_namespace());
    let mut memory = b.memory.clone();
    memory.drive_key = None;
    let config = b.drive.config().clone();
    let drive = Drive::restore(config, &b.drive.save()).unwrap().finish(b.now, &mut memory).unwrap();
    let mut b = Bench::around(drive, memory);
    all_are(table, "a locked drive", &mut b, nsid, Status::ACCESS_DENIED);
}

fn sanitized(table: &mut Table) {
    let mut b = with_changes(TIMED_SMALL, ZonesConfig::default());
    let nsid = create(&mut b, &new_namespace());
    b.admin_ok(Sanitize { sanact: SanitizeAction::OVERWRITE, owpass: 2, ..Sanitize::default() }, &[]);
    all_are(table, "a sanitize operation in progress", &mut b, nsid, Status::SANITIZE_IN_PROGRESS);
}

fn formats(table: &mut Table) {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    let format = FormatNvm { nsid, lbaf: 1, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
    let got = b.admin(format, &[]).0.status();
    table.check("blocks of 512 bytes for zones", true, &format.into(), got, Status::INVALID_FORMAT);
    // A host that selects the NVM Command Set alone.
    let cc = Cc::new().with_css(Cc::CSS_NVM).with_iosqes(6).with_iocqes(4);
    for en in [false, true] {
        b.set_property(b.controller, PropertyOffset::CC, cc.with_en(en).into_bits().get()).unwrap();
    }
    let list = ControllerList::new([b.controller.0]);
    let command = NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH };
    let got = b.admin(command, &bytes(&list)).0.status();
    let what = "a zoned namespace for a host without its command set";
    table.check(what, true, &command.into(), got, Status::IOCS_NOT_ENABLED);
}
