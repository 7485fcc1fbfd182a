//! Meters: how fast commands of a namespace may pass.

use media::Nanos;

/// Lets units pass at a rate, and a burst of them after a pause: the generic cell rate algorithm (virtual scheduling).
/// In integers and without drift: fractions of a nanosecond are carried.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Meter {
    /// Units per second; 0 lets everything pass.
    rate: u64,
    /// When all that has passed would have passed at the rate, one after the other.
    paid: Nanos,
    /// What that lacks of the exact time, in nanoseconds divided by the rate.
    fraction: u64,
    /// How far `paid` may lie ahead.
    burst: Nanos,
}

const SECOND: u64 = 1_000_000_000;

/// More units than any command has, and few enough that nothing overflows.
const MAX_UNITS: u64 = 1 << 34;

impl Meter {
    /// Whether it ever holds anything back.
    pub fn is_on(&self) -> bool {
        self.rate != 0
    }

    /// When the next command may pass; it may have been long ago.
    #[inline]
    pub fn due(&self) -> Nanos {
        self.paid.since(self.burst)
    }

    /// These units pass at `now`; more than [`MAX_UNITS`] count as so many.
    #[inline]
    pub fn charge(&mut self, now: Nanos, units: u64) {
        if self.rate == 0 {
            return;
        }
        if self.paid < now {
            (self.paid, self.fraction) = (now, 0);
        }
        let time = units.min(MAX_UNITS) * SECOND + self.fraction;
        self.paid += Nanos(time / self.rate);
        self.fraction = time % self.rate;
    }

    /// Another rate from now on. What was not paid at `now` is paid at the new one.
    pub fn set(&mut self, now: Nanos, rate: Option<u64>, burst: Nanos) {
        let rate = rate.unwrap_or(0);
        if rate != self.rate {
            let debt = match rate {
                0 => 0,
                _ => u128::from(self.paid.since(now).0) * u128::from(self.rate) / u128::from(rate),
            };
            self.paid = now + Nanos(u64::try_from(debt).unwrap_or(u64::MAX));
            self.fraction = 0;
            self.rate = rate;
        }
        self.burst = burst;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_does_not_drift() {
        for rate in [1, 3, 7, 1000, 333_333, 1_000_000, 999_999_937, 1_000_000_000_000] {
            let mut meter = Meter::default();
            meter.set(Nanos::ZERO, Some(rate), Nanos::ZERO);
            let (count, units) = (1_000_000u64, 1 + rate / 1000);
            for _ in 0..count {
                meter.charge(Nanos::ZERO, units);
            }
            let exact = u128::from(count) * u128::from(units) * u128::from(SECOND) / u128::from(rate);
            assert_eq!(u128::from(meter.due().0), exact, "{rate}");
        }
    }

    #[test]
    fn a_burst_is_what_the_rate_gives_in_its_time() {
        let mut meter = Meter::default();
        meter.set(Nanos::ZERO, Some(1000), Nanos(10_000_000));
        let now = Nanos(5 * SECOND);
        let mut passed = 0;
        while meter.due() <= now {
            meter.charge(now, 1);
            passed += 1;
        }
        // Ten in the burst, and the one that the rate gives now.
        assert_eq!(passed, 11);
        assert_eq!(meter.due(), now + Nanos(1_000_000));
    }

    #[test]
    fn what_was_not_paid_is_paid_at_the_new_rate() {
        let mut meter = Meter::default();
        meter.set(Nanos::ZERO, Some(1000), Nanos::ZERO);
        meter.charge(Nanos::ZERO, 1000);
        meter.set(Nanos::ZERO, Some(4000), Nanos::ZERO);
        assert_eq!(meter.due(), Nanos(SECOND / 4));
        meter.set(Nanos::ZERO, None, Nanos::ZERO);
        assert_eq!(meter.due(), Nanos::ZERO);
        meter.set(Nanos(7), Some(1), Nanos::ZERO);
        assert_eq!(meter.due(), Nanos(7));
    }
}
