//! A job at work: the actor.

use super::fixed;
use super::options::Direction;
use super::plan::{Plan, Space};
use super::stats::Stats;
use super::stream::{Draw, Stream};
use super::verify::{Mismatch, Verifier};
use super::zones::{Step, Target, Task, Zones};
use workload::{Actor, Nanos, Next, Request, Rng, Verb};

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It issues I/Os.
    Running,
    /// It waits for what is outstanding, then goes on to what comes after.
    Draining,
    /// The flush at its end.
    Flushing,
    /// It reads what it wrote.
    Verifying,
    /// It has nothing more to issue.
    Done,
}

/// The I/Os that are still to be done.
#[derive(Clone, Debug)]
struct Source {
    stream: Stream,
    bytes: u64,
    ios: u64,
}

/// An outstanding request.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    draw: Option<Draw>,
    issued: Nanos,
    submitted: Nanos,
    /// When its rate wanted it, if it has one.
    due: Option<Nanos>,
    checked: bool,
    /// What it is to the zones.
    task: Option<Task>,
}

impl Slot {
    #[inline]
    fn new(draw: Option<Draw>, task: Option<Task>, now: Nanos) -> Self {
        Self { draw, issued: now, submitted: now, due: None, checked: false, task }
    }
}

/// One clone of a job: issues what its options say and counts what becomes of it.
///
/// Besides being an [`Actor`], it makes the contents of its writes ([`Job::fill`]) and looks at those of its
/// reads ([`Job::check`]) where the job verifies; and it may be told when its requests were handed to the
/// system ([`Job::submitted`]), which divides latencies as fio does.
#[derive(Clone, Debug)]
pub struct Job {
    plan: Plan,
    source: Source,
    /// Draws so far: what there is to verify.
    drawn: u64,
    phase: Phase,
    /// First call, start after the delay, and from when on is measured.
    called: Option<Nanos>,
    started: Nanos,
    measured: Option<Nanos>,
    /// Until when the job thinks; I/Os since it last did.
    pause: Nanos,
    since_pause: u64,
    /// When the next I/O of a direction may go.
    due: [Nanos; 3],
    arrivals: Rng,
    /// Bytes and I/Os that the rates have let through since the measurement began.
    let_through: [(u64, u64); 3],
    pending: Option<Direction>,
    writes: u64,
    flush_due: bool,
    /// All that was written was flushed when its pass ended (`end_fsync`).
    synced: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    unsubmitted: Vec<u32>,
    verifier: Option<Verifier>,
    /// The zones of its region, with `zonemode=zbd`.
    zones: Option<Zones>,
    /// Why it cannot do what it should.
    problem: Option<String>,
    to_verify: u64,
    stopping: bool,
    failed: bool,
    mismatches: u64,
    first_mismatches: Vec<Mismatch>,
    stats: Stats,
}

/// Mismatches that are kept to be shown.
const MISMATCHES: usize = 10;

impl Job {
    /// A job that is about to start.
    ///
    /// # Errors
    /// It wants to verify in a way that does not fit its block sizes.
    pub fn new(plan: Plan) -> Result<Self, String> {
        let options = &plan.options;
        let verifier = match options.verify {
            None => None,
            Some(kind) => Some(Verifier {
                kind,
                unit: usize::try_from(plan.verify_interval()?).map_err(|_| "verify_interval is too large")?,
                seed: plan.seed,
                pattern: options.verify_pattern.clone(),
            }),
        };
        let verify_only =
            options.verify_only && options.verify.is_some() && options.rw.does[Direction::Write as usize];
        let source = Source { stream: Stream::new(&plan), bytes: 0, ios: 0 };
        Ok(Self {
            source,
            drawn: 0,
            phase: if verify_only { Phase::Draining } else { Phase::Running },
            called: None,
            started: 0,
            measured: None,
            pause: 0,
            since_pause: 0,
            due: [0; 3],
            arrivals: Rng::new(plan.seed ^ 0x504F_4953),
            let_through: [(0, 0); 3],
            pending: None,
            writes: 0,
            flush_due: false,
            synced: false,
            slots: vec![Slot::default(); options.iodepth as usize],
            free: (0..options.iodepth).rev().collect(),
            unsubmitted: Vec::with_capacity(options.iodepth as usize),
            verifier,
            zones: None,
            problem: None,
            to_verify: if verify_only { u64::MAX } else { 0 },
            stopping: false,
            failed: false,
            mismatches: 0,
            first_mismatches: Vec::new(),
            stats: Stats::default(),
            plan,
        })
    }

    /// The plan it follows.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Its zones as they are when it begins, or why it cannot use them: before it is asked for anything.
    pub(super) fn begin_zones(&mut self, zones: Result<Zones, String>) {
        match zones {
            Ok(zones) => self.zones = Some(zones),
            Err(problem) => self.refuse(problem),
        }
    }

    fn refuse(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
        self.phase = Phase::Done;
    }

    /// Why it has not done what it should, where that is not the fault of an I/O.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// No further requests: what is outstanding ends, nothing is verified.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// The job ends here. Outstanding requests will not be answered any more. What was done until `now`
    /// counts.
    pub fn abort(&mut self, now: Nanos) {
        let since = match self.measured {
            Some(since) => since,
            None => {
                self.begin(now);
                now
            }
        };
        match self.phase {
            Phase::Running | Phase::Draining if self.to_verify == 0 => {
                self.clock_out(now, since, self.plan.options.rw.does);
            }
            Phase::Verifying => self.clock_out(now, since, [true, false, false]),
            Phase::Running | Phase::Draining | Phase::Flushing | Phase::Done => {}
        }
        self.phase = Phase::Done;
    }

    /// Whether its runtime is over, and it only waits for what is outstanding.
    #[must_use]
    pub fn is_over(&self, now: Nanos) -> bool {
        self.phase == Phase::Draining && now >= self.end()
    }

    /// Whether it has nothing more to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether it reads back what it wrote.
    #[must_use]
    pub fn is_verifying(&self) -> bool {
        self.phase == Phase::Verifying
    }

    /// Blocks that were not what was written: how many, and the first of them.
    #[must_use]
    pub fn mismatches(&self) -> (u64, &[Mismatch]) {
        (self.mismatches, &self.first_mismatches)
    }

    /// Parts of a request that are filled and checked start at multiples of so many bytes of it.
    #[must_use]
    pub fn unit(&self) -> u64 {
        self.verifier.as_ref().map_or(self.plan.block_bytes, |verifier| verifier.unit as u64)
    }

    /// Fills `buffer` with what the write `tag` writes from `at` bytes of it on; false if the job does not care
    /// what it writes.
    pub fn fill(&self, tag: u32, at: u64, buffer: &mut [u8]) -> bool {
        let Some((verifier, draw)) = self.verifier.as_ref().zip(self.slot(tag).draw) else { return false };
        verifier.fill(draw.offset + at, buffer);
        true
    }

    /// Looks whether `buffer` is what the read `tag` should find from `at` bytes of it on, if the job verifies.
    pub fn check(&mut self, tag: u32, at: u64, buffer: &[u8]) {
        let slot = self.slot(tag);
        let Some((verifier, draw)) = self.verifier.as_ref().zip(slot.draw) else { return };
        if !slot.checked {
            return;
        }
        if let Err(mismatch) = verifier.check(draw.offset + at, buffer) {
            self.mismatches += 1;
            if self.first_mismatches.len() < MISMATCHES {
                self.first_mismatches.push(mismatch);
            }
            self.failed |= self.plan.options.verify_fatal;
        }
    }

    fn slot(&self, tag: u32) -> Slot {
        self.slots.get(tag as usize).copied().unwrap_or_default()
    }

    /// The requests since the last call were handed to the system at `now`.
    pub fn submitted(&mut self, now: Nanos) {
        if self.unsubmitted.is_empty() {
            return;
        }
        Stats::batch(&mut self.stats.submit, self.unsubmitted.len());
        for tag in self.unsubmitted.drain(..) {
            self.slots[tag as usize].submitted = now;
        }
    }

    /// So many requests were found completed together.
    pub fn reaped(&mut self, count: usize) {
        Stats::batch(&mut self.stats.complete, count);
    }

    fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// When the job must stop, if it has a runtime.
    fn end(&self) -> Nanos {
        match self.plan.options.runtime {
            0 => Nanos::MAX,
            runtime => self.started.saturating_add(self.plan.options.ramp_time).saturating_add(runtime),
        }
    }

    /// Whether its runtime is over, and nothing is trimmed that it still has to write.
    #[inline]
    fn is_late(&self, now: Nanos) -> bool {
        now >= self.end() && !self.source.stream.owes_write()
    }

    fn begin(&mut self, now: Nanos) {
        self.measured = Some(now);
        self.stats.start(now);
        self.let_through = [(0, 0); 3];
        self.due = [now; 3];
    }

    #[inline]
    fn run(&mut self, now: Nanos) -> Next {
        let options = &self.plan.options;
        if now < self.pause {
            return Next::At(self.pause.min(self.end()));
        }
        if options.thinktime > 0 && self.since_pause >= options.thinktime_blocks {
            if self.outstanding() > 0 {
                return Next::Wait;
            }
            self.since_pause = 0;
            self.pause = now.saturating_add(options.thinktime);
            return Next::At(self.pause.min(self.end()));
        }
        if self.free.is_empty() {
            return Next::Wait;
        }
        if self.source.is_at_end(&self.plan) {
            self.phase = Phase::Draining;
            return self.next(now);
        }
        // What is verified must not depend on the order in which the drive does what it has at once.
        if self.source.stream.owes_write() && self.verifier.is_some() && self.outstanding() > 0 {
            return Next::Wait;
        }
        // Not after the last write, as fio has it: that is what end_fsync is for.
        if self.flush_due {
            self.flush_due = false;
            return self.flush(now);
        }
        let mut direction = match self.pending.take() {
            Some(direction) => direction,
            None => self.source.stream.direction(),
        };
        // A direction that is ahead of its rate gives way to the other one; not where the order of the I/Os must
        // be the same again when they are verified.
        if self.due[direction as usize] > now
            && options.rw.does == [true, true, false]
            && self.verifier.is_none()
        {
            let other = if direction == Direction::Read { Direction::Write } else { Direction::Read };
            if self.due[other as usize] < self.due[direction as usize] {
                direction = other;
            }
        }
        let due = self.due[direction as usize];
        if due > now {
            self.pending = Some(direction);
            return Next::At(due.min(self.end()));
        }
        // A pass ends with a flush, as the job does.
        if options.end_fsync
            && self.writes > 0
            && !self.synced
            && self.source.stream.is_at_pass_end(direction)
        {
            self.pending = Some(direction);
            if self.outstanding() > 0 {
                return Next::Wait;
            }
            self.synced = true;
            return self.flush(now);
        }
        let (draw, target) = match self.draw(direction, now) {
            Ok(io) => io,
            Err(next) => return next,
        };
        self.synced = false;
        self.drawn += 1;
        self.since_pause += 1;
        let paced = self.pace(draw);
        if draw.direction == Direction::Write {
            self.writes += 1;
            let every = |count: u64| count > 0 && self.writes.is_multiple_of(count);
            self.flush_due = every(self.plan.options.fsync) || every(self.plan.options.fdatasync);
        }
        let checked =
            draw.direction == Direction::Read && !self.plan.options.rw.does[Direction::Write as usize];
        self.issue(draw, target, now, paced.then_some(due), checked)
    }

    /// The next I/O in this direction, or what is to be done instead.
    #[inline]
    fn draw(&mut self, direction: Direction, now: Nanos) -> Result<(Draw, Target), Next> {
        if self.plan.zones.is_some() {
            return self.draw_in_zones(direction, now);
        }
        match self.source.take(direction, &self.plan) {
            Some(draw) => Ok((draw, Target::plain(&draw))),
            None => {
                self.phase = Phase::Draining;
                Err(self.next(now))
            }
        }
    }

    #[inline(never)]
    fn draw_in_zones(&mut self, direction: Direction, now: Nanos) -> Result<(Draw, Target), Next> {
        let Some(zones) = &mut self.zones else {
            self.refuse("the state of its zones is not known".to_owned());
            return Err(Next::Done);
        };
        let left = self.plan.total.saturating_sub(self.source.bytes);
        match zones.step(direction, &mut self.source.stream, left) {
            Step::Io(draw, target) => {
                self.source.count(&draw);
                Ok((draw, target))
            }
            Step::Change(target) => {
                // Then it is this I/O's turn again.
                self.pending = Some(direction);
                Err(self.request(Slot::new(None, target.task, now), target, 0))
            }
            Step::Wait => {
                self.pending = Some(direction);
                Err(Next::Wait)
            }
            Step::End => {
                let only_reads = self.plan.options.rw.does == [true, false, false];
                if only_reads && self.source.ios == 0 {
                    let problem = "nothing is written in the zones of its region: write them first";
                    self.problem = Some(problem.to_owned());
                }
                self.phase = Phase::Draining;
                Err(self.next(now))
            }
        }
    }

    /// When the next I/O of this direction may go; whether there is a rate at all.
    #[inline]
    fn pace(&mut self, draw: Draw) -> bool {
        let index = draw.direction as usize;
        let (rate, iops) = (self.plan.options.rate[index], self.plan.options.rate_iops[index]);
        if rate == 0 && iops == 0 {
            return false;
        }
        let start = self.measured.unwrap_or(self.started);
        let through = &mut self.let_through[index];
        *through = (through.0 + draw.bytes, through.1 + 1);
        let after = |count: u64, rate: u64| match rate {
            0 => 0,
            rate => u64::try_from(u128::from(count) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX),
        };
        self.due[index] = if self.plan.options.rate_poisson {
            // -ln u times the mean.
            let mean = after(draw.bytes, rate).max(after(1, iops));
            let u = i128::from((self.arrivals.next_u64() >> (64 - fixed::FRACTION)).max(1));
            let log = -fixed::log2(u) * 693_147_181 / 1_000_000_000;
            let wait =
                u64::try_from(((log >> 20) * i128::from(mean)) >> (fixed::FRACTION - 20)).unwrap_or(mean);
            // From when it was due, so that the rate is kept on average.
            self.due[index].max(start).saturating_add(wait)
        } else {
            start.saturating_add(after(through.0, rate).max(after(through.1, iops)))
        };
        true
    }

    #[inline(always)]
    fn issue(&mut self, draw: Draw, target: Target, now: Nanos, due: Option<Nanos>, checked: bool) -> Next {
        let blocks = match target.verb {
            Verb::Zone(_) => 0,
            _ => u32::try_from(self.plan.blocks(draw.bytes)).unwrap_or(u32::MAX),
        };
        let slot = Slot { due, checked, ..Slot::new(Some(draw), target.task, now) };
        let next = self.request(slot, target, blocks);
        if matches!(next, Next::Submit(_)) {
            let outstanding = self.outstanding();
            self.stats.issue(draw.direction as usize, outstanding);
        }
        next
    }

    fn flush(&mut self, now: Nanos) -> Next {
        let target = Target { verb: Verb::Flush, at: 0, task: None };
        let next = self.request(Slot::new(None, None, now), target, 0);
        if matches!(next, Next::Submit(_)) {
            let outstanding = self.outstanding();
            self.stats.issue(3, outstanding);
        }
        next
    }

    /// Asks for something; waits if as much as may be is outstanding.
    #[inline]
    fn request(&mut self, slot: Slot, target: Target, blocks: u32) -> Next {
        let Some(tag) = self.free.pop() else { return Next::Wait };
        self.slots[tag as usize] = slot;
        self.unsubmitted.push(tag);
        let lba = self.plan.blocks(target.at);
        Next::Submit(Request { tag, verb: target.verb, namespace: 0, lba, blocks })
    }

    /// The part that the clock was running for has ended.
    fn clock_out(&mut self, now: Nanos, since: Nanos, directions: [bool; 3]) {
        let passed = now.saturating_sub(since);
        for (traffic, does) in self.stats.traffic.iter_mut().zip(directions) {
            if does {
                traffic.runtime += passed;
            }
        }
        self.stats.runtime += passed;
    }

    fn drained(&mut self, now: Nanos) -> Next {
        if self.outstanding() > 0 {
            return Next::Wait;
        }
        let writes_no_more = self.to_verify > 0 || self.failed || self.stopping;
        let finish = self.zones.as_mut().filter(|_| !writes_no_more).and_then(Zones::finish);
        if let Some(target) = finish {
            return self.request(Slot::new(None, target.task, now), target, 0);
        }
        let options = &self.plan.options;
        let does = options.rw.does;
        if self.measured.is_none() {
            // It ended within the ramp: there is nothing to report, but it must be true.
            self.begin(now);
        }
        if self.to_verify == 0 {
            self.clock_out(now, self.measured.unwrap_or(now), does);
        }
        let unsynced = self.writes > 0 && !self.synced;
        if self.plan.options.end_fsync && unsynced && !self.failed && !self.stopping {
            self.phase = Phase::Flushing;
            return self.flush(now);
        }
        self.verify_or_end(now)
    }

    fn verify_or_end(&mut self, now: Nanos) -> Next {
        let options = &self.plan.options;
        let wanted =
            self.verifier.is_some() && options.rw.does[Direction::Write as usize] && options.do_verify;
        if !wanted || self.failed || self.stopping {
            self.phase = Phase::Done;
            return Next::Done;
        }
        if self.to_verify == 0 {
            self.to_verify = self.drawn;
        }
        self.source = Source { stream: Stream::new(&self.plan), bytes: 0, ios: 0 };
        self.measured = Some(now);
        self.phase = Phase::Verifying;
        self.next(now)
    }

    /// Draws again what was drawn, and reads what was written.
    fn verify(&mut self, now: Nanos) -> Next {
        while self.to_verify > 0 && !self.failed && !self.stopping {
            if self.free.is_empty() {
                return Next::Wait;
            }
            if self.plan.zones.is_some() {
                // What is in the zones, in their order.
                let (most, unit) = (self.plan.options.sizes[Direction::Write as usize].most(), self.unit());
                match self.zones.as_mut().and_then(|zones| zones.verify(most, unit)) {
                    Some((draw, target)) => return self.issue(draw, target, now, None, true),
                    None => break,
                }
            }
            self.to_verify -= 1;
            if self.source.is_at_end(&self.plan) {
                break;
            }
            let direction = self.source.stream.direction();
            match self.source.take(direction, &self.plan) {
                Some(draw) if direction == Direction::Write => {
                    let draw = Draw { direction: Direction::Read, ..draw };
                    return self.issue(draw, Target::plain(&draw), now, None, true);
                }
                Some(_) => {}
                None => break,
            }
        }
        self.to_verify = 0;
        if self.outstanding() > 0 {
            return Next::Wait;
        }
        self.clock_out(now, self.measured.unwrap_or(now), [true, false, false]);
        self.phase = Phase::Done;
        Next::Done
    }
}

impl Source {
    #[inline]
    fn is_at_end(&self, plan: &Plan) -> bool {
        // What was trimmed is written before the job ends.
        if self.stream.owes_write() {
            return false;
        }
        let pairs = 1 + u64::from(plan.options.rw.does == [false, true, true]);
        !plan.options.time_based && self.bytes >= plan.total
            || self.ios >= plan.options.number_ios.saturating_mul(pairs).saturating_mul(plan.options.loops)
    }

    /// The next I/O, unless the job ends with the pass that has just ended: when less is left than a block takes,
    /// or after so many loops.
    #[inline(always)]
    fn take(&mut self, direction: Direction, plan: &Plan) -> Option<Draw> {
        let passes = self.stream.passes();
        let draw = self.stream.place(direction);
        let options = &plan.options;
        if self.stream.passes() != passes && !options.time_based {
            let too_little = plan.total.saturating_sub(self.bytes) < options.largest_block();
            let loops_done = options.io_size.is_none() && self.stream.passes() >= options.loops;
            if too_little || loops_done {
                return None;
            }
        }
        self.count(&draw);
        Some(draw)
    }

    #[inline]
    fn count(&mut self, draw: &Draw) {
        self.bytes += draw.bytes;
        self.ios += 1;
    }
}

impl Actor for Job {
    fn next(&mut self, now: Nanos) -> Next {
        let called = *self.called.get_or_insert(now);
        let start = called.saturating_add(self.plan.options.startdelay);
        if now < start && !self.stopping {
            return Next::At(start);
        }
        if self.started == 0 {
            self.started = now.max(1);
        }
        let ramped = self.started.saturating_add(self.plan.options.ramp_time);
        if self.measured.is_none() && now.max(1) >= ramped {
            self.begin(now);
        }
        self.stats.tick(now);
        match self.phase {
            Phase::Running if self.stopping || self.failed || self.is_late(now) => {
                self.phase = Phase::Draining;
                self.drained(now)
            }
            Phase::Running => self.run(now),
            Phase::Draining => self.drained(now),
            Phase::Flushing if self.outstanding() > 0 => Next::Wait,
            Phase::Flushing => self.verify_or_end(now),
            Phase::Verifying => self.verify(now),
            Phase::Done => Next::Done,
        }
    }

    #[inline]
    fn coming(&self) -> Option<(u16, u64)> {
        if self.plan.zones.is_some() {
            return None;
        }
        self.source.stream.coming().map(|offset| (0, self.plan.blocks(offset)))
    }

    #[inline]
    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        let Some(slot) = self.slots.get(tag as usize).copied() else { return };
        self.free.push(tag);
        if let Some((zones, task)) = self.zones.as_mut().zip(slot.task).filter(|_| ok) {
            zones.completed(task, slot.draw);
        }
        if !ok {
            self.stats.failed += 1;
            self.failed = true;
        } else if self.measured.is_some() {
            let submission = slot.submitted.saturating_sub(slot.issued);
            match slot.draw {
                Some(draw) => {
                    let completion = now.saturating_sub(slot.submitted);
                    self.stats.complete(draw.direction, draw.bytes, submission, completion);
                    if let Some(due) = slot.due {
                        self.stats.responded(draw.direction, due, now);
                    }
                }
                None => match slot.task {
                    Some(Task::Clear(_) | Task::Reuse(_)) => self.stats.zone_resets += 1,
                    Some(Task::Io(_) | Task::Finish(_)) => {}
                    None => self.stats.flushed(now.saturating_sub(slot.issued)),
                },
            }
        }
        self.stats.tick(now);
    }
}

impl Job {
    /// Keeps each I/O of a job with a rate in [`Stats::responses`]: when it was due, and when it completed.
    pub fn keep_responses(&mut self) {
        self.stats.responses.get_or_insert_default();
    }

    /// The job of a clone on a namespace, as [`Plan::new`] and [`Job::new`].
    ///
    /// # Errors
    /// It does not fit the namespace.
    pub fn of(
        spec: &super::JobSpec,
        space: Space,
        clone: u32,
        thread: u32,
        entropy: u64,
    ) -> Result<Self, String> {
        Self::new(Plan::new(&spec.options, space, clone, thread, entropy)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::JobFile;

    fn job(text: &str) -> Job {
        let jobs = JobFile::parse(text, &|_| None).and_then(|file| file.jobs()).expect("a job file");
        Job::of(&jobs.jobs[0], Space::new(1024, 4096), 0, 0, 0).expect("a job")
    }

    #[test]
    fn what_ran_until_the_connection_was_lost_counts() {
        let mut job = job("[a]\nrw=read\nsize=64k\niodepth=4\n");
        for _ in 0..4 {
            assert!(matches!(job.next(1_000), Next::Submit(_)));
        }
        job.completed(3_000, 3, true);
        job.abort(5_000);
        let reads = &job.stats().traffic[0];
        assert_eq!((reads.ios, reads.runtime, job.stats().runtime), (1, 4_000, 4_000));
        assert_eq!(job.stats().traffic[1].runtime, 0);
        assert_eq!(job.next(6_000), Next::Done);
        job.abort(7_000);
        assert_eq!(job.stats().runtime, 4_000, "counted once");
    }

    #[test]
    fn time_of_verifying_counts_too() {
        let mut job = job("[a]\nrw=write\nbs=4k\nsize=8k\nverify=crc32c\n");
        for now in [1_000, 2_000] {
            let Next::Submit(request) = job.next(now) else { panic!("a write") };
            job.completed(now + 500, request.tag, true);
        }
        assert!(matches!(job.next(3_000), Next::Submit(request) if request.verb == Verb::Read));
        job.abort(9_000);
        let stats = job.stats();
        assert_eq!((stats.traffic[1].runtime, stats.traffic[0].runtime), (2_000, 6_000));
    }

    #[test]
    fn who_falls_behind_a_rate_waits_from_when_it_was_due() {
        let mut job = job("[a]\nrw=randread\nrate_iops=1000\niodepth=1\nnumber_ios=3\n");
        job.keep_responses();
        // Each takes 4 ms, so that the second is due 3 ms before it can go, the third 6 ms.
        let mut now = 1;
        for _ in 0..3 {
            let Next::Submit(request) = job.next(now) else { panic!("a read is due") };
            now += 4_000_000;
            job.completed(now, request.tag, true);
        }
        assert_eq!(job.next(now), Next::Done);
        let reads = &job.stats().traffic[0];
        assert_eq!(reads.total.sum, 12_000_000);
        assert_eq!(reads.response.series.sum, 4_000_000 + 7_000_000 + 10_000_000);
        assert_eq!(reads.response.series.count, 3);
        assert!(reads.response.quantile(990_000) >= 10_000_000);
        let kept = job.stats().responses.clone().unwrap_or_default();
        let times: Vec<_> = kept.iter().map(|r| (r.due, r.completed)).collect();
        assert_eq!(times, [(1, 4_000_001), (1_000_001, 8_000_001), (2_000_001, 12_000_001)]);
    }

    #[test]
    fn a_runtime_is_over_while_commands_are_outstanding() {
        let mut job = job("[a]\nrw=read\nruntime=1\ntime_based\n");
        assert!(matches!(job.next(1), Next::Submit(_)));
        assert_eq!(job.next(2), Next::Wait);
        assert!(!job.is_over(2));
        assert_eq!(job.next(1_000_000_001), Next::Wait);
        assert!(job.is_over(1_000_000_001));
    }
}
