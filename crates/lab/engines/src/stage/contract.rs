//! What both stages do, and what a run on one is.

use anyhow::{Result, anyhow};
use host::{Host, Namespace, Transport};
use load_formats::fio::{Job, JobFile, Response, Space, Stats};
use nvme::Nsid;

use lab_report::results::Cpu;

/// Nanoseconds since a run began.
pub type Nanos = u64;

/// Length of the intervals of [`JobResult::bytes`].
pub const INTERVAL: Nanos = 50_000_000;

/// A job of one host on a namespace.
#[derive(Clone, Debug)]
pub struct HostJob {
    /// Whose: hosts are counted from 0.
    pub host: usize,
    /// On which namespace.
    pub nsid: Nsid,
    /// What it does: the options of a fio job, one on each line.
    pub job: String,
}

/// What a load has done.
#[derive(Clone, Debug, Default)]
pub struct JobResult {
    /// As the job counted it, without its ramp.
    pub stats: Stats,
    /// Bytes read and written in each [`INTERVAL`] since the run began, ramp included.
    pub bytes: Vec<u64>,
    /// I/Os of a load with a rate, without its ramp: times since the run began.
    pub responses: Vec<Response>,
}

/// What a run of several loads was.
#[derive(Clone, Debug, Default)]
pub struct StageResult {
    /// What became of each load, in their order.
    pub loads: Vec<JobResult>,
    /// The machine meanwhile; nothing in virtual time.
    pub cpu: Cpu,
}

/// Is called when a run begins, and at the time that it returned (`None`: not again): what a host does while loads run.
pub type Script<'a, T> = dyn FnMut(&mut Host<T>, Nanos) -> Result<Option<Nanos>> + 'a;

/// A script that does nothing.
///
/// # Errors
/// None.
pub fn no_script<T: Transport>(_: &mut Host<T>, _: Nanos) -> Result<Option<Nanos>> {
    Ok(None)
}

/// A drive and its hosts.
pub trait Stage {
    /// How the hosts reach the drive.
    type Transport: Transport;

    /// `"sim"` or `"live"`.
    const ENGINE: &'static str;

    /// The host that manages the drive; it has no load.
    fn manager(&mut self) -> &mut Host<Self::Transport>;

    /// Runs loads at the same time, until all have ended.
    ///
    /// # Errors
    /// A job makes no sense or does not fit, the drive refuses something, a command failed, or it was cancelled.
    fn play(&mut self, loads: &[HostJob], script: &mut Script<'_, Self::Transport>) -> Result<StageResult>;
}

/// NQN of a host of a stage.
pub(super) fn nqn(host: usize) -> String {
    format!("nqn.2026-11.io.tranche:stage-{host}")
}

/// NQN of the host that manages a stage's drive.
pub(super) const MANAGER: &str = "nqn.2026-11.io.tranche:stage";

/// The job of a load; `thread` makes its random numbers different from those of the others.
pub(super) fn job(load: &HostJob, namespace: &Namespace, thread: u32) -> Result<Job> {
    let wrong = |problem: &dyn std::fmt::Display| anyhow!("the job {:?}: {problem}", load.job);
    let text = format!("[load]\n{}\n", load.job);
    let file = JobFile::parse(&text, &|_| None).map_err(|e| wrong(&e.problem))?;
    let jobs = file.jobs().map_err(|e| wrong(&e.problem))?;
    let space = Space::new(namespace.blocks, namespace.block_size);
    let mut job = Job::of(&jobs.jobs[0], space, 0, thread, 0).map_err(|e| wrong(&e))?;
    job.keep_responses();
    Ok(job)
}

impl JobResult {
    /// What a job that has ended did; its clock was at `start` when the run began.
    pub(super) fn new(mut stats: Stats, bytes: Vec<u64>, start: Nanos) -> Self {
        let mut responses = stats.responses.take().unwrap_or_default();
        for response in &mut responses {
            response.due = response.due.saturating_sub(start);
            response.completed = response.completed.saturating_sub(start);
        }
        Self { stats, bytes, responses }
    }
}

/// Adds to the interval of a time.
pub(super) fn count(bytes: &mut Vec<u64>, at: Nanos, more: u64) {
    let index = usize::try_from(at / INTERVAL).unwrap_or(usize::MAX);
    if index < 1 << 20 {
        if bytes.len() <= index {
            bytes.resize(index + 1, 0);
        }
        bytes[index] += more;
    }
}
