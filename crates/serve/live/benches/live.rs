//! A live drive from a host in the same process, on one thread.
//!
//! - `copy`: the machine's own rate of random 4 KiB copies over as much memory, which bounds the next two.
//! - `memory`: 4 KiB random writes and reads, contents in memory, timing off. No switch of threads, so
//!   commands per second of wall time are commands per CPU-second.
//! - `latency`: timing on, 4 KiB random reads at queue depth 1: the mean that the host saw beside the mean that
//!   the model says (log D8h counts the latter).
//! - `quota`: a namespace limited to so many reads per second, 256 of them outstanding: how many ended in each second
//!   over what was set.
//! - `open`: an image of 64 GiB, closed cleanly and left by a crash: seconds to open it.
//!
//! `cargo bench -p live --bench live -- [copy|memory|latency|quota|open|all]`

use live::{Buffer, Controller, HostIdentity, NoEvents, Options, Running, Shape};
use media::Rng;
use nvme::{AdminOpcode, Command, IoOpcode};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn profile(name: &str) -> Shape {
    let path = format!("{}/../../../profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let toml = std::fs::read_to_string(path).expect("the profile is there");
    Shape { config: device::Config::from_toml(&toml).expect("it is well-formed"), toml }
}

fn connect(running: &Running) -> Controller {
    let host = HostIdentity::new("nqn.2026-11.io.tranche:bench").expect("an NQN");
    running.handle().connect(host, Arc::new(NoEvents)).expect("it connects")
}

fn command(opcode: IoOpcode, page: u64) -> Command {
    let mut command = Command::new(opcode.0, 1);
    command.cdw10.set(page as u32);
    command.cdw11.set((page >> 32) as u32);
    command
}

fn main() {
    let what = std::env::args().skip(1).find(|a| a != "--bench").unwrap_or_else(|| "all".to_owned());
    let is = |name: &str| what == name || what == "all";
    if is("copy") {
        copy();
    }
    if is("memory") {
        memory();
    }
    if is("latency") {
        latency();
    }
    if is("quota") {
        quota();
    }
    if is("open") {
        open();
    }
}

/// Processor time of this process: on a busy machine the wall's says little.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Pages of the working set: 4 GiB.
const PAGES: u64 = 1 << 20;

fn copy() {
    let mut memory = vec![1u8; (PAGES * 4096) as usize];
    let source = vec![2u8; 4096 * 64];
    let mut rng = Rng::new(1);
    let start = cpu();
    let count = 2_000_000;
    for n in 0..count {
        let at = rng.below(PAGES) as usize * 4096;
        let from = (n % 64) * 4096;
        memory[at..at + 4096].copy_from_slice(&source[from..from + 4096]);
    }
    std::hint::black_box(&memory);
    println!(
        "copy    random 4 KiB copies               {:>9.0} per CPU-second",
        count as f64 / (cpu() - start)
    );
}

fn memory() {
    let mut shape = profile("bench-16g");
    // A quarter of it, so that it fits beside everything else on a small machine.
    shape.toml = shape.toml.replace("superblocks = 256", "superblocks = 64").replace("12800MiB", "3200MiB");
    shape.config = device::Config::from_toml(&shape.toml).expect("it is well-formed");
    let pages = shape.config.namespaces[0].bytes / 4096;
    let options = Options { preparation: sim::Precondition::Fill.preparation(0), ..Options::default() };
    let running = live::start(Some(shape), &options, &mut |_| ()).expect("it starts");
    let controller = connect(&running);
    let spare: Arc<Mutex<Vec<Buffer>>> = Arc::default();
    let back = spare.clone();
    let sink = move |_: u64, completion: nvme::Completion, buffer: Buffer| {
        assert!(completion.status().is_success(), "{}", completion.status());
        back.lock().expect("no panic").push(buffer);
    };
    let queue = controller.queue(256, Arc::new(sink)).expect("a queue");
    spare.lock().expect("no panic").extend((0..64).map(|_| Buffer::from(vec![7; 4096])));
    let mut rng = Rng::new(1);
    for (name, opcode, count) in [
        ("writes until memory is touched", IoOpcode::WRITE, 2_500_000u64),
        ("writes in steady state", IoOpcode::WRITE, 3_000_000),
        ("reads", IoOpcode::READ, 3_000_000),
    ] {
        let (start, cpu_start) = (Instant::now(), cpu());
        for n in 0..count {
            let buffer = loop {
                if let Some(buffer) = spare.lock().expect("no panic").pop() {
                    break buffer;
                }
                std::thread::yield_now();
            };
            queue.submit(n, &command(opcode, rng.below(pages)), buffer).expect("accepted");
        }
        println!(
            "memory  4 KiB random {name:<33} {:>9.0} per CPU-second, {:>9.0} per second",
            count as f64 / (cpu() - cpu_start),
            count as f64 / start.elapsed().as_secs_f64()
        );
    }
    running.stop();
}

fn latency() {
    for (name, poll) in [("sleeping", false), ("polling", true)] {
        let shape = profile("pblaze5-910-lab");
        let options =
            Options { preparation: sim::Precondition::Fill.preparation(0), poll, ..Options::default() };
        let running = live::start(Some(shape), &options, &mut |_| ()).expect("it starts");
        let controller = connect(&running);
        let queue = controller.blocking_queue(2).expect("a queue");
        let mut rng = Rng::new(1);
        let mut seen: Vec<Duration> = Vec::new();
        let mut buffer = Buffer::zeroed(4096);
        let before = modelled(&controller);
        for _ in 0..4000 {
            let start = Instant::now();
            let (completion, back) =
                queue.execute(&command(IoOpcode::READ, rng.below(1 << 18)), buffer).expect("runs");
            seen.push(start.elapsed());
            assert!(completion.status().is_success());
            buffer = back;
        }
        let after = modelled(&controller);
        let model = (after.1 - before.1) as f64 / (after.0 - before.0) as f64 / 1e3;
        seen.sort();
        let mean = seen.iter().sum::<Duration>().as_secs_f64() * 1e6 / seen.len() as f64;
        let at = |q: f64| seen[(q * (seen.len() - 1) as f64) as usize].as_secs_f64() * 1e6;
        println!(
            "latency {name}: modelled mean {model:.1} us, delivered mean {mean:.1} us ({:+.1} us), median {:.1}, p99 {:.1}, max {:.1}",
            mean - model,
            at(0.5),
            at(0.99),
            at(1.0)
        );
        running.stop();
    }
}

/// Reads and the sum of their modelled latencies, from log D8h of namespace 1.
fn modelled(controller: &Controller) -> (u64, u64) {
    let mut log = Command::new(AdminOpcode::GET_LOG_PAGE.0, 1);
    log.cdw10.set(2047 << 16 | 0xD8);
    let (completion, data) = controller.admin(&log, Buffer::zeroed(8192)).expect("runs");
    assert!(completion.status().is_success());
    let number = |at: usize| u64::from_le_bytes(data.as_slice()[at..at + 8].try_into().expect("8 bytes"));
    (number(48), number(6720))
}

/// Seconds that each limit is measured.
const SECONDS: usize = 9;

fn quota() {
    for (name, poll) in [("sleeping", false), ("polling", true)] {
        for limit in [1000u64, 10_000, 100_000, 1_000_000] {
            let mut shape = profile("pblaze5-910-lab");
            shape.toml =
                shape.toml.replace("timing = true", "timing = false") + &format!("read_iops = {limit}\n");
            shape.config = device::Config::from_toml(&shape.toml).expect("it is well-formed");
            let running = live::start(Some(shape), &Options { poll, ..Options::default() }, &mut |_| ())
                .expect("it starts");
            let controller = connect(&running);
            let (ended, start) = (Arc::new([const { AtomicU64::new(0) }; SECONDS + 1]), Instant::now());
            let spare: Arc<Mutex<Vec<Buffer>>> = Arc::default();
            let (back, count) = (spare.clone(), ended.clone());
            let sink = move |_: u64, completion: nvme::Completion, buffer: Buffer| {
                assert!(completion.status().is_success(), "{}", completion.status());
                if let Some(count) = count.get(start.elapsed().as_secs() as usize) {
                    count.fetch_add(1, Relaxed);
                }
                back.lock().expect("no panic").push(buffer);
            };
            let queue = controller.queue(257, Arc::new(sink)).expect("a queue");
            spare.lock().expect("no panic").extend((0..256).map(|_| Buffer::zeroed(4096)));
            // The first second is not counted: it begins with the burst.
            while start.elapsed().as_secs() <= SECONDS as u64 {
                let free = std::mem::take(&mut *spare.lock().expect("no panic"));
                if free.is_empty() {
                    std::thread::sleep(Duration::from_micros(20));
                }
                for buffer in free {
                    queue.submit(0, &command(IoOpcode::READ, 0), buffer).expect("accepted");
                }
            }
            while queue.in_flight() > 0 {
                std::thread::yield_now();
            }
            let mut seconds: Vec<u64> = ended[1..].iter().map(|n| n.load(Relaxed)).collect();
            seconds.sort();
            let of = |n: u64| n as f64 * 100.0 / limit as f64;
            println!(
                "quota   {name}, {limit:>9} reads per second: {:.2} % of them ({:.2} to {:.2} in {SECONDS} seconds)",
                of(seconds[SECONDS / 2]),
                of(seconds[0]),
                of(seconds[SECONDS - 1])
            );
            running.stop();
        }
    }
}

fn open() {
    let toml = r#"
[[set]]
media = "nand"
cell = "tlc"
capacity = "64GiB"
spare = "12.5%"
channels = 8
dies = 64
planes = 1
nand_page = "4KiB"
pages_per_block = 768
rated_cycles = 3000
[[namespace]]
size = "64GiB"
"#;
    let shape =
        Shape { config: device::Config::from_toml(toml).expect("well-formed"), toml: toml.to_owned() };
    let temp = std::env::temp_dir().join(format!("tranche-bench-{}", std::process::id()));
    let image = temp.join("image");
    let crashed = temp.join("crashed");
    std::fs::create_dir_all(&crashed).expect("room");
    let options = |dir: &std::path::Path, how: sim::Precondition| Options {
        image: Some(dir.to_owned()),
        preparation: how.preparation(0),
        ..Options::default()
    };
    let timed = |name: &str, dir: &std::path::Path, how: sim::Precondition| {
        let start = Instant::now();
        let running = live::start(Some(shape.clone()), &options(dir, how), &mut |_| ()).expect("it opens");
        println!("open    64 GiB, {name:<27} {:>9.2} s", start.elapsed().as_secs_f64());
        running
    };
    let running = timed("new, filled", &image, sim::Precondition::Fill);
    let start = Instant::now();
    running.stop();
    println!("open    64 GiB, closing it                {:>9.2} s", start.elapsed().as_secs_f64());
    let running = timed("closed cleanly", &image, sim::Precondition::None);
    let controller = connect(&running);
    let queue = controller.blocking_queue(64).expect("a queue");
    let mut rng = Rng::new(1);
    for _ in 0..200_000 {
        let data = Buffer::from(vec![1; 4096]);
        let (completion, _) =
            queue.execute(&command(IoOpcode::WRITE, rng.below(1 << 24)), data).expect("runs");
        assert!(completion.status().is_success());
    }
    // What a killed process leaves are the files as they are now.
    for entry in std::fs::read_dir(&image).expect("listed") {
        let entry = entry.expect("listed");
        if entry.file_name() != "contents" {
            std::fs::copy(entry.path(), crashed.join(entry.file_name())).expect("room");
        }
    }
    std::fs::hard_link(image.join("contents"), crashed.join("contents")).expect("linked");
    running.stop();
    timed("crashed after 200,000 writes", &crashed, sim::Precondition::None).stop();
    std::fs::remove_dir_all(&temp).expect("removed");
}
