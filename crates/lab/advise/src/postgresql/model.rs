//! The modelled server: the settings in the model of [`database_models::postgresql`].

use anyhow::{Context, Result};
use database_models::{
    innodb::Volume,
    postgresql::{Config, PAGE, Postgresql},
};
use hdrhistogram::Histogram;

use super::database::Database;
use crate::{
    database_model::{Done, Model},
    layouts::Arrangement,
    load::{Load, warehouses},
};
use lab_report::control::Cancel;

/// The most pages of the pool. A larger one, its database, its log and its time between checkpoints are made smaller together: each page
/// then changes as often between two checkpoints as in the whole, and a simulation of seconds has whole checkpoints.
const FRAMES: u64 = 32 << 10;
/// The log has this share of what holds data at most, as the model has it.
const LOG_SHARE: u64 = 8;
/// Pages that a transaction uses which were not used lately, about.
const PAGES_PER_TRANSACTION: u64 = 40;
/// The share of a page that is left by `wal_compression`: nobody knows that of other data. Assumed, and the report says so.
const COMPRESSED_SHARE: (u32, u32) = (1, 2);

/// How much smaller the server's memory, database, log and time between checkpoints are in the model.
pub fn divisor(database: &Database) -> u64 {
    (database.shared_buffers / PAGE).div_ceil(FRAMES).max(1)
}

/// Bytes of log that the model has room for.
fn log(database: &Database) -> u64 {
    (database.max_wal_size / divisor(database)).max(4 << 20)
}

/// Bytes of the namespace for the log.
pub fn memory(database: &Database) -> u64 {
    log(database).next_multiple_of(1 << 20)
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
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
    let [data, memory] = volumes;
    let usual = Config::new(load.connections, data, seed);
    let image = match database.compressed {
        true => usual.image / COMPRESSED_SHARE.1 * COMPRESSED_SHARE.0,
        false => usual.image,
    };
    let mut config = Config {
        pool_pages: narrow(database.shared_buffers / smaller / PAGE),
        full_page_writes: arrangement.twice,
        image,
        checkpoint_timeout: (database.checkpoint_timeout / smaller).max(1_000_000_000),
        max_wal_size: log(database),
        completion_target: database.completion_target,
        flush_after: database.flush_after,
        wal_buffers: database.wal_buffers,
        wal_writer_delay: database.wal_writer_delay,
        new_segment: database.new_segment,
        flush_at_commit: database.flush_at_commit,
        commit_delay: database.commit_delay,
        commit_siblings: database.commit_siblings,
        bgwriter_delay: database.bgwriter_delay,
        bgwriter_pages: database.bgwriter_pages,
        bgwriter_multiplier: database.bgwriter_multiplier,
        cores: load.processors,
        wal: match (arrangement.memory, arrangement.logs) {
            (false, false) => None,
            (true, _) => Some(memory),
            // As much as beside the data.
            (false, true) => Some(Volume { blocks: memory.blocks.min(data.blocks / LOG_SHARE), ..memory }),
        },
        ..usual
    };
    config.warehouses = warehouses(load.dataset / smaller / PAGE, |warehouses| {
        let small = Config { warehouses, pool_pages: 256, ..config.clone() };
        Postgresql::new(small).map(|model| model.data_pages()).context("the drive has no room for the log")
    })?;
    Ok(config)
}

/// Bytes of the log on its namespace, from and how many: as many as it has beside the data.
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
    let model = Postgresql::new(config).context("the drive has no room for the log and the data")?;
    Ok(vec![(model.log().start, model.log().bytes)])
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
    let mut model = Postgresql::new(config).context("the drive has no room for the log and the data")?;
    model.warm(pages / PAGES_PER_TRANSACTION * 4, || !cancel.is_cancelled());
    cancel.check()?;
    Ok(Box::new(model))
}

impl Model for Postgresql {
    fn done(&self) -> Done {
        let counts = self.counts();
        Done {
            transactions: counts.transactions.iter().sum(),
            failed: counts.failed,
            cycles: Some(counts.own.checkpoints),
        }
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
