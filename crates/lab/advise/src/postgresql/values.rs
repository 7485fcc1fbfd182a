//! Values of PostgreSQL's settings: switches, and numbers with units (PostgreSQL's documentation, "Parameter Names and Values", and its source, `guc.c`).

/// What a number counts, and so which units it may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nothing that has units.
    None,
    /// Memory: without a unit so many bytes each.
    Bytes(u64),
    /// Time: without a unit so many microseconds each.
    Micros(u64),
}

/// Units of memory in bytes, and of time in microseconds. Their case matters.
const MEMORY: [(&str, u64); 5] =
    [("B", 1), ("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40)];
const TIME: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

impl Unit {
    /// The units that it may have, as messages list them.
    pub fn names(self) -> &'static str {
        match self {
            Unit::None => "a number",
            Unit::Bytes(_) => "a number, perhaps with B, kB, MB, GB or TB behind it (their case matters)",
            Unit::Micros(_) => "a number, perhaps with us, ms, s, min, h or d behind it",
        }
    }
}

/// A switch: `on`, `true`, `yes`, `1` and their opposites, in any case. A beginning that only one of them has is enough.
pub fn switch(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let is = |word: &str, least: usize| text.len() >= least && word.starts_with(&*text);
    match () {
        () if is("true", 1) || is("yes", 1) || is("on", 2) || text == "1" => Some(true),
        () if is("false", 1) || is("no", 1) || is("off", 2) || text == "0" => Some(false),
        () => None,
    }
}

/// A number: decimal, with 0x hexadecimal, with a leading 0 octal, or with a fraction or an exponent; and what follows it.
fn number(text: &str) -> Option<(f64, &str)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = |text: &str, of: &dyn Fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let (hex, rest) = hex.split_at(end(hex, &|c| c.is_ascii_hexdigit()));
        return Some((sign * u32::from_str_radix(hex, 16).map(f64::from).ok()?, rest));
    }
    let whole = end(digits, &|c| c.is_ascii_digit());
    let mut at = whole;
    if let Some(fraction) = digits[at..].strip_prefix('.') {
        at += 1 + end(fraction, &|c| c.is_ascii_digit());
    }
    if at == 0 || &digits[..at] == "." {
        return None;
    }
    if let Some(exponent) = digits[at..].strip_prefix(['e', 'E']) {
        let signs = usize::from(exponent.starts_with(['+', '-']));
        let count = end(&exponent[signs..], &|c| c.is_ascii_digit());
        at += if count > 0 { 1 + signs + count } else { 0 };
    }
    let (word, rest) = digits.split_at(at);
    if at == whole && word.len() > 1 && word.starts_with('0') {
        return Some((sign * u32::from_str_radix(word, 8).map(f64::from).ok()?, rest));
    }
    Some((sign * word.parse::<f64>().ok()?, rest))
}

/// A number in what it counts without a unit: `'1.5GB'` of megabytes is 1,536.
pub fn real(text: &str, unit: Unit) -> Option<f64> {
    let (number, rest) = number(text.trim_matches([' ', '\t', '\n', '\r']))?;
    let word = rest.trim_start();
    if word.is_empty() {
        return Some(number);
    }
    let (names, base): (&[(&str, u64)], u64) = match unit {
        Unit::None => return None,
        Unit::Bytes(base) => (&MEMORY, base),
        Unit::Micros(base) => (&TIME, base),
    };
    let (_, size) = names.iter().find(|name| name.0 == word)?;
    #[expect(clippy::cast_precision_loss, reason = "units are less than 2^53")]
    let factor = *size as f64 / base as f64;
    Some(number * factor)
}

/// The same, rounded to a whole number.
pub fn whole(text: &str, unit: Unit) -> Option<i64> {
    let value = real(text, unit)?.round_ties_even();
    #[expect(clippy::cast_possible_truncation, reason = "it is in the range of an integer setting")]
    (value.abs() <= f64::from(i32::MAX)).then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let (blocks, megabytes, seconds) = (Unit::Bytes(8192), Unit::Bytes(1 << 20), Unit::Micros(1_000_000));
        for (text, unit, wanted) in [
            ("16384", blocks, Some(16384)),
            ("128MB", blocks, Some(16384)),
            (" 128 MB ", blocks, Some(16384)),
            ("65536B", blocks, Some(8)),
            ("1.5GB", megabytes, Some(1536)),
            ("1TB", megabytes, Some(1 << 20)),
            ("1e3", megabytes, Some(1000)),
            ("0x10", megabytes, Some(16)),
            ("010", megabytes, Some(8)),
            ("-1", blocks, Some(-1)),
            (".5h", seconds, Some(1800)),
            ("5min", seconds, Some(300)),
            ("1d", seconds, Some(86_400)),
            ("2500ms", seconds, Some(2)),
            ("128mb", blocks, None),
            ("128M", blocks, None),
            ("5 minutes", seconds, None),
            ("5MB", seconds, None),
            ("5min", Unit::None, None),
            ("", blocks, None),
            (".", blocks, None),
            ("-", blocks, None),
            ("lots", blocks, None),
            ("0x", blocks, None),
            ("09", blocks, None),
            ("9999999999", blocks, None),
            ("1e400", blocks, None),
        ] {
            assert_eq!(whole(text, unit), wanted, "{text}");
        }
        assert_eq!(real("0.9", Unit::None), Some(0.9));
    }

    #[test]
    fn switches_may_be_cut_short() {
        for (text, wanted) in [
            ("on", Some(true)),
            ("OFF", Some(false)),
            ("of", Some(false)),
            ("o", None),
            ("t", Some(true)),
            ("fals", Some(false)),
            ("y", Some(true)),
            ("n", Some(false)),
            ("1", Some(true)),
            ("0", Some(false)),
            ("10", None),
            ("", None),
            ("trues", None),
        ] {
            assert_eq!(switch(text), wanted, "{text}");
        }
    }
}
