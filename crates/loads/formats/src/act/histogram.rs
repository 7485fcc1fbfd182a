//! Histograms in the tool's text.

use std::fmt::Write;

/// Counts by powers of two of a unit: bucket 0 is below one unit, bucket `n` from 2^(n-1) to below 2^n units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: [u64; 65],
    /// Nanoseconds of a unit.
    unit: u64,
}

impl Histogram {
    /// An empty one; its unit is a microsecond or a millisecond.
    #[must_use]
    pub fn new(microseconds: bool) -> Self {
        Histogram { counts: [0; 65], unit: if microseconds { 1_000 } else { 1_000_000 } }
    }

    /// Counts a time in nanoseconds.
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        let units = nanos / self.unit;
        self.counts[(u64::BITS - units.leading_zeros()) as usize] += 1;
    }

    /// All that was counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Writes it as the tool does: the total, then the buckets that are not empty, four to a line.
    pub(super) fn dump(&self, name: &str, text: &mut String) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name} ({} total)", self.total());
        let filled = (0..).zip(&self.counts).filter(|(_, count)| **count != 0);
        let mut column = 0;
        for (bucket, count) in filled {
            let _ = write!(text, " ({bucket:02}: {count:010})");
            column += 1;
            if column % 4 == 0 {
                text.push('\n');
            }
        }
        if column % 4 != 0 {
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_text() {
        let mut histogram = Histogram::new(false);
        for nanos in [0, 999_999, 1_000_000, 1_999_999, 2_000_000, 4_000_000, 8_000_000, 16_000_000, u64::MAX]
        {
            histogram.add(nanos);
        }
        let mut text = String::new();
        histogram.dump("reads", &mut text);
        assert_eq!(
            text,
            "reads (9 total)\n (00: 0000000002) (01: 0000000002) (02: 0000000001) (03: 0000000001)\n \
             (04: 0000000001) (05: 0000000001) (45: 0000000001)\n"
        );
        let mut micros = Histogram::new(true);
        micros.add(1_023_999);
        text.clear();
        micros.dump("reads", &mut text);
        assert_eq!(text, "reads (1 total)\n (10: 0000000001)\n");
        text.clear();
        Histogram::new(true).dump("x", &mut text);
        assert_eq!(text, "x (0 total)\n");
    }
}
