//! A test: its load, what is seen of it, and what comes of it.

use anyhow::{Result, anyhow, bail};
use hdrhistogram::Histogram;
use host::{Host, Transport};
use load_formats::act::{self, Act, ActProgram, HostTime, LIMITS, Stop, Window};
use nvme::{NSID_ALL, Nsid};
use workload::{Request, Verb};

use super::published::THREADS;
use lab_report::{
    counters::{Counters, flash_bytes_written, write_amplification},
    results::{Cpu, Percentiles, Point, Run},
};

/// Host NQN of the load.
pub(super) const NQN: &str = "nqn.2026-11.io.tranche:act";
/// Names of the devices, as the tool would be told.
pub(super) fn names(nsids: &[Nsid]) -> Vec<String> {
    nsids.iter().map(|nsid| format!("/dev/nvme0n{nsid}")).collect()
}

/// Bytes of a large block.
pub(super) const LARGE_BLOCK_BYTES: u64 = 128 << 10;
/// A thread that is behind by this share of the test's length (1 in …) at its end does not keep up: in the 24 hours of the real test, where 10 seconds are
/// allowed, it would be stopped.
const LAG_DIVISOR: u64 = 100;
pub(super) const SECOND: u64 = 1_000_000_000;

/// Why a multiple does not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// The one thread of each device that reads large blocks is behind, or the one that writes them, or requests queue up.
    Behind(Stop),
    /// Too many small reads take longer than a limit of the tool: its index in [`LIMITS`].
    Latency(usize),
}

impl Limit {
    pub(super) fn text(self) -> String {
        match self {
            Limit::Behind(Stop::LargeBlockReads) => "the threads that read large blocks".into(),
            Limit::Behind(Stop::LargeBlockWrites) => "the threads that write large blocks".into(),
            Limit::Behind(Stop::Service | Stop::Queued | Stop::Cache) => "the threads of small reads".into(),
            Limit::Latency(index) => {
                let (nanos, mille) = LIMITS[index];
                format!("reads over {} ms ({}.{} % allowed)", nanos / 1_000_000, mille / 10, mille % 10)
            }
        }
    }
}

/// How long a test takes, in seconds: until it is measured, and measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    pub ramp: u32,
    pub window: u32,
}

/// A test to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Load as a multiple of 2,000 reads and 1,000 writes per second, of the whole drive.
    pub multiple: u32,
    pub length: Length,
    /// What the application's machine takes.
    pub host_time: HostTime,
    pub seed: u64,
}

impl Plan {
    /// The tool on devices of these names.
    pub fn act(&self, names: Vec<String>, spaces: &[act::Space]) -> Result<Act> {
        let (service, queues, each) = THREADS;
        let seconds = self.length.ramp + self.length.window;
        let config = act::Config {
            test_duration_sec: seconds,
            report_interval_sec: seconds,
            read_reqs_per_sec: self.multiple * 2000,
            write_reqs_per_sec: self.multiple * 1000,
            service_threads: service,
            num_queues: queues,
            threads_per_queue: each,
            ..act::Config::standard(ActProgram::Storage, names)
        };
        let act = Act::new(config, spaces, self.seed, 1).map_err(|problem| anyhow!(problem))?;
        Ok(act.on_host(self.host_time))
    }

    /// With the random numbers of a drive's so many-th test.
    pub fn numbered(self, trial: u64) -> Self {
        Self { seed: self.seed ^ trial.wrapping_mul(0x9E37_79B9_7F4A_7C15), ..self }
    }

    /// Nanoseconds from its start until it is measured, and until it ends.
    pub fn times(&self) -> (u64, u64) {
        let from = u64::from(self.length.ramp) * SECOND;
        (from, from + u64::from(self.length.window) * SECOND)
    }
}

/// What the drive has counted of all namespaces together.
pub(super) struct Counted {
    statistics: Counters,
    /// Bytes programmed on flash.
    programmed: u64,
}

impl Counted {
    pub fn read<T: Transport>(host: &mut Host<T>) -> Result<Self> {
        Ok(Self { statistics: Counters::read(host, NSID_ALL)?, programmed: flash_bytes_written(host)? })
    }
}

/// What a test was.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// See [`Plan`].
    pub multiple: u32,
    /// Why it does not pass, if it does not.
    pub limit: Option<Limit>,
    /// Small reads of the measured window.
    pub window: Window,
    /// Their latencies, in milliseconds.
    pub latency: Percentiles,
    /// 99th percentile of large-block reads and writes, in milliseconds.
    pub large_p99_ms: [f64; 2],
    /// Mean of the same.
    pub large_mean_ms: [f64; 2],
    /// Large blocks read and written per second.
    pub large: [f64; 2],
    /// Bytes programmed on flash for each that was written.
    pub write_amplification: f64,
    /// Seconds that were measured, and before that.
    pub seconds: f64,
    pub ramp_seconds: f64,
    /// What the drive counted, until what was outstanding at the end had ended.
    pub drive: Counters,
    /// The machine meanwhile, and the mean time by which it looked later than the load wanted, in the drive's milliseconds; nothing in virtual time.
    pub cpu: Cpu,
    pub late_ms: f64,
}

/// What is seen of a test while it runs.
pub(super) struct Seen {
    /// Of small reads, and of large blocks read and written.
    latencies: [Histogram<u64>; 3],
    /// Large blocks written, also before it is measured.
    written: u64,
    /// When it is measured from.
    from: u64,
    large_blocks: u32,
}

impl Seen {
    /// From this time on it is measured.
    pub fn new(from: u64, spaces: &[act::Space]) -> Result<Self> {
        let one = || Histogram::new_with_bounds(1000, 100 * SECOND, 3);
        let block = spaces.first().map_or(512, |space| space.block_bytes);
        let large_blocks = (LARGE_BLOCK_BYTES / u64::from(block)) as u32;
        Ok(Self { latencies: [one()?, one()?, one()?], written: 0, from, large_blocks })
    }

    /// A request has ended at `now`.
    pub fn add(&mut self, request: &Request, now: u64, latency: u64) {
        let large = request.blocks == self.large_blocks;
        let write = request.verb == Verb::Write;
        self.written += u64::from(large && write);
        if now < self.from {
            return;
        }
        let [small, reads, writes] = &mut self.latencies;
        let histogram = match (large, write) {
            (false, _) => small,
            (true, false) => reads,
            (true, true) => writes,
        };
        histogram.saturating_record(latency);
    }

    /// What came of it. `behind` is the thread that is furthest behind at the end.
    pub fn judge(
        self,
        plan: &Plan,
        act: &Act,
        behind: Option<(u64, Stop)>,
        before: &Counted,
        after: &Counted,
    ) -> Result<Trial> {
        let length = plan.length;
        let windows = act.windows();
        let window = windows.iter().skip(length.ramp as usize).fold(Window::default(), sum);
        let stopped = act.stopped().map(Limit::Behind);
        if stopped.is_none() && windows.len() != (length.ramp + length.window) as usize {
            bail!("the test has {} windows: {} were expected", windows.len(), length.ramp + length.window);
        }
        if act.failed() > 0 {
            bail!("{} requests of the test failed", act.failed());
        }
        let programmed = after.programmed.saturating_sub(before.programmed);
        let allowed = u64::from(length.window) * SECOND / LAG_DIVISOR;
        let slow =
            LIMITS.iter().zip(window.over).position(|((_, mille), over)| over * 1000 >= window.reads * mille);
        let limit = stopped
            .or_else(|| behind.filter(|(lag, _)| *lag > allowed).map(|(_, who)| Limit::Behind(who)))
            .or_else(|| slow.filter(|_| window.reads > 0).map(Limit::Latency));
        let seconds = f64::from(length.window);
        let [small, large_reads, large_writes] = &self.latencies;
        Ok(Trial {
            multiple: plan.multiple,
            limit,
            window,
            latency: Percentiles::of(small, 1e6),
            large_p99_ms: [large_reads, large_writes].map(|h| h.value_at_quantile(0.99) as f64 / 1e6),
            large_mean_ms: [large_reads, large_writes].map(|h| h.mean() / 1e6),
            large: [large_reads, large_writes].map(|h| h.len() as f64 / seconds),
            write_amplification: write_amplification(programmed, self.written.max(1) * LARGE_BLOCK_BYTES)
                .unwrap_or(0.0),
            seconds,
            ramp_seconds: f64::from(length.ramp),
            drive: after.statistics.since(&before.statistics),
            ..Trial::default()
        })
    }
}

impl Trial {
    /// Small reads per second.
    pub fn reads_per_second(&self) -> f64 {
        self.window.reads as f64 / self.seconds
    }

    /// Megabytes of large blocks per second, read and written.
    pub fn large_mb(&self) -> f64 {
        (self.large[0] + self.large[1]) * LARGE_BLOCK_BYTES as f64 / 1e6
    }

    /// Small reads over a limit of the tool, in per cent.
    pub fn over(&self, index: usize) -> f64 {
        100.0 * self.window.over[index] as f64 / self.window.reads.max(1) as f64
    }

    /// As a run of the results.
    pub fn run(&self, at: Point, repetition: u32) -> Run {
        let mut run = Run {
            at,
            repetition,
            seconds: self.seconds,
            warmup_seconds: self.ramp_seconds,
            cpu: self.cpu.clone(),
            ..Run::default()
        };
        for (name, value) in [
            ("reads_per_second", self.reads_per_second()),
            ("large_block_MBps", self.large_mb()),
            ("reads_over_1ms_percent", self.over(0)),
            ("reads_over_8ms_percent", self.over(1)),
            ("reads_over_64ms_percent", self.over(2)),
            ("large_block_read_mean_ms", self.large_mean_ms[0]),
            ("large_block_write_mean_ms", self.large_mean_ms[1]),
            ("large_block_read_p99_ms", self.large_p99_ms[0]),
            ("large_block_write_p99_ms", self.large_p99_ms[1]),
            ("write_amplification", self.write_amplification),
        ] {
            run.metrics.insert(name.into(), value);
        }
        run.latency_ms.insert("small_reads".into(), self.latency);
        run
    }
}

fn sum(all: Window, next: &Window) -> Window {
    let mut over = all.over;
    for (count, next) in over.iter_mut().zip(next.over) {
        *count += next;
    }
    Window { reads: all.reads + next.reads, over }
}
