//! The drives without a file system: steady writes, and reads beside writes (figures 1 and 5 of the paper).

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use host::Host;
use sim::{Actors, Contents, Nanos, Sim, SimTransport, Step};
use workload::{Pace, Ranges, RangesConfig, Verb, ZoneAction};

use lab_models::rocksdb::chips::{Chips, Layout};
use lab_report::{
    control::Control,
    counters::{Counters, NamespaceCounts},
    results::{Point, Run},
};

/// Host NQN of the load.
const NQN: &str = "nqn.2026-11.io.tranche:zoned";

/// Zones, or ranges of as many bytes, that are written at the same time (\[ATC\] section 5).
const WRITERS: u32 = 4;
/// Bytes of a write, and of a read (\[ATC\] section 5).
const WRITE_BYTES: u32 = 64 << 10;
/// See [`WRITE_BYTES`].
const READ_BYTES: u32 = 4 << 10;

/// Passes over the drive before the measurement: garbage collection is steady by then. The first one fills the drive.
const WARM_PASSES: u64 = 4;
/// Passes that are measured: a single one has a write amplification that is up to 5 % off the mean.
const MEASURED_PASSES: u64 = 2;

/// Nanoseconds between two looks at the work done.
const SLICE_NANOS: u64 = 20_000_000;

/// A drive with its load: four writers in ranges of the size of a zone, which are reset or deallocated before they are written again. On the conventional
/// drive a range has the size of a superblock, as in the paper.
pub(super) struct Raw {
    sim: Sim,
    host: Host<SimTransport>,
    actors: Actors<Ranges>,
    /// Logical blocks of all ranges, and bytes of a block.
    blocks: u64,
    block_bytes: u32,
    repetition: u32,
}

/// What happened in a part of a run.
struct Part {
    counted: Counters,
    seconds: f64,
    written_bytes: u64,
    read_latency: Histogram<u64>,
}

impl Raw {
    /// A new drive of this layout.
    pub(super) fn new(chips: &Chips, layout: Layout, seed: u64, repetition: u32) -> Result<Self> {
        let sim = Sim::new(chips.config(layout)?, Contents::None)?;
        let mut host = sim.host(NQN).context("connecting to the drive")?;
        let namespace = host.namespace(1)?;
        let block_bytes = namespace.block_size;
        let capacity = chips.zone_capacity(layout) / u64::from(block_bytes);
        let (size, give_back) = match layout {
            Layout::Zones(_) => (capacity.next_power_of_two(), Verb::Zone(ZoneAction::Reset)),
            Layout::Spare7 | Layout::Spare28 => (capacity, Verb::Trim),
        };
        let ranges = u32::try_from(namespace.blocks / size)?;
        let config = RangesConfig {
            ranges,
            size,
            capacity: u32::try_from(capacity)?,
            writers: WRITERS,
            blocks: WRITE_BYTES / block_bytes,
            read_blocks: READ_BYTES / block_bytes,
            give_back,
            seed,
        };
        let mut actors = sim.actors();
        actors.add(&mut host, 1, Ranges::new(config))?;
        Ok(Self { sim, host, actors, blocks: u64::from(ranges) * capacity, block_bytes, repetition })
    }

    /// Lets the load run until `enough`, which sees the blocks that were written and the time.
    fn run(
        &mut self,
        control: &Control,
        mut enough: impl FnMut(u64, Nanos) -> bool,
        mut each: impl FnMut(&Step<'_>),
    ) -> Result<()> {
        while !enough(self.actors.actor(0).written(), self.sim.now()) {
            control.check()?;
            let slice = Nanos(self.sim.now().0 + SLICE_NANOS);
            self.actors.run(slice, |step| {
                each(step);
                false
            });
            let failed = self.actors.actor(0).failed();
            if failed > 0 {
                bail!("{failed} commands failed");
            }
        }
        Ok(())
    }

    /// The number of written blocks after this many more passes over the drive.
    fn end_of(&self, passes: u64) -> u64 {
        self.actors.actor(0).written() + passes * self.blocks
    }

    /// Runs a part, and counts.
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    fn part(&mut self, control: &Control, enough: impl FnMut(u64, Nanos) -> bool) -> Result<Part> {
        let (before, begin) = (Counters::read(&mut self.host, 1)?, self.sim.now());
        let written = self.actors.actor(0).written();
        let mut read_latency = Histogram::new(3)?;
        self.run(control, enough, |step| {
            if step.request.verb == Verb::Read {
                let _ = read_latency.record(step.latency.0);
            }
        })?;
        let seconds = self.sim.now().since(begin).0 as f64 / 1e9;
        let written_bytes = (self.actors.actor(0).written() - written) * u64::from(self.block_bytes);
        let counted = Counters::read(&mut self.host, 1)?.since(&before);
        Ok(Part { counted, seconds, written_bytes, read_latency })
    }

    /// Overwrites the drive until garbage collection is steady, and measures. Returns a run with the metric `steady_write_MiBps`.
    pub(super) fn steady(&mut self, control: &Control) -> Result<Run> {
        let begin = self.end_of(WARM_PASSES);
        self.run(control, |written, _| written >= begin, |_| {})?;
        let end = self.end_of(MEASURED_PASSES);
        let part = self.part(control, |written, _| written >= end)?;
        let mut run = self.run_of(&part);
        run.metrics.insert("steady_write_MiBps".into(), part.mib_per_second());
        Ok(run)
    }

    /// Reads 4 KiB at random, one at a time, beside this many MiB/s of writes; 0: none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a time, and latencies"
    )]
    pub(super) fn reads(&mut self, writes: u64, seconds: f64, control: &Control) -> Result<Run> {
        let rate = (writes << 20) / u64::from(self.block_bytes);
        let now = self.sim.now();
        self.actors.actor_mut(0).change_load(now.0, Pace::BlocksPerSecond(rate), true);
        // What was behind is done first.
        let nanos = (seconds * 1e9) as u64;
        let (begin, end) = (now.0 + nanos / 4, now.0 + nanos / 4 + nanos);
        self.run(control, |_, now| now.0 >= begin, |_| {})?;
        let part = self.part(control, |_, now| now.0 >= end)?;
        let mut run = self.run_of(&part);
        run.at = Point::from([("writes_MiBps".into(), writes)]);
        let us = |quantile: f64| part.read_latency.value_at_quantile(quantile) as f64 / 1e3;
        run.metrics.extend([
            ("read_mean_us".to_owned(), part.read_latency.mean() / 1e3),
            ("read_p50_us".to_owned(), us(0.5)),
            ("read_p99_us".to_owned(), us(0.99)),
            ("read_p999_us".to_owned(), us(0.999)),
            ("write_MiBps".to_owned(), part.mib_per_second()),
        ]);
        Ok(run)
    }

    fn run_of(&self, part: &Part) -> Run {
        let counted = part.counted.clone();
        let amplification = counted.write_amplification();
        let namespace =
            NamespaceCounts { name: "all".into(), nsid: 1, set: 1, medium: "nand".into(), counted };
        let mut run = Run {
            repetition: self.repetition,
            seconds: part.seconds,
            namespaces: vec![namespace],
            ..Run::default()
        };
        run.metrics.extend(amplification.map(|factor| ("write_amplification".to_owned(), factor)));
        run
    }
}

impl Part {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn mib_per_second(&self) -> f64 {
        self.written_bytes as f64 / 1_048_576.0 / self.seconds.max(1e-9)
    }
}
