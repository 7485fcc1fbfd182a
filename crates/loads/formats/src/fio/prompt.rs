//! A job in virtual time.

use super::{Job, verify::random};
use workload::{Actor, Nanos, Next};

/// A job whose requests are handed over at the moment when it decides on them, and whose completions are seen at once: there is no
/// system in between. It keeps count of what goes and comes together.
#[derive(Clone, Debug)]
pub struct Prompt {
    job: Job,
    issued: bool,
    completed: usize,
    stamp: u64,
    found: u64,
}

impl Prompt {
    /// This job.
    #[must_use]
    pub fn new(job: Job) -> Self {
        let stamp = job.plan().seed;
        Self { job, issued: false, completed: 0, stamp, found: 0 }
    }

    /// Depends on all data that was read, in its order; 0 where no contents are kept.
    #[must_use]
    pub fn found(&self) -> u64 {
        self.found
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The job, to be changed.
    pub fn job_mut(&mut self) -> &mut Job {
        &mut self.job
    }
}

impl Actor for Prompt {
    #[inline]
    fn next(&mut self, now: Nanos) -> Next {
        if self.completed > 0 {
            self.job.reaped(std::mem::take(&mut self.completed));
        }
        let next = self.job.next(now);
        match next {
            Next::Submit(_) => self.issued = true,
            Next::At(_) | Next::Wait | Next::Done if self.issued => {
                self.issued = false;
                self.job.submitted(now);
            }
            Next::At(_) | Next::Wait | Next::Done => {}
        }
        next
    }

    #[inline]
    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        self.completed += 1;
        self.job.completed(now, tag, ok);
    }

    #[inline]
    fn coming(&self) -> Option<(u16, u64)> {
        self.job.coming()
    }

    fn unit(&self) -> u64 {
        self.job.unit()
    }

    fn fill(&mut self, tag: u32, at: u64, data: &mut [u8]) {
        if !self.job.fill(tag, at, data) {
            if self.job.plan().options.zero_buffers {
                data.fill(0);
            } else {
                random(self.stamp, data);
                self.stamp = self.stamp.wrapping_add(0x9E37_79B9_7F4A_7C15);
            }
        }
    }

    fn check(&mut self, tag: u32, at: u64, data: &[u8]) {
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, data);
        self.found = self.found.rotate_left(23).wrapping_mul(0x0000_0100_0000_01B3) ^ sum;
        self.job.check(tag, at, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::{JobFile, Space};

    #[test]
    fn what_goes_and_comes_together_is_counted() {
        let jobs = JobFile::parse("[a]\nrw=write\nsize=64k\niodepth=8\n", &|_| None).unwrap().jobs().unwrap();
        let space = Space::new(1024, 4096);
        let mut job = Prompt::new(Job::of(&jobs.jobs[0], space, 0, 0, 0).unwrap());
        let mut outstanding = Vec::new();
        for now in [1, 1000] {
            while let Next::Submit(request) = job.next(now) {
                outstanding.push(request.tag);
            }
            for tag in outstanding.drain(..) {
                job.completed(now + 500, tag, true);
            }
        }
        assert_eq!(job.next(2000), Next::Done);
        let stats = job.job().stats();
        assert!(job.job().is_done());
        assert_eq!((stats.issued[1], stats.traffic[1].ios), (16, 16));
        // Twice eight.
        assert_eq!((stats.submit[2], stats.complete[2]), (2, 2));
        assert_eq!((stats.traffic[1].submission.max, stats.traffic[1].completion.series.max), (0, 500));
    }
}
