//! A scripted drive behind a socket: just enough of a controller to see what the host sends.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use fabric::{discovery, target};
use nvme::admin::{
    LbaStatusDescriptor, LbaStatusHeader, NamespaceAttachmentSelect, NamespaceManagementSelect,
};
use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::fabrics::{ConnectData, ConnectResult, FabricsCommand};
use nvme::identify::*;
use nvme::io::DsmRange;
use nvme::log::*;
use nvme::property::*;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{AdminCommand, CNTLID_DYNAMIC, Command, Completion, IoCommand, Nqn, Status, U16, U32, U64};

pub const BLOCK: usize = 512;
pub const SUBNQN: &str = "nqn.2026-11.org.example:scripted";

/// What all connections share.
#[derive(Default)]
pub struct Drive {
    /// Contents by NSID; attached if true.
    pub namespaces: BTreeMap<u32, (Vec<u8>, bool)>,
    /// Every command that came.
    pub seen: Vec<Command>,
    pub csts: Csts,
    pub changed: Vec<u32>,
    /// Status of the next I/O command.
    pub fail_next: Option<Status>,
    /// Whether connections are cut at the next command.
    pub cut: bool,
    pub hosts: Vec<String>,
    /// Allocated ranges, if the drive reports them: first blocks and numbers of blocks.
    pub allocated: Option<Vec<(u64, u32)>>,
    /// Whether the next question for the limits of the NVM Command Set ends with the power.
    pub loses_power: bool,
}

pub type Shared = Arc<Mutex<Drive>>;

/// Listens on a free TCP port until the test ends.
pub fn listen_tcp(config: target::Config) -> (u16, Shared) {
    let drive = Shared::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let shared = drive.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (shared, config) = (shared.clone(), config.clone());
            std::thread::spawn(move || serve(stream.unwrap(), &shared, config));
        }
    });
    (port, drive)
}

/// Listens until the test ends.
pub fn listen(path: &std::path::Path, config: target::Config) -> Shared {
    let drive = Shared::default();
    let listener = UnixListener::bind(path).unwrap();
    let shared = drive.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (shared, config) = (shared.clone(), config.clone());
            std::thread::spawn(move || serve(stream.unwrap(), &shared, config));
        }
    });
    drive
}

enum Role {
    New,
    Discovery(discovery::Controller),
    Admin,
    Io,
}

fn serve(mut stream: impl Read + Write, shared: &Shared, config: target::Config) {
    let ioccsz = config.ioccsz();
    let mut connection = target::Connection::new(config);
    let mut role = Role::New;
    let mut events = Vec::new();
    let mut buffer = vec![0; 10_000];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{error}"),
        };
        let result = connection.receive(&buffer[..count]);
        while let Some(incoming) = connection.next() {
            let (sqe, tag) = (incoming.sqe, incoming.tag);
            let data = connection.data(tag).unwrap();
            let mut drive = shared.lock().unwrap();
            if let Role::New = role
                && let Ok((connect, _)) = ConnectData::read_from_prefix(data)
            {
                drive.hosts.push(Nqn::from_field(&connect.hostnqn).unwrap().to_string());
                role = if discovery::Controller::is_meant(&connect) {
                    let entry = discovery::entry(&SUBNQN.parse().unwrap(), "", "", 1);
                    Role::Discovery(discovery::Controller::new(9, &[entry], 1))
                } else if connect.cntlid.get() == CNTLID_DYNAMIC {
                    Role::Admin
                } else {
                    Role::Io
                };
            }
            let answer = if let Role::Discovery(controller) = &mut role {
                controller.execute(&sqe, data)
            } else {
                drive.seen.push(sqe);
                if drive.cut && sqe.opc != 0x7F {
                    return;
                }
                if matches!(role, Role::Io) {
                    Some(drive.io(&sqe, data))
                } else {
                    drive.admin(&sqe, data, ioccsz)
                }
            };
            match answer {
                Some((completion, filled)) => connection.respond(tag, completion, filled).unwrap(),
                None => events.push(tag),
            }
            if !drive.changed.is_empty()
                && let Some(tag) = events.pop()
            {
                let event = AsyncEvent::notice(NoticeInfo::NAMESPACE_ATTRIBUTE_CHANGED);
                connection.respond(tag, Completion::success(0, event.to_dw0()), 0).unwrap();
            }
        }
        let bytes: Vec<u8> = connection.transmit().flatten().copied().collect();
        connection.sent(bytes.len());
        if stream.write_all(&bytes).is_err() || result.is_err() {
            return;
        }
    }
}

fn give(page: &[u8], data: &mut [u8]) -> Option<(Completion, usize)> {
    let len = page.len().min(data.len());
    data[..len].copy_from_slice(&page[..len]);
    Some((Completion::default(), len))
}

impl Drive {
    fn admin(&mut self, sqe: &Command, data: &mut [u8], ioccsz: u32) -> Option<(Completion, usize)> {
        let fail = |status: Status| Some((Completion::new(0, status.with_dnr()), 0));
        let command = match AdminCommand::parse(sqe) {
            Ok(command) => command,
            Err(status) => return fail(status),
        };
        match command {
            AdminCommand::Fabrics(FabricsCommand::Connect(_)) => {
                let result = ConnectResult { cntlid: 5, atr: false, ascr: false };
                Some((Completion::success(0, result.to_dw0()), 0))
            }
            AdminCommand::Fabrics(FabricsCommand::PropertyGet { offset, .. }) => {
                let value = match offset {
                    PropertyOffset::CAP => Cap::new().with_mqes_z(15).with_to(1).into_bits().get(),
                    PropertyOffset::CSTS => self.csts.into_bits().get().into(),
                    _ => return fail(Status::INVALID_FIELD),
                };
                Some((Completion::default().with_result64(value), 0))
            }
            AdminCommand::Fabrics(FabricsCommand::PropertySet { value, .. }) => {
                let cc = Cc::from_bits(U32::new(u32::try_from(value).unwrap()));
                self.csts = Csts::new().with_rdy(cc.en());
                if cc.shn() == Shn::NORMAL {
                    self.csts.set_shst(Shst::COMPLETE);
                }
                Some((Completion::default(), 0))
            }
            AdminCommand::Identify(identify) => self.identify(&identify, data, ioccsz),
            AdminCommand::GetLogPage(log) => match log.lid {
                LogId::SMART => {
                    let mut smart = SmartHealth::default();
                    smart.data_units_written.set(u128::MAX);
                    smart.temp_sensor[1].set(300);
                    give(smart.as_bytes(), data)
                }
                LogId::NAMESPACE_STATISTICS => {
                    let mut log = NamespaceStatistics::new(sqe.nsid.get(), 1, 1);
                    log.read_latency.count[latency_bucket(5_000)].set(3);
                    log.read_latency_sum.sum_ns.set(15_000);
                    log.read_latency_sum.max_ns.set(5_000);
                    give(log.as_bytes(), data)
                }
                LogId::CHANGED_NAMESPACES => {
                    let log = ChangedNamespaces::new(std::mem::take(&mut self.changed));
                    give(log.as_bytes(), data)
                }
                LogId::ERROR => {
                    let offset = usize::try_from(log.offset).unwrap();
                    let mut entries = vec![ErrorInformation::default(); 128];
                    for (index, entry) in entries.iter_mut().enumerate().take(100) {
                        entry.error_count.set(100 - index as u64);
                    }
                    give(&entries.as_bytes()[offset..], data)
                }
                _ => fail(Status::INVALID_LOG_PAGE),
            },
            AdminCommand::GetLbaStatus(get) => {
                let end = get.slba + u64::from(get.range);
                let after = self.allocated.iter().flatten().filter(|(lba, _)| (get.slba..end).contains(lba));
                let found: Vec<_> = after.copied().collect();
                // An answer has two ranges at most.
                let shown = &found[..found.len().min(2)];
                let cmpc = if shown.len() == found.len() { 2 } else { 1 };
                let nlsd = U32::new(shown.len() as u32);
                let header = LbaStatusHeader { nlsd, cmpc, ..LbaStatusHeader::default() };
                let mut page = header.as_bytes().to_vec();
                for (lba, blocks) in shown {
                    let (dslba, nlb) = (U64::new(*lba), U32::new(*blocks));
                    let range = LbaStatusDescriptor { dslba, nlb, ..LbaStatusDescriptor::default() };
                    page.extend(range.as_bytes());
                }
                give(&page, data)
            }
            AdminCommand::SetFeatures(_) => Some((Completion::default(), 0)),
            AdminCommand::AsyncEventRequest => None,
            AdminCommand::NamespaceManagement(ns) if ns.sel == NamespaceManagementSelect::CREATE => {
                let create = NamespaceCreate::read_from_bytes(data).unwrap();
                let blocks = usize::try_from(create.nsze.get()).unwrap();
                if blocks > 4096 {
                    return fail(Status::NAMESPACE_INSUFFICIENT_CAPACITY);
                }
                let nsid = self.namespaces.keys().max().unwrap_or(&0) + 1;
                self.namespaces.insert(nsid, (vec![0; blocks * BLOCK], false));
                Some((Completion::success(0, nsid), 0))
            }
            AdminCommand::NamespaceManagement(ns) => {
                self.namespaces.remove(&ns.nsid);
                self.changed.push(ns.nsid);
                Some((Completion::default(), 0))
            }
            AdminCommand::NamespaceAttachment(attachment) => {
                let list = ControllerList::read_from_bytes(data).unwrap();
                assert_eq!(list.iter().collect::<Vec<_>>(), [5]);
                match self.namespaces.get_mut(&attachment.nsid) {
                    Some(ns) => ns.1 = attachment.sel == NamespaceAttachmentSelect::ATTACH,
                    None => return fail(Status::INVALID_NAMESPACE),
                }
                Some((Completion::default(), 0))
            }
            _ => fail(Status::INVALID_OPCODE),
        }
    }

    fn identify(
        &mut self,
        identify: &nvme::admin::Identify,
        data: &mut [u8],
        ioccsz: u32,
    ) -> Option<(Completion, usize)> {
        match identify.cns {
            Cns::CONTROLLER => {
                let mut ctrl = IdentifyController { mdts: 2, elpe_z: 127, ..Default::default() };
                ctrl.oacs.set_nms(true);
                ctrl.oacs.set_glss(true);
                ctrl.sn = ascii("42");
                ctrl.mn = ascii("Scripted");
                ctrl.fr = ascii("1");
                ctrl.ioccsz.set(ioccsz);
                ctrl.subnqn = SUBNQN.parse::<Nqn>().unwrap().to_field();
                give(ctrl.as_bytes(), data)
            }
            Cns::IOCS_CONTROLLER if std::mem::take(&mut self.loses_power) => {
                Some((Completion::new(0, Status::POWER_LOSS), 0))
            }
            Cns::IOCS_CONTROLLER if self.allocated.is_some() => {
                give(NvmController { aocs: U16::new(1), ..Default::default() }.as_bytes(), data)
            }
            Cns::ACTIVE_NAMESPACES | Cns::ALLOCATED_NAMESPACES => {
                let all = self.namespaces.iter().filter(|(nsid, ns)| {
                    **nsid > identify.nsid && (ns.1 || identify.cns == Cns::ALLOCATED_NAMESPACES)
                });
                give(NamespaceList::new(all.map(|(nsid, _)| *nsid)).as_bytes(), data)
            }
            Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE => {
                let mut ns = IdentifyNamespace::default();
                if let Some((contents, attached)) = self.namespaces.get(&identify.nsid)
                    && (*attached || identify.cns == Cns::ALLOCATED_NAMESPACE)
                {
                    ns.nsze.set((contents.len() / BLOCK) as u64);
                    ns.lbaf[0] = LbaFormat::new(9, 0);
                }
                give(ns.as_bytes(), data)
            }
            _ => Some((Completion::new(0, Status::INVALID_FIELD), 0)),
        }
    }

    fn io(&mut self, sqe: &Command, data: &mut [u8]) -> (Completion, usize) {
        if sqe.opc == 0x7F {
            return (Completion::success(0, 5), 0);
        }
        if let Some(status) = self.fail_next.take() {
            return (Completion::new(0, status), 0);
        }
        let contents = match self.namespaces.get_mut(&sqe.nsid.get()) {
            Some((contents, true)) => contents,
            _ => return (Completion::new(0, Status::INVALID_NAMESPACE), 0),
        };
        let range = |slba: u64, blocks: u32| {
            let start = usize::try_from(slba).unwrap() * BLOCK;
            start..start + blocks as usize * BLOCK
        };
        match IoCommand::parse(sqe) {
            Ok(IoCommand::Read(b)) => {
                data.copy_from_slice(&contents[range(b.slba, b.nlb)]);
                return (Completion::default(), data.len());
            }
            Ok(IoCommand::Write(b)) => contents[range(b.slba, b.nlb)].copy_from_slice(data),
            Ok(IoCommand::Compare(b)) if contents[range(b.slba, b.nlb)] != *data => {
                return (Completion::new(0, Status::COMPARE_FAILURE), 0);
            }
            Ok(IoCommand::WriteZeroes(b)) => contents[range(b.slba, b.nlb)].fill(0),
            Ok(IoCommand::DatasetManagement(dsm)) => {
                for bytes in data.chunks_exact(16).take(dsm.nr.into()) {
                    let dsm = DsmRange::read_from_bytes(bytes).unwrap();
                    contents[range(dsm.slba.get(), dsm.lengthlb.get())].fill(0);
                }
            }
            Ok(IoCommand::Flush { .. } | IoCommand::Compare(_)) => {}
            _ => return (Completion::new(0, Status::INVALID_OPCODE), 0),
        }
        (Completion::default(), 0)
    }
}
