//! What happened in each interval of a run.

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use live::SetSnapshot;
use sim::{Nanos, Sim, Step};
use workload::Verb;

use crate::bench::per_second;
use lab_report::{
    counters::write_amplification,
    sheet::{Cell, NamedCell as Column},
};

/// Moments of an interval at which it is looked how many dies work.
const SAMPLES_PER_INTERVAL: u64 = 16;
/// Intervals of a run at most.
const MAX_INTERVALS: usize = 1_000_000;

/// Names of columns of reads, writes and trims.
const NAMES: [[&str; 8]; 3] = [
    [
        "read_ios",
        "read_bytes",
        "read_iops",
        "read_bytes_per_second",
        "read_mean_us",
        "read_p50_us",
        "read_p99_us",
        "read_max_us",
    ],
    [
        "write_ios",
        "write_bytes",
        "write_iops",
        "write_bytes_per_second",
        "write_mean_us",
        "write_p50_us",
        "write_p99_us",
        "write_max_us",
    ],
    [
        "trim_ios",
        "trim_bytes",
        "trim_iops",
        "trim_bytes_per_second",
        "trim_mean_us",
        "trim_p50_us",
        "trim_p99_us",
        "trim_max_us",
    ],
];

/// Requests of one kind that ended in an interval.
struct Ended {
    bytes: u64,
    sum: u64,
    max: u64,
    latencies: Histogram<u64>,
}

impl Ended {
    fn new() -> Result<Self> {
        // Percentiles within 1 %, up to more than an hour.
        Ok(Self { bytes: 0, sum: 0, max: 0, latencies: Histogram::new_with_bounds(1, 1 << 42, 2)? })
    }

    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn columns(&self, names: [&'static str; 8], nanos: u64) -> [Column; 8] {
        let ios = self.latencies.len();
        let real = |value: f64| Cell::real((ios > 0).then_some(value));
        let quantile = |at| real(self.latencies.value_at_quantile(at).min(self.max) as f64 / 1e3);
        let [count, bytes, iops, rate, mean, p50, p99, max] = names;
        [
            (count, Cell::whole(ios)),
            (bytes, Cell::whole(self.bytes)),
            (iops, Cell::real(per_second(ios, nanos))),
            (rate, Cell::real(per_second(self.bytes, nanos))),
            (mean, real(self.sum as f64 / ios.max(1) as f64 / 1e3)),
            (p50, quantile(0.5)),
            (p99, quantile(0.99)),
            (max, real(self.max as f64 / 1e3)),
        ]
    }

    fn clear(&mut self) {
        (self.bytes, self.sum, self.max) = (0, 0, 0);
        self.latencies.reset();
    }
}

/// What the drive's flash has counted so far.
#[derive(Clone, Copy, Default)]
struct Flash {
    host: u64,
    programmed: u64,
    moved: u64,
    collections: u64,
    collected_pages: u64,
    erases: u64,
}

impl Flash {
    /// With the superblocks that are free.
    fn of(sets: &[SetSnapshot]) -> (Self, u64) {
        let (mut all, mut free) = (Self::default(), 0);
        for set in sets.iter().filter(|set| set.medium == "nand") {
            all.host += set.counts.host_written_bytes;
            all.programmed += set.counts.media_written_bytes;
            all.moved += set.counts.media_gc_bytes;
            all.collections += set.counts.collections;
            all.collected_pages += set.counts.collected_pages;
            all.erases += set.counts.erases;
            free += u64::from(set.info.free_superblocks);
        }
        (all, free)
    }

    fn columns(&self, before: &Self, free: u64) -> [Column; 8] {
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let (host, programmed) = (since(self.host, before.host), since(self.programmed, before.programmed));
        [
            ("flash_host_bytes_written", Cell::whole(host)),
            ("nand_bytes_written", Cell::whole(programmed)),
            ("nand_bytes_moved", Cell::whole(since(self.moved, before.moved))),
            ("write_amplification", Cell::real(write_amplification(programmed, host))),
            ("collections", Cell::whole(since(self.collections, before.collections))),
            ("collected_pages", Cell::whole(since(self.collected_pages, before.collected_pages))),
            ("erases", Cell::whole(since(self.erases, before.erases))),
            ("free_superblocks", Cell::whole(free)),
        ]
    }
}

/// An interval, from and to these times of the run.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn row(span: [Nanos; 2], ended: &[Ended; 3], flash: [Column; 8], dies_busy: Option<f64>) -> Vec<Column> {
    let seconds = |at: Nanos| Cell::real(at.0 as f64 / 1e9);
    let mut row = vec![("begin_seconds", seconds(span[0])), ("end_seconds", seconds(span[1]))];
    for (ended, names) in ended.iter().zip(NAMES) {
        row.extend(ended.columns(names, span[1].since(span[0]).0));
    }
    row.extend(flash);
    row.push(("dies_busy", Cell::real(dies_busy)));
    row
}

/// The columns of an interval.
///
/// # Errors
/// There is no memory for histograms.
pub(super) fn template() -> Result<Vec<Column>> {
    let ended = [Ended::new()?, Ended::new()?, Ended::new()?];
    let flash = Flash::default();
    Ok(row([Nanos::ZERO, Nanos(1)], &ended, flash.columns(&flash, 0), None))
}

/// Collects it.
pub(crate) struct Series {
    interval: u64,
    /// When the run began, and the interval at hand.
    origin: Nanos,
    begin: Nanos,
    /// Looks at the dies in this interval, and dies that worked, of so many.
    looks: u64,
    busy: u64,
    dies: u64,
    ended: [Ended; 3],
    before: Flash,
    rows: Vec<Vec<Column>>,
}

impl Series {
    /// Begins, with intervals of so many nanoseconds, at least [`SAMPLES_PER_INTERVAL`].
    pub fn new(interval: u64, sim: &Sim) -> Result<Self> {
        Ok(Self {
            interval: interval.max(SAMPLES_PER_INTERVAL),
            origin: sim.now(),
            begin: sim.now(),
            looks: 0,
            busy: 0,
            dies: 0,
            ended: [Ended::new()?, Ended::new()?, Ended::new()?],
            before: Flash::of(&sim.snapshot().sets).0,
            rows: Vec::new(),
        })
    }

    /// When it wants to look again.
    pub fn next(&self) -> Nanos {
        let into = u128::from(self.interval) * u128::from(self.looks + 1) / u128::from(SAMPLES_PER_INTERVAL);
        self.begin + Nanos(u64::try_from(into).unwrap_or(u64::MAX))
    }

    /// A request has ended that moved so many bytes.
    #[inline]
    pub fn step(&mut self, step: &Step<'_>, bytes: u64) {
        let index = match step.request.verb.plain() {
            Verb::Read => 0,
            Verb::Write => 1,
            Verb::Trim => 2,
            _ => return,
        };
        if step.status.is_success() {
            let (ended, latency) = (&mut self.ended[index], step.latency.0);
            ended.latencies.saturating_record(latency);
            ended.bytes += bytes;
            ended.sum = ended.sum.saturating_add(latency);
            ended.max = ended.max.max(latency);
        }
    }

    /// Looks, as often as it wanted to until now.
    ///
    /// # Errors
    /// There were too many intervals.
    pub fn look(&mut self, sim: &Sim) -> Result<()> {
        while self.next() <= sim.now() {
            let (busy, dies) = sim.busy_dies();
            (self.busy, self.dies) = (self.busy + u64::from(busy), self.dies + u64::from(dies));
            self.looks += 1;
            if self.looks == SAMPLES_PER_INTERVAL {
                self.close(sim, self.begin + Nanos(self.interval))?;
            }
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn close(&mut self, sim: &Sim, end: Nanos) -> Result<()> {
        if self.rows.len() == MAX_INTERVALS {
            bail!("the run has more than {MAX_INTERVALS} intervals: take longer ones");
        }
        let span = [self.begin, end].map(|at| at.since(self.origin));
        let (flash, free) = Flash::of(&sim.snapshot().sets);
        let share = (self.dies > 0).then(|| self.busy as f64 / self.dies as f64);
        self.rows.push(row(span, &self.ended, flash.columns(&self.before, free), share));
        self.ended.iter_mut().for_each(Ended::clear);
        (self.begin, self.before) = (end, flash);
        (self.looks, self.busy, self.dies) = (0, 0, 0);
        Ok(())
    }

    /// The intervals. The last one may be shorter.
    ///
    /// # Errors
    /// There were too many.
    pub fn end(mut self, sim: &Sim) -> Result<Vec<Vec<Column>>> {
        self.look(sim)?;
        if self.begin < sim.now() {
            self.close(sim, sim.now())?;
        }
        Ok(self.rows)
    }
}
