//! Jobs of fio on a drive in virtual time.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use host::Host;
use load_formats::fio::{JobFile, Jobs, Plan, Prompt, Stats};
use nvme::Nsid;
use sim::{Nanos, Sim, SimTransport};

use super::{load_document::LoadDocument, watch::Watch};
use crate::bench::{self, EndedJob, FioDocument, Place, memory, progress::Goal, text, worker};
use lab_report::control::Cancel;

/// What a load has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadResult {
    /// Results in the layout of the load's own tool.
    pub document: Option<LoadDocument>,
    /// The same for people.
    pub text: String,
    /// Reads, writes and trims.
    pub traffic: [Moved; 3],
    /// Requests that ended, flushes and failed ones among them.
    pub requests: u64,
    /// Depends on every request, its times and its end.
    pub digest: u64,
    /// Depends on all data that was read, where contents are kept.
    pub found: Option<u64>,
    /// What went wrong.
    pub problems: Vec<String>,
    /// What makes its figures mean less than they seem to.
    pub doubts: Vec<String>,
    /// Whether it was ended by the user.
    pub interrupted: bool,
}

/// I/Os of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// I/Os.
    pub ios: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How long anybody was at it.
    pub nanos: u64,
    /// Mean completion latency in nanoseconds.
    pub mean: f64,
    /// Completion latency of 50 % of the I/Os at most, in nanoseconds.
    pub p50: u64,
    /// Of 99 %.
    pub p99: u64,
    /// Of 99.9 %.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

/// Runs the jobs of a text, which is right, and says what moved in each direction. `what` names it in messages.
///
/// # Errors
/// As of [`play`]; something went wrong with an I/O; it was cancelled.
pub fn play_text(
    what: &str,
    text: &str,
    sim: &Sim,
    host: &mut Host<SimTransport>,
    seed: u64,
    cancel: &Cancel,
) -> Result<[Moved; 3]> {
    let jobs = JobFile::parse(text, &|_| None).and_then(|file| file.jobs());
    let jobs = jobs.map_err(|error| anyhow!("job of {what}:{}: {}", error.line, error.problem))?;
    let share = AtomicU32::new(0);
    let mut watch = Watch::new(&share, 0, cancel);
    let played = play(what, &jobs, sim, host, None, seed, &mut watch)?;
    cancel.check()?;
    if !played.problems.is_empty() {
        bail!("measuring {what}: {}", bench::lines(played.problems));
    }
    Ok(played.traffic)
}

/// What a load draws its random numbers from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    /// What is drawn at all.
    pub seed: u64,
    /// Which repetition of the load it is: the same places are hot in each.
    pub round: u64,
}

impl From<u64> for Seed {
    /// Of a load that is run once.
    fn from(seed: u64) -> Self {
        Self { seed, round: 0 }
    }
}

/// Jobs on a drive, before they begin.
struct Laid {
    /// Where each job is.
    places: Vec<Place>,
    /// The plan of each clone, with the index of its job.
    plans: Vec<(usize, Plan)>,
}

/// Lays jobs on a drive, which keeps contents or does not.
///
/// # Errors
/// A job does not fit the drive, or all of them do not fit in memory.
fn lay(
    name: &str,
    jobs: &Jobs,
    host: &mut Host<SimTransport>,
    nsid: Option<Nsid>,
    seed: u64,
    keeps: bool,
) -> Result<Laid> {
    let namespaces = bench::namespaces(name, jobs, host, nsid)?;
    let places = Place::of(host, &namespaces)?;
    let plans = bench::plans(name, jobs, &bench::spaces(&places), seed)?;
    bench::zones::check(name, jobs, &plans, &places)?;
    // Where contents are kept, every command has its data.
    let (commands, bytes) = if keeps { (usize::from(u16::MAX), 1 << 30) } else { (0, 1) };
    memory::check(jobs, &plans, commands, bytes)?;
    Ok(Laid { places, plans })
}

/// Whether [`play`] can begin with these jobs on this drive. Nothing is read or written.
///
/// # Errors
/// As of [`play`], before the first I/O.
pub(super) fn check(
    name: &str,
    jobs: &Jobs,
    host: &mut Host<SimTransport>,
    nsid: Option<Nsid>,
    keeps: bool,
) -> Result<()> {
    let Laid { plans, .. } = lay(name, jobs, host, nsid, 1, keeps)?;
    let clones = |phase| plans.iter().filter(|(index, _)| jobs.jobs[*index].phase == phase).count();
    let together = jobs.jobs.iter().map(|spec| clones(spec.phase)).max().unwrap_or(0);
    // Reports of zones go over a queue of their own.
    let reports = usize::from(plans.iter().any(|(_, plan)| plan.zones.is_some()));
    bench::enough(host, u32::try_from(together + reports).unwrap_or(u32::MAX))?;
    bench::clones(name, jobs, plans).map(drop)
}

/// Runs all jobs, phase after phase.
///
/// # Errors
/// A job does not fit the drive, or the drive refuses its queue.
pub(crate) fn play(
    name: &str,
    jobs: &Jobs,
    sim: &Sim,
    host: &mut Host<SimTransport>,
    nsid: Option<Nsid>,
    seed: impl Into<Seed>,
    watch: &mut Watch<'_>,
) -> Result<LoadResult> {
    let keeps = sim.keeps_contents();
    let Seed { seed, round } = seed.into();
    let Laid { places, mut plans } = lay(name, jobs, host, nsid, seed, keeps)?;
    for (_, plan) in &mut plans {
        plan.round = round;
        // The first seed does what `bench` does.
        if plan.options.randseed.is_none() && plan.options.randrepeat {
            plan.seed = plan.seed.wrapping_add(seed.wrapping_sub(1).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        }
    }
    let mut clones = bench::clones(name, jobs, plans)?;
    let any_zones = clones.iter().any(|(_, job)| job.plan().zones.is_some());
    // Reports of zones go over a queue of their own.
    let mut reports = if any_zones { Some(host.io_queue(1)?) } else { None };
    let mut played = LoadResult::default();
    let mut ended: Vec<EndedJob> = Vec::new();
    let began = SystemTime::now();
    let mut phases: Vec<Stats> = Vec::new();
    let last = jobs.jobs.last().map_or(0, |spec| spec.phase);
    for phase in 0..=last {
        if played.interrupted {
            break;
        }
        watch.phase(phase, last + 1);
        let mut actors = sim.actors::<Prompt>();
        let (mut indices, mut goals) = (Vec::new(), Vec::new());
        let mut begins: Vec<_> =
            clones.extract_if(.., |(index, _)| jobs.jobs[*index].phase == phase).collect();
        if let Some(queue) = &mut reports {
            bench::zones::begin(queue, &places, &mut begins)?;
        }
        for (index, job) in begins {
            let namespace = places[index].namespace;
            goals.push((Goal::of(job.plan()), u64::from(namespace.block_size)));
            indices.push(index);
            let job = Prompt::new(job);
            actors.add(host, namespace.nsid, job).with_context(|| {
                format!(
                    "opening I/O queue {}, one for each job that runs at the same time: reduce numjobs, or let some jobs \
                     wait for others (stonewall)",
                    indices.len()
                )
            })?;
        }
        watch.goals(goals, sim.now());
        let blocks: Vec<u64> =
            indices.iter().map(|index| places[*index].namespace.block_size.into()).collect();
        watch.run(&mut actors, sim, Nanos::MAX, |step| blocks[step.actor])?;
        watch.check_time()?;
        played.interrupted = watch.interrupted();
        let mut together = Stats::default();
        for (number, index) in indices.into_iter().enumerate() {
            let spec = &jobs.jobs[index];
            if !actors.actor(number).job().is_done() {
                if !played.interrupted {
                    played.problems.push(format!("job {}: waits for what never comes", spec.name));
                }
                actors.actor_mut(number).job_mut().abort(sim.now().0);
            }
            let outcome = actors.outcome(number);
            played.requests += outcome.requests;
            let found = actors.actor(number).found();
            if keeps {
                let before = played.found.unwrap_or_default();
                played.found = Some(before.rotate_left(7).wrapping_mul(0x0000_0100_0000_01B3) ^ found);
            }
            played.digest = played.digest.rotate_left(7).wrapping_mul(0x0000_0100_0000_01B3) ^ outcome.digest;
            let job = actors.actor(number).job();
            let failure = watch.failure(number);
            let (error, problems) = worker::problems(
                job,
                failure,
                places[index].namespace.block_size,
                &format!("namespace {}", places[index].namespace.nsid),
            );
            played.problems.extend(problems.iter().map(|problem| format!("job {}: {problem}", spec.name)));
            together.merge(job.stats());
            let elapsed = Duration::from_nanos(job.stats().runtime);
            let stats = job.stats().clone();
            ended.push((index, worker::EndedWorker { stats, error, problems, usage: None, elapsed }));
        }
        phases.push(together);
    }
    played.traffic = moved(&phases);
    let reported = bench::report(jobs, ended);
    played.document = Some(LoadDocument::Fio(FioDocument::new(jobs, &reported, began)));
    played.text = text::summary(&reported, began);
    Ok(played)
}

/// All phases together.
pub(crate) fn moved(phases: &[Stats]) -> [Moved; 3] {
    std::array::from_fn(|direction| {
        let mut all = load_formats::fio::Latency::default();
        let mut moved = Moved::default();
        for traffic in phases.iter().map(|stats| &stats.traffic[direction]).filter(|t| t.ios > 0) {
            moved.ios += traffic.ios;
            moved.bytes += traffic.bytes;
            moved.nanos += traffic.runtime;
            all.merge(&traffic.completion);
        }
        if moved.ios > 0 {
            #[expect(clippy::cast_precision_loss, reason = "for reading")]
            let mean = all.series.sum as f64 / all.series.count.max(1) as f64;
            let at = |millionths| all.quantile(millionths).min(all.series.max);
            moved.mean = mean;
            (moved.p50, moved.p99, moved.p999) = (at(500_000), at(990_000), at(999_000));
            moved.max = all.series.max;
        }
        moved
    })
}
