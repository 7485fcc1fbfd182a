//! What it takes to bring a simulated drive without contents into the state of a used one, to keep that, and to go on with it: real time and
//! memory.
//!
//! `cargo bench -p sim --bench precondition -- PROFILE.toml [fill|steady] [SUPERBLOCKS]`
//!
//! With a number of superblocks the drive has so many, and its first namespace all of their capacity that 28 % spare leaves.

use sim::Precondition;
use sim::precondition::preconditioned;
use sim::{Contents, Sim};
use workload::{Mix, MixConfig, Order};

/// Memory of this process in MiB: now, and at most so far.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    (of("VmRSS:").unwrap_or(0) / 1024, of("VmHWM:").unwrap_or(0) / 1024)
}

/// CPU time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn resized(mut config: device::Config, superblocks: u32) -> device::Config {
    let ftl::SetConfig::Nand { nand, capacity_pages, .. } = &mut config.ftl.sets[0] else {
        panic!("NVM Set 1 is NAND")
    };
    nand.geometry.superblocks = superblocks;
    *capacity_pages = (nand.geometry.pages() * 100 / 128) as u32 / ftl::GRANULE_PAGES * ftl::GRANULE_PAGES;
    config.namespaces[0].bytes = u64::from(*capacity_pages) * u64::from(ftl::PAGE);
    config
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let path = args.first().cloned().unwrap_or_else(|| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../profiles/pblaze5-910-short.toml").into()
    });
    let how = match args.get(1).map(String::as_str) {
        Some("fill") => Precondition::Fill,
        _ => Precondition::Steady,
    };
    let text = std::fs::read_to_string(&path).expect("the profile can be read");
    let mut config = device::Config::from_toml(&text).expect("the profile is well-formed");
    if let Some(superblocks) = args.get(2).and_then(|n| n.parse().ok()) {
        config = resized(config, superblocks);
    }
    let bytes = u64::from(config.ftl.sets[0].capacity_pages()) * u64::from(ftl::PAGE);
    println!("{path}: {:.1} GiB in NVM Set 1", bytes as f64 / f64::from(1 << 30));
    let mut last = (std::time::Instant::now(), cpu_seconds());
    let mut tell = |what: &str| {
        let (now, most) = memory();
        let (real, cpu) = (last.0.elapsed().as_secs_f64(), cpu_seconds() - last.1);
        println!("{what:<36} {real:>8.2} s  {cpu:>8.2} CPU-s  {now:>7} MiB now  {most:>7} MiB at most");
        last = (std::time::Instant::now(), cpu_seconds());
    };
    drop(Sim::new(config.clone(), Contents::None).expect("the drive can be built"));
    tell("a new one");
    let cache = tempfile::tempdir().expect("a directory");
    let make = || preconditioned(config.clone(), Contents::None, how, 1, Some(cache.path()), &mut |_| true);
    let (made, _) = make().expect("it can be preconditioned");
    tell("preconditioned, kept in a file");
    drop(made);
    let (kept, _) = make().expect("it was kept");
    tell("read from the file");
    let sim = kept.start().expect("it can be started");
    tell("started");
    let write = |count: u64| {
        let config = MixConfig {
            range: config.namespaces[0].bytes >> 12,
            blocks: 1,
            order: Order::Random,
            writes_per_mille: 1000,
            depth: 64,
            count: Some(count),
            seed: 1,
        };
        let programmed = |sim: &Sim| sim.drive().ftl().set_stats(ftl::SetId(0)).media_written_bytes;
        let before = programmed(&sim);
        let outcome = sim.run(1, &mut Mix::new(config), |_| false).expect("namespace 1 is attached");
        (programmed(&sim) - before) as f64 / outcome.bytes as f64
    };
    let count = bytes >> 17;
    let begin = cpu_seconds();
    let amplification = write(count);
    let rate = count as f64 / (cpu_seconds() - begin) / 1e6;
    tell("random writes to 1/32 of it");
    println!("write amplification {amplification:.3}, {rate:.3} M writes per CPU-second");
}
