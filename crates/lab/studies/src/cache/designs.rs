//! What dm-cache's policies write to their SSD: each runs the same loads.

use std::collections::BTreeMap;

use anyhow::Result;
use live::Config;

use super::{
    options::Options,
    setup::{Design, Load, LoadKind, Places, SKEWED_FILE, SKEWED_LOAD, WARMING_LOAD},
    testbed::{DriveTables, Testbed},
};
use lab_engines::machine::{CacheSizes, config};
use lab_report::{
    control::Control,
    counters::{Counters, write_amplification},
    results::Point,
};

/// Bytes of the shortened SSD that the cache fills.
const MIN_SSD_BYTES: u64 = 16 << 30;
/// Of them, those that are not used by the cache's data: what dm-cache's metadata takes.
const SHORT_METADATA: u64 = 256 << 20;

type Metrics = BTreeMap<String, f64>;

/// Milliseconds of loads.
struct Times {
    measured: u64,
    warming: u64,
    /// The skewed reads that warm up.
    skewed: u64,
    /// The writes on a full SSD.
    full: u64,
}

impl Times {
    fn of(options: &Options) -> Self {
        match options.quick {
            true => Self { measured: 100, warming: 20_000, skewed: 2_000, full: 500 },
            false => Self { measured: 10_000, warming: 3_600_000, skewed: 200_000, full: 60_000 },
        }
    }
}

/// The loads on more than the cache holds.
pub(super) fn skewed() -> Vec<Load> {
    let mut all = Vec::new();
    for kind in LoadKind::ALL {
        all.extend([4 << 10, 64 << 10].map(|block| Load { kind, block, ..SKEWED_LOAD }));
    }
    all
}

/// The name of a figure of a skewed load.
pub(super) fn skewed_metric(load: &Load, figure: &str) -> String {
    format!("zipf_{}", load.metric(figure))
}

/// The writes on an SSD that the cache fills.
pub(super) const FULL_CACHE_WRITES: Load =
    Load { kind: LoadKind::Write, block: 4 << 10, depth: 32, places: Places::Zipf(90) };

/// A cache under way.
struct Course<'a> {
    bed: Testbed,
    control: &'a Control,
    seed: u64,
    metrics: Metrics,
}

impl Course<'_> {
    fn note(&mut self, name: String, value: f64) {
        self.metrics.insert(name, value);
    }

    /// Runs a load, and notes its figures and what was written to the SSD meanwhile. `name` makes names of figures.
    fn measure(&mut self, load: &Load, bytes: u64, millis: u64, name: impl Fn(&str) -> String) -> Result<()> {
        self.seed = self.seed.wrapping_add(1);
        let before = self.bed.ssd()?;
        let job = load.text(bytes, millis * 1_000);
        let (played, hits) = self.bed.run_design(&job, self.seed, self.control, 0)?;
        let ssd = self.bed.ssd()?.since(&before);
        self.note(name("iops"), played.iops());
        self.note(name("mean_us"), played.mean_us());
        if self.bed.memory() > 0 {
            self.note(name("hit_percent"), hits);
            #[expect(clippy::cast_precision_loss, reason = "for reading")]
            let per = ssd.host_bytes_written as f64 / (played.iops() * played.seconds * load.block as f64);
            self.note(name("ssd_bytes_per_byte"), per);
        }
        Ok(())
    }

    /// Notes what was written to the SSD in all.
    fn wear(&mut self, before: &Counters, name: &str) -> Result<()> {
        let ssd = self.bed.ssd()?.since(before);
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        self.note(format!("{name}_ssd_written_GB"), ssd.host_bytes_written as f64 / 1e9);
        if let Some(ratio) = write_amplification(ssd.media_bytes_written, ssd.host_bytes_written) {
            self.note(format!("{name}_ssd_write_amplification"), ratio);
        }
        Ok(())
    }

    /// Notes how much of the cache is in use, and its memory.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn space(&mut self, name: &str) {
        let [places, cached, dirty] = self.bed.space();
        if places > 0 {
            self.note(format!("{name}_cached_percent"), cached as f64 * 100.0 / places as f64);
            self.note(format!("{name}_dirty_percent"), dirty as f64 * 100.0 / places as f64);
            let memory = self.bed.memory() as f64 / (places as f64 / (1 << 20) as f64);
            self.note(format!("{name}_memory_bytes_per_MiB"), memory);
        }
    }
}

/// Runs everything with one design: points, the microseconds of a load, and figures.
///
/// # Errors
/// A drive is too small; a request failed; an interruption.
pub(super) fn run(
    design: Design,
    options: &Options,
    tables: &DriveTables,
    seed: u64,
    control: &Control,
) -> Result<Vec<(Point, u64, Metrics)>> {
    let times = Times::of(options);
    let ssd = config(&tables.nvme)?;
    let bed = |ssd: Config, sizes| Testbed::of_design(options, &tables.disk, ssd, sizes, design, seed);
    let course = |bed| Course { bed, control, seed, metrics: Metrics::new() };
    let mut fits = course(bed(ssd.clone(), CacheSizes::PUBLISHED)?);
    in_the_cache(&mut fits, options.file, &times)?;
    let mut metrics = fits.metrics;
    let mut larger = course(bed(ssd.clone(), CacheSizes::PUBLISHED)?);
    beyond_the_cache(&mut larger, &times)?;
    metrics.append(&mut larger.metrics);
    if design != Design::Disk
        && let Some(short) = ssd.shortened(MIN_SSD_BYTES)
    {
        let bytes = short.namespaces.first().map_or(0, |namespace| namespace.bytes);
        let (cache, origin) = (bytes - SHORT_METADATA, CacheSizes::PUBLISHED.origin);
        let mut full = course(bed(short, CacheSizes { origin, cache, metadata: SHORT_METADATA })?);
        on_a_full_ssd(&mut full, cache / 10 * 9, &times)?;
        metrics.append(&mut full.metrics);
    }
    Ok(vec![(Point::new(), times.measured * 1_000, metrics)])
}

/// A file that fits: cold, warming, warm.
fn in_the_cache(it: &mut Course<'_>, file: u64, times: &Times) -> Result<()> {
    let loads = Load::all();
    let before = it.bed.ssd()?;
    it.measure(&loads[0], file, times.measured, |figure| format!("cold_{}", loads[0].metric(figure)))?;
    if it.bed.memory() > 0 {
        let job = WARMING_LOAD.text(file, times.warming * 1_000);
        let (warm, _) = it.bed.run_design(&job, it.seed ^ 1, it.control, file)?;
        it.note("warming_seconds".into(), warm.seconds);
    }
    for load in &loads {
        it.measure(load, file, times.measured, |figure| load.metric(figure))?;
    }
    it.wear(&before, "fits")?;
    it.space("fits");
    Ok(())
}

/// Much more than fits, with places that are asked for more than others.
fn beyond_the_cache(it: &mut Course<'_>, times: &Times) -> Result<()> {
    let before = it.bed.ssd()?;
    let cold = |figure: &str| format!("cold_{}", skewed_metric(&SKEWED_LOAD, figure));
    it.measure(&SKEWED_LOAD, SKEWED_FILE, times.skewed, cold)?;
    for load in &skewed() {
        it.measure(load, SKEWED_FILE, times.measured, |figure| skewed_metric(load, figure))?;
    }
    it.wear(&before, "zipf")?;
    it.space("zipf");
    Ok(())
}

/// Writes on a cache that takes all of a small SSD, and is full.
fn on_a_full_ssd(it: &mut Course<'_>, file: u64, times: &Times) -> Result<()> {
    let job = WARMING_LOAD.text(file, times.warming * 1_000);
    let (warm, _) = it.bed.run_design(&job, it.seed ^ 1, it.control, file)?;
    it.note("full_warming_seconds".into(), warm.seconds);
    let name = |figure: &str| format!("full_{}", FULL_CACHE_WRITES.metric(figure));
    // What is measured is the second half.
    it.measure(&FULL_CACHE_WRITES, file, times.full, name)?;
    let before = it.bed.ssd()?;
    it.measure(&FULL_CACHE_WRITES, file, times.full, name)?;
    it.wear(&before, "full")?;
    it.space("full");
    Ok(())
}
