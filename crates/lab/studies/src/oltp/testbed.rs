//! The database on its drives.

use blockdev::BlockDevice;
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use blockdev::stack::Shared;
use database_models::innodb::{Config, Counts, Doublewrite, Innodb, PAGE, Schema, Volume};
use sim::{BlockLayer, MachineDevice, Nanos};
use tier::{Counters, PolicyKind};
use toml::Table;

use super::{
    options::Options,
    published,
    setup::{Past, Piece, Store},
};
use lab_engines::machine::{
    Attachment, CacheSizes, Drives, SharedDevice, Tier, cached, config, partition, play, whole,
};
use lab_report::{
    control::{Control, Interrupted},
    figure::show,
    pieces,
    results::{Run, seed_of},
};

/// The TOML of the drives.
pub(super) struct DriveTables {
    pub disk: Table,
    pub nvme: Table,
}

impl DriveTables {
    /// # Errors
    /// One of them is no drive.
    pub(super) fn check(&self) -> Result<()> {
        config(&self.disk).context("--disk")?;
        config(&self.nvme).context("--nvme")?;
        Ok(())
    }
}

/// lvm2's default.
const CHUNK: u64 = 64 << 10;
/// Nanoseconds between looks at whether the user has interrupted.
const CHECK_INTERVAL_NANOS: u64 = 1_000_000_000;
/// Added to the seed of a run that comes before the one that is measured.
const PAST_SEED_OFFSET: u64 = 1 << 32;

/// Makes the drives, and the device that the database lies on, with its cache if it has one.
fn device(
    options: &Options,
    tables: &DriveTables,
    store: Store,
    seed: u64,
) -> Result<(Drives, MachineDevice, Option<Shared<Tier>>)> {
    let mut drives = Drives::new(options.path);
    let on_disk = Attachment::Sas(options.controller);
    let plain = |drive: &SharedDevice| partition(drive, "the drive", 0, CacheSizes::PUBLISHED.origin);
    let (device, tier): (MachineDevice, _) = match store {
        Store::Disk => (Box::new(plain(&drives.add_shared(&tables.disk, on_disk)?)?), None),
        Store::Nvme => (Box::new(plain(&drives.add_shared(&tables.nvme, Attachment::Nvme)?)?), None),
        Store::Cache { mode, policy } => {
            let nvme = drives.add_shared(&tables.nvme, Attachment::Nvme)?;
            let disk = drives.add_shared(&tables.disk, on_disk)?;
            let config = tier::Config { chunk: CHUNK, mode, policy, ..tier::Config::default() };
            let tier = cached(&drives, &disk, &nvme, CacheSizes::PUBLISHED, config, seed)?;
            (whole(&tier)?, Some(tier))
        }
    };
    Ok((drives, device, tier))
}

/// The published server and load, on a volume.
fn model(options: &Options, piece: &Piece, data: Volume, seed: u64) -> Config {
    let usual = Config::published(options.threads, data, seed);
    Config {
        schema: Schema::Sysbench { rows: options.rows },
        pool_pages: u32::try_from(options.pool / PAGE).unwrap_or(u32::MAX),
        instances: 1, // MariaDB 5.5 had one unless it was told otherwise
        page_cleaners: 1,
        io_capacity: 200, // innodb_io_capacity of MariaDB 5.5
        io_capacity_max: 2000,
        dirty_low: 0,
        dirty_high: 80, // published
        redo_capacity: published::REDO,
        binlog_change: 0, // no binary log is published
        journal_times: false,
        doublewrite: piece.setup.doublewrite.then_some(Doublewrite {
            namespace: 0,
            shards: 1,
            command: 1 << 20,
        }),
        cores: options.path.processors,
        statement: piece.statement_ns,
        flush_at_commit: false, // published: innodb_flush_log_at_trx_commit=0
        ..usual
    }
}

/// What is measured of a run.
struct Measured {
    counts: Counts,
    /// Transactions of each second.
    per_second: Vec<u64>,
}

/// Runs the database for so many seconds.
fn measure(layer: &mut BlockLayer<Innodb>, seconds: u64, control: &Control) -> Result<Measured> {
    let end = Nanos(layer.now().0 + seconds * 1_000_000_000);
    let mut failed = None;
    let mut measured = Measured { counts: Counts::default(), per_second: Vec::new() };
    while layer.now() < end {
        if control.is_cancelled() {
            return Err(Interrupted.into());
        }
        layer.run(Nanos(layer.now().0 + CHECK_INTERVAL_NANOS).min(end), |step| {
            if !step.status.is_success() {
                failed = Some(step.status);
            }
            false
        });
        if let Some(status) = failed {
            bail!("a request of the database failed: {status}");
        }
        let counts = layer.load(0).counts();
        measured.per_second.push(counts.since(&measured.counts).transactions[0]);
        measured.counts = counts;
    }
    Ok(measured)
}

/// Reads the first `bytes` of a cache until all of it is there. With smq, which promotes at the first reads; then the tier gets its policy.
fn fill(drives: &Drives, tier: &Shared<Tier>, bytes: u64, seed: u64, control: &Control) -> Result<()> {
    let policy = tier.with(|tier| tier.core().config().policy);
    let change = |to: PolicyKind| {
        let now = drives.machine().now().0;
        tier.with(|tier| {
            tier.change(now, tier::Control::Policy(to), |tier| drives.run_until(tier.next_work()))
        })
        .context("changing the policy of the cache")
    };
    change(PolicyKind::Smq)?;
    let chunks = bytes.div_ceil(CHUNK);
    let job = format!(
        "[fill]\nrw=randread\nbs={CHUNK}\niodepth=32\nsize={}\ntime_based=1\nruntime=1d\n",
        chunks * CHUNK
    );
    let is_full = |_| tier.with(|tier| u64::from(tier.core().resident()) >= chunks);
    play(drives, whole(tier)?, &job, seed, control, is_full)?;
    ensure!(is_full(0), "the cache does not take in the whole database in a day");
    change(policy)
}

impl pieces::Piece<(&Options, DriveTables)> for Piece {
    fn variant(&self) -> (String, String) {
        (self.setup.name.to_owned(), self.setup.about.to_owned())
    }

    fn name(&self) -> String {
        self.setup.name.to_owned()
    }

    fn run(&self, (options, tables): &(&Options, DriveTables), control: &Control) -> Result<Vec<Run>> {
        run(options, tables, self, control).map(|run| vec![run])
    }

    fn summary(&self, runs: &[Run]) -> String {
        let rates = runs.iter().filter_map(|run| run.metrics.get("tps"));
        rates.map(|tps| format!("{} transactions/s", show(*tps))).collect()
    }
}

/// Runs a variant.
///
/// # Errors
/// A drive is too small; a request failed; an interruption.
pub(super) fn run(options: &Options, tables: &DriveTables, piece: &Piece, control: &Control) -> Result<Run> {
    control.check()?;
    let seed = seed_of(options.seed, piece.repetition);
    let (drives, device, tier) = device(options, tables, piece.setup.store, seed)?;
    let geometry = BlockDevice::geometry(&*device);
    let data = Volume { blocks: geometry.blocks, block_bytes: geometry.block_size };
    let made = |seed| {
        Innodb::new(model(options, piece, data, seed)).context("the database does not fit on the drive")
    };
    let database = |seed| {
        let mut database = made(seed)?;
        if !piece.setup.cold {
            // Some 25 pages of a transaction; most of them are hot.
            let pages = options.pool / PAGE;
            database.warm(pages * 2, 1_000_000, || !control.is_cancelled());
            control.check()?;
        }
        anyhow::Ok(database)
    };
    let begins = |layer: &mut BlockLayer<Innodb>, device, seed| {
        layer.add_load(database(seed)?, &[device]).context("the device takes less than a page")
    };
    if let (Past::Full, Some(tier)) = (piece.setup.past, &tier) {
        fill(&drives, tier, made(seed)?.areas().end(), seed, control)?;
    }
    let mut layer = BlockLayer::new(drives.machine(), drives.path().host());
    let number = layer.add_device(device, false);
    if piece.setup.past == Past::Run {
        begins(&mut layer, number, seed.wrapping_add(PAST_SEED_OFFSET))?;
        measure(&mut layer, piece.seconds, control)?;
        layer.load_mut(0).stop();
        layer.run(Nanos::MAX, |_| false);
        layer.clear();
    }
    begins(&mut layer, number, seed)?;
    let before = tier.as_ref().map(counters);
    let Measured { counts: last, per_second } = measure(&mut layer, piece.seconds, control)?;
    let mut metrics = metrics(&last, layer.load(0), piece.seconds);
    if let Some((tier, before)) = tier.as_ref().zip(before) {
        metrics.extend(cache_metrics(&before, &counters(tier)));
    }
    Ok(Run {
        at: piece.at.clone(),
        repetition: piece.repetition,
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        seconds: piece.seconds as f64,
        metrics,
        per_second,
        ..Run::default()
    })
}

fn counters(tier: &Shared<Tier>) -> Counters {
    tier.with(|tier| *tier.core().counters())
}

/// Figures of the cache between two moments.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn cache_metrics(before: &Counters, after: &Counters) -> [(String, f64); 4] {
    let of = |count: fn(&Counters) -> u64| count(after) - count(before);
    let (reads, missed_reads) = (of(|c| c.read_hits), of(|c| c.read_misses));
    let (all, missed) = (reads + of(|c| c.write_hits), missed_reads + of(|c| c.write_misses));
    let percent = |hits: u64, misses: u64| hits as f64 * 100.0 / (hits + misses).max(1) as f64;
    [
        ("hit_percent".into(), percent(all, missed)),
        ("read_hit_percent".into(), percent(reads, missed_reads)),
        ("promoted_GB".into(), (of(|c| c.promotions) * CHUNK) as f64 / 1e9),
        ("written_back_GB".into(), (of(|c| c.writebacks) * CHUNK) as f64 / 1e9),
    ]
}

/// Figures of the database.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn metrics(counts: &Counts, database: &Innodb, seconds: u64) -> BTreeMap<String, f64> {
    let seconds = seconds.max(1) as f64;
    let transactions = counts.transactions[0].max(1) as f64;
    let latency = &database.latencies()[0];
    let per_transaction = |nanos: u64| nanos as f64 / transactions / 1e6;
    [
        ("tps", counts.transactions[0] as f64 / seconds),
        ("mean_ms", per_transaction(counts.latency[0])),
        ("p95_ms", latency.value_at_quantile(0.95) as f64 / 1e3),
        ("p99_ms", latency.value_at_quantile(0.99) as f64 / 1e3),
        ("read_wait_ms", per_transaction(counts.read_wait)),
        ("free_wait_ms", per_transaction(counts.free_wait)),
        ("processor_ms", per_transaction(counts.processor)),
        ("page_reads_per_second", counts.page_reads as f64 / seconds),
        ("page_writes_per_second", counts.page_writes as f64 / seconds),
        ("page_reads_per_transaction", counts.page_reads as f64 / transactions),
        ("dirty_percent", database.dirty_per_mille() as f64 / 10.0),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
