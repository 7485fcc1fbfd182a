//! Powers and logarithms in fixed point: the same on every machine, which floating point is not.
//!
//! Numbers have 56 binary digits behind the point; results are right to about 2^-44 of their value.

/// Binary digits behind the point.
pub(super) const FRACTION: u32 = 56;
/// One.
pub(super) const ONE: i128 = 1 << FRACTION;
/// ln 2.
const LN_2: i128 = 0x00B1_7217_F7D1_CF79;
/// 1 / ln 2.
const LOG2_E: i128 = 0x0171_5476_52B8_2FE1;
/// Largest result of [`exp2`]: 2^64.
const MAX_RESULT: i128 = 1 << (FRACTION + 64);

fn mul(a: i128, b: i128) -> i128 {
    (a * b) >> FRACTION
}

/// `a / b`, for any positive `a` that [`exp2`] gives and any `b` but 0.
pub(super) fn div(a: i128, b: i128) -> i128 {
    if a.unsigned_abs() < 1 << 70 { (a << FRACTION) / b } else { (a / (b >> 28).max(1)) << 28 }
}

/// `a` times a fraction of 2^64.
pub(super) fn share(a: i128, of_2_64: u64) -> i128 {
    let (high, low) = (a >> 64, a & i128::from(u64::MAX));
    let low = ((low.unsigned_abs() * u128::from(of_2_64)) >> 64).cast_signed();
    high * i128::from(of_2_64) + low
}

/// A number in millionths.
pub(super) fn from_millionths(value: u64) -> i128 {
    (i128::from(value) << FRACTION) / 1_000_000
}

/// Logarithm to the base 2. Zero and less count as the smallest positive number.
pub(super) fn log2(x: i128) -> i128 {
    let x = x.max(1).unsigned_abs();
    let exponent = i128::from(127 - x.leading_zeros()) - i128::from(FRACTION);
    let mantissa = if exponent >= 0 { x >> exponent } else { x << -exponent }.cast_signed();
    // ln m = 2 artanh((m - 1) / (m + 1)), whose argument is at most 1/3.
    let z = ((mantissa - ONE) << FRACTION) / (mantissa + ONE);
    let square = mul(z, z);
    let (mut power, mut sum) = (z, z);
    for odd in (3..31).step_by(2) {
        power = mul(power, square);
        sum += power / odd;
    }
    exponent * ONE + mul(2 * sum, LOG2_E)
}

/// 2 to the power of `y`, at most 2^64.
pub(super) fn exp2(y: i128) -> i128 {
    let exponent = y >> FRACTION;
    if exponent >= 64 {
        return MAX_RESULT;
    }
    if exponent < -i128::from(FRACTION) {
        return 0;
    }
    let x = mul(y & (ONE - 1), LN_2);
    let (mut term, mut sum) = (ONE, ONE);
    for n in 1..18 {
        term = mul(term, x) / n;
        sum += term;
    }
    if exponent >= 0 { sum << exponent } else { sum >> -exponent }
}

/// `x` to the power of `p`, for positive `x` and `p` from -1,000 to 1,000; at most 2^64.
pub(super) fn pow(x: i128, p: i128) -> i128 {
    let log = log2(x);
    // The product of two such numbers must fit.
    let product = if log.unsigned_abs() < 1 << 62 && p.unsigned_abs() < 1 << 64 {
        mul(log, p)
    } else {
        ((log >> 16) * (p >> 16)) >> (FRACTION - 32)
    };
    exp2(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: i128, b: i128) -> bool {
        (a - b).abs() <= (b.abs() >> 40) + (ONE >> 44)
    }

    #[test]
    fn known_values() {
        assert!(close(log2(ONE), 0));
        assert!(close(log2(8 * ONE), 3 * ONE));
        assert!(close(log2(10 * ONE), from_millionths(3_321_928) + (ONE * 94_887 / 1_000_000_000_000)));
        assert!(close(exp2(ONE / 2) * 1_000_000_000 / ONE, 1_414_213_562));
        assert!(close(exp2(-3 * ONE), ONE / 8));
        assert!(close(pow(9 * ONE, ONE / 2), 3 * ONE));
        assert!(close(pow(2 * ONE, -2 * ONE), ONE / 4));
        assert_eq!(exp2(200 * ONE), MAX_RESULT);
        assert_eq!(exp2(-200 * ONE), 0);
        assert_eq!(pow(MAX_RESULT, 1_000 * ONE), MAX_RESULT);
        assert_eq!(pow(1, 1_000 * ONE), 0);
    }

    #[test]
    fn powers_undo_each_other() {
        for x in [3, 1_000, 123_456_789, 1 << 40] {
            let x = ONE * x / 7;
            for p in [ONE / 5, ONE / 2, 3 * ONE / 2, -ONE / 3] {
                let back = pow(pow(x, p), div(ONE, p.abs()) * p.signum());
                assert!((back - x).abs() <= x >> 34, "{x} {p} {back}");
            }
        }
    }

    #[test]
    fn shares() {
        assert_eq!(share(ONE, 1 << 63), ONE / 2);
        assert_eq!(share(MAX_RESULT, 1 << 62), MAX_RESULT / 4);
        assert_eq!(share(12_345, 0), 0);
        assert_eq!(div(6 * ONE, 3 * ONE), 2 * ONE);
        assert!(close(div(MAX_RESULT, 2 * ONE), MAX_RESULT / 2));
    }
}
