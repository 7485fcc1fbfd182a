//! The redo log's bytes, and how its age drives adaptive flushing.

use workload::Nanos;

/// Bytes of a redo block that hold log: 512 less header and checksum (`OS_FILE_LOG_BLOCK_SIZE`).
const PAYLOAD: (u64, u64) = (496, 512);

/// Bytes in the log file of so many bytes of redo.
pub(super) fn in_blocks(redo: u64) -> u64 {
    redo * PAYLOAD.1 / PAYLOAD.0
}

/// Percentage of `io_capacity` at which adaptive flushing writes, for a log that is `age` bytes ahead of the oldest dirty page
/// (`af_get_pct_for_lsn`: nothing below 10 % of the capacity, then with the power of 3/2).
pub(super) fn pressure(age: u64, capacity: u64, max_over_capacity: u64) -> u64 {
    let limit = (capacity / 8 * 7).max(1);
    if age < limit / 10 {
        return 0;
    }
    // In tenths of a per cent of the limit; the square root then is of tenths, too.
    let factor = (u128::from(age) * 1000 / u128::from(limit)).min(2000) as u64;
    max_over_capacity * factor * (factor * 10).isqrt() / 750
}

/// One flush per second; adaptive flushing decides in this interval (`innodb_page_cleaners`' loop).
pub(super) const SECOND: Nanos = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_grows_faster_than_age() {
        // InnoDB: max/capacity * age% * sqrt(age%) / 7.5.
        let reference = |percent: f64| 2.0 * percent * percent.sqrt() / 7.5;
        for percent in [10u64, 20, 50, 80, 100] {
            let ours = pressure((8 << 30) / 8 * 7 / 100 * percent + 4096, 8 << 30, 2);
            let exact = reference(percent as f64);
            assert!((ours as f64 - exact).abs() < exact / 15.0 + 1.0, "{percent} %: {ours}, {exact}");
        }
        assert_eq!(pressure(1 << 20, 8 << 30, 2), 0);
    }
}
