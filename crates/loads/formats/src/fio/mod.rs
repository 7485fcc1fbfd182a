//! fio's job files, and jobs that do what they say.
//!
//! - [`JobFile`] is the text, and [`Jobs`] what it asks for.
//! - [`Plan`] is a job on a namespace of a certain size, and [`Stream`] its I/Os without regard to time.
//! - [`Job`] is the actor that issues and counts them.
//!
//! Defaults and meanings are those of fio's manual (HOWTO of fio 3.33). `docs/bench.md` says what differs.
//!
//! ```
//! use load_formats::fio::{Job, JobFile, Space};
//! use workload::{Actor, Next};
//!
//! let file = JobFile::parse("[a]\nrw=randwrite\nsize=1m\n", &|_| None)?;
//! let jobs = file.jobs()?;
//! let mut job = Job::of(&jobs.jobs[0], Space::new(1024, 4096), 0, 0, 0)?;
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
mod zone_options;
mod zone_share;
mod zones;

pub use file::{FILE_MAX, FileError, JobFile, Section, Setting};
pub use job::Job;
pub use jobs::{JOBS_MAX, JobSpec, Jobs, NamedOption};
pub use options::{Direction, Distribution, Options, Pattern, Sizes, Verify};
pub use plan::{Plan, Space, ZoneGeometry};
pub use prompt::Prompt;
pub use stats::{CLASSES, Latency, Response, Series, Stats, Traffic};
pub use stream::{Draw, Stream};
pub use value::Amount;
pub use verify::Mismatch;
pub use zone_options::ZoneOptions;
pub use zone_share::{begin_zones, check_zones};
pub use zones::{Zone, ZoneAccess};

/// What a `fuzz` target calls: any text as a job file; what it asks for runs for a while, on a namespace without zones and on one with.
pub fn fuzz(text: &str) {
    let Ok(file) = JobFile::parse(text, &|name| Some(name.to_owned())) else { return };
    let Ok(jobs) = file.jobs() else { return };
    let zones = ZoneGeometry {
        zone_blocks: 1 << 10,
        max_open: Some(6),
        max_active: Some(8),
        write_blocks: 256,
        append_blocks: 128,
    };
    for space in [Space::new(1 << 16, 512), Space { zones: Some(zones), ..Space::new(1 << 16, 512) }] {
        for (thread, spec) in (0..).zip(jobs.jobs.iter().take(4)) {
            if let Ok(job) = Job::of(spec, space, 0, thread, 1) {
                fuzz_job(job, space);
            }
        }
    }
}

fn fuzz_job(mut job: Job, space: Space) {
    use workload::{Actor, Next};
    if let Some(geometry) = space.zones {
        let zone =
            |start: u64| Zone { start, capacity: 1000, written: 0, active: false, access: ZoneAccess::All };
        let all = (0..space.blocks).step_by(geometry.zone_blocks as usize);
        begin_zones(&mut [&mut job], &all.map(zone).collect::<Vec<_>>());
    }
    let mut outstanding = std::collections::VecDeque::new();
    let mut now = 0;
    for _ in 0..300 {
        match job.next(now) {
            Next::Submit(request) => {
                let end = request.lba + u64::from(request.blocks);
                assert!(end <= space.blocks, "beyond the end of the namespace");
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
