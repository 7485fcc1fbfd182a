//! What the numbers of a drive's data structures and logs mean, for people: the raw number stays first, as nvme-cli has it.

use lab::figure::{show, show_size};

/// Bytes of a data unit of the SMART log: thousands of 512 bytes (Base 5.1.12.1.3).
const SMART_UNIT: u64 = 512_000;
/// Bytes of a data unit of the Endurance Group log (Base 5.1.12.1.10).
const ENDURANCE_UNIT: u64 = 1_000_000_000;

/// Which data structure a number is from, where the same name means something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// The SMART log.
    Smart,
    /// The Endurance Group log.
    Endurance,
    /// Any other.
    Other,
}

/// A number as it is shown: with its unit, or with its meaning.
pub fn number(page: Page, key: &str, value: u64) -> String {
    match meaning(page, key.rsplit('.').next().unwrap_or(key), value) {
        Some(meaning) => format!("{value} {meaning}"),
        None => value.to_string(),
    }
}

fn meaning(page: Page, key: &str, value: u64) -> Option<String> {
    let bytes = |unit: u64| {
        value.checked_mul(unit).filter(|bytes| *bytes > 0).map(|bytes| format!("({})", show_size(bytes)))
    };
    match (page, key) {
        (_, "temperature" | "wctemp" | "cctemp") => celsius(value),
        (_, key) if key.starts_with("temperature_sensor_") => celsius(value),
        (_, "avail_spare" | "spare_thresh" | "percent_used" | "avl_spare" | "avl_spare_threshold") => {
            Some("%".into())
        }
        (Page::Smart, "data_units_read" | "data_units_written") => bytes(SMART_UNIT),
        (
            Page::Endurance,
            "data_units_read" | "data_units_written" | "media_units_written" | "endurance_estimate",
        ) => bytes(ENDURANCE_UNIT),
        (_, "controller_busy_time" | "warning_temp_time" | "critical_comp_time" | "edstt") => {
            Some("min".into())
        }
        (_, "power_on_hours") => Some("h".into()),
        (_, "thm_temp1_total_time" | "thm_temp2_total_time") => Some("s".into()),
        (_, "kas") => Some("x 100 ms".into()),
        (
            _,
            "tnvmcap"
            | "unvmcap"
            | "megcap"
            | "nvmcap"
            | "total_end_grp_cap"
            | "unalloc_end_grp_cap"
            | "total_nvmset_cap"
            | "unalloc_nvmset_cap"
            | "Endurance estimate",
        ) => bytes(1),
        (_, key) if key.contains("_bytes_") => Some(bytes(1).unwrap_or_else(|| "B".into())),
        (_, key) if key.ends_with("_ns") => Some(time(value)),
        _ => None,
    }
}

/// Kelvin as they stand in all logs; 0 is none.
fn celsius(kelvin: u64) -> Option<String> {
    let kelvin = i64::try_from(kelvin).ok().filter(|kelvin| *kelvin > 0)?;
    Some(format!("K ({} °C)", kelvin - 273))
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn time(nanos: u64) -> String {
    let (scale, unit) = match nanos {
        0 => return "ns".into(),
        1..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("({} {unit})", show(nanos as f64 / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_with_what_they_mean() {
        for (page, key, value, shown) in [
            (Page::Smart, "temperature", 313, "313 K (40 °C)"),
            (Page::Smart, "temperature_sensor_1", 260, "260 K (-13 °C)"),
            (Page::Smart, "temperature_sensor_2", 0, "0"),
            (Page::Smart, "data_units_written", 2_000, "2000 (977 MiB)"),
            (Page::Endurance, "data_units_written", 3, "3 (2.79 GiB)"),
            (Page::Other, "data_units_written", 3, "3"),
            (Page::Smart, "percent_used", 0, "0 %"),
            (Page::Smart, "controller_busy_time", 7, "7 min"),
            (Page::Other, "host_bytes_written", 1 << 30, "1073741824 (1.00 GiB)"),
            (Page::Other, "host_bytes_read", 0, "0 B"),
            (Page::Other, "read_latency.p99_ns", 1_250, "1250 (1.25 us)"),
            (Page::Other, "time_ns", 1_500_000_000, "1500000000 (1.50 s)"),
            (Page::Other, "read_latency.p50_ns", 0, "0 ns"),
            (Page::Other, "nsze", 262_144, "262144"),
            (Page::Smart, "data_units_read", u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(number(page, key, value), shown, "{key}");
        }
    }
}
