//! The published results: Multi-Namespace Management & Performance Optimization, Flash Memory Summit 2019, and an
//! article on the DTCC 2019 talk (Memblaze). Percona Server 8.0.15, tpcc-mysql, 28,000 warehouses, PBlaze5 910 3.84 TB.

use lab_models::innodb::THROUGHPUT;
use lab_report::results::{Point, Published};

/// NAND writes of the whole campaign in GB, without and with the DRAM namespace.
const NAND_GB: (f64, f64) = (74_229.0, 52_220.0);
/// Write amplification as published: NAND writes over host writes to all namespaces.
const AMPLIFICATION: (f64, f64) = (2.478, 1.335);
/// The same over host writes to the NAND namespace only: 46.5% of the host's bytes went to DRAM (derived).
const AMPLIFICATION_NAND: (f64, f64) = (2.478, 2.50);

/// Threads at which the drive's traffic was published.
pub const TRAFFIC_THREADS: u64 = 64;

/// What was published of a namespace's traffic with [`TRAFFIC_THREADS`]: commands and MiB each second, milliseconds.
pub struct Traffic {
    /// The variant: `"nand"` or `"dram"`.
    pub variant: &'static str,
    /// The medium of the namespace.
    pub medium: &'static str,
    /// Reads.
    pub read_iops: f64,
    /// MiB read.
    pub read_mib: f64,
    /// Mean latency of reads; its unit is not said, milliseconds are meant.
    pub read_ms: f64,
    /// Writes.
    pub write_iops: f64,
    /// MiB written.
    pub write_mib: f64,
    /// Mean latency of writes.
    pub write_ms: f64,
}

/// Traffic by namespace; the DRAM namespace was not read.
pub const TRAFFIC: [Traffic; 3] = [
    Traffic {
        variant: "nand",
        medium: "nand",
        read_iops: 46_888.194,
        read_mib: 732.626,
        read_ms: 0.405,
        write_iops: 20_410.696,
        write_mib: 540.13,
        write_ms: 2.758,
    },
    Traffic {
        variant: "dram",
        medium: "nand",
        read_iops: 64_845.669,
        read_mib: 1_013.213,
        read_ms: 0.375,
        write_iops: 28_242.749,
        write_mib: 396.073,
        write_ms: 1.306,
    },
    Traffic {
        variant: "dram",
        medium: "dram",
        read_iops: 0.0,
        read_mib: 0.0,
        read_ms: 0.0,
        write_iops: 2_837.63,
        write_mib: 344.312,
        write_ms: 1.775,
    },
];

/// Percent of the written bytes that went to the doublewrite buffer with [`TRAFFIC_THREADS`].
pub fn doublewrite_share() -> f64 {
    let [_, data, apart] = &TRAFFIC;
    apart.write_mib * 100.0 / (data.write_mib + apart.write_mib)
}

/// KiB of a write to the DRAM namespace with [`TRAFFIC_THREADS`].
pub fn doublewrite_kib() -> f64 {
    TRAFFIC[2].write_mib * 1024.0 / TRAFFIC[2].write_iops
}

/// Write amplification over all namespaces, and over the NAND namespace alone (derived for `dram`), of a variant.
pub fn amplification(variant: &str) -> Option<(f64, f64)> {
    match variant {
        "nand" => Some((AMPLIFICATION.0, AMPLIFICATION_NAND.0)),
        "dram" => Some((AMPLIFICATION.1, AMPLIFICATION_NAND.1)),
        _ => None,
    }
}

/// tpmC of a variant.
pub fn throughput(variant: &str, threads: u64) -> Option<f64> {
    let row = THROUGHPUT.iter().find(|row| row.0 == threads)?;
    match variant {
        "nand" => Some(row.1),
        "dram" => Some(row.2),
        _ => None,
    }
}

/// The published (or, from published figures, derived) ratio of `dram` over `nand` for a metric.
pub fn dram_over_nand(metric: &str, at: Option<&Point>) -> Option<Published> {
    let ratio = match (metric, at) {
        ("tpmC", Some(point)) => {
            let threads = point.get("threads")?;
            THROUGHPUT.iter().find(|row| row.0 == *threads).map(|row| row.2 / row.1)?
        }
        ("tpmC", None) => {
            let logs: f64 = THROUGHPUT.iter().map(|row| (row.2 / row.1).ln()).sum();
            (logs / 5.0).exp()
        }
        // These were published for the campaign as a whole.
        (_, Some(_)) => return None,
        ("nand_bytes_per_new_order", None) => {
            let work = THROUGHPUT.iter().fold((0.0, 0.0), |sum, row| (sum.0 + row.1, sum.1 + row.2));
            (NAND_GB.1 / work.1) / (NAND_GB.0 / work.0)
        }
        ("write_amplification_all", None) => AMPLIFICATION.1 / AMPLIFICATION.0,
        ("write_amplification_nand", None) => AMPLIFICATION_NAND.1 / AMPLIFICATION_NAND.0,
        _ => return None,
    };
    Some(Published::ratio(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_those_of_the_slides() {
        let at = |threads| Point::from([("threads".into(), threads)]);
        for (threads, percent) in [(4, 13.78), (8, 15.61), (16, 17.26), (32, 31.04), (64, 35.49)] {
            let gain = (dram_over_nand("tpmC", Some(&at(threads))).unwrap().value - 1.0) * 100.0;
            assert!((gain - percent).abs() < 0.006, "{threads}: {gain}");
        }
        assert_eq!(dram_over_nand("tpmC", Some(&at(12))), None);
        let bytes = dram_over_nand("nand_bytes_per_new_order", None).unwrap().value;
        assert!((bytes - 0.56).abs() < 0.001, "{bytes}");
        let all = dram_over_nand("write_amplification_all", None).unwrap().value;
        assert!((all - 0.539).abs() < 0.001, "{all}");
    }
}
