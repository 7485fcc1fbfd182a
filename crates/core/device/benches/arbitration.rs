//! What arbitration costs: 32 active namespaces on one NVM Set, 4 KiB uniform random at queue depth 16 each, one thread,
//! no contents, in virtual time; with fair sharing, with quotas, and with both, beside the same load with neither.
//!
//!     cargo bench -p device --bench arbitration [-- ROUNDS]
//!
//! Prints CPU nanoseconds per command. The drives take turns (A B C D A B C D ...); a difference is that of two drives in
//! the same round, given as median and quartiles.

mod common;

use common::cpu;
use device::{
    Attach, Config, ControllerId, Drive, InitialNamespace, Io, LbaFormat, Limits, Output, Submission,
};
use ftl::NoContents;
use media::{Nanos, Rng};
use nvme::Command;
use std::collections::VecDeque;

const NAMESPACES: u32 = 32;
const DEPTH: u32 = 16;
/// Of a turn: short ones, so that all drives see the same machine.
const COMMANDS: u64 = 100_000;

/// What holds commands back.
struct Variant {
    name: &'static str,
    fair_sharing: bool,
    /// Commands per second, and bytes of as many, of each namespace.
    limit: Option<u64>,
}

const NONE: Variant = Variant { name: "neither", fair_sharing: false, limit: None };
const FAIR_SHARING: Variant = Variant { name: "fair sharing", fair_sharing: true, limit: None };
/// More than the set gives: metered, never held for it.
const WIDE_LIMIT: u64 = 10_000_000;
/// Less than the set gives: nearly every command is held.
const NARROW_LIMIT: u64 = 5000;

fn config(timing: bool, variant: &Variant) -> Config {
    let more =
        format!("timing = {timing}\nfair_sharing = {}\nmax_namespaces = {NAMESPACES}", variant.fair_sharing);
    let mut config = common::config(48, "40%", &more);
    let blocks = u64::from(config.ftl.sets[0].capacity_pages()) / u64::from(NAMESPACES) / 256 * 256;
    let limits = Limits {
        read_bandwidth: variant.limit.map(|rate| rate * 4096),
        write_bandwidth: variant.limit.map(|rate| rate * 4096),
        read_commands: variant.limit,
        write_commands: variant.limit,
        ..Limits::default()
    };
    let ns = InitialNamespace {
        set: 1,
        bytes: blocks * 4096,
        format: LbaFormat::plain(4096),
        protection: 0,
        attach: Attach::All,
        limits,
        zones: None,
    };
    config.namespaces = vec![ns; NAMESPACES as usize];
    config
}

struct ClosedLoop {
    drive: Drive,
    controller: ControllerId,
    now: Nanos,
    /// Commands that may be submitted; of namespace 1 + number / DEPTH.
    free: VecDeque<u32>,
    out: Vec<Output>,
    rng: Rng,
    blocks: u64,
}

impl ClosedLoop {
    /// A drive that was written once.
    fn new(timing: bool, variant: &Variant) -> ClosedLoop {
        let config = config(timing, variant);
        let blocks = config.namespaces[0].bytes / 4096;
        let (drive, controller, out) = common::enabled(config);
        let free = (0..NAMESPACES * DEPTH).collect();
        let mut load =
            ClosedLoop { drive, controller, now: Nanos::ZERO, free, out, rng: Rng::new(1), blocks };
        let mut at = vec![0; NAMESPACES as usize];
        load.run(u64::from(NAMESPACES) * blocks / 16, |_, nsid| {
            let at = &mut at[nsid as usize - 1];
            *at += 16;
            Command::write(nsid, (*at - 16) % blocks, 16)
        });
        load
    }

    /// So many commands; each namespace sends its next one when one has ended.
    fn run(&mut self, count: u64, mut make: impl FnMut(&mut ClosedLoop, u32) -> Command) {
        let mut left = count;
        // A transport, too, has the command at hand that is next.
        let mut coming = None;
        while left > 0 {
            let next = self.free.pop_front().map(|io| (io, make(self, 1 + io / DEPTH)));
            if let Some((_, command)) = &next {
                self.drive.prefetch(command);
            }
            if let Some((io, command)) = std::mem::replace(&mut coming, next) {
                let (now, out) = (self.now, &mut self.out);
                let (controller, command, data) = (self.controller, &command, &[][..]);
                let submission = Submission { controller, qid: 1, io: Io(io), command, data };
                self.drive.submit(now, submission, &mut NoContents, out);
                left -= 1;
            } else if coming.is_none() {
                let at = self.drive.next_event().expect("commands are under way");
                self.now = self.now.max(at);
                self.drive.poll(self.now, &mut NoContents, &mut self.out);
            }
            for output in self.out.drain(..) {
                if let Output::Complete { io, completion, .. } = output {
                    assert!(completion.status().is_success(), "{}", completion.status());
                    self.free.push_back(io.0);
                }
            }
        }
        self.free.extend(coming.map(|(io, _): (u32, Command)| io));
    }

    /// CPU nanoseconds per command.
    fn measure(&mut self, write: bool) -> f64 {
        let begin = cpu();
        self.run(COMMANDS, |load, nsid| {
            let block = load.rng.below(load.blocks);
            if write { Command::write(nsid, block, 1) } else { Command::read(nsid, block, 1) }
        });
        (cpu() - begin) as f64 / COMMANDS as f64
    }
}

/// Quartiles.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|n| n.parse().ok()).unwrap_or(41usize).max(1);
    let quota = |name, fair_sharing, limit| Variant { name, fair_sharing, limit: Some(limit) };
    println!(
        "CPU ns per command                      reads   more than neither        writes   more than neither"
    );
    for timing in [true, false] {
        let mut variants = vec![NONE, FAIR_SHARING];
        if !timing {
            // Time passes only while all commands are held.
            variants.push(quota("quotas that hold", false, NARROW_LIMIT));
        } else {
            variants.push(quota("quotas that hold nothing", false, WIDE_LIMIT));
            variants.push(quota("quotas that hold", false, NARROW_LIMIT));
            variants.push(quota("sharing, quotas that hold nothing", true, WIDE_LIMIT));
            variants.push(quota("sharing, quotas that hold", true, NARROW_LIMIT));
        }
        let mut loads: Vec<ClosedLoop> = variants.iter().map(|v| ClosedLoop::new(timing, v)).collect();
        let mut figures = vec![[const { Vec::<f64>::new() }; 2]; variants.len()];
        for write in [false, true] {
            for round in 0..=rounds {
                for (load, figures) in loads.iter_mut().zip(&mut figures) {
                    let ns = load.measure(write);
                    // The first round only warms up.
                    if round > 0 {
                        figures[usize::from(write)].push(ns);
                    }
                }
            }
        }
        println!("timing {}", if timing { "on" } else { "off" });
        for (variant, own) in variants.iter().zip(&figures) {
            let columns = [0, 1].map(|way| {
                let differences = own[way].iter().zip(&figures[0][way]).map(|(a, b)| a - b);
                let [least, middle, most] = spread(differences.collect());
                let [_, all, _] = spread(own[way].clone());
                format!("{all:>7.0}   {:<22}", format!("{middle:+.0} ({least:+.0} to {most:+.0})"))
            });
            println!("  {:<34} {}{}", variant.name, columns[0], columns[1]);
        }
    }
}
