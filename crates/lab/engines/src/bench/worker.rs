//! One clone of a job on one device.

use std::{
    collections::VecDeque,
    fmt::Display,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::device::JobDevice;
use blockdev::Completed;
use load_formats::fio::{Job, Stats};
use nvme::Status;
use workload::{
    Actor, Nanos, Next, Request, Verb, ZoneAction,
    executor::{Executor, Finished},
};

/// How long a command may take until its job ends with an error.
const ANSWER: Duration = Duration::from_secs(30);
/// How long the drive may be silent after the job's runtime until what is outstanding is given up.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long is waited for what is outstanding when the user ends the run.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Mismatches of a job that are told one by one.
const MISMATCHES: usize = 3;
/// How long to sleep at most, so that a request to stop is seen.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// errno of an I/O error, and of contents that are not what they should be: fio's `error`.
pub(super) const EIO: i32 = 5;
pub(super) const EILSEQ: i32 = 84;
/// errno of a job that does not fit what it is to work on.
const EINVAL: i32 = 22;

/// What the main thread sees of a worker meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// I/Os and bytes: reads, writes, trims.
    pub ios: [AtomicU64; 3],
    pub bytes: [AtomicU64; 3],
    pub verifying: AtomicBool,
    pub done: AtomicBool,
}

/// How a clone ended.
#[derive(Debug)]
pub(crate) struct EndedWorker {
    pub stats: Stats,
    /// errno, or 0.
    pub error: i32,
    /// What went wrong.
    pub problems: Vec<String>,
    /// What its thread used, if it had one.
    pub usage: Option<Usage>,
    pub elapsed: Duration,
}

/// Looks for commands without an answer in the time that they have for it.
const CHECKS_PER_TIMEOUT: u32 = 30;

/// How long the drive may take.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    answer: Duration,
    afterwards: Duration,
    interrupted: Duration,
}

impl Timeouts {
    const DEFAULT: Self = Self { answer: ANSWER, afterwards: DRAIN_TIMEOUT, interrupted: INTERRUPT_TIMEOUT };

    /// How often the worker looks for commands without an answer. Their age is counted in such looks, so that time
    /// in which this process itself was stopped does not count.
    fn look(&self) -> Duration {
        self.answer / CHECKS_PER_TIMEOUT
    }
}

/// Why a job cannot go on.
struct Broken {
    /// errno; 0 if that is nobody's fault.
    error: i32,
    problem: String,
}

impl Broken {
    /// The device is of no more use.
    fn device(error: impl Display) -> Self {
        Self { error: EIO, problem: error.to_string() }
    }
}

/// A job with what it writes where it does not verify: bytes that do not compress and are not the same again, or zeroes.
struct Writer {
    job: Job,
    stamp: u64,
    zeroes: bool,
}

impl Actor for Writer {
    fn next(&mut self, now: Nanos) -> Next {
        self.job.next(now)
    }

    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        self.job.completed(now, tag, ok);
    }

    fn unit(&self) -> u64 {
        self.job.unit()
    }

    /// Buffers are random when they are new, so that a stamp in each sector is enough.
    fn fill(&mut self, tag: u32, at: u64, data: &mut [u8]) {
        if self.job.fill(tag, at, data) {
            return;
        }
        if self.zeroes {
            data.fill(0);
            return;
        }
        for sector in data.chunks_mut(512) {
            self.stamp = self.stamp.wrapping_add(0x9E37_79B9_7F4A_7C15);
            if let Some(first) = sector.first_chunk_mut::<8>() {
                *first = self.stamp.to_le_bytes();
            }
        }
    }

    fn check(&mut self, tag: u32, at: u64, data: &[u8]) {
        self.job.check(tag, at, data);
    }
}

pub(crate) struct Worker<'a, D> {
    executor: Executor<Writer>,
    device: D,
    poll: bool,
    stop: &'a AtomicBool,
    shared: &'a Shared,
    start: Instant,
    /// In slow motion: nanoseconds of the wall for one of the job and the drive.
    pub pace: u32,
    first_failure: Option<(Request, Status)>,
    timeouts: Timeouts,
    /// When it was looked for commands without an answer, the last times: in nanoseconds of the job.
    looks: VecDeque<Nanos>,
    looked: Instant,
    /// When the user's wish to stop was seen.
    stopped: Option<Instant>,
    /// The last sign of the drive, or the end of the runtime if that was later.
    heard: Instant,
}

impl<'a, D: JobDevice> Worker<'a, D> {
    pub fn new(
        job: Job,
        device: D,
        poll: bool,
        stop: &'a AtomicBool,
        shared: &'a Shared,
        start: Instant,
    ) -> Result<Self, String> {
        let geometry = device.geometry();
        let (unit, bytes) =
            (job.unit(), u64::from(geometry.limits.transfer) * u64::from(geometry.block_size));
        let (stamp, zeroes) = (job.plan().seed, job.plan().options.zero_buffers);
        let executor = Executor::new(Writer { job, stamp, zeroes }, &[geometry]);
        let executor = executor.ok_or_else(|| {
            format!(
                "the drive takes {bytes} bytes in one command, less than the {unit} that are verified together: reduce \
                 verify_interval"
            )
        })?;
        Ok(Self {
            executor: executor.with_noise(stamp),
            device,
            poll,
            stop,
            shared,
            start,
            pace: 1,
            first_failure: None,
            timeouts: Timeouts::DEFAULT,
            looks: VecDeque::with_capacity(CHECKS_PER_TIMEOUT as usize + 1),
            looked: start,
            stopped: None,
            heard: start,
        })
    }

    fn job(&self) -> &Job {
        &self.executor.actor().job
    }

    fn job_mut(&mut self) -> &mut Job {
        &mut self.executor.actor_mut().job
    }

    /// Commands without an answer.
    fn outstanding(&mut self) -> usize {
        self.device.outstanding()
    }

    /// Nanoseconds of the job since the start of the run, never 0.
    fn now(&self) -> u64 {
        let elapsed = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        (elapsed / u64::from(self.pace.max(1))).max(1)
    }

    /// How long to sleep until then.
    fn nap(&self, at: u64) -> Duration {
        let span = at.saturating_sub(self.now()).saturating_mul(u64::from(self.pace));
        Duration::from_nanos(span).min(MAX_SLEEP)
    }

    /// Runs the job to its end.
    pub fn run(mut self) -> EndedWorker {
        let began = Instant::now();
        let before = Usage::of_this_thread();
        let broken = self.work().err();
        if broken.is_some() {
            let now = self.now();
            self.job_mut().abort(now);
        }
        self.shared.done.store(true, Ordering::Release);
        let (mut error, mut problems) =
            problems(self.job(), self.first_failure, self.device.block_size(), &self.device.name());
        if let Some(broken) = broken {
            error = if broken.error == 0 { error } else { broken.error };
            problems.push(broken.problem);
        }
        EndedWorker {
            stats: self.job().stats().clone(),
            error,
            problems,
            usage: Some(Usage::of_this_thread().since(&before)),
            elapsed: began.elapsed(),
        }
    }

    fn work(&mut self) -> Result<(), Broken> {
        if self.outstanding() > 0 {
            let problem = "the drive has not answered the job before it on the same queue".to_owned();
            return Err(Broken { error: EIO, problem });
        }
        (self.looked, self.heard) = (Instant::now(), Instant::now());
        loop {
            if self.stop.load(Ordering::Relaxed) && self.stopped.is_none() {
                self.job_mut().stop();
                self.stopped = Some(Instant::now());
            }
            let now = self.now();
            if self.executor.ask(now, &mut self.device).map_err(Broken::device)? {
                self.device.flush().map_err(Broken::device)?;
                let now = self.now();
                self.job_mut().submitted(now);
            }
            let wake = self.executor.wake();
            let nap = if wake == Nanos::MAX { MAX_SLEEP } else { self.nap(wake) };
            if self.outstanding() == 0 {
                if self.executor.has_ended() {
                    return Ok(());
                }
                if !self.poll {
                    std::thread::sleep(nap);
                }
                continue;
            }
            let found = self.wait(nap, wake < Nanos::MAX).map_err(Broken::device)?;
            let quiet = found.is_none();
            if let Some(first) = found {
                self.reap(first);
                let now = self.now();
                self.executor.resume(now, &mut self.device).map_err(Broken::device)?;
            }
            self.look(now, quiet)?;
        }
    }

    /// Gives up what the drive does not answer. `quiet`: it has just been waited for in vain.
    fn look(&mut self, now: Nanos, quiet: bool) -> Result<(), Broken> {
        let time = Instant::now();
        if !quiet || !self.job().is_over(now) {
            self.heard = time;
        }
        if quiet && time.duration_since(self.heard) > self.timeouts.afterwards {
            let limit = self.timeouts.afterwards;
            return Err(self.unanswered(EIO, &format!("the runtime is over, and nothing came for {limit:?}")));
        }
        if self.stopped.is_some_and(|stopped| time.duration_since(stopped) > self.timeouts.interrupted)
            && self.outstanding() > 0
        {
            return Err(self.unanswered(0, "interrupted"));
        }
        if time.duration_since(self.looked) >= self.timeouts.look() {
            self.looked = time;
            self.looks.push_back(self.now());
            if self.looks.len() > CHECKS_PER_TIMEOUT as usize
                && let Some(before) = self.looks.pop_front()
                && let Some(request) = self.executor.overdue(before)
            {
                let what = describe(request, self.device.block_size(), &self.device.name());
                let limit = self.timeouts.answer;
                return Err(self.unanswered(EIO, &format!("{what}: no answer within {limit:?}")));
            }
        }
        Ok(())
    }

    /// Ends the job without what is outstanding.
    fn unanswered(&mut self, error: i32, why: &str) -> Broken {
        self.device.abandon();
        let left = match self.outstanding() {
            1 => "1 command was".to_owned(),
            count => format!("{count} commands were"),
        };
        Broken { error, problem: format!("{why}: {left} left without an answer") }
    }

    /// The next completion: awaited for so long at most, or, when polling, for so many looks. `timed`: the job
    /// wants to be asked again at a certain time.
    fn wait(&mut self, nap: Duration, timed: bool) -> Result<Option<Completed>, D::Error> {
        if !self.poll {
            return self.device.wait(nap);
        }
        let looks = if timed { 1 } else { 1024 };
        for _ in 0..looks {
            if let Some(completed) = self.device.wait(Duration::ZERO)? {
                return Ok(Some(completed));
            }
        }
        Ok(None)
    }

    /// Takes this completion and all that arrived with it.
    fn reap(&mut self, first: Completed) {
        let now = self.now();
        let mut count = 0;
        let mut next = Some(first);
        while let Some(completed) = next {
            if let Some(finished) = self.executor.complete(now, completed, true) {
                self.finished(&finished);
                count += 1;
            }
            next = self.device.arrived();
        }
        self.job_mut().reaped(count);
        self.shared.verifying.store(self.job().is_verifying(), Ordering::Relaxed);
    }

    fn finished(&mut self, finished: &Finished) {
        let Finished { request, status, .. } = *finished;
        if !status.is_success() {
            self.first_failure.get_or_insert((request, status));
        }
        let plan = self.job().plan();
        let (direction, zone) = match request.verb.plain() {
            Verb::Read => (0, 0),
            Verb::Write | Verb::Append => (1, 0),
            Verb::Trim => (2, 0),
            // What trims does it by resetting zones.
            Verb::Zone(_) if plan.options.rw.does[2] => (2, plan.zone_bytes()),
            _ => return,
        };
        // This thread alone writes them.
        let add = |counter: &AtomicU64, count| {
            counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        };
        add(&self.shared.ios[direction], 1);
        let block = u64::from(self.device.block_size());
        add(&self.shared.bytes[direction], zone + u64::from(request.blocks) * block);
    }
}

/// What went wrong with a job's I/Os on a device of this name: errno, or 0, and a line for each. `failure` is the first that failed.
pub(crate) fn problems(
    job: &Job,
    failure: Option<(Request, Status)>,
    block_size: u32,
    device: &str,
) -> (i32, Vec<String>) {
    let (mut error, mut problems) = (0, Vec::new());
    if let Some(problem) = job.problem() {
        error = EINVAL;
        problems.push(problem.to_owned());
    }
    if let Some((request, status)) = failure {
        error = EIO;
        problems.push(format!("{}: the drive answered: {status}", describe(&request, block_size, device)));
    }
    let (mismatches, first) = job.mismatches();
    if mismatches > 0 {
        error = EILSEQ;
        problems.extend(first.iter().take(MISMATCHES).map(ToString::to_string));
        let more = mismatches.saturating_sub(MISMATCHES as u64);
        let more = if more > 0 { format!(", {more} more than those above") } else { String::new() };
        let parts =
            if mismatches == 1 { "1 part was".to_owned() } else { format!("{mismatches} parts were") };
        problems.push(format!("{parts} not what was written{more}"));
    }
    (error, problems)
}

fn describe(request: &Request, block_size: u32, device: &str) -> String {
    let verb = match request.verb {
        Verb::Read | Verb::ReadFua => "reading",
        Verb::Write | Verb::WriteFua => "writing",
        Verb::Trim => "deallocating",
        Verb::Copy { .. } => "copying",
        Verb::WriteZeroes { .. } => "writing zeroes to",
        Verb::Append => "appending",
        Verb::Zone(action) => {
            let what = match action {
                ZoneAction::Finish => "finishing",
                ZoneAction::Reset => "resetting",
            };
            let offset = request.lba * u64::from(block_size);
            return format!("{what} the zone at offset {offset} of {device}");
        }
        Verb::Flush => return format!("flushing {device}"),
    };
    let block = u64::from(block_size);
    let (bytes, offset) = (u64::from(request.blocks) * block, request.lba * block);
    if request.verb == Verb::Append {
        return format!("{verb} {bytes} bytes to the zone at offset {offset} of {device}");
    }
    format!("{verb} {bytes} bytes at offset {offset} of {device}")
}

/// What a thread used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Seconds of a processor in this program and in the kernel.
    pub user: f64,
    pub system: f64,
    pub context_switches: u64,
    pub major_faults: u64,
    pub minor_faults: u64,
}

impl Usage {
    /// From /proc; zeroes where there is none.
    fn of_this_thread() -> Self {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let fields: Vec<u64> = stat
            .rsplit_once(") ")
            .map_or("", |(_, rest)| rest)
            .split(' ')
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        #[expect(clippy::cast_precision_loss, reason = "ticks stay far below 2^52")]
        let seconds = |count: u64| count as f64 / ticks as f64;
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let switches = switches.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum();
        Self {
            user: seconds(field(11)),
            system: seconds(field(12)),
            context_switches: switches,
            major_faults: field(9),
            minor_faults: field(7),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            user: (self.user - before.user).max(0.0),
            system: (self.system - before.system).max(0.0),
            context_switches: self.context_switches.saturating_sub(before.context_switches),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
        self.context_switches += other.context_switches;
        self.major_faults += other.major_faults;
        self.minor_faults += other.minor_faults;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::Namespace;
    use host::{CompletedCommand, Data, NamespaceDevice, Queue, TransportError};
    use load_formats::fio::{JobFile, Space};
    use nvme::{Command, Completion};
    use std::sync::atomic::AtomicU32;

    /// Answers all commands but the one whose number in turn is `lost`, and from `silent` on none.
    struct Answers<'a> {
        lost: u32,
        silent: u32,
        submitted: u32,
        outstanding: Vec<host::Tag>,
        done: VecDeque<(host::Tag, Data)>,
        largest: usize,
        abandoned: &'a AtomicBool,
        heard: &'a AtomicU32,
    }

    impl Queue for Answers<'_> {
        fn capacity(&self) -> usize {
            4
        }

        fn outstanding(&self) -> usize {
            self.outstanding.len()
        }

        fn submit(&mut self, _command: Command, data: Data) -> Result<host::Tag, TransportError> {
            let tag = (0..4).map(host::Tag).find(|tag| !self.outstanding.contains(tag)).unwrap();
            self.outstanding.push(tag);
            self.largest = self.largest.max(data.len());
            if self.submitted != self.lost && self.submitted < self.silent {
                self.done.push_back((tag, data));
            }
            self.submitted += 1;
            Ok(tag)
        }

        fn next(&mut self, _timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
            std::thread::sleep(Duration::from_micros(300));
            let Some((tag, data)) = self.done.pop_front() else { return Ok(None) };
            self.outstanding.retain(|other| *other != tag);
            self.heard.fetch_add(1, Ordering::Relaxed);
            Ok(Some(CompletedCommand { tag, completion: Completion::default(), data }))
        }

        fn abandon(&mut self) {
            self.abandoned.store(true, Ordering::Relaxed);
        }
    }

    /// The end of a job that loses one of its commands, or all from one on; how many were answered.
    fn ended(text: &str, lost: u32, silent: u32, timeouts: Timeouts, stop: bool) -> (EndedWorker, u32) {
        let jobs = JobFile::parse(text, &|_| None).unwrap().jobs().unwrap();
        let job = Job::of(&jobs.jobs[0], Space::new(4096, 4096), 0, 0, 0).unwrap();
        let (abandoned, heard) = (AtomicBool::new(false), AtomicU32::new(0));
        let mut queue = Answers {
            lost,
            silent,
            submitted: 0,
            outstanding: Vec::new(),
            done: VecDeque::new(),
            largest: 0,
            abandoned: &abandoned,
            heard: &heard,
        };
        let four = blockdev::Limits { transfer: 4, ..blockdev::Limits::NONE };
        let namespace = Namespace { limits: four, ..Namespace::plain(1, 4096, 4096) };
        let (asked, shared) = (AtomicBool::new(false), Shared::default());
        let mut worker = Worker::new(
            job,
            NamespaceDevice::new(&mut queue, namespace),
            false,
            &asked,
            &shared,
            Instant::now(),
        )
        .unwrap();
        worker.timeouts = timeouts;
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| worker.run());
            while stop && !thread.is_finished() {
                asked.store(heard.load(Ordering::Relaxed) >= silent, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
            thread.join().unwrap()
        });
        assert_eq!(abandoned.load(Ordering::Relaxed), lost != u32::MAX || silent != u32::MAX);
        assert!(queue.largest <= 16384);
        (ended, heard.load(Ordering::Relaxed))
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const HOUR_TIMEOUTS: Timeouts = Timeouts { answer: HOUR, afterwards: HOUR, interrupted: HOUR };
    const SHORT_TIMEOUT: Duration = Duration::from_millis(60);

    #[test]
    fn large_requests_are_cut() {
        let (ended, answered) =
            ended("[a]\nrw=write\nbs=72k\nsize=720k\niodepth=16\n", u32::MAX, u32::MAX, HOUR_TIMEOUTS, false);
        assert!(ended.problems.is_empty(), "{:?}", ended.problems);
        assert_eq!((answered, ended.stats.traffic[1].bytes), (50, 720 << 10));
    }

    /// The others go on all the time.
    #[test]
    fn one_command_without_an_answer_ends_the_job() {
        let limits = Timeouts { answer: SHORT_TIMEOUT, ..HOUR_TIMEOUTS };
        let job = "[a]\nrw=read\nruntime=1h\ntime_based\niodepth=4\n";
        let (ended, answered) = ended(job, 5, u32::MAX, limits, false);
        assert!(answered > 5);
        assert_eq!(ended.error, EIO);
        let problem = &ended.problems[0];
        assert!(
            problem.contains("reading 4096 bytes at offset 20480 of namespace 1: no answer within 60ms"),
            "{problem}"
        );
        assert!(ended.stats.runtime > 0 && ended.stats.traffic[0].runtime == ended.stats.runtime);
    }

    #[test]
    fn the_runtime_ends_although_the_drive_is_silent() {
        let limits = Timeouts { afterwards: SHORT_TIMEOUT, ..HOUR_TIMEOUTS };
        let job = "[a]\nrw=read\nruntime=50ms\ntime_based\niodepth=4\n";
        let (ended, answered) = ended(job, u32::MAX, 7, limits, false);
        assert_eq!((answered, ended.error, ended.stats.traffic[0].ios), (7, EIO, 7));
        assert_eq!(
            ended.problems,
            ["the runtime is over, and nothing came for 60ms: 4 commands were left without an answer"]
        );
    }

    #[test]
    fn an_interrupt_does_not_wait_for_answers() {
        let limits = Timeouts { interrupted: SHORT_TIMEOUT, ..HOUR_TIMEOUTS };
        let job = "[a]\nrw=read\niodepth=4\n";
        let (ended, answered) = ended(job, u32::MAX, 7, limits, true);
        assert_eq!((answered, ended.error), (7, 0));
        assert_eq!(ended.problems, ["interrupted: 4 commands were left without an answer"]);
        assert!(ended.stats.traffic[0].runtime > 0);
    }
}
