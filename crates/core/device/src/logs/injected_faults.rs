//! Vendor specific log DCh: the faults that are active now.

use crate::contents::HostDiskFault;
use crate::core::Core;
use crate::fault_injection::{CERTAINTY_PPB, active, entry};
use crate::ports::Ports;
use crate::protocol_faults::ProtocolFaults;
use media::Nanos;
use nvme::admin::FaultKind;
use nvme::log::{InjectedFault, InjectedFaultsHeader};
use nvme::zerocopy::IntoBytes;
use nvme::{U16, U32, U64};

/// The log, for administrators: faults of the media, the ports, the protocol and the host's disk.
pub(crate) fn log(
    core: &Core,
    ports: &Ports,
    protocol: &ProtocolFaults,
    disk: Option<HostDiskFault>,
    now: Nanos,
) -> Vec<u8> {
    let mut entries = active(core);
    entries.extend(ports.faults(now));
    entries.extend(protocol.entries());
    entries.extend(disk.map(|disk| {
        let kind = if disk.full { FaultKind::HOST_DISK_FULL } else { FaultKind::HOST_DISK_ERROR };
        InjectedFault { remaining: U64::new(disk.remaining.into()), ..entry(kind, 0, CERTAINTY_PPB) }
    }));
    let header = InjectedFaultsHeader {
        version: U16::new(InjectedFaultsHeader::VERSION),
        ports: U16::new(ports.count()),
        header_bytes: U16::new(size_of::<InjectedFaultsHeader>() as u16),
        entry_bytes: U16::new(size_of::<InjectedFault>() as u16),
        entries: U32::new(entries.len() as u32),
        ..InjectedFaultsHeader::default()
    };
    let mut bytes = header.as_bytes().to_vec();
    entries.iter().for_each(|fault| bytes.extend_from_slice(fault.as_bytes()));
    bytes
}
