//! `tranche bench`: fio's job files against any NVMe/TCP target, a file or a block device.
//!
//! Each clone of a job is a thread with an I/O queue, or a file's device, of its own; what it issues is decided by
//! [`load_formats::fio::Job`]. Jobs between two `stonewall`s run at the same time.

mod device;
mod figures;
mod json;
pub(crate) mod memory;
pub(crate) mod progress;
mod reported;
pub(crate) mod text;
pub(crate) mod worker;
pub(crate) mod zones;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow, bail};
use host::{BlockFile, Host, IoQueue, Namespace, NamespaceDevice, Queue, Transport};
use load_formats::fio::{Job, JobFile, Jobs, Plan, Space};
use nvme::feature::{FeatureId, NumberOfQueues};
use nvme::{Nsid, U32};
use serde_json::Value;

use device::JobDevice;
pub use json::FioDocument;
use lab_report::{
    Findings,
    control::{self, Control},
};
use progress::Progress;
pub(crate) use reported::Reported;
pub use reported::per_second;
use worker::{Shared, Worker};
pub(crate) use zones::Place;

/// What to run on, beside the job file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Namespace of all jobs; `None`: those that they name, else the first that is attached.
    pub nsid: Option<Nsid>,
    /// Never sleep while I/Os are outstanding.
    pub poll: bool,
}

/// Runs a job file on a drive. `name` is that of the file, for messages; `-` is standard input. When it is cancelled, the outcome has what
/// was done until then.
///
/// # Errors
/// The file or a job makes no sense; the drive cannot be used. What goes wrong with I/Os is the outcome's
/// failure, beside the results.
pub fn run<T>(
    name: &str,
    text: &str,
    host: &mut Host<T>,
    settings: Settings,
    control: &Control,
) -> Result<Findings<Value>>
where
    T: Transport,
    T::Queue: Send,
{
    let name = file_name(name);
    let jobs = parse(name, text)?;
    let namespaces = namespaces(name, &jobs, host, settings.nsid)?;
    let places = Place::of(host, &namespaces)?;
    let plans = plans(name, &jobs, &spaces(&places), entropy())?;
    zones::check(name, &jobs, &plans, &places)?;
    let mut queues = queues(host, &jobs, &plans)?;
    let clones = clones(name, &jobs, plans)?;
    measure(&jobs, clones, control, |phase, mut clones| {
        if let Some(queue) = queues.first_mut() {
            zones::begin(queue, &places, &mut clones)?;
        }
        let queues = queues.iter_mut().zip(&clones);
        let devices =
            queues.map(|(queue, (index, _))| NamespaceDevice::new(queue.raw(), places[*index].namespace));
        let devices = devices.collect();
        phase.run(clones, devices, settings.poll)
    })
}

/// Runs a job file on a regular file or a block device, as [`run`] does on a drive.
///
/// # Errors
/// Those of [`run`]; a job names a namespace.
pub fn run_on_file(
    name: &str,
    text: &str,
    on: &BlockFile,
    poll: bool,
    control: &Control,
) -> Result<Findings<Value>> {
    let name = file_name(name);
    let jobs = parse(name, text)?;
    if let Some(spec) = jobs.jobs.iter().find(|spec| spec.options.nsid.is_some()) {
        bail!(
            "{name}:{}: job {}: its filename names a namespace, and this runs on {}: leave the filename out",
            spec.line,
            spec.name,
            on.path().display()
        );
    }
    if let Some(spec) = jobs.jobs.iter().find(|spec| spec.options.zones.zoned) {
        bail!(
            "{name}:{}: job {}: zonemode=zbd needs a zoned namespace, and this runs on {}: use --on",
            spec.line,
            spec.name,
            on.path().display()
        );
    }
    let space = Space::new(on.blocks(), on.block_size());
    let plans = plans(name, &jobs, &vec![space; jobs.jobs.len()], entropy())?;
    let depth = |index: usize| jobs.jobs[index].options.iodepth.clamp(1, FILE_DEPTH) as usize;
    memory::check(&jobs, &plans, FILE_DEPTH as usize, host::FileDevice::TRANSFER as usize)?;
    if let Some(spec) = jobs.jobs.iter().find(|spec| spec.options.iodepth > FILE_DEPTH) {
        tracing::warn!("job {}: {FILE_DEPTH} I/Os of a file go at once: the others wait here", spec.name);
    }
    let clones = clones(name, &jobs, plans)?;
    measure(&jobs, clones, control, |phase, clones| {
        let devices = clones.iter().map(|(index, _)| on.device(depth(*index)));
        let devices = devices.collect::<std::io::Result<_>>().context("cannot start a thread")?;
        phase.run(clones, devices, poll)
    })
}

/// What messages call a job file.
fn file_name(name: &str) -> &str {
    if name == "-" { "standard input" } else { name }
}

fn parse(name: &str, text: &str) -> Result<Jobs> {
    let at = |error: load_formats::fio::FileError| anyhow!("{name}:{}: {}", error.line, error.problem);
    let file = JobFile::parse(text, &|name| std::env::var(name).ok()).map_err(at)?;
    let jobs = file.jobs().map_err(at)?;
    for note in &jobs.notes {
        tracing::info!("{note}");
    }
    Ok(jobs)
}

fn entropy() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}

/// The spaces of jobs.
pub(crate) fn spaces(places: &[Place]) -> Vec<Space> {
    places.iter().map(Place::space).collect()
}

/// Runs the jobs phase by phase and makes the results. `run` runs those of one phase.
fn measure(
    jobs: &Jobs,
    mut clones: Vec<(usize, Job)>,
    control: &Control,
    mut run: impl FnMut(&mut Phase<'_>, Vec<(usize, Job)>) -> Result<()>,
) -> Result<Findings<Value>> {
    let mut phase = Phase { jobs, control, ended: Vec::new(), problems: Vec::new() };
    let began = SystemTime::now();
    let last = jobs.jobs.last().map_or(0, |spec| spec.phase);
    for number in 0..=last {
        if control.is_cancelled() {
            break;
        }
        let now = clones.extract_if(.., |(index, _)| jobs.jobs[*index].phase == number).collect();
        run(&mut phase, now)?;
    }
    let Phase { ended, problems, .. } = phase;
    let reported = report(jobs, ended);
    let failure = match (problems.is_empty(), control.is_cancelled()) {
        (false, _) => Some(lines(problems)),
        (true, true) => Some(control::PARTIAL.to_owned()),
        (true, false) => None,
    };
    Ok(Findings {
        results: serde_json::to_value(FioDocument::new(jobs, &reported, began))?,
        written: None,
        text: text::summary(&reported, began),
        failure,
    })
}

/// The namespace that is asked for, or the first that is attached.
///
/// # Errors
/// None is attached, or it cannot be used.
pub fn namespace<T: Transport>(host: &mut Host<T>, nsid: Option<Nsid>) -> Result<Namespace> {
    let nsid = match nsid {
        Some(nsid) => nsid,
        None => *host
            .active_namespaces()?
            .first()
            .context("no namespace is attached to this host: attach one with `tranche ns attach`")?,
    };
    Ok(host.namespace(nsid)?)
}

/// The namespace of each job: the one that is asked for, that of its `filename`, or the first that is attached.
pub(crate) fn namespaces<T: Transport>(
    name: &str,
    jobs: &Jobs,
    host: &mut Host<T>,
    nsid: Option<Nsid>,
) -> Result<Vec<Namespace>> {
    let mut found: Vec<(Option<Nsid>, Namespace)> = Vec::new();
    let mut all = Vec::new();
    for spec in &jobs.jobs {
        let wanted = nsid.or(spec.options.nsid);
        let known = found.iter().find(|(nsid, _)| *nsid == wanted).map(|(_, namespace)| *namespace);
        let namespace = match (known, wanted) {
            (Some(namespace), _) => namespace,
            (None, Some(named)) if nsid.is_none() => {
                let attached = host.active_namespaces()?;
                if !attached.contains(&named) {
                    bail!(
                        "{name}:{}: job {}: its filename names namespace {named}, and attached to this host are {}: attach it, or \
                         give --nsid for all jobs",
                        spec.line,
                        spec.name,
                        host::nsid_list(&attached[..attached.len().min(20)])
                    );
                }
                host.namespace(named)?
            }
            (None, wanted) => namespace(host, wanted)?,
        };
        found.push((wanted, namespace));
        all.push(namespace);
    }
    Ok(all)
}

/// I/Os of one job that go at once to a file: each has a thread.
const FILE_DEPTH: u32 = 64;

/// Lines of what went wrong that are shown.
const LINES: usize = 12;

/// One line for each problem; of many, how many more there are.
pub(crate) fn lines(mut problems: Vec<String>) -> String {
    let more = problems.len().saturating_sub(LINES);
    if more > 0 {
        problems.truncate(LINES);
        problems.push(format!("{more} more problems (each job's error is in the results)"));
    }
    problems.join("\n")
}

/// The plan of every clone of every job, with the index of its job; `spaces` are those of the jobs. `entropy` is the seed where a job wants one that differs
/// from run to run.
///
/// # Errors
/// A job does not fit its space.
pub fn plans(name: &str, jobs: &Jobs, spaces: &[Space], entropy: u64) -> Result<Vec<(usize, Plan)>> {
    let mut all = Vec::new();
    let mut thread = 0;
    for (index, (spec, &space)) in jobs.jobs.iter().zip(spaces).enumerate() {
        for clone in 0..spec.options.numjobs {
            let plan = Plan::new(&spec.options, space, clone, thread, entropy)
                .map_err(|problem| anyhow!("{name}:{}: job {}: {problem}", spec.line, spec.name))?;
            all.push((index, plan));
            thread += 1;
        }
    }
    Ok(all)
}

/// Every clone of every job, with the index of its job.
///
/// # Errors
/// A job does not fit its space.
pub fn clones(name: &str, jobs: &Jobs, plans: Vec<(usize, Plan)>) -> Result<Vec<(usize, Job)>> {
    let job = |(index, plan): (usize, Plan)| {
        let spec = &jobs.jobs[index];
        let job = Job::new(plan)
            .map_err(|problem| anyhow!("{name}:{}: job {}: {problem}", spec.line, spec.name))?;
        Ok((index, job))
    };
    plans.into_iter().map(job).collect()
}

/// As many queues as jobs run at the same time, as deep as the deepest job.
fn queues<T: Transport>(
    host: &mut Host<T>,
    jobs: &Jobs,
    plans: &[(usize, Plan)],
) -> Result<Vec<IoQueue<T::Queue>>> {
    let together = |phase: u32| -> u32 {
        jobs.jobs.iter().filter(|spec| spec.phase == phase).map(|spec| spec.options.numjobs).sum()
    };
    let count = jobs.jobs.iter().map(|spec| together(spec.phase)).max().unwrap_or(0);
    let depth = jobs.jobs.iter().map(|spec| spec.options.iodepth).max().unwrap_or(1);
    let mut queues = Vec::new();
    for made in 0..count {
        let mut queue = host.io_queue(u16::try_from(depth).unwrap_or(u16::MAX)).with_context(|| {
            format!("opening I/O queue {} of {count}, one for each job that runs at the same time", made + 1)
        })?;
        let granted = queue.raw().capacity();
        if made == 0 {
            enough(host, count)?;
            memory::check(jobs, plans, granted, queue.max_transfer())?;
        }
        if made == 0 && granted < depth as usize {
            tracing::warn!(
                "the drive grants {granted} commands at once, iodepth wants {depth}: the others wait here"
            );
        }
        queues.push(queue);
    }
    Ok(queues)
}

/// Whether the drive has granted so many I/O queues, as far as it tells.
pub(crate) fn enough<T: Transport>(host: &mut Host<T>, count: u32) -> Result<()> {
    let granted = match host.feature(FeatureId::NUMBER_OF_QUEUES, 0) {
        Ok(granted) => NumberOfQueues::from_bits(U32::new(granted)),
        // Then the queue that is refused says so.
        Err(error) if error.status().is_some() => return Ok(()),
        Err(error) => return Err(error).context("asking for the number of I/O queues"),
    };
    let granted = u32::from(granted.nsq_z().min(granted.ncq_z())) + 1;
    if granted < count {
        bail!(
            "{count} jobs are to run at the same time, each on an I/O queue of its own, but this drive grants {granted} \
             I/O queues: reduce numjobs, or let some jobs wait for others (stonewall)"
        );
    }
    Ok(())
}

pub(crate) type EndedJob = (usize, worker::EndedWorker);

/// Runs jobs at the same time, and keeps what came of them.
struct Phase<'a> {
    jobs: &'a Jobs,
    control: &'a Control,
    ended: Vec<EndedJob>,
    problems: Vec<String>,
}

impl Phase<'_> {
    /// Runs jobs at the same time, each on a device of its own.
    fn run<D: JobDevice + Send>(
        &mut self,
        clones: Vec<(usize, Job)>,
        devices: Vec<D>,
        poll: bool,
    ) -> Result<()> {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let shared: Vec<Shared> = clones.iter().map(|_| Shared::default()).collect();
        let mut progress = Progress::new(self.control, clones.iter().map(|(_, job)| job.plan()));
        let mut workers = Vec::new();
        for (((index, job), device), shared) in clones.into_iter().zip(devices).zip(&shared) {
            let worker = Worker::new(job, device, poll, &stop, shared, start);
            workers.push((index, worker.map_err(|e| anyhow!(e))?));
        }
        let results = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (index, worker) in workers {
                let name = format!("job {}", self.jobs.jobs[index].name);
                match thread::Builder::new().name(name).spawn_scoped(scope, || worker.run()) {
                    Ok(thread) => threads.push((index, thread)),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        bail!("cannot start a thread: {error}");
                    }
                }
            }
            while !threads.iter().all(|(_, thread)| thread.is_finished()) {
                stop.store(self.control.is_cancelled(), Ordering::Relaxed);
                progress.show(&shared, start.elapsed());
                thread::sleep(Duration::from_millis(20));
            }
            Ok(threads.into_iter().map(|(index, thread)| (index, thread.join())).collect::<Vec<_>>())
        })?;
        drop(progress);
        for (index, result) in results {
            let result = result.map_err(|_| anyhow!("a job's thread panicked"))?;
            let name = &self.jobs.jobs[index].name;
            self.problems.extend(result.problems.iter().map(|problem| format!("job {name}: {problem}")));
            self.ended.push((index, result));
        }
        Ok(())
    }
}

/// Puts together what is reported together.
pub(crate) fn report(jobs: &Jobs, ended: Vec<EndedJob>) -> Vec<Reported<'_>> {
    let mut reported: Vec<Reported<'_>> = Vec::new();
    for (index, ended) in ended {
        let spec = &jobs.jobs[index];
        let same = reported.iter_mut().find(|other| {
            spec.options.group_reporting
                && other.spec.options.group_reporting
                && other.spec.group == spec.group
        });
        match same {
            Some(group) => {
                group.clones += 1;
                group.stats.merge(&ended.stats);
                group.error = if group.error == 0 { ended.error } else { group.error };
                if let (Some(usage), Some(more)) = (&mut group.usage, &ended.usage) {
                    usage.add(more);
                }
                group.elapsed += ended.elapsed;
            }
            None => reported.push(Reported {
                spec,
                clones: 1,
                stats: ended.stats,
                error: ended.error,
                usage: ended.usage,
                elapsed: ended.elapsed,
            }),
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_problems_are_not_all_told() {
        let problems = |count: usize| (0..count).map(|n| format!("job {n}: closed")).collect::<Vec<_>>();
        assert_eq!(lines(problems(2)), "job 0: closed\njob 1: closed");
        let all = lines(problems(500));
        assert_eq!(all.lines().count(), LINES + 1);
        assert!(all.ends_with("488 more problems (each job's error is in the results)"), "{all}");
    }
}
