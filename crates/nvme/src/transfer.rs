//! Which way a command's data goes, and how much of it.

use crate::admin::{AdminCommand, NamespaceManagementSelect};
use crate::command::IoOpcode;
use crate::directive::{DirectiveType, operation};
use crate::fabrics::{ConnectData, FabricsCommand};
use crate::fdp;
use crate::feature::{self, Select};
use crate::io::{Blocks, DsmRange, IoCommand};
use crate::reservation::{AcquireKeys, RegisterKeys};
use crate::{Command, IDENTIFY_SIZE};

/// A command's data transfer, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// No data.
    None,
    /// From the host to the controller.
    ToController(u64),
    /// From the controller to the host.
    ToHost(u64),
}

impl Transfer {
    /// The number of bytes, whichever way.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::ToController(bytes) | Self::ToHost(bytes) => bytes,
        }
    }

    /// The transfer that the opcode's own bits announce, with the length that the SGL descriptor claims
    /// (Base 4.1: "Opcodes", bits 1:0; for fabrics commands the bits of FCTYPE). This is all that a
    /// transport needs in order to gather data; whether the length fits the command is the controller's
    /// to check, against [`data_transfer`].
    #[must_use]
    pub fn from_sgl(cmd: &Command) -> Self {
        let bytes = u64::from(cmd.dptr.length.get());
        let bits = if cmd.opc == crate::command::FABRICS_OPCODE { cmd.fctype().0 } else { cmd.opc };
        match bits & 3 {
            _ if bytes == 0 => Self::None,
            1 => Self::ToController(bytes),
            2 => Self::ToHost(bytes),
            // 00b moves no data; 11b (bidirectional) exists in no command set that this crate knows.
            _ => Self::None,
        }
    }
}

/// The exact transfer that a command asks for, from its fields alone.
///
/// `admin` says whether the command arrived on an admin queue. `block_bytes` gives the bytes that one logical
/// block takes on the wire for this command: data plus any metadata that travels with it (none when PRACT
/// strips it); 0 when the namespace is unknown. A command that does not parse moves no data.
///
/// Get and Set Features answer for the features that have data; a vendor specific one other than
/// [`FeatureId::QUOTA`](feature::FeatureId::QUOTA) has none.
#[inline]
pub fn data_transfer(cmd: &Command, admin: bool, block_bytes: impl FnOnce(&Blocks) -> u32) -> Transfer {
    // What nearly all commands are needs few of their fields.
    let of_blocks = || {
        let blocks = Blocks::parse(cmd);
        u64::from(blocks.nlb) * u64::from(block_bytes(&blocks))
    };
    let moved = match IoOpcode(cmd.opc) {
        IoOpcode::READ if !admin => Transfer::ToHost(of_blocks()),
        IoOpcode::WRITE | IoOpcode::COMPARE if !admin => Transfer::ToController(of_blocks()),
        _ => other_transfer(cmd, admin),
    };
    if moved.bytes() == 0 { Transfer::None } else { moved }
}

fn other_transfer(cmd: &Command, admin: bool) -> Transfer {
    let moved = match admin {
        true => AdminCommand::parse(cmd).ok().map(|command| admin_transfer(&command)),
        false => IoCommand::parse(cmd).ok().map(|command| io_transfer(&command)),
    };
    moved.unwrap_or(Transfer::None)
}

fn admin_transfer(command: &AdminCommand) -> Transfer {
    match command {
        AdminCommand::Identify(_) => Transfer::ToHost(IDENTIFY_SIZE as u64),
        AdminCommand::GetLogPage(log) => Transfer::ToHost(log.bytes()),
        AdminCommand::NamespaceManagement(ns) if ns.sel == NamespaceManagementSelect::CREATE => {
            Transfer::ToController(IDENTIFY_SIZE as u64)
        }
        AdminCommand::NamespaceAttachment(_) => Transfer::ToController(IDENTIFY_SIZE as u64),
        AdminCommand::SetFeatures(f) => Transfer::ToController(feature::set_data_bytes(f.fid, f.cdw11)),
        AdminCommand::GetFeatures(f) if f.sel != Select::SUPPORTED_CAPABILITIES => {
            Transfer::ToHost(feature::data_bytes(f.fid, f.cdw11))
        }
        AdminCommand::FirmwareImageDownload(piece) => Transfer::ToController(piece.dwords * 4),
        AdminCommand::GetLbaStatus(status) => Transfer::ToHost(status.bytes()),
        // Allocate Resources has a result and no data.
        AdminCommand::DirectiveReceive(d)
            if (d.dtype, d.doper) != (DirectiveType::STREAMS, operation::ALLOCATE_RESOURCES) =>
        {
            Transfer::ToHost(d.dwords * 4)
        }
        AdminCommand::Fabrics(command) => fabrics_transfer(command),
        _ => Transfer::None,
    }
}

/// Of commands other than Read, Write and Compare.
fn io_transfer(command: &IoCommand) -> Transfer {
    match command {
        IoCommand::DatasetManagement(dsm) => {
            Transfer::ToController(u64::from(dsm.nr) * size_of::<DsmRange>() as u64)
        }
        IoCommand::ReservationRegister(_) => Transfer::ToController(size_of::<RegisterKeys>() as u64),
        IoCommand::ReservationReport(report) => Transfer::ToHost(report.bytes()),
        IoCommand::ReservationAcquire(_) => Transfer::ToController(size_of::<AcquireKeys>() as u64),
        // The current key.
        IoCommand::ReservationRelease(_) => Transfer::ToController(8),
        IoCommand::Copy(copy) => Transfer::ToController(copy.data_bytes()),
        IoCommand::IoManagementReceive(c) => Transfer::ToHost(c.dwords * 4),
        IoCommand::IoManagementSend(c) if c.mo == fdp::RUH_UPDATE => {
            Transfer::ToController((u64::from(c.mos) + 1) * 2)
        }
        IoCommand::Fabrics(command) => fabrics_transfer(command),
        _ => Transfer::None,
    }
}

fn fabrics_transfer(command: &FabricsCommand) -> Transfer {
    match command {
        FabricsCommand::Connect(_) => Transfer::ToController(size_of::<ConnectData>() as u64),
        FabricsCommand::AuthenticationSend(auth) => Transfer::ToController(u64::from(auth.length)),
        FabricsCommand::AuthenticationReceive(auth) => Transfer::ToHost(u64::from(auth.length)),
        _ => Transfer::None,
    }
}
