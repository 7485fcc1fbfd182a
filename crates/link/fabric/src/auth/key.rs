//! Keys as text: `DHHC-1:hh:BASE64:` for DH-HMAC-CHAP (Base 8.3.5.5.7), `NVMeTLSkey-1:hh:BASE64:` for TLS
//! (TCP 3.6.1.5). The Base64 holds the key and its CRC-32.

use std::fmt;
use std::str::FromStr;

use nvme::Nqn;
use nvme::auth::{AuthFailure, HashId};

use super::crypto::{Random, Wiped, crc32, equal, hmac};

/// What is wrong with a key's text. The text itself is not repeated: it is secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not in the form of such a key.
    #[error("a {0} key has the form {0}:HH:BASE64: (with the colon at the end)")]
    Form(&'static str),
    /// The hash indicator is none that is defined.
    #[error("the hash indicator of a {0} key is 00 to 0{1}")]
    Hash(&'static str, u8),
    /// The part behind the hash indicator is not Base64.
    #[error("the key is not Base64")]
    Base64,
    /// A length that is not defined, or not for this hash.
    #[error("a key of {0} bytes does not go with this hash indicator")]
    Length(usize),
    /// The CRC-32 does not match: a typing error.
    #[error("the key's checksum is wrong: a character is mistyped or missing")]
    Crc,
}

/// Takes a text apart: hash indicator and key.
pub(super) fn parse(text: &str, prefix: &'static str, most: u8) -> Result<(u8, Wiped), KeyError> {
    let form = KeyError::Form(prefix);
    let rest = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':')).ok_or(form)?;
    let (hash, rest) = rest.split_once(':').ok_or(form)?;
    let base64 = rest.strip_suffix(':').ok_or(form)?;
    let hash = match hash.as_bytes() {
        [b'0', digit @ b'0'..=b'9'] => digit - b'0',
        _ => return Err(KeyError::Hash(prefix, most)),
    };
    if hash > most {
        return Err(KeyError::Hash(prefix, most));
    }
    // The longest key is 64 bytes with 4 of checksum.
    if base64.is_empty() || base64.len() > 92 {
        return Err(KeyError::Base64);
    }
    let bytes = Wiped::from(openssl::base64::decode_block(base64).map_err(|_| KeyError::Base64)?);
    // The decoder is lenient; only the one way to write these bytes is accepted.
    if openssl::base64::encode_block(&bytes) != base64 {
        return Err(KeyError::Base64);
    }
    let (key, crc) = bytes.split_last_chunk::<4>().ok_or(KeyError::Length(0))?;
    if !matches!(key.len(), 32 | 48 | 64) {
        return Err(KeyError::Length(key.len()));
    }
    if !equal(&crc32(key), crc) {
        return Err(KeyError::Crc);
    }
    Ok((hash, key.to_vec().into()))
}

/// The text of a key.
pub(super) fn format(prefix: &str, hash: u8, key: &[u8]) -> String {
    let bytes = Wiped::from([key, &crc32(key)].concat());
    format!("{prefix}:{hash:02}:{}:", openssl::base64::encode_block(&bytes))
}

/// A key of DH-HMAC-CHAP, of a host or of a controller.
///
/// Its `Debug` shows nothing of it, and its memory is wiped.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapKey {
    /// The function that binds it to its owner's NQN; `None` uses it as it is.
    transform: Option<HashId>,
    key: Wiped,
}

impl ChapKey {
    const PREFIX: &'static str = "DHHC-1";

    /// A new key. `transform` also gives its length; without it, `bytes` does: 32, 48 or 64.
    ///
    /// # Errors
    /// Another length, or one that does not go with the function.
    pub fn generate(
        transform: Option<HashId>,
        bytes: Option<usize>,
        random: Random<'_>,
    ) -> Result<Self, KeyError> {
        let natural = transform.and_then(HashId::hash_bytes);
        let bytes = bytes.or(natural).unwrap_or(32);
        if !matches!(bytes, 32 | 48 | 64) || natural.is_some_and(|natural| natural != bytes) {
            return Err(KeyError::Length(bytes));
        }
        let mut key = Wiped::zeroed(bytes);
        random(key.as_mut());
        Ok(Self { transform, key })
    }

    /// The text of the key, for the other side's configuration. It is secret.
    #[must_use]
    pub fn to_secret_text(&self) -> String {
        format(Self::PREFIX, self.transform.map_or(0, |hash| hash.0), &self.key)
    }

    /// The key that responses are computed with: bound to its owner (Base 8.3.5.5.7).
    pub(super) fn bound_to(&self, owner: &Nqn) -> Result<Wiped, AuthFailure> {
        match self.transform {
            None => Ok(self.key.clone()),
            Some(hash) => hmac(hash, &self.key, &[owner.as_str().as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

impl FromStr for ChapKey {
    type Err = KeyError;

    /// Parses `DHHC-1:hh:BASE64:`.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (hash, key) = parse(text, Self::PREFIX, 3)?;
        Ok(Self { transform: (hash != 0).then_some(HashId(hash)), key })
    }
}

impl fmt::Debug for ChapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_as_text() {
        let mut next = 0u8;
        let mut random = |bytes: &mut [u8]| {
            for byte in bytes {
                next = next.wrapping_mul(77).wrapping_add(13);
                *byte = next;
            }
        };
        for transform in [None, Some(HashId::SHA256), Some(HashId::SHA384), Some(HashId::SHA512)] {
            let key = ChapKey::generate(transform, None, &mut random).unwrap();
            let text = key.to_secret_text();
            assert!(text.parse::<ChapKey>().unwrap() == key);
            assert!(!format!("{key:?}").contains(&text[10..20]));
            // Every single character counts.
            for at in 0..text.len() {
                let mut wrong = text.clone().into_bytes();
                wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
                let wrong = String::from_utf8(wrong).unwrap();
                let error = wrong.parse::<ChapKey>().unwrap_err();
                assert!(!error.to_string().contains(&text[12..24]), "{error}");
            }
        }
        assert!(ChapKey::generate(Some(HashId::SHA256), Some(64), &mut random).is_err());
        assert!(ChapKey::generate(None, Some(31), &mut random).is_err());
    }

    #[test]
    fn what_is_no_key() {
        for (text, error) in [
            ("", KeyError::Form("DHHC-1")),
            ("DHHC-1:00", KeyError::Form("DHHC-1")),
            ("DHHC-1:00:AAAA", KeyError::Form("DHHC-1")),
            ("DHHC-1:04:AAAA:", KeyError::Hash("DHHC-1", 3)),
            ("DHHC-1:0:AAAA:", KeyError::Hash("DHHC-1", 3)),
            ("DHHC-1:00::", KeyError::Base64),
            ("DHHC-1:00:=:", KeyError::Base64),
            ("DHHC-1:00:A:", KeyError::Base64),
            ("DHHC-1:00:====:", KeyError::Base64),
            ("DHHC-1:00: AAA:", KeyError::Base64),
            ("DHHC-1:00:ÄÖÜ!:", KeyError::Base64),
            ("DHHC-1:00:AAAA:", KeyError::Length(0)),
            ("DHHC-1:00:AAAAAAAA:", KeyError::Length(2)),
        ] {
            assert_eq!(text.parse::<ChapKey>().unwrap_err(), error, "{text}");
        }
        assert!(format!("DHHC-1:00:{}:", "A".repeat(100_000)).parse::<ChapKey>().is_err());
    }

    /// A key that nvme-cli made: `nvme gen-dhchap-key`, and its checksum as it is checked there.
    #[test]
    fn a_key_of_nvme_cli() {
        // The configured PSK of libnvme's tests: the same Base64 and checksum.
        let text = "DHHC-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
        let key: ChapKey = text.parse().unwrap();
        assert_eq!(key.key[..4], [0x55, 0x12, 0xDB, 0xB6]);
        assert_eq!(key.to_secret_text(), text);
    }
}
