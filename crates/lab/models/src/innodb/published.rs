//! The published throughput: Percona Server 8.0.15, tpcc-mysql, 28,000 warehouses, PBlaze5 910 3.84 TB (Memblaze, DTCC 2019).

/// Threads, tpmC with the doublewrite buffer on the NAND namespace, and on the DRAM namespace.
pub const THROUGHPUT: [(u64, f64, f64); 5] = [
    (4, 9_505.272, 10_814.7),
    (8, 15_678.145, 18_124.768),
    (16, 23_205.877, 27_210.906),
    (32, 29_988.883, 39_297.746),
    (64, 31_138.277, 42_189.027),
];
