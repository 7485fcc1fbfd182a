//! The modelled server: the settings in the model of [`database_models::innodb`], with the fitted values of the study.

use anyhow::{Context, Result};
use database_models::innodb::{Config, Doublewrite, Innodb, PAGE, Volume};
use hdrhistogram::Histogram;

use super::database::Database;
use crate::{
    database_model::{Done, Model},
    layouts::Arrangement,
    load::{Load, warehouses},
};
use lab_models::innodb::fitted;
use lab_report::control::Cancel;

/// The most pages of the pool: a larger one, its database and its log are made smaller together.
const FRAMES: u64 = 128 << 10;
/// Bytes of a namespace for one shard of the doublewrite buffer, with what its file system takes.
const SHARD: u64 = 120 * PAGE + (1 << 20);

/// How much smaller the server's memory, database and log are in the model.
pub fn divisor(database: &Database) -> u64 {
    (database.pool / PAGE).div_ceil(FRAMES).max(1)
}

/// Bytes of the namespace for the doublewrite buffer.
pub fn memory(database: &Database) -> u64 {
    u64::from(database.shards.max(1)).saturating_mul(SHARD).div_ceil(1 << 20) << 20
}

/// The model's parameters.
fn config(
    database: &Database,
    load: &Load,
    arrangement: Arrangement,
    volumes: [Volume; 2],
    seed: u64,
) -> Result<Config> {
    let smaller = divisor(database);
    let [data, copies] = volumes;
    let fitted = fitted::config(load.connections, data, seed);
    let scan = u64::from(database.scan_depth) / smaller;
    let mut config = Config {
        filled: 1000,
        pool_pages: u32::try_from(database.pool / smaller / PAGE).unwrap_or(u32::MAX),
        instances: database.instances,
        page_cleaners: database.page_cleaners,
        scan_depth: u32::try_from(scan.max(256)).unwrap_or(u32::MAX),
        io_capacity: database.io_capacity,
        io_capacity_max: database.io_capacity_max,
        dirty_low: database.dirty_low,
        dirty_high: database.dirty_high,
        redo_capacity: (database.redo / smaller).max(4 << 20),
        binlog_change: if database.binlog { fitted.binlog_change } else { 0 },
        journal_times: database.journal_times,
        cores: load.processors,
        flush_at_commit: database.flush_at_commit,
        doublewrite: arrangement.twice.then_some(Doublewrite {
            namespace: u16::from(arrangement.memory || has_copies(database, arrangement)),
            shards: database.shards,
            command: 124 << 10,
        }),
        copies: arrangement.memory.then_some(copies),
        logs: arrangement.logs.then_some(copies),
        ..fitted
    };
    config.warehouses = warehouses(load.dataset / smaller / PAGE, |warehouses| {
        let small = Config { warehouses, pool_pages: 1024, ..config.clone() };
        Innodb::new(small).map(|model| model.data_pages()).context("the drive has no room for the logs")
    })?;
    Ok(config)
}

/// Whether the doublewrite buffer is beside the logs: only in files of its own it can be there.
fn has_copies(database: &Database, arrangement: Arrangement) -> bool {
    arrangement.logs && database.server.has_doublewrite_files()
}

/// Bytes of the logs on their namespace, from and how many.
///
/// # Errors
/// The namespaces are too small.
pub fn streams(
    database: &Database,
    load: &Load,
    arrangement: Arrangement,
    volumes: [Volume; 2],
) -> Result<Vec<(u64, u64)>> {
    let config = config(database, load, arrangement, volumes, 0)?;
    let areas = config.areas().context("the drive has no room for the logs and the doublewrite buffer")?;
    let binlog = (config.binlog_change > 0).then_some(areas.binlog);
    let journal = areas.second_journal.filter(|_| binlog.is_some() || config.journal_times);
    let all = [Some(areas.redo), binlog, journal, areas.copies];
    let on_it = all.into_iter().flatten().filter(|area| area.namespace == 1);
    Ok(on_it.map(|area| (area.start, area.bytes)).collect())
}

/// The model with its pool filled.
///
/// # Errors
/// The namespaces are too small; an interruption.
pub fn new(
    database: &Database,
    load: &Load,
    arrangement: Arrangement,
    volumes: [Volume; 2],
    seed: u64,
    cancel: &Cancel,
) -> Result<Box<dyn Model>> {
    let config = config(database, load, arrangement, volumes, seed)?;
    let pages = u64::from(config.pool_pages);
    let mut model =
        Innodb::new(config).context("the drive has no room for the logs and the doublewrite buffer")?;
    model.warm(pages / fitted::PAGES_PER_TRANSACTION * 4, fitted::interval(load.connections), || {
        !cancel.is_cancelled()
    });
    cancel.check()?;
    Ok(Box::new(model))
}

impl Model for Innodb {
    fn done(&self) -> Done {
        let counts = self.counts();
        Done { transactions: counts.transactions.iter().sum(), failed: counts.failed, cycles: None }
    }

    fn commits(&self) -> &Histogram<u64> {
        self.commits()
    }

    fn forget_latencies(&mut self) {
        self.forget_latencies();
    }

    fn stop(&mut self) {
        self.stop();
    }
}
