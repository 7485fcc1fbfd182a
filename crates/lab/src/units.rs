//! Sizes as people write them, and numbers as people read them.

/// Bytes of "64MiB", "3.84TB", "4096": SI and IEC units, a fraction where it makes whole bytes.
///
/// # Errors
/// Says what is expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u128 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("{text:?} is no size: write 64MiB, 2GB or a number of bytes")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let wrong = || format!("{text:?} is no size: write 64MiB, 2GB or a number of bytes");
    if whole.is_empty() || fraction.len() > 9 || (number.contains('.') && fraction.is_empty()) {
        return Err(wrong());
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let scaled = digits.checked_mul(factor).ok_or_else(|| format!("{text:?} is too large"))?;
    if scaled % scale != 0 {
        return Err(format!("{text:?} is not a whole number of bytes"));
    }
    u64::try_from(scaled / scale).map_err(|_| format!("{text:?} is too large"))
}

/// A size with a binary unit, "1.5 GiB".
pub fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", show(value), UNITS[unit])
}

/// Three or four significant digits, with thousands set apart: "0.0123", "1.25", "31.4", "12,345".
pub fn show(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let magnitude = value.abs();
    if magnitude >= 1_000.0 {
        thousands(&format!("{value:.0}"))
    } else if magnitude >= 100.0 {
        format!("{value:.0}")
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else if magnitude >= 1.0 {
        format!("{value:.2}")
    } else if magnitude == 0.0 {
        "0".into()
    } else {
        format!("{value:.3}")
    }
}

fn thousands(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let mut out = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size(" 1.5 GiB "), Ok(3 << 29));
        assert_eq!(parse_size("3.84TB"), Ok(3_840_000_000_000));
        assert_eq!(parse_size("4096"), Ok(4096));
        for wrong in ["", "MiB", "1.MiB", "-1", "1.0000000001KB", "1XB", "99999999999TiB", "1..2"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(show(12_345.6), "12,346");
        assert_eq!(show(-1_234_567.0), "-1,234,567");
        assert_eq!(show(123.4), "123");
        assert_eq!(show(1.254), "1.25");
        assert_eq!(show(0.0123), "0.012");
        assert_eq!(show(f64::NAN), "-");
        assert_eq!(show_size(3 << 29), "1.50 GiB");
    }
}
