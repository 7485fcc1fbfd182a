//! What is looked at while a load runs: how far it is, what fails, whether it was cancelled.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use anyhow::{Result, bail};
use nvme::Status;
use sim::{Actors, Nanos, Sim, Step};
use workload::{Actor, Request, Verb};

use super::{
    onlooker::Stage,
    series::Series,
    settling::{Moving, Settling},
};
use crate::bench::progress::Goal;
use lab_report::{control::Cancel, sheet::NamedCell as Column};

/// Completions between two looks.
const COMPLETIONS_PER_CHECK: u64 = 4096;
/// So many completions at the same moment are no drive.
const MAX_SIMULTANEOUS_COMPLETIONS: u64 = 1 << 22;

/// Watches a run.
pub(crate) struct Watch<'a> {
    /// The share of the run that is done, in millionths.
    share: &'a AtomicU32,
    /// What was done of the run before, in millionths.
    before: u32,
    phase: f64,
    phases: f64,
    goals: Vec<(Goal, u64)>,
    bytes: Vec<u64>,
    failures: Vec<Option<(Request, Status)>>,
    start: Nanos,
    completions: u64,
    /// The moment of the last look.
    last: Nanos,
    still: u64,
    interrupted: bool,
    cancel: &'a Cancel,
    series: Option<Series>,
    settling: Option<Settling>,
    stage: Option<Stage<'a>>,
}

/// All of it.
pub(super) const WHOLE_LOAD_PPM: u32 = 1_000_000;

impl<'a> Watch<'a> {
    /// `share` is told how far it is; `before` millionths of the run were done before. `cancel` ends it.
    pub fn new(share: &'a AtomicU32, before: u32, cancel: &'a Cancel) -> Self {
        Self {
            share,
            before,
            phase: 0.0,
            phases: 1.0,
            goals: Vec::new(),
            bytes: Vec::new(),
            failures: Vec::new(),
            start: Nanos::ZERO,
            completions: 0,
            last: Nanos::ZERO,
            still: 0,
            interrupted: false,
            cancel,
            series: None,
            settling: None,
            stage: None,
        }
    }

    /// It also collects what happens in each interval.
    pub(super) fn with_series(self, series: Option<Series>) -> Self {
        Self { series, ..self }
    }

    /// It also sees whether write amplification still moves at the end.
    pub(super) fn with_settling(self, settling: Settling) -> Self {
        Self { settling: Some(settling), ..self }
    }

    /// What still moves at the end.
    pub(super) fn end_settling(&mut self, sim: &Sim) -> Option<Moving> {
        self.settling.take()?.end(sim)
    }

    /// Somebody looks on.
    pub(super) fn with_stage(self, stage: Option<Stage<'a>>) -> Self {
        Self { stage, ..self }
    }

    /// The load is over: who looks on sees its end.
    ///
    /// # Errors
    /// The drive cannot be shown.
    pub(super) fn end_stage(&mut self, sim: &Sim) -> Result<()> {
        self.stage.take().map_or(Ok(()), |stage| stage.end(sim, self.interrupted))
    }

    /// What happened in each interval, if that was collected.
    ///
    /// # Errors
    /// There were too many intervals.
    pub(super) fn end_series(&mut self, sim: &Sim) -> Result<Vec<Vec<Column>>> {
        self.series.take().map_or(Ok(Vec::new()), |series| series.end(sim))
    }

    /// Runs actors until they have ended, it is enough, or the machine's time is `until`. `bytes` says what a logical block of a request has, and
    /// is told each that ended. Whether they have ended.
    ///
    /// # Errors
    /// There were too many intervals, or who looks on cannot see the drive.
    pub(super) fn run<A: Actor>(
        &mut self,
        actors: &mut Actors<A>,
        sim: &Sim,
        until: Nanos,
        mut bytes: impl FnMut(&Step<'_>) -> u64,
    ) -> Result<bool> {
        let mut enough = false;
        loop {
            let mut series = self.series.take();
            let part = series.as_ref().map_or(until, |series| until.min(series.next()));
            let part = self.stage.as_ref().map_or(part, |stage| part.min(stage.next()));
            let part = self.settling.as_ref().map_or(part, |settling| part.min(settling.next()));
            let begin = self.stage.is_some().then(Instant::now);
            let ended = actors.run_part(part, |step| {
                let block = bytes(step);
                if let Some(series) = &mut series {
                    series.step(step, u64::from(step.request.blocks) * block);
                }
                enough |= self.step(step);
                enough
            });
            if let Some(series) = &mut series {
                series.look(sim)?;
            }
            self.series = series;
            if let Some(settling) = &mut self.settling {
                settling.look(sim);
            }
            if let Some(begin) = begin {
                let (took, done) = (begin.elapsed(), self.tell_share(sim.now()));
                if let Some(stage) = &mut self.stage {
                    stage.look(sim, took, done, self.cancel)?;
                }
                if !ended && self.cancel.is_cancelled() {
                    (self.interrupted, enough) = (true, true);
                }
            }
            if ended || sim.now() >= until {
                return Ok(ended);
            }
        }
    }

    /// Phase number `phase` of so many begins.
    pub fn phase(&mut self, phase: u32, of: u32) {
        (self.phase, self.phases) = (phase.into(), of.into());
        if let Some(settling) = &mut self.settling {
            settling.forget();
        }
    }

    /// Actors with these goals, and bytes of a logical block, begin now.
    pub fn goals(&mut self, goals: Vec<(Goal, u64)>, now: Nanos) {
        self.bytes = vec![0; goals.len()];
        self.failures = vec![None; goals.len()];
        self.goals = goals;
        self.start = now;
    }

    /// A request has ended; true if that is enough.
    #[inline]
    pub fn step(&mut self, step: &Step<'_>) -> bool {
        if !step.status.is_success() {
            self.failures[step.actor].get_or_insert((*step.request, step.status));
        } else if step.request.verb != Verb::Flush {
            self.bytes[step.actor] += u64::from(step.request.blocks) * self.goals[step.actor].1;
        }
        self.completions += 1;
        self.completions.is_multiple_of(COMPLETIONS_PER_CHECK) && self.look(step.now)
    }

    fn look(&mut self, now: Nanos) -> bool {
        self.still = if now == self.last { self.still + COMPLETIONS_PER_CHECK } else { 0 };
        self.last = now;
        self.interrupted |= self.cancel.is_cancelled();
        self.tell_share(now);
        self.interrupted || self.stands_still()
    }

    /// Tells how far the run is, and returns the share of the load that is done, 0 to 1.
    fn tell_share(&self, now: Nanos) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let seconds = now.since(self.start).0 as f64 / 1e9;
        let shares = self.goals.iter().zip(&self.bytes).map(|((goal, _), bytes)| goal.share(seconds, *bytes));
        let share = (self.phase + shares.fold(1.0, f64::min)) / self.phases;
        let left = f64::from(WHOLE_LOAD_PPM.saturating_sub(self.before));
        self.share.store(self.before + (share * left) as u32, Ordering::Relaxed);
        share
    }

    /// Whether time does not pass.
    pub fn stands_still(&self) -> bool {
        self.still >= MAX_SIMULTANEOUS_COMPLETIONS
    }

    /// That time passed during the run, which otherwise was ended.
    ///
    /// # Errors
    /// It did not.
    pub fn check_time(&self) -> Result<()> {
        if self.stands_still() {
            bail!(
                "the drive's time stands still: nothing in its TOML takes time (see timing of a set and the table link), and \
                 without time nothing ends"
            );
        }
        Ok(())
    }

    /// Whether the run was cancelled.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// What cancels the run.
    pub(super) fn cancel(&self) -> &'a Cancel {
        self.cancel
    }

    /// The first request of an actor that failed.
    pub fn failure(&self, actor: usize) -> Option<(Request, Status)> {
        self.failures.get(actor).copied().flatten()
    }
}
