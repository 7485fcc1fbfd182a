//! The modelled server on a disk, alone or with a cache on the drive before it: one layout, one seed.

use anyhow::{Context, Result};
use blockdev::BlockDevice;
use blockdev::stack::Shared;
use database_models::innodb::Volume;
use sim::{BlockLayer, Contents, MachineDevice, Nanos, Precondition, Processors};

use super::{
    database_model::{Database, Model},
    disk::{Behind, CHUNK},
    figures::{Figure, SETTLED_PERCENT},
    layouts::Arrangement,
    load::Load,
    measurement::{Measurement, Stage},
    simulated_drive::SimulatedDrive,
    testbed::{Measured, measured},
};
use lab_engines::{
    machine::{Attachment, Drives, HostPath, Tier, cached, partition, whole},
    sim::Cache,
};
use lab_report::{control::Cancel, counters::NamespaceCounts, results::Percentiles};

/// A cache is warmed by the load in so many parts at most, each as long as the warm-up.
const MAX_CACHE_ROUNDS: u32 = 20;
/// A part has so many seconds at least.
const MIN_PART_SECONDS: u64 = 10;
/// The disk alone is warmed in so many.
const DISK_ROUNDS: u32 = 4;
/// So many transactions are measured, if they end within so many times the measured time: a disk does few of them in a second.
const MIN_TRANSACTIONS: u64 = 5000;
const MAX_WINDOW_FACTOR: u64 = 12;

/// A server behind the host's block layer.
struct Layer(BlockLayer<Box<dyn Model>>);

impl Stage for Layer {
    fn run(&mut self, until: Nanos) {
        self.0.run(until, |_| false);
    }

    fn model(&self) -> &dyn Model {
        &**self.0.load(0)
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        &mut **self.0.load_mut(0)
    }
}

/// What a cache has seen so far.
#[derive(Clone, Copy, Default)]
struct Seen {
    hits: u64,
    misses: u64,
    /// Percent of its room that holds chunks.
    filled: f64,
}

impl Seen {
    fn of(tier: &Shared<Tier>) -> Self {
        tier.with(|tier| {
            let core = tier.core();
            let (resident, all) = core.status().cache_blocks;
            let counters = core.counters();
            let filled = f64::from(resident) * 100.0 / f64::from(all.max(1));
            Self { hits: counters.read_hits, misses: counters.read_misses, filled }
        })
    }

    /// Percent of the reads since then that hit.
    fn hits_since(&self, earlier: &Self) -> f64 {
        let (hits, misses) = (self.hits - earlier.hits, self.misses - earlier.misses);
        hits as f64 * 100.0 / (hits + misses).max(1) as f64
    }
}

/// Drives with what the database lies on.
pub struct DiskTestbed {
    drives: Drives,
    device: MachineDevice,
    tier: Option<Shared<Tier>>,
}

impl DiskTestbed {
    /// A disk, and with a cache the drive, in the state of uniform random writes. The cache is empty.
    ///
    /// # Errors
    /// A drive cannot be so, or has no room; an interruption.
    pub fn new(
        behind: &Behind,
        ground: &SimulatedDrive,
        cache: &Cache,
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Self> {
        let path = HostPath::PUBLISHED;
        let on_disk = Attachment::Sas(behind.controller);
        let Some(sizes) = behind.cache else {
            let mut drives = Drives::new(path);
            let disk = drives.add(behind.disk.clone(), on_disk)?;
            let device = Box::new(partition(&disk, "the disk", 0, behind.bytes)?);
            return Ok(Self { drives, device, tier: None });
        };
        let config = ground.config.clone();
        let made =
            cache.drive(config, Contents::None, Precondition::Steady, 1, &mut |_| !cancel.is_cancelled());
        cancel.check()?;
        let mut drives = Drives::with(path, made?.0);
        let nvme = Shared::new(drives.device(0, Attachment::Nvme)?);
        let disk = drives.add(behind.disk.clone(), on_disk)?;
        let config = tier::Config { chunk: CHUNK, ..tier::Config::default() };
        let tier = cached(&drives, &disk, &nvme, sizes, config, seed)?;
        Ok(Self { drives, device: whole(&tier)?, tier: Some(tier) })
    }

    /// Runs the load on the disk, and measures it after its warm-up.
    ///
    /// # Errors
    /// The database does not fit, a command failed, or an interruption.
    pub fn run(
        self,
        database: &dyn Database,
        load: &Load,
        arrangement: Arrangement,
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Measured> {
        let Self { drives, device, tier } = self;
        let geometry = BlockDevice::geometry(&*device);
        let data = Volume { blocks: geometry.blocks, block_bytes: geometry.block_size };
        let model = database.model(load, arrangement, [data; 2], seed, cancel)?;
        // As on the drive alone, where requests take no time of processors.
        let mut layer = BlockLayer::new(drives.machine(), Processors::NONE);
        let number = layer.add_device(device, false);
        layer.add_load(model, &[number]).context("the disk takes less than a page")?;
        let begin = layer.now();
        let mut stage = Layer(layer);
        let tier = tier.as_ref();
        let long = Load { seconds: load.seconds * MAX_WINDOW_FACTOR, ..*load };
        let mut course = Measurement::new(&mut stage, begin, &long, cancel);
        let warmth = warm(&mut course, tier, load.warmup.max(MIN_PART_SECONDS))?;
        let done = course.warm(0)?;
        let seconds = (MIN_TRANSACTIONS / warmth.rate.max(1)).clamp(load.seconds, long.seconds);
        let before = (counters(&drives, tier)?, tier.map(Seen::of));
        let window = course.window(seconds, done)?;
        let after = (counters(&drives, tier)?, tier.map(Seen::of));
        let commits = stage.model().commits();
        let commit =
            (database.waits_at_commit() && !commits.is_empty()).then(|| Percentiles::of(commits, 1e3));
        let mut measured = measured(&before.0, &after.0, &window, commit)?;
        if let (Some(before), Some(after)) = (before.1, after.1) {
            measured.more = vec![
                (Figure::ReadHits, after.hits_since(&before)),
                (Figure::CacheFilled, before.filled),
                (Figure::CacheWarmUp, warmth.seconds as f64),
                (Figure::ReadHitsMoved, warmth.moved),
            ];
        }
        Ok(measured)
    }
}

/// What the drive has counted, if it is there.
fn counters(drives: &Drives, tier: Option<&Shared<Tier>>) -> Result<Vec<NamespaceCounts>> {
    if tier.is_none() {
        return Ok(Vec::new());
    }
    let counted = drives.counters(0)?;
    Ok(vec![NamespaceCounts { nsid: 1, medium: "nand".into(), counted, ..NamespaceCounts::default() }])
}

/// How warm it is.
struct Warmth {
    seconds: u64,
    /// Points by which the share of reads that hit changed in the last part of the warm-up.
    moved: f64,
    /// Transactions of a second in that part.
    rate: u64,
}

/// Warms what the database lies on by the load, in parts of so many seconds: a cache until what it gives changes no more.
fn warm(course: &mut Measurement<'_>, tier: Option<&Shared<Tier>>, each: u64) -> Result<Warmth> {
    let mut warmth = Warmth { seconds: 0, moved: 100.0, rate: 0 };
    let (mut before, mut share, mut transactions) = (tier.map(Seen::of), None, 0);
    for _ in 0..if tier.is_some() { MAX_CACHE_ROUNDS } else { DISK_ROUNDS } {
        let done = course.pass(each)?;
        warmth.seconds += each;
        warmth.rate = (done.transactions - transactions) / each.max(1);
        transactions = done.transactions;
        let (Some(now), Some(earlier)) = (tier.map(Seen::of), before) else { continue };
        let hits = now.hits_since(&earlier);
        // The first part has none to be compared with.
        warmth.moved = share.map_or(100.0, |share| hits - share);
        share = Some(hits);
        let filled = now.filled - earlier.filled;
        before = Some(now);
        if warmth.moved.abs() < SETTLED_PERCENT && filled < SETTLED_PERCENT {
            break;
        }
    }
    Ok(warmth)
}
