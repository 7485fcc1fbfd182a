//! The Aerospike Certification Tool's loads: `act_storage` and `act_index`.
//!
//! [`Config`] is a configuration file, and [`Rates`] what follows from it. [`Act`] is the actor: all threads of the tool over
//! all of its devices, with its histograms and its text. Keys, defaults, derived rates, sizes, pacing and the stop on lag are those of
//! version 6.6 (github.com/aerospike/act, `src/storage`, `src/index`, `src/common`). Its
//! `analysis/act_latency.py` reads what [`Act::take_text`] gives. What differs:
//!
//! - The random numbers are our own, from a seed.
//! - `service-threads` is 40 by default: 5 for each processor, as in the tool, of a host with [`PROCESSORS`] of them.
//! - A large-block rate of zero (`defrag-lwm-pct: 0` with `commit-to-device: yes`) means no such thread; the tool divides by it.
//! - Small writes start at a multiple of the smallest transfer; version 6.6 multiplies by a number that it never sets.
//! - `num-queues`, `threads-per-queue` and `max-reqs-queued` make it version 5.1, in which the service threads only generate requests, one
//!   after the other into queues, and other threads do them: over 1,000 threads then do not march in step.
//! - `scheduler-mode` (until version 6.4) names a scheduler of the tool's kernel: it is checked and means nothing here.
//! - The host takes no time, unless [`Act::on_host`] says how much ([`HostTime`]).
//!
//! What only concerns contents (`compress-pct`) changes nothing, since an actor writes no contents of its own.

mod actor;
mod config;
mod histogram;
mod host;
mod placement;
mod rates;
mod report;
mod tally;

pub use actor::Act;
pub use config::{ActProgram, Config, DEVICES_MAX, FILE_MAX, PROCESSORS, THREADS_MAX};
pub use histogram::Histogram;
pub use host::HostTime;
pub use placement::Space;
pub use rates::Rates;
pub use report::{LIMITS, Stop, Window};

/// What a `fuzz` target calls: any text as a configuration of both programs; what it asks for runs for a while.
pub fn fuzz(text: &str) {
    use workload::{Actor, Next};
    let spaces = [(1 << 18, 512), (1 << 15, 4096)].map(|(blocks, block_bytes)| Space {
        blocks,
        block_bytes,
        volatile_cache: true,
    });
    for kind in [ActProgram::Storage, ActProgram::Index] {
        let Ok(config) = Config::parse(kind, text) else { continue };
        let spaces: Vec<Space> = spaces.into_iter().cycle().take(config.device_names.len()).collect();
        let Ok(act) = Act::new(config, &spaces, 1, 1) else { continue };
        let mut act = act.with_text();
        let mut outstanding = std::collections::VecDeque::new();
        let mut now = 0;
        for turn in 0..300 {
            match act.next(now) {
                Next::Submit(request) => {
                    let space = &spaces[usize::from(request.namespace)];
                    let end = request.lba + u64::from(request.blocks);
                    assert!(end <= space.blocks, "beyond the end of the namespace");
                    outstanding.push_back(request.tag);
                    continue;
                }
                Next::At(at) => now = at.min(now + 1_000_000_000),
                Next::Wait => assert!(!outstanding.is_empty(), "it waits for nothing"),
                Next::Done => break,
            }
            if let Some(tag) = outstanding.pop_front() {
                act.completed(now, tag, turn % 5 != 0);
            }
            act.take_text();
        }
    }
}
