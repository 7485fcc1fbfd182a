//! The published results.
//!
//! - [ATC]: M. Bjorling et al., "ZNS: Avoiding the Block Interface Tax for Flash-based SSDs", USENIX ATC 2021. Three drives of the same hardware with 2 TiB of
//!   media: conventional with 1.92 TB (7 % spare as it is counted there) and 1.60 TB (28 %), and zoned with 2 TB.
//! - [SDC]: H. Holmberg, "MyRocks on zoned namespaces", Storage Developer Conference 2021, of the same people.
//! - [scripts]: zbdbench (github.com/westerndigitalcorporation/zbdbench), their public benchmark scripts: options of fio and db_bench.

use lab_report::results::{Point, Published};

/// Steady writes in MiB/s by variant (\[ATC\] figure 1).
pub const STEADY_WRITES: [(&str, f64); 3] = [("cns-7", 370.0), ("cns-28", 590.0), ("zns", 1010.0)];

/// Mean latency of a 4 KiB read of an idle conventional drive in microseconds (\[ATC\] figure 5b).
pub const IDLE_READ_US: f64 = 85.0;

/// MiB/s of writes; the latency of 4 KiB reads of the zoned drive over that of the conventional one with 7 % spare, and with 28 % (\[ATC\] figure 5b).
pub const READS: [(u64, f64, f64); 3] = [(50, 0.81, 0.95), (150, 0.55, 0.84), (300, 0.36, 0.73)];

/// Overwrites with RocksDB on ZenFS over XFS. \[ATC\] figures 6 to 8 compare with the conventional drive of 1.60 TB, so with 28 % spare.
pub const OVERWRITE_ZENFS: f64 = 2.83;

/// Overwrites with RocksDB on f2fs with zones over XFS, and over f2fs on the conventional drive (\[ATC\] figure 6).
pub const OVERWRITE_F2FS: (f64, f64) = (1.42, 1.33);

/// Write amplification of the drive under RocksDB on each file system (\[ATC\] figure 6).
pub const DRIVE_AMPLIFICATION: [(&str, f64); 4] =
    [("xfs-28", 2.0), ("zenfs", 1.0), ("f2fs-28", 2.4), ("f2fs-zns", 1.0)];

/// Overwrites on XFS with 28 % of spare over those with 7 % (\[ATC\] section 5).
pub const OVERWRITE_SPARE: f64 = 1.04;
/// The same on f2fs.
pub const OVERWRITE_SPARE_F2FS: f64 = 1.25;

/// Threads that read beside writes (\[ATC\] figure 7, \[scripts\]).
pub const READERS: u32 = 32;

/// Limit of the writes beside reads in bytes per second: 20 MiB/s (\[ATC\] figure 7, \[scripts\]).
pub const WRITE_LIMIT: u64 = 20 << 20;

/// P99.9 of reads beside limited writes: ZenFS over XFS, and f2fs on zones over f2fs on the conventional drive (\[ATC\] figures 7 and 8: "2x and 4x lower").
pub const LIMITED_P999: f64 = 0.5;
/// See [`LIMITED_P999`].
pub const LIMITED_P999_F2FS: f64 = 0.25;

/// Writes beside reads without a limit: ZenFS over XFS, and over f2fs on the conventional drive (\[ATC\] figures 7 and 8: "2x the writes").
pub const UNLIMITED_WRITES: f64 = 2.0;
/// P99.99 of those reads: ZenFS over XFS, and f2fs on zones over f2fs on the conventional drive (\[ATC\] figures 7 and 8: "about 10x lower").
pub const UNLIMITED_P9999: f64 = 0.1;

/// RocksDB's own write amplification with files of 128 to 512 MiB (\[ATC\] table 2: 11.9 to 12.0).
pub const ENGINE_AMPLIFICATION: (f64, f64) = (11.9, 12.0);

/// Transactions per second of MyRocks on ZenFS over XFS in sysbench: the least and the most of nine cells, which is which is not told (\[SDC\]). The endurance is said to be three to
/// four times as high, and the capacity 7 to 28 % larger.
pub const MYROCKS: (f64, f64) = (1.69, 2.54);

/// The published ratio of a metric of one variant over another at a point, if there is one.
pub fn ratio(metric: &str, of: &str, over: &str, at: Option<&Point>) -> Option<Published> {
    let find = |name: &str| at.and_then(|at| at.get(name).copied());
    let (writes, limit) = (find("writes_MiBps"), find("write_limit_MiBps"));
    let steady = |name: &str| STEADY_WRITES.iter().find(|row| row.0 == name).map(|row| row.1);
    let drive = |name: &str| DRIVE_AMPLIFICATION.iter().find(|row| row.0 == name).map(|row| row.1);
    let value = match (metric, of, over) {
        ("steady_write_MiBps", ..) => steady(of)? / steady(over)?,
        ("read_mean_us", "zns", _) => {
            let row = READS.iter().find(|row| Some(row.0) == writes)?;
            match over {
                "cns-7" => row.1,
                "cns-28" => row.2,
                _ => return None,
            }
        }
        ("ops_per_second", "zenfs", "xfs-28") if limit.is_none() => OVERWRITE_ZENFS,
        ("ops_per_second", "zenfs", "xfs-28" | "f2fs-28") if limit == Some(0) => UNLIMITED_WRITES,
        ("ops_per_second", "xfs-28", "xfs-7") if limit.is_none() => OVERWRITE_SPARE,
        ("ops_per_second", "f2fs-28", "f2fs-7") if limit.is_none() => OVERWRITE_SPARE_F2FS,
        ("ops_per_second", "f2fs-zns", "xfs-28") if limit.is_none() => OVERWRITE_F2FS.0,
        ("ops_per_second", "f2fs-zns", "f2fs-28") if limit.is_none() => OVERWRITE_F2FS.1,
        ("drive_write_amplification", ..) if limit.is_none() => drive(of)? / drive(over)?,
        ("read_p999_us", "zenfs", "xfs-28") if limit == Some(WRITE_LIMIT >> 20) => LIMITED_P999,
        ("read_p999_us", "f2fs-zns", "f2fs-28") if limit == Some(WRITE_LIMIT >> 20) => LIMITED_P999_F2FS,
        ("read_p9999_us", "zenfs", "xfs-28") | ("read_p9999_us", "f2fs-zns", "f2fs-28")
            if limit == Some(0) =>
        {
            UNLIMITED_P9999
        }
        _ => return None,
    };
    Some(Published::ratio(value))
}

/// The published ratio of a metric of the live study, if there is one. Of MyRocks it is the least of nine cells: which cell it is, is not told.
pub fn live(metric: &str, of: &str, over: &str) -> Option<f64> {
    let drive = |name: &str| DRIVE_AMPLIFICATION.iter().find(|row| row.0 == name).map(|row| row.1);
    let is_sysbench = metric.ends_with("_tps");
    match (metric, of, over) {
        (_, "myrocks-zones", "myrocks-7") if is_sysbench => Some(MYROCKS.0),
        ("overwrite_ops_per_second", "rocksdb-zones", "rocksdb-28") => Some(OVERWRITE_ZENFS),
        ("overwrite_ops_per_second", "rocksdb-28", "rocksdb-7") => Some(OVERWRITE_SPARE),
        ("overwrite_drive_write_amplification", "rocksdb-zones", "rocksdb-28") => {
            Some(drive("zenfs")? / drive("xfs-28")?)
        }
        ("read_while_writing_writes_per_second", "rocksdb-zones", "rocksdb-28") => Some(UNLIMITED_WRITES),
        ("read_while_writing_p9999_ms", "rocksdb-zones", "rocksdb-28") => Some(UNLIMITED_P9999),
        ("read_while_limited_p999_ms", "rocksdb-zones", "rocksdb-28") => Some(LIMITED_P999),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_paper() {
        let at = |name: &str, value| Some(Point::from([(name.to_owned(), value)]));
        let of = |metric, of, over, at: Option<Point>| {
            ratio(metric, of, over, at.as_ref()).map(|p| (p.value * 100.0).round())
        };
        assert_eq!(of("steady_write_MiBps", "zns", "cns-7", None), Some(273.0));
        assert_eq!(of("steady_write_MiBps", "cns-28", "cns-7", None), Some(159.0));
        assert_eq!(of("read_mean_us", "zns", "cns-28", at("writes_MiBps", 300)), Some(73.0));
        assert_eq!(of("read_mean_us", "zns", "cns-7", at("writes_MiBps", 20)), None);
        assert_eq!(of("read_mean_us", "cns-28", "cns-7", at("writes_MiBps", 50)), None);
        assert_eq!(of("ops_per_second", "zenfs", "xfs-28", Some(Point::new())), Some(283.0));
        assert_eq!(of("ops_per_second", "zenfs", "xfs-28", at("write_limit_MiBps", 0)), Some(200.0));
        assert_eq!(of("ops_per_second", "zenfs", "xfs-28", at("write_limit_MiBps", 20)), None);
        assert_eq!(of("ops_per_second", "xfs-28", "xfs-7", Some(Point::new())), Some(104.0));
        assert_eq!(of("read_p999_us", "zenfs", "xfs-28", at("write_limit_MiBps", 20)), Some(50.0));
        assert_eq!(of("read_p9999_us", "zenfs", "xfs-28", at("write_limit_MiBps", 0)), Some(10.0));
    }

    #[test]
    fn ratios_of_f2fs_are_those_of_the_paper() {
        let at = |name: &str, value| Some(Point::from([(name.to_owned(), value)]));
        let of = |metric, of, over, at: Option<Point>| {
            ratio(metric, of, over, at.as_ref()).map(|p| (p.value * 100.0).round())
        };
        assert_eq!(of("ops_per_second", "f2fs-zns", "xfs-28", Some(Point::new())), Some(142.0));
        assert_eq!(of("ops_per_second", "f2fs-zns", "f2fs-28", Some(Point::new())), Some(133.0));
        assert_eq!(of("ops_per_second", "f2fs-28", "f2fs-7", Some(Point::new())), Some(125.0));
        assert_eq!(of("ops_per_second", "f2fs-28", "f2fs-7", at("write_limit_MiBps", 20)), None);
        assert_eq!(of("ops_per_second", "f2fs-28", "xfs-28", Some(Point::new())), None);
        assert_eq!(of("ops_per_second", "zenfs", "f2fs-28", at("write_limit_MiBps", 0)), Some(200.0));
        let amplification = |of_, over| of("drive_write_amplification", of_, over, Some(Point::new()));
        assert_eq!(amplification("f2fs-28", "xfs-28"), Some(120.0));
        assert_eq!(amplification("f2fs-zns", "f2fs-28"), Some(42.0));
        assert_eq!(amplification("zenfs", "f2fs-zns"), Some(100.0));
        assert_eq!(of("read_p999_us", "f2fs-zns", "f2fs-28", at("write_limit_MiBps", 20)), Some(25.0));
        assert_eq!(of("read_p999_us", "f2fs-zns", "f2fs-28", at("write_limit_MiBps", 0)), None);
        assert_eq!(of("read_p9999_us", "f2fs-zns", "f2fs-28", at("write_limit_MiBps", 0)), Some(10.0));
    }

    /// The published drives of figures 6 to 8 had 28 % spare.
    #[test]
    fn nothing_on_zones_was_published_over_a_database_on_the_7_percent_drive() {
        let points = [None, Some(0), Some(WRITE_LIMIT >> 20)].map(|limit: Option<u64>| {
            Point::from_iter(limit.map(|limit| ("write_limit_MiBps".to_owned(), limit)))
        });
        for metric in ["ops_per_second", "drive_write_amplification", "read_p999_us", "read_p9999_us"] {
            for (of, over) in ["zenfs", "f2fs-zns"].into_iter().flat_map(|of| [(of, "xfs-7"), (of, "f2fs-7")])
            {
                for at in &points {
                    assert_eq!(
                        ratio(metric, of, over, Some(at)),
                        None,
                        "{metric} of {of} over {over}, {at:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn ratios_of_the_live_study_are_those_of_paper_and_talk() {
        assert_eq!(live("write_only_tps", "myrocks-zones", "myrocks-7"), Some(1.69));
        assert_eq!(live("write_only_p99_ms", "myrocks-zones", "myrocks-7"), None);
        assert_eq!(live("overwrite_ops_per_second", "rocksdb-zones", "rocksdb-28"), Some(2.83));
        assert_eq!(live("overwrite_ops_per_second", "rocksdb-zones", "rocksdb-7"), None);
        assert_eq!(live("overwrite_drive_write_amplification", "rocksdb-zones", "rocksdb-28"), Some(0.5));
        assert_eq!(live("read_while_writing_p9999_ms", "rocksdb-zones", "rocksdb-28"), Some(0.1));
        assert_eq!(live("fill_ops_per_second", "rocksdb-zones", "rocksdb-28"), None);
    }
}
