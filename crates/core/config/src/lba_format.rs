//! LBA formats: how large a logical block is, what metadata it has, and how that is protected.

use crate::protection::Guard;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::str::FromStr;

/// Bytes of metadata that a page of 4,096 bytes has room for.
pub const PAGE_METADATA: usize = 64;

/// LBA formats that a drive can offer at most (NVM 4.1.5.1).
pub const MAX_FORMATS: usize = 64;

/// An LBA format. In a drive's TOML and on the command line it is written like this:
/// - `4096`, `512+8`: bytes of data and metadata,
/// - `4096+16:64`: then the bits of the guard, if not 16,
/// - `4096+16:64:16`: then the bits of the storage tag,
/// - `4096+16:q64`: the guard as a Qualified Protection Information Format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LbaFormat {
    /// Bytes of data: 512 or 4,096.
    pub data: u32,
    /// Bytes of metadata, at most 64 for a page.
    pub metadata: u8,
    /// The guard, if the metadata is used for protection information.
    pub guard: Guard,
    /// Bits of the storage tag.
    pub storage_bits: u8,
    /// Whether the guard is told as a Qualified Protection Information Format (ELBAF.QPIF): only hosts that know of it see which it is.
    pub qualified: bool,
}

/// Protection Information Format of ELBAF that leaves it to the qualified one (NVM 4.1.5.3, PIF 11b).
const QUALIFIED: u32 = 3;

impl LbaFormat {
    /// A format without metadata.
    #[must_use]
    pub const fn plain(data: u32) -> Self {
        LbaFormat { data, metadata: 0, guard: Guard::Crc16, storage_bits: 0, qualified: false }
    }

    /// Bytes of data as a power of two.
    #[inline]
    #[must_use]
    pub const fn shift(&self) -> u8 {
        self.data.trailing_zeros() as u8
    }

    /// Whether the metadata has room for protection information.
    #[must_use]
    pub const fn can_protect(&self) -> bool {
        self.metadata as usize >= self.guard.bytes()
    }

    /// Its extended part (NVM 4.1.5.3, ELBAF): Storage Tag Size in bits 6:0, Protection Information Format in bits 8:7, Qualified Protection
    /// Information Format in bits 12:9.
    /// Hosts that have not enabled LBA Format Extensions (LBAFEE) may not use a format where it is not zero.
    #[must_use]
    pub const fn extension(&self) -> u32 {
        let guard = self.guard.format() as u32;
        let pif = if self.qualified { QUALIFIED | guard << 2 } else { guard };
        pif << 7 | self.storage_bits as u32
    }

    /// A format as a controller tells it: bytes of data and of metadata, and its extended part. `None` if there is no such guard.
    #[must_use]
    pub const fn told(data: u32, metadata: u8, extension: u32) -> Option<Self> {
        let qualified = extension >> 7 & 3 == QUALIFIED;
        let guard = match if qualified { extension >> 9 & 0xF } else { extension >> 7 & 3 } {
            0 => Guard::Crc16,
            1 => Guard::Crc32,
            2 => Guard::Crc64,
            _ => return None,
        };
        Some(LbaFormat { data, metadata, guard, storage_bits: (extension & 0x7F) as u8, qualified })
    }

    /// Why it cannot be, if it cannot.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        if ![512, 4096].contains(&self.data) {
            return Some("a logical block has 512 or 4096 bytes");
        }
        let room = PAGE_METADATA / (4096 / self.data as usize);
        if usize::from(self.metadata) > room {
            return Some("there are at most 64 bytes of metadata for 4096 bytes of data");
        }
        if self.guard != Guard::Crc16 && (self.data < 4096 || !self.can_protect()) {
            return Some(
                "guards of 32 and 64 bits need blocks of 4096 bytes with 16 bytes of metadata or more",
            );
        }
        if !self.guard.storage_bits().contains(&self.storage_bits)
            || (self.storage_bits > 0 && !self.can_protect())
        {
            return Some(
                "storage tags have 0 to 32, 16 to 64 or 0 to 48 bits with guards of 16, 32 or 64 bits",
            );
        }
        if self.qualified && !self.can_protect() {
            return Some("a qualified guard needs room for it in the metadata");
        }
        None
    }
}

impl FromStr for LbaFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "{why}; a format is written as 4096, 512+8, 4096+16:64, 4096+16:q64 or 4096+16:64:16 (data + metadata : guard : storage tag)"
            )
        };
        let mut parts = text.trim().split(':');
        let (data, metadata) = match parts.next().unwrap_or_default().split_once('+') {
            Some((data, metadata)) => (data, metadata),
            None => (text.trim(), "0"),
        };
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong("it is not made of numbers"));
        let guard = parts.next();
        let qualified = guard.is_some_and(|guard| guard.starts_with('q'));
        let guard = match guard.map(|guard| guard.strip_prefix('q').unwrap_or(guard)) {
            None | Some("16") => Guard::Crc16,
            Some("32") => Guard::Crc32,
            Some("64") => Guard::Crc64,
            Some(_) => return Err(wrong("the guard has 16, 32 or 64 bits")),
        };
        let storage_bits = match parts.next() {
            None => *guard.storage_bits().start(),
            Some(bits) => u8::try_from(number(bits)?).unwrap_or(u8::MAX),
        };
        let metadata = u8::try_from(number(metadata)?).unwrap_or(u8::MAX);
        let format = LbaFormat { data: number(data)?, metadata, guard, storage_bits, qualified };
        match format.fault() {
            _ if parts.next().is_some() => Err(wrong("it has too many parts")),
            Some(why) => Err(wrong(why)),
            None => Ok(format),
        }
    }
}

impl fmt::Display for LbaFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.data)?;
        if self.metadata > 0 {
            write!(f, "+{}", self.metadata)?;
        }
        if self.extension() != 0 {
            write!(f, ":{}{}", if self.qualified { "q" } else { "" }, self.guard.bits())?;
        }
        if self.storage_bits != *self.guard.storage_bits().start() {
            write!(f, ":{}", self.storage_bits)?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for LbaFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Format;
        impl Visitor<'_> for Format {
            type Value = LbaFormat;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an LBA format such as 4096, \"512+8\" or \"4096+16:64\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<LbaFormat, E> {
                text.parse().map_err(|why| E::custom(format_args!("{text:?}: {why}")))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<LbaFormat, E> {
                // A size alone; whether the drive can have it is said with the rest of the configuration.
                let data = u32::try_from(value);
                data.map(LbaFormat::plain).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }
        }
        deserializer.deserialize_any(Format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_they_are_written() {
        for text in [
            "4096",
            "512",
            "512+8",
            "4096+8",
            "4096+64",
            "4096+16:32",
            "4096+16:64",
            "4096+16:64:16",
            "4096+8:16:8",
            "4096+8:q16",
            "512+8:q16",
            "4096+16:q32",
            "4096+16:q64",
            "4096+16:q64:16",
        ] {
            let format: LbaFormat = text.parse().unwrap();
            assert_eq!(LbaFormat::told(format.data, format.metadata, format.extension()), Some(format));
            assert_eq!(text.parse::<LbaFormat>().unwrap().to_string(), text);
        }
        let format: LbaFormat = "4096+16:32:24".parse().unwrap();
        assert_eq!((format.guard, format.storage_bits, format.extension()), (Guard::Crc32, 24, 1 << 7 | 24));
        // PIF says that it is qualified, QPIF which it is.
        let qualified: LbaFormat = "4096+16:q64:16".parse().unwrap();
        assert_eq!((qualified.guard, qualified.extension()), (Guard::Crc64, 2 << 9 | 3 << 7 | 16));
        assert_eq!(LbaFormat::told(4096, 16, 3 << 9 | 3 << 7), None);
    }

    #[test]
    fn what_is_no_format() {
        for text in [
            "",
            "+8",
            "1024",
            "512+16",
            "4096+65",
            "4096+8:64",
            "512+8:32",
            "4096+16:48",
            "4096:16:8",
            "4096+16:32:8",
            "4096+8:16:8:1",
            "4096:q16",
            "4096+8:q64",
            "512+8:q32",
            "4096+16:q48",
            "4096+16:qq64",
            "4096+16:q",
        ] {
            assert!(text.parse::<LbaFormat>().is_err(), "{text}");
        }
    }
}
