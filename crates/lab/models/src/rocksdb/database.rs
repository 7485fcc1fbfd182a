//! RocksDB on the drives ([`database_models::lsm`]): the published benchmark of fills, overwrites, and reads beside writes (figures 6 and 7 of the paper).

use anyhow::{Context, Result, bail};
use database_models::lsm::{
    Config, Conventional, ConventionalConfig, Counts, Engine, F2fs, F2fsConfig, FileSpace, Placement, Usage,
    Zoned, ZonedConfig,
};
use hdrhistogram::Histogram;
use sim::{Actors, Contents, Nanos, Sim, SimTransport};

use super::{
    assumed,
    chips::{Chips, Layout},
    published::{FILLED_PERCENT, KEYS, PENDING_BYTES, RECORD},
    settings::{Overwrites, Tuning},
};
use lab_report::{
    control::Control,
    counters::{Counters, NamespaceCounts},
    results::{Percentiles, Point, Run},
};

/// Host NQN of the database.
const NQN: &str = "nqn.2026-11.io.tranche:rocksdb";

/// Bytes of the media of the published drives.
const MEDIA: u64 = 2 << 40;

type Space = Box<dyn FileSpace>;

/// The file system that a database lies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// Extents on a conventional namespace, as XFS has them.
    Xfs,
    /// Zones that files share so, as in ZenFS.
    ZenFs(Placement),
    /// Logs, on a conventional namespace or on zones.
    F2fs,
}

/// Bytes that can be written to a zone of the published drive.
const ZONE: u64 = 1_077 << 20;
/// Segments of f2fs have 2 MiB (Documentation/filesystems/f2fs.rst): two writes of a compaction.
const SEGMENT: u64 = 2 << 20;
/// What mkfs.f2fs 1.14 keeps for itself on the published conventional drives, in 1/100,000 of all segments: those that are reserved, and all. It takes that share of spare which
/// leaves the most to files.
const F2FS_SEGMENTS: (u64, u64) = (147, 296);
/// The same on zones with 5 % of spare, as the published script asks for (`mkfs.f2fs -o 5`): 48 of 1,771 zones are reserved.
const F2FS_ZONES: (u64, u64) = (2_710, 7_575);

/// A database on a file system on a drive.
pub struct Database {
    sim: Sim,
    host: host::Host<SimTransport>,
    actors: Actors<Engine<Space>>,
    at: usize,
    keys: u64,
    /// Bytes that can be written to the published drive's flash until it is worn out.
    endurance: f64,
    repetition: u32,
}

/// What is measured between two moments.
struct Measured {
    counts: Counts,
    counted: Counters,
    seconds: f64,
    usage: Usage,
}

/// The engine's configuration: db_bench as the published scripts call it, scaled with the drive. Tables are as large as `table`.
fn config(chips: &Chips, table: u64, kilobyte: u64, seed: u64) -> Config {
    let scaled = |bytes: u64| {
        let scaled = u128::from(bytes) * u128::from(chips.media()) / u128::from(MEDIA);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    let (key, value, compressed) = RECORD;
    Config {
        write_buffer: scaled(2 << 30),
        level_base: scaled(4 << 30),
        multiplier: 4,
        table,
        compactions: 8,
        soft_pending: scaled(PENDING_BYTES.0),
        hard_pending: scaled(PENDING_BYTES.1),
        cache: scaled(assumed::PAGE_CACHE_BYTES),
        kilobyte,
        ..Config::db_bench(scaled(KEYS), key, value, compressed, seed)
    }
}

/// Keys whose tables fill [`FILLED_PERCENT`] of the published drive of a layout.
pub fn filling_keys(layout: Layout) -> u64 {
    let (key, value, compressed) = RECORD;
    let record = Config::db_bench(0, key, value, compressed, 0).table_record;
    layout.published_bytes() * FILLED_PERCENT / 100 / u64::from(record)
}

/// An empty file system.
fn space(
    chips: &Chips,
    layout: Layout,
    files: FileSystem,
    blocks: u64,
    block_bytes: u32,
    table: u64,
) -> Result<Space> {
    let capacity = chips.zone_capacity(layout) / u64::from(block_bytes);
    let size = capacity.next_power_of_two();
    Ok(match files {
        FileSystem::Xfs => {
            Box::new(Conventional::new(ConventionalConfig { blocks, block_bytes, discard: false }))
        }
        FileSystem::ZenFs(placement) => Box::new(Zoned::new(ZonedConfig {
            zones: u32::try_from(blocks / size)?,
            size,
            capacity,
            block_bytes,
            active: 14,
            placement,
            reserve: 2,
            finish: 20,
        })),
        FileSystem::F2fs => {
            let zones = matches!(layout, Layout::Zones(_));
            // Where tables are smaller than a write, a segment holds two tables.
            let segment = SEGMENT.min(2 * table) / u64::from(block_bytes);
            let (size, capacity) = if zones { (size, capacity) } else { (segment, segment) };
            let sections = blocks / size;
            let (reserve, spare) = if zones { F2FS_ZONES } else { F2FS_SEGMENTS };
            let reserve = (sections * reserve).div_ceil(100_000).max(4);
            let spare = (sections * spare).div_ceil(100_000).max(reserve + 5);
            Box::new(F2fs::new(F2fsConfig {
                sections: u32::try_from(sections)?,
                size,
                capacity,
                spare: u32::try_from(spare)?,
                reserve: u32::try_from(reserve)?,
                zones,
            }))
        }
    })
}

impl Database {
    /// An empty database on a new drive.
    #[expect(clippy::too_many_arguments, reason = "each is another thing")]
    pub fn new(
        chips: &Chips,
        layout: Layout,
        files: FileSystem,
        filled: f64,
        kilobyte: u64,
        tuning: &Tuning,
        seed: u64,
        repetition: u32,
    ) -> Result<Self> {
        let sim = Sim::new(chips.config(layout)?, Contents::None)?;
        let mut host = sim.host(NQN).context("connecting to the drive")?;
        let namespace = host.namespace(1)?;
        let block_bytes = namespace.block_size;
        let scaled = |bytes: u64| {
            u64::try_from(u128::from(bytes) * u128::from(chips.media()) / u128::from(MEDIA))
                .unwrap_or(u64::MAX)
        };
        let table = match (layout, files) {
            (Layout::Spare7 | Layout::Spare28, _) => scaled(128 << 20),
            // The published script has tables of 95 % of two zones. Zones of a small drive are larger than they should be, and f2fs does not care how large tables are.
            (Layout::Zones(_), FileSystem::F2fs) => scaled(ZONE * 2 * 95 / 100),
            // Small zones take parts of such tables.
            (Layout::Zones(_), _) => chips.zone_capacity(Layout::Zones(0)) * 2 * 95 / 100,
        };
        let space = space(chips, layout, files, namespace.blocks, block_bytes, table)?;
        let mut config = config(chips, table, kilobyte, seed);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of keys"
        )]
        {
            config.keys = (config.keys as f64 * filled) as u64;
        }
        tuning.apply(&mut config, scaled);
        let keys = config.keys;
        let mut actors = sim.actors();
        let engine = Engine::new(config, space, block_bytes);
        let at = actors.add(&mut host, 1, engine)?;
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let endurance = MEDIA as f64 * f64::from(chips.cycles());
        Ok(Self { sim, host, actors, at, keys, endurance, repetition })
    }

    fn counts(&self) -> Counts {
        self.actors.actor(self.at).counts()
    }

    /// Lets time pass until then, or until `enough` says so, which is asked now and then.
    fn run(
        &mut self,
        until: Nanos,
        control: &Control,
        mut enough: impl FnMut(&Counts) -> bool,
    ) -> Result<()> {
        /// Nanoseconds between two looks at the counts.
        const SLICE: u64 = 20_000_000;
        /// So long nothing is written where it waits for room that never comes.
        const STALL_NANOS: u64 = 60_000_000_000;
        let (mut last, mut since) = (self.counts().writes, self.sim.now());
        while self.sim.now() < until {
            let slice = Nanos((self.sim.now().0 + SLICE).min(until.0));
            self.actors.run(slice, |_| false);
            control.check()?;
            let counts = self.counts();
            if counts.failed > 0 {
                bail!("{} commands failed", counts.failed);
            }
            if enough(&counts) {
                break;
            }
            if counts.writes > last {
                (last, since) = (counts.writes, self.sim.now());
            }
            if self.sim.now().since(since).0 > STALL_NANOS {
                let usage = self.actors.actor(self.at).usage();
                bail!("the database waits for room: {usage:?}");
            }
        }
        Ok(())
    }

    /// Writes until so many records of all keys were written, in thousandths.
    fn write(&mut self, per_mille: u64, control: &Control) -> Result<()> {
        let end = self.counts().writes + self.keys * per_mille / 1000;
        self.run(Nanos::MAX, control, |counts| counts.writes >= end)
    }

    fn measured(&mut self, before: &Counters, counts: &Counts, begin: Nanos) -> Result<Measured> {
        let counted = Counters::read(&mut self.host, 1)?.since(before);
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let seconds = self.sim.now().since(begin).0 as f64 / 1e9;
        let usage = self.actors.actor(self.at).usage();
        Ok(Measured { counts: self.counts().since(counts), counted, seconds, usage })
    }

    /// Fills the database at random, and overwrites it. The run has the figures of the overwrites.
    pub fn overwrite(&mut self, overwrites: Overwrites, control: &Control) -> Result<Run> {
        let (begin, before, counts) = (self.sim.now(), Counters::read(&mut self.host, 1)?, self.counts());
        self.write(1000, control)?;
        let fill = self.measured(&before, &counts, begin)?;
        self.actors.actor_mut(self.at).forget_latencies();
        let (begin, before, counts) = (self.sim.now(), Counters::read(&mut self.host, 1)?, self.counts());
        match overwrites {
            Overwrites::Keys(per_mille) => self.write(per_mille, control)?,
            Overwrites::Seconds(seconds) => self.run(Nanos(begin.0 + nanos(seconds)), control, |_| false)?,
        }
        let measured = self.measured(&before, &counts, begin)?;
        let mut run = self.run_of(&measured);
        run.metrics.insert("fill_ops_per_second".into(), rate(fill.counts.writes, fill.seconds));
        run.metrics
            .extend(fill.counted.write_amplification().map(|wa| ("fill_write_amplification".into(), wa)));
        let (writes, _) = self.actors.actor(self.at).latencies();
        latencies(&mut run, "write", writes);
        Ok(run)
    }

    /// So many threads read keys beside a writer, which is limited to so many bytes per second; 0: it is not.
    pub fn read(&mut self, readers: u32, limit: u64, seconds: f64, control: &Control) -> Result<Run> {
        let now = self.sim.now().0;
        let engine = self.actors.actor_mut(self.at);
        engine.change_load(now, |config| (config.readers, config.write_limit) = (readers, limit));
        let time = nanos(seconds);
        // Until what was behind is done: the limited writer came after other benchmarks.
        self.run(Nanos(now + time / 2), control, |_| false)?;
        self.actors.actor_mut(self.at).forget_latencies();
        let (begin, before, counts) = (self.sim.now(), Counters::read(&mut self.host, 1)?, self.counts());
        self.run(Nanos(begin.0 + time), control, |_| false)?;
        let measured = self.measured(&before, &counts, begin)?;
        let mut run = self.run_of(&measured);
        run.at = Point::from([("write_limit_MiBps".into(), limit >> 20)]);
        run.metrics.insert("reads_per_second".into(), rate(measured.counts.reads, measured.seconds));
        run.metrics
            .insert("block_reads_per_read".into(), ratio(measured.counts.block_reads, measured.counts.reads));
        let (writes, reads) = self.actors.actor(self.at).latencies();
        latencies(&mut run, "read", reads);
        latencies(&mut run, "write", writes);
        Ok(run)
    }

    /// The common figures.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn run_of(&self, of: &Measured) -> Run {
        const YEAR: f64 = 365.25 * 86_400.0;
        let Measured { counts, counted, seconds, usage } = of;
        let namespace = NamespaceCounts {
            name: "all".into(),
            nsid: 1,
            set: 1,
            medium: "nand".into(),
            counted: counted.clone(),
        };
        let written = counted.media_bytes_written as f64;
        let share = |blocks: u64| blocks as f64 * 100.0 / usage.capacity.max(1) as f64;
        let stopped: u64 = counts.stopped.iter().sum();
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0 / seconds.max(1e-9);
        let mut run = Run {
            repetition: self.repetition,
            seconds: *seconds,
            namespaces: vec![namespace],
            ..Run::default()
        };
        run.metrics.extend(
            [
                ("ops_per_second", rate(counts.writes, *seconds)),
                ("engine_write_amplification", counts.amplification() as f64 / 1000.0),
                (
                    "file_system_write_amplification",
                    ratio(counted.host_bytes_written, counted.host_bytes_written - counts.moved_bytes),
                ),
                ("flash_bytes_per_op", written / counts.writes.max(1) as f64),
                ("lifetime_years", self.endurance * seconds / written.max(1.0) / YEAR),
                ("host_write_MiBps", mib(counted.host_bytes_written)),
                ("host_read_MiBps", mib(counted.host_bytes_read)),
                ("flash_write_MiBps", mib(counted.media_bytes_written)),
                ("live_percent", share(usage.live)),
                ("taken_percent", share(usage.taken)),
                ("stopped_percent", stopped as f64 / 1e7 / seconds.max(1e-9)),
                ("slowed_percent", counts.slowed as f64 / 1e7 / seconds.max(1e-9)),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        run.metrics.extend(counted.write_amplification().map(|wa| ("drive_write_amplification".into(), wa)));
        run
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn ratio(of: u64, over: u64) -> f64 {
    of as f64 / over.max(1) as f64
}

/// Percentiles of a latency: those of all results, and as metrics those up to 99.99 %.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes at most")]
fn latencies(run: &mut Run, name: &str, histogram: &Histogram<u64>) {
    let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    for (part, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)] {
        run.metrics.insert(format!("{name}_{part}_us"), us(quantile));
    }
    run.metrics.insert(format!("{name}_mean_us"), histogram.mean() / 1e3);
    let percentiles = Percentiles {
        count: histogram.len(),
        mean: histogram.mean() / 1e6,
        p50: us(0.5) / 1e3,
        p95: us(0.95) / 1e3,
        p99: us(0.99) / 1e3,
        max: us(1.0) / 1e3,
    };
    run.latency_ms.insert(name.to_owned(), percentiles);
}
