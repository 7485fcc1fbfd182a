//! The grammar.

/// A unit's name and how many of the smallest unit it is.
type Unit = (&'static str, u128);

const SIZES: [Unit; 9] = [
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

const TIMES: [Unit; 8] = [
    ("ns", 1),
    ("us", 1000),
    ("µs", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const SHARES: [Unit; 1] = [("%", 10_000)];

/// What is wrong with a text that should be a quantity. Shows the text, what is expected, and what may have been meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong(String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// A kind of quantity.
struct QuantityKind {
    units: &'static [Unit],
    /// What a number without a unit is, if anything.
    bare: Option<u128>,
    /// Behind the unit.
    suffix: &'static str,
    /// For messages: "a size", and an example.
    name: &'static str,
    examples: &'static str,
}

const SIZE: QuantityKind = QuantityKind {
    units: &SIZES,
    bare: Some(1),
    suffix: "",
    name: "a size",
    examples: "64MiB, 1.5GB or a number of bytes",
};
const RATE: QuantityKind =
    QuantityKind { units: &SIZES, bare: None, suffix: "/s", name: "a rate", examples: "1.2GB/s or 400MiB/s" };
const TIME: QuantityKind =
    QuantityKind { units: &TIMES, bare: None, suffix: "", name: "a time", examples: "60us, 1.5ms or 2min" };
const SHARE: QuantityKind =
    QuantityKind { units: &SHARES, bare: None, suffix: "", name: "a percentage", examples: "12.5%" };

impl QuantityKind {
    fn parse(&self, text: &str) -> Result<u64, Wrong> {
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..end], trimmed[end..].trim());
        let factor = if unit.is_empty() {
            self.bare
        } else {
            let name = unit.strip_suffix(self.suffix).map(str::trim_end);
            self.units.iter().find(|(known, _)| Some(*known) == name).map(|(_, factor)| *factor)
        };
        let number = decimal(number).ok_or_else(|| self.wrong(text, None))?;
        if unit.is_empty() && (number.whole, number.fraction) == (0, 0) {
            return Ok(0); // Nothing is nothing in every unit.
        }
        let factor = factor.ok_or_else(|| self.wrong(text, self.meant(unit)))?;
        number.times(factor).ok_or_else(|| Wrong(format!("{:?} is too large for {}", shown(text), self.name)))
    }

    /// The unit that was meant by one that is not known.
    fn meant(&self, unit: &str) -> Option<String> {
        let unit: String = unit.chars().take(12).collect();
        let bare = unit.strip_suffix("/s").unwrap_or(&unit);
        // Sizes are often written as k, KB or mib. Times are not taken for one another: Ms, M and m are far apart.
        let letters = |unit: &str| unit.to_ascii_lowercase().replace(['i', 'b'], "");
        let sizes = || self.units.iter().filter(|_| self.units.len() == SIZES.len());
        let exact = sizes().find(|(known, _)| known.eq_ignore_ascii_case(bare));
        let near = exact.or_else(|| {
            let binary = |known: &str| known.contains('i') || known == "B";
            sizes().find(|(known, _)| binary(known) && letters(known) == letters(bare))
        });
        let known = match near {
            Some((known, _)) => known,
            None if !bare.is_empty() => crate::nearest(bare, self.units.iter().map(|(known, _)| *known))?,
            None => return None,
        };
        Some(format!("{known}{}", self.suffix))
    }

    fn wrong(&self, text: &str, meant: Option<String>) -> Wrong {
        let meant = meant.map(|unit| format!("; did you mean {unit}?")).unwrap_or_default();
        Wrong(format!("{:?} is not {}: write {}{meant}", shown(text), self.name, self.examples))
    }
}

/// As much of a text as a message shows.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A decimal number: its digits before and behind the point.
struct Decimal {
    whole: u128,
    fraction: u128,
    /// Power of ten that the fraction is divided by.
    scale: u128,
}

fn decimal(text: &str) -> Option<Decimal> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.len() <= 20 && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(Decimal { whole: whole.parse().ok()?, fraction: fraction.parse().ok()?, scale })
}

impl Decimal {
    fn times(&self, factor: u128) -> Option<u64> {
        // 0.1 GiB is not a whole number of bytes: the nearest is meant.
        let part = (self.fraction.checked_mul(factor)?.checked_add(self.scale / 2)?) / self.scale;
        u64::try_from(self.whole.checked_mul(factor)?.checked_add(part)?).ok()
    }
}

/// Bytes: `64MiB`, `1.5GB`, `4096`. Units: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (of 1024).
///
/// # Errors
/// It is no size, or does not fit 64 bits.
pub fn parse_size(text: &str) -> Result<u64, Wrong> {
    SIZE.parse(text)
}

/// Bytes per second: a size with `/s` behind its unit, which it must have: `391MB/s`, `1.2GiB/s`.
///
/// # Errors
/// It is no rate, or does not fit 64 bits.
pub fn parse_rate(text: &str) -> Result<u64, Wrong> {
    RATE.parse(text)
}

/// Nanoseconds: `60us`, `1.5ms`, `2min`. Units: ns, us (or µs), ms, s, min, h, d.
///
/// # Errors
/// It is no time, or does not fit 64 bits.
pub fn parse_time(text: &str) -> Result<u64, Wrong> {
    TIME.parse(text)
}

/// A time in whole seconds. A number without a unit is one of seconds, too: `90`, `90s` and `1.5min` are the same.
///
/// # Errors
/// It is no time, no whole number of seconds, or does not fit.
pub fn parse_seconds<T: TryFrom<u64>>(text: &str) -> Result<T, Wrong> {
    parse_in("seconds", 1_000_000_000, text)
}

/// A time in whole hours, like [`parse_seconds`].
///
/// # Errors
/// Like [`parse_seconds`].
pub fn parse_hours<T: TryFrom<u64>>(text: &str) -> Result<T, Wrong> {
    parse_in("hours", 3_600_000_000_000, text)
}

/// A time in whole milliseconds, like [`parse_seconds`].
///
/// # Errors
/// Like [`parse_seconds`].
pub fn parse_millis<T: TryFrom<u64>>(text: &str) -> Result<T, Wrong> {
    parse_in("milliseconds", 1_000_000, text)
}

fn parse_in<T: TryFrom<u64>>(name: &str, unit: u64, text: &str) -> Result<T, Wrong> {
    let nanos = QuantityKind { bare: Some(unit.into()), ..TIME }.parse(text)?;
    if !nanos.is_multiple_of(unit) {
        return Err(Wrong(format!("{:?} is not a whole number of {name}", shown(text))));
    }
    T::try_from(nanos / unit).map_err(|_| Wrong(format!("{:?} is too large for a time", shown(text))))
}

/// Millionths: `12.5%` is 125,000.
///
/// # Errors
/// It is no percentage, or does not fit 64 bits.
pub fn parse_percent(text: &str) -> Result<u64, Wrong> {
    SHARE.parse(text)
}

/// `bytes` in the largest binary unit that divides it, as [`parse_size`] reads it.
pub fn format_size(bytes: u64) -> String {
    for (name, factor) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{name}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size(" 1.5 GB "), Ok(1_500_000_000));
        assert_eq!(parse_size("0.1GiB"), Ok(107_374_182));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("16777215TiB"), Ok(16_777_215 << 40));
        assert_eq!(parse_rate("391MB/s"), Ok(391_000_000));
        assert_eq!(parse_time("1.5ms"), Ok(1_500_000));
        assert_eq!(parse_time("2 min"), Ok(120_000_000_000));
        assert_eq!(parse_time("7µs"), Ok(7000));
        assert_eq!(parse_seconds("90"), Ok(90u32));
        assert_eq!(parse_seconds("1.5min"), Ok(90u64));
        assert_eq!(parse_hours("1d"), Ok(24u32));
        assert_eq!(parse_millis("0.1s"), Ok(100u32));
        assert_eq!(parse_percent("12.5%"), Ok(125_000));
        assert_eq!(format_size(3 << 29), "1536MiB");
        assert_eq!(format_size(1000), "1000B");
    }

    #[test]
    fn what_is_no_quantity() {
        let bad = [
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
        ];
        for text in bad {
            assert!(parse_size(text).is_err(), "{text}");
        }
        for text in ["391MB", "391", "1.5GB/min", "1/s"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(parse_time("60").is_err());
        assert!(parse_percent("12").is_err());
        assert!(parse_seconds::<u32>("1ms").is_err());
        assert!(parse_seconds::<u8>("256").is_err());
    }

    #[test]
    fn messages_show_the_text_and_what_was_meant() {
        let said = |wrong: Result<u64, Wrong>| wrong.unwrap_err().to_string();
        let size = "write 64MiB, 1.5GB or a number of bytes";
        assert_eq!(said(parse_size("64MIB")), format!("\"64MIB\" is not a size: {size}; did you mean MiB?"));
        assert_eq!(said(parse_size("64M")), format!("\"64M\" is not a size: {size}; did you mean MiB?"));
        assert_eq!(said(parse_size("1KB")), format!("\"1KB\" is not a size: {size}; did you mean kB?"));
        assert_eq!(said(parse_size("much")), format!("\"much\" is not a size: {size}"));
        assert_eq!(
            said(parse_rate("1.5GIB/s")),
            "\"1.5GIB/s\" is not a rate: write 1.2GB/s or 400MiB/s; did you mean GiB/s?"
        );
        assert_eq!(
            said(parse_rate("400MB")),
            "\"400MB\" is not a rate: write 1.2GB/s or 400MiB/s; did you mean MB/s?"
        );
        assert_eq!(parse_time("0"), Ok(0));
        assert_eq!(parse_rate("0"), Ok(0));
        assert_eq!(said(parse_time("5sec")), "\"5sec\" is not a time: write 60us, 1.5ms or 2min");
        assert_eq!(said(parse_seconds("1500ms")), "\"1500ms\" is not a whole number of seconds");
        assert_eq!(
            said(parse_size("99999999999999999999")),
            "\"99999999999999999999\" is too large for a size"
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn every_text_is_read_or_refused(text in ".{0,60}") {
            for wrong in [parse_size(&text), parse_rate(&text), parse_time(&text), parse_percent(&text)] {
                if let Err(wrong) = wrong {
                    prop_assert!(wrong.to_string().chars().count() < 400);
                }
            }
        }

        #[test]
        fn units_scale(number in 0u64..1 << 20, unit in 0usize..SIZES.len()) {
            let (name, factor) = SIZES[unit];
            let bytes = u128::from(number) * factor;
            let read = parse_size(&format!("{number}{name}"));
            prop_assert_eq!(read.ok().map(u128::from), u64::try_from(bytes).ok().map(u128::from));
        }
    }
}
