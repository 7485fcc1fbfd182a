//! Injected faults (vendor specific command D1h and log DCh).

use crate::queue::Data;
use crate::{Error, Host, Transport};
use nvme::Status;
use nvme::admin::{FaultInjection, FaultKind};
use nvme::log::{InjectedFault, InjectedFaultsHeader, LogId};
use nvme::protocol_fault::ProtocolFault;
use nvme::zerocopy::FromBytes;

/// Entries that are read at first, and the most that a drive may claim.
const FIRST_ENTRIES: usize = 30;
const MAX_ENTRIES: usize = 1 << 16;
/// Faults of the protocol that a drive takes at once.
const MAX_PROTOCOL_FAULTS: usize = 64;

impl<T: Transport> Host<T> {
    /// Arms or clears a fault (vendor specific).
    ///
    /// # Errors
    /// The command was refused: if a parameter is out of its range, the error names both. Or the transport is broken.
    pub fn inject_fault(&mut self, fault: FaultInjection) -> Result<(), Error> {
        let what = || format!("injecting the fault '{}'", fault.kind);
        let asked = self.ask(fault.into(), Data::None, what).map(|_| ());
        asked.map_err(|error| match error {
            Error::Command { what, status } if status.is(Status::INVALID_FIELD) => {
                let why = self.fault_range(&fault).unwrap_or_default();
                Error::Command { what: what + &why, status }
            }
            error => error,
        })
    }

    /// Arms a fault of the protocol (vendor specific).
    ///
    /// # Errors
    /// The fault makes no sense, which the error says; the drive has no such port or too many faults; or the transport is broken.
    pub fn inject_protocol_fault(&mut self, fault: &ProtocolFault) -> Result<(), Error> {
        let kind = fault.action.kind();
        let what = || format!("injecting the fault '{kind}'");
        fault.check().map_err(|wrong| Error::Usage(format!("{}: {}", what(), wrong.rule)))?;
        let (command, data) = fault.command();
        let asked = self.ask(command, Data::Out(data.to_vec()), what).map(|_| ());
        asked.map_err(|error| match error {
            Error::Command { what, status } if status.is(Status::INVALID_FIELD) => {
                let why = match (fault.commands.port, self.injected_faults()) {
                    (Some(port), Ok((header, _))) if port > header.ports.get() => {
                        format!(": there is no port {port} (the drive has {})", header.ports.get())
                    }
                    (_, Ok((_, faults))) if faults.len() >= MAX_PROTOCOL_FAULTS => {
                        format!(": the drive takes {MAX_PROTOCOL_FAULTS} at once")
                    }
                    _ => String::new(),
                };
                Error::Command { what: what + &why, status }
            }
            error => error,
        })
    }

    /// The parameter of a refused fault that is out of its range, with the range.
    fn fault_range(&mut self, fault: &FaultInjection) -> Option<String> {
        let id = fault.nvmsetid;
        if fault.kind.is_of_port() {
            return Some(match self.injected_faults().ok()?.0.ports.get() {
                0 => format!(": the drive has no port {id}, nor any other"),
                ports if id > ports || id == 0 => {
                    format!(": there is no port {id} (the drive has 1 to {ports})")
                }
                _ if fault.kind == FaultKind::PORT_DOWN => {
                    ": the time is 0 ms, and must be 1 ms or more".to_owned()
                }
                _ => format!(": {} is no ANA state: 1 to 4, or 15", fault.param),
            });
        }
        let sets = self.nvm_sets().ok()?;
        if usize::from(id) > sets.len() {
            return Some(format!(": there is no NVM Set {id} (the drive has 1 to {})", sets.len()));
        }
        if fault.one_in > InjectedFault::CERTAINTY_PPB {
            return Some(format!(
                ": one in {} operations is too rare: 1 to {}",
                fault.one_in,
                InjectedFault::CERTAINTY_PPB
            ));
        }
        if fault.count > 0 && !fault.kind.is_counted() && !fault.kind.is_of_host_disk() {
            return Some(format!(": the count is {}, and this fault takes none", fault.count));
        }
        if fault.count > 0 && fault.one_in > 1 {
            return Some(": it takes either a count, or one in a number of operations".to_owned());
        }
        match fault.kind {
            FaultKind::SLOW if fault.param < 2 => {
                Some(format!(": the factor is {}, and must be 2 or more", fault.param))
            }
            FaultKind::STUCK_DIE => {
                let chosen = sets.iter().map(|set| set.nvmsetid.get()).filter(|set| id == 0 || *set == id);
                let dies = chosen.filter_map(|set| Some((self.set_map_header(set).ok()?.units.get(), set)));
                let (dies, set) = dies.min()?;
                let last = dies.checked_sub(1)?;
                (fault.param > last).then(|| {
                    format!(": there is no die {} in NVM Set {set} (it has 0 to {last})", fault.param)
                })
            }
            _ => None,
        }
    }

    /// The faults that are active now, and how many ports the drive has (the vendor specific log DCh).
    ///
    /// # Errors
    /// The command failed (Invalid Log Page: the drive has no such log; Operation Denied: only administrators read it), the layout is one that
    /// this host does not know, or the transport is broken.
    pub fn injected_faults(&mut self) -> Result<(InjectedFaultsHeader, Vec<InjectedFault>), Error> {
        // Bytes.
        const HEADER: usize = size_of::<InjectedFaultsHeader>();
        let lid = LogId::INJECTED_FAULTS;
        let mut room = FIRST_ENTRIES;
        loop {
            // Header and entries in one reading: the count is that of these entries.
            let log = self.log(lid, 0, 0, HEADER + room * size_of::<InjectedFault>())?;
            let bad = || Error::Answer {
                what: format!("reading the log '{lid}'"),
                problem: "it is too short".into(),
            };
            let (header, _) = InjectedFaultsHeader::read_from_prefix(&log).map_err(|_| bad())?;
            let version = (header.version.get(), InjectedFaultsHeader::VERSION);
            crate::logs::known_layout::<InjectedFault>(lid, version, header.entry_bytes.get())?;
            let (first, entry) =
                (usize::from(header.header_bytes.get()), usize::from(header.entry_bytes.get()));
            let count = (header.entries.get() as usize).min(MAX_ENTRIES);
            let entries = log.get(first..).unwrap_or_default().chunks_exact(entry).take(count);
            if entries.len() < count {
                room = (first + count * entry).div_ceil(size_of::<InjectedFault>());
                continue;
            }
            let faults = entries.filter_map(|bytes| Some(InjectedFault::read_from_prefix(bytes).ok()?.0));
            // A list of several pieces may become shorter between them.
            return Ok((header, faults.filter(|fault| fault.kind != FaultKind::CLEAR).collect()));
        }
    }
}
