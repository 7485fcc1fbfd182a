//! Random loads while quotas and weights come and go: every command completes exactly once, and within a direction of a namespace none
//! overtakes another.

use crate::common::load::{quota, set, statistics};
use crate::common::{Bench, TIMED_SMALL, bytes};
use device::{ControllerId, Origin};
use media::{Nanos, Rng};
use nvme::admin::*;
use nvme::log::LogId;
use nvme::property::PropertyOffset;
use nvme::quota::{Quota, QuotaKind};
use nvme::{Command, IoOpcode, NSID_ALL, Status, U16, U32};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// A command that was sent.
struct Sent {
    /// Namespace, and whether it writes.
    direction: (u32, bool),
    number: u64,
}

struct Model {
    b: Bench,
    rng: Rng,
    hosts: Vec<ControllerId>,
    sent: BTreeMap<u32, Sent>,
    number: u64,
    /// Whether nothing but quotas decides when a command ends: without timing, what starts ends.
    ordered: bool,
    /// The latest of each direction that succeeded.
    latest: BTreeMap<(u32, bool), u64>,
    what: String,
}

impl Model {
    fn new(seed: u64, timed: bool) -> Model {
        let mut b = Bench::with_namespaces(if timed { TIMED_SMALL } else { &[] });
        b.create_attached(1, 256);
        let hosts = vec![b.controller, b.connect("other", Origin::InProcess)];
        let (rng, what) = (Rng::new(seed), format!("seed {seed}, timing {timed}"));
        Model {
            b,
            rng,
            hosts,
            sent: BTreeMap::new(),
            number: 0,
            ordered: !timed,
            latest: BTreeMap::new(),
            what,
        }
    }

    fn send(&mut self) {
        if self.sent.len() >= 100 {
            return;
        }
        let nsid = 1 + self.rng.below(3) as u32;
        let blocks = 1 + self.rng.below(8) as u32;
        let slba = self.rng.below(248);
        let write = self.rng.below(2) == 1;
        let (opcode, data) = match write {
            true => (IoOpcode::WRITE, vec![7; blocks as usize * 4096]),
            false => (IoOpcode::READ, Vec::new()),
        };
        let command = nvme::io::Blocks::new(nsid, slba, blocks).encode(opcode);
        let id = self.hosts[self.rng.below(self.hosts.len() as u64) as usize];
        let io = self.b.submit(id, 1, &command, &data);
        self.number += 1;
        let before = self.sent.insert(io, Sent { direction: (nsid, write), number: self.number });
        assert!(before.is_none(), "{}: a number was free and is not", self.what);
        self.reap();
    }

    /// Takes what has completed; that nothing completes twice the bench sees to.
    fn reap(&mut self) {
        let mut ended: Vec<(u64, (u32, bool), bool)> = Vec::new();
        let Model { b, sent, .. } = self;
        sent.retain(|io, s| match b.done.remove(io) {
            Some((completion, _)) => {
                b.memory.buffers.remove(io);
                ended.push((s.number, s.direction, completion.status().is_success()));
                false
            }
            None => true,
        });
        // Those that ended together may have ended in any order.
        ended.sort_unstable();
        for (number, direction, success) in ended {
            if success && self.ordered {
                let latest = self.latest.insert(direction, number).unwrap_or_default();
                assert!(latest < number, "{}: {number} after {latest} of direction {direction:?}", self.what);
            }
        }
    }

    fn pass(&mut self, time: u64) {
        let end = Nanos(self.b.now.0 + time);
        while let Some(at) = self.b.drive.next_event().filter(|at| *at <= end) {
            self.b.run_until(at.max(self.b.now));
            self.reap();
        }
        self.b.run_until(end);
        self.reap();
    }

    fn random_quota(&mut self) -> Quota {
        let mut limits = Vec::new();
        for (kind, most) in [
            (QuotaKind::ReadBandwidth, 1_000_000_000),
            (QuotaKind::WriteBandwidth, 1_000_000_000),
            (QuotaKind::ReadCommands, 100_000),
            (QuotaKind::WriteCommands, 100_000),
        ] {
            if self.rng.below(3) > 0 {
                // Slow ones as often as fast ones.
                let scale = self.rng.below(most / 20_000) + 1;
                limits.push((kind, (most / 100 / scale).max(if most > 100_000 { 40_960 } else { 10 })));
            }
        }
        let burst_us = U32::new([0, 1, 100, 50_000][self.rng.below(4) as usize]);
        Quota { weight: U16::new(self.rng.below(1001) as u16), burst_us, ..quota(&limits) }
    }

    fn admin(&mut self, command: impl Into<Command>, data: &[u8]) -> Status {
        let (completion, _) = self.b.admin(command, data);
        self.reap();
        completion.status()
    }

    /// One step.
    fn step(&mut self) {
        let nsid = 1 + self.rng.below(3) as u32;
        match self.rng.below(100) {
            0..62 => self.send(),
            62..78 => {
                let time = 1 << self.rng.below(25);
                self.pass(time);
            }
            78..91 => {
                let (quota, saved) = (self.random_quota(), self.rng.below(2) == 1);
                let status = self.admin(set(nsid, saved), &bytes(&quota));
                assert!(status.is_success(), "{}: {status}", self.what);
            }
            91..93 => {
                self.admin(set(nsid, false), &bytes(&Quota::unlimited()));
            }
            93..95 => {
                // The third one goes and comes back.
                let sel = NamespaceManagementSelect::DELETE;
                let delete = NamespaceManagement { nsid: 3, sel, csi: nvme::Csi::NVM };
                if self.admin(delete, &[]).is_success() {
                    self.pass(1000);
                    assert_eq!(self.b.create_attached(1, 256), 3, "{}", self.what);
                }
                self.reap();
            }
            95..97 => {
                let id = self.hosts[self.rng.below(2) as usize];
                self.b.set_property(id, PropertyOffset::CC, 0).unwrap();
                self.reap();
                self.b.enable(id);
                // The queue may have gone with the reset.
                let _ = self.b.drive.add_queue(id, 1, 128);
            }
            97..99 => {
                let _: [u8; 64] = self.b.ask(Command::get_log_page(LogId::ERROR, 0, 0, 0, 64));
                self.reap();
            }
            _ => {
                self.b.cut(true);
                // Whoever had sent something hears no more of it.
                self.reap();
                for io in std::mem::take(&mut self.sent).into_keys() {
                    self.b.memory.buffers.remove(&io);
                }
                self.b.power_on();
                self.hosts = vec![self.b.controller, self.b.connect("other", Origin::InProcess)];
                assert_eq!(self.b.drive.in_flight(), 0, "{}", self.what);
            }
        }
    }

    /// Plays it; the commands that were held.
    fn play(mut self, steps: u32) -> u64 {
        for _ in 0..steps {
            self.step();
        }
        self.pass(600 * SECOND);
        assert!(self.sent.is_empty(), "{}: {} commands never complete", self.what, self.sent.len());
        assert_eq!(self.b.drive.in_flight(), 0, "{}", self.what);
        let log = statistics(&mut self.b, NSID_ALL);
        log.throttled_read_commands.get() + log.throttled_write_commands.get()
    }
}

#[test]
fn every_command_completes_once_and_in_its_lanes_order() {
    let rounds = std::env::var("TRANCHE_MODEL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let mut held = 0;
    for seed in 1..=rounds {
        for timed in [false, true] {
            eprintln!("seed {seed}, timing {timed}");
            held += Model::new(seed, timed).play(400);
        }
    }
    assert!(held > 100, "{held} commands were held: too few to say anything");
}
