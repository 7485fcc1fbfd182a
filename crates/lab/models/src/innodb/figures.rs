//! Figures of a server under TPC-C, of a model and of a real one.

use std::collections::BTreeMap;

use database_models::innodb::TransactionKind;
use hdrhistogram::Histogram;

use lab_report::{
    counters::{NamespaceCounts, total, total_on_flash},
    results::Percentiles,
};

/// A number without its fraction, for people.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number, for reading")]
pub fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// Throughput, and what each new order costs the drive.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub fn metrics(new_orders: u64, seconds: f64, namespaces: &[NamespaceCounts]) -> BTreeMap<String, f64> {
    let seconds = seconds.max(1e-9);
    let (all, nand) = (total(namespaces), total_on_flash(namespaces));
    let (media, host_nand) = (nand.media_bytes_written as f64, nand.host_bytes_written as f64);
    let host_all = all.host_bytes_written as f64;
    let orders = new_orders.max(1) as f64;
    const MIB: f64 = 1_048_576.0;
    let mut metrics = BTreeMap::from([("tpmC".to_owned(), new_orders as f64 * 60.0 / seconds)]);
    if host_all > 0.0 {
        metrics.extend([
            ("nand_bytes_per_new_order".to_owned(), media / orders),
            ("host_bytes_per_new_order".to_owned(), host_all / orders),
            ("write_amplification_all".to_owned(), media / host_all),
            ("write_amplification_nand".to_owned(), media / host_nand.max(1.0)),
            ("nand_write_MiBps".to_owned(), media / seconds / MIB),
            ("host_write_MiBps".to_owned(), host_all / seconds / MIB),
            ("host_read_MiBps".to_owned(), all.host_bytes_read as f64 / seconds / MIB),
            ("write_iops".to_owned(), all.writes as f64 / seconds),
            ("read_iops".to_owned(), all.reads as f64 / seconds),
        ]);
    }
    metrics
}

/// Of transactions in the order of [`TransactionKind::ALL`], and of commits, in microseconds.
pub fn latencies(transactions: &[Histogram<u64>], commits: &Histogram<u64>) -> BTreeMap<String, Percentiles> {
    let histograms = TransactionKind::ALL.iter().map(|kind| kind.name()).zip(transactions);
    let all = histograms.chain([("commit", commits)]);
    all.map(|(name, histogram)| (name.to_owned(), Percentiles::of(histogram, 1e3))).collect()
}
