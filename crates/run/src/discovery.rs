//! The discovery controller of each listener (Base 3.1.3.3): it knows one subsystem, the drive.
//!
//! It keeps nothing beyond its connection. Implemented: Property Get and Set, Identify Controller, the
//! Discovery log, Keep Alive. Not here: discovery change events (there is nothing that could change), so
//! Asynchronous Event Request is not supported, and OAES says so.

use nvme::admin::{AdminCommand, Identify};
use nvme::fabrics::FabricsCommand;
use nvme::identify::{Cns, ControllerType, IdentifyController, Lpa, Sgls};
use nvme::log::{DiscoveryEntry, DiscoveryHeader, LogId, SubsystemType, TransportType};
use nvme::property::{Cap, Cc, Csts, PropertyOffset, Shn, Shst};
use nvme::zerocopy::IntoBytes;
use nvme::{CNTLID_DYNAMIC, Command, Completion, Nqn, Status, U16, U32, Version};

/// Entries of its admin queue, at most (MQES + 1).
const ENTRIES: u16 = 32;

/// Where the drive can be reached.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub transport: TransportType,
    /// 1 IPv4, 2 IPv6, 254 intra-host.
    pub family: u8,
    /// Address or path.
    pub address: String,
    /// Port, if there is one.
    pub service: String,
}

/// One host's discovery controller.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Discovery {
    cc: Cc,
    csts: Csts,
}

fn put(field: &mut [u8], text: &str, fill: u8) {
    field.fill(fill);
    let len = text.len().min(field.len());
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}

impl Discovery {
    /// Executes a command; data for the host goes into `room`. Returns how much.
    pub(crate) fn execute(
        &mut self,
        command: &Command,
        room: &mut [u8],
        subsystem: &Nqn,
        place: &Place,
    ) -> (Completion, usize) {
        match self.answer(command, subsystem, place) {
            Ok(Answer::Plain(result)) => (Completion::success(0, 0).with_result64(result), 0),
            Ok(Answer::Data(bytes)) if bytes.len() > room.len() => {
                (Completion::new(0, Status::DATA_SGL_LENGTH_INVALID.with_dnr()), 0)
            }
            Ok(Answer::Data(bytes)) => {
                room[..bytes.len()].copy_from_slice(&bytes);
                (Completion::success(0, 0), bytes.len())
            }
            Err(status) => (Completion::new(0, status.with_dnr()), 0),
        }
    }

    fn answer(&mut self, command: &Command, subsystem: &Nqn, place: &Place) -> Result<Answer, Status> {
        let parsed = AdminCommand::parse(command)?;
        if !matches!(parsed, AdminCommand::Fabrics(_)) && !self.csts.rdy() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        match parsed {
            AdminCommand::Fabrics(FabricsCommand::PropertyGet { offset, wide }) => self.get(offset, wide),
            AdminCommand::Fabrics(FabricsCommand::PropertySet { offset, wide, value }) => {
                self.set(offset, wide, value)
            }
            AdminCommand::Identify(Identify { cns: Cns::CONTROLLER, .. }) => Ok(Answer::Data(identify())),
            AdminCommand::GetLogPage(log) if log.lid == LogId::DISCOVERY => {
                let whole = log_page(subsystem, place);
                let start = usize::try_from(log.offset).unwrap_or(usize::MAX);
                let bytes = usize::try_from(log.bytes()).unwrap_or(usize::MAX);
                let rest = whole.get(start..).ok_or(Status::INVALID_FIELD)?;
                let mut part = rest[..rest.len().min(bytes)].to_vec();
                // Beyond the end of the log there are zeros.
                part.resize(bytes.min(1 << 16), 0);
                Ok(Answer::Data(part))
            }
            AdminCommand::GetLogPage(_) => Err(Status::INVALID_LOG_PAGE),
            AdminCommand::KeepAlive => Ok(Answer::Plain(0)),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    fn get(&self, offset: PropertyOffset, wide: bool) -> Result<Answer, Status> {
        Ok(Answer::Plain(match (offset, wide) {
            (PropertyOffset::CAP, true) => {
                let cap = Cap::new().with_mqes_z(ENTRIES - 1).with_cqr(true).with_to(1).with_css(1);
                cap.into_bits().get()
            }
            (PropertyOffset::VS, false) => Version::V2_1.0.into(),
            (PropertyOffset::CC, false) => self.cc.into_bits().get().into(),
            (PropertyOffset::CSTS, false) => self.csts.into_bits().get().into(),
            _ => return Err(Status::INVALID_FIELD),
        }))
    }

    fn set(&mut self, offset: PropertyOffset, wide: bool, value: u64) -> Result<Answer, Status> {
        if offset != PropertyOffset::CC || wide {
            return Err(Status::INVALID_FIELD);
        }
        self.cc = Cc::from_bits(U32::new(value as u32));
        let shut = [Shn::NORMAL, Shn::ABRUPT].contains(&self.cc.shn());
        self.csts =
            Csts::new().with_rdy(self.cc.en()).with_shst(if shut { Shst::COMPLETE } else { Shst::NORMAL });
        Ok(Answer::Plain(0))
    }
}

enum Answer {
    Plain(u64),
    Data(Vec<u8>),
}

fn identify() -> Vec<u8> {
    let mut c = IdentifyController {
        cntlid: U16::new(CNTLID_DYNAMIC),
        ver: U32::new(Version::V2_1.0),
        cntrltype: ControllerType::DISCOVERY,
        lpa: Lpa::new().with_lpeds(true),
        maxcmd: U16::new(ENTRIES),
        sgls: Sgls::new().with_sgls(1).with_offset(true).with_transport(true),
        ioccsz: U32::new((64 + 8192) / 16),
        iorcsz: U32::new(1),
        msdbd: 1,
        ..IdentifyController::default()
    };
    put(&mut c.fr, env!("CARGO_PKG_VERSION"), b' ');
    put(&mut c.subnqn, Nqn::DISCOVERY, 0);
    c.as_bytes().to_vec()
}

fn log_page(subsystem: &Nqn, place: &Place) -> Vec<u8> {
    let mut header = DiscoveryHeader::default();
    header.genctr.set(1);
    header.numrec.set(1);
    let mut entry = DiscoveryEntry {
        trtype: place.transport,
        adrfam: place.family,
        subtype: SubsystemType::NVM,
        // No secure channel; SQ flow control may be disabled.
        treq: 2 | 1 << 2,
        portid: U16::new(1),
        cntlid: U16::new(CNTLID_DYNAMIC),
        asqsz: U16::new(ENTRIES),
        subnqn: subsystem.to_field(),
        ..DiscoveryEntry::default()
    };
    put(&mut entry.traddr, &place.address, b' ');
    put(&mut entry.trsvcid, &place.service, b' ');
    let mut log = header.as_bytes().to_vec();
    log.extend_from_slice(entry.as_bytes());
    log
}
