//! A drive with zones, and what a host does with them.

use super::reservations::connect_hosts;
use super::{Bench, bytes, pattern, small};
use device::ControllerId;
use ftl::{SetConfig, ZonesConfig, ZrwaLayout};
use nvme::admin::{
    Identify, NamespaceAttachment, NamespaceAttachmentSelect, NamespaceManagement, NamespaceManagementSelect,
};
use nvme::identify::{Cns, ControllerList, NamespaceCreate, Nmic, ZonedCreate};
use nvme::io::{Blocks, appended_lba};
use nvme::zone::{
    ZoneManagementReceive, ZoneManagementSend, ZoneReceiveAction, ZoneReport, ZoneReportFilter,
    ZoneSendAction, ZoneState,
};
use nvme::{Command, Csi, IoCommand, Status, U16, U32, U64};

/// Blocks from one zone to the next, and blocks that can be written: a superblock of the small drive.
pub const SIZE: u64 = 512;
pub const CAPACITY: u64 = 384;
pub const ZONES: u64 = 8;
/// Blocks of a Zone Random Write Area, and those that are committed together.
pub const AREA: u64 = 16;
pub const GRANULARITY: u64 = 4;

/// A drive whose first set has zones.
pub fn bench() -> Bench {
    with(ZonesConfig::default())
}

/// The same with Zone Random Write Areas for two zones.
pub fn with_areas() -> Bench {
    let zrwa = Some(ZrwaLayout { pages: AREA as u32, granularity: GRANULARITY as u32, max: 2 });
    with(ZonesConfig { zrwa, ..ZonesConfig::default() })
}

/// The same with what this says beside the usual.
pub fn with(more: ZonesConfig) -> Bench {
    with_changes(&[], more)
}

/// The same with these changes of the small drive, too.
pub fn with_changes(changes: &[(&str, &str)], more: ZonesConfig) -> Bench {
    let mut config = small(changes);
    let SetConfig::Nand { zones, .. } = &mut config.ftl.sets[0] else { panic!("set 1 is NAND") };
    *zones = ZonesConfig { active: 4, buffer_pages: 96, ..more };
    config.ftl.energy_bytes += zones.all_pages() * 4096;
    Bench::new(config)
}

/// A zoned namespace that is shared by this many hosts, which have it attached: namespace 1, which the helpers of reservations mean.
pub fn create_shared(b: &mut Bench, hosts: u8) -> (u32, Vec<ControllerId>) {
    let shared = NamespaceCreate { nmic: Nmic::new().with_shrns(true), ..new_namespace() };
    let (nsid, _) = b.admin_ok(create_command(), &bytes(&shared));
    assert_eq!(nsid, 1, "the namespace of the helpers");
    let hosts = connect_hosts(b, hosts);
    let list = ControllerList::new(hosts.iter().map(|id| id.0));
    b.admin_ok(NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }, &bytes(&list));
    (nsid, hosts)
}

pub fn create_command() -> NamespaceManagement {
    NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi: Csi::ZONED }
}

pub fn new_namespace() -> NamespaceCreate {
    NamespaceCreate {
        nsze: U64::new(ZONES * SIZE),
        ncap: U64::new(ZONES * SIZE),
        nvmsetid: U16::new(1),
        ..NamespaceCreate::default()
    }
}

pub fn two_zones() -> NamespaceCreate {
    let blocks = U64::new(2 * SIZE);
    let mut new = NamespaceCreate { nsze: blocks, ncap: blocks, ..new_namespace() };
    new.set_zoned(&ZonedCreate { rar: U32::new(2), ror: U32::new(2), ..ZonedCreate::default() });
    new
}

pub fn attach(b: &mut Bench, nsid: u32) {
    let list = ControllerList::new([b.controller.0]);
    b.admin_ok(NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }, &bytes(&list));
}

pub fn create(b: &mut Bench, new: &NamespaceCreate) -> u32 {
    let (nsid, _) = b.admin_ok(create_command(), &bytes(new));
    attach(b, nsid);
    nsid
}

pub fn identify(cns: Cns, nsid: u32, csi: Csi) -> Identify {
    Identify { nsid, cns, cntid: 0xFFFF, cnssid: 0, csi, uidx: 0 }
}

pub fn send(b: &mut Bench, nsid: u32, action: ZoneSendAction, zone: u64) -> Status {
    b.io(ZoneManagementSend::new(nsid, action, zone * SIZE), &[]).0
}

pub fn send_all(b: &mut Bench, nsid: u32, action: ZoneSendAction) -> Status {
    b.io(ZoneManagementSend { select_all: true, ..ZoneManagementSend::new(nsid, action, 0) }, &[]).0
}

pub fn receive(nsid: u32, zone: u64, dwords: u64) -> ZoneManagementReceive {
    ZoneManagementReceive {
        nsid,
        slba: zone * SIZE,
        dwords,
        action: ZoneReceiveAction::REPORT,
        filter: ZoneReportFilter::ALL,
        partial: false,
    }
}

/// All zones: state and write pointer.
pub fn report(b: &mut Bench, nsid: u32) -> Vec<(ZoneState, Option<u64>)> {
    let (status, data) = b.io(receive(nsid, 0, 16 + 16 * ZONES), &[]);
    assert!(status.is_success(), "{status}");
    let report = ZoneReport::parse(&data, 0).unwrap();
    assert_eq!(report.nzones(), report.zones().count() as u64);
    let zones: Vec<_> = report.zones().map(|(zone, _)| (zone.state(), zone.write_pointer())).collect();
    for (i, (zone, _)) in (0..).zip(report.zones()) {
        assert_eq!((zone.zslba.get(), zone.zcap.get()), (i * SIZE, CAPACITY));
    }
    zones
}

pub fn state(b: &mut Bench, nsid: u32, zone: usize) -> ZoneState {
    report(b, nsid)[zone].0
}

pub fn append(b: &mut Bench, nsid: u32, zone: u64, blocks: u32, data: &[u8]) -> Result<u64, Status> {
    let command = Command::zone_append(nsid, zone * SIZE, blocks);
    let (completion, _) = b.on(b.controller, 1, &command, data);
    if completion.status().is_success() { Ok(appended_lba(&completion)) } else { Err(completion.status()) }
}

pub fn write(b: &mut Bench, nsid: u32, lba: u64, blocks: u32) -> Status {
    let data = pattern(lba as u32, blocks as usize * 4096);
    b.io(IoCommand::Write(Blocks::new(nsid, lba, blocks)), &data).0
}
