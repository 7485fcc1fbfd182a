//! Sizes, rates, times and ratios as people write them, in integers.

use media::Nanos;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;

/// A decimal number times a factor; `None` if it is not one, or not a whole number of the smallest unit.
fn decimal(text: &str, factor: u128) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| !t.is_empty() && t.len() <= 20 && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || (text.contains('.') && !digits(fraction)) {
        return None;
    }
    let mut value = whole.parse::<u128>().ok()?.checked_mul(factor)?;
    if !fraction.is_empty() {
        let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part = fraction.parse::<u128>().ok()?.checked_mul(factor)?;
        // A size of 0.1 GiB is not a whole number of bytes: the nearest is meant.
        value = value.checked_add((part + scale / 2) / scale)?;
    }
    u64::try_from(value).ok()
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn unit(text: &str, units: &[(&str, u128)]) -> Option<u64> {
    let (number, unit) = split(text);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    decimal(number, factor)
}

const SIZES: [(&str, u128); 10] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Bytes: `64MiB`, `1.5GB`, `4096`.
pub fn parse_size(text: &str) -> Option<u64> {
    unit(text, &SIZES)
}

/// Bytes per second: `391MB/s`, `1.2GiB/s`.
pub fn parse_rate(text: &str) -> Option<u64> {
    unit(text.trim().strip_suffix("/s")?, &SIZES)
}

/// A time: `60us`, `1.5ms`, `250ns`, `2s`.
pub fn parse_time(text: &str) -> Option<Nanos> {
    let units = [("ns", 1), ("us", 1000), ("µs", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    unit(text, &units).map(Nanos)
}

/// A ratio in millionths: `12.5%`.
pub fn parse_percent(text: &str) -> Option<u64> {
    unit(text, &[("%", 10_000)])
}

/// Which of the known words was meant: the one that differs in the fewest letters, if that is near enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(40).collect();
    let near = known.into_iter().map(|known| (strsim::damerau_levenshtein(&word, known), known)).min()?;
    (near.0 <= 3.min(word.chars().count() / 2)).then_some(near.1)
}

/// What is wrong with a TOML text; of a word that is not known, which may have been meant.
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

/// `bytes` in the largest IEC unit that divides it.
pub fn format_size(bytes: u64) -> String {
    for (name, factor) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{name}", bytes / factor);
        }
    }
    format!("{bytes}B")
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
                        $parse(text)
                            .map($name)
                            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
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
    fn a_word_that_is_nearly_known_is_named() {
        let known = ["spare", "channels", "dies"];
        assert_eq!(nearest("spair", known), Some("spare"));
        assert_eq!(nearest("chanels", known), Some("channels"));
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"ü".repeat(10_000), known), None);
        assert_eq!(meant("unknown field `spair`, expected one of `dies`, `spare`"), Some("spare"));
        assert_eq!(meant("unknown variant `greddy`, expected `greedy` or `fifo`"), Some("greedy"));
        assert_eq!(meant("unknown field `spair`"), None);
        assert_eq!(meant("missing field `dies`"), None);
    }

    #[test]
    fn quantities() {
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        assert_eq!(parse_size("1.5 GB"), Some(1_500_000_000));
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_rate("391MB/s"), Some(391_000_000));
        assert_eq!(parse_time("1.5ms"), Some(Nanos(1_500_000)));
        assert_eq!(parse_percent("12.5%"), Some(125_000));
        assert_eq!(format_size(3 << 29), "1536MiB");
        assert_eq!(format_size(1000), "1000B");
    }

    #[test]
    fn what_is_no_quantity() {
        for bad in [
            "",
            "MiB",
            "1Mib",
            "-1B",
            "1..5GB",
            "1.GB",
            ".5GB",
            "99999999999999999999TiB",
            "1e9",
            "0x10",
            "1,5GB",
        ] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
        assert_eq!(parse_rate("391MB"), None);
        assert_eq!(parse_time("60"), None);
        assert_eq!(parse_percent("12"), None);
    }
}
