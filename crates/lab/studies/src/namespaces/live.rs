//! Tests under the wall's clock, on a drive in this process.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use blockdev::{Geometry, Namespace, Nanos, Operation, Parts};
use host::{Host, Identity, OperationQueue, TransportError};
use live::{LocalQueue, LocalTransport, Running};
use load_formats::act::{self, Act};
use nvme::Nsid;
use workload::{
    Actor, Next,
    executor::{Executor, Finished, Target},
};

use super::trial::{Counted, NQN, Plan, Seen, Trial, names};
use lab_report::{control::Cancel, cpu};

/// Commands that the queue may have outstanding.
const DEPTH: u16 = 1023;
/// How long is waited for what is outstanding at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Where there is only one processor, the load's thread leaves it to the drive's for so long at most.
const YIELD_TIME: Duration = Duration::from_millis(1);
/// Turns between two looks at what the user wants.
const TURNS_PER_CHECK: u64 = 4096;

/// A drive that runs under the wall's clock.
pub(super) struct LiveActDrive {
    // The host goes before the drive.
    host: Host<LocalTransport>,
    _running: Running,
    nsids: Vec<Nsid>,
    spaces: Vec<act::Space>,
    slow_motion: u32,
    cancel: Cancel,
}

impl LiveActDrive {
    pub(super) fn new(
        running: Running,
        nsids: Vec<Nsid>,
        spaces: Vec<act::Space>,
        slow_motion: u32,
        cancel: Cancel,
    ) -> Result<Self> {
        let identity = Identity::new(NQN.parse().map_err(|e| anyhow!("host NQN {NQN:?}: {e}"))?);
        let transport = LocalTransport::new(running.handle());
        let host = Host::connect(transport, &identity).context("connecting to the drive")?;
        Ok(Self { host, _running: running, nsids, spaces, slow_motion: slow_motion.max(1), cancel })
    }

    /// A test, on all namespaces; all times are the drive's.
    pub(super) fn test(mut self, plan: &Plan) -> Result<Trial> {
        let act = plan.act(names(&self.nsids), &self.spaces)?;
        let namespaces = self.nsids.clone().into_iter().map(|nsid| self.host.namespace(nsid));
        let namespaces: Vec<Namespace> = namespaces.collect::<Result<_, _>>()?;
        let geometries: Vec<Geometry> = namespaces.iter().map(Namespace::geometry).collect();
        let queue = OperationQueue::new(self.host.io_queue(DEPTH)?.into_raw());
        let mut executor = Executor::new(act, &geometries).context("the drive takes no blocks")?;
        let before = Counted::read(&mut self.host)?;
        let (from, end) = plan.times();
        let mut seen = Seen::new(from, &self.spaces)?;
        let me = [("tranche", std::process::id())];
        let sample = cpu::Sample::take(&me);
        let mut live = LiveTest::new(queue, namespaces, self.slow_motion, self.cancel.clone());
        let late = live.play(&mut executor, end, |finished, now| {
            seen.add(&finished.request, now, finished.latency);
        })?;
        // What is outstanding no longer counts.
        let mut act = executor.into_actor();
        let behind = act.behind(end);
        // The test is over: it makes its last window.
        while let Next::Submit(_) = act.next(end) {}
        live.drain()?;
        drop(live);
        let cpu = cpu::Sample::take(&me).since(&sample, 1);
        let after = Counted::read(&mut self.host)?;
        let trial = seen.judge(plan, &act, behind, &before, &after)?;
        Ok(Trial { cpu, late_ms: late, ..trial })
    }
}

/// The drive's namespaces on one queue.
struct Devices {
    queue: OperationQueue<LocalQueue>,
    namespaces: Vec<Namespace>,
}

impl Target for Devices {
    type Error = TransportError;

    fn room(&self, _parts: &Parts) -> usize {
        self.queue.room()
    }

    fn submit(
        &mut self,
        _now: Nanos,
        namespace: u16,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), TransportError> {
        self.queue.submit(&self.namespaces[usize::from(namespace)], tag, part, data)
    }
}

/// The clock of a test, and where its requests go.
struct LiveTest {
    devices: Devices,
    start: Instant,
    slow_motion: u64,
    processors: usize,
    cancel: Cancel,
}

impl LiveTest {
    fn new(
        queue: OperationQueue<LocalQueue>,
        namespaces: Vec<Namespace>,
        slow_motion: u32,
        cancel: Cancel,
    ) -> Self {
        Self {
            devices: Devices { queue, namespaces },
            start: Instant::now(),
            slow_motion: slow_motion.into(),
            cancel,
            processors: std::thread::available_parallelism().map_or(1, Into::into),
        }
    }

    /// The drive's nanoseconds since the start.
    fn now(&self) -> Nanos {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX) / self.slow_motion
    }

    /// Runs an actor until a time. This thread does not sleep where there is another processor for the drive's: to be woken up would be a part of what is
    /// measured. Returns by how much later than the actor wanted it was asked, on average, in milliseconds.
    fn play(
        &mut self,
        executor: &mut Executor<Act>,
        end: Nanos,
        mut ended: impl FnMut(&Finished, Nanos),
    ) -> Result<f64> {
        self.start = Instant::now();
        let (mut late, mut times) = (0u64, 0u64);
        for turn in 0u64.. {
            if turn.is_multiple_of(TURNS_PER_CHECK) {
                self.cancel.check()?;
            }
            // The actor's time begins now.
            let now = if turn == 0 { 0 } else { self.now() };
            if now >= end {
                break;
            }
            if executor.wake() <= now {
                late += now - executor.wake();
                times += 1;
            }
            executor.ask(now, &mut self.devices)?;
            if executor.has_ended() {
                // It has stopped before its time.
                break;
            }
            let mut found = false;
            while let Some(completed) = self.devices.queue.next(Some(Duration::ZERO))? {
                found = true;
                let now = self.now();
                if let Some(finished) = executor.complete(now, completed, true) {
                    ended(&finished, now);
                }
                executor.resume(now, &mut self.devices)?;
            }
            if !found && self.processors == 1 {
                let span = executor.wake().saturating_sub(now).saturating_mul(self.slow_motion);
                std::thread::sleep(Duration::from_nanos(span).min(YIELD_TIME));
            }
        }
        Ok(mean(late, times))
    }

    /// Waits for what is outstanding.
    fn drain(&mut self) -> Result<()> {
        let limit = Instant::now() + DRAIN_TIMEOUT;
        let queue = &mut self.devices.queue;
        while queue.outstanding() > 0 {
            self.cancel.check()?;
            if Instant::now() > limit {
                bail!("the drive leaves commands without an answer");
            }
            queue.next(Some(YIELD_TIME))?;
        }
        Ok(())
    }
}

/// Milliseconds.
fn mean(nanos: u64, times: u64) -> f64 {
    nanos as f64 / times.max(1) as f64 / 1e6
}
