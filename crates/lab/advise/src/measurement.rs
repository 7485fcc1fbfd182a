//! Time passes: warm-up, and the window that is measured.
//!
//! A load that depends on how long ago the last checkpoint began is measured over whole checkpoints, from the begin of one to the begin of another.

use anyhow::{Result, ensure};
use sim::Nanos;

use super::{
    database_model::{Done, Model},
    load::Load,
};
use lab_report::control::Cancel;

const SECOND: u64 = 1_000_000_000;
/// A simulation of whole checkpoints looks in such steps whether another has begun.
const STEP_NANOS: u64 = SECOND / 10;
/// It waits for the begin of a checkpoint for so many times the measured time at most.
const MAX_WAIT_FACTOR: u64 = 6;

/// A model with what it runs on.
pub trait Stage {
    /// Lets time pass until then.
    fn run(&mut self, until: Nanos);

    /// The model, to be looked at.
    fn model(&self) -> &dyn Model;

    /// The model, to be changed.
    fn model_mut(&mut self) -> &mut dyn Model;
}

/// A simulation on its way.
pub struct Measurement<'a> {
    begin: Nanos,
    /// Nanoseconds since then.
    passed: u64,
    /// It waits for a checkpoint for so many of them at most.
    longest: u64,
    stage: &'a mut dyn Stage,
    cancel: &'a Cancel,
}

/// What happened in the measured time.
pub struct Window {
    /// At its begin and at its end.
    pub first: Done,
    pub last: Done,
    pub seconds: f64,
    /// How far throughput still moved, in percent.
    pub drift: f64,
    /// Whole checkpoints.
    pub cycles: Option<u64>,
}

impl<'a> Measurement<'a> {
    /// It begins at this time, which is now.
    pub fn new(stage: &'a mut dyn Stage, begin: Nanos, load: &Load, cancel: &'a Cancel) -> Self {
        let longest = load.seconds * MAX_WAIT_FACTOR * SECOND;
        Self { begin, passed: 0, longest, stage, cancel }
    }

    /// Lets so many seconds of warm-up pass; what the model has done by then.
    ///
    /// # Errors
    /// A command failed, or an interruption.
    pub fn pass(&mut self, seconds: u64) -> Result<Done> {
        self.step(seconds * SECOND)
    }

    /// Warms up. Where checkpoints matter, one begins then.
    ///
    /// # Errors
    /// A command failed, or an interruption.
    pub fn warm(&mut self, seconds: u64) -> Result<Done> {
        let done = self.step(seconds * SECOND)?;
        let done = if done.cycles.is_some() { self.next_cycle()? } else { done };
        self.stage.model_mut().forget_latencies();
        Ok(done)
    }

    /// Measures.
    ///
    /// # Errors
    /// A command failed, or an interruption.
    pub fn window(&mut self, seconds: u64, first: Done) -> Result<Window> {
        match first.cycles {
            None => self.halves(seconds, first),
            Some(_) => self.cycles(seconds, first),
        }
    }

    /// Lets so much time pass; what the model has done by then.
    fn step(&mut self, time: u64) -> Result<Done> {
        let end = self.passed + time;
        while self.passed < end {
            self.passed = (self.passed + SECOND).min(end);
            self.stage.run(self.begin + Nanos(self.passed));
            self.cancel.check()?;
        }
        let done = self.stage.model().done();
        ensure!(done.failed == 0, "{} commands failed", done.failed);
        Ok(done)
    }

    /// Goes on until another checkpoint begins, or for too long.
    fn next_cycle(&mut self) -> Result<Done> {
        let (first, end) = (self.step(0)?, self.passed + self.longest);
        loop {
            let done = self.step(STEP_NANOS)?;
            if done.cycles != first.cycles || self.passed >= end {
                return Ok(done);
            }
        }
    }

    /// So many seconds.
    fn halves(&mut self, seconds: u64, before: Done) -> Result<Window> {
        let half = seconds / 2;
        let middle = self.step(half * SECOND)?;
        let last = self.step((seconds - half) * SECOND)?;
        let first = (middle.transactions - before.transactions) as f64;
        let second = (last.transactions - middle.transactions) as f64;
        let rates = (first / (half.max(1) as f64), second / (seconds - half).max(1) as f64);
        let drift = if half == 0 { 0.0 } else { (rates.1 / rates.0.max(1e-9) - 1.0) * 100.0 };
        Ok(Window { first: before, last, seconds: seconds as f64, drift, cycles: None })
    }

    /// As many whole checkpoints as take so many seconds or more. The drift is that of the later half of them from the other. Where one takes too long, there
    /// are none.
    fn cycles(&mut self, seconds: u64, before: Done) -> Result<Window> {
        let mut marks = vec![(self.passed, before)];
        let rate = |marks: &[(u64, Done)], from: usize, to: usize| {
            let (from, to) = (marks[from], marks[to]);
            (to.1.transactions - from.1.transactions) as f64 / ((to.0 - from.0).max(1) as f64)
        };
        loop {
            let last = self.next_cycle()?;
            let is_whole = last.cycles != marks[marks.len() - 1].1.cycles;
            marks.push((self.passed, last));
            let time = self.passed - marks[0].0;
            if is_whole && time < seconds * SECOND {
                continue;
            }
            let count = marks.len() - 1;
            let drift = match count {
                1 => 0.0,
                _ => {
                    let (early, late) = (rate(&marks, 0, count / 2), rate(&marks, count / 2, count));
                    (late / early.max(1e-18) - 1.0) * 100.0
                }
            };
            let cycles = Some(if is_whole { count as u64 } else { 0 });
            return Ok(Window { first: before, last, seconds: time as f64 / 1e9, drift, cycles });
        }
    }
}
