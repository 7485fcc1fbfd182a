//! Numbers as people read them.

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

/// The same of what may be missing: "-".
pub fn show_some(value: Option<f64>) -> String {
    value.map_or("-".into(), show)
}

/// A ratio that may be missing, "1.25x".
pub fn show_ratio(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x"))
}

/// Digits, perhaps behind a sign, with commas between thousands.
pub(crate) fn thousands(number: &str) -> String {
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
