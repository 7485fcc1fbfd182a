//! The NVM Express specifications as types.
//!
//! Sources, cited by revision and section or figure title:
//!
//! - "Base": *NVM Express Base Specification, Revision 2.1*,
//! - "NVM": *NVM Command Set Specification, Revision 1.1*,
//! - "ZNS": *Zoned Namespace Command Set Specification, Revision 1.2*,
//! - *NVMe over TCP Transport Specification, Revision 1.1*, in the crate `fabric`,
//! - "OCP": *OCP Datacenter NVMe SSD Specification 2.x*.
//!
//! Rules of the crate:
//!
//! - Names and order of fields are the specification's. A field that the specification counts from zero ends
//!   in `_z`, so that it is not taken for a count.
//! - Structures that cross a wire are plain memory: little endian, alignment 1, size asserted at compile
//!   time, convertible from and to bytes with `zerocopy`. Every bit pattern is a valid value.
//! - Values from the wire are open enums: a number with names, never a Rust `enum` that a
//!   peer could force into an undefined state.
//! - [`AdminCommand`] and [`IoCommand`] are what a controller executes: parsed once from the 64 bytes of a
//!   [`Command`]. Parsing checks the encoding (opcodes, selectors whose other values are reserved) and
//!   nothing else: namespaces, ranges, support and state are the controller's to check.
//! - Reserved bits and fields are ignored when read and zero when written (Base 1.4.1, "reserved").
//!
//! Not here: the key value command set, the management interface, boot partitions, registers of controller memory buffers and persistent memory
//! regions. Lists of PRPs and SGL descriptors are in crate `pcie`.
#![no_std]

#[macro_use]
mod macros;

pub mod admin;
pub mod aer;
pub mod auth;
pub mod command;
pub mod command_table;
pub mod completion;
pub mod copy;
pub mod directive;
pub mod fabrics;
pub mod fault;
pub mod fault_selector;
pub mod fdp;
pub mod feature;
pub mod identify;
pub mod io;
pub mod keyword;
pub mod log;
pub mod nqn;
pub mod plm;
mod pr_info;
pub mod property;
pub mod protocol_fault;
pub mod quota;
pub mod reservation;
pub mod status;
pub mod transfer;
pub mod zone;

pub use admin::AdminCommand;
pub use command::{AdminOpcode, Command, IoOpcode, SglDescriptor};
pub use completion::Completion;
pub use io::IoCommand;
pub use nqn::Nqn;
pub use status::Status;
pub use transfer::{FormatUnit, SeparateBlock, Transfer, data_transfer};
pub use zerocopy;
pub use zerocopy::little_endian::{U16, U32, U64, U128};

/// A namespace identifier on the wire: 0 is "none", [`NSID_ALL`] is "all" where the command allows it.
pub type Nsid = u32;

/// The broadcast namespace identifier FFFFFFFFh (Base 3.2.1.2).
pub const NSID_ALL: Nsid = 0xFFFF_FFFF;

/// Controller ID FFFFh: "any" in Connect (dynamic controllers) and in lists, no controller (Base 3.1.1).
pub const CNTLID_DYNAMIC: u16 = 0xFFFF;

/// Size of every Identify data structure in bytes (Base 5.1.13).
pub const IDENTIFY_SIZE: usize = 4096;

/// A version number as in VS and `ver` (Base 3.1.4.2, "Offset 8h: VS").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version(pub u32);

impl Version {
    /// Revision 2.1.0 of the base specification, which this crate follows.
    pub const V2_1: Self = Self::new(2, 1, 0);
    /// Revision 1.2.0, the Zoned Namespace Command Set specification's.
    pub const V1_2: Self = Self::new(1, 2, 0);
    /// Revision 1.1.0, the NVM Command Set specification's.
    pub const V1_1: Self = Self::new(1, 1, 0);

    /// Major, minor and tertiary version numbers.
    #[must_use]
    pub const fn new(mjr: u16, mnr: u8, ter: u8) -> Self {
        Self((mjr as u32) << 16 | (mnr as u32) << 8 | ter as u32)
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.0 >> 16, self.0 >> 8 & 0xFF, self.0 & 0xFF)
    }
}

open_enum! {
    /// Command Set Identifier, CSI (Base 5.1.13.1, "Command Set Identifiers").
    pub struct Csi: u8 {
        /// NVM Command Set.
        NVM = 0x00 => "NVM Command Set",
        /// Key Value Command Set.
        KEY_VALUE = 0x01 => "Key Value Command Set",
        /// Zoned Namespace Command Set.
        ZONED = 0x02 => "Zoned Namespace Command Set",
    }
}
