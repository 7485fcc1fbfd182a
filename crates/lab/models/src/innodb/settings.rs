//! Settings of a modelled server, and how long it runs on its drive.

use anyhow::Result;
use database_models::innodb::Config;

use super::variant::Variant;
use lab_report::limits::range;

/// The published drive with short blocks: all of its speed, a hundredth of its capacity.
pub const DEFAULT_PROFILE: &str = "pblaze5-910-short";

/// Seconds for which the drive is loaded before anything is measured.
pub const AGING_SECONDS: u64 = 40;

/// Settings of the modelled server that differ from those of the published one. Names of MySQL's variables stand beside each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Instances of the buffer pool, 1 to 64 (`innodb_buffer_pool_instances`).
    pub instances: Option<u32>,
    /// Instances whose dirty pages are flushed at the same time, 1 to 64 (`innodb_page_cleaners`).
    pub page_cleaners: Option<u32>,
    /// Free pages that each instance keeps ready, 100 to 1,000,000 (`innodb_lru_scan_depth`).
    pub scan_depth: Option<u32>,
    /// Pages that adaptive flushing writes in a second at a pressure of 100 %, 100 to 10,000,000 (`innodb_io_capacity`).
    pub io_capacity: Option<u32>,
    /// The most that it writes in a second (`innodb_io_capacity_max`).
    pub io_capacity_max: Option<u32>,
    /// Percentage of dirty pages at which it begins, 0 to 99 (`innodb_max_dirty_pages_pct_lwm`).
    pub dirty_low: Option<u32>,
    /// Percentage of dirty pages that it aims to stay below, 1 to 99 (`innodb_max_dirty_pages_pct`).
    pub dirty_high: Option<u32>,
    /// Bytes of the redo log, 8 MiB to 1 TiB (`innodb_redo_log_capacity`).
    pub redo_capacity: Option<u64>,
    /// Whether a commit waits until the log has it (`innodb_flush_log_at_trx_commit=1`).
    pub flush_at_commit: Option<bool>,
    /// Whether there is a binary log (`log_bin`).
    pub binlog: Option<bool>,
    /// Shards of the doublewrite buffer, 1 to 256 (`innodb_doublewrite_files`).
    pub doublewrite_shards: Option<u32>,
    /// Processors of the server, 1 to 1,024.
    pub processors: Option<u32>,
}

impl Tuning {
    pub(super) fn check(&self) -> Result<()> {
        range("instances", self.instances, 1, 64)?;
        range("page_cleaners", self.page_cleaners, 1, 64)?;
        range("scan_depth", self.scan_depth, 100, 1_000_000)?;
        range("io_capacity", self.io_capacity, 100, 10_000_000)?;
        range("io_capacity_max", self.io_capacity_max, 100, 10_000_000)?;
        range("dirty_low", self.dirty_low, 0, 99)?;
        range("dirty_high", self.dirty_high, 1, 99)?;
        range("redo_capacity", self.redo_capacity, 8 << 20, 1 << 40)?;
        range("doublewrite_shards", self.doublewrite_shards, 1, 256)?;
        range("processors", self.processors, 1, 1024)
    }

    /// Changes the model.
    pub(super) fn apply(&self, config: &mut Config) {
        let set = |from: Option<u32>, into: &mut u32| *into = from.unwrap_or(*into);
        set(self.instances, &mut config.instances);
        set(self.page_cleaners, &mut config.page_cleaners);
        set(self.scan_depth, &mut config.scan_depth);
        set(self.io_capacity, &mut config.io_capacity);
        set(self.io_capacity_max, &mut config.io_capacity_max);
        set(self.dirty_low, &mut config.dirty_low);
        set(self.dirty_high, &mut config.dirty_high);
        set(self.processors, &mut config.cores);
        config.redo_capacity = self.redo_capacity.unwrap_or(config.redo_capacity);
        config.flush_at_commit = self.flush_at_commit.unwrap_or(config.flush_at_commit);
        if self.binlog == Some(false) {
            config.binlog_change = 0;
        }
        if let (Some(shards), Some(doublewrite)) = (self.doublewrite_shards, &mut config.doublewrite) {
            doublewrite.shards = shards;
        }
    }
}

/// A modelled server on its drive, and how long it runs.
#[derive(Clone, Debug)]
pub struct Model {
    /// Where the doublewrite buffer is.
    pub variant: Variant,
    /// Connections without time to think, 1 to 1,000.
    pub connections: u32,
    /// TPC-C warehouses, about 107 MB each, 1 to 100,000. A database that is larger than the drive is folded onto it.
    pub warehouses: u32,
    /// Bytes of the buffer pool, 8 MiB to 1 TiB.
    pub buffer_pool: u64,
    /// The other settings.
    pub tuning: Tuning,
    /// The drive: a profile or a TOML file.
    pub drive: String,
    /// Seconds under load before anything is measured, so that garbage collection is in its state: 1 to 86,400.
    pub aging: u64,
    /// Seconds before a window, 0 to 86,400.
    pub warmup: u64,
    /// Seconds of a window, 1 to 86,400. One that has not settled is followed by another, up to four; the last counts.
    pub seconds: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// A modelled server under several numbers of connections, one after the other.
#[derive(Clone, Debug)]
pub struct ServerLoad {
    /// Numbers of connections, 1 to 1,000 each.
    pub connections: Vec<u32>,
    /// TPC-C warehouses, 1 to 100,000.
    pub warehouses: u32,
    /// Bytes of the buffer pool.
    pub buffer_pool: u64,
    /// Other settings of the server.
    pub tuning: Tuning,
    /// The name of the drive.
    pub drive: String,
    /// Seconds of load before anything is measured.
    pub aging: u64,
    /// Seconds before a window, 0 to 86,400.
    pub warmup: u64,
    /// Seconds of a window, 1 to 86,400.
    pub seconds: u64,
    /// Windows in which a point may come to rest. The first that is settled counts, else the last.
    pub windows: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// The parameters are those of the live study, and not the published ones.
    pub like_live: bool,
}

/// Windows in which a point may come to rest, if no quick look is wanted.
pub const WINDOWS: u64 = 4;

impl ServerLoad {
    /// # Errors
    /// A setting is outside of its range.
    pub fn check(&self) -> Result<()> {
        let range = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                lab_report::misuse!("--{name} is {value}: {low} to {high} are possible")
            }
        };
        for &connections in &self.connections {
            range("connections", connections.into(), 1, 1_000)?;
        }
        range("warehouses", self.warehouses.into(), 1, 100_000)?;
        range("seconds", self.seconds, 1, 86_400)?;
        range("warmup", self.warmup, 0, 86_400)?;
        range("buffer-pool", self.buffer_pool >> 20, 8, 1 << 20)
    }
}

impl Default for Model {
    /// The published server on the published drive, with its doublewrite buffer beside the data, and the study's times.
    fn default() -> Self {
        Self {
            variant: Variant::Nand,
            connections: 64,
            warehouses: 28_000,
            buffer_pool: 16 << 30,
            tuning: Tuning::default(),
            drive: DEFAULT_PROFILE.into(),
            aging: AGING_SECONDS,
            warmup: 60,
            seconds: 60,
            seed: 1,
        }
    }
}
