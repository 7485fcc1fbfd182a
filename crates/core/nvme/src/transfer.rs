//! Which way a command's data goes, and how much of it.

use crate::command_table::{self, DataSource, Direction};
use crate::io::Blocks;
use crate::zone::{ZoneManagementSend, ZoneSendAction};
use crate::{Command, Nsid};

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

    /// A transfer of this many bytes in the same direction.
    const fn with_bytes(self, bytes: u64) -> Self {
        match self {
            Self::ToController(_) if bytes > 0 => Self::ToController(bytes),
            Self::ToHost(_) if bytes > 0 => Self::ToHost(bytes),
            _ => Self::None,
        }
    }

    /// The transfer that the opcode's own bits announce, with the length that the SGL descriptor claims
    /// (Base 4.1: "Opcodes", bits 1:0; for fabrics commands the bits of FCTYPE). This is all that a
    /// transport needs in order to gather data; whether the length fits the command is the controller's
    /// to check, against [`data_transfer`].
    #[must_use]
    pub fn from_sgl(cmd: &Command) -> Self {
        let bytes = u64::from(cmd.dptr.length.get());
        Direction::of(cmd).map_or(Self::None, |direction| Self::of(direction, bytes))
    }

    #[inline]
    const fn of(direction: Direction, bytes: u64) -> Self {
        match direction {
            _ if bytes == 0 => Self::None,
            Direction::ToController => Self::ToController(bytes),
            Direction::ToHost => Self::ToHost(bytes),
        }
    }
}

/// The sizes of a logical block whose data and metadata travel in two buffers (NVM, "Metadata Region").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeparateBlock {
    data: u32,
    metadata: u32,
}

impl SeparateBlock {
    /// A block with this many bytes of data and of metadata; `None` if it has none of either.
    #[must_use]
    pub fn new(data: u32, metadata: u32) -> Option<Self> {
        (data > 0 && metadata > 0).then_some(Self { data, metadata })
    }

    /// Its bytes of data, at least 1.
    #[must_use]
    pub const fn data(self) -> u32 {
        self.data
    }

    /// Its bytes of metadata, at least 1.
    #[must_use]
    pub const fn metadata(self) -> u32 {
        self.metadata
    }

    /// A transfer of whole blocks as the transfers of their data and of their metadata.
    #[must_use]
    pub fn split(self, transfer: Transfer) -> [Transfer; 2] {
        let blocks = transfer.bytes() / (u64::from(self.data) + u64::from(self.metadata));
        [self.data, self.metadata].map(|each| transfer.with_bytes(blocks * u64::from(each)))
    }
}

/// What a namespace's format gives the size of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatUnit<'a> {
    /// One logical block of this command on the wire: data plus any metadata that travels with it (none when PRACT strips it).
    Block(&'a Blocks),
    /// A Zone Descriptor Extension of this namespace.
    ZoneExtension(Nsid),
}

/// The exact transfer that a command asks for, from its fields alone.
///
/// `admin` says whether the command arrived on an admin queue. `unit_bytes` gives the bytes of what the namespace's format gives
/// the size of; 0 when the namespace is unknown. A command that does not parse moves no data.
///
/// Get and Set Features answer for the features that have data; a vendor specific one other than
/// [`FeatureId::QUOTA`](feature::FeatureId::QUOTA) has none.
#[inline]
pub fn data_transfer(cmd: &Command, admin: bool, unit_bytes: impl FnOnce(FormatUnit<'_>) -> u32) -> Transfer {
    let Some(direction) = Direction::of(cmd) else { return Transfer::None };
    let bytes = match command_table::of(cmd.opc, admin).map(|info| info.data) {
        Some(DataSource::Contents) => {
            let blocks = Blocks::parse(cmd);
            u64::from(blocks.nlb) * u64::from(unit_bytes(FormatUnit::Block(&blocks)))
        }
        Some(DataSource::Controller) => command_table::data_bytes(cmd, admin),
        Some(DataSource::ZoneExtension) => match ZoneManagementSend::parse(cmd) {
            Ok(send) if send.action == ZoneSendAction::SET_DESCRIPTOR_EXTENSION => {
                unit_bytes(FormatUnit::ZoneExtension(send.nsid)).into()
            }
            _ => 0,
        },
        Some(DataSource::None) | None => 0,
    };
    Transfer::of(direction, bytes)
}
