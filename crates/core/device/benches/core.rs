//! The whole core: controller, arbitration, latency histograms, translation layer, media with their timelines;
//! 16 GiB of flash (64 dies x 256 blocks x 256 pages of 4 KiB), no contents, one thread, 4 KiB uniform random at
//! queue depth 64, in virtual time.
//!
//!     cargo bench -p device --bench core [-- SPARE%...]
//!
//! Prints host commands per second of CPU time.

mod common;

use common::cpu;
use device::{Config, ControllerId, Drive, Io, Output, Submission};
use ftl::NoContents;
use media::{Nanos, Rng};
use nvme::Command;

const DEPTH: u32 = 64;

fn config(spare: &str) -> Config {
    let mut config = common::config(256, spare, "timing = true\nmax_namespaces = 1");
    let bytes = u64::from(config.ftl.sets[0].capacity_pages()) * 4096;
    config.namespaces = vec![device::InitialNamespace {
        set: 1,
        bytes,
        format: device::LbaFormat::plain(4096),
        protection: 0,
        attach: device::Attach::All,
        limits: device::Limits::default(),
        zones: None,
    }];
    config
}

struct ClosedLoop {
    drive: Drive,
    controller: ControllerId,
    now: Nanos,
    free: Vec<u32>,
    out: Vec<Output>,
    rng: Rng,
    blocks: u64,
    /// The command after the one that is next: a transport, too, has it at hand.
    coming: Command,
}

impl ClosedLoop {
    fn new(spare: &str) -> ClosedLoop {
        let config = config(spare);
        let blocks = config.namespaces[0].bytes / 4096;
        let (drive, controller, out) = common::enabled(config);
        ClosedLoop {
            drive,
            controller,
            now: Nanos::ZERO,
            free: (0..DEPTH).collect(),
            out,
            rng: Rng::new(1),
            blocks,
            coming: Command::read(1, 0, 1),
        }
    }

    fn reap(&mut self) {
        for output in self.out.drain(..) {
            if let Output::Complete { io, completion, .. } = output {
                assert!(completion.status().is_success(), "{}", completion.status());
                self.free.push(io.0);
            }
        }
    }

    fn submit(&mut self, command: Command) {
        let command = &std::mem::replace(&mut self.coming, command);
        self.drive.prefetch(&self.coming);
        while self.free.is_empty() {
            let at = self.drive.next_event().expect("commands are under way");
            self.now = self.now.max(at);
            self.drive.poll(self.now, &mut NoContents, &mut self.out);
            self.reap();
        }
        let io = self.free.pop().expect("waited");
        let submission = Submission { controller: self.controller, qid: 1, io: Io(io), command, data: &[] };
        self.drive.submit(self.now, submission, &mut NoContents, &mut self.out);
        self.reap();
    }

    fn random(&mut self) -> u64 {
        self.rng.below(self.blocks)
    }
}

fn main() {
    let spares: Vec<String> = std::env::args().skip(1).filter(|a| a.ends_with('%')).collect();
    let spares = if spares.is_empty() { ["28%", "12.5%", "7%"].map(String::from).to_vec() } else { spares };
    println!("spare  writes/s   reads/s   (per CPU-second)");
    for spare in spares {
        let mut load = ClosedLoop::new(&spare);
        for block in 0..load.blocks {
            load.submit(Command::write(1, block, 1));
        }
        for _ in 0..2 * load.blocks {
            let block = load.random();
            load.submit(Command::write(1, block, 1));
        }
        let count = load.blocks;
        let begin = cpu();
        for _ in 0..count {
            let block = load.random();
            load.submit(Command::write(1, block, 1));
        }
        let writes = count as f64 * 1e3 / (cpu() - begin) as f64;
        let count = 4 * load.blocks;
        let begin = cpu();
        for _ in 0..count {
            let block = load.random();
            load.submit(Command::read(1, block, 1));
        }
        let reads = count as f64 * 1e3 / (cpu() - begin) as f64;
        println!("{spare:>5}  {writes:>6.3} M  {reads:>6.3} M");
    }
}
