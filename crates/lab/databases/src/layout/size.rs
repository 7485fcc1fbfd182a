//! Sizes as layouts write them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes, written as a number, as a string with a unit, or as "rest".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So many.
    Bytes(u64),
    /// What the NVM Set still has when the namespace's turn comes.
    Rest,
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size such as \"64MiB\", or \"rest\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                if text == "rest" {
                    return Ok(Size::Rest);
                }
                units::parse_size(text).map(Size::Bytes).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                u64::try_from(number).map(Size::Bytes).map_err(|_| E::custom("a size cannot be negative"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => serializer.serialize_str(&format!("{bytes}B")),
            Self::Rest => serializer.serialize_str("rest"),
        }
    }
}
