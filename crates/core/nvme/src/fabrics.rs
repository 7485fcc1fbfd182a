//! Fabrics commands and their data (Base 6).

use zerocopy::transmute;

use crate::command::{Command, CommandFlags, FABRICS_OPCODE, SglDescriptor};
use crate::nqn::NqnField;
use crate::property::PropertyOffset;
use crate::{Status, U16, U32, U64};

pub use crate::command::FabricsType;

/// A fabrics command, parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FabricsCommand {
    /// Property Set (Base 6.6).
    PropertySet {
        /// Which property.
        offset: PropertyOffset,
        /// Whether the property is 8 bytes wide, else 4.
        wide: bool,
        /// The value; the upper half is reserved for 4-byte properties.
        value: u64,
    },
    /// Connect (Base 6.3); the data is [`ConnectData`].
    Connect(Connect),
    /// Property Get (Base 6.5); the completion's first 8 bytes carry the value.
    PropertyGet {
        /// Which property.
        offset: PropertyOffset,
        /// Whether the property is 8 bytes wide, else 4.
        wide: bool,
    },
    /// Authentication Send (Base 6.2).
    AuthenticationSend(Authentication),
    /// Authentication Receive (Base 6.1).
    AuthenticationReceive(Authentication),
    /// Disconnect (Base 6.4): delete the I/O queue that it arrives on.
    Disconnect {
        /// Record Format: 0.
        recfmt: u16,
    },
}

/// Connect (Base 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// Record Format: 0.
    pub recfmt: u16,
    /// Queue ID: 0 for the admin queue.
    pub qid: u16,
    /// Submission Queue Size, zero-based.
    pub sqsize_z: u16,
    /// Connect Attributes.
    pub cattr: ConnectAttributes,
    /// Keep Alive Timeout in milliseconds, admin queue only; 0 is off.
    pub kato: u32,
}

bits8! {
    /// Connect Attributes, CATTR (Base 6.3).
    pub struct ConnectAttributes {
        /// Priority Class: 0 urgent, 1 high, 2 medium, 3 low.
        #[bits(2)]
        pub prioclass: u8,
        /// Disable SQ Flow Control.
        pub dis_sqflow: bool,
        /// Individual I/O Queue Deletion Support: the host may use Disconnect.
        pub ioqdels: bool,
        #[bits(4)]
        _rsvd: u8,
    }
}

/// Authentication Send or Receive (Base 6.1, 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Authentication {
    /// Security Protocol Specific, byte 0: 01h for authentication.
    pub spsp0: u8,
    /// Security Protocol Specific, byte 1: 01h.
    pub spsp1: u8,
    /// Security Protocol: E9h for NVMe.
    pub secp: u8,
    /// Transfer Length (send) or Allocation Length (receive) in bytes.
    pub length: u32,
}

wire! {
    /// Connect command as it is on the wire (Base 6.3, "Connect Command – Submission Queue Entry").
    pub struct ConnectSqe[64] {
        /// Opcode 7Fh.
        pub opc: u8,
        /// PSDT.
        pub flags: CommandFlags,
        /// Command Identifier.
        pub cid: U16,
        /// Fabrics Command Type 01h.
        pub fctype: FabricsType,
        /// Reserved.
        pub rsvd5: [u8; 19],
        /// SGL Descriptor 1.
        pub sgl1: SglDescriptor,
        /// Record Format.
        pub recfmt: U16,
        /// Queue ID.
        pub qid: U16,
        /// Submission Queue Size, zero-based.
        pub sqsize_z: U16,
        /// Connect Attributes.
        pub cattr: ConnectAttributes,
        /// Reserved.
        pub rsvd47: u8,
        /// Keep Alive Timeout in milliseconds.
        pub kato: U32,
        /// Reserved.
        pub rsvd52: [u8; 12],
    }

    /// Connect command data (Base 6.3, "Connect Command – Data").
    pub struct ConnectData[1024] {
        /// Host Identifier.
        pub hostid: [u8; 16],
        /// Controller ID: FFFFh for any (dynamic), else the controller that the I/O queue belongs to.
        pub cntlid: U16,
        /// Reserved.
        pub rsvd18: [u8; 238],
        /// NVM Subsystem NVMe Qualified Name.
        pub subnqn: NqnField,
        /// Host NVMe Qualified Name.
        pub hostnqn: NqnField,
        /// Reserved.
        pub rsvd768: [u8; 256],
    }

    /// Property Set and Property Get as they are on the wire (Base 6.5, 6.6).
    pub struct PropertySqe[64] {
        /// Opcode 7Fh.
        pub opc: u8,
        /// PSDT.
        pub flags: CommandFlags,
        /// Command Identifier.
        pub cid: U16,
        /// Fabrics Command Type 00h or 04h.
        pub fctype: FabricsType,
        /// Reserved.
        pub rsvd5: [u8; 35],
        /// Attributes: bits 2:0 the size, 0 for 4 bytes and 1 for 8.
        pub attrib: u8,
        /// Reserved.
        pub rsvd41: [u8; 3],
        /// Offset of the property.
        pub ofst: U32,
        /// The value of Property Set.
        pub value: U64,
        /// Reserved.
        pub rsvd56: [u8; 8],
    }

    /// Authentication Send and Receive as they are on the wire (Base 6.1, 6.2).
    pub struct AuthenticationSqe[64] {
        /// Opcode 7Fh.
        pub opc: u8,
        /// PSDT.
        pub flags: CommandFlags,
        /// Command Identifier.
        pub cid: U16,
        /// Fabrics Command Type 05h or 06h.
        pub fctype: FabricsType,
        /// Reserved.
        pub rsvd5: [u8; 19],
        /// SGL Descriptor 1.
        pub sgl1: SglDescriptor,
        /// Reserved.
        pub rsvd40: u8,
        /// Security Protocol Specific 0.
        pub spsp0: u8,
        /// Security Protocol Specific 1.
        pub spsp1: u8,
        /// Security Protocol.
        pub secp: u8,
        /// Transfer Length or Allocation Length.
        pub length: U32,
        /// Reserved.
        pub rsvd48: [u8; 16],
    }
}
layout!(ConnectSqe, 64, sgl1 @ 24, recfmt @ 40, kato @ 48);
layout!(ConnectData, 1024, subnqn @ 256, hostnqn @ 512);
layout!(PropertySqe, 64, attrib @ 40, ofst @ 44, value @ 48);
layout!(AuthenticationSqe, 64, sgl1 @ 24, spsp0 @ 41, length @ 44);

impl FabricsCommand {
    /// Parses a command with opcode 7Fh.
    ///
    /// # Errors
    /// Invalid Command Opcode for fabrics command types that are not listed in this enum, Invalid Field in
    /// Command for a property size other than 4 and 8; both with Do Not Retry.
    pub fn parse(cmd: &Command) -> Result<Self, Status> {
        Ok(match cmd.fctype() {
            FabricsType::CONNECT => {
                let sqe: ConnectSqe = transmute!(*cmd);
                Self::Connect(Connect {
                    recfmt: sqe.recfmt.get(),
                    qid: sqe.qid.get(),
                    sqsize_z: sqe.sqsize_z.get(),
                    cattr: sqe.cattr,
                    kato: sqe.kato.get(),
                })
            }
            kind @ (FabricsType::PROPERTY_SET | FabricsType::PROPERTY_GET) => {
                let sqe: PropertySqe = transmute!(*cmd);
                let offset = PropertyOffset(sqe.ofst.get());
                let wide = match sqe.attrib & 7 {
                    0 => false,
                    1 => true,
                    _ => return Err(Status::INVALID_FIELD.with_dnr()),
                };
                if kind == FabricsType::PROPERTY_GET {
                    Self::PropertyGet { offset, wide }
                } else {
                    Self::PropertySet { offset, wide, value: sqe.value.get() }
                }
            }
            kind @ (FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE) => {
                let sqe: AuthenticationSqe = transmute!(*cmd);
                let auth = Authentication {
                    spsp0: sqe.spsp0,
                    spsp1: sqe.spsp1,
                    secp: sqe.secp,
                    length: sqe.length.get(),
                };
                if kind == FabricsType::AUTHENTICATION_SEND {
                    Self::AuthenticationSend(auth)
                } else {
                    Self::AuthenticationReceive(auth)
                }
            }
            FabricsType::DISCONNECT => {
                // CDW10 bits 15:0 are the record format, where Connect has it.
                let sqe: ConnectSqe = transmute!(*cmd);
                Self::Disconnect { recfmt: sqe.recfmt.get() }
            }
            _ => return Err(Status::INVALID_OPCODE.with_dnr()),
        })
    }
}

impl From<FabricsCommand> for Command {
    fn from(command: FabricsCommand) -> Self {
        let base = Self::new(FABRICS_OPCODE, 0);
        let (opc, flags) = (base.opc, base.flags);
        match command {
            FabricsCommand::Connect(c) => transmute!(ConnectSqe {
                opc,
                flags,
                fctype: FabricsType::CONNECT,
                recfmt: U16::new(c.recfmt),
                qid: U16::new(c.qid),
                sqsize_z: U16::new(c.sqsize_z),
                cattr: c.cattr,
                kato: U32::new(c.kato),
                ..ConnectSqe::default()
            }),
            FabricsCommand::PropertySet { offset, wide, value } => transmute!(PropertySqe {
                opc,
                flags,
                fctype: FabricsType::PROPERTY_SET,
                attrib: u8::from(wide),
                ofst: U32::new(offset.0),
                value: U64::new(value),
                ..PropertySqe::default()
            }),
            FabricsCommand::PropertyGet { offset, wide } => transmute!(PropertySqe {
                opc,
                flags,
                fctype: FabricsType::PROPERTY_GET,
                attrib: u8::from(wide),
                ofst: U32::new(offset.0),
                ..PropertySqe::default()
            }),
            FabricsCommand::AuthenticationSend(auth) => {
                authentication(opc, flags, FabricsType::AUTHENTICATION_SEND, auth)
            }
            FabricsCommand::AuthenticationReceive(auth) => {
                authentication(opc, flags, FabricsType::AUTHENTICATION_RECEIVE, auth)
            }
            FabricsCommand::Disconnect { recfmt } => transmute!(ConnectSqe {
                opc,
                flags,
                fctype: FabricsType::DISCONNECT,
                recfmt: U16::new(recfmt),
                ..ConnectSqe::default()
            }),
        }
    }
}

fn authentication(opc: u8, flags: CommandFlags, fctype: FabricsType, auth: Authentication) -> Command {
    transmute!(AuthenticationSqe {
        opc,
        flags,
        fctype,
        spsp0: auth.spsp0,
        spsp1: auth.spsp1,
        secp: auth.secp,
        length: U32::new(auth.length),
        ..AuthenticationSqe::default()
    })
}

/// The result of a successful Connect: the controller's ID and whether it wants authentication
/// (Base 6.3, "Connect Response").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectResult {
    /// Controller ID.
    pub cntlid: u16,
    /// NVMe in-band Authentication Required.
    pub atr: bool,
    /// Authentication and Secure Channel Required.
    pub ascr: bool,
}

impl ConnectResult {
    /// From dword 0 of the completion.
    #[must_use]
    pub const fn from_dw0(dw0: u32) -> Self {
        let b = dw0.to_le_bytes();
        Self { cntlid: u16::from_le_bytes([b[0], b[1]]), atr: b[2] & 2 != 0, ascr: b[2] & 4 != 0 }
    }

    /// Dword 0 of the completion.
    #[must_use]
    pub const fn to_dw0(self) -> u32 {
        self.cntlid as u32 | (self.atr as u32) << 17 | (self.ascr as u32) << 18
    }
}

/// Dword 0 of a Connect that failed with Connect Invalid Parameters: which parameter
/// (Base 6.3: Invalid Parameter Offset and Invalid Attributes).
#[must_use]
pub const fn connect_invalid_parameter(in_data: bool, offset: u16) -> u32 {
    offset as u32 | (in_data as u32) << 16
}
