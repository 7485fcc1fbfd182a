//! The translation layer and the media alone: 16 GiB of flash (64 dies x 256 blocks x 256 pages of
//! 4 KiB), no contents, one thread, 4 KiB uniform random, in virtual time.
//!
//!     cargo bench -p ftl --bench throughput [-- SPARE%...]
//!
//! Prints host operations per second of CPU time, write amplification beside theory, and the latencies
//! of writes in virtual time.

mod common;

use common::{ClosedLoop, PAGE, cpu_seconds};
use ftl::{NoContents, SetId, WriteHistory};
use media::Nanos;

/// The branch of the Lambert function that the formula needs, by Newton's method.
fn theory(alpha: f64) -> f64 {
    let x = -alpha * (-alpha).exp();
    let mut w = -0.5;
    for _ in 0..100 {
        w -= (w * f64::exp(w) - x) / (f64::exp(w) * (w + 1.0));
    }
    alpha / (alpha + w)
}

fn main() {
    let spares: Vec<f64> =
        std::env::args().skip(1).filter_map(|a| a.trim_end_matches('%').parse().ok()).collect();
    let spares = if spares.is_empty() { vec![28.0, 12.5, 7.0] } else { spares };
    println!("spare  writes/s  WA    theory  p50 us  p99 us  p99.99 us  max us   reads/s");
    for spare in spares {
        let mut load = ClosedLoop::new(spare);
        // What was written for long, and more until the last of it is settled.
        assert!(load.ftl.precondition(
            Nanos::ZERO,
            &[load.volume],
            WriteHistory::Overwritten(1),
            &mut NoContents,
            &mut || true
        ));
        for _ in 0..load.pages / 2 {
            let page = load.random();
            load.write(page);
        }
        load.latencies.clear();
        let before = load.ftl.set_stats(SetId(0));
        let begin = cpu_seconds();
        let count = load.pages;
        for _ in 0..count {
            let page = load.random();
            load.write(page);
        }
        let rate = count as f64 / (cpu_seconds() - begin);
        let after = load.ftl.set_stats(SetId(0));
        let amplification = (after.media_written_bytes - before.media_written_bytes) as f64
            / (after.host_written_bytes - before.host_written_bytes) as f64;
        load.latencies.sort_unstable();
        let at = |q: f64| f64::from(load.latencies[((load.latencies.len() - 1) as f64 * q) as usize]) / 1e3;
        let (p50, p99, p9999, most) = (at(0.5), at(0.99), at(0.9999), at(1.0));
        // Open superblocks and those kept free are no spare: two half-full ones and the free ones.
        let geometry_pages = load.ftl.set_info(SetId(0)).map_or(0, |s| s.raw_bytes / PAGE);
        let reserved = (2.0 + 1.0) * 16384.0;
        let effective = (geometry_pages as f64 - reserved) / load.pages as f64;
        let begin = cpu_seconds();
        let count = 4 * load.pages;
        for _ in 0..count {
            let page = load.random();
            load.read(page);
        }
        let reads = count as f64 / (cpu_seconds() - begin);
        println!(
            "{spare:>4}%  {:>6.3} M  {amplification:.3}  {:.3}  {p50:>6.1}  {p99:>6.1}  {p9999:>8.1}  {most:>8.1}  {:>6.3} M",
            rate / 1e6,
            theory(effective),
            reads / 1e6
        );
    }
}
