//! The drives without a file system: steady writes, and reads beside writes (figures 1 and 5b of the paper).

use anyhow::{Context, Result};
use sim::{Contents, Precondition, Sim};

use lab_engines::{
    bench::per_second,
    sim::{Cache, Moved, play_text},
};
use lab_models::rocksdb::chips::{Chips, Layout};
use lab_report::{
    control::Control,
    counters::{Counters, NamespaceCounts},
    results::{Point, Run},
};

/// Host NQN of the load.
const NQN: &str = "nqn.2026-11.io.tranche:zoned";

/// Jobs that write at the same time: as many as zones can be active, so that none waits for another. The published script has 16.
const WRITERS: u64 = 14;

/// A drive and what fio does on it.
pub(super) struct Raw {
    sim: Sim,
    host: host::Host<sim::SimTransport>,
    layout: Layout,
    /// Bytes that can be written, and of a job's part of the address space.
    capacity: u64,
    part: u64,
    seed: u64,
}

impl Raw {
    /// A drive that has been written once.
    pub(super) fn new(
        chips: &Chips,
        layout: Layout,
        cache: &Cache,
        seed: u64,
        control: &Control,
    ) -> Result<Self> {
        let config = chips.config(layout)?;
        let zoned = matches!(layout, Layout::Zones(_));
        let how = if zoned { Precondition::None } else { Precondition::Fill };
        let made = cache.drive(config, Contents::None, how, seed, &mut |_| !control.is_cancelled());
        control.check()?;
        let (sim, _) = made?;
        let mut host = sim.host(NQN).context("connecting to the drive")?;
        let namespace = host.namespace(1)?;
        let size = namespace.blocks * u64::from(namespace.block_size);
        // Parts are whole zones; of a conventional namespace whole requests.
        let unit = if zoned { chips.zone_capacity(layout).next_power_of_two() } else { 1 << 20 };
        let part = size / unit / WRITERS * unit;
        Ok(Self { sim, host, layout, capacity: chips.capacity(layout), part, seed })
    }

    fn zoned(&self) -> bool {
        matches!(self.layout, Layout::Zones(_))
    }

    /// Runs jobs; what was read and written, and what the drive counted.
    fn play(&mut self, text: &str, control: &Control) -> Result<([Moved; 3], Counters)> {
        let before = Counters::read(&mut self.host, 1)?;
        let traffic = play_text("the zones", text, &self.sim, &mut self.host, self.seed, control.cancel())?;
        let after = Counters::read(&mut self.host, 1)?;
        Ok((traffic, after.since(&before)))
    }

    /// The job of the writers: 64 KiB each, one at a time, at random, every one in its own part.
    fn writers(&self, more: &str) -> String {
        let zones = if self.zoned() { "zonemode=zbd\njob_max_open_zones=1\n" } else { "norandommap\n" };
        format!(
            "[writes]\nrw=randwrite\nbs=64k\niodepth=1\nnumjobs={WRITERS}\nsize={}\noffset_increment={}\ngroup_reporting\n{zones}{more}",
            self.part, self.part
        )
    }

    /// Overwrites the drive so many times, and measures for as long as a fifth of it would take at 500 MiB/s. Returns a run with the metric `steady_write_MiBps`.
    pub(super) fn steady(&mut self, times: f64, repetition: u32, control: &Control) -> Result<Run> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a size"
        )]
        let bytes = (self.capacity as f64 * times / WRITERS as f64) as u64;
        let warm = self.writers(&format!("io_size={}\n", (bytes >> 16 << 16).max(1 << 16)));
        // Jobs that end at different times would leave the drive half idle at the end: all end at the same time.
        let millis = (self.capacity / 5 / (500 << 20)).max(1) * 1000;
        let measured = self.writers(&format!("time_based\nruntime={millis}ms\n"));
        self.play(&warm, control)?;
        let (traffic, counted) = self.play(&measured, control)?;
        let mut run = run_of(counted, repetition, &traffic[1]);
        run.metrics.insert("steady_write_MiBps".into(), mib(&traffic[1]));
        run.seconds = seconds(&traffic[1]);
        Ok(run)
    }

    /// Reads 4 KiB at random, one at a time, beside writes of so many MiB/s in all; 0: none.
    pub(super) fn reads(
        &mut self,
        writes: u64,
        seconds: f64,
        repetition: u32,
        control: &Control,
    ) -> Result<Run> {
        let time = format!(
            "time_based\nruntime={}ms\nramp_time={}ms\n",
            (seconds * 1e3).round(),
            (seconds * 250.0).round()
        );
        let beyond = if self.zoned() { "zonemode=zbd\n" } else { "" };
        let mut jobs = format!("[reads]\nrw=randread\nbs=4k\niodepth=1\nnorandommap\n{beyond}{time}");
        if writes > 0 {
            let rate = format!("rate={}\n", (writes << 20) / WRITERS);
            jobs = self.writers(&format!("{time}{rate}")) + &jobs;
        }
        let (traffic, counted) = self.play(&jobs, control)?;
        let mut run = run_of(counted, repetition, &traffic[0]);
        run.at = Point::from([("writes_MiBps".into(), writes)]);
        let us = |nanos: u64| {
            #[expect(clippy::cast_precision_loss, reason = "for reading")]
            let us = nanos as f64 / 1e3;
            us
        };
        let reads = &traffic[0];
        run.metrics.extend([
            ("read_mean_us".to_owned(), reads.mean / 1e3),
            ("read_p50_us".to_owned(), us(reads.p50)),
            ("read_p99_us".to_owned(), us(reads.p99)),
            ("read_p999_us".to_owned(), us(reads.p999)),
            ("write_MiBps".to_owned(), mib(&traffic[1])),
        ]);
        run.seconds = seconds;
        Ok(run)
    }
}

/// MiB of each second.
fn mib(moved: &Moved) -> f64 {
    per_second(moved.bytes, moved.nanos) / 1_048_576.0
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn seconds(moved: &Moved) -> f64 {
    moved.nanos as f64 / 1e9
}

fn run_of(counted: Counters, repetition: u32, moved: &Moved) -> Run {
    let amplification = counted.write_amplification();
    let namespace = NamespaceCounts { name: "all".into(), nsid: 1, set: 1, medium: "nand".into(), counted };
    let mut run = Run { repetition, seconds: seconds(moved), namespaces: vec![namespace], ..Run::default() };
    run.metrics.extend(amplification.map(|factor| ("write_amplification".to_owned(), factor)));
    run
}
