//! Protocol Data Units of NVMe/TCP (TCP 3.6), as they are on the wire.

use core::fmt;

use nvme::{Command, Completion, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of the common header.
pub const COMMON_HEADER_BYTES: usize = 8;
/// The largest value that a PDU's data may start at.
pub const MAX_HEAD: usize = 255;
/// Size of a header or data digest.
pub const DIGEST: usize = 4;
/// In-capsule data that every target takes on an admin queue, and for fabrics commands (TCP 3.3.2.1).
pub const ADMIN_IN_CAPSULE: u32 = 8192;
/// The smallest MAXH2CDATA (TCP 3.6.2.3).
pub const MIN_MAXH2CDATA: u32 = 4096;

/// PDU type (TCP 3.6, "PDU Types").
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct PduType(pub u8);

impl PduType {
    /// Initialize Connection Request.
    pub const IC_REQ: Self = Self(0x00);
    /// Initialize Connection Response.
    pub const IC_RESP: Self = Self(0x01);
    /// Host to Controller Terminate Connection Request.
    pub const H2C_TERM_REQ: Self = Self(0x02);
    /// Controller to Host Terminate Connection Request.
    pub const C2H_TERM_REQ: Self = Self(0x03);
    /// Command Capsule.
    pub const CAPSULE_CMD: Self = Self(0x04);
    /// Response Capsule.
    pub const CAPSULE_RESP: Self = Self(0x05);
    /// Host to Controller Data Transfer.
    pub const H2C_DATA: Self = Self(0x06);
    /// Controller to Host Data Transfer.
    pub const C2H_DATA: Self = Self(0x07);
    /// Ready to Transfer.
    pub const R2T: Self = Self(0x09);

    /// Header length of this type, or `None` for types that do not exist.
    #[must_use]
    pub const fn hlen(self) -> Option<u8> {
        match self {
            Self::IC_REQ | Self::IC_RESP => Some(128),
            Self::CAPSULE_CMD => Some(72),
            Self::H2C_TERM_REQ
            | Self::C2H_TERM_REQ
            | Self::CAPSULE_RESP
            | Self::H2C_DATA
            | Self::C2H_DATA
            | Self::R2T => Some(24),
            _ => None,
        }
    }

    /// Whether hosts send this type (else controllers do).
    #[must_use]
    pub const fn from_host(self) -> bool {
        matches!(self, Self::IC_REQ | Self::H2C_TERM_REQ | Self::CAPSULE_CMD | Self::H2C_DATA)
    }

    /// Whether this type may have data.
    #[must_use]
    pub const fn has_data(self) -> bool {
        matches!(self, Self::CAPSULE_CMD | Self::H2C_DATA | Self::C2H_DATA)
    }
}

/// Fatal Error Status of a termination request (TCP 3.6.2.4, 3.6.2.5).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct Fes(pub U16);

impl Fes {
    /// Invalid PDU Header Field; the information is the field's offset.
    pub const INVALID_HEADER_FIELD: Self = Self(U16::new(1));
    /// PDU Sequence Error.
    pub const SEQUENCE: Self = Self(U16::new(2));
    /// Header Digest Error; the information is the digest received.
    pub const HEADER_DIGEST: Self = Self(U16::new(3));
    /// Data Transfer Out of Range.
    pub const DATA_OUT_OF_RANGE: Self = Self(U16::new(4));
    /// Data Transfer Limit Exceeded (from a controller), R2T Limit Exceeded (from a host).
    pub const LIMIT_EXCEEDED: Self = Self(U16::new(5));
    /// Unsupported Parameter; the information is the field's offset.
    pub const UNSUPPORTED_PARAMETER: Self = Self(U16::new(6));
}

impl fmt::Display for Fes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::INVALID_HEADER_FIELD => f.write_str("Invalid PDU Header Field"),
            Self::SEQUENCE => f.write_str("PDU Sequence Error"),
            Self::HEADER_DIGEST => f.write_str("Header Digest Error"),
            Self::DATA_OUT_OF_RANGE => f.write_str("Data Transfer Out of Range"),
            Self::LIMIT_EXCEEDED => f.write_str("Data Transfer or R2T Limit Exceeded"),
            Self::UNSUPPORTED_PARAMETER => f.write_str("Unsupported Parameter"),
            Self(other) => write!(f, "Fatal Error Status {other:#x}"),
        }
    }
}

/// A violation of the protocol that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Fatal Error Status.
    pub fes: Fes,
    /// Fatal Error Information.
    pub fei: u32,
    /// What was wrong, in words.
    pub what: &'static str,
}

impl Fault {
    pub(crate) const fn field(offset: u32, what: &'static str) -> Self {
        Self { fes: Fes::INVALID_HEADER_FIELD, fei: offset, what }
    }

    pub(crate) const fn sequence(what: &'static str) -> Self {
        Self { fes: Fes::SEQUENCE, fei: 0, what }
    }

    pub(crate) const fn range(what: &'static str) -> Self {
        Self { fes: Fes::DATA_OUT_OF_RANGE, fei: 0, what }
    }

    pub(crate) const fn limit(what: &'static str) -> Self {
        Self { fes: Fes::LIMIT_EXCEEDED, fei: 0, what }
    }

    pub(crate) const fn unsupported(offset: u32, what: &'static str) -> Self {
        Self { fes: Fes::UNSUPPORTED_PARAMETER, fei: offset, what }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, information {:#x})", self.what, self.fes, self.fei)
    }
}

/// Flags of the common header (TCP 3.6.1).
#[bitfield_struct::bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct Flags {
    /// A header digest is present.
    pub hdgstf: bool,
    /// A data digest is present.
    pub ddgstf: bool,
    /// The last data PDU of a transfer.
    pub last_pdu: bool,
    /// The command succeeded: no response capsule follows.
    pub success: bool,
    #[bits(4)]
    _rsvd: u8,
}

macro_rules! pdu {
    ($($(#[$meta:meta])* $name:ident[$size:expr] { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
        }

        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

pdu! {
    /// Common header of all PDUs (TCP 3.6.1).
    CommonHeader[8] {
        /// PDU type.
        pdu_type: PduType,
        /// Flags.
        flags: Flags,
        /// Header length in bytes, without the digest.
        hlen: u8,
        /// PDU Data Offset from the PDU's start; 0 without data.
        pdo: u8,
        /// PDU length in bytes, all included.
        plen: U32,
    }

    /// Initialize Connection Request (TCP 3.6.2.2).
    IcReq[128] {
        /// Common header.
        ch: CommonHeader,
        /// PDU Format Version: 0.
        pfv: U16,
        /// Host PDU Data Alignment in dwords, zero-based, 0 to 31.
        hpda_z: u8,
        /// Digests that the host asks for.
        dgst: DigestTypes,
        /// Maximum Number of Outstanding R2T of one command, zero-based.
        maxr2t_z: U32,
        /// Reserved.
        rsvd16: [u8; 112],
    }

    /// Initialize Connection Response (TCP 3.6.2.3).
    IcResp[128] {
        /// Common header.
        ch: CommonHeader,
        /// PDU Format Version: 0.
        pfv: U16,
        /// Controller PDU Data Alignment in dwords, zero-based, 0 to 31.
        cpda_z: u8,
        /// Digests in use.
        dgst: DigestTypes,
        /// Maximum Host to Controller Data length of one PDU in bytes.
        maxh2cdata: U32,
        /// Reserved.
        rsvd16: [u8; 112],
    }

    /// Terminate Connection Request of either side (TCP 3.6.2.4, 3.6.2.5); up to 128 bytes of the header
    /// that was wrong follow.
    TermReq[24] {
        /// Common header.
        ch: CommonHeader,
        /// Fatal Error Status.
        fes: Fes,
        /// Fatal Error Information.
        fei: U32,
        /// Reserved.
        rsvd14: [u8; 10],
    }

    /// Command Capsule (TCP 3.6.2.6).
    CapsuleCmd[72] {
        /// Common header.
        ch: CommonHeader,
        /// Submission Queue Entry.
        ccsqe: Command,
    }

    /// Response Capsule (TCP 3.6.2.7).
    CapsuleResp[24] {
        /// Common header.
        ch: CommonHeader,
        /// Completion Queue Entry.
        rccqe: Completion,
    }

    /// Header of H2CData and C2HData (TCP 3.6.2.8, 3.6.2.9).
    DataHeader[24] {
        /// Common header.
        ch: CommonHeader,
        /// Command Capsule CID.
        cccid: U16,
        /// Transfer Tag (H2CData; reserved in C2HData).
        ttag: U16,
        /// Data Offset within the command's data.
        datao: U32,
        /// Data Length of this PDU.
        datal: U32,
        /// Reserved.
        rsvd20: [u8; 4],
    }

    /// Ready to Transfer (TCP 3.6.2.10).
    R2t[24] {
        /// Common header.
        ch: CommonHeader,
        /// Command Capsule CID.
        cccid: U16,
        /// Transfer Tag, to be given back in H2CData.
        ttag: U16,
        /// Requested Data Offset within the command's data.
        r2to: U32,
        /// Requested Data Length.
        r2tl: U32,
        /// Reserved.
        rsvd20: [u8; 4],
    }
}

/// Digest types of ICReq and ICResp (TCP 3.6.2.2).
#[bitfield_struct::bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct DigestTypes {
    /// Header digest.
    pub hdgst: bool,
    /// Data digest.
    pub ddgst: bool,
    #[bits(6)]
    _rsvd: u8,
}

impl CommonHeader {
    /// The header of a PDU without data; `digest` says whether a header digest follows.
    pub(crate) fn new(pdu_type: PduType, digest: bool) -> Self {
        let hlen = pdu_type.hlen().unwrap_or(0);
        Self {
            pdu_type,
            flags: Flags::new().with_hdgstf(digest),
            hlen,
            pdo: 0,
            plen: U32::new(u32::from(hlen) + if digest { 4 } else { 0 }),
        }
    }
}

/// The digests and the alignment that one side's PDUs have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Format {
    pub hdgst: bool,
    pub ddgst: bool,
    /// Alignment of data in dwords, zero-based: 0 to 31.
    pub pda_z: u8,
}

impl Format {
    /// Completes a header for `len` bytes of data: offset, length and flags.
    pub fn with_data(self, mut ch: CommonHeader, len: u32) -> CommonHeader {
        let pdo = self.data_offset(ch.hlen);
        ch.flags.set_ddgstf(self.ddgst);
        ch.pdo = pdo;
        ch.plen.set(u32::from(pdo) + len + if self.ddgst { 4 } else { 0 });
        ch
    }

    /// Where data starts behind a header of this length: after the digest, rounded up to the alignment.
    fn data_offset(self, hlen: u8) -> u8 {
        let align = (u32::from(self.pda_z) + 1) * 4;
        let head = u32::from(hlen) + if self.hdgst { 4 } else { 0 };
        // At most 128: 76 bytes of header and digest, an alignment of at most 128.
        u8::try_from(head.next_multiple_of(align)).unwrap_or(128)
    }
}
