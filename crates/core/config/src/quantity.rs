//! Quantities of a drive's TOML.

use media::Nanos;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use units::{Wrong, parse_percent, parse_rate, parse_size};

fn parse_time(text: &str) -> Result<Nanos, Wrong> {
    units::parse_time(text).map(Nanos)
}

/// What a quota says where it limits nothing, besides 0.
const NO_LIMIT: &str = "none";

fn parse_bandwidth_limit(text: &str) -> Result<u64, String> {
    if text == NO_LIMIT { Ok(0) } else { parse_rate(text).map_err(|wrong| wrong.to_string()) }
}

fn parse_command_limit(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("\"{text}\" is no number of commands per second: write 5000, or \"none\" for no limit");
    if text == NO_LIMIT { Ok(0) } else { text.parse().map_err(|_| wrong()) }
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
    /// Bytes per second that a namespace may use; 0 is no limit.
    BandwidthLimit(u64), parse_bandwidth_limit, |v| (v == 0).then_some(0),
    "a rate such as \"391MB/s\", or \"none\" or 0 for no limit"
);
quantity!(
    /// Commands per second that a namespace may use; 0 is no limit.
    CommandLimit(u64), parse_command_limit, Some,
    "a number of commands per second, or \"none\" or 0 for no limit"
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
