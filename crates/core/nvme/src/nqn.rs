//! NVMe Qualified Names (Base 4.7).

use core::fmt;

/// The field of an NQN in a wire structure: 256 bytes, the name padded with zeroes.
pub type NqnField = [u8; 256];

/// An NVMe Qualified Name: UTF-8, at most 223 bytes, in one of the two forms of Base 4.7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nqn {
    bytes: [u8; Nqn::MAX],
    len: u8,
}

/// Why a name is not an NQN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NqnError {
    /// Longer than 223 bytes, or without the terminating zero in its field.
    TooLong,
    /// Not UTF-8.
    NotUtf8,
    /// Not `nqn.yyyy-mm.reverse.domain:string` nor `nqn.2014-08.org.nvmexpress:uuid:…`.
    Form,
}

impl fmt::Display for NqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "an NQN has at most 223 bytes",
            Self::NotUtf8 => "an NQN is UTF-8",
            Self::Form => "an NQN has the form nqn.yyyy-mm.reverse.domain[:string]",
        })
    }
}

impl core::error::Error for NqnError {}

impl Nqn {
    /// The longest name in bytes.
    pub const MAX: usize = 223;

    /// The well-known name of every discovery controller (Base 3.1.3.3).
    pub const DISCOVERY: &'static str = "nqn.2014-08.org.nvmexpress.discovery";

    /// Checks a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        let len = u8::try_from(name.len()).ok().filter(|len| usize::from(*len) <= Self::MAX);
        let len = len.ok_or(NqnError::TooLong)?;
        if !has_form(name) {
            return Err(NqnError::Form);
        }
        let mut bytes = [0; Self::MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self { bytes, len })
    }

    /// Reads the field of a wire structure.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn from_field(field: &NqnField) -> Result<Self, NqnError> {
        let len = field.iter().position(|byte| *byte == 0).ok_or(NqnError::TooLong)?;
        Self::new(core::str::from_utf8(&field[..len]).map_err(|_| NqnError::NotUtf8)?)
    }

    /// The field of a wire structure.
    #[must_use]
    pub fn to_field(&self) -> NqnField {
        let mut field = [0; 256];
        field[..Self::MAX].copy_from_slice(&self.bytes);
        field
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// The Host Identifier of a host that has none but this name: the same for each of its connections, so that reservations
    /// know one host. It has the form of a UUID (RFC 9562, version 8).
    #[must_use]
    pub fn host_identifier(&self) -> [u8; 16] {
        // FNV-1a, twice from different starts: all that is asked for is that hosts differ.
        let hash = |start: u64| {
            let name = self.as_str().bytes();
            name.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
        };
        let mut id = [0; 16];
        id[..8].copy_from_slice(&hash(0xCBF2_9CE4_8422_2325).to_be_bytes());
        id[8..].copy_from_slice(&hash(0x8422_2325_CBF2_9CE4).to_be_bytes());
        id[6] = id[6] & 0x0F | 0x80;
        id[8] = id[8] & 0x3F | 0x80;
        id
    }

    /// The name of a host by its UUID, 16 bytes in network order.
    #[must_use]
    pub fn from_uuid(uuid: [u8; 16]) -> Self {
        const PREFIX: &[u8] = b"nqn.2014-08.org.nvmexpress:uuid:";
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0; Self::MAX];
        bytes[..PREFIX.len()].copy_from_slice(PREFIX);
        let mut at = PREFIX.len();
        for (index, byte) in uuid.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                bytes[at] = b'-';
                at += 1;
            }
            bytes[at] = HEX[usize::from(byte >> 4)];
            bytes[at + 1] = HEX[usize::from(byte & 0xF)];
            at += 2;
        }
        Self { bytes, len: 68 }
    }
}

/// `nqn.` year `-` month `.` and something after it; no control characters.
fn has_form(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("nqn.") else { return false };
    let b = rest.as_bytes();
    let digits = |range: &[u8]| range.iter().all(u8::is_ascii_digit);
    b.len() > 8
        && digits(&b[..4])
        && b[4] == b'-'
        && digits(&b[5..7])
        && b[7] == b'.'
        && !name.chars().any(char::is_control)
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nqn({self})")
    }
}

impl core::str::FromStr for Nqn {
    type Err = NqnError;

    fn from_str(name: &str) -> Result<Self, NqnError> {
        Self::new(name)
    }
}

impl AsRef<str> for Nqn {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
