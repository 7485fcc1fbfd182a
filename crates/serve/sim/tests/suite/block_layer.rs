//! Loads on block devices of a machine: alone as on a queue of the drive, and through processors, hops and a cache tier.

use crate::common::shape_with;
use blockdev::stack::{Hop, HopConfig, Shared};
use blockdev::{BlockDevice, Geometry};
use load_formats::fio::{Job, JobFile, Prompt, Space};
use media::Nanos;
use nvme::Nsid;
use sim::{BlockLayer, Contents, Machine, Processors, Sim, SimDevice};
use std::convert::Infallible;
use tier::{Config, Start, TierDevice};
use workload::{Mix, MixConfig, Order};

const NQN: &str = "nqn.2026-11.org.example:host";

/// A disk of 32 MiB, which is slow.
const DISK: &str = r#"
[drive]
timing = true

[[set]]
media = "disk"
rpm = 7200
heads = 2
cylinders = 100
outer_sectors = 500
inner_sectors = 400
read_seek = ["1ms", "8ms", "16ms"]

[[namespace]]
size = "32MiB"
lba = 4096
attach = "all"
"#;

fn add(machine: &Machine, toml: &str, contents: Contents) -> Sim {
    machine.add(device::Config::from_toml(toml).unwrap(), contents).unwrap()
}

fn device(sim: &Sim, nsid: Nsid) -> SimDevice {
    SimDevice::new(&mut sim.host(NQN).unwrap(), nsid).unwrap()
}

fn flash(machine: &Machine, contents: Contents) -> Sim {
    let second = "\n[[namespace]]\nset = 2\nsize = \"1MiB\"\nlba = 4096\nattach = \"all\"\n";
    add(machine, &(shape_with("timing = true").toml + second), contents)
}

fn mix(range: u64, depth: u32, count: u64) -> Mix {
    let order = Order::Random;
    Mix::new(MixConfig { range, blocks: 1, order, writes_per_mille: 300, depth, count: Some(count), seed: 5 })
}

#[test]
fn a_bare_device_is_like_a_queue() {
    for depth in [1, 7, 200] {
        let sim =
            Sim::new(device::Config::from_toml(&shape_with("timing = true").toml).unwrap(), Contents::None)
                .unwrap();
        let queue = sim.run(1, &mut mix(8192, depth, 5000), |_| false).unwrap();
        let machine = Machine::new();
        let sim = flash(&machine, Contents::None);
        let mut layer = BlockLayer::new(&machine, Processors::NONE);
        let disk = layer.add_device(Box::new(device(&sim, 1)), false);
        layer.add_load(mix(8192, depth, 5000), &[disk]).unwrap();
        assert!(layer.run(Nanos::MAX, |_| false));
        assert_eq!(layer.outcome(0), queue, "depth {depth}");
        assert!(layer.now().0 >= queue.elapsed);
        assert_eq!(layer.clear()[0].failed(), 0);
    }
}

/// Requests per second of four loads.
fn rate(host: Processors, hop: HopConfig) -> u64 {
    let machine = Machine::new();
    let sim = flash(&machine, Contents::None);
    let mut layer = BlockLayer::new(&machine, host);
    let disk = layer.add_device(Box::new(Hop::new(hop, device(&sim, 2))), false);
    for _ in 0..4 {
        layer.add_load(mix(256, 16, 4000), &[disk]).unwrap();
    }
    assert!(layer.run(Nanos::MAX, |_| false));
    16_000 * 1_000_000_000 / layer.now().0.max(1)
}

#[test]
fn processors_and_locks_limit_a_fast_device() {
    let host = |count| Processors { count, submission: 6_000, completion: 4_000 };
    // 10 microseconds of a processor for each request; of a lock, 4.
    let near =
        |rate: u64, wanted: u64| assert!(rate.abs_diff(wanted) < wanted / 50, "{rate} is not {wanted}");
    near(rate(host(1), HopConfig::NONE), 100_000);
    near(rate(host(4), HopConfig::NONE), 400_000);
    let lock = HopConfig { submission: 2_500, completion: 1_500, ..HopConfig::NONE };
    near(rate(host(4), lock), 250_000);
    assert!(rate(Processors::NONE, HopConfig::NONE) > 1_000_000);
}

#[test]
fn loads_share_a_short_queue() {
    let machine = Machine::new();
    let sim = flash(&machine, Contents::None);
    let host = Processors { count: 4, submission: 12_000, completion: 8_000 };
    let mut layer = BlockLayer::new(&machine, host);
    let short = HopConfig { depth: 8, requests: 8, ..HopConfig::NONE };
    let disk = layer.add_device(Box::new(Hop::new(short, device(&sim, 2))), false);
    for _ in 0..4 {
        layer.add_load(mix(256, 16, 100_000), &[disk]).unwrap();
    }
    layer.run(Nanos(200_000_000), |_| false);
    let done: Vec<u64> = (0..4).map(|load| layer.outcome(load).requests).collect();
    // Each has a processor of its own, which does 50,000 a second.
    assert!(done.iter().all(|done| (9_000..=10_000).contains(done)), "{done:?}");
}

/// Opens a tier of a disk's and a flash drive's namespaces; its metadata is on the second namespace.
fn tier(
    machine: &Machine,
    disk: &Sim,
    flash: &Sim,
    contents: bool,
) -> Shared<TierDevice<SimDevice, SimDevice, SimDevice>> {
    let devices = (device(disk, 1), device(flash, 1), device(flash, 2));
    let config = Config { chunk: 64 << 10, contents, ..Config::default() };
    let start = Start::Create { seed: 1, replace: false };
    let opened = tier::open(config, start, devices, machine.now().0, |tier| {
        machine_until(disk, tier.next_work());
        disk.now().0
    });
    Shared::new(opened.unwrap())
}

fn machine_until(sim: &Sim, time: u64) {
    if time < u64::MAX {
        sim.run_until(sim.now().max(Nanos(time)));
    }
}

/// All of a device.
fn whole<D: BlockDevice<Error = Infallible> + 'static>(shared: &Shared<D>) -> blockdev::stack::Partition<D> {
    let Geometry { blocks, .. } = shared.with(|device| device.geometry());
    shared.partition(0, blocks).unwrap()
}

#[test]
fn a_tier_is_a_device_of_the_machine() {
    let machine = Machine::new();
    let (disk, flash) = (add(&machine, DISK, Contents::None), flash(&machine, Contents::None));
    let shared = tier(&machine, &disk, &flash, false);
    let mut layer = BlockLayer::new(&machine, Processors::NONE);
    let cached = layer.add_device(Box::new(whole(&shared)), false);
    // 2 MiB, again and again: at first from the disk.
    let mut mean = |count| {
        layer.add_load(mix(512, 1, count), &[cached]).unwrap();
        assert!(layer.run(Nanos::MAX, |_| false));
        let outcome = layer.outcome(0);
        assert_eq!((outcome.requests, outcome.failed), (count, 0));
        layer.clear();
        (outcome.latency_sum / u128::from(count)) as u64
    };
    let (cold, _) = (mean(50), mean(3000));
    let warm = mean(2000);
    assert!(cold > 1_000_000 && warm < cold / 10, "{cold} ns cold, {warm} ns warm");
    let status = shared.with(|tier| tier.core().status());
    assert!(status.dirty > 0 && status.counters.promotions >= 32, "{status:?}");
    // Idle, it writes back what is dirty.
    layer.rest(machine.now() + Nanos(300_000_000_000));
    let status = shared.with(|tier| tier.core().status());
    assert_eq!(status.dirty, 0, "{status:?}");
}

#[test]
fn what_is_written_through_all_layers_is_found() {
    let machine = Machine::new();
    let (disk, flash) = (add(&machine, DISK, Contents::Memory), flash(&machine, Contents::Memory));
    let shared = tier(&machine, &disk, &flash, true);
    let path = HopConfig { submission: 500, latency: 2_000, depth: 12, requests: 16, ..HopConfig::NONE };
    let device = Hop::new(path, whole(&shared));
    let Geometry { blocks, block_size, .. } = device.geometry();
    let host = Processors { count: 2, submission: 3_000, completion: 2_000 };
    let mut layer = BlockLayer::new(&machine, host);
    let cached = layer.add_device(Box::new(device), true);
    let text = "[a]\nrw=randwrite\nbs=72k\nsize=7200k\niodepth=16\nverify=crc32c\nverify_interval=4096\ndo_verify=1\n";
    let jobs = JobFile::parse(text, &|_| None).unwrap().jobs().unwrap();
    let job = Job::of(&jobs.jobs[0], Space::new(blocks, block_size), 0, 0, 0).unwrap();
    layer.add_load(Prompt::new(job), &[cached]).unwrap();
    assert!(layer.run(Nanos::MAX, |step| {
        assert!(step.status.is_success());
        false
    }));
    let job = layer.load(0).job();
    assert_eq!((job.mismatches().0, job.stats().failed), (0, 0));
    assert_eq!(job.stats().traffic.each_ref().map(|traffic| traffic.bytes)[..2], [7200 << 10; 2]);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let machine = Machine::new();
        let (disk, flash) = (add(&machine, DISK, Contents::None), flash(&machine, Contents::None));
        let shared = tier(&machine, &disk, &flash, false);
        let mut layer =
            BlockLayer::new(&machine, Processors { count: 3, submission: 2_000, completion: 900 });
        let cached = layer.add_device(Box::new(whole(&shared)), false);
        for _ in 0..4 {
            layer.add_load(mix(4096, 4, 300), &[cached]).unwrap();
        }
        assert!(layer.run(Nanos::MAX, |_| false));
        (0..4).map(|number| layer.outcome(number).digest).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
