//! A host with two ways to a drive, under load: ports go down and change their states, and nothing is lost.

mod common;

use common::{Served, TRANCHE};
use host::{Data, Host, Identity, Queue, Session, SocketTransport, Tag, TransportError};
use nvme::Command;
use nvme::log::AnaState;
use nvme::status::Sct;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::wait_for;

const BLOCK: usize = 4096;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

struct Drive {
    served: Served,
    socket: PathBuf,
}

impl Drive {
    fn start(dir: &Path) -> Self {
        let socket = dir.join("s");
        let ports = ["serve", "--tcp", "127.0.0.1:0", "--tcp", "127.0.0.1:0,ana=non-optimized", "--unix"];
        let served = Served::run(Process::new(TRANCHE).args(ports).arg(&socket).stderr(Stdio::null()));
        Drive { served, socket }
    }

    fn fault(&self, args: &[&str]) {
        let on = format!("unix://{}", self.socket.display());
        let output = Process::new(TRANCHE).arg("fault").args(args).args(["--on", &on]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn identity() -> Identity {
    Identity { kato_ms: 10_000, ..Identity::new("nqn.2026-11.test:paths".parse().unwrap()) }
}

fn contents(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![block as u8 ^ version as u8; BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A host that uses one path, and takes the other when that one fails. It writes each block again and again, one version
/// after the other, and knows which was acknowledged last.
struct Writer {
    session: Session<SocketTransport>,
    /// Which path the next attempt to connect takes.
    path: Arc<AtomicUsize>,
    /// The version of each block that was acknowledged last.
    acknowledged: HashMap<u64, u64>,
    switches: usize,
}

impl Writer {
    fn new(ports: Vec<String>) -> Self {
        let path = Arc::new(AtomicUsize::new(0));
        let next = path.clone();
        let make = move || {
            let port = &ports[next.fetch_add(1, Ordering::Relaxed) % ports.len()];
            SocketTransport::new(port.parse().unwrap(), ANSWER_TIMEOUT)
        };
        let session = Session::connect(make, identity(), &[8], ANSWER_TIMEOUT).unwrap();
        Writer { session, path, acknowledged: HashMap::new(), switches: 0 }
    }

    fn write(&mut self, block: u64, version: u64) -> Result<Tag, TransportError> {
        let command = Command::write(1, block, 1);
        self.session.queues()[0].submit(command, Data::Out(contents(block, version)))
    }

    /// The path does not work: all that was in flight goes over the other.
    fn switch(&mut self, flying: &mut HashMap<Tag, (u64, u64)>) {
        let again: Vec<(u64, u64)> = flying.drain().map(|(_, write)| write).collect();
        self.switches += 1;
        let lost = self.session.recover().unwrap();
        for found in &lost {
            let block = u64::from(found.command.cdw10.get());
            assert!(again.iter().any(|(b, _)| *b == block), "block {block} was not in flight");
        }
        for (block, version) in again {
            let tag = self.write(block, version).unwrap();
            flying.insert(tag, (block, version));
        }
    }

    /// Writes `count` versions over 64 blocks, at most one of a block in flight.
    fn run(&mut self, count: u64, progress: &AtomicUsize) {
        let mut flying: HashMap<Tag, (u64, u64)> = HashMap::new();
        let mut next = 1;
        while next <= count || !flying.is_empty() {
            let block = next % 64;
            let busy = flying.values().any(|(b, _)| *b == block);
            if next <= count && flying.len() < 8 && !busy {
                match self.write(block, next) {
                    Ok(tag) => {
                        flying.insert(tag, (block, next));
                        next += 1;
                    }
                    Err(_) => self.switch(&mut flying),
                }
                continue;
            }
            let done = match self.session.queues()[0].next(Some(ANSWER_TIMEOUT)) {
                Ok(done) => done.expect("a completion in time"),
                Err(_) => {
                    self.switch(&mut flying);
                    continue;
                }
            };
            let (block, version) = flying.remove(&done.tag).expect("a command in flight");
            let status = done.completion.status();
            if status.sct() == Sct::PATH {
                // Path related: the same over the other path, with all the rest.
                flying.insert(Tag(u16::MAX), (block, version));
                self.switch(&mut flying);
                continue;
            }
            assert!(status.is_success(), "{status}");
            self.acknowledged.insert(block, version);
            progress.store(next as usize, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_host_with_two_paths_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let drive = Drive::start(temp.path());
    let progress = Arc::new(AtomicUsize::new(0));
    let mut writer = Writer::new(drive.served.tcp());
    let path = writer.path.clone();
    let seen = Arc::new(Mutex::new(None));
    let (result, shown) = (seen.clone(), progress.clone());
    // About as long as what happens meanwhile takes; each step waits for writes after the one before.
    let load = std::thread::spawn(move || {
        let stop = Instant::now() + ANSWER_TIMEOUT;
        let mut rounds = 0;
        while result.lock().unwrap().is_none() && Instant::now() < stop {
            writer.run(2000, &shown);
            rounds += 1;
        }
        (writer, rounds)
    });
    let moves = |by: usize| {
        let from = progress.load(Ordering::Relaxed);
        wait_for("progress of the load", || progress.load(Ordering::Relaxed).abs_diff(from) >= by);
    };
    moves(100);
    for _ in 0..3 {
        drive.fault(&["port-down", "1", "--for", "200ms"]);
        moves(100);
        drive.fault(&["port-ana", "1", "inaccessible"]);
        moves(100);
        drive.fault(&["port-down", "2", "--for", "200ms"]);
        drive.fault(&["port-ana", "1", "optimized"]);
        moves(100);
        drive.fault(&["port-ana", "2", "persistent-loss"]);
        moves(100);
        drive.fault(&["clear"]);
        moves(100);
    }
    *seen.lock().unwrap() = Some(());
    let (writer, rounds) = load.join().unwrap();
    println!("{rounds} rounds, {} switches, {} attempts", writer.switches, path.load(Ordering::Relaxed));
    assert!(writer.switches >= 3, "the paths were not lost: {}", writer.switches);
    let mut host = Host::connect(
        SocketTransport::new(drive.served.tcp()[1].parse().unwrap(), ANSWER_TIMEOUT),
        &Identity::new("nqn.2026-11.test:reader".parse().unwrap()),
    )
    .unwrap();
    let log = host.ana_log().unwrap();
    assert_eq!(log.groups.len(), 1);
    assert_eq!((log.groups[0].0.anas, &log.groups[0].1[..]), (AnaState::NON_OPTIMIZED, &[1][..]));
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    assert_eq!(writer.acknowledged.len(), 64);
    for (block, version) in writer.acknowledged {
        let mut bytes = vec![0; BLOCK];
        queue.read(&namespace, block, &mut bytes).unwrap();
        assert!(bytes == contents(block, version), "block {block} is not as acknowledged last");
    }
}
