//! Settings of a modelled store, and what is done with it.

use anyhow::Result;
use database_models::lsm::{Config, Placement};

use super::published::{DEFAULT_COMPACTION_NS, DEFAULT_PROFILE, DEFAULT_SCALE, KEYS};
use lab_report::limits::range;

/// How long keys are overwritten.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Overwrites {
    /// Until so many records of all keys were written, in thousandths.
    Keys(u64),
    /// For so many seconds.
    Seconds(f64),
}

/// What the store lies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Extents on a conventional namespace with 7 % of spare.
    Spare7,
    /// The same with 28 %.
    Spare28,
    /// Zones of so many dies, which files share so; 0: as the profile says.
    Zones(u32, Placement),
}

/// Settings of the store that differ from those of the published one. Sizes are those of a store on the whole drive: they shrink as the drive does. Names of RocksDB's options
/// stand beside each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes of a memtable (`write_buffer_size`).
    pub write_buffer: Option<u64>,
    /// Memtables at most, 2 to 64 (`max_write_buffer_number`).
    pub write_buffers: Option<u32>,
    /// Levels, 2 to 16 (`num_levels`).
    pub levels: Option<u32>,
    /// Bytes of the first level below 0 (`max_bytes_for_level_base`).
    pub level_base: Option<u64>,
    /// How much larger each further level is, 2 to 100 (`max_bytes_for_level_multiplier`).
    pub multiplier: Option<u32>,
    /// Whether targets follow from the size of the last level (`level_compaction_dynamic_level_bytes`).
    pub dynamic_levels: Option<bool>,
    /// Bytes of a table at most (`target_file_size_base`).
    pub table: Option<u64>,
    /// Tables in level 0 that begin a compaction, 1 to 100 (`level0_file_num_compaction_trigger`).
    pub trigger: Option<u32>,
    /// Compactions at the same time, 1 to 256 (`max_background_compactions`).
    pub compactions: Option<u32>,
    /// Bytes per second that flushes and compactions may write together; 0: no limit (`rate_limiter_bytes_per_sec`). It does not shrink: the drive's speed does not, either.
    pub rate_limit: Option<u64>,
    /// Bytes of the cache of blocks.
    pub cache: Option<u64>,
    /// Whether there is a log (`disable_wal`).
    pub log: Option<bool>,
    /// Whether tables have filters.
    pub filters: Option<bool>,
    /// Bytes of a key, of a value, and of a compressed value.
    pub record: Option<(u32, u32, u32)>,
}

impl Tuning {
    fn check(&self) -> Result<()> {
        const SIZES: (u64, u64) = (64 << 20, 1 << 40);
        range("write_buffer", self.write_buffer, SIZES.0, SIZES.1)?;
        range("write_buffers", self.write_buffers, 2, 64)?;
        range("levels", self.levels, 2, 16)?;
        range("level_base", self.level_base, SIZES.0, SIZES.1)?;
        range("multiplier", self.multiplier, 2, 100)?;
        range("table", self.table, SIZES.0, SIZES.1)?;
        range("trigger", self.trigger, 1, 100)?;
        range("compactions", self.compactions, 1, 256)?;
        range("cache", self.cache, 0, SIZES.1)?;
        if let Some((key, value, compressed)) = self.record {
            range("key", Some(key), 1, 1 << 16)?;
            range("value", Some(value), 1, 1 << 20)?;
            range("compressed", Some(compressed), 1, value)?;
        }
        Ok(())
    }

    /// Changes the model. `scaled` is a size of the whole drive, on this one.
    pub(super) fn apply(&self, config: &mut Config, scaled: impl Fn(u64) -> u64) {
        if let Some((key, value, compressed)) = self.record {
            let sizes = Config::db_bench(config.keys, key, value, compressed, config.seed);
            config.log_record = sizes.log_record;
            config.memory_record = sizes.memory_record;
            config.table_record = sizes.table_record;
        }
        let size = |from: Option<u64>, into: &mut u64| *into = from.map_or(*into, &scaled);
        size(self.write_buffer, &mut config.write_buffer);
        size(self.level_base, &mut config.level_base);
        size(self.table, &mut config.table);
        size(self.cache, &mut config.cache);
        let set = |from: Option<u32>, into: &mut u32| *into = from.unwrap_or(*into);
        set(self.write_buffers, &mut config.write_buffers);
        set(self.levels, &mut config.levels);
        set(self.multiplier, &mut config.multiplier);
        set(self.trigger, &mut config.trigger);
        set(self.compactions, &mut config.compactions);
        config.dynamic_levels = self.dynamic_levels.unwrap_or(config.dynamic_levels);
        config.rate_limit = self.rate_limit.unwrap_or(config.rate_limit);
        config.log = self.log.unwrap_or(config.log);
        config.filters = self.filters.unwrap_or(config.filters);
    }
}

/// Reads of random keys beside the writer, after the overwrites.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// Threads that read, 1 to 1,024.
    pub readers: u32,
    /// Bytes per second that the writer writes at most; 0: no limit.
    pub write_limit: u64,
    /// Measured seconds, up to 86,400. Half as long passes before.
    pub seconds: f64,
}

/// A modelled store on its drive, and what is done with it. First it is filled with all keys, in random order.
#[derive(Clone, Debug)]
pub struct Model {
    /// What it lies on.
    pub space: Space,
    /// Keys on the whole drive: 1,000,000 or more. They shrink as the drive does.
    pub keys: u64,
    /// The other settings.
    pub tuning: Tuning,
    /// The chips: a profile or a TOML file with zones.
    pub drive: String,
    /// The drive has this fraction of the capacity, 1 to 1,024; channels, dies and their speed stay.
    pub scale: u32,
    /// Nanoseconds of a processor for each KiB that a compaction reads, and a flush writes.
    pub compaction_ns: u64,
    /// How long keys are overwritten at random.
    pub overwrites: Overwrites,
    /// What is read afterwards.
    pub reads: Vec<Reads>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Model {
    pub(super) fn check(&self) -> Result<()> {
        self.tuning.check()?;
        range("keys", Some(self.keys), 1_000_000, 1 << 40)?;
        for reads in &self.reads {
            range("readers", Some(reads.readers), 1, 1024)?;
            range("seconds", Some(reads.seconds), 0.001, 86_400.0)?;
        }
        match self.overwrites {
            Overwrites::Keys(per_mille) => range("overwrites in thousandths", Some(per_mille), 1, 1_000_000),
            Overwrites::Seconds(seconds) => range("seconds", Some(seconds), 0.001, 86_400.0),
        }
    }

    /// Keys over the published ones.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(super) fn filled(&self) -> f64 {
        self.keys as f64 / KEYS as f64
    }
}

impl Default for Model {
    /// The published store on zones of the published drive, overwritten once.
    fn default() -> Self {
        Self {
            space: Space::Zones(0, Placement::Lifetime),
            keys: KEYS,
            tuning: Tuning::default(),
            drive: DEFAULT_PROFILE.into(),
            scale: DEFAULT_SCALE,
            compaction_ns: DEFAULT_COMPACTION_NS,
            overwrites: Overwrites::Keys(1000),
            reads: Vec::new(),
            seed: 1,
        }
    }
}
