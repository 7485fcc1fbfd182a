//! fio's job files, and jobs that do what they say.
//!
//! - [`JobFile`] is the text, and [`Jobs`] what it asks for.
//! - [`Plan`] is a job on a namespace of a certain size, and [`Stream`] its I/Os without regard to time.
//! - [`Job`] is the actor that issues and counts them.
//!
//! Defaults and meanings are those of fio's manual (HOWTO of fio 3.33). `docs/bench.md` says what differs.
//!
//! ```
//! use workload::fio::{Job, JobFile, Space};
//! use workload::{Actor, Next};
//!
//! let file = JobFile::parse("[a]\nrw=randwrite\nsize=1m\n", &|_| None)?;
//! let jobs = file.jobs()?;
//! let mut job = Job::of(&jobs.jobs[0], Space { blocks: 1024, block_bytes: 4096 }, 0, 0, 0)?;
//! let mut count = 0;
//! while let Next::Submit(request) = job.next(0) {
//!     job.completed(1000, request.tag, true);
//!     count += 1;
//! }
//! assert_eq!(count, 256);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod file;
mod fixed;
mod job;
mod jobs;
mod names;
mod offsets;
mod options;
mod plan;
mod prompt;
mod stats;
mod stream;
mod value;
mod verify;

pub use file::{FILE_MAX, FileError, JobFile, Section, Setting};
pub use job::Job;
pub use jobs::{Given, JOBS_MAX, JobSpec, Jobs};
pub use options::{Direction, Distribution, Options, Pattern, Sizes, Verify};
pub use plan::{Plan, Space};
pub use prompt::Prompt;
pub use stats::{CLASSES, Latency, Response, Series, Stats, Traffic};
pub use stream::{Draw, Stream};
pub use value::Amount;
pub use verify::Mismatch;

/// What a `fuzz` target calls: any text as a job file; what it asks for runs for a while.
pub fn fuzz(text: &str) {
    use crate::{Actor, Next};
    let Ok(file) = JobFile::parse(text, &|name| Some(name.to_owned())) else { return };
    let Ok(jobs) = file.jobs() else { return };
    for (thread, spec) in (0..).zip(jobs.jobs.iter().take(4)) {
        let Ok(mut job) = Job::of(spec, Space { blocks: 1 << 16, block_bytes: 512 }, 0, thread, 1) else {
            continue;
        };
        let mut outstanding = std::collections::VecDeque::new();
        let mut now = 0;
        for _ in 0..300 {
            match job.next(now) {
                Next::Submit(request) => {
                    let end = request.lba + u64::from(request.blocks);
                    assert!(end <= 1 << 16, "beyond the end of the namespace");
                    outstanding.push_back(request.tag);
                }
                Next::At(at) => now = at,
                Next::Wait => {
                    let tag = outstanding.pop_front();
                    assert!(tag.is_some(), "it waits for nothing");
                    now += 1000;
                    job.completed(now, tag.unwrap_or(0), true);
                }
                Next::Done => break,
            }
        }
    }
}
