//! Loads on the namespaces of a drive, side by side, and their quotas.

use super::{Bench, bytes};
use media::Nanos;
use nvme::admin::SetFeatures;
use nvme::feature::FeatureId;
use nvme::log::{LogId, NamespaceStatistics};
use nvme::quota::{Quota, QuotaKind};
use nvme::{Command, Status, U16};

pub fn quota(limits: &[(QuotaKind, u64)]) -> Quota {
    let mut quota = Quota::unlimited();
    for (kind, limit) in limits {
        quota.set_limit(*kind, Some(*limit));
    }
    quota
}

pub fn set(nsid: u32, sv: bool) -> SetFeatures {
    SetFeatures { nsid, fid: FeatureId::QUOTA, sv, uidx: 0, cdw11: 0, cdw12: 0, cdw13: 0, cdw15: 0 }
}

pub fn limit(b: &mut Bench, nsid: u32, limits: &[(QuotaKind, u64)]) {
    b.admin_ok(set(nsid, false), &bytes(&quota(limits)));
}

pub fn weigh(b: &mut Bench, nsid: u32, weight: u16) {
    b.admin_ok(set(nsid, false), &bytes(&Quota { weight: U16::new(weight), ..Quota::unlimited() }));
}

pub fn statistics(b: &mut Bench, nsid: u32) -> NamespaceStatistics {
    b.ask(Command::get_log_page(LogId::NAMESPACE_STATISTICS, nsid, 0, 0, 8192))
}

/// A load that keeps so many commands outstanding.
pub struct OutstandingLoad {
    pub depth: usize,
    make: Box<dyn FnMut() -> Command>,
    data: Vec<u8>,
    outstanding: Vec<u32>,
    pub done: u64,
}

impl OutstandingLoad {
    /// The same command again and again.
    pub fn new(depth: usize, command: Command, bytes: usize) -> OutstandingLoad {
        OutstandingLoad::of(depth, bytes, move || command)
    }

    pub fn of(depth: usize, bytes: usize, make: impl FnMut() -> Command + 'static) -> OutstandingLoad {
        OutstandingLoad {
            depth,
            make: Box::new(make),
            data: vec![0; bytes],
            outstanding: Vec::new(),
            done: 0,
        }
    }
}

/// Runs loads side by side for a time, in nanoseconds.
pub fn run(b: &mut Bench, span: u64, loads: &mut [OutstandingLoad]) {
    run_late(b, span, 0, loads);
}

/// The same by an owner who looks at the drive only `late` nanoseconds after something was due.
pub fn run_late(b: &mut Bench, span: u64, late: u64, loads: &mut [OutstandingLoad]) {
    let end = b.now.0 + span;
    loop {
        let mut progress = true;
        while progress {
            progress = false;
            for load in loads.iter_mut() {
                while load.outstanding.len() < load.depth {
                    let command = (load.make)();
                    let io = b.submit(b.controller, 1, &command, &load.data);
                    load.outstanding.push(io);
                }
                let before = load.outstanding.len();
                load.outstanding.retain(|io| match b.done.remove(io) {
                    Some((completion, _)) => {
                        assert_eq!(completion.status(), Status::SUCCESS);
                        b.memory.buffers.remove(io);
                        false
                    }
                    None => true,
                });
                load.done += (before - load.outstanding.len()) as u64;
                progress |= load.outstanding.len() < before;
            }
        }
        match b.drive.next_event() {
            Some(at) if at.0 < end => {
                b.now = Nanos((at.max(b.now).0 + late).min(end - 1));
                b.run_until(b.now);
            }
            _ => break,
        }
    }
    b.run_until(Nanos(end - 1));
}
