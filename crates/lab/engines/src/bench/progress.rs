//! The line that says how far jobs are, as fio's.

use std::{sync::atomic::Ordering, time::Duration};

use load_formats::fio::Plan;

use super::{text, worker::Shared};
use lab_report::control::{Control, Event, Parts, Work};

pub(super) struct Progress {
    work: Work,
    goals: Vec<Goal>,
    shown: Duration,
    ios: [u64; 3],
    bytes: [u64; 3],
}

/// When a job will have ended.
pub(crate) struct Goal {
    /// Seconds, if the job has a runtime.
    seconds: Option<f64>,
    /// Bytes, unless only time ends it.
    bytes: Option<f64>,
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
impl Goal {
    pub fn of(plan: &Plan) -> Self {
        let options = &plan.options;
        let lead = options.startdelay + options.ramp_time;
        let seconds = (options.runtime > 0).then(|| (lead + options.runtime) as f64 / 1e9);
        let ios = options.number_ios.saturating_mul(options.loops);
        let limit = ios.saturating_mul(options.smallest_block()).min(plan.total);
        Self { seconds, bytes: (!options.time_based).then_some(limit as f64) }
    }

    /// After so many seconds.
    pub fn of_seconds(seconds: f64) -> Self {
        Self { seconds: Some(seconds), bytes: None }
    }

    /// Nobody knows.
    pub fn unknown() -> Self {
        Self { seconds: None, bytes: None }
    }

    /// The share that is done, 0 to 1, after so many seconds and bytes.
    pub fn share(&self, seconds: f64, bytes: u64) -> f64 {
        let time = self.seconds.map_or(0.0, |all| seconds / all);
        let data = self.bytes.map_or(0.0, |all| bytes as f64 / all);
        time.max(data).min(1.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
impl Progress {
    pub fn new<'a>(control: &Control, plans: impl Iterator<Item = &'a Plan>) -> Self {
        let (work, goals) = (control.begin(Parts::Jobs), plans.map(Goal::of).collect());
        Self { work, goals, shown: Duration::ZERO, ios: [0; 3], bytes: [0; 3] }
    }

    pub fn show(&mut self, jobs: &[Shared], elapsed: Duration) {
        let passed = elapsed.saturating_sub(self.shown).as_secs_f64();
        if passed < 0.5 {
            return;
        }
        self.shown = elapsed;
        let (mut ios, mut bytes) = ([0; 3], [0; 3]);
        let mut done: f64 = 1.0;
        for (job, goal) in jobs.iter().zip(&self.goals) {
            let mut moved = 0;
            for direction in 0..3 {
                ios[direction] += job.ios[direction].load(Ordering::Relaxed);
                let count = job.bytes[direction].load(Ordering::Relaxed);
                bytes[direction] += count;
                moved += count;
            }
            if !job.done.load(Ordering::Acquire) {
                done = done.min(goal.share(elapsed.as_secs_f64(), moved));
            }
        }
        let running = jobs.iter().filter(|job| !job.done.load(Ordering::Acquire)).count();
        let verifying = jobs.iter().any(|job| job.verifying.load(Ordering::Relaxed));
        let mut parts = Vec::new();
        for (direction, name) in ["r", "w", "t"].iter().enumerate() {
            if bytes[direction] > self.bytes[direction] {
                let rate = (bytes[direction] - self.bytes[direction]) as f64 / passed;
                let iops = (ios[direction] - self.ios[direction]) as f64 / passed;
                let (rate, iops) = (text::scaled(rate, 1024.0), text::scaled(iops, 1000.0));
                parts.push(format!("{name}={rate}B/s, {name}={iops} IOPS"));
            }
        }
        (self.ios, self.bytes) = (ios, bytes);
        let eta = match done {
            done if done > 0.01 => clock(elapsed.as_secs_f64() * (1.0 - done) / done),
            _ => "?".to_owned(),
        };
        let what = if verifying { " verifying" } else { "" };
        let line = format!("Jobs: {running}{what} [{:.1}%][{}][eta {eta}]", done * 100.0, parts.join("]["));
        self.work.tell(Event::Status(self.work.id(), &line));
    }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e9) as u64;
    format!("{:02}m:{:02}s", seconds / 60, seconds % 60)
}
