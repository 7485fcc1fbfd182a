//! Many hosts on one drive: what a thousand connections cost, hosts that come and go, and one that does not read.
//!
//! `TRANCHE_SOAK_SECONDS` for a longer soak, `TRANCHE_SOAK_SEED` for the seed that a failure printed:
//!
//!     TRANCHE_SOAK_SECONDS=600 cargo test --release -p tranche --test hosts soak -- --nocapture

mod common;

use common::{Served, TRANCHE};
use host::{Data, Host, Identity, IoQueue, Queue, SocketQueue, SocketTransport};
use media::Rng;
use nvme::{Command, Nqn};
use std::process::Command as Process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::wait_for;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

struct Drive(Served);

impl Drive {
    /// On a port of the system's choice, with few descriptors to begin with.
    fn start() -> Drive {
        let few = ["-c", "ulimit -Sn 128 && exec \"$0\" \"$@\"", TRANCHE];
        Drive(Served::run(Process::new("sh").args(few).args(["serve", "--tcp", "127.0.0.1:0"])))
    }

    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0.child.id())
    }

    /// Memory in bytes.
    fn memory(&self) -> u64 {
        self.0.memory()
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).unwrap().count()
    }

    fn host(&self, name: &str) -> Host<SocketTransport> {
        let transport = SocketTransport::new(self.0.tcp()[0].parse().unwrap(), ANSWER_TIMEOUT);
        let nqn = Nqn::new(&format!("nqn.2026-11.test:{name}")).unwrap();
        Host::connect(transport, &Identity::new(nqn)).unwrap()
    }
}

#[test]
fn a_thousand_connections_take_less_than_100_mib() {
    let served = Drive::start();
    let before = served.memory();
    // 20 hosts with an admin queue and 49 I/O queues, as deep as can be.
    let mut hosts = Vec::new();
    for name in 0..20 {
        let mut host = served.host(&name.to_string());
        let queues: Vec<_> = (0..49).map(|_| host.io_queue(1023).unwrap()).collect();
        hosts.push((host, queues));
    }
    assert!(served.descriptors() >= 1000);
    let idle = served.memory().saturating_sub(before);
    assert!(idle < 100 << 20, "{idle} bytes for 1,000 connections");
    // Each does something, and is idle again.
    for (host, queues) in &mut hosts {
        let namespace = host.namespace(1).unwrap();
        for queue in queues {
            queue.write(&namespace, 0, &[7; 8192], false).unwrap();
            queue.read(&namespace, 0, &mut [0; 8192]).unwrap();
        }
    }
    let used = served.memory().saturating_sub(before);
    assert!(used < 100 << 20, "{used} bytes for 1,000 connections that were used");
    println!("1,000 connections: {} KiB idle, {} KiB after use", idle / 1024, used / 1024);
}

/// A host comes, does something or not, and leaves in good order or not.
fn visit(served: &Drive, rng: &mut Rng) {
    let mut host = served.host(&rng.below(100).to_string());
    let namespace = host.namespace(1).unwrap();
    let mut queues: Vec<_> =
        (0..rng.below(4)).map(|_| host.io_queue(1 + rng.below(256) as u16).unwrap()).collect();
    for queue in &mut queues {
        for _ in 0..rng.below(8) {
            let (page, pages) = (rng.below(1024), 1 + rng.below(32));
            let mut data = vec![page as u8; pages as usize * 4096];
            match rng.below(2) {
                0 => queue.write(&namespace, page, &data, false).unwrap(),
                _ => queue.read(&namespace, page, &mut data).unwrap(),
            }
        }
        // Some leave with commands outstanding, whose answers nobody takes.
        for _ in 0..rng.below(4) * rng.below(2) {
            let data = match rng.below(2) {
                0 => Data::In(vec![0; 131_072]),
                _ => Data::Out(vec![1; 131_072]),
            };
            let command = match data {
                Data::In(_) => Command::read(1, rng.below(1024), 32),
                _ => Command::write(1, rng.below(1024), 32),
            };
            if queue.raw().submit(command, data).is_err() {
                break;
            }
        }
        let _ = queue.raw().flush();
    }
    match rng.below(3) {
        0 => drop((host, queues)),
        1 => drop((queues, host)),
        _ => {
            drop(queues);
            host.shutdown().unwrap();
        }
    }
}

#[test]
fn soak_hosts_come_and_go_and_leave_nothing_behind() {
    let setting = |name: &str, default| {
        std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok()).unwrap_or(default)
    };
    let seconds = setting("TRANCHE_SOAK_SECONDS", 4);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = setting("TRANCHE_SOAK_SEED", now.as_nanos() as u64 | 1);
    println!("TRANCHE_SOAK_SECONDS={seconds} TRANCHE_SOAK_SEED={seed}");
    let served = Drive::start();
    // All memory for contents that the visits can ever touch is touched first.
    let mut watcher = served.host("watcher");
    let namespace = watcher.namespace(1).unwrap();
    let mut queue = watcher.io_queue(32).unwrap();
    for round in 0..3u64 << 10 {
        queue.write(&namespace, round % 1024 * 256, &vec![3; 1 << 20], false).unwrap();
    }
    drop(queue);
    let descriptors = served.descriptors() - 1;
    let visits = AtomicU64::new(0);
    let go = |seconds: f64, seed: u64| {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (served, visits) = (&served, &visits);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed.wrapping_add(thread));
                    while Instant::now() < end {
                        visit(served, &mut rng);
                        visits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    };
    // What is left is known after a while: the other end of a socket may still be closing.
    let nothing_left = |watcher: &mut Host<SocketTransport>| {
        wait_for("the end of all descriptors and controllers", || {
            served.descriptors() <= descriptors + 1 && watcher.controllers().unwrap().len() == 1
        });
    };
    go(seconds as f64 / 2.0, seed);
    nothing_left(&mut watcher);
    let before = served.memory();
    go(seconds as f64 / 2.0, seed ^ 0xFFFF);
    nothing_left(&mut watcher);
    let grown = served.memory().saturating_sub(before);
    println!("{} visits, {} KiB more after the second half", visits.load(Ordering::Relaxed), grown / 1024);
    assert!(grown < 8 << 20, "{grown} bytes more after the second half");
}

/// Submits reads until the queue is full.
fn ask(queue: &mut IoQueue<SocketQueue>, page: u64) {
    let queue = queue.raw();
    while queue.outstanding() < queue.capacity() {
        queue.submit(Command::read(1, page, 32), Data::In(vec![0; 131_072])).unwrap();
    }
    queue.flush().unwrap();
}

#[test]
fn a_host_that_does_not_read_holds_up_nobody_and_gets_what_it_asked_for() {
    let served = Drive::start();
    let (mut slow, mut busy) = (served.host("slow"), served.host("busy"));
    let namespace = slow.namespace(1).unwrap();
    let mut stalled = slow.io_queue(255).unwrap();
    let mut queue = busy.io_queue(32).unwrap();
    queue.write(&namespace, 0, &[1; 131_072], false).unwrap();
    ask(&mut stalled, 0);
    // Everything is written over many times while the answers wait, and read back right.
    for round in 2..=200u8 {
        queue.write(&namespace, 0, &[round; 131_072], false).unwrap();
        let mut data = vec![0; 131_072];
        queue.read(&namespace, 0, &mut data).unwrap();
        assert!(data.iter().all(|&byte| byte == round));
    }
    let mut done = 0;
    while stalled.raw().outstanding() > 0 {
        let ended = stalled.raw().next(Some(ANSWER_TIMEOUT)).unwrap().expect("an answer");
        assert!(ended.completion.status().is_success());
        // Each page is what it was at one time: a write is never seen in part.
        for page in ended.data.into_buffer().chunks(4096) {
            assert!((1..=200).contains(&page[0]) && page.iter().all(|&byte| byte == page[0]));
        }
        done += 1;
    }
    assert_eq!(done, stalled.raw().capacity());
}
