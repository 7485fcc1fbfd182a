//! Jobs on a drive that answers after a fixed time, on a virtual clock.

#![allow(dead_code, reason = "not every test needs all of it")]

pub mod zoned;

use load_formats::fio::{Job, JobFile, Space};
use std::collections::VecDeque;
use workload::{Actor, Nanos, Next, Request, Verb};

/// Namespace of 64 MiB with blocks of 512 bytes.
pub const SPACE: Space = Space::new(1 << 17, 512);
pub const MIB: u64 = 1 << 20;

/// A job of one section with these lines.
pub fn job(lines: &str) -> Job {
    let file = JobFile::parse(&format!("[x]\n{lines}\n"), &|_| None).unwrap();
    let jobs = file.jobs().unwrap();
    Job::of(&jobs.jobs[0], SPACE, 0, 0, 0).unwrap()
}

/// What a job issued, and when.
pub struct Run {
    pub issued: Vec<(Nanos, Request)>,
    pub job: Job,
    /// When it ended.
    pub end: Nanos,
    /// Most requests outstanding at once.
    pub deepest: usize,
}

/// Runs a job to its end; each request takes `latency` nanoseconds.
pub fn run(mut job: Job, latency: Nanos) -> Run {
    let mut outstanding: VecDeque<(Nanos, u32)> = VecDeque::new();
    let (mut now, mut issued, mut deepest) = (1, Vec::new(), 0);
    loop {
        let wake = match job.next(now) {
            Next::Submit(request) => {
                issued.push((now, request));
                outstanding.push_back((now + latency, request.tag));
                deepest = deepest.max(outstanding.len());
                continue;
            }
            Next::Done => return Run { issued, job, end: now, deepest },
            Next::At(at) => at,
            Next::Wait => Nanos::MAX,
        };
        match outstanding.front() {
            Some((done, tag)) if *done <= wake => {
                (now, _) = (now.max(*done), outstanding.front());
                let tag = *tag;
                outstanding.pop_front();
                job.completed(now, tag, true);
            }
            _ => {
                assert!(wake < Nanos::MAX, "it waits for nothing");
                now = wake;
            }
        }
    }
}

impl Run {
    pub fn of(lines: &str) -> Self {
        run(job(lines), 1000)
    }

    pub fn bytes(&self, verb: Verb) -> u64 {
        self.only(verb).map(|request| u64::from(request.blocks) * 512).sum()
    }

    pub fn only(&self, verb: Verb) -> impl Iterator<Item = &Request> {
        self.issued.iter().map(|(_, request)| request).filter(move |request| request.verb == verb)
    }
}
