//! A live drive over NVMe/TCP on loopback: its thread on processor 0, the host's on processor 1.
//!
//! Prints I/O operations per second, the mean latency, and what matters on a busy machine: the processor time of the
//! drive's thread per operation (with `poll` it counts the waiting, too) and its switches per thousand operations. Each
//! round takes every workload once in every mode, so that the modes can be compared within a round; the result is
//! the median over the rounds, with the range.
//!
//! `idle` instead: what 64 connections with nothing to do cost the drive's thread, over 20 seconds.
//!
//! `cargo bench -p live --bench tcp -- [--rounds N] [--seconds S] [--only TEXT] [poll] [sleep] [keys] | idle`: `keys` polls, with
//! an encrypted namespace.

use host::{Data, Host, Identity, IoQueue, Queue, SocketQueue, SocketTransport};
use live::{DriveKey, Options, Running, Shape};
use media::Rng;
use nvme::io::{Blocks, PrInfo};
use nvme::{IoOpcode, Nqn};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::time::{Duration, Instant};

/// The drive's namespace in pages of 4 KiB.
const PAGES: u64 = 1 << 16;
const PAGE: usize = 4096;

#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    write: bool,
    random: bool,
    bytes: usize,
    depth: u16,
    queues: usize,
    /// On the namespace with protection information, which the drive inserts and strips, with guard and reference tag
    /// checked.
    protected: bool,
}

const fn protected(name: &'static str, write: bool, depth: u16, queues: usize) -> Workload {
    Workload { protected: true, ..workload(name, write, PAGE, depth, queues) }
}

const fn workload(name: &'static str, write: bool, bytes: usize, depth: u16, queues: usize) -> Workload {
    Workload { name, write, random: bytes == PAGE, bytes, depth, queues, protected: false }
}

const WORKLOADS: [Workload; 12] = [
    workload("4k read qd1", false, PAGE, 1, 1),
    workload("4k write qd1", true, PAGE, 1, 1),
    workload("4k read qd32", false, PAGE, 32, 1),
    workload("4k write qd32", true, PAGE, 32, 1),
    protected("4k+8 read qd32", false, 32, 1),
    protected("4k+8 write qd32", true, 32, 1),
    workload("4k read qd128/4", false, PAGE, 32, 4),
    workload("4k write qd128/4", true, PAGE, 32, 4),
    protected("4k+8 read qd128/4", false, 32, 4),
    protected("4k+8 write qd128/4", true, 32, 4),
    workload("128k read qd8", false, 128 * 1024, 8, 1),
    workload("128k write qd8", true, 128 * 1024, 8, 1),
];

/// How the drive runs.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    poll: bool,
    encrypted: bool,
}

const MODES: [Mode; 3] = [
    Mode { name: "poll", poll: true, encrypted: false },
    Mode { name: "sleep", poll: false, encrypted: false },
    Mode { name: "keys", poll: true, encrypted: true },
];

/// One measurement.
#[derive(Clone, Copy, Default)]
struct Figures {
    iops: f64,
    latency_us: f64,
    /// Of the drive's thread, for each operation.
    cpu_us: f64,
    switches_per_thousand: f64,
}

fn pin(thread: Option<rustix::thread::Pid>, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu % std::thread::available_parallelism().map_or(1, usize::from));
    sched_setaffinity(thread, &set).expect("threads can be pinned");
}

/// The drive's thread.
fn drive_thread() -> i32 {
    for task in std::fs::read_dir("/proc/self/task").expect("Linux") {
        let path = task.expect("a task").path();
        if std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "tranche-drive") {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a number");
            return name.parse().expect("a number");
        }
    }
    panic!("the drive has no thread");
}

/// Processor time in seconds, and switches.
fn usage(thread: i32) -> (f64, f64) {
    let dir = format!("/proc/self/task/{thread}");
    let time = std::fs::read_to_string(format!("{dir}/schedstat")).expect("schedstat");
    let nanos: f64 = time.split_whitespace().next().and_then(|n| n.parse().ok()).expect("nanoseconds");
    let status = std::fs::read_to_string(format!("{dir}/status")).expect("status");
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    let count = switches.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum();
    (nanos / 1e9, count)
}

type Connected = (Host<SocketTransport>, Vec<IoQueue<SocketQueue>>);

fn connect(running: &Running, queues: usize) -> Connected {
    let addr = format!("tcp://{}", running.tcp().expect("it listens"));
    let transport = SocketTransport::new(addr.parse().expect("an address"), Duration::from_secs(20));
    let mut identity = Identity::new(Nqn::new("nqn.2026-11.io.tranche:bench").expect("an NQN"));
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().expect("an NQN"));
    let mut host = Host::connect(transport, &identity).expect("it connects");
    let queues = (0..queues).map(|_| host.io_queue(128).expect("a queue")).collect();
    (host, queues)
}

struct Bench {
    running: Running,
    host: Host<SocketTransport>,
    queues: Vec<IoQueue<SocketQueue>>,
    thread: i32,
}

impl Bench {
    fn start(mode: Mode) -> Self {
        // A quarter of the default drive: to touch memory for the first time takes longer than the rest.
        let toml = include_str!("../../../core/config/src/default_drive.toml")
            .replace("\"2GiB", "\"512MiB")
            .replace("1GiB", "256MiB")
            + "\n[[namespace]]\nsize = \"64MiB\"\nlba = \"4096+8\"\npi = 1\n";
        let config = device::Config::from_toml(&toml).expect("it is well-formed");
        let tcp = vec!["127.0.0.1:0".into()];
        let drive_key = mode.encrypted.then(|| DriveKey::generate(&mut |bytes| bytes.fill(7)));
        let options = Options { poll: mode.poll, tcp, drive_key, ..Options::default() };
        let running = live::start(Some(Shape { config, toml }), &options, &mut |_| ()).expect("it starts");
        let (host, queues) = connect(&running, 4);
        // It has taken its name by now.
        let thread = drive_thread();
        pin(rustix::thread::Pid::from_raw(thread), 0);
        let mut bench = Bench { running, host, queues, thread };
        let mut at = 0;
        // More than the flash has, so that memory was touched and collection goes on, as in use.
        let fill = Workload { random: false, ..workload("", true, 128 * 1024, 16, 1) };
        bench.go(fill, |done| done < 3 * PAGES / 32, &mut at);
        let fill = Workload { random: false, ..protected("", true, 16, 1) };
        bench.go(fill, |done| done < PAGES / 2, &mut at);
        bench
    }

    fn go(&mut self, w: Workload, mut more: impl FnMut(u64) -> bool, at: &mut u64) -> u64 {
        let pages = (w.bytes / PAGE) as u64;
        let (nsid, all) = if w.protected { (2, PAGES / 4) } else { (1, PAGES) };
        let mut rng = Rng::new(*at);
        let mut next = || {
            let slot = if w.random { rng.below(all / pages) } else { *at % (all / pages) };
            *at += 1;
            let lba = slot * pages;
            let prinfo = PrInfo::from_nibble(if w.protected { 0b1101 } else { 0 });
            let blocks = Blocks { prinfo, lbtl: lba as u32, ..Blocks::new(nsid, lba, pages as u32) };
            blocks.encode(if w.write { IoOpcode::WRITE } else { IoOpcode::READ })
        };
        let data = || if w.write { Data::Out(vec![7; w.bytes]) } else { Data::In(vec![0; w.bytes]) };
        for queue in self.queues[..w.queues].iter_mut().map(IoQueue::raw) {
            for _ in 0..w.depth {
                queue.submit(next(), data()).expect("it is submitted");
            }
            queue.flush().expect("it is sent");
        }
        let (mut done, mut open) = (0, true);
        while self.queues[..w.queues].iter_mut().any(|queue| queue.raw().outstanding() > 0) {
            for queue in self.queues[..w.queues].iter_mut().map(IoQueue::raw) {
                // What came at once is answered at once: a turn takes no more than what is outstanding.
                for _ in 0..w.depth {
                    let ended = queue.next(Some(Duration::ZERO)).expect("the drive answers");
                    let Some(ended) = ended else { break };
                    assert!(ended.completion.status().is_success(), "{}", ended.completion.status());
                    done += 1;
                    open = open && more(done);
                    if open {
                        queue.submit(next(), ended.data).expect("it is submitted");
                    }
                }
                queue.flush().expect("it is sent");
            }
        }
        done
    }

    fn measure(&mut self, w: Workload, seconds: f64) -> Figures {
        eprintln!("{} ({})", w.name, self.thread);
        let (cpu, switches) = usage(self.thread);
        let start = Instant::now();
        let mut at = 0;
        let done = self.go(w, |n| n % 64 != 0 || start.elapsed().as_secs_f64() < seconds, &mut at) as f64;
        let elapsed = start.elapsed().as_secs_f64();
        let (cpu_after, switches_after) = usage(self.thread);
        Figures {
            iops: done / elapsed,
            latency_us: elapsed * 1e6 * f64::from(w.depth) * w.queues as f64 / done,
            cpu_us: (cpu_after - cpu) * 1e6 / done,
            switches_per_thousand: (switches_after - switches) * 1000.0 / done,
        }
    }

    fn stop(self) {
        drop(self.queues);
        self.host.shutdown().expect("it shuts down");
        self.running.stop();
    }
}

/// 16 hosts with an admin queue and three I/O queues.
fn idle() {
    let bench = Bench::start(MODES[1]);
    let hosts: Vec<Connected> = (0..15).map(|_| connect(&bench.running, 3)).collect();
    let (span, (cpu, switches)) = (Duration::from_secs(20), usage(bench.thread));
    std::thread::sleep(span);
    let (cpu_after, switches_after) = usage(bench.thread);
    println!(
        "64 idle connections: {:.4} % of a processor, {:.1} switches per second",
        (cpu_after - cpu) * 100.0 / span.as_secs_f64(),
        (switches_after - switches) / span.as_secs_f64(),
    );
    drop(hosts);
    bench.stop();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let value = |name: &str| {
        arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1)).map(String::as_str)
    };
    let rounds: usize = value("--rounds").map_or(3, |n| n.parse().expect("a number"));
    let seconds: f64 = value("--seconds").map_or(1.0, |n| n.parse().expect("a number"));
    let only = value("--only").unwrap_or_default().to_owned();
    let named: Vec<Mode> = MODES.into_iter().filter(|m| arguments.iter().any(|a| a == m.name)).collect();
    let modes = if named.is_empty() { MODES[..2].to_vec() } else { named };
    let workloads: Vec<Workload> = WORKLOADS.into_iter().filter(|w| w.name.contains(&only)).collect();
    if arguments.iter().any(|a| a == "idle") {
        return idle();
    }
    pin(None, 1);
    let mut figures = vec![vec![Vec::new(); modes.len()]; workloads.len()];
    for _ in 0..rounds {
        for (m, &mode) in modes.iter().enumerate() {
            let mut bench = Bench::start(mode);
            for (w, workload) in workloads.iter().enumerate() {
                figures[w][m].push(bench.measure(*workload, seconds));
            }
            bench.stop();
        }
    }
    println!(
        "{:<18} {:<6} {:>8} {:>17} {:>8} {:>8} {:>9}",
        "", "mode", "kIOPS", "(range)", "us", "cpu us", "switches"
    );
    for (w, workload) in workloads.iter().enumerate() {
        for (m, mode) in modes.iter().enumerate() {
            let of = |get: fn(&Figures) -> f64| {
                let mut all: Vec<f64> = figures[w][m].iter().map(get).collect();
                all.sort_by(f64::total_cmp);
                (all[0], all[all.len() / 2], all[all.len() - 1])
            };
            let (low, iops, high) = of(|f| f.iops / 1000.0);
            println!(
                "{:<18} {:<6} {iops:>8.1} {:>17} {:>8.1} {:>8.2} {:>9.1}",
                workload.name,
                mode.name,
                format!("({low:.1} - {high:.1})"),
                of(|f| f.latency_us).1,
                of(|f| f.cpu_us).1,
                of(|f| f.switches_per_thousand).1,
            );
        }
    }
}
