//! The database on its drives.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use run::sim::{BlockLayer, MachineDevice, Nanos};
use stack::Shared;
use toml::Table;
use workload::innodb::{Config, Counts, Doublewrite, Innodb, PAGE, Schema, Volume};

use super::{
    options::Options,
    published,
    setup::{Piece, Store},
};
use crate::{
    control::{Control, Interrupted},
    machine::{Attachment, CacheSizes, Drives, SharedDevice, Tier, cached, config, partition, whole},
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
const LOOK: u64 = 1_000_000_000;

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

/// Runs a variant.
///
/// # Errors
/// A drive is too small; a request failed; an interruption.
pub(super) fn run(options: &Options, tables: &DriveTables, piece: &Piece, control: &Control) -> Result<Run> {
    control.check()?;
    let seed = seed_of(options.seed, piece.repetition);
    let (drives, device, tier) = device(options, tables, piece.setup.store, seed)?;
    let geometry = blockdev::BlockDevice::geometry(&*device);
    let data = Volume { blocks: geometry.blocks, block_bytes: geometry.block_size };
    let mut database =
        Innodb::new(model(options, piece, data, seed)).context("the database does not fit on the drive")?;
    if !piece.setup.cold {
        // Some 25 pages of a transaction; most of them are hot.
        let pages = options.pool / PAGE;
        database.warm(pages * 2, 1_000_000);
    }
    let mut layer = BlockLayer::new(drives.machine(), drives.path().host());
    let number = layer.add_device(device, false);
    layer.add_load(database, &[number]).context("the device takes less than a page")?;
    let began = layer.now();
    let end = Nanos(began.0 + piece.seconds * 1_000_000_000);
    let mut failed = None;
    let mut per_second = Vec::new();
    let mut last = Counts::default();
    while layer.now() < end && failed.is_none() {
        if control.is_cancelled() {
            return Err(Interrupted.into());
        }
        layer.run(Nanos(layer.now().0 + LOOK).min(end), |step| {
            if !step.status.is_success() {
                failed = Some(step.status);
            }
            false
        });
        let counts = layer.load(0).counts();
        per_second.push(counts.since(&last).transactions[0]);
        last = counts;
    }
    if let Some(status) = failed {
        anyhow::bail!("a request of the database failed: {status}");
    }
    let mut metrics = metrics(&last, layer.load(0), piece.seconds);
    if let Some(tier) = &tier {
        let status = tier.with(|tier| tier.core().status());
        let of = status.counters;
        let (hits, misses) = (of.read_hits + of.write_hits, of.read_misses + of.write_misses);
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        for (name, value) in [
            ("hit_percent", hits as f64 * 100.0 / (hits + misses).max(1) as f64),
            ("read_hit_percent", of.read_hits as f64 * 100.0 / (of.read_hits + of.read_misses).max(1) as f64),
            ("promoted_GB", (of.promotions * CHUNK) as f64 / 1e9),
            ("written_back_GB", (of.writebacks * CHUNK) as f64 / 1e9),
        ] {
            metrics.insert(name.into(), value);
        }
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
