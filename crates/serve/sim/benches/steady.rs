//! What a drive does in steady state, in virtual time: write amplification, throughput and latency of 4 KiB
//! random writes and reads.
//!
//! `cargo bench -p sim --bench steady -- PROFILE.toml [WRITES]`

use sim::{Contents, Sim};
use workload::{Mix, MixConfig, Order};

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| a != "--bench");
    let path = args.next().unwrap_or_else(|| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../profiles/pblaze5-910-lab.toml").into()
    });
    let count: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(300_000);
    let text = std::fs::read_to_string(&path).expect("the profile can be read");
    let config = device::Config::from_toml(&text).expect("the profile is well-formed");
    let sim = Sim::new(config, Contents::None).expect("the drive can be built");
    let namespace = sim
        .host("nqn.2026-11.io.tranche:steady")
        .and_then(|mut host| host.namespace(1))
        .expect("namespace 1 is attached");
    let blocks = 4096 / namespace.block_size;
    let total = namespace.blocks;
    let mix = |order, blocks, writes, depth, count| MixConfig {
        range: 0,
        blocks,
        order,
        writes_per_mille: writes,
        depth,
        count: Some(count),
        seed: 7,
    };
    let started = std::time::Instant::now();
    let go = |name: &str, config: MixConfig| {
        let config = MixConfig { range: total, ..config };
        let set = ftl::SetId(0);
        let before = sim.drive().ftl().set_stats(set).media_written_bytes;
        let outcome = sim.run(1, &mut Mix::new(config), |_| false).expect("namespace 1 is attached");
        let programmed = sim.drive().ftl().set_stats(set).media_written_bytes - before;
        let seconds = outcome.elapsed as f64 / 1e9;
        println!(
            "{name:<28} {:>9.1} MiB/s {:>9.0} IOPS  mean {:>9.1} us  max {:>9.1} us  WA {:.3}  failed {}",
            outcome.bytes as f64 / 1048576.0 / seconds,
            outcome.requests as f64 / seconds,
            outcome.latency_sum as f64 / outcome.requests.max(1) as f64 / 1e3,
            outcome.latency_max as f64 / 1e3,
            programmed as f64 / outcome.bytes.max(1) as f64,
            outcome.failed,
        );
    };
    let whole = 1 << 17;
    let large = blocks * (whole / 4096);
    let fill = total / u64::from(large);
    let pages = count.max(1);
    go("fill, 128 KiB sequential", mix(Order::Sequential, large, 1000, 32, fill));
    go("random write, settling", mix(Order::Random, blocks, 1000, 64, pages * 4));
    go("random write, qd 64", mix(Order::Random, blocks, 1000, 64, pages));
    go("random write, qd 1", mix(Order::Random, blocks, 1000, 1, pages / 4));
    go("random read, qd 1", mix(Order::Random, blocks, 0, 1, pages / 4));
    go("random read, qd 32", mix(Order::Random, blocks, 0, 32, pages / 4));
    go("random 50/50, qd 32", mix(Order::Random, blocks, 500, 32, pages / 2));
    go("16 KiB random write, qd 16", mix(Order::Random, blocks * 4, 1000, 16, pages / 8));
    println!("{:.1} s of real time", started.elapsed().as_secs_f64());
}
