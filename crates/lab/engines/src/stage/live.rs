//! Under the wall's clock, in this process.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use host::{Host, Identity, NamespaceDevice};
use live::{LocalTransport, Running};

use super::contract::{
    HostJob, INTERVAL, JobResult, MANAGER, Nanos, Script, Stage, StageResult, count, job, nqn,
};
use crate::bench::worker::{Shared, Worker};
use lab_report::{control::Cancel, cpu};

/// A drive in this process.
pub struct LiveStage {
    // Hosts go before the drive.
    manager: Host<LocalTransport>,
    hosts: Vec<Host<LocalTransport>>,
    _running: Running,
    /// Nanoseconds of the wall for one of the drive.
    pace: u32,
    cancel: Cancel,
}

impl LiveStage {
    pub(super) fn new(running: Running, hosts: usize, pace: u32, cancel: Cancel) -> Result<Self> {
        let connect = |name: &str| -> Result<Host<LocalTransport>> {
            let identity = Identity::new(name.parse().map_err(|e| anyhow!("host NQN {name:?}: {e}"))?);
            Host::connect(LocalTransport::new(running.handle()), &identity).context("connecting to the drive")
        };
        let manager = connect(MANAGER)?;
        let hosts = (0..hosts).map(|n| connect(&nqn(n))).collect::<Result<_>>()?;
        Ok(Self { manager, hosts, _running: running, pace, cancel })
    }
}

/// How often counters are read for the intervals.
const COUNTER_POLL_INTERVAL: Duration = Duration::from_millis(5);

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Stage for LiveStage {
    type Transport = LocalTransport;

    const ENGINE: &'static str = "live";

    fn manager(&mut self) -> &mut Host<LocalTransport> {
        &mut self.manager
    }

    fn play(&mut self, loads: &[HostJob], script: &mut Script<'_, LocalTransport>) -> Result<StageResult> {
        let mut queues = Vec::new();
        for (thread, load) in (0..).zip(loads) {
            let host = self.hosts.get_mut(load.host).context("no such host")?;
            let namespace = host.namespace(load.nsid)?;
            let job = job(load, &namespace, thread)?;
            let depth = u16::try_from(job.plan().options.iodepth).unwrap_or(u16::MAX);
            queues.push((job, namespace, host.io_queue(depth)?));
        }
        let stop = AtomicBool::new(false);
        let shared: Vec<Shared> = loads.iter().map(|_| Shared::default()).collect();
        let me = [("tranche", std::process::id())];
        let before = cpu::Sample::take(&me);
        let start = Instant::now();
        let mut bytes = vec![Vec::new(); loads.len()];
        let processors = thread::available_parallelism().map_or(1, Into::into);
        let mut workers = Vec::new();
        for ((job, namespace, queue), shared) in queues.iter_mut().zip(&shared) {
            // How long its I/Os take is what a load with a rate is there for: its thread does not sleep, or waking it up would be
            // a part of that.
            let options = &job.plan().options;
            let poll = processors > 1 && options.rate_iops.iter().chain(&options.rate).any(|rate| *rate > 0);
            let worker = Worker::new(
                job.clone(),
                NamespaceDevice::new(queue.raw(), *namespace),
                poll,
                &stop,
                shared,
                start,
            );
            let mut worker = worker.map_err(|e| anyhow!(e))?;
            worker.pace = self.pace;
            workers.push(worker);
        }
        let (manager, cancel) = (&mut self.manager, &self.cancel);
        let pace = u64::from(self.pace);
        let ended = thread::scope(|scope| {
            let mut threads = Vec::new();
            for worker in workers {
                let thread = thread::Builder::new().name("load".into());
                match thread.spawn_scoped(scope, || worker.run()) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        bail!("cannot start a thread: {error}");
                    }
                }
            }
            let mut seen = vec![0; shared.len()];
            let mut next = Some(0);
            let mut failure = None;
            loop {
                let over = threads.iter().all(|thread| thread.is_finished());
                let now = nanos(start.elapsed()) / pace;
                for ((shared, seen), bytes) in shared.iter().zip(&mut seen).zip(&mut bytes) {
                    let total: u64 = shared.bytes.iter().map(|b| b.load(Ordering::Relaxed)).sum();
                    count(bytes, now.saturating_sub(nanos(COUNTER_POLL_INTERVAL) / pace / 2), total - *seen);
                    *seen = total;
                }
                if over {
                    break;
                }
                if cancel.is_cancelled() {
                    stop.store(true, Ordering::Relaxed);
                }
                if next.is_some_and(|at| at <= now) && failure.is_none() {
                    match script(manager, now) {
                        Ok(at) => next = at,
                        Err(error) => {
                            failure = Some(error);
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
                let wait = next.map_or(COUNTER_POLL_INTERVAL, |at| {
                    Duration::from_nanos(at.saturating_sub(now).saturating_mul(pace))
                        .min(COUNTER_POLL_INTERVAL)
                });
                thread::sleep(wait.max(Duration::from_micros(100)));
            }
            match failure {
                Some(error) => Err(error),
                None => Ok(threads.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()),
            }
        })?;
        let threads = u32::try_from(loads.len()).unwrap_or(u32::MAX);
        let cpu = cpu::Sample::take(&me).since(&before, threads);
        self.cancel.check()?;
        let mut ran = Vec::new();
        for (ended, bytes) in ended.into_iter().zip(bytes) {
            let ended = ended.map_err(|_| anyhow!("a job's thread panicked"))?;
            if let Some(problem) = ended.problems.first() {
                bail!("{problem}");
            }
            ran.push(JobResult::new(ended.stats, bytes, 0));
        }
        Ok(StageResult { loads: ran, cpu })
    }
}

const _: () =
    assert!(INTERVAL > 2 * COUNTER_POLL_INTERVAL.as_nanos() as u64, "intervals are longer than looks");
