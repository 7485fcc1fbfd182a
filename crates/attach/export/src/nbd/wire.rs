//! Numbers of the protocol ("Values" in its document), all big-endian on the wire.

use fuser::Errno;

/// Bytes of a write, and of the reply to a read, at most. What the protocol recommends to take at least.
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;
/// Bytes of a name or another string at most ("Conventions").
pub const LONGEST_STRING: u32 = 4096;

/// First magic of the server (`NBDMAGIC`).
const INIT_PASSWORD: u64 = 0x4E42_444D_4147_4943;
/// Magic of an option; the server's second magic, too.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
/// Magic of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
/// Magic of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668E_33EF;

/// Handshake flag, and client flag: fixed newstyle.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag, and client flag: no 124 zeroes after `NBD_OPT_EXPORT_NAME`.
pub const NO_ZEROES: u16 = 1 << 1;

/// What a server says first.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&INIT_PASSWORD.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    bytes
}

/// Transmission flags.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_CMD_FLUSH`.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_FUA`.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `NBD_CMD_TRIM`.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `NBD_CMD_WRITE_ZEROES`.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_CMD_FLAG_DF`.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush covers what was answered on any connection.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `NBD_CMD_FLAG_FAST_ZERO`.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Option types.
pub mod option {
    /// Choose an export without a reply that could fail.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Details of an export.
    pub const INFO: u32 = 6;
    /// Choose an export.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub mod reply {
    /// Success.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// Something about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Not known here.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// Malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// Too large.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Types of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// What it is, for people.
    pub const DESCRIPTION: u16 = 2;
    /// Its size constraints.
    pub const BLOCK_SIZE: u16 = 3;
}

/// The metadata context that is served.
pub const ALLOCATION: &[u8] = b"base:allocation";
/// Its identifier in a session.
pub const ALLOCATION_ID: u32 = 1;
/// Status flag of that context: writing may find no space.
pub const STATE_HOLE: u32 = 1 << 0;
/// Status flag of that context: reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

/// Commands.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// Disconnect.
    pub const DISC: u16 = 2;
    /// Flush.
    pub const FLUSH: u16 = 3;
    /// Trim.
    pub const TRIM: u16 = 4;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Ask for the status of blocks.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub mod flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// Keep the blocks allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One content chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail rather than take as long as a write.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Types of chunks of structured replies, and their one flag.
pub mod chunk {
    /// The last chunk of a reply.
    pub const DONE: u16 = 1 << 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Status of blocks.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Error values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum NbdError {
    /// Operation not permitted: a write to a read-only export.
    Perm = 1,
    /// Input/output error.
    Io = 5,
    /// Invalid argument.
    Inval = 22,
    /// No space left on device.
    NoSpc = 28,
    /// Value too large.
    Overflow = 75,
    /// Operation not supported: only in reply to `NBD_CMD_FLAG_FAST_ZERO`.
    NotSup = 95,
    /// The export has gone.
    Shutdown = 108,
}

impl From<Errno> for NbdError {
    /// What a client sees of the error that a program would see of a block file.
    fn from(errno: Errno) -> Self {
        let is = |other: Errno| i32::from(errno) == i32::from(other);
        match () {
            () if is(Errno::ENOSPC) || is(Errno::EFBIG) => NbdError::NoSpc,
            () if is(Errno::EROFS) || is(Errno::EACCES) || is(Errno::EPERM) => NbdError::Perm,
            () if is(Errno::EINVAL) || is(Errno::ENXIO) || is(Errno::EOPNOTSUPP) => NbdError::Inval,
            () if is(Errno::ENODEV) => NbdError::Shutdown,
            () => NbdError::Io,
        }
    }
}

/// Writes big-endian numbers to the end of a list.
pub trait Put {
    /// 16 bits.
    fn u16(&mut self, value: u16) -> &mut Self;
    /// 32 bits.
    fn u32(&mut self, value: u32) -> &mut Self;
    /// 64 bits.
    fn u64(&mut self, value: u64) -> &mut Self;
    /// Bytes as they are.
    fn bytes(&mut self, value: &[u8]) -> &mut Self;
}

impl Put for Vec<u8> {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.extend_from_slice(value);
        self
    }
}

/// Takes big-endian numbers from the begin of a slice; `None` if it is too short.
pub struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string behind its length of 32 bits.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32().filter(|len| *len <= LONGEST_STRING)?;
        self.bytes(len as usize)
    }
}
