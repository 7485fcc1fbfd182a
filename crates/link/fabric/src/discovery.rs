//! A discovery controller (Base 3.1.3.3): tells hosts which subsystems listen where.
//!
//! It has no namespaces and no state beyond its properties, so it needs no drive: the front end makes one
//! for every admin queue whose Connect names [`Nqn::DISCOVERY`], and answers all that comes on the queue
//! with [`Controller::execute`].
//!
//! When the log changes, the front end tells every controller with [`Controller::update`] and answers waiting requests
//! for events with [`Controller::take_event`]. The keep-alive timer is the front end's, too.
//!
//! Not here: referrals to other discovery services, registration by hosts, Abort.

use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::fabrics::{ConnectData, ConnectResult, FabricsCommand};
use nvme::feature::{AsyncEventConfiguration, FeatureId, Select};
use nvme::identify::{Cns, ControllerType, IdentifyController, ascii};
use nvme::log::{DiscoveryEntry, DiscoveryHeader, LogId, SubsystemType, SupportedLogPages, TransportType};
use nvme::property::{Cap, Cc, Csts, PropertyOffset, Shn, Shst};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{
    AdminCommand, CNTLID_DYNAMIC, Command, Completion, Nqn, Status, U32, U64, Version, data_transfer,
};

/// Entries of an admin queue at most (ASQSZ), of discovery controllers and others.
pub const ADMIN_ENTRIES: u16 = 128;

/// Asynchronous Event Requests that a controller holds (AERL + 1).
const EVENT_REQUESTS: u8 = 4;

/// What a host learns about one way to one subsystem.
#[must_use]
pub fn entry(subnqn: &Nqn, traddr: &str, trsvcid: &str, portid: u16) -> DiscoveryEntry {
    let mut entry = DiscoveryEntry {
        trtype: TransportType::TCP,
        // IPv6 addresses have colons; Unix sockets have no address family of their own.
        adrfam: if traddr.contains(':') { 2 } else { 1 },
        subtype: SubsystemType::NVM,
        // SQ flow control may be disabled; of a secure channel nothing is said.
        treq: 0b100,
        subnqn: subnqn.to_field(),
        trsvcid: ascii(trsvcid),
        traddr: ascii(traddr),
        ..DiscoveryEntry::default()
    };
    entry.portid.set(portid);
    entry.cntlid.set(CNTLID_DYNAMIC);
    entry.asqsz.set(ADMIN_ENTRIES);
    entry
}

/// What a host learns about this discovery service itself, at a port.
#[must_use]
pub fn current(traddr: &str, trsvcid: &str, portid: u16) -> DiscoveryEntry {
    // The name is the specification's and fits.
    let mut entry =
        Nqn::new(Nqn::DISCOVERY).map(|nqn| entry(&nqn, traddr, trsvcid, portid)).unwrap_or_default();
    entry.subtype = SubsystemType::CURRENT_DISCOVERY;
    // EPCSD: with a keep-alive timeout the connection persists, and tells of changes.
    entry.eflags.set(1 << 1);
    entry
}

/// The same over TLS 1.3 only (TCP 3.6: TREQ, and SECTYPE in TSAS).
#[must_use]
pub fn with_tls(mut entry: DiscoveryEntry) -> DiscoveryEntry {
    // Secure channel required, instead of not required; TLS 1.3.
    entry.treq = entry.treq & !0b11 | 0b01;
    entry.tsas[0] = 2;
    entry
}

/// One discovery controller: one association.
#[derive(Clone, Debug)]
pub struct Controller {
    cntlid: u16,
    log: Vec<u8>,
    mdts: u8,
    cc: Cc,
    csts: Csts,
    kato_ms: u32,
    configuration: AsyncEventConfiguration,
    /// Requests for events that wait.
    waiting: u8,
    /// The log has changed, and the host was not told.
    pending: bool,
    /// The host was told, and has not read the log since.
    masked: bool,
}

impl Controller {
    /// A controller with this ID that knows these entries. `generation` counts changes of the entries.
    #[must_use]
    pub fn new(cntlid: u16, entries: &[DiscoveryEntry], generation: u64) -> Self {
        Self {
            cntlid,
            log: log(entries, generation),
            mdts: 0,
            cc: Cc::new(),
            csts: Csts::new(),
            kato_ms: 0,
            configuration: AsyncEventConfiguration::new(),
            waiting: 0,
            pending: false,
            masked: false,
        }
    }

    /// Says truthfully how much data one command can move: a power of two of at least 4,096 bytes.
    #[must_use]
    pub fn with_max_transfer(mut self, bytes: u32) -> Self {
        self.mdts = u8::try_from((bytes >> 12).max(1).ilog2()).unwrap_or(0);
        self
    }

    /// The log has changed: the host is told if it asked for that (see [`Controller::take_event`]).
    pub fn update(&mut self, entries: &[DiscoveryEntry], generation: u64) {
        self.log = log(entries, generation);
        self.pending |= self.configuration.dlpcn() && !self.masked;
    }

    /// The completion of the Asynchronous Event Request that has waited for longest, if there is an event to report. Call this after
    /// every [`Controller::execute`] and [`Controller::update`].
    pub fn take_event(&mut self) -> Option<Completion> {
        if !self.pending || self.waiting == 0 {
            return None;
        }
        (self.pending, self.masked) = (false, true);
        self.waiting -= 1;
        Some(Completion::success(0, AsyncEvent::notice(NoticeInfo::DISCOVERY_LOG_CHANGE).to_dw0()))
    }

    /// Whether this Connect data asks for a discovery controller.
    #[must_use]
    pub fn is_meant(data: &ConnectData) -> bool {
        Nqn::from_field(&data.subnqn).is_ok_and(|nqn| nqn.as_str() == Nqn::DISCOVERY)
    }

    /// The Keep Alive Timeout that the host asked for, in milliseconds; 0 is none. The caller watches it.
    #[must_use]
    pub fn keep_alive_ms(&self) -> u32 {
        self.kato_ms
    }

    /// Executes a command. `data` is the command's buffer: what the host sent, or room for what it gets. The
    /// result is the completion and how many bytes of `data` to send; `None` when the command is to stay
    /// outstanding (Asynchronous Event Request).
    pub fn execute(&mut self, sqe: &Command, data: &mut [u8]) -> Option<(Completion, usize)> {
        let answer = AdminCommand::parse(sqe).and_then(|command| {
            let needed = data_transfer(sqe, true, |_| 0).bytes();
            if needed > data.len() as u64 {
                return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
            }
            match command {
                AdminCommand::AsyncEventRequest if self.csts.rdy() => {
                    if self.waiting >= EVENT_REQUESTS {
                        return Err(Status::AER_LIMIT_EXCEEDED.with_dnr());
                    }
                    self.waiting += 1;
                    Ok(None)
                }
                AdminCommand::Fabrics(command) => self.fabrics(command, data).map(|done| Some((done, 0))),
                _ if !self.csts.rdy() => Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr()),
                command => self.admin(&command, data).map(Some),
            }
        });
        match answer {
            Ok(answer) => answer,
            Err(status) => Some((Completion::new(0, status), 0)),
        }
    }

    fn fabrics(&mut self, command: FabricsCommand, data: &[u8]) -> Result<Completion, Status> {
        match command {
            FabricsCommand::Connect(connect) => {
                let (fields, _) =
                    ConnectData::read_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
                let fine =
                    connect.qid == 0 && Self::is_meant(&fields) && fields.cntlid.get() == CNTLID_DYNAMIC;
                if connect.recfmt != 0 {
                    return Err(Status::CONNECT_INCOMPATIBLE_FORMAT.with_dnr());
                }
                if !fine || Nqn::from_field(&fields.hostnqn).is_err() {
                    return Err(Status::CONNECT_INVALID_PARAMETERS.with_dnr());
                }
                self.kato_ms = connect.kato;
                let result = ConnectResult { cntlid: self.cntlid, atr: false, ascr: false };
                Ok(Completion::success(0, result.to_dw0()))
            }
            FabricsCommand::PropertyGet { offset, wide } => {
                let value = match (offset, wide) {
                    (PropertyOffset::CAP, true) => {
                        let cap =
                            Cap::new().with_mqes_z(ADMIN_ENTRIES - 1).with_cqr(true).with_to(2).with_css(1);
                        cap.into_bits().get()
                    }
                    (PropertyOffset::VS, false) => Version::V2_1.0.into(),
                    (PropertyOffset::CC, false) => self.cc.into_bits().get().into(),
                    (PropertyOffset::CSTS, false) => self.csts.into_bits().get().into(),
                    _ => return Err(Status::INVALID_FIELD.with_dnr()),
                };
                Ok(Completion::default().with_result64(value))
            }
            FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value } => {
                let value = U64::new(value).to_bytes();
                let cc = Cc::from_bits(U32::from_bytes([value[0], value[1], value[2], value[3]]));
                let shuts_down = cc.shn() != Shn::NONE;
                self.csts = Csts::new().with_rdy(cc.en()).with_shst(if shuts_down {
                    Shst::COMPLETE
                } else {
                    Shst::NORMAL
                });
                if self.cc.en() && !cc.en() {
                    // A reset: requests that wait are the front end's to drop with the connection.
                    self.configuration = AsyncEventConfiguration::new();
                    (self.pending, self.masked) = (false, false);
                }
                self.cc = cc;
                Ok(Completion::default())
            }
            FabricsCommand::PropertySet { .. } => Err(Status::INVALID_FIELD.with_dnr()),
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    fn admin(&mut self, command: &AdminCommand, data: &mut [u8]) -> Result<(Completion, usize), Status> {
        let done = Completion::default();
        match command {
            AdminCommand::Identify(identify) if identify.cns == Cns::CONTROLLER => {
                Ok((done, copy(self.identify().as_bytes(), 0, data)))
            }
            AdminCommand::GetLogPage(log) => {
                let supported;
                let page: &[u8] = match log.lid {
                    LogId::DISCOVERY => &self.log,
                    LogId::SUPPORTED => {
                        let mut pages = SupportedLogPages::default();
                        for lid in [LogId::SUPPORTED, LogId::DISCOVERY] {
                            pages.lid[usize::from(lid.0)].set_lsupp(true);
                        }
                        supported = pages;
                        supported.as_bytes()
                    }
                    _ => return Err(Status::INVALID_LOG_PAGE.with_dnr()),
                };
                let offset = usize::try_from(log.offset).unwrap_or(usize::MAX);
                if log.ot || offset % 4 != 0 || offset > page.len() {
                    return Err(Status::INVALID_FIELD.with_dnr());
                }
                if log.lid == LogId::DISCOVERY && !log.rae {
                    (self.pending, self.masked) = (false, false);
                }
                let wanted = usize::try_from(log.bytes()).unwrap_or(usize::MAX).min(data.len());
                Ok((done, copy(page, offset, &mut data[..wanted])))
            }
            AdminCommand::SetFeatures(set) if set.sv => Err(Status::FEATURE_NOT_SAVEABLE.with_dnr()),
            AdminCommand::SetFeatures(set) if set.fid == FeatureId::KEEP_ALIVE_TIMER => {
                self.kato_ms = set.cdw11;
                Ok((done, 0))
            }
            // The only event is that of the log; asking for others is no mistake.
            AdminCommand::SetFeatures(set) if set.fid == FeatureId::ASYNC_EVENT_CONFIGURATION => {
                let asked = AsyncEventConfiguration::from_bits(U32::new(set.cdw11));
                self.configuration = AsyncEventConfiguration::new().with_dlpcn(asked.dlpcn());
                Ok((done, 0))
            }
            AdminCommand::GetFeatures(get) if get.sel == Select::CURRENT => match get.fid {
                FeatureId::KEEP_ALIVE_TIMER => Ok((Completion::success(0, self.kato_ms), 0)),
                FeatureId::ASYNC_EVENT_CONFIGURATION => {
                    Ok((Completion::success(0, self.configuration.into_bits().get()), 0))
                }
                _ => Err(Status::INVALID_FIELD.with_dnr()),
            },
            AdminCommand::KeepAlive => Ok((done, 0)),
            AdminCommand::Identify(_) | AdminCommand::SetFeatures(_) | AdminCommand::GetFeatures(_) => {
                Err(Status::INVALID_FIELD.with_dnr())
            }
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    fn identify(&self) -> IdentifyController {
        let mut ctrl = IdentifyController {
            sn: ascii(""),
            mn: ascii("Tranche discovery"),
            fr: ascii(env!("CARGO_PKG_VERSION")),
            cntrltype: ControllerType::DISCOVERY,
            aerl_z: EVENT_REQUESTS - 1,
            oaes: AsyncEventConfiguration::new().with_dlpcn(true),
            mdts: self.mdts,
            subnqn: Nqn::new(Nqn::DISCOVERY).map(|nqn| nqn.to_field()).unwrap_or([0; 256]),
            ..IdentifyController::default()
        };
        ctrl.cntlid.set(self.cntlid);
        ctrl.ver.set(Version::V2_1.0);
        ctrl.kas.set(10);
        ctrl.maxcmd.set(ADMIN_ENTRIES);
        ctrl.lpa.set_lpeds(true);
        ctrl.lpa.set_mlps(true);
        ctrl.sgls.set_sgls(1);
        ctrl.sgls.set_offset(true);
        ctrl.sgls.set_transport(true);
        ctrl
    }
}

/// The whole log.
fn log(entries: &[DiscoveryEntry], generation: u64) -> Vec<u8> {
    let mut header = DiscoveryHeader::default();
    header.genctr.set(generation);
    header.numrec.set(entries.len() as u64);
    let mut log = header.as_bytes().to_vec();
    log.extend_from_slice(entries.as_bytes());
    log
}

/// Copies what there is of `page` from `offset` on; zeroes follow. The result is how much `data` holds.
fn copy(page: &[u8], offset: usize, data: &mut [u8]) -> usize {
    let page = page.get(offset..).unwrap_or_default();
    let len = page.len().min(data.len());
    data[..len].copy_from_slice(&page[..len]);
    data[len..].fill(0);
    data.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nqn() -> Nqn {
        Nqn::new("nqn.2026-11.org.example:drive").unwrap()
    }

    #[test]
    fn a_host_finds_the_subsystem() {
        let mut ctrl = Controller::new(7, &[entry(&nqn(), "127.0.0.1", "4420", 1)], 3);
        let mut data = vec![0xEE; 4096];
        let early = ctrl.execute(&Command::identify(Cns::CONTROLLER, 0), &mut data).unwrap().0;
        assert!(early.status().is(Status::COMMAND_SEQUENCE_ERROR));

        let cc = Cc::new().with_en(true).into_bits().get();
        let enable =
            FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value: cc.into() };
        assert!(ctrl.execute(&enable.into(), &mut []).unwrap().0.status().is_success());
        let csts = FabricsCommand::PropertyGet { offset: PropertyOffset::CSTS, wide: false };
        assert_eq!(ctrl.execute(&csts.into(), &mut []).unwrap().0.result64(), 1);

        let log = Command::get_log_page(LogId::DISCOVERY, 0, 0, 0, 4096);
        let (done, filled) = ctrl.execute(&log, &mut data).unwrap();
        assert!(done.status().is_success());
        assert_eq!(filled, 4096);
        let (header, rest) = DiscoveryHeader::read_from_prefix(&data).unwrap();
        assert_eq!((header.genctr.get(), header.numrec.get()), (3, 1));
        let (found, rest) = DiscoveryEntry::read_from_prefix(rest).unwrap();
        assert_eq!(Nqn::from_field(&found.subnqn), Ok(nqn()));
        assert!(rest.iter().all(|byte| *byte == 0), "nothing of the buffer's former content");

        assert!(ctrl.execute(&AdminCommand::AsyncEventRequest.into(), &mut []).is_none());
        let beyond = Command::get_log_page(LogId::DISCOVERY, 0, 0, 4096, 4);
        let done = ctrl.execute(&beyond, &mut data).unwrap().0;
        assert!(done.status().is(Status::INVALID_FIELD));
        let short = ctrl.execute(&Command::identify(Cns::CONTROLLER, 0), &mut [0; 512]).unwrap().0;
        assert!(short.status().is(Status::DATA_SGL_LENGTH_INVALID));
    }

    #[test]
    fn a_change_is_told_once_until_the_log_is_read() {
        let mut ctrl = Controller::new(7, &[], 1).with_max_transfer(1 << 20);
        let cc = Cc::new().with_en(true).into_bits().get();
        let enable =
            FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value: cc.into() };
        ctrl.execute(&enable.into(), &mut []).unwrap();
        let request = AdminCommand::AsyncEventRequest.into();
        let mut data = vec![0; 4096];
        assert!(ctrl.execute(&request, &mut []).is_none());
        ctrl.update(&[], 2);
        assert_eq!(ctrl.take_event(), None, "nobody asked for it");
        let (identified, _) = ctrl.execute(&Command::identify(Cns::CONTROLLER, 0), &mut data).unwrap();
        assert!(identified.status().is_success());
        let identified = IdentifyController::read_from_bytes(&data).unwrap();
        assert!(identified.oaes.dlpcn() && identified.mdts == 8);
        let on = AsyncEventConfiguration::new().with_dlpcn(true).into_bits().get();
        ctrl.execute(&Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, on), &mut []).unwrap();
        ctrl.update(&[entry(&nqn(), "::1", "4420", 2)], 3);
        assert_eq!(ctrl.take_event().unwrap().dw0.get(), 0x0070_F002);
        // Masked until the log is read without Retain Asynchronous Event.
        assert!(ctrl.execute(&request, &mut []).is_none());
        ctrl.update(&[], 4);
        assert_eq!(ctrl.take_event(), None);
        let mut read = Command::get_log_page(LogId::DISCOVERY, 0, 0, 0, 1024);
        read.cdw10.set(read.cdw10.get() & !0x8000);
        ctrl.execute(&read, &mut data).unwrap();
        let (header, _) = DiscoveryHeader::read_from_prefix(&data).unwrap();
        assert_eq!((header.genctr.get(), header.numrec.get()), (4, 0));
        ctrl.update(&[], 5);
        assert!(ctrl.take_event().is_some());
        for _ in 0..EVENT_REQUESTS {
            assert!(ctrl.execute(&request, &mut []).is_none());
        }
        let (refused, _) = ctrl.execute(&request, &mut []).unwrap();
        assert!(refused.status().is(Status::AER_LIMIT_EXCEEDED));
    }

    #[test]
    fn only_meant_hosts_connect() {
        let mut ctrl = Controller::new(1, &[], 0);
        let connect =
            nvme::fabrics::Connect { recfmt: 0, qid: 0, sqsize_z: 31, cattr: Default::default(), kato: 5000 };
        let command = Command::from(FabricsCommand::Connect(connect));
        let mut data = ConnectData { hostnqn: nqn().to_field(), ..ConnectData::default() };
        data.cntlid.set(CNTLID_DYNAMIC);
        data.subnqn = nqn().to_field();
        let refused = ctrl.execute(&command, data.as_mut_bytes()).unwrap().0;
        assert!(refused.status().is(Status::CONNECT_INVALID_PARAMETERS));
        data.subnqn = Nqn::new(Nqn::DISCOVERY).unwrap().to_field();
        assert!(Controller::is_meant(&data));
        let accepted = ctrl.execute(&command, data.as_mut_bytes()).unwrap().0;
        assert_eq!(ConnectResult::from_dw0(accepted.dw0.get()).cntlid, 1);
        assert_eq!(ctrl.keep_alive_ms(), 5000);
    }
}
