//! Values of options: sizes, times, fractions, one for each direction.

use workload::Nanos;

/// Digits behind the point that fractions keep: they are counted in millionths.
pub(super) const MILLION: u64 = 1_000_000;

/// A number of bytes, or a share of what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent, 0 to 100.
    Percent(u64),
    /// Zones of a zoned namespace.
    Zones(u64),
}

impl Amount {
    /// In bytes, when the whole has so many, and each of its zones `zone`: 0 without zones.
    #[must_use]
    pub fn of(self, whole: u64, zone: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(whole)
            }
            Self::Zones(zones) => zones.saturating_mul(zone),
        }
    }
}

/// A number of bytes: `4096`, `0x1000`, `64k`, `1m`, `2GiB`. `base` is what k means (`kb_base`): 1024 or
/// 1000; "kib" and the like mean the other of the two, as they do in fio.
pub(super) fn size(text: &str, base: u64) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let wrong = || format!("{text:?} is no size: write 4096, 64k, 1m or 2g");
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (lower.as_str(), 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, unit) = digits.split_at(end);
    let number = u64::from_str_radix(number, radix).map_err(|_| wrong())?;
    let (power, rest) = match unit.bytes().next() {
        None => return Ok(number),
        Some(b'b') => (0, unit),
        Some(b'k') => (1, &unit[1..]),
        Some(b'm') => (2, &unit[1..]),
        Some(b'g') => (3, &unit[1..]),
        Some(b't') => (4, &unit[1..]),
        Some(b'p') => (5, &unit[1..]),
        Some(_) => return Err(wrong()),
    };
    let base = match rest {
        "" | "b" | "i" => base,
        "ib" => {
            if base == 1024 {
                1000
            } else {
                1024
            }
        }
        _ => return Err(wrong()),
    };
    base.checked_pow(power)
        .and_then(|factor| number.checked_mul(factor))
        .ok_or_else(|| format!("{text:?} is too large"))
}

/// A size, or a percentage.
pub(super) fn amount(text: &str, base: u64) -> Result<Amount, String> {
    match text.trim().strip_suffix('%') {
        None => size(text, base).map(Amount::Bytes),
        Some(percent) => match percent.trim().parse() {
            Ok(percent @ 0..=100) => Ok(Amount::Percent(percent)),
            _ => Err(format!("{text:?} is no percentage from 0% to 100%")),
        },
    }
}

/// A size, a percentage, or a number of zones: `3z`.
pub(super) fn amount_or_zones(text: &str, base: u64) -> Result<Amount, String> {
    match text.trim().strip_suffix(['z', 'Z']) {
        None => amount(text, base),
        Some(zones) => {
            zones.parse().map(Amount::Zones).map_err(|_| format!("{text:?} is no number of zones such as 3z"))
        }
    }
}

/// A time in nanoseconds. A number without unit counts `unit` nanoseconds.
pub(super) fn time(text: &str, unit: Nanos) -> Result<Nanos, String> {
    let lower = text.trim().to_ascii_lowercase();
    let wrong = || format!("{text:?} is no time: write 30, 30s, 500ms, 100us, 5m, 2h or 1d");
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, name) = lower.split_at(end);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match name {
        "" => unit,
        "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is too long"))
}

/// A whole number in a range; a unit may follow (`100k`), with the meaning that it has for sizes, as in fio.
pub(super) fn number(text: &str, base: u64, least: u64, most: u64) -> Result<u64, String> {
    let plain = size(text, base).map_err(|_| format!("{text:?} is no whole number"))?;
    if (least..=most).contains(&plain) {
        return Ok(plain);
    }
    Err(match most {
        u64::MAX => format!("{text:?} is less than {least}"),
        _ => format!("{text:?} is not from {least} to {most}"),
    })
}

/// A flag: one that stands alone is set.
pub(super) fn flag(text: Option<&str>) -> Result<bool, String> {
    match text.map(str::trim) {
        None | Some("1" | "true" | "yes" | "on") => Ok(true),
        Some("0" | "false" | "no" | "off") => Ok(false),
        Some(other) => Err(format!("{other:?} is no flag: write 0 or 1")),
    }
}

/// A decimal fraction in millionths, 0 to 1,000,000.
pub(super) fn millionths(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no number such as 1.2");
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() > 7 {
        return Err(wrong());
    }
    let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    Ok(whole * MILLION + fraction.parse::<u64>().map_err(|_| wrong())?)
}

/// Up to three values, for reads, writes and trims. One stands for all; an empty or missing one takes the
/// place before it (`missing` of its direction if there is none).
pub(super) fn three<T: Clone>(
    text: &str,
    missing: &[T; 3],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<[T; 3], String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 {
        return Err(format!("{text:?} has more than three parts: reads, writes, trims"));
    }
    let mut all = missing.clone();
    let mut last: Option<T> = None;
    for (index, slot) in all.iter_mut().enumerate() {
        match parts.get(index) {
            Some(part) if !part.is_empty() => {
                *slot = parse(part)?;
                last = Some(slot.clone());
            }
            Some(_) => {}
            None => {
                if let Some(last) = &last {
                    *slot = last.clone();
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What fio 3.33 makes of the same texts.
    #[test]
    fn sizes_as_fio() {
        for (text, bytes) in [
            ("1k", 1024),
            ("1kb", 1024),
            ("1ki", 1024),
            ("1kib", 1000),
            ("64K", 65536),
            ("1M", 1 << 20),
            ("1Mi", 1 << 20),
            ("0x1000", 4096),
            ("512b", 512),
            ("7", 7),
        ] {
            assert_eq!(size(text, 1024), Ok(bytes), "{text}");
        }
        assert_eq!(size("1kib", 1000), Ok(1024));
        assert_eq!(size("1k", 1000), Ok(1000));
        for wrong in ["", "k", "1x", "-1", "1.5k", "99999999999999999999", "99999999p", "1kk"] {
            assert!(size(wrong, 1024).is_err(), "{wrong}");
        }
    }

    #[test]
    fn others() {
        assert_eq!(amount("25%", 1024).map(|a| a.of(1000, 0)), Ok(250));
        assert_eq!(amount_or_zones("3z", 1024).map(|a| a.of(1000, 70)), Ok(210));
        assert!(amount_or_zones("z", 1024).is_err() && amount("3z", 1024).is_err());
        assert!(amount("101%", 1024).is_err());
        assert_eq!(time("5", 1_000_000_000), Ok(5_000_000_000));
        assert_eq!(time("100ms", 1), Ok(100_000_000));
        assert!(time("5 parsecs", 1).is_err());
        assert_eq!(millionths("1.25"), Ok(1_250_000));
        assert_eq!(millionths("99.9999999"), Ok(99_999_999));
        assert!(millionths("1.").is_err() && millionths(".5").is_err() && millionths("12345678").is_err());
        let sizes = |text| three(text, &[9, 9, 9], |part| size(part, 1024));
        assert_eq!(sizes("4k"), Ok([4096; 3]));
        assert_eq!(sizes("1,2"), Ok([1, 2, 2]));
        assert_eq!(sizes(",8k"), Ok([9, 8192, 8192]));
        assert_eq!(sizes("1,,3"), Ok([1, 9, 3]));
        assert!(sizes("1,2,3,4").is_err());
    }
}
