//! Rotation: angles, and the angle of the platters at a time.

use crate::time::Nanos;
use std::ops::{Add, AddAssign, Sub};

/// A part of a turn, in units of 2^-64. Sums wrap, as angles do.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Angle(pub u64);

impl Angle {
    /// The start of a turn.
    pub const ZERO: Angle = Angle(0);

    /// `part` of `whole` equal parts of a turn, rounded down. Whole turns count as nothing.
    ///
    /// # Panics
    /// If `whole` is 0.
    pub fn of(part: u64, whole: u64) -> Angle {
        Angle(((u128::from(part % whole) << 64) / u128::from(whole)) as u64)
    }

    /// As many times this angle, without the whole turns.
    #[inline]
    #[must_use]
    pub fn times(self, count: u64) -> Angle {
        Angle(self.0.wrapping_mul(count))
    }
}

impl Add for Angle {
    type Output = Angle;
    #[inline]
    fn add(self, other: Angle) -> Angle {
        Angle(self.0.wrapping_add(other.0))
    }
}

impl AddAssign for Angle {
    #[inline]
    fn add_assign(&mut self, other: Angle) {
        *self = *self + other;
    }
}

impl Sub for Angle {
    type Output = Angle;
    #[inline]
    fn sub(self, other: Angle) -> Angle {
        Angle(self.0.wrapping_sub(other.0))
    }
}

/// The spindle: at each time the platters have one angle.
///
/// A revolution is rarely a whole number of nanoseconds: one at 7,200 rpm takes 8,333,333 1/3. So the
/// spindle keeps its speed as an angle per nanosecond, in units of 2^-64 turns, and derives the angle
/// from the time at once. Nothing is added up, and the phase is off by less than a ten-thousandth of a
/// turn after a month.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spindle {
    /// Angle per nanosecond.
    rate: u64,
    /// Nanoseconds of a revolution in units of 2^-16.
    period: u64,
    /// Angle at time zero.
    phase: Angle,
}

/// How far a time may be off because it is rounded: the start of an access, its end, and the angle between them.
pub const ROUNDING: Nanos = Nanos(3);

/// The slowest and the fastest spindle, in revolutions per minute.
pub const RPM: std::ops::RangeInclusive<u64> = 60..=1_000_000;

impl Spindle {
    /// A spindle with `rpm_millionths` millionths of a revolution per minute.
    ///
    /// # Panics
    /// If the speed is not in [`RPM`].
    pub fn new(rpm_millionths: u64) -> Spindle {
        let rpm = rpm_millionths / 1_000_000;
        assert!(RPM.contains(&rpm), "{rpm} revolutions per minute are not in {RPM:?}");
        // A minute has 60 * 10^9 nanoseconds, and the speed is in millionths.
        let minute = 60_000_000_000_000_000u128;
        let rate = ((u128::from(rpm_millionths) << 64) + minute / 2) / minute;
        let period = ((minute << 16) + u128::from(rpm_millionths) / 2) / u128::from(rpm_millionths);
        Spindle { rate: rate as u64, period: period as u64, phase: Angle::ZERO }
    }

    /// The same spindle, so turned that it has the angle `angle` at `now`.
    #[must_use]
    pub fn with_angle(self, now: Nanos, angle: Angle) -> Spindle {
        let phase = angle - Angle(self.rate).times(now.0);
        Spindle { phase, ..self }
    }

    /// The angle that is under the heads at `now`.
    #[inline]
    pub fn angle(&self, now: Nanos) -> Angle {
        self.phase + Angle(self.rate).times(now.0)
    }

    /// Time of one revolution, rounded to a nanosecond.
    pub fn revolution(&self) -> Nanos {
        Nanos((self.period + (1 << 15)) >> 16)
    }

    /// Time to turn by `angle`, rounded up.
    #[inline]
    pub fn span(&self, angle: Angle) -> Nanos {
        let product = u128::from(angle.0) * u128::from(self.period);
        Nanos(((product + ((1 << 80) - 1)) >> 80) as u64)
    }

    /// Time from `now` until `target` is under the heads: less than a revolution. What has passed the heads for [`ROUNDING`] at most is under
    /// them: times are whole nanoseconds, and a request that goes on where another one ended must not miss its sector for that.
    #[inline]
    pub fn until(&self, now: Nanos, target: Angle) -> Nanos {
        let left = target - self.angle(now);
        if self.is_late(left) { Nanos::ZERO } else { self.span(left) }
    }

    /// When the heads, on the track at `now`, begin with what lies at `first`, and when they have read `turn` of it. The end follows from the
    /// angle also where the start is rounded, so that roundings do not add up from request to request.
    #[inline]
    pub fn pass(&self, now: Nanos, first: Angle, turn: Angle) -> (Nanos, Nanos) {
        let left = first - self.angle(now);
        if self.is_late(left) {
            return (now, now + self.span(turn + left));
        }
        let start = now + self.span(left);
        (start, start + self.span(turn))
    }

    /// Whether so much of a turn is left because the place has just passed the heads.
    #[inline]
    fn is_late(&self, left: Angle) -> bool {
        left.0 > u64::MAX - self.rate.saturating_mul(ROUNDING.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revolution_that_is_no_whole_number_of_nanoseconds_does_not_drift() {
        let spindle = Spindle::new(7_200_000_000);
        assert_eq!(spindle.revolution(), Nanos(8_333_333));
        // 120 turns a second: after 30 days the angle is that of the start.
        for seconds in [1, 60, 3_600, 86_400, 2_592_000u64] {
            let angle = spindle.angle(Nanos(seconds * 1_000_000_000));
            let off = angle.0.min(0u64.wrapping_sub(angle.0));
            assert!(off < u64::MAX / 10_000, "{seconds} s: {angle:?}");
        }
        // Added up, revolutions of 8,333,333 ns would be 104 turns late by then.
        assert!(spindle.angle(Nanos(8_333_333)).0 > u64::MAX - (1 << 44), "a third of a ns early");
    }

    #[test]
    fn the_time_until_an_angle_ends_there() {
        let spindle = Spindle::new(10_033_123_456).with_angle(Nanos(77), Angle::of(1, 3));
        assert_eq!(spindle.angle(Nanos(77)), Angle::of(1, 3));
        for k in 0..1_000u64 {
            let (now, target) = (Nanos(k * 1_234_567), Angle::of(k * 7 % 195, 195));
            let wait = spindle.until(now, target);
            assert!(wait <= spindle.revolution());
            let missed = (spindle.angle(now + wait) - target).0;
            // A nanosecond is 2^64 / 6 * 10^6.
            assert!(missed <= 3 << 42 || missed.wrapping_neg() <= 3 << 42, "{k}: {missed:#x}");
        }
    }

    #[test]
    fn angles_wrap() {
        assert_eq!(Angle::of(3, 4) + Angle::of(1, 2), Angle::of(1, 4));
        assert_eq!(Angle::of(1, 4) - Angle::of(1, 2), Angle::of(3, 4));
        assert_eq!(Angle::of(1, 4).times(6), Angle::of(1, 2));
        assert_eq!(Angle::of(9, 4), Angle::of(1, 4));
    }
}
