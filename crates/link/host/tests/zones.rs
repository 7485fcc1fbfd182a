//! The host against a fake drive with one zoned namespace.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use host::{
    CompletedCommand, Connected, Data, Error, Host, Identity, IoQueue, Queue, Tag, Transport, TransportError,
    Zoned, Zones,
};
use nvme::identify::*;
use nvme::log::{ChangedZones, LogId};
use nvme::property::Cap;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::zone::*;
use nvme::{AdminCommand, CNTLID_DYNAMIC, Command, Completion, Csi, IoCommand, IoOpcode, Status};

const BLOCK: usize = 4096;
const ZONE: u64 = 0x1000;
const CAPACITY: u64 = 0xC00;
const EXTENSION: usize = 128;

/// A namespace of zones, and what the host asked of it.
struct Drive {
    zones: Vec<(ZoneDescriptor, Vec<u8>)>,
    changed: Vec<u64>,
    /// CSI of the only namespace.
    csi: Csi,
    /// Whether it lists its command sets and their namespaces.
    lists: bool,
    /// Protection Information Type.
    protection: u8,
    seen: Vec<Command>,
    /// First bytes of the blocks that were appended.
    appended: Vec<u8>,
    created: Option<(Csi, NamespaceCreate)>,
    /// Whether reports begin with the first zone and ignore the LBA.
    stuck: bool,
}

type Shared = Rc<RefCell<Drive>>;

#[derive(Clone)]
struct Fake(Shared);

struct FakeQueue {
    drive: Shared,
    admin: bool,
    done: VecDeque<CompletedCommand>,
    tag: u16,
}

fn zone(index: usize, state: ZoneState, written: u64) -> (ZoneDescriptor, Vec<u8>) {
    let start = index as u64 * ZONE;
    (ZoneDescriptor::new(start, CAPACITY, state, start + written), vec![index as u8; EXTENSION])
}

fn connect(zones: usize) -> (Shared, Host<Fake>) {
    // Every third zone is full.
    let state = |index| if index % 3 == 2 { ZoneState::FULL } else { ZoneState::EMPTY };
    let drive = Rc::new(RefCell::new(Drive {
        zones: (0..zones).map(|index| zone(index, state(index), 0)).collect(),
        changed: Vec::new(),
        csi: Csi::ZONED,
        lists: true,
        protection: 0,
        seen: Vec::new(),
        appended: Vec::new(),
        created: None,
        stuck: false,
    }));
    let identity = Identity::new("nqn.2026-11.org.example:host".parse().unwrap());
    let host = Host::connect(Fake(drive.clone()), &identity).unwrap();
    (drive, host)
}

fn open(zones: usize) -> (Shared, Zoned, IoQueue<FakeQueue>) {
    let (drive, mut host) = connect(zones);
    let zoned = host.zoned_namespace(1).unwrap();
    let queue = host.io_queue(4).unwrap();
    drive.borrow_mut().seen.clear();
    (drive, zoned, queue)
}

impl Transport for Fake {
    type Queue = FakeQueue;

    fn connect(&mut self, _: &Identity) -> Result<Connected<FakeQueue>, Error> {
        let admin = FakeQueue { drive: self.0.clone(), admin: true, done: VecDeque::new(), tag: 0 };
        Ok(Connected { admin, cntlid: 1, cap: Cap::new().with_mqes_z(63) })
    }

    fn open_io(&mut self, _: u16) -> Result<FakeQueue, Error> {
        Ok(FakeQueue { drive: self.0.clone(), admin: false, done: VecDeque::new(), tag: 0 })
    }

    fn shutdown(&mut self, _: &mut FakeQueue) -> Result<(), Error> {
        Ok(())
    }
}

impl Queue for FakeQueue {
    fn capacity(&self) -> usize {
        4
    }

    fn outstanding(&self) -> usize {
        self.done.len()
    }

    fn submit(&mut self, command: Command, mut data: Data) -> Result<Tag, TransportError> {
        self.tag += 1;
        let tag = Tag(self.tag);
        let mut drive = self.drive.borrow_mut();
        drive.seen.push(command);
        let buffer: &mut [u8] = match &mut data {
            Data::None => &mut [],
            Data::In(buffer) | Data::Out(buffer) => buffer,
        };
        let answer = if self.admin { drive.admin(&command, buffer) } else { drive.io(&command, buffer) };
        let completion = answer.unwrap_or_else(|status| Completion::new(0, status));
        self.done.push_back(CompletedCommand { tag, completion, data });
        Ok(tag)
    }

    fn next(&mut self, _: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        Ok(self.done.pop_front())
    }
}

fn give(page: &[u8], data: &mut [u8]) -> Result<Completion, Status> {
    let len = page.len().min(data.len());
    data[..len].copy_from_slice(&page[..len]);
    Ok(Completion::default())
}

impl Drive {
    fn admin(&mut self, command: &Command, data: &mut [u8]) -> Result<Completion, Status> {
        match AdminCommand::parse(command)? {
            AdminCommand::Identify(c) => self.identify(&c, data),
            AdminCommand::GetLogPage(log) if log.lid == LogId::CHANGED_ZONES => {
                assert_eq!((log.csi, log.nsid, log.rae, log.bytes()), (Csi::ZONED, 1, false, 4096));
                give(ChangedZones::new(std::mem::take(&mut self.changed)).as_bytes(), data)
            }
            AdminCommand::NamespaceManagement(c) => {
                self.created = Some((c.csi, NamespaceCreate::read_from_bytes(data).unwrap()));
                Ok(Completion::success(0, 9))
            }
            AdminCommand::SetFeatures(_) => Ok(Completion::default()),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    fn identify(&self, c: &nvme::admin::Identify, data: &mut [u8]) -> Result<Completion, Status> {
        match (c.cns, c.csi) {
            (Cns::CONTROLLER, _) => {
                // 64 KiB.
                let ctrl = IdentifyController { mdts: 4, ..Default::default() };
                give(ctrl.as_bytes(), data)
            }
            (Cns::NAMESPACE, _) => {
                let mut ns = IdentifyNamespace { flbas: Flbas::from_format_index(3), ..Default::default() };
                ns.nsze.set(self.zones.len() as u64 * ZONE);
                ns.lbaf[3] = LbaFormat::new(12, if self.protection == 0 { 0 } else { 8 });
                ns.dps = Dps::new().with_pit(self.protection);
                give(ns.as_bytes(), data)
            }
            (Cns::NAMESPACE_DESCRIPTORS, _) => {
                let mut page = [0; 4096];
                NamespaceIdDescriptor::write_list(&[NamespaceIdDescriptor::Csi(self.csi)], &mut page);
                give(&page, data)
            }
            (Cns::IO_COMMAND_SETS, _) if self.csi == Csi::ZONED && self.lists => {
                assert_eq!(c.cntid, CNTLID_DYNAMIC);
                let mut sets = IoCommandSets::default();
                sets.iocsc[0].set(0b101);
                give(sets.as_bytes(), data)
            }
            (Cns::IOCS_ACTIVE_NAMESPACES, Csi::ZONED) if self.lists => {
                let mut list = NamespaceList::default();
                list.nsid[0].set(u32::from(c.nsid == 0));
                give(list.as_bytes(), data)
            }
            (Cns::IOCS_CONTROLLER, Csi::NVM) => give(NvmController::default().as_bytes(), data),
            (Cns::IOCS_CONTROLLER, Csi::ZONED) if self.csi == Csi::ZONED => {
                // 32 KiB.
                give(ZonedController { zasl: 3, ..Default::default() }.as_bytes(), data)
            }
            (Cns::IOCS_NAMESPACE, Csi::ZONED) => {
                let mut ns = ZonedNamespace::default();
                ns.set_max_active(Some(14));
                ns.set_max_open(None);
                ns.set_zrwa_resources(5);
                ns.zrwas.set(256);
                ns.zrwafg.set(16);
                ns.zrwacap.set_expflushsup(true);
                ns.lbafe[3] = LbaFormatExtension::new(ZONE, (EXTENSION / 64) as u8);
                give(ns.as_bytes(), data)
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn io(&mut self, command: &Command, data: &mut [u8]) -> Result<Completion, Status> {
        match IoCommand::parse_of(command, self.csi)? {
            IoCommand::ZoneManagementReceive(c) => {
                assert_eq!(c.bytes(), data.len() as u64);
                let report = self.report(&c);
                give(&report, data)
            }
            IoCommand::ZoneManagementSend(c) => self.send(&c, data),
            IoCommand::ZoneAppend(blocks) => {
                assert_eq!(data.len(), blocks.nlb as usize * BLOCK);
                let (zone, _) = &mut self.zones[(blocks.slba / ZONE) as usize];
                let wp = zone.write_pointer().ok_or(Status::ZONE_IS_FULL)?;
                self.appended.extend(data.iter().step_by(BLOCK));
                *zone = ZoneDescriptor::new(
                    blocks.slba,
                    CAPACITY,
                    ZoneState::IMPLICITLY_OPENED,
                    wp + u64::from(blocks.nlb),
                );
                Ok(Completion::default().with_result64(wp))
            }
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    fn report(&self, c: &ZoneManagementReceive) -> Vec<u8> {
        let extended = c.action == ZoneReceiveAction::EXTENDED_REPORT;
        let first = if self.stuck { 0 } else { (c.slba / ZONE) as usize };
        let listed: Vec<_> =
            self.zones[first..].iter().filter(|(zone, _)| c.filter.lists(zone.state())).collect();
        let each = if extended { 64 + EXTENSION } else { 64 };
        let fits = (c.bytes() as usize - 64) / each;
        let nzones = if c.partial { listed.len().min(fits) } else { listed.len() };
        let mut bytes =
            ZoneReportHeader { nzones: (nzones as u64).into(), ..Default::default() }.as_bytes().to_vec();
        for (zone, extension) in listed.into_iter().take(fits) {
            bytes.extend(zone.as_bytes());
            if extended {
                bytes.extend(extension);
            }
        }
        bytes
    }

    fn send(&mut self, c: &ZoneManagementSend, data: &[u8]) -> Result<Completion, Status> {
        let index = (c.slba / ZONE) as usize;
        match c.action {
            ZoneSendAction::SET_DESCRIPTOR_EXTENSION => {
                assert_eq!(data.len(), EXTENSION);
                let (zone, extension) = &mut self.zones[index];
                zone.za.set_zdev(true);
                extension.copy_from_slice(data);
            }
            ZoneSendAction::RESET if c.select_all => {
                self.zones = (0..self.zones.len()).map(|index| zone(index, ZoneState::EMPTY, 0)).collect();
            }
            ZoneSendAction::FINISH => self.zones[index] = zone(index, ZoneState::FULL, 0),
            ZoneSendAction::OPEN if self.zones[index].0.state() == ZoneState::FULL => {
                return Err(Status::INVALID_ZONE_STATE_TRANSITION);
            }
            _ => {}
        }
        Ok(Completion::default())
    }
}

#[test]
fn a_zoned_namespace_says_what_it_is() {
    let (drive, mut host) = connect(10);
    assert_eq!(host.command_set(1).unwrap(), Csi::ZONED);
    let zoned = host.zoned_namespace(1).unwrap();
    assert_eq!((zoned.zones(), zoned.zone_blocks, zoned.extension_bytes), (10, ZONE, 128));
    assert_eq!((zoned.namespace.limits.append, zoned.max_active, zoned.max_open), (8, Some(14), None));
    let zrwa = zoned.zrwa.unwrap();
    assert_eq!(
        (zrwa.resources, zrwa.blocks, zrwa.flush_granularity, zrwa.explicit_flush),
        (5, 256, 16, true)
    );
    assert_eq!(zoned.zone_of(ZONE * 3 + 5), ZONE * 3);

    drive.borrow_mut().csi = Csi::NVM;
    assert!(matches!(host.zoned_namespace(1), Err(Error::Usage(_))));
}

#[test]
fn zoned_namespaces_are_found_among_others() {
    let (drive, mut host) = connect(10);
    let found = host.zoned_among(&[1, 2]).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, found[0].1.max_active(), found[0].1.lbafe[3].zsze.get()), (1, Some(14), ZONE));
    // One that lists neither command sets nor their namespaces, as Linux 6.12: it is asked about the command set, and the namespace about its own.
    drive.borrow_mut().lists = false;
    assert!(host.has_zones().unwrap());
    assert_eq!(host.zoned_among(&[1]).unwrap().len(), 1);
    // A drive that knows neither question has none, and is asked no other.
    drive.borrow_mut().csi = Csi::NVM;
    drive.borrow_mut().seen.clear();
    assert!(!host.has_zones().unwrap());
    assert!(host.zoned_among(&[1, 2]).unwrap().is_empty());
    assert_eq!(drive.borrow().seen.len(), 4);
}

#[test]
fn namespaces_are_created_with_a_command_set() {
    let (drive, mut host) = connect(1);
    let mut create = host::namespace_create(1 << 20, 0, 1);
    let zoned = ZonedCreate { rar: 14.into(), ror: 14.into(), ..ZonedCreate::default() };
    create.set_zoned(&zoned);
    assert_eq!(host.create_namespace_of(Csi::ZONED, &create).unwrap(), 9);
    let (csi, created) = drive.borrow_mut().created.take().unwrap();
    assert_eq!((csi, created.zoned()), (Csi::ZONED, zoned));
    host.create_namespace(&create).unwrap();
    assert_eq!(drive.borrow().created.as_ref().unwrap().0, Csi::NVM);
}

#[test]
fn changed_zones_are_listed() {
    let (drive, mut host) = connect(1);
    assert_eq!(host.changed_zones(1).unwrap(), Some(vec![]));
    drive.borrow_mut().changed = vec![0, ZONE];
    assert_eq!(host.changed_zones(1).unwrap(), Some(vec![0, ZONE]));
    drive.borrow_mut().changed = (0..600).collect();
    assert_eq!(host.changed_zones(1).unwrap(), None);
}

#[test]
fn long_reports_come_in_pieces() {
    let (drive, zoned, mut queue) = open(2500);
    let all = queue.report_zones(&zoned, 0, ZoneReportFilter::ALL, usize::MAX).unwrap();
    assert_eq!(all.len(), 2500);
    assert!(all.iter().zip(0..).all(|(zone, index)| zone.zslba.get() == index * ZONE));
    // 1,023 descriptors and the header are 64 KiB.
    assert_eq!(drive.borrow().seen.len(), 3);

    let full = queue.report_zones(&zoned, 0, ZoneReportFilter::FULL, usize::MAX).unwrap();
    assert_eq!(full.len(), 833);
    assert!(full.iter().all(|zone| zone.state() == ZoneState::FULL && zone.write_pointer().is_none()));
    assert_eq!(queue.count_zones(&zoned, 0, ZoneReportFilter::FULL).unwrap(), 833);
    assert_eq!(queue.count_zones(&zoned, 3 * ZONE, ZoneReportFilter::FULL).unwrap(), 832);
    assert_eq!(queue.count_zones(&zoned, 0, ZoneReportFilter::OFFLINE).unwrap(), 0);

    let extended = queue.report_zones_extended(&zoned, 5, ZoneReportFilter::ALL, 900).unwrap();
    assert_eq!(extended.len(), 900);
    for (index, (zone, extension)) in extended.iter().enumerate() {
        assert_eq!(zone.zslba.get(), index as u64 * ZONE);
        assert_eq!(extension, &[index as u8; EXTENSION]);
    }
    // From within a zone on, and no more than were asked for.
    let one = queue.report_zones(&zoned, 7 * ZONE + 9, ZoneReportFilter::ALL, 1).unwrap();
    assert_eq!(one.iter().map(|zone| zone.zslba.get()).collect::<Vec<_>>(), [7 * ZONE]);
    assert!(queue.report_zones(&zoned, 0, ZoneReportFilter::OFFLINE, 9).unwrap().is_empty());
    assert!(queue.report_zones(&zoned, 2500 * ZONE, ZoneReportFilter::ALL, 9).unwrap().is_empty());
    assert!(queue.report_zones(&zoned, 0, ZoneReportFilter::ALL, 0).unwrap().is_empty());
}

#[test]
fn a_report_that_does_not_ascend_ends() {
    let (drive, zoned, mut queue) = open(2500);
    drive.borrow_mut().stuck = true;
    let stuck = queue.report_zones(&zoned, 0, ZoneReportFilter::ALL, usize::MAX).unwrap_err();
    assert!(matches!(stuck, Error::Answer { .. }), "{stuck}");
}

#[test]
fn zones_are_managed() {
    let (drive, zoned, mut queue) = open(4);
    let actions = [
        ZoneSendAction::CLOSE,
        ZoneSendAction::FINISH,
        ZoneSendAction::OPEN,
        ZoneSendAction::RESET,
        ZoneSendAction::OFFLINE,
    ];
    for action in actions {
        for zones in [Zones::One(ZONE), Zones::All] {
            drive.borrow_mut().seen.clear();
            let _ = queue.manage_zones(1, action, zones);
            let sent = IoCommand::parse(&drive.borrow().seen[0]).unwrap();
            let select_all = zones == Zones::All;
            let slba = if select_all { 0 } else { ZONE };
            let expected = ZoneManagementSend { select_all, ..ZoneManagementSend::new(1, action, slba) };
            assert_eq!(sent, IoCommand::ZoneManagementSend(expected));
        }
    }
    queue.manage_zones(1, ZoneSendAction::FINISH, Zones::One(ZONE)).unwrap();
    let refused = queue.manage_zones(1, ZoneSendAction::OPEN, Zones::One(ZONE)).unwrap_err();
    assert!(refused.status().unwrap().is(Status::INVALID_ZONE_STATE_TRANSITION));
    assert_eq!(
        refused.to_string(),
        "Open Zone: namespace 1, zone at block 4096: the drive answered: Invalid Zone State Transition (SCT 1h, SC BFh)"
    );
    let wrong = queue.manage_zones(1, ZoneSendAction::FLUSH_ZRWA, Zones::All).unwrap_err();
    assert!(matches!(wrong, Error::Usage(_)));

    drive.borrow_mut().seen.clear();
    queue.open_zone_with_zrwa(1, 0).unwrap();
    queue.flush_zrwa(1, 15).unwrap();
    queue.set_zone_extension(&zoned, 0, b"log").unwrap();
    let sent: Vec<_> = drive.borrow().seen.iter().map(|c| (c.cdw10.get(), c.cdw13.get())).collect();
    assert_eq!(sent, [(0, 0x203), (15, 0x11), (0, 0x10)]);
    let (zone, extension) = &queue.report_zones_extended(&zoned, 0, ZoneReportFilter::ALL, 1).unwrap()[0];
    assert!(zone.za.zdev());
    assert_eq!((&extension[..3], &extension[3..]), (&b"log"[..], &[0; EXTENSION - 3][..]));
    assert!(matches!(queue.set_zone_extension(&zoned, 0, &[1; 129]), Err(Error::Usage(_))));
}

#[test]
fn appends_say_where_the_blocks_are() {
    let (drive, zoned, mut queue) = open(4);
    assert_eq!(queue.append(&zoned, ZONE, &[1; 2 * BLOCK]).unwrap(), ZONE);
    assert_eq!(queue.append(&zoned, ZONE, &[2; 8 * BLOCK]).unwrap(), ZONE + 2);
    assert_eq!(queue.append(&zoned, ZONE, &[2; BLOCK]).unwrap(), ZONE + 10);
    let full = queue.append(&zoned, 2 * ZONE, &[2; BLOCK]).unwrap_err();
    assert!(full.status().unwrap().is(Status::ZONE_IS_FULL));
    for length in [0, 100, BLOCK + 1, 9 * BLOCK] {
        assert!(matches!(queue.append(&zoned, ZONE, &vec![0; length]), Err(Error::Usage(_))), "{length}");
    }
    assert_eq!(drive.borrow().seen.len(), 4);
    assert!(drive.borrow().seen.iter().all(|c| c.opc == IoOpcode::ZONE_APPEND.0 && c.cdw12.get() >> 16 == 0));
}

/// Buffers are used again: for less, for more, and after an append that failed.
#[test]
fn appends_carry_their_own_blocks() {
    let (drive, zoned, mut queue) = open(4);
    let mut expected = Vec::new();
    for (round, blocks) in [30, 1, 7, 8, 40, 3, 9, 33].into_iter().enumerate() {
        let numbers: Vec<u8> = (0..blocks).map(|block| (round * 31 + block) as u8).collect();
        let data: Vec<u8> = numbers.iter().flat_map(|number| [*number; BLOCK]).collect();
        let mut appends = queue.begin_appends(&zoned, ZONE, &data, round % 2 == 0).unwrap();
        let lbas = queue.end_appends(&mut appends).unwrap();
        assert_eq!(lbas[0], ZONE + expected.len() as u64, "round {round}");
        expected.extend(numbers);
        let mut refused = queue.begin_appends(&zoned, 2 * ZONE, &data, false).unwrap();
        queue.end_appends(&mut refused).unwrap_err();
        assert!(refused.into_data() == data, "round {round}");
    }
    assert_eq!(drive.borrow().appended, expected);
}

#[test]
fn reference_tags_of_appends_are_remapped() {
    for (protection, piremap) in [(0, false), (1, true), (2, true), (3, false)] {
        let (drive, mut host) = connect(4);
        drive.borrow_mut().protection = protection;
        let zoned = host.zoned_namespace(1).unwrap();
        let mut queue = host.io_queue(4).unwrap();
        drive.borrow_mut().seen.clear();
        queue.append(&zoned, ZONE, &[1; BLOCK]).unwrap();
        let Ok(IoCommand::ZoneAppend(blocks)) = IoCommand::parse(&drive.borrow().seen[0]) else {
            panic!("no append")
        };
        assert_eq!((blocks.piremap, blocks.prinfo.pract()), (piremap, protection != 0), "type {protection}");
        assert_eq!(u64::from(blocks.lbtl), ZONE);
    }
}
