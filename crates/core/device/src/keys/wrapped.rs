//! Keys as the drive keeps them: wrapped, with the name of the drive key.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most bytes of a wrapped key.
const MOST_WRAPPED: usize = 256;

/// A namespace's key, encrypted with the drive key: only the owner of contents can make anything of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrappedKey(Vec<u8>);

impl WrappedKey {
    /// From what the owner of contents made; `None` if that is longer than 256 bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() <= MOST_WRAPPED).then_some(WrappedKey(bytes))
    }

    /// What the owner of contents made.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// As hexadecimal digits: they can be read, and searched for, in an image.
impl Serialize for WrappedKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&HEXLOWER.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for WrappedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let key = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok().and_then(WrappedKey::new);
        key.ok_or_else(|| {
            serde::de::Error::custom("a wrapped key is hexadecimal digits of at most 256 bytes")
        })
    }
}

/// Names a drive key, and tells nothing of it.
pub type DriveKeyId = [u8; 16];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_key_is_saved_as_digits() {
        let key = WrappedKey::new(vec![0, 0x7F, 0xFF]).unwrap();
        let text = serde_json::to_string(&key).unwrap();
        assert_eq!(text, "\"007fff\"");
        assert_eq!(serde_json::from_str::<WrappedKey>(&text).unwrap(), key);
        for bad in ["\"0\"", "\"0x\"", "7"] {
            assert!(serde_json::from_str::<WrappedKey>(bad).is_err(), "{bad}");
        }
        assert_eq!(WrappedKey::new(vec![0; MOST_WRAPPED + 1]), None);
    }
}
