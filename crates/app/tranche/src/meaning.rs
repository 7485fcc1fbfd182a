//! What the numbers of a drive's data structures and logs mean, for people: the raw number stays first, as nvme-cli has it.

use lab_report::figure::{show, show_size};

/// Bytes of a data unit of the SMART log: thousands of 512 bytes (Base 5.1.12.1.3).
const SMART_UNIT: u64 = 512_000;
/// Bytes of a data unit of the Endurance Group log (Base 5.1.12.1.10).
const ENDURANCE_UNIT: u64 = 1_000_000_000;

/// Bytes of a unit of Memblaze's log.
const MEMBLAZE_UNIT: u64 = 32 << 20;
/// Bytes of the smallest memory page of a host that our drives take, in which many limits are told.
const PAGE_UNIT: u64 = 4096;
/// Bytes of a unit of Zone Descriptor Extensions.
const EXTENSION_UNIT: u64 = 64;

/// Which data structure a number is from, where the same name means something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// The SMART log.
    Smart,
    /// The Endurance Group log.
    Endurance,
    /// The OCP extended SMART log.
    Ocp,
    /// Memblaze's additional SMART log.
    Memblaze,
    /// Identify Controller.
    Controller,
    /// Identify Namespace of one whose blocks have so many bytes.
    Namespace(u32),
    /// Identify Namespace of the Zoned Namespace Command Set.
    Zones(Zones),
    /// Any other.
    Other,
}

/// What the numbers of a zoned namespace need to be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zones {
    /// Bytes of a logical block.
    pub block: u32,
    /// Index of its LBA format.
    pub format: u8,
    /// Zones can have Zone Random Write Areas.
    pub areas: bool,
}

/// A number as it is shown: with its unit, or with its meaning.
pub fn number(page: Page, key: &str, value: u64) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    let meaning = match page {
        Page::Ocp => ocp(key, value),
        Page::Memblaze => memblaze(key, value),
        Page::Controller => controller(last, value),
        Page::Namespace(block) => namespace(last, value, block),
        Page::Zones(of) => zones(key, value, of),
        _ => None,
    };
    match meaning.or_else(|| of_any(page, last, value)) {
        Some(meaning) => format!("{value} {meaning}"),
        None => value.to_string(),
    }
}

/// A number of bytes in these units, unless it is none.
fn bytes(value: u64, unit: u64) -> Option<String> {
    value.checked_mul(unit).filter(|bytes| *bytes > 0).map(|bytes| format!("({})", show_size(bytes)))
}

/// A power of two bytes.
fn power(value: u64, unit: u64) -> Option<String> {
    bytes(unit.checked_shl(u32::try_from(value).ok()?)?, 1)
}

fn of_any(page: Page, key: &str, value: u64) -> Option<String> {
    match (page, key) {
        (_, "temperature" | "wctemp" | "cctemp" | "mntmt" | "mxtmt") => celsius(value),
        (_, key) if key.starts_with("temperature_sensor_") => celsius(value),
        (_, "avail_spare" | "spare_thresh" | "percent_used" | "avl_spare" | "avl_spare_threshold") => {
            Some("%".into())
        }
        (Page::Smart, "data_units_read" | "data_units_written") => bytes(value, SMART_UNIT),
        (
            Page::Endurance,
            "data_units_read" | "data_units_written" | "media_units_written" | "endurance_estimate",
        ) => bytes(value, ENDURANCE_UNIT),
        (_, "controller_busy_time" | "warning_temp_time" | "critical_comp_time" | "edstt") => {
            Some("min".into())
        }
        (_, "power_on_hours") => Some("h".into()),
        (_, "thm_temp1_total_time" | "thm_temp2_total_time") => Some("s".into()),
        (
            _,
            "tnvmcap"
            | "unvmcap"
            | "megcap"
            | "nvmcap"
            | "total_end_grp_cap"
            | "unalloc_end_grp_cap"
            | "total_nvmset_cap"
            | "unalloc_nvmset_cap",
        ) => bytes(value, 1),
        (_, key) if key.contains("_bytes_") => Some(bytes(value, 1).unwrap_or_else(|| "B".into())),
        (_, key) if key.ends_with("_ns") => Some(time(value)),
        _ => None,
    }
}

/// The OCP extended SMART log (OCP Datacenter NVMe SSD Specification 2.5, 4.8.6).
fn ocp(key: &str, value: u64) -> Option<String> {
    match key {
        "Endurance estimate"
        | "NUSE - Namespace utilization"
        | "Physical media units written.lo"
        | "Physical media units read.lo" => Some(bytes(value, 1).unwrap_or_else(|| "B".into())),
        "Max temperature recorded" => Some("°C".into()),
        "Capacitor health" if value == 0xFFFF => Some("(no capacitors)".into()),
        "Capacitor health" | "Percent free blocks" | "System data percent used" => Some("%".into()),
        // 100 at first, 0 at the worst.
        _ if key.to_lowercase().ends_with("normalized") || key.ends_with("noralized") => Some("%".into()),
        _ => None,
    }
}

/// Memblaze's additional SMART log: what the raw values are differs from item to item.
fn memblaze(key: &str, value: u64) -> Option<String> {
    let (item, part) = key.split_once('.')?;
    if part == "normalized" {
        return Some("%".into());
    }
    let [first, second, third] = [value, value >> 16, value >> 32].map(|value| value & 0xFFFF);
    let kelvin = |value: u64| i64::try_from(value).map_or(0, |kelvin| kelvin - 273);
    match item {
        "tempt_since_bootup" | "tempt_since_born" => Some(format!(
            "(highest {} °C, lowest {} °C, current {} °C)",
            kelvin(first),
            kelvin(second),
            kelvin(third)
        )),
        "power_consumption" => Some(format!("(highest {first} W, lowest {second} W, current {third} W)")),
        "wear_leveling" => Some(format!("(erases of a block: fewest {first}, most {second}, mean {third})")),
        "thermal_throttle_status" => Some(format!("({} %, {} times)", value & 0xFF, value >> 8)),
        "nand_bytes_written" | "host_bytes_written" | "total_read" => {
            Some(bytes(value, MEMBLAZE_UNIT).unwrap_or_else(|| "x 32 MiB".into()))
        }
        "timed_workload_media_wear" => Some("x 0.001 %".into()),
        "timed_workload_host_reads" | "system_area_life_left" => Some("%".into()),
        "timed_workload_timer" | "thermal_throttle_time" => Some("min".into()),
        "power_loss_protection" => Some(if value == 1 { "(good)" } else { "(not good)" }.into()),
        _ => None,
    }
}

/// Identify Controller (Base 5.1.13.2.1).
fn controller(key: &str, value: u64) -> Option<String> {
    match key {
        "mdts" if value > 0 => power(value, PAGE_UNIT),
        "ioccsz" | "iorcsz" => bytes(value, 16),
        "rtd3r" | "rtd3e" | "entry_lat" | "exit_lat" => Some("us".into()),
        "anatt" | "cqt" => Some("s".into()),
        "kas" | "mtfa" | "crdt1" | "crdt2" | "crdt3" => Some("x 100 ms".into()),
        "hmpre" | "hmmin" | "hmminds" | "fwug" => bytes(value, PAGE_UNIT),
        // The scale says hundredths or ten thousandths of a watt; ours has the former.
        "max_power" => Some("x 0.01 W".into()),
        "ver" => Some(format!("({}.{}.{})", value >> 16, value >> 8 & 0xFF, value & 0xFF)),
        "sqes" | "cqes" => {
            Some(format!("({} B to {} B)", 1_u64 << (value & 0xF), 1_u64 << (value >> 4 & 0xF)))
        }
        _ => None,
    }
}

/// Identify Namespace (NVM Command Set 4.1.5.1); some limits count from 0.
fn namespace(key: &str, value: u64, block: u32) -> Option<String> {
    let block = u64::from(block);
    let from_zero = || bytes(value.checked_add(1)?, block);
    match key {
        "nsze" | "ncap" | "nuse" => Some(bytes(value, block).unwrap_or_else(|| "blocks".into())),
        "noiob" | "mssrl" | "mcl" => bytes(value, block),
        "nawun" | "nawupf" | "nacwu" | "nabsn" | "nabspf" | "npwg" | "npwa" | "npdg" | "npda" | "nows"
            if value > 0 =>
        {
            from_zero()
        }
        "ds" => power(value, 1),
        "ms" => Some("B".into()),
        _ => None,
    }
}

/// Identify Namespace of the Zoned Namespace Command Set (ZNS 4.1.5.1). Numbers of resources count from 0.
fn zones(key: &str, value: u64, of: Zones) -> Option<String> {
    let block = u64::from(of.block);
    match key {
        "mar" | "mor" if value == u64::from(u32::MAX) => Some("(no limit)".into()),
        "mar" | "mor" => Some(format!("({} zones)", value.saturating_add(1))),
        "numzrwa" if of.areas => Some(format!("({} zones)", value.saturating_add(1))),
        "zrwafg" | "zrwasz" => bytes(value, block),
        "rrl" | "rrl1" | "rrl2" | "rrl3" | "frl" | "frl1" | "frl2" | "frl3" if value > 0 => Some("s".into()),
        _ if key.ends_with(".zdes") => bytes(value, EXTENSION_UNIT),
        _ if key == format!("lbafe[{}].zsze", of.format) => bytes(value, block),
        _ if key.ends_with(".zsze") => Some("blocks".into()),
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
    fn numbers_of_zones_come_with_what_they_mean() {
        let of = Zones { block: 4096, format: 2, areas: true };
        let without = Zones { areas: false, ..of };
        for (of, key, value, shown) in [
            (of, "mar", 13, "13 (14 zones)"),
            (of, "mor", 0xFFFF_FFFF, "4294967295 (no limit)"),
            (of, "numzrwa", 13, "13 (14 zones)"),
            (without, "numzrwa", 0, "0"),
            (of, "zrwafg", 4, "4 (16.0 KiB)"),
            (of, "zrwasz", 256, "256 (1.00 MiB)"),
            (without, "zrwasz", 0, "0"),
            (of, "rrl1", 86_400, "86400 s"),
            (of, "frl", 0, "0"),
            (of, "lbafe[2].zsze", 2048, "2048 (8.00 MiB)"),
            (of, "lbafe[0].zsze", 0, "0 blocks"),
            (of, "lbafe[2].zdes", 2, "2 (128 B)"),
            (of, "zrwacap", 1, "1"),
        ] {
            assert_eq!(number(Page::Zones(of), key, value), shown, "{key}");
        }
    }

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
            (Page::Namespace(4096), "nsze", 262_144, "262144 (1.00 GiB)"),
            (Page::Namespace(4096), "nuse", 0, "0 blocks"),
            (Page::Namespace(512), "npwg", 7, "7 (4.00 KiB)"),
            (Page::Namespace(512), "lbafs[0].ds", 12, "12 (4.00 KiB)"),
            (Page::Namespace(512), "nmic", 1, "1"),
            (Page::Controller, "mdts", 8, "8 (1.00 MiB)"),
            (Page::Controller, "ver", 0x0002_0100, "131328 (2.1.0)"),
            (Page::Controller, "sqes", 0x66, "102 (64 B to 64 B)"),
            (Page::Controller, "psds[0].max_power", 2500, "2500 x 0.01 W"),
            (Page::Controller, "wctemp", 343, "343 K (70 °C)"),
            (Page::Ocp, "Max temperature recorded", 40, "40 °C"),
            (Page::Ocp, "Bad user nand blocks - Normalized", 100, "100 %"),
            (Page::Ocp, "Capacitor health", 0xFFFF, "65535 (no capacitors)"),
            (
                Page::Memblaze,
                "tempt_since_born.raw",
                310 << 32 | 300 << 16 | 320,
                "1331459522880 (highest 47 °C, lowest 27 °C, current 37 °C)",
            ),
            (Page::Memblaze, "host_bytes_written.raw", 32, "32 (1.00 GiB)"),
            (Page::Memblaze, "wear_leveling.normalized", 99, "99 %"),
            (Page::Smart, "data_units_read", u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(number(page, key, value), shown, "{key}");
        }
    }
}
