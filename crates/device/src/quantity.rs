//! Quantities and messages of a drive's TOML.

use media::Nanos;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use units::{Wrong, nearest, parse_percent, parse_rate, parse_size};

fn parse_time(text: &str) -> Result<Nanos, Wrong> {
    units::parse_time(text).map(Nanos)
}

/// What is wrong with a TOML text. For an unknown word it suggests the one that may have been meant.
pub fn toml_error(error: &toml::de::Error) -> String {
    let text = error.to_string().trim_end().to_owned();
    match meant(error.message()) {
        Some(near) => format!("{text}: did you mean {near}?"),
        None => text,
    }
}

/// The word that was meant in a message of the form "unknown field `x`, expected one of `y`, `z`".
fn meant(message: &str) -> Option<&str> {
    let rest =
        message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (word, expected) = rest.split_once('`')?;
    nearest(word, expected.split('`').skip(1).step_by(2))
}

/// A number in a drive's TOML, written as a string with a unit or, where that is clear, as an integer.
macro_rules! quantity {
    ($(#[$meta:meta])* $name:ident($inner:ty), $parse:ident, $integer:expr, $rule:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Quantity;
                impl Visitor<'_> for Quantity {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($rule)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $parse(text).map($name).map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, value: i64) -> Result<$name, E> {
                        let integer: fn(u64) -> Option<$inner> = $integer;
                        u64::try_from(value)
                            .ok()
                            .and_then(integer)
                            .map($name)
                            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self))
                    }
                }
                deserializer.deserialize_any(Quantity)
            }
        }
    };
}

quantity!(
    /// Bytes.
    Size(u64), parse_size, Some,
    "a size such as \"64MiB\", \"1.5GB\" or a number of bytes (units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)"
);
quantity!(
    /// Bytes per second.
    Rate(u64), parse_rate, |v| (v == 0).then_some(0),
    "a rate such as \"1.2GB/s\" or \"400MiB/s\", or 0 for no limit"
);
quantity!(
    /// A span of time.
    Time(Nanos), parse_time, |v| (v == 0).then_some(Nanos::ZERO),
    "a time such as \"60us\", \"1.5ms\" or \"250ns\" (units: ns, us, ms, s), or 0"
);
quantity!(
    /// Millionths.
    Percent(u64), parse_percent, |_| None,
    "a percentage such as \"12.5%\""
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_was_meant() {
        assert_eq!(meant("unknown field `spair`, expected one of `dies`, `spare`"), Some("spare"));
        assert_eq!(meant("unknown variant `greddy`, expected `greedy` or `fifo`"), Some("greedy"));
        assert_eq!(meant("unknown field `spair`"), None);
        assert_eq!(meant("missing field `dies`"), None);
    }
}
